//! Nodes in the same state, ordered so that any place can be found without passing the others.

use super::sorted::Sorted;

/// A node in a group. What is left of processor and memory orders them, then their ids: nothing
/// depends on when a node came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub(super) cpu_milli: u32,
    pub(super) ram_mib: u32,
    /// Of the node's id.
    pub(super) key: u64,
    pub(super) slot: u32,
}

/// Members of a block.
const BLOCK: usize = 128;

/// Members in order.
#[derive(Clone, Debug)]
pub(super) enum Ranked {
    /// Most groups have one node.
    One(Member),
    Many(Sorted<Member, BLOCK>),
}

impl Default for Ranked {
    fn default() -> Self {
        Self::Many(Sorted::default())
    }
}

impl Ranked {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::One(_) => false,
            Self::Many(members) => members.is_empty(),
        }
    }

    pub(super) fn insert(&mut self, member: Member) {
        match self {
            Self::One(first) => {
                let mut members = Sorted::default();
                members.insert(*first);
                members.insert(member);
                *self = Self::Many(members);
            }
            Self::Many(members) if members.is_empty() => *self = Self::One(member),
            Self::Many(members) => members.insert(member),
        }
    }

    pub(super) fn remove(&mut self, member: Member) {
        match self {
            Self::One(first) if *first == member => *self = Self::default(),
            Self::One(_) => {}
            Self::Many(members) => drop(members.remove(&member)),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.blocks().map(<[Member]>::len).sum()
    }

    /// All of them, in order, block by block.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[Member]> {
        let (one, many) = match self {
            Self::One(member) => (Some(std::slice::from_ref(member)), None),
            Self::Many(members) => (None, Some(members.blocks())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// The one with the least number, and that number; the first of several.
    pub(super) fn drawn(&self, number_of: impl Fn(&Member) -> u64) -> Option<(u64, u32)> {
        let mut drawn: Option<(u64, u32)> = None;
        for block in self.blocks() {
            let (mut least, mut slot) = drawn.unwrap_or((u64::MAX, u32::MAX));
            for member in block {
                let number = number_of(member);
                if number < least || slot == u32::MAX {
                    (least, slot) = (number, member.slot);
                }
            }
            drawn = Some((least, slot));
        }
        drawn
    }

    /// One of those with the least processor and then memory that is enough, chosen by the draw
    /// among equals, and the next ones after it if it is not allowed.
    pub(super) fn pick(
        &self,
        needed: [u32; 2],
        draw: u64,
        is_allowed: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let [cpu_milli, ram_mib] = needed;
        let members = match self {
            Self::One(member) => {
                let is_enough = member.cpu_milli >= cpu_milli && member.ram_mib >= ram_mib;
                return (is_enough && is_allowed(member.slot)).then_some(member.slot);
            }
            Self::Many(members) => members,
        };
        let mut from = members.place(&Member { cpu_milli, ram_mib: 0, key: 0, slot: 0 });
        while let Some(first) = members.get(from) {
            if first.ram_mib < ram_mib {
                let next = Member { ram_mib, key: 0, slot: 0, ..*first };
                from = members.place(&next).max(from + 1);
                continue;
            }
            let last = Member { key: u64::MAX, slot: u32::MAX, ..*first };
            let count = members.place(&last) - from;
            let turn = usize::try_from(draw % count as u64).unwrap_or(0);
            let ring = (turn..count).chain(0..turn);
            let allowed = ring.filter_map(|at| members.get(from + at)).map(|member| member.slot);
            if let Some(slot) = allowed.into_iter().find(|slot| is_allowed(*slot)) {
                return Some(slot);
            }
            from += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Member, Ranked};

    /// Goal: the blocks are but one sorted list. Method: random changes beside a plain list, and
    /// every pick against what a search through the list finds.
    #[test]
    fn prop_pick_is_that_of_a_sorted_list() {
        arbtest::arbtest(|u| {
            let (mut ranked, mut plain) = (Ranked::default(), Vec::new());
            for slot in 0..u.int_in_range(0..=700)? {
                let member = Member {
                    cpu_milli: u.int_in_range(0..=3)?,
                    ram_mib: u.int_in_range(0..=3)?,
                    key: u.arbitrary()?,
                    slot,
                };
                plain.push(member);
                ranked.insert(member);
                if u.ratio(1, 3)? {
                    ranked.remove(plain.swap_remove(u.choose_index(plain.len())?));
                }
            }
            plain.sort_unstable();
            let (cpu, ram, draw) =
                (u.int_in_range(0..=4)?, u.int_in_range(0..=4)?, u.arbitrary::<u64>()?);
            let odd = u.arbitrary::<bool>()?;
            let is_allowed = |slot: u32| !odd || slot % 2 == 1;
            let fits = |it: &&Member| it.cpu_milli >= cpu && it.ram_mib >= ram;
            let fitting: Vec<&Member> = plain.iter().filter(fits).collect();
            let best = fitting.iter().find(|it| is_allowed(it.slot));
            let expected = best.map(|best| {
                let same =
                    |it: &&&Member| (it.cpu_milli, it.ram_mib) == (best.cpu_milli, best.ram_mib);
                let equals: Vec<&&Member> = fitting.iter().filter(same).collect();
                let turn = (draw % equals.len() as u64) as usize;
                let mut ring = equals[turn..].iter().chain(&equals[..turn]);
                ring.find(|it| is_allowed(it.slot)).expect("one is allowed").slot
            });
            assert_eq!(ranked.pick([cpu, ram], draw, is_allowed), expected);
            assert_eq!(ranked.is_empty(), plain.is_empty());
            Ok(())
        });
    }
}
