//! What an agent answers to others: to owners of jobs what their programs say, to drawn checkers
//! what their tiles are computed from.

use super::tiles;
use crate::task_run::Log;
use crate::tensor_run::TensorRun;
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tg_gateway::Gateway;
use tg_gateway::message::{Failure, Reply, Request, log_reader};
use tg_ledger::{JobEntry, keys};
use tg_net::{CallHandler, PeerId, ReplySender};
use tg_sandbox::Stop;
use tg_types::{Bytes, Decode, Encode, JobId, Kind, NodeId, PublicKey, Signature, TileLot};
use tokio::sync::Semaphore;

/// Checkers whose tiles are collected at once; others are told to come again or to compute the run.
const TOLD_AT_ONCE: usize = 2;

/// Answers that are remembered: those of two audits with two checkers each.
const TOLD_MAX: usize = 4;

/// What is known of the runs of an agent, for those who may ask.
pub(crate) struct Desk {
    // Shared with the answering side; held briefly.
    tasks: Mutex<Tasks>,
    // The same.
    runs: Mutex<BTreeMap<JobId, Arc<TensorRun>>>,
    /// What was told last, for whoever asks for the next part. The same.
    told: Mutex<Told>,
    telling: Semaphore,
    gateway: Arc<Gateway>,
}

/// What a checker is told of a run, or why it is told nothing.
type Answer = Result<Arc<Vec<u8>>, Failure>;

/// What checkers were told last, by job and lot, the oldest first.
#[derive(Default)]
struct Told(VecDeque<(JobId, TileLot, Answer)>);

impl Told {
    fn find(&self, job: &JobId, lot: &TileLot) -> Option<Answer> {
        let mut told = self.0.iter();
        let found = told.find(|(of, by, _)| (of, by) == (job, lot));
        found.map(|(_, _, answer)| answer.clone())
    }

    fn keep(&mut self, job: JobId, lot: TileLot, answer: Answer) {
        self.0.retain(|(of, by, _)| (*of, *by) != (job, lot));
        while self.0.len() >= TOLD_MAX {
            self.0.pop_front();
        }
        self.0.push_back((job, lot, answer));
    }

    fn forget(&mut self, job: &JobId) {
        self.0.retain(|(of, ..)| of != job);
    }
}

/// Programs of this agent.
#[derive(Default)]
struct Tasks {
    /// Those that run, with what they say and what ends them.
    running: BTreeMap<JobId, (Arc<Log>, Stop)>,
    /// Jobs whose program is to end before it began: its files were still being fetched. A mark
    /// outlives its job, since whoever fetches does not hear of that, and goes with the run.
    early: BTreeSet<JobId>,
}

impl Tasks {
    fn begin(&mut self, job: JobId, task: (Arc<Log>, Stop)) {
        if self.early.remove(&job) {
            task.1.ask();
            task.1.stop();
        }
        self.running.insert(job, task);
    }

    fn remove(&mut self, job: &JobId) {
        if let Some((_, stop)) = self.running.remove(job) {
            stop.stop();
        }
    }

    fn ask_to_end(&mut self, job: &JobId) -> Option<Stop> {
        let Some((_, stop)) = self.running.get(job) else {
            self.early.insert(*job);
            return None;
        };
        stop.ask();
        Some(stop.clone())
    }
}

impl Desk {
    pub(crate) fn new(gateway: Arc<Gateway>) -> Self {
        let telling = Semaphore::new(TOLD_AT_ONCE);
        let (tasks, runs, told) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { tasks, runs, told, telling, gateway }
    }

    /// A run has a result that may be drawn.
    pub(crate) fn keep_run(&self, job: JobId, run: Arc<TensorRun>) {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).insert(job, run);
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program is about to run: where it says what it says, and what ends it.
    pub(crate) fn begin_task(&self, job: JobId) -> Result<(Arc<Log>, Stop), std::io::Error> {
        let task: (Arc<Log>, Stop) = (Arc::default(), Stop::new()?);
        self.lock().begin(job, task.clone());
        Ok(task)
    }

