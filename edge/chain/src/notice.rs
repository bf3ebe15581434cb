//! Notices: what a seat tells everybody beside the chain, such as where others reach it.
//!
//! A notice is signed by its seat, so anybody may pass it on; of each seat the newest counts and
//! only that is held. What it says is for rooms above. Nothing of it is state: a node that starts
//! asks its peers for what they hold.

use crate::gossip::Gossip;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tg_types::{
    bounded::Bytes,
    codec::{Decode, DecodeError, Encode, Reader, encode_opening},
    genesis::Genesis,
    key::{Domain, Kind, PublicKey, SecretKey, Signature, SignatureError},
    tick::{DurationMs, Tick, TimeError},
};

/// The most bytes of a notice's text: two keys, a signature and an address fit.
pub const TEXT_BYTES_MAX: usize = 512;

/// What a notice says.
pub type NoticeText = Bytes<TEXT_BYTES_MAX>;

/// Why a notice is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoticeError {
    /// Not of this committee.
    #[error("{0} has no seat")]
    NoSeat(PublicKey),
    /// Not by that seat, or for another network.
    #[error("notice is not signed by its seat")]
    Signature(#[from] SignatureError),
    /// There is no later time to give it.
    #[error("notice cannot be newer than the last one")]
    Time(#[from] TimeError),
}

/// What a seat tells everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    seat: PublicKey,
    issued: Tick,
    text: NoticeText,
    signature: Signature,
}

impl Notice {
    /// A notice of the seat that has this key.
    #[must_use]
    pub fn sign(key: &SecretKey, domain: &Domain, issued: Tick, text: NoticeText) -> Self {
        let signature = key.sign(domain, Kind::Notice, &signed_bytes(issued, &text));
        Self { seat: key.public(), issued, text, signature }
    }

    /// Whether a seat of this network has said so.
    ///
    /// # Errors
    /// If it is of no seat, or not signed by it.
    pub fn check(&self, genesis: &Genesis) -> Result<(), NoticeError> {
        genesis.seat(&self.seat).ok_or(NoticeError::NoSeat(self.seat))?;
        let message = signed_bytes(self.issued, &self.text);
        Ok(self.seat.verify(&genesis.domain(), Kind::Notice, &message, &self.signature)?)
    }

    /// Whose it is.
    #[must_use]
    pub const fn seat(&self) -> PublicKey {
        self.seat
    }

    /// When it was said, by the seat's clock.
    #[must_use]
    pub const fn issued(&self) -> Tick {
        self.issued
    }

    /// What it says.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        self.text.as_slice()
    }
}

fn signed_bytes(issued: Tick, text: &NoticeText) -> Vec<u8> {
    let mut out = issued.to_bytes();
    text.encode(&mut out);
    out
}

impl Encode for Notice {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_opening(Kind::Notice, out);
        self.seat.encode(out);
        self.issued.encode(out);
        self.text.encode(out);
        self.signature.encode(out);
    }
}

impl Decode for Notice {
    const BYTES_MIN: usize =
        2 + PublicKey::BYTES_MIN + Tick::BYTES_MIN + NoticeText::BYTES_MIN + Signature::BYTES_MIN;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.opening(Kind::Notice)?;
        Ok(Self {
            seat: PublicKey::decode(reader)?,
            issued: Tick::decode(reader)?,
            text: NoticeText::decode(reader)?,
            signature: Signature::decode(reader)?,
        })
    }
}

/// The newest notice of every seat, and what is to be announced.
#[derive(Debug, Default)]
pub(crate) struct NoticeBoard {
    // A lock and not a channel: the engine asks in the middle of a call that cannot wait. Never
    // held while a signature is checked.
    pinned: Mutex<Pinned>,
}

#[derive(Debug, Default)]
struct Pinned {
    held: BTreeMap<PublicKey, Notice>,
    /// Our own, since it was posted and until it is announced.
    fresh: Option<Notice>,
}

impl Pinned {
    fn is_newer(&self, notice: &Notice) -> bool {
        self.held.get(&notice.seat).is_none_or(|held| held.issued < notice.issued)
    }

    fn pin(&mut self, notice: Notice) {
        if self.is_newer(&notice) {
            self.held.insert(notice.seat, notice);
        }
    }
}

impl NoticeBoard {
    fn pinned(&self) -> MutexGuard<'_, Pinned> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that are held, by seat.
    pub(crate) fn held(&self) -> Vec<Notice> {
        self.pinned().held.values().cloned().collect()
    }

    /// Takes notices of a peer. The first one that no seat has signed ends it: whoever passes such
    /// a thing on lies, and must not make us check more signatures.
    pub(crate) fn receive(&self, notices: Vec<Notice>, genesis: &Genesis) {
        for notice in notices {
            if !self.pinned().is_newer(&notice) {
                continue;
            }
            if let Err(error) = notice.check(genesis) {
                tracing::debug!(%error, "a notice was refused");
                return;
            }
            self.pinned().pin(notice);
        }
    }

    /// Says something in the name of a seat: later than what it said before, even if its clock was
    /// set back.
    pub(crate) fn post(
        &self,
        key: &SecretKey,
        now: Tick,
        text: NoticeText,
        genesis: &Genesis,
    ) -> Result<(), NoticeError> {
        let seat = key.public();
        genesis.seat(&seat).ok_or(NoticeError::NoSeat(seat))?;
        let before = self.pinned().held.get(&seat).map(Notice::issued);
        let later = before.map(|before| before.plus(DurationMs::new(1))).transpose()?;
        let issued = later.map_or(now, |later| later.max(now));
        let notice = Notice::sign(key, &genesis.domain(), issued, text);
        let mut pinned = self.pinned();
        pinned.pin(notice.clone());
        pinned.fresh = Some(notice);
        Ok(())
    }

