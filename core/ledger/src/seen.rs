//! Idempotency ids. A client that lost its connection does not know whether its transaction went
//! through; with an id it can send the same request again, under a new nonce, and be sure that it
//! takes effect at most once. Ids belong to their sender and are forgotten after a while. A
//! transaction that failed does not use its id up: its request did not take effect.

use tg_types::ids::{AccountId, Noun, TxId};
use tg_types::{IdempotencyId, Reason};

use crate::due::{self, DueItem};
use crate::entry::{Entry, entry};
use crate::error::{Fail, Stop};
use crate::keys;
use crate::session::{Call, Session};

entry! {
    /// A used idempotency id.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SeenEntry {
        /// The transaction that took effect under it.
        pub tx: TxId,
    }
}

impl Entry for SeenEntry {
    const NOUN: Noun = Noun::Seen;
}

/// Refuses an id that was used.
pub(crate) fn check(
    session: &mut Session<'_>,
    sender: &AccountId,
    id: &IdempotencyId,
) -> Result<(), Fail> {
    match session.tables.seen.get(&keys::seen_id(sender, id))? {
        Some(_) => Err(Reason::IdempotencySeen.into()),
        None => Ok(()),
    }
}

/// Remembers an id whose transaction took effect.
pub(crate) fn remember(
    session: &mut Session<'_>,
    call: &Call,
    id: &IdempotencyId,
) -> Result<(), Stop> {
    let id = keys::seen_id(&call.sender, id);
    let until = session.env.tick.plus(session.params.seen_retention)?;

    session.tables.seen.put(&id, Some(SeenEntry { tx: call.tx }))?;
    due::add(session, until, DueItem::ForgetSeen { id })
}

/// Forgets an id whose time has come.
pub(crate) fn forget(session: &mut Session<'_>, id: &[u8; 32]) -> Result<(), Stop> {
    session.tables.seen.put(id, None)
}
