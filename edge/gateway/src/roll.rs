//! Which validators answer, and which is asked first. With some of them dead nothing is known of
//! that but their silence. Waiting for it once is enough: a validator that was waited for in vain
//! is asked as before, but for a while nobody waits for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tg_net::PeerId;

/// How long a validator that was waited for in vain counts as silent, unless it is heard of.
const SILENT_SPAN: Duration = Duration::from_secs(10);

/// The validators in the order in which they are known.
pub(crate) struct Roll {
    validators: Vec<PeerId>,
    /// Since when validators were not heard of. A lock and not a channel: every call looks at it,
    /// briefly.
    silent: Mutex<BTreeMap<PeerId, Instant>>,
    /// The place of the one that is asked first.
    first: AtomicUsize,
}

impl Roll {
    pub(crate) fn new(validators: Vec<PeerId>) -> Self {
        Self { validators, silent: Mutex::default(), first: AtomicUsize::new(0) }
    }

    /// Who is in this place.
    pub(crate) fn at(&self, place: usize) -> Option<PeerId> {
        self.validators.get(place).copied()
    }

    /// The place of the one that is asked first.
    pub(crate) fn first(&self) -> usize {
        self.first.load(Ordering::Relaxed)
    }

    /// All places in the order in which they are asked: those that are silent last.
    pub(crate) fn order(&self) -> Vec<usize> {
        self.order_from(self.first())
    }

    fn order_from(&self, first: usize) -> Vec<usize> {
        let count = self.validators.len();
        let places = (0..count).map(|turn| (first + turn) % count);
        let is_silent = |place: &usize| self.at(*place).is_some_and(|peer| self.is_silent(&peer));
        let (silent, heard): (Vec<usize>, Vec<usize>) = places.partition(is_silent);
        [heard, silent].concat()
    }

    /// A validator has answered.
    pub(crate) fn heard(&self, peer: &PeerId) {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner).remove(peer);
    }

    /// A validator was waited for in vain.
    pub(crate) fn missed(&self, peer: PeerId) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.insert(peer, Instant::now());
    }

    /// Whether a validator was lately waited for in vain.
    pub(crate) fn is_silent(&self, peer: &PeerId) -> bool {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.get(peer).is_some_and(|since| since.elapsed() < SILENT_SPAN)
    }

    /// Asks `to` first from now on, unless somebody has turned away from `from` already.
    pub(crate) fn turn(&self, from: usize, to: usize) {
        let order = Ordering::Relaxed;
        let _somebody_else_did = self.first.compare_exchange(from, to, order, order);
    }

    /// Asks the next one that is not silent first from now on, if this one was asked first.
    pub(crate) fn turn_away(&self, from: usize) {
        let others = self.order_from(from).into_iter().find(|place| *place != from);
        self.turn(from, others.unwrap_or(from));
    }
}

#[cfg(test)]
mod tests {
    use super::Roll;
    use tg_net::PeerId;
    use tg_types::SecretKey;

    #[test]
    fn silent_validator_is_asked_last_until_it_is_heard() {
        let peer = |number: u8| PeerId::of(&SecretKey::from_seed([number; 32]));
        let roll = Roll::new((0..4).map(peer).collect());
        let check = |first: usize, order: [usize; 4]| {
            assert_eq!((roll.first(), roll.order()), (first, order.to_vec()));
        };
        check(0, [0, 1, 2, 3]);
        roll.missed(peer(1));
        check(0, [0, 2, 3, 1]);
        roll.turn_away(3);
        assert_eq!(roll.first(), 0, "another one was asked first");
        roll.turn_away(0);
        check(2, [2, 3, 0, 1]);
        roll.turn(0, 3);
        check(2, [2, 3, 0, 1]);
        roll.heard(&peer(1));
        check(2, [2, 3, 0, 1]);
        roll.turn(2, 1);
        check(1, [1, 2, 3, 0]);
    }

    #[test]
    fn lone_validator_is_always_asked() {
        let roll = Roll::new(vec![PeerId::of(&SecretKey::from_seed([1; 32]))]);
        roll.missed(PeerId::of(&SecretKey::from_seed([1; 32])));
        roll.turn_away(0);
        assert_eq!((roll.first(), roll.order()), (0, vec![0]));
        assert!(Roll::new(Vec::new()).order().is_empty());
    }
}
