//! Packages on their way here: taken up again where a connection broke, given up in the end.

use crate::message::Failure;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tg_net::{BlobId, FetchError, FetchOrder, FetchProgress, Peer, PeerId};
use tokio::sync::watch;

/// How often in a row a transfer may break without bringing anything.
const BREAKS_MAX: u32 = 3;

/// How long to wait before it is taken up again.
const AGAIN: Duration = Duration::from_millis(500);

/// A package that is here.
pub(crate) struct Fetched {
    pub(crate) size_bytes: u64,
}

/// Fetches a package. A transfer that breaks goes on where it ended, as long as that brings more.
/// What is here of one that is given up is removed by the caller, who knows whether others need it.
pub(crate) async fn fetch(
    peer: &Peer,
    id: BlobId,
    from: Vec<PeerId>,
    bytes: u64,
) -> Result<Fetched, FetchError> {
    let (tell, told) = watch::channel(FetchProgress::default());
    let (mut here, mut breaks) = (0, 0);
    loop {
        let progress = Some(tell.clone());
        let order = FetchOrder { id, from: from.clone(), bytes_max: bytes, progress };
        let error = match peer.blobs().fetch(order).await {
            Ok(report) => return Ok(Fetched { size_bytes: report.size_bytes }),
            Err(error) => error,
        };
        let now = told.borrow().here_bytes;
        breaks = if now > here { 0 } else { breaks + 1 };
        here = here.max(now);
        let may_pass = matches!(error, FetchError::Failed { .. });
        // What nobody began to give is not there; that is known at once.
        if !may_pass || breaks >= BREAKS_MAX || here == 0 {
            return Err(error);
        }
        tracing::debug!(%error, here, "a transfer is taken up again");
        tokio::time::sleep(AGAIN).await;
    }
}

/// How a fetch ended, for all who wait for it.
type Arriving = Shared<BoxFuture<'static, Result<(), Failure>>>;

/// Peers from whom one package is fetched at the same time. More than one, so that nobody who
/// stalls is in the way of the sender; few, because each may send all of it.
const SENDERS_MAX: usize = 8;

/// Packages that are being fetched, from each peer that hands one in once.
#[derive(Default)]
pub(crate) struct Arrivals {
    // A lock: looked at by every call, held briefly.
    arriving: Mutex<BTreeMap<BlobId, BTreeMap<PeerId, Arriving>>>,
}

