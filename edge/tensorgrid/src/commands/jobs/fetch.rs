//! What jobs gave: `logs`, `cp`, and the files that `run` writes.

use super::{HINT, find, float, gang, transfer};
use crate::{
    args::jobs::{CopyArguments, LogsArguments},
    arrays,
    commands::model,
    failure::{Exit, Failure, OrFail as _},
    files::{self, Draft, FileError, Readers, Written},
    printer::Printer,
    work::{
        connect::Session,
        order::{Client, OrderError},
    },
};
use serde::Serialize;
use std::{
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
    time::Duration,
};
use tg_gateway::task::check_files;
use tg_gateway::{PackageError, TaskOutput};
use tg_ledger::JobEntry;
use tg_tensor::{Array, Model, Tensor};
use tg_types::{JobId, Work};

/// How often a running program's words are asked for.
const LOOK: Duration = Duration::from_millis(300);

/// How a program ended that did well.
const WELL: &str = "exited 0";

/// What is told of a program that was run.
#[derive(Serialize)]
pub(super) struct TaskTold {
    ended: String,
    stdout: String,
    stderr: String,
    files: Vec<String>,
    enforced: Vec<String>,
}

impl TaskTold {
    pub(super) fn new(output: &TaskOutput) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let files = output.files.as_slice().iter();
        Self {
            ended: text(output.ended.as_slice()),
            stdout: text(output.stdout.as_slice()),
            stderr: text(output.stderr.as_slice()),
            files: files.map(|file| text(file.path.as_slice())).collect(),
            enforced: text(output.enforced.as_slice()).lines().map(str::to_owned).collect(),
        }
    }

    /// How many files it left.
    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    /// A program that failed is a job that was done and a command that failed.
    pub(super) fn exit(&self) -> Exit {
        if self.ended == WELL { Exit::Done } else { Exit::Failed }
    }

    /// What it said line by line, each behind a mark, and how it ended if not well.
    pub(super) fn lines(&self, mark: &str) -> String {
        let mut text: String = self.stdout.lines().map(|line| format!("{mark}{line}\n")).collect();
        if self.exit() != Exit::Done {
            text.extend(self.stderr.lines().map(|line| format!("{mark}{line}\n")));
            text.push_str(&format!("{mark}the program {}\n", self.ended));
        }
        text
    }
}

/// What a program said, and how it ended if not well.
pub(super) fn task_text(output: &TaskOutput) -> String {
    let mut text = String::from_utf8_lossy(output.stdout.as_slice()).into_owned();
    let ended = String::from_utf8_lossy(output.ended.as_slice());
    if ended != WELL {
        text.push_str(&String::from_utf8_lossy(output.stderr.as_slice()));
        text.push_str(&format!("The program {ended}.\n"));
    }
    text
}

/// `logs`
pub(super) fn logs(
    session: &Session,
    arguments: &LogsArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let mut known = arguments.from;
    loop {
        let entry = gang::member(find(session, arguments.job)?, arguments.rank)?;
        if !matches!(entry.spec.work, Work::Opaque { .. }) {
            return Err(Failure::misuse("a program of tensors says nothing", "look with `show`"));
        }
        let live = session.runtime.block_on(live(session, arguments.job, &entry, known));
        if let Some((bytes, _)) = live.or_fail("the program cannot be heard", HINT)? {
            known += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            say(&bytes);
            if !bytes.is_empty() {
                continue;
            }
        } else if entry.status.is_final() {
            return ended(session, (arguments.job, &entry), known, printer);
        }
        if !arguments.follow {
            return Ok(Exit::Done);
        }
        std::thread::sleep(LOOK);
    }
}

async fn live(
    session: &Session,
    job: JobId,
    entry: &JobEntry,
    known: u64,
) -> Result<Option<(Vec<u8>, bool)>, OrderError> {
    if entry.status.is_final() {
        return Ok(None);
    }
    let client = Client { gateway: &session.gateway, key: &session.key };
    client.log(job, entry, known).await
}

/// The words of a program that has ended are in its result; what was heard before is left out.
fn ended(
    session: &Session,
    (job, entry): (JobId, &JobEntry),
    known: u64,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let (output, ()) = task_output(session, (job, entry), printer, take_none)?;
    if known == 0 {
        say(output.stdout.as_slice());
        say(output.stderr.as_slice());
    }
    let told = TaskTold::new(&output);
    printer.say(format_args!("The program {}.", told.ended));
    Ok(told.exit())
}

/// Bytes of a program, as they are.
fn say(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    // Whoever closed the pipe has heard enough.
    let _closed = out.write_all(bytes).and_then(|()| out.flush());
}

