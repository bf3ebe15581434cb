//! GPUs that do not exist, split by the production code: the library of NVIDIA's driver is replaced
//! by one that has the placement rules of an A100.

use super::{MigSplitter, Unsplit, read};
use crate::bench::{make_network, wait_for_first_block};
use crate::commands;
use crate::files::TemporaryFolder;
use crate::node;
use crate::work::local::{Doors, Seat};
use crate::work::machine::{self, GpuChoice, OfferTerms};
use crate::work::market::{Market, Urgency};
use crate::work::order::{Client, Job, Order, TaskOrder};
use crate::work::provider::{Provider, ProviderPlan};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tg_agent::agent::{DeviceAccess, GpuPlace, PartPlace, SplitFault, Splitter as _};
use tg_agent::task_run::Workshop;
use tg_gateway::task::{Root, TaskLimits};
use tg_gateway::{Gateway, KeyEscrow};
use tg_ledger::{JobEntry, NodeEntry, keys};
use tg_net::RelaySettings;
use tg_nvml_test::{LIBRARY_FILE, STATE_ENDING};
use tg_provider::devices::{Catalogue, DetectSettings, GivenOut};
use tg_provider::partition::PartitionFault;
use tg_types::{
    Amount, CapacityParams, DeviceKind, DurationMs, Features, GpuAsk, HostPart, JobId, JobStatus,
    Lane, MigSlices, Needs, NodeDescriptor, Params, SecretKey, Tier,
};

const A100: &str = "GPU-a100aaaa-0000-4000-8000-000000000002";

/// The A100 as one piece, with MIG on.
const UNCUT: &str = "gpu 1 instance 0 absent\ngpu 1 instance 1 absent\ngpu 1 instance 2 absent\n";

const SMALL: PartPlace = PartPlace { compute: 1, memory: 1, start: 6 };

/// A machine with a GPU that is to be split, as far as its driver's library says.
struct Machine {
    folder: TemporaryFolder,
}

impl Machine {
    fn new(state: &str) -> Self {
        let machine = Self { folder: TemporaryFolder::new().expect("a folder") };
        let built = std::env::current_exe().expect("a running program has a path");
        let built = built.with_file_name(LIBRARY_FILE);
        std::fs::copy(built, machine.library()).expect("the library was built");
        machine.state(state);
        machine
    }

    /// What the driver's library says from now on.
    fn state(&self, state: &str) {
        let path = format!("{}{STATE_ENDING}", self.library().display());
        std::fs::write(path, state).expect("writes");
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("libnvidia-ml.so.1")
    }

    fn settings(&self) -> DetectSettings {
        DetectSettings {
            nvml_library: Some(self.library()),
            with_adapters: false,
            ..DetectSettings::default()
        }
    }

    /// Where programs are run. A program of tests cannot start them itself.
    fn workshop(&self) -> Workshop {
        let folder = self.folder.path().join("work");
        let built = std::env::current_exe().expect("a running program has a path");
        let helper = built.ancestors().nth(2).expect("the target folder").join("tensorgrid");
        assert!(helper.is_file(), "`cargo build --release` makes {}", helper.display());
        let mut settings = tg_sandbox::Settings::new(&folder.join("runs"));
        settings.helper = Some(helper);
        let sandbox = tg_sandbox::Sandbox::new(settings).expect("a sandbox");
        Workshop::new(sandbox, folder.join("files"))
    }

    fn notes(&self) -> PathBuf {
        self.folder.path().join("partitions")
    }

    fn try_open(&self) -> (Option<MigSplitter>, Vec<Unsplit>) {
        let catalogue = Catalogue::detect(&self.settings());
        MigSplitter::open(&self.settings(), &catalogue, self.notes())
    }

    fn open(&self) -> Option<MigSplitter> {
        self.try_open().0
    }

    /// Why its one GPU with MIG is not split.
    fn refusal(&self) -> Unsplit {
        let (splitter, mut reasons) = self.try_open();
        assert!(splitter.is_none() && reasons.len() == 1, "{reasons:?}");
        reasons.remove(0)
    }

    /// How many partitions are noted.
    fn noted(&self) -> usize {
        read(&self.notes()).expect("it can be read").len()
    }
}

impl MigSplitter {
    /// Partitions that the driver lists.
    fn count(&self) -> usize {
        let (id, _) = &self.gpus[A100];
        self.partitioner.list(id).expect("MIG is on").len()
    }
}

