//! The agent of a node: it follows the chain, runs what the node is given, shows the results,
//! checks what the node is drawn for, and defends or objects where that is needed.
//!
//! One task owns the state and decides what to do next; everything that takes time (transfer,
//! computing, waiting for a transaction) runs in tasks of its own and reports back. Whatever the
//! agent forgets when it dies is on the chain, in the packages or among its notes: a restarted
//! agent reads the jobs of its node and goes on.

mod books;
mod capacity;
mod check;
mod courier;
mod desk;
mod dispute;
mod ending;
mod gpus;
mod notes;
mod outbox;
mod packages;
mod patience;
mod prove;
mod resume;
mod save;
mod split;
mod tiles;
mod work;

pub use capacity::FillError;
#[cfg(feature = "wgpu")]
pub use capacity::open_gpu;

use crate::registration::{self, Registration};
use crate::task_run::Workshop;
use crate::tensor_run::TensorRun;
use books::{Attempt, Books};
use capacity::{Drawn, Question, Then};
use courier::Courier;
use desk::Desk;
use gpus::Gpus;
pub use gpus::{DeviceAccess, GpuPlace};
use notes::{Duty, Note, Notes};
use outbox::Outbox;
use packages::Packages;
use prove::{Proved, Provers};
pub use split::{MadePart, PartPlace, SplitFault, Splitter};
use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tg_gateway::message::{EventList, Reply};
use tg_gateway::{Blocks, Gateway};
use tg_ledger::{AccountEntry, JobEntry, NodeEntry, RunState, Turn, keys};
use tg_privacy::{ContentKey, WrapSecret};
use tg_types::{
    AccountId, Action, Amount, Bytes, Decode, Event, JobId, JobStatus, List, Message, NodeId,
    RunFailure, SecretKey, Tick,
};
use tokio::sync::{OnceCell, mpsc, watch};
use tokio::task::JoinSet;
use work::WorkError;

/// How often validators are told that the node is there: several times in an epoch of absence.
const HELLO_EVERY: Duration = Duration::from_millis(250);

/// Messages of tasks that wait for the agent.
const REPORTS: usize = 1_024;

/// How long to wait before turning to another validator.
const FOLLOW_AGAIN: Duration = Duration::from_millis(200);

/// How an agent is set up.
pub struct AgentConfig {
    /// The node's key: its id on the chain and in the network of peers.
    pub key: SecretKey,
    /// The key to which shares are wrapped.
    pub wrap: WrapSecret,
    /// The validators.
    pub gateway: Arc<Gateway>,
    /// The node's place in the registry.
    pub registration: Arc<Registration>,
    /// Where random numbers come from.
    pub random: fn() -> Option<[u8; 32]>,
    /// Where strangers' programs are run; they are declined without.
    pub workshop: Option<Arc<Workshop>>,
    /// Where commitments are noted, so that a node which comes back can keep them; a node with a
    /// key for one time only has no such folder.
    pub notes: Option<PathBuf>,
    /// Where the GPUs are that the node offers.
    pub gpus: Vec<GpuPlace>,
    /// Who splits them, if they are offered in partitions.
    pub splitter: Option<Arc<dyn Splitter>>,
    /// A lying node, for demonstrations.
    pub cheats: Option<Cheat>,
}

/// What a lying node lies about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cheat {
    /// Its results are falsified.
    Results,
    /// It opens other blocks of its memory than were drawn.
    Capacity,
    /// It computes and is right, but seals its results so that nobody can open them.
    Sealed,
    /// Its results are falsified where they must be shown to be right, and right elsewhere.
    Proofs,
}

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The peer cannot serve.
    #[error("the agent cannot answer calls")]
    Serve(#[from] tg_net::ServeError),
    /// There is no place for notes.
    #[error("the folder for notes cannot be made")]
    Notes(#[from] std::io::Error),
}

/// What an agent has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deeds {
    /// Runs whose result was shown.
    pub runs: u64,
    /// Checks that passed.
    pub checks: u64,
    /// Objections raised.
    pub objections: u64,
    /// Runs given up.
    pub given_up: u64,
    /// What was paid for runs and checks.
    pub earned: Amount,
    /// What was lost in fines and slashes.
    pub lost: Amount,
    /// Whether it computes something now.
    pub is_busy: bool,
}

