//! Machines, mixes and places on random fleets.

use super::{
    Demand, Fleet, GPU_MILLI, Gpus, Judge as _, Learner, Machine, Mix, Models, Placed, Shape, Slot,
};
use arbtest::arbitrary::{Result, Unstructured};
use std::collections::BTreeMap;

fn shape(u: &mut Unstructured<'_>) -> Result<Shape> {
    Ok(Shape {
        model: u.int_in_range(0..=2)?,
        gpus: *u.choose(&[0, 1, 2, 8])?,
        cpu_milli: *u.choose(&[0, 8_000, 64_000, 96_000])?,
        memory_mib: *u.choose(&[0, 1 << 15, 1 << 18])?,
    })
}

fn demand(u: &mut Unstructured<'_>) -> Result<Demand> {
    let gpus = Gpus::new(*u.choose(&[0, 1, 1, 1, 2, 8])?, *u.choose(&[0, 100, 460, 810, 1_000])?);
    let models =
        if u.ratio(1, 4)? { Models::NONE.with(u.int_in_range(0..=2)?) } else { Models::ANY };
    let cpu_milli = *u.choose(&[0, 1_000, 6_000, 12_000, 80_000])?;
    Ok(Demand { gpus, models, cpu_milli, memory_mib: *u.choose(&[0, 4_096, 60_000])? })
}

