//! Threshold certificates over (height, header digest), made after a block is final.
//!
//! One small signature per height serves light clients, bridges and the beacon. The engine asks
//! [`Headers`] which digest to sign at a height and hands finished certificates to
//! [`Certificates`].

use crate::{
    block::Block,
    machine::SharedMachine,
    state::{Digest, Runtime},
    store::{Shelf, Store},
};
use bytes::{BufMut as _, Bytes, BytesMut};
use commonware_actor::Feedback;
use commonware_codec::{Encode as _, ReadExt as _, Write as _};
use commonware_consensus::{
    Automaton, IndexSubscription, Monitor, Reporter,
    aggregation::{scheme::bls12381_threshold as threshold, types::Activity},
    marshal::{core::Mailbox as MarshalMailbox, standard::Standard},
    simplex::scheme::ed25519 as votes,
    types::{Epoch, Height},
};
use commonware_cryptography::{bls12381::primitives::variant::MinSig, ed25519};
use commonware_p2p::{Message, Receiver};
use commonware_runtime::{Handle, IoBuf};
use commonware_utils::{
    NZUsize,
    channel::{mpsc, oneshot, ring},
};
use std::{
    collections::BTreeMap,
    fmt,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};
use tg_types::{header::Header, key::Domain};

pub(crate) type Votes = votes::Scheme;
pub(crate) type Threshold = threshold::Scheme<ed25519::PublicKey, MinSig>;
pub(crate) type Marshal = MarshalMailbox<Votes, Standard<Block>>;

/// Recent digests kept in memory; older ones are read from the block archive.
const RECENT_MAX: usize = 512;

/// Certificates waiting to be stored. The engine works on 16 heights at a time; after a restart it
/// repeats what its journal holds.
const FINISHED_MAX: usize = 4_096;

#[derive(Default)]
struct Recent {
    known: BTreeMap<u64, Digest>,
    waiting: BTreeMap<u64, Vec<oneshot::Sender<Digest>>>,
}

/// Final header digests by height, for the engine that certifies them.
///
/// The lock is held for map operations only: the engine's callback is synchronous, so a channel
/// to an owner would need the same lock around its replies.
#[derive(Clone)]
pub(crate) struct Headers {
    recent: Arc<Mutex<Recent>>,
    marshal: Marshal,
    domain: Arc<Domain>,
}

impl Headers {
    /// Knows the header before the first block; the others are announced when they are final.
    pub(crate) fn new(marshal: Marshal, domain: Arc<Domain>, genesis: &Header) -> Self {
        let digest = Digest::from(*genesis.digest(&domain).as_bytes());
        let headers = Self { recent: Arc::default(), marshal, domain };
        headers.put(genesis.height.get(), digest);
        headers
    }

    /// Announces the digest of a final header.
    pub(crate) fn put(&self, height: u64, digest: Digest) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.known.insert(height, digest);
        for waiting in recent.waiting.remove(&height).into_iter().flatten() {
            let _gone = waiting.send(digest);
        }
        while recent.known.len() > RECENT_MAX {
            recent.known.pop_first();
        }
    }

    /// The digest now, or a promise of it.
    fn subscribe(&self, height: u64) -> (oneshot::Receiver<Digest>, bool) {
        let (sender, receiver) = oneshot::channel();
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = recent.known.get(&height) {
            let _gone = sender.send(*digest);
            return (receiver, true);
        }
        recent.waiting.entry(height).or_default().push(sender);
        (receiver, false)
    }
}

impl Automaton for Headers {
    type Context = Height;
    type Digest = Digest;

    async fn propose(&mut self, height: Height) -> oneshot::Receiver<Digest> {
        let (receiver, known) = self.subscribe(height.get());
        // After a restart or state sync old heights are not announced again. What the block
        // archive holds is final, and its header root was agreed by a quorum.
        if !known && let Some(block) = self.marshal.get_block(height).await {
            self.put(
                height.get(),
                Digest::from(*block.inner().header.digest(&self.domain).as_bytes()),
            );
        }
        receiver
    }

