//! Where a transaction stands: transaction id to height and position.
//!
//! Derived from the records of final blocks, so it may be lost: on start it is filled up from the
//! first height it lacks. Commits are therefore not flushed one by one.

use redb::{Database, Durability, ReadableDatabase as _, TableDefinition};
use std::path::Path;
use tg_types::{ids::TxId, tick::Height};

const PLACES: TableDefinition<'_, [u8; 32], (u64, u32)> = TableDefinition::new("places");
const BY_HEIGHT: TableDefinition<'_, (u64, u32), [u8; 32]> = TableDefinition::new("by_height");
const TIPS: TableDefinition<'_, (), u64> = TableDefinition::new("tip");

/// Flushed to disk after this many blocks; the rest is derived again after a crash.
const FLUSH_BLOCKS: u64 = 64;

/// The index cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the index of transactions failed")]
pub struct IndexError(#[source] Box<redb::Error>);

impl<E: Into<redb::Error>> From<E> for IndexError {
    fn from(error: E) -> Self {
        Self(Box::new(error.into()))
    }
}

/// Where a transaction stands in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxPlace {
    /// Height of its block.
    pub height: Height,
    /// Position in the block.
    pub index: u32,
}

/// The index of one node.
pub struct Index(Database);

impl Index {
    /// Opens the index in a file, or makes it.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn open(file: &Path) -> Result<Self, IndexError> {
        Self::prepare(Database::create(file)?)
    }

    /// An index in memory, for nodes that keep nothing.
    ///
    /// # Errors
    /// If memory cannot be used.
    pub fn in_memory() -> Result<Self, IndexError> {
        Self::prepare(
            Database::builder().create_with_backend(redb::backends::InMemoryBackend::new())?,
        )
    }

    fn prepare(database: Database) -> Result<Self, IndexError> {
        let transaction = database.begin_write()?;
        transaction.open_table(PLACES)?;
        transaction.open_table(BY_HEIGHT)?;
        transaction.open_table(TIPS)?;
        transaction.commit()?;
        Ok(Self(database))
    }

    /// Adds a block's transactions and forgets those below `oldest`.
    ///
    /// # Errors
    /// If the index cannot be written.
    pub fn add(&self, height: Height, txs: &[TxId], oldest: Height) -> Result<(), IndexError> {
        let mut transaction = self.0.begin_write()?;
        if !height.get().is_multiple_of(FLUSH_BLOCKS) {
            transaction.set_durability(Durability::None)?;
        }
        {
            let mut places = transaction.open_table(PLACES)?;
            let mut by_height = transaction.open_table(BY_HEIGHT)?;
            for (index, id) in (0u32..).zip(txs) {
                places.insert(*id.as_bytes(), (height.get(), index))?;
                by_height.insert((height.get(), index), *id.as_bytes())?;
            }
            if height.get().is_multiple_of(FLUSH_BLOCKS) {
                let old = by_height
                    .extract_from_if((0, 0)..(oldest.get(), 0), |_, _| true)?
                    .map(|item| item.map(|(_, id)| id.value()))
                    .collect::<Result<Vec<_>, _>>()?;
                for id in old {
                    places.remove(id)?;
                }
            }
            transaction.open_table(TIPS)?.insert((), height.get())?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// The last height added.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn tip(&self) -> Result<Option<Height>, IndexError> {
        let tips = self.0.begin_read()?.open_table(TIPS)?;
        Ok(tips.get(())?.map(|tip| Height::new(tip.value())))
    }

    /// Where a transaction stands.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn find(&self, id: &TxId) -> Result<Option<TxPlace>, IndexError> {
        let places = self.0.begin_read()?.open_table(PLACES)?;
        Ok(places.get(*id.as_bytes())?.map(|place| {
            let (height, index) = place.value();
            TxPlace { height: Height::new(height), index }
        }))
    }
}
