//! The channel on which machines of different nodes talk to each other.
//!
//! The engine limits how many messages a peer may send per second, so announcements are gathered
//! for a few milliseconds and leave together.

use crate::{
    machine::{PAYLOAD_BYTES_MAX, SharedMachine},
    state::Runtime,
};
use bytes::Bytes;
use commonware_cryptography::ed25519;
use commonware_p2p::{Receiver, Recipients, Sender};
use commonware_runtime::Handle as Task;
use futures::FutureExt as _;
use std::{sync::Arc, time::Duration};
use tg_types::key::PublicKey;
use tokio::sync::Notify;

/// Announcements are gathered this long: short against a block, long against the message quota.
const GATHER: Duration = Duration::from_millis(5);

/// The machine is asked at least this often, so that it can repeat requests.
const PULSE: Duration = Duration::from_millis(100);

/// Starts the task that owns the channel.
pub(crate) fn start<E: Runtime>(
    context: E,
    machine: SharedMachine,
    outbox: Arc<Notify>,
    (mut sender, mut receiver): (
        impl Sender<PublicKey = ed25519::PublicKey>,
        impl Receiver<PublicKey = ed25519::PublicKey>,
    ),
) -> Task<()> {
    context.spawn(move |context| async move {
        let mut pulse = Box::pin(context.sleep(PULSE).fuse());
        loop {
            let mut due = false;
            futures::select_biased! {
                message = receiver.recv().fuse() => {
                    let Ok((peer, message)) = message else { return };
                    let message = Bytes::copy_from_slice(message.as_ref());
                    if let Some(reply) = receive(&machine, &peer, &message) {
                        sender.send(Recipients::One(peer), reply, false);
                    }
                }
                () = outbox.notified().fuse() => {
                    context.sleep(GATHER).await;
                    due = true;
                }
                () = pulse => {
                    pulse = Box::pin(context.sleep(PULSE).fuse());
                    due = true;
                }
            }
            if due {
                for message in machine.pulse() {
                    assert!(message.len() <= PAYLOAD_BYTES_MAX, "gossip is cut to size");
                    sender.send(Recipients::All, message, false);
                }
            }
        }
    })
}

fn receive(machine: &SharedMachine, peer: &ed25519::PublicKey, message: &Bytes) -> Option<Bytes> {
    let peer = PublicKey::new(peer.as_ref().try_into().ok()?).ok()?;
    machine.gossiped(&peer, message)
}
