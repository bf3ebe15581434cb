//! Jobs from a client's side: what they cost, handing them in, how far they are, and why they wait.

use super::model::{self, Port};
use crate::{
    args::jobs::{JobArguments, QuoteArguments, RunJobArguments},
    arrays,
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, duration, lines, table},
    settings::{JobCommand, JobSettings},
    work::{
        connect::Session,
        order::{self, Client, Order, Quote},
        story::short,
    },
};
use serde::Serialize;
use std::time::Instant;
use tg_api::{
    text::{Text, Tgrid},
    view::JobView,
};
use tg_gateway::message::Request;
use tg_ledger::{JobEntry, NodeEntry, StakeEntry, excluded, keys, run_bond};
use tg_scheduler::{Ask, Change, Explanation, Offer, explain};
use tg_tensor::{Array, Model, Tensor};
use tg_types::{
    Action, Amount, Bps, Decode as _, DurationMs, Hash32, JobId, JobStatus, Lane, Needs, NodeId,
    ProgramFacts, Work,
};

const HINT: &str = "is the network still there? `tensorgrid status` tells";

/// Carries out a command about jobs.
pub(super) fn run(settings: &JobSettings, printer: &Printer) -> Result<Exit, Failure> {
    let session = Session::open(settings)?;
    let done = match &settings.command {
        JobCommand::Quote(arguments) => quote(&session, arguments, printer),
        JobCommand::Run(arguments) => run_job(&session, arguments, printer),
        JobCommand::Ps => ps(&session, printer),
        JobCommand::Show(arguments) => show(&session, arguments, printer),
        JobCommand::Why(arguments) => why(&session, arguments, printer),
        JobCommand::Stop(arguments) => stop(&session, arguments, printer),
    };
    session.close();
    done
}

#[derive(Serialize)]
struct Quoted {
    run: Tgrid,
    runs: u8,
    check: Tgrid,
    checkers: u8,
    drawn_percent: f64,
    fees_each: Tgrid,
    escrow: Tgrid,
    charged_if_checked: Tgrid,
    charged_if_not: Tgrid,
    nodes: usize,
}

impl Quoted {
    fn new(quote: &Quote) -> Self {
        let charges = quote.charges;
        let (runs, checkers) = (usize::from(charges.runs), usize::from(charges.checkers));
        let charged = |checks| charges.of(runs, checks).unwrap_or(charges.escrow);
        Self {
            run: Tgrid(charges.pay),
            runs: charges.runs,
            check: Tgrid(charges.check_pay),
            checkers: charges.checkers,
            drawn_percent: f64::from(charges.draw_share.points()) / 100.0,
            fees_each: Tgrid(charges.fees),
            escrow: Tgrid(charges.escrow),
            charged_if_checked: Tgrid(charged(checkers)),
            charged_if_not: Tgrid(charged(0)),
            nodes: quote.nodes,
        }
    }

    fn text(&self) -> String {
        lines(&[
            ("run", format!("{} TGRID, {} of them", self.run, self.runs)),
            (
                "checks",
                format!(
                    "{} TGRID each, up to {}, for {} % of results",
                    self.check, self.checkers, self.drawn_percent
                ),
            ),
            ("network fees", format!("{} TGRID for each run and check", self.fees_each)),
            ("locked", format!("{} TGRID; what is not needed comes back", self.escrow)),
            (
                "charged",
                format!(
                    "{} TGRID if checked, {} if not",
                    self.charged_if_checked, self.charged_if_not
                ),
            ),
            ("nodes at that price", self.nodes.to_string()),
        ])
    }
}

fn order_of<'a>(model: &'a Model, inputs: &'a [Tensor], arguments: &QuoteArguments) -> Order<'a> {
    Order {
        model,
        inputs,
        tier: arguments.verify.0,
        needs: Needs::ANY,
        run_max: DurationMs::new(arguments.run_secs.saturating_mul(1_000)),
        expires_after: DurationMs::HOUR,
    }
}

