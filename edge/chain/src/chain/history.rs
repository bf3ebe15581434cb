//! What happened to jobs and nodes, read from the records of final blocks by way of the index.
//!
//! The index is written by a task of its own and may lack the last blocks for a moment; those are
//! looked up in memory, so that whoever was told of a block also finds what happened in it.

use super::{Chain, ChainError};
use crate::{
    index::{Index, JobPlace, queued, subjects},
    machine::FinalReceipts,
    record::Record,
};
use std::sync::Arc;
use tg_types::{
    codec::Decode as _,
    header::Header,
    ids::{JobId, StateKey, TxId},
    receipt::Event,
    tick::{Height, Tick},
};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// In which block.
    pub height: Height,
    /// At which time.
    pub tick: Tick,
    /// The transaction that caused it; `None` for what the block did by itself.
    pub tx: Option<TxId>,
    /// What.
    pub event: Event,
}

/// What happened to a job or a node, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// What happened.
    pub happenings: Vec<Happening>,
    /// Where to go on: earlier blocks say more. `None` if there are none.
    pub earlier: Option<Height>,
}

impl Chain {
    /// What happened to the job or node with this key in the last `blocks` blocks that say
    /// something about it, all before a height if one is given. `None` if this node keeps no index.
    ///
    /// # Errors
    /// If the node stopped or what it stored cannot be read.
    pub async fn history(
        &self,
        subject: StateKey,
        before: Option<Height>,
        blocks: usize,
    ) -> Result<Option<History>, ChainError> {
        let Some(index) = &self.index else { return Ok(None) };
        let mut happenings = Vec::new();
        let mut used = 0;
        let unindexed = self.unindexed(index)?;
        let is_wanted = |height: Height| before.is_none_or(|before| height < before);
        for block in unindexed.iter().filter(|block| is_wanted(block.header.height)) {
            let found = happened(&block.header, &block.record, &subject);
            used += usize::from(!found.is_empty());
            happenings.extend(found);
        }
        let first = unindexed.last().map(|block| block.header.height);
        let before = first.into_iter().chain(before).min();
        let left = blocks.saturating_sub(used);
        let mut heights = index.heights(&subject, before, left.saturating_add(1))?;
        let has_more = heights.len() > left;
        heights.truncate(left);
        for height in &heights {
            let Some((header, _)) = self.node.block(*height).await? else { break };
            let Some(record) = self.node.record(*height).await? else { break };
            happenings.extend(happened(&header, &Record::from_bytes(&record)?, &subject));
        }
        let last = happenings.last().map(|happening: &Happening| happening.height);
        Ok(Some(History { happenings, earlier: last.filter(|_| has_more) }))
    }

    /// The last jobs, the latest first: at most `limit`, and all before a place if one is given.
    /// `None` if this node keeps no index.
    ///
    /// # Errors
    /// If the index fails.
    pub fn last_jobs(
        &self,
        before: Option<JobPlace>,
        limit: usize,
    ) -> Result<Option<Vec<(JobPlace, JobId)>>, ChainError> {
        let Some(index) = &self.index else { return Ok(None) };
        let mut jobs = Vec::new();
        for block in self.unindexed(index)? {
            let height = block.header.height;
            let found = queued(&block.record).rev();
            jobs.extend(found.map(|(place, job)| (JobPlace { height, place }, job)));
        }
        jobs.retain(|(place, _)| before.is_none_or(|before| *place < before));
        jobs.truncate(limit);
        let before = jobs.last().map(|(place, _)| *place).or(before);
        jobs.extend(index.jobs(before, limit.saturating_sub(jobs.len()))?);
        Ok(Some(jobs))
    }

    /// Headers of the most recent final blocks, the latest first: some dozens.
    #[must_use]
    pub fn recent_headers(&self) -> Vec<Header> {
        self.machine.recent_blocks().iter().map(|block| block.header.clone()).collect()
    }

    /// Recent blocks that the index does not have yet, the latest first.
    fn unindexed(&self, index: &Index) -> Result<Vec<Arc<FinalReceipts>>, ChainError> {
        let tip = index.tip()?.unwrap_or(Height::ZERO);
        let mut blocks = self.machine.recent_blocks();
        blocks.retain(|block| block.header.height > tip);
        Ok(blocks)
    }
}

/// What happened to the subject in a block, the last first.
fn happened(header: &Header, record: &Record, subject: &StateKey) -> Vec<Happening> {
    let (height, tick) = (header.height, header.tick);
    let events = record.events().filter(|(_, event)| subjects(event).any(|key| key == *subject));
    let mut found: Vec<Happening> =
        events.map(|(tx, event)| Happening { height, tick, tx, event: event.clone() }).collect();
    found.reverse();
    found
}