/// Goal: whatever a process that died has left is removed by the next one.
#[test]
fn partitions_of_a_process_that_died_are_removed() {
    let machine = Machine::new(UNCUT);
    let splitter = machine.open().expect("a GPU to be split");
    assert_eq!(splitter.gpus().into_values().collect::<Vec<_>>(), [MigSlices::Seven]);
    let made = splitter.make(A100, SMALL).expect("room");
    assert!(made.id.starts_with("MIG-"), "{made:?}");
    assert_eq!(splitter.make(A100, SMALL), Err(SplitFault::Driver), "it is taken");
    assert_eq!(splitter.make("GPU-other", SMALL), Err(SplitFault::NotOffered));
    let second = splitter.make(A100, PartPlace { start: 0, ..SMALL }).expect("room");
    assert_eq!(splitter.count(), 2);
    splitter.remove(A100, &second);
    assert_eq!(splitter.count(), 1);
    drop(splitter); // as a process does that dies: it removes nothing
    let again = machine.open().expect("the GPU is still ours to be split");
    assert_eq!(again.count(), 0, "what was left is gone");
}

/// Goal: a run that finds its place taken does not cost the note of the partition that is there.
#[test]
fn partition_that_is_not_made_leaves_the_note_of_the_one_that_is_there() {
    let machine = Machine::new(UNCUT);
    let splitter = machine.open().expect("a GPU to be split");
    assert_eq!(machine.noted(), 0, "what was made to try is gone");
    let made = splitter.make(A100, SMALL).expect("room");
    assert_eq!(splitter.make(A100, SMALL), Err(SplitFault::Driver), "it is taken");
    assert_eq!(machine.noted(), 1, "it is there");
    let large = PartPlace { compute: 3, memory: 4, start: 4 };
    assert_eq!(splitter.make(A100, large), Err(SplitFault::Driver), "it would lie on the other");
    assert_eq!(machine.noted(), 1, "it was never there");
    splitter.remove(A100, &made);
    assert_eq!(machine.noted(), 0);
}

/// What keeps the driver from removing partitions.
const IN_USE: &str = "fail nvmlComputeInstanceDestroy 19 gpu 1\n";

/// Goal: what cannot be removed after a run is removed before a later one.
#[test]
fn partition_that_is_left_over_is_removed_before_the_next_is_made() {
    let machine = Machine::new(UNCUT);
    let splitter = machine.open().expect("a GPU to be split");
    let made = splitter.make(A100, SMALL).expect("room");
    machine.state(&format!("{UNCUT}{IN_USE}"));
    splitter.remove(A100, &made);
    assert_eq!((splitter.count(), machine.noted()), (1, 1), "it is still there");
    assert_eq!(splitter.make(A100, SMALL), Err(SplitFault::Driver), "it is in the way");
    assert_eq!((splitter.count(), machine.noted()), (1, 1), "and still ours");
    machine.state(UNCUT);
    let next = splitter.make(A100, SMALL).expect("the place is free again");
    assert_eq!((splitter.count(), machine.noted()), (1, 1));
    let other = splitter.make(A100, PartPlace { start: 0, ..SMALL }).expect("room");
    assert_eq!(splitter.count(), 2, "what is in use is not taken for what was left");
    splitter.remove(A100, &next);
    splitter.remove(A100, &other);
    assert_eq!((splitter.count(), machine.noted()), (0, 0));
}

/// Goal: what a driver leaves of a partition that it did not make is ours, and goes.
#[test]
fn partition_that_is_half_made_is_noted_until_it_is_gone() {
    let machine = Machine::new(UNCUT);
    let splitter = machine.open().expect("a GPU to be split");
    let halves = "fail nvmlGpuInstanceCreateComputeInstance 999 gpu 1\n\
                  fail nvmlGpuInstanceDestroy 999 gpu 1\n";
    machine.state(&format!("{UNCUT}{halves}"));
    assert_eq!(splitter.make(A100, SMALL), Err(SplitFault::Driver));
    assert_eq!((splitter.count(), machine.noted()), (1, 1), "half of it is there");
    machine.state(UNCUT);
    let made = splitter.make(A100, SMALL).expect("the half is gone");
    assert!(made.id.starts_with("MIG-"), "{made:?}");
    assert_eq!((splitter.count(), machine.noted()), (1, 1));
}

/// Goal: a process that fails to remove what an earlier one has left does not lose the note of it.
#[test]
fn partition_that_outlives_two_processes_is_removed_by_the_third() {
    let machine = Machine::new(UNCUT);
    let splitter = machine.open().expect("a GPU to be split");
    splitter.make(A100, SMALL).expect("room");
    drop(splitter);
    machine.state(&format!("{UNCUT}{IN_USE}"));
    let why = machine.refusal();
    assert!(matches!(why, Unsplit::Partition(PartitionFault::InUse { .. })), "{why:?}");
    assert_eq!(machine.noted(), 1, "it is still there");
    machine.state(UNCUT);
    assert_eq!(machine.open().expect("a GPU to be split").count(), 0, "it is gone");
}

