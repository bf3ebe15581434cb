//! Transactions on their way in, and what the server says about them.

use crate::world::{World, account, tgrid};
use std::time::{Duration, Instant};
use tg_api::{
    Client, ClientError,
    rpc::{SubmitParams, Submitted, Wait, code},
    text::Hex,
    view::StatusWord,
};
use tg_types::tx::PROOF_TX_BYTES_MAX;
use tg_types::{Encode as _, Lane, Nonce, SecretKey, Signature, TxId};

fn next_nonce(world: &World, client: &mut Client) -> Nonce {
    client.nonce(world.rich_account(), Lane::FIRST).expect("nonce")
}

/// Pays one TGRID and gives the transaction.
pub(crate) fn pay(world: &World, to: u8) -> TxId {
    let mut client = world.client();
    let nonce = next_nonce(world, &mut client);
    let tx = world.transfer(account(to), tgrid(1), nonce);
    let answer = client.submit(&[tx], Wait::Final).expect("submitted");
    match &answer.results[..] {
        [Submitted::Final { tx, .. }] => tx.0,
        other => panic!("not final: {other:?}"),
    }
}

pub(crate) fn transfer_is_final_and_shown(world: &World) {
    let mut client = world.client();
    let (to, nonce) = (account(200), next_nonce(world, &mut client));
    let tx = world.transfer(to, tgrid(5), nonce);
    let started = Instant::now();
    let answer = client.submit(std::slice::from_ref(&tx), Wait::Final).expect("submitted");
    eprintln!("final after {:?}", started.elapsed());
    let [Submitted::Final { tx: id, height, receipt: Some(receipt), .. }] = &answer.results[..]
    else {
        panic!("not final: {answer:?}");
    };
    assert_eq!(id.0, tx.id(&world.genesis.domain()));
    assert_eq!((receipt.status, receipt.fee.0), (StatusWord::Applied, tx.body.fee));
    assert_eq!(receipt.events.len(), 1);
    assert_eq!(client.account(to).expect("account").account.balance.0, tgrid(5));
    assert_eq!(next_nonce(world, &mut client), nonce.next().expect("small"));
    let block = client.block(Some(height.0)).expect("block");
    assert!(block.txs.iter().any(|shown| shown.tx == *id && shown.action == "transfer"));

    let failing = world.transfer(world.rich_account(), tgrid(1), next_nonce(world, &mut client));
    let answer = client.submit(&[failing], Wait::Final).expect("submitted");
    let [Submitted::Final { receipt: Some(receipt), .. }] = &answer.results[..] else {
        panic!("not final: {answer:?}");
    };
    assert_eq!(
        (receipt.status, receipt.code.to_string()),
        (StatusWord::Failed, "self_transfer".into())
    );
}

pub(crate) fn transaction_sent_again_gives_its_receipt(world: &World) {
    let mut client = world.client();
    let tx = world.transfer(account(201), tgrid(1), next_nonce(world, &mut client));
    let twice = [tx.clone(), tx.clone()];
    let answer = client.submit(&twice, Wait::None).expect("submitted");
    assert!(answer.results.iter().all(|result| matches!(result, Submitted::Accepted { .. })));
    for _ in 0..2 {
        let answer = client.submit(&twice, Wait::Final).expect("submitted");
        let are_final = |result: &Submitted| matches!(result, Submitted::Final { .. });
        assert!(answer.results.iter().all(are_final), "{answer:?}");
    }
    assert_eq!(client.account(account(201)).expect("account").account.balance.0, tgrid(1));
}

pub(crate) fn refused_transactions_say_why(world: &World) {
    let mut client = world.client();
    let nonce = next_nonce(world, &mut client);
    let good = world.transfer(account(202), tgrid(1), nonce);
    let mut forged = good.clone();
    forged.signature = Signature::new([7; 64]);
    let poor = {
        let mut body = good.body.clone();
        let key = SecretKey::from_seed([222; 32]);
        body.sender = key.public().into();
        body.sign(&key, &world.genesis.domain())
    };
    let mut cheap = good.body.clone();
    cheap.fee = tg_types::Amount::new(1).expect("small");
    let cheap = cheap.sign(&world.rich, &world.genesis.domain());
    let old = world.transfer(account(202), tgrid(2), Nonce::ZERO);
    let far = world.transfer(account(202), tgrid(1), Nonce::new(nonce.get() + 1_000_000));
    let cases = [
        (vec![1, 2, 3], "malformed"),
        (vec![0; PROOF_TX_BYTES_MAX + 1], "tx_too_large"),
        (forged.to_bytes(), "signature_invalid"),
        (poor.to_bytes(), "fee_not_covered"),
        (cheap.to_bytes(), "fee_too_low"),
        (old.to_bytes(), "nonce_too_low"),
        (far.to_bytes(), "nonce_too_high"),
    ];
    let txs = cases.iter().map(|(bytes, _)| Hex(bytes.clone())).collect();
    let params = SubmitParams { txs, wait: Wait::Final, ..SubmitParams::default() };
    let answer = client.submit_with(&params).expect("submitted");
    for ((_, expected), result) in cases.iter().zip(&answer.results) {
        let Submitted::Refused { code, sentence, .. } = result else { panic!("{result:?}") };
        assert_eq!(code, expected);
        assert!(sentence.ends_with('.'), "{sentence}");
    }
    assert_eq!(next_nonce(world, &mut client), nonce, "nothing was taken");
}

