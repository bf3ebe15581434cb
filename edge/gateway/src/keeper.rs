//! What a validator keeps, for whom and until when. Pure bookkeeping; the bytes are elsewhere.
//!
//! Keeping is paid for by the transaction that names a package on chain. Until there is one, a
//! package is kept for a moment and on credit: so much for one peer, so much for all.

use crate::package::PACKAGE_BYTES_MAX;
use std::collections::BTreeMap;
use tg_net::{BlobId, PeerId, ROOM_LEFT_BYTES};
use tg_types::{DurationMs, JobId, Tick};

/// How long a package is kept that nothing on chain names, and by how much that is extended for
/// those who hand it in again.
const UNNAMED_KEPT: DurationMs = DurationMs::new(10 * 60 * 1000);

/// How fast a package must come at least, on the whole. Slower than the lines of homes.
const ARRIVAL_BYTES_PER_SECOND: u64 = 1 << 20;

/// What packages on credit may take of a validator's memory: several of them run on one machine.
const MEMORY_BYTES_MAX: u64 = 2 << 30;

/// Where a package lies, which is what it takes credit of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Memory,
    Disk,
}

/// What may be kept on credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credit {
    place: Place,
    /// Bytes for one peer.
    per_peer: u64,
    /// Bytes for all.
    all: u64,
}

impl Credit {
    /// In memory, of which there is little.
    const IN_MEMORY: Self =
        Self { place: Place::Memory, per_peer: MEMORY_BYTES_MAX / 2, all: MEMORY_BYTES_MAX };

    /// On a disk with so many bytes free: a quarter of them for one peer, half for all, and never
    /// more than one package of the largest size for one, and four of them for all. In memory if
    /// there is no disk.
    pub(crate) fn with_free(free: Option<u64>) -> Self {
        let Some(free) = free else { return Self::IN_MEMORY };
        let free = free.saturating_sub(ROOM_LEFT_BYTES);
        Self {
            place: Place::Disk,
            per_peer: (free / 4).min(PACKAGE_BYTES_MAX),
            all: (free / 2).min(PACKAGE_BYTES_MAX.saturating_mul(4)),
        }
    }
}

/// The packages a validator keeps.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    held: BTreeMap<BlobId, Held>,
    /// Bytes on credit, where and by whom.
    credit: BTreeMap<(Place, PeerId), u64>,
}

#[derive(Debug)]
struct Held {
    bytes: u64,
    until: Tick,
    /// How far that is extended for those who hand it in again: credit is not for occupying.
    until_max: Tick,
    /// Whether all of it has arrived.
    is_here: bool,
    /// Who handed it in and what it takes credit of, as long as nothing on chain names it.
    on_credit: Option<(Place, PeerId)>,
    named_by: NamedBy,
}

/// Which jobs name a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedBy {
    Nobody,
    One(JobId),
    /// More than one, or it is not known.
    Several,
}

/// Whether there is room for a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It is here, or on its way.
    Held,
    /// Room was made.
    Made,
    /// One of this name has another size, so this one is none.
    OtherSize,
    /// There is none.
    None,
}

impl Keeper {
    /// Makes room for a package that a peer hands in.
    pub(crate) fn reserve(
        &mut self,
        peer: PeerId,
        id: BlobId,
        bytes: u64,
        now: Tick,
        credit: Credit,
    ) -> Room {
        let arrival = bytes / ARRIVAL_BYTES_PER_SECOND * 1000;
        let until = later(later(now, UNNAMED_KEPT), DurationMs::new(arrival));
        if let Some(held) = self.held.get_mut(&id) {
            if held.bytes != bytes {
                return Room::OtherSize;
            }
            held.until = held.until.max(until.min(held.until_max));
            return Room::Held;
        }
        let debtor = (credit.place, peer);
        let of_place = self.credit.iter().filter(|((place, _), _)| *place == credit.place);
        let total: u64 = of_place.map(|(_, bytes)| bytes).sum();
        let of_peer = self.credit.get(&debtor).copied().unwrap_or(0);
        let fits = |sum: u64, max: u64| sum.checked_add(bytes).is_some_and(|sum| sum <= max);
        if !fits(total, credit.all) || !fits(of_peer, credit.per_peer) {
            return Room::None;
        }
        self.credit.insert(debtor, of_peer + bytes);
        let until_max = later(until, UNNAMED_KEPT);
        let on_credit = Some(debtor);
        let (is_here, named_by) = (false, NamedBy::Nobody);
        self.held.insert(id, Held { bytes, until, until_max, is_here, on_credit, named_by });
        Room::Made
    }