/// Fetches what a task gave; `take` is handed its files.
pub(super) fn task_output<T>(
    session: &Session,
    (job, entry): (JobId, &JobEntry),
    printer: &Printer,
    take: impl Fn(&TaskOutput, &mut dyn Read) -> Result<T, OrderError>,
) -> Result<(TaskOutput, T), Failure> {
    let client = Client { gateway: &session.gateway, key: &session.key };
    let fetching = client.task_result(job, entry, take);
    transfer::shown(session, printer, "fetching the result", fetching)
        .map_err(|error| no_result(job, &error))
}

/// Takes nothing of a task's files.
fn take_none(output: &TaskOutput, from: &mut dyn Read) -> Result<(), OrderError> {
    Ok(check_files(&output.files, from)?)
}

/// Why there is no result, and what to do about it.
pub(super) fn no_result(job: JobId, error: &OrderError) -> Failure {
    let what = "the result cannot be had";
    let hint = if error.is_sealed() {
        format!("`tensorgrid complain {job}` has the validators try it")
    } else {
        format!("`tensorgrid show {job}` tells how far it is")
    };
    Failure::new(what, hint).because(error)
}

#[derive(Serialize)]
struct Copied {
    out: PathBuf,
    files: usize,
}

/// `cp`
pub(super) fn copy(
    session: &Session,
    arguments: &CopyArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let entry = find(session, arguments.job)?;
    let out = Some(arguments.out.as_path());
    let files = match entry.spec.work {
        Work::Opaque { .. } if entry.spec.is_gang() => {
            let told = gang::take_all(session, (arguments.job, &entry), out, printer)?;
            told.iter().map(TaskTold::files).sum()
        }
        Work::Opaque { .. } => {
            let is_array_file = arrays::Format::of_path(&arguments.out).is_some();
            let take = |output: &TaskOutput, from: &mut dyn Read| {
                if is_array_file && float::is_output(output) {
                    return Ok(Taken::Arrays(float::take(output, from)?));
                }
                Ok(Taken::Files(Landing::take(output, from, out, &[])?))
            };
            let (output, taken) = task_output(session, (arguments.job, &entry), printer, take)?;
            match taken {
                Taken::Arrays(bytes) => float::write(&bytes, out, &[])?,
                Taken::Files(landing) => landing.finish()?,
            }
            output.files.as_slice().len()
        }
        Work::Tensor { program, .. } => {
            let hint = "give the job's program with --program FILE.tgp";
            let file = arguments.program.as_ref();
            let file =
                file.ok_or_else(|| Failure::misuse("outputs of tensors need names", hint))?;
            let model = model::read_program(file)?;
            if model.id() != program {
                let what = format!("{} is another program", file.display());
                return Err(Failure::misuse(what, hint));
            }
            let client = Client { gateway: &session.gateway, key: &session.key };
            let fetching = client.result(arguments.job, &entry, &model);
            let outputs = transfer::shown(session, printer, "fetching the result", fetching);
            let outputs = outputs.map_err(|error| no_result(arguments.job, &error))?;
            write_tensors(&model, &outputs, out, &[])?;
            1
        }
    };
    let copied = Copied { out: arguments.out.clone(), files };
    printer.result(&copied, || format!("{} files in {}\n", copied.files, copied.out.display()));
    Ok(Exit::Done)
}

/// Writes the outputs of a program: all into one file, and each into its own.
pub(super) fn write_tensors(
    model: &Model,
    outputs: &[Tensor],
    out: Option<&Path>,
    named: &[(String, PathBuf)],
) -> Result<(), Failure> {
    let stated = model.program().outputs().iter().zip(outputs);
    let decoded: Vec<(String, Array)> = stated
        .map(|(output, tensor)| (output.label.as_str().to_owned(), output.decode(tensor)))
        .collect();
    write_arrays(&decoded, out, named)
}

/// Writes the outputs of a model: all into one file, and each into its own.
pub(super) fn write_arrays(
    decoded: &[(String, Array)],
    out: Option<&Path>,
    named: &[(String, PathBuf)],
) -> Result<(), Failure> {
    let write = |path: &Path, arrays: &[(String, Array)]| {
        arrays::write(path, arrays).map_err(|error| {
            let what = format!("cannot write {}", path.display());
            Failure::new(what, error.hint()).because(&error)
        })
    };
    if let Some(out) = out {
        write(out, decoded)?;
    }
    for (label, path) in named {
        let found: Vec<_> = decoded.iter().filter(|(name, _)| name == label).cloned().collect();
        if found.is_empty() {
            let hint = "`tensorgrid model show` lists the outputs";
            return Err(Failure::new(format!("the model has no output {label}"), hint));
        }
        write(path, &found)?;
    }
    Ok(())
}

/// What is made of a task's files.
enum Taken {
    /// The outputs of a float model.
    Arrays(Vec<u8>),
    /// Files.
    Files(Landing),
}

