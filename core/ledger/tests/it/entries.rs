//! The byte forms of entries: one per value, bounded, and kept as they are.

use crate::fleet::*;
use crate::judge::{REGISTRATION_COST, answer, program_id, registration_of};
use crate::world::*;
use expect_test::expect;
use tg_ledger::{
    AbsenceEntry, AccountEntry, BeaconEntry, ComplaintEntry, Cursor, DisputeEntry, DraftEntry,
    DueHead, DuePage, GpuMixEntry, HeaderEntry, JobEntry, ListHead, ListPage, LogEntry, NodeEntry,
    PaceEntry, ParamsEntry, PieceEntry, ProgramEntry, SeenEntry, StakeEntry, Totals,
    ValidatorEntry, WeightsEntry,
};
use tg_types::hash::sha256;
use tg_types::ids::{Hash32, Noun};
use tg_types::tx::NodeSet;
use tg_types::{
    Action, Bytes, Decode, DecodeError, Encode, IdempotencyId, JobSpec, Message, RegistrationClaim,
    SecretWeights, Tier, TxBody,
};

/// A state with entries of every noun.
fn full_world() -> World {
    let mut world = World::staffed(4);
    world.pass(8_000);
    world.env.certificates = vec![world.certificate(1)];
    let epoch = world.env.tick.get() / 4_000;
    let nodes = NodeSet::new(vec![node(3)]).expect("one node");
    world.succeed(owner(2), Action::ReportAbsent { epoch, nodes });
    world.succeed(owner(1), Action::Unstake { amount: units(1_000) });
    let submit = world.body(account(0), submit(vec![job_spec(1)]));
    let idempotency = Some(IdempotencyId::new([4; 16]));
    world.block(&[world.sign(TxBody { idempotency, ..submit })]);
    world.succeed(account(0), evidence_against(&vote_key(3)));
    world.succeed(account(1), piece(b"prog draft", 1, 2, b"draft"));
    let (job, provider, checkers) = world.checked(&right());
    world.act(checkers[0], vouch_as(checkers[0], job, &right()));
    world.succeed(account(CHALLENGER), Action::Object { job });
    world.act(provider, answer_by(job, answer(0, 2)));
    world.ask(spec(Tier::Redundant { replicas: 4 }));
    let job = world.ask(spec(Tier::Trusted));
    let runner = world.runners(job)[0];
    world.deliver(runner, job, &right());
    let job = world.ask(spec(Tier::Audit));
    world.act(0, commit_as(0, job, &right()));
    let job = world.ask(spec(Tier::Trusted));
    let [runner] = world.runners(job)[..] else { unreachable!("one run") };
    world.act(runner, Action::Complain { job, about: Message::Inputs, key: [5; 32] });
    world.succeed(owner(1), Action::JudgeComplaint { job, opens: true });
    let gpus = crate::jobs::gpus::offer_of_a100s(1);
    world.succeed(account(3), Action::ChangeNode { node: node(3), descriptor: gpus });
    let expires_after = spec(Tier::Trusted).expires_after;
    let job = world.ask(JobSpec { expires_after, ..crate::jobs::gpus::part(2) });
    assert_eq!(world.runners(job), [3]);
    let (owner, program) = (account(CLIENT), program_id(PROGRAM));
    let weights = SecretWeights { root: Hash32::new([5; 32]), proofs: 9 };
    let genesis = world.rules.domain.genesis;
    let proof = registration_of(&RegistrationClaim { genesis, owner, program, weights });
    let (proof, cost) = (Bytes::new(proof).expect("short"), REGISTRATION_COST);
    world.succeed(owner, Action::RegisterWeights { program, weights, cost, proof });
    world
}

/// Bytes of every entry of a state, by noun.
fn entries(noun: Noun) -> Vec<Vec<u8>> {
    let world = full_world();
    let of_noun = world.view.iter().filter(|(key, _)| key.noun() == noun);
    let bytes: Vec<_> = of_noun.map(|(_, bytes)| bytes.to_vec()).collect();
    assert!(!bytes.is_empty(), "{noun:?} has an entry");
    bytes
}

/// Any bytes are refused, or are the byte form of what they are read as.
fn check_bytes<T: Encode + Decode>(bytes: &[u8]) -> Result<T, DecodeError> {
    let value = T::from_bytes(bytes)?;
    assert_eq!(value.to_bytes(), bytes);
    Ok(value)
}

/// Good bytes are read; cut, lengthened and altered ones never make a second form.
fn check_forms<T: Encode + Decode>(good: &[u8]) {
    assert!(check_bytes::<T>(good).is_ok());
    for end in 0..good.len() {
        assert!(check_bytes::<T>(&good[..end]).is_err(), "cut at {end}");
    }
    let _longer_is_another_or_none = check_bytes::<T>(&[good, &[0]].concat());
    for at in 0..good.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bad = good.to_vec();
            bad[at] ^= flip;
            let read = check_bytes::<T>(&bad);
            assert!(at > 0 || matches!(read, Err(DecodeError::Version { .. })), "format byte");
        }
    }
}

