//! Everything a change must pass, as one table of steps run in order. The table is data so that a
//! reader sees at a glance what is checked, and so that the order and the rules for skipping are
//! tested without building anything.
//!
//! Invariants: the first failing step ends the run; a step is never skipped silently; under
//! `CI=true` a skipped step fails the run unless the table calls it optional.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::tidy;

/// What a step does.
enum Work {
    /// The rules of the house, checked in this process.
    Tidy,
    /// A cargo call with these arguments.
    Cargo(&'static [&'static str]),
    /// A program that the tests step made, with these arguments.
    Built { program: &'static str, arguments: &'static [&'static str] },
    /// Works that mostly wait, and meanwhile works that compute. Each list is done one after the
    /// other; what computes does so with low priority, and is heard of when it has ended.
    Meanwhile { waits: &'static [Work], computes: &'static [Work] },
}

/// How politely the machine is used by work that is done while other work waits: as politely as
/// can be, since tests that start networks watch the clock.
const POLITE: [&str; 3] = ["nice", "-n", "19"];

/// What must be there for a step to make sense.
enum Need {
    Nothing,
    /// An installed cargo subcommand.
    Subcommand(&'static str),
    /// A Vulkan driver, be it one that computes on the processor.
    Vulkan,
}

/// Where drivers of Vulkan are announced, each by a file of JSON.
const VULKAN_DRIVERS: [&str; 2] = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"];

/// What gives a machine without a GPU a Vulkan driver.
const VULKAN_PACKAGES: [&str; 2] = ["mesa-vulkan-drivers", "libvulkan1"];

/// Programs that some tests try things out with, and the packages that have them. Where one is
/// missing, those tests say loudly what they could not try.
const LAB_TOOLS: [(&str, &str); 6] = [
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("tcpdump", "tcpdump"),
    ("bwrap", "bubblewrap"),
    ("busybox", "busybox-static"),
    ("runc", "runc"),
];

/// One row of the table.
struct Step {
    name: &'static str,
    work: Work,
    need: Need,
    /// An optional step may be skipped even under `CI=true`.
    optional: bool,
}

const fn step(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step { name, work: Work::Cargo(arguments), need: Need::Nothing, optional: false }
}

/// The steps, cheapest first.
///
/// What decides how long they take is how often the rooms are compiled, so there are two graphs of
/// crates and no third: the whole workspace with what its tests need, and the program with GPUs.
/// Cargo unites the features of the packages that are named, so `-p tg-sim` or `--exclude
/// tensorgrid` would give the crates below the engine other features and compile its generics,
/// minutes of work, a second time. For the same reason the simulator is started as built, not by
/// `cargo run`, and no step merely builds: `cargo build` leaves out what only tests need, and all
/// that uses tensors would be compiled once more.
///
/// Slow tests, those that start processes and kill them first of all, are marked `ignore` and run
/// after the others; together the two test steps run every test once.
const STEPS: &[Step] = &[
    Step { name: "tidy", work: Work::Tidy, need: Need::Nothing, optional: false },
    step("format", &["fmt", "--all", "--check"]),
    step(
        "clippy",
        &["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"],
    ),
    step("clippy of what has GPUs", &GPU_CLIPPY),
    step("tests", &["test", "--release", "--workspace"]),
    Step {
        name: "end-to-end and slow tests, a short simulation, planted bugs",
        work: Work::Meanwhile {
            waits: &[Work::Cargo(&SLOW_TESTS)],
            computes: &[
                Work::Cargo(&SLOW_UNIT_TESTS),
                Work::Built { program: "tg-sim", arguments: &["--seeds", "10"] },
                Work::Cargo(&PLANTED_BUGS),
            ],
        },
        need: Need::Nothing,
        optional: false,
    },
    // Last, because it leaves the program as it is with GPUs where the tests above start theirs.
    Step { need: Need::Vulkan, ..step("tests with GPUs on software Vulkan", &GPU_TESTS) },
    Step {
        name: "licences and sources",
        work: Work::Cargo(&["deny", "check", "bans", "licenses", "sources"]),
        need: Need::Subcommand("deny"),
        optional: true,
    },
];

/// Slow tests that start programs. Most of their time they wait for blocks, dates and time-outs, so
/// two run at a time; those that take all cores see to it that they are alone.
const SLOW_TESTS: [&str; 8] =
    ["test", "--release", "--workspace", "--test", "it", "--", "--ignored", "--test-threads=2"];

/// Slow tests within rooms; these compute. Without `--lib --bins`, examples in documentation that
/// are marked `ignore` would be run as well. With it cargo would test libraries whose manifest says
/// `test = false` too, and compile the engine for that; so those rooms are left out. Their slow
/// tests are all in `tests/it`. The features of crates below are the same without these rooms.
const SLOW_UNIT_TESTS: [&str; 14] = [
    "test",
    "--release",
    "--workspace",
    "--exclude",
    "tg-bft",
    "--exclude",
    "tg-net",
    "--exclude",
    "tg-sim",
    "--lib",
    "--bins",
    "--",
    "--ignored",
    "--test-threads=1",
];

/// One small room, compiled once more with bugs.
const PLANTED_BUGS: [&str; 6] =
    ["test", "--release", "-p", "tg-ledger", "--features", "planted-bugs"];

/// All rooms with code for GPUs: random programs in one, whole models in another, finding GPUs,
/// showing their memory, and a node that does so on a network. The program is among them so that
/// the crates below have the features they have in every other step.
const GPU_TESTS: [&str; 15] = [
    "test",
    "--release",
    "-p",
    "tensorgrid",
    "-p",
    "tg-agent",
    "-p",
    "tg-onnx",
    "-p",
    "tg-provider",
    "-p",
    "tg-tensor",
    "--features",
    "tensorgrid/wgpu,tg-onnx/wgpu",
    "gpu",
];

/// The same rooms.
const GPU_CLIPPY: [&str; 18] = [
    "clippy",
    "--release",
    "-p",
    "tensorgrid",
    "-p",
    "tg-agent",
    "-p",
    "tg-onnx",
    "-p",
    "tg-provider",
    "-p",
    "tg-tensor",
    "--features",
    "tensorgrid/wgpu,tg-onnx/wgpu",
    "--all-targets",
    "--",
    "-D",
    "warnings",
];

/// Counts of steps, printed as the last line of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    passed: u32,
    failed: u32,
    skipped: u32,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Runs all steps on the tree at `root`; true if none failed.
pub(crate) fn run(root: &Path) -> bool {
    let strict = std::env::var("CI").is_ok_and(|value| value == "true");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let lab: Vec<&str> = LAB_TOOLS.iter().filter(|it| !is_on_path(it.0)).map(|it| it.1).collect();
    if strict && !lab.is_empty() {
        install(&lab);
    }
    let world = World {
        missing: |need| {
            if strict && matches!(need, Need::Vulkan) && !has_vulkan() {
                install(&VULKAN_PACKAGES);
            }
            missing(&cargo, need)
        },
        perform: |work| perform(root, &cargo, work),
    };
    let summary = run_steps(STEPS, strict, &world);
    println!("{summary}");
    summary.failed == 0
}

/// What the runner asks of its surroundings; tests answer instead of cargo.
struct World<M, P>
where
    M: Fn(&Need) -> Option<String>,
    P: Fn(&Work) -> bool,
{
    /// Why a need is not met, or nothing.
    missing: M,
    /// Does the work; true if it passed.
    perform: P,
}

fn run_steps<M, P>(steps: &[Step], strict: bool, world: &World<M, P>) -> Summary
where
    M: Fn(&Need) -> Option<String>,
    P: Fn(&Work) -> bool,
{
    let mut summary = Summary::default();
    for (done, step) in steps.iter().enumerate() {
        let number = format!("[{}/{}] {}", done + 1, steps.len(), step.name);
        let passed = match (world.missing)(&step.need) {
            Some(reason) if strict && !step.optional => {
                println!("{number}: FAILED, cannot be skipped under CI=true: {reason}");
                false
            }
            Some(reason) => {
                println!("{number}: SKIPPED: {reason}");
                summary.skipped += 1;
                continue;
            }
            None => {
                println!("{number}: {}", described(&step.work));
                let started = Instant::now();
                let passed = (world.perform)(&step.work);
                let outcome = if passed { "passed" } else { "FAILED" };
                println!("{number}: {outcome} in {}", seconds(started.elapsed()));
                passed
            }
        };
        if passed {
            summary.passed += 1;
            continue;
        }
        summary.failed += 1;
        for left in steps.iter().skip(done + 1) {
            println!("not run: {}", left.name);
        }
        break;
    }
    summary
}

fn described(work: &Work) -> String {
    match work {
        Work::Tidy => "cargo xtask tidy".into(),
        Work::Cargo(arguments) => format!("cargo {}", arguments.join(" ")),
        Work::Built { program, arguments } => format!("{program} {}", arguments.join(" ")),
        Work::Meanwhile { waits, computes } => {
            let list = |works: &[Work]| works.iter().map(described).collect::<Vec<_>>().join("; ");
            format!("{}; meanwhile {}", list(waits), list(computes))
        }
    }
}

fn seconds(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}

fn missing(cargo: &str, need: &Need) -> Option<String> {
    match need {
        Need::Nothing => None,
        Need::Subcommand(name) => {
            let found = Command::new(cargo)
                .args([name, "--version"])
                .output()
                .is_ok_and(|output| output.status.success());
            (!found).then(|| format!("cargo {name} is not installed"))
        }
        Need::Vulkan => (!has_vulkan()).then(|| {
            let packages = VULKAN_PACKAGES.join(" ");
            format!("no Vulkan driver; apt-get install {packages} gives one, without a GPU too")
        }),
    }
}

fn has_vulkan() -> bool {
    let folders = VULKAN_DRIVERS.iter().filter_map(|folder| std::fs::read_dir(folder).ok());
    folders.flatten().flatten().any(|file| announces_driver(&file.path()))
}

fn announces_driver(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "json")
}

/// Whether a program can be started by its name.
fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Tries to install packages, which takes root and apt-get. Only a machine that is made for these
/// steps wants that unasked; if it fails, whoever needs them says so.
fn install(packages: &[&str]) {
    println!("installing {}", packages.join(" "));
    let calls: [&[&str]; 2] = [&["update"], &["install", "-y", "--no-install-recommends"]];
    for (call, packages) in calls.into_iter().zip([&[][..], packages]) {
        let status = Command::new("apt-get").args(call).args(packages).status();
        println!("apt-get {}: {status:?}", call.join(" "));
    }
}

fn perform(root: &Path, cargo: &str, work: &Work) -> bool {
    match work {
        Work::Tidy => tidy::run(root),
        Work::Cargo(arguments) => succeeds(&mut command(root, cargo.as_ref(), arguments)),
        Work::Built { program, arguments } => {
            succeeds(&mut command(root, &beside_this_program(program), arguments))
        }
        Work::Meanwhile { waits, computes } => thread::scope(|scope| {
            let computing = scope.spawn(|| computes.iter().all(|work| compute(root, cargo, work)));
            let waited = waits.iter().all(|work| perform(root, cargo, work));
            computing.join().expect("starting programs does not panic") && waited
        }),
    }
}

/// Does work while other work waits, and shows what it said when it has ended.
fn compute(root: &Path, cargo: &str, work: &Work) -> bool {
    let (program, arguments) = match work {
        Work::Cargo(arguments) => (PathBuf::from(cargo), arguments),
        Work::Built { program, arguments } => (beside_this_program(program), arguments),
        Work::Tidy | Work::Meanwhile { .. } => return perform(root, cargo, work),
    };
    let [nice, politeness @ ..] = POLITE;
    let mut command = command(root, nice.as_ref(), &politeness);
    let started = Instant::now();
    let output = command.arg(program).args(*arguments).stdin(Stdio::null()).output();
    let (passed, said) = match output {
        Ok(output) => (output.status.success(), [output.stderr, output.stdout].concat()),
        Err(error) => (false, format!("cannot start {nice}: {error}\n").into_bytes()),
    };
    let outcome = if passed { "passed" } else { "FAILED" };
    let said = String::from_utf8_lossy(&said);
    let took = seconds(started.elapsed());
    println!("{said}meanwhile, {}: {outcome} in {took}", described(work));
    passed
}

fn command(root: &Path, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_ours)) {
        command.env_remove(name);
    }
    command
}

fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("cannot start {}: {error}", command.get_program().display());
            false
        }
    }
}

/// Whether a variable was set by cargo for this program. The crate `ring` is built anew when one of
/// these changes, and the engine with it; without them, steps share one build with `cargo build`.
fn is_ours(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| variable.starts_with(start))
}

/// Where cargo put another program of the workspace: into the folder this one was started from,
/// whether or not `CARGO_TARGET_DIR` is set.
fn beside_this_program(program: &str) -> PathBuf {
    match std::env::current_exe() {
        Ok(this) => this.with_file_name(program),
        Err(_) => program.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Step = step("plain", &["good"]);
    const BROKEN: Step = step("broken", &["bad"]);
    const ON_GPU: Step = Step { need: Need::Vulkan, ..step("on a GPU", &["good"]) };
    const EXTRA: Step =
        Step { need: Need::Subcommand("none"), optional: true, ..step("extra", &["good"]) };

    fn check(steps: &[Step], strict: bool, expected: &str) {
        let world = World {
            missing: |need: &Need| match need {
                Need::Nothing => None,
                Need::Subcommand(name) => Some(format!("no {name}")),
                Need::Vulkan => Some("no driver".into()),
            },
            perform: |work: &Work| match work {
                Work::Tidy => true,
                Work::Cargo(arguments) | Work::Built { arguments, .. } => {
                    !arguments.contains(&"bad")
                }
                Work::Meanwhile { .. } => unreachable!("no step of these tests"),
            },
        };
        assert_eq!(run_steps(steps, strict, &world).to_string(), expected);
    }

    #[test]
    fn steps_all_good_pass() {
        check(&[PLAIN, PLAIN], true, "2 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn steps_after_a_failure_do_not_run() {
        check(&[PLAIN, BROKEN, PLAIN], false, "1 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn optional_step_without_its_tool_is_skipped_in_ci_too() {
        check(&[EXTRA, PLAIN], true, "1 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn step_without_a_vulkan_driver_is_skipped_by_hand_and_fails_in_ci() {
        check(&[ON_GPU, PLAIN], false, "1 passed, 0 failed, 1 skipped");
        check(&[ON_GPU, PLAIN], true, "0 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn drivers_are_announced_by_files_of_json() {
        assert!(announces_driver(Path::new("/etc/vulkan/icd.d/lvp_icd.x86_64.json")));
        assert!(!announces_driver(Path::new("/etc/vulkan/icd.d/README")));
    }

    /// All single works of a step.
    fn works(work: &'static Work) -> Vec<&'static Work> {
        match work {
            Work::Tidy | Work::Cargo(_) | Work::Built { .. } => vec![work],
            Work::Meanwhile { waits, computes } => {
                waits.iter().chain(*computes).flat_map(works).collect()
            }
        }
    }

    #[test]
    fn table_names_each_step_once_and_compiles_two_graphs() {
        let mut names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
        for call in STEPS.iter().flat_map(|step| works(&step.work)).map(described) {
            let compiles = ["cargo clippy", "cargo build", "cargo test"];
            // Planted bugs need one small room, GPUs other features of what uses them.
            let is_apart = ["planted-bugs", "wgpu"].iter().any(|feature| call.contains(feature));
            if compiles.iter().any(|start| call.starts_with(start)) && !is_apart {
                assert!(call.contains("--workspace"), "{call}");
                assert!(!call.contains("--exclude tensorgrid"), "{call}");
            }
            assert!(!call.contains("wgpu") || call.contains("-p tensorgrid"), "{call}");
        }
    }

    /// Goal: every test of the workspace is run once, slow ones too. Method: slow tests are run by
    /// kind of target; rooms that are left out have tests of one kind only.
    #[test]
    fn slow_tests_of_all_targets_are_run() {
        let calls = STEPS.iter().flat_map(|step| works(&step.work)).map(described);
        let calls: Vec<String> = calls.collect();
        assert!(calls.iter().any(|call| call == "cargo test --release --workspace"));
        for target in ["--lib", "--bins", "--test it"] {
            let runs = |call: &&String| call.contains(target) && call.contains(" -- --ignored ");
            assert_eq!(calls.iter().filter(runs).count(), 1, "{target}");
        }
        let edge = Path::new(env!("CARGO_MANIFEST_DIR")).join("../edge");
        for pair in SLOW_UNIT_TESTS.windows(2).filter(|pair| pair[0] == "--exclude") {
            let room = edge.join(pair[1].trim_start_matches("tg-"));
            let manifest = std::fs::read_to_string(room.join("Cargo.toml")).expect("is there");
            let library = manifest.split("\n[").find(|part| part.starts_with("lib]"));
            assert!(library.is_some_and(|lib| lib.contains("\ntest = false\n")), "{}", pair[1]);
        }
    }

    /// The program `test` stands for cargo: it passes if its argument is not empty.
    #[test]
    fn work_and_what_is_done_meanwhile_must_both_pass() {
        const GOOD: Work = Work::Cargo(&["-n", "good"]);
        const BAD: Work = Work::Cargo(&["-n", ""]);
        const BOTH: Work = Work::Meanwhile { waits: &[GOOD], computes: &[GOOD, GOOD] };
        const WAITED_BAD: Work = Work::Meanwhile { waits: &[GOOD, BAD], computes: &[GOOD] };
        const COMPUTED_BAD: Work = Work::Meanwhile { waits: &[GOOD], computes: &[GOOD, BAD] };
        let passes = |work| perform(Path::new("."), "test", work);
        assert!(passes(&BOTH));
        assert!(!passes(&WAITED_BAD) && !passes(&COMPUTED_BAD));
    }

    #[test]
    fn variables_of_this_package_are_not_passed_on() {
        assert!(is_ours("CARGO_PKG_NAME") && is_ours("CARGO_MANIFEST_DIR"));
        assert!(!is_ours("CARGO_HOME") && !is_ours("CARGO_TARGET_DIR") && !is_ours("PATH"));
    }

    #[test]
    fn built_program_is_looked_for_beside_this_one() {
        let this = std::env::current_exe().expect("a running program has a path");
        assert_eq!(beside_this_program("tg-sim").parent(), this.parent());
    }
}
