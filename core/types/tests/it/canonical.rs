//! The one rule of the codec, held against every type that can be decoded: bytes become a value
//! that gives the same bytes, or they are refused.

use crate::arb::Arb;
use arbtest::arbitrary::{Result, Unstructured};
use std::fmt::Debug;
use tg_types::genesis::{Genesis, NetworkKind, ValidatorSeat};
use tg_types::merkle::{Peaks, Proof};
use tg_types::tx::{
    Action, DisputeAnswer, DisputeEvidence, Evidence, Lane, Memo, NodeSet, Nonce, OpenedCheck,
    OpenedResult, ProgramPiece, Sealed, SignedTx, TxBody,
};
use tg_types::{
    AccountId, Address, Amount, BlockReceipt, Bps, ChainId, CheckAnswer, Decode, DecodeError,
    Device, DeviceKind, DurationMs, Encode, Event, Features, GenesisHash, Hash32, Header,
    HeaderDigest, Height, IdempotencyId, JobId, JobParams, JobSpec, JobStatus, Kind, List, Message,
    Name, Needs, NodeDescriptor, NodeId, Noun, PackageRef, Params, PublicKey, Reason, Receipt,
    ResultKey, RunFailure, RunResult, SeatSignature, SeatSignatures, Signature, StateKey, Status,
    Tick, Tier, TxId, Voucher, Work,
};

/// Goal: `T` has one byte form and refuses all others. Method: a value's bytes are read back, cut
/// at each byte, followed by one more, damaged in the ways a forger would try, and replaced by
/// noise.
fn check<T: Encode + Decode + PartialEq + Debug + Arb>() {
    arbtest::arbtest(|u| {
        let value = T::arb(u)?;
        let bytes = value.to_bytes();
        assert!(bytes.len() >= T::BYTES_MIN);
        assert_eq!(T::from_bytes(&bytes).as_ref(), Ok(&value));
        for end in 0..bytes.len() {
            let cut = T::from_bytes(&bytes[..end]);
            assert!(matches!(cut, Err(DecodeError::Truncated { .. })), "cut at {end}: {cut:?}");
        }
        let mut longer = bytes.clone();
        longer.push(u.arbitrary()?);
        let trailing = Err(DecodeError::Trailing { at: bytes.len(), left: 1 });
        assert_eq!(T::from_bytes(&longer), trailing);
        for _ in 0..8 {
            check_same_or_refused::<T>(&damaged(u, &bytes)?);
        }
        check_same_or_refused::<T>(&u.arbitrary::<Vec<u8>>()?);
        Ok(())
    });
}

fn check_same_or_refused<T: Encode + Decode>(bytes: &[u8]) {
    if let Ok(value) = T::from_bytes(bytes) {
        assert_eq!(value.to_bytes(), bytes);
    }
}

/// One to three changes: a flipped bit, another byte, a length drawn out or blown up, bytes left
/// out, repeated or exchanged.
fn damaged(u: &mut Unstructured<'_>, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    for _ in 0..u.int_in_range(1..=3)? {
        if bytes.is_empty() {
            break;
        }
        let at = u.choose_index(bytes.len())?;
        match u.int_in_range(0..=7)? {
            0 => bytes[at] ^= 1 << u.int_in_range(0..=7)?,
            1 => bytes[at] = u.arbitrary()?,
            2 => {
                bytes[at] |= 0x80;
                bytes.insert(at + 1, 0);
            }
            3 => {
                bytes.splice(at..=at, [0xff, 0xff, 0xff, 0xff, 0x0f]);
            }
            4 => bytes.insert(at, u.arbitrary()?),
            5 => {
                bytes.remove(at);
            }
            6 => {
                let other = u.choose_index(bytes.len())?;
                bytes.swap(at, other);
            }
            _ => bytes.extend_from_within(at..),
        }
    }
    Ok(bytes)
}

