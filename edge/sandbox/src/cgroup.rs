//! Control groups, version 1 and 2: one group for each task, with limits that hold for all its
//! processes together. Which controllers a machine gives us differs, so every limit is tried when
//! the group is made and reported by itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::limits::{Bytes, Limits};
use crate::outcome::By;

/// The group below which those of tasks are made.
const PARENT: &str = "tensorgrid";
/// The period in which processor time is shared out, in microseconds; the kernel's default.
const PERIOD_MICROS: u64 = 100_000;
/// The first process of a sandbox is in the group as well.
const OWN_PIDS: u32 = 1;
/// Attempts to end or remove a group, ten milliseconds apart.
const ATTEMPTS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// What a group can limit or count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Controller {
    Memory,
    Cpu,
    CpuTime,
    Pids,
}

impl Controller {
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::Cpu, Self::CpuTime, Self::Pids];

    /// Its name among the controllers of version 1.
    const fn name_v1(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::CpuTime => "cpuacct",
            Self::Pids => "pids",
        }
    }

    /// Its name among the controllers of version 2, where every group counts processor time.
    const fn name_v2(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu | Self::CpuTime => "cpu",
            Self::Pids => "pids",
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu share",
            Self::CpuTime => "cpu time",
            Self::Pids => "pids",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where groups with a controller can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    controller: Controller,
    version: Version,
    /// Folders to try, in order: our own group, the one above it, the topmost.
    candidates: Vec<PathBuf>,
}

/// The control groups of this machine, as far as we may use them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// Controllers with the folder in which groups of tasks are made.
    parents: Vec<(Controller, Version, PathBuf)>,
}

impl Hierarchy {
    /// Finds out which controllers can be used. `parent` is a group, such as `/system.slice/x`,
    /// below which to make groups; without it that is the group of this process, if it may.
    pub(crate) fn find(parent: Option<&str>) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let mounts = read("/proc/self/mountinfo");
        let own = read("/proc/self/cgroup");
        let mut parents = Vec::new();
        for place in places(&mounts, &own, parent) {
            let usable = place.candidates.iter().find_map(|folder| prepare(&place, folder).ok());
            parents.extend(usable.map(|folder| (place.controller, place.version, folder)));
        }
        Self { parents }
    }

    pub(crate) fn has(&self, controller: Controller) -> bool {
        self.parents.iter().any(|(known, _, _)| *known == controller)
    }

    /// Makes a group with limits. A limit that is refused is left out and shows in
    /// [`Group::enforces`].
    pub(crate) fn make(&self, name: &str, limits: &Limits) -> Group {
        let mut group = Group { parts: Vec::new() };
        for (controller, version, parent) in &self.parents {
            let part =
                Part { controller: *controller, version: *version, folder: parent.join(name) };
            // One folder may have several controllers.
            let is_known = group.parts.iter().any(|known| known.folder == part.folder);
            if make_group(&part.folder).and_then(|()| part.limit(limits)).is_ok() {
                group.parts.push(part);
            } else if !is_known {
                let _was_not_made = fs::remove_dir(&part.folder);
            }
        }
        group
    }

    /// Removes a group that an earlier process of this program left behind.
    pub(crate) fn sweep(&self, name: &str) {
        let parts = self.parents.iter().map(|(controller, version, parent)| Part {
            controller: *controller,
            version: *version,
            folder: parent.join(name),
        });
        drop(Group { parts: parts.filter(|part| part.folder.is_dir()).collect() });
    }
}

/// The group of one task; ended and removed when dropped.
#[derive(Debug, Default)]
pub(crate) struct Group {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    controller: Controller,
    version: Version,
    folder: PathBuf,
}

impl Group {
    /// Puts a process into the group, with all it starts from then on.
    pub(crate) fn add(&self, pid: Pid) -> io::Result<()> {
        for part in &self.parts {
            fs::write(part.folder.join("cgroup.procs"), pid.as_raw_nonzero().to_string())?;
        }
        Ok(())
    }

