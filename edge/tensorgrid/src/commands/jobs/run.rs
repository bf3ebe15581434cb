//! `quote` and `run`

use super::{
    HINT, array, fetch, find, float, gang, gpus,
    plan::{Plan, What},
    showing, transfer,
};
use crate::{
    args::jobs::{JobOptions, RunJobArguments},
    commands::model::{self, Port},
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, duration, lines},
    work::{
        connect::Session,
        handing::Handing,
        market::{PromiseQuote, Quote},
        order::{Client, Order},
    },
};
use serde::Serialize;
use std::{io::Read, path::Path, time::Instant};
use tg_api::{
    eta::EtaView,
    text::{Text, Tgrid},
    view::{JobView, PromiseView},
    words::{Line, Standing},
};
use tg_gateway::{KeyEscrow, TaskOutput};
use tg_jobfile::{Deadline, Span};
use tg_ledger::JobEntry;
use tg_tensor::{Model, Program, Tensor, trace::tile_counts};
use tg_types::{Amount, DurationMs, Extent, Hash32, JobId, JobStatus, Tick};

#[derive(Serialize)]
struct Quoted {
    run: Tgrid,
    runs: u8,
    check: Tgrid,
    checkers: u8,
    drawn_percent: f64,
    fees_each: Tgrid,
    check_fees_each: Tgrid,
    #[serde(flatten)]
    tiles: Option<TilesQuoted>,
    escrow: Tgrid,
    charged_if_checked: Tgrid,
    charged_if_not: Tgrid,
    nodes: usize,
    /// What the catalogue calls the accelerators that are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gpus: Vec<&'static str>,
    eta: EtaView,
    #[serde(skip_serializing_if = "Option::is_none")]
    promise: Option<PromiseQuoted>,
    goes_before_ms: u64,
    readers: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    public: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<String>,
}

/// Whether a job would be promised now.
#[derive(Clone, Debug, Serialize)]
struct PromiseQuoted {
    /// Whether it would.
    would_be_given: bool,
    /// Nodes that could begin with it early enough.
    nodes: usize,
    /// The earliest deadline that would be promised, in milliseconds since the Unix epoch.
    earliest: Option<u64>,
    /// The same for people.
    sentence: String,
}

impl From<PromiseQuote> for PromiseQuoted {
    fn from(quote: PromiseQuote) -> Self {
        let PromiseQuote { by, nodes, earliest } = quote;
        let time = |tick| Deadline::new(tick).map(|at| at.to_string()).unwrap_or_default();
        let sentence = match (nodes, earliest) {
            (0, None) => "no: no node could promise it, whatever the deadline".to_owned(),
            (0, Some(at)) => format!("no: the earliest deadline would be {}", time(at)),
            (1, _) => format!("yes, by {}: 1 node could do it by then", time(by)),
            (more, _) => format!("yes, by {}: {more} nodes could do it by then", time(by)),
        };
        Self { would_be_given: nodes > 0, nodes, earliest: earliest.map(Tick::get), sentence }
    }
}

/// What an audit by tiles finds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct TilesQuoted {
    /// Tiles that are drawn for each checker, at least.
    tiles_drawn: u8,
    /// Tiles of a run.
    tiles: u64,
    /// How likely a checker finds one wrong tile of average cost.
    one_tile_percent: f64,
}

impl TilesQuoted {
    /// For runs of a program of which so many tiles are drawn.
    fn new(program: &Program, asked: u8) -> Self {
        let (tiles, tiles_drawn) = tile_counts(program, asked);
        let missed = (1.0 - 1.0 / tiles.max(1) as f64).powi(tiles_drawn.into());
        let one_tile_percent = (1e4 * (1.0 - missed)).round() / 100.0;
        Self { tiles_drawn, tiles, one_tile_percent }
    }

    fn text(&self) -> String {
        let Self { tiles_drawn: drawn, tiles, one_tile_percent } = self;
        format!(
            "each checker recomputes {drawn} of {tiles} tiles, drawn by their cost; it finds a \
             made-up share x of the work with 1-(1-x)^{drawn}, one wrong tile with about \
             {one_tile_percent} %"
        )
    }
}

