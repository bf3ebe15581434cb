//! Jobs from a client's side: what they cost, handing them in, how far they are, why they wait, and
//! what they gave.

mod adjust;
mod array;
mod complain;
mod fetch;
mod float;
mod gang;
mod gpu_needs;
mod keys;
mod plan;
mod resume;
mod run;
mod showing;
mod stop;
mod transfer;
mod why;

pub(super) use run::read_inputs;

use crate::{
    args::jobs::JobArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, lines, table},
    settings::{JobCommand, JobSettings},
    work::{
        connect::{Session, Standing},
        market::Market,
        times::Times,
    },
};
use serde::Serialize;
use std::fmt;
use tg_api::{
    eta::EtaView,
    text::Text,
    view::{CheckpointView, JobView, PromiseView, RunView},
    words::short,
};
use tg_gateway::message::{LISTED_MAX, Request};
use tg_jobfile::{Deadline, Span};
use tg_ledger::{JobEntry, keys as entry_keys};
use tg_scheduler::catalogue::Catalogue;
use tg_types::{Decode as _, DurationMs, JobId, Needs};

const HINT: &str = "is the network still there? `tensorgrid status` tells";

/// Carries out a command about jobs.
pub(super) fn run(settings: &JobSettings, printer: &Printer) -> Result<Exit, Failure> {
    let session = Session::open(&settings.way, "client", Standing::Passing)?;
    let inside = session.runtime.enter();
    session.gateway.serve(None).or_fail("packages cannot be handed over", HINT)?;
    drop(inside);
    let done = match &settings.command {
        JobCommand::Quote(options) => run::quote(&session, options, printer),
        JobCommand::Run(arguments) => run::run(&session, arguments, printer),
        JobCommand::Ps => ps(&session, printer),
        JobCommand::Show(arguments) => show(&session, arguments, printer),
        JobCommand::Why(arguments) => why::why(&session, arguments, printer),
        JobCommand::Logs(arguments) => fetch::logs(&session, arguments, printer),
        JobCommand::Copy(arguments) => fetch::copy(&session, arguments, printer),
        JobCommand::Stop(arguments) => stop::stop(&session, arguments, printer),
        JobCommand::Adjust(arguments) => adjust::adjust(&session, arguments, printer),
        JobCommand::Complain(arguments) => complain::complain(&session, arguments, printer),
        JobCommand::Keys(arguments) => keys::keys(&session, arguments, printer),
        JobCommand::Resume(arguments) => resume::resume(&session, arguments, printer),
    };
    session.close();
    done
}

#[derive(Serialize)]
struct Listed {
    job: Text<JobId>,
    #[serde(flatten)]
    view: JobView,
}

/// All jobs on record, the latest first.
fn jobs(session: &Session) -> Result<Vec<(JobId, JobEntry)>, Failure> {
    let what = "the jobs cannot be listed";
    let listed = session.runtime.block_on(session.gateway.entries(&Request::Jobs));
    let mut jobs = Vec::new();
    for listed in listed.or_fail(what, HINT)? {
        let entry = JobEntry::from_bytes(listed.bytes.as_slice()).or_fail(what, HINT)?;
        jobs.push((JobId::new(*listed.id.as_bytes()), entry));
    }
    jobs.sort_by_key(|(job, entry)| (std::cmp::Reverse(entry.submitted), *job));
    Ok(jobs)
}

fn ps(session: &Session, printer: &Printer) -> Result<Exit, Failure> {
    let jobs = jobs(session)?;
    let rows: Vec<[String; 7]> = jobs
        .iter()
        .map(|(job, entry)| {
            let view = JobView::from(entry);
            let node = entry.runs.as_slice().last().map(|run| short(&run.node)).unwrap_or_default();
            let promise = view.promise.map(|promise| promised(&promise)).unwrap_or_default();
            let at = view.checkpoint.and_then(|it| Deadline::new(it.saved?.0));
            let at = at.map(|at| at.to_string()).unwrap_or_default();
            let pay = format!("{}", view.pay);
            [job.to_string(), view.status, view.tier, pay, node, promise, at]
        })
        .collect();
    let listed: Vec<Listed> =
        jobs.iter().map(|(job, entry)| Listed { job: Text(*job), view: entry.into() }).collect();
    let titles = ["job", "status", "verify", "pay (TGRID)", "node", "promise", "saved"];
    printer.result(&listed, || table(titles, &rows));
    Ok(Exit::Done)
}

