//! The runtime of one node: the seeded runtime, with a clock that may be wrong and a disk that may
//! tear.
//!
//! The engine is generic over its runtime, so a wrong clock needs no hook in the product: a node
//! gets a context whose clock is off by some milliseconds. Spans are right, as on a machine with a
//! wrong wall clock: only instants are shifted.

use super::disk::{Disk, DiskBlob};
use commonware_runtime::{
    BlobVersion, Clock, Error, Handle, Metrics, Name, Spawner, Storage, Supervisor, deterministic,
    signal::Signal,
    telemetry::metrics::{Metric, Registered},
};
use rand_core::{TryCryptoRng, TryRng};
use std::{
    convert::Infallible,
    future::Future,
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime},
};

/// How far a node's clock is off, in milliseconds; shared with whoever sets it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Skew(Arc<AtomicI64>);

impl Skew {
    pub(crate) fn set(&self, millis: i64) {
        self.0.store(millis, Ordering::Relaxed);
    }

    /// What the wrong clock shows at a right instant.
    pub(crate) fn show(&self, right: SystemTime) -> SystemTime {
        shift(right, self.0.load(Ordering::Relaxed))
    }

    /// The right instant at which the wrong clock shows this.
    fn right(&self, shown: SystemTime) -> SystemTime {
        shift(shown, self.0.load(Ordering::Relaxed).saturating_neg())
    }
}

fn shift(instant: SystemTime, millis: i64) -> SystemTime {
    let span = Duration::from_millis(millis.unsigned_abs());
    let shifted = if millis < 0 { instant.checked_sub(span) } else { instant.checked_add(span) };
    shifted.unwrap_or(instant)
}

/// What a node runs on.
pub struct NodeContext {
    inner: deterministic::Context,
    skew: Skew,
    disk: Disk,
}

impl NodeContext {
    pub(crate) fn new(inner: deterministic::Context, skew: Skew, disk: Disk) -> Self {
        Self { inner, skew, disk }
    }

    fn with(&self, inner: deterministic::Context) -> Self {
        Self { inner, skew: self.skew.clone(), disk: self.disk.clone() }
    }
}

impl Supervisor for NodeContext {
    fn name(&self) -> Name {
        self.inner.name()
    }

    fn child(&self, label: &'static str) -> Self {
        self.with(self.inner.child(label))
    }

    fn with_attribute(self, key: &'static str, value: impl std::fmt::Display) -> Self {
        Self { inner: self.inner.with_attribute(key, value), ..self }
    }
}

impl Spawner for NodeContext {
    fn shared(self, blocking: bool) -> Self {
        Self { inner: self.inner.shared(blocking), ..self }
    }

    fn dedicated(self) -> Self {
        Self { inner: self.inner.dedicated(), ..self }
    }

    fn spawn<F, Fut, T>(self, f: F) -> Handle<T>
    where
        F: FnOnce(Self) -> Fut + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let Self { inner, skew, disk } = self;
        inner.spawn(move |inner| f(Self { inner, skew, disk }))
    }

    async fn stop(self, value: i32, timeout: Option<Duration>) -> Result<(), Error> {
        self.inner.stop(value, timeout).await
    }

    fn stopped(&self) -> Signal {
        self.inner.stopped()
    }
}

impl Metrics for NodeContext {
    fn register<N: Into<String>, H: Into<String>, M: Metric>(
        &self,
        name: N,
        help: H,
        metric: M,
    ) -> Registered<M> {
        self.inner.register(name, help, metric)
    }

    fn encode(&self) -> String {
        self.inner.encode()
    }
}

impl governor::clock::Clock for NodeContext {
    type Instant = SystemTime;

    fn now(&self) -> SystemTime {
        self.current()
    }
}

impl governor::clock::ReasonablyRealtime for NodeContext {}

impl Clock for NodeContext {
    fn current(&self) -> SystemTime {
        self.skew.show(self.inner.current())
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.inner.sleep(duration)
    }

    fn sleep_until(
        &self,
        deadline: SystemTime,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.inner.sleep_until(self.skew.right(deadline))
    }
}

impl Storage for NodeContext {
    type Blob = DiskBlob;

    async fn open_versioned(
        &self,
        partition: &str,
        name: &[u8],
        versions: RangeInclusive<BlobVersion>,
    ) -> Result<(DiskBlob, u64, BlobVersion), Error> {
        let file = (partition.to_owned(), name.to_vec());
        DiskBlob::open(&self.inner, &self.disk, file, versions).await
    }

    async fn remove(&self, partition: &str, name: Option<&[u8]>) -> Result<(), Error> {
        DiskBlob::remove(&self.inner, &self.disk, partition, name).await
    }

    async fn scan(&self, partition: &str) -> Result<Vec<Vec<u8>>, Error> {
        self.inner.scan(partition).await
    }
}

impl TryRng for NodeContext {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.inner.try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.inner.try_next_u64()
    }

    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Infallible> {
        self.inner.try_fill_bytes(dest)
    }
}

impl TryCryptoRng for NodeContext {}
