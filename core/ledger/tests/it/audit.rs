//! What must be true of every state, whatever happened: all money is counted, all entries have one
//! byte form, and what two entries say about each other agrees.

use std::collections::{BTreeMap, BTreeSet};

use tg_ledger::GpuMixEntry;
use tg_ledger::{
    AbsenceEntry, AccountEntry, BeaconEntry, CapacityStep, ComplaintEntry, Cursor, DisputeEntry,
    DraftEntry, Draw, DueHead, DueItem, DuePage, HeaderEntry, JobEntry, LIST_PAGE_MAX, ListHead,
    ListPage, LogEntry, NodeEntry, PAGE_ITEMS_MAX, PaceEntry, ParamsEntry, PieceEntry,
    ProgramEntry, Promise, QueueRow, SLOT_MARGIN, SeenEntry, StakeEntry, Totals, ValidatorEntry,
    WeightsEntry, charges, keys, rest_of_run, slot_length,
};
use tg_scheduler::slots::{KeptSlot, Span, busiest};
use tg_types::gpu::{DEVICE_GONE, GpuPart, HeldGpu};
use tg_types::ids::{AccountId, Hash32, JobId, NodeId, Noun, StateKey};
use tg_types::{
    Amount, Decode, DurationMs, Encode, GpuAsk, Height, HostPart, JobStatus, Message, Tick, Tier,
};

use crate::world::World;

/// Reads and counts everything.
pub(crate) fn audit(world: &World) {
    let found = Found::of(world);
    let totals = world.totals();
    let (treasury, burned) = (totals.treasury, totals.burned);
    assert_eq!(Totals { treasury, burned, ..found.totals }, totals, "entries and totals agree");
    assert_eq!(totals.parts_sum(), u128::from(totals.supply.units()), "nothing made or lost");
    found.check_jobs(world);
    found.check_exposure();
    found.check_nodes();
    found.check_kept(world);
    found.check_weights(world);
    found.lists.check(world, &found);
    assert_eq!(found.pieces, found.pieces_expected, "pieces belong to programs or drafts");
    found.due.check(world, &found);
}

/// All entries that refer to others.
#[derive(Default)]
struct Found {
    totals: Totals,
    stakes: BTreeMap<AccountId, StakeEntry>,
    nodes: BTreeMap<NodeId, NodeEntry>,
    jobs: BTreeMap<JobId, JobEntry>,
    disputes: BTreeMap<JobId, DisputeEntry>,
    complaints: BTreeMap<JobId, ComplaintEntry>,
    weights: BTreeMap<Hash32, WeightsEntry>,
    pieces: u32,
    pieces_expected: u32,
    lists: Lists,
    due: DueQueue,
}

impl Found {
    fn of(world: &World) -> Self {
        let mut found = Self::default();
        found.totals.supply = world.rules.genesis.supply();
        for (key, bytes) in world.view.iter() {
            found.add(world, key, bytes);
        }
        found
    }

