//! Sandboxes of one machine: which levels work here, and running a task at the best of them. The
//! preparation of a run is here; what happens while it runs is in `watch.rs`.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::EventfdFlags;
use rustix::fs::{Gid, Uid};
use rustix::pipe::PipeFlags;

use crate::abilities::{Abilities, Unfit};
use crate::cgroup::{Controller, Group, Hierarchy};
use crate::error::{RunError, SandboxError};
use crate::files::{FileError, remove_tree};
use crate::helper::{CONTROL_NAME, Helper};
use crate::kept::{CHECKPOINT_NAME, KeptFolder, WORK_NAME};
use crate::level;
use crate::limits::{Bytes, Limits};
use crate::outcome::{Ended, Enforced, Level, Outcome};
use crate::outputs::{OUTPUT_NAME, Outputs};
use crate::processes;
use crate::run_folder::{RUN_PREFIX, RunFolder, is_left_behind};
use crate::settings::{Settings, Tools};
use crate::spec::{
    INIT_WORD, Inside, JobUser, LAUNCH_WORD, Launch, NOTHING_WORD, PATH, Paths, Rlimit, Shares,
    Sockets,
};
use crate::task::{
    self, CHECKPOINT_VARIABLE, CheckpointPath, INPUT_FOLDER, Input, Network, OUTPUT_FOLDER, Root,
    Source, Task, WORK_FOLDER, Work,
};
use crate::view::{
    Bind, Shown, TEMPORARY_NAME, View, ViewPlan, WorkSource, host_paths, make_folder,
};
use crate::watch::{Event, Run, Watch, Watched};

/// Levels by preference, for the machine's own programs and for images.
const FOR_HOST: [Level; 5] =
    [Level::Bubblewrap, Level::Namespaces, Level::Runc, Level::Podman, Level::Rlimits];
const FOR_IMAGE: [Level; 4] = [Level::Runc, Level::Podman, Level::Bubblewrap, Level::Namespaces];
/// Levels for this program itself: those that mount it, whoever may reach its file.
const FOR_OWN: [Level; 4] = [Level::Bubblewrap, Level::Namespaces, Level::Runc, Level::Podman];
/// Parts of the machine besides its programs, for the level that cannot show its own instead.
const PLAIN_READ: [&str; 7] = [
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
];
/// A file in a work folder in memory takes a kernel object besides its content.
const BYTES_PER_FILE: u64 = 4096;
const FILES_MIN: u64 = 64;
/// The trial does nothing, but on a busy machine even that takes its time.
const TRIAL_WALL: Duration = Duration::from_secs(60);
/// What a trial runs where tasks see the machine's own files.
const NOTHING_OF_THE_HOST: [&str; 3] = ["/bin/sh", "-c", ":"];

/// Ends a run from elsewhere. Clones end the same runs.
#[derive(Clone, Debug)]
pub struct Stop {
    file: Arc<OwnedFd>,
    asked: Arc<AtomicBool>,
}

impl Stop {
    /// A handle that has not been used.
    ///
    /// # Errors
    /// If the system gives no file for it.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self { file: Arc::new(rustix::event::eventfd(0, flags)?), asked: Arc::default() })
    }

    /// Asks the programs of all runs that were given this handle, and of those that will be, to
    /// end: each of their processes gets `SIGTERM` once. They may take their time.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether programs were asked to end.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Ends all runs that were given this handle, and those that will be.
    pub fn stop(&self) {
        // It can only fail because it is stopped so many times that the counter is full.
        let _stopped_already = rustix::io::write(&*self.file, &1_u64.to_ne_bytes());
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }
}

/// Sandboxes of this machine.
#[derive(Debug)]
pub struct Sandbox {
    settings: Settings,
    tools: Tools,
    helper: Helper,
    hierarchy: Hierarchy,
    is_root: bool,
    abilities: Abilities,
}

