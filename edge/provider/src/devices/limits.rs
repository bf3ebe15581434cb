//! What control groups leave of the machine: memory and processor time of this process.
//!
//! Separate because Linux has two generations of them, mixed on some machines, and a container sees
//! its own group as the root or not at all. The tightest limit on the way from the group to the
//! root counts, in both generations.

use crate::root::Root;

/// Where the groups of the second generation are: alone, or beside the first.
const UNIFIED: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The deepest group that is looked at. Containers in containers make a dozen.
const DEPTH_MAX: usize = 64;

/// A limit of at least this many bytes is how the first generation says that there is none.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// What a process may use. `None` where nothing limits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// Memory.
    pub(super) memory_bytes: Option<u64>,
    /// What is left of it.
    pub(super) memory_free_bytes: Option<u64>,
    /// Processor time, in thousandths of a processor.
    pub(super) processors_milli: Option<u32>,
}

impl Limits {
    /// The limits of this process.
    pub(super) fn read(root: &Root) -> Self {
        let groups = root.text("/proc/self/cgroup").unwrap_or_default();
        let mut limits = Self::default();
        for group in groups.lines().filter_map(Group::parse) {
            let is_unified = group.controllers.is_empty();
            let has = |name: &str| group.controllers.split(',').any(|found| found == name);
            if is_unified {
                for mount in UNIFIED {
                    group.each_folder(mount, |folder| limits.tighten(&unified(root, folder)));
                }
            }
            if has("memory") {
                let mount = "/sys/fs/cgroup/memory";
                group.each_folder(mount, |folder| limits.tighten(&first_memory(root, folder)));
            }
            if has("cpu") {
                for mount in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"] {
                    group.each_folder(mount, |folder| limits.tighten(&first_cpu(root, folder)));
                }
            }
        }
        limits
    }

    fn tighten(&mut self, other: &Self) {
        fn least<T: Ord + Copy>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        self.memory_bytes = least(self.memory_bytes, other.memory_bytes);
        self.memory_free_bytes = least(self.memory_free_bytes, other.memory_free_bytes);
        self.processors_milli = least(self.processors_milli, other.processors_milli);
    }
}

/// A line of `/proc/self/cgroup`: number, controllers and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group<'a> {
    /// With commas between them; none in the second generation.
    controllers: &'a str,
    path: &'a str,
}

impl<'a> Group<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_known = number.bytes().all(|digit| digit.is_ascii_digit()) && path.starts_with('/');
        is_known.then_some(Self { controllers, path })
    }

    /// Calls with every folder from the mount down to the group. A path that leads out of the
    /// container names no folder here, so that only the mount is left.
    fn each_folder(&self, mount: &str, mut call: impl FnMut(&str)) {
        let mut folder = mount.to_owned();
        call(&folder);
        let parts = self.path.split('/').filter(|part| !part.is_empty());
        for part in parts.take(DEPTH_MAX).take_while(|part| *part != "..") {
            folder.push('/');
            folder.push_str(part);
            call(&folder);
        }
    }
}

fn memory(limit: Option<u64>, used: Option<u64>, cache: Option<u64>) -> Limits {
    let memory_bytes = limit.filter(|limit| *limit < NO_LIMIT_BYTES);
    // What was read from files and not used for a while is given back when it is needed.
    let held = used.map(|used| used.saturating_sub(cache.unwrap_or(0)));
    let free = |limit: u64| Some(limit.saturating_sub(held?));
    Limits { memory_bytes, memory_free_bytes: memory_bytes.and_then(free), processors_milli: None }
}

fn cpu(quota_us: Option<u64>, period_us: Option<u64>) -> Limits {
    let milli = |quota: u64| {
        let milli = u128::from(quota) * 1_000 / u128::from(period_us.filter(|period| *period > 0)?);
        Some(u32::try_from(milli).unwrap_or(u32::MAX).max(1))
    };
    Limits { processors_milli: quota_us.and_then(milli), ..Limits::default() }
}

fn unified(root: &Root, folder: &str) -> Limits {
    let limit = root.number(&format!("{folder}/memory.max"));
    let used = root.number(&format!("{folder}/memory.current"));
    let mut limits = memory(limit, used, inactive(root, folder, "inactive_file"));
    // "max 100000" or "150000 100000"
    if let Some(line) = root.line(&format!("{folder}/cpu.max")) {
        let mut words = line.split_whitespace().map(|word| word.parse().ok());
        let (quota, period) = (words.next().flatten(), words.next().flatten());
        limits.tighten(&cpu(quota, period));
    }
    limits
}

