//! Validators of which some fall silent, as those do that are killed: they take calls and do not
//! answer, over real connections.

use crate::client::{Gateway, SILENCE, SLOW};
use crate::desk::tests::{Net, SEATS};
use crate::message::{Failure, Reply, Request};
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tg_net::{CallHandler, PeerId, ReplySender};
use tg_types::Encode as _;

const LIVES: u8 = 0;
const REFUSES: u8 = 1;
const DEAD: u8 = 2;

/// A validator that does what it is told to, and when it was called.
#[derive(Default)]
struct Validator {
    state: AtomicU8,
    called: Mutex<Vec<Instant>>,
}

impl CallHandler for Validator {
    fn call(&self, _: PeerId, _: Vec<u8>, reply: ReplySender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let answer = match self.state.load(Ordering::Relaxed) {
                LIVES => Reply::Done,
                REFUSES => Reply::Failed { why: Failure::NotChosen },
                _ => return std::future::pending().await,
            };
            self.called.lock().expect("no panic").push(Instant::now());
            let _left = reply.send(answer.to_bytes()).await;
        })
    }
}

/// Validators, and somebody who has spoken to all of them.
struct Scene {
    validators: Vec<Arc<Validator>>,
    gateway: Arc<Gateway>,
    _net: Net,
}

impl Scene {
    async fn start() -> Self {
        let validators: Vec<Arc<Validator>> = (0..SEATS).map(|_| Arc::default()).collect();
        let handlers = validators.iter().map(|it| Arc::clone(it) as Arc<dyn CallHandler>);
        let net = Net::of(handlers.collect()).await;
        let gateway = net.gateway(60).await;
        gateway.hello(Duration::from_secs(10)).await;
        Self { validators, gateway, _net: net }
    }

    fn set(&self, place: usize, state: u8) {
        self.validators[place].state.store(state, Ordering::Relaxed);
    }

    /// The longest time since then in which a validator was not called.
    fn gap(&self, place: usize, since: Instant) -> Duration {
        let mut times = vec![since];
        let called = self.validators[place].called.lock().expect("no panic");
        times.extend(called.iter().copied().filter(|at| *at > since));
        times.push(Instant::now());
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }

    /// How many seats answer a round, and how long it takes.
    async fn round(&self, late: Duration) -> (usize, Duration) {
        let started = Instant::now();
        let wanted = |seat, reply| (reply == Reply::Done).then_some(seat);
        let found = self.gateway.ask_seats(&Request::WrapKey, late, wanted).await;
        (found.len(), started.elapsed())
    }
}

/// Goal: who is told that we are here does not depend on who else is there, even if no quorum is.
/// Method: two of four die; the others must go on being told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn living_validators_see_us_without_a_gap_while_others_are_dead() {
    let scene = Scene::start().await;
    let gateway = Arc::clone(&scene.gateway);
    let staying = tokio::spawn(async move { gateway.stay(Duration::from_millis(50)).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    scene.set(0, DEAD);
    scene.set(1, DEAD);
    let killed = Instant::now();
    tokio::time::sleep(Duration::from_secs(3)).await;
    for place in [2, 3] {
        let gap = scene.gap(place, killed);
        assert!(gap < Duration::from_millis(1_500), "validator {place} was not told for {gap:?}");
    }
    scene.set(0, LIVES);
    let back = Instant::now();
    while scene.gap(0, back) > back.elapsed() / 2 {
        assert!(back.elapsed() < Duration::from_secs(10), "it is told when it is back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    staying.abort();
}

/// Goal: the dead cost time once. Method: one of four dies; the round that notices it waits, the
/// next does not, also if another one refuses and there is no quorum.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn round_does_not_wait_for_whom_was_waited_in_vain() {
    let scene = Scene::start().await;
    scene.set(0, DEAD);
    scene.gateway.hello(SLOW).await;
    let (found, took) = scene.round(SLOW).await;
    assert_eq!(found, 3);
    assert!(took < SLOW, "took {took:?}");

    scene.set(1, REFUSES);
    let (found, took) = scene.round(SLOW).await;
    assert_eq!(found, 2);
    assert!(took < SILENCE, "took {took:?}");

    for place in [0, 1] {
        scene.set(place, LIVES);
    }
    let (found, _) = scene.round(Duration::from_secs(10)).await;
    assert!(found >= 3);
}

/// Goal: a question is answered although the validator that is asked first has died, and another is
/// asked first when that was noticed, while whoever follows blocks of a slow one goes on doing so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_validator_is_turned_away_from() {
    let scene = Scene::start().await;
    scene.set(0, DEAD);
    let started = Instant::now();
    let answer = scene.gateway.ask(&Request::WrapKey).await.expect("another one lives");
    assert_eq!(answer, Reply::Done);
    assert!(started.elapsed() < SILENCE, "took {:?}", started.elapsed());

    let blocks = scene.gateway.follow().expect("a validator");
    let gateway = Arc::clone(&scene.gateway);
    let staying = tokio::spawn(async move { gateway.stay(Duration::from_millis(50)).await });
    let started = Instant::now();
    while scene.gateway.roll.first() == 0 {
        assert!(started.elapsed() < SILENCE, "took {:?}", started.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let answer = scene.gateway.ask(&Request::WrapKey).await.expect("another one is asked first");
    assert_eq!(answer, Reply::Done);
    let first = scene.gateway.roll.first();
    scene.gateway.turn_from(&blocks);
    assert_eq!(scene.gateway.roll.first(), first, "somebody has turned away before");
    staying.abort();
}