impl Sandbox {
    /// Finds out what works here, by trying, and removes what an earlier process left behind.
    ///
    /// # Errors
    /// If nothing can work: tasks would be root, or there is no place for their files.
    pub fn new(settings: Settings) -> Result<Self, SandboxError> {
        if settings.job_user.uid == 0 || settings.job_user.gid == 0 {
            return Err(SandboxError::RootUser);
        }
        let state = &settings.state_folder;
        fs::create_dir_all(state)
            // Names of runs are secrets: whoever knows one could talk to its supervisor.
            .and_then(|()| fs::set_permissions(state, Permissions::from_mode(0o711)))
            .map_err(FileError::io("make the folder", state))?;
        let hierarchy = Hierarchy::find(settings.cgroup_parent.as_deref());
        let controllers = Controller::ALL.into_iter().filter(|one| hierarchy.has(*one)).collect();
        let is_root = rustix::process::geteuid().is_root();
        let abilities = Abilities { is_root, levels: Vec::new(), controllers };
        let helper = Helper::find(settings.helper.as_deref())?;
        let tools = Tools::find();
        let mut sandbox = Self { settings, tools, helper, hierarchy, is_root, abilities };
        sandbox.sweep()?;
        let tried = Level::ALL.into_iter().map(|level| (level, sandbox.try_level(level)));
        sandbox.abilities.levels = tried.collect();
        Ok(sandbox)
    }

