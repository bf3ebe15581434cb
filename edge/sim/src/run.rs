//! One seed from start to end: a storm of faults, then healing, then everything must finish.

use crate::{
    book::Book,
    closing,
    judge::Judge,
    log,
    planted::Plant,
    report::Report,
    storm::Storm,
    trace::Trace,
    violation::{Invariant, Violation},
    workload,
    world::{START_SECONDS, World},
};
use commonware_runtime::{Clock as _, Runner as _, Supervisor as _, deterministic};
use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Once, atomic::Ordering},
    time::{Duration, Instant, UNIX_EPOCH},
};
use tg_sim::cluster::{Adjust, Cluster, Directory};

/// How often faults, judge and driver have their turn.
const STEP: Duration = Duration::from_millis(25);

/// Clients go on for this long after the storm.
const CALM_MS: u64 = 1_200;

/// Virtual time within which everything must finish after the storm.
const FINISH_MS_MAX: u64 = 60_000;

/// Virtual time for every block that a run still lacks then: two heartbeats of an idle network.
const BLOCK_MS_MAX: u64 = 1_000;

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics of simulated nodes are findings: they are kept for the report instead of printed.
fn keep_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let text = info.to_string();
            PANIC.with(|kept| {
                kept.borrow_mut().get_or_insert(text);
            });
        }));
    });
}

/// Runs one seed.
pub(crate) fn run(seed: u64, plant: Option<Plant>) -> Report {
    keep_panics();
    PANIC.with(|kept| kept.borrow_mut().take());
    let began = Instant::now();
    let config = deterministic::Config::new()
        .with_seed(seed)
        .with_start_time(UNIX_EPOCH + Duration::from_secs(START_SECONDS));
    let simulated = catch_unwind(AssertUnwindSafe(|| {
        deterministic::Runner::new(config).start(|context| simulate(context, seed, plant))
    }));
    let mut report = simulated.unwrap_or_else(|_| {
        let detail = PANIC.with(|kept| kept.borrow_mut().take()).unwrap_or_default();
        let violation = Violation { invariant: Invariant::NoPanic, detail };
        Report { violations: vec![violation], ..Report::empty(seed) }
    });
    report.real_s = began.elapsed().as_secs_f64();
    report
}

async fn simulate(context: deterministic::Context, seed: u64, plant: Option<Plant>) -> Report {
    let world = World::new(seed);
    let adjust: Adjust = Arc::new(move |rules| {
        if let Some(plant) = plant {
            plant.adjust(rules);
        }
    });
    let drops_sync = plant.is_some_and(Plant::drops_sync);
    let mut cluster = world.cluster(&context, Arc::clone(&adjust), drops_sync).await;
    let book = Book::default();
    let mut judge = Judge::new(&world, &adjust, book.clone());
    let mut storm = Storm::new(&world);
    storm.start_all(&mut cluster, &world).await;
    let directory = cluster.directory();
    let clients = workload::start(&context, &world, &directory, &book);
    let mut drive = Drive {
        context: context.child("drive"),
        world: &world,
        directory,
        book,
        clients,
        healed_ms: None,
        stormy_blocks: 0,
        goal: None,
    };
    while !drive.turn(&mut cluster, &mut judge, &mut storm).await {}
    if judge.found.is_empty() {
        let now_ms = drive.now_ms();
        closing::check(&world, &mut judge, &drive.directory, &drive.book, now_ms).await;
    }
    let now_ms = drive.now_ms();
    let mut trace = judge.trace.clone();
    trace.note(now_ms, "runtime", context.auditor().state().as_bytes());
    report(&drive, &cluster, judge, &storm, &trace)
}

/// Drives a run until it is finished or has failed.
struct Drive<'a> {
    context: deterministic::Context,
    world: &'a World,
    directory: Directory,
    book: Book,
    clients: usize,
    healed_ms: Option<u64>,
    /// Blocks that became final during the storm.
    stormy_blocks: u64,
    /// The height every honest node must reach, once clients are done.
    goal: Option<u64>,
}