    fn add(&mut self, world: &World, key: &StateKey, bytes: &[u8]) {
        let totals = &mut self.totals;
        match key.noun() {
            Noun::Totals => drop(decoded::<Totals>(bytes)),
            Noun::Account => add(&mut totals.balances, decoded::<AccountEntry>(bytes).balance),
            Noun::Seen => drop(decoded::<SeenEntry>(bytes)),
            Noun::Stake => {
                let stake: StakeEntry = decoded(bytes);
                add(&mut totals.staked, stake.active);
                for unbonding in stake.unbonding.as_slice() {
                    add(&mut totals.unbonding, unbonding.amount);
                }
                let owner = AccountId::new(key.id()).expect("not a small-order key");
                assert_ne!(stake, StakeEntry::default(), "an empty stake is not stored");
                self.stakes.insert(owner, stake);
            }
            Noun::Node => drop(self.nodes.insert(NodeId::new(key.id()), decoded(bytes))),
            Noun::Job => {
                let job: JobEntry = decoded(bytes);
                add(&mut totals.escrow, job.escrow);
                self.jobs.insert(JobId::new(key.id()), job);
            }
            Noun::Dispute => {
                let dispute: DisputeEntry = decoded(bytes);
                add(&mut totals.escrow, dispute.bond);
                self.disputes.insert(JobId::new(key.id()), dispute);
            }
            Noun::Complaint => {
                let complaint: ComplaintEntry = decoded(bytes);
                add(&mut totals.escrow, complaint.bond);
                self.complaints.insert(JobId::new(key.id()), complaint);
            }
            Noun::Weights => {
                self.weights.insert(Hash32::new(key.id()), decoded(bytes));
            }
            Noun::Due => self.due.add(key, bytes),
            Noun::List => self.lists.add(key, bytes),
            Noun::Program => {
                let pieces = decoded::<ProgramEntry>(bytes).pieces;
                let program = Hash32::new(key.id());
                for piece in 0..pieces {
                    let key = keys::program_piece(&program, piece);
                    assert!(world.entry::<PieceEntry>(&key).is_some(), "programs are whole");
                }
                self.pieces_expected += u32::from(pieces);
            }
            Noun::Draft => {
                let draft: DraftEntry = decoded(bytes);
                let present = draft.present.count_ones();
                assert!((1..u32::from(draft.pieces)).contains(&present), "drafts are unfinished");
                self.pieces_expected += present;
            }
            Noun::Piece => {
                decoded::<PieceEntry>(bytes);
                self.pieces += 1;
            }
            Noun::Headers => drop(decoded::<HeaderEntry>(bytes)),
            Noun::Beacon => drop(decoded::<BeaconEntry>(bytes)),
            Noun::Log => drop(decoded::<LogEntry>(bytes)),
            Noun::Params => drop(decoded::<ParamsEntry>(bytes)),
            Noun::Validator => drop(decoded::<ValidatorEntry>(bytes)),
            Noun::Cursor => drop(decoded::<Cursor>(bytes)),
            Noun::Absence => drop(decoded::<AbsenceEntry>(bytes)),
            Noun::Pace => {
                let entry: PaceEntry = decoded(bytes);
                assert!(!entry.lesson.classes.as_slice().is_empty(), "somebody was heard");
            }
            Noun::GpuMix => {
                let entry: GpuMixEntry = decoded(bytes);
                assert!(entry.mix.kinds.as_slice().iter().all(|kind| kind.count > 0));
            }
        }
    }

    /// Jobs that are not final.
    fn open_jobs(&self) -> impl Iterator<Item = (&JobId, &JobEntry)> {
        self.jobs.iter().filter(|(_, job)| !job.status.is_final())
    }

    fn check_jobs(&self, world: &World) {
        let params = world.rules.genesis.params();
        for (id, job) in &self.jobs {
            let is_final = job.status.is_final();
            let locked = charges(params, &job.spec, job.extent).expect("payable").escrow;
            assert_eq!(job.escrow, if is_final { Amount::ZERO } else { locked }, "escrow of {id}");
            assert_eq!(job.closed.is_some(), is_final);
            assert!(!is_final || job.queue_place.is_none(), "what has ended waits no more");
            let is_disputed = job.status == JobStatus::Disputed;
            assert_eq!(self.disputes.contains_key(id), is_disputed, "dispute about {id}");
            let live = job.live().count();
            assert!(live <= usize::from(job.wanted), "no more runs than wanted");
            let is_short = live < usize::from(job.wanted);
            assert!(is_final || is_short == job.queue_place.is_some(), "waits for what lacks");
            let is_queued = job.status == JobStatus::Queued;
            assert!(is_final || is_queued == (live == 0), "{:?} with {live} runs", job.status);
            let is_gang = job.spec.is_gang();
            assert!(!is_gang || live == 0 || live == usize::from(job.spec.nodes), "all or none");
            let nodes: BTreeSet<NodeId> = job.live().map(|run| run.node).collect();
            assert_eq!(nodes.len(), live, "each run of {id} has its own node");
            let runs = job.live().filter(|_| !is_gang);
            let mut owners: Vec<AccountId> = runs.map(|run| run.owner).collect();
            let checkers = job.checks.as_slice().iter().map(|check| check.owner);
            owners.extend(checkers);
            let count = owners.len();
            let owners: BTreeSet<AccountId> = owners.into_iter().collect();
            assert_eq!(owners.len(), count, "nobody has two parts in {id}");
            if let Some(dispute) = self.disputes.get(id) {
                assert!(job.live().any(|run| run.node == dispute.node && run.result().is_some()));
            }
        }
        let unknown = self.disputes.keys().filter(|id| !self.jobs.contains_key(id));
        assert_eq!(unknown.count(), 0, "disputes are about jobs");
        for (id, complaint) in &self.complaints {
            let job = self.jobs.get(id).expect("complaints are about jobs");
            let is_about_result = complaint.about == Message::Result;
            assert!(!is_about_result || job.status == JobStatus::Settled, "what was paid for");
            let bond = if complaint.is_open() { params.jobs.complaint_bond } else { Amount::ZERO };
            assert_eq!(complaint.bond, bond, "bond of the complaint about {id}");
        }
    }

