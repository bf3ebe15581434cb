//! What the tests stand on: a place for files, canaries that must survive, sandboxes at a chosen
//! level, and a loud word where a level is missing.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tg_sandbox::{
    Bytes, Event, Input, Level, Limits, Outcome, RunError, Sandbox, Settings, Stop, Stream, Task,
};

/// Held by a process of the machine that must survive; also the name under which what tasks leave
/// behind is looked for.
pub(crate) const MARK: &str = "31337.25";

/// Whether these tests are root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The user that tasks run as.
pub(crate) fn job_uid() -> u32 {
    if is_root() { Settings::NOBODY.uid } else { rustix::process::geteuid().as_raw() }
}

/// A folder that is removed with everything in it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes one that everybody may pass through.
    pub(crate) fn new(name: &str) -> Self {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("random");
        let name = format!("tg-sandbox-it-{name}-{}", hex::encode(bytes));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("makes a folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("opens it");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_to_the_system = fs::remove_dir_all(&self.0);
    }
}

/// Whether the users that tasks run as can start this program, which some tests do.
pub(crate) fn others_reach_this_program() -> bool {
    !is_root() || others_reach(&std::env::current_exe().expect("this program"))
}

fn others_reach(file: &Path) -> bool {
    let mode = |path: &Path| fs::metadata(path).map(|data| data.permissions().mode());
    file.ancestors().all(|path| mode(path).is_ok_and(|mode| mode & 0o001 != 0))
}

/// Does the same from a copy of this program that everybody reaches.
pub(crate) fn run_where_others_reach_it(words: &[&str]) -> ExitCode {
    let folder = Folder::new("program");
    let copy = folder.path().join("it");
    fs::copy(std::env::current_exe().expect("this program"), &copy).expect("copies");
    assert!(others_reach(&copy), "other users must be able to pass to {}", copy.display());
    let status = Command::new(&copy).args(words).status().expect("starts");
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A sandbox and where its files are.
pub(crate) struct Place {
    pub(crate) sandbox: Sandbox,
    pub(crate) state: PathBuf,
    _folder: Folder,
}

impl Drop for Place {
    fn drop(&mut self) {
        forget_podman(&self.state);
    }
}

/// Removes what `podman` keeps until the machine is started again, named after the folder.
pub(crate) fn forget_podman(state: &Path) {
    let hash = Sha256::digest(state.join("podman").as_os_str().as_encoded_bytes());
    let name: String = hex::encode(hash).chars().take(16).collect();
    let _left_to_the_system = fs::remove_dir_all(format!("/run/tensorgrid-podman-{name}"));
}

impl Place {
    /// A sandbox that may use these levels.
    pub(crate) fn at(levels: &[Level]) -> Self {
        Self::with(|settings| settings.levels = levels.to_vec())
    }

    /// A sandbox with changed settings; the level without namespaces is allowed.
    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        before();
        let folder = Folder::new("state");
        let mut settings = settings(folder.path());
        change(&mut settings);
        let state = settings.state_folder.clone();
        let sandbox = Sandbox::new(settings).expect("sandboxes");
        Self { sandbox, state, _folder: folder }
    }

    /// Runs a task to its end, keeping what it says.
    pub(crate) fn run(&self, task: &Task) -> Result<Ran, RunError> {
        self.run_with(task, &mut |_| {})
    }

    pub(crate) fn run_with(
        &self,
        task: &Task,
        on: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Ran, RunError> {
        let stop = Stop::new().expect("a handle");
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let outcome = self.sandbox.run(task, &stop, &mut |event| {
            on(&event);
            match event {
                Event::Said { stream: Stream::Output, bytes } => out.extend_from_slice(bytes),
                Event::Said { stream: Stream::Error, bytes } => err.extend_from_slice(bytes),
                Event::Prepared { .. } | Event::Started { .. } => {}
            }
        })?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Ran { outcome, out: text(out), err: text(err) })
    }

    /// Nothing of any run is left: no folder, no process, no control group.
    pub(crate) fn assert_clean(&self, after: &str) {
        let left: Vec<PathBuf> = fs::read_dir(&self.state)
            .expect("lists")
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().contains("run-"))
            .collect();
        assert!(left.is_empty(), "after {after}: {left:?}");
        let left = processes_with(MARK, true);
        assert!(left.is_empty(), "after {after}: processes {left:?}");
        let (mut groups, mut processes) = (groups(), processes_of(job_uid()));
        groups.retain(|group| !before().0.contains(group));
        assert!(groups.is_empty(), "after {after}: groups {groups:?}");
        processes.retain(|process| !before().1.contains(process));
        assert!(processes.is_empty() || !is_root(), "after {after}: processes {processes:?}");
    }
}

/// What a run gave.
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Settings for tests: groups at the top, so that nobody else's are touched.
pub(crate) fn settings(folder: &Path) -> Settings {
    let mut settings = Settings::new(&folder.join("state"));
    settings.allow_rlimits = true;
    settings.cgroup_parent = Some("/".to_owned());
    settings
}

