//! Tickets: one line of text with everything a machine needs to find a network.
//!
//! `tgt1` and base32 letters (RFC 4648, lower case, no padding) of the canonical bytes and a
//! checksum. The checksum finds slips of copying; it proves nothing about whoever made the ticket.
//! What a joined network is worth believing follows from its genesis hash.

mod base32;

use crate::id::PeerId;
use crate::relay::{RelayInfo, RelayUrl};
use base32::Base32Error;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use tg_types::hash::{Tag, tagged};
use tg_types::{
    BoundError, ChainId, Decode, DecodeError, Encode, FORMAT_VERSION, GenesisHash, List, Reader,
};

/// What every ticket starts with. The digit is its format.
const PREFIX: &str = "tgt1";

/// Enough that nobody meets a slip that fits by chance.
const CHECKSUM_BYTES: usize = 8;

const CHECKSUM_TAG: Tag = Tag::new("tensorgrid/ticket");

/// Why there is no such ticket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// Something else.
    #[error("ticket does not start with {PREFIX}")]
    Prefix,
    /// More letters than any ticket has.
    #[error("ticket has {found} letters, at most {max} are possible")]
    TooLong {
        /// How many there are.
        found: usize,
        /// The most.
        max: usize,
    },
    /// A letter that no ticket has.
    #[error("letter {at} of the ticket is {found:?}, expected a-z or 2-7")]
    Letter {
        /// Its place, counted from 1.
        at: usize,
        /// The letter.
        found: char,
    },
    /// The letters at the end are not those of whole bytes.
    #[error("ticket ends in the middle: letters are missing or changed at its end")]
    End,
    /// Letters are missing, too many or others.
    #[error("ticket does not fit its checksum: letters are missing or changed")]
    Checksum,
    /// The bytes are no ticket.
    #[error("ticket was made by another version or is damaged")]
    Content(#[from] DecodeError),
    /// Too few or too many relays.
    #[error("number of relays cannot be used")]
    Relays(#[source] BoundError),
    /// Too few or too many validators.
    #[error("number of validators cannot be used")]
    Validators(#[source] BoundError),
    /// A validator uses a relay that is not listed.
    #[error("validator {validator} uses a relay that is not listed: {relay}")]
    UnlistedRelay {
        /// The validator.
        validator: PeerId,
        /// Its relay.
        relay: RelayUrl,
    },
    /// A relay or a validator is listed twice.
    #[error("a relay or a validator is listed twice")]
    Repeated,
}

/// What a ticket says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketParts {
    /// The network's name.
    pub chain: ChainId,
    /// The network's genesis.
    pub genesis: GenesisHash,
    /// Relays to use; each once.
    pub relays: Vec<RelayInfo>,
    /// Validators to ask; each once.
    pub validators: Vec<TicketValidator>,
}

/// A validator and where to find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketValidator {
    /// Who it is.
    pub id: PeerId,
    /// Through which of the relays it is reached.
    pub relay: RelayUrl,
}

/// A way into a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    chain: ChainId,
    genesis: GenesisHash,
    relays: List<RelayInfo, 1, { Self::RELAYS_MAX }>,
    seats: List<Seat, 1, { Self::VALIDATORS_MAX }>,
}

/// A validator, with its relay's place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seat {
    id: PeerId,
    relay: u8,
}

impl Ticket {
    /// The most relays in a ticket: a newcomer needs one that works, a few are spare.
    pub const RELAYS_MAX: usize = 16;
    /// The most validators in a ticket, for the same reason.
    pub const VALIDATORS_MAX: usize = 64;
    /// The most letters of a ticket: what the longest content takes, rounded up.
    pub const LETTERS_MAX: usize = 8 << 10;