/// Files that a command left, each in a draft where it goes: all below a folder, and each where it
/// was asked for. Nothing is there until all of them have come, and each is closed by then: there
/// may be more of them than a process may have open.
pub(super) struct Landing {
    drafts: Vec<Written>,
    /// A name that was asked for and is not there.
    missing: Option<String>,
}

impl Landing {
    /// Writes what comes to drafts.
    pub(super) fn take(
        output: &TaskOutput,
        from: &mut dyn Read,
        folder: Option<&Path>,
        named: &[(String, PathBuf)],
    ) -> Result<Self, OrderError> {
        let mut drafts = Vec::new();
        let mut left = Vec::new();
        for file in output.files.as_slice() {
            let path = String::from_utf8_lossy(file.path.as_slice()).into_owned();
            if !is_below(&path) {
                return Err(OrderError::OutputName { name: path });
            }
            let asked = named.iter().filter(|(name, _)| *name == path);
            let targets = folder.map(|folder| folder.join(&path)).into_iter();
            let targets = targets.chain(asked.map(|(_, here)| here.clone()));
            let begun: Result<Vec<Draft>, FileError> = targets.map(|here| begin(&here)).collect();
            let mut copies = Copies(begun.map_err(OrderError::Write)?);
            file.read(from, &mut copies).map_err(PackageError::from)?;
            for copy in copies.0 {
                drafts.push(copy.close().map_err(OrderError::Write)?);
            }
            left.push(path);
        }
        let missing = named.iter().find(|(name, _)| !left.contains(name));
        Ok(Self { drafts, missing: missing.map(|(name, _)| name.clone()) })
    }

    /// Puts all files in their places.
    pub(super) fn finish(self) -> Result<(), Failure> {
        if let Some(name) = self.missing {
            let what = format!("the program left no file /out/{name}");
            return Err(Failure::new(what, "`tensorgrid logs` tells what it said"));
        }
        let finished = self.drafts.into_iter().try_for_each(Written::finish);
        finished.or_fail("the outputs cannot be written", "choose another folder")
    }
}

fn begin(here: &Path) -> Result<Draft, FileError> {
    if let Some(parent) = here.parent() {
        files::make_folder(parent)?;
    }
    Draft::new(here, Readers::All)
}

/// A file that goes to several places, or to none.
struct Copies(Vec<Draft>);

impl Write for Copies {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.iter_mut().try_for_each(|draft| draft.write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(Write::flush)
    }
}

/// Whether a path stays below the folder it is joined to.
fn is_below(path: &str) -> bool {
    !path.is_empty()
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::{Landing, is_below};
    use crate::files::TemporaryFolder;
    use std::fs;
    use tg_gateway::TaskOutput;
    use tg_gateway::stream::Hashing;
    use tg_gateway::task::{Files, NamedFile, said, word};

    #[test]
    fn files_are_closed_drafts_until_all_have_come() {
        let folder = TemporaryFolder::new().expect("a folder");
        // As long as a name can be.
        let names = ["a".repeat(255), "b".to_owned()];
        let mut hash = Hashing::new(std::io::sink());
        std::io::Write::write_all(&mut hash, b"12").expect("hashes");
        let hash = hash.finish();
        let file = |name: &String| NamedFile { path: word(name).expect("short"), bytes: 2, hash };
        let output = TaskOutput {
            salt: [0; 32],
            ended: word("exited 0").expect("short"),
            stdout: said(Vec::new()).expect("short"),
            stderr: said(Vec::new()).expect("short"),
            files: Files::new(names.iter().map(file).collect()).expect("few"),
            enforced: said(Vec::new()).expect("short"),
        };
        let take = |mut bytes: &[u8]| Landing::take(&output, &mut bytes, Some(folder.path()), &[]);
        let count = || fs::read_dir(folder.path()).expect("lists").count();
        assert!(take(b"121").is_err(), "cut off");
        assert_eq!(count(), 0, "no draft is left");
        let landing = take(b"1212").expect("takes");
        let open = fs::read_dir("/proc/self/fd").expect("lists").flatten();
        let mut open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        assert!(!open.any(|path| path.starts_with(folder.path())), "all are closed");
        assert!(!folder.path().join("b").exists());
        landing.finish().expect("finishes");
        assert_eq!(count(), 2);
        assert_eq!(fs::read(folder.path().join("b")).expect("reads"), b"12");
    }

    #[test]
    fn outputs_stay_in_their_folder() {
        for path in ["a", "a/b", "a..b"] {
            assert!(is_below(path), "{path}");
        }
        for path in ["", "/a", "../a", "a/../../b"] {
            assert!(!is_below(path), "{path}");
        }
    }
}