fn quote(
    session: &Session,
    arguments: &QuoteArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let model = model::read_model(&arguments.file)?;
    let order = order_of(&model, &[], arguments);
    let quote = session.runtime.block_on(order::quote(&session.gateway, &order));
    let quoted = Quoted::new(&quote.or_fail("there is no price for this", HINT)?);
    printer.result(&quoted, || quoted.text());
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Ran {
    job: Text<JobId>,
    status: String,
    quoted: Tgrid,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Text<Hash32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<u64>,
}

fn run_job(
    session: &Session,
    arguments: &RunJobArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let what = "the job did not go through";
    let model = model::read_model(&arguments.quote.file)?;
    let inputs = read_inputs(&model, arguments)?;
    let order = order_of(&model, &inputs, &arguments.quote);
    let client = Client { gateway: &session.gateway, key: &session.key, wrap: &session.wrap };
    let quote = session.runtime.block_on(order::quote(&session.gateway, &order));
    let quote = quote.or_fail("there is no price for this", HINT)?;
    if let Some(max) = arguments.max.filter(|max| *max < quote.charges.escrow) {
        let what = format!("the job costs up to {}, more than {max}", quote.charges.escrow);
        return Err(Failure::new(what, "raise --max, or ask for a lower --verify"));
    }
    session.afford(quote.charges.escrow)?;
    let started = Instant::now();
    let job = session.runtime.block_on(client.submit(&order, &quote)).or_fail(what, HINT)?;
    printer.say(format_args!("Job {job} is on the chain; {} are locked.", quote.charges.escrow));
    let quoted = Tgrid(quote.charges.escrow);
    if arguments.detach {
        let status = "queued".to_owned();
        let ran = Ran { job: Text(job), status, quoted, output: None, took_ms: None };
        printer.result(&ran, || format!("{job}\n"));
        return Ok(Exit::Done);
    }
    let tell = |event: &tg_types::Event| {
        printer.say(format_args!("  {:>7}  {}", duration(started.elapsed()), event.sentence()));
    };
    let entry = session.runtime.block_on(client.follow(job, tell)).or_fail(what, HINT)?;
    let view = JobView::from(&entry);
    let took_ms = u64::try_from(started.elapsed().as_millis()).ok();
    let output = entry.result().map(|result| Text(result.output));
    let ran = Ran { job: Text(job), status: view.status, quoted, output, took_ms };
    if entry.status != JobStatus::Settled {
        printer.result(&ran, || format!("The job ended as {}.\n", ran.status));
        return Ok(Exit::Failed);
    }
    let outputs = session.runtime.block_on(client.result(&entry, &model)).or_fail(what, HINT)?;
    write_outputs(&model, &outputs, arguments)?;
    printer.result(&ran, || format!("Job {job} is verified and paid.\n"));
    Ok(Exit::Done)
}

/// The inputs of one run.
fn read_inputs(model: &Model, arguments: &RunJobArguments) -> Result<Vec<Tensor>, Failure> {
    let program = model.program();
    let ports: Vec<Port> = program.inputs().iter().map(Port::of).collect();
    let arrays = model::gather(&arguments.input, &ports)?;
    let encoded = program.inputs().iter().zip(&arrays).map(|(port, array)| port.encode(array));
    let encoded: Result<Vec<Tensor>, _> = encoded.collect();
    encoded.or_fail(
        "an input does not fit the program",
        "`tensorgrid model show` tells the shapes and ranges of its inputs; one job is one run",
    )
}

fn write_outputs(
    model: &Model,
    outputs: &[Tensor],
    arguments: &RunJobArguments,
) -> Result<(), Failure> {
    let Some(out) = &arguments.out else { return Ok(()) };
    let stated = model.program().outputs().iter().zip(outputs);
    let named: Vec<(String, Array)> = stated
        .map(|(output, tensor)| (output.label.as_str().to_owned(), output.decode(tensor)))
        .collect();
    arrays::write(out, &named).map_err(|error| {
        Failure::new(format_args!("cannot write {}", out.display()), error.hint()).because(&error)
    })
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
    let rows: Vec<[String; 5]> = jobs
        .iter()
        .map(|(job, entry)| {
            let view = JobView::from(entry);
            let node = entry.runs.as_slice().last().map(|run| short(&run.node)).unwrap_or_default();
            [job.to_string(), view.status, view.tier, format!("{}", view.pay), node]
        })
        .collect();
    let listed: Vec<Listed> =
        jobs.iter().map(|(job, entry)| Listed { job: Text(*job), view: entry.into() }).collect();
    printer.result(&listed, || table(["job", "status", "verify", "pay (TGRID)", "node"], &rows));
    Ok(Exit::Done)
}

fn find(session: &Session, job: JobId) -> Result<JobEntry, Failure> {
    let entry = session.runtime.block_on(session.gateway.entry::<JobEntry>(keys::job(&job)));
    let entry = entry.or_fail("the job cannot be looked up", HINT)?;
    let hint =
        "jobs are forgotten some time after their end; `tensorgrid ps` lists those on record";
    entry.ok_or_else(|| Failure::new(format!("there is no job {job}"), hint))
}

fn show(session: &Session, arguments: &JobArguments, printer: &Printer) -> Result<Exit, Failure> {
    let entry = find(session, arguments.job)?;
    let listed = Listed { job: Text(arguments.job), view: (&entry).into() };
    printer.result(&listed, || {
        let view = &listed.view;
        let mut rows = vec![
            ("status", view.status.clone()),
            ("verify", view.tier.clone()),
            ("pay of a run", format!("{} TGRID", view.pay)),
            ("locked now", format!("{} TGRID", view.escrow)),
        ];
        rows.extend(view.runs.iter().map(|run| ("run", format!("{} {}", run.state, run.node))));
        let checks = view.checks.iter();
        rows.extend(checks.map(|check| ("check", format!("{} {}", check.state, check.node))));
        lines(&rows)
    });
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Why {
    job: Text<JobId>,
    status: String,
    fitting: usize,
    removed: Vec<Removed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
}

#[derive(Serialize)]
struct Removed {
    rule: &'static str,
    nodes: usize,
    sentence: String,
}

fn why(session: &Session, arguments: &JobArguments, printer: &Printer) -> Result<Exit, Failure> {
    let entry = find(session, arguments.job)?;
    let explained = session.runtime.block_on(explanation(session, &entry));
    let explained = explained.or_fail("the nodes cannot be looked at", HINT)?;
    let removed = explained.removed.iter().map(|(rule, nodes)| Removed {
        rule: rule.code(),
        nodes: *nodes,
        sentence: format!("{nodes} {}", rule.sentence()),
    });
    let why = Why {
        job: Text(arguments.job),
        status: JobView::from(&entry).status,
        fitting: explained.fitting,
        removed: removed.collect(),
        change: explained.change.as_ref().map(change_words),
    };
    printer.result(&why, || {
        let mut text = format!(
            "The job is {}. {} nodes could be given one more run of it now.\n",
            why.status, why.fitting
        );
        for removed in &why.removed {
            text.push_str(&format!("  {} ({})\n", removed.sentence, removed.rule));
        }
        if let Some(change) = &why.change {
            text.push_str(&format!("Cheapest change: {change}.\n"));
        }
        text
    });
    Ok(Exit::Done)
}

/// Looks at all nodes as the scheduler does.
async fn explanation(
    session: &Session,
    entry: &JobEntry,
) -> Result<Explanation, order::OrderError> {
    let gateway = &session.gateway;
    let mut nodes: Vec<(NodeId, NodeEntry, Amount)> = Vec::new();
    for listed in gateway.entries(&Request::Nodes).await? {
        let node = NodeEntry::from_bytes(listed.bytes.as_slice())?;
        let stake: Option<StakeEntry> = gateway.entry(keys::stake(&node.owner)).await?;
        let free = stake.map_or(Amount::ZERO, |stake| stake.free());
        nodes.push((NodeId::new(*listed.id.as_bytes()), node, free));
    }
    let facts = program_facts(session, entry).await?;
    let excluded = excluded(entry);
    let bond = run_bond(gateway.params().jobs.run_bond, &entry.spec);
    let ask = Ask { spec: &entry.spec, facts: facts.as_ref(), bond, excluded: &excluded };
    let offers: Vec<Offer<'_>> = nodes
        .iter()
        .map(|(id, node, free)| Offer {
            node: *id,
            owner: node.owner,
            descriptor: &node.descriptor,
            running: u16::try_from(node.runs.as_slice().len()).unwrap_or(u16::MAX),
            is_present: node.absent.is_none(),
            stake_free: *free,
            reputation: Bps::ZERO,
        })
        .collect();
    Ok(explain(&ask, &offers))
}

async fn program_facts(
    session: &Session,
    entry: &JobEntry,
) -> Result<Option<ProgramFacts>, order::OrderError> {
    let Work::Tensor { program, .. } = entry.spec.work else { return Ok(None) };
    let known: Option<tg_ledger::ProgramEntry> =
        session.gateway.entry(keys::program(&program)).await?;
    Ok(known.map(|known| known.facts(program)))
}

fn change_words(change: &Change) -> String {
    match change {
        Change::Wait(rule) => format!("wait; nodes that fit {}", rule.sentence()),
        Change::Pay(pay) => format!("pay a run {pay}"),
        Change::AnyRegion => "accept any region".to_owned(),
        Change::Memory(mib) => format!("ask for {mib} MiB of memory at most"),
        Change::AnyFeatures => "ask for no features".to_owned(),
        Change::Model(model) => format!("accept a {model}"),
        Change::Kind(kind) => format!("accept a {}", kind.name().to_lowercase()),
        Change::Several(spec) => {
            let memory = spec.needs.memory_mib_min;
            format!("accept any device with {memory} MiB, and pay a run {}", spec.pay)
        }
    }
}

fn stop(session: &Session, arguments: &JobArguments, printer: &Printer) -> Result<Exit, Failure> {
    let what = "the job was not stopped";
    let account = session.key.public().into();
    let job = arguments.job;
    let stopped = session.runtime.block_on(async {
        let nonce = session.gateway.nonce(account, Lane::FIRST).await?;
        let action = Action::CancelJob { job };
        session.gateway.send(&session.key, (Lane::FIRST, nonce), action).await
    });
    stopped.or_fail(what, "a job that runs already ends by itself, at the latest at its expiry")?;
    let entry = find(session, job)?;
    let listed = Listed { job: Text(job), view: (&entry).into() };
    printer
        .result(&listed, || format!("Job {job} is {}; its escrow is back.\n", listed.view.status));
    Ok(Exit::Done)
}
