//! Commands that go on elsewhere where they were saved last.

use crate::{
    provide::Network,
    support::{Home, PATIENCE, text, turn, wait_until},
};
use serde_json::Value;
use std::{fs, time::Duration};

/// How far the command counts; it takes a second for each.
pub(crate) const UNTIL: u32 = 30;

/// Hands the counter of the examples in, saved every five seconds; says its id.
pub(crate) fn count(network: &Network, options: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/counter/counter.sh");
    let until = format!("UNTIL={UNTIL}");
    let run = ["--json", "run", "--detach", "--run-max", "90s", "-i", script];
    let run = [&run[..], &["-e", &until, "-e", "PAUSE=1"]].concat();
    let saved = ["--checkpoint", "/ckpt", "--checkpoint-every", "5s"];
    let command = ["--", "sh", "/in/counter.sh"];
    let ran = network.home.run(&[&run[..], &saved, options, &command].concat()).expect(0).json();
    ran["job"].as_str().expect("an id").to_owned()
}

pub(crate) fn show(network: &Network, job: &str) -> Value {
    network.home.run(&["--json", "show", job]).expect(0).json()
}

pub(crate) fn is_saved(network: &Network, job: &str) -> bool {
    show(network, job)["checkpoint"]["saved"].is_u64()
}

/// A number that the counter left.
pub(crate) fn left(network: &Network, job: &str, name: &str) -> u32 {
    let out = network.home.path(&format!("out-{job}"));
    if !out.exists() {
        network.home.run(&["cp", job, text(&out)]).expect(0);
    }
    let number = fs::read_to_string(out.join(name)).expect("written");
    number.trim().parse().expect("a number")
}

/// How many nodes have shown what they can do.
pub(crate) fn credited(network: &Network) -> usize {
    let listed = network.home.run(&["--json", "nodes"]).expect(0).json();
    let nodes = listed["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().filter(|node| !node["node"]["devices"][0]["proved"].is_null()).count()
}

/// Goal: a command whose machine dies goes on elsewhere, and loses no more than what it did since
/// it was saved last. Method: a machine that counts, is seen to save, and is killed; then another.
#[test]
fn command_goes_on_where_it_was_saved_when_its_machine_dies() {
    let _turn = turn();
    let network = Network::start();
    let (here, there) = (Home::new(), Home::new());
    let mut first = network.provider(&here, &["--slots", "1"]);
    wait_until("the first node has credit", PATIENCE, || credited(&network) == 1);
    let job = count(&network, &[]);
    wait_until("the job is saved", PATIENCE, || is_saved(&network, &job));
    let words = network.home.run(&["show", &job]).expect(0);
    assert!(words.out.contains("of work; every 5s"), "{words:?}");
    let second = network.provider(&there, &["--slots", "1"]);
    wait_until("the second node has credit", PATIENCE, || credited(&network) == 2);
    let saved = show(&network, &job);
    assert_eq!(saved["status"], "running", "{saved}");
    first.kill();
    network.wait_settled(&job, Duration::from_secs(120));
    let (began, ended) = (left(&network, &job, "began_at"), left(&network, &job, "count"));
    assert!((1..UNTIL).contains(&began), "it began at {began}");
    assert_eq!(ended, UNTIL);
    let least = saved["checkpoint"]["ran_ms"].as_u64().expect("saved") / 1_000;
    assert!(u64::from(began) + 8 >= least, "{began} of {least} seconds of saved work are left");
    assert_eq!(second.stop("INT").0.code(), Some(0));
    network.stop();
}

/// Goal: checkpoints that cannot be are refused with a word, before anything is sealed. Method:
/// what a user may type.
#[test]
fn checkpoints_that_cannot_be_are_refused() {
    let _turn = turn();
    let network = Network::start();
    let check = |options: &[&str], expected: &str| {
        let run = ["run", "--checkpoint"];
        let refused = [&run[..], options, &["--", "true"]].concat();
        let refused = network.home.run(&refused).expect(2);
        assert!(refused.err.contains(expected), "{refused:?}");
    };
    check(&["/tmp"], "that no system uses");
    check(&["ckpt"], "that no system uses");
    check(&["/a/b"], "that no system uses");
    check(&["/ckpt", "--checkpoint-every", "1s"], "five seconds apart");
    check(&["/ckpt", "--verify", "redundant:2"], "cannot go on from one");
    let alone = network.home.run(&["run", "--checkpoint-every", "10s", "--", "true"]).expect(2);
    assert!(alone.err.contains("--checkpoint"), "{alone:?}");
    network.stop();
}

/// Goal: where there is no room, a job that offers much more begins at once in the place of one
/// that is saved, and that one goes on later without losing anything. Method: a machine with one
/// slot that counts, and an urgent command; the last number is saved when the counter makes room.
#[test]
fn command_makes_room_for_a_much_better_offer_and_goes_on_where_it_stopped() {
    let _turn = turn();
    let network = Network::start();
    let there = Home::new();
    let provider = network.provider(&there, &["--slots", "1"]);
    wait_until("the node has credit", PATIENCE, || credited(&network) == 1);
    let job = count(&network, &[]);
    wait_until("the job is saved", PATIENCE, || is_saved(&network, &job));
    // A run is left alone in its first seconds.
    let ran = |shown: &Value| shown["checkpoint"]["ran_ms"].as_u64().is_some_and(|ms| ms > 10_000);
    wait_until("the job has run for a while", PATIENCE, || ran(&show(&network, &job)));
    let urgent = ["--json", "run", "--priority", "3", "--run-max", "90s"];
    let command = ["--", "sh", "-c", "echo urgent"];
    let done = network.home.run(&[&urgent[..], &command].concat()).expect(0).json();
    assert_eq!(done["status"], "settled");
    let other = show(&network, &job);
    assert_eq!(other["checkpoint"]["yields"], 1, "{other}");
    assert_ne!(other["status"], "settled", "it made room: {other}");
    let paid = other["checkpoint"]["paid"].as_str().expect("an amount").to_owned();
    assert_ne!(paid, "0", "it was paid for its time");
    let words = network.home.run(&["show", &job]).expect(0);
    assert!(words.out.contains("made room for a job that offers more, once"), "{words:?}");
    let saved = other["checkpoint"]["ran_ms"].as_u64().expect("saved") / 1_000;
    network.wait_settled(&job, Duration::from_secs(120));
    let (began, ended) = (left(&network, &job, "began_at"), left(&network, &job, "count"));
    assert_eq!(ended, UNTIL);
    assert!(u64::from(began) + 6 >= saved && began > 5, "{began} after {saved} s");
    assert_eq!(provider.stop("INT").0.code(), Some(0));
    network.stop();
}