    /// No more proofs about secret weights can be made than their commitment is for: what is left,
    /// what open jobs may need, and what jobs that are still known may have used.
    fn check_weights(&self, world: &World) {
        let runs_max = u64::from(world.rules.genesis.params().jobs.runs_max());
        let mut taken: BTreeMap<Hash32, u64> = BTreeMap::new();
        for (id, job) in &self.jobs {
            let Some(weights) = job.spec.tier.secret_weights() else { continue };
            let placed = job.runs.as_slice().len() as u64;
            assert!(placed <= runs_max, "runs of {id}");
            let known = self.weights.get(&weights).expect("jobs name registered weights");
            assert_eq!(known.owner, job.owner, "weights of {id}");
            let is_final = job.status.is_final();
            *taken.entry(weights).or_default() += if is_final { placed } else { runs_max };
        }
        for (id, known) in &self.weights {
            let sum = 1 + u64::from(known.left) + taken.get(id).copied().unwrap_or(0);
            assert!(sum <= known.proofs.into(), "{sum} proofs of {} about {id}", known.proofs);
        }
    }

    /// What of every stake stands for work is the sum of the bonds of that work.
    fn check_exposure(&self) {
        let mut exposed: BTreeMap<AccountId, Amount> = BTreeMap::new();
        for (_, job) in self.open_jobs() {
            for run in job.live() {
                add(exposed.entry(run.owner).or_default(), run.bond);
            }
            if let Promise::Kept { owner, bond, .. } = job.promise {
                add(exposed.entry(owner).or_default(), bond);
            }
            let checks = job.checks.as_slice().iter();
            for check in checks.filter(|check| check.is_bonded()) {
                add(exposed.entry(check.owner).or_default(), check.bond);
            }
        }
        for (owner, stake) in &self.stakes {
            let expected = exposed.remove(owner).unwrap_or_default();
            assert_eq!(stake.exposed, expected, "exposure of {owner}");
        }
        exposed.retain(|_, amount| !amount.is_zero());
        assert_eq!(exposed, BTreeMap::new(), "nobody works without a stake");
    }

    /// Nodes keep exactly the slots that jobs were promised, each long enough and in time.
    fn check_kept(&self, world: &World) {
        let params = world.rules.genesis.params();
        let mut kept = BTreeMap::new();
        for (id, job) in &self.jobs {
            let Promise::Kept { node, owner, from, .. } = job.promise else { continue };
            assert_eq!(self.nodes[&node].owner, owner, "the owner of {node}");
            let length = slot_length(params, &job.spec).expect("it ends with its run");
            let to = from.plus(length).expect("early");
            assert!(to <= job.expires && job.status == JobStatus::Queued, "slot of {id}");
            kept.insert((node, *id), (from, to, job.spec.needs.host, job.spec.held_gpus()));
        }
        for (id, node) in &self.nodes {
            for slot in node.kept.as_slice() {
                let (from, to, host, gpus) = kept.remove(&(*id, slot.job)).expect("promised");
                assert_eq!((slot.from, slot.to, slot.host), (from, to, host), "slot of {id}");
                let count = match gpus {
                    GpuAsk::Usual => 0,
                    GpuAsk::Whole { count } => usize::from(count),
                    GpuAsk::Part { .. } => 1,
                };
                assert_eq!(slot.gpus.as_slice().len(), count, "GPUs of a slot of {id}");
            }
        }
        assert_eq!(kept, BTreeMap::new(), "slots are kept by nodes");
    }

    /// Whether a node has as many slots as it keeps, runs until they have surely ended included. A
    /// run that began a little late may last a little into the next slot.
    fn has_room(&self, world: &World, id: &NodeId, node: &NodeEntry) -> bool {
        let (params, now) = (world.rules.genesis.params(), world.cursor().tick);
        let kept = || node.kept.as_slice().iter().map(KeptSlot::span);
        let runs = node.runs.as_slice().iter().map(|job| {
            let Span { from, to } = rest_of_run(params, &self.jobs[job], id, now);
            Span { from, to: Tick::new(to.get() - SLOT_MARGIN.get()) }
        });
        let runs: Vec<Span> = runs.collect();
        let taken: Vec<Span> = kept().chain(runs.iter().copied()).collect();
        let slots = usize::from(node.descriptor.slots);
        kept().all(|slot| busiest(taken.iter().copied(), slot) <= slots) && has_parts(node, &runs)
    }