/// How many runs and checks are being computed; each counts as long as it holds its part.
type Busy = Arc<()>;

/// What a task tells the agent.
enum Report {
    /// A run has begun; this is which one it is.
    Begun(JobId, Attempt),
    /// A run has a result; all that is needed later comes with it.
    Ran(JobId, Box<Ran>),
    /// A run cannot be done.
    Failed(JobId, RunFailure),
    /// A run cannot be done because its inputs are wrong; their key shows it.
    WrongInputs(JobId, [u8; 32]),
    /// A check is done; the answer waits for its turn.
    Checked(JobId, Box<check::Checked>),
    /// A check was not done.
    Unchecked(JobId),
    /// A check still waits for the key, which the owner keeps.
    Keyless(JobId),
    /// A result is wrong; the run shows how it ought to be.
    Wrong(JobId, Arc<TensorRun>),
    /// The state of a run was saved; this says so.
    Saved(Box<Action>),
    /// A run has ended before it was finished, as it was asked to; this says so.
    Yielded(JobId, Box<Action>),
    /// A memory is filled.
    Filled(capacity::Answer, Then),
}

/// A result with its proof.
pub(crate) struct Ran {
    /// What a defence needs; nothing of a stranger's program, nor of a result that was only noted.
    pub(crate) run: Option<Arc<TensorRun>>,
    pub(crate) note: Note,
    /// What shows it to be right, if the job asks for that.
    pub(crate) proved: Option<Proved>,
    /// The key of the inputs, if their owner keeps it: for a defence after a restart.
    pub(crate) key: Option<ContentKey>,
    /// Whether the commitment to it came to the ledger.
    pub(crate) is_committed: bool,
}

/// What runs and checks share.
pub(crate) struct Tools {
    pub(crate) desk: Arc<Desk>,
    pub(crate) packages: Packages,
    pub(crate) courier: Courier,
    pub(crate) gpus: Arc<Gpus>,
    pub(crate) provers: Arc<Provers>,
}

/// A running agent.
pub struct Agent {
    stop: watch::Sender<bool>,
    gpus: watch::Sender<Vec<GpuPlace>>,
    deeds: watch::Receiver<Deeds>,
    busy: Busy,
    task: tokio::task::JoinHandle<()>,
}

impl Agent {
    /// Starts an agent on the runtime it is called in. The node must be registered.
    ///
    /// # Errors
    /// If the peer cannot serve, or there is no place for notes.
    pub fn start(mut config: AgentConfig) -> Result<Self, AgentError> {
        let notes = Notes::new(config.notes.take())?;
        let (stop, stopped) = watch::channel(false);
        let (gpus, gpus_now) = watch::channel(std::mem::take(&mut config.gpus));
        let (tell, deeds) = watch::channel(Deeds::default());
        let desk = Arc::new(Desk::new(Arc::clone(&config.gateway)));
        config.gateway.serve(Some(desk.clone()))?;
        let config = Arc::new(config);
        let outbox = Outbox::start(&config);
        let courier = Courier::start(Arc::clone(&config));
        let gpus_used = Arc::new(Gpus::new(gpus_now.clone(), config.splitter.clone()));
        let packages = Packages::default();
        let (gpus_of_runs, provers) = (gpus_used, Arc::default());
        let tools = Tools { desk, packages, courier, gpus: gpus_of_runs, provers };
        let tools = Arc::new(tools);
        let (reports, inbox) = mpsc::channel(REPORTS);
        let node = NodeId::new(*config.key.public().as_bytes());
        let state = State {
            node,
            config,
            tools,
            outbox,
            gpus: gpus_now,
            reports,
            books: Books::default(),
            noted: notes.jobs(),
            notes,
            tasks: JoinSet::new(),
            deeds: Deeds::default(),
            tell,
            busy: Arc::default(),
        };
        let busy = Arc::clone(&state.busy);
        let task = tokio::spawn(state.run(inbox, stopped));
        Ok(Self { stop, gpus, deeds, busy, task })
    }