    /// Forgets a job; a program that still runs for it is ended.
    pub(crate) fn remove(&self, job: &JobId) {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).remove(job);
        self.told().forget(job);
        self.lock().remove(job);
    }

    /// Asks a program to end; what ends it, if it does not, is given back. One that has not begun
    /// ends as soon as it does.
    pub(crate) fn ask_to_end(&self, job: &JobId) -> Option<Stop> {
        self.lock().ask_to_end(job)
    }

    /// A run begins or has ended: whatever was to end early was another one.
    pub(crate) fn expect_task(&self, job: &JobId) {
        self.lock().early.remove(job);
    }

    /// Ends all programs.
    pub(crate) fn stop_all(&self) {
        self.lock().running.values().for_each(|(_, stop)| stop.stop());
    }

    async fn entry(&self, job: &JobId) -> Result<JobEntry, Failure> {
        let entry = self.gateway.entry::<JobEntry>(keys::job(job)).await;
        entry.map_err(|_| Failure::Busy)?.ok_or(Failure::NotChosen)
    }

    /// Tells a peer for whom the owner of a job speaks what its program said.
    async fn log(&self, from: PeerId, asked: Asked) -> Result<Reply, Failure> {
        let Asked { job, since, consent } = asked;
        let log = self.lock().running.get(&job).map(|(log, _)| Arc::clone(log));
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

impl Desk {
    /// Tells a drawn checker a part of what its tiles are computed from.
    async fn tiles(&self, from: PeerId, job: JobId, part: u16) -> Result<Reply, Failure> {
        let run = self.runs.lock().unwrap_or_else(PoisonError::into_inner).get(&job).cloned();
        let run = run.ok_or(Failure::NoPackage)?;
        let node = NodeId::new(*from.as_bytes());
        let entry = self.entry(&job).await?;
        let mut checks = entry.checks.as_slice().iter();
        let check = checks.find(|check| check.node == node && check.is_open());
        let lot = check.and_then(|check| check.lot).ok_or(Failure::NotChosen)?;
        let lot = TileLot { lot, tiles: self.gateway.params().jobs.audit_tiles };
        let told = self.told().find(&job, &lot);
        let answer = match told {
            Some(answer) => answer,
            None => {
                let _turn = self.telling.try_acquire().map_err(|_| Failure::Busy)?;
                let shown = tokio::task::spawn_blocking(move || tiles::shown(&run, &lot));
                let answer = shown.await.map_err(|_| Failure::Busy)?.map(Arc::new);
                self.told().keep(job, lot, answer.clone());
                answer
            }
        };
        tiles::part_of(&answer?, part)
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
                Ok(Request::Tiles { job, part }) => self.tiles(from, job, part).await,
                Ok(_) | Err(_) => Err(Failure::Malformed),
            };
            let answer = answer.unwrap_or_else(|why| Reply::Failed { why });
            let _left = reply.send(answer.to_bytes()).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, JobId, Stop, TOLD_MAX, Tasks, TileLot, Told};
    use std::sync::Arc;
    use tg_types::Hash32;

    /// Goal: a program that nobody wants never runs, though it was still being fetched when its run
    /// and its job ended. Method: the events of one block, then the program begins.
    #[test]
    fn program_that_was_to_end_before_it_began_ends_though_its_job_is_forgotten() {
        let (mut tasks, job) = (Tasks::default(), JobId::new([1; 32]));
        let task = || (Arc::default(), Stop::new().expect("a file"));
        assert!(tasks.ask_to_end(&job).is_none(), "it has not begun");
        tasks.remove(&job);
        let first = task();
        tasks.begin(job, first.clone());
        assert!(first.1.is_asked());
        assert!(tasks.ask_to_end(&job).is_some() && tasks.early.is_empty());
        tasks.remove(&job);
        let second = task();
        tasks.begin(job, second.clone());
        assert!(!second.1.is_asked(), "the mark was of one run");
    }

    #[test]
    fn several_checkers_are_told_again_what_they_were_told_and_refusals_too() {
        let (mut told, job) = (Told::default(), JobId::new([1; 32]));
        let lot = |number: usize| TileLot {
            lot: Hash32::new([u8::try_from(number).expect("few"); 32]),
            tiles: 8,
        };
        told.keep(job, lot(0), Ok(Arc::new(vec![7])));
        told.keep(job, lot(1), Err(Failure::Quota));
        assert_eq!(told.find(&job, &lot(0)), Some(Ok(Arc::new(vec![7]))));
        assert_eq!(told.find(&job, &lot(1)), Some(Err(Failure::Quota)));
        assert_eq!(told.find(&JobId::new([2; 32]), &lot(0)), None);
        for number in 2..=TOLD_MAX {
            told.keep(job, lot(number), Err(Failure::NoPackage));
        }
        assert_eq!(told.find(&job, &lot(0)), None, "the oldest makes room");
        assert!(told.find(&job, &lot(1)).is_some());
        told.forget(&job);
        assert_eq!(told.find(&job, &lot(1)), None);
    }
}
