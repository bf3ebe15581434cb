//! The overlay of a block: entries of one noun, decoded once, changed in memory, encoded once.
//! A block of a thousand transfers touches the same accounts again and again; without this every
//! transaction would decode and encode them. A cell remembers the bytes it was read from, so that
//! the change set names only entries whose bytes really differ.

use std::collections::{BTreeMap, btree_map};

use tg_types::ids::StateKey;
use tg_types::{DecodeError, Reader};

use crate::entry::{Entry, Held, key_of};
use crate::error::{ApplyError, Stop};
use crate::view::{Lookup, View};

/// Where an entry lies in its table. Valid for the table that gave it out, as long as that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

/// The touched entries of one noun.
pub(crate) struct Table<'a, T> {
    view: &'a dyn View,
    index: BTreeMap<Words, Slot>,
    cells: Vec<Cell<'a, T>>,
    held_before: Held,
}

/// An id as four numbers in the same order as its bytes. A block looks ids up all the time, and
/// comparing numbers is quicker than comparing bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Words([u64; 4]);

impl Words {
    fn of(id: &[u8; 32]) -> Self {
        let (words, _) = id.as_chunks::<8>();
        Self(std::array::from_fn(|place| u64::from_be_bytes(words[place])))
    }

    fn bytes(self) -> [u8; 32] {
        let mut id = [0; 32];
        for (out, word) in id.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *out = word.to_be_bytes();
        }
        id
    }
}

struct Cell<'a, T> {
    before: Option<&'a [u8]>,
    value: Option<T>,
    is_touched: bool,
}

impl<'a, T: Entry> Table<'a, T> {
    /// An overlay in which nothing is touched yet.
    pub(crate) fn new(view: &'a dyn View) -> Self {
        Self { view, index: BTreeMap::new(), cells: Vec::new(), held_before: Held::default() }
    }

    /// Finds an entry's place, reading it from the view the first time. The place exists whether
    /// or not the entry does.
    pub(crate) fn find(&mut self, id: &[u8; 32]) -> Result<Slot, Stop> {
        let vacant = match self.index.entry(Words::of(id)) {
            btree_map::Entry::Occupied(slot) => return Ok(*slot.get()),
            btree_map::Entry::Vacant(vacant) => vacant,
        };
        let key = key_of::<T>(*id);
        let before = match self.view.get(&key) {
            Lookup::Present(bytes) => Some(bytes),
            Lookup::Absent => None,
            Lookup::Unknown => return Err(Stop::Unknown(key)),
        };
        let value = before
            .map(|bytes| T::from_bytes(bytes).map_err(|source| ApplyError::Corrupt { key, source }))
            .transpose()?;
        if let Some(value) = &value {
            self.held_before += value.held();
        }
        self.cells.push(Cell { before, value, is_touched: false });
        Ok(*vacant.insert(Slot(self.cells.len() - 1)))
    }

    /// Something of an entry that stands at the beginning of its bytes, without finding the entry a
    /// place or decoding the rest of it; `None` if it does not exist.
    pub(crate) fn peek<R>(
        &self,
        id: &[u8; 32],
        held: impl FnOnce(&T) -> R,
        stored: impl FnOnce(&mut Reader<'_>) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, Stop> {
        if let Some(slot) = self.index.get(&Words::of(id)) {
            return Ok(self.at(*slot).map(held));
        }
        let key = key_of::<T>(*id);
        match self.view.get(&key) {
            Lookup::Present(bytes) => {
                let found = stored(&mut Reader::new(bytes));
                Ok(Some(found.map_err(|source| ApplyError::Corrupt { key, source })?))
            }
            Lookup::Absent => Ok(None),
            Lookup::Unknown => Err(Stop::Unknown(key)),
        }
    }

    /// Finds the place of an entry that is known not to exist in the view, without asking it.
    pub(crate) fn find_new(&mut self, id: &[u8; 32]) -> Slot {
        *self.index.entry(Words::of(id)).or_insert_with(|| {
            self.cells.push(Cell { before: None, value: None, is_touched: false });
            Slot(self.cells.len() - 1)
        })
    }

    /// Whether an entry was asked for before in this block.
    pub(crate) fn has(&self, id: &[u8; 32]) -> bool {
        self.index.contains_key(&Words::of(id))
    }

    /// The entry at a place, if it exists.
    pub(crate) fn at(&self, slot: Slot) -> Option<&T> {
        self.cells[slot.0].value.as_ref()
    }

    /// The entry at a place for changing; `None` stands for an entry that does not exist.
    pub(crate) fn at_mut(&mut self, slot: Slot) -> &mut Option<T> {
        let cell = &mut self.cells[slot.0];
        cell.is_touched = true;
        &mut cell.value
    }

    /// Finds and shows an entry.
    pub(crate) fn get(&mut self, id: &[u8; 32]) -> Result<Option<&T>, Stop> {
        let slot = self.find(id)?;
        Ok(self.at(slot))
    }

    /// Finds an entry and replaces it; `None` removes it.
    pub(crate) fn put(&mut self, id: &[u8; 32], value: Option<T>) -> Result<(), Stop> {
        let slot = self.find(id)?;
        *self.at_mut(slot) = value;
        Ok(())
    }

    /// Hands over what changed, in the order of the ids, and what the touched entries held before
    /// and hold now.
    pub(crate) fn close(self, out: &mut Closed) {
        out.held_before += self.held_before;
        for (id, slot) in self.index {
            let cell = &self.cells[slot.0];
            if let Some(value) = &cell.value {
                out.held_after += value.held();
            }
            if !cell.is_touched {
                continue;
            }
            let after = cell.value.as_ref().map(bytes_of);
            if after.as_deref() != cell.before {
                out.changes.push((key_of::<T>(id.bytes()), after));
            }
        }
    }
}

/// An entry's bytes, in a buffer that rarely has to grow: most entries are little longer than the
/// shortest of their kind.
fn bytes_of<T: Entry>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(T::BYTES_MIN + 16);
    value.encode(&mut bytes);
    bytes
}

