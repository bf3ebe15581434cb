//! What is asked and answered. Canonical bytes, because the same rule holds for all bytes of the
//! product: one form for each value, everything bounded.

use tg_chain::Notice;
use tg_net::{PeerId, RelayUrl};
use tg_privacy::{WrapPublic, Wrapped};
use tg_types::genesis::SEATS_MAX;
use tg_types::tx::PROOF_TX_BYTES_MAX;
use tg_types::{
    AccountId, Amount, Bytes, Decode, DecodeError, Encode, Event, GenesisHash, Hash32, Height,
    JobId, Lane, List, Nonce, Packages, Reader, Reason, SeatSignature, Signature, StateKey, Tick,
    wire,
};

/// Entries that one answer lists.
pub const LISTED_MAX: usize = 1_024;

/// The largest entry of the state that travels: a program's piece and its opening fit.
pub const ENTRY_BYTES_MAX: usize = 64 * 1024;

/// What one answer tells of a log.
pub const LOG_BYTES_MAX: usize = 64 << 10;

/// What one answer tells of the tiles of a run: a frame with some room for the rest.
pub const TILES_PART_BYTES_MAX: usize = (1 << 20) - 1024;

/// Answers in which such tiles are told; where more are read, the whole run is recomputed.
pub const TILES_PARTS_MAX: u16 = 16;

/// The largest first state that travels.
pub const GENESIS_BYTES_MAX: usize = 1 << 20;

wire! {
    /// What somebody asks of a validator, a checker of a provider, or a node of a job's owner.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Request {
        /// Which network, and how far it is.
        Status = 1,
        /// I am here, behind this relay. Nothing of it goes on chain.
        Hello {
            /// The relay.
            relay: RelayUrl,
        } = 2,
        /// An entry of the latest final state.
        Entry {
            /// Under which key.
            key: StateKey,
        } = 3,
        /// All registered nodes.
        Nodes = 4,
        /// The next nonce of an account's lane.
        Nonce {
            /// Whose.
            account: AccountId,
            /// In which lane.
            lane: Lane,
        } = 5,
        /// Take a transaction in and say when it is final.
        Submit {
            /// The signed transaction.
            tx: Bytes<PROOF_TX_BYTES_MAX>,
        } = 6,
        /// Tell what happens, block by block.
        Follow = 7,
        /// The key to which shares for this validator are wrapped.
        WrapKey = 8,
        /// Fetch packages from me, keep them, and say so with your name.
        Keep {
            /// Which.
            packages: Packages,
        } = 9,
        /// Give me your share of a job's key: I run it or check it.
        Release {
            /// The job.
            job: JobId,
            /// The key to which the share is wrapped.
            to: WrapPublic,
        } = 10,
        /// Trial money, on local networks.
        Faucet {
            /// For whom.
            account: AccountId,
            /// How much.
            amount: Amount,
        } = 12,
        /// All jobs that are on record.
        Jobs = 13,
        /// Behind which relay a peer is that said so.
        Whereabouts {
            /// Which peer.
            peer: PeerId,
        } = 14,
        /// The network's first state, for somebody who has only a ticket.
        Genesis = 15,
        /// As the owner of a job that you run: what has it said since then?
        Log {
            /// The job.
            job: JobId,
            /// How many bytes of it are known.
            from: u64,
            /// The owner's signature that whoever asks may read it: see [`log_reader`].
            consent: Signature,
        } = 16,
        /// Where the doors of all validators are that you know of.
        Doors = 17,
        /// As a checker of a result of yours: what are the tiles computed from that my lot draws?
        Tiles {
            /// The job.
            job: JobId,
            /// Which part of the answer, counted from 0.
            part: u16,
        } = 18,
        /// As the owner of a job that I run or check: give me its key, of which no validator has a
        /// share.
        Key {
            /// The job.
            job: JobId,
            /// The key to which it is wrapped.
            to: WrapPublic,
        } = 19,
    }
}

wire! {
    /// What is answered.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Reply {
        /// How far the network is.
        Status {
            /// The network.
            genesis: GenesisHash,
            /// The last final block.
            height: Height,
            /// Its time.
            tick: Tick,
        } = 1,
        /// Done.
        Done = 2,
        /// An entry, or none.
        Entry {
            /// Its bytes.
            bytes: Option<Bytes<ENTRY_BYTES_MAX>>,
        } = 3,
        /// Entries of one kind.
        Entries {
            /// Their ids and bytes.
            entries: List<ListedEntry, 0, LISTED_MAX>,
        } = 4,
        /// A nonce.
        Nonce {
            /// The next one.
            next: Nonce,
        } = 5,
        /// A transaction is final.
        Final {
            /// In which block.
            height: Height,
            /// Whether it did what it asked for, and if not, why.
            reason: Reason,
        } = 6,
        /// A transaction was not taken.
        Refused {
            /// Why.
            reason: Reason,
        } = 7,
        /// What happened in a block.
        Block {
            /// Which.
            height: Height,
            /// Its time.
            tick: Tick,
            /// What happened.
            events: EventList,
        } = 8,
        /// A wrap key.
        WrapKey {
            /// The key.
            key: WrapPublic,
        } = 9,
        /// A share of a key.
        Share {
            /// Wrapped to whoever asked.
            share: Wrapped,
        } = 10,
        /// Where a peer is.
        Whereabouts {
            /// Behind this relay.
            relay: RelayUrl,
        } = 13,
        /// A network's first state.
        Genesis {
            /// Its bytes; whoever asked knows their hash.
            genesis: Bytes<GENESIS_BYTES_MAX>,
        } = 14,
        /// A part of what a running program said.
        Log {
            /// What came from there on.
            bytes: Bytes<LOG_BYTES_MAX>,
            /// Whether there will be no more.
            is_end: bool,
        } = 15,
        /// A validator keeps what it was asked to keep.
        Held {
            /// Its word for it.
            signature: SeatSignature,
        } = 16,
        /// What validators say of their doors.
        Doors {
            /// At most one notice of each, as it was signed.
            notices: List<Notice, 0, SEATS_MAX>,
        } = 17,
        /// A part of what drawn tiles are computed from.
        Tiles {
            /// How many parts there are.
            parts: u16,
            /// The bytes of this one.
            bytes: Bytes<TILES_PART_BYTES_MAX>,
        } = 18,
        /// The key of a job's package.
        Key {
            /// Wrapped to whoever asked.
            key: Wrapped,
        } = 19,
        /// It cannot be had.
        Failed {
            /// Why.
            why: Failure,
        } = 12,
    }
}