impl Quoted {
    fn new(
        quote: &Quote,
        tiles: Option<TilesQuoted>,
        readers: Option<String>,
        (public, proof): (Option<&'static str>, Option<String>),
    ) -> Self {
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
            check_fees_each: Tgrid(charges.check_fees),
            tiles,
            escrow: Tgrid(charges.escrow),
            charged_if_checked: Tgrid(charged(checkers)),
            charged_if_not: Tgrid(charged(0)),
            nodes: quote.fitting,
            gpus: Vec::new(),
            eta: EtaView::default(),
            promise: quote.promise.map(PromiseQuoted::from),
            goes_before_ms: quote.ahead().get(),
            readers,
            public,
            proof,
            weights: None,
        }
    }

    fn text(&self) -> String {
        let mut rows = vec![
            ("run", format!("{} TGRID, {} of them", self.run, self.runs)),
            (
                "checks",
                format!(
                    "{} TGRID each, up to {}, for {} % of results",
                    self.check, self.checkers, self.drawn_percent
                ),
            ),
        ];
        rows.extend(self.tiles.map(|tiles| ("audit", tiles.text())));
        rows.extend([
            (
                "network fees",
                format!(
                    "{} TGRID for each run, {} for each check",
                    self.fees_each, self.check_fees_each
                ),
            ),
            ("locked", format!("{} TGRID; what is not needed comes back", self.escrow)),
            (
                "charged",
                format!(
                    "{} TGRID if checked, {} if not",
                    self.charged_if_checked, self.charged_if_not
                ),
            ),
            ("nodes that would do it now", self.nodes.to_string()),
            ("time", self.eta.sentence.clone()),
        ]);
        let gpus = (!self.gpus.is_empty()).then(|| ("asks for", self.gpus.join(" or ")));
        rows.extend(gpus);
        rows.extend(self.promise.as_ref().map(|promise| ("promise", promise.sentence.clone())));
        rows.extend(Span::new(DurationMs::new(self.goes_before_ms)).map(|ahead| {
            let text =
                format!("goes before jobs at the lowest price that came up to {ahead} earlier");
            ("waits less", text)
        }));
        rows.extend(self.readers.iter().map(|readers| ("can be read by", readers.clone())));
        rows.extend(self.public.map(|public| ("public", public.to_owned())));
        rows.extend(self.proof.iter().map(|proof| ("proof", proof.clone())));
        rows.extend(self.weights.iter().map(|weights| ("weights", weights.clone())));
        lines(&rows)
    }
}

/// `quote`
pub(super) fn quote(
    session: &Session,
    options: &JobOptions,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let mut plan = Plan::read(options)?;
    let weights = showing::find_secret(session, &mut plan)?;
    let (order, owner) = (plan.order(&[]), session.key.public().into());
    let quote = session.runtime.block_on(order.quote_for(&session.gateway, &owner));
    let (quote, eta) = quote.or_fail("there is no price for this", HINT)?;
    let tiles = match (&plan.what, quote.extent) {
        (What::Tensor { model, .. }, Extent::Tiles) => {
            let asked = session.gateway.params().jobs.audit_tiles;
            Some(TilesQuoted::new(model.program(), asked))
        }
        (What::Tensor { .. } | What::Float { .. } | What::Task { .. }, _) => None,
    };
    let readers = session.gateway.readers(plan.tier, plan.escrow);
    let proof = plan.hiding();
    let quoted = Quoted::new(&quote, tiles, readers, (showing::warning(plan.tier), proof));
    let quoted = Quoted { weights, eta, gpus: gpus(&plan.needs), ..quoted };
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
    /// What was promised of it, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    promise: Option<PromiseView>,
    #[serde(flatten)]
    task: Option<fetch::TaskTold>,
    /// What each member of a gang gave, in the order of their ranks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<fetch::TaskTold>,
}