/// What all tables together leave behind.
#[derive(Default)]
pub(crate) struct Closed {
    /// Entries whose bytes differ.
    pub(crate) changes: Vec<(StateKey, Option<Vec<u8>>)>,
    /// Money in the touched entries before the block.
    pub(crate) held_before: Held,
    /// Money in the touched entries after the block.
    pub(crate) held_after: Held,
}

#[cfg(test)]
mod tests {
    use super::{Closed, Table, Words};
    use crate::account::AccountEntry;
    use crate::error::Stop;
    use crate::keys;
    use crate::view::{MemoryView, PartialView};
    use tg_types::ids::AccountId;
    use tg_types::{Amount, Encode};

    fn entry(units: u64) -> AccountEntry {
        let balance = Amount::new(units).expect("below the cap");
        AccountEntry { balance, ..AccountEntry::default() }
    }

    fn key(number: u8) -> tg_types::StateKey {
        keys::account(&AccountId::new([number; 32]).expect("not a small-order key"))
    }

    #[test]
    fn close_names_only_entries_whose_bytes_differ() {
        let mut view = MemoryView::new();
        let stored = (3..=6).map(|number| (key(number), Some(entry(number.into()).to_bytes())));
        view.commit(&stored.collect());
        let mut table = Table::<AccountEntry>::new(&view);
        let mut put = |number, value| table.put(&[number; 32], value).expect("known");
        put(9, Some(entry(1))); // made and taken away again
        put(9, None);
        put(3, Some(entry(8))); // changed and changed back
        put(3, Some(entry(3)));
        put(4, None);
        put(5, Some(entry(50)));
        put(8, Some(entry(80)));
        assert_eq!(table.get(&[6; 32]).expect("known"), Some(&entry(6))); // only read
        let mut closed = Closed::default();
        table.close(&mut closed);
        let expected = [
            (key(4), None),
            (key(5), Some(entry(50).to_bytes())),
            (key(8), Some(entry(80).to_bytes())),
        ];
        assert_eq!(closed.changes, expected);
        let held = (closed.held_before.balances, closed.held_after.balances);
        assert_eq!(held, (3 + 4 + 5 + 6, 3 + 50 + 80 + 6));
    }

    #[test]
    fn find_of_an_unknown_entry_names_it_and_remembers_nothing() {
        let view = PartialView::new();
        let mut table = Table::<AccountEntry>::new(&view);
        for _ in 0..2 {
            let found = table.find(&[7; 32]);
            assert!(matches!(found, Err(Stop::Unknown(missing)) if missing == key(7)));
        }
        let slot = table.find_new(&[7; 32]);
        assert_eq!(table.find(&[7; 32]).expect("now known"), slot);
    }

    #[test]
    fn prop_words_keep_bytes_and_order() {
        arbtest::arbtest(|u| {
            let ids: [[u8; 32]; 2] = u.arbitrary()?;
            let words = ids.map(|id| Words::of(&id));
            assert_eq!(words.map(Words::bytes), ids);
            assert_eq!(words[0].cmp(&words[1]), ids[0].cmp(&ids[1]));
            Ok(())
        });
    }
}