    /// A package is here now: from its arrival on it has as long to be named as any other. Says
    /// whether it is still to be kept.
    pub(crate) fn arrived(&mut self, id: &BlobId, now: Tick) -> bool {
        let Some(held) = self.held.get_mut(id) else { return false };
        if !held.is_here && held.on_credit.is_some() {
            held.until = later(now, UNNAMED_KEPT);
            held.until_max = later(held.until, UNNAMED_KEPT);
        }
        held.is_here = true;
        true
    }

    /// A package does not come: gives it up, unless it is here.
    pub(crate) fn failed(&mut self, id: &BlobId) {
        if self.held.get(id).is_some_and(|held| !held.is_here) {
            self.forget(id);
        }
    }

    /// Whether a package is kept.
    pub(crate) fn holds(&self, id: &BlobId) -> bool {
        self.held.contains_key(id)
    }

    /// Takes in what was kept before this process began.
    pub(crate) fn adopt(&mut self, id: BlobId, bytes: u64, until: Tick) {
        let until_max = later(until, UNNAMED_KEPT);
        let (is_here, on_credit, named_by) = (true, None, NamedBy::Several);
        let held = Held { bytes, until, until_max, is_here, on_credit, named_by };
        self.held.entry(id).or_insert(held);
    }

    /// Something on chain names a package: it is paid for, and kept at least until then.
    pub(crate) fn name(&mut self, id: &BlobId, until: Tick) {
        let Some(held) = self.held.get_mut(id) else { return };
        held.until = held.until.max(until);
        held.until_max = held.until_max.max(later(until, UNNAMED_KEPT));
        let (debtor, bytes) = (held.on_credit.take(), held.bytes);
        self.repay(debtor, bytes);
    }

    /// A job names a package. What several name, or was kept before this process began, is nobody's
    /// alone: anybody may name what another has handed in.
    pub(crate) fn claim(&mut self, id: &BlobId, job: JobId) {
        let Some(held) = self.held.get_mut(id) else { return };
        held.named_by = match held.named_by {
            NamedBy::Nobody => NamedBy::One(job),
            NamedBy::One(other) if other == job => NamedBy::One(job),
            NamedBy::One(_) | NamedBy::Several => NamedBy::Several,
        };
    }

    /// Something newer has taken a package's place for the only job that names it: it is kept for a
    /// moment, for whoever reads it now.
    pub(crate) fn supersede(&mut self, id: &BlobId, job: JobId, now: Tick) {
        if let Some(held) = self.held.get_mut(id)
            && held.named_by == NamedBy::One(job)
        {
            held.until = held.until.min(later(now, UNNAMED_KEPT));
        }
    }

    /// Keeps everything at least until then: for when it is not known what the chain names.
    pub(crate) fn extend_all(&mut self, until: Tick) {
        for held in self.held.values_mut() {
            held.until = held.until.max(until);
        }
    }

    /// Gives a package up.
    fn forget(&mut self, id: &BlobId) {
        if let Some(held) = self.held.remove(id) {
            self.repay(held.on_credit, held.bytes);
        }
    }

    /// Gives up what need not be kept any more, and says what that is.
    pub(crate) fn expire(&mut self, now: Tick) -> Vec<BlobId> {
        let over = self.held.iter().filter(|(_, held)| held.until <= now);
        let over: Vec<BlobId> = over.map(|(id, _)| *id).collect();
        over.iter().for_each(|id| self.forget(id));
        over
    }

    fn repay(&mut self, debtor: Option<(Place, PeerId)>, bytes: u64) {
        let Some(debtor) = debtor else { return };
        let left = self.credit.remove(&debtor).unwrap_or(0).saturating_sub(bytes);
        if left > 0 {
            self.credit.insert(debtor, left);
        }
    }
}