    /// By what a controller's limit is enforced.
    pub(crate) fn enforces(&self, controller: Controller) -> Option<By> {
        let part = self.parts.iter().find(|part| part.controller == controller)?;
        Some(match part.version {
            Version::One => By::CgroupV1,
            Version::Two => By::CgroupV2,
        })
    }

    /// Processor time used so far.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let part = self.part(Controller::CpuTime)?;
        match part.version {
            Version::One => Some(Duration::from_nanos(part.number("cpuacct.usage")?)),
            Version::Two => Some(Duration::from_micros(part.field("cpu.stat", "usage_usec")?)),
        }
    }

    /// The most memory used so far.
    pub(crate) fn memory_peak(&self) -> Option<Bytes> {
        let part = self.part(Controller::Memory)?;
        let file = match part.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        part.number(file).map(Bytes::new)
    }

    /// Whether the kernel has ended a process of the group for want of memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        let Some(part) = self.part(Controller::Memory) else { return false };
        let file = match part.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        part.field(file, "oom_kill").is_some_and(|count| count > 0)
    }

    /// Processes in the group, as this process numbers them.
    pub(crate) fn pids(&self) -> Vec<Pid> {
        let Some(part) = self.parts.first() else { return Vec::new() };
        let text = fs::read_to_string(part.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok().and_then(Pid::from_raw)).collect()
    }

    /// Ends everything in the group. It cannot grow meanwhile: no process may be added.
    pub(crate) fn kill(&self) {
        if let Some(part) = self.part(Controller::Pids) {
            let _not_needed_to_end = fs::write(part.folder.join("pids.max"), "0");
        }
        for _ in 0..ATTEMPTS {
            let pids = self.pids();
            if pids.is_empty() {
                return;
            }
            for pid in pids {
                let _ended_already = rustix::process::kill_process(pid, Signal::KILL);
            }
            thread::sleep(PAUSE);
        }
    }

    fn part(&self, controller: Controller) -> Option<&Part> {
        self.parts.iter().find(|part| part.controller == controller)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        for part in &self.parts {
            for _ in 0..ATTEMPTS {
                match fs::remove_dir(&part.folder) {
                    // Ended processes leave a group a moment later.
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        thread::sleep(PAUSE);
                    }
                    Ok(()) | Err(_) => break,
                }
            }
        }
    }
}

impl Part {
    fn limit(&self, limits: &Limits) -> io::Result<()> {
        let write = |file: &str, text: String| fs::write(self.folder.join(file), text);
        let memory = limits.memory.get();
        let quota = u64::from(limits.cpu_milli).saturating_mul(PERIOD_MICROS) / 1000;
        let pids = limits.pids.saturating_add(OWN_PIDS);
        match (self.version, self.controller) {
            (Version::One, Controller::Memory) => {
                write("memory.limit_in_bytes", memory.to_string())?;
                // Not there if the kernel does not count what is swapped out.
                self.write_if_there("memory.memsw.limit_in_bytes", &memory.to_string())?;
                self.write_if_there("memory.swappiness", "0")
            }
            (Version::Two, Controller::Memory) => {
                write("memory.max", memory.to_string())?;
                self.write_if_there("memory.swap.max", "0")?;
                self.write_if_there("memory.oom.group", "1")
            }
            (Version::One, Controller::Cpu) => {
                write("cpu.cfs_period_us", PERIOD_MICROS.to_string())?;
                write("cpu.cfs_quota_us", quota.to_string())
            }
            (Version::Two, Controller::Cpu) => write("cpu.max", format!("{quota} {PERIOD_MICROS}")),
            (_, Controller::Pids) => write("pids.max", pids.to_string()),
            (Version::One, Controller::CpuTime) => {
                fs::metadata(self.folder.join("cpuacct.usage")).map(drop)
            }
            (Version::Two, Controller::CpuTime) => {
                fs::metadata(self.folder.join("cpu.stat")).map(drop)
            }
        }
    }

