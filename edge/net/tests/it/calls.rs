//! Calls: answered in full, bounded on both sides, and ended when either side is gone.

use crate::support::{LONG, Script, client, direct, id, peer, relay, relay_only, secret, serve};
use std::sync::Arc;
use std::time::Duration;
use tg_net::{
    BlobId, CALLS_PER_PEER_MAX, CallError, DialError, FRAME_BYTES_MAX, FetchOrder, OnlineError,
    PathKind, Peer, PeerId, PeerSettings, Readers, Refusal, Relay, Route, RouteError, ServeError,
    Services, ShareList,
};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

/// A server with the scripted handler and a client that knows it.
async fn pair(relay: &Relay, server: PeerSettings, asking: PeerSettings) -> (Peer, Peer) {
    let answering = peer(1, relay.info(), server).await;
    serve(&answering, Script::silent(), &Arc::default());
    let asking = client(2, relay.info(), asking, answering.id()).await;
    (answering, asking)
}

async fn stop(peers: &[&Peer], relay: Relay) {
    for peer in peers {
        peer.stop().await.expect("stops");
    }
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_is_answered_by_whom_it_was_meant_for() {
    let relay = relay().await;
    let (server, client) = pair(&relay, direct(), direct()).await;
    for size in [0, 1, 5, 65_536, FRAME_BYTES_MAX] {
        let request = vec![0x55; size];
        assert_eq!(client.call(server.id(), request.clone()).await.expect("answers"), request);
    }
    let who = client.call(server.id(), b"who..".to_vec()).await.expect("answers");
    assert_eq!(who, client.id().as_bytes(), "the server knows who asks");
    stop(&[&client, &server], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follow_gives_every_frame_in_order_and_then_ends() {
    let relay = relay().await;
    let (server, client) = pair(&relay, direct(), direct()).await;
    let mut frames = client.follow(server.id(), b"count5000".to_vec());
    for number in 0_u32..5000 {
        let frame = frames.next().await.expect("goes on").expect("a frame");
        assert_eq!(frame, number.to_be_bytes());
    }
    assert!(frames.next().await.is_none());
    stop(&[&client, &server], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_of_another_length_than_one_frame_is_no_answer_to_a_call() {
    let relay = relay().await;
    let (server, client) = pair(&relay, direct(), direct()).await;
    let none = client.call(server.id(), b"none.".to_vec()).await;
    assert!(matches!(none, Err(CallError::NotOneFrame { found: 0, .. })), "{none:?}");
    let two = client.call(server.id(), b"two..".to_vec()).await;
    assert!(matches!(two, Err(CallError::NotOneFrame { found: 2, .. })), "{two:?}");
    stop(&[&client, &server], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_or_answer_that_is_too_large_is_refused() {
    let relay = relay().await;
    let (server, client) = pair(&relay, direct(), direct()).await;
    let large = client.call(server.id(), vec![0; FRAME_BYTES_MAX + 1]).await;
    assert!(matches!(large, Err(CallError::TooLarge { .. })), "{large:?}");
    let mut frames = client.follow(server.id(), vec![0; FRAME_BYTES_MAX + 1]);
    let large = frames.next().await;
    assert!(matches!(large, Some(Err(CallError::TooLarge { .. }))), "{large:?}");
    let is_refused = client.call(server.id(), b"large".to_vec()).await.expect("answers");
    assert_eq!(is_refused, [1], "the handler is told");
    stop(&[&client, &server], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_that_hangs_is_cut() {
    let relay = relay().await;
    let short = Duration::from_millis(300);
    let server = PeerSettings { call_timeout: short, follow_silence: short, ..direct() };
    let (server, client) = pair(&relay, server, direct()).await;
    let cut = client.call(server.id(), b"hang.".to_vec()).await;
    let is_slow =
        |error: &CallError| matches!(error, CallError::Refused { reason: Refusal::TooSlow, .. });
    assert!(cut.as_ref().is_err_and(is_slow), "{cut:?}");
    // Silence after a first frame is cut as well.
    let mut frames = client.follow(server.id(), b"show.".to_vec());
    assert_eq!(frames.next().await.expect("goes on").expect("a frame"), b"here");
    let cut = frames.next().await.expect("an error");
    assert!(cut.as_ref().is_err_and(is_slow), "{cut:?}");
    assert!(frames.next().await.is_none(), "an error is the last item");
    // The connection is none the worse.
    assert_eq!(client.call(server.id(), b"again".to_vec()).await.expect("answers"), b"again");
    stop(&[&client, &server], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_with_less_patience_ends_in_time_and_the_next_is_answered() {
    let relay = relay().await;
    let (server, client) = pair(&relay, direct(), direct()).await;
    let within = Duration::from_millis(300);
    let cut = client.call_within(server.id(), b"hang.".to_vec(), within).await;
    assert!(matches!(cut, Err(CallError::TimedOut { after, .. }) if after == within), "{cut:?}");
    let again = client.call_within(server.id(), b"again".to_vec(), LONG).await;
    assert_eq!(again.expect("answers"), b"again");
    stop(&[&client, &server], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_that_breaks_off_does_not_look_like_an_end() {
    let relay = relay().await;
    let (server, client) = pair(&relay, direct(), direct()).await;
    let mut frames = client.follow(server.id(), b"break".to_vec());
    let mut last = frames.next().await.expect("an item");
    if last.as_ref().is_ok_and(|frame| frame == b"so far") {
        last = frames.next().await.expect("an error, not an end");
    }
    let is_failed = matches!(last, Err(CallError::Refused { reason: Refusal::Failed, .. }));
    assert!(is_failed, "{last:?}");
    assert_eq!(client.call(server.id(), b"again".to_vec()).await.expect("answers"), b"again");
    stop(&[&client, &server], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_ends_when_nobody_waits_any_more() {
    let relay = relay().await;
    let server = peer(1, relay.info(), direct()).await;
    let (script, mut told) = Script::new();
    serve(&server, script, &Arc::default());
    let client = client(2, relay.info(), direct(), server.id()).await;

    let frames = client.follow(server.id(), b"hang.".to_vec());
    assert_eq!(timeout(LONG, told.recv()).await.expect("in time"), Some("hangs"));
    drop(frames);
    assert_eq!(timeout(LONG, told.recv()).await.expect("in time"), Some("dropped"));

    let asking = client.call(server.id(), b"hang.".to_vec());
    tokio::select! {
        answer = asking => panic!("{answer:?}"),
        heard = told.recv() => assert_eq!(heard, Some("hangs")),
    }
    assert_eq!(timeout(LONG, told.recv()).await.expect("in time"), Some("dropped"));
    stop(&[&client, &server], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_call_too_many_is_told_so() {
    let relay = relay().await;
    let server = peer(1, relay.info(), direct()).await;
    let (script, mut told) = Script::new();
    serve(&server, script, &Arc::default());
    let client = client(2, relay.info(), direct(), server.id()).await;

    let mut hanging = Vec::new();
    for _ in 0..CALLS_PER_PEER_MAX {
        hanging.push(client.follow(server.id(), b"hang.".to_vec()));
        assert_eq!(timeout(LONG, told.recv()).await.expect("in time"), Some("hangs"));
    }
    let busy = client.call(server.id(), b"hello".to_vec()).await;
    assert!(matches!(busy, Err(CallError::Refused { reason: Refusal::Busy, .. })), "{busy:?}");

    let other = self::client(3, relay.info(), direct(), server.id()).await;
    let answer = other.call(server.id(), b"hello".to_vec()).await;
    assert_eq!(answer.expect("others are not kept out"), b"hello");

    hanging.pop();
    assert_eq!(timeout(LONG, told.recv()).await.expect("in time"), Some("dropped"));
    // The place is given back a moment after the handler is dropped.
    let freed = async {
        while client.call(server.id(), b"hello".to_vec()).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, freed).await.expect("the place is free again");
    stop(&[&client, &other, &server], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_through_a_relay_only_reach_each_other() {
    let relay = relay().await;
    let (server, client) = pair(&relay, relay_only(), relay_only()).await;
    assert!(server.bound().is_empty(), "no socket is open");
    assert!(client.path(server.id()).await.is_none(), "nothing was asked yet");
    let mut frames = client.follow(server.id(), b"count300".to_vec());
    let mut count = 0;
    while let Some(frame) = frames.next().await {
        frame.expect("a frame");
        count += 1;
    }
    assert_eq!(count, 300);
    let path = client.path(server.id()).await.expect("a path");
    assert_eq!(path.kind, PathKind::Relayed);
    assert_eq!(relay.present(), {
        let mut ids = vec![id(1), id(2)];
        ids.sort();
        ids
    });
    assert!(relay.traffic().received_bytes > 300 * 8);
    stop(&[&client, &server], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_that_can_find_a_direct_path() {
    let relay = relay().await;
    let (server, client) = pair(&relay, direct(), direct()).await;
    let becomes_direct = async {
        loop {
            client.call(server.id(), b"hello".to_vec()).await.expect("answers");
            let path = client.path(server.id()).await.expect("a path");
            if path.kind == PathKind::Direct {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, becomes_direct).await.expect("a direct path");
    relay.stop().await.expect("stops");
    let answer = client.call(server.id(), b"hello".to_vec()).await;
    assert_eq!(answer.expect("the relay is not needed any more"), b"hello");
    client.stop().await.expect("stops");
    server.stop().await.expect("stops");
}

/// A server in a runtime of its own, which can be torn down without a word.
fn fragile_server(relay: &Relay) -> Runtime {
    let runtime = Runtime::new().expect("a runtime");
    let info = relay.info().clone();
    runtime.block_on(async move {
        let server = peer(1, &info, relay_only()).await;
        serve(&server, Script::silent(), &Arc::default());
        std::mem::forget(server); // lives as long as its runtime
    });
    runtime
}

/// Goal: a peer that vanishes is missed within the time for calls, and found when it is back.
/// Method: its runtime is torn down, so that no packet says goodbye; then the same key starts anew.
#[test]
fn peer_that_vanishes_is_missed_and_found_again() {
    let ours = Runtime::new().expect("a runtime");
    let relay = ours.block_on(relay());
    let server = fragile_server(&relay);
    let impatient = PeerSettings { call_timeout: Duration::from_millis(500), ..relay_only() };
    let client = ours.block_on(client(2, relay.info(), impatient, id(1)));
    let call = || ours.block_on(client.call(id(1), b"hello".to_vec()));
    assert_eq!(call().expect("answers"), b"hello");
    server.shutdown_background();
    let missed = call();
    assert!(
        matches!(
            missed,
            Err(CallError::TimedOut { .. }
                | CallError::Lost { .. }
                | CallError::Unreachable { .. })
        ),
        "{missed:?}"
    );
    let server = fragile_server(&relay);
    let found = (0..20).find_map(|_| call().ok());
    assert_eq!(found.expect("is found again"), b"hello");
    ours.block_on(client.stop()).expect("stops");
    ours.block_on(relay.stop()).expect("stops");
    server.shutdown_background();
}

/// A peer in a runtime of its own that says hello to another one and lets it read a blob.
fn fragile_visitor(relay: &Relay, host: PeerId, blob: &'static [u8]) -> Runtime {
    let runtime = Runtime::new().expect("a runtime");
    let info = relay.info().clone();
    runtime.block_on(async move {
        let visitor = client(2, &info, direct(), host).await;
        let shares: Arc<ShareList> = Arc::default();
        let blob = visitor.blobs().add_bytes(blob.to_vec()).await.expect("adds").id;
        shares.share(blob, Readers::Everybody).expect("shares");
        serve(&visitor, Script::silent(), &shares);
        assert_eq!(visitor.call(host, b"hello".to_vec()).await.expect("answers"), b"hello");
        std::mem::forget(visitor); // lives as long as its runtime
    });
    runtime
}

/// Goal: a peer is asked on the connection that it has made, and one that was killed is asked on
/// its new one as soon as it is back. Method: nobody ever says where it is, so it cannot be dialed;
/// its runtime is torn down, so that no packet says goodbye, and the same key starts anew. On the
/// old connection the second read would stand still until it is given up.
#[test]
fn peer_is_asked_on_the_newest_connection_it_has_made() {
    let ours = Runtime::new().expect("a runtime");
    let relay = ours.block_on(relay());
    let host = ours.block_on(peer(1, relay.info(), direct()));
    let _in_runtime = ours.enter();
    serve(&host, Script::silent(), &Arc::default());
    let read = |content: &'static [u8]| {
        let order = FetchOrder {
            id: BlobId::of(content),
            from: vec![id(2)],
            bytes_max: 100,
            progress: None,
        };
        ours.block_on(host.blobs().fetch(order))
    };
    for content in [&b"before"[..], b"after"] {
        let visitor = fragile_visitor(&relay, host.id(), content);
        read(content).expect("reads");
        let answer = ours.block_on(host.call(id(2), b"and you?".to_vec()));
        assert_eq!(answer.expect("answers"), b"and you?");
        visitor.shutdown_background();
    }
    ours.block_on(host.stop()).expect("stops");
    ours.block_on(relay.stop()).expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peer_without_a_route_or_behind_an_unknown_relay_is_not_reached() {
    let (relay, other) = (relay().await, relay().await);
    let client = peer(2, relay.info(), relay_only()).await;
    let nowhere = client.call(id(9), b"hello".to_vec()).await;
    let is_unknown =
        matches!(nowhere, Err(CallError::Unreachable { source: DialError::NoRoute, .. }));
    assert!(is_unknown, "{nowhere:?}");
    let url = other.info().url.clone();
    let refused = client.add_route(id(9), Route::relayed(url.clone()));
    assert_eq!(refused, Err(RouteError::UnknownRelay { relay: url.clone() }));

    // Once the relay is known, peers behind it are reached.
    let server = peer(9, other.info(), relay_only()).await;
    serve(&server, Script::silent(), &Arc::default());
    client.add_relay(other.info().clone()).await.expect("a relay");
    client.add_route(id(9), Route::relayed(url)).expect("a route");
    assert_eq!(client.call(id(9), b"hello".to_vec()).await.expect("answers"), b"hello");
    stop(&[&client, &server], relay).await;
    other.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peer_that_serves_nothing_is_no_server() {
    let relay = relay().await;
    let silent = peer(1, relay.info(), relay_only()).await;
    let client = client(2, relay.info(), relay_only(), silent.id()).await;
    let refused = client.call(silent.id(), b"hello".to_vec()).await;
    let is_refused = matches!(refused, Err(CallError::Unreachable { .. }));
    assert!(is_refused, "{refused:?}");
    // It serves blobs only: calls are still not answered.
    let blobs: Arc<ShareList> = Arc::default();
    silent.serve(Services { calls: None, blobs: Some(blobs) }).expect("serves");
    let refused = client.call(silent.id(), b"hello".to_vec()).await;
    let is_refused = matches!(refused, Err(CallError::Refused { reason: Refusal::Forbidden, .. }));
    assert!(is_refused, "{refused:?}");
    stop(&[&client, &silent], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peer_that_has_stopped_says_so() {
    let relay = relay().await;
    let (server, client) = pair(&relay, direct(), direct()).await;
    assert_eq!(server.serve(Services::default()), Err(ServeError::Already));
    let mut frames = client.follow(server.id(), b"hang.".to_vec());
    client.call(server.id(), b"hello".to_vec()).await.expect("answers");

    client.stop().await.expect("stops");
    let last = timeout(LONG, frames.next()).await.expect("in time");
    assert!(matches!(last, Some(Err(CallError::Stopped)) | None), "{last:?}");
    let answer = client.call(server.id(), b"hello".to_vec()).await;
    assert!(matches!(answer, Err(CallError::Stopped)), "{answer:?}");
    assert_eq!(client.serve(Services::default()), Err(ServeError::Stopped));
    assert_eq!(client.online(LONG).await, Err(OnlineError::Stopped));
    client.stop().await.expect("a second time does nothing");

    // The key is free again.
    let again = self::client(2, relay.info(), direct(), server.id()).await;
    assert_eq!(again.call(server.id(), b"hello".to_vec()).await.expect("answers"), b"hello");
    stop(&[&again, &server], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_stops_ends_what_it_answers() {
    let relay = relay().await;
    let (server, client) = pair(&relay, direct(), direct()).await;
    let mut frames = client.follow(server.id(), b"show.".to_vec());
    assert_eq!(frames.next().await.expect("goes on").expect("a frame"), b"here");
    server.stop().await.expect("stops");
    let last = timeout(LONG, frames.next()).await.expect("in time");
    assert!(matches!(last, Some(Err(_))), "{last:?}");
    stop(&[&client], relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peer_without_relays_is_not_online() {
    let peer = Peer::bind(&secret(1), &[], direct()).await.expect("a peer");
    let offline = peer.online(Duration::from_millis(100)).await;
    assert_eq!(offline, Err(OnlineError::NoRelay));
    peer.stop().await.expect("stops");
}