impl Arrivals {
    /// The end of a fetch from a peer that is under way, or else is begun; nothing if there are
    /// too many of the package already.
    pub(crate) fn get<F>(
        &self,
        id: BlobId,
        from: PeerId,
        begin: impl FnOnce() -> F,
    ) -> Option<Arriving>
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut arriving = self.arriving.lock().unwrap_or_else(PoisonError::into_inner);
        let senders = arriving.entry(id).or_default();
        if let Some(under_way) = senders.get(&from) {
            return Some(under_way.clone());
        }
        if senders.len() >= SENDERS_MAX {
            return None;
        }
        // A task of its own: it goes on when nobody waits for it.
        let task = tokio::spawn(begin());
        let begun = task.map(|ended| ended.unwrap_or(Err(Failure::Busy))).boxed().shared();
        senders.insert(from, begun.clone());
        Some(begun)
    }

    /// Notes that a fetch has ended, and says whether it was the last one of the package.
    pub(crate) fn remove(&self, id: BlobId, from: PeerId) -> bool {
        let mut arriving = self.arriving.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(senders) = arriving.get_mut(&id) else { return true };
        senders.remove(&from);
        let is_last = senders.is_empty();
        if is_last {
            arriving.remove(&id);
        }
        is_last
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, Fetched, SENDERS_MAX, fetch};
    use crate::message::Failure;
    use futures::FutureExt as _;
    use std::io::{self, Write as _};
    use std::net::{Ipv4Addr, SocketAddr};
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::Duration;
    use tg_net::{
        BlobId, BlobPlace, Peer, PeerId, PeerSettings, Reach, Readers, Relay, RelayInfo,
        RelaySettings, Route, Services, ShareList,
    };
    use tg_types::SecretKey;

    const BYTES: u64 = 128 << 20;

    async fn peer(number: u8, relay: &RelayInfo, blobs: BlobPlace) -> Peer {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let settings =
            PeerSettings { reach: Reach::DirectOn(here), blobs, ..PeerSettings::default() };
        let key = SecretKey::from_seed([number; 32]);
        let peer = Peer::bind(&key, std::slice::from_ref(relay), settings).await.expect("a peer");
        peer.online(Duration::from_secs(30)).await.expect("is online");
        peer
    }

    fn serve(peer: &Peer, blob: BlobId) {
        let shares = ShareList::default();
        shares.share(blob, Readers::Everybody).expect("one");
        peer.serve(Services { calls: None, blobs: Some(Arc::new(shares)) }).expect("serves");
    }

    #[tokio::test]
    async fn arrival_that_stalls_is_not_in_the_way_of_another_sender() {
        let arrivals = Arrivals::default();
        let of = |number: u8| PeerId::of(&SecretKey::from_seed([number; 32]));
        let (id, stalls, sends) = (BlobId::of(b"a package"), of(1), of(2));
        let stalled = arrivals.get(id, stalls, std::future::pending).expect("the first");
        let again = arrivals.get(id, stalls, || async { Ok(()) }).expect("the same");
        let sent = arrivals.get(id, sends, || async { Err(Failure::NoRoom) }).expect("another");
        assert_eq!(sent.await, Err(Failure::NoRoom));
        assert_eq!((stalled.now_or_never(), again.now_or_never()), (None, None));
        assert!(!arrivals.remove(id, sends), "one is under way");
        assert!(arrivals.remove(id, stalls));

        for number in 0..SENDERS_MAX {
            let from = of(u8::try_from(number).expect("few"));
            assert!(arrivals.get(id, from, std::future::pending).is_some());
        }
        assert!(arrivals.get(id, of(99), std::future::pending).is_none(), "too many");
        let other = BlobId::of(b"another package");
        assert!(arrivals.get(other, of(99), std::future::pending).is_some());
    }

    /// Goal: who fetches a package does not notice that its keeper was gone for a moment, and what
    /// was here is not fetched again. Method: the keeper stops in the middle and comes back.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn fetch_goes_on_when_the_other_side_comes_back() {
        let folder = std::env::temp_dir().join(format!("tg-gateway-fetch-{}", std::process::id()));
        let place = |name: &str| -> PathBuf { folder.join(name) };
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let relay = Relay::start(RelaySettings::new(here)).await.expect("a relay");
        let keeper = peer(1, relay.info(), BlobPlace::Folder(place("keeper"))).await;
        let mut draft = keeper.blobs().draft(BYTES).await.expect("there is room");
        let mut content = io::Read::take(io::repeat(7), BYTES);
        io::copy(&mut content, &mut draft).expect("writes");
        draft.flush().expect("writes");
        let blob = keeper.blobs().add_draft(draft).await.expect("adds").id;
        serve(&keeper, blob);
        let reader = peer(2, relay.info(), BlobPlace::LargeInFolder(place("reader"))).await;
        let route = Route::relayed(relay.info().url.clone());
        reader.add_route(keeper.id(), route).expect("a route");

        let (fetcher, from) = (reader.clone(), vec![keeper.id()]);
        let fetching = tokio::spawn(async move { fetch(&fetcher, blob, from, BYTES).await });
        while reader.blobs().traffic().received_bytes < 8 << 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        keeper.stop().await.expect("stops");
        assert!(!fetching.is_finished(), "was not cut");
        let keeper = peer(1, relay.info(), BlobPlace::Folder(place("keeper"))).await;
        serve(&keeper, blob);
        let Fetched { size_bytes } = fetching.await.expect("no panic").expect("goes on");
        assert_eq!(size_bytes, BYTES);
        let received = reader.blobs().traffic().received_bytes;
        assert!(received < BYTES + (16 << 20), "{received} bytes came");

        let absent = BlobId::of(b"nobody has it");
        let refused = fetch(&reader, absent, vec![keeper.id()], 100 << 20).await;
        assert!(refused.is_err());
        let shorter = fetch(&reader, blob, vec![keeper.id()], BYTES - 1).await;
        assert!(shorter.is_err(), "it is here, and longer");
        let listed = reader.blobs().list().await.expect("lists");
        assert_eq!(listed.iter().map(|it| it.id).collect::<Vec<_>>(), [blob], "no part is left");
        for peer in [reader, keeper] {
            peer.stop().await.expect("stops");
        }
        relay.stop().await.expect("stops");
        std::fs::remove_dir_all(folder).expect("removes");
    }
}