pub(crate) fn waiting_ends_with_its_time(world: &World) {
    let mut client = world.client();
    let nonce = Nonce::new(next_nonce(world, &mut client).get() + 1);
    let gap = world.transfer(account(203), tgrid(1), nonce);
    let params = SubmitParams {
        txs: vec![Hex(gap.to_bytes())],
        wait: Wait::Final,
        timeout_ms: Some(150),
        brief: true,
    };
    let answer = client.submit_with(&params).expect("submitted");
    let [Submitted::Pending { code, sentence, .. }] = &answer.results[..] else {
        panic!("{answer:?}")
    };
    assert_eq!(code, "timeout");
    assert!(sentence.contains("150 ms"), "{sentence}");
    // Filling the gap makes both final.
    pay(world, 203);
    let params = SubmitParams { timeout_ms: None, ..params };
    let answer = client.submit_with(&params).expect("submitted");
    assert!(matches!(&answer.results[..], [Submitted::Final { receipt: None, .. }]), "{answer:?}");
}

pub(crate) fn many_clients_at_once_are_served(world: &World) {
    const CLIENTS: u64 = 32;
    const EACH: u64 = 8;
    let mut client = world.client();
    let (first, height) =
        (next_nonce(world, &mut client).get(), client.status().expect("status").height.0);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let mut client = client.clone();
            scope.spawn(move || {
                for step in 0..EACH {
                    let nonce = Nonce::new(first + number + step * CLIENTS);
                    let tx = world.plan(account(204), tgrid(1), nonce, height);
                    let answer = client.submit(&[tx], Wait::Final).expect("submitted");
                    assert!(matches!(answer.results[..], [Submitted::Final { .. }]), "{answer:?}");
                }
            });
        }
    });
    eprintln!("{} single submissions in {:?}", CLIENTS * EACH, started.elapsed());
    let balance = client.account(account(204)).expect("account").account.balance.0;
    assert_eq!(balance, tgrid(CLIENTS * EACH));
}

pub(crate) fn faucet_pays_within_its_limits(world: &World) {
    let mut client = world.client();
    let poor = account(205);
    let answer = client.faucet(poor, None).expect("paid");
    assert!(matches!(answer.result, Submitted::Final { .. }), "{answer:?}");
    assert_eq!(client.account(poor).expect("account").account.balance.0, answer.amount.0);
    client.faucet(poor, Some(tgrid(3))).expect("paid");
    let refused = |outcome: Result<_, ClientError>| match outcome {
        Err(ClientError::Rpc(error)) => error,
        other => panic!("{other:?}"),
    };
    let error = refused(client.faucet(poor, Some(tgrid(1_000_000))));
    assert_eq!(error.code, code::PARAMS);
    let error = (0..20).find_map(|_| client.faucet(poor, Some(tgrid(1))).err());
    let error = refused(Err(error.expect("the faucet has a limit")));
    assert_eq!((error.code, error.data.code.as_str()), (code::REFUSED, "faucet_limit"));
    client.faucet(account(206), Some(tgrid(1))).expect("others are still paid");
}

/// Goal: the server ends at once even while callers wait. Method: a transaction that can not become
/// final, and a listener, both under way when the server is stopped.
pub(crate) fn stopping_ends_what_waits(world: &mut World) {
    let mut client = world.client();
    let nonce = Nonce::new(next_nonce(world, &mut client).get() + 1);
    let gap = world.transfer(account(207), tgrid(1), nonce);
    let mut stream = client.events(None).expect("a stream");
    std::thread::scope(|scope| {
        let mut waiting = client.clone();
        let waiter = scope.spawn(move || waiting.submit(&[gap], Wait::Final));
        let listener = scope.spawn(move || while let Ok(Some(_)) = stream.next_message() {});
        std::thread::sleep(Duration::from_millis(200));
        let started = Instant::now();
        world.api.stop().expect("no failure before");
        let took = started.elapsed();
        assert!(took < Duration::from_secs(2), "stopping took {took:?}");
        match waiter.join().expect("no panic") {
            Err(ClientError::Rpc(error)) => assert_eq!(error.code, code::STOPPING),
            other => panic!("{other:?}"),
        }
        listener.join().expect("the stream ends");
    });
    assert!(client.status().is_err());
}