/// What was promised of a job, in a few words.
fn promised(promise: &PromiseView) -> String {
    let by = Deadline::new(promise.by.0).map(|by| format!(" by {by}")).unwrap_or_default();
    format!("{}{by}", promise.state)
}

/// How often a job made room, in a few words.
fn made_room(checkpoint: &CheckpointView) -> Option<String> {
    let CheckpointView { yields, paid, .. } = checkpoint;
    let times = if *yields == 1 { "once".to_owned() } else { format!("{yields} times") };
    let text = format!(
        "made room for a job that offers more, {times}; goes on where it stopped; {paid} TGRID \
         paid for that so far"
    );
    (*yields > 0).then_some(text)
}

/// What was saved of a job, in a few words.
fn saved(checkpoint: &CheckpointView) -> String {
    let span = |ms| Span::new(DurationMs::new(ms)).map_or(String::new(), |span| span.to_string());
    let every = span(checkpoint.every_ms);
    match (&checkpoint.saved, checkpoint.ran_ms, &checkpoint.package) {
        (Some(at), Some(ran), _) => {
            let at = Deadline::new(at.0).map(|at| format!(" at {at}")).unwrap_or_default();
            format!("saved{at}, after {} of work; every {every}", span(ran / 1_000 * 1_000))
        }
        (_, _, Some(_)) => format!("goes on with that of another job; every {every}"),
        (_, _, None) => format!("none yet; every {every}"),
    }
}

fn find(session: &Session, job: JobId) -> Result<JobEntry, Failure> {
    let entry = session.runtime.block_on(session.gateway.entry::<JobEntry>(entry_keys::job(&job)));
    let entry = entry.or_fail("the job cannot be looked up", HINT)?;
    let hint =
        "jobs are forgotten some time after their end; `tensorgrid ps` lists those on record";
    entry.ok_or_else(|| Failure::new(format!("there is no job {job}"), hint))
}

/// How many waiting jobs go before one that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Turn {
    /// So many of those that were looked at.
    jobs_before: usize,
    /// Whether there are jobs that were not looked at: validators list a bounded number.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    may_be_more: bool,
}

impl Turn {
    /// Among these jobs; `None` if it does not wait.
    fn among(entry: &JobEntry, all: &[(JobId, JobEntry)]) -> Option<Self> {
        let own = entry.queue_key()?;
        let keys = all.iter().filter_map(|(_, other)| other.queue_key());
        let jobs_before = keys.filter(|key| *key < own).count();
        Some(Self { jobs_before, may_be_more: all.len() >= LISTED_MAX })
    }
}

/// What the catalogue calls the accelerators that are asked for.
fn gpus(needs: &Needs) -> Vec<&'static str> {
    let model = needs.model.as_ref();
    model.map_or(Vec::new(), |model| {
        Catalogue::shared().names_of(model.as_str(), needs.memory_mib_min)
    })
}

