//! A map that remembers what it held before.
//!
//! Blocks that are not final yet may be dropped, so everything the queue knows stands in such maps:
//! undoing a block costs as much as it has changed, not as much as there is.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

/// A map with the old values of everything changed since it was last settled.
#[derive(Clone, Debug)]
pub(crate) struct Kept<K, V> {
    map: BTreeMap<K, V>,
    log: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self { map: BTreeMap::new(), log: Vec::new() }
    }
}

/// What a map holds is what it is; how it got there is not.
impl<K: PartialEq, V: PartialEq> PartialEq for Kept<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}

impl<K: Ord + Copy, V: Clone> Kept<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        let old = self.map.insert(key, value);
        self.log.push((key, old));
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let old = self.map.remove(key)?;
        self.log.push((*key, Some(old.clone())));
        Some(old)
    }

    /// Changes a value in its place; `None` if there is none.
    pub(crate) fn change<R>(&mut self, key: &K, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let value = self.map.get_mut(key)?;
        self.log.push((*key, Some(value.clone())));
        Some(change(value))
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.map.iter()
    }

    pub(crate) fn range(
        &self,
        range: impl RangeBounds<K>,
    ) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.map.range(range)
    }

    /// Where the log stands now.
    pub(crate) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Back to what was held at a mark.
    pub(crate) fn undo(&mut self, mark: usize) {
        while self.log.len() > mark {
            let Some((key, old)) = self.log.pop() else { return };
            match old {
                Some(value) => self.map.insert(key, value),
                None => self.map.remove(&key),
            };
        }
    }

    /// Nothing before now is ever undone.
    pub(crate) fn settle(&mut self) {
        self.log.clear();
    }
}
