//! Layers become one tree. Every path is resolved by the kernel as if the tree were the root of
//! the machine (`openat2` with `RESOLVE_IN_ROOT`), so that no link of a layer leads out of it, and
//! the last name of a path is never followed.
//!
//! Whiteouts: OCI image specification 1.1, layer.md. They hide what lower layers made, never what
//! the same layer made.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::json::Layer;
use super::source::{Hashing, Part, Store};
use super::tar::{Entry, Kind, Source, Tar};
use super::{Bounds, ImageError, TarError};
use crate::files::{FileError, random_name};

/// Folders above an entry; the kernel's bound for the length of a path allows more.
const DEPTH_MAX: usize = 512;
/// Copied at once.
const CHUNK_BYTES: usize = 64 << 10;
/// What hides an entry of a lower layer, and all entries of a folder.
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// A tree that layers are applied to.
pub(super) struct Tree {
    root: OwnedFd,
    trash: OwnedFd,
    bounds: Bounds,
    bytes: u64,
    entries: u64,
    /// What the current layer has made.
    made: BTreeSet<Vec<u8>>,
}

/// A path of a layer, checked: plain names only.
struct Place {
    names: Vec<Vec<u8>>,
}

impl Place {
    /// Takes a path apart. A leading slash means the root of the tree.
    fn new(path: &[u8]) -> Result<Self, ImageError> {
        let bad = || ImageError::Path { path: shown(path) };
        let mut names = Vec::new();
        for name in path.split(|&byte| byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => return Err(bad()),
                name if name.contains(&0) => return Err(bad()),
                name => names.push(name.to_vec()),
            }
        }
        if names.len() > DEPTH_MAX { Err(bad()) } else { Ok(Self { names }) }
    }

    fn joined(&self) -> Vec<u8> {
        self.names.join(&b'/')
    }

    /// The folder it is in and its own name; nothing for the root.
    fn split(&self) -> Option<(Self, CString)> {
        let (name, above) = self.names.split_last()?;
        let name = CString::new(name.as_slice()).ok()?;
        Some((Self { names: above.to_vec() }, name))
    }

    fn text(&self) -> CString {
        let text = if self.names.is_empty() { b".".to_vec() } else { self.joined() };
        CString::new(text).unwrap_or_default()
    }
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path.get(..256).unwrap_or(path)).into_owned()
}