/// A later time; the last one if there is none so late.
pub(crate) fn later(now: Tick, span: DurationMs) -> Tick {
    now.plus(span).unwrap_or(Tick::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Credit, Keeper, Room, UNNAMED_KEPT, later};
    use crate::package::PACKAGE_BYTES_MAX;
    use tg_net::{BlobId, PeerId, ROOM_LEFT_BYTES};
    use tg_types::{JobId, SecretKey, Tick};

    const CREDIT: Credit = Credit::IN_MEMORY;

    fn peer(number: u8) -> PeerId {
        PeerId::of(&SecretKey::from_seed([number; 32]))
    }

    fn blob(number: u8) -> BlobId {
        BlobId::new([number; 32])
    }

    #[test]
    fn package_that_nothing_names_goes_soon_and_a_named_one_stays_until_its_date() {
        let mut keeper = Keeper::default();
        let (now, soon) = (Tick::ZERO, later(Tick::ZERO, UNNAMED_KEPT));
        let date = later(soon, UNNAMED_KEPT);
        for number in [1, 2] {
            assert_eq!(keeper.reserve(peer(1), blob(number), 10, now, CREDIT), Room::Made);
        }
        keeper.name(&blob(2), date);
        keeper.name(&blob(9), date); // of somebody else's keeping
        assert_eq!(keeper.expire(now), []);
        assert_eq!(keeper.expire(soon), [blob(1)]);
        keeper.name(&blob(2), now); // a date never comes nearer
        assert_eq!(keeper.expire(soon), []);
        assert_eq!(keeper.expire(date), [blob(2)]);
        assert!(keeper.held.is_empty() && keeper.credit.is_empty());
    }

    /// Goal: a checkpoint that was replaced goes soon, and nobody can have another's package given
    /// up by naming it. Method: one package each that one job names, that two name, and that was
    /// there before.
    #[test]
    fn package_is_superseded_only_by_the_one_job_that_names_it() {
        let mut keeper = Keeper::default();
        let (now, soon) = (Tick::ZERO, later(Tick::ZERO, UNNAMED_KEPT));
        let (own, other) = (JobId::new([1; 32]), JobId::new([2; 32]));
        let late = later(soon, UNNAMED_KEPT);
        for number in 1..=2 {
            assert_eq!(keeper.reserve(peer(1), blob(number), 10, now, CREDIT), Room::Made);
            keeper.name(&blob(number), late);
            keeper.claim(&blob(number), own);
        }
        keeper.claim(&blob(2), other);
        keeper.adopt(blob(3), 10, late);
        keeper.claim(&blob(3), own);
        for number in 1..=4 {
            keeper.supersede(&blob(number), other, now);
        }
        assert!(keeper.expire(soon).is_empty(), "it is another's");
        for number in 1..=4 {
            keeper.supersede(&blob(number), own, now);
        }
        assert_eq!(keeper.expire(soon), [blob(1)]);
        assert_eq!(keeper.expire(late), [blob(2), blob(3)]);
    }

    #[test]
    fn credit_is_bounded_for_one_and_for_all_and_is_given_back() {
        let mut keeper = Keeper::default();
        let now = Tick::ZERO;
        let full = CREDIT.per_peer;
        let mut reserve =
            |by: u8, number: u8, bytes| keeper.reserve(peer(by), blob(number), bytes, now, CREDIT);
        assert_eq!(reserve(1, 1, full + 1), Room::None);
        assert_eq!(reserve(1, 1, u64::MAX), Room::None);
        assert_eq!(reserve(1, 1, full), Room::Made);
        assert_eq!(reserve(1, 1, full), Room::Held);
        assert_eq!(reserve(2, 1, full), Room::Held);
        assert_eq!(reserve(1, 2, 1), Room::None);
        let all = u8::try_from(CREDIT.all / CREDIT.per_peer).expect("few");
        for number in 2..=all {
            assert_eq!(reserve(number, number, full), Room::Made);
        }
        assert_eq!(reserve(99, 99, 1), Room::None);
        keeper.name(&blob(1), now); // and so paid for
        assert_eq!(keeper.reserve(peer(99), blob(99), 1, now, CREDIT), Room::Made);
        keeper.failed(&blob(2));
        assert_eq!(keeper.reserve(peer(2), blob(100), full - 1, now, CREDIT), Room::Made);
    }

    #[test]
    fn credit_on_a_disk_is_a_part_of_what_is_free() {
        assert_eq!(Credit::with_free(None), CREDIT);
        let of = |free: u64| {
            let Credit { per_peer, all, .. } = Credit::with_free(Some(free));
            (per_peer, all)
        };
        assert_eq!(of(ROOM_LEFT_BYTES), (0, 0));
        assert_eq!(of(ROOM_LEFT_BYTES + 400), (100, 200));
        assert_eq!(of(u64::MAX), (PACKAGE_BYTES_MAX, 4 * PACKAGE_BYTES_MAX));
    }

    #[test]
    fn large_package_has_time_to_arrive_and_then_as_long_as_any_other() {
        let mut keeper = Keeper::default();
        let (now, soon) = (Tick::ZERO, later(Tick::ZERO, UNNAMED_KEPT));
        assert_eq!(keeper.reserve(peer(1), blob(1), 1 << 30, now, CREDIT), Room::Made);
        assert_eq!(keeper.expire(soon), []);
        assert!(keeper.arrived(&blob(1), now));
        assert_eq!(keeper.expire(soon), [blob(1)]);
        assert!(!keeper.arrived(&blob(1), soon), "it came too late");
    }

    #[test]
    fn package_of_another_size_than_the_held_one_is_refused_and_changes_nothing() {
        let mut keeper = Keeper::default();
        let (now, soon) = (Tick::ZERO, later(Tick::ZERO, UNNAMED_KEPT));
        assert_eq!(keeper.reserve(peer(1), blob(1), 10, now, CREDIT), Room::Made);
        for bytes in [0, 9, 11, u64::MAX] {
            assert_eq!(keeper.reserve(peer(2), blob(1), bytes, now, CREDIT), Room::OtherSize);
        }
        assert_eq!(keeper.credit.values().sum::<u64>(), 10);
        assert_eq!(keeper.expire(soon), [blob(1)]);
    }

    #[test]
    fn package_handed_in_again_and_again_is_kept_for_one_extension_only() {
        let mut keeper = Keeper::default();
        let (start, first) = (Tick::ZERO, later(Tick::ZERO, UNNAMED_KEPT));
        let (second, third) = (later(first, UNNAMED_KEPT), Tick::MAX);
        let again = |keeper: &mut Keeper, now| {
            let room = keeper.reserve(peer(1), blob(1), 10, now, CREDIT);
            (room, keeper.arrived(&blob(1), now))
        };
        assert_eq!(again(&mut keeper, start), (Room::Made, true));
        assert_eq!(again(&mut keeper, start), (Room::Held, true));
        for now in [first, second, third] {
            assert_eq!(again(&mut keeper, now), (Room::Held, true), "nobody has swept yet");
        }
        assert_eq!(keeper.expire(first), []);
        assert_eq!(keeper.expire(second), [blob(1)]);

        // What is named has its own date, and one extension of that.
        assert_eq!(again(&mut keeper, start), (Room::Made, true));
        keeper.name(&blob(1), second);
        assert_eq!(again(&mut keeper, third), (Room::Held, true));
        assert_eq!(keeper.expire(second), []);
        assert_eq!(keeper.expire(later(second, UNNAMED_KEPT)), [blob(1)]);
    }

    #[test]
    fn package_that_is_here_is_not_given_up_when_another_source_fails() {
        let mut keeper = Keeper::default();
        for number in [1, 2] {
            let room = keeper.reserve(peer(1), blob(number), 10, Tick::ZERO, CREDIT);
            assert_eq!(room, Room::Made);
        }
        assert!(keeper.arrived(&blob(1), Tick::ZERO));
        keeper.adopt(blob(3), 10, Tick::MAX);
        for number in [1, 2, 3] {
            keeper.failed(&blob(number));
        }
        assert_eq!([1, 2, 3].map(|number| keeper.holds(&blob(number))), [true, false, true]);
    }

    #[test]
    fn credit_in_memory_and_on_a_disk_are_counted_apart() {
        let mut keeper = Keeper::default();
        let (now, disk) = (Tick::ZERO, Credit::with_free(Some(ROOM_LEFT_BYTES + 400)));
        let full = CREDIT.per_peer;
        assert_eq!(keeper.reserve(peer(1), blob(1), full, now, CREDIT), Room::Made);
        assert_eq!(keeper.reserve(peer(1), blob(2), 1, now, CREDIT), Room::None);
        assert_eq!(keeper.reserve(peer(1), blob(2), 100, now, disk), Room::Made);
        assert_eq!(keeper.reserve(peer(1), blob(3), 1, now, disk), Room::None);
        keeper.failed(&blob(2));
        assert_eq!(keeper.reserve(peer(1), blob(3), 1, now, CREDIT), Room::None);
        assert_eq!(keeper.reserve(peer(1), blob(3), 100, now, disk), Room::Made);
    }

    #[test]
    fn prop_credit_is_the_sum_of_what_is_on_credit() {
        arbtest::arbtest(|u| {
            let mut keeper = Keeper::default();
            for _ in 0..u.int_in_range(0..=40)? {
                let (id, by) = (blob(u.int_in_range(0..=5)?), peer(u.int_in_range(1..=3)?));
                let now = Tick::new(u.int_in_range(0..=2_000_000)?);
                match u.int_in_range(0..=6)? {
                    0 | 1 => {
                        let had = keeper.held.get(&id).map(|held| held.bytes);
                        let bytes = u.int_in_range(0..=3)? << 28;
                        let free = u.arbitrary::<bool>()?.then_some(ROOM_LEFT_BYTES + (4 << 29));
                        let room = keeper.reserve(by, id, bytes, now, Credit::with_free(free));
                        assert_eq!(room == Room::Held, had == Some(bytes));
                        assert_eq!(room == Room::OtherSize, had.is_some_and(|had| had != bytes));
                    }
                    2 => keeper.name(&id, now),
                    3 => keeper.failed(&id),
                    4 => keeper.adopt(id, 7, now),
                    5 => assert_eq!(keeper.arrived(&id, now), keeper.holds(&id)),
                    _ => drop(keeper.expire(now)),
                }
                let owed = |held: &&super::Held| held.on_credit.is_some();
                let owed: u64 = keeper.held.values().filter(owed).map(|held| held.bytes).sum();
                assert_eq!(keeper.credit.values().sum::<u64>(), owed);
            }
            Ok(())
        });
    }
}
