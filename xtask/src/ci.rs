//! Everything a change must pass, as one table of steps run in order. The table is data so that a
//! reader sees at a glance what is checked, and so that the order and the rules for skipping are
//! tested without building anything.
//!
//! Invariants: the first failing step ends the run; a step is never skipped silently; under
//! `CI=true` a skipped step fails the run unless the table calls it optional.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::tidy;

/// What a step does.
enum Work {
    /// The rules of the house, checked in this process.
    Tidy,
    /// A cargo call with these arguments.
    Cargo(&'static [&'static str]),
    /// A program that the build step made, with these arguments.
    Built { program: &'static str, arguments: &'static [&'static str] },
}

/// What must be there for a step to make sense.
enum Need {
    Nothing,
    /// A folder of the repository.
    Folder(&'static str),
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
/// Whatever compiles the engine does so for the whole workspace. Cargo unites the features of the
/// packages that are named, so `-p tg-sim` or `--exclude tensorgrid` would give the crates below
/// the engine other features and compile its generics, minutes of work, a second time. For the
/// same reason the simulator is started as built, not by `cargo run`.
///
/// Slow tests, those that start processes and kill them first of all, are marked `ignore` and run
/// one at a time after the others; together the two test steps run every test once.
const STEPS: &[Step] = &[
    Step { name: "tidy", work: Work::Tidy, need: Need::Nothing, optional: false },
    step("format", &["fmt", "--all", "--check"]),
    step(
        "clippy",
        &["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"],
    ),
    step("build", &["build", "--release", "--workspace"]),
    step("tests", &["test", "--release", "--workspace"]),
    step(
        "tests of the planted bugs",
        &["test", "--release", "-p", "tg-ledger", "--features", "planted-bugs"],
    ),
    step(
        "clippy of the GPU kernels",
        &[
            "clippy",
            "--release",
            "-p",
            "tg-tensor",
            "--features",
            "wgpu",
            "--tests",
            "--",
            "-Dwarnings",
        ],
    ),
    Step {
        need: Need::Vulkan,
        ..step(
            "GPU kernels on software Vulkan",
            &["test", "--release", "-p", "tg-tensor", "-p", "tg-onnx", "--features", GPU, "gpu"],
        )
    },
    Step { need: Need::Vulkan, ..step("nodes with GPUs on software Vulkan", &GPU_NODES) },
    step("end-to-end and slow tests", &SLOW_TESTS),
    Step {
        name: "short simulation",
        work: Work::Built { program: "tg-sim", arguments: &["--seeds", "10"] },
        need: Need::Folder("edge/sim"),
        optional: false,
    },
    Step {
        name: "licences and sources",
        work: Work::Cargo(&["deny", "check", "bans", "licenses", "sources"]),
        need: Need::Subcommand("deny"),
        optional: true,
    },
];

/// Both rooms whose tests run on a GPU: random programs in one, whole models in the other.
const GPU: &str = "tg-tensor/wgpu,tg-onnx/wgpu";

/// Finding GPUs, showing their memory, and a node that does so on a network.
/// This compiles the engine once more: with what GPUs need, the crates below it have other
/// features.
const GPU_NODES: [&str; 11] = [
    "test",
    "--release",
    "-p",
    "tensorgrid",
    "-p",
    "tg-agent",
    "-p",
    "tg-provider",
    "--features",
    "tensorgrid/wgpu",
    "gpu",
];

/// Without `--tests`, examples in documentation that are marked `ignore` would be run as well.
const SLOW_TESTS: [&str; 7] =
    ["test", "--release", "--workspace", "--tests", "--", "--ignored", "--test-threads=1"];

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
            missing(root, &cargo, need)
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
    }
}

fn seconds(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}

fn missing(root: &Path, cargo: &str, need: &Need) -> Option<String> {
    match need {
        Need::Nothing => None,
        Need::Folder(folder) => {
            (!root.join(folder).is_dir()).then(|| format!("{folder} does not exist"))
        }
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
    let (program, arguments) = match work {
        Work::Tidy => return tidy::run(root),
        Work::Cargo(arguments) => (PathBuf::from(cargo), arguments),
        Work::Built { program, arguments } => (beside_this_program(program), arguments),
    };
    let mut command = Command::new(&program);
    command.args(*arguments).current_dir(root);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_ours)) {
        command.env_remove(name);
    }
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("cannot start {}: {error}", program.display());
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
    const HOMELESS: Step = Step { need: Need::Folder("nowhere"), ..step("homeless", &["good"]) };
    const ON_GPU: Step = Step { need: Need::Vulkan, ..step("on a GPU", &["good"]) };
    const EXTRA: Step =
        Step { need: Need::Subcommand("none"), optional: true, ..step("extra", &["good"]) };

    fn check(steps: &[Step], strict: bool, expected: &str) {
        let world = World {
            missing: |need: &Need| match need {
                Need::Nothing => None,
                Need::Folder(name) | Need::Subcommand(name) => Some(format!("no {name}")),
                Need::Vulkan => Some("no driver".into()),
            },
            perform: |work: &Work| match work {
                Work::Tidy => true,
                Work::Cargo(arguments) | Work::Built { arguments, .. } => {
                    !arguments.contains(&"bad")
                }
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
    fn step_without_its_folder_is_skipped_by_hand_and_fails_in_ci() {
        check(&[HOMELESS, PLAIN], false, "1 passed, 0 failed, 1 skipped");
        check(&[HOMELESS, PLAIN], true, "0 passed, 1 failed, 0 skipped");
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

    #[test]
    fn table_names_each_step_once_and_compiles_one_graph() {
        let mut names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
        for step in STEPS {
            let call = described(&step.work);
            let compiles = ["cargo clippy", "cargo build", "cargo test"];
            // Planted bugs need one small room, GPUs other features of everything below them.
            let is_apart = ["planted-bugs", "wgpu"].iter().any(|feature| call.contains(feature));
            if compiles.iter().any(|start| call.starts_with(start)) && !is_apart {
                assert!(call.contains("--workspace") && !call.contains("--exclude"), "{call}");
            }
        }
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