impl Tree {
    pub(super) fn new(root: &Path, trash: &Path, bounds: &Bounds) -> Result<Self, ImageError> {
        let open = |path: &Path| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(FileError::io("open", path))
        };
        let (root, trash) = (open(root)?, open(trash)?);
        Ok(Self { root, trash, bounds: *bounds, bytes: 0, entries: 0, made: BTreeSet::new() })
    }

    /// Applies a layer and compares its hashes.
    pub(super) fn apply(
        &mut self,
        store: &Store,
        index: usize,
        layer: &Layer,
    ) -> Result<(), ImageError> {
        let part = || layer.part.clone();
        let missing = || ImageError::Missing { part: part() };
        let read = |source: io::Error| ImageError::Read { part: part(), source };
        let packed = Hashing::new(store.part(&layer.part)?.ok_or_else(missing)?);
        let unpacked = Unpacked::new(packed, &layer.part)?;
        self.made.clear();
        let left = self.bounds.bytes.get().saturating_sub(self.bytes);
        let budget = Budget { source: Hashing::new(unpacked), left, is_over: false };
        let mut tar = Tar::new(budget);
        let applied = self.apply_entries(&mut tar, index);
        let mut budget = tar.into_source();
        // What follows the archive belongs to the hash.
        let drained = applied.and_then(|()| io::copy(&mut budget, &mut io::sink()).map_err(read));
        if budget.is_over {
            return Err(ImageError::TooManyBytes { max: self.bounds.bytes });
        }
        drained?;
        self.bytes = self.bounds.bytes.get().saturating_sub(budget.left);
        let (unpacked, content) = budget.source.finish();
        let mut packed = unpacked.into_packed();
        io::copy(&mut packed, &mut io::sink()).map_err(read)?;
        let (_, sha) = packed.finish();
        if content != layer.content || layer.packed.as_ref().is_some_and(|stated| *stated != sha) {
            return Err(ImageError::WrongDigest { part: part() });
        }
        Ok(())
    }

    fn apply_entries<R: Source>(
        &mut self,
        tar: &mut Tar<R>,
        layer: usize,
    ) -> Result<(), ImageError> {
        let fault = |source: TarError| ImageError::Tar { layer, source };
        while let Some(entry) = tar.next().map_err(fault)? {
            self.count()?;
            let place = Place::new(&entry.path)?;
            let Some((above, name)) = place.split() else { continue };
            if name.to_bytes().starts_with(WHITEOUT) {
                self.hide(&above, name.to_bytes())?;
                continue;
            }
            let folder = self.folder(&above)?;
            let made = self.make(tar, &entry, &folder, &name);
            made.map_err(|fault| fault.at(&entry.path, layer))?;
            self.made.insert(place.joined());
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), ImageError> {
        self.entries = self.entries.saturating_add(1);
        if self.entries > self.bounds.entries {
            return Err(ImageError::TooManyEntries { max: self.bounds.entries });
        }
        Ok(())
    }

    /// Makes one entry.
    fn make<R: Source>(
        &self,
        tar: &mut Tar<R>,
        entry: &Entry,
        folder: &OwnedFd,
        name: &CStr,
    ) -> Result<(), Fault> {
        let there = kind_of(folder, name)?;
        if entry.kind == Kind::Folder {
            if there == Some(FileType::Directory) {
                return Ok(());
            }
            self.discard(folder, name)?;
            rustix::fs::mkdirat(folder, name, FOLDER_MODE)?;
            return Ok(rustix::fs::chmodat(folder, name, FOLDER_MODE, AtFlags::empty())?);
        }
        if entry.kind == Kind::Device {
            let is_expected = Place::new(&entry.path)
                .is_ok_and(|place| place.names.first().is_some_and(|name| name == b"dev"));
            // Every sandbox has devices of its own; those of old images are left out.
            return if is_expected { Ok(()) } else { Err(Fault::Device) };
        }
        if entry.kind == Kind::HardLink {
            let target = Place::new(&entry.link)?;
            let (above, target_name) = target.split().ok_or(Fault::Link)?;
            let target_folder = self.open(&above)?;
            let is_file = kind_of(&target_folder, &target_name)?
                .is_some_and(|kind| matches!(kind, FileType::RegularFile | FileType::Symlink));
            if !is_file {
                return Err(Fault::Link);
            }
            if there.is_some() && (target.joined() == Place::new(&entry.path)?.joined()) {
                return Ok(()); // a link to itself
            }
            self.discard(folder, name)?;
            let flags = AtFlags::empty();
            return Ok(rustix::fs::linkat(&target_folder, &target_name, folder, name, flags)?);
        }
        self.discard(folder, name)?;
        match entry.kind {
            Kind::Symlink => {
                let target = CString::new(entry.link.as_slice()).map_err(|_| Fault::Link)?;
                Ok(rustix::fs::symlinkat(target, folder, name)?)
            }
            Kind::Fifo => {
                let mode = Mode::from_raw_mode(0o644);
                Ok(rustix::fs::mknodat(folder, name, FileType::Fifo, mode, 0)?)
            }
            Kind::File | Kind::HardLink | Kind::Device | Kind::Folder => {
                write_file(tar, entry, folder, name)
            }
        }
    }

    /// A folder of the tree, with links resolved inside of it; missing ones are made.
    fn folder(&mut self, place: &Place) -> Result<OwnedFd, ImageError> {
        match self.open(place) {
            Ok(folder) => return Ok(folder),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(Fault::from(error).at(&place.joined(), 0)),
        }
        for length in 1..=place.names.len() {
            let names = place.names.get(..length).unwrap_or_default().to_vec();
            let part = Place { names };
            let Some((above, name)) = part.split() else { continue };
            let fault = |error: Errno| Fault::from(error).at(&part.joined(), 0);
            let folder = self.open(&above).map_err(fault)?;
            match rustix::fs::mkdirat(&folder, &name, FOLDER_MODE) {
                Ok(()) => {
                    self.count()?;
                    rustix::fs::chmodat(&folder, &name, FOLDER_MODE, AtFlags::empty())
                        .map_err(fault)?;
                    self.made.insert(part.joined());
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(fault(error)),
            }
        }
        self.open(place).map_err(|error| Fault::from(error).at(&place.joined(), 0))
    }

    fn open(&self, place: &Place) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.root, place.text(), flags, Mode::empty(), resolve)
    }

    /// Takes away whatever has a name, be it a whole tree, which is removed at the end.
    fn discard(&self, folder: &OwnedFd, name: &CStr) -> Result<(), Fault> {
        match kind_of(folder, name)? {
            None => Ok(()),
            Some(FileType::Directory) => {
                let to = random_name("")?;
                Ok(rustix::fs::renameat(folder, name, &self.trash, to)?)
            }
            Some(_) => Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?),
        }
    }

    /// Hides what lower layers made.
    fn hide(&self, above: &Place, name: &[u8]) -> Result<(), ImageError> {
        let path = || [above.joined(), name.to_vec()].join(&b'/');
        let folder = match self.open(above) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()), // nothing there to hide
            Err(error) => return Err(Fault::from(error).at(&path(), 0)),
        };
        if name == OPAQUE {
            return self.hide_all(folder, above).map_err(|fault| fault.at(&path(), 0));
        }
        let hidden = name.strip_prefix(WHITEOUT).unwrap_or_default();
        if hidden.starts_with(WHITEOUT) {
            return Ok(()); // notes of an older file system to itself
        }
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(ImageError::Path { path: shown(&path()) });
        }
        let mut names = above.names.clone();
        names.push(hidden.to_vec());
        if self.made.contains(&Place { names }.joined()) {
            return Ok(());
        }
        let hidden = CString::new(hidden).unwrap_or_default();
        self.discard(&folder, &hidden).map_err(|fault| fault.at(&path(), 0))
    }

    /// Hides everything of lower layers in a folder, level by level.
    fn hide_all(&self, folder: OwnedFd, above: &Place) -> Result<(), Fault> {
        let mut next = vec![(folder, above.names.clone())];
        while let Some((folder, names)) = next.pop() {
            for entry in Dir::read_from(&folder)? {
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let mut place = Place { names: names.clone() };
                place.names.push(name.to_bytes().to_vec());
                if !self.made.contains(&place.joined()) {
                    self.discard(&folder, name)?;
                } else if kind_of(&folder, name)? == Some(FileType::Directory) {
                    let flags =
                        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let below = rustix::fs::openat(&folder, name, flags, Mode::empty())?;
                    next.push((below, place.names));
                }
            }
        }
        Ok(())
    }
}