    /// A ticket that says this.
    ///
    /// # Errors
    /// If there are too few or too many relays or validators, one twice, or a validator's relay
    /// is not listed.
    pub fn new(parts: TicketParts) -> Result<Self, TicketError> {
        let TicketParts { chain, genesis, relays, validators } = parts;
        let seat_of = |TicketValidator { id, relay }: TicketValidator| {
            let place = relays.iter().position(|info| info.url == relay);
            match place.and_then(|place| u8::try_from(place).ok()) {
                Some(relay) => Ok(Seat { id, relay }),
                None => Err(TicketError::UnlistedRelay { validator: id, relay }),
            }
        };
        let seats = validators.into_iter().map(seat_of).collect::<Result<_, _>>()?;
        let ticket = Self {
            chain,
            genesis,
            relays: List::new(relays).map_err(TicketError::Relays)?,
            seats: List::new(seats).map_err(TicketError::Validators)?,
        };
        if ticket.repeats() {
            return Err(TicketError::Repeated);
        }
        Ok(ticket)
    }

    /// The network's name.
    #[must_use]
    pub const fn chain(&self) -> ChainId {
        self.chain
    }

    /// The network's genesis.
    #[must_use]
    pub const fn genesis(&self) -> GenesisHash {
        self.genesis
    }

    /// Relays to use.
    #[must_use]
    pub fn relays(&self) -> &[RelayInfo] {
        self.relays.as_slice()
    }

    /// Validators to ask.
    #[must_use]
    pub fn validators(&self) -> Vec<TicketValidator> {
        let relays = self.relays();
        let found = |seat: &Seat| {
            let relay = relays.get(usize::from(seat.relay)).expect("a seat's relay is listed");
            TicketValidator { id: seat.id, relay: relay.url.clone() }
        };
        self.seats.as_slice().iter().map(found).collect()
    }

    fn repeats(&self) -> bool {
        let urls: BTreeSet<_> = self.relays().iter().map(|relay| &relay.url).collect();
        let seats = self.seats.as_slice();
        let ids: BTreeSet<_> = seats.iter().map(|seat| seat.id).collect();
        urls.len() < self.relays().len() || ids.len() < seats.len()
    }
}

impl Encode for Ticket {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT_VERSION);
        self.chain.encode(out);
        self.genesis.encode(out);
        self.relays.encode(out);
        self.seats.encode(out);
    }
}

impl Decode for Ticket {
    const BYTES_MIN: usize = 1 + ChainId::BYTES_MIN + 32 + 2 + RelayInfo::BYTES_MIN + 33;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.position();
        let found = reader.byte()?;
        if found != FORMAT_VERSION {
            return Err(DecodeError::Version { at, found, supported: FORMAT_VERSION });
        }
        let ticket = Self {
            chain: ChainId::decode(reader)?,
            genesis: GenesisHash::decode(reader)?,
            relays: List::decode(reader)?,
            seats: List::decode(reader)?,
        };
        let at = reader.position();
        let count = ticket.relays().len();
        if ticket.seats.as_slice().iter().any(|seat| usize::from(seat.relay) >= count) {
            return Err(DecodeError::Range { at, expected: "place of a listed relay" });
        }
        if ticket.repeats() {
            return Err(DecodeError::Range { at, expected: "list that names each once" });
        }
        Ok(ticket)
    }
}

impl Encode for Seat {
    fn encode(&self, out: &mut Vec<u8>) {
        self.id.encode(out);
        self.relay.encode(out);
    }
}

impl Decode for Seat {
    const BYTES_MIN: usize = PeerId::BYTES + 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { id: PeerId::decode(reader)?, relay: u8::decode(reader)? })
    }
}

fn checksum(content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = tagged(CHECKSUM_TAG, &[content]);
    *hash.as_bytes().first_chunk().expect("a hash is longer than a checksum")
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.to_bytes();
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum);
        write!(f, "{PREFIX}{}", base32::encode(&bytes))
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        if text.len() > Self::LETTERS_MAX {
            return Err(TicketError::TooLong { found: text.len(), max: Self::LETTERS_MAX });
        }
        let letters = text.strip_prefix(PREFIX).ok_or(TicketError::Prefix)?;
        let bytes = base32::decode(letters).map_err(|error| match error {
            Base32Error::Letter { at, found } => {
                TicketError::Letter { at: at + PREFIX.len() + 1, found }
            }
            Base32Error::End => TicketError::End,
        })?;
        let (content, sum) =
            bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(TicketError::Checksum)?;
        if *sum != checksum(content) {
            return Err(TicketError::Checksum);
        }
        Ok(Self::from_bytes(content)?)
    }
}
