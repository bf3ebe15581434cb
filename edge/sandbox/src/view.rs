//! The file tree a task sees, as data. Each level that has mounts of its own renders the same view
//! in its own words: arguments of `bwrap`, a container's configuration, or calls of `mount`.
//!
//! Everything in it is read-only besides the work folder. `/out`, `/tmp` and `/dev/shm` are links
//! into the work folder, so that one bound holds for all a task can write.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{FileError, remove_tree};
use crate::helper::HELPER_FOLDER;
use crate::kept::CHECKPOINT_NAME;
use crate::outputs::OUTPUT_NAME;
use crate::task::{INPUT_FOLDER, OUTPUT_FOLDER, WORK_FOLDER};

/// In the work folder: what `/tmp` is a link to.
pub(crate) const TEMPORARY_NAME: &str = ".tmp";
/// In the work folder: what `/dev/shm` is a link to.
pub(crate) const SHARED_MEMORY_NAME: &str = ".shm";

/// Folders of the machine that hold programs and libraries.
const HOST_FOLDERS: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Settings of the machine that programs need to start and that say nothing about anybody.
const HOST_SETTINGS: [&str; 7] = [
    "etc/alternatives",
    "etc/ca-certificates",
    "etc/ld.so.cache",
    "etc/ld.so.conf",
    "etc/ld.so.conf.d",
    "etc/localtime",
    "etc/ssl/certs",
];
/// Settings that are ours instead of the machine's, which would name its users.
const OWN_SETTINGS: [(&str, &str); 4] = [
    ("etc/passwd", "job:x:1000:1000::/job:/bin/sh\nnobody:x:65534:65534::/job:/bin/sh\n"),
    ("etc/group", "job:x:1000:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
];
/// Where something is mounted or that programs expect to be there.
const PLACES: [&str; 9] = ["proc", "dev", "sys", "run", "var", "etc", "in", "job", ".tensorgrid"];
/// A file that the machine's is mounted on where its network is shared.
const RESOLVER: &str = "etc/resolv.conf";
/// Links into the work folder.
const LINKS: [(&str, &str); 3] =
    [("tmp", "job/.tmp"), ("var/tmp", "../job/.tmp"), ("out", "job/out")];

/// Devices every program may have.
pub(crate) const DEVICES: [&str; 5] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// Names in `/dev` that stand for something else.
pub(crate) const DEVICE_LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/shm", "/job/.shm"),
];

/// A file or folder of the machine shown at another place, read-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bind {
    /// Where it is.
    pub(crate) source: PathBuf,
    /// Where it is seen, as an absolute path.
    pub(crate) target: PathBuf,
}

/// What the work folder is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WorkSource {
    /// A file system in memory.
    Tmpfs { bytes: u64, files: u64 },
    /// A folder of the machine.
    Folder(PathBuf),
}

/// The file tree a task sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct View {
    /// The folder that becomes `/`. Everything below has a place to be mounted on in it.
    pub(crate) base: PathBuf,
    /// Parts of the machine, on places of the base.
    pub(crate) binds: Vec<Bind>,
    /// Folders in memory that hold nothing but mounts: their path and what is in them.
    pub(crate) shelves: Vec<(PathBuf, Vec<Bind>)>,
    /// Devices, at their own paths.
    pub(crate) devices: Vec<PathBuf>,
    /// The work folder.
    pub(crate) work: WorkSource,
    /// Whether the machine's network is shared.
    pub(crate) network: bool,
}

/// What is seen at `/`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shown<'a> {
    /// The machine's programs and libraries.
    Host,
    /// An unpacked image.
    Image(&'a Path),
    /// Nothing besides the helper.
    Nothing,
}

/// What a view is built from.
pub(crate) struct ViewPlan<'a> {
    /// What is seen at `/`.
    pub(crate) shown: Shown<'a>,
    /// Where a base may be made.
    pub(crate) base: &'a Path,
    /// The helper's files.
    pub(crate) helper: Vec<Bind>,
    /// Inputs of the task.
    pub(crate) inputs: Vec<Bind>,
    /// Devices of the task.
    pub(crate) devices: &'a [PathBuf],
    /// The work folder.
    pub(crate) work: WorkSource,
    /// Whether the machine's network is shared.
    pub(crate) network: bool,
    /// What the folder that is saved is called below `/`.
    pub(crate) checkpoint: Option<&'a str>,
}