/// Small limits that an ordinary program is well within.
pub(crate) fn small() -> Limits {
    Limits {
        memory: Bytes::mib(96),
        disk: Bytes::mib(8),
        streams: Bytes::mib(1),
        outputs: Bytes::mib(1),
        wall: Duration::from_secs(60),
        cpu_time: Duration::from_secs(30),
        cpu_milli: 2000,
        pids: 32,
        open_files: 256,
    }
}

/// A task with small limits and this binary as an input, for hostile programs.
pub(crate) fn task(program: &[&str]) -> Task {
    let source = std::env::current_exe().expect("this program");
    let inputs = vec![Input::path("attack", source).expect("a name")];
    Task { inputs, limits: small(), ..Task::new(program) }
}

/// A task for a shell.
pub(crate) fn shell(script: &str) -> Task {
    task(&["/bin/sh", "-c", script])
}

/// Waits until nobody else runs these tests, which look for what is left on the whole machine.
pub(crate) fn wait_for_others() -> fs::File {
    let path = std::env::temp_dir().join("tg-sandbox-it.lock");
    let make = |_| fs::File::create(&path).and_then(|_| fs::File::open(&path));
    let lock = fs::File::open(&path).or_else(make).expect("a lock");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locks");
    lock
}

/// Control groups and processes of the tasks' user that were there before any test.
fn before() -> &'static (Vec<PathBuf>, Vec<String>) {
    static BEFORE: OnceLock<(Vec<PathBuf>, Vec<String>)> = OnceLock::new();
    BEFORE.get_or_init(|| (groups(), processes_of(job_uid())))
}

/// Levels to be tried, those that are missing named loudly, once.
pub(crate) fn levels() -> Vec<Level> {
    static FOUND: OnceLock<Vec<Level>> = OnceLock::new();
    FOUND.get_or_init(find_levels).clone()
}

fn find_levels() -> Vec<Level> {
    let place = Place::with(|_| {});
    let abilities = place.sandbox.abilities();
    for line in abilities.explain().iter().filter(|line| !line.is_present) {
        let hint = line.hint.as_deref().unwrap_or_default();
        println!("!!! {} IS MISSING AND NOT TESTED: {hint}", line.what.to_uppercase());
    }
    let usable: Vec<Level> = abilities.usable().collect();
    assert!(usable.contains(&Level::Rlimits), "this works everywhere");
    usable
}

/// Processes of the machine whose command line or environment has a word; those of the canaries
/// are left out if asked.
pub(crate) fn processes_with(word: &str, without_canaries: bool) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("lists").flatten();
    let mut found = Vec::new();
    for entry in entries {
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let is_canary = command.contains("sleep") && without_canaries && command.contains("9999");
        if command.contains(word) && !is_canary {
            found.push(format!("{}: {command}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

/// Processes of a user besides the canary, by number and command.
fn processes_of(uid: u32) -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    let entries = fs::read_dir("/proc").expect("lists").flatten();
    let own = entries.filter(|entry| entry.metadata().is_ok_and(|data| data.uid() == uid));
    let mut found = Vec::new();
    for entry in own {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        // One that has ended and waits to be collected by its parent has no command line.
        if !command.is_empty() && !command.contains("9999") {
            found.push(format!("{}: {command}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

/// Control groups of runs.
fn groups() -> Vec<PathBuf> {
    let tops = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let mut found = Vec::new();
    let tops = tops.map(|entry| entry.path()).chain([PathBuf::from("/sys/fs/cgroup")]);
    for folder in tops.flat_map(|top| [top.join("tensorgrid"), top]) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().contains("run-") {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Things of the machine that no task may touch.
pub(crate) struct Canaries {
    folder: Folder,
    sleeper: Child,
    pub(crate) listener: TcpListener,
}

impl Canaries {
    const TEXT: &str = "the canary lives";

    /// Sets them up: a readable file, a folder that anybody may write to, a process of the very
    /// user that tasks run as, and a listening socket.
    pub(crate) fn new() -> Self {
        let folder = Folder::new("canary");
        let write = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, Self::TEXT).expect("writes");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("opens");
        };
        write("readable", 0o644);
        write("writable", 0o666);
        let open = folder.path().join("open");
        fs::create_dir(&open).expect("makes");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("opens");
        let mut sleeper = Command::new("sleep");
        sleeper.arg(format!("9999{MARK}")).stdin(Stdio::null()).env("SECRET", Self::TEXT);
        if is_root() {
            sleeper.uid(job_uid()).gid(Settings::NOBODY.gid);
        }
        let sleeper = sleeper.spawn().expect("sleeps");
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        Self { folder, sleeper, listener }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn sleeper(&self) -> u32 {
        self.sleeper.id()
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().expect("an address").port()
    }

    /// All are as they were.
    pub(crate) fn assert_alive(&mut self, after: &str) {
        for name in ["readable", "writable"] {
            let text = fs::read_to_string(self.folder().join(name)).expect("is there");
            assert_eq!(text, Self::TEXT, "after {after}");
        }
        let open = fs::read_dir(self.folder().join("open")).expect("lists");
        assert_eq!(open.count(), 0, "after {after}");
        assert_eq!(fs::read_dir(self.folder()).expect("lists").count(), 3, "after {after}");
        assert!(self.sleeper.try_wait().expect("asks").is_none(), "after {after}");
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        let _gone = self.sleeper.kill();
        let _gone = self.sleeper.wait();
    }
}
