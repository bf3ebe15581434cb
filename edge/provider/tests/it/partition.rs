//! Partitions that the scheduler has decided, carried out through a library with the C interface of
//! NVML: what its model allows, the placement rules of an A100 allow, and the other way round.

use crate::nvml::{A100, Machine, RTX};
use std::collections::BTreeSet;
use tg_provider::devices::{Catalogue, DeviceId, NvidiaFault};
use tg_provider::partition::{Made, PartitionFault, Partitioner, Place};
use tg_scheduler::catalogue::Split;
use tg_scheduler::sharing::{Gpu, Profile, Take, profiles};

/// The A100 as one piece, with MIG on.
const UNCUT: &str = "gpu 1 instance 0 absent\ngpu 1 instance 1 absent\ngpu 1 instance 2 absent\n";

fn uncut() -> Machine {
    let machine = Machine::new();
    machine.state(UNCUT);
    machine
}

fn open(machine: &Machine) -> Partitioner {
    Partitioner::open(&machine.settings()).expect("the library works")
}

fn id(catalogue: &Catalogue, uuid: &str) -> DeviceId {
    let found = catalogue.devices().iter().find(|facts| facts.id.as_str() == uuid);
    found.expect("it is there").id.clone()
}

fn a100(machine: &Machine) -> DeviceId {
    id(&machine.detect(), A100)
}

fn place(profile: Profile, start: u8) -> Place {
    Place { compute: profile.compute, memory: profile.memory, start }
}

fn places(made: &[Made]) -> BTreeSet<Place> {
    made.iter().map(|made| made.place).collect()
}

const SMALL: Place = Place { compute: 1, memory: 1, start: 6 };

#[test]
fn driver_lists_the_places_that_the_scheduler_knows() {
    let machine = Machine::new();
    let listed = open(&machine).places(&a100(&machine)).expect("MIG is on");
    let known = profiles(Split::Mig7).iter().flat_map(|it| it.starts().map(|at| place(*it, at)));
    let mut known: Vec<Place> = known.collect();
    known.sort_unstable();
    assert_eq!(listed, known);
}

/// Goal: an A100 serves seven strangers, each on a device of its own.
#[test]
fn a100_splits_into_seven_devices_and_no_more() {
    let machine = uncut();
    let (partitioner, device) = (open(&machine), a100(&machine));
    let one = profiles(Split::Mig7)[0];
    let (mut gpu, mut ids) = (Gpu::FREE, BTreeSet::new());
    while let Some((with, start)) = gpu.with(Take::Part(one), Split::Mig7) {
        let made = partitioner.make(&device, place(one, start)).expect("the driver agrees");
        ids.insert(made.id.expect("wholly made"));
        gpu = with;
    }
    assert_eq!(ids.len(), 7);
    let catalogue = machine.detect();
    let facts = catalogue.devices().iter().find(|facts| facts.id == device).expect("it is there");
    let seen: BTreeSet<DeviceId> = facts.partitions.iter().map(|part| part.id.clone()).collect();
    assert_eq!(seen, ids);
    assert!(facts.partitions.iter().all(|part| part.profile == "1g.10gb"));
    for start in 0..7 {
        let fault = partitioner.make(&device, place(one, start)).expect_err("no eighth");
        assert!(matches!(&fault, PartitionFault::NoRoom { taken, .. } if taken.len() == 7));
    }
}

/// Goal: the driver accepts whatever the scheduler's model decides, and what the model refuses for
/// want of room has no place at the driver either. Method: random requests and returns.
#[test]
fn prop_decisions_of_the_scheduler_are_carried_out() {
    let machine = uncut();
    let (partitioner, device) = (open(&machine), a100(&machine));
    let listed = partitioner.places(&device).expect("MIG is on");
    arbtest::arbtest(|u| {
        let mut gpu = Gpu::FREE;
        let mut held: Vec<(Profile, Made)> = Vec::new();
        for _ in 0..u.int_in_range(0..=24)? {
            if !held.is_empty() && u.ratio(2, 5)? {
                let (profile, made) = held.swap_remove(u.choose_index(held.len())?);
                partitioner.remove(&device, made.instance).expect("it was made");
                gpu = gpu.without(Take::Part(profile), made.place.start).expect("it was taken");
                continue;
            }
            let profile = *u.choose(profiles(Split::Mig7))?;
            if let Some((with, start)) = gpu.with(Take::Part(profile), Split::Mig7) {
                let made = partitioner.make(&device, place(profile, start)).expect("it agrees");
                assert!(made.id.is_some() && held.iter().all(|(_, other)| other.id != made.id));
                held.push((profile, made));
                gpu = with;
                continue;
            }
            let alike = |it: &&Place| (it.compute, it.memory) == (profile.compute, profile.memory);
            for place in listed.iter().filter(alike) {
                let refused = partitioner.make(&device, *place);
                assert!(matches!(refused, Err(PartitionFault::NoRoom { .. })), "{place}");
            }
        }
        let made = partitioner.list(&device).expect("MIG is on");
        assert_eq!(places(&made), held.iter().map(|(_, made)| made.place).collect());
        for made in made {
            partitioner.remove(&device, made.instance).expect("nobody uses it");
        }
        Ok(())
    })
    .budget_ms(5_000);
}

