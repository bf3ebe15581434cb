//! The processes of a task as the machine lists them, for what control groups cannot do where
//! there are none: count memory and processor time, find open files that have no name any more,
//! and end a tree of processes that keeps growing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::files::BLOCK_BYTES;

/// Rounds of stopping and ending; each sees at least what the one before had started.
const ROUNDS_MAX: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes in the unit of the size lines of a process's status.
const KIB: u64 = 1024;

/// The number, the parent and the processor time of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    pid: i32,
    parent: i32,
    is_dead: bool,
    /// Its own and that of children it has waited for, in clock ticks.
    ticks: u64,
}

/// Reads a line of `/proc/<pid>/stat`. The name in brackets may contain anything.
fn parse_stat(line: &str) -> Option<Stat> {
    let (before, after) = line.rsplit_once(')')?;
    let pid = before.split(' ').next()?.parse().ok()?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok());
    let ticks = (11..=14).filter_map(number).fold(0, u64::saturating_add);
    let is_dead = matches!(fields.first(), Some(&("Z" | "X" | "x")));
    Some(Stat { pid, parent: fields.get(1)?.parse().ok()?, is_dead, ticks })
}

fn all() -> Vec<Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let numbered = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_number));
    let stats = numbered.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter_map(|line| parse_stat(&line)).collect()
}

/// All descendants of a process, without itself.
fn below(root: i32, stats: &[Stat]) -> Vec<Stat> {
    let mut children: BTreeMap<i32, Vec<Stat>> = BTreeMap::new();
    for stat in stats {
        children.entry(stat.parent).or_default().push(*stat);
    }
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([root]);
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if seen.insert(child.pid) {
                found.push(*child);
                next.push(child.pid);
            }
        }
    }
    found
}

/// A sum over the descendants of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Memory in bytes, shared pages counted for each.
    pub(crate) memory: u64,
    /// Processor time.
    pub(crate) cpu: Duration,
}

/// Adds up what the descendants of a process use now.
pub(crate) fn sample(root: Pid) -> Sample {
    let stats = all();
    let tree = below(root.as_raw_nonzero().get(), &stats);
    let ticks = tree.iter().map(|stat| stat.ticks).fold(0, u64::saturating_add);
    let memory = tree.iter().map(|stat| status_bytes(stat.pid)).fold(0, u64::saturating_add);
    Sample { memory, cpu: ticks_to_time(ticks) }
}

/// Memory of the descendants with shared pages counted once: slow, so only asked in doubt. Nothing
/// if one of them cannot be looked at.
pub(crate) fn shared_memory(root: Pid) -> Option<u64> {
    let stats = all();
    let tree = below(root.as_raw_nonzero().get(), &stats);
    let bytes = tree.iter().filter(|stat| !stat.is_dead).map(|stat| {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", stat.pid)).ok()?;
        line_bytes(&text, "Pss:")
    });
    bytes.sum()
}

fn status_bytes(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let part = |word| line_bytes(&text, word).unwrap_or(0);
    part("RssAnon:").saturating_add(part("RssShmem:"))
}

/// The bytes in a line such as `RssAnon:  12 kB`.
fn line_bytes(text: &str, word: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    let number: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(KIB)
}

/// Processor time of a process that has ended but was not waited for, with all it waited for.
pub(crate) fn cpu_of(pid: Pid) -> Option<Duration> {
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    parse_stat(&fs::read_to_string(path).ok()?).map(|stat| ticks_to_time(stat.ticks))
}

fn ticks_to_time(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(ticks.saturating_mul(1000) / per_second)
}

/// Bytes of files on `device` that the descendants hold open and that have no name any more.
pub(crate) fn nameless_bytes(root: Pid, device: u64) -> u64 {
    let stats = all();
    let mut files: BTreeMap<u64, u64> = BTreeMap::new();
    for stat in below(root.as_raw_nonzero().get(), &stats) {
        let folder = PathBuf::from(format!("/proc/{}/fd", stat.pid));
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = fs::metadata(entry.path()) else { continue };
            if metadata.is_file() && metadata.nlink() == 0 && metadata.dev() == device {
                files.insert(metadata.ino(), metadata.blocks().saturating_mul(BLOCK_BYTES));
            }
        }
    }
    files.values().copied().fold(0, u64::saturating_add)
}