    /// A node lists exactly the jobs in which it has a live run, and counts its checks.
    fn check_nodes(&self) {
        let mut runs: BTreeMap<NodeId, BTreeSet<JobId>> = BTreeMap::new();
        let mut checks: BTreeMap<NodeId, u32> = BTreeMap::new();
        for (id, job) in self.open_jobs() {
            for run in job.live() {
                assert!(runs.entry(run.node).or_default().insert(*id), "one run of a job");
            }
            let all = job.checks.as_slice().iter();
            for check in all.filter(|check| check.is_bonded()) {
                *checks.entry(check.node).or_default() += 1;
            }
        }
        for (id, node) in &self.nodes {
            let listed: BTreeSet<JobId> = node.runs.as_slice().iter().copied().collect();
            assert_eq!(listed.len(), node.runs.as_slice().len(), "each once");
            assert_eq!(listed, runs.remove(id).unwrap_or_default(), "runs of {id}");
            assert_eq!(node.checks, checks.remove(id).unwrap_or_default(), "checks of {id}");
            self.check_held(id, node);
        }
        assert!(runs.is_empty() && checks.is_empty(), "work is done by registered nodes");
    }
}

impl Found {
    /// Runs hold what they were given, as long as they last; what two of them have of one GPU does
    /// not meet, and lies where it may.
    fn check_held(&self, id: &NodeId, node: &NodeEntry) {
        let mut given: Vec<(JobId, u8, GpuPart)> = Vec::new();
        for job in node.runs.as_slice() {
            let runs = self.jobs[job].live().filter(|run| run.node == *id);
            let slices = runs.flat_map(|run| run.gpus.as_slice());
            given.extend(slices.map(|slice| (*job, slice.unit, slice.part)));
        }
        let held = node.held.as_slice();
        let mut listed: Vec<(JobId, u8, GpuPart)> =
            held.iter().map(|it| (it.job, it.slice.unit, it.slice.part)).collect();
        given.sort_unstable();
        listed.sort_unstable();
        assert_eq!(given, listed, "runs of {id} hold what they were given");
        let part = |job: &JobId| (*job, self.jobs[job].spec.needs.host);
        let asked = node.runs.as_slice().iter().map(part);
        let mut asked: Vec<_> = asked.filter(|(_, part)| *part != HostPart::NONE).collect();
        let hosted = node.hosted.as_slice().iter().map(|it| (it.job, it.part));
        let mut hosted: Vec<_> = hosted.collect();
        asked.sort_unstable();
        hosted.sort_unstable();
        assert_eq!(asked, hosted, "runs of {id} hold what they asked for of the machine");
        let there = held.iter().filter(|it| it.slice.device != DEVICE_GONE);
        let mut units: BTreeMap<(u8, u8), Vec<GpuPart>> = BTreeMap::new();
        for HeldGpu { slice, .. } in there {
            units.entry((slice.device, slice.unit)).or_default().push(slice.part);
        }
        for (unit, parts) in units {
            assert!(meet_nowhere(&parts), "{unit:?} of {id}: {parts:?}");
        }
    }
}

