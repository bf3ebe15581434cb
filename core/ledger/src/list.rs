//! Lists of ids: registered nodes, waiting jobs, results that wait for their beacon. The state has
//! no order of its own and is read key by key, so whatever the ledger has to go through lies in
//! pages of bounded size, and a place in a list is found by its number.
//!
//! An id that is taken out leaves a hole; a page of holes only is not stored. Numbers grow for ever
//! and are never used twice, except where [`set`] puts another id into a place.

use std::ops::Range;

use tg_types::ids::{Noun, StateKey};
use tg_types::{Decode, DecodeError, Encode, Height, Reader, TimeError};

use crate::entry::{Entry, entry};
use crate::error::Stop;
use crate::job::QueueRow;
use crate::keys;
use crate::session::Session;

/// Ids in one page: a page stays near 2 KiB.
pub const LIST_PAGE_MAX: u64 = 64;

/// Pages of holes that a block skips at the front of a list: more than a block can fill.
const SKIPPED_PAGES_MAX: u64 = 1_024;

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOf {
    /// All registered nodes, without holes.
    Nodes,
    /// Jobs that wait for a node and offer about the same.
    Queue(QueueRow),
    /// Jobs with a result that was committed to at a height, or whose checkers of tiles may show
    /// their answers since: both wait for the same beacon.
    Commits(Height),
    /// Nodes that wait since a height for the beacon that asks them or draws for them.
    Capacities(Height),
    /// Jobs whose promises are to be decided about.
    Promises,
    /// Jobs whose promises were given, and whoever had them failed: they come before all others.
    Renewals,
    /// Jobs with a run that may have to yield.
    Yielding,
    /// Jobs for several nodes that wait for them.
    Gangs,
}

impl ListOf {
    /// The numbers that make keys of this list.
    pub(crate) const fn numbers(self) -> [u64; 2] {
        match self {
            Self::Nodes => [1, 0],
            Self::Queue(row) => [2, row.get() as u64],
            Self::Commits(height) => [3, height.get()],
            Self::Capacities(height) => [4, height.get()],
            Self::Promises => [5, 0],
            Self::Renewals => [6, 0],
            Self::Yielding => [7, 0],
            Self::Gangs => [8, 0],
        }
    }
}

entry! {
    /// The bounds of a list.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ListHead {
        /// No id stands before this place.
        pub first: u64,
        /// The place of the next id.
        pub next: u64,
        /// The place that is looked at next, in a list that blocks go through bit by bit. In the
        /// state, as [`crate::cursor`] is, but here, because few lists are gone through at a time.
        pub at: u64,
    }
}

impl Entry for ListHead {
    const NOUN: Noun = Noun::List;
}

entry! {
    /// Some ids of a list.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ListPage {
        /// From the page's first place on.
        pub items: ListItems,
    }
}

impl Entry for ListPage {
    const NOUN: Noun = Noun::List;
}

/// At most [`LIST_PAGE_MAX`] ids, each in its place, and holes where none stands. In bytes: one bit
/// for every place, the first place in the lowest, and then the ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListItems {
    present: u64,
    ids: Vec<[u8; 32]>,
}

const _: () = assert!(LIST_PAGE_MAX == u64::BITS as u64);

impl ListItems {
    /// The id at a place of the page, if one stands there.
    pub fn get(&self, place: u64) -> Option<[u8; 32]> {
        let is_here = place < LIST_PAGE_MAX && self.present >> place & 1 == 1;
        if is_here { self.ids.get(self.rank(place)).copied() } else { None }
    }

    /// The ids with their places in the page.
    pub fn iter(&self) -> impl Iterator<Item = (u64, [u8; 32])> {
        let places = (0..LIST_PAGE_MAX).filter(|place| self.present >> place & 1 == 1);
        places.zip(self.ids.iter().copied())
    }

