//! The processes of the machine: whose child each is, and how much processor time it used.
//!
//! Separate because two questions need it: which use of a GPU is our own, and which load of the
//! processor. A process is ours if it descends from one that the provider names; a container whose
//! process was handed to the system's first process is not seen as ours unless it is named.

use crate::root::Root;
use std::collections::{BTreeMap, BTreeSet};

/// The longest line of ancestors that is followed; deeper ones are not ours. Shells in shells in
/// containers make a dozen.
const ANCESTORS_MAX: usize = 64;

/// What `/proc` says of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Who started it, or took it over.
    pub(crate) parent: u32,
    /// Processor time of itself and of children that have ended, in the kernel's ticks.
    pub(crate) ticks: u64,
}

/// All processes that can be seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processes(BTreeMap<u32, Process>);

impl Processes {
    pub(crate) fn read(root: &Root) -> Self {
        let pids = root.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        let stat = |pid: u32| Some((pid, parse(&root.text(&format!("/proc/{pid}/stat"))?)?));
        Self(pids.filter_map(stat).collect())
    }

    /// Whether the process is in sight at all.
    pub(crate) fn has(&self, pid: u32) -> bool {
        self.0.contains_key(&pid)
    }

    /// Whether a process is one of `own` or descends from one.
    pub(crate) fn descends(&self, pid: u32, own: &BTreeSet<u32>) -> bool {
        let parent = |pid: &u32| self.0.get(pid).map(|process| process.parent);
        let mut line = std::iter::successors(Some(pid), parent).take(ANCESTORS_MAX);
        line.any(|ancestor| own.contains(&ancestor))
    }

    /// Processor time of `own` and all who descend from them, in the kernel's ticks.
    pub(crate) fn ticks(&self, own: &BTreeSet<u32>) -> u64 {
        let ours = self.0.iter().filter(|(pid, _)| self.descends(**pid, own));
        ours.fold(0, |sum, (_, process)| sum.saturating_add(process.ticks))
    }
}

/// Reads `pid (name) state parent … utime stime cutime cstime …`. The name may hold anything,
/// brackets and spaces too, so it ends at the last bracket.
fn parse(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_ascii_whitespace().take(15).collect();
    let times = words.get(11..15)?.iter().map(|word| word.parse::<u64>().ok());
    let ticks = times.collect::<Option<Vec<u64>>>()?;
    Some(Process {
        parent: words.get(1)?.parse().ok()?,
        ticks: ticks.into_iter().fold(0, u64::saturating_add),
    })
}

#[cfg(test)]
mod tests {
    use super::{Process, Processes, parse};
    use crate::root::Root;
    use crate::testing::{Folder, noise};
    use std::collections::BTreeSet;

    fn stat(pid: u32, name: &str, parent: u32, times: [u64; 4]) -> String {
        let [user, system, child_user, child_system] = times;
        format!(
            "{pid} ({name}) S {parent} 1 1 0 -1 4194304 9 8 7 6 {user} {system} {child_user} \
             {child_system} 20 0 1 0 100 1000 10\n"
        )
    }

    #[test]
    fn own_processes_are_those_that_descend_from_named_ones() {
        let folder = Folder::new();
        let tree = [(1, 0), (10, 1), (11, 10), (12, 11), (20, 1), (21, 20)];
        for (pid, parent) in tree {
            folder.write(&format!("proc/{pid}/stat"), stat(pid, "x", parent, [1, 2, 3, 4]));
        }
        folder.write("proc/99/stat", "cut off (");
        folder.write("proc/self/stat", stat(10, "x", 1, [1; 4]));
        let processes = Processes::read(&Root::new(folder.path()));
        let own = BTreeSet::from([10]);
        let ours: Vec<u32> = (0..100).filter(|pid| processes.descends(*pid, &own)).collect();
        assert_eq!(ours, [10, 11, 12]);
        assert_eq!(processes.ticks(&own), 30);
        assert!(processes.has(21) && !processes.has(99));
        assert!(!processes.descends(12, &BTreeSet::new()));
    }

    #[test]
    fn circle_of_parents_ends() {
        let process = |parent| Process { parent, ticks: 1 };
        let processes = Processes([(5, process(6)), (6, process(5))].into());
        assert!(!processes.descends(5, &BTreeSet::from([7])));
        assert!(processes.descends(5, &BTreeSet::from([6])));
    }

    #[test]
    fn prop_stat_is_read_whatever_the_name_of_the_process() {
        arbtest::arbtest(|u| {
            let name = noise(u, &[")", "(", " ", ") S 1 ", "\n", "x"])?;
            let line = stat(7, &name, 42, [1, 20, 300, 4_000]);
            assert_eq!(parse(&line), Some(Process { parent: 42, ticks: 4_321 }));
            Ok(())
        });
    }

    #[test]
    fn prop_stat_that_is_cut_off_is_nothing() {
        arbtest::arbtest(|u| {
            let line = stat(7, "name", 42, [1, 20, 300, 4_000]);
            let end = line.find(" 20 0 1 0").expect("the last field is there");
            let cut = u.int_in_range(0..=end - 5)?;
            assert_eq!(parse(line.get(..cut).expect("plain letters")), None);
            Ok(())
        });
    }
}
