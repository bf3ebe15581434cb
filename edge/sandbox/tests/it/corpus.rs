//! The escape corpus: every hostile program at every level this machine has, with how it must end.
//! A row that ends otherwise, a line beginning with `!`, a dead canary or anything left behind
//! fails. The only targets are this machine's loopback and the sandbox's own namespaces.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use tg_sandbox::{By, Bytes, Clock, Ended, Guard, Level, Limits, Network, Settings, Task, Work};

use crate::attack::NO_MEMORY;
use crate::place::{Canaries, Folder, MARK, Place, Ran, is_root, levels, shell, small};

/// The mode of this binary for the corpus as a user without privileges, and the two extents of the
/// corpus.
pub(crate) const AS_NOBODY: &str = "as-nobody";
pub(crate) const QUICK: &str = "quick";
pub(crate) const WHOLE: &str = "whole";

/// A hostile program.
struct Attack {
    name: &'static str,
    task: Task,
    /// How it may end, by level and by whether a control group holds its memory.
    expected: fn(Level, bool) -> Vec<Ended>,
    /// Whether it takes time before it is stopped.
    is_slow: bool,
}

fn attack(name: &'static str, task: Task) -> Attack {
    Attack { name, task, expected: |_, _| vec![Ended::Exited(0)], is_slow: false }
}

fn limited(task: Task, change: impl FnOnce(&mut Limits)) -> Task {
    let mut limits = small();
    change(&mut limits);
    Task { limits, ..task }
}

/// A mode of this binary, which is an input of every task.
fn program(words: &[&str]) -> Task {
    let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    shell(&format!("exec $TENSORGRID_INPUT/attack attack {}", words.join(" ")))
}

fn attacks(canaries: &Canaries, state: &str) -> Vec<Attack> {
    let canary = |name: &str| canaries.folder().join(name).to_str().expect("text").to_owned();
    let (readable, writable, open) = (canary("readable"), canary("writable"), canary("open"));
    let sleeper = canaries.sleeper().to_string();
    let environ = format!("/proc/{sleeper}/environ");
    let port = canaries.port().to_string();
    let me = format!("/proc/{}/environ", std::process::id());
    let seconds = Duration::from_secs;
    let bomb = shell(&format!("b() {{ b | b & }}; b; sleep {MARK}"));
    let wait = shell(&format!("trap '' TERM; sleep {MARK}"));
    vec![
        attack("ordinary", shell("echo fine")),
        Attack {
            expected: |_, _| {
                vec![Ended::Exited(0), Ended::Exited(2), Ended::OutOfTime(Clock::Wall)]
            },
            is_slow: true,
            ..attack("fork bomb", limited(bomb, |limits| limits.wall = seconds(4)))
        },
        attack("many processes", program(&["processes"])),
        Attack {
            expected: |_, has_group| {
                vec![if has_group { Ended::OutOfMemory } else { Ended::Exited(NO_MEMORY) }]
            },
            ..attack("1 TB, then all there is", program(&["memory", "4096"]))
        },
        Attack {
            expected: |_, _| vec![Ended::OutOfMemory],
            is_slow: true,
            ..attack("memory in many processes", program(&["memory-in-many", "60"]))
        },
        attack(
            "read outside",
            program(&[
                "read",
                "/etc/shadow",
                "/etc/machine-id",
                "/root",
                "/home",
                "/proc/1/environ",
                &me,
                &environ,
                &readable,
                state,
                "/sys/kernel",
                "/var/log",
                "/proc/kcore",
            ]),
        ),
        attack(
            "write outside",
            program(&[
                "write",
                &writable,
                &open,
                "/etc",
                "/usr",
                "/usr/bin",
                "/dev",
                "/",
                "/in",
                "/.tensorgrid",
                "/proc/sys/kernel/core_pattern",
                "/proc/sysrq-trigger",
                state,
            ]),
        ),
        attack("connect to loopback", program(&["connect", &port])),
        attack("scan loopback", program(&["scan", &port])),
        Attack {
            expected: |_, _| vec![Ended::OutOfTime(Clock::Cpu)],
            is_slow: true,
            ..attack("endless loop", limited(program(&["spin"]), |l| l.cpu_time = seconds(1)))
        },
        Attack {
            expected: |_, _| vec![Ended::OutOfTime(Clock::Wall)],
            is_slow: true,
            ..attack("endless wait", limited(wait, |limits| limits.wall = seconds(1)))
        },
        Attack {
            expected: |_, _| vec![Ended::OutOfDisk],
            ..attack("fill the disk", program(&["disk", "."]))
        },
        Attack {
            expected: |_, _| vec![Ended::OutOfDisk],
            ..attack(
                "fill a folder on disk",
                Task { work: Work::Disk, ..program(&["disk-nameless", "."]) },
            )
        },
        attack("nested folders", Task { work: Work::Disk, ..program(&["nest", "."]) }),
        Attack {
            expected: |_, _| vec![Ended::TooMuchSaid],
            ..attack("flood the output", program(&["flood"]))
        },
        attack("privileges, mounts, devices", program(&["privileges"])),
        attack("system calls", program(&["system-calls"])),
        attack("signal and trace", program(&["signal", &sleeper])),
        attack("inherited files", program(&["files"])),
        Attack {
            expected: |level, _| {
                let is_unprotected = level == Level::Rlimits;
                vec![if is_unprotected { Ended::Signalled(9) } else { Ended::Exited(0) }]
            },
            ..attack(
                "kill the first process",
                shell("kill -9 $PPID; kill -9 1; kill -9 $PPID; sleep 0.2; exit 0"),
            )
        },
        attack(
            "left behind",
            shell(&format!("(setsid sleep {MARK} > /dev/null 2>&1 &); sleep {MARK} & exit 0")),
        ),
    ]
}

