//! Running a stranger's program for somebody: its files are put in place, the sandbox runs it, what
//! it left is collected. What it says on the way can be followed while it runs.

use crate::float_run;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tg_gateway::PackageError;
use tg_gateway::message::LOG_BYTES_MAX;
use tg_gateway::package::{PACKAGE_BYTES_MAX, blob};
use tg_gateway::task::{Files, NamedFile, REPORT_BYTES_MAX, Root, TaskInputs, TaskOutput, word};
use tg_sandbox::{Bytes, Event, Input, Limits, Network, Sandbox, Stop, Stream, Task};

/// What a program may say: the package must hold it, besides its files.
const STREAM_BYTES_MAX: u64 = 8 << 20;

/// What a program may leave: the package must hold it.
const OUTPUT_BYTES_MAX: u64 = 48 << 20;

const _: () = assert!(STREAM_BYTES_MAX + OUTPUT_BYTES_MAX < PACKAGE_BYTES_MAX as u64);

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
    File(#[from] std::io::Error),
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
    pub folder: PathBuf,
}

/// A folder that is removed when it is not needed any more.
struct Bench(PathBuf);

impl Bench {
    fn new(folder: &Path, name: &str) -> Result<Self, std::io::Error> {
        let path = folder.join(name);
        if path.exists() {
            fs::remove_dir_all(&path)?; // left by a process that died
        }
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "files of a task were not removed");
        }
    }
}

impl Workshop {
    /// Runs a task to its end. `name` tells its files from those of others.
    ///
    /// # Errors
    /// If it cannot be run, or what it left cannot be carried away. A program that fails is no
    /// error: how it ended is part of the output.
    pub fn run(
        &self,
        name: &str,
        inputs: &TaskInputs,
        wall: Duration,
        log: &Log,
        stop: &Stop,
    ) -> Result<TaskOutput, TaskRunError> {
        let bench = Bench::new(&self.folder, name)?;
        let task = self.task(&bench.0, inputs, wall)?;
        let ran = self.sandbox.run(&task, stop, &mut |event| {
            if let Event::Said { stream, bytes } = event {
                log.add(stream, bytes);
            }
        });
        let (stdout, stderr) = log.end();
        let outcome = ran?;
        let outputs = outcome.outputs?;
        let mut files = Vec::new();
        for file in outputs.files() {
            let mut bytes = Vec::new();
            outputs.open(&file.path)?.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
            let path = file.path.to_str().ok_or(TaskRunError::Text)?;
            files.push(NamedFile { path: word(path)?, bytes: blob(bytes)? });
        }
        let mut enforced = outcome.enforced.lines().join("\n").into_bytes();
        enforced.truncate(REPORT_BYTES_MAX);
        let found = enforced.len();
        Ok(TaskOutput {
            salt: inputs.salt,
            ended: word(&outcome.ended.to_string())?,
            stdout: blob(stdout)?,
            stderr: blob(stderr)?,
            files: Files::new(files)?,
            enforced: tg_types::Bytes::new(enforced)
                .map_err(|_| PackageError::TooLarge { found })?,
        })
    }

    fn task(
        &self,
        bench: &Path,
        inputs: &TaskInputs,
        wall: Duration,
    ) -> Result<Task, TaskRunError> {
        let limits = Limits {
            memory: Bytes::mib(inputs.limits.memory_mib.into()),
            disk: Bytes::mib(inputs.limits.disk_mib.into()),
            streams: Bytes::new(STREAM_BYTES_MAX),
            outputs: Bytes::new(OUTPUT_BYTES_MAX),
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
            limits,
            inputs: put_in_place(bench, inputs)?,
            ..Task::default()
        })
    }
}

fn text<const MAX: usize>(word: &tg_types::Bytes<MAX>) -> Result<String, TaskRunError> {
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
        Root::Archive { name } => {
            let mut files = inputs.files.as_slice().iter();
            let file = files.find(|file| file.path == *name).ok_or(TaskRunError::NoArchive)?;
            fs::write(&archive, file.bytes.as_slice())?;
        }
        Root::Image { name } => {
            tg_sandbox::oci::pull(&tg_sandbox::oci::ImageName::new(&text(name)?)?, &archive)?;
        }
    }
    let bounds = tg_sandbox::oci::Bounds::default();
    let rootfs = tg_sandbox::oci::unpack(&archive, &bench.join("root"), &bounds)?;
    Ok(tg_sandbox::Root::Image(rootfs))
}

/// Puts the inputs where the sandbox finds them: a file as it is, files of a folder in a folder.
fn put_in_place(bench: &Path, inputs: &TaskInputs) -> Result<Vec<Input>, TaskRunError> {
    let mut folders = BTreeSet::new();
    let mut placed = Vec::new();
    for file in inputs.files.as_slice() {
        if matches!(&inputs.root, Root::Archive { name } if *name == file.path) {
            continue;
        }
        let path = text(&file.path)?;
        let parts: Vec<Component<'_>> = Path::new(&path).components().collect();
        let is_plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
        match parts.as_slice() {
            [Component::Normal(name)] if Some(path.as_str()) == name.to_str() => {
                placed.push(Input::bytes(&path, file.bytes.as_slice())?);
            }
            [Component::Normal(folder), _, ..] if is_plain => {
                let below = bench.join("in").join(&path);
                fs::create_dir_all(below.parent().unwrap_or(bench))?;
                fs::write(&below, file.bytes.as_slice())?;
                folders.insert(folder.to_str().ok_or(TaskRunError::Text)?.to_owned());
            }
            _ => return Err(TaskRunError::Path { path }),
        }
    }
    for folder in folders {
        placed.push(Input::path(&folder, bench.join("in").join(&folder))?);
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::Log;
    use tg_gateway::message::LOG_BYTES_MAX;
    use tg_sandbox::Stream;

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
}