    async fn verify(&mut self, _height: Height, _digest: Digest) -> oneshot::Receiver<bool> {
        let (sender, receiver) = oneshot::channel();
        let _gone = sender.send(true);
        receiver
    }
}

/// The committee is fixed by genesis, so there is one epoch. The engine stops when the sender of
/// its epoch subscription is dropped, hence they are kept.
#[derive(Clone, Default)]
pub(crate) struct OneEpoch {
    kept: Arc<Mutex<Vec<ring::Sender<Epoch>>>>,
}

impl Monitor for OneEpoch {
    type Index = Epoch;

    async fn subscribe(&mut self) -> (Epoch, IndexSubscription<Epoch>) {
        let (sender, receiver) = ring::channel(NZUsize!(1));
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        (Epoch::zero(), receiver)
    }
}

/// Receives finished certificates, stores them and tells the machine.
#[derive(Clone)]
pub(crate) struct Certificates(mpsc::Sender<(u64, Digest, Bytes)>);

impl Certificates {
    /// Starts the task that stores certificates in the order they arrive.
    pub(crate) fn start<E: Runtime>(
        context: E,
        store: Store,
        machine: SharedMachine,
    ) -> (Self, Handle<()>) {
        let (sender, mut finished) = mpsc::channel::<(u64, Digest, Bytes)>(FINISHED_MAX);
        let owner = context.spawn(move |_| async move {
            while let Some((height, digest, certificate)) = finished.recv().await {
                store.put(Shelf::Certificates, height, digest, certificate.clone()).await;
                machine.certified(tg_types::tick::Height::new(height), &certificate);
            }
        });
        (Self(sender), owner)
    }
}

impl Reporter for Certificates {
    type Activity = Activity<Threshold, Digest>;

    fn report(&mut self, activity: Self::Activity) -> Feedback {
        if let Activity::Certified(done) = activity {
            let bytes = done.certificate.encode();
            // A full queue drops the certificate; it is then fetched from a peer like any other.
            let _full = self.0.try_send((done.item.height.get(), done.item.digest, bytes));
        }
        Feedback::Ok
    }
}

/// The receiving end of the certifying engine, on which no peer seems to be further behind than
/// final blocks prove.
///
/// The engine neither gossips certificates nor fills gaps: a node that missed one waits for it at
/// its tip, unless enough peers claim a higher tip. After crashes several nodes may wait for
/// different ones, and none would ever sign again. What final blocks carry needs no certificate any
/// more, so here every peer's claim is raised to that height and the engine passes the gap.
pub(crate) struct ProvenTips<R> {
    acks: R,
    machine: SharedMachine,
}

impl<R> ProvenTips<R> {
    pub(crate) const fn new(acks: R, machine: SharedMachine) -> Self {
        Self { acks, machine }
    }
}

impl<R: fmt::Debug> fmt::Debug for ProvenTips<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProvenTips").field("acks", &self.acks).finish_non_exhaustive()
    }
}

impl<R: Receiver> Receiver for ProvenTips<R> {
    type Error = R::Error;
    type PublicKey = R::PublicKey;

    async fn recv(&mut self) -> Result<Message<R::PublicKey>, R::Error> {
        let (peer, message) = self.acks.recv().await?;
        let proven = self.machine.carried().map_or(0, |height| height.get().saturating_add(1));
        Ok((peer, raise_tip(message, proven)))
    }

    fn capacity(&self) -> NonZeroUsize {
        self.acks.capacity()
    }
}

/// Rewrites the tip at the beginning of a message if it is below the proven one. What does not
/// begin with a tip is left for the engine to refuse.
fn raise_tip(message: IoBuf, proven: u64) -> IoBuf {
    let mut rest = message.clone();
    match Height::read(&mut rest) {
        Ok(claimed) if claimed.get() < proven => {}
        Ok(_) | Err(_) => return message,
    }
    let mut raised = BytesMut::with_capacity(message.len() + 8);
    Height::new(proven).write(&mut raised);
    raised.put(rest);
    IoBuf::from(raised.freeze())
}