#[test]
fn notes_that_cannot_be_read_are_not_written_over() {
    let machine = Machine::new(UNCUT);
    drop(machine.open().expect("a GPU to be split"));
    std::fs::remove_file(machine.notes()).expect("there were notes");
    std::fs::create_dir(machine.notes()).expect("a folder in place of them");
    let why = machine.refusal();
    assert!(matches!(why, Unsplit::Notes(_)), "{why:?}");
    assert!(machine.notes().is_dir() && !why.fix().is_empty());
}

/// Goal: partitions of a process that lives are not taken for those of one that died.
#[test]
fn second_process_does_not_split_while_the_first_does() {
    let machine = Machine::new(UNCUT);
    let splitter = machine.open().expect("a GPU to be split");
    splitter.make(A100, SMALL).expect("room");
    assert!(matches!(machine.refusal(), Unsplit::Locked));
    assert_eq!((splitter.count(), machine.noted()), (1, 1), "it is untouched");
    drop(splitter);
    assert!(machine.open().is_some());
}

/// Goal: a user who may not split GPUs is told so before any run comes.
#[test]
fn user_who_may_not_split_a_gpu_is_told_at_once() {
    for function in ["nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy"] {
        let machine = Machine::new(&format!("{UNCUT}fail {function} 4 gpu 1\n"));
        let why = machine.refusal();
        let fault = "this user may not change the partitions of the GPU";
        assert!(why.to_string().contains(fault), "{why}");
        assert!(why.fix().contains("administrator"), "{}", why.fix());
        machine.state(UNCUT);
        assert_eq!(machine.open().expect("a GPU to be split").count(), 0, "nothing is left");
    }
}

#[test]
fn partitions_of_the_owner_are_left_alone() {
    let machine = Machine::new("");
    let catalogue = Catalogue::detect(&machine.settings());
    let before = |catalogue: &Catalogue| {
        catalogue.devices().iter().map(|facts| facts.partitions.len()).sum::<usize>()
    };
    assert_eq!(before(&catalogue), 3);
    assert!(matches!(machine.refusal(), Unsplit::Foreign { .. }), "it is cut up by its owner");
    assert_eq!(before(&Catalogue::detect(&machine.settings())), 3);
    let off = Machine::new(&format!("{UNCUT}gpu 1 mig off"));
    let (splitter, reasons) = off.try_open();
    assert!(splitter.is_none() && reasons.is_empty(), "MIG is off, which is no fault: {reasons:?}");
}

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The order that a job of a seventh of an A100 is.
fn order(task: &TaskOrder) -> Order<'_> {
    let gpus = GpuAsk::Part { steps: 2, may_share: false };
    let kind = Some(DeviceKind::Gpu);
    Order {
        job: Job::Task(task),
        tier: Tier::Trusted,
        needs: Needs { kind, gpus, features: Features::SANDBOX, ..Needs::ANY },
        run_max: DurationMs::new(30_000),
        expires_after: DurationMs::HOUR,
        promise: None,
        checkpoint: None,
        escrow: KeyEscrow::Validators,
        urgency: Urgency::Usual,
        secret: None,
        nodes: 1,
    }
}

/// What a node of the machine offers, and where its GPUs are. Their device files do not exist, so
/// none are given to programs.
fn offer(
    machine: &Machine,
    splitter: &MigSplitter,
    features: Features,
) -> (NodeDescriptor, Vec<GpuPlace>) {
    let mut catalogue = Catalogue::detect(&machine.settings());
    catalogue.give_out(GivenOut { split: splitter.gpus(), shares: false });
    let devices = machine::devices(&catalogue, &GpuChoice::All, 1, features);
    let terms = OfferTerms {
        region: "here".parse().expect("a name"),
        price_per_hour: machine::PRICE_PER_HOUR,
        price_per_tera: machine::PRICE_PER_TERA,
        slots: machine::slots(&devices),
        host: HostPart::NONE,
    };
    assert!(terms.slots >= 8, "slots are not in the way");
    let mut places = machine::gpu_places(&catalogue, &GpuChoice::All);
    for place in &mut places {
        let id = place.id.clone().unwrap_or_default();
        let variables = vec![("CUDA_VISIBLE_DEVICES".to_owned(), id)];
        place.access = Some(DeviceAccess { variables, ..DeviceAccess::default() });
    }
    (terms.with(devices, true).expect("devices"), places)
}

async fn wait_until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn entry(gateway: &Gateway, job: JobId) -> JobEntry {
    let entry = gateway.entry(keys::job(&job)).await.expect("the network answers");
    entry.expect("the job is there")
}

