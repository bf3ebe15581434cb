//! What matters of the machine besides its devices: who keeps the clock, how full the disk is, and
//! whether drivers can be reached.

use super::facts::Memory;
use super::nvidia::kernel_version;
use super::pci::PciGpu;
use crate::root::Root;
use rustix::fs::Access;
use std::path::{Path, PathBuf};

/// Programs that keep the clock right: where each notes its process, and what that is called.
const CLOCK_KEEPERS: [(&str, &str); 5] = [
    ("/run/chrony/chronyd.pid", "chronyd"),
    ("/run/chronyd.pid", "chronyd"),
    ("/run/ntpd.pid", "ntpd"),
    ("/run/ntpd/ntpd.pid", "ntpd"),
    ("/run/openntpd.pid", "ntpd"),
];

/// Where systemd's own keeper of the clock is at work, and the file it makes when it is right.
const TIMESYNC: [&str; 2] = ["/run/systemd/timesync", "/run/systemd/timesync/synchronized"];

/// Who keeps the machine's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clock {
    /// This program has set it right.
    Right(&'static str),
    /// This program runs; whether it has set the clock right yet is not known.
    Kept(&'static str),
    /// This program runs and has not set it right yet.
    Waiting(&'static str),
    /// Nobody that is known here.
    Unkept,
}

/// The disk on which a folder lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The folder.
    pub folder: PathBuf,
    /// Its space.
    pub space: Memory,
}

/// The machine besides its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// Graphics processors on the bus, usable or not.
    pub pci_gpus: Vec<PciGpu>,
    /// Whether the free driver for NVIDIA's GPUs is loaded, which keeps NVIDIA's own out.
    pub has_nouveau: bool,
    /// The version of the kernel part of NVIDIA's driver.
    pub nvidia_kernel: Option<String>,
    /// Files through which NVIDIA's driver is used, and which this user may not open.
    pub nodes_refused: Vec<PathBuf>,
    /// Who keeps the clock.
    pub clock: Clock,
    /// The disk for work, if a folder was named.
    pub disk: Option<Disk>,
}

impl HostFacts {
    pub(super) fn read(root: &Root, work_folder: Option<&Path>) -> Self {
        let modules = root.text("/proc/modules").unwrap_or_default();
        Self {
            pci_gpus: PciGpu::list(root),
            has_nouveau: modules.lines().any(|line| line.starts_with("nouveau ")),
            nvidia_kernel: kernel_version(root),
            nodes_refused: nodes_refused(root),
            clock: clock(root),
            disk: work_folder.and_then(disk),
        }
    }
}

fn nodes_refused(root: &Root) -> Vec<PathBuf> {
    let is_needed = |name: &String| {
        let rest = name.strip_prefix("nvidia");
        let is_number = |rest: &str| rest.bytes().all(|digit| digit.is_ascii_digit());
        rest.is_some_and(|rest| {
            ["ctl", "-uvm"].contains(&rest) || (!rest.is_empty() && is_number(rest))
        })
    };
    let nodes = root.names("/dev").into_iter().filter(is_needed);
    let paths = nodes.map(|name| root.path(&format!("/dev/{name}")));
    let both = Access::READ_OK | Access::WRITE_OK;
    paths.filter(|path| rustix::fs::access(path, both).is_err()).collect()
}

fn clock(root: &Root) -> Clock {
    let [folder, mark] = TIMESYNC;
    if root.exists(mark) {
        return Clock::Right("systemd-timesyncd");
    }
    let runs = |(file, name): &&(&str, &str)| {
        let pid = root.number(file);
        let found = pid.and_then(|pid| root.line(&format!("/proc/{pid}/comm")));
        found.is_some_and(|found| found == *name)
    };
    if let Some((_, name)) = CLOCK_KEEPERS.iter().find(runs) {
        return Clock::Kept(name);
    }
    match root.exists(folder) {
        true => Clock::Waiting("systemd-timesyncd"),
        false => Clock::Unkept,
    }
}

/// The disk of a folder, or of the folder in which it will be made.
fn disk(folder: &Path) -> Option<Disk> {
    let made = folder.ancestors().find(|folder| folder.is_dir())?;
    let found = rustix::fs::statvfs(made).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let space = Memory::of_bytes(bytes(found.f_blocks), bytes(found.f_bavail));
    Some(Disk { folder: folder.to_owned(), space })
}

#[cfg(test)]
mod tests {
    use super::{Clock, HostFacts, disk};
    use crate::root::Root;
    use crate::testing::Folder;
    use std::path::Path;

    fn read(folder: &Folder) -> HostFacts {
        HostFacts::read(&Root::new(folder.path()), None)
    }

    #[test]
    fn clock_is_kept_by_whoever_runs() {
        let folder = Folder::new();
        assert_eq!(read(&folder).clock, Clock::Unkept);
        folder.write("run/chrony/chronyd.pid", "77\n");
        assert_eq!(read(&folder).clock, Clock::Unkept, "a note of a process that is gone");
        folder.write("proc/77/comm", "bash\n");
        assert_eq!(read(&folder).clock, Clock::Unkept, "the number was given to another");
        folder.write("proc/77/comm", "chronyd\n");
        assert_eq!(read(&folder).clock, Clock::Kept("chronyd"));
    }

    #[test]
    fn clock_of_systemd_is_right_when_it_says_so() {
        let folder = Folder::new();
        folder.write("run/systemd/timesync/.keep", "");
        assert_eq!(read(&folder).clock, Clock::Waiting("systemd-timesyncd"));
        folder.write("run/systemd/timesync/synchronized", "");
        assert_eq!(read(&folder).clock, Clock::Right("systemd-timesyncd"));
    }

    #[test]
    fn nouveau_is_found_among_modules() {
        let folder = Folder::new();
        folder.write("proc/modules", "snd_nouveau 1 0 - Live\nnvidia 2 0 - Live\n");
        assert!(!read(&folder).has_nouveau);
        folder.write("proc/modules", "nouveau 3096576 4 - Live 0x0000000000000000\n");
        assert!(read(&folder).has_nouveau);
    }

    #[test]
    fn nodes_that_can_be_opened_are_not_refused() {
        let folder = Folder::new();
        for name in ["nvidiactl", "nvidia0", "nvidia-uvm"] {
            folder.write(&format!("dev/{name}"), "");
        }
        assert!(read(&folder).nodes_refused.is_empty());
        // A link to nowhere is refused for everybody, the administrator too.
        folder.link("dev/nvidia1", "nowhere");
        folder.link("dev/nvidia-caps", "nowhere");
        folder.link("dev/nvidia", "nowhere");
        let refused = read(&folder).nodes_refused;
        assert_eq!(refused, [folder.path().join("dev/nvidia1")]);
    }

    #[test]
    fn disk_of_a_folder_to_be_made_is_that_of_its_parent() {
        let folder = Folder::new();
        let later = folder.path().join("later/work");
        let found = disk(&later).expect("the parent is there");
        assert_eq!(found.folder, later);
        assert!(found.space.total_mib > 0);
        assert!(found.space.free_mib <= found.space.total_mib);
        assert_eq!(disk(Path::new("")), None);
    }
}