macro_rules! properties {
    ($($name:ident: $ty:ty;)*) => {$(
        #[test]
        fn $name() {
            check::<$ty>();
        }
    )*};
}

properties! {
    prop_flag_is_canonical: bool;
    prop_u8_is_canonical: u8;
    prop_u16_is_canonical: u16;
    prop_u32_is_canonical: u32;
    prop_u64_is_canonical: u64;
    prop_array_is_canonical: [u8; 5];
    prop_option_is_canonical: Option<u16>;
    prop_pair_is_canonical: (bool, u32);
    prop_list_is_canonical: List<u16, 0, 300>;
    prop_amount_is_canonical: Amount;
    prop_bps_is_canonical: Bps;
    prop_tick_is_canonical: Tick;
    prop_height_is_canonical: Height;
    prop_duration_is_canonical: DurationMs;
    prop_hash_is_canonical: Hash32;
    prop_tx_id_is_canonical: TxId;
    prop_job_id_is_canonical: JobId;
    prop_node_id_is_canonical: NodeId;
    prop_header_digest_is_canonical: HeaderDigest;
    prop_genesis_hash_is_canonical: GenesisHash;
    prop_idempotency_id_is_canonical: IdempotencyId;
    prop_account_id_is_canonical: AccountId;
    prop_chain_id_is_canonical: ChainId;
    prop_noun_is_canonical: Noun;
    prop_state_key_is_canonical: StateKey;
    prop_public_key_is_canonical: PublicKey;
    prop_signature_is_canonical: Signature;
    prop_kind_is_canonical: Kind;
    prop_memo_is_canonical: Memo;
    prop_evidence_is_canonical: Evidence;
    prop_name_is_canonical: Name;
    prop_address_is_canonical: Address;
    prop_device_kind_is_canonical: DeviceKind;
    prop_device_is_canonical: Device;
    prop_node_descriptor_is_canonical: NodeDescriptor;
    prop_features_are_canonical: Features;
    prop_work_is_canonical: Work;
    prop_needs_are_canonical: Needs;
    prop_tier_is_canonical: Tier;
    prop_job_spec_is_canonical: JobSpec;
    prop_run_result_is_canonical: RunResult;
    prop_result_key_is_canonical: ResultKey;
    prop_message_is_canonical: Message;
    prop_package_ref_is_canonical: PackageRef;
    prop_seat_signature_is_canonical: SeatSignature;
    prop_seat_signatures_are_canonical: SeatSignatures;
    prop_voucher_is_canonical: Voucher;
    prop_run_failure_is_canonical: RunFailure;
    prop_check_answer_is_canonical: CheckAnswer;
    prop_sealed_is_canonical: Sealed;
    prop_opened_result_is_canonical: OpenedResult;
    prop_opened_check_is_canonical: OpenedCheck;
    prop_program_piece_is_canonical: ProgramPiece;
    prop_dispute_answer_is_canonical: DisputeAnswer;
    prop_dispute_evidence_is_canonical: DisputeEvidence;
    prop_job_status_is_canonical: JobStatus;
    prop_reason_is_canonical: Reason;
    prop_status_is_canonical: Status;
    prop_event_is_canonical: Event;
    prop_receipt_is_canonical: Receipt;
    prop_block_receipt_is_canonical: BlockReceipt;
    prop_header_is_canonical: Header;
    prop_lane_is_canonical: Lane;
    prop_nonce_is_canonical: Nonce;
    prop_node_set_is_canonical: NodeSet;
    prop_action_is_canonical: Action;
    prop_tx_body_is_canonical: TxBody;
    prop_signed_tx_is_canonical: SignedTx;
    prop_merkle_proof_is_canonical: Proof;
    prop_merkle_peaks_are_canonical: Peaks;
    prop_network_kind_is_canonical: NetworkKind;
    prop_validator_seat_is_canonical: ValidatorSeat;
    prop_job_params_are_canonical: JobParams;
    prop_params_are_canonical: Params;
    prop_genesis_is_canonical: Genesis;
}