macro_rules! for_every_entry {
    ($check:ident) => {
        $check::<Totals>(Noun::Totals);
        $check::<AccountEntry>(Noun::Account);
        $check::<SeenEntry>(Noun::Seen);
        $check::<StakeEntry>(Noun::Stake);
        $check::<NodeEntry>(Noun::Node);
        $check::<JobEntry>(Noun::Job);
        $check::<HeaderEntry>(Noun::Headers);
        $check::<BeaconEntry>(Noun::Beacon);
        $check::<LogEntry>(Noun::Log);
        $check::<ParamsEntry>(Noun::Params);
        $check::<ValidatorEntry>(Noun::Validator);
        $check::<Cursor>(Noun::Cursor);
        $check::<AbsenceEntry>(Noun::Absence);
        $check::<ProgramEntry>(Noun::Program);
        $check::<DraftEntry>(Noun::Draft);
        $check::<PieceEntry>(Noun::Piece);
        $check::<DisputeEntry>(Noun::Dispute);
        $check::<ComplaintEntry>(Noun::Complaint);
        $check::<WeightsEntry>(Noun::Weights);
        $check::<PaceEntry>(Noun::Pace);
        $check::<GpuMixEntry>(Noun::GpuMix);
    };
}

#[test]
fn entry_bytes_have_one_form() {
    fn check<T: Encode + Decode>(noun: Noun) {
        for bytes in entries(noun) {
            check_forms::<T>(&bytes);
        }
    }
    for_every_entry!(check);
    for bytes in entries(Noun::Due) {
        match bytes.len() {
            9 => check_forms::<DueHead>(&bytes),
            _ => check_forms::<DuePage>(&bytes),
        }
    }
    for bytes in entries(Noun::List) {
        match bytes.len() {
            25 => check_forms::<ListHead>(&bytes),
            _ => check_forms::<ListPage>(&bytes),
        }
    }
}

#[test]
fn prop_random_bytes_never_panic_and_have_one_form() {
    arbtest::arbtest(|u| {
        let bytes: Vec<u8> = [&[1][..], u.arbitrary::<&[u8]>()?].concat();
        let all = [
            check_bytes::<Totals>(&bytes).is_ok(),
            check_bytes::<AccountEntry>(&bytes).is_ok(),
            check_bytes::<SeenEntry>(&bytes).is_ok(),
            check_bytes::<StakeEntry>(&bytes).is_ok(),
            check_bytes::<NodeEntry>(&bytes).is_ok(),
            check_bytes::<JobEntry>(&bytes).is_ok(),
            check_bytes::<DueHead>(&bytes).is_ok(),
            check_bytes::<DuePage>(&bytes).is_ok(),
            check_bytes::<HeaderEntry>(&bytes).is_ok(),
            check_bytes::<BeaconEntry>(&bytes).is_ok(),
            check_bytes::<LogEntry>(&bytes).is_ok(),
            check_bytes::<ParamsEntry>(&bytes).is_ok(),
            check_bytes::<ValidatorEntry>(&bytes).is_ok(),
            check_bytes::<Cursor>(&bytes).is_ok(),
            check_bytes::<AbsenceEntry>(&bytes).is_ok(),
            check_bytes::<ListHead>(&bytes).is_ok(),
            check_bytes::<ListPage>(&bytes).is_ok(),
            check_bytes::<ProgramEntry>(&bytes).is_ok(),
            check_bytes::<DraftEntry>(&bytes).is_ok(),
            check_bytes::<PieceEntry>(&bytes).is_ok(),
            check_bytes::<DisputeEntry>(&bytes).is_ok(),
        ];
        assert!(all.iter().filter(|is_read| **is_read).count() <= 5, "few forms look alike");
        Ok(())
    });
}

#[test]
fn account_lanes_are_written_only_if_used() {
    let unused = [1, 0, 0, 0, 0, 0, 0, 0, 9, 0];
    let entry = check_bytes::<AccountEntry>(&unused).expect("canonical");
    assert_eq!((entry.balance, entry.lanes.used().count()), (units(9), 0));
    let zero_in_lane_2 = [&unused[..9], &[0b100], &[0; 8]].concat();
    let refused = check_bytes::<AccountEntry>(&zero_in_lane_2);
    assert!(matches!(refused, Err(DecodeError::Range { at: 18, .. })));
    let one_in_lane_2 = [&unused[..9], &[0b100], &1_u64.to_be_bytes()].concat();
    let entry = check_bytes::<AccountEntry>(&one_in_lane_2).expect("canonical");
    assert!(entry.lanes.used().eq([(2, tg_types::Nonce::new(1))]));
}

#[test]
fn absence_of_seats_that_cannot_be_is_refused() {
    let mut bytes = AbsenceEntry::default().to_bytes();
    bytes[9] = 0x80;
    assert!(matches!(check_bytes::<AbsenceEntry>(&bytes), Err(DecodeError::Range { .. })));
}

/// The state of a fixed history. It changes only when the ledger's meaning or a byte form does,
/// and then every network forks: changing this value is a decision of its own.
#[test]
fn state_of_a_fixed_history_stays_as_it_is() {
    let world = full_world();
    let mut bytes = Vec::new();
    for (key, entry) in world.view.iter() {
        key.encode(&mut bytes);
        bytes.extend_from_slice(entry);
    }
    let state = Hash32::new(sha256(&[&bytes]));
    expect!["144 entries 0eb62d4c1e98b1d115781a55c614a9fd59ca505866f4d79cc8e91dbac93d3475"]
        .assert_eq(&format!("{} entries {state}", world.view.len()));
}