/// `run`
pub(super) fn run(
    session: &Session,
    arguments: &RunJobArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let mut plan = Plan::read(&arguments.options)?;
    if let Some(weights) = showing::find_secret(session, &mut plan)? {
        printer.say(format_args!("Its weights: {weights}."));
    }
    check_online(&plan, arguments)?;
    if arguments.array.is_some() {
        gang::check_array(&plan)?;
        array::check(&plan)?;
    }
    let inputs = match &mut plan.what {
        What::Tensor { model, inputs, .. } => read_inputs(model, inputs)?,
        What::Float { model, inputs, order, .. } => {
            order.files.push(float::read_inputs(model, inputs)?);
            Vec::new()
        }
        What::Task { .. } => Vec::new(),
    };
    let order = plan.order(&inputs);
    let quote = session.runtime.block_on(order.quote(&session.gateway));
    let quote = quote.or_fail("there is no price for this", HINT)?;
    let escrow = array::escrow(&quote, arguments.array.unwrap_or(1))?;
    check_price(escrow, &plan, arguments)?;
    session.afford(escrow)?;
    // Nodes may ask for the key as soon as the job is on the chain.
    let handing = match plan.escrow {
        KeyEscrow::Validators => None,
        KeyEscrow::None => Some(Handing::start(session, *printer)?),
    };
    let ran = match arguments.array {
        Some(tasks) => array::run(session, (arguments, tasks), (&order, &quote), printer),
        None => hand_in(session, (&plan, arguments), (&order, &quote), printer),
    };
    if let Some(handing) = handing {
        handing.close(session);
    }
    ran
}

