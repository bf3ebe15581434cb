//! A relay, peers and a handler for all tests.

use futures::future::BoxFuture;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tg_net::{
    BlobGate, CallHandler, Peer, PeerId, PeerSettings, Reach, Relay, RelayInfo, RelaySettings,
    ReplyError, ReplySender, Route, Services, ShareList,
};
use tg_types::SecretKey;
use tokio::sync::mpsc;

/// How long anything in these tests may take. None is expected to take this long.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Any free port of the machine itself.
pub(crate) const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(crate) fn secret(number: u8) -> SecretKey {
    SecretKey::from_seed([number; 32])
}

pub(crate) fn id(number: u8) -> PeerId {
    PeerId::of(&secret(number))
}

pub(crate) async fn relay() -> Relay {
    Relay::start(RelaySettings::new(HERE)).await.expect("a relay")
}

pub(crate) fn direct() -> PeerSettings {
    PeerSettings { reach: Reach::DirectOn(HERE), ..PeerSettings::default() }
}

pub(crate) fn relay_only() -> PeerSettings {
    PeerSettings { reach: Reach::RelayOnly, ..PeerSettings::default() }
}

/// A peer that is connected to the relay.
pub(crate) async fn peer(number: u8, relay: &RelayInfo, settings: PeerSettings) -> Peer {
    let peer = Peer::bind(&secret(number), std::slice::from_ref(relay), settings).await;
    let peer = peer.expect("a peer");
    assert_eq!(peer.id(), id(number), "transport and ledger read a key alike");
    peer.online(LONG).await.expect("is online");
    peer
}

/// A peer that knows where another one is.
pub(crate) async fn client(
    number: u8,
    relay: &RelayInfo,
    settings: PeerSettings,
    to: PeerId,
) -> Peer {
    let client = peer(number, relay, settings).await;
    client.add_route(to, Route::relayed(relay.url.clone())).expect("a route");
    client
}

/// Serves the scripted handler and the shared blobs.
pub(crate) fn serve(peer: &Peer, handler: Script, shares: &Arc<ShareList>) {
    let gate: Arc<dyn BlobGate> = Arc::clone(shares) as _;
    let services = Services { calls: Some(Arc::new(handler)), blobs: Some(gate) };
    peer.serve(services).expect("serves");
}

/// Does what the request says. What happens to handlers is told on a channel.
pub(crate) struct Script {
    told: mpsc::Sender<&'static str>,
}

impl Script {
    pub(crate) fn new() -> (Self, mpsc::Receiver<&'static str>) {
        let (told, listen) = mpsc::channel(1024);
        (Self { told }, listen)
    }

    pub(crate) fn silent() -> Self {
        Self::new().0
    }
}

/// Tells when a handler's future is dropped.
struct TellDrop(mpsc::Sender<&'static str>);

impl Drop for TellDrop {
    fn drop(&mut self) {
        let _nobody_listens = self.0.try_send("dropped");
    }
}

impl CallHandler for Script {
    fn call(&self, from: PeerId, request: Vec<u8>, reply: ReplySender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _tell = TellDrop(self.told.clone());
            let text = String::from_utf8_lossy(request.get(..5).unwrap_or(&request)).into_owned();
            match text.as_str() {
                "who.." => {
                    let _gone = reply.send(from.as_bytes().to_vec()).await;
                }
                "two.." => {
                    let _gone = reply.send(b"one".to_vec()).await;
                    let _gone = reply.send(b"two".to_vec()).await;
                }
                "none." => {}
                "hang." => {
                    let _nobody_listens = self.told.try_send("hangs");
                    std::future::pending::<()>().await;
                }
                "show." => {
                    let _gone = reply.send(b"here".to_vec()).await;
                    std::future::pending::<()>().await;
                }
                "break" => {
                    let _gone = reply.send(b"so far".to_vec()).await;
                    assert!(request.is_empty(), "this handler breaks off");
                }
                "large" => {
                    let sent = reply.send(vec![0; tg_net::FRAME_BYTES_MAX + 1]).await;
                    let is_refused = matches!(sent, Err(ReplyError::TooLarge { .. }));
                    let _gone = reply.send(vec![u8::from(is_refused)]).await;
                }
                "count" => {
                    let digits = request.get(5..).unwrap_or_default();
                    let count: u32 = String::from_utf8_lossy(digits).parse().unwrap_or(0);
                    for number in 0..count {
                        if reply.send(number.to_be_bytes().to_vec()).await.is_err() {
                            return;
                        }
                    }
                }
                _ => {
                    let _gone = reply.send(request).await;
                }
            }
        })
    }
}

/// A folder that is removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let mut name = [0; 8];
        getrandom::fill(&mut name).expect("random bytes");
        let path = std::env::temp_dir().join(format!("tg-net-{}", hex::encode(name)));
        std::fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_to_the_system = std::fs::remove_dir_all(&self.0);
    }
}
