//! A real network of four nodes over loopback: transfers become final, proofs verify, nodes
//! restart.

mod network;

use network::{Network, transfer, unawaited_proof};
use std::time::Duration;
use tg_chain::{Outcome, light::LightClient};
use tg_ledger::keys;
use tg_types::{ids::AccountId, key::SecretKey, reason::Reason, receipt::Status, tick::Height};

/// Goal: the whole road of a transaction, and that strangers can check its end. Method: four nodes
/// in this process, one transfer, then every kind of proof, then a restart of one node.
#[test]
fn transfer_is_final_provable_and_survives_restart() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("runs");
    let mut network = Network::start();
    let receiver = AccountId::from(SecretKey::from_seed([200; 32]).public());
    runtime.block_on(async {
        let chain = network.chain(0);
        network.first_block(&chain).await;
        let tx = transfer(&chain, &network.rich, receiver, 5, 0);
        let id = tx.id(&chain.domain());
        let outcome = chain.wait(id).expect("few wait");
        let checked = chain.check(vec![tx]).pop().expect("one").expect("good signature");
        let offered = chain.offer(vec![checked]).await.expect("runs");
        assert_eq!(offered, vec![Ok(id)]);
        let outcome = tokio::time::timeout(Duration::from_secs(20), outcome).await;
        let Outcome::Final { height, receipt } = outcome.expect("in time").expect("told") else {
            panic!("the transfer was dropped");
        };
        assert_eq!(receipt.status, Status::Applied);

        // Nobody waits for this, whatever is offered for it: it does not even wait in the pool.
        let tx = unawaited_proof(&chain, &network.rich, 1);
        let checked = chain.check(vec![tx]).pop().expect("one").expect("good signature");
        let offered = chain.offer(vec![checked]).await.expect("runs");
        assert_eq!(offered, vec![Err(Reason::ResultNotAwaited)]);

        let client = LightClient::of(chain.genesis()).expect("usable group key");
        let certificate = network.certificate(&chain, height).await;
        let proof = chain.find_receipt(&id).await.expect("runs").expect("known");
        client.check_receipt(&proof, &certificate).expect("receipt verifies");
        let mut forged = proof.clone();
        forged.receipt.index += 1;
        assert!(client.check_receipt(&forged, &certificate).is_err());

        for account in [receiver, AccountId::from(SecretKey::from_seed([201; 32]).public())] {
            let proof = chain.prove(keys::account(&account)).await.expect("runs").expect("final");
            let certificate = network.certificate(&chain, proof.header.height).await;
            client.check_entry(&proof, &certificate).expect("entry verifies");
            assert_eq!(proof.entry.value.is_some(), account == receiver);
            let other = network.certificate(&chain, Height::new(height.get() - 1)).await;
            assert!(client.check_entry(&proof, &other).is_err());
        }
    });
    let before = runtime.block_on(network.chain(1).status()).expect("runs").tip.expect("final");
    network.restart(1);
    runtime.block_on(async {
        let chain = network.chain(1);
        for _ in 0..200 {
            let tip = chain.status().await.expect("runs").tip;
            if tip.is_some_and(|(header, _)| header.height > before.0.height) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the restarted node does not go on");
    });
    network.stop();
}
