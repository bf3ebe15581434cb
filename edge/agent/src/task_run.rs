//! Running a stranger's program for somebody: its files are put in place, the sandbox runs it, what
//! it left is collected. What it says on the way can be followed while it runs.

use crate::agent::DeviceAccess;
use crate::float_run;
use crate::saved::{CHECKPOINT_MAX, RESUMED_VARIABLE, Staged, Unpacked, stage};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tg_gateway::PackageError;
use tg_gateway::message::LOG_BYTES_MAX;
use tg_gateway::package::result_key_hash;
use tg_gateway::stream::{Hashing, copy, copy_checked, expect_end};
use tg_gateway::task::{
    FileList, Files, NamedFile, REPORT_BYTES_MAX, Root, STREAM_BYTES_MAX, TaskInputs, TaskLimits,
    TaskOutput, WithFiles, said, word,
};
use tg_net::ROOM_LEFT_BYTES;
use tg_privacy::WrapPublic;
use tg_sandbox::{
    Bytes, CheckpointPath, Event, INPUT_FOLDER, Input, KeptFolder, Limits, Network, Outputs,
    Sandbox, Stop, Stream, Task, Work,
};
use tg_types::{Hash32, HostPart};
use tokio::sync::oneshot;

/// The variable in which a task of an array finds its number.
pub const TASK_VARIABLE: &str = "TG_TASK";

/// The variable in which a member of a gang finds which one it is, counted from 0.
pub const RANK_VARIABLE: &str = "TG_RANK";

/// The variable in which a member of a gang finds how many there are.
pub const NODES_VARIABLE: &str = "TG_NODES";