#[test]
fn partitions_outlive_the_program_that_made_them() {
    let machine = Machine::new();
    let device = a100(&machine);
    let before = open(&machine).list(&device).expect("MIG is on");
    let at = |compute, memory, start| Place { compute, memory, start };
    assert_eq!(places(&before), [at(3, 4, 4), at(2, 2, 2), at(1, 1, 1)].into());
    let made = open(&machine).make(&device, at(1, 1, 0)).expect("room");
    let partitioner = open(&machine);
    let after = partitioner.list(&device).expect("MIG is on");
    assert_eq!(after.len(), 4);
    assert!(after.contains(&made));
    for made in after {
        partitioner.remove(&device, made.instance).expect("nobody uses it");
    }
    assert_eq!(partitioner.list(&device), Ok(Vec::new()));
    let unknown = PartitionFault::Unknown { device: device.clone(), instance: made.instance };
    assert_eq!(partitioner.remove(&device, made.instance), Err(unknown));
}

#[test]
fn gpus_that_are_not_to_be_split_say_why() {
    let machine = uncut();
    let catalogue = machine.detect();
    let (rtx, device) = (id(&catalogue, RTX), id(&catalogue, A100));
    let partitioner = open(&machine);
    let no_mig = PartitionFault::NoMig { device: rtx.clone() };
    assert_eq!(partitioner.make(&rtx, SMALL), Err(no_mig.clone()));
    machine.state(&format!("{UNCUT}gpu 1 mig off"));
    let off = PartitionFault::MigOff { device: device.clone() };
    assert_eq!(partitioner.make(&device, SMALL), Err(off.clone()));
    assert!(off.fix().contains("-mig 1") && no_mig.fix().contains("whole"));
    machine.state("gpu 1 absent");
    let gone = PartitionFault::NoDevice { device: device.clone() };
    assert_eq!(partitioner.list(&device), Err(gone));
}

/// Goal: a refusal changes nothing. Method: every function that can fail on the way.
#[test]
fn faults_are_told_and_leave_nothing_behind() {
    let check = |lines: &str, expected: fn(DeviceId) -> PartitionFault| {
        let machine = uncut();
        let (partitioner, device) = (open(&machine), a100(&machine));
        machine.state(&format!("{UNCUT}{lines}"));
        assert_eq!(partitioner.make(&device, SMALL), Err(expected(device.clone())), "{lines}");
        machine.state(UNCUT);
        assert_eq!(partitioner.list(&device), Ok(Vec::new()), "{lines}");
    };
    let refused = |_| PartitionFault::Nvidia(NvidiaFault::Lost);
    check("fail nvmlDeviceCreateGpuInstanceWithPlacement 4 gpu 1", |device| {
        PartitionFault::NoPermission { device }
    });
    check("fail nvmlDeviceCreateGpuInstanceWithPlacement 23 gpu 1", |device| {
        PartitionFault::NoRoom { device, place: SMALL, taken: Vec::new() }
    });
    check("fail nvmlGpuInstanceCreateComputeInstance 4 gpu 1", |device| {
        PartitionFault::NoPermission { device }
    });
    check("fail nvmlDeviceGetGpuInstanceId 15 gpu 1", refused);
    check("fail nvmlGpuInstanceGetInfo 15 gpu 1", refused);
    check("fail nvmlDeviceGetMigDeviceHandleByIndex 6 gpu 1", |device| PartitionFault::Unlisted {
        device,
        instance: 1,
    });
    check("fail nvmlDeviceGetGpuInstanceProfileInfo 15 gpu 1", refused);
}

#[test]
fn place_that_the_driver_does_not_make_is_refused() {
    let machine = uncut();
    let (partitioner, device) = (open(&machine), a100(&machine));
    for (compute, memory, start) in [(1, 1, 7), (4, 4, 4), (3, 4, 2), (5, 4, 0), (2, 4, 0)] {
        let place = Place { compute, memory, start };
        let expected = PartitionFault::NoPlace { device: device.clone(), place };
        assert_eq!(partitioner.make(&device, place), Err(expected));
    }
}

#[test]
fn partition_that_is_in_use_is_not_removed() {
    let machine = uncut();
    let (partitioner, device) = (open(&machine), a100(&machine));
    let made = partitioner.make(&device, SMALL).expect("room");
    machine.state("fail nvmlComputeInstanceDestroy 19 gpu 1");
    let fault = PartitionFault::InUse { device: device.clone(), instance: made.instance };
    assert_eq!(partitioner.remove(&device, made.instance), Err(fault.clone()));
    assert!(fault.to_string().contains("in use") && fault.fix().contains("end the programs"));
    machine.state("");
    assert_eq!(partitioner.list(&device), Ok(vec![made.clone()]));
    assert_eq!(partitioner.remove(&device, made.instance), Ok(()));
}

#[test]
fn driver_without_partitions_is_too_old() {
    let machine = uncut();
    machine.take_away("nvmlDeviceCreateGpuInstanceWithPlacement");
    let fault = open(&machine).make(&a100(&machine), SMALL).expect_err("no such function");
    assert!(matches!(fault, PartitionFault::Nvidia(NvidiaFault::TooOld { .. })), "{fault:?}");
    assert!(fault.fix().contains("update"));
}