/// Outside of a sandbox the same programs succeed, so that their failure inside means something.
fn positive_controls(canaries: &Canaries) {
    let work = Folder::new("work");
    let here = |words: &[&str]| {
        let mut me = Command::new(std::env::current_exe().expect("this program"));
        me.arg("attack").args(words).current_dir(work.path());
        let output = me.stdin(Stdio::null()).output();
        String::from_utf8_lossy(&output.expect("runs").stdout).into_owned()
    };
    let path = canaries.folder().join("readable");
    assert!(here(&["read", path.to_str().expect("text")]).starts_with("!read"));
    assert!(here(&["connect", &canaries.port().to_string()]).starts_with("!connected"));
    assert!(here(&["scan", &canaries.port().to_string()]).starts_with('!'));
    let folder = Folder::new("control");
    let written = here(&["write", folder.path().to_str().expect("text")]);
    assert!(written.starts_with("!made"), "{written}");
    assert!(here(&["system-calls"]).contains('!'));
    let mut sleeper = Command::new("sleep").arg("1000").spawn().expect("sleeps");
    let signalled = here(&["signal", &sleeper.id().to_string()]);
    assert!(signalled.contains("!signalled"), "{signalled}");
    sleeper.wait().expect("is dead");
}

/// With the provider's permission the same program does connect from inside.
fn network_is_there_when_allowed(level: Level, canaries: &Canaries) {
    let place = Place::with(|settings| {
        settings.levels = vec![level];
        settings.allow_network = true;
    });
    let mut task = program(&["connect", &canaries.port().to_string()]);
    task.network = Network::Host;
    let ran = place.run(&task).expect("runs");
    assert_eq!(ran.out, "!connected\n", "{level}: {}", ran.err);
    let lines = shell("cat /proc/net/dev 2>/dev/null | grep -c :");
    let ran = place.run(&lines).expect("runs");
    if level != Level::Rlimits {
        assert_eq!(ran.out, "1\n", "{level}: loopback alone, though another task had more");
    }
}

/// The control group's share of the processors holds.
fn processor_share_is_held(level: Level, place: &Place) -> Option<f64> {
    let limits = Limits { cpu_milli: 250, wall: Duration::from_secs(2), ..small() };
    let task = Task { limits, ..program(&["spin"]) };
    let outcome = place.run(&task).expect("runs").outcome;
    assert_eq!(outcome.ended, Ended::OutOfTime(Clock::Wall), "{level}");
    let is_held = !outcome.enforced.by(Guard::CpuShare).is_empty();
    let share = outcome.usage.cpu.as_secs_f64() / outcome.usage.wall.as_secs_f64();
    assert!(!is_held || share < 0.5, "{level}: {share} of a core instead of 0.25");
    is_held.then_some(share)
}

