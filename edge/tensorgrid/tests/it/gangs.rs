//! Commands on several machines at once.

use crate::{
    checkpoints::credited,
    provide::Network,
    support::{Home, PATIENCE, text, turn, wait_until},
};
use std::{fs, time::Duration};

/// What a member does: says which it is and leaves that in a file.
const COMMAND: &str = "echo rank $TG_RANK of $TG_NODES; echo $TG_RANK > /out/rank.txt";

/// Goal: a job for two machines waits while there is one, begins when there are two, and what its
/// members leave comes back apart. Method: one machine, then another.
#[test]
fn gang_of_two_runs_on_two_providers_with_ranks() {
    let _turn = turn();
    let network = Network::start();
    let (here, there) = (Home::new(), Home::new());
    let first = network.provider(&here, &["--slots", "2"]);
    wait_until("the first node has credit", PATIENCE, || credited(&network) == 1);
    let run = ["--json", "run", "--detach", "--run-max", "30s", "--nodes", "2"];
    let command = ["--", "sh", "-c", COMMAND];
    let ran = network.home.run(&[&run[..], &command].concat()).expect(0);
    assert!(ran.err.contains("It needs 2 nodes at once, and 1 would"), "{ran:?}");
    let job = ran.json()["job"].as_str().expect("an id").to_owned();
    let show = || network.home.run(&["--json", "show", &job]).expect(0).json();
    let waiting = show();
    assert_eq!((&waiting["status"], &waiting["nodes"]), (&"queued".into(), &2.into()));
    let small = ["--json", "run", "--run-max", "20s", "--", "true"];
    let passed = network.home.run(&small).expect(0).json();
    assert_eq!(passed["status"], "settled", "smaller jobs pass it");
    assert_eq!(show()["status"], "queued");
    let why = network.home.run(&["why", &job]).expect(0);
    assert!(why.out.contains("It needs 2 nodes at once."), "{why:?}");
    let second = network.provider(&there, &["--slots", "2"]);
    network.wait_settled(&job, Duration::from_secs(60));
    let done = show();
    let runs = done["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    assert_ne!(runs[0]["node"], runs[1]["node"], "on different machines");
    let out = network.home.path("out");
    network.home.run(&["cp", &job, text(&out)]).expect(0);
    for rank in ["0", "1"] {
        let left = fs::read_to_string(out.join(rank).join("rank.txt")).expect("written");
        assert_eq!(left.trim(), rank);
        let said = network.home.run(&["logs", &job, "--rank", rank]).expect(0);
        assert_eq!(said.out.trim(), format!("rank {rank} of 2"));
    }
    let file = network.home.path("gang.tg.yaml");
    fs::write(&file, "name: gang\nnum_nodes: 2\nrun: echo member $TG_RANK\n").expect("written");
    let ran = network.home.run(&["run", "--run-max", "30s", text(&file)]).expect(0);
    assert!(ran.out.contains("0: member 0") && ran.out.contains("1: member 1"), "{ran:?}");
    let run = ["--json", "run", "--detach", "--run-max", "30s", "--nodes", "3", "--", "true"];
    let job = network.home.run(&run).expect(0).json()["job"].as_str().expect("an id").to_owned();
    let unchanged = network.home.run(&["adjust", &job]).expect(2);
    assert!(unchanged.err.contains("--nodes"), "{unchanged:?}");
    let changed = network.home.run(&["--json", "adjust", &job, "--nodes", "2"]).expect(0).json();
    assert_eq!(changed["nodes"], 2, "it is made smaller and begins");
    network.wait_settled(&job, Duration::from_secs(60));
    let late = network.home.run(&["adjust", &job, "--bid", "1"]).expect(1);
    assert!(late.err.contains("has ended"), "{late:?}");
    for provider in [first, second] {
        assert_eq!(provider.stop("INT").0.code(), Some(0));
    }
    network.stop();
}

/// Goal: what cannot run on several machines is refused with a word. Method: what a user may type.
#[test]
fn gangs_that_cannot_be_are_refused_with_a_word() {
    let _turn = turn();
    let network = Network::start();
    let check = |options: &[&str], expected: &str| {
        let run = ["run", "--nodes", "2"];
        let refused = network.home.run(&[&run[..], options, &["--", "true"]].concat()).expect(2);
        assert!(refused.err.contains(expected), "{refused:?}");
    };
    check(&["--verify", "redundant:2"], "cannot be compared");
    check(&["--checkpoint", "/ckpt"], "has no checkpoints");
    check(&["--array", "3"], "one node each");
    let many = network.home.run(&["run", "--nodes", "17", "--", "true"]).expect(2);
    assert!(many.err.contains("16"), "{many:?}");
    network.stop();
}
