//! The checks at the end of a run, when the network has healed: every honest node holds the same
//! blocks, records and entries, and everything that was promised is there.

use crate::{
    book::Book,
    judge::Judge,
    scan::Scan,
    violation::{Invariant, Violations},
    world::World,
};
use futures::future::join_all;
use tg_chain::{light::LightClient, record::Record};
use tg_ledger::{Cursor, MemoryView, keys};
use tg_sim::cluster::{Directory, Live};
use tg_types::{
    codec::{Decode as _, Encode as _},
    ids::Noun,
    tick::Height,
};

/// Nouns of the state, which are scanned one by one.
const NOUNS: [Noun; 23] = [
    Noun::Totals,
    Noun::Account,
    Noun::Seen,
    Noun::Stake,
    Noun::Node,
    Noun::Job,
    Noun::Due,
    Noun::Headers,
    Noun::Beacon,
    Noun::Log,
    Noun::Params,
    Noun::Validator,
    Noun::Cursor,
    Noun::Absence,
    Noun::List,
    Noun::Program,
    Noun::Dispute,
    Noun::Piece,
    Noun::Draft,
    Noun::Complaint,
    Noun::Weights,
    Noun::Pace,
    Noun::GpuMix,
];

/// Entries of one noun; a run has far fewer.
const SCAN_MAX: usize = 10_000;

/// Times a scan is repeated because a block came in between.
const SCAN_TRIES_MAX: usize = 10;

/// Checks everything that can only be checked at the end.
pub(crate) async fn check(
    world: &World,
    judge: &mut Judge,
    directory: &Directory,
    book: &Book,
    now_ms: u64,
) {
    check_acknowledged(judge, book);
    check_convictions(world, judge, book);
    for place in world.honest() {
        let Some(live) = directory.live(place) else {
            judge.found.add(Invariant::Liveness, format!("node {place} is not up at the end"));
            continue;
        };
        check_history(judge, place, &live).await;
        check_state(judge, place, &live, directory, now_ms).await;
        check_proof(world, judge, place, &live).await;
    }
}

/// What clients were told is what the chain says.
fn check_acknowledged(judge: &mut Judge, book: &Book) {
    for told in &book.pages().acknowledged {
        let kept = judge.blocks.get(&told.height).and_then(|judged| {
            let record = Record::from_bytes(&judged.record).ok()?;
            let index = judged.txs.get(&told.receipt.tx)?;
            record.receipts.get(*index).cloned()
        });
        judge.found.check(kept.as_ref() == Some(&told.receipt), Invariant::Acknowledged, || {
            let (place, height) = (told.place, told.height.get());
            format!("node {place} acknowledged {:?} at height {height}", told.receipt.tx)
        });
    }
}

/// Whoever was seen to equivocate is slashed, and nobody else was seen to.
fn check_convictions(world: &World, judge: &mut Judge, book: &Book) {
    let Some((_, state)) = judge.states.back() else { return };
    let scan = Scan::of(state, &mut judge.found);
    let liars = world.liars();
    for accused in &book.pages().accused {
        judge.found.check(liars.contains(accused), Invariant::Slashing, || {
            format!("there is valid evidence against honest {accused:?}")
        });
        judge.found.check(scan.slashed.contains(accused), Invariant::Conviction, || {
            format!("{accused:?} was seen to equivocate and is not slashed")
        });
    }
    for slashed in scan.slashed.iter().filter(|key| !liars.contains(key)) {
        judge.found.add(Invariant::Slashing, format!("honest {slashed:?} is slashed"));
    }
}