    /// Says where the GPUs are that the node offers from now on.
    pub fn set_gpus(&self, gpus: Vec<GpuPlace>) {
        self.gpus.send_replace(gpus);
    }

    /// What it has done so far.
    #[must_use]
    pub fn deeds(&self) -> Deeds {
        // The agent holds one part and this handle another.
        let is_busy = Arc::strong_count(&self.busy) > 2;
        Deeds { is_busy, ..*self.deeds.borrow() }
    }

    /// Stops it; what it was computing is dropped.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the agent did not end well");
        }
    }
}

/// All that one agent owns.
struct State {
    node: NodeId,
    config: Arc<AgentConfig>,
    tools: Arc<Tools>,
    outbox: Outbox,
    gpus: watch::Receiver<Vec<GpuPlace>>,
    reports: mpsc::Sender<Report>,
    books: Books,
    notes: Notes,
    /// Jobs with notes of an agent before this one that were not looked at.
    noted: Vec<JobId>,
    tasks: JoinSet<()>,
    deeds: Deeds,
    tell: watch::Sender<Deeds>,
    busy: Busy,
}

impl State {
    async fn run(mut self, mut inbox: mpsc::Receiver<Report>, mut stopped: watch::Receiver<bool>) {
        let gateway = Arc::clone(&self.config.gateway);
        let hello = tokio::spawn(async move { gateway.stay(HELLO_EVERY).await });
        let listed = tokio::spawn(registration::stay(Arc::clone(&self.config.registration)));
        let mut blocks = self.follow().await;
        loop {
            tokio::select! {
                _ = stopped.changed() => break,
                Some(report) = inbox.recv() => {
                    if self.is_wanted(&report) {
                        self.report(report).await;
                    }
                }
                frame = blocks.next() => match frame {
                    Some(frame) => self.block(&frame).await,
                    None => {
                        tokio::time::sleep(FOLLOW_AGAIN).await;
                        self.config.gateway.turn_from(&blocks);
                        blocks = self.follow().await;
                    }
                },
            }
        }
        hello.abort();
        listed.abort();
        self.tools.desk.stop_all();
        self.tasks.shutdown().await;
    }

    /// Follows the chain, and catches up with what happened before: the node's own record says
    /// which jobs it has.
    async fn follow(&mut self) -> Blocks {
        loop {
            let Ok(blocks) = self.config.gateway.follow() else {
                tokio::time::sleep(FOLLOW_AGAIN).await;
                continue;
            };
            match self.catch_up().await {
                Ok(()) => return blocks,
                Err(error) => {
                    tracing::warn!(%error, "cannot catch up with the chain");
                    tokio::time::sleep(FOLLOW_AGAIN).await;
                    self.config.gateway.turn_from(&blocks);
                }
            }
        }
    }