/// One line of the table, and what is wrong about it.
fn row(level: Level, attack: &Attack, ran: &Ran) -> Option<String> {
    let (ended, usage) = (ran.outcome.ended, ran.outcome.usage);
    let has_group = !ran.outcome.enforced.by(Guard::Memory).contains(&By::Rlimit);
    let expected = (attack.expected)(level, has_group);
    let said: Vec<&str> = ran.out.lines().filter(|line| line.starts_with('!')).collect();
    let is_stopped = expected.contains(&ended) && said.is_empty();
    let words: Vec<String> = expected.iter().map(Ended::to_string).collect();
    let (cpu, wall) = (usage.cpu.as_millis(), usage.wall.as_millis());
    let memory = usage.memory_peak.map_or(0, Bytes::get) >> 10;
    println!(
        "  {:<27} {:<15} {ended:<15} {:<11} {cpu:>6} {wall:>6} {memory:>7} {:>6}",
        attack.name,
        words.first().map(String::as_str).unwrap_or_default(),
        if is_stopped { "held" } else { "NOT STOPPED" },
        usage.disk.get() >> 10,
    );
    let err: String = ran.err.chars().take(400).collect();
    let must = words.join(" or ");
    let fault = || format!("{level}, {}: {ended} instead of {must}, {said:?}, {err}", attack.name);
    (!is_stopped).then(fault)
}

/// Runs the corpus as whoever this is.
pub(crate) fn run_here(extent: &str) {
    let mut canaries = Canaries::new();
    positive_controls(&canaries);
    let mut faults = Vec::new();
    for level in levels() {
        let place = Place::at(&[level]);
        let state = place.state.to_str().expect("text").to_owned();
        println!("\n{level}, {}:", if is_root() { "as root" } else { "without privileges" });
        println!(
            "  {:<27} {:<15} {:<15} {:<11} {:>6} {:>6} {:>7} {:>6}",
            "attack", "must end", "ended", "", "cpu ms", "ms", "mem KiB", "disk"
        );
        let asked = |attack: &Attack| extent == WHOLE || !attack.is_slow;
        for attack in attacks(&canaries, &state).into_iter().filter(asked) {
            match place.run(&attack.task) {
                Ok(ran) => faults.extend(row(level, &attack, &ran)),
                Err(error) => faults.push(format!("{level}, {}: {error:?}", attack.name)),
            }
            canaries.assert_alive(attack.name);
            place.assert_clean(attack.name);
            // In the quick part the next attack shows that tasks still run.
            if extent == WHOLE {
                let next = place.run(&shell("echo next")).expect("runs");
                assert_eq!((next.outcome.ended, next.out.as_str()), (Ended::Exited(0), "next\n"));
            }
        }
        network_is_there_when_allowed(level, &canaries);
        if extent == WHOLE {
            let share = processor_share_is_held(level, &place);
            println!("  a quarter of a core: {share:?}");
        }
        canaries.assert_alive("all");
    }
    let address = SocketAddr::from(([127, 0, 0, 1], canaries.port()));
    assert!(TcpStream::connect(address).is_ok(), "the listener was there all the time");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

pub(crate) fn escape_corpus() {
    run_here(QUICK);
}

pub(crate) fn escape_corpus_slow() {
    run_here(WHOLE);
}

pub(crate) fn escape_corpus_as_nobody() {
    run_as_nobody(QUICK);
}

pub(crate) fn escape_corpus_as_nobody_slow() {
    run_as_nobody(WHOLE);
}

/// The same as a user who may do nothing on this machine.
fn run_as_nobody(extent: &str) {
    if !is_root() {
        println!("!!! NOT TESTED AS NOBODY: these tests are not root and ran as an ordinary user");
        return;
    }
    let nobody = Settings::NOBODY;
    let status = Command::new(std::env::current_exe().expect("this program"))
        .args([AS_NOBODY, extent])
        .uid(nobody.uid)
        .gid(nobody.gid)
        .current_dir("/")
        .stdin(Stdio::null())
        .status()
        .expect("starts");
    assert!(status.success(), "as nobody: {status}");
}