    fn write_if_there(&self, file: &str, text: &str) -> io::Result<()> {
        let path = self.folder.join(file);
        if path.exists() { fs::write(path, text) } else { Ok(()) }
    }

    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }

    /// The number after a word in a file of «word number» lines.
    fn field(&self, file: &str, word: &str) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(file)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    }
}

/// Makes the parent of our groups in a folder and tries whether it can have groups with limits.
fn prepare(place: &Place, folder: &Path) -> io::Result<PathBuf> {
    let parent = folder.join(PARENT);
    if place.version == Version::Two {
        let enable = format!("+{}", place.controller.name_v2());
        fs::write(folder.join("cgroup.subtree_control"), &enable)?;
        make_group(&parent)?;
        fs::write(parent.join("cgroup.subtree_control"), &enable)?;
    } else {
        make_group(&parent)?;
    }
    // Two processes of this program may try at the same time.
    let trial = parent.join(format!("trial-{}", std::process::id()));
    make_group(&trial)?;
    let part = Part { controller: place.controller, version: place.version, folder: trial.clone() };
    let tried = part.limit(&Limits::default());
    fs::remove_dir(&trial)?;
    tried.map(|()| parent)
}

fn make_group(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Where groups could be made, from the mount table and the groups of this process.
fn places(mounts: &str, own: &str, parent: Option<&str>) -> Vec<Place> {
    let mut found = Vec::new();
    for controller in Controller::ALL {
        let one = mount_of(mounts, "cgroup", Some(controller.name_v1()))
            .map(|mount| (Version::One, mount, own_group(own, controller.name_v1())));
        let two = || {
            mount_of(mounts, "cgroup2", None).map(|mount| (Version::Two, mount, own_group(own, "")))
        };
        let Some((version, mount, group)) = one.or_else(two) else { continue };
        let in_mount = |group: &str| mount.join(group.trim_start_matches('/'));
        let candidates = match (parent, group) {
            (Some(parent), _) => vec![in_mount(parent)],
            (None, Some(group)) => {
                let own = in_mount(&group);
                let above = own.parent().filter(|above| above.starts_with(&mount));
                let above = above.map(Path::to_path_buf);
                let mut candidates = vec![own];
                candidates.extend(above);
                candidates.push(mount);
                candidates.dedup();
                candidates
            }
            (None, None) => vec![mount],
        };
        found.push(Place { controller, version, candidates });
    }
    found
}

/// Where a file system of this type, with this option, is mounted.
fn mount_of(mounts: &str, kind: &str, option: Option<&str>) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let is_kind = after.next() == Some(kind);
        let mut options = after.nth(1)?.split(',');
        let fits = option.is_none_or(|option| options.any(|given| given == option));
        let path = before.split(' ').nth(4)?;
        (is_kind && fits).then(|| PathBuf::from(path))
    })
}

