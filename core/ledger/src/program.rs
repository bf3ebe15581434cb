//! Tensor programs on record. A job names its program by id; what one run takes, and what a step
//! of it means, everybody must be able to say, so the program itself (not its weights) is in the
//! state. It arrives in pieces, because transactions are small.
//!
//! Pieces wait in a draft of their sender's: an id says nothing about pieces until all of them are
//! there, so a stranger's wrong piece must not spoil a program. With the last piece the judge reads
//! the whole, and a draft that is no program is forgotten. That is the one change a refusal makes
//! here; otherwise its sender could have it read again and again for the price of one piece.

use tg_types::ids::{AccountId, Hash32, Noun, StateKey};
use tg_types::tx::{PROGRAM_PIECES_MAX, ProgramPiece};
use tg_types::{Action, Event, ProgramFacts, Reason, VerifyCosts};

use crate::entry::{Entry, entry, key_of};
use crate::error::{ApplyError, Fail, Stop};
use crate::keys;
use crate::session::{Call, Session};

/// The most programs that a block reads and plans. Planning a large one takes every validator tens
/// of milliseconds, which no fee of its size measures; the rest wait for the next block.
pub const PROGRAMS_PER_BLOCK_MAX: u32 = 4;

entry! {
    /// A program on record.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ProgramEntry {
        /// How many pieces it has.
        pub pieces: u8,
        /// Multiply-adds of a run.
        pub multiply_adds: u64,
        /// Operations.
        pub operations: u32,
        /// Elements that a run computes.
        pub elements: u64,
        /// What verifying a result takes that is shown to be right at once.
        pub costs: VerifyCosts,
    }
}

impl Entry for ProgramEntry {
    const NOUN: Noun = Noun::Program;
}

impl ProgramEntry {
    /// What is known of the program.
    pub const fn facts(&self, id: Hash32) -> ProgramFacts {
        let Self { multiply_adds, operations, elements, .. } = *self;
        ProgramFacts { id, multiply_adds, operations, elements }
    }
}

entry! {
    /// A program of which some pieces are still to come.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DraftEntry {
        /// How many pieces it will have.
        pub pieces: u8,
        /// Which of them are there, one bit for each.
        pub present: u32,
    }
}

impl Entry for DraftEntry {
    const NOUN: Noun = Noun::Draft;
}

const _: () = assert!(PROGRAM_PIECES_MAX as u32 <= u32::BITS);

entry! {
    /// A piece of a program.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PieceEntry {
        /// Its bytes.
        pub bytes: ProgramPiece,
    }
}

impl Entry for PieceEntry {
    const NOUN: Noun = Noun::Piece;
}

/// A piece as a transaction brings it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) program: &'a Hash32,
    pub(crate) piece: u8,
    pub(crate) pieces: u8,
    pub(crate) bytes: &'a ProgramPiece,
}

/// Refuses the last piece of a program in a block that has planned as many as it may.
pub(crate) fn check_limit(
    session: &mut Session<'_>,
    sender: &AccountId,
    action: &Action,
) -> Result<(), Fail> {
    let Action::PutProgram { program, piece, pieces, .. } = action else { return Ok(()) };
    if session.programs_count < PROGRAMS_PER_BLOCK_MAX
        || session.tables.programs.get(program.as_bytes())?.is_some()
    {
        return Ok(());
    }
    let draft = session.tables.drafts.get(&keys::draft_id(sender, program))?.copied();
    let others =
        draft.map_or(0, |draft| draft.present & !1_u32.checked_shl((*piece).into()).unwrap_or(0));
    let is_last = others.count_ones() + 1 >= u32::from(*pieces);
    if is_last { Err(Reason::ProgramLimit.into()) } else { Ok(()) }
}

