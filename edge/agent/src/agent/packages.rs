//! Packages that were opened: jobs of one batch share theirs, and opening one takes a fetch and a
//! share of the key from every validator, or the key from its owner.
//!
//! What is small is opened once and stays in memory. What is large stays sealed, on disk, and is
//! opened piece by piece whenever somebody reads it.
//!
//! What was opened for one owner's job is not there for another's: whoever names a package that is
//! not its own must not get anything done with a key that it has no right to.

use super::work::WorkError;
use std::collections::VecDeque;
use std::io::{Cursor, Read};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tg_gateway::package::{Whose, check_memory};
use tg_gateway::{LocalPackage, TensorInputs};
use tg_privacy::ContentKey;
use tg_types::{AccountId, JobSpec, KeyEscrow, PackageRef, Tier};
use tokio::sync::{OnceCell, watch};

/// Packages that are remembered.
const REMEMBERED_MAX: usize = 8;

/// What those that are remembered may take, on disk or in memory. A larger one is fetched again by
/// whoever needs it again.
const REMEMBERED_BYTES_MAX: u64 = 4 << 30;

/// A package whose key is known.
pub(crate) struct Content {
    /// The key, for a complaint.
    pub(crate) key: [u8; 32],
    /// Whether all who may read the package could have it.
    pub(crate) is_fair: bool,
    /// How long it was waited for.
    pub(crate) waited: Waited,
    /// Its bytes as it is sealed.
    bytes: u64,
    inside: Inside,
}

/// How long a key was waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    /// When it came.
    pub(crate) at: Instant,
    /// How long that took.
    pub(crate) span: Duration,
}

impl Waited {
    /// How much of it was since then: whoever finds a package open has not waited.
    pub(crate) fn since(&self, begun: Instant) -> Duration {
        self.span.min(self.at.saturating_duration_since(begun))
    }
}

enum Inside {
    /// What is in it; nothing if the key does not open it.
    Opened(Option<Arc<[u8]>>),
    /// The package, which is opened by whoever reads it.
    Sealed(Box<LocalPackage>, Whose),
}

/// What is inside a package, from its beginning.
pub(crate) type Reader = Box<dyn Read + Send>;

impl Content {
    /// Takes a package with its key.
    pub(crate) async fn new(
        package: LocalPackage,
        key: &ContentKey,
        whose: Whose,
        waited: Waited,
    ) -> Result<Self, WorkError> {
        let (bytes, exposed) = (package.package().bytes, *key.expose());
        let is_fair = package.head().is_split_fairly(key);
        if !package.is_small() {
            let inside = Inside::Sealed(Box::new(package), whose);
            return Ok(Self { key: exposed, is_fair, waited, bytes, inside });
        }
        let sealed = package.sealed().await?;
        let mut plain = Vec::new();
        let opened = package.head().open_inputs(key, &whose, sealed);
        let opened = opened.and_then(|mut opening| Ok(opening.read_to_end(&mut plain)?));
        let plain = match opened {
            Ok(_) => Some(plain.into()),
            Err(error) if error.is_wrong() => None,
            Err(error) => return Err(WorkError::Inputs(error)),
        };
        package.release().await;
        Ok(Self { key: exposed, is_fair, waited, bytes, inside: Inside::Opened(plain) })
    }

    /// The key, if the run may have to be computed again for a dispute, and whoever does so could
    /// get the key from its owner alone.
    pub(crate) fn key_to_note(&self, spec: &JobSpec) -> Option<ContentKey> {
        // To defend a result, or to hand in again what was proven.
        let is_needed = matches!(spec.tier, Tier::Audit | Tier::Sync) || spec.tier.is_shown();
        let is_owners = spec.key_escrow == KeyEscrow::None;
        (is_needed && is_owners).then(|| ContentKey::new(self.key))
    }

    /// What is inside. Reading waits for the disk if it is large.
    pub(crate) async fn reader(&self) -> Result<Reader, WorkError> {
        match &self.inside {
            Inside::Opened(plain) => {
                let plain = plain.as_ref().ok_or(WorkError::Sealed)?;
                Ok(Box::new(Cursor::new(Arc::clone(plain))))
            }
            Inside::Sealed(package, whose) => {
                let (key, sealed) = (ContentKey::new(self.key), package.sealed().await?);
                let opening = package.head().open_inputs(&key, whose, sealed);
                Ok(Box::new(opening.map_err(WorkError::Inputs)?))
            }
        }
    }

    /// What a tensor program reads, all of it in memory.
    pub(crate) async fn tensor_inputs(&self) -> Result<TensorInputs, WorkError> {
        let (mut reader, bytes) = (self.reader().await?, self.bytes);
        let read = match self.inside {
            Inside::Opened(_) => TensorInputs::read(&mut reader, bytes),
            Inside::Sealed(..) => {
                check_memory(bytes).map_err(WorkError::Inputs)?;
                let read = move || TensorInputs::read(&mut reader, bytes);
                tokio::task::spawn_blocking(read).await.map_err(|_| WorkError::Panicked)?
            }
        };
        read.map_err(WorkError::Inputs)
    }
}

