//! A container's configuration for `runc`, after the OCI runtime specification 1.0.2. Limits are
//! not in it: the task's processes are moved into a control group of ours before they start.

use std::path::Path;

use serde_json::{Value, json};

use super::{Container, PathError, first_process, text};
use crate::spec::JobUser;
use crate::task::WORK_FOLDER;
use crate::view::{View, WorkSource};

/// Parts of `/proc` that say too much about the machine.
const MASKED: [&str; 6] = [
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
];
/// Parts of `/proc` with settings of the machine.
const READ_ONLY: [&str; 4] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"];

/// The whole command, to be run in the folder with the configuration.
pub(crate) fn command(tool: &Path, container: &Container<'_>) -> Result<Vec<String>, PathError> {
    let words = [text(tool)?, "--root".to_owned(), text(container.state)?];
    let rest = ["run", "--bundle", ".", container.name].map(str::to_owned);
    Ok(words.into_iter().chain(rest).collect())
}

/// The configuration as JSON.
pub(crate) fn config(container: &Container<'_>) -> Result<Value, PathError> {
    let Container { view, helper, user, name, .. } = container;
    let mut namespaces: Vec<Value> =
        ["pid", "ipc", "uts", "mount", "cgroup"].map(|kind| json!({ "type": kind })).into();
    if !view.network {
        namespaces.push(json!({ "type": "network" }));
    }
    Ok(json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": user.uid, "gid": user.gid },
            "args": first_process(helper),
            "env": [],
            "cwd": "/",
            "capabilities": {
                "bounding": [], "effective": [], "inheritable": [], "permitted": [], "ambient": []
            },
            "noNewPrivileges": true,
        },
        "root": { "path": text(&view.base)?, "readonly": true },
        "hostname": "job",
        "mounts": mounts(container)?,
        "linux": {
            "namespaces": namespaces,
            "cgroupsPath": format!("/tensorgrid-{name}"),
            "devices": devices(view)?,
            "resources": { "devices": device_rules(view) },
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
        },
    }))
}

fn mounts(container: &Container<'_>) -> Result<Vec<Value>, PathError> {
    let view = container.view;
    let bind = |source: &Path, target: &Path, access: &str| {
        let options = ["rbind", access, "nosuid", "nodev", "rprivate"];
        let (source, target) = (text(source)?, text(target)?);
        Ok(json!({
            "destination": target, "type": "bind", "source": source, "options": options
        }))
    };
    let tmpfs = |target: &str, options: &str| {
        let options: Vec<&str> =
            ["nosuid", "nodev"].into_iter().chain(options.split(',')).collect();
        json!({ "destination": target, "type": "tmpfs", "source": "tmpfs", "options": options })
    };
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
        json!({
            "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]
        }),
        tmpfs("/dev/shm", &format!("mode=1777,size={}", container.shared_memory)),
    ];
    for part in &view.binds {
        mounts.push(bind(&part.source, &part.target, "ro")?);
    }
    for (folder, binds) in &view.shelves {
        mounts.push(tmpfs(&text(folder)?, "mode=0755,size=1m"));
        for part in binds {
            mounts.push(bind(&part.source, &part.target, "ro")?);
        }
    }
    mounts.push(match &view.work {
        WorkSource::Tmpfs { bytes, files } => {
            // Its mode becomes that of the place it is mounted on, so it is given to the user.
            let JobUser { uid, gid } = container.user;
            let options = format!("uid={uid},gid={gid},size={bytes},nr_inodes={files}");
            tmpfs(WORK_FOLDER, &options)
        }
        WorkSource::Folder(folder) => bind(folder, Path::new(WORK_FOLDER), "rw")?,
    });
    Ok(mounts)
}

/// Assigned devices; the ordinary ones are there in every container.
fn devices(view: &View) -> Result<Vec<Value>, PathError> {
    view.assigned()
        .map(|path| {
            let (major, minor) = device_number(path);
            Ok(json!({
                "path": text(path)?, "type": "c", "major": major, "minor": minor,
                "fileMode": 0o666, "uid": 0, "gid": 0
            }))
        })
        .collect()
}

fn device_rules(view: &View) -> Vec<Value> {
    let deny = json!({ "allow": false, "access": "rwm" });
    let allow = view.assigned().map(|path| {
        let (major, minor) = device_number(path);
        json!({ "allow": true, "type": "c", "major": major, "minor": minor, "access": "rw" })
    });
    std::iter::once(deny).chain(allow).collect()
}

/// What the kernel calls the device; a device that has gone has no number and is refused later.
fn device_number(path: &Path) -> (u32, u32) {
    let number = rustix::fs::stat(path).map_or(0, |stat| stat.st_rdev);
    (rustix::fs::major(number), rustix::fs::minor(number))
}
