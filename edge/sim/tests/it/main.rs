//! The simulator as its users run it: the same seed gives the same run, another seed another one,
//! and the first seeds hold. The binary is started, so that its command line is tested as well.

use serde_json::Value;
use std::process::{Command, Output};

/// Runs `tg-sim` with these arguments.
fn tg_sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tg-sim")).args(args).output().expect("tg-sim starts")
}

/// The object that one seed prints.
fn run(seed: &str) -> Value {
    let output = tg_sim(&["--seed", seed, "--json"]);
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    let object: Value = serde_json::from_str(&text).expect("one object");
    assert_eq!(output.status.code(), Some(0), "TG_SEED={seed} {object}");
    object
}

#[test]
fn sim_same_seed_gives_same_trace() {
    let (first, second) = (run("3"), run("3"));
    for field in ["trace_hash", "blocks", "faults", "txs_acknowledged", "virtual_s"] {
        assert_eq!(first[field], second[field], "{field}");
    }
}

#[test]
fn sim_other_seed_gives_other_trace() {
    assert_ne!(run("1")["trace_hash"], run("2")["trace_hash"]);
}

#[test]
fn sim_first_seeds_hold() {
    let output = tg_sim(&["--seeds", "4", "--json"]);
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object per line")).collect();
    assert_eq!(lines.len(), 5, "four seeds and a summary");
    for line in lines.iter().take(4) {
        assert_eq!(line["violations"], serde_json::json!([]), "{line}");
        assert!(line["blocks"].as_u64() >= Some(60), "{line}");
        assert!(line["faults"].as_u64() >= Some(20), "{line}");
    }
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn sim_unknown_plant_is_misuse() {
    let output = tg_sim(&["--plant", "no-such-bug"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("hint:"));
}
