//! A seat that votes for everything: it runs no node, but answers every vote it hears with two
//! signed votes that contradict each other.

use super::plug::{Key, NetReceiver, NetSender};
use commonware_codec::{Copying, DecodeExt as _, Encode as _};
use commonware_consensus::simplex::{
    scheme::ed25519::Scheme as Votes,
    types::{Finalize, Notarize, Nullify, Proposal, Vote},
};
use commonware_cryptography::{Hasher as _, Sha256, ed25519, sha256::Digest};
use commonware_p2p::{Receiver as _, Recipients, Sender as _};
use commonware_runtime::{Handle, Spawner as _, deterministic};
use commonware_utils::{TryCollect as _, ordered::Set};
use rand::{RngExt as _, rngs::StdRng};
use tg_types::{
    codec::Encode as _,
    genesis::Genesis,
    key::{Domain, SecretKey},
};

/// Contradictions sent by one equivocator at most; each costs every honest node two signature
/// checks.
const CONTRADICTIONS_MAX: usize = 64;

/// To whom an equivocator sends its two votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Both to everybody: caught at once.
    Both,
    /// One half of the network gets one vote, the other half the other; one node gets both.
    Halves,
}

/// The bytes that votes of a network are bound to.
fn namespace(domain: &Domain) -> Vec<u8> {
    let mut bytes = b"tensorgrid".to_vec();
    domain.chain.encode(&mut bytes);
    domain.genesis.encode(&mut bytes);
    bytes
}

/// The engine's form of a secret key.
pub(crate) fn private_key(key: &SecretKey) -> ed25519::PrivateKey {
    let seed = key.expose_seed();
    ed25519::PrivateKey::decode(Copying(&seed[..])).expect("any 32 bytes are a secret key")
}

/// The engine's form of a public key.
pub(crate) fn public_key(bytes: &[u8; 32]) -> Key {
    Key::decode(Copying(&bytes[..])).expect("keys of the genesis are checked")
}

/// Starts the seat with this key.
pub(crate) fn start(
    context: deterministic::Context,
    genesis: &Genesis,
    key: &SecretKey,
    (sender, receiver): (NetSender, NetReceiver),
    spread: Spread,
    chance: StdRng,
) -> Handle<()> {
    let seats = genesis.validators().iter().map(|seat| public_key(seat.key.as_bytes()));
    let voters: Set<Key> = seats.try_collect().expect("seats are unique");
    let peers: Vec<Key> = voters.iter().cloned().collect();
    let scheme = Votes::signer(&namespace(&genesis.domain()), voters, private_key(key))
        .expect("the key has a seat");
    let liar = Liar { scheme, sender, peers, spread, chance };
    context.spawn(move |_| liar.run(receiver))
}

struct Liar {
    scheme: Votes,
    sender: NetSender,
    peers: Vec<Key>,
    spread: Spread,
    chance: StdRng,
}

impl Liar {
    async fn run(mut self, mut receiver: NetReceiver) {
        let mut last = None;
        let mut sent = 0;
        while sent < CONTRADICTIONS_MAX {
            let Ok((_, message)) = receiver.recv().await else { return };
            let Ok(vote) = Vote::<Votes, Digest>::decode(message) else { continue };
            let (round, step) = match &vote {
                Vote::Notarize(vote) => (vote.proposal.round, 0),
                Vote::Nullify(vote) => (vote.round, 1),
                Vote::Finalize(vote) => (vote.proposal.round, 2),
            };
            if last == Some((round, step)) {
                continue;
            }
            last = Some((round, step));
            if let Some(pair) = self.contradict(vote) {
                self.send(pair);
                sent += 1;
            }
        }
    }

    /// Two votes of this seat that must not both exist.
    fn contradict(&mut self, vote: Vote<Votes, Digest>) -> Option<[Vote<Votes, Digest>; 2]> {
        let salt: u64 = self.chance.random();
        let other = |honest: &Proposal<Digest>| {
            let payload = Sha256::hash(&[&salt.to_be_bytes()]);
            Proposal::new(honest.round, honest.parent, payload)
        };
        let scheme = &self.scheme;
        match vote {
            Vote::Notarize(seen) => {
                let lie = Notarize::sign(scheme, other(&seen.proposal))?;
                let truth = Notarize::sign(scheme, seen.proposal)?;
                Some([Vote::Notarize(lie), Vote::Notarize(truth)])
            }
            Vote::Finalize(seen) if self.chance.random_bool(0.5) => {
                let skip = Nullify::sign::<Digest>(scheme, seen.proposal.round)?;
                let keep = Finalize::sign(scheme, seen.proposal)?;
                Some([Vote::Nullify(skip), Vote::Finalize(keep)])
            }
            Vote::Finalize(seen) => {
                let lie = Finalize::sign(scheme, other(&seen.proposal))?;
                let truth = Finalize::sign(scheme, seen.proposal)?;
                Some([Vote::Finalize(lie), Vote::Finalize(truth)])
            }
            Vote::Nullify(_) => None,
        }
    }

    fn send(&mut self, pair: [Vote<Votes, Digest>; 2]) {
        let [first, second] = pair.map(|vote| vote.encode());
        match self.spread {
            Spread::Both => {
                self.sender.send(Recipients::All, first, true);
                self.sender.send(Recipients::All, second, true);
            }
            Spread::Halves => {
                let middle = self.peers.len() / 2;
                let (left, right) = (self.peers[..=middle].to_vec(), self.peers[middle..].to_vec());
                self.sender.send(Recipients::Some(left), first, true);
                self.sender.send(Recipients::Some(right), second, true);
            }
        }
    }
}