/// A package as the job of an owner names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Whose job it is.
    pub(crate) owner: AccountId,
    /// The package.
    pub(crate) package: PackageRef,
}

/// Where a package is opened, by the first who needs it.
pub(crate) struct Place {
    /// What is known of it, once somebody has opened it.
    content: OnceCell<Arc<Content>>,
    /// Whether its owner, who keeps its key, keeps whoever opens it waiting.
    is_late: watch::Sender<bool>,
}

impl Default for Place {
    fn default() -> Self {
        Self { content: OnceCell::new(), is_late: watch::Sender::new(false) }
    }
}

type Cell = Arc<Place>;

/// A package in use. Whoever asks for it meanwhile gets the same one, remembered or not.
pub(crate) struct Lent {
    content: Arc<Content>,
    _cell: Cell,
}

impl Deref for Lent {
    type Target = Content;

    fn deref(&self) -> &Content {
        &self.content
    }
}

/// The packages that are in use, and those that were opened last.
#[derive(Default)]
pub(crate) struct Packages {
    // A lock: looked at by every run and check, held briefly.
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    /// Those that are remembered, the oldest first.
    opened: VecDeque<(Named, Cell)>,
    /// All that somebody uses.
    lent: Vec<(Named, Weak<Place>)>,
}

impl Packages {
    /// What is inside a package of an owner's job; the first who asks opens it, others wait for
    /// that. Once the owner is late with the key, `late` begins for everybody who waits; opening
    /// goes on meanwhile, and whoever does not wait any longer lets `late` end.
    pub(crate) async fn get<E>(
        &self,
        package: Named,
        open: impl AsyncFnOnce(&watch::Sender<bool>) -> Result<Content, E>,
        late: impl Future<Output = E>,
    ) -> Result<Lent, E> {
        let cell = self.shelf.lock().unwrap_or_else(PoisonError::into_inner).place(package);
        let mut is_late = cell.is_late.subscribe();
        let waiting = async {
            drop(is_late.wait_for(|is_late| *is_late).await); // it ends with this place
            late.await
        };
        let opening = cell.content.get_or_try_init(async || {
            cell.is_late.send_replace(false); // whatever it was when somebody else asked
            open(&cell.is_late).await.map(Arc::new)
        });
        let content = tokio::select! {
            biased;
            content = opening => Arc::clone(content?),
            error = waiting => return Err(error),
        };
        Ok(Lent { content, _cell: cell })
    }
}