impl Drive<'_> {
    /// Virtual milliseconds since the start.
    fn now_ms(&self) -> u64 {
        let since = self.context.current().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = since.saturating_sub(Duration::from_secs(START_SECONDS));
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// One turn; says whether the run is over.
    async fn turn(&mut self, cluster: &mut Cluster, judge: &mut Judge, storm: &mut Storm) -> bool {
        self.context.sleep(STEP).await;
        let now_ms = self.now_ms();
        log::set_now(now_ms);
        let mut trace = std::mem::replace(&mut judge.trace, Trace::new(0));
        storm.step(cluster, self.world, now_ms, &mut trace).await;
        judge.trace = trace;
        judge.advance(&self.directory, now_ms).await;
        if !judge.found.is_empty() {
            return true;
        }
        match self.healed_ms {
            None => {
                if now_ms >= storm.end_ms() {
                    storm.end(cluster, self.world).await;
                    self.healed_ms = Some(now_ms);
                    self.stormy_blocks = judge.height().get();
                }
                false
            }
            Some(healed_ms) => self.finish(judge, now_ms - healed_ms),
        }
    }

    /// After the storm: clients stop, then all nodes catch up.
    fn finish(&mut self, judge: &mut Judge, since_ms: u64) -> bool {
        if since_ms >= CALM_MS {
            self.book.pages().is_closing = true;
        }
        let height = judge.height().get();
        let are_done = self.book.pages().clients_done == self.clients;
        if are_done && self.goal.is_none() {
            self.goal = Some(height.max(self.world.blocks_min));
        }
        let behind = self.behind(self.goal.unwrap_or(u64::MAX));
        if are_done && behind.is_empty() && Some(height) >= self.goal {
            return true;
        }
        let lacking = self.world.blocks_min.saturating_sub(self.stormy_blocks);
        if since_ms >= FINISH_MS_MAX + lacking * BLOCK_MS_MAX {
            let done = self.book.pages().clients_done;
            let clients = self.clients;
            closing::unfinished(
                &mut judge.found,
                format!(
                    "{since_ms} ms after the last fault: height {height}, {done} of {clients} \
                     clients done, nodes behind or down {behind:?}"
                ),
            );
            return true;
        }
        false
    }

    /// Honest nodes that have not reached a height, with where they are.
    fn behind(&self, goal: u64) -> Vec<(usize, Option<u64>)> {
        let tip = |place| {
            let (header, _) = self.directory.live(place)?.chain.tip()?;
            Some(header.height.get())
        };
        let tips = self.world.honest().into_iter().map(|place| (place, tip(place)));
        tips.filter(|(_, tip)| tip.is_none_or(|tip| tip < goal)).collect()
    }
}

fn report(
    drive: &Drive<'_>,
    cluster: &Cluster,
    judge: Judge,
    storm: &Storm,
    trace: &Trace,
) -> Report {
    let pages = drive.book.pages();
    Report {
        seats: drive.world.seats,
        followers: drive.world.followers,
        vices: drive.world.vices.iter().map(|(_, vice)| format!("{vice:?}")).collect(),
        blocks: judge.height().get(),
        blocks_in_storm: drive.stormy_blocks,
        faults: storm.total(),
        faults_by_kind: storm.counts.clone(),
        lies: storm.licence.lies.load(Ordering::Relaxed),
        messages: cluster.weather().counts(),
        txs_submitted: pages.submitted,
        txs_acknowledged: pages.acknowledged.len(),
        slashed: pages.accused.len(),
        events: judge.audit.counts,
        virtual_s: drive.now_ms() as f64 / 1_000.0,
        trace_hash: trace.hex(),
        violations: judge.found.into_vec(),
        ..Report::empty(drive.world.seed)
    }
}