    /// Puts an id or a hole into a place of the page.
    fn set(&mut self, place: u64, id: Option<[u8; 32]>) {
        let (rank, bit) = (self.rank(place), 1 << place);
        match (id, self.present & bit != 0) {
            (Some(id), true) => self.ids[rank] = id,
            (Some(id), false) => self.ids.insert(rank, id),
            (None, true) => drop(self.ids.remove(rank)),
            (None, false) => {}
        }
        self.present = if id.is_some() { self.present | bit } else { self.present & !bit };
    }

    /// How many ids stand before a place of the page.
    const fn rank(&self, place: u64) -> usize {
        (self.present & ((1 << place) - 1)).count_ones() as usize
    }
}

impl Encode for ListItems {
    fn encode(&self, out: &mut Vec<u8>) {
        self.present.encode(out);
        for id in &self.ids {
            id.encode(out);
        }
    }
}

impl Decode for ListItems {
    const BYTES_MIN: usize = 8;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let present = u64::decode(reader)?;
        // Taken at once, so that nothing is reserved for ids that are not there.
        let bytes = reader.take(present.count_ones() as usize * 32)?;
        let (ids, _) = bytes.as_chunks::<32>();
        Ok(Self { present, ids: ids.to_vec() })
    }
}

/// The bounds of a list; one that was never used is empty.
pub(crate) fn head(session: &mut Session<'_>, list: ListOf) -> Result<ListHead, Stop> {
    let head = session.tables.list_heads.get(&keys::list_head_id(list))?;
    Ok(head.copied().unwrap_or_default())
}

/// Loads what [`push`] needs.
pub(crate) fn load_end(session: &mut Session<'_>, list: ListOf) -> Result<(), Stop> {
    let next = head(session, list)?.next;
    if next % LIST_PAGE_MAX == 0 {
        return Ok(()); // the bounds say that the page does not exist
    }
    session.tables.list_pages.find(&page_id(list, next)).map(drop)
}

/// Puts an id behind the last and says where.
pub(crate) fn push(session: &mut Session<'_>, list: ListOf, id: [u8; 32]) -> Result<u64, Stop> {
    let head = head(session, list)?;
    let place = head.next;
    let next = place.checked_add(1).ok_or(TimeError::Overflow)?;
    if place % LIST_PAGE_MAX == 0 {
        // The bounds say that the page does not exist, so it need not be looked for.
        session.tables.list_pages.find_new(&page_id(list, place));
    }
    set(session, list, place, Some(id))?;
    session.tables.list_heads.put(&keys::list_head_id(list), Some(ListHead { next, ..head }))?;
    Ok(place)
}

/// The id at a place, if there is one.
pub(crate) fn get(
    session: &mut Session<'_>,
    list: ListOf,
    place: u64,
) -> Result<Option<[u8; 32]>, Stop> {
    let page = session.tables.list_pages.get(&page_id(list, place))?;
    Ok(page.and_then(|page| page.items.get(place % LIST_PAGE_MAX)))
}

/// Puts an id or a hole into a place.
pub(crate) fn set(
    session: &mut Session<'_>,
    list: ListOf,
    place: u64,
    id: Option<[u8; 32]>,
) -> Result<(), Stop> {
    let slot = session.tables.list_pages.find(&page_id(list, place))?;
    let page = session.tables.list_pages.at_mut(slot);
    let items = &mut page.get_or_insert_default().items;
    items.set(place % LIST_PAGE_MAX, id);
    if items.ids.is_empty() {
        *page = None;
    }
    Ok(())
}

/// Takes the last id off a list without holes.
pub(crate) fn pop(session: &mut Session<'_>, list: ListOf) -> Result<(), Stop> {
    let head = head(session, list)?;
    let Some(last) = head.next.checked_sub(1) else {
        return Ok(());
    };
    set(session, list, last, None)?;
    let head = ListHead { next: last, ..head };
    session.tables.list_heads.put(&keys::list_head_id(list), Some(head))
}

/// Moves the front of a list behind its holes; gives the bounds. Done once in a block and not
/// whenever an id is taken out, because it may look at many pages.
pub(crate) fn skip_holes(session: &mut Session<'_>, list: ListOf) -> Result<ListHead, Stop> {
    skip_some_holes(session, list, SKIPPED_PAGES_MAX * LIST_PAGE_MAX)
}

