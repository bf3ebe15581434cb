//! What the ledger can see of the state. The engine keeps entries on disk and executes candidate
//! blocks on forks, so the ledger never owns the state: it is handed a view and answers with a
//! change set. A view may also say that it has not loaded an entry yet; that is different from the
//! entry not existing, and keeps all waiting for disks out of this crate.

use std::collections::BTreeMap;

use tg_types::ids::StateKey;

/// Changed entries of a block: the new bytes, or `None` for an entry that was removed.
pub type ChangeSet = BTreeMap<StateKey, Option<Vec<u8>>>;

/// What a view knows about one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// The entry exists and has these bytes.
    Present(&'a [u8]),
    /// The entry does not exist.
    Absent,
    /// The view has not loaded this entry; the caller has to load it and call again.
    Unknown,
}

/// Read access to the entries as they were after the parent block.
pub trait View {
    /// Looks one entry up. The answer for a key must not change during a call into the ledger.
    fn get(&self, key: &StateKey) -> Lookup<'_>;
}

/// A whole state in memory: what is not held does not exist. For replay, tools and tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryView {
    entries: BTreeMap<StateKey, Vec<u8>>,
}

impl MemoryView {
    /// The state before the first block.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the changes of a block over.
    pub fn commit(&mut self, changes: &ChangeSet) {
        for (key, change) in changes {
            match change {
                Some(bytes) => self.entries.insert(*key, bytes.clone()),
                None => self.entries.remove(key),
            };
        }
    }

    /// All entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&StateKey, &[u8])> {
        self.entries.iter().map(|(key, bytes)| (key, bytes.as_slice()))
    }

    /// How many entries exist.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no block was committed yet.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl View for MemoryView {
    fn get(&self, key: &StateKey) -> Lookup<'_> {
        match self.entries.get(key) {
            Some(bytes) => Lookup::Present(bytes),
            None => Lookup::Absent,
        }
    }
}

/// The entries somebody has loaded so far: what is not held is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialView {
    entries: BTreeMap<StateKey, Option<Vec<u8>>>,
}

impl PartialView {
    /// A view that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes one entry known; `None` says that it does not exist.
    pub fn hold(&mut self, key: StateKey, bytes: Option<Vec<u8>>) {
        self.entries.insert(key, bytes);
    }

    /// How many entries are known, those known to be absent included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is known yet.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl FromIterator<(StateKey, Option<Vec<u8>>)> for PartialView {
    fn from_iter<I: IntoIterator<Item = (StateKey, Option<Vec<u8>>)>>(entries: I) -> Self {
        Self { entries: entries.into_iter().collect() }
    }
}

impl View for PartialView {
    fn get(&self, key: &StateKey) -> Lookup<'_> {
        match self.entries.get(key) {
            Some(Some(bytes)) => Lookup::Present(bytes),
            Some(None) => Lookup::Absent,
            None => Lookup::Unknown,
        }
    }
}