/// Threads of a user of this machine.
pub(crate) fn threads_of(uid: u32) -> u64 {
    let mut count = 0_u64;
    for stat in all() {
        let text = fs::read_to_string(format!("/proc/{}/status", stat.pid)).unwrap_or_default();
        let field = |word: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(word))?;
            line.split_ascii_whitespace().next()?.parse().ok()
        };
        if field("Uid:") == Some(uid.into()) {
            count = count.saturating_add(field("Threads:").unwrap_or(1));
        }
    }
    count
}

/// Asks all descendants of a process to end, once.
pub(crate) fn ask_below(root: Pid) {
    for stat in below(root.as_raw_nonzero().get(), &all()).iter().filter(|stat| !stat.is_dead) {
        if let Some(pid) = Pid::from_raw(stat.pid) {
            let _ended_already = rustix::process::kill_process(pid, Signal::TERM);
        }
    }
}

/// Ends all descendants of a process but `spared`. They are stopped first: what is stopped cannot
/// start another.
pub(crate) fn end_below(root: Pid, spared: &[Pid]) {
    let spared: BTreeSet<i32> = spared.iter().map(|pid| pid.as_raw_nonzero().get()).collect();
    let find = || -> BTreeSet<i32> {
        let tree = below(root.as_raw_nonzero().get(), &all());
        let living = tree.into_iter().filter(|stat| !stat.is_dead).map(|stat| stat.pid);
        living.filter(|pid| !spared.contains(pid)).collect()
    };
    let send = |pid: i32, signal| {
        if let Some(pid) = Pid::from_raw(pid) {
            let _ended_already = rustix::process::kill_process(pid, signal);
        }
    };
    let mut stopped = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let new: Vec<i32> = find().difference(&stopped).copied().collect();
        if new.is_empty() {
            break;
        }
        for pid in new {
            send(pid, Signal::STOP);
            stopped.insert(pid);
        }
    }
    for _ in 0..ROUNDS_MAX {
        let found = find();
        if found.is_empty() {
            return;
        }
        for pid in found {
            send(pid, Signal::KILL);
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::{Stat, below, end_below, line_bytes, parse_stat, sample};
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::Duration;

    fn stat(pid: i32, parent: i32) -> Stat {
        Stat { pid, parent, is_dead: false, ticks: 0 }
    }

    #[test]
    fn name_of_a_process_cannot_fool_the_reader() {
        let line = "42 (a) R 1 (b)) S 7 42 42 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 5";
        let found = parse_stat(line).expect("reads");
        assert_eq!(found, Stat { pid: 42, parent: 7, is_dead: false, ticks: 100 });
        assert_eq!(parse_stat("42 nothing"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn prop_reading_any_line_never_fails() {
        arbtest::arbtest(|u| {
            let line: String = u.arbitrary()?;
            let _anything = parse_stat(&line);
            let _anything = line_bytes(&line, "Pss:");
            Ok(())
        });
    }

    #[test]
    fn tree_is_followed_without_going_round_in_circles() {
        let stats = [stat(2, 1), stat(3, 2), stat(4, 3), stat(5, 9), stat(1, 4)];
        let mut found: Vec<i32> = below(2, &stats).iter().map(|stat| stat.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [1, 3, 4]);
    }

    #[test]
    fn memory_lines_are_read_in_bytes() {
        assert_eq!(line_bytes("A: 1 kB\nRssAnon:\t  12 kB\n", "RssAnon:"), Some(12288));
        assert_eq!(line_bytes("RssAnon: x kB", "RssAnon:"), None);
    }

    #[test]
    fn growing_tree_is_ended() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "while :; do sleep 1000 & sleep 0.01; done"])
            .stdin(Stdio::null())
            .spawn()
            .expect("starts");
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("fits"));
        let pid = pid.expect("a process");
        while below(pid.as_raw_nonzero().get(), &super::all()).len() < 3 {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(sample(pid).memory > 0);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("stops");
        end_below(pid, &[]);
        let left = below(pid.as_raw_nonzero().get(), &super::all());
        assert!(left.iter().all(|stat| stat.is_dead), "{left:?}");
        child.kill().expect("ends");
        child.wait().expect("ended");
    }
}
