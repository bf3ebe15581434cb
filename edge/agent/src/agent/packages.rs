//! Packages that were opened: jobs of one batch share theirs, and opening one takes a fetch and a
//! share of the key from every validator.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tg_types::Hash32;
use tokio::sync::OnceCell;

/// Packages that are remembered. Each may have some tens of megabytes, so there are few.
const REMEMBERED_MAX: usize = 8;

/// A package whose key is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The key, for a complaint.
    pub(crate) key: [u8; 32],
    /// What is inside; nothing if the key does not open it.
    pub(crate) plain: Option<Vec<u8>>,
}

/// What is known of a package, once somebody has opened it.
type Cell = Arc<OnceCell<Arc<Content>>>;

/// The packages that were opened last.
#[derive(Default)]
pub(crate) struct Packages {
    // A lock: looked at by every run and check, held briefly.
    opened: Mutex<VecDeque<(Hash32, Cell)>>,
}

impl Packages {
    /// What is inside a package; the first who asks opens it, others wait for that.
    pub(crate) async fn get<E>(
        &self,
        package: Hash32,
        open: impl AsyncFnOnce() -> Result<Content, E>,
    ) -> Result<Arc<Content>, E> {
        let cell = self.place(package);
        let content = cell.get_or_try_init(async || open().await.map(Arc::new)).await?;
        Ok(Arc::clone(content))
    }

    fn place(&self, package: Hash32) -> Cell {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cell)) = opened.iter().find(|(id, _)| *id == package) {
            return Arc::clone(cell);
        }
        if opened.len() >= REMEMBERED_MAX {
            opened.pop_front();
        }
        let cell = Cell::default();
        opened.push_back((package, Arc::clone(&cell)));
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, Packages, REMEMBERED_MAX};
    use tg_types::Hash32;

    #[tokio::test]
    async fn package_is_opened_once_and_forgotten_in_the_end() {
        let packages = Packages::default();
        let id = |number: u8| Hash32::new([number; 32]);
        let content = |number: u8| Content { key: [number; 32], plain: Some(vec![number]) };
        let fails = packages.get(id(1), async || Err::<Content, _>("no")).await;
        assert_eq!(fails, Err("no"));
        for _ in 0..2 {
            let found = packages.get(id(1), async || Ok::<_, ()>(content(1))).await;
            assert_eq!(*found.expect("opens"), content(1));
        }
        let again = packages.get(id(1), async || Ok::<_, ()>(content(2))).await.expect("is known");
        assert_eq!(*again, content(1));
        for number in 2..=u8::try_from(REMEMBERED_MAX + 1).expect("few") {
            packages.get(id(number), async || Ok::<_, ()>(content(number))).await.expect("opens");
        }
        let anew = packages.get(id(1), async || Ok::<_, ()>(content(3))).await.expect("opens");
        assert_eq!(*anew, content(3));
    }
}