/// Folders that everybody may read; the task is another user.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);

fn write_file<R: Source>(
    tar: &mut Tar<R>,
    entry: &Entry,
    folder: &OwnedFd,
    name: &CStr,
) -> Result<(), Fault> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(if entry.is_executable { 0o755 } else { 0o644 });
    let file = rustix::fs::openat(folder, name, flags, mode)?;
    rustix::fs::fchmod(&file, mode)?;
    let mut file = File::from(file);
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut left = entry.bytes;
    while left > 0 {
        let count = tar.read(&mut buffer).map_err(|error| Fault::Tar(error.into()))?;
        file.write_all(buffer.get(..count).unwrap_or_default())?;
        left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
    }
    Ok(())
}

fn kind_of(folder: &OwnedFd, name: &CStr) -> Result<Option<FileType>, Errno> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What can go wrong with one entry, before it is known which one it was.
enum Fault {
    Io(io::Error),
    Tar(TarError),
    Link,
    Device,
    Image(Box<ImageError>),
}

impl Fault {
    fn at(self, path: &[u8], layer: usize) -> ImageError {
        let path = shown(path);
        match self {
            Self::Io(source) => ImageError::Entry { path, source },
            Self::Tar(source) => ImageError::Tar { layer, source },
            Self::Link => ImageError::Path { path },
            Self::Device => ImageError::Device { path },
            Self::Image(error) => *error,
        }
    }
}

impl From<Errno> for Fault {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ImageError> for Fault {
    fn from(error: ImageError) -> Self {
        Self::Image(Box::new(error))
    }
}

impl From<FileError> for Fault {
    fn from(error: FileError) -> Self {
        Self::Image(Box::new(error.into()))
    }
}

/// A layer without its packing.
enum Unpacked {
    Gzip(Box<MultiGzDecoder<Front>>),
    Plain(Front),
}

/// A layer with the bytes that were looked at put back in front.
type Front = io::Chain<io::Cursor<Vec<u8>>, Hashing<Part>>;

impl Unpacked {
    fn new(mut packed: Hashing<Part>, part: &str) -> Result<Self, ImageError> {
        let mut first = Vec::new();
        packed
            .by_ref()
            .take(4)
            .read_to_end(&mut first)
            .map_err(|source| ImageError::Read { part: part.to_owned(), source })?;
        let packing = |packing| ImageError::Packing { part: part.to_owned(), packing };
        let (is_gzip, is_zstd) =
            (first.starts_with(&[0x1f, 0x8b]), first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
        let is_xz = first.starts_with(&[0xfd, b'7', b'z', b'X']);
        let front = io::Cursor::new(first).chain(packed);
        match (is_gzip, is_zstd, is_xz) {
            (true, ..) => Ok(Self::Gzip(Box::new(MultiGzDecoder::new(front)))),
            (_, true, _) => Err(packing("zstd")),
            (_, _, true) => Err(packing("xz")),
            _ => Ok(Self::Plain(front)),
        }
    }

    fn into_packed(self) -> Hashing<Part> {
        let front = match self {
            Self::Gzip(decoder) => decoder.into_inner(),
            Self::Plain(front) => front,
        };
        front.into_inner().1
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Plain(front) => front.read(buffer),
        }
    }
}

/// Lets so many bytes through and no more.
struct Budget<R> {
    source: R,
    left: u64,
    is_over: bool,
}

impl<R: Read> Read for Budget<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // One byte more is asked for than is left, to see whether there is one.
        let room = usize::try_from(self.left.saturating_add(1)).unwrap_or(usize::MAX);
        let room = room.min(buffer.len());
        let count = self.source.read(buffer.get_mut(..room).unwrap_or_default())?;
        let counted = u64::try_from(count).unwrap_or(u64::MAX);
        if counted > self.left {
            self.is_over = true;
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.left = self.left.saturating_sub(counted);
        Ok(count)
    }
}

impl<R: Read> Source for Budget<R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.by_ref().take(bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
