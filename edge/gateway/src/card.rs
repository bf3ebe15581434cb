//! Door cards: where a validator's door is, in the validator's own words. Validators post them as
//! notices, so each of them knows the doors of all, and anybody who knows the genesis can check
//! what one tells of the others.

use crate::client::doors_of;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tg_chain::notice::{NoticeText, TEXT_BYTES_MAX};
use tg_chain::{Notice, NoticeError};
use tg_net::{Peer, PeerId, RelayInfo, Route, Ticket, TicketError, TicketParts, TicketValidator};
use tg_types::{
    AccountId, Address, Decode, DecodeError, Encode, Genesis, Kind, PublicKey, Reader, SecretKey,
    Signature,
};

/// Why a notice is no door card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// No seat of this network has said so.
    #[error(transparent)]
    Notice(#[from] NoticeError),
    /// It says something else.
    #[error("notice is no door card")]
    Decode(#[from] DecodeError),
    /// The peer it names does not belong to the seat.
    #[error("peer {0} does not want this seat")]
    Peer(PeerId),
}

/// Where a validator's door is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorCard {
    /// Whose it is: the voting key of a seat, which signed the card.
    seat: PublicKey,
    what: CardText,
}

/// What a card says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CardText {
    peer: PeerId,
    relay: RelayInfo,
    /// The peer's word that it belongs to the seat; else a seat could name another one's peer and
    /// lead its callers astray.
    consent: Signature,
}

const _: () = assert!(
    PeerId::BYTES + 2 + Address::BYTES_MAX + 32 + Signature::BYTES <= TEXT_BYTES_MAX,
    "a card fits into a notice"
);

impl DoorCard {
    /// The card of a seat whose peer has this key and is found behind this relay.
    #[must_use]
    pub fn new(seat: &PublicKey, peer: &SecretKey, relay: RelayInfo, genesis: &Genesis) -> Self {
        let owner = AccountId::from(*seat);
        let consent = peer.sign(&genesis.domain(), Kind::NodeConsent, owner.as_bytes());
        Self { seat: *seat, what: CardText { peer: PeerId::of(peer), relay, consent } }
    }

    /// Whose it is: the voting key of a seat.
    #[must_use]
    pub const fn seat(&self) -> PublicKey {
        self.seat
    }

    /// Who answers.
    #[must_use]
    pub const fn peer(&self) -> PeerId {
        self.what.peer
    }

    /// Behind which relay.
    #[must_use]
    pub const fn relay(&self) -> &RelayInfo {
        &self.what.relay
    }

    /// The card as a notice says it.
    #[must_use]
    pub fn text(&self) -> NoticeText {
        NoticeText::new(self.what.to_bytes()).expect("a card fits into a notice")
    }

    /// Reads and checks what a seat has posted.
    ///
    /// # Errors
    /// If it is no card, or not one of a seat of this network.
    pub fn read(notice: &Notice, genesis: &Genesis) -> Result<Self, CardError> {
        notice.check(genesis)?;
        let what = CardText::from_bytes(notice.text())?;
        let (seat, owner) = (notice.seat(), AccountId::from(notice.seat()));
        let is_consent = PublicKey::new(*what.peer.as_bytes()).is_ok_and(|key| {
            let (domain, message) = (genesis.domain(), owner.as_bytes());
            key.verify(&domain, Kind::NodeConsent, message, &what.consent).is_ok()
        });
        if is_consent { Ok(Self { seat, what }) } else { Err(CardError::Peer(what.peer)) }
    }
}

impl Encode for CardText {
    fn encode(&self, out: &mut Vec<u8>) {
        self.peer.encode(out);
        self.relay.encode(out);
        self.consent.encode(out);
    }
}

impl Decode for CardText {
    const BYTES_MIN: usize = PeerId::BYTES + RelayInfo::BYTES_MIN + Signature::BYTES;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            peer: PeerId::decode(reader)?,
            relay: RelayInfo::decode(reader)?,
            consent: Signature::decode(reader)?,
        })
    }
}

/// The cards among notices, the newest of every seat, in the order of the seats. What is no card
/// is left out.
#[must_use]
pub fn cards(notices: &[Notice], genesis: &Genesis) -> Vec<DoorCard> {
    let mut sorted: Vec<&Notice> = notices.iter().collect();
    sorted.sort_by_key(|notice| (notice.seat(), std::cmp::Reverse(notice.issued())));
    let mut cards: Vec<DoorCard> = Vec::new();
    let mut seats = BTreeSet::new();
    for notice in sorted {
        if seats.contains(&notice.seat()) {
            continue;
        }
        match DoorCard::read(notice, genesis) {
            Ok(card) => {
                seats.insert(notice.seat());
                cards.push(card);
            }
            Err(error) => tracing::debug!(%error, "a notice is of no use"),
        }
    }
    cards
}