/// When a job runs, if it has not ended, among all jobs on record.
fn eta(
    session: &Session,
    entry: &JobEntry,
    all: &[(JobId, JobEntry)],
) -> Result<Option<EtaView>, Failure> {
    let looked = session.runtime.block_on(async {
        let market = Market::look(&session.gateway).await?;
        Times::new(&session.gateway).eta(&market, entry, all).await
    });
    looked.or_fail("what is known of times cannot be looked up", HINT)
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = if self.may_be_more { "at least " } else { "" };
        match self.jobs_before {
            0 if !self.may_be_more => f.write_str("it is the first that waits"),
            1 => write!(f, "{least}1 waiting job goes before it"),
            count => write!(f, "{least}{count} waiting jobs go before it"),
        }
    }
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    listed: Listed,
    /// Who can read its data.
    readers: Option<String>,
    /// How many checkers vouched for its result, and how many had no key; nothing before a draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    checked: Option<Checked>,
    /// When its turn comes, if it waits.
    #[serde(flatten)]
    turn: Option<Turn>,
    /// When it runs, if it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    eta: Option<EtaView>,
}

#[derive(Serialize)]
struct Checked {
    vouched: usize,
    excused: usize,
}

impl Checked {
    fn of(entry: &JobEntry) -> Option<Self> {
        let is_drawn = !entry.checks.as_slice().is_empty();
        is_drawn.then(|| Self { vouched: entry.passed(), excused: entry.excused() })
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vouched, excused } = self;
        write!(f, "{vouched} vouched")?;
        if *excused == 0 {
            return Ok(());
        }
        write!(f, ", {excused} excused: the owner gave them no key")
    }
}

fn show(session: &Session, arguments: &JobArguments, printer: &Printer) -> Result<Exit, Failure> {
    let entry = find(session, arguments.job)?;
    let readers = session.gateway.readers(entry.spec.tier, entry.spec.key_escrow);
    let listed = Listed { job: Text(arguments.job), view: (&entry).into() };
    let all = if entry.status.is_final() { Vec::new() } else { jobs(session)? };
    let (turn, eta) = (Turn::among(&entry, &all), eta(session, &entry, &all)?);
    let shown = Shown { listed, readers, checked: Checked::of(&entry), turn, eta };
    printer.result(&shown, || {
        let view = &shown.listed.view;
        let mut rows = vec![
            ("status", view.status.clone()),
            ("verify", view.tier.clone()),
            ("pay of a run", format!("{} TGRID", view.pay)),
            ("locked now", format!("{} TGRID", view.escrow)),
        ];
        let weights = view.secret_weights.iter();
        rows.extend(weights.map(|id| ("weights", format!("secret, registered as {id}"))));
        let nodes = view.nodes.iter();
        rows.extend(nodes.map(|nodes| ("nodes", format!("{nodes} at once, or none"))));
        rows.extend(view.is_stopping.then(|| ("stop", stop::ASKED.to_owned())));
        rows.extend(view.promise.iter().map(|promise| ("promise", promise.sentence.clone())));
        rows.extend(view.checkpoint.iter().map(|it| ("checkpoint", saved(it))));
        let made_room = view.checkpoint.iter().filter_map(|it| made_room(it));
        rows.extend(made_room.map(|text| ("room", text)));
        rows.extend(shown.turn.iter().map(|turn| ("turn", turn.to_string())));
        rows.extend(shown.eta.iter().map(|eta| ("time", eta.sentence.clone())));
        rows.extend(view.runs.iter().map(|run| ("run", run_words(run))));
        let checks = view.checks.iter();
        rows.extend(checks.map(|check| ("check", format!("{} {}", check.state, check.node))));
        rows.extend(shown.checked.iter().map(|checked| ("checked", checked.to_string())));
        rows.extend(shown.readers.iter().map(|readers| ("can be read by", readers.clone())));
        lines(&rows)
    });
    Ok(Exit::Done)
}

/// A run in a line: what became of it, where, on what, and how long it took in block times.
fn run_words(run: &RunView) -> String {
    let on = run.device.as_ref().map(|device| format!(" on a {device}")).unwrap_or_default();
    let took = run.took_ms.map(|took| format!(", took {} s", took / 1_000)).unwrap_or_default();
    let held: String = run.gpus.iter().map(|gpu| format!(", {gpu}")).collect();
    format!("{} {}{on}{held}{took}", run.state, run.node)
}
