//! Packages that were opened: jobs of one batch share theirs, and opening one takes a fetch and a
//! share of the key from every validator.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tg_types::Hash32;
use tokio::sync::OnceCell;

/// Packages that are remembered. Each may have some tens of megabytes, so there are few.
const REMEMBERED_MAX: usize = 8;

/// What is inside a package, once somebody has opened it.
type Content = Arc<OnceCell<Arc<Vec<u8>>>>;

/// The packages that were opened last.
#[derive(Default)]
pub(crate) struct Packages {
    // A lock: looked at by every run and check, held briefly.
    opened: Mutex<VecDeque<(Hash32, Content)>>,
}

impl Packages {
    /// What is inside a package; the first who asks opens it, others wait for that.
    pub(crate) async fn get<E>(
        &self,
        package: Hash32,
        open: impl AsyncFnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<Vec<u8>>, E> {
        let content = self.place(package);
        let plain = content.get_or_try_init(async || open().await.map(Arc::new)).await?;
        Ok(Arc::clone(plain))
    }

    fn place(&self, package: Hash32) -> Content {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, content)) = opened.iter().find(|(id, _)| *id == package) {
            return Arc::clone(content);
        }
        if opened.len() >= REMEMBERED_MAX {
            opened.pop_front();
        }
        let content = Content::default();
        opened.push_back((package, Arc::clone(&content)));
        content
    }
}

#[cfg(test)]
mod tests {
    use super::{Packages, REMEMBERED_MAX};
    use tg_types::Hash32;

    #[tokio::test]
    async fn package_is_opened_once_and_forgotten_in_the_end() {
        let packages = Packages::default();
        let id = |number: u8| Hash32::new([number; 32]);
        let fails = packages.get(id(1), async || Err::<Vec<u8>, _>("no")).await;
        assert_eq!(fails, Err("no"));
        for _ in 0..2 {
            let found = packages.get(id(1), async || Ok::<_, ()>(vec![1])).await.expect("opens");
            assert_eq!(*found, [1]);
        }
        let again = packages.get(id(1), async || Ok::<_, ()>(vec![2])).await.expect("is known");
        assert_eq!(*again, [1]);
        for number in 2..=u8::try_from(REMEMBERED_MAX + 1).expect("few") {
            packages.get(id(number), async || Ok::<_, ()>(vec![number])).await.expect("opens");
        }
        let anew = packages.get(id(1), async || Ok::<_, ()>(vec![3])).await.expect("opens");
        assert_eq!(*anew, [3]);
    }
}
