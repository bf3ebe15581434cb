//! Door cards: where a validator's door is, in the validator's own words. Validators post them as
//! notices, so each of them knows the doors of all, and anybody who knows the genesis can check
//! what one tells of the others.

use std::collections::BTreeSet;
use tg_chain::notice::{NoticeText, TEXT_BYTES_MAX};
use tg_chain::{Notice, NoticeError};
use tg_net::{PeerId, RelayInfo, Ticket, TicketError, TicketParts, TicketValidator};
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
        Self { peer: PeerId::of(peer), relay, consent }
    }

    /// Who answers.
    #[must_use]
    pub const fn peer(&self) -> PeerId {
        self.peer
    }

    /// Behind which relay.
    #[must_use]
    pub const fn relay(&self) -> &RelayInfo {
        &self.relay
    }

    /// The card as a notice says it.
    #[must_use]
    pub fn text(&self) -> NoticeText {
        NoticeText::new(self.to_bytes()).expect("a card fits into a notice")
    }

    /// Reads and checks what a seat has posted.
    ///
    /// # Errors
    /// If it is no card, or not one of a seat of this network.
    pub fn read(notice: &Notice, genesis: &Genesis) -> Result<Self, CardError> {
        notice.check(genesis)?;
        let card = Self::from_bytes(notice.text())?;
        let owner = AccountId::from(notice.seat());
        let is_consent = PublicKey::new(*card.peer.as_bytes()).is_ok_and(|key| {
            let (domain, message) = (genesis.domain(), owner.as_bytes());
            key.verify(&domain, Kind::NodeConsent, message, &card.consent).is_ok()
        });
        if is_consent { Ok(card) } else { Err(CardError::Peer(card.peer)) }
    }
}

impl Encode for DoorCard {
    fn encode(&self, out: &mut Vec<u8>) {
        self.peer.encode(out);
        self.relay.encode(out);
        self.consent.encode(out);
    }
}

impl Decode for DoorCard {
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

/// A ticket that names these doors, as many of the first as fit: whoever reaches one of them is
/// told of all.
///
/// # Errors
/// If there are none.
pub fn ticket(cards: &[DoorCard], genesis: &Genesis) -> Result<Ticket, TicketError> {
    let (mut relays, mut validators) = (Vec::<RelayInfo>::new(), Vec::<TicketValidator>::new());
    for card in cards {
        let is_listed = relays.iter().any(|relay| relay.url == card.relay.url);
        let is_full = validators.len() >= Ticket::VALIDATORS_MAX
            || (!is_listed && relays.len() >= Ticket::RELAYS_MAX);
        if is_full || validators.iter().any(|known| known.id == card.peer) {
            continue;
        }
        if !is_listed {
            relays.push(card.relay.clone());
        }
        validators.push(TicketValidator { id: card.peer, relay: card.relay.url.clone() });
    }
    let (chain, genesis) = (genesis.chain(), genesis.hash());
    Ticket::new(TicketParts { chain, genesis, relays, validators })
}

#[cfg(test)]
mod tests {
    use super::{CardError, DoorCard, cards, ticket};
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
            stolen.relay = relay;
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
        let shared: Vec<DoorCard> =
            all.iter().map(|card| DoorCard { relay: relay(1), ..card.clone() }).collect();
        let twice = [&shared[..], &shared].concat();
        let made = ticket(&twice, &genesis).expect("a ticket");
        assert_eq!((made.relays().len(), made.validators().len()), (1, 20));
        assert!(ticket(&[], &genesis).is_err());
    }

    /// Goal: bytes from anybody are a card in its one form, or an error. Method: random bytes, and
    /// every truncation of a good card.
    #[test]
    fn prop_any_bytes_are_a_card_or_an_error() {
        let good = card(1, &genesis(1)).to_bytes();
        for end in 0..good.len() {
            assert!(DoorCard::from_bytes(&good[..end]).is_err());
        }
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            if let Ok(card) = DoorCard::from_bytes(&bytes) {
                assert_eq!(card.to_bytes(), bytes);
            }
            Ok(())
        });
    }
}
