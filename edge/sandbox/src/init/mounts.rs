//! The file tree made with our own calls of `mount`, where neither `bwrap` nor a container program
//! does it. The way is that of bubblewrap: an empty file system becomes the root with the old one
//! below it, the new tree is put together from there, and then becomes the root itself.

use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, unmount,
};
use rustix::process::pivot_root;

use crate::task::WORK_FOLDER;
use crate::view::{Bind, DEVICE_LINKS, View, WorkSource, below};

/// Where the old root is while the new one is built.
const OLD: &str = "/old";
/// Where the new root is built.
const NEW: &str = "/new";
/// Enough for the mount points in a folder of mounts, which are all it holds.
const SHELF_OPTIONS: &str = "mode=0755,size=1m,nr_inodes=4096";
/// What is harmful on any mount of a sandbox.
const HARMLESS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Builds the view and makes it the root of this process.
pub(super) fn enter(view: &View) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    // The folder of the run is ours and exists; what it holds is seen below the old root.
    let stage = std::env::current_dir()?;
    tmpfs(&stage, SHELF_OPTIONS)?;
    for name in [OLD, NEW] {
        fs::create_dir(below(&stage, Path::new(name)))?;
    }
    pivot_root(&stage, below(&stage, Path::new(OLD)))?;
    std::env::set_current_dir("/")?;
    build(view)?;
    unmount(OLD, UnmountFlags::DETACH)?;
    // The new root on top of this one, then this one taken away from under it.
    std::env::set_current_dir(NEW)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}

fn build(view: &View) -> io::Result<()> {
    bind_read_only(&old(&view.base), Path::new(NEW))?;
    for Bind { source, target } in &view.binds {
        bind_read_only(&old(source), &new(target))?;
    }
    build_devices(view)?;
    let no_programs = HARMLESS | MountFlags::NOEXEC;
    mount("proc", new("/proc"), "proc", no_programs, None)?;
    for (folder, binds) in &view.shelves {
        let folder = new(folder);
        tmpfs(&folder, SHELF_OPTIONS)?;
        for Bind { source, target } in binds {
            make_place(&old(source), &new(target))?;
            bind_read_only(&old(source), &new(target))?;
        }
        make_read_only(&folder)?;
    }
    let work = new(WORK_FOLDER);
    match &view.work {
        WorkSource::Tmpfs { bytes, files } => {
            tmpfs(&work, &format!("mode=0777,size={bytes},nr_inodes={files}"))
        }
        WorkSource::Folder(folder) => {
            mount_bind(old(folder), &work)?;
            Ok(mount_remount(&work, MountFlags::BIND | HARMLESS, "")?)
        }
    }
}

fn build_devices(view: &View) -> io::Result<()> {
    tmpfs(&new("/dev"), SHELF_OPTIONS)?;
    for device in &view.devices {
        make_place(&old(device), &new(device))?;
        mount_bind(old(device), new(device))?;
    }
    for (link, target) in DEVICE_LINKS {
        symlink(target, new(link))?;
    }
    make_read_only(&new("/dev"))
}

fn old(path: impl AsRef<Path>) -> PathBuf {
    below(Path::new(OLD), path.as_ref())
}

fn new(path: impl AsRef<Path>) -> PathBuf {
    below(Path::new(NEW), path.as_ref())
}

fn tmpfs(path: &Path, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    Ok(mount("tmpfs", path, "tmpfs", HARMLESS, options.as_c_str())?)
}

/// Makes what `source` can be mounted on.
fn make_place(source: &Path, place: &Path) -> io::Result<()> {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    if fs::metadata(source)?.is_dir() {
        fs::create_dir_all(place)
    } else {
        fs::File::create(place).map(drop)
    }
}

/// Shows `source` at `place`, with all that is mounted below it, read-only.
fn bind_read_only(source: &Path, place: &Path) -> io::Result<()> {
    mount_bind_recursive(source, place)?;
    let table = fs::read(old("/proc/self/mountinfo"))?;
    for (path, flags) in mounts_below(&table, place) {
        let flags = MountFlags::BIND | MountFlags::RDONLY | HARMLESS | flags;
        mount_remount(&path, flags, "")?;
    }
    Ok(())
}

fn make_read_only(path: &Path) -> io::Result<()> {
    Ok(mount_remount(path, MountFlags::BIND | MountFlags::RDONLY | HARMLESS, "")?)
}

/// Mounts at and below a place, with those flags that a user namespace may not take away.
fn mounts_below(table: &[u8], place: &Path) -> Vec<(PathBuf, MountFlags)> {
    let lines = table.split(|&byte| byte == b'\n');
    let rows = lines.filter_map(|line| {
        // 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
        let mut fields = line.split(|&byte| byte == b' ').skip(4);
        let path = PathBuf::from(OsString::from_vec(unescaped(fields.next()?)));
        Some((path, fields.next()?)).filter(|(path, _)| path.starts_with(place))
    });
    rows.map(|(path, options)| {
        let options = options.split(|&byte| byte == b',');
        let flags = options.fold(MountFlags::empty(), |flags, option| match option {
            b"noexec" => flags | MountFlags::NOEXEC,
            b"nosymfollow" => flags | MountFlags::NOSYMFOLLOW,
            _ => flags,
        });
        (path, flags)
    })
    .collect()
}

/// Undoes the kernel's way of writing blanks in paths: a backslash and three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.split_at_checked(3).filter(|_| byte == b'\\');
        let octal = code
            .and_then(|(digits, _)| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match (octal, code) {
            (Some(octal), Some((_, after))) => {
                bytes.push(octal);
                rest = after;
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{mounts_below, unescaped};
    use rustix::mount::MountFlags;
    use std::path::{Path, PathBuf};

    #[test]
    fn mounts_below_a_place_are_found_with_their_flags() {
        let table = b"\
1 0 0:1 / / rw - ext4 /dev/a rw
2 1 0:2 / /new/usr rw,noexec,relatime shared:1 - ext4 /dev/a rw
3 1 0:3 / /new/usr/with\\040blank ro,nosymfollow - tmpfs x rw
4 1 0:4 / /new/usrlocal rw - tmpfs x rw
short line
";
        let found = mounts_below(table, Path::new("/new/usr"));
        let expected = [
            (PathBuf::from("/new/usr"), MountFlags::NOEXEC),
            (PathBuf::from("/new/usr/with blank"), MountFlags::NOSYMFOLLOW),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn prop_unescaping_never_fails_and_leaves_plain_text() {
        arbtest::arbtest(|u| {
            let text: Vec<u8> = u.arbitrary()?;
            let plain = unescaped(&text);
            assert!(plain.len() <= text.len());
            if !text.contains(&b'\\') {
                assert_eq!(plain, text);
            }
            Ok(())
        });
        assert_eq!(unescaped(b"a\\040b\\134c\\9"), b"a b\\c\\9");
    }
}