/// What the owner of a job signs, so that a peer may read what the job says. Peers of clients have
/// keys of their own, so that several commands can run at once.
#[must_use]
pub fn log_reader(job: &JobId, reader: &PeerId) -> Vec<u8> {
    [&job.as_bytes()[..], &reader.as_bytes()[..]].concat()
}

wire! {
    /// An entry in a list.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListedEntry {
        /// Its id.
        pub id: Hash32,
        /// Its bytes.
        pub bytes: Bytes<ENTRY_BYTES_MAX>,
    }
}

wire! {
    /// Why something cannot be had.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    pub enum Failure {
        /// The request cannot be read, or is for somebody else.
        Malformed = 1,
        /// This node is stopping or too busy.
        Busy = 2,
        /// The chain has not chosen whoever asks.
        NotChosen = 3,
        /// The package is not here.
        NoPackage = 4,
        /// More than is kept for one peer.
        Quota = 5,
        /// Not on this network.
        Unavailable = 6,
        /// There is no room on the disk.
        NoRoom = 7,
        /// The package is not of the job's owner.
        NotOwners = 8,
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Malformed => "request cannot be read",
            Self::Busy => "node is stopping or too busy",
            Self::NotChosen => "chain has not chosen this node",
            Self::NoPackage => "package is not here",
            Self::Quota => "more than is kept for one peer",
            Self::Unavailable => "not on this network",
            Self::NoRoom => "no room on the validator's disk",
            Self::NotOwners => "package is not of the job's owner",
        })
    }
}

/// Events of a block. As many as a block can have; a frame bounds their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventList(pub Vec<Event>);

/// The most events in one message. Blocks with more are told in several.
pub const EVENTS_MAX: usize = 4_096;

impl Encode for EventList {
    fn encode(&self, out: &mut Vec<u8>) {
        tg_types::codec::encode_list(&self.0, out);
    }
}

impl Decode for EventList {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.list(EVENTS_MAX).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::{EventList, Failure, Reply, Request};
    use crate::package::{Whose, key_context};
    use tg_privacy::{ContentKey, Randomness, WrapSecret, wrap};
    use tg_types::{
        Bytes, Decode as _, Encode as _, Event, GenesisHash, Height, JobId, SecretKey, Signature,
        Tick,
    };

    #[test]
    fn messages_are_read_back_and_nothing_else_is() {
        let job = JobId::new([3; 32]);
        let consent = Signature::new([7; 64]);
        let log = Request::Log { job, from: 7, consent };
        let tiles = Request::Tiles { job, part: 3 };
        let secret = WrapSecret::from_seed([4; 32]);
        let key = Request::Key { job, to: secret.public().clone() };
        let asked = [Request::Status, Request::Follow, Request::Doors, log, tiles, key];
        for request in asked {
            let bytes = request.to_bytes();
            assert_eq!(Request::from_bytes(&bytes), Ok(request));
            assert!(Request::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        }
        let events = EventList(vec![Event::ResultNotDrawn { job }]);
        let block = Reply::Block { height: Height::FIRST, tick: Tick::ZERO, events };
        let tiles = Reply::Tiles { parts: 2, bytes: Bytes::new(vec![1, 2]).expect("short") };
        let owner = SecretKey::from_seed([9; 32]).public().into();
        let whose = Whose { genesis: GenesisHash::new([6; 32]), owner };
        let context = key_context(&whose, ContentKey::new([7; 32]).commitment());
        let key =
            wrap(&ContentKey::new([7; 32]), secret.public(), &context, Randomness::new([8; 32]));
        let failed = Reply::Failed { why: Failure::Quota };
        for reply in [Reply::Done, block, tiles, Reply::Key { key }, failed] {
            let bytes = reply.to_bytes();
            assert_eq!(Reply::from_bytes(&bytes), Ok(reply));
            assert!(Reply::from_bytes(&bytes[..bytes.len() - 1]).is_err());
        }
    }

    #[test]
    fn prop_any_bytes_are_a_message_or_an_error() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            if let Ok(request) = Request::from_bytes(&bytes) {
                assert_eq!(request.to_bytes(), bytes);
            }
            if let Ok(reply) = Reply::from_bytes(&bytes) {
                assert_eq!(reply.to_bytes(), bytes);
            }
            Ok(())
        });
    }
}