impl Shelf {
    fn place(&mut self, named: Named) -> Cell {
        let bytes = named.package.bytes;
        self.lent.retain(|(_, cell)| cell.strong_count() > 0);
        let known = self.lent.iter().find(|(known, _)| *known == named);
        if let Some(cell) = known.and_then(|(_, cell)| cell.upgrade()) {
            return cell;
        }
        let cell = Cell::default();
        self.lent.push((named, Arc::downgrade(&cell)));
        if bytes > REMEMBERED_BYTES_MAX {
            return cell;
        }
        let taken = |opened: &VecDeque<(Named, Cell)>| {
            let sizes = opened.iter().map(|(known, _)| known.package.bytes);
            sizes.fold(bytes, u64::saturating_add)
        };
        while self.opened.len() >= REMEMBERED_MAX || taken(&self.opened) > REMEMBERED_BYTES_MAX {
            self.opened.pop_front();
        }
        self.opened.push_back((named, Arc::clone(&cell)));
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Content, Inside, Lent, Named, Packages, REMEMBERED_BYTES_MAX, REMEMBERED_MAX, Waited, watch,
    };
    use std::future::pending;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};
    use tg_types::{Hash32, PackageRef, SecretKey};
    use tokio::time::sleep;

    fn package(number: u8, bytes: u64) -> Named {
        named(1, number, bytes)
    }

    fn named(owner: u8, number: u8, bytes: u64) -> Named {
        let owner = SecretKey::from_seed([owner; 32]).public().into();
        let id = Hash32::new([number; 32]);
        Named { owner, package: PackageRef { id, bytes, key_escrow: None } }
    }

    /// Goal: whoever names another's package in a job of its own does not get what was opened for
    /// the other, be it remembered or in use.
    #[tokio::test]
    async fn package_that_was_opened_for_one_owner_is_closed_to_others() {
        let packages = Packages::default();
        let (victim, thief) = (named(1, 7, 1), named(2, 7, 1));
        let in_use = lend(&packages, victim, 1).await;
        let refused = packages.get(thief, async |_| Err("foreign"), pending()).await;
        assert_eq!(refused.err(), Some("foreign"));
        drop(in_use);
        let refused = packages.get(thief, async |_| Err("foreign"), pending()).await;
        assert_eq!(refused.err(), Some("foreign"));
        assert_eq!(get(&packages, victim, 9).await, 1, "the owner's is still there");
    }

    async fn lend(packages: &Packages, package: Named, key: u8) -> Lent {
        packages.get(package, async |_| Ok(content(key)), pending::<()>()).await.expect("opens")
    }

    fn content(key: u8) -> Content {
        let waited = Waited { at: Instant::now(), span: Duration::ZERO };
        let inside = Inside::Opened(None);
        Content { key: [key; 32], is_fair: true, waited, bytes: 1, inside }
    }

    async fn get(packages: &Packages, package: Named, key: u8) -> u8 {
        lend(packages, package, key).await.key[0]
    }

    /// Goal: a checker whose key is late says so at once and not only when it gives up, and a key
    /// that comes after that is still taken; so does a run beside it, which waits for less long.
    /// Method: the owner hands the key out after both were told, and after the run has given up;
    /// whoever opens the package is the run, so the checker has to go on with it.
    #[tokio::test]
    async fn late_key_is_told_to_all_who_wait_and_taken_by_who_still_does() {
        let (packages, told) = (Packages::default(), AtomicU32::new(0));
        let opened_at = Instant::now() + Duration::from_millis(300);
        let get = async |patience: Duration| {
            let open = async |is_late: &watch::Sender<bool>| {
                is_late.send_replace(true);
                sleep(opened_at.saturating_duration_since(Instant::now())).await;
                Ok(content(5))
            };
            let late = async {
                assert!(Instant::now() < opened_at, "early enough to say it");
                told.fetch_add(1, Ordering::Relaxed);
                sleep(patience).await;
                "given up"
            };
            packages.get(package(1, 1), open, late).await.map(|lent| lent.key)
        };
        let (run, check) =
            tokio::join!(get(Duration::from_millis(50)), get(Duration::from_secs(60)));
        assert_eq!((run, check), (Err("given up"), Ok([5; 32])));
        assert_eq!(told.load(Ordering::Relaxed), 2, "each once");
        assert_eq!(get(Duration::ZERO).await, Ok([5; 32]), "it is open, however late it was");
    }

    #[tokio::test]
    async fn package_is_opened_once_and_forgotten_in_the_end() {
        let packages = Packages::default();
        let one = package(1, 1);
        let fails = packages.get(one, async |_| Err("no"), pending()).await;
        assert_eq!(fails.err(), Some("no"));
        for key in [1, 2] {
            assert_eq!(get(&packages, one, key).await, 1);
        }
        for number in 2..=u8::try_from(REMEMBERED_MAX + 1).expect("few") {
            get(&packages, package(number, 1), number).await;
        }
        assert_eq!(get(&packages, one, 3).await, 3);
    }

    #[test]
    fn key_was_waited_for_by_those_who_were_there() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let waited = Waited { at: start + 10 * second, span: 4 * second };
        assert_eq!(waited.since(start), 4 * second, "all of it, beside the fetch");
        assert_eq!(waited.since(start + 9 * second), second, "the end of it");
        assert_eq!(waited.since(start + 11 * second), Duration::ZERO, "it was open");
    }

    #[tokio::test]
    async fn large_packages_make_room_for_each_other() {
        let packages = Packages::default();
        let half = REMEMBERED_BYTES_MAX / 2;
        for number in [1, 2] {
            get(&packages, package(number, half), number).await;
        }
        assert_eq!(get(&packages, package(1, half), 9).await, 1);
        get(&packages, package(3, half), 3).await;
        assert_eq!(get(&packages, package(2, half), 9).await, 2, "the second is still there");
        assert_eq!(get(&packages, package(1, half), 9).await, 9, "the first is not");
        let huge = package(4, REMEMBERED_BYTES_MAX + 1);
        assert_eq!((get(&packages, huge, 4).await, get(&packages, huge, 5).await), (4, 5));
    }

    #[tokio::test]
    async fn package_in_use_is_shared_even_if_it_is_not_remembered() {
        let packages = Packages::default();
        let (huge, small) = (package(1, REMEMBERED_BYTES_MAX + 1), package(2, 1));
        let (first, forgotten) = (lend(&packages, huge, 1).await, lend(&packages, small, 2).await);
        for number in 3..=u8::try_from(REMEMBERED_MAX + 3).expect("few") {
            get(&packages, package(number, 1), number).await;
        }
        assert_eq!((get(&packages, huge, 9).await, get(&packages, small, 9).await), (1, 2));
        drop((first, forgotten));
        assert_eq!((get(&packages, huge, 9).await, get(&packages, small, 9).await), (9, 9));
    }
}