/// Hands a job in, waits for its end and takes its result, if that is wanted.
fn hand_in(
    session: &Session,
    (plan, arguments): (&Plan, &RunJobArguments),
    (order, quote): (&Order<'_>, &Quote),
    printer: &Printer,
) -> Result<Exit, Failure> {
    let what = "the job did not go through";
    let started = Instant::now();
    let client = Client { gateway: &session.gateway, key: &session.key };
    let handing_in = client.submit(order, quote);
    let job = transfer::shown(session, printer, "handing the job in", handing_in);
    let job = job.or_fail(what, HINT)?;
    printer.say(format_args!("Job {job} is on the chain; {} are locked.", quote.charges.escrow));
    tell_privacy(session, plan, job, printer);
    let promise = tell_promise(session, plan, job, printer)?;
    if plan.nodes > 1 && quote.fitting < plan.nodes.into() {
        printer.say(format_args!(
            "It needs {} nodes at once, and {} would take it now: it waits. `tensorgrid why` tells \
             why, `tensorgrid stop` ends it.",
            plan.nodes, quote.fitting
        ));
    } else if quote.fitting == 0 {
        printer.say("No node takes it now; `tensorgrid why` tells why, `tensorgrid stop` ends it.");
    }
    let quoted = Tgrid(quote.charges.escrow);
    if arguments.detach {
        let (status, job) = ("queued".to_owned(), Text(job));
        let (output, took_ms, task, members) = (None, None, None, Vec::new());
        let ran = Ran { job, status, quoted, output, took_ms, promise, task, members };
        printer.result(&ran, || format!("{}\n", ran.job));
        return Ok(Exit::Done);
    }
    let tell = |event: &tg_types::Event| {
        let at = duration(started.elapsed());
        if let Some(line) = Line::of(event).filter(|line| !line.is_detail) {
            printer.say(format_args!("  {at:>7}  {}: {}", line.step, line.text));
        }
    };
    let entry = session.runtime.block_on(client.follow(job, tell)).or_fail(what, HINT)?;
    let status = JobView::from(&entry).status;
    let took_ms = u64::try_from(started.elapsed().as_millis()).ok();
    let output = entry.result().map(|result| Text(result.output));
    let (promise, task, members) = (PromiseView::of(&entry), None, Vec::new());
    let ran = Ran { job: Text(job), status, quoted, output, took_ms, promise, task, members };
    if entry.status != JobStatus::Settled {
        let said = Standing::of(&entry, None).sentence;
        printer.result(&ran, || format!("The job ended as {}. {said}\n", ran.status));
        return Ok(Exit::Failed);
    }
    deliver(session, (job, &entry), (plan, arguments.out.as_deref()), ran, printer)
}

/// Says what was promised of a job, which is decided in the block that took it in or soon after.
fn tell_promise(
    session: &Session,
    plan: &Plan,
    job: JobId,
    printer: &Printer,
) -> Result<Option<PromiseView>, Failure> {
    if plan.promise.is_none() {
        return Ok(None);
    }
    let promise = PromiseView::of(&find(session, job)?);
    if let Some(promise) = &promise {
        printer.say(&promise.sentence);
    }
    Ok(promise)
}

/// Says who can read a job's data, and what that asks of its owner.
fn tell_privacy(session: &Session, plan: &Plan, job: JobId, printer: &Printer) {
    if let Some(warning) = showing::warning(plan.tier) {
        printer.say(format_args!("Its data is public: {warning}."));
    } else if let Some(readers) = session.gateway.readers(plan.tier, plan.escrow) {
        printer.say(format_args!("Its data is sealed; it can be read by {readers}."));
    }
    if let Some(proof) = plan.hiding() {
        printer.say(format_args!("Its proof: {proof}."));
    }
    if plan.escrow == KeyEscrow::None {
        printer.say(format_args!(
            "This command hands out the key: leave it running until the job has ended. If it is \
             stopped,\n`tensorgrid keys {job}` goes on."
        ));
    }
}

/// Refuses to leave a job alone whose key nobody else has.
fn check_online(plan: &Plan, arguments: &RunJobArguments) -> Result<(), Failure> {
    if plan.escrow == KeyEscrow::Validators || !arguments.detach {
        return Ok(());
    }
    Err(Failure::misuse(
        "without key escrow nobody else can hand out the key of the data, so --detach cannot be",
        "leave --detach out and the command running, or let validators keep shares of the key",
    ))
}

/// Fetches what a job gave, writes it where it was asked for, and tells how it went.
fn deliver(
    session: &Session,
    (job, entry): (JobId, &JobEntry),
    (plan, out): (&Plan, Option<&Path>),
    mut ran: Ran,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let no_result = |error| fetch::no_result(job, &error);
    let client = Client { gateway: &session.gateway, key: &session.key };
    match &plan.what {
        What::Tensor { model, outputs, .. } => {
            let fetching = client.result(job, entry, model);
            let found = transfer::shown(session, printer, "fetching the result", fetching);
            fetch::write_tensors(model, &found.map_err(no_result)?, out, outputs)?;
            printer.result(&ran, || format!("Job {job} is verified and paid.\n"));
            Ok(Exit::Done)
        }
        What::Float { outputs, .. } => {
            let (output, bytes) = fetch::task_output(session, (job, entry), printer, float::take)?;
            let told = fetch::TaskTold::new(&output);
            let exit = told.exit();
            ran.task = Some(told);
            if exit == Exit::Done {
                float::write(&bytes, out, outputs)?;
                printer.result(&ran, || format!("Job {job} is done and paid.\n"));
            } else {
                printer.result(&ran, || fetch::task_text(&output));
            }
            Ok(exit)
        }
        What::Task { .. } if entry.spec.is_gang() => {
            ran.members = gang::take_all(session, (job, entry), out, printer)?;
            printer.result(&ran, || gang::text(&ran.members));
            Ok(gang::exit(&ran.members))
        }
        What::Task { outputs, .. } => {
            let take = |output: &TaskOutput, from: &mut dyn Read| {
                fetch::Landing::take(output, from, out, outputs)
            };
            let (output, landing) = fetch::task_output(session, (job, entry), printer, take)?;
            landing.finish()?;
            let told = fetch::TaskTold::new(&output);
            let exit = told.exit();
            ran.task = Some(told);
            printer.result(&ran, || fetch::task_text(&output));
            Ok(exit)
        }
    }
}

/// Refuses a price above what was allowed.
fn check_price(escrow: Amount, plan: &Plan, arguments: &RunJobArguments) -> Result<(), Failure> {
    let max = arguments.max.or(plan.budget_max);
    let Some(max) = max.filter(|max| *max < escrow) else { return Ok(()) };
    let what = format!("the job costs up to {escrow}, more than {max}");
    Err(Failure::new(what, "raise --max or budget.max, or ask for a lower --verify or --priority"))
}

/// The inputs of one run.
pub(in crate::commands) fn read_inputs(
    model: &Model,
    files: &[crate::args::model::NamedFile],
) -> Result<Vec<Tensor>, Failure> {
    let program = model.program();
    let ports: Vec<Port> = program.inputs().iter().map(Port::of).collect();
    let arrays = model::gather(files, &ports)?;
    let encoded = program.inputs().iter().zip(&arrays).map(|(port, array)| port.encode(array));
    let encoded: Result<Vec<Tensor>, _> = encoded.collect();
    encoded.or_fail(
        "an input does not fit the program",
        "`tensorgrid model show` tells the shapes and ranges of its inputs; one job is one run",
    )
}