/// The group this process is in, by the controller of version 1, or of version 2 if it is empty.
fn own_group(own: &str, controller: &str) -> Option<String> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let group = fields.next()?;
        let fits = controllers.split(',').any(|name| name == controller);
        fits.then(|| group.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::{Controller, Group, Part, Version, places};
    use crate::files::TemporaryFolder;
    use crate::limits::{Bytes, Limits};
    use crate::outcome::By;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    const MOUNTS_V1: &str = "\
25 1 0:20 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
26 1 0:21 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct
27 1 0:22 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const MOUNTS_V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    fn find(mounts: &str, own: &str, parent: Option<&str>, controller: Controller) -> Vec<PathBuf> {
        let found = places(mounts, own, parent).into_iter();
        let mut found = found.filter(|place| place.controller == controller);
        found.next().map(|place| place.candidates).unwrap_or_default()
    }

    #[test]
    fn own_group_comes_before_those_above_it() {
        let own = "4:memory:/a/b\n2:cpu,cpuacct:/\n0::/x\n";
        let memory = find(MOUNTS_V1, own, None, Controller::Memory);
        let folder = Path::new("/sys/fs/cgroup/memory");
        assert_eq!(memory, [folder.join("a/b"), folder.join("a"), folder.to_owned()]);
        let cpu = find(MOUNTS_V1, own, None, Controller::CpuTime);
        assert_eq!(cpu.first(), Some(&PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/")));
        // No controller of version 1 for it: version 2, if it has one.
        let pids = find(MOUNTS_V1, own, None, Controller::Pids);
        assert_eq!(pids.first(), Some(&PathBuf::from("/sys/fs/cgroup/unified/x")));
    }

    #[test]
    fn named_parent_is_the_only_candidate() {
        let found = find(MOUNTS_V2, "0::/user.slice\n", Some("/jobs.slice"), Controller::Memory);
        assert_eq!(found, [Path::new("/sys/fs/cgroup/jobs.slice")]);
        assert!(find("", "", None, Controller::Memory).is_empty());
    }

    /// A folder with the files of a group, as far as they are written before they are read.
    fn group(version: Version, files: &[(&str, &str)]) -> (TemporaryFolder, Group) {
        let folder = TemporaryFolder::new().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("writes");
        }
        let part = |controller| Part { controller, version, folder: folder.path().to_owned() };
        let parts = Controller::ALL.into_iter().map(part).collect();
        (folder, Group { parts })
    }

    #[test]
    fn version_2_is_written_and_read() {
        let files = [
            ("cpu.stat", "usage_usec 1500\nuser_usec 1000\n"),
            ("memory.events", "low 0\noom 1\noom_kill 2\n"),
            ("memory.peak", "4096\n"),
            ("memory.swap.max", "max"),
            ("cgroup.procs", ""),
        ];
        let (folder, group) = group(Version::Two, &files);
        let limits = Limits { memory: Bytes::mib(64), cpu_milli: 250, pids: 9, ..<_>::default() };
        for part in &group.parts {
            part.limit(&limits).expect("limits");
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("reads");
        assert_eq!(read("memory.max"), "67108864");
        assert_eq!(read("memory.swap.max"), "0");
        assert_eq!(read("cpu.max"), "25000 100000");
        assert_eq!(read("pids.max"), "10");
        assert_eq!(group.cpu(), Some(Duration::from_micros(1500)));
        assert_eq!(group.memory_peak(), Some(Bytes::new(4096)));
        assert!(group.is_out_of_memory());
        assert_eq!(group.enforces(Controller::Cpu), Some(By::CgroupV2));
    }

    #[test]
    fn version_1_is_written_and_read() {
        let files = [
            ("cpuacct.usage", "2500000\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"),
            ("memory.max_usage_in_bytes", "8192\n"),
            ("memory.memsw.limit_in_bytes", "9223372036854771712"),
            ("cgroup.procs", ""),
        ];
        let (folder, group) = group(Version::One, &files);
        for part in &group.parts {
            part.limit(&Limits::default()).expect("limits");
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("reads");
        assert_eq!(read("memory.limit_in_bytes"), "1073741824");
        assert_eq!(read("memory.memsw.limit_in_bytes"), "1073741824");
        assert_eq!(read("cpu.cfs_quota_us"), "100000");
        assert_eq!(group.cpu(), Some(Duration::from_micros(2500)));
        assert!(!group.is_out_of_memory());
        assert_eq!(group.memory_peak(), Some(Bytes::new(8192)));
    }

    #[test]
    fn machine_without_groups_enforces_nothing() {
        let group = super::Hierarchy::default().make("x", &Limits::default());
        for controller in Controller::ALL {
            assert_eq!(group.enforces(controller), None);
        }
        assert_eq!(group.cpu(), None);
        assert!(!group.is_out_of_memory());
    }
}