    /// What can be enforced here.
    #[must_use]
    pub const fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    /// Runs a task to its end at the best level that fits it.
    ///
    /// Waits; the asynchronous world calls it on a thread. `on` is told what happens while it
    /// happens and must not take long: the task's output waits for it.
    ///
    /// # Errors
    /// If it could not be run. However it ended, once it ran, is an outcome.
    pub fn run(
        &self,
        task: &Task,
        stop: &Stop,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<Outcome, RunError> {
        let (wanted, what): (&[Level], _) = match task.root {
            Root::Host => (&FOR_HOST, "a program"),
            Root::Image(_) => (&FOR_IMAGE, "an image"),
            Root::Own => (&FOR_OWN, "a copy of this program"),
        };
        let usable: Vec<Level> = self.abilities.usable().collect();
        let level = wanted.iter().copied().find(|level| usable.contains(level));
        self.run_at(level.ok_or(RunError::NoLevel { what })?, task, stop, on)
    }

    /// Whether tasks with [`Root::Own`] can be run here.
    #[must_use]
    pub fn runs_own(&self) -> bool {
        self.abilities.usable().any(|level| FOR_OWN.contains(&level))
    }

    fn run_at(
        &self,
        level: Level,
        task: &Task,
        stop: &Stop,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<Outcome, RunError> {
        // What is saved while it runs is read from the disk.
        let is_free = level.has_namespaces() && task.checkpoint.is_none();
        let work = if is_free { task.work } else { Work::Disk };
        task.limits.check(work)?;
        task.check_mounts()?;
        let command = task.command()?;
        if task.network == Network::Host && !self.settings.allow_network {
            return Err(RunError::NetworkNotAllowed);
        }
        let folder = RunFolder::make(&self.settings.state_folder)?;
        let group = self.hierarchy.make(folder.name(), &task.limits);
        let plan = Plan { sandbox: self, level, task, work, folder: &folder };
        let (launch, inside) = plan.orders(command, &group)?;
        if task.checkpoint.is_some() {
            let kept = KeptFolder::make(&folder)?;
            on(Event::Prepared { folder: &kept });
            kept.give(self.other_user())?;
        }
        let control = folder.listen()?;
        let (child, streams) = self.start(&folder)?;
        let run = Run {
            level,
            limits: task.limits,
            is_root: self.is_root,
            job_uid: self.other_user().map(|user| user.uid),
            network: task.network,
            is_on_disk: work == Work::Disk,
            program: inside.program.first().cloned().unwrap_or_default(),
        };
        let watch = Watch::new(run, child, control, streams, (launch, inside), &group);
        let watched = watch.run(stop, on);
        self.clean_up(level, folder.name());
        let Watched { ended, usage, enforced, work } = watched?;
        // What is saved once more at the end lies in the same folder.
        let is_kept = task.checkpoint.is_some();
        let outputs = Outputs::find(work.as_ref(), (folder, is_kept), task.limits.outputs);
        Ok(Outcome { ended, usage, enforced, outputs })
    }

    /// Starts the launcher with two pipes for what it and the task say.
    fn start(&self, folder: &RunFolder) -> Result<(Child, [OwnedFd; 2]), RunError> {
        let helper = |error: rustix::io::Errno| RunError::Helper(error.into());
        let (out, out_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(helper)?;
        let (err, err_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(helper)?;
        if let Some(user) = self.other_user() {
            // The task may open its streams again by name, as /dev/stdout.
            for end in [&out_end, &err_end] {
                let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
                rustix::fs::fchown(end, Some(uid), Some(gid)).map_err(helper)?;
            }
        }
        // By this name also if its file was replaced meanwhile.
        let this = Path::new("/proc/self/exe");
        let child = Command::new(self.settings.helper.as_deref().unwrap_or(this))
            .arg(INIT_WORD)
            .arg(LAUNCH_WORD)
            .arg(CONTROL_NAME)
            .current_dir(folder.path())
            .env_clear()
            .stdin(Stdio::null())
            .stdout(out_end)
            .stderr(err_end)
            .spawn()
            .map_err(RunError::Helper)?;
        Ok((child, [out, err]))
    }

    /// The user that tasks run as, where it is another one than this program's.
    fn other_user(&self) -> Option<JobUser> {
        self.is_root.then_some(self.settings.job_user)
    }

    /// Runs a program that does nothing.
    fn try_level(&self, level: Level) -> Result<Enforced, Unfit> {
        if !self.settings.levels.contains(&level) {
            return Err(Unfit::NotChosen);
        }
        if level == Level::Rlimits && !self.settings.allow_rlimits {
            return Err(Unfit::NotAllowed);
        }
        if let Some((tool, None)) = self.tools.of(level) {
            return Err(Unfit::NotInstalled { tool });
        }
        if matches!(level, Level::Runc | Level::Podman) && !self.is_root {
            return Err(Unfit::NeedsRoot);
        }
        let program = if level.has_namespaces() {
            let mut words = self.helper.command_inside();
            words.push(NOTHING_WORD.to_owned());
            words
        } else {
            // Other users may not be able to reach this program's file.
            NOTHING_OF_THE_HOST.map(str::to_owned).to_vec()
        };
        let limits = Limits {
            memory: Bytes::mib(256),
            disk: Bytes::mib(1),
            wall: TRIAL_WALL,
            ..Limits::default()
        };
        let task = Task { program, limits, ..Task::default() };
        let stop = Stop::new().map_err(RunError::Helper)?;
        let outcome = self.run_at(level, &task, &stop, &mut |_| {})?;
        if outcome.ended != Ended::Exited(0) {
            return Err(Unfit::Otherwise(outcome.ended));
        }
        Ok(outcome.enforced)
    }

    /// What container programs remember of a run is forgotten.
    fn clean_up(&self, level: Level, name: &str) {
        let state = self.tool_state(level);
        let tool = self.tools.of(level).and_then(|(_, path)| path);
        let Some(tool) = tool.filter(|_| state.is_dir()) else { return };
        let mut command = Command::new(tool);
        match level {
            Level::Runc => command.arg("--root").arg(state).args(["delete", "--force", name]),
            Level::Podman => {
                let Ok(options) = level::podman::options(&state) else { return };
                command.args(options).args(["rm", "--force", "--ignore", name])
            }
            Level::Bubblewrap | Level::Namespaces | Level::Rlimits => return,
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let _gone_already = command.status();
    }

    /// Where another program keeps what it remembers.
    fn tool_state(&self, level: Level) -> PathBuf {
        self.settings.state_folder.join(level.name())
    }

    /// Ends and removes what earlier processes of this program left behind.
    fn sweep(&self) -> Result<(), FileError> {
        let state = &self.settings.state_folder;
        let entries = fs::read_dir(state).map_err(FileError::io("list", state))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(RUN_PREFIX) && is_left_behind(&entry.path()) {
                self.clean_up(Level::Runc, &name);
                self.clean_up(Level::Podman, &name);
                self.hierarchy.sweep(&name);
                remove_tree(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// Everything that decides what a run is told.
struct Plan<'a> {
    sandbox: &'a Sandbox,
    level: Level,
    task: &'a Task,
    work: Work,
    folder: &'a RunFolder,
}

impl Plan<'_> {
    /// What the launcher and the first process are told.
    fn orders(&self, command: task::Command, group: &Group) -> Result<(Launch, Inside), RunError> {
        let work = self.make_work()?;
        let mut program = match &self.task.root {
            Root::Own => self.sandbox.helper.start_inside(),
            Root::Host | Root::Image(_) => Vec::new(),
        };
        program.extend(command.program);
        let mut inside = Inside {
            view: None,
            user: self.sandbox.other_user(),
            hostname: false,
            paths: Paths::default(),
            sockets: self.sockets(),
            shares: self.shares(),
            rlimits: self.rlimits(group),
            work: WORK_FOLDER.into(),
            program,
            environment: command.environment,
        };
        if !self.level.has_namespaces() {
            let WorkSource::Folder(work) = work else {
                return Err(RunError::NoLevel { what: "a work folder in memory" });
            };
            self.plain(&mut inside, work)?;
            return Ok((Launch::Plain, inside));
        }
        let [work_folder, input, output] =
            [WORK_FOLDER, INPUT_FOLDER, OUTPUT_FOLDER].map(Path::new);
        complete(&mut inside.environment, work_folder, input, output);
        if let Some(path) = &self.task.checkpoint {
            let path = format!("/{}", path.name());
            inside.environment.insert(CHECKPOINT_VARIABLE.to_owned(), path);
        }
        let view = self.view(work)?;
        inside.paths = Paths {
            read: vec!["/".into()],
            write: vec![WORK_FOLDER.into(), "/dev/shm".into()],
            devices: view.assigned().cloned().collect(),
        };
        let launch = self.launch(&view, &mut inside)?;
        Ok((launch, inside))
    }

    fn launch(&self, view: &View, inside: &mut Inside) -> Result<Launch, RunError> {
        let Sandbox { tools, helper, is_root, settings, .. } = self.sandbox;
        let tool = tools.of(self.level).and_then(|(_, path)| path).unwrap_or(Path::new(""));
        let (name, user) = (self.folder.name(), settings.job_user);
        let state = &self.sandbox.tool_state(self.level);
        let shared_memory = level::SHARED_MEMORY_BYTES.min(self.task.limits.memory.get());
        let container = level::Container { view, helper, user, name, state, shared_memory };
        let program = match self.level {
            Level::Bubblewrap => level::bubblewrap::command(tool, view, helper, *is_root)?,
            Level::Runc => {
                inside.user = None; // it is that user from the start
                self.write_bundle(&level::runc::config(&container)?)?;
                level::runc::command(tool, &container)?
            }
            Level::Podman => {
                inside.user = None;
                level::podman::command(tool, &container)?
            }
            Level::Namespaces | Level::Rlimits => {
                inside.view = Some(view.clone());
                inside.hostname = true;
                let me = JobUser {
                    uid: rustix::process::geteuid().as_raw(),
                    gid: rustix::process::getegid().as_raw(),
                };
                let user = (!is_root).then_some(me);
                return Ok(Launch::Namespaces { user, network: view.network });
            }
        };
        Ok(Launch::Become { program })
    }

    fn write_bundle(&self, config: &serde_json::Value) -> Result<(), FileError> {
        let path = self.folder.path().join("config.json");
        fs::write(&path, config.to_string()).map_err(FileError::io("write", &path))
    }

    /// Inputs, each on its place below [`INPUT_FOLDER`]; what is given as bytes is written.
    fn inputs(&self) -> Result<Vec<Bind>, FileError> {
        let given = self.folder.path().join("given");
        make_folder(&given)?;
        let bind = |Input { name, source }: &Input| {
            let target = Path::new(INPUT_FOLDER).join(name.as_str());
            let source = match source {
                Source::Path(path) => path.clone(),
                Source::Bytes(bytes) => {
                    let path = given.join(name.as_str());
                    fs::write(&path, bytes)
                        // Whatever the mask of this process is.
                        .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)))
                        .map_err(FileError::io("write", &path))?;
                    path
                }
            };
            Ok(Bind { source, target })
        };
        self.task.inputs.iter().map(bind).collect()
    }

    fn view(&self, work: WorkSource) -> Result<View, RunError> {
        let shown = match &self.task.root {
            Root::Host => Shown::Host,
            Root::Image(image) => Shown::Image(image.folder()),
            Root::Own => Shown::Nothing,
        };
        let view = View::build(ViewPlan {
            shown,
            base: &self.folder.path().join("root"),
            helper: self.sandbox.helper.binds(&self.folder.path().join(CONTROL_NAME)),
            inputs: self.inputs()?,
            devices: &self.task.devices,
            work,
            network: self.task.network == Network::Host,
            checkpoint: self.task.checkpoint.as_ref().map(CheckpointPath::name),
        });
        Ok(view?)
    }

    /// Where the work folder is, made if it is on disk.
    fn make_work(&self) -> Result<WorkSource, FileError> {
        let bytes = self.task.limits.disk.get();
        if self.work == Work::Memory {
            let files = (bytes / BYTES_PER_FILE).max(FILES_MIN);
            return Ok(WorkSource::Tmpfs { bytes, files });
        }
        let path = self.folder.path().join(WORK_NAME);
        fs::create_dir(&path)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o700)))
            .map_err(FileError::io("make the folder", &path))?;
        if let Some(user) = self.sandbox.other_user() {
            chown(&path, Some(user.uid), Some(user.gid)).map_err(FileError::io("give", &path))?;
        }
        Ok(WorkSource::Folder(path))
    }

    /// The level without namespaces: real paths, and Landlock rules for just those.
    fn plain(&self, inside: &mut Inside, work: PathBuf) -> Result<(), FileError> {
        let inputs = self.folder.path().join("in");
        make_folder(&inputs)?;
        let mut read: Vec<PathBuf> = host_paths().collect();
        read.extend(PLAIN_READ.iter().map(PathBuf::from));
        for Bind { source, target } in self.inputs()? {
            let link = inputs.join(target.file_name().unwrap_or_default());
            symlink(&source, &link).map_err(FileError::io("link", &link))?;
            read.push(source);
        }
        complete(&mut inside.environment, &work, &inputs, &work.join(OUTPUT_NAME));
        if self.task.checkpoint.is_some() {
            let path = work.join(CHECKPOINT_NAME).to_string_lossy().into_owned();
            inside.environment.insert(CHECKPOINT_VARIABLE.to_owned(), path);
        }
        read.push(inputs);
        inside.paths =
            Paths { read, write: vec![work.clone()], devices: self.task.devices.clone() };
        inside.work = work;
        Ok(())
    }

    fn sockets(&self) -> Sockets {
        match (self.task.network, self.level.has_namespaces()) {
            (Network::Host, _) => Sockets::Internet,
            (Network::None, true) => Sockets::Local,
            (Network::None, false) => Sockets::Pairs,
        }
    }

    fn shares(&self) -> Shares {
        match (self.level.has_namespaces(), self.sandbox.is_root) {
            (true, _) => Shares::Nothing,
            (false, true) => Shares::Numbers,
            (false, false) => Shares::User,
        }
    }

    /// Resource limits for what the group does not limit.
    fn rlimits(&self, group: &Group) -> Vec<Rlimit> {
        let limits = &self.task.limits;
        let mut rlimits =
            vec![Rlimit::Files(limits.open_files.into()), Rlimit::FileSize(limits.disk.get())];
        if group.enforces(Controller::Memory).is_none() {
            rlimits.push(Rlimit::Data(limits.memory.get()));
        }
        if group.enforces(Controller::CpuTime).is_none() {
            let is_whole = limits.cpu_time.subsec_nanos() == 0;
            let seconds = limits.cpu_time.as_secs().saturating_add(u64::from(!is_whole));
            rlimits.push(Rlimit::Cpu(seconds));
        }
        if group.enforces(Controller::Pids).is_none() {
            // The kernel counts all threads of a user; in a user namespace, those in it.
            let others = match (self.level.has_namespaces(), self.sandbox.other_user()) {
                (true, None) => 0,
                (_, Some(user)) => processes::threads_of(user.uid),
                (false, None) => processes::threads_of(rustix::process::getuid().as_raw()),
            };
            let count = u64::from(limits.pids).saturating_add(1).saturating_add(others);
            rlimits.push(Rlimit::Processes(count));
        }
        rlimits
    }
}

/// Adds what every program expects to an environment that does not state it.
fn complete(
    environment: &mut BTreeMap<String, String>,
    work: &Path,
    inputs: &Path,
    outputs: &Path,
) {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let defaults = [
        ("PATH", PATH.to_owned()),
        ("HOME", text(work)),
        ("TMPDIR", text(&work.join(TEMPORARY_NAME))),
        ("TENSORGRID_WORK", text(work)),
        ("TENSORGRID_INPUT", text(inputs)),
        ("TENSORGRID_OUTPUT", text(outputs)),
    ];
    for (name, value) in defaults {
        environment.entry(name.to_owned()).or_insert(value);
    }
}