/// Takes a piece in; the last one completes the program.
pub(crate) fn put(session: &mut Session<'_>, call: &Call, new: &Piece<'_>) -> Result<(), Fail> {
    let Piece { program, piece, pieces, bytes } = *new;
    if pieces == 0 || pieces > PROGRAM_PIECES_MAX || piece >= pieces {
        return Err(Reason::PieceWrong.into());
    }
    if session.tables.programs.get(program.as_bytes())?.is_some() {
        return Err(Reason::ProgramExists.into());
    }
    let id = keys::draft_id(&call.sender, program);
    let fresh = DraftEntry { pieces, present: 0 };
    let mut draft = session.tables.drafts.get(&id)?.copied().unwrap_or(fresh);
    if draft.pieces != pieces {
        return Err(Reason::PieceWrong.into());
    }
    if draft.present >> piece & 1 == 1 {
        return Err(Reason::ProgramExists.into());
    }
    let ids: Vec<[u8; 32]> = (0..pieces).map(|piece| keys::draft_piece_id(&id, piece)).collect();
    draft.present |= 1 << piece;
    if draft.present.count_ones() == pieces.into() {
        return complete(session, &id, &ids, new);
    }

    session.tables.drafts.put(&id, Some(draft))?;
    let entry = PieceEntry { bytes: bytes.clone() };
    let place = ids.get(usize::from(piece)).ok_or(Reason::PieceWrong)?;
    Ok(session.tables.pieces.put(place, Some(entry))?)
}

/// Reads a program all of whose pieces are there, and puts it on record. The draft ends in any
/// case.
fn complete(
    session: &mut Session<'_>,
    draft: &[u8; 32],
    ids: &[[u8; 32]],
    last: &Piece<'_>,
) -> Result<(), Fail> {
    let Piece { program, pieces, .. } = *last;
    let mut wanted: Vec<StateKey> = ids.iter().map(|id| key_of::<PieceEntry>(*id)).collect();
    wanted.extend((0..pieces).map(|piece| keys::program_piece(program, piece)));
    session.require(&wanted)?;
    let mut parts = Vec::with_capacity(ids.len());
    for (piece, id) in (0..).zip(ids) {
        let stored = session.tables.pieces.get(id)?.map(|entry| entry.bytes.clone());
        let bytes = if piece == last.piece { Some(last.bytes.clone()) } else { stored };
        parts.push(bytes.ok_or(ApplyError::Incomplete(key_of::<PieceEntry>(*id)))?);
    }
    let whole: Vec<u8> = parts.iter().flat_map(|part| part.as_slice().iter().copied()).collect();
    let facts = session.rules.judge.facts(&whole).filter(|facts| facts.id == *program);

    session.tables.drafts.put(draft, None)?;
    for id in ids {
        session.tables.pieces.put(id, None)?;
    }
    let facts = facts.ok_or(Reason::ProgramWrong)?;
    // Bytes that are no program are not planned, and keep nobody out of the block.
    session.programs_count += 1;
    for (piece, bytes) in (0..).zip(parts) {
        let id = keys::program_piece_id(program, piece);
        session.tables.pieces.put(&id, Some(PieceEntry { bytes }))?;
    }
    let ProgramFacts { multiply_adds, operations, elements, .. } = facts;
    let costs = session.rules.verifier.costs(&whole);
    let entry = ProgramEntry { pieces, multiply_adds, operations, elements, costs };
    session.tables.programs.put(program.as_bytes(), Some(entry))?;
    session.emit(Event::ProgramRecorded { program: *program, multiply_adds });
    Ok(())
}

/// What is known of a program on record.
pub(crate) fn facts(
    session: &mut Session<'_>,
    program: &Hash32,
) -> Result<Option<ProgramFacts>, Stop> {
    let entry = session.tables.programs.get(program.as_bytes())?;
    Ok(entry.map(|entry| entry.facts(*program)))
}

/// What verifying results of a program on record takes.
pub(crate) fn costs(
    session: &mut Session<'_>,
    program: &Hash32,
) -> Result<Option<VerifyCosts>, Stop> {
    Ok(session.tables.programs.get(program.as_bytes())?.map(|entry| entry.costs))
}

/// The bytes of a program on record.
pub(crate) fn bytes(session: &mut Session<'_>, program: &Hash32) -> Result<Vec<u8>, Stop> {
    let incomplete = || ApplyError::Incomplete(keys::program(program));
    let entry = session.tables.programs.get(program.as_bytes())?.copied();
    let pieces = entry.ok_or_else(incomplete)?.pieces;
    let wanted: Vec<_> = (0..pieces).map(|piece| keys::program_piece(program, piece)).collect();
    session.require(&wanted)?;
    let mut whole = Vec::new();
    for piece in 0..pieces {
        let part = session.tables.pieces.get(&keys::program_piece_id(program, piece))?;
        whole.extend_from_slice(part.ok_or_else(incomplete)?.bytes.as_slice());
    }
    Ok(whole)
}
