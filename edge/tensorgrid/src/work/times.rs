//! What is to be expected of jobs, by what validators have on record of settled ones.

use super::{market::Market, order::OrderError};
use std::collections::BTreeMap;
use tg_api::eta::{EtaView, Known};
use tg_gateway::Gateway;
use tg_gateway::message::LISTED_MAX;
use tg_ledger::{JobEntry, PaceEntry, ProgramEntry, forecast, keys, subjects};
use tg_scheduler::pace::Forecast;
use tg_types::{AccountId, Hash32, JobId, JobSpec, ProgramFacts, StateKey, Work};

/// Jobs of others that are looked at for the time of a turn: each takes a question or two unless it
/// is about something that was asked before.
const OTHERS_MAX: usize = 256;

/// What was asked of validators so far.
pub(crate) struct Times<'a> {
    gateway: &'a Gateway,
    paces: BTreeMap<StateKey, Option<PaceEntry>>,
    programs: BTreeMap<Hash32, Option<ProgramFacts>>,
}

impl<'a> Times<'a> {
    /// Nothing was asked yet.
    pub(crate) fn new(gateway: &'a Gateway) -> Self {
        Self { gateway, paces: BTreeMap::new(), programs: BTreeMap::new() }
    }

    /// What is expected of a job of somebody.
    pub(crate) async fn forecast(
        &mut self,
        owner: &AccountId,
        spec: &JobSpec,
        facts: Option<&ProgramFacts>,
    ) -> Result<Forecast, OrderError> {
        let mut known = Vec::new();
        for subject in subjects(owner, spec) {
            let key = keys::pace(&subject);
            if !self.paces.contains_key(&key) {
                let entry = self.gateway.entry::<PaceEntry>(key).await?;
                self.paces.insert(key, entry);
            }
            known.push((subject, self.paces.get(&key).cloned().flatten()));
        }
        Ok(forecast(spec, facts, &known))
    }

    /// What is known of the program of a job.
    pub(crate) async fn facts(
        &mut self,
        entry: &JobEntry,
    ) -> Result<Option<ProgramFacts>, OrderError> {
        let Work::Tensor { program, .. } = entry.spec.work else { return Ok(None) };
        if !self.programs.contains_key(&program) {
            let known: Option<ProgramEntry> = self.gateway.entry(keys::program(&program)).await?;
            self.programs.insert(program, known.map(|known| known.facts(program)));
        }
        Ok(self.programs.get(&program).copied().flatten())
    }

    async fn known(&mut self, entry: &JobEntry) -> Result<Known, OrderError> {
        let facts = self.facts(entry).await?;
        let forecast = self.forecast(&entry.owner, &entry.spec, facts.as_ref()).await?;
        Ok(Known { entry: entry.clone(), forecast })
    }

    /// When a job runs, if it has not ended; `all` are the jobs on record.
    pub(crate) async fn eta(
        &mut self,
        market: &Market,
        entry: &JobEntry,
        all: &[(JobId, JobEntry)],
    ) -> Result<Option<EtaView>, OrderError> {
        if entry.status.is_final() {
            return Ok(None);
        }
        let own = entry.queue_key();
        let is_before = |other: &JobEntry| {
            other.queue_key().is_some_and(|key| own.is_some_and(|own| key < own))
        };
        let counts = |other: &&(JobId, JobEntry)| is_before(&other.1) || other.1.live().count() > 0;
        let others: Vec<&(JobId, JobEntry)> = all.iter().filter(counts).collect();
        let is_all = own.is_some() && all.len() < LISTED_MAX && others.len() <= OTHERS_MAX;
        let mut known = Vec::new();
        for (_, other) in others.into_iter().filter(|_| is_all) {
            known.push(self.known(other).await?);
        }
        let (job, facts) = (self.known(entry).await?, self.facts(entry).await?);
        let eta = market.ground().eta(&job, facts.as_ref(), is_all.then_some(&known));
        Ok(Some(eta).filter(|eta| !eta.sentence.is_empty()))
    }
}
