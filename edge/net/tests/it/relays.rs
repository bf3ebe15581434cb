//! Relays: whom they let in, whom peers believe, and that they can be started again.

use crate::support::{
    Folder, HERE, LONG, Script, client, id, peer, relay, relay_only, secret, serve,
};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;
use tg_net::{
    CertificatePlace, OnlineError, Peer, Relay, RelayAllow, RelayError, RelaySettings, Route,
    RouteError,
};
use tg_types::Hash32;
use tokio::time::{sleep, timeout};

fn only(numbers: &[u8]) -> RelayAllow {
    RelayAllow::Only(numbers.iter().map(|number| id(*number)).collect::<BTreeSet<_>>())
}

async fn until(what: impl Fn() -> bool) {
    let waiting = async {
        while !what() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, waiting).await.expect("happens");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_lets_in_whom_it_is_told_to() {
    let settings = RelaySettings { allow: only(&[1]), ..RelaySettings::new(HERE) };
    let relay = Relay::start(settings).await.expect("a relay");
    let known = peer(1, relay.info(), relay_only()).await;
    let stranger = Peer::bind(&secret(2), &[relay.info().clone()], relay_only()).await;
    let stranger = stranger.expect("a peer");
    let denied = stranger.online(LONG).await;
    let url = relay.info().url.clone();
    let expected = OnlineError::Denied { relay: url, reason: "not registered".to_owned() };
    assert_eq!(denied, Err(expected));
    assert_eq!(relay.present(), [id(1)]);

    relay.set_allow(only(&[2]));
    until(|| relay.present().is_empty() || relay.present() == [id(2)]).await;
    // The library tries again by itself, with pauses.
    let let_in = async {
        while stranger.online(LONG).await.is_err() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(LONG, let_in).await.expect("is let in");
    assert_eq!(relay.present(), [id(2)]);
    for peer in [&known, &stranger] {
        peer.stop().await.expect("stops");
    }
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_with_another_certificate_is_not_believed() {
    let relay = relay().await;
    let mut info = relay.info().clone();
    info.certificate = Hash32::new([7; 32]);
    let peer = Peer::bind(&secret(1), &[info], relay_only()).await.expect("a peer");
    let offline = peer.online(Duration::from_secs(4)).await;
    let (url, found) = (relay.info().url.clone(), relay.info().certificate);
    assert_eq!(offline, Err(OnlineError::Certificate { relay: url, found }));
    assert!(relay.present().is_empty());
    peer.stop().await.expect("stops");
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_that_is_not_there_is_named() {
    let relay = relay().await;
    let info = relay.info().clone();
    relay.stop().await.expect("stops");
    let peer = Peer::bind(&secret(1), from_ref(&info), relay_only()).await.expect("a peer");
    let offline = peer.online(Duration::from_secs(4)).await;
    let is_named =
        matches!(&offline, Err(OnlineError::Unreachable { relay, .. }) if *relay == info.url);
    assert!(is_named, "{offline:?}");
    peer.stop().await.expect("stops");
}

/// Goal: peers find each other again after their relay was started anew, at once and at the same
/// place. Method: relay-only peers, so that nothing works without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_that_is_restarted_is_found_again() {
    let folder = Folder::new();
    let certificate = CertificatePlace::Folder(folder.path().join("relay"));
    let start = |listen: SocketAddr| {
        let certificate = certificate.clone();
        Relay::start(RelaySettings { certificate, ..RelaySettings::new(listen) })
    };
    let relay = start(HERE).await.expect("a relay");
    let info = relay.info().clone();
    let listen = info.url.address().as_str().parse().expect("an address");
    let server = peer(1, &info, relay_only()).await;
    serve(&server, Script::silent(), &Arc::default());
    let client = client(2, &info, relay_only(), server.id()).await;
    client.call(server.id(), b"hello".to_vec()).await.expect("answers");

    relay.stop().await.expect("stops");
    let relay = start(listen).await.expect("starts again, although the port was just used");
    assert_eq!(*relay.info(), info, "the certificate is kept");
    let found = async {
        loop {
            match timeout(Duration::from_secs(8), client.call(server.id(), b"hi".to_vec())).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(_)) | Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    };
    assert_eq!(timeout(LONG, found).await.expect("is found again"), b"hi");
    for peer in [&client, &server] {
        peer.stop().await.expect("stops");
    }
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_is_kept_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let place = CertificatePlace::Folder(folder.path().join("relay"));
    let settings = RelaySettings { certificate: place, ..RelaySettings::new(HERE) };
    let relay = Relay::start(settings.clone()).await.expect("a relay");
    relay.stop().await.expect("stops");
    let key = folder.path().join("relay/relay.key");
    let mode = std::fs::metadata(&key).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    std::fs::write(&key, b"no key").expect("writes");
    let refused = Relay::start(settings.clone()).await;
    assert!(matches!(refused, Err(RelayError::Certificate(_))), "{refused:?}");
    std::fs::remove_file(&key).expect("removes");
    let refused = Relay::start(settings).await;
    assert!(matches!(refused, Err(RelayError::File { verb: "read", .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_that_cannot_be_named_is_refused() {
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let refused = Relay::start(RelaySettings::new(everywhere)).await;
    assert!(matches!(refused, Err(RelayError::NoPublicAddress { .. })), "{refused:?}");
    let public = Some("Relay.Example.org:443".parse().expect("an address"));
    let refused = Relay::start(RelaySettings { public, ..RelaySettings::new(everywhere) }).await;
    assert!(matches!(refused, Err(RelayError::Url(_))), "{refused:?}");
    let public = Some("relay.example.org:443".parse().expect("an address"));
    let named = Relay::start(RelaySettings { public, ..RelaySettings::new(everywhere) }).await;
    let named = named.expect("a relay");
    assert_eq!(named.info().url.to_string(), "https://relay.example.org:443");
    named.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn port_that_stays_taken_is_given_up() {
    let taken = std::net::TcpListener::bind(HERE).expect("a port");
    let listen = taken.local_addr().expect("an address");
    let refused = Relay::start(RelaySettings::new(listen)).await;
    assert!(matches!(refused, Err(RelayError::Listen { attempts: 20, .. })), "{refused:?}");
}

/// Goal: who stays behind its own relay can call others behind theirs, and is not found there.
/// Method: two relays with one peer each; the one knows the other's relay only to call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peer_calls_behind_another_relay_and_stays_at_home() {
    let (here, there) = (relay().await, relay().await);
    let far = peer(1, there.info(), relay_only()).await;
    serve(&far, Script::silent(), &Arc::default());
    let near = peer(2, here.info(), relay_only()).await;
    assert_eq!(near.home(), Some(here.info().url.clone()));
    let route = Route::relayed(there.info().url.clone());
    let unknown = RouteError::UnknownRelay { relay: there.info().url.clone() };
    assert_eq!(near.add_route(id(1), route.clone()), Err(unknown));
    near.trust_relay(there.info()).expect("few");
    near.add_route(id(1), route).expect("is known now");
    let answer = near.call(id(1), b"who..".to_vec()).await.expect("answers");
    assert_eq!(answer, id(2).as_bytes());
    assert_eq!(near.home(), Some(here.info().url.clone()));
    for peer in [&near, &far] {
        peer.stop().await.expect("stops");
    }
    assert_eq!(near.home(), None);
    for relay in [here, there] {
        relay.stop().await.expect("stops");
    }
}