    /// Looks through what happened in a block.
    async fn block(&mut self, frame: &[u8]) {
        let block = Reply::from_bytes(frame);
        let Ok(Reply::Block { tick, events: EventList(events), .. }) = block else { return };
        for event in events {
            self.event(tick, &event).await;
            self.ending_event(&event);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is no business of a node")]
    async fn event(&mut self, now: Tick, event: &Event) {
        let node = self.node;
        match *event {
            Event::JobPlaced { job, node: to, .. } if to == node => self.begin_run(job, now),
            Event::ResultCommitted { job, node: by } => self.commitment_came(job, by).await,
            Event::ResultRevealed { job, node: by, .. }
            | Event::ResultProved { job, node: by, .. }
                if by == node =>
            {
                self.count_run(&job);
            }
            Event::CheckDrawn { job, node: to, .. } if to == node => self.begin_check(job),
            Event::CheckCommitted { job, node: by } if by == node => self.show(job),
            Event::CheckPassed { job, node: by } if by == node => self.count_check(&job),
            Event::ProviderPaid { node: to, amount, .. }
            | Event::CheckerPaid { node: to, amount, .. }
                if to == node =>
            {
                self.count_money(amount, Amount::ZERO);
            }
            Event::NodeSlashed { node: of, amount, .. }
            | Event::NodeFined { node: of, amount, .. }
            | Event::ClientCompensated { node: of, amount, .. }
                if of == node =>
            {
                self.count_money(Amount::ZERO, amount);
            }
            Event::DisputeOpened { .. }
            | Event::ClaimPicked { .. }
            | Event::DefencePassed { .. }
            | Event::DisputeAnswered { .. }
            | Event::DisputeEnded { .. } => self.dispute_event(event),
            Event::JobSettled { job, .. }
            | Event::JobFailed { job, .. }
            | Event::PromiseRefused { job, .. }
            | Event::JobExpired { job, .. }
            | Event::JobCancelled { job, .. } => self.drop_run(&job),
            Event::RunEnded { job, .. } => {
                self.books.vouched.remove(&job);
                self.notes.forget_duty(&job);
            }
            Event::CheckMissed { job, node: by } | Event::CheckExcused { job, node: by }
                if by == node =>
            {
                self.notes.forget_duty(&job);
            }
            Event::ComplaintRejected { job, about: Message::Inputs, .. }
            | Event::ComplaintLapsed { job, about: Message::Inputs }
                if self.books.complaints.remove(&job) =>
            {
                self.outbox.give_up(job, RunFailure::PackageWrong).await;
            }
            Event::NodeAbsent { node: of, .. } | Event::NodeDropped { node: of, .. }
                if of == node =>
            {
                self.config.registration.look_soon();
            }
            Event::CapacityAsked { .. }
            | Event::CapacityDrawn { .. }
            | Event::CapacityProved { .. }
            | Event::CapacityMissed { .. } => self.capacity_event(event),
            _ => {}
        }
    }

    fn count_money(&mut self, earned: Amount, lost: Amount) {
        self.deeds.earned = self.deeds.earned.plus(earned).unwrap_or(Amount::CAP);
        self.deeds.lost = self.deeds.lost.plus(lost).unwrap_or(Amount::CAP);
        self.tell.send_replace(self.deeds);
    }

    /// What follows from what others do in a dispute.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only events of disputes come here")]
    fn dispute_event(&mut self, event: &Event) {
        match *event {
            Event::DisputeOpened { job, .. } => self.defend(job),
            Event::ClaimPicked { job, .. } => {
                self.defend(job);
                if self.books.undefended.contains(&job) {
                    self.stand_in(job);
                }
            }
            Event::DefencePassed { job, .. } => {
                self.books.undefended.insert(job);
                self.stand_in(job);
            }
            Event::DisputeAnswered { job, .. } => self.challenge(job),
            Event::DisputeEnded { job, .. } => {
                self.books.objections.remove(&job);
                self.books.undefended.remove(&job);
                self.show(job); // nobody could meanwhile
            }
            _ => {}
        }
    }

    /// Shows a result of ours. Of several replicas none is shown before all have committed to
    /// theirs; so any of their commitments may be the one that was waited for.
    async fn commitment_came(&mut self, job: JobId, by: NodeId) {
        if by == self.node {
            self.books.note_commitment(&job);
            self.face_stale(job).await;
        }
        if let Some(ran) = self.books.runs.get(&job) {
            self.outbox.reveal(job, &ran.note).await;
        }
    }

    fn count_run(&mut self, job: &JobId) {
        self.books.stale.remove(job);
        self.deeds.runs += 1;
        self.tell.send_replace(self.deeds);
    }

    fn count_check(&mut self, job: &JobId) {
        self.books.checks.remove(job);
        self.deeds.checks += 1;
        self.tell.send_replace(self.deeds);
    }

    fn forget(&mut self, job: &JobId) {
        self.books.forget(job);
        self.notes.forget(job);
        self.tools.desk.remove(job);
    }

    async fn report(&mut self, report: Report) {
        match report {
            Report::Begun(job, attempt) => {
                if self.books.begin_attempt(job, attempt) {
                    self.face_stale(job).await;
                }
            }
            Report::Ran(job, ran) if ran.proved.is_some() => self.prove(job, *ran).await,
            Report::Ran(job, ran) => {
                let seal = ran.note.result.seal(&self.node, &ran.note.salt);
                self.notes.keep(&job, &ran.note);
                self.notes.keep_key(&job, ran.key.as_ref());
                if let Some(run) = &ran.run {
                    self.tools.desk.keep_run(job, Arc::clone(run));
                }
                self.books.runs.insert(job, *ran);
                self.outbox.commit(job, seal).await;
            }
            Report::Failed(job, failure) => self.give_up(job, failure).await,
            Report::WrongInputs(job, key) => {
                self.deeds.given_up += 1;
                self.tell.send_replace(self.deeds);
                self.books.complaints.insert(job);
                let about = Message::Inputs;
                self.outbox.send(Action::Complain { job, about, key }).await;
            }
            Report::Checked(job, mut checked) => {
                let seal = checked.answer.seal(&self.node, &checked.salt);
                let (answer, salt) = (checked.answer.clone(), checked.salt);
                self.notes.keep_duty(&job, &Duty::Vouched { answer, salt });
                self.notes.keep_key(&job, checked.key.as_ref());
                if let Some(run) = checked.run.take() {
                    let kept = Arc::new(OnceCell::new_with(Some(run)));
                    self.books.vouched.insert(job, kept);
                }
                self.books.checks.insert(job, *checked);
                self.outbox.commit_check(job, seal).await;
            }
            Report::Wrong(job, run) => {
                self.deeds.objections += 1;
                self.tell.send_replace(self.deeds);
                self.books.objections.insert(job, Arc::new(dispute::Objection::new(run)));
                self.outbox.object(job).await;
            }
            Report::Saved(action) | Report::Yielded(_, action) => self.outbox.send(*action).await,
            Report::Unchecked(job) => self.notes.forget_duty(&job),
            // The owner may still hand it out: then the check is done after all.
            Report::Keyless(job) => {
                if self.is_check_unsaid(&job).await {
                    self.outbox.send(Action::LackKey { job }).await;
                }
            }
            Report::Filled(answer, then) => self.filled(answer, then).await,
        }
    }

    /// What follows when a memory is filled.
    async fn filled(&mut self, answer: capacity::Answer, then: Then) {
        if self.books.seed != Some(answer.seed) {
            return; // another one is asked for by now
        }
        let commitment = answer.commitment();
        self.books.answer = Some(answer);
        match then {
            Then::Commit => self.outbox.send(commitment).await,
            Then::Keep => {
                if let Some(drawn) = self.books.drawn {
                    self.show_capacity(drawn);
                }
            }
            Then::Show(drawn) => self.show_capacity(drawn),
        }
    }

    /// Shows a result with all that shows it to be right. It is noted before: a node that dies and
    /// comes back before it is final shows the same again, which the ledger takes once.
    async fn prove(&mut self, job: JobId, ran: Ran) {
        let Ran { note: Note { result, voucher, .. }, proved: Some(proved), key, .. } = ran else {
            return;
        };
        let shown = Bytes::new(proved.bytes).ok().zip(List::new(vec![voucher]).ok());
        if let Some((shown, vouchers)) = shown {
            let proof = Action::ProveResult { job, result, cost: proved.cost, shown, vouchers };
            self.notes.keep_key(&job, key.as_ref());
            self.notes.keep_proof(&job, &proof);
            self.books.shown.insert(job);
            self.outbox.prove(proof).await;
        }
    }

    /// Fills a memory, unless that is under way or done.
    fn begin_fill(&mut self, question: Question) {
        if self.books.seed == Some(question.seed) {
            return;
        }
        (self.books.seed, self.books.answer) = (Some(question.seed), None);
        self.books.drawn = None;
        let (config, reports) = (Arc::clone(&self.config), self.reports.clone());
        let (node, gpus) = (self.node, self.gpus.borrow().clone());
        self.tasks.spawn(async move {
            match capacity::answer(config, node, gpus, question).await {
                Ok(answer) => {
                    let _unheard = reports.send(Report::Filled(answer, question.then)).await;
                }
                Err(error) => {
                    let why = error.source().map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(%error, why, "the capacity cannot be shown");
                }
            }
        });
    }

    /// Shows blocks that were drawn, if the memory is there. They may have to come from a GPU, so
    /// they are read on a thread of their own.
    fn show_capacity(&mut self, drawn: Drawn) {
        let Some(answer) = self.books.answer.clone() else { return };
        let needed = self.config.gateway.params().capacity.openings;
        let lies = self.config.cheats == Some(Cheat::Capacity);
        let outbox = self.outbox.clone();
        self.tasks.spawn(async move {
            let opened = move || answer.openings(drawn, needed, lies);
            match tokio::task::spawn_blocking(opened).await {
                Ok(Ok(actions)) => {
                    for action in actions {
                        outbox.send(action).await;
                    }
                }
                Ok(Err(error)) => tracing::warn!(%error, "the capacity cannot be shown"),
                Err(error) => tracing::warn!(%error, "opening blocks did not end well"),
            }
        });
    }

    /// Runs a job that was placed then, unless that is under way: who reconnects reads of it once
    /// more.
    fn begin_run(&mut self, job: JobId, since: Tick) {
        if !self.books.begin(job, since) {
            return;
        }
        self.tools.desk.expect_task(&job);
        let (config, reports) = (Arc::clone(&self.config), self.reports.clone());
        let (tools, busy) = (Arc::clone(&self.tools), Arc::clone(&self.busy));
        let before = self.notes.find_proof(&job).map(|proven| (proven, self.notes.find_key(&job)));
        self.tasks.spawn(async move {
            let _computing = busy;
            let report = match work::run(&config, (&tools, &reports), (job, since), before).await {
                Ok(ran) => Report::Ran(job, Box::new(ran)),
                Err(WorkError::Yielded(action)) => Report::Yielded(job, action),
                Err(error) => {
                    let why = error.source().map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(%job, %error, why, "a run is given up");
                    failed(&config, &tools, job, &error).await
                }
            };
            // The agent has stopped if nobody hears this.
            let _unheard = reports.send(report).await;
        });
    }

    /// Checks a job, unless that is under way.
    fn begin_check(&mut self, job: JobId) {
        if !self.books.checking.insert(job) {
            return;
        }
        self.notes.keep_duty(&job, &Duty::Check);
        let (config, reports) = (Arc::clone(&self.config), self.reports.clone());
        let (node, tools) = (self.node, Arc::clone(&self.tools));
        let busy = Arc::clone(&self.busy);
        self.tasks.spawn(async move {
            let _computing = busy;
            let told = async {
                let _unheard = reports.send(Report::Keyless(job)).await;
            };
            let report = match check::check(&config, &tools, (&node, job), told).await {
                Ok(check::Verdict::Right(checked)) => Report::Checked(job, checked),
                Ok(check::Verdict::Wrong(run)) => Report::Wrong(job, run),
                Err(error) => {
                    let why = error.source().map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(%job, %error, why, "a check was not done");
                    Report::Unchecked(job)
                }
            };
            let _unheard = reports.send(report).await;
        });
    }

    /// Shows an answer once all of its round have committed to theirs.
    fn show(&mut self, job: JobId) {
        let Some(checked) = self.books.checks.get(&job) else { return };
        let (answer, salt, node) = (checked.answer.clone(), checked.salt, self.node);
        let kept = Arc::clone(self.books.vouched.entry(job).or_default());
        let (config, tools) = (Arc::clone(&self.config), Arc::clone(&self.tools));
        let (outbox, key) = (self.outbox.clone(), self.notes.find_key(&job));
        self.tasks.spawn(async move {
            if !check::wait_for_turn(&config, &node, job).await {
                return;
            }
            match check::completed(&config, &tools, job, (answer, &kept, key)).await {
                Ok(answer) => outbox.reveal_check(job, answer, salt).await,
                Err(error) => tracing::warn!(%job, %error, "an answer is not shown"),
            }
        });
    }

    fn defend(&mut self, job: JobId) {
        let Some(run) = self.books.runs.get(&job).map(|ran| ran.run.clone()) else { return };
        let (config, tools) = (Arc::clone(&self.config), Arc::clone(&self.tools));
        let (outbox, key) = (self.outbox.clone(), self.notes.find_key(&job));
        self.tasks.spawn(async move {
            let defended = async {
                let run = match run {
                    Some(run) => run,
                    None => work::run_again(&config, &tools, job, key).await?,
                };
                dispute::defend(&config, &outbox, job, &run, |turn| turn != Turn::Challenger).await
            };
            if let Err(error) = defended.await {
                tracing::warn!(%job, %error, "a result is not defended");
            }
        });
    }

    /// Answers in the place of a silent provider, if we have vouched for its whole run. What was
    /// computed before the agent started anew is computed again.
    fn stand_in(&mut self, job: JobId) {
        let kept = Arc::clone(self.books.vouched.entry(job).or_default());
        let (config, tools) = (Arc::clone(&self.config), Arc::clone(&self.tools));
        let (outbox, key) = (self.outbox.clone(), self.notes.find_key(&job));
        self.tasks.spawn(async move {
            let known = (&kept, key);
            if let Err(error) = dispute::stand_in(&config, &tools, &outbox, job, known).await {
                tracing::warn!(%job, %error, "a result that we vouched for is not defended");
            }
        });
    }

    fn challenge(&mut self, job: JobId) {
        let Some(objection) = self.books.objections.get(&job).map(Arc::clone) else { return };
        let (config, outbox) = (Arc::clone(&self.config), self.outbox.clone());
        self.tasks.spawn(async move {
            if let Err(error) = dispute::challenge(&config, &outbox, job, &objection).await {
                tracing::warn!(%job, %error, "an objection is not pursued");
            }
        });
    }
}

/// What follows from a run that was not done: if its inputs are wrong and there is money for the
/// bond, a complaint; otherwise it is given up.
async fn failed(config: &AgentConfig, tools: &Tools, job: JobId, error: &WorkError) -> Report {
    let failure = error.failure();
    if failure == RunFailure::PackageWrong
        && can_complain(config).await
        && let Some(key) = work::key_of_wrong_inputs(config, tools, job).await
    {
        return Report::WrongInputs(job, key);
    }
    Report::Failed(job, failure)
}

async fn can_complain(config: &AgentConfig) -> bool {
    balance(config).await > config.gateway.params().jobs.complaint_bond
}

/// What the node has for its transactions; nothing if that cannot be known.
pub(crate) async fn balance(config: &AgentConfig) -> Amount {
    let account = AccountId::from(config.key.public());
    let entry = config.gateway.entry::<AccountEntry>(keys::account(&account)).await;
    entry.ok().flatten().map_or(Amount::ZERO, |entry| entry.balance)
}
