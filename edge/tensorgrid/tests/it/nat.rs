//! A provider at home: `tests/nat.sh` in namespaces, where it can run.

use crate::support::turn;
use std::process::Command;

/// What the script ends with where it cannot run.
const SKIPPED: i32 = 77;

/// Goal: a machine behind a router that lets nothing in joins with a ticket and works, and whoever
/// listens in between reads nothing. Method: namespaces, see the script.
#[test]
#[ignore = "slow: builds networks of namespaces, needs root, ip, nft and tcpdump"]
fn provider_behind_a_router_works_and_nobody_reads_along_slow() {
    let _turn = turn();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nat.sh");
    let lab = Command::new("bash").arg(script).arg(env!("CARGO_BIN_EXE_tensorgrid")).status();
    let status = lab.expect("bash runs");
    if status.code() == Some(SKIPPED) {
        eprintln!("!!! SKIPPED: a provider behind a router was not tried on this machine");
        return;
    }
    assert!(status.success(), "{status}");
}
