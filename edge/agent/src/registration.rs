//! A node's place in the registry. Its owner makes the offer; a node that a quorum of validators
//! did not see is absent until its owner speaks again, and is dropped after a while. So whoever was
//! stopped, cut off or starved for some seconds would be useless for ever. [`stay`] looks whether
//! the chain lists the node as it should, and says it again if not, as long as the node does not
//! leave.
//!
//! All transactions of the owner pass through one [`Registration`]: they share a lane, in which one
//! must not overtake the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tg_gateway::{Gateway, GatewayError};
use tg_ledger::{NodeEntry, keys};
use tg_types::{AccountId, Action, Kind, Lane, NodeDescriptor, NodeId, SecretKey};
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

/// The lane of the owner's own transactions: the agent's steps have the lanes after it.
const OWNER_LANE: Lane = match Lane::new(1) {
    Ok(lane) => lane,
    Err(_) => Lane::FIRST,
};

/// How often the registry is looked at without a reason. Events tell sooner; this is for those that
/// nobody told us.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The pause before a node comes back for the second time; it doubles with each further one, so
/// that a node that can speak and cannot be seen does not fill blocks.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest pause: how long a node may be out of work after whatever kept it away is over.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A node that was listed for so long has nothing to make up for.
const CALM: Duration = Duration::from_secs(120);

/// A node's place in the registry.
pub struct Registration {
    gateway: Arc<Gateway>,
    key: SecretKey,
    node: NodeId,
    /// What the node offers; nothing before it comes and when it leaves. A lock that is held across
    /// waits: whoever holds it has the turn in the owner's lane.
    offer: Mutex<Option<NodeDescriptor>>,
    /// Wakes whoever looks at the registry.
    lost: Notify,
    returns: AtomicU64,
}

/// What the chain has to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Register,
    Change,
}

impl Registration {
    /// The registration of the node with this key, which is its own owner.
    #[must_use]
    pub fn new(gateway: Arc<Gateway>, key: SecretKey) -> Self {
        let node = NodeId::new(*key.public().as_bytes());
        let (offer, lost, returns) = (Mutex::default(), Notify::new(), AtomicU64::new(0));
        Self { gateway, key, node, offer, lost, returns }
    }

    /// Which node it is.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// How often the node had to come back.
    #[must_use]
    pub fn returns(&self) -> u64 {
        self.returns.load(Ordering::Relaxed)
    }

    /// Makes an offer: the node is registered, or its offer changed.
    ///
    /// # Errors
    /// If the chain refuses it or cannot be reached.
    pub async fn offer(&self, descriptor: NodeDescriptor) -> Result<(), GatewayError> {
        let mut offer = self.offer.lock().await;
        // Whoever makes an offer says that the node is there, also if nothing changes.
        let need = self.record().await?.map_or(Need::Register, |_| Need::Change);
        self.tell(need, descriptor.clone()).await?;
        *offer = Some(descriptor);
        Ok(())
    }

    /// Takes the node out; it does not come back by itself from now on.
    ///
    /// # Errors
    /// If the chain refuses it, as while the node has something to finish, or cannot be reached.
    pub async fn leave(&self) -> Result<(), GatewayError> {
        let mut offer = self.offer.lock().await;
        *offer = None;
        self.send(Action::LeaveNode { node: self.node }).await
    }

    /// Says that the chain may not list the node any more as it should.
    pub(crate) fn look_soon(&self) {
        self.lost.notify_one();
    }

    /// Looks whether the node is listed, and says what it offers again if it is not. Gives whether
    /// that was needed.
    async fn mend(&self) -> Result<bool, GatewayError> {
        let offer = self.offer.lock().await;
        let Some(descriptor) = offer.clone() else { return Ok(false) };
        let Some(need) = need(self.record().await?.as_ref()) else { return Ok(false) };
        self.tell(need, descriptor).await?;
        self.returns.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(node = %self.node, ?need, "validators did not see the node; it is back");
        Ok(true)
    }

    async fn record(&self) -> Result<Option<NodeEntry>, GatewayError> {
        self.gateway.entry(keys::node(&self.node)).await
    }

