//! Packages that do not fit into memory ought to need none.

use crate::support::{Home, Process, text, turn_alone};
use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

const MIB: u64 = 1 << 20;

/// What the memory of a process may grow by while hundreds of megabytes pass through it: windows of
/// connections, queues and chunks.
const GROWTH_KIB_MAX: u64 = 160 << 10;

/// What a command may take in all.
const CLIENT_KIB_MAX: u64 = 160 << 10;

/// The most memory a process has had, in KiB.
fn peak_kib(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// Writes so many bytes that do not repeat.
fn write_bytes(path: &Path, bytes: u64) {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..bytes / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes()).expect("writes");
    }
    file.flush().expect("writes");
}

/// Runs a command to its end and gives what it said and the most memory it had.
fn measured(home: &Home, arguments: &[&str]) -> (serde_json::Value, String, u64) {
    let mut command = home.command(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let process = child.id();
    let watching = thread::spawn(move || {
        let mut peak = 0;
        while let Some(now) = peak_kib(process) {
            peak = peak.max(now);
            thread::sleep(Duration::from_millis(10));
        }
        peak
    });
    let output = child.wait_with_output().expect("ends");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let told = serde_json::from_slice(&output.stdout).expect("one object");
    (told, errors, watching.join().expect("watches"))
}

fn is_same(one: &Path, other: &Path, bytes: u64) -> bool {
    let bytes = bytes.to_string();
    let compared = Command::new("cmp").args(["-n", &bytes]).args([one, other]).status();
    compared.expect("cmp is there").success()
}

/// Goal: a command reads 240 MiB and leaves 120 MiB, both arrive as they were, and neither the
/// network nor the client holds them in memory. Method: the peaks of both processes.
#[test]
#[ignore = "slow: moves hundreds of megabytes through all validators"]
fn large_inputs_and_outputs_pass_through_little_memory_slow() {
    let _turn = turn_alone();
    let home = Home::new();
    let up: Process = home.start("up", &["--json", "up", "--port", "0"]);
    let (input, out) = (home.path("big"), home.path("out"));
    write_bytes(&input, 240 * MIB);
    home.run(&["run", "--verify", "none", "--", "true"]).expect(0); // all is warm
    let before = peak_kib(up.id()).expect("runs");

    let script = "head -c 125829120 /in/big > /out/part && wc -c < /in/big && test -r /in/small";
    let small = home.path("small");
    fs::write(&small, "small").expect("writes");
    let run = ["--json", "run", "--verify", "none", "--run-max", "5m", "--disk", "300MiB"];
    let files = ["-i", text(&input), "-i", text(&small), "-o", text(&out)];
    let (told, errors, peak) =
        measured(&home, &[&run[..], &files, &["--", "sh", "-c", script]].concat());
    assert_eq!((&told["ended"], &told["stdout"]), (&"exited 0".into(), &"251658240\n".into()));
    assert!(is_same(&input, &out.join("part"), 120 * MIB));
    assert_eq!(fs::metadata(out.join("part")).expect("is there").len(), 120 * MIB);
    assert!(errors.contains("is on the chain"), "{errors}");
    assert!(peak < CLIENT_KIB_MAX, "run took {peak} KiB");
    let after = peak_kib(up.id()).expect("runs");
    assert!(after < before + GROWTH_KIB_MAX, "the network grew from {before} to {after} KiB");

    let (copy, job) = (home.path("copy"), told["job"].as_str().expect("an id"));
    let (copied, _, peak) = measured(&home, &["--json", "cp", job, text(&copy)]);
    assert_eq!(copied["files"], 1);
    assert!(is_same(&out.join("part"), &copy.join("part"), 120 * MIB));
    assert!(peak < CLIENT_KIB_MAX, "cp took {peak} KiB");
    let refused = home.run(&["complain", job]).expect(1);
    assert!(refused.err.contains("opens"), "{refused:?}");
    assert_eq!(up.stop("INT").0.code(), Some(0));
}