impl View {
    /// Builds the view, making its base where the machine's own programs are used.
    pub(crate) fn build(plan: ViewPlan<'_>) -> Result<Self, FileError> {
        let (base, mut binds) = match plan.shown {
            Shown::Image(image) => (image, Vec::new()),
            Shown::Host => (plan.base, host_base(plan.base)?),
            Shown::Nothing => (plan.base, own_base(plan.base).map(|()| Vec::new())?),
        };
        if let Some(name) = plan.checkpoint {
            make_link(base, name, &format!("job/{CHECKPOINT_NAME}"))?;
        }
        binds.extend(resolver().filter(|_| plan.network));
        let devices = DEVICES.iter().map(PathBuf::from).chain(plan.devices.iter().cloned());
        Ok(Self {
            base: base.to_owned(),
            binds,
            shelves: vec![(HELPER_FOLDER.into(), plan.helper), (INPUT_FOLDER.into(), plan.inputs)],
            devices: devices.collect(),
            work: plan.work,
            network: plan.network,
        })
    }

    /// Devices that were assigned to the task.
    pub(crate) fn assigned(&self) -> impl Iterator<Item = &PathBuf> {
        self.devices.iter().filter(|path| !DEVICES.iter().any(|known| path.as_os_str() == *known))
    }
}

/// What of the machine is shown.
pub(crate) fn host_paths() -> impl Iterator<Item = PathBuf> {
    HOST_FOLDERS.iter().chain(&HOST_SETTINGS).map(|name| Path::new("/").join(name))
}

/// Makes a base that shows nothing of the machine: places, links and settings of our own.
fn own_base(base: &Path) -> Result<(), FileError> {
    make_folder(base)?;
    make_places(base)?;
    for (name, text) in OWN_SETTINGS {
        make_parent(&base.join(name))?;
        fs::write(base.join(name), text).map_err(FileError::io("write", base))?;
    }
    Ok(())
}

/// Makes a base that shows the machine's programs: places and links are made, folders are bound.
fn host_base(base: &Path) -> Result<Vec<Bind>, FileError> {
    own_base(base)?;
    let mut binds = Vec::new();
    let host = Path::new("/");
    for name in HOST_FOLDERS {
        let Ok(metadata) = fs::symlink_metadata(host.join(name)) else { continue };
        if metadata.is_symlink() {
            let target = fs::read_link(host.join(name)).map_err(FileError::io("read", host))?;
            symlink(target, base.join(name)).map_err(FileError::io("link", base))?;
        } else if metadata.is_dir() {
            make_folder(&base.join(name))?;
            binds.push(Bind { source: host.join(name), target: host.join(name) });
        }
    }
    for name in HOST_SETTINGS {
        // What is a link on the machine is shown as what it leads to.
        let Ok(source) = fs::canonicalize(host.join(name)) else { continue };
        let place = base.join(name);
        make_parent(&place)?;
        if source.is_dir() {
            make_folder(&place)?;
        } else {
            fs::write(&place, "").map_err(FileError::io("write", &place))?;
        }
        binds.push(Bind { source, target: host.join(name) });
    }
    Ok(binds)
}

/// Makes the places that every base has, whatever was there before; links lead into the work
/// folder. A place is never a link of somebody else's, which a mount would follow.
pub(crate) fn make_places(base: &Path) -> Result<(), FileError> {
    let io = |error| FileError::io("prepare", base)(error);
    for name in PLACES {
        let place = base.join(name);
        match fs::symlink_metadata(&place) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                fs::remove_file(&place).map_err(io)?;
                make_folder(&place)?;
            }
            Err(_) => make_folder(&place)?,
        }
    }
    for (name, target) in LINKS {
        make_link(base, name, target)?;
    }
    let place = base.join(RESOLVER);
    let is_file = fs::symlink_metadata(&place).is_ok_and(|metadata| metadata.is_file());
    if is_file {
        return Ok(());
    }
    remove_tree(&place)?;
    fs::write(&place, "").map_err(io)
}

/// Makes a link in a base, whatever was there before.
fn make_link(base: &Path, name: &str, target: &str) -> Result<(), FileError> {
    let io = |error| FileError::io("prepare", base)(error);
    let place = base.join(name);
    match fs::symlink_metadata(&place) {
        Ok(metadata) if metadata.is_dir() => remove_tree(&place)?,
        Ok(_) => fs::remove_file(&place).map_err(io)?,
        Err(_) => {}
    }
    symlink(target, &place).map_err(io)
}

/// How the machine finds addresses, where it says so.
fn resolver() -> Option<Bind> {
    let target = Path::new("/").join(RESOLVER);
    let source = fs::canonicalize(&target).ok()?;
    Some(Bind { source, target })
}

/// A folder everybody may look into: the task is another user.
pub(crate) fn make_folder(path: &Path) -> Result<(), FileError> {
    match fs::DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(FileError::io("make the folder", path)(error)),
    }
    let mode = fs::Permissions::from_mode(0o755); // whatever the mask of this process is
    fs::set_permissions(path, mode).map_err(FileError::io("open", path))
}

fn make_parent(path: &Path) -> Result<(), FileError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    if parent.is_dir() {
        return Ok(());
    }
    make_parent(parent)?;
    make_folder(parent)
}