/// Which peer speaks for which seat. One peer speaks for one seat, the first that names it, and a
/// seat has one peer, the one of its newest card.
pub(crate) struct Doors {
    genesis: Arc<Genesis>,
    // A lock: read by whoever asks for a quorum, briefly.
    peers: Mutex<BTreeMap<usize, PeerId>>,
}

impl Doors {
    pub(crate) fn new(genesis: Arc<Genesis>, cards: &[DoorCard]) -> Self {
        let doors = Self { genesis, peers: Mutex::default() };
        doors.take(cards);
        doors
    }

    /// Takes cards of seats.
    fn take(&self, cards: &[DoorCard]) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        for card in cards {
            let mut seats = self.genesis.validators().iter();
            let Some(seat) = seats.position(|seat| seat.key == card.seat) else { continue };
            if !peers.values().any(|peer| *peer == card.what.peer) {
                peers.insert(seat, card.what.peer);
            }
        }
    }

    /// The seats whose peers are known.
    pub(crate) fn known(&self) -> Vec<(usize, PeerId)> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.iter().map(|(seat, peer)| (*seat, *peer)).collect()
    }

    /// Asks validators for cards and finds routes to the peers that they name.
    pub(crate) async fn learn(&self, peer: &Peer, validators: &[PeerId]) {
        let cards = match doors_of(peer, validators, &self.genesis).await {
            Ok(cards) => cards,
            Err(error) => {
                tracing::debug!(%error, "nobody tells where doors are");
                return;
            }
        };
        for card in &cards {
            let route = Route::relayed(card.relay().url.clone());
            let is_trusted = peer.trust_relay(card.relay()).is_ok();
            if !is_trusted || peer.add_route(card.peer(), route).is_err() {
                tracing::debug!(peer = %card.peer(), "a door cannot be reached");
            }
        }
        self.take(&cards);
    }
}

/// A ticket that names these doors, as many of the first as fit: whoever reaches one of them is
/// told of all.
///
/// # Errors
/// If there are none.
pub fn ticket(cards: &[DoorCard], genesis: &Genesis) -> Result<Ticket, TicketError> {
    let (mut relays, mut validators) = (Vec::<RelayInfo>::new(), Vec::<TicketValidator>::new());
    for card in cards {
        let CardText { peer, relay, .. } = &card.what;
        let is_listed = relays.iter().any(|known| known.url == relay.url);
        let is_full = validators.len() >= Ticket::VALIDATORS_MAX
            || (!is_listed && relays.len() >= Ticket::RELAYS_MAX);
        if is_full || validators.iter().any(|known| known.id == *peer) {
            continue;
        }
        if !is_listed {
            relays.push(relay.clone());
        }
        validators.push(TicketValidator { id: *peer, relay: relay.url.clone() });
    }
    let (chain, genesis) = (genesis.chain(), genesis.hash());
    Ticket::new(TicketParts { chain, genesis, relays, validators })
}

#[cfg(test)]
mod tests {
    use super::{CardError, CardText, DoorCard, cards, ticket};
    use tg_chain::network::{NetworkPlan, SeatPlan, make_network};
    use tg_chain::notice::NoticeText;
    use tg_chain::{Notice, NoticeError};
    use tg_net::{PeerId, RelayInfo, Ticket};
    use tg_types::{
        Amount, Decode as _, Encode as _, Genesis, Hash32, NetworkKind, Params, SecretKey, Tick,
    };

    fn key(number: u8) -> SecretKey {
        SecretKey::from_seed([number; 32])
    }

    fn genesis(seats: u8) -> Genesis {
        let seat = |number: u8| SeatPlan {
            key: key(number),
            address: "h:1".parse().expect("an address"),
            stake: Params::local().stake_min,
        };
        let plan = NetworkPlan {
            chain: "here".parse().expect("a name"),
            kind: NetworkKind::Local,
            start: Tick::new(1),
            seats: (1..=seats).map(seat).collect(),
            allocations: Vec::new(),
            treasury: Amount::ZERO,
            params: Params::local(),
            seed: [7; 32],
        };
        make_network(plan).expect("a network").genesis
    }

