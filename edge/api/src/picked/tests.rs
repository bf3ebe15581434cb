//! What a provider is told about jobs that its node was not given.

use super::PickedView;
use crate::eta::Ground;
use crate::eta::tests::{NODE, NOW, candidate, job};
use crate::text::Tgrid;
use crate::why::Candidate;
use tg_ledger::JobEntry;
use tg_scheduler::GpuMix;
use tg_scheduler::pace::Forecast;
use tg_types::{Amount, CapacityParams, JobId, NodeId, Params, SecretKey};

const OTHER: NodeId = NodeId::new([6; 32]);

/// Another node of another owner, at this price.
fn other(price: u64) -> Candidate {
    let mut other = candidate(1, 0);
    other.id = OTHER;
    other.entry.owner = SecretKey::from_seed([7; 32]).public().into();
    other.entry.descriptor.price_per_hour = Amount::constant(price);
    other
}

fn picked(nodes: &[Candidate], node: NodeId, entry: &JobEntry) -> Option<PickedView> {
    let params = Params { capacity: CapacityParams::OFF, ..Params::local() };
    let ground = Ground { params: &params, nodes, mix: &GpuMix::default(), now: NOW };
    ground.picked(&node, (&JobId::new([1; 32]), entry), None, &Forecast::default())
}

#[test]
fn provider_is_told_the_rule_or_the_part_and_what_would_win() {
    let cheap = {
        let mut cheap = candidate(1, 0);
        cheap.entry.descriptor.price_per_hour = Amount::constant(500);
        cheap
    };
    let waiting = job(10, false); // pays 1,000 for an hour
    let nodes = [cheap.clone(), other(900)];
    let best = picked(&nodes, NODE, &waiting).expect("it is there");
    assert_eq!((best.outcome.as_str(), best.behind.len()), ("best", 0));
    let behind = picked(&nodes, OTHER, &waiting).expect("it is there");
    assert_eq!(behind.outcome, "behind");
    assert_eq!(behind.best.map(|best| best.0), Some(NODE));
    assert_eq!(behind.behind.iter().map(|it| it.part.as_str()).collect::<Vec<_>>(), ["price"]);
    let Some(Tgrid(price)) = behind.price_per_hour else { panic!("{behind:?}") };
    assert!((500..640).contains(&price.units()), "{behind:?}");
    assert!(behind.sentence.contains("cheapest change: ask for"), "{}", behind.sentence);
    let dear = picked(&[cheap, other(2_000)], OTHER, &waiting).expect("it is there");
    assert_eq!((dear.outcome.as_str(), dear.rule.as_deref()), ("removed", Some("price")));
    assert!(dear.price_per_hour.is_some_and(|Tgrid(price)| price.units() < 1_000), "{dear:?}");
    assert_eq!(picked(&nodes, NodeId::new([9; 32]), &waiting), None);
}

/// Goal: a run that was given is no reason for anything: its node is held against others as if it
/// did not run it yet. Method: an equal node beside one that has the job.
#[test]
fn node_is_held_against_who_runs_the_job_as_if_it_did_not_yet() {
    let running = job(10, true);
    let nodes = [candidate(1, 1), other(1)];
    let given = picked(&nodes, NODE, &running).expect("it is there");
    assert_eq!(given.outcome, "given");
    let equal = picked(&nodes, OTHER, &running).expect("it is there");
    assert_eq!(
        (equal.outcome.as_str(), equal.sentence.as_str()),
        ("best", "others are as good, and the draw decides")
    );
    let mut poor = other(1);
    poor.stake_free = Amount::constant(1);
    let poor = picked(&[candidate(1, 1), poor], OTHER, &running).expect("it is there");
    assert_eq!(poor.rule.as_deref(), Some("stake"));
    assert!(poor.stake_more.is_some(), "{poor:?}");
}