    async fn tell(&self, need: Need, descriptor: NodeDescriptor) -> Result<(), GatewayError> {
        let node = self.node;
        let action = match need {
            Need::Change => Action::ChangeNode { node, descriptor },
            Need::Register => {
                let owner = AccountId::from(self.key.public());
                let domain = self.gateway.domain();
                let consent = self.key.sign(domain, Kind::NodeConsent, owner.as_bytes());
                Action::RegisterNode { node, descriptor, consent }
            }
        };
        self.send(action).await
    }

    async fn send(&self, action: Action) -> Result<(), GatewayError> {
        let account = AccountId::from(self.key.public());
        let nonce = self.gateway.nonce(account, OWNER_LANE).await?;
        self.gateway.send(&self.key, (OWNER_LANE, nonce), action).await.map(drop)
    }
}

/// What a node that is there has to say, by what the chain says of it.
fn need(record: Option<&NodeEntry>) -> Option<Need> {
    match record {
        None => Some(Need::Register),
        Some(record) => record.absent.map(|_| Need::Change),
    }
}

/// Keeps a node in the registry, for as long as it has an offer. Does not end by itself.
pub(crate) async fn stay(registration: Arc<Registration>) {
    let mut pauses = Pauses::new(Instant::now());
    loop {
        let _either_is_a_reason =
            tokio::time::timeout(LOOK_EVERY, registration.lost.notified()).await;
        match registration.mend().await {
            Ok(false) => continue,
            Ok(true) => {}
            Err(error) => {
                tracing::warn!(%error, "the node cannot be registered again");
                registration.look_soon();
            }
        }
        tokio::time::sleep(pauses.next(Instant::now())).await;
    }
}

/// How long to wait after one return, or one that failed, before the next.
struct Pauses {
    last: Instant,
    next: Duration,
}

impl Pauses {
    const fn new(now: Instant) -> Self {
        Self { last: now, next: PAUSE_MIN }
    }

    fn next(&mut self, now: Instant) -> Duration {
        if now.duration_since(self.last) >= CALM {
            self.next = PAUSE_MIN;
        }
        self.last = now;
        let pause = self.next;
        self.next = (pause * 2).min(PAUSE_MAX);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::{CALM, Need, PAUSE_MAX, PAUSE_MIN, Pauses, need};
    use std::time::Duration;
    use tg_ledger::{Capacity, NodeEntry, Reputation};
    use tg_types::{Amount, Device, DeviceKind, Features, List, NodeDescriptor, SecretKey, Tick};
    use tokio::time::Instant;

    fn entry(absent: Option<Tick>) -> NodeEntry {
        let name = |text: &str| text.parse().expect("a name");
        let (kind, features) = (DeviceKind::Cpu, Features::NONE);
        let device = Device {
            kind,
            model: name("test"),
            memory_mib: 1,
            count: 1,
            features,
            sharing: tg_types::Sharing::WHOLE,
        };
        NodeEntry {
            owner: SecretKey::from_seed([1; 32]).public().into(),
            descriptor: NodeDescriptor {
                region: name("here"),
                devices: List::new(vec![device]).expect("one"),
                host: tg_types::HostPart::NONE,
                price_per_hour: Amount::ZERO,
                price_per_tera: Amount::ZERO,
                slots: 1,
                is_open: true,
                closes: None,
            },
            since: Tick::ZERO,
            place: 0,
            runs: List::default(),
            drains: None,
            held: List::default(),
            hosted: List::default(),
            kept: List::default(),
            checks: 0,
            absent,
            reputation: Reputation::default(),
            capacity: Capacity::default(),
        }
    }

    #[test]
    fn node_speaks_when_it_is_absent_or_dropped_and_else_not() {
        assert_eq!(need(None), Some(Need::Register));
        assert_eq!(need(Some(&entry(Some(Tick::ZERO)))), Some(Need::Change));
        assert_eq!(need(Some(&entry(None))), None);
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_begin_anew_after_a_calm() {
        let mut now = Instant::now();
        let mut pauses = Pauses::new(now);
        let mut taken = Vec::new();
        for _ in 0..8 {
            let pause = pauses.next(now);
            taken.push(pause.as_secs());
            now += pause;
        }
        assert_eq!(taken, [1, 2, 4, 8, 16, 32, 60, 60]);
        now += CALM - PAUSE_MAX - Duration::from_millis(1);
        assert_eq!(pauses.next(now), PAUSE_MAX, "not calm for long enough");
        assert_eq!(pauses.next(now + CALM), PAUSE_MIN);
    }
}
