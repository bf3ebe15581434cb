//! Arguments of `podman run` for a root that is unpacked already. Like with `runc`, limits are not
//! among them: the task's processes are moved into a control group of ours before they start.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Resource;
use sha2::{Digest as _, Sha256};

use super::{Container, PathError, first_process, text};
use crate::task::WORK_FOLDER;
use crate::view::{Bind, WorkSource};

/// Enough digits that two folders of one machine differ.
const RUN_DIGITS: usize = 16;

/// What `podman` gives by default; the first process lowers it to what the task may have.
const PROCESSES_MAX: u64 = 32_768;
const FILES_MAX: u64 = 1 << 20;

/// Where `podman` keeps what does not outlive a start of the machine. It refuses paths of more
/// than 50 characters, so this is not in our folder, but named after it.
pub(crate) fn run_folder(state: &Path) -> PathBuf {
    let hash = Sha256::digest(state.as_os_str().as_bytes());
    let name: String = hex::encode(hash).chars().take(RUN_DIGITS).collect();
    Path::new("/run").join(format!("tensorgrid-podman-{name}"))
}

/// Options that come before a command: everything else `podman` keeps is in our folder.
pub(crate) fn options(state: &Path) -> Result<Vec<String>, PathError> {
    let folder = |name: &str| text(&state.join(name));
    Ok(vec![
        "--root".to_owned(),
        folder("storage")?,
        "--runroot".to_owned(),
        text(&run_folder(state))?,
        "--tmpdir".to_owned(),
        folder("tmp")?,
        "--storage-driver=vfs".to_owned(),
        "--cgroup-manager=cgroupfs".to_owned(),
        "--events-backend=none".to_owned(),
    ])
}

/// The whole command.
pub(crate) fn command(tool: &Path, container: &Container<'_>) -> Result<Vec<String>, PathError> {
    let Container { view, helper, user, name, .. } = container;
    let mut words = vec![text(tool)?];
    words.extend(options(container.state)?);
    let mut add = |more: &[&str]| words.extend(more.iter().map(|&word| word.to_owned()));
    let user = format!("--user={}:{}", user.uid, user.gid);
    let shared_memory = format!("--shm-size={}", container.shared_memory);
    add(&["run", "--rm", "--name", name, "--hostname=job", &user, &shared_memory]);
    add(&["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--no-hosts"]);
    add(&["--security-opt=no-new-privileges", "--security-opt=seccomp=unconfined"]);
    add(&["--security-opt=label=disable", "--security-opt=apparmor=unconfined"]);
    add(&["--log-driver=none", "--pids-limit=0", "--unsetenv-all", "--http-proxy=false"]);
    // Its defaults are refused where this process may have less.
    let files = ulimit("nofile", Resource::Nofile, FILES_MAX);
    add(&[&files, &ulimit("nproc", Resource::Nproc, PROCESSES_MAX), "--workdir=/"]);
    add(&[if view.network { "--network=host" } else { "--network=none" }]);
    let bind = |bind: &Bind| {
        Ok(format!("--volume={}:{}:ro,rprivate,rbind", mounted(&bind.source)?, text(&bind.target)?))
    };
    for part in &view.binds {
        add(&[&bind(part)?]);
    }
    for (folder, binds) in &view.shelves {
        add(&[&format!(
            "--mount=type=tmpfs,tmpfs-mode=0755,tmpfs-size=1m,destination={}",
            text(folder)?
        )]);
        for part in binds {
            add(&[&bind(part)?]);
        }
    }
    for device in view.assigned() {
        add(&[&format!("--device={}:rw", mounted(device)?)]);
    }
    match &view.work {
        WorkSource::Tmpfs { bytes, files: _ } => add(&[&format!(
            "--mount=type=tmpfs,tmpfs-size={bytes},U=true,destination={WORK_FOLDER}"
        )]),
        WorkSource::Folder(folder) => {
            add(&[&format!("--volume={}:{WORK_FOLDER}:rw,nosuid,nodev", mounted(folder)?)]);
        }
    }
    // Behind an overlay: it makes places for mounts of its own, which are not ours.
    add(&["--mount=type=tmpfs,tmpfs-size=1m,ro,destination=/sys"]);
    add(&["--rootfs", &format!("{}:O", mounted(&view.base)?)]);
    words.extend(first_process(helper));
    Ok(words)
}

/// A resource limit as this process has it, or less.
fn ulimit(name: &str, resource: Resource, most: u64) -> String {
    let number = rustix::process::getrlimit(resource).maximum.unwrap_or(most).min(most);
    format!("--ulimit={name}={number}:{number}")
}

/// A path in an argument in which a colon has a meaning.
fn mounted(path: &Path) -> Result<String, PathError> {
    let path = text(path)?;
    if path.contains([':', ',']) { Err(PathError { path: path.into() }) } else { Ok(path) }
}
