//! Blobs: verified, resumed, bounded, and given only to whom the gate lets.

use crate::support::{
    Folder, LONG, Script, client, direct, id, peer, relay, relay_only, secret, serve,
};
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;
use tg_net::{
    BLOB_IN_MEMORY_BYTES_MAX, BindError, BlobEntry, BlobError, BlobId, BlobPlace, FetchError,
    FetchOrder, FetchProgress, Peer, PeerId, PeerSettings, Readers, Refusal, Route,
    SMALL_BYTES_MAX, SOURCES_MAX, ShareList, SourceError,
};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

const MIB: usize = 1 << 20;

/// Bytes that do not repeat.
fn content(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(size).collect()
}

fn bytes(size: usize) -> u64 {
    u64::try_from(size).expect("fits")
}

fn order(id: BlobId, from: &[PeerId], bytes_max: usize) -> FetchOrder {
    FetchOrder { id, from: from.to_vec(), bytes_max: bytes(bytes_max), progress: None }
}

fn in_folder(folder: &Folder) -> PeerSettings {
    let place = BlobPlace::Folder(folder.path().join("blobs"));
    let sweep_interval = Duration::from_millis(200);
    PeerSettings { blobs: place, sweep_interval, ..direct() }
}

/// The one thing that went wrong with the one peer that was asked.
fn only_failure(error: FetchError) -> SourceError {
    let mut tried = match error {
        FetchError::Failed { tried, .. } => tried,
        FetchError::TooManySources { .. } | FetchError::Blob(_) => Vec::new(),
    };
    assert_eq!(tried.len(), 1, "{tried:?}");
    tried.pop().expect("one").error
}