/// The same, over so many places at most.
pub(crate) fn skip_some_holes(
    session: &mut Session<'_>,
    list: ListOf,
    reach: u64,
) -> Result<ListHead, Stop> {
    let head = head(session, list)?;
    if head.first >= head.next || get(session, list, head.first)?.is_some() {
        return Ok(head);
    }
    let end = head.next.min(head.first.saturating_add(reach));
    let found = range(session, list, head.first..end)?;
    let first = found.first().map_or(end, |(place, _)| *place);
    let head = ListHead { first, ..head };
    session.tables.list_heads.put(&keys::list_head_id(list), Some(head))?;
    Ok(head)
}

/// Says where the next block goes on looking.
pub(crate) fn set_at(session: &mut Session<'_>, list: ListOf, at: u64) -> Result<(), Stop> {
    let head = ListHead { at, ..head(session, list)? };
    session.tables.list_heads.put(&keys::list_head_id(list), Some(head))
}

/// Forgets a list all of whose ids were taken out.
pub(crate) fn forget(session: &mut Session<'_>, list: ListOf) -> Result<(), Stop> {
    session.tables.list_heads.put(&keys::list_head_id(list), None)
}

/// Loads pages of lists. Those that were begun in this block are here already, and the view does
/// not know of them: asking for them would make the whole block be executed again.
pub(crate) fn load_pages(session: &mut Session<'_>, pages: &[(ListOf, u64)]) -> Result<(), Stop> {
    let older = pages.iter().filter(|(list, page)| {
        let id = keys::list_page_id(*list, *page);
        !session.tables.list_pages.has(&id)
    });
    let older: Vec<StateKey> = older.map(|(list, page)| keys::list_page(*list, *page)).collect();
    session.require(&older)
}

/// The ids between two places with their places, loaded in one go.
pub(crate) fn range(
    session: &mut Session<'_>,
    list: ListOf,
    places: Range<u64>,
) -> Result<Vec<(u64, [u8; 32])>, Stop> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let pages = places.start / LIST_PAGE_MAX..places.end.div_ceil(LIST_PAGE_MAX);
    let wanted: Vec<_> = pages.clone().map(|page| (list, page)).collect();
    load_pages(session, &wanted)?;
    let mut found = Vec::new();
    for page in pages {
        if let Some(entry) = session.tables.list_pages.get(&keys::list_page_id(list, page))? {
            let items = entry.items.iter().map(|(place, id)| (page * LIST_PAGE_MAX + place, id));
            found.extend(items.filter(|(place, _)| places.contains(place)));
        }
    }
    Ok(found)
}

fn page_id(list: ListOf, place: u64) -> [u8; 32] {
    keys::list_page_id(list, place / LIST_PAGE_MAX)
}

#[cfg(test)]
mod tests {
    use super::ListItems;
    use tg_types::{Decode, Encode};

    /// Goal: ids stand where they were put, and bytes have one form. Method: random changes, held
    /// against an array of options.
    #[test]
    fn prop_items_are_an_array_with_holes() {
        arbtest::arbtest(|u| {
            let mut items = ListItems::default();
            let mut expected = [None; 64];
            for _ in 0..u.int_in_range(0..=100)? {
                let place = u.int_in_range(0..=63_u8)?;
                let id = u.arbitrary::<bool>()?.then_some([u.arbitrary()?; 32]);
                items.set(place.into(), id);
                expected[usize::from(place)] = id;
            }
            for (place, id) in (0..).zip(expected) {
                assert_eq!(items.get(place), id);
            }
            assert_eq!(items.get(64), None);
            let full = (0..).zip(expected).filter_map(|(place, id)| Some((place, id?)));
            assert!(items.iter().eq(full));
            let bytes = items.to_bytes();
            assert_eq!(ListItems::from_bytes(&bytes), Ok(items));
            for end in 0..bytes.len() {
                assert!(ListItems::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
            }
            Ok(())
        });
    }
}
