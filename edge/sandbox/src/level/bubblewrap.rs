//! Arguments of `bwrap`. As root it makes no user namespace: it mounts with the machine's rights,
//! so that inputs need not be readable by the task's user, and keeps just the capabilities with
//! which the first process becomes that user.

use std::path::Path;

use super::{PathError, first_process, text};
use crate::helper::Helper;
use crate::spec::INSIDE_USER;
use crate::task::WORK_FOLDER;
use crate::view::{DEVICE_LINKS, View, WorkSource};

/// What root keeps until the first process has become the task's user.
const CAPABILITIES: [&str; 3] = ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"];

/// The whole command.
pub(crate) fn command(
    tool: &Path,
    view: &View,
    helper: &Helper,
    is_root: bool,
) -> Result<Vec<String>, PathError> {
    let mut words = vec![text(tool)?];
    let mut add = |more: &[&str]| words.extend(more.iter().map(|&word| word.to_owned()));
    add(&["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
    add(&["--die-with-parent", "--as-pid-1", "--hostname", "job", "--cap-drop", "ALL"]);
    if !view.network {
        add(&["--unshare-net"]);
    }
    if is_root {
        for capability in CAPABILITIES {
            add(&["--cap-add", capability]);
        }
    } else {
        let (uid, gid) = (INSIDE_USER.uid.to_string(), INSIDE_USER.gid.to_string());
        add(&["--unshare-user", "--uid", &uid, "--gid", &gid]);
    }
    add(&["--ro-bind", &text(&view.base)?, "/"]);
    for bind in &view.binds {
        add(&["--ro-bind", &text(&bind.source)?, &text(&bind.target)?]);
    }
    add(&["--proc", "/proc", "--tmpfs", "/dev"]);
    for device in &view.devices {
        let device = text(device)?;
        add(&["--dev-bind", &device, &device]);
    }
    for (link, target) in DEVICE_LINKS {
        add(&["--symlink", target, link]);
    }
    add(&["--remount-ro", "/dev"]);
    for (folder, binds) in &view.shelves {
        let folder = text(folder)?;
        add(&["--tmpfs", &folder]);
        for bind in binds {
            add(&["--ro-bind", &text(&bind.source)?, &text(&bind.target)?]);
        }
        add(&["--remount-ro", &folder]);
    }
    match &view.work {
        WorkSource::Tmpfs { bytes, files: _ } => {
            add(&["--perms", "0777", "--size", &bytes.to_string(), "--tmpfs", WORK_FOLDER]);
        }
        WorkSource::Folder(folder) => add(&["--bind", &text(folder)?, WORK_FOLDER]),
    }
    add(&["--chdir", "/", "--"]);
    words.extend(first_process(helper));
    Ok(words)
}
