//! The door from a signed to a checked transaction.

use crate::arb::Arb;
use tg_types::key::KeyPoints;
use tg_types::tx::check_batch;
use tg_types::{
    AccountId, Amount, CheckedTx, Domain, Encode, GenesisHash, Nonce, Reason, SecretKey, SignedTx,
    TxBody, TxError, TxId,
};

fn domain(chain: &str, genesis: u8) -> Domain {
    Domain {
        chain: chain.parse().expect("test chains have valid names"),
        genesis: GenesisHash::new([genesis; 32]),
    }
}

fn secrets() -> Vec<SecretKey> {
    (0..4).map(|seed| SecretKey::from_seed([seed; 32])).collect()
}

/// Goal: of every transaction the batch says what its signature deserves, in order, and names it.
/// Method: arbitrary bodies, some with a field changed after signing or a signature by another key.
#[test]
fn prop_batch_takes_exactly_what_its_sender_signed() {
    let (here, secrets) = (domain("here", 1), secrets());
    arbtest::arbtest(|u| {
        let mut txs = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..u.int_in_range(0..=20)? {
            let mut body = TxBody::arb(u)?;
            let secret = u.choose(&secrets)?;
            body.sender = secret.public().into();
            let mut tx = body.sign(secret, &here);
            match u.int_in_range(0..=11)? {
                0 => tx.body.nonce = Nonce::new(tx.body.nonce.get() ^ 1),
                1 => tx.body.fee = Amount::constant(tx.body.fee.units() ^ 1),
                2 => tx = tx.body.sign(secret, &domain("there", 1)),
                3 => tx = tx.body.sign(secret, &domain("here", 2)),
                4 => tx = tx.body.sign(&SecretKey::from_seed([9; 32]), &here),
                5 => tx.body.sender = SecretKey::from_seed([9; 32]).public().into(),
                6 => tx.body.sender = AccountId::arb(u)?,
                _ => {
                    expected.push(true);
                    txs.push(tx);
                    continue;
                }
            }
            expected.push(false);
            txs.push(tx);
        }
        let answers = check_batch(&here, txs.clone(), u.arbitrary()?, &mut KeyPoints::default());
        assert_eq!(answers.len(), txs.len());
        for ((tx, answer), is_valid) in txs.into_iter().zip(answers).zip(expected) {
            let id = tx.id(&here);
            let finalised = CheckedTx::from_finalised(tx.clone(), &here);
            assert_eq!(usize::try_from(finalised.size_bytes()), Ok(tx.to_bytes().len()));
            assert_eq!((finalised.id(), finalised.body()), (id, &tx.body));
            let wanted = if is_valid { Ok(finalised) } else { Err(TxError::Signature { id }) };
            assert_eq!(answer, wanted);
        }
        Ok(())
    });
}

fn one(domain: &Domain) -> SignedTx {
    let secret = SecretKey::from_seed([1; 32]);
    let body = TxBody {
        sender: secret.public().into(),
        lane: tg_types::Lane::FIRST,
        nonce: Nonce::ZERO,
        expires: tg_types::Height::new(10),
        fee: Amount::constant(5),
        idempotency: None,
        action: tg_types::Action::Stake { amount: Amount::constant(7) },
    };
    body.sign(&secret, domain)
}

#[test]
fn id_differs_between_networks_and_not_with_the_signature() {
    let here = domain("here", 1);
    let tx = one(&here);
    let mut other = tx.clone();
    other.signature = tg_types::Signature::new([0; 64]);
    assert_eq!(tx.id(&here), other.id(&here));
    assert_eq!(tx.id(&here), tx.body.id(&here));
    let ids: Vec<TxId> = [here, domain("there", 1), domain("here", 2)].map(|d| tx.id(&d)).to_vec();
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
}

#[test]
fn transaction_of_another_network_is_refused_with_its_reason() {
    let tx = one(&domain("here", 1));
    for elsewhere in [domain("there", 1), domain("here", 2)] {
        let twice = vec![tx.clone(), tx.clone()];
        let answers = check_batch(&elsewhere, twice, [0; 32], &mut KeyPoints::default());
        for answer in answers {
            assert_eq!(answer.map_err(|error| error.reason()), Err(Reason::SignatureInvalid));
        }
    }
}

#[test]
fn batch_larger_than_one_equation_finds_the_only_bad_one() {
    let here = domain("here", 1);
    let mut txs = vec![one(&here); 1_030];
    txs[1_027].body.fee = Amount::ZERO;
    let answers = check_batch(&here, txs, [0; 32], &mut KeyPoints::default());
    let bad: Vec<usize> = (0..answers.len()).filter(|place| answers[*place].is_err()).collect();
    assert_eq!((answers.len(), bad), (1_030, vec![1_027]));
}