/// Whether what a node keeps of its GPUs, processors and memory is there whenever some of it
/// begins, beside its runs, which take these spans.
fn has_parts(node: &NodeEntry, runs: &[Span]) -> bool {
    let kept = node.kept.as_slice();
    let runs = node.runs.as_slice().iter().copied().zip(runs.iter().copied());
    let runs: BTreeMap<JobId, Span> = runs.collect();
    kept.iter().all(|slot| {
        let is_then = |span: Span| span.from <= slot.from && slot.from < span.to;
        let of_runs = node.held.as_slice().iter().filter(|it| is_then(runs[&it.job]));
        let of_slots = kept.iter().filter(|it| is_then(it.span()));
        let of_slots = of_slots.flat_map(|it| it.gpus.as_slice().iter().copied());
        let mut units: BTreeMap<(u8, u8), Vec<GpuPart>> = BTreeMap::new();
        let all = of_runs.map(|it| it.slice).chain(of_slots);
        for slice in all.filter(|slice| slice.device != DEVICE_GONE) {
            units.entry((slice.device, slice.unit)).or_default().push(slice.part);
        }
        let hosts = node.hosted.as_slice().iter().filter(|it| is_then(runs[&it.job]));
        let hosts = hosts.map(|it| it.part);
        let hosts = hosts.chain(kept.iter().filter(|it| is_then(it.span())).map(|it| it.host));
        let (held, offered) = (hosts.fold(HostPart::NONE, HostPart::with), node.descriptor.host);
        let fits =
            |asked: u32, held: u32, offered: u32| asked == 0 || offered == 0 || held <= offered;
        units.values().all(|parts| meet_nowhere(parts))
            && fits(slot.host.cpu_milli, held.cpu_milli, offered.cpu_milli)
            && fits(slot.host.memory_mib, held.memory_mib, offered.memory_mib)
    })
}

/// Whether these may be on one GPU. The places are those that NVIDIA's tools print.
fn meet_nowhere(parts: &[GpuPart]) -> bool {
    let (mut memory_taken, mut compute_taken, mut steps_taken) = (0_u16, 0, 0);
    for part in parts {
        match *part {
            GpuPart::Whole if parts.len() > 1 => return false,
            GpuPart::Whole => {}
            GpuPart::Share { steps } => steps_taken += u32::from(steps),
            GpuPart::Partition { compute, memory, start } => {
                let starts: &[u8] = match (compute, memory) {
                    (1, 1) => &[0, 1, 2, 3, 4, 5, 6],
                    (1, 2) => &[0, 2, 4, 6],
                    (2, 2) => &[0, 2, 4],
                    (3, 4) => &[0, 4],
                    (4, 4) => &[0],
                    _ => &[],
                };
                let mask = ((1_u16 << memory) - 1) << start;
                if !starts.contains(&start) || memory_taken & mask != 0 {
                    return false;
                }
                memory_taken |= mask;
                compute_taken += u32::from(compute);
            }
        }
    }
    let is_mixed = memory_taken != 0 && steps_taken != 0;
    !is_mixed && compute_taken <= 7 && steps_taken <= 20
}

/// Reads an entry and holds its bytes against those it gives again.
fn decoded<T: Encode + Decode>(bytes: &[u8]) -> T {
    let value = T::from_bytes(bytes).expect("entries are readable");
    assert_eq!(value.to_bytes(), bytes, "one byte form");
    value
}

fn add(sum: &mut Amount, amount: Amount) {
    *sum = sum.plus(amount).expect("never above the cap");
}

/// The numbers in the key of an entry that is found by numbers.
fn numbers(key: &StateKey) -> [u64; 4] {
    let id = key.id();
    let (words, _) = id.as_chunks::<8>();
    std::array::from_fn(|place| u64::from_le_bytes(words[place]))
}

/// A list, by the numbers in its keys.
type ListName = (u64, u64);

/// All lists as they are stored.
#[derive(Default)]
struct Lists {
    heads: BTreeMap<ListName, ListHead>,
    ids: BTreeMap<ListName, BTreeMap<u64, [u8; 32]>>,
}

const NODES: ListName = (1, 0);
const QUEUE: u64 = 2;
const COMMITS: u64 = 3;
const CAPACITIES: u64 = 4;
const PROMISES: ListName = (5, 0);
const GANGS: ListName = (8, 0);

impl Lists {
    fn add(&mut self, key: &StateKey, bytes: &[u8]) {
        let [page, kind, number, _] = numbers(key);
        let name = (kind, number);
        if page == 0 {
            self.heads.insert(name, decoded(bytes));
            return;
        }
        let items = decoded::<ListPage>(bytes).items;
        assert!(items.iter().count() > 0, "a page of holes is not stored");
        let ids = self.ids.entry(name).or_default();
        ids.extend(items.iter().map(|(place, id)| ((page - 1) * LIST_PAGE_MAX + place, id)));
    }

    fn of(&self, name: ListName) -> BTreeMap<u64, [u8; 32]> {
        self.ids.get(&name).cloned().unwrap_or_default()
    }