/// What happens on a network without proofs of memory, whose one GPU is an A100 in seven parts.
async fn serve_eight(doors: &Doors, machine: &Machine) {
    let splitter = Arc::new(machine.open().expect("a GPU to be split"));
    let workshop = Some(Arc::new(machine.workshop()));
    let (descriptor, gpus) = offer(machine, &splitter, machine::features(workshop.as_ref()));
    let plan = ProviderPlan {
        descriptor,
        gpus,
        splitter: Some(splitter.clone()),
        stake: machine::STAKE,
        workshop,
        notes: None,
        cheats: None,
    };
    let key = SecretKey::from_seed([41; 32]);
    let gateway = doors.gateway(&key).await.expect("a way in");
    let provider = Provider::start(gateway, key, plan).await.expect("a node");
    let key = SecretKey::from_seed([42; 32]);
    let gateway = doors.gateway(&key).await.expect("a way in");
    gateway.serve(None).expect("serves");
    gateway.faucet(key.public().into(), Amount::constant(9_000_000_000)).await.expect("money");
    let client = Client { gateway: &gateway, key: &key };
    let script = "echo $CUDA_VISIBLE_DEVICES; sleep 6";
    let task = TaskOrder {
        program: ["sh", "-c", script].map(str::to_owned).to_vec(),
        environment: Vec::new(),
        root: Root::Host,
        limits: TaskLimits { memory_mib: 64, disk_mib: 8, cpu_milli: 250, pids: 32 },
        network: false,
        checkpoint: None,
        files: Vec::new(),
    };
    let order = order(&task);
    let quote = order.quote(&gateway).await.expect("a price");
    let whole = machine::PRICE_PER_HOUR.units() * 30_000 / 3_600_000;
    assert_eq!(quote.charges.pay.units(), (whole * 143).div_ceil(1_000), "a seventh, rounded up");
    let jobs = client.submit_many(&order, &quote, 8, Lane::FIRST).await.expect("handed in");

    wait_until("seven parts are there at once", async || splitter.count() == 7).await;
    let node: Option<NodeEntry> = gateway.entry(keys::node(&provider.node())).await.expect("is");
    let held = node.expect("is registered").held;
    assert_eq!(held.as_slice().len(), 7);
    let mut waiting = Vec::new();
    for job in &jobs {
        let entry = entry(&gateway, *job).await;
        waiting.extend((entry.status == JobStatus::Queued).then_some(entry));
    }
    let [eighth] = waiting.as_slice() else { panic!("one waits: {}", waiting.len()) };
    let why = Market::look(&gateway).await.expect("nodes").explain(eighth, None);
    assert_eq!((why.fitting, why.removed[0].rule.as_str()), (0, "part"), "{why:?}");
    assert!(why.change.is_some_and(|change| change.starts_with("wait")), "{:?}", why.removed);

    let mut seen = BTreeSet::new();
    for job in &jobs {
        let ended = client.follow(*job, |_| {}).await.expect("it ends");
        assert_eq!(ended.status, JobStatus::Settled);
        let fetched = client.task_result(*job, &ended, |_, _| Ok(())).await;
        let (output, ()) = fetched.expect("a result");
        seen.insert(String::from_utf8_lossy(output.stdout.as_slice()).into_owned());
    }
    assert!(seen.len() >= 7 && seen.iter().all(|id| id.starts_with("MIG-")), "{seen:?}");
    assert_eq!(splitter.count(), 0, "no partition is left");
    provider.stop().await;
}

/// Goal: an A100 serves seven strangers at once, each on a device of its own; the eighth waits, is
/// told why, and is served when one of them ends; all are paid, and no partition is left. Method: a
/// whole network in this process, with a test library in place of the driver's.
#[test]
#[ignore = "slow: four validators, and programs that run for seconds"]
fn a100_serves_seven_jobs_at_once_slow() {
    let machine = Machine::new(UNCUT);
    let folder = TemporaryFolder::new().expect("a folder");
    // No GPU here could show its memory.
    let params = Params { capacity: CapacityParams::OFF, ..Params::local() };
    let Ok(seats) = make_network(folder.path(), params, &[]) else { panic!("a network") };
    let Ok(nodes) = commands::start_nodes(&seats) else { panic!("validators") };
    assert!(wait_for_first_block(&nodes[0]).is_ok());
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    let runtime = threads.worker_threads(2).enable_all().build().expect("threads");
    let open = seats.iter().zip(&nodes).map(|(folder, node)| Seat::of(folder, node)).collect();
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let doors = runtime.block_on(Doors::open(open, RelaySettings::new(here))).expect("doors");
    runtime.block_on(serve_eight(&doors, &machine));
    runtime.block_on(doors.close());
    node::stop_all(nodes);
}
