//! Behind routers: `tests/natlab.sh` in namespaces, where it can run.

use std::process::Command;

/// What the script ends with where it cannot run.
const SKIPPED: i32 = 77;

/// Goal: peers behind routers find each other, directly where the routers allow it, and whoever
/// listens in between reads nothing. Method: namespaces, see the script.
#[test]
#[ignore = "slow: builds networks of namespaces, needs root, ip, nft and tcpdump"]
fn peers_behind_routers_find_each_other_slow() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/natlab.sh");
    let lab = Command::new("bash").arg(script).arg(env!("CARGO_BIN_EXE_tg-natlab")).status();
    let status = lab.expect("bash runs");
    if status.code() == Some(SKIPPED) {
        eprintln!("SKIPPED: peers behind routers were not tried on this machine");
        return;
    }
    assert!(status.success(), "{status}");
}
