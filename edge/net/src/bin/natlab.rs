//! A relay, a provider and a client as processes, to try them in networks that one process cannot
//! show: behind routers, in namespaces, on other machines. `tests/natlab.sh` is its user.
//!
//! ```text
//! tg-natlab relay ADDRESS TICKET        writes the ticket into a file and relays
//! tg-natlab provider TICKET BLOB MARK   writes a blob's id into a file, answers and gives it
//! tg-natlab client TICKET BLOB MARK direct|relayed
//! ```
//! Files appear when what they name is ready. MARK is text that calls and the blob are full of, so
//! that whoever captures the traffic can look for it.

use futures::future::BoxFuture;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tg_net::{
    BlobGate, BlobId, CallHandler, FetchOrder, PathKind, Peer, PeerId, PeerSettings, Readers,
    Relay, RelaySettings, ReplySender, Route, Services, ShareList, Ticket, TicketParts,
    TicketValidator,
};
use tg_types::{GenesisHash, SecretKey};
use tokio::time;

/// Bytes of the blob: enough that a transfer lasts longer than finding a direct path.
const BLOB_BYTES: usize = 32 << 20;

/// Calls whose times are measured.
const CALLS: usize = 500;

/// How long any of the parties waits for another.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a path must stay relayed to count as relayed only.
const RELAYED_FOR: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let done = runtime.block_on(async {
        match words[..] {
            ["relay", address, ticket] => relay(address, ticket.as_ref()).await,
            ["provider", ticket, blob, mark] => {
                provider(ticket.as_ref(), blob.as_ref(), mark).await
            }
            ["client", ticket, blob, mark, kind] => {
                client(ticket.as_ref(), blob.as_ref(), mark, kind).await
            }
            _ => Err("expected relay, provider or client with their arguments".into()),
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error.as_ref()),
    }
}

/// Prints an error with its sources.
fn fail(error: &dyn Error) -> ExitCode {
    eprint!("tg-natlab: {error}");
    let mut source = error.source();
    while let Some(error) = source {
        eprint!(": {error}");
        source = error.source();
    }
    eprintln!();
    ExitCode::FAILURE
}

type Done = Result<(), Box<dyn Error>>;

fn provider_key() -> SecretKey {
    SecretKey::from_seed([1; 32])
}

async fn relay(address: &str, ticket: &Path) -> Done {
    let relay = Relay::start(RelaySettings::new(address.parse()?)).await?;
    let info = relay.info().clone();
    let validator = TicketValidator { id: PeerId::of(&provider_key()), relay: info.url.clone() };
    let parts = TicketParts {
        chain: "natlab".parse()?,
        genesis: GenesisHash::new([0; 32]),
        relays: vec![info],
        validators: vec![validator],
    };
    publish(ticket, &Ticket::new(parts)?.to_string())?;
    std::future::pending().await
}

struct Echo;

impl CallHandler for Echo {
    fn call(&self, _: PeerId, request: Vec<u8>, reply: ReplySender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _gone = reply.send(request).await;
        })
    }
}

async fn provider(ticket: &Path, blob: &Path, mark: &str) -> Done {
    let ticket: Ticket = await_file(ticket).await?.parse()?;
    let peer = Peer::bind(&provider_key(), ticket.relays(), PeerSettings::default()).await?;
    peer.online(PATIENCE).await?;
    let content = mark.as_bytes().iter().copied().cycle().take(BLOB_BYTES).collect();
    let added = peer.blobs().add_bytes(content).await?;
    let shares = Arc::new(ShareList::default());
    shares.share(added.id, Readers::Everybody)?;
    let gate: Arc<dyn BlobGate> = shares;
    peer.serve(Services { calls: Some(Arc::new(Echo)), blobs: Some(gate) })?;
    publish(blob, &added.id.to_string())?;
    std::future::pending().await
}

async fn client(ticket: &Path, blob: &Path, mark: &str, kind: &str) -> Done {
    let ticket: Ticket = await_file(ticket).await?.parse()?;
    let blob: BlobId = await_file(blob).await?.parse()?;
    let secret = SecretKey::from_seed([2; 32]);
    let peer = Peer::bind(&secret, ticket.relays(), PeerSettings::default()).await?;
    peer.online(PATIENCE).await?;
    let validators = ticket.validators();
    let provider = validators.first().ok_or("the ticket names a provider")?;
    peer.add_route(provider.id, Route::relayed(provider.relay.clone()))?;

    let found = await_path(&peer, provider.id, mark, kind).await?;
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = Instant::now();
        call(&peer, provider.id, mark).await?;
        times.push(start.elapsed());
    }
    times.sort();
    let start = Instant::now();
    let bytes_max = u64::try_from(BLOB_BYTES)?;
    let from = vec![provider.id];
    let order = FetchOrder { id: blob, from, bytes_max, progress: None };
    let report = peer.blobs().fetch(order).await?;
    let path = peer.path(provider.id).await.ok_or("the connection was lost")?;
    println!(
        "{kind} after {found:.1?}; {:?}; call median {:.2?} p99 {:.2?}; {} bytes in {:.2?}",
        path,
        times.get(CALLS / 2).ok_or("calls were made")?,
        times.get(CALLS * 99 / 100).ok_or("calls were made")?,
        report.read_bytes,
        start.elapsed(),
    );
    peer.stop().await?;
    Ok(())
}

async fn call(peer: &Peer, to: PeerId, mark: &str) -> Done {
    let answer = peer.call(to, mark.repeat(32).into_bytes()).await?;
    if answer != mark.repeat(32).as_bytes() {
        return Err("the answer is not the request".into());
    }
    Ok(())
}

/// Calls until the path is as expected, and says after how long.
async fn await_path(
    peer: &Peer,
    to: PeerId,
    mark: &str,
    kind: &str,
) -> Result<Duration, Box<dyn Error>> {
    let start = Instant::now();
    loop {
        call(peer, to, mark).await?;
        let path = peer.path(to).await.ok_or("the connection was lost")?;
        match (kind, path.kind) {
            ("direct", PathKind::Direct) => return Ok(start.elapsed()),
            ("direct", PathKind::Relayed) if start.elapsed() < PATIENCE => {}
            ("relayed", PathKind::Relayed) if start.elapsed() < RELAYED_FOR => {}
            ("relayed", PathKind::Relayed) => return Ok(start.elapsed()),
            _ => return Err(format!("expected a path that is {kind}: {path:?}").into()),
        }
        time::sleep(Duration::from_millis(5)).await;
    }
}

/// Writes a file so that whoever sees it sees all of it.
fn publish(path: &Path, text: &str) -> Done {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, text)?;
    Ok(std::fs::rename(draft, path)?)
}

async fn await_file(path: &Path) -> Result<String, Box<dyn Error>> {
    let until = Instant::now() + PATIENCE;
    while !path.exists() {
        if Instant::now() > until {
            return Err(format!("{} does not appear", path.display()).into());
        }
        time::sleep(Duration::from_millis(20)).await;
    }
    Ok(std::fs::read_to_string(path)?)
}
