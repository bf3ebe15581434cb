//! The server: HTTP on one thread in front of a node's chain.
//!
//! Requests are bounded in number and bytes before they are read, and answered with `busy` at once
//! when there are too many; nothing waits in a queue without a bound. The server decides nothing:
//! it turns questions into calls of the chain.

mod counters;
mod errors;
mod events;
mod faucet;
pub mod limits;
mod listener;
mod methods;
mod routes;
mod show;
mod submit;
mod work;

pub use faucet::FaucetConfig;

use crate::rpc::RpcError;
use counters::Counters;
use faucet::Faucet;
use limits::{BODIES_BYTES_MAX, CALLS_MAX, CHECK_THREADS, LISTENERS_MAX, STOP_GRACE};
use listener::BoundedListener;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::Arc,
    thread,
};
use submit::Collector;
use tg_chain::Chain;
use tg_types::{Decode, Height, StateKey};
use tokio::{
    runtime,
    sync::{Semaphore, oneshot, watch},
    task::JoinSet,
};

/// How a server listens and what it offers.
#[derive(Debug)]
pub struct ApiConfig {
    /// Where it listens. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The faucet; it works on local networks only.
    pub faucet: Option<FaucetConfig>,
}

impl ApiConfig {
    /// A server that only this machine reaches.
    #[must_use]
    pub const fn loopback(port: u16) -> Self {
        Self {
            listen: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            faucet: None,
        }
    }
}

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The operating system refused a thread or runtime.
    #[error("cannot start the server's thread")]
    Thread(#[source] io::Error),
    /// The server failed while it ran.
    #[error("the server failed")]
    Serve(#[source] io::Error),
}

/// What all requests share.
struct Shared {
    chain: Chain,
    collector: Collector,
    faucet: Option<Faucet>,
    counters: Counters,
    calls: Semaphore,
    bodies: Arc<Semaphore>,
    listeners: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

impl Shared {
    /// Height of the last final block, 0 before the first.
    async fn tip(&self) -> Result<Height, RpcError> {
        let status = self.chain.status().await.map_err(errors::chain)?;
        Ok(status.tip.map_or(Height::ZERO, |(header, _)| header.height))
    }

    async fn entry<T: Decode>(&self, key: StateKey) -> Result<Option<T>, RpcError> {
        self.chain.entry(key).await.map_err(errors::chain)
    }

    /// Listeners of the event stream.
    fn listening(&self) -> usize {
        LISTENERS_MAX.saturating_sub(self.listeners.available_permits())
    }
}

/// Serves a chain until `stop` is done.
///
/// # Errors
/// If the address cannot be listened on, or the server fails.
pub async fn serve(
    config: ApiConfig,
    chain: Chain,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ApiError> {
    let (listener, _) = bind(config.listen)?;
    serve_on(listener, config.faucet, chain, stop).await
}

fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ApiError> {
    let failed = |source| ApiError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

async fn serve_on(
    listener: TcpListener,
    faucet: Option<FaucetConfig>,
    chain: Chain,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ApiError> {
    let listener = tokio::net::TcpListener::from_std(listener).map_err(ApiError::Serve)?;
    let (stopping, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let (collector, collecting) = Collector::new(chain.clone());
    tasks.spawn(collecting);
    let faucet = faucet.and_then(|faucet| Faucet::new(faucet, chain.clone(), collector.clone()));
    let faucet = faucet.map(|(faucet, serving)| {
        tasks.spawn(serving);
        faucet
    });
    let shared = Arc::new(Shared {
        chain,
        collector,
        faucet,
        counters: Counters::default(),
        calls: Semaphore::new(CALLS_MAX),
        bodies: Arc::new(Semaphore::new(BODIES_BYTES_MAX >> 10)),
        listeners: Arc::new(Semaphore::new(LISTENERS_MAX)),
        stop: stopped.clone(),
    });
    tasks.spawn(async move {
        stop.await;
        let _nobody_listens = stopping.send(true);
        // The sender stays, so that late askers still see that the server is stopping.
        std::future::pending::<()>().await;
    });
    let (mut told, mut overdue) = (stopped.clone(), stopped);
    let serving = axum::serve(BoundedListener::new(listener), routes::router(shared))
        .with_graceful_shutdown(async move {
            let _gone = told.wait_for(|stopping| *stopping).await;
        });
    let outcome = tokio::select! {
        outcome = serving => outcome.map_err(ApiError::Serve),
        () = async move {
            let _gone = overdue.wait_for(|stopping| *stopping).await;
            tokio::time::sleep(STOP_GRACE).await;
        } => Ok(()),
    };
    tasks.shutdown().await;
    outcome
}

/// A server on a thread of its own. Dropping it stops it.
#[derive(Debug)]
pub struct RunningApi {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<Result<(), ApiError>>>,
}

impl RunningApi {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server and waits for its thread: at most about half a second.
    ///
    /// # Errors
    /// If the server had failed before.
    pub fn stop(&mut self) -> Result<(), ApiError> {
        if let Some(stop) = self.stop.take() {
            let _stopped_already = stop.send(());
        }
        match self.thread.take().map(thread::JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(ApiError::Serve(io::Error::other("the server panicked"))),
            None => Ok(()),
        }
    }
}

impl Drop for RunningApi {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::error!(%error, "the server had failed");
        }
    }
}

/// Starts a server on a thread of its own.
///
/// # Errors
/// If the address cannot be listened on, or the operating system refuses a thread.
pub fn start(config: ApiConfig, chain: Chain) -> Result<RunningApi, ApiError> {
    let (listener, address) = bind(config.listen)?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(CHECK_THREADS)
        .thread_name("api-check")
        .build()
        .map_err(ApiError::Thread)?;
    let (stop, stopped) = oneshot::channel();
    let thread = thread::Builder::new()
        .name("api".to_owned())
        .spawn(move || {
            let stopped = async move {
                let _dropped_means_stop = stopped.await;
            };
            runtime.block_on(serve_on(listener, config.faucet, chain, stopped))
        })
        .map_err(ApiError::Thread)?;
    Ok(RunningApi { address, stop: Some(stop), thread: Some(thread) })
}
