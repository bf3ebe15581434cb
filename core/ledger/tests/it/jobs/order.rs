//! In which order waiting jobs are given to nodes: by what they offer and how long they wait, each
//! client its part, and none hidden by others.

use tg_ledger::{BONUS_MAX, BONUS_PER_OCTAVE, JobEntry};
use tg_types::{
    Action, DurationMs, Event, Hash32, JobId, JobSpec, JobStatus, NetworkKind, NodeDescriptor,
    Params, RegionAsk, Tier, Work,
};

use crate::fleet::*;
use crate::world::*;

/// What a job offers that stands in the lowest row; each doubling is one row more.
const LOWEST: u64 = 400;

/// A job of this offer that waits for a day.
fn offering(pay: u64) -> JobSpec {
    JobSpec {
        work: Work::Opaque { task: Hash32::new([1; 32]) },
        pay: units(pay),
        expires_after: DurationMs::DAY,
        ..spec(Tier::Trusted)
    }
}

/// A job of this offer that no node takes.
fn hopeless(pay: u64) -> JobSpec {
    let mut spec = offering(pay);
    spec.needs.region = RegionAsk::Only { region: "nowhere".parse().expect("a name") };
    spec
}

/// Parameters that let jobs wait for a day and a block be hours later.
fn patient_params() -> Params {
    let mut params = busy_params();
    params.job_expires_max = DurationMs::DAY;
    params.tick_step_max = DurationMs::DAY;
    params
}

fn offer_slots(slots: u16) -> NodeDescriptor {
    NodeDescriptor { slots, ..offer(1) }
}

/// A network of one node with so many slots.
fn one_node(params: Params, slots: u16) -> World {
    let mut world = World::staffed_with(params, NetworkKind::Local, 1);
    world.open(slots);
    world
}

/// The same, closed: jobs wait.
fn closed_node(params: Params) -> World {
    let mut world = World::staffed_with(params, NetworkKind::Local, 1);
    let descriptor = NodeDescriptor { is_open: false, ..offer(1) };
    world.act(0, Action::ChangeNode { node: node(0), descriptor });
    world
}

impl World {
    /// The first node takes so many runs at once.
    fn open(&mut self, slots: u16) {
        self.act(0, Action::ChangeNode { node: node(0), descriptor: offer_slots(slots) });
    }
}

fn running(world: &World, jobs: &[JobId]) -> Vec<usize> {
    let is_running = |place: &usize| world.status(jobs[*place]) == JobStatus::Running;
    (0..jobs.len()).filter(is_running).collect()
}

/// Submits these jobs in one transaction.
fn ask_all(world: &mut World, client: u8, specs: Vec<JobSpec>) -> Vec<JobId> {
    let count = u8::try_from(specs.len()).expect("a few");
    if specs.is_empty() {
        return Vec::new();
    }
    let tx = world.run(account(client), submit(specs)).tx;
    (0..count).map(|place| JobId::of(tx, place)).collect()
}

#[test]
fn better_offer_goes_before_who_came_earlier_within_its_bonus() {
    // Twice the offer is worth a fixed time.
    for (later_by, expected) in [(BONUS_PER_OCTAVE.get() - 200, 1), (BONUS_PER_OCTAVE.get(), 0)] {
        let mut world = closed_node(patient_params());
        let earlier = world.ask(offering(2 * LOWEST));
        world.wait(later_by);
        let later = world.ask(offering(4 * LOWEST));
        assert_eq!(world.known(later).row.get(), world.known(earlier).row.get() + 1);
        world.open(1);
        assert_eq!(running(&world, &[earlier, later]), [expected]);
    }
}

/// When a job with the best offer would have come to have the same turn.
fn came(entry: &JobEntry) -> u64 {
    entry.queued.get() + BONUS_MAX.get() - entry.row.bonus().get()
}

/// One step of a random history.
fn random_step(
    u: &mut arbtest::arbitrary::Unstructured<'_>,
    world: &mut World,
    jobs: &mut Vec<JobId>,
) -> arbtest::arbitrary::Result<()> {
    match u.int_in_range(0..=5)? {
        0 => world.wait(u.int_in_range(0..=BONUS_MAX.get() / 2)?),
        1 => {
            if !jobs.is_empty() {
                let job = *u.choose(jobs)?;
                world.succeed(account(CLIENT), Action::CancelJob { job });
                jobs.retain(|other| *other != job);
            }
        }
        _ => {
            let pay = LOWEST << u.int_in_range(0..=10)?;
            jobs.push(world.ask(offering(pay)));
        }
    }
    Ok(())
}

/// Goal: whenever there is room, the waiting job with the least key gets it; so nobody is passed by
/// who came later than the largest bonus. Method: one node with one slot; jobs of random offers
/// come, wait and leave at random; then all are run one by one.
#[test]
fn prop_jobs_start_in_the_order_of_their_keys() {
    let new = closed_node(patient_params());
    arbtest::arbtest(|u| {
        let mut world = new.clone();
        let mut jobs = vec![world.ask(offering(LOWEST))];
        for _ in 0..u.int_in_range(1..=12)? {
            random_step(u, &mut world, &mut jobs)?;
        }
        let mut waiting: Vec<_> = jobs.iter().map(|job| (*job, world.known(*job))).collect();
        world.open(1);
        while !waiting.is_empty() {
            let least = waiting.iter().map(|(_, entry)| came(entry)).min().expect("some wait");
            let started =
                waiting.iter().position(|(job, _)| world.status(*job) == JobStatus::Running);
            let (job, entry) = waiting.remove(started.expect("a slot is free"));
            assert_eq!(came(&entry), least);
            let waited = waiting.iter().map(|(_, other)| other.queued.get());
            let first = waited.min().unwrap_or(u64::MAX);
            assert!(entry.queued.get() <= first.saturating_add(BONUS_MAX.get()), "none starves");
            world.deliver(0, job, &right());
        }
        assert!(jobs.iter().all(|job| world.status(*job).is_final()), "all had their turn");
        Ok(())
    });
}