/// A node holds every final block with its record, bit for bit. One that synced its state holds
/// those from its start on.
async fn check_history(judge: &mut Judge, place: usize, live: &Live) {
    let heights: Vec<Height> = judge.blocks.keys().copied().collect();
    let stored = heights.iter().map(|height| async move {
        let block = live.node.block(*height).await.ok().flatten();
        let record = live.node.record(*height).await.ok().flatten();
        (*height, block, record)
    });
    let mut has_begun = !live.state_synced;
    for (height, block, record) in join_all(stored).await {
        let Some(judged) = judge.blocks.get(&height) else { continue };
        has_begun |= record.is_some();
        if let Some((header, payload)) = &block {
            let same = header.to_bytes() == judged.header.to_bytes() && *payload == judged.payload;
            judge.found.check(same, Invariant::OneBlock, || {
                format!("node {place} stores another block at height {}", height.get())
            });
        }
        let same = record.as_ref() == Some(&judged.record) && block.is_some();
        judge.found.check(same || !has_begun, Invariant::Acknowledged, || {
            let (has_block, has_record) = (block.is_some(), record.is_some());
            let height = height.get();
            format!(
                "node {place}, height {height}: block {has_block}, record {has_record}, same {same}"
            )
        });
    }
}

/// A node's entries are those of the replay.
async fn check_state(
    judge: &mut Judge,
    place: usize,
    live: &Live,
    directory: &Directory,
    now_ms: u64,
) {
    for _try in 0..SCAN_TRIES_MAX {
        let Some((height, scanned)) = scan(live).await else { continue };
        judge.advance(directory, now_ms).await; // the chain goes on meanwhile
        let Some((_, replayed)) = judge.states.iter().find(|(at, _)| *at == height) else {
            continue;
        };
        let differing = differences(&scanned, replayed);
        judge.found.check(differing == 0, Invariant::Replay, || {
            format!(
                "node {place} differs from the replay in {differing} entries at {}",
                height.get()
            )
        });
        return;
    }
    judge.found.add(Invariant::Liveness, format!("the state of node {place} cannot be scanned"));
}

fn differences(scanned: &MemoryView, replayed: &MemoryView) -> usize {
    let left: std::collections::BTreeMap<_, _> = scanned.iter().collect();
    let right: std::collections::BTreeMap<_, _> = replayed.iter().collect();
    let changed = left.iter().filter(|(key, bytes)| right.get(*key) != Some(bytes)).count();
    changed + right.keys().filter(|key| !left.contains_key(*key)).count()
}

/// All entries of a node at one height, unless a block came in between.
async fn scan(live: &Live) -> Option<(Height, MemoryView)> {
    let before: Cursor = live.chain.entry(keys::cursor()).await.ok()??;
    let mut changes = tg_ledger::ChangeSet::new();
    for noun in NOUNS {
        let entries = live.chain.scan(noun, SCAN_MAX).await.ok()?;
        changes.extend(entries.into_iter().map(|(key, bytes)| (key, Some(bytes.to_vec()))));
    }
    let after: Cursor = live.chain.entry(keys::cursor()).await.ok()??;
    let mut view = MemoryView::new();
    view.commit(&changes);
    (before == after).then_some((after.height, view))
}

/// A stranger can check the node's totals against a certified header.
async fn check_proof(world: &World, judge: &mut Judge, place: usize, live: &Live) {
    let client = LightClient::of(&world.genesis).expect("the world's genesis is valid");
    let Ok(Some(proof)) = live.chain.prove(keys::totals()).await else {
        return; // the state moved on while it was asked
    };
    let fits = proof.entry.state_root == proof.header.state_root && proof.entry.verify(&proof.key);
    judge.found.check(fits, Invariant::Replay, || format!("a proof of node {place} does not hold"));
    let height = Height::new(proof.header.height.get().saturating_sub(8));
    if let Ok(Some(certified)) = live.chain.certified_header(height).await {
        let checked = client.check_header(&certified.header, &certified.certificate);
        judge.found.check(checked.is_ok(), Invariant::Authority, || {
            format!("node {place} stores a wrong certificate of height {}", height.get())
        });
    }
}

/// Notes what a run did not reach.
pub(crate) fn unfinished(found: &mut Violations, detail: String) {
    found.add(Invariant::Liveness, detail);
}
