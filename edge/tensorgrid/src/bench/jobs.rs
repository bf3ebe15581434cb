//! Measuring jobs: four validators and three providers in this process, over real connections.

use super::{
    HINT, histogram::Histogram, make_network, process::Memory, tenth, wait_for_first_block,
};
use crate::{
    args::BenchJobsArguments,
    commands,
    failure::{Exit, Failure, OrFail as _},
    files::{self, TemporaryFolder},
    folder::NodeFolder,
    node::{self, RunningNode},
    printer::{Printer, lines},
    work::{
        local::{Doors, Seat},
        machine::{self, GpuChoice, OfferTerms},
        market::Urgency,
        order::{Client, Job, Order, OrderError},
        provider::{Provider, ProviderPlan},
        story,
    },
};
use serde::Serialize;
use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tg_gateway::{
    Gateway, KeyEscrow,
    message::{EventList, Reply},
};
use tg_ledger::{JobEntry, keys};
use tg_net::RelaySettings;
use tg_tensor::{Model, Tensor};
use tg_types::node::SLOTS_MAX;
use tg_types::{
    Amount, Decode as _, DurationMs, Event, Features, HostPart, JobId, JobStatus, Lane, Needs,
    Params, SecretKey, Tier,
};
use tokio::runtime::{Builder, Runtime};

/// What the help says about `bench jobs`.
pub(crate) const LONG_ABOUT: &str = "\
Measure jobs through four validators and three providers in this process

Everything is as in real life: each validator has its own disk, ledger and relay connection, each \
provider its own key, stake and connections; inputs and results are sealed. A job is one run of a \
small classifier of digits, at the default tier `audit` with its default share of checks.

1. Saturation, --secs long: clients hand in batches of 32 jobs in one transaction, all jobs of a \
batch with the same sealed package, and keep --in-flight jobs on the way. jobs_per_s counts those \
that were paid, the first second left out.
2. One at a time, for --secs: each job is handed in when the one before is paid. \
submit_to_start_ms and submit_to_paid_ms are from the beginning of sealing to the block that \
places the job and to the one that pays it, as its client hears of them.";

/// Providers of the measured network.
const PROVIDERS: u32 = 3;

/// Jobs of one transaction.
const BATCH: usize = 32;

/// Transactions on the way at once, each in a lane of its own.
const LANES: u8 = 6;

/// Start of the saturation that is left out while queues fill.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long what is on the way may take after a phase.
const SETTLE: Duration = Duration::from_secs(30);

/// What clients begin with.
const MONEY: Amount = Amount::constant(900_000_000_000);

/// What was measured.
#[derive(Serialize)]
struct Report {
    jobs_per_s: f64,
    submit_to_start_ms_p50: Option<f64>,
    submit_to_paid_ms_p50: Option<f64>,
    submit_to_paid_ms_p99: Option<f64>,
    jobs_paid: u64,
    jobs_lost: usize,
    one_at_a_time: u64,
    validators: usize,
    providers: u32,
    in_flight: usize,
    batch: usize,
    tier: &'static str,
    rss_mb: u64,
    secs: u64,
}

/// `bench jobs`
pub(crate) fn run(arguments: &BenchJobsArguments, printer: &Printer) -> Result<Exit, Failure> {
    let progress = printer.progress("making the network");
    let folder = TemporaryFolder::new().or_fail("no temporary folder", "make room on the disk")?;
    let seats = make_network(folder.path(), Params::local(), &[])?;
    progress.set("starting validators and providers");
    let nodes = commands::start_nodes(&seats)?;
    let outcome = measure(arguments, &seats, &nodes, &progress);
    node::stop_all(nodes);
    drop(progress);
    let report = outcome?;
    printer.result(&report, || report_text(&report));
    Ok(Exit::Done)
}

fn measure(
    arguments: &BenchJobsArguments,
    seats: &[NodeFolder],
    nodes: &[RunningNode],
    progress: &crate::printer::Progress,
) -> Result<Report, Failure> {
    let first = nodes.first().ok_or_else(|| Failure::new("there is no validator", HINT))?;
    wait_for_first_block(first)?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime: Runtime = runtime.or_fail("no threads", HINT)?;
    let open: Vec<Seat> =
        seats.iter().zip(nodes).map(|(folder, node)| Seat::of(folder, node)).collect();
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let opening = Doors::open(open, RelaySettings::new(here));
    let doors = runtime.block_on(opening).or_fail("no relay", HINT)?;
    let bench = runtime.block_on(Bench::start(&doors)).or_fail("no providers", HINT)?;
    let bench = Arc::new(bench);
    let span = Duration::from_secs(arguments.secs);
    progress.set("measuring: saturation");
    let saturated = runtime.block_on(bench.saturate(span, arguments.in_flight));
    let saturated = saturated.or_fail("the load lost the network", HINT)?;
    progress.set("measuring: one at a time");
    let single = runtime.block_on(bench.one_at_a_time(span));
    let single = single.or_fail("the load lost the network", HINT)?;
    Ok(Report {
        jobs_per_s: tenth(saturated.rate),
        submit_to_start_ms_p50: single.start.quantile_ms(50).map(tenth),
        submit_to_paid_ms_p50: single.paid.quantile_ms(50).map(tenth),
        submit_to_paid_ms_p99: single.paid.quantile_ms(99).map(tenth),
        jobs_paid: saturated.paid,
        jobs_lost: saturated.lost,
        one_at_a_time: single.count,
        validators: seats.len(),
        providers: PROVIDERS,
        in_flight: arguments.in_flight,
        batch: BATCH,
        tier: "audit",
        rss_mb: Memory::read().peak_mib,
        secs: arguments.secs,
    })
}

