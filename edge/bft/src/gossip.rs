//! The channel on which machines of different nodes talk to each other.
//!
//! The engine limits how many messages a peer may send per second, so announcements are gathered
//! for a few milliseconds and leave together. What a message makes the machine do may take long
//! (signatures); that is done aside, one chore at a time, and what comes in meanwhile is the next
//! chore. A busy node so checks few large batches instead of many small ones.
//!
//! Nodes also greet here: a node begins to vote when it has heard from the whole committee, or
//! after a while without. Nodes that start together would else take each other for dead, vote to
//! skip each other's turns, and lose seconds.

use crate::{
    machine::{PAYLOAD_BYTES_MAX, SharedMachine},
    state::Runtime,
};
use bytes::{BufMut as _, Bytes, BytesMut};
use commonware_cryptography::ed25519;
use commonware_p2p::{Receiver, Recipients, Sender};
use commonware_runtime::Handle as Task;
use commonware_utils::channel::oneshot;
use futures::{
    FutureExt as _,
    future::{Fuse, FusedFuture as _},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tg_types::key::PublicKey;
use tokio::sync::Notify;

/// Announcements are gathered this long: short against a block, long against the message quota.
const GATHER: Duration = Duration::from_millis(5);

/// The machine is asked at least this often, so that it can repeat requests.
const PULSE: Duration = Duration::from_millis(100);

/// The first byte of a message: what the rest is.
mod tag {
    /// The machine's own.
    pub(super) const MACHINE: u8 = 0;
    /// Nothing: the sender has not heard from the receiver yet.
    pub(super) const GREETING: u8 = 1;
    /// Nothing: the answer to a greeting.
    pub(super) const ANSWER: u8 = 2;
}

/// The peers of the committee that have not been heard yet.
pub(crate) struct Strangers {
    keys: BTreeSet<ed25519::PublicKey>,
    all_heard: Option<oneshot::Sender<()>>,
}

impl Strangers {
    /// The others of a committee, and what resolves when all of them were heard.
    pub(crate) fn new(
        others: impl Iterator<Item = ed25519::PublicKey>,
    ) -> (Self, oneshot::Receiver<()>) {
        let (sender, all_heard) = oneshot::channel();
        let mut strangers = Self { keys: others.collect(), all_heard: Some(sender) };
        strangers.tell();
        (strangers, all_heard)
    }

    fn heard(&mut self, peer: &ed25519::PublicKey) {
        if self.keys.remove(peer) {
            self.tell();
        }
    }

    fn tell(&mut self) {
        if let Some(sender) = self.all_heard.take_if(|_| self.keys.is_empty()) {
            let _gone = sender.send(());
        }
    }
}

/// Starts the task that owns the channel.
pub(crate) fn start<E: Runtime>(
    context: E,
    machine: SharedMachine,
    outbox: Arc<Notify>,
    mut strangers: Strangers,
    (mut sender, mut receiver): (
        impl Sender<PublicKey = ed25519::PublicKey>,
        impl Receiver<PublicKey = ed25519::PublicKey>,
    ),
) -> Task<()> {
    context.spawn(move |context| async move {
        let mut pulse = Box::pin(context.sleep(Duration::ZERO).fuse());
        let mut gathered = Box::pin(Fuse::terminated());
        let mut chore = Box::pin(Fuse::terminated());
        loop {
            let mut due = false;
            futures::select_biased! {
                message = receiver.recv().fuse() => {
                    let Ok((peer, message)) = message else { return };
                    strangers.heard(&peer);
                    let message = Bytes::copy_from_slice(message.as_ref());
                    if let Some(reply) = receive(&machine, &peer, message) {
                        sender.send(Recipients::One(peer), reply, false);
                    }
                }
                _done = chore => {}
                () = outbox.notified().fuse() => {
                    if gathered.is_terminated() {
                        gathered = Box::pin(context.sleep(GATHER).fuse());
                    }
                }
                () = gathered => due = true,
                () = pulse => {
                    pulse = Box::pin(context.sleep(PULSE).fuse());
                    due = true;
                    if !strangers.keys.is_empty() {
                        let recipients = strangers.keys.iter().cloned().collect();
                        let greeting = framed(tag::GREETING, &[]);
                        sender.send(Recipients::Some(recipients), greeting, false);
                    }
                }
            }
            if chore.is_terminated() && machine.has_chores() {
                let machine = Arc::clone(&machine);
                let aside = context.child("chore").shared(true);
                chore = Box::pin(aside.spawn(move |_| async move { machine.do_chores() }).fuse());
            }
            if due {
                for message in machine.pulse() {
                    sender.send(Recipients::All, framed(tag::MACHINE, &message), false);
                }
            }
        }
    })
}

fn framed(tag: u8, message: &[u8]) -> Bytes {
    assert!(message.len() <= PAYLOAD_BYTES_MAX, "gossip is cut to size");
    let mut framed = BytesMut::with_capacity(message.len() + 1);
    framed.put_u8(tag);
    framed.put_slice(message);
    framed.freeze()
}

/// The answer to a message, if it asks for one. What cannot be read is dropped.
fn receive(
    machine: &SharedMachine,
    peer: &ed25519::PublicKey,
    mut message: Bytes,
) -> Option<Bytes> {
    let tag = message.split_to(message.len().min(1));
    match *tag.first()? {
        tag::MACHINE => {
            let peer = PublicKey::new(peer.as_ref().try_into().ok()?).ok()?;
            Some(framed(tag::MACHINE, &machine.gossiped(&peer, &message)?))
        }
        tag::GREETING => Some(framed(tag::ANSWER, &[])),
        _ => None,
    }
}
