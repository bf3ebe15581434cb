//! Block production at the pace of the work: a leader with nothing to do waits for the heartbeat.
//!
//! The wait is here, in front of the engine's builder, and not inside the build: while a build
//! runs, the builder holds back the finality of the block before it.

use crate::{
    app::{Pace, millis, now_ms},
    block::ConsensusContext,
    machine::{SharedMachine, Work},
    state::{Digest, Runtime},
};
use commonware_actor::Feedback;
use commonware_consensus::{
    Automaton, CertifiableAutomaton, Handoff, Relay, Reporter, types::Round,
};
use commonware_utils::channel::oneshot;
use futures::FutureExt as _;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// A chain whose clock lags this many heartbeats behind does not wait: it catches up.
const LAG_HEARTBEATS: u32 = 4;

/// What a leader looks at to decide when to build.
#[derive(Clone)]
pub(crate) struct Pulse {
    pub(crate) machine: SharedMachine,
    pub(crate) work: Arc<Notify>,
    pub(crate) pace: Pace,
    /// Time of the last final block, in milliseconds.
    pub(crate) last_tick: Arc<AtomicU64>,
    /// When a block was last proposed, by whomever, in milliseconds.
    pub(crate) proposed: Arc<AtomicU64>,
}

impl Pulse {
    /// Waits until it is time to build: at once for a full block, after the spacing if there is
    /// work, else when the heartbeat is due. A chain whose clock lags behind does not wait.
    async fn wait<E: Runtime>(&self, context: &E) {
        let started = now_ms(context);
        let lag = started.saturating_sub(self.last_tick.load(Ordering::Relaxed));
        if Duration::from_millis(lag) > self.pace.heartbeat * LAG_HEARTBEATS {
            return;
        }
        loop {
            let woken = self.work.notified();
            let due = match self.machine.work() {
                Work::None => started.saturating_add(millis(self.pace.heartbeat)),
                Work::Some => {
                    self.proposed.load(Ordering::Relaxed).saturating_add(millis(self.pace.spacing))
                }
                Work::Full => return,
            };
            let rest = due.saturating_sub(now_ms(context));
            if rest == 0 {
                return;
            }
            futures::select_biased! {
                () = woken.fuse() => {}
                () = context.sleep(Duration::from_millis(rest)).fuse() => {}
            }
        }
    }

    /// Somebody proposes a block now.
    fn mark<E: Runtime>(&self, context: &E) {
        self.proposed.store(now_ms(context), Ordering::Relaxed);
    }
}

/// An engine's builder that is asked only when it is time to build.
pub(crate) struct Paced<E: Runtime, A> {
    context: Arc<E>,
    inner: A,
    pulse: Pulse,
}

impl<E: Runtime, A> Paced<E, A> {
    pub(crate) fn new(context: E, inner: A, pulse: Pulse) -> Self {
        Self { context: Arc::new(context), inner, pulse }
    }
}

impl<E: Runtime, A: Clone> Clone for Paced<E, A> {
    fn clone(&self) -> Self {
        Self {
            context: Arc::clone(&self.context),
            inner: self.inner.clone(),
            pulse: self.pulse.clone(),
        }
    }
}

impl<E, A> Automaton for Paced<E, A>
where
    E: Runtime,
    A: Automaton<Context = ConsensusContext, Digest = Digest>,
{
    type Context = ConsensusContext;
    type Digest = Digest;

    async fn propose(&mut self, context: ConsensusContext) -> oneshot::Receiver<Digest> {
        let (mut sender, receiver) = oneshot::channel();
        let (mut inner, pulse) = (self.inner.clone(), self.pulse.clone());
        self.context.child("pace").spawn(move |runtime| async move {
            futures::select_biased! {
                () = sender.closed().fuse() => return, // the view is over
                () = pulse.wait(&runtime).fuse() => {}
            }
            pulse.mark(&runtime);
            if let Ok(digest) = inner.propose(context).await.await {
                let _over = sender.send(digest);
            }
        });
        receiver
    }

    async fn verify(
        &mut self,
        context: ConsensusContext,
        block: Digest,
    ) -> oneshot::Receiver<bool> {
        self.pulse.mark(self.context.as_ref());
        self.inner.verify(context, block).await
    }
}

impl<E, A> CertifiableAutomaton for Paced<E, A>
where
    E: Runtime,
    A: CertifiableAutomaton<Context = ConsensusContext, Digest = Digest>,
{
    async fn prepare(&mut self, context: ConsensusContext) -> oneshot::Receiver<Handoff<Digest>> {
        self.inner.prepare(context).await
    }

    async fn certify(&mut self, round: Round, block: Digest) -> oneshot::Receiver<bool> {
        self.inner.certify(round, block).await
    }
}

impl<E: Runtime, A: Relay> Relay for Paced<E, A> {
    type Digest = A::Digest;
    type PublicKey = A::PublicKey;
    type Plan = A::Plan;

    fn broadcast(&mut self, payload: A::Digest, plan: A::Plan) -> Feedback {
        self.inner.broadcast(payload, plan)
    }
}

impl<E: Runtime, A: Reporter> Reporter for Paced<E, A> {
    type Activity = A::Activity;

    fn report(&mut self, activity: A::Activity) -> Feedback {
        self.inner.report(activity)
    }
}