fn many<T>(
    u: &mut Unstructured<'_>,
    most: usize,
    one: fn(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = u.int_in_range(0..=most)?;
    (0..count).map(|_| one(u)).collect()
}

fn mix_of(tasks: &[Demand], shapes: &[Shape]) -> Mix {
    let mut fleet = BTreeMap::new();
    for shape in shapes {
        *fleet.entry(*shape).or_default() += 1;
    }
    Mix::new(tasks.iter().map(|task| (task, 1)), &fleet)
}

#[test]
fn whole_gpus_and_shares_are_told_apart() {
    assert_eq!(Gpus::new(0, 500), Gpus::None);
    assert_eq!(Gpus::new(1, 0), Gpus::None);
    assert_eq!(Gpus::new(1, 999), Gpus::Share(999));
    assert_eq!(Gpus::new(1, GPU_MILLI), Gpus::Whole(1));
    assert_eq!(Gpus::new(4, 10), Gpus::Whole(4));
    assert_eq!(
        (Gpus::Whole(4).milli(), Gpus::Share(10).milli(), Gpus::None.milli()),
        (4_000, 10, 0)
    );
}

/// Goal: what is taken is what was wanted, and a task has a place exactly if it fits. Method:
/// random tasks on one machine until none fits.
#[test]
fn prop_machine_gives_what_a_task_takes_and_no_more() {
    arbtest::arbtest(|u| {
        let mut machine = Machine::new(shape(u)?);
        for task in many(u, 12, demand)? {
            let slots: Vec<Slot> = machine.slots(&task).collect();
            let places: Vec<Machine> =
                slots.iter().filter_map(|slot| machine.with(&task, *slot)).collect();
            assert_eq!(machine.fits(&task), can_run(&machine, &task));
            if !machine.fits(&task) {
                continue;
            }
            assert_eq!(places.len(), slots.len(), "every place that is named is one");
            let Some(left) = places.last() else { continue };
            assert_eq!(left.gpu_milli() + task.gpus.milli(), machine.gpu_milli());
            assert_eq!(left.cpu_milli() + task.cpu_milli, machine.cpu_milli());
            assert_eq!(left.memory_mib() + task.memory_mib, machine.memory_mib());
            machine = *left;
        }
        Ok(())
    });
}

/// The same question asked in another way: by trying every GPU.
fn can_run(machine: &Machine, task: &Demand) -> bool {
    let is_model = task.gpus == Gpus::None || task.models.contains(machine.shape().model);
    let shared = (0..machine.shape().gpus).map(Slot::Shared);
    let tried = shared.chain([Slot::Whole]).any(|slot| machine.with(task, slot).is_some());
    is_model && tried
}

#[test]
fn task_that_needs_another_kind_of_place_is_refused() {
    let shape = Shape { model: 0, gpus: 2, cpu_milli: 1_000, memory_mib: 10 };
    let machine = Machine::new(shape);
    let task = |gpus| Demand { gpus, models: Models::ANY, cpu_milli: 1, memory_mib: 1 };
    assert_eq!(machine.with(&task(Gpus::Whole(1)), Slot::Shared(0)), None);
    assert_eq!(machine.with(&task(Gpus::Share(1)), Slot::Whole), None);
    assert_eq!(machine.with(&task(Gpus::Share(1)), Slot::Shared(16)), None);
    assert_eq!(machine.with(&task(Gpus::Whole(3)), Slot::Whole), None);
    let huge = Machine::new(Shape { gpus: u8::MAX, ..shape });
    assert_eq!(usize::from(huge.shape().gpus), super::GPUS_MAX);
}

/// Goal: a place is judged by what is left of the machine, not by where the machine stands. Method:
/// the same fleet in two orders gives the best place the same worth, after every task.
#[test]
fn prop_order_of_machines_changes_no_worth() {
    arbtest::arbtest(|u| {
        let shapes = many(u, 6, shape)?;
        let tasks = many(u, 10, demand)?;
        let mix = mix_of(&tasks, &shapes);
        let mut fleet = Fleet::new(shapes.iter().copied(), mix.clone());
        for task in &tasks {
            let worth = |machine: &Machine| mix.best(machine, task).map(|(worth, _)| worth);
            let most = fleet.machines().iter().rev().filter_map(worth).max();
            let placed = fleet.best(task);
            let found = placed.and_then(|placed| worth(&fleet.machines()[placed.machine]));
            assert_eq!(found, most);
            if let Some(placed) = placed {
                assert!(fleet.place(task, placed), "a place that was found is one");
            }
        }
        Ok(())
    });
}

/// Goal: what was found for a kind of task is forgotten when it no longer holds. Method: a fleet
/// that has been asked before decides as one that is asked for the first time.
#[test]
fn prop_what_is_remembered_changes_no_decision() {
    arbtest::arbtest(|u| {
        let shapes = many(u, 6, shape)?;
        let tasks = many(u, 16, demand)?;
        let mut fleet = Fleet::new(shapes.iter().copied(), Mix::default());
        let by_shape = fleet.shapes();
        let mut learner = Learner::default();
        let mut mix = Mix::default();
        for task in &tasks {
            if learner.observe(task) {
                mix = learner.mix(&by_shape);
                fleet.judge_by(mix.clone());
            }
            let worths = fleet.machines().iter().map(|machine| mix.best(machine, task));
            let mut fresh: Option<(i64, Placed)> = None;
            for (machine, worth) in worths.enumerate() {
                let Some((worth, slot)) = worth else { continue };
                if fresh.is_none_or(|(most, _)| worth > most) {
                    fresh = Some((worth, Placed { machine, slot }));
                }
            }
            let placed = fleet.best(task);
            assert_eq!(placed, fresh.map(|(_, placed)| placed));
            if let Some(placed) = placed {
                fleet.place(task, placed);
            }
        }
        Ok(())
    });
}

#[test]
fn place_that_is_none_changes_nothing() {
    let shape = Shape { model: 0, gpus: 1, cpu_milli: 1_000, memory_mib: 10 };
    let mut fleet = Fleet::new([shape], Mix::default());
    let task = Demand { gpus: Gpus::Whole(2), models: Models::ANY, cpu_milli: 1, memory_mib: 1 };
    assert_eq!(fleet.best(&task), None);
    assert!(!fleet.place(&task, Placed { machine: 0, slot: Slot::Whole }));
    assert!(!fleet.place(&task, Placed { machine: 1, slot: Slot::Whole }));
    assert_eq!(fleet.machines(), [Machine::new(shape)]);
}

/// Goal: a share goes where its rest is of use. Method: tasks are of 400 and 600 thousandths; of
/// two GPUs one has 600 left.
#[test]
fn share_goes_where_nothing_is_left_over() {
    let shape = Shape { model: 0, gpus: 2, cpu_milli: 64_000, memory_mib: 1 << 18 };
    let task = |milli| Demand {
        gpus: Gpus::Share(milli),
        models: Models::ANY,
        cpu_milli: 1_000,
        memory_mib: 1,
    };
    let mix = mix_of(&[task(400), task(600)], &[shape]);
    let used = Machine::new(shape).with(&task(400), Slot::Shared(0)).expect("room");
    assert_eq!(mix.best(&used, &task(600)).map(|(_, slot)| slot), Some(Slot::Shared(0)));
}

/// Goal: small tasks leave alone what only they can do without. Method: of two free machines one
/// could run a large task that comes now and then.
#[test]
fn small_task_avoids_the_machine_that_others_need() {
    let small = Shape { model: 0, gpus: 2, cpu_milli: 64_000, memory_mib: 1 << 18 };
    let large = Shape { gpus: 8, cpu_milli: 96_000, ..small };
    let task = |gpus, cpu_milli| Demand { gpus, models: Models::ANY, cpu_milli, memory_mib: 1 };
    let one = task(Gpus::Whole(1), 4_000);
    let tasks = [vec![one; 8], vec![task(Gpus::Whole(8), 90_000)]].concat();
    let mut fleet = Fleet::new([large, small], mix_of(&tasks, &[large, small]));
    assert_eq!(fleet.best(&one).map(|placed| placed.machine), Some(1));
    // Before anything is known the same holds, because the whole machine may be wanted.
    let mut learner = Learner::default();
    learner.observe(&one);
    let mut fleet = Fleet::new([large, small], learner.mix(&fleet.shapes()));
    assert_eq!(fleet.best(&one).map(|placed| placed.machine), Some(1));
}

/// Goal: old tasks fade. Method: as many tasks as are remembered of one kind, then of another: the
/// mix is that of the second.
#[test]
fn learner_forgets_what_no_longer_comes() {
    let shape = Shape { model: 0, gpus: 8, cpu_milli: 96_000, memory_mib: 1 << 18 };
    let task = |milli| Demand {
        gpus: Gpus::Share(milli),
        models: Models::ANY,
        cpu_milli: 1_000,
        memory_mib: 1,
    };
    let fleet = BTreeMap::from([(shape, 1)]);
    let (mut turned, mut fresh) = (Learner::default(), Learner::default());
    let mut times = 0;
    for _ in 0..1 << 16 {
        times += u32::from(turned.observe(&task(300)));
    }
    assert!(times < 300, "the mix is not made anew for every task: {times}");
    for _ in 0..1 << 20 {
        turned.observe(&task(700));
        fresh.observe(&task(700));
    }
    let worth = |learner: &Learner| {
        let best = learner.mix(&fleet).best(&Machine::new(shape), &task(700));
        best.map_or(0, |(worth, _)| worth)
    };
    // What is only imagined counts a little more or less, as the window is fuller or emptier.
    let apart = (worth(&turned) - worth(&fresh)).abs();
    assert!(apart < worth(&fresh).abs() / 100, "{apart} of {}", worth(&fresh));
}
