//! Under which key each entry is stored. Public, because the edge reads entries by key; in one
//! place, because two nouns that shared a key would overwrite each other.

use tg_types::hash::{Tag, tagged};
use tg_types::ids::{AccountId, Hash32, JobId, NodeId, Noun, StateKey};
use tg_types::{Height, IdempotencyId, PublicKey};

use crate::beacon::RING_HEIGHTS;
use crate::due::PageOf;
use crate::job::pace::Subject;
use crate::list::ListOf;

/// The id of an entry of which there is only one.
pub(crate) const ONLY: [u8; 32] = [0; 32];

const SEEN: Tag = Tag::new("tensorgrid/seen");
const PIECE: Tag = Tag::new("tensorgrid/piece");
const DRAFT: Tag = Tag::new("tensorgrid/draft");
const DRAFT_PIECE: Tag = Tag::new("tensorgrid/draft-piece");

/// The running totals.
pub fn totals() -> StateKey {
    StateKey::new(Noun::Totals, ONLY)
}

/// The ledger's parameters.
pub fn params() -> StateKey {
    StateKey::new(Noun::Params, ONLY)
}

/// How far the ledger has come.
pub fn cursor() -> StateKey {
    StateKey::new(Noun::Cursor, ONLY)
}

/// The header log.
pub fn log() -> StateKey {
    StateKey::new(Noun::Log, ONLY)
}

/// An account.
pub fn account(id: &AccountId) -> StateKey {
    StateKey::new(Noun::Account, *id.as_bytes())
}

/// An account's stake.
pub fn stake(id: &AccountId) -> StateKey {
    StateKey::new(Noun::Stake, *id.as_bytes())
}

/// A validator's seat, by its voting key.
pub fn validator(key: &PublicKey) -> StateKey {
    StateKey::new(Noun::Validator, *key.as_bytes())
}

/// A provider's node.
pub fn node(id: &NodeId) -> StateKey {
    StateKey::new(Noun::Node, *id.as_bytes())
}

/// The reports that a node is absent.
pub fn absence(id: &NodeId) -> StateKey {
    StateKey::new(Noun::Absence, *id.as_bytes())
}

/// A job.
pub fn job(id: &JobId) -> StateKey {
    StateKey::new(Noun::Job, *id.as_bytes())
}

/// A used idempotency id. Every account has ids of its own.
pub fn seen(account: &AccountId, id: &IdempotencyId) -> StateKey {
    seen_by_id(seen_id(account, id))
}

/// The recorded digest of the header at a height, as long as the ring reaches back.
pub fn header(height: Height) -> StateKey {
    StateKey::new(Noun::Headers, ring_id(height))
}

/// The beacon of a height, as long as the ring reaches back.
pub fn beacon(height: Height) -> StateKey {
    StateKey::new(Noun::Beacon, ring_id(height))
}

/// How many things fall due in a second since the Unix epoch.
pub fn due_head(second: u64) -> StateKey {
    StateKey::new(Noun::Due, due_head_id(second))
}

/// One page of the things that fall due in a second.
pub fn due_page(page: PageOf) -> StateKey {
    StateKey::new(Noun::Due, due_page_id(page))
}

/// The bounds of a list.
pub fn list_head(list: ListOf) -> StateKey {
    StateKey::new(Noun::List, list_head_id(list))
}

/// One page of a list.
pub fn list_page(list: ListOf, page: u64) -> StateKey {
    StateKey::new(Noun::List, list_page_id(list, page))
}

/// A tensor program on record.
pub fn program(program: &Hash32) -> StateKey {
    StateKey::new(Noun::Program, *program.as_bytes())
}

/// A piece of a tensor program.
pub fn program_piece(program: &Hash32, piece: u8) -> StateKey {
    StateKey::new(Noun::Piece, program_piece_id(program, piece))
}

/// A program of which an account has put some pieces on record. Every account has drafts of its
/// own, so that nobody can spoil another's.
pub fn draft(account: &AccountId, program: &Hash32) -> StateKey {
    StateKey::new(Noun::Draft, draft_id(account, program))
}

/// The dispute about a job.
pub fn dispute(job: &JobId) -> StateKey {
    StateKey::new(Noun::Dispute, *job.as_bytes())
}

/// The last complaint about a package of a job.
pub fn complaint(job: &JobId) -> StateKey {
    StateKey::new(Noun::Complaint, *job.as_bytes())
}

/// Secret weights that are registered, by the id of their commitment.
pub fn weights(id: &Hash32) -> StateKey {
    StateKey::new(Noun::Weights, *id.as_bytes())
}

/// What settled jobs have taught about a subject.
pub fn pace(subject: &Subject) -> StateKey {
    StateKey::new(Noun::Pace, subject.place_id())
}

/// What is usually asked for of GPUs.
pub fn gpu_mix() -> StateKey {
    StateKey::new(Noun::GpuMix, ONLY)
}

pub(crate) fn program_piece_id(program: &Hash32, piece: u8) -> [u8; 32] {
    *tagged(PIECE, &[program.as_bytes(), &[piece]]).as_bytes()
}

pub(crate) fn draft_id(account: &AccountId, program: &Hash32) -> [u8; 32] {
    *tagged(DRAFT, &[account.as_bytes(), program.as_bytes()]).as_bytes()
}

pub(crate) fn draft_piece_id(draft: &[u8; 32], piece: u8) -> [u8; 32] {
    *tagged(DRAFT_PIECE, &[draft, &[piece]]).as_bytes()
}

pub(crate) fn list_head_id(list: ListOf) -> [u8; 32] {
    let [kind, number] = list.numbers();
    numbers_id([0, kind, number])
}

/// Pages stand behind the head.
pub(crate) fn list_page_id(list: ListOf, page: u64) -> [u8; 32] {
    let [kind, number] = list.numbers();
    numbers_id([page.saturating_add(1), kind, number])
}

pub(crate) fn seen_by_id(id: [u8; 32]) -> StateKey {
    StateKey::new(Noun::Seen, id)
}

pub(crate) fn seen_id(account: &AccountId, id: &IdempotencyId) -> [u8; 32] {
    *tagged(SEEN, &[account.as_bytes(), id.as_bytes()]).as_bytes()
}

pub(crate) fn ring_id(height: Height) -> [u8; 32] {
    numbers_id([height.get() % RING_HEIGHTS, 0])
}

pub(crate) fn due_head_id(second: u64) -> [u8; 32] {
    numbers_id([second, 0])
}

/// Pages stand behind the head; the last page that can be written is two short of 2^64, which
/// nobody reaches by adding one item at a time.
pub(crate) fn due_page_id(page: PageOf) -> [u8; 32] {
    numbers_id([page.second, page.page.saturating_add(1)])
}

/// Some numbers as an id. The byte that varies most comes first, because the state's index tells
/// keys apart by their first bytes.
pub(crate) fn numbers_id<const COUNT: usize>(numbers: [u64; COUNT]) -> [u8; 32] {
    const { assert!(COUNT <= 4, "an id has room for four numbers") };
    let mut id = [0; 32];
    let (words, _) = id.as_chunks_mut::<8>();
    for (word, number) in words.iter_mut().zip(numbers) {
        *word = number.to_le_bytes();
    }
    id
}
