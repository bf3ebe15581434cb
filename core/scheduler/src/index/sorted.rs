//! Things in order, in blocks: changed and found by touching little memory, however many there are.

/// Things in order, each once, in blocks of which none is empty. Larger blocks take longer to
/// change, smaller ones longer to pass.
#[derive(Clone, Debug)]
pub(super) struct Sorted<T, const BLOCK: usize> {
    /// The first of each block, so that a search looks into one block only.
    heads: Vec<T>,
    blocks: Vec<Vec<T>>,
}

/// Where something would be: in which block, and where within it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    at: usize,
    within: usize,
}

impl<T, const BLOCK: usize> Default for Sorted<T, BLOCK> {
    fn default() -> Self {
        Self { heads: Vec::new(), blocks: Vec::new() }
    }
}

impl<T: Copy + Ord, const BLOCK: usize> Sorted<T, BLOCK> {
    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub(super) fn first(&self) -> Option<&T> {
        self.heads.first()
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten()
    }

    /// The same, block by block.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[T]> {
        self.blocks.iter().map(Vec::as_slice)
    }

    /// The one that equals this, or where it would be.
    pub(super) fn search(&self, thing: &T) -> Result<&T, Place> {
        let at = self.block_of(thing).unwrap_or(0);
        let Some(block) = self.blocks.get(at) else { return Err(Place { at, within: 0 }) };
        match block.binary_search(thing) {
            Ok(place) => Ok(&block[place]),
            Err(within) => Err(Place { at, within }),
        }
    }

    /// Adds one that is not there.
    pub(super) fn insert(&mut self, thing: T) {
        let at = self.block_of(&thing).unwrap_or(0);
        let block = self.blocks.get(at).map_or(&[][..], Vec::as_slice);
        let is_last = block.last().is_some_and(|last| *last < thing);
        let within =
            if is_last { block.len() } else { block.partition_point(|other| *other < thing) };
        self.insert_at(Place { at, within }, thing);
    }

    /// Adds one where it would be.
    pub(super) fn insert_at(&mut self, place: Place, thing: T) {
        let Place { at, within } = place;
        let count = self.blocks.len();
        // What comes at the end leaves full blocks behind, not half of them.
        let is_full = |block: &Vec<T>| block.len() == BLOCK && within == BLOCK && at + 1 == count;
        let Some(block) = self.blocks.get_mut(at).filter(|block| !is_full(block)) else {
            self.heads.push(thing);
            self.blocks.push(vec![thing]);
            return;
        };
        block.insert(within, thing);
        self.heads[at] = block[0];
        if block.len() > BLOCK {
            let tail = block.split_off(BLOCK / 2);
            self.heads.insert(at + 1, tail[0]);
            self.blocks.insert(at + 1, tail);
        }
    }

    /// Takes away the one that equals this.
    pub(super) fn remove(&mut self, thing: &T) -> Option<T> {
        let at = self.block_of(thing)?;
        let block = &mut self.blocks[at];
        // Tasks go from the front.
        let place = if block[0] == *thing { 0 } else { block.binary_search(thing).ok()? };
        let removed = block.remove(place);
        if let Some(head) = block.first() {
            self.heads[at] = *head;
        } else {
            self.heads.remove(at);
            self.blocks.remove(at);
        }
        Some(removed)
    }

    /// How many come before this one.
    pub(super) fn place(&self, thing: &T) -> usize {
        let after = self.heads.partition_point(|head| head < thing);
        let Some(at) = after.checked_sub(1) else { return 0 };
        let before: usize = self.blocks[..at].iter().map(Vec::len).sum();
        before + self.blocks[at].partition_point(|other| other < thing)
    }

    /// The one before which so many come.
    pub(super) fn get(&self, mut place: usize) -> Option<&T> {
        for block in &self.blocks {
            match block.get(place) {
                Some(thing) => return Some(thing),
                None => place -= block.len(),
            }
        }
        None
    }

    /// The block in which this is or would be; `None` if it comes before all others.
    fn block_of(&self, thing: &T) -> Option<usize> {
        // Tasks come at the end.
        if self.heads.last().is_some_and(|last| last <= thing) {
            return Some(self.heads.len() - 1);
        }
        if self.heads.first() == Some(thing) {
            return Some(0);
        }
        self.heads.partition_point(|head| head <= thing).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Sorted;
    use std::collections::BTreeSet;

    /// Goal: the blocks are but one sorted list. Method: random changes beside a set, many of them
    /// at the end as tasks come, and every question against what the set answers.
    #[test]
    fn prop_blocks_answer_as_a_set_does() {
        arbtest::arbtest(|u| {
            let (mut sorted, mut plain) = (Sorted::<u32, 16>::default(), BTreeSet::new());
            for next in 0..u.int_in_range(0..=900)? {
                let number = if u.ratio(3, 4)? { next } else { u.int_in_range(0..=900)? };
                if plain.insert(number) {
                    sorted.insert(number);
                }
                if u.ratio(1, 3)? {
                    let number = u.int_in_range(0..=900)?;
                    assert_eq!(sorted.remove(&number), plain.take(&number));
                }
            }
            let asked = u.int_in_range(0..=900)?;
            assert_eq!(sorted.search(&asked).ok(), plain.get(&asked));
            if let Err(place) = sorted.search(&asked) {
                let mut with = sorted.clone();
                with.insert_at(place, asked);
                assert!(with.iter().eq(plain.iter().chain([&asked]).collect::<BTreeSet<_>>()));
            }
            assert_eq!(sorted.place(&asked), plain.range(..asked).count());
            assert_eq!(sorted.get(asked as usize), plain.iter().nth(asked as usize));
            assert_eq!(sorted.first(), plain.first());
            assert_eq!(sorted.is_empty(), plain.is_empty());
            assert!(sorted.iter().eq(&plain));
            Ok(())
        });
    }
}