fn first_memory(root: &Root, folder: &str) -> Limits {
    let limit = root.number(&format!("{folder}/memory.limit_in_bytes"));
    let used = root.number(&format!("{folder}/memory.usage_in_bytes"));
    memory(limit, used, inactive(root, folder, "total_inactive_file"))
}

fn first_cpu(root: &Root, folder: &str) -> Limits {
    // No quota is -1, which is no number here.
    let quota = root.number(&format!("{folder}/cpu.cfs_quota_us"));
    cpu(quota, root.number(&format!("{folder}/cpu.cfs_period_us")))
}

fn inactive(root: &Root, folder: &str, key: &str) -> Option<u64> {
    let stat = root.text(&format!("{folder}/memory.stat"))?;
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
    stat.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::{Group, Limits};
    use crate::root::Root;
    use crate::testing::{Folder, noise};

    const MIB: u64 = 1 << 20;

    fn read(files: &[(&str, &str)]) -> Limits {
        let folder = Folder::new();
        for (path, content) in files {
            folder.write(path, content);
        }
        Limits::read(&Root::new(folder.path()))
    }

    #[test]
    fn no_group_is_no_limit() {
        assert_eq!(read(&[]), Limits::default());
        assert_eq!(read(&[("proc/self/cgroup", "0::/\n")]), Limits::default());
    }

    #[test]
    fn second_generation_gives_the_tightest_limit_on_the_way() {
        let limits = read(&[
            ("proc/self/cgroup", "0::/user.slice/job.scope\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/user.slice/memory.current", "1048576\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/job.scope/memory.current", "900000000\n"),
            ("sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n"),
        ]);
        let expected = Limits {
            memory_bytes: Some(1_024 * MIB),
            memory_free_bytes: Some(1_023 * MIB),
            processors_milli: Some(500),
        };
        assert_eq!(limits, expected);
    }

    #[test]
    fn memory_held_for_files_is_free() {
        let limits = read(&[
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "104857600\n"),
            ("sys/fs/cgroup/memory.current", "104857600\n"),
            ("sys/fs/cgroup/memory.stat", "file 5\ninactive_file 41943040\nactive_file 7\n"),
        ]);
        assert_eq!(limits.memory_free_bytes, Some(40 * MIB));
    }

    #[test]
    fn first_generation_gives_limits_by_controller() {
        let limits = read(&[
            ("proc/self/cgroup", "4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "209715200\n"),
            ("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "104857600\n"),
            ("sys/fs/cgroup/memory/box/memory.stat", "cache 1\ntotal_inactive_file 1048576\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n"),
        ]);
        let expected = Limits {
            memory_bytes: Some(200 * MIB),
            memory_free_bytes: Some(101 * MIB),
            processors_milli: Some(1_500),
        };
        assert_eq!(limits, expected);
    }

    #[test]
    fn container_that_sees_its_group_as_the_mount_is_limited() {
        let limits = read(&[
            ("proc/self/cgroup", "4:memory:/docker/0123abc\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "52428800\n"),
        ]);
        assert_eq!(limits.memory_bytes, Some(50 * MIB));
        assert_eq!(limits.memory_free_bytes, None);
    }

    #[test]
    fn path_out_of_the_container_is_not_followed() {
        let limits = read(&[
            ("proc/self/cgroup", "0::/../../other\n"),
            ("sys/fs/cgroup/memory.max", "1048576\n"),
            ("sys/memory.max", "1\n"),
            ("other/memory.max", "1\n"),
        ]);
        assert_eq!(limits.memory_bytes, Some(MIB));
    }

    #[test]
    fn period_of_nothing_is_no_limit() {
        for cpu in ["100000 0", "x 100000", "", "100000"] {
            let limits = read(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/cpu.max", cpu)]);
            assert_eq!(limits.processors_milli, None, "{cpu}");
        }
    }

    #[test]
    fn prop_any_group_line_names_folders_below_the_mount() {
        arbtest::arbtest(|u| {
            let line = noise(u, &["0", "::", ":", "/", "..", "a", "cpu,", "memory", "/../"])?;
            if let Some(group) = Group::parse(&line) {
                group.each_folder("/mount", |folder| {
                    assert!(folder.starts_with("/mount"));
                    assert!(!folder.split('/').any(|part| part == ".."));
                });
            }
            Ok(())
        });
    }
}