/// A client, its jobs, and who serves them.
struct Bench {
    gateway: Arc<Gateway>,
    key: SecretKey,
    model: Model,
    input: Tensor,
    _providers: Vec<Provider>,
    watch: Arc<Watch>,
}

/// What is heard of jobs.
#[derive(Default)]
struct Watch {
    // A lock: written by the task that listens, read by those that hand in.
    jobs: Mutex<HashMap<JobId, Heard>>,
    changed: tokio::sync::Notify,
}

#[derive(Clone, Copy, Default)]
struct Heard {
    placed: Option<Instant>,
    paid: Option<Instant>,
}

impl Watch {
    fn note(&self, event: &Event) {
        let now = Instant::now();
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Event::JobPlaced { job, .. } = event {
            jobs.entry(*job).or_default().placed.get_or_insert(now);
        } else if let Event::JobSettled { job, .. } = event {
            jobs.entry(*job).or_default().paid.get_or_insert(now);
        }
    }

    fn heard(&self, job: &JobId) -> Heard {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.get(job).copied().unwrap_or_default()
    }

    fn paid(&self, from: Instant, to: Instant) -> usize {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.values().filter(|it| it.paid.is_some_and(|at| at >= from && at < to)).count()
    }
}

struct Saturated {
    rate: f64,
    paid: u64,
    lost: usize,
}

#[derive(Default)]
struct Single {
    start: Histogram,
    paid: Histogram,
    count: u64,
}

impl Bench {
    async fn start(doors: &Doors) -> Result<Self, story::StoryError> {
        let catalogue = machine::detect(None, false);
        let mut providers = Vec::new();
        for _ in 0..PROVIDERS {
            let terms = OfferTerms {
                region: "here".parse().map_err(|_| story::StoryError::Model)?,
                price_per_hour: machine::PRICE_PER_HOUR,
                price_per_tera: machine::PRICE_PER_TERA,
                slots: SLOTS_MAX,
                host: HostPart::NONE,
            };
            let devices = machine::devices(&catalogue, &GpuChoice::None, PROVIDERS, Features::NONE);
            let descriptor = terms.with(devices, true).map_err(|_| story::StoryError::NoDevice)?;
            let stake = machine::STAKE;
            let (workshop, notes, cheats, gpus) = (None, None, None, Vec::new());
            let splitter = None;
            let plan = ProviderPlan { descriptor, gpus, splitter, stake, workshop, notes, cheats };
            let key = SecretKey::from_seed(files::random()?);
            let gateway = doors.gateway(&key).await?;
            providers.push(Provider::start(gateway, key, plan).await?);
        }
        for provider in &providers {
            provider.credited(SETTLE).await?;
        }
        let key = SecretKey::from_seed(files::random()?);
        let gateway = doors.gateway(&key).await?;
        gateway.serve(None).map_err(crate::work::local::LocalError::from)?;
        gateway.faucet(key.public().into(), MONEY).await?;
        let (model, input) = story::sample(7).ok_or(story::StoryError::Model)?;
        let watch = Arc::new(Watch::default());
        tokio::spawn(listen(Arc::clone(&gateway), Arc::clone(&watch)));
        let bench = Self { gateway, key, model, input, _providers: providers, watch };
        bench.client().record(&bench.model).await?;
        Ok(bench)
    }