    fn check(&self, world: &World, found: &Found) {
        for (name, ids) in &self.ids {
            let head = self.heads.get(name).expect("a page belongs to a list");
            assert!(ids.keys().all(|place| (head.first..head.next).contains(place)));
        }
        let nodes = self.of(NODES);
        let next = self.heads.get(&NODES).map_or(0, |head| head.next);
        assert!(nodes.keys().copied().eq(0..next), "the list of nodes has no holes");
        let placed = found.nodes.iter().map(|(id, node)| (node.place, *id.as_bytes()));
        assert_eq!(placed.collect::<BTreeMap<_, _>>(), nodes, "nodes know their places");

        for row in QueueRow::all() {
            let jobs = found.jobs.iter().filter(|(_, job)| job.row == row);
            let waiting =
                jobs.filter_map(|(id, job)| job.queue_place.map(|place| (place, *id.as_bytes())));
            let waiting: BTreeMap<_, _> = waiting.collect();
            let queued = self.of((QUEUE, row.get().into()));
            assert_eq!(waiting, queued, "the queue holds who waits");
            // Whoever made room or moved stands behind the others, with the time at which it came.
            let jobs = queued.values().map(|id| &found.jobs[&JobId::new(*id)]);
            let came = jobs.filter(|job| job.spec.checkpoint.is_none()).map(|job| job.queued);
            assert!(came.is_sorted(), "a row has the order in which its jobs came");
        }

        let gangs = found.jobs.iter();
        let gangs =
            gangs.filter_map(|(id, job)| job.gang_place.map(|at| (at.place, *id.as_bytes())));
        assert_eq!(gangs.collect::<BTreeMap<_, _>>(), self.of(GANGS), "gangs know their places");
        let is_listed = |job: &JobEntry| {
            let has_several = matches!(job.spec.held_gpus(), GpuAsk::Whole { count: 2.. });
            let (host, much) = (job.spec.needs.host, tg_ledger::HOST_MUCH);
            let has_much = host.cpu_milli >= much.cpu_milli || host.memory_mib >= much.memory_mib;
            job.spec.is_gang() || has_several || has_much
        };
        let is_waiting = |job: &&JobEntry| is_listed(job) && job.queue_place.is_some();
        let waiting = found.jobs.values().filter(is_waiting).count();
        assert_eq!(waiting, self.of(GANGS).len(), "gangs that wait are listed");

        let asked = found.jobs.iter().filter_map(|(id, job)| match job.promise {
            Promise::Asked { place, .. } => Some((place, *id.as_bytes())),
            Promise::None
            | Promise::Kept { .. }
            | Promise::Running { .. }
            | Promise::Refused { .. }
            | Promise::Broken { .. } => None,
        });
        assert_eq!(asked.collect::<BTreeMap<_, _>>(), self.of(PROMISES), "all are decided about");

        let drawn = world.cursor().draw_height.get();
        let commits = self.heads.keys().filter(|(kind, _)| *kind == COMMITS);
        assert!(commits.into_iter().all(|(_, height)| *height >= drawn), "drawn lists are gone");
        for (id, node) in &found.nodes {
            let (CapacityStep::Waiting { height } | CapacityStep::Committed { height, .. }) =
                node.capacity.step
            else {
                continue;
            };
            let waiting = self.of((CAPACITIES, height.get()));
            assert!(waiting.values().any(|it| it == id.as_bytes()), "{id} will go on");
        }
        let beacon = world.cursor().beacon.get();
        let waiting = self.heads.keys().filter(|(kind, _)| *kind == CAPACITIES);
        let is_ahead = |height: &u64| height + tg_ledger::BEACON_DELAY > beacon;
        assert!(waiting.into_iter().all(|(_, height)| is_ahead(height)), "nobody waits in vain");
        for (id, job) in found.open_jobs() {
            let is_checked = matches!(job.spec.tier, Tier::Audit | Tier::Sync);
            let committed = job.live().find_map(|run| run.committed().map(Height::get));
            if let (true, Draw::Pending, Some(height)) = (is_checked, job.draw, committed) {
                let commits = self.of((COMMITS, height));
                assert!(commits.values().any(|it| it == id.as_bytes()), "{id} will be drawn");
            }
        }
    }
}

/// The due queue as it is stored: per second the count of its head and the items of its pages.
#[derive(Default)]
struct DueQueue {
    counts: BTreeMap<u64, u64>,
    items: BTreeMap<(u64, u64), Vec<DueItem>>,
}

