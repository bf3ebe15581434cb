//! Decoding reserves at most ten times the input, whatever the input claims.

use crate::arb::Arb;
use crate::counting::most_held;
use tg_types::genesis::Genesis;
use tg_types::merkle::{Peaks, Proof};
use tg_types::tx::{Action, NodeSet, OpenedResult, SignedTx};
use tg_types::{
    BlockReceipt, Decode, Encode, Header, JobSpec, List, NodeDescriptor, Receipt, Voucher,
};

/// Lengths a forger would write: near the bounds of the types below, and far beyond.
const HUGE: [&[u8]; 4] = [&[100], &[0xff, 1], &[0xff, 0x7f], &[0xff, 0xff, 0x07]];

/// Goal: no input makes a decoder reserve more than ten times its size. Method: valid bytes, each
/// byte replaced by the start of a huge length, and the input cut behind it.
fn check<T: Arb + Encode + Decode>() {
    arbtest::arbtest(|u| {
        let bytes = T::arb(u)?.to_bytes();
        let mut inputs = vec![bytes.clone(), u.arbitrary()?];
        for _ in 0..8 {
            let at = u.choose_index(bytes.len())?;
            let huge = *u.choose(&HUGE)?;
            let mut input = bytes.clone();
            input.splice(at..=at, huge.iter().copied());
            inputs.push(input.clone());
            input.truncate(at + huge.len());
            inputs.push(input);
        }
        for input in inputs {
            let (_read, held) = most_held(|| T::from_bytes(&input));
            assert!(held <= 10 * input.len(), "{held} bytes held for {} of input", input.len());
        }
        Ok(())
    });
}

#[test]
fn counting_allocator_counts() {
    let bytes = NodeSet::new(vec![tg_types::NodeId::new([1; 32])]).expect("one node").to_bytes();
    let (read, held) = most_held(|| NodeSet::from_bytes(&bytes));
    assert!(read.is_ok());
    assert_eq!(held, 32);
}

#[test]
fn prop_transaction_reserves_at_most_ten_times_its_input() {
    check::<SignedTx>();
    check::<Action>();
    check::<NodeSet>();
    check::<NodeDescriptor>();
    check::<JobSpec>();
    check::<List<JobSpec, 1, 32>>();
    check::<List<OpenedResult, 1, 64>>();
    check::<Voucher>();
}

#[test]
fn prop_receipt_reserves_at_most_ten_times_its_input() {
    check::<Receipt>();
    check::<BlockReceipt>();
}

#[test]
fn prop_genesis_reserves_at_most_ten_times_its_input() {
    check::<Genesis>();
}

#[test]
fn prop_others_reserve_at_most_ten_times_their_input() {
    check::<Header>();
    check::<Proof>();
    check::<Peaks>();
    check::<List<Option<u32>, 0, 300>>();
}