async fn stop(peers: &[&Peer]) {
    for peer in peers {
        peer.stop().await.expect("stops");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_keeps_what_was_added_over_a_restart() {
    let (relay, folder) = (relay().await, Folder::new());
    let first = peer(1, relay.info(), in_folder(&folder)).await;
    let (small, large) = (b"abc".to_vec(), content(3 * MIB));
    let file = folder.path().join("file");
    std::fs::write(&file, &large).expect("writes");
    let added = first.blobs().add_bytes(small.clone()).await.expect("adds");
    assert_eq!(added.id, BlobId::of(&small));
    let from_file = first.blobs().add_path(&file).await.expect("adds");
    assert_eq!((from_file.id, from_file.size_bytes), (BlobId::of(&large), Some(bytes(3 * MIB))));
    stop(&[&first]).await;

    let again = peer(1, relay.info(), in_folder(&folder)).await;
    let mut expected = vec![added, from_file];
    expected.sort_by_key(|entry| entry.id);
    assert_eq!(again.blobs().list().await.expect("lists"), expected);
    assert_eq!(again.blobs().read(added.id, 3).await.expect("reads"), small);
    let copy = folder.path().join("copy");
    let exported = again.blobs().export(from_file.id, &copy).await.expect("exports");
    assert_eq!(exported, bytes(3 * MIB));
    assert!(std::fs::read(&copy).expect("reads") == large);
    stop(&[&again]).await;
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_belongs_to_one_peer_until_that_stops() {
    let (relay, folder) = (relay().await, Folder::new());
    let first = peer(1, relay.info(), in_folder(&folder)).await;
    let relays = [relay.info().clone()];
    let second = Peer::bind(&secret(2), &relays, in_folder(&folder)).await;
    assert!(matches!(second, Err(BindError::Blobs(BlobError::Store(_)))), "{second:?}");
    stop(&[&first]).await;
    let closed = timeout(LONG, first.blobs().add_bytes(b"abc".to_vec())).await.expect("in time");
    assert!(matches!(closed, Err(BlobError::Store(_))), "{closed:?}");
    let closed = first.blobs().fetch(order(BlobId::of(b"abc"), &[id(1)], 3));
    assert!(timeout(LONG, closed).await.expect("in time").is_err());

    let second = Peer::bind(&secret(2), &relays, in_folder(&folder)).await.expect("a peer");
    stop(&[&second]).await;
    let relative = PeerSettings { blobs: BlobPlace::Folder("blobs".into()), ..direct() };
    let refused = Peer::bind(&secret(2), &relays, relative).await;
    assert!(matches!(refused, Err(BindError::Blobs(BlobError::NotAbsolute { .. }))), "{refused:?}");
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_blob_is_gone_at_once_and_its_bytes_soon() {
    let (relay, folder) = (relay().await, Folder::new());
    let peer = peer(1, relay.info(), in_folder(&folder)).await;
    let kept = peer.blobs().add_bytes(content(MIB)).await.expect("adds");
    let removed = peer.blobs().add_bytes(content(2 * MIB)).await.expect("adds");
    assert!(peer.blobs().remove(removed.id).await.expect("removes"));
    assert!(!peer.blobs().remove(removed.id).await.expect("removes"));
    assert_eq!(peer.blobs().list().await.expect("lists"), [kept]);
    let absent = peer.blobs().read(removed.id, u64::MAX).await;
    assert!(matches!(absent, Err(BlobError::Absent { .. })), "{absent:?}");

    let data = folder.path().join("blobs/data").join(format!("{}.data", removed.id));
    let swept = async {
        while data.exists() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LONG, swept).await.expect("is swept");
    assert_eq!(peer.blobs().read(kept.id, u64::MAX).await.expect("reads").len(), MIB);
    stop(&[&peer]).await;
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_refuses_what_is_too_large_relative_or_absent() {
    let relay = relay().await;
    let peer = peer(1, relay.info(), direct()).await;
    let blobs = peer.blobs();
    let large = blobs.add_bytes(vec![0; BLOB_IN_MEMORY_BYTES_MAX + 1]).await;
    assert!(matches!(large, Err(BlobError::TooLarge { .. })), "{large:?}");
    let relative = blobs.add_path("file".as_ref()).await;
    assert!(matches!(relative, Err(BlobError::NotAbsolute { .. })), "{relative:?}");
    let missing = blobs.add_path("/nonexistent/file".as_ref()).await;
    assert!(matches!(missing, Err(BlobError::Store(_))), "{missing:?}");
    let added = blobs.add_bytes(b"abc".to_vec()).await.expect("adds");
    let relative = blobs.export(added.id, "file".as_ref()).await;
    assert!(matches!(relative, Err(BlobError::NotAbsolute { .. })), "{relative:?}");
    let large = blobs.read(added.id, 2).await;
    assert!(matches!(large, Err(BlobError::TooLarge { found: 3, max: 2 })), "{large:?}");
    let absent = blobs.read(BlobId::new([1; 32]), 2).await;
    assert!(matches!(absent, Err(BlobError::Absent { .. })), "{absent:?}");
    assert_eq!(blobs.list().await.expect("lists"), [added]);
    stop(&[&peer]).await;
    relay.stop().await.expect("stops");
}

/// Goal: a fetch that is cut goes on where it ended, also after a restart. Method: the first fetch
/// is dropped when a few megabytes are here; the second counts what it reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetch_that_was_cut_is_resumed_after_a_restart() {
    const SIZE: usize = 64 * MIB;
    let (relay, folder) = (relay().await, Folder::new());
    let shares: Arc<ShareList> = Arc::default();
    let provider = peer(1, relay.info(), direct()).await;
    let data = content(SIZE);
    let blob = provider.blobs().add_bytes(data.clone()).await.expect("adds").id;
    shares.share(blob, Readers::Everybody).expect("shares");
    serve(&provider, Script::silent(), &shares);

    let settings = in_folder(&folder);
    let reader = client(2, relay.info(), settings.clone(), provider.id()).await;
    let (progress, mut seen) = watch::channel(FetchProgress::default());
    let cut = FetchOrder { progress: Some(progress), ..order(blob, &[provider.id()], SIZE) };
    tokio::select! {
        done = reader.blobs().fetch(cut) => panic!("was not cut: {done:?}"),
        some = seen.wait_for(|seen| seen.here_bytes >= bytes(8 * MIB)) => drop(some),
    }
    let listed = reader.blobs().list().await.expect("lists");
    let part = BlobEntry { id: blob, size_bytes: Some(bytes(SIZE)), is_complete: false };
    assert!(
        matches!(listed[..], [entry] if entry == part || entry.size_bytes.is_none()),
        "{listed:?}"
    );
    let incomplete = reader.blobs().read(blob, u64::MAX).await;
    assert!(matches!(incomplete, Err(BlobError::Incomplete { .. })), "{incomplete:?}");
    stop(&[&reader]).await;

    let reader = client(2, relay.info(), settings, provider.id()).await;
    let report = reader.blobs().fetch(order(blob, &[provider.id()], SIZE)).await;
    let report = report.expect("fetches");
    assert_eq!(report.size_bytes, bytes(SIZE));
    assert_eq!(report.last_from, Some(provider.id()));
    assert!(report.read_bytes > 0, "something was missing");
    assert!(report.read_bytes <= bytes(SIZE - 4 * MIB), "read {} bytes again", report.read_bytes);
    assert!(reader.blobs().read(blob, u64::MAX).await.expect("reads") == data);

    let again = reader.blobs().fetch(order(blob, &[], SIZE)).await.expect("is here");
    assert_eq!((again.read_bytes, again.last_from), (0, None));
    let too_large = reader.blobs().fetch(order(blob, &[], SIZE - 1)).await;
    assert!(
        matches!(too_large, Err(FetchError::Blob(BlobError::TooLarge { .. }))),
        "{too_large:?}"
    );
    stop(&[&reader, &provider]).await;
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_of_all_sizes_are_fetched_through_a_relay() {
    let relay = relay().await;
    let shares: Arc<ShareList> = Arc::default();
    let provider = peer(1, relay.info(), relay_only()).await;
    serve(&provider, Script::silent(), &shares);
    let reader = client(2, relay.info(), relay_only(), provider.id()).await;
    for size in [0, 1, 1023, 1024, 1025, 16 << 10, (16 << 10) + 1, 100_000, 3 * MIB] {
        let data = content(size);
        let blob = provider.blobs().add_bytes(data.clone()).await.expect("adds").id;
        shares.share(blob, Readers::Everybody).expect("shares");
        let report = reader.blobs().fetch(order(blob, &[provider.id()], size)).await;
        let report = report.unwrap_or_else(|error| panic!("{size} bytes: {error}"));
        assert_eq!((report.size_bytes, report.read_bytes), (bytes(size), bytes(size)));
        assert!(reader.blobs().read(blob, u64::MAX).await.expect("reads") == data);
    }
    stop(&[&reader, &provider]).await;
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blob_that_is_too_large_is_refused_and_leaves_nothing() {
    let relay = relay().await;
    let shares: Arc<ShareList> = Arc::default();
    let provider = peer(1, relay.info(), direct()).await;
    let blob = provider.blobs().add_bytes(content(MIB)).await.expect("adds").id;
    shares.share(blob, Readers::Everybody).expect("shares");
    serve(&provider, Script::silent(), &shares);
    let reader = client(2, relay.info(), direct(), provider.id()).await;
    let refused = reader.blobs().fetch(order(blob, &[provider.id()], MIB - 1)).await;
    let failure = only_failure(refused.expect_err("is refused"));
    assert!(matches!(failure, SourceError::TooLarge { .. }), "{failure:?}");
    assert_eq!(reader.blobs().list().await.expect("lists"), []);
    let sources = vec![provider.id(); SOURCES_MAX + 1];
    let refused = reader.blobs().fetch(order(blob, &sources, MIB)).await;
    assert!(matches!(refused, Err(FetchError::TooManySources { .. })), "{refused:?}");
    stop(&[&reader, &provider]).await;
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_lets_in_whom_the_blob_is_shared_with() {
    let relay = relay().await;
    let shares: Arc<ShareList> = Arc::default();
    let provider = peer(1, relay.info(), direct()).await;
    let blob = provider.blobs().add_bytes(content(MIB)).await.expect("adds").id;
    shares.share(blob, Readers::Only([id(2)].into())).expect("shares");
    serve(&provider, Script::silent(), &shares);
    let friend = client(2, relay.info(), direct(), provider.id()).await;
    let stranger = client(3, relay.info(), direct(), provider.id()).await;
    let wanted = || order(blob, &[provider.id()], MIB);

    let refused = stranger.blobs().fetch(wanted()).await.expect_err("is refused");
    let failure = only_failure(refused);
    assert!(matches!(failure, SourceError::Refused(Refusal::Forbidden)), "{failure:?}");
    assert_eq!(stranger.blobs().list().await.expect("lists"), []);
    // A stranger does not learn what is here and what is not.
    let unknown = order(BlobId::of(b"unknown"), &[provider.id()], MIB);
    let failure = only_failure(stranger.blobs().fetch(unknown).await.expect_err("is refused"));
    assert!(matches!(failure, SourceError::Refused(Refusal::Forbidden)), "{failure:?}");

    friend.blobs().fetch(wanted()).await.expect("fetches");
    friend.blobs().remove(blob).await.expect("removes");
    shares.unshare(blob);
    stop(&[&stranger, &friend, &provider]).await;
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blob_is_fetched_from_the_next_peer_when_one_fails() {
    let relay = relay().await;
    let shares: Arc<ShareList> = Arc::default();
    let blob = BlobId::of(&content(MIB));
    shares.share(blob, Readers::Everybody).expect("shares");
    let without = peer(1, relay.info(), direct()).await;
    let removed = without.blobs().add_bytes(content(MIB)).await.expect("adds");
    without.blobs().remove(removed.id).await.expect("removes");
    let with = peer(3, relay.info(), direct()).await;
    with.blobs().add_bytes(content(MIB)).await.expect("adds");
    for provider in [&without, &with] {
        serve(provider, Script::silent(), &shares);
    }
    let reader = client(2, relay.info(), direct(), without.id()).await;
    reader.add_route(with.id(), Route::relayed(relay.info().url.clone())).expect("a route");

    let missing = reader.blobs().fetch(order(blob, &[id(9), without.id()], MIB)).await;
    let Err(FetchError::Failed { tried, .. }) = missing else { panic!("{missing:?}") };
    let whys: Vec<_> = tried.iter().map(|tried| &tried.error).collect();
    assert!(
        matches!(whys[..], [SourceError::Unreachable(_), SourceError::Refused(Refusal::Absent)]),
        "{whys:?}"
    );
    let from = [id(9), without.id(), with.id()];
    let report = reader.blobs().fetch(order(blob, &from, MIB)).await.expect("fetches");
    assert_eq!(report.last_from, Some(with.id()));
    let nobody = reader.blobs().fetch(order(BlobId::of(b"unknown"), &[], MIB)).await;
    assert!(nobody.expect_err("nobody").to_string().ends_with("nobody to ask"));
    stop(&[&reader, &with, &without]).await;
    relay.stop().await.expect("stops");
}

fn large_in(folder: &Folder) -> PeerSettings {
    let sweep_interval = Duration::from_millis(200);
    let blobs = BlobPlace::LargeInFolder(folder.path().join("large"));
    PeerSettings { blobs, sweep_interval, ..direct() }
}

/// Writes a blob piece by piece.
async fn drafted(peer: &Peer, data: &[u8]) -> BlobEntry {
    let mut draft = peer.blobs().draft(bytes(data.len())).await.expect("there is room");
    for piece in data.chunks(100_000) {
        draft.write_all(piece).expect("writes");
    }
    let more = draft.write_all(&[0]).expect_err("is as long as was said");
    assert_eq!(more.kind(), std::io::ErrorKind::FileTooLarge);
    peer.blobs().add_draft(draft).await.expect("adds")
}

/// Files below a folder, as far as there are any.
fn files_below(folder: &std::path::Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().filter(|entry| entry.path().is_file()).count()
}

/// Goal: small blobs touch no disk, large ones no memory, and whoever uses them does not notice; a
/// large one that was cut is resumed. Method: two peers that have a folder each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_blobs_are_in_a_folder_and_small_ones_are_not() {
    const SIZE: usize = 96 * MIB;
    let (relay, here, there) = (relay().await, Folder::new(), Folder::new());
    let shares: Arc<ShareList> = Arc::default();
    let provider = peer(1, relay.info(), large_in(&here)).await;
    serve(&provider, Script::silent(), &shares);
    let reader = client(2, relay.info(), large_in(&there), provider.id()).await;
    let (here, there) = (here.path().join("large"), there.path().join("large"));
    let data = content(MIB);
    let small = drafted(&provider, &data).await;
    assert_eq!(small.id, BlobId::of(&data));
    shares.share(small.id, Readers::Everybody).expect("shares");
    reader.blobs().fetch(order(small.id, &[provider.id()], MIB)).await.expect("fetches");
    assert!(!here.exists() && !there.exists(), "nothing large yet");

    let data = content(SIZE);
    let large = drafted(&provider, &data).await;
    assert_eq!((large.id, large.size_bytes), (BlobId::of(&data), Some(bytes(SIZE))));
    assert_eq!(files_below(&here.join("drafts")), 1, "it is not copied");
    shares.share(large.id, Readers::Everybody).expect("shares");
    let (progress, mut seen) = watch::channel(FetchProgress::default());
    let cut = FetchOrder { progress: Some(progress), ..order(large.id, &[provider.id()], SIZE) };
    tokio::select! {
        done = reader.blobs().fetch(cut) => panic!("was not cut: {done:?}"),
        some = seen.wait_for(|seen| seen.here_bytes >= bytes(8 * MIB)) => drop(some),
    }
    let report = reader.blobs().fetch(order(large.id, &[provider.id()], SIZE)).await;
    let report = report.expect("goes on");
    assert!(report.read_bytes <= bytes(SIZE - 4 * MIB), "read {} bytes again", report.read_bytes);
    let received = reader.blobs().traffic().received_bytes;
    assert!(received >= bytes(SIZE + MIB) && provider.blobs().traffic().sent_bytes >= received);
    let mut opened = reader.blobs().open(large.id).await.expect("is here");
    assert!(opened.is_file() && opened.size_bytes() == bytes(SIZE));
    let mut found = Vec::new();
    opened.read_to_end(&mut found).expect("reads");
    assert!(found == data);
    let mut ids = vec![small.id, large.id];
    ids.sort();
    let listed = reader.blobs().list().await.expect("lists");
    assert_eq!(listed.iter().map(|entry| entry.id).collect::<Vec<_>>(), ids);

    assert!(provider.blobs().remove(large.id).await.expect("removes"));
    assert_eq!(files_below(&here.join("drafts")), 0, "its file goes with it");
    stop(&[&reader, &provider]).await;
    assert!(!here.exists() && !there.exists(), "removed with their peers");
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blob_without_room_is_refused_before_anything_is_written() {
    const HUGE: u64 = 1 << 60;
    let (relay, folder) = (relay().await, Folder::new());
    let peer = peer(1, relay.info(), large_in(&folder)).await;
    assert!(peer.blobs().free_bytes_for(HUGE).is_some_and(|free| free < HUGE));
    assert_eq!(peer.blobs().free_bytes_for(SMALL_BYTES_MAX), None, "it stays in memory");
    let refused = peer.blobs().draft(HUGE).await;
    assert!(matches!(refused, Err(BlobError::NoRoom { needed: HUGE, .. })), "{refused:?}");
    let huge = FetchOrder { bytes_max: HUGE, ..order(BlobId::of(b"abc"), &[id(2)], 0) };
    let refused = peer.blobs().fetch(huge).await;
    assert!(matches!(refused, Err(FetchError::Blob(BlobError::NoRoom { .. }))), "{refused:?}");
    assert_eq!(peer.blobs().list().await.expect("lists"), []);
    let dropped = peer.blobs().draft(bytes(8 * MIB)).await.expect("there is room");
    assert_eq!(files_below(&folder.path().join("large/drafts")), 1);
    drop(dropped);
    assert_eq!(files_below(&folder.path().join("large/drafts")), 0);
    stop(&[&peer]).await;
    relay.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draft_above_the_small_size_is_opened_where_it_was_written() {
    let (relay, in_large, in_one) = (relay().await, Folder::new(), Folder::new());
    for (number, settings) in [(1, large_in(&in_large)), (2, in_folder(&in_one))] {
        let peer = peer(number, relay.info(), settings).await;
        let data = content(5 * MIB);
        let added = drafted(&peer, &data).await;
        let mut opened = peer.blobs().open(added.id).await.expect("is here");
        assert!(opened.is_file() && opened.size_bytes() == bytes(5 * MIB));
        // The same bytes once more: the first file is the one that stays.
        drafted(&peer, &data).await;
        peer.blobs().open(added.id).await.expect("is still here");
        peer.blobs().remove(added.id).await.expect("removes");
        let mut found = Vec::new();
        opened.read_to_end(&mut found).expect("reads what was opened");
        assert!(found == data);
        stop(&[&peer]).await;
    }
    relay.stop().await.expect("stops");
}

/// Goal: which part of the store is filled depends on how much may come, not on what is listed
/// there already. Method: a fetch of few bytes is cut, then the same blob may have many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blob_that_may_be_large_is_not_fetched_into_memory() {
    const SIZE: usize = 4 * MIB;
    let (relay, folder) = (relay().await, Folder::new());
    let shares: Arc<ShareList> = Arc::default();
    let provider = peer(1, relay.info(), direct()).await;
    serve(&provider, Script::silent(), &shares);
    let blob = provider.blobs().add_bytes(content(SIZE)).await.expect("adds").id;
    shares.share(blob, Readers::Everybody).expect("shares");
    let reader = client(2, relay.info(), large_in(&folder), provider.id()).await;
    let (progress, mut seen) = watch::channel(FetchProgress::default());
    let cut = FetchOrder { progress: Some(progress), ..order(blob, &[provider.id()], SIZE) };
    tokio::select! {
        done = reader.blobs().fetch(cut) => panic!("was not cut: {done:?}"),
        some = seen.wait_for(|seen| seen.here_bytes > 0) => drop(some),
    }
    let large = || order(blob, &[provider.id()], 2 * SIZE);
    let report = reader.blobs().fetch(large()).await.expect("fetches");
    assert_eq!(report.read_bytes, bytes(SIZE), "nothing of it was in the folder");
    assert!(folder.path().join("large").exists());
    let here = reader.blobs().fetch(order(blob, &[], SIZE)).await.expect("all of it is here");
    assert_eq!(here.read_bytes, 0);
    assert_eq!(reader.blobs().list().await.expect("lists").len(), 1, "in one part only");
    stop(&[&reader, &provider]).await;
    relay.stop().await.expect("stops");
}

/// Goal: a blob may be fetched from two peers at once. Method: two fetches side by side, in memory
/// and in a folder, and a third from nobody that gives up beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blob_fetched_from_two_peers_at_once_arrives_whole() {
    const SIZE: usize = 16 * MIB;
    let (relay, folder) = (relay().await, Folder::new());
    let shares: Arc<ShareList> = Arc::default();
    let data = content(SIZE);
    let blob = BlobId::of(&data);
    shares.share(blob, Readers::Everybody).expect("shares");
    let providers = [peer(1, relay.info(), direct()).await, peer(2, relay.info(), direct()).await];
    for provider in &providers {
        provider.blobs().add_bytes(data.clone()).await.expect("adds");
        serve(provider, Script::silent(), &shares);
    }
    let [first, second] = &providers;
    for (number, settings) in [(3, direct()), (4, in_folder(&folder))] {
        let reader = client(number, relay.info(), settings, first.id()).await;
        let route = Route::relayed(relay.info().url.clone());
        reader.add_route(second.id(), route).expect("a route");
        let fetch = |from: &[PeerId]| reader.blobs().fetch(order(blob, from, SIZE));
        let (one, other, none) =
            tokio::join!(fetch(&[first.id()]), fetch(&[second.id()]), fetch(&[]));
        assert!(one.is_ok() && other.is_ok() && none.is_err(), "{one:?}, {other:?}, {none:?}");
        assert!(reader.blobs().read(blob, u64::MAX).await.expect("reads") == data);
        stop(&[&reader]).await;
    }
    stop(&[first, second]).await;
    relay.stop().await.expect("stops");
}
