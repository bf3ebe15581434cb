//! The log of all headers, as the peaks of a growing Merkle tree: leaf *i* is the digest of the
//! header at height *i*. Every header carries the root of the log before it, so a proof of any old
//! header ends in any newer one, and nobody has to keep all headers to check it.

use tg_types::ids::{Hash32, Noun};
use tg_types::merkle::Peaks;

use crate::entry::{Entry, entry};
use crate::error::{ApplyError, Stop};
use crate::keys;
use crate::session::Session;

entry! {
    /// The header log.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct LogEntry {
        /// The tops of the complete subtrees.
        pub peaks: Peaks,
    }
}

impl Entry for LogEntry {
    const NOUN: Noun = Noun::Log;
}

/// Appends the parent's digest; gives the root over all headers before this block.
pub(crate) fn append_parent(session: &mut Session<'_>) -> Result<Hash32, Stop> {
    let mut entry = session.tables.logs.get(&keys::ONLY)?.cloned().unwrap_or_default();
    let height = session.env.height.minus(1)?;
    if entry.peaks.count() != height.get() {
        return Err(ApplyError::Incomplete(keys::log()).into());
    }
    entry.peaks.append(session.env.parent.as_bytes());
    let root = entry.peaks.root();
    session.tables.logs.put(&keys::ONLY, Some(entry))?;
    Ok(root)
}