    fn client(&self) -> Client<'_> {
        Client { gateway: &self.gateway, key: &self.key }
    }

    /// Hands in so many equal jobs in one transaction.
    async fn submit(&self, count: usize, lane: Lane) -> Result<Vec<JobId>, OrderError> {
        let inputs = std::slice::from_ref(&self.input);
        let order = Order {
            job: Job::Tensor { model: &self.model, inputs },
            tier: Tier::Audit,
            needs: Needs::ANY,
            run_max: DurationMs::new(5_000),
            expires_after: DurationMs::MINUTE,
            promise: None,
            checkpoint: None,
            nodes: 1,
            escrow: KeyEscrow::Validators,
            urgency: Urgency::Usual,
            secret: None,
        };
        let quote = order.quote(&self.gateway).await?;
        self.client().submit_many(&order, &quote, count, lane).await
    }

    async fn saturate(
        self: &Arc<Self>,
        span: Duration,
        in_flight: usize,
    ) -> Result<Saturated, OrderError> {
        let started = Instant::now();
        let mut senders = tokio::task::JoinSet::new();
        let share = in_flight / usize::from(LANES);
        for number in 0..LANES {
            let lane = Lane::new(number).unwrap_or(Lane::FIRST);
            let bench = Arc::clone(self);
            senders.spawn(async move { bench.keep_busy(lane, share, started + span).await });
        }
        let mut jobs = Vec::new();
        while let Some(handed_in) = senders.join_next().await {
            jobs.extend(handed_in.unwrap_or(Ok(Vec::new()))?);
        }
        let ended = started + span;
        let patience = Instant::now() + SETTLE;
        let is_open = |job: &JobId| self.watch.heard(job).paid.is_none();
        while jobs.iter().any(is_open) && Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let counted = self.watch.paid(started + WARM_UP, ended);
        let secs = (ended - started).saturating_sub(WARM_UP).as_secs_f64();
        let mut lost = 0;
        for job in jobs.iter().filter(|job| is_open(job)) {
            // Between two streams of blocks nobody tells what ended; the record does.
            let entry = self.gateway.entry::<JobEntry>(keys::job(job)).await?;
            let is_settled = entry.is_some_and(|entry| entry.status == JobStatus::Settled);
            lost += usize::from(!is_settled);
        }
        let counted = f64::from(u32::try_from(counted).unwrap_or(u32::MAX));
        let paid = u64::try_from(jobs.len() - lost).unwrap_or(u64::MAX);
        Ok(Saturated { rate: counted / secs, paid, lost })
    }

    /// Keeps so many jobs on the way until a time.
    async fn keep_busy(
        &self,
        lane: Lane,
        share: usize,
        until: Instant,
    ) -> Result<Vec<JobId>, OrderError> {
        let mut all: Vec<JobId> = Vec::new();
        let mut open: Vec<JobId> = Vec::new();
        while Instant::now() < until {
            open.retain(|job| self.watch.heard(job).paid.is_none());
            if open.len() + BATCH > share.max(BATCH) {
                let change = self.watch.changed.notified();
                let _later = tokio::time::timeout(Duration::from_millis(20), change).await;
                continue;
            }
            let jobs = self.submit(BATCH, lane).await?;
            open.extend(&jobs);
            all.extend(jobs);
        }
        Ok(all)
    }

    async fn one_at_a_time(&self, span: Duration) -> Result<Single, OrderError> {
        let (started, mut single) = (Instant::now(), Single::default());
        while started.elapsed() < span {
            let begun = Instant::now();
            let jobs = self.submit(1, Lane::FIRST).await?;
            let Some(job) = jobs.first() else { break };
            loop {
                let heard = self.watch.heard(job);
                if let (Some(placed), Some(paid)) = (heard.placed, heard.paid) {
                    single.start.add(placed - begun);
                    single.paid.add(paid - begun);
                    single.count += 1;
                    break;
                }
                if begun.elapsed() > SETTLE {
                    return Err(OrderError::Gone);
                }
                let change = self.watch.changed.notified();
                let _later = tokio::time::timeout(Duration::from_millis(5), change).await;
            }
        }
        Ok(single)
    }
}

/// Listens to what happens to all jobs.
async fn listen(gateway: Arc<Gateway>, watch: Arc<Watch>) {
    loop {
        let Ok(mut blocks) = gateway.follow() else { return };
        while let Some(frame) = blocks.next().await {
            let Ok(Reply::Block { events: EventList(events), .. }) = Reply::from_bytes(&frame)
            else {
                continue;
            };
            events.iter().for_each(|event| watch.note(event));
            watch.changed.notify_waiters();
        }
        gateway.turn_from(&blocks);
    }
}

fn report_text(report: &Report) -> String {
    let ms = |value: Option<f64>| value.map_or("none".to_owned(), |ms| format!("{ms:.0} ms"));
    lines(&[
        ("jobs", format!("{:.0} per second, verified as audited and paid", report.jobs_per_s)),
        ("submit to start", ms(report.submit_to_start_ms_p50)),
        ("submit to paid", ms(report.submit_to_paid_ms_p50)),
        ("lost", report.jobs_lost.to_string()),
        ("memory", format!("{} MB", report.rss_mb)),
    ])
}