    fn relay(number: u8) -> RelayInfo {
        let url = format!("https://r{number}.example.org:443").parse().expect("a relay");
        RelayInfo { url, certificate: Hash32::new([number; 32]) }
    }

    /// The key of a seat's peer.
    fn peer(number: u8) -> SecretKey {
        key(number + 100)
    }

    fn card(number: u8, genesis: &Genesis) -> DoorCard {
        DoorCard::new(&key(number).public(), &peer(number), relay(number), genesis)
    }

    fn post(number: u8, issued: u64, text: NoticeText, genesis: &Genesis) -> Notice {
        Notice::sign(&key(number), &genesis.domain(), Tick::new(issued), text)
    }

    #[test]
    fn card_is_read_back_as_its_seat_posted_it() {
        let genesis = genesis(4);
        let card = card(1, &genesis);
        let notice = post(1, 5, card.text(), &genesis);
        assert_eq!(DoorCard::read(&notice, &genesis), Ok(card.clone()));
        assert_eq!((card.peer(), card.relay()), (PeerId::of(&peer(1)), &relay(1)));
        assert_eq!(card.seat(), key(1).public());
    }

    #[test]
    fn card_with_a_stranger_or_another_seats_peer_is_refused() {
        let genesis = genesis(4);
        let stranger = post(9, 5, card(9, &genesis).text(), &genesis);
        let no_seat = CardError::Notice(NoticeError::NoSeat(key(9).public()));
        assert_eq!(DoorCard::read(&stranger, &genesis), Err(no_seat));
        // Seat 2 posts the card of seat 1, with its consent, and one with a relay of its own.
        let mut stolen = card(1, &genesis);
        for relay in [relay(1), relay(2)] {
            stolen.what.relay = relay;
            let notice = post(2, 5, stolen.text(), &genesis);
            let refused = CardError::Peer(PeerId::of(&peer(1)));
            assert_eq!(DoorCard::read(&notice, &genesis), Err(refused));
        }
        let nonsense = NoticeText::new(b"come in".to_vec()).expect("short");
        let nonsense = DoorCard::read(&post(1, 5, nonsense, &genesis), &genesis);
        assert!(matches!(nonsense, Err(CardError::Decode(_))));
    }

    #[test]
    fn newest_good_card_of_every_seat_counts() {
        let genesis = genesis(4);
        let moved = DoorCard::new(&key(1).public(), &peer(1), relay(8), &genesis);
        let notices = [
            post(1, 5, card(1, &genesis).text(), &genesis),
            post(2, 5, card(2, &genesis).text(), &genesis),
            post(1, 6, moved.text(), &genesis),
            post(2, 9, card(1, &genesis).text(), &genesis),
            post(1, 4, card(1, &genesis).text(), &genesis),
        ];
        let mut found = cards(&notices, &genesis);
        found.sort_by_key(|card| card.relay().url.clone());
        assert_eq!(found, [card(2, &genesis), moved]);
    }

    #[test]
    fn ticket_names_as_many_doors_as_fit_and_every_relay_once() {
        let genesis = genesis(20);
        let all: Vec<DoorCard> = (1..=20).map(|number| card(number, &genesis)).collect();
        let made = ticket(&all, &genesis).expect("a ticket");
        assert_eq!((made.relays().len(), made.validators().len()), (Ticket::RELAYS_MAX, 16));
        assert_eq!(made.validators()[0].id, all[0].peer());
        let shared: Vec<DoorCard> = (1..=20)
            .map(|it| DoorCard::new(&key(it).public(), &peer(it), relay(1), &genesis))
            .collect();
        let twice = [&shared[..], &shared].concat();
        let made = ticket(&twice, &genesis).expect("a ticket");
        assert_eq!((made.relays().len(), made.validators().len()), (1, 20));
        assert!(ticket(&[], &genesis).is_err());
    }

    /// Goal: bytes from anybody are a card in its one form, or an error. Method: random bytes, and
    /// every truncation of a good card.
    #[test]
    fn prop_any_bytes_are_a_card_or_an_error() {
        let good = card(1, &genesis(1)).what.to_bytes();
        for end in 0..good.len() {
            assert!(CardText::from_bytes(&good[..end]).is_err());
        }
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            if let Ok(card) = CardText::from_bytes(&bytes) {
                assert_eq!(card.to_bytes(), bytes);
            }
            Ok(())
        });
    }
}
