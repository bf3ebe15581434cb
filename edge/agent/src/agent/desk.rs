//! What an agent answers to others: to owners of jobs what their programs say.

use crate::task_run::Log;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tg_gateway::Gateway;
use tg_gateway::message::{Failure, Reply, Request, log_reader};
use tg_ledger::{JobEntry, keys};
use tg_net::{CallHandler, PeerId, ReplySender};
use tg_sandbox::Stop;
use tg_types::{Bytes, Decode, Encode, JobId, Kind, PublicKey, Signature};

/// What is known of the runs of an agent, for those who may ask.
pub(crate) struct Desk {
    // Shared with the answering side; held briefly.
    tasks: Mutex<Tasks>,
    gateway: Arc<Gateway>,
}

/// Programs that run, with what they say and what ends them.
type Tasks = BTreeMap<JobId, (Arc<Log>, Stop)>;

impl Desk {
    pub(crate) fn new(gateway: Arc<Gateway>) -> Self {
        Self { tasks: Mutex::default(), gateway }
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program is about to run: where it says what it says, and what ends it.
    pub(crate) fn begin_task(&self, job: JobId) -> Result<(Arc<Log>, Stop), std::io::Error> {
        let task = (Arc::default(), Stop::new()?);
        self.lock().insert(job, task.clone());
        Ok(task)
    }

    /// Forgets a job; a program that still runs for it is ended.
    pub(crate) fn remove(&self, job: &JobId) {
        let task = self.lock().remove(job);
        if let Some((_, stop)) = task {
            stop.stop();
        }
    }

    /// Ends all programs.
    pub(crate) fn stop_all(&self) {
        self.lock().values().for_each(|(_, stop)| stop.stop());
    }

    async fn entry(&self, job: &JobId) -> Result<JobEntry, Failure> {
        let entry = self.gateway.entry::<JobEntry>(keys::job(job)).await;
        entry.map_err(|_| Failure::Busy)?.ok_or(Failure::NotChosen)
    }

    /// Tells a peer for whom the owner of a job speaks what its program said.
    async fn log(&self, from: PeerId, asked: Asked) -> Result<Reply, Failure> {
        let Asked { job, since, consent } = asked;
        let log = self.lock().get(&job).map(|(log, _)| Arc::clone(log));
        let log = log.ok_or(Failure::NoPackage)?;
        let owner = PublicKey::new(*self.entry(&job).await?.owner.as_bytes());
        let owner = owner.map_err(|_| Failure::NotChosen)?;
        let (domain, message) = (self.gateway.domain(), log_reader(&job, &from));
        let verified = owner.verify(domain, Kind::LogReader, &message, &consent);
        verified.map_err(|_| Failure::NotChosen)?;
        let (bytes, is_end) = log.since(since);
        Ok(Reply::Log { bytes: Bytes::new(bytes).map_err(|_| Failure::Busy)?, is_end })
    }
}

/// What somebody asks of a log.
struct Asked {
    job: JobId,
    since: u64,
    consent: Signature,
}

impl CallHandler for Desk {
    fn call(&self, from: PeerId, request: Vec<u8>, reply: ReplySender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let answer = match Request::from_bytes(&request) {
                Ok(Request::Log { job, from: since, consent }) => {
                    self.log(from, Asked { job, since, consent }).await
                }
                Ok(_) | Err(_) => Err(Failure::Malformed),
            };
            let answer = answer.unwrap_or_else(|why| Reply::Failed { why });
            let _left = reply.send(answer.to_bytes()).await;
        })
    }
}