/// `path` below `base`, whatever it begins with.
pub(crate) fn below(base: &Path, path: &Path) -> PathBuf {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    parts.fold(base.to_owned(), |path, part| path.join(part))
}

const _: () = assert!(matches!(WORK_FOLDER.as_bytes(), b"/job"), "links and settings name it");
const _: () = assert!(matches!(INPUT_FOLDER.as_bytes(), b"/in"), "places name it");
const _: () = assert!(matches!(OUTPUT_FOLDER.as_bytes(), b"/out"), "links name it");
const _: () = assert!(matches!(OUTPUT_NAME.as_bytes(), b"out"), "links lead to it");
const _: () = assert!(matches!(HELPER_FOLDER.as_bytes(), b"/.tensorgrid"), "places name it");

#[cfg(test)]
mod tests {
    use super::{Shown, View, ViewPlan, WorkSource, below, make_places};
    use crate::files::TemporaryFolder;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    fn plan<'a>(base: &'a Path, devices: &'a [PathBuf]) -> ViewPlan<'a> {
        let work = WorkSource::Tmpfs { bytes: 4096, files: 8 };
        let (helper, inputs) = (Vec::new(), Vec::new());
        ViewPlan {
            shown: Shown::Host,
            base,
            helper,
            inputs,
            devices,
            work,
            network: false,
            checkpoint: Some("ckpt"),
        }
    }

    #[test]
    fn host_view_shows_programs_but_no_users_homes_or_data() {
        let folder = TemporaryFolder::new().expect("a folder");
        let base = folder.path().join("base");
        let view = View::build(plan(&base, &["/dev/extra".into()])).expect("builds");
        assert!(view.binds.iter().any(|bind| bind.target == Path::new("/usr")));
        for hidden in ["/etc", "/etc/passwd", "/etc/shadow", "/root", "/home", "/var", "/proc"] {
            assert!(view.binds.iter().all(|bind| bind.target != Path::new(hidden)), "{hidden}");
        }
        let users = fs::read_to_string(base.join("etc/passwd")).expect("reads");
        assert_eq!(users.lines().count(), 2);
        let resolver = fs::read(base.join("etc/resolv.conf")).expect("reads");
        assert!(
            resolver.is_empty()
                && view.binds.iter().all(|bind| !bind.target.ends_with("resolv.conf"))
        );
        assert_eq!(fs::read_link(base.join("tmp")).expect("a link"), Path::new("job/.tmp"));
        let checkpoint = fs::read_link(base.join("ckpt")).expect("a link");
        assert_eq!(checkpoint, Path::new("job/.checkpoint"));
        assert_eq!(view.assigned().collect::<Vec<_>>(), [Path::new("/dev/extra")]);
    }

    #[test]
    fn view_of_this_program_alone_shows_nothing_of_the_machine() {
        let folder = TemporaryFolder::new().expect("a folder");
        let base = folder.path().join("base");
        let plan = ViewPlan { shown: Shown::Nothing, ..plan(&base, &[]) };
        let view = View::build(plan).expect("builds");
        assert_eq!(view.binds, []);
        let users = fs::read_to_string(base.join("etc/passwd")).expect("reads");
        assert_eq!(users.lines().count(), 2);
        assert!(!base.join("usr").exists() && base.join("in").is_dir());
    }

    #[test]
    fn places_replace_whatever_an_image_put_there() {
        let folder = TemporaryFolder::new().expect("a folder");
        let base = folder.path();
        fs::create_dir_all(base.join("tmp/deep/er")).expect("makes");
        fs::create_dir(base.join("var")).expect("makes");
        symlink("/etc", base.join("job")).expect("links");
        symlink("../..", base.join("var/tmp")).expect("links");
        fs::create_dir(base.join("etc")).expect("makes");
        symlink("/etc/shadow", base.join("etc/resolv.conf")).expect("links");
        fs::write(base.join("in"), "x").expect("writes");
        make_places(base).expect("makes");
        for place in ["job", "in", "proc", "dev", ".tensorgrid"] {
            let metadata = fs::symlink_metadata(base.join(place)).expect("is there");
            assert!(metadata.is_dir(), "{place}");
        }
        assert_eq!(fs::read_link(base.join("var/tmp")).expect("link"), Path::new("../job/.tmp"));
        let resolver = fs::symlink_metadata(base.join("etc/resolv.conf")).expect("is there");
        assert!(resolver.is_file() && resolver.len() == 0);
        make_places(base).expect("again");
    }

    #[test]
    fn below_never_leaves() {
        assert_eq!(below("/new".as_ref(), "/a/../b/./c".as_ref()), Path::new("/new/a/b/c"));
        assert_eq!(below("/new".as_ref(), "../../x".as_ref()), Path::new("/new/x"));
    }
}