    /// What is to be announced now: our own notice when it is fresh, and a question while nobody
    /// else's is known.
    pub(crate) fn due(&self) -> Vec<Gossip> {
        let mut pinned = self.pinned();
        let Some(fresh) = pinned.fresh.take() else { return Vec::new() };
        let is_alone = pinned.held.len() <= 1;
        let mut due = vec![Gossip::Notices(vec![fresh])];
        due.extend(is_alone.then_some(Gossip::NoticesWanted));
        due
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Notice, NoticeBoard, NoticeError, NoticeText};
    use crate::{
        gossip::Gossip,
        network::{NetworkPlan, SeatPlan, make_network},
    };
    use tg_types::{
        Amount, Decode as _, Encode as _, Genesis, NetworkKind, Params, SecretKey, Tick,
    };

    fn key(number: u8) -> SecretKey {
        SecretKey::from_seed([number; 32])
    }

    fn genesis(name: &str) -> Genesis {
        let seat = |number: u8| SeatPlan {
            key: key(number),
            address: "h:1".parse().expect("an address"),
            stake: Params::local().stake_min,
        };
        let plan = NetworkPlan {
            chain: name.parse().expect("a name"),
            kind: NetworkKind::Local,
            start: Tick::new(1),
            seats: (1..=4).map(seat).collect(),
            allocations: Vec::new(),
            treasury: Amount::ZERO,
            params: Params::local(),
            seed: [7; 32],
        };
        make_network(plan).expect("a network").genesis
    }

    fn text(words: &str) -> NoticeText {
        NoticeText::new(words.as_bytes().to_vec()).expect("short")
    }

    /// A notice of a seat on the network "here".
    pub(crate) fn notice(number: u8, issued: u64) -> Notice {
        let words = text(&format!("at {issued}"));
        Notice::sign(&key(number), &genesis("here").domain(), Tick::new(issued), words)
    }

    fn held(board: &NoticeBoard) -> Vec<(u8, u64)> {
        let number = |notice: &Notice| {
            let found = (0..=9).find(|number| key(*number).public() == notice.seat());
            (found.expect("one of ours"), notice.issued().get())
        };
        let mut held: Vec<_> = board.held().iter().map(number).collect();
        held.sort_unstable();
        held
    }

    #[test]
    fn newest_notice_of_every_seat_is_held() {
        let (board, genesis) = (NoticeBoard::default(), genesis("here"));
        board.receive(vec![notice(1, 5), notice(2, 5)], &genesis);
        board.receive(vec![notice(1, 4), notice(2, 6), notice(2, 6)], &genesis);
        assert_eq!(held(&board), [(1, 5), (2, 6)]);
    }

    #[test]
    fn notice_that_no_seat_of_the_network_signed_is_refused_with_all_behind_it() {
        let (here, there) = (genesis("here"), genesis("there"));
        let stranger = notice(9, 5);
        assert_eq!(stranger.check(&here), Err(NoticeError::NoSeat(key(9).public())));
        assert_eq!(notice(1, 5).check(&here), Ok(()));
        assert!(matches!(notice(1, 5).check(&there), Err(NoticeError::Signature(_))));
        let board = NoticeBoard::default();
        board.receive(vec![notice(1, 5), stranger, notice(2, 5)], &here);
        assert_eq!(held(&board), [(1, 5)]);
    }

    /// Goal: no byte of a notice can be changed. Method: every byte of one is.
    #[test]
    fn notice_with_any_byte_changed_is_refused() {
        let genesis = genesis("here");
        let bytes = notice(1, 5).to_bytes();
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            let accepted = Notice::from_bytes(&changed).is_ok_and(|it| it.check(&genesis).is_ok());
            assert!(!accepted, "byte {place}");
        }
    }

    #[test]
    fn seat_says_more_although_its_clock_was_set_back() {
        let (board, genesis) = (NoticeBoard::default(), genesis("here"));
        let post = |now| board.post(&key(1), Tick::new(now), text("here"), &genesis);
        assert_eq!(post(9), Ok(()));
        assert_eq!(post(3), Ok(()));
        assert_eq!(held(&board), [(1, 10)]);
        let stranger = board.post(&key(9), Tick::new(1), text("here"), &genesis);
        assert_eq!(stranger, Err(NoticeError::NoSeat(key(9).public())));
        board.receive(vec![notice(1, u64::MAX)], &genesis);
        assert!(matches!(post(3), Err(NoticeError::Time(_))));
    }

    #[test]
    fn fresh_notice_is_announced_once_with_a_question_while_nobody_else_is_known() {
        let (board, genesis) = (NoticeBoard::default(), genesis("here"));
        assert_eq!(board.due(), []);
        board.post(&key(1), Tick::new(5), text("at 5"), &genesis).expect("a seat");
        assert_eq!(board.due(), [Gossip::Notices(vec![notice(1, 5)]), Gossip::NoticesWanted]);
        assert_eq!(board.due(), []);
        board.receive(vec![notice(2, 5)], &genesis);
        board.post(&key(1), Tick::new(6), text("at 6"), &genesis).expect("a seat");
        assert_eq!(board.due(), [Gossip::Notices(vec![notice(1, 6)])]);
    }
}