impl DueQueue {
    fn add(&mut self, key: &StateKey, bytes: &[u8]) {
        match numbers(key) {
            [second, 0, ..] => {
                self.counts.insert(second, decoded::<DueHead>(bytes).count);
            }
            [second, page, ..] => {
                let items = decoded::<DuePage>(bytes).items.as_slice().to_vec();
                self.items.insert((second, page - 1), items);
            }
        }
    }

    /// Pages hold exactly what the heads count and the cursor has not passed, and everything with
    /// a date is in the queue.
    fn check(&self, world: &World, found: &Found) {
        let cursor = world.cursor();
        let mut ahead: Vec<(u64, DueItem)> = Vec::new();
        for (second, count) in &self.counts {
            assert!(*second >= cursor.due_second, "visited seconds are gone");
            let visited = if *second == cursor.due_second { cursor.due_index } else { 0 };
            let mut index = visited - visited % PAGE_ITEMS_MAX as u64;
            while index < *count {
                let page = &self.items[&(*second, index / PAGE_ITEMS_MAX as u64)];
                for item in page {
                    if index >= visited {
                        ahead.push((*second, *item));
                    }
                    index += 1;
                }
            }
            assert_eq!(index, *count, "pages hold what the head counts");
        }
        let pages = self.items.keys().filter(|(second, _)| !self.counts.contains_key(second));
        assert_eq!(pages.count(), 0, "no page without a head");
        check_dated(world, found, &ahead);
    }
}

fn check_dated(world: &World, found: &Found, ahead: &[(u64, DueItem)]) {
    let has = |wanted: DueItem| ahead.iter().any(|(_, item)| *item == wanted);
    for (id, job) in &found.jobs {
        assert!(has(DueItem::CloseJob { job: *id }), "every job has a date");
        let runs = job.live().map(|run| run.deadline);
        let open = job.checks.as_slice().iter().filter(|check| check.is_open());
        let dispute = found.disputes.get(id).map(|dispute| dispute.deadline);
        let dates = runs.chain(open.map(|check| check.deadline)).chain(dispute);
        let dates = dates.filter(|date| *date != Tick::MAX && !job.status.is_final());
        let complaint = found.complaints.get(id).filter(|it| it.is_open());
        let is_dated = complaint.is_none_or(|_| has(DueItem::EndComplaint { job: *id }));
        assert!(is_dated, "the complaint about {id} ends");
        if let Promise::Kept { .. } = job.promise {
            assert!(has(DueItem::BeginSlot { job: *id }), "the slot of {id} begins");
        }
        for date in dates {
            let second = date.get().div_ceil(DurationMs::SECOND.get());
            let step = DueItem::JobStep { job: *id };
            let is_dated = ahead.iter().any(|(at, item)| *item == step && *at >= second);
            assert!(is_dated, "somebody looks after {id} at {date}");
        }
    }
    for (id, node) in &found.nodes {
        let is_dated = has(DueItem::DropNode { node: *id });
        assert!(node.absent.is_none() || is_dated, "absent nodes are dropped");
        let is_rechecked = has(DueItem::RecheckSlots { node: *id });
        assert!(is_rechecked || found.has_room(world, id, node), "{id} keeps what it has");
        let date = match node.capacity.step {
            CapacityStep::Filling { deadline, .. } | CapacityStep::Showing { deadline, .. } => {
                Some(deadline)
            }
            CapacityStep::Resting { until } => Some(until),
            CapacityStep::Idle | CapacityStep::Waiting { .. } | CapacityStep::Committed { .. } => {
                None
            }
        };
        if let Some(date) = date {
            let second = date.get().div_ceil(DurationMs::SECOND.get());
            let step = DueItem::CapacityStep { node: *id };
            let is_dated = ahead.iter().any(|(at, item)| *item == step && *at >= second);
            assert!(is_dated, "somebody looks after the capacity of {id} at {date}");
        }
        let is_asked = world.rules.genesis.params().capacity.blocks_max > 0;
        let is_idle = node.capacity.step == CapacityStep::Idle;
        let is_unproved = node.unproved_device().is_some();
        assert_eq!(is_idle && is_unproved, !is_asked, "{id} is asked");
    }
    for id in world.ids(Noun::Seen) {
        assert!(has(DueItem::ForgetSeen { id }), "every seen id has a date");
    }
    for (account, stake) in &found.stakes {
        let is_unbonding = !stake.unbonding.as_slice().is_empty();
        let account = *account;
        assert!(!is_unbonding || has(DueItem::ReleaseStake { account }), "stake comes free");
    }
}