/// Why a program was not run.
#[derive(Debug, thiserror::Error)]
pub enum TaskRunError {
    /// A word of the task is no text.
    #[error("task has a word that is no text")]
    Text,
    /// An input's path leads elsewhere.
    #[error("{path:?} is no path of an input")]
    Path {
        /// The path.
        path: String,
    },
    /// The task cannot be run as it is described.
    #[error("task cannot be run as it is described")]
    Task(#[from] tg_sandbox::TaskError),
    /// Files cannot be put in place.
    #[error("files cannot be put in place")]
    File(#[from] io::Error),
    /// A model with what only a command has.
    #[error("a model is run without a command, variables and network")]
    NotOfModels,
    /// The image has no such input.
    #[error("image archive is not among the inputs")]
    NoArchive,
    /// The image cannot be had.
    #[error("image cannot be had")]
    Pull(#[from] tg_sandbox::oci::PullError),
    /// The image cannot be used.
    #[error("image cannot be used")]
    Image(#[from] tg_sandbox::oci::ImageError),
    /// The sandbox did not run it.
    #[error("sandbox did not run it")]
    Run(#[from] tg_sandbox::RunError),
    /// What it left cannot be read.
    #[error("outputs cannot be read")]
    Outputs(#[from] tg_sandbox::FileError),
    /// What it keeps grew while it was saved.
    #[error("folder for checkpoints grows while it is saved")]
    Grown,
    /// What it is to read cannot be read.
    #[error("inputs cannot be read")]
    Inputs(#[source] PackageError),
    /// There is no room for what it reads and writes.
    #[error("no room for {needed} bytes: {free} are free")]
    NoRoom {
        /// How much it takes.
        needed: u64,
        /// How much is free.
        free: u64,
    },
    /// The package is of another task.
    #[error("package holds another task")]
    OtherTask,
    /// The result would go to another key than the job names.
    #[error("package names another key for the result than the job")]
    OtherKey,
    /// What it left does not fit into a package.
    #[error("outputs cannot be packed")]
    Package(#[from] PackageError),
}

/// What a program has said so far.
#[derive(Debug, Default)]
pub struct Log {
    // A lock: written by the thread that runs the program, read by those who answer its owner.
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    both: Vec<u8>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    is_end: bool,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, stream: Stream, bytes: &[u8]) {
        let mut said = self.lock();
        said.both.extend_from_slice(bytes);
        match stream {
            Stream::Output => said.stdout.extend_from_slice(bytes),
            Stream::Error => said.stderr.extend_from_slice(bytes),
        }
    }

    /// What came after so many bytes, as much as an answer holds, and whether that is the end.
    #[must_use]
    pub fn since(&self, from: u64) -> (Vec<u8>, bool) {
        let said = self.lock();
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(said.both.len());
        let to = from.saturating_add(LOG_BYTES_MAX).min(said.both.len());
        let bytes = said.both.get(from..to).unwrap_or_default().to_vec();
        (bytes, said.is_end && to == said.both.len())
    }

    fn end(&self) -> (Vec<u8>, Vec<u8>) {
        let mut said = self.lock();
        said.is_end = true;
        (std::mem::take(&mut said.stdout), std::mem::take(&mut said.stderr))
    }
}

/// Where tasks are run.
pub struct Workshop {
    /// The sandboxes of this machine.
    pub sandbox: Sandbox,
    /// Where their files are put in place.
    folder: PathBuf,
    /// What keeps other processes from emptying the folder.
    _lock: Option<File>,
}

/// A folder that is removed when it is not needed any more.
pub(crate) struct Bench(PathBuf);

impl Bench {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes a folder that is not there: one that is belongs to somebody.
    fn new(folder: &Path, name: &str) -> Result<Self, io::Error> {
        fs::create_dir_all(folder)?;
        let path = folder.join(name);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

/// Removes what a process that died left of its tasks: inputs that were opened are secrets of
/// others. What is here belongs to whoever holds the lock that this gives.
fn take_over(folder: &Path) -> Result<Option<File>, io::Error> {
    fs::create_dir_all(folder)?;
    let lock = File::open(folder)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None), // that process is alive
        Err(TryLockError::Error(error)) => return Err(error),
    }
    for entry in fs::read_dir(folder)? {
        fs::remove_dir_all(entry?.path())?;
    }
    Ok(Some(lock))
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "files of a task were not removed");
        }
    }
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct TaskOrder {
    /// Tells its files from those of others. Nodes of one process share a workshop, and may run
    /// replicas of one job.
    pub name: String,
    /// The id of the task.
    pub task: Hash32,
    /// Its number, if it is a task of an array.
    pub number: Option<u32>,
    /// Which member of how many it is, if it is one of a gang.
    pub member: Option<(u8, u8)>,
    /// How the ledger names the key to which the result goes.
    pub result_key: Hash32,
    /// How long it may take.
    pub wall: Duration,
    /// What its run holds of the machine's processors and memory: its program gets no more.
    pub host: HostPart,
    /// How it gets to the GPUs that its run holds, or to its part of one, if it holds any.
    pub gpu: Option<DeviceAccess>,
}

impl TaskOrder {
    /// What a package says of the task, if it is the one that is ordered.
    fn read_head(&self, inputs: &mut dyn Read) -> Result<TaskInputs, TaskRunError> {
        let head = TaskInputs::read(inputs).map_err(TaskRunError::Inputs)?;
        if head.id() != self.task {
            return Err(TaskRunError::OtherTask);
        }
        if result_key_hash(&head.result_to) != self.result_key {
            return Err(TaskRunError::OtherKey);
        }
        Ok(head)
    }

    /// Takes what its run does not hold from what a package says that it may use. Of what the run
    /// holds nothing of, the package decides.
    fn limit(&self, limits: &mut TaskLimits) {
        let asked = HostPart { cpu_milli: limits.cpu_milli, memory_mib: limits.memory_mib };
        let HostPart { cpu_milli, memory_mib } = asked.at_most(self.host);
        (limits.cpu_milli, limits.memory_mib) = (cpu_milli, memory_mib);
    }

    /// The variables that tell it which one of several it is.
    fn numbers(&self) -> impl Iterator<Item = (String, String)> {
        let number = self.number.map(|number| (TASK_VARIABLE.to_owned(), number.to_string()));
        let member = self.member.map(|(rank, nodes)| {
            [(RANK_VARIABLE, rank), (NODES_VARIABLE, nodes)]
                .map(|(name, value)| (name.to_owned(), value.to_string()))
        });
        number.into_iter().chain(member.into_iter().flatten())
    }
}

/// How the state of a task comes in and goes out.
#[derive(Default)]
pub struct Keeping {
    /// What it begins with, from the beginning of the checkpoint.
    pub begins_with: Option<Box<dyn Read + Send>>,
    /// Where is told in which folder it keeps its state.
    pub folder: Option<oneshot::Sender<KeptFolder>>,
}

/// What a run gave. Its files stay where the program wrote them until this is dropped.
pub struct TaskDone {
    /// All of it, for a package.
    pub plain: WithFiles<OutputFiles>,
    /// The key to which it goes.
    pub result_to: WrapPublic,
    /// The id of the output.
    pub output: Hash32,
    /// The id of what was enforced.
    pub enforced: Hash32,
}

/// How a run ended.
pub enum TaskEnd {
    /// With a result.
    Done(TaskDone),
    /// It was asked to end before it was finished; with its state, if there is any.
    Yielded(Option<Staged>),
}

/// Files that a program left.
pub struct OutputFiles {
    outputs: Outputs,
    /// What was found in them when they were listed, in the same order.
    found: Vec<(PathBuf, u64, Hash32)>,
}

impl FileList for OutputFiles {
    fn bytes(&self) -> u64 {
        self.found.iter().map(|(_, bytes, _)| *bytes).fold(0, u64::saturating_add)
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.found.iter().try_for_each(|(path, bytes, hash)| {
            let mut file = self.outputs.open(path).map_err(io::Error::other)?;
            copy_checked(&mut file, out, *bytes, hash)
        })
    }
}

impl Workshop {
    /// A place for tasks, with their files below a folder; what an earlier process left there is
    /// removed.
    #[must_use]
    pub fn new(sandbox: Sandbox, folder: PathBuf) -> Self {
        let taken = take_over(&folder).inspect_err(|error| {
            tracing::warn!(%error, path = %folder.display(), "files of tasks may be left");
        });
        Self { sandbox, folder, _lock: taken.ok().flatten() }
    }

    /// Runs a task to its end, after its files were put in place from what is read of `inputs`.
    ///
    /// # Errors
    /// If it cannot be run, or what it left cannot be carried away. A program that fails is no
    /// error: how it ended is part of the output.
    pub fn run(
        &self,
        order: &TaskOrder,
        inputs: &mut dyn Read,
        (log, stop): (&Log, &Stop),
        mut keeping: Keeping,
    ) -> Result<TaskEnd, TaskRunError> {
        if stop.is_asked() {
            log.end();
            return Ok(TaskEnd::Yielded(None)); // nobody wants its files put in place
        }
        let bench = Bench::new(&self.folder, &order.name)?;
        let mut head = order.read_head(inputs)?;
        order.limit(&mut head.limits);
        check_room(&bench.0, &head)?;
        let placed = put_in_place(&bench.0, &head, inputs)?;
        let mut task = self.task(&bench.0, &head, placed, order.wall)?;
        if head.root != Root::Onnx {
            task.environment.extend(order.numbers());
            order.gpu.as_ref().map_or(Ok(()), |gpu| give(&mut task, gpu, &bench.0))?;
        }
        let unpacked = keeping.begins_with.take().filter(|_| task.checkpoint.is_some());
        let unpacked = unpacked.and_then(|mut from| begin_with(&mut from, &bench.0, &order.name));
        if unpacked.is_some() {
            task.environment.insert(RESUMED_VARIABLE.to_owned(), "1".to_owned());
        }
        let (mut put, mut kept) = (Ok(()), None);
        let ran = self.sandbox.run(&task, stop, &mut |event| match event {
            Event::Prepared { folder } => {
                put = unpacked.as_ref().map_or(Ok(()), |unpacked| unpacked.put(folder));
                kept = Some(folder.clone());
                if let (Ok(()), Some(tell)) = (&put, keeping.folder.take()) {
                    let _nobody_saves = tell.send(folder.clone());
                }
                if put.is_err() {
                    stop.stop(); // it must not begin with half of its state
                }
            }
            Event::Said { stream, bytes } => log.add(stream, bytes),
            Event::Started { .. } => {}
        });
        let (stdout, stderr) = log.end();
        put?;
        let outcome = ran?;
        if stop.is_asked() {
            // However it ended, it may go on: whoever has finished says so again at once.
            let kept = kept.filter(|_| task.checkpoint.is_some());
            let state = kept.and_then(|kept| self.last_state(&kept, &order.name));
            return Ok(TaskEnd::Yielded(state));
        }
        let (files, outputs) = list(outcome.outputs?)?;
        let mut enforced = outcome.enforced.lines().join("\n").into_bytes();
        enforced.truncate(REPORT_BYTES_MAX);
        let output = TaskOutput {
            salt: head.salt,
            ended: word(&outcome.ended.to_string())?,
            stdout: said(stdout)?,
            stderr: said(stderr)?,
            files,
            enforced: said(enforced)?,
        };
        Ok(TaskEnd::Done(TaskDone {
            output: output.id(),
            enforced: output.enforced_id(),
            plain: WithFiles::new(&output, outputs)?,
            result_to: head.result_to,
        }))
    }

    /// The state of a task whose program has ended. What cannot be saved once more was saved
    /// before, or is lost.
    fn last_state(&self, kept: &KeptFolder, name: &str) -> Option<Staged> {
        let place = self.place_for_saving(&format!("{name}-last"));
        let state = place.and_then(|place| stage(kept, CHECKPOINT_MAX, place));
        let state = state.inspect_err(|error| {
            tracing::warn!(%error, name, "the last state was not saved");
        });
        state.ok().flatten()
    }

    /// A place for a copy of what a task keeps.
    ///
    /// # Errors
    /// If there is one for it already, or none can be made.
    pub(crate) fn place_for_saving(&self, order: &str) -> Result<Bench, TaskRunError> {
        Ok(Bench::new(&self.folder, &format!("{order}-saved"))?)
    }

    fn task(
        &self,
        bench: &Path,
        inputs: &TaskInputs,
        placed: Vec<Input>,
        wall: Duration,
    ) -> Result<Task, TaskRunError> {
        let disk = Bytes::mib(inputs.limits.disk_mib.into());
        let limits = Limits {
            memory: Bytes::mib(inputs.limits.memory_mib.into()),
            disk,
            streams: Bytes::new(u64::try_from(STREAM_BYTES_MAX).unwrap_or(u64::MAX)),
            outputs: disk,
            wall,
            cpu_time: wall.saturating_mul(inputs.limits.cpu_milli.div_ceil(1_000).max(1)),
            cpu_milli: inputs.limits.cpu_milli,
            pids: inputs.limits.pids,
            ..Limits::default()
        };
        let (program, environment) = command(inputs)?;
        Ok(Task {
            program,
            environment,
            root: root(bench, inputs)?,
            network: if inputs.network { Network::Host } else { Network::None },
            work: if is_on_disk(inputs) { Work::Disk } else { Work::Memory },
            limits,
            inputs: placed,
            checkpoint: checkpoint_path(inputs)?,
            ..Task::default()
        })
    }
}

/// The folder among a task's inputs in which it finds the libraries of a driver.
const DRIVER_INPUT: &str = "driver-libraries";

/// Where programs look for libraries first.
const LIBRARY_VARIABLE: &str = "LD_LIBRARY_PATH";

/// Gives a task a device. One whose root is an image gets the driver's libraries as well, which are
/// those of this machine.
fn give(task: &mut Task, gpu: &DeviceAccess, bench: &Path) -> Result<(), TaskRunError> {
    task.devices.extend(gpu.files.iter().cloned());
    task.environment.extend(gpu.variables.iter().cloned());
    let tg_sandbox::Root::Image(image) = &task.root else { return Ok(()) };
    if gpu.libraries.is_empty() {
        return Ok(());
    }
    let folder = bench.join(DRIVER_INPUT);
    copy_libraries(&gpu.libraries, &folder)?;
    task.inputs.push(Input::path(DRIVER_INPUT, folder)?);
    let mut paths = vec![format!("{INPUT_FOLDER}/{DRIVER_INPUT}")];
    let stated = task.environment.remove(LIBRARY_VARIABLE);
    paths.extend(stated.or_else(|| image.config().environment().remove(LIBRARY_VARIABLE)));
    task.environment.insert(LIBRARY_VARIABLE.to_owned(), paths.join(":"));
    Ok(())
}

/// Copies libraries into a new folder. Links between them stay links.
fn copy_libraries(libraries: &[PathBuf], folder: &Path) -> Result<(), io::Error> {
    fs::create_dir(folder)?;
    for library in libraries {
        let Some(name) = library.file_name() else { continue };
        let beside = fs::read_link(library).ok().filter(|target| target.components().count() == 1);
        match beside {
            Some(target) => symlink(target, folder.join(name))?,
            None => drop(fs::copy(library, folder.join(name))?),
        }
    }
    Ok(())
}

/// Where a task keeps its state; a model has none.
fn checkpoint_path(inputs: &TaskInputs) -> Result<Option<CheckpointPath>, TaskRunError> {
    let Some(path) = &inputs.checkpoint else { return Ok(None) };
    if inputs.root == Root::Onnx {
        return Err(TaskRunError::NotOfModels);
    }
    Ok(Some(CheckpointPath::new(&text(path)?)?))
}

/// What a checkpoint held; nothing if it does not open, so that the task begins at its beginning.
fn begin_with(from: &mut dyn Read, bench: &Path, name: &str) -> Option<Unpacked> {
    let unpacked = Unpacked::read(from, bench.join("saved"));
    let unpacked = unpacked.inspect_err(|error| {
        tracing::warn!(name, %error, "a checkpoint does not open; the task begins anew");
    });
    unpacked.ok()
}

/// Whether a task writes to the disk: what it may write is more than half of its memory, which
/// would otherwise have to hold both, or is read from there while it runs.
const fn is_on_disk(inputs: &TaskInputs) -> bool {
    inputs.checkpoint.is_some() || inputs.limits.disk_mib > inputs.limits.memory_mib / 2
}

/// Refuses a task whose files do not fit on the disk.
fn check_room(bench: &Path, inputs: &TaskInputs) -> Result<(), TaskRunError> {
    let files = inputs.files.as_slice().iter().map(|file| file.bytes);
    let written = if is_on_disk(inputs) { u64::from(inputs.limits.disk_mib) << 20 } else { 0 };
    let needed = files.fold(written, u64::saturating_add);
    match tg_net::free_bytes(bench) {
        Some(free) if free.saturating_sub(ROOM_LEFT_BYTES) < needed => {
            Err(TaskRunError::NoRoom { needed, free })
        }
        Some(_) | None => Ok(()),
    }
}

/// Lists what a program left, with the hash of every file.
fn list(outputs: Outputs) -> Result<(Files, OutputFiles), TaskRunError> {
    let (mut files, mut found) = (Vec::new(), Vec::new());
    for file in outputs.files() {
        let mut hash = Hashing::new(io::sink());
        let bytes = copy(&mut outputs.open(&file.path)?, &mut hash, u64::MAX)?;
        let (hash, path) = (hash.finish(), file.path.to_str().ok_or(TaskRunError::Text)?);
        files.push(NamedFile { path: word(path)?, bytes, hash });
        found.push((file.path.clone(), bytes, hash));
    }
    Ok((Files::new(files)?, OutputFiles { outputs, found }))
}

pub(crate) fn text<const MAX: usize>(word: &tg_types::Bytes<MAX>) -> Result<String, TaskRunError> {
    String::from_utf8(word.as_slice().to_vec()).map_err(|_| TaskRunError::Text)
}

/// What is started, and its environment.
fn command(inputs: &TaskInputs) -> Result<(Vec<String>, BTreeMap<String, String>), TaskRunError> {
    let (words, variables) = (inputs.program.as_slice(), inputs.environment.as_slice());
    if inputs.root == Root::Onnx {
        if !words.is_empty() || !variables.is_empty() || inputs.network {
            return Err(TaskRunError::NotOfModels);
        }
        // The job's number, not the machine's: results may depend on it in their last bits.
        let threads = inputs.limits.cpu_milli.div_ceil(1_000).max(1).to_string();
        let words = vec![float_run::WORD.to_owned(), threads.clone()];
        let environment = BTreeMap::from([(tg_float::THREADS_VARIABLE.to_owned(), threads)]);
        return Ok((words, environment));
    }
    let words: Result<Vec<String>, _> = words.iter().map(text).collect();
    let variables = variables.iter().map(|one| Ok((text(&one.name)?, text(&one.value)?)));
    Ok((words?, variables.collect::<Result<_, TaskRunError>>()?))
}

/// The files of a task's root.
fn root(bench: &Path, inputs: &TaskInputs) -> Result<tg_sandbox::Root, TaskRunError> {
    let archive = bench.join("image");
    match &inputs.root {
        Root::Host => return Ok(tg_sandbox::Root::Host),
        Root::Onnx => return Ok(tg_sandbox::Root::Own),
        Root::Archive { .. } if archive.exists() => {}
        Root::Archive { .. } => return Err(TaskRunError::NoArchive),
        Root::Image { name } => {
            tg_sandbox::oci::pull(&tg_sandbox::oci::ImageName::new(&text(name)?)?, &archive)?;
        }
    }
    let bounds = tg_sandbox::oci::Bounds::default();
    let rootfs = tg_sandbox::oci::unpack(&archive, &bench.join("root"), &bounds)?;
    Ok(tg_sandbox::Root::Image(rootfs))
}

/// Puts the inputs where the sandbox finds them: each below a folder, under its path, and an image
/// beside it. They are read in the order of their list, and to their end.
fn put_in_place(
    bench: &Path,
    inputs: &TaskInputs,
    from: &mut dyn Read,
) -> Result<Vec<Input>, TaskRunError> {
    let mut names = BTreeSet::new();
    for file in inputs.files.as_slice() {
        let target = if matches!(&inputs.root, Root::Archive { name } if *name == file.path) {
            bench.join("image")
        } else {
            let path = text(&file.path)?;
            names.insert(first_part(&path)?);
            bench.join("in").join(&path)
        };
        fs::create_dir_all(target.parent().unwrap_or(bench))?;
        // A path that is there twice would be two contents of one file.
        let mut out = File::create_new(&target)?;
        file.read(from, &mut out).map_err(|error| TaskRunError::Inputs(error.into()))?;
        // Whatever the mask of this process is.
        out.set_permissions(Permissions::from_mode(0o644))?;
    }
    expect_end(from).map_err(TaskRunError::Inputs)?;
    let place = |name: String| Ok(Input::path(&name, bench.join("in").join(&name))?);
    names.into_iter().map(place).collect()
}

/// The first part of a path that leads nowhere else.
pub(crate) fn first_part(path: &str) -> Result<String, TaskRunError> {
    let mut parts = path.split('/');
    let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    match path.split('/').all(is_plain).then(|| parts.next()).flatten() {
        Some(first) => Ok(first.to_owned()),
        None => Err(TaskRunError::Path { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Bench, DeviceAccess, Keeping, Log, TaskEnd, TaskOrder, Workshop, copy_libraries, give,
        take_over,
    };
    use std::fs;
    use std::path::PathBuf;
    use std::time::Duration;
    use tg_gateway::message::LOG_BYTES_MAX;
    use tg_gateway::task::TaskLimits;
    use tg_sandbox::{Sandbox, Settings, Stop, Stream, Task};
    use tg_types::{Hash32, HostPart};

    /// Goal: a task that nobody wants costs no time. Method: inputs that cannot be read.
    #[test]
    fn task_that_is_asked_to_end_before_it_begins_reads_none_of_its_inputs() {
        let base = std::env::temp_dir().join(format!("tensorgrid-unwanted-{}", std::process::id()));
        let sandbox = Sandbox::new(Settings::new(&base.join("runs"))).expect("a folder");
        let workshop = Workshop::new(sandbox, base.join("files"));
        let hash = Hash32::new([1; 32]);
        let order = TaskOrder {
            name: "unwanted".to_owned(),
            task: hash,
            number: None,
            member: None,
            result_key: hash,
            wall: Duration::from_secs(1),
            host: HostPart { cpu_milli: 2_000, memory_mib: 0 },
            gpu: None,
        };
        let mut limits = TaskLimits { memory_mib: 64, disk_mib: 8, cpu_milli: 8_000, pids: 32 };
        order.limit(&mut limits);
        assert_eq!((limits.cpu_milli, limits.memory_mib), (2_000, 64), "no more than it holds");
        let (log, stop) = (Log::default(), Stop::new().expect("a file"));
        let run = || {
            let inputs = &mut std::io::empty();
            workshop.run(&order, inputs, (&log, &stop), Keeping::default())
        };
        assert!(run().is_err(), "there is nothing to read");
        stop.ask();
        assert!(matches!(run(), Ok(TaskEnd::Yielded(None))));
        assert_eq!(log.since(0), (Vec::new(), true), "nobody waits for what it says");
        drop(workshop);
        fs::remove_dir_all(base).expect("removes");
    }

    #[test]
    fn task_is_given_the_files_and_variables_of_its_gpu_and_libraries_only_in_an_image() {
        let gpu = DeviceAccess {
            files: vec![PathBuf::from("/dev/nvidia1")],
            variables: vec![("CUDA_VISIBLE_DEVICES".to_owned(), "GPU-1".to_owned())],
            libraries: vec![PathBuf::from("/nowhere/libcuda.so.1")],
        };
        let mut task = Task::new(&["train"]);
        give(&mut task, &gpu, &std::env::temp_dir()).expect("nothing is copied");
        assert_eq!(task.devices, gpu.files);
        assert_eq!(task.environment.into_iter().collect::<Vec<_>>(), gpu.variables);
        assert!(task.inputs.is_empty(), "the machine's own libraries are seen");
    }

    #[test]
    fn libraries_are_copied_once_with_the_links_between_them() {
        let base = std::env::temp_dir().join(format!("tensorgrid-driver-{}", std::process::id()));
        fs::create_dir_all(base.join("from")).expect("makes");
        let from = ["libcuda.so.1", "libcuda.so.550"].map(|name| base.join("from").join(name));
        fs::write(&from[1], "code").expect("writes");
        std::os::unix::fs::symlink("libcuda.so.550", &from[0]).expect("links");
        let to = base.join("to");
        copy_libraries(&from, &to).expect("copies");
        assert_eq!(fs::read(to.join("libcuda.so.1")).expect("reads"), b"code");
        assert!(fs::symlink_metadata(to.join("libcuda.so.1")).expect("is there").is_symlink());
        fs::remove_dir_all(base).expect("removes");
    }

    #[test]
    fn log_is_told_in_parts_from_wherever_one_is() {
        let log = Log::default();
        log.add(Stream::Output, b"one ");
        log.add(Stream::Error, b"two");
        assert_eq!(log.since(0), (b"one two".to_vec(), false));
        assert_eq!(log.since(4), (b"two".to_vec(), false));
        assert_eq!(log.since(u64::MAX), (Vec::new(), false));
        log.add(Stream::Output, &vec![b'x'; LOG_BYTES_MAX]);
        assert_eq!(log.end(), ([&b"one "[..], &vec![b'x'; LOG_BYTES_MAX]].concat(), b"two".into()));
        let (first, is_end) = log.since(0);
        assert_eq!((first.len(), is_end), (LOG_BYTES_MAX, false));
        assert_eq!(log.since(first.len() as u64), (vec![b'x'; 7], true));
    }

    #[test]
    fn files_of_tasks_are_removed_at_the_start_and_never_while_in_use() {
        let number = std::process::id();
        let folder = std::env::temp_dir().join(format!("tensorgrid-benches-{number}"));
        fs::create_dir_all(folder.join("left").join("in")).expect("makes");
        let lock = take_over(&folder).expect("takes over").expect("nobody else is there");
        assert!(!folder.join("left").exists(), "what a dead process left is gone");
        let bench = Bench::new(&folder, "one").expect("makes");
        assert!(Bench::new(&folder, "one").is_err(), "it is in use");
        assert!(take_over(&folder).expect("looks").is_none(), "somebody works there");
        assert!(bench.0.exists());
        drop(bench);
        drop(Bench::new(&folder, "one").expect("is free again"));
        drop(lock);
        fs::remove_dir_all(folder).expect("removes");
    }
}
