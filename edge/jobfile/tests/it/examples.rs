//! The examples of the repository: their files are read, and their commands really run.

use crate::root;
use std::path::{Path, PathBuf};
use std::process::Command;
use tg_jobfile::{FILE_NAME, JobFile, Run, Task, Work};

fn folders() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("examples")).expect("the folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut folders: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn job_of(folder: &Path) -> JobFile {
    let path = folder.join(FILE_NAME);
    let text = std::fs::read_to_string(&path).expect("a job file");
    JobFile::parse(&text, &path.display().to_string()).expect("a good job file")
}

#[test]
fn examples_can_be_honoured_by_this_version() {
    let folders = folders();
    assert!(folders.len() >= 4);
    for folder in folders {
        let job = job_of(&folder);
        assert_eq!(job.unsupported(), [], "{}", folder.display());
        assert!(folder.join("README.md").exists(), "{}", folder.display());
        let inputs: Vec<&str> = match &job.work {
            Work::Model(model) => model.inputs.values().map(|path| path.as_str()).collect(),
            Work::Task(task) => task.inputs.values().map(|path| path.as_str()).collect(),
        };
        for input in inputs {
            assert!(folder.join(input).exists(), "{}: {input}", folder.display());
        }
    }
}

/// Goal: the commands of the examples do what their files say, with nothing but POSIX tools.
/// Method: as in a sandbox, inputs under their names in one folder, an empty work folder, and no
/// environment besides what the file states; twice, because a verified job gives the same bytes.
#[test]
fn examples_give_their_outputs_with_posix_tools_alone() {
    let mut ran = 0;
    for folder in folders() {
        let Work::Task(task) = job_of(&folder).work else { continue };
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let (first, second) = (outputs(&folder, &task, &name), outputs(&folder, &task, &name));
        assert_eq!(first, second, "{name}");
        ran += 1;
    }
    assert!(ran >= 3, "{ran}");
}

fn outputs(folder: &Path, task: &Task, name: &str) -> Vec<Vec<u8>> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("jobfile-example-{name}"));
    let (given, work) = (place.join("in"), place.join("work"));
    let _absent_is_fine = std::fs::remove_dir_all(&place);
    for made in [&given, &work] {
        std::fs::create_dir_all(made).expect("a folder");
    }
    for (name, path) in &task.inputs {
        std::fs::copy(folder.join(path.as_str()), given.join(name.as_str())).expect("a copy");
    }
    let script = match &task.run {
        Some(Run::Shell(script)) => Some(script),
        Some(Run::Program { .. }) | None => None,
    };
    let script = script.expect("a command for the shell");
    let done = Command::new("sh")
        .args(["-c", script.as_str()])
        .current_dir(&work)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TENSORGRID_INPUT", &given)
        .env("TENSORGRID_WORK", &work)
        .envs(task.envs.iter().map(|(name, value)| (name.as_str(), value.as_str())))
        .env("PAUSE", "0") // one that shows how a long job goes on is short here
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.is_empty(), "{name}: {} {said}", done.status);
    assert!(!task.outputs.is_empty(), "{name}");
    let read = |path: &tg_jobfile::WorkPath| {
        let bytes = std::fs::read(work.join(path.as_str())).expect("an output");
        assert!(!bytes.is_empty(), "{name}: {path}");
        bytes
    };
    task.outputs.keys().map(read).collect()
}