/// Goal: what becomes free next goes to who stands first, also if another one was given what was
/// free before. Method: the first job fits the second node only, which is busy at first.
#[test]
fn job_that_did_not_fit_is_first_when_there_is_room_again() {
    let mut world = World::staffed_with(patient_params(), NetworkKind::Local, 2);
    for number in 0..2 {
        let region = ["north", "south"][usize::from(number)].parse().expect("a name");
        let descriptor = NodeDescriptor { region, ..offer_slots(1) };
        world.act(number, Action::ChangeNode { node: node(number), descriptor });
    }
    let only_south = || {
        let mut spec = offering(LOWEST);
        spec.needs.region = RegionAsk::Only { region: "south".parse().expect("a name") };
        spec
    };
    let busy = world.ask(only_south());
    let jobs = ask_all(&mut world, CLIENT, vec![only_south(), offering(LOWEST), offering(LOWEST)]);
    assert_eq!(running(&world, &jobs), [1]);
    world.deliver(1, busy, &right());
    assert_eq!(running(&world, &jobs), [0, 1]);
}

/// Goal: a client that came first does not take all that is free while others wait. Method: one
/// client with more jobs than there are slots, another with few, all waiting when slots come free.
#[test]
fn client_has_its_fair_part_of_what_is_free() {
    let waiting = |slots, many: usize, few: usize| {
        let mut world = closed_node(patient_params());
        let first = ask_all(&mut world, CLIENT, vec![offering(4 * LOWEST); many]);
        let second = ask_all(&mut world, CHALLENGER, vec![offering(LOWEST); few]);
        world.open(slots);
        (running(&world, &first), running(&world, &second))
    };
    let first = |count: usize| (0..count).collect::<Vec<_>>();
    assert_eq!(waiting(4, 6, 3), (first(2), first(2)), "half of it each");
    assert_eq!(waiting(1, 6, 3), (first(1), first(0)), "one at least, by the order");
    assert_eq!(waiting(4, 6, 1), (first(3), first(1)), "what others do not want");
    assert_eq!(waiting(8, 6, 1), (first(6), first(1)), "the rest comes afterwards");
    assert_eq!(waiting(4, 6, 0), (first(4), first(0)), "nobody else waits");
}

/// Goal: rows of jobs that fit nowhere hide nobody, in their own row or in others. Method: more of
/// them in two rows than a block looks at, before one job of each row that can be placed.
#[test]
fn rows_that_fit_nowhere_hide_nobody() {
    let mut params = patient_params();
    params.jobs.placements_per_block_max = 4;
    let mut world = one_node(params, 4);
    let row = |pay| [vec![hopeless(pay); 9], vec![offering(pay)]].concat();
    let high = ask_all(&mut world, CLIENT, row(64 * LOWEST));
    let low = ask_all(&mut world, CHALLENGER, row(LOWEST));
    let alone = world.ask(offering(8 * LOWEST));
    assert_eq!(world.status(alone), JobStatus::Running, "the only one of its row");
    for _ in 0..5 {
        world.block(&[]);
    }
    assert_eq!((running(&world, &high), running(&world, &low)), (vec![9], vec![9]));
}

/// Goal: a job that comes back into the queue stands behind who waits there. Method: its provider
/// gives it up while another one waits.
#[test]
fn job_that_comes_back_waits_behind_the_others() {
    let mut world = World::staffed_with(patient_params(), NetworkKind::Local, 2);
    for number in 0..2 {
        world.act(number, Action::ChangeNode { node: node(number), descriptor: offer_slots(1) });
    }
    let jobs = ask_all(&mut world, CLIENT, vec![offering(LOWEST); 3]);
    assert_eq!(running(&world, &jobs), [0, 1]);
    let [number] = world.runners(jobs[0])[..] else { unreachable!("one run") };
    let before = world.known(jobs[0]).queued;
    let failure = tg_types::RunFailure::Declined;
    world.act(number, Action::GiveUp { job: jobs[0], failure });
    assert_eq!(running(&world, &jobs), [1, 2]);
    assert!(world.known(jobs[0]).queued > before);
}

/// Goal: the events say who was placed, in the order of the queue. Method: all slots come free at
/// once.
#[test]
fn placements_of_a_block_are_in_the_order_of_the_keys() {
    let mut world = closed_node(patient_params());
    let offers = [1, 8, 2, 4, 8].map(|times| offering(times * LOWEST));
    let jobs = ask_all(&mut world, CLIENT, offers.to_vec());
    let descriptor = offer_slots(64);
    let change = world.tx(voice(0), Action::ChangeNode { node: node(0), descriptor });
    let applied = world.block(&[change]);
    let placed = |event: &Event| {
        let Event::JobPlaced { job, .. } = event else { return None };
        jobs.iter().position(|it| it == job)
    };
    let placed: Vec<usize> = applied.block_receipt.events.iter().filter_map(placed).collect();
    assert_eq!(placed, [1, 4, 3, 2, 0]);
}
