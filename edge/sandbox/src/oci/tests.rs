//! Hostile images: everything a stranger can put into an archive, and what ordinary ones contain.

use super::source::Sha;
use super::tar::{Entry, Kind, Source, Tar, TarError};
use super::{Bounds, ImageError, Rootfs, unpack};
use crate::files::TemporaryFolder;
use crate::limits::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// A header block with its sum.
fn header(name: &[u8], kind: u8, size: &[u8], link: &[u8], mode: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    let mut put = |at: usize, bytes: &[u8]| {
        block.get_mut(at..at + bytes.len()).expect("fits").copy_from_slice(bytes);
    };
    put(0, name);
    put(100, mode);
    put(124, size);
    put(148, b"        ");
    put(156, &[kind]);
    put(157, link);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block.get_mut(148..156).expect("fits").copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// An archive in the making.
#[derive(Clone, Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn add(mut self, name: &str, kind: u8, content: &[u8], link: &str) -> Self {
        let size = format!("{:011o}\0", content.len());
        let header = header(name.as_bytes(), kind, size.as_bytes(), link.as_bytes(), b"0000755\0");
        self.0.extend(header);
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, name: &str, content: &[u8]) -> Self {
        self.add(name, b'0', content, "")
    }

    fn folder(self, name: &str) -> Self {
        self.add(name, b'5', b"", "")
    }

    fn symlink(self, name: &str, to: &str) -> Self {
        self.add(name, b'2', b"", to)
    }

    fn hard_link(self, name: &str, to: &str) -> Self {
        self.add(name, b'1', b"", to)
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}

impl Source for &[u8] {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let count = usize::try_from(bytes).unwrap_or(usize::MAX);
        *self = self.get(count..).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(())
    }
}

fn read_all(bytes: &[u8]) -> Result<Vec<(Entry, Vec<u8>)>, TarError> {
    let mut tar = Tar::new(bytes);
    let mut found = Vec::new();
    while let Some(entry) = tar.next()? {
        let mut content = Vec::new();
        let bytes = entry.bytes;
        tar.by_ref().take(bytes).read_to_end(&mut content)?;
        found.push((entry, content));
    }
    Ok(found)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("writes");
    encoder.finish().expect("packs")
}

fn sha(bytes: &[u8]) -> String {
    Sha::of(bytes).blob().replace("blobs/sha256/", "sha256:")
}

/// A layout folder in the making; every document is changed by `change` before it is named.
struct Layout<'a> {
    folder: &'a Path,
    layers: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a> Layout<'a> {
    fn new(folder: &'a Path, layers: &[Vec<u8>]) -> Self {
        fs::create_dir_all(folder.join("blobs/sha256")).expect("makes");
        let layers = layers.iter().map(|layer| (gzip(layer), layer.clone())).collect();
        Self { folder, layers }
    }

    fn blob(&self, bytes: &[u8]) -> Value {
        fs::write(self.folder.join(Sha::of(bytes).blob()), bytes).expect("writes");
        json!({ "digest": sha(bytes), "size": bytes.len() })
    }

    fn write(&self) {
        self.write_with(|_| {}, |_| {});
    }

    fn write_with(&self, config: fn(&mut Value), index: fn(&mut Value)) {
        let ids: Vec<String> = self.layers.iter().map(|(_, content)| sha(content)).collect();
        let mut document = json!({
            "os": "linux",
            "rootfs": { "type": "layers", "diff_ids": ids },
            "config": { "Env": ["A=b", "PATH=/bin", "broken"], "Entrypoint": ["/bin/x"],
                        "Cmd": ["y"], "User": "root" },
        });
        config(&mut document);
        let config = self.blob(document.to_string().as_bytes());
        let layers: Vec<Value> = self.layers.iter().map(|(packed, _)| self.blob(packed)).collect();
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": layers });
        let manifest = self.blob(manifest.to_string().as_bytes());
        let mut document = json!({ "schemaVersion": 2, "manifests": [manifest] });
        index(&mut document);
        fs::write(self.folder.join("index.json"), document.to_string()).expect("writes");
    }
}

/// Unpacks layers; the folder is kept alive with what is in it.
fn unpacked(layers: &[Vec<u8>]) -> Result<(TemporaryFolder, Rootfs), ImageError> {
    bounded(layers, &Bounds { bytes: Bytes::mib(8), entries: 1000 })
}

fn bounded(layers: &[Vec<u8>], bounds: &Bounds) -> Result<(TemporaryFolder, Rootfs), ImageError> {
    let folder = TemporaryFolder::new().expect("a folder");
    Layout::new(&folder.path().join("image"), layers).write();
    let to = folder.path().join("unpacked");
    let done = unpack(&folder.path().join("image"), &to, bounds);
    assert_eq!(done.is_ok(), to.exists(), "all or nothing");
    done.map(|root| (folder, root))
}

#[test]
fn archive_is_read_entry_by_entry() {
    let long = "long/".repeat(40) + "name";
    let pax = "27 path=unicode/ünïcode\n".to_owned(); // ü and ï have two bytes each
    let pax = pax.replacen("27", &pax.len().to_string(), 1);
    let bytes = Archive::default()
        .folder("a/")
        .file("a/b", b"content")
        .symlink("a/c", "../d")
        .add("././@LongLink", b'L', long.as_bytes(), "")
        .file("cut", b"x")
        .add("pax", b'x', pax.as_bytes(), "")
        .file("cut", b"")
        .end();
    let found = read_all(&bytes).expect("reads");
    let kinds: Vec<Kind> = found.iter().map(|(entry, _)| entry.kind).collect();
    assert_eq!(kinds, [Kind::Folder, Kind::File, Kind::Symlink, Kind::File, Kind::File]);
    let paths: Vec<&[u8]> = found.iter().map(|(entry, _)| entry.path.as_slice()).collect();
    let expected: [&[u8]; 5] =
        [b"a/", b"a/b", b"a/c", long.as_bytes(), "unicode/ünïcode".as_bytes()];
    assert_eq!(paths, expected);
    assert_eq!(found.get(1).map(|(_, content)| content.as_slice()), Some(&b"content"[..]));
}

#[test]
fn broken_headers_are_refused() {
    let good = Archive::default().file("a", b"x").end();
    for cut in [1, 511, 512, 513, 1023] {
        let short = good.get(..cut).expect("is longer");
        assert!(matches!(read_all(short), Err(TarError::Io(_))), "{cut}");
    }
    let mut wrong = good.clone();
    *wrong.first_mut().expect("not empty") ^= 1;
    assert!(matches!(read_all(&wrong), Err(TarError::Checksum)));
    let endless = header(b"a", b'0', &[0xff; 12], b"", b"0000644\0");
    assert!(matches!(read_all(&endless), Err(TarError::Number)));
    let sparse = header(b"a", b'S', b"00000000000\0", b"", b"0000644\0");
    assert!(matches!(read_all(&sparse), Err(TarError::Kind('S'))));
    let huge = header(b"././@LongLink", b'L', b"77777777777\0", b"", b"0000644\0");
    assert!(matches!(read_all(&huge), Err(TarError::TooLong { .. })));
    let names = (0..20).fold(Archive::default(), |archive, _| archive.add("n", b'L', b"x", ""));
    assert!(matches!(read_all(&names.end()), Err(TarError::TooManyExtensions)));
    for record in ["5 a=\n5 a=\n", "9999 path=x\n", "x path=y\n", "7 path\n", "path=x"] {
        let bytes = Archive::default().add("x", b'x', record.as_bytes(), "").file("a", b"").end();
        let refused = read_all(&bytes);
        let is_fine = record.starts_with("5 ");
        assert_eq!(refused.is_ok(), is_fine, "{record:?}");
    }
    let path = format!("{} path={}\n", 5000 + 11, "p".repeat(5000));
    let bytes = Archive::default().add("x", b'x', path.as_bytes(), "").file("a", b"").end();
    assert!(matches!(read_all(&bytes), Err(TarError::TooLong { bytes: 5000 })));
}

/// Goal: no bytes make the reader fail otherwise than by an error, and what it reads is bounded by
/// what is there. Method: random bytes, and good archives with random bytes changed.
#[test]
fn prop_reading_any_bytes_is_safe() {
    arbtest::arbtest(|u| {
        let mut bytes = Archive::default()
            .folder("a")
            .add("././@LongLink", b'L', b"some/long/name", "")
            .file("x", &[7; 700])
            .add("p", b'x', b"11 path=ab\n", "")
            .hard_link("y", "x")
            .end();
        for _ in 0..u.int_in_range(0..=6)? {
            let at = u.choose_index(bytes.len())?;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = u.arbitrary()?;
            }
        }
        bytes.truncate(u.int_in_range(0..=bytes.len())?);
        if u.ratio(1, 4)? {
            bytes = u.arbitrary()?;
        }
        if let Ok(found) = read_all(&bytes) {
            let read: usize = found.iter().map(|(_, content)| content.len()).sum();
            assert!(read <= bytes.len());
        }
        Ok(())
    });
}

#[test]
fn ordinary_image_is_unpacked() {
    let one = Archive::default()
        .folder("bin/")
        .file("bin/x", b"#!/bin/sh\n")
        .symlink("lib", "usr/lib")
        .folder("usr/lib")
        .file("lib/deep/er/file", b"through a link")
        .file("gone", b"1")
        .folder("kept")
        .file("kept/lower", b"1")
        .file("becomes-folder", b"1")
        .folder("becomes-file/sub")
        .add("dev/null", b'3', b"", "")
        .add("run/pipe", b'6', b"", "");
    let two = Archive::default()
        .file(".wh.gone", b"")
        .file(".wh.never-was", b"")
        .file("kept/upper", b"2")
        .file("kept/.wh..wh..opq", b"")
        .file("kept/.wh..wh.aufs", b"")
        .folder("becomes-folder")
        .file("becomes-file", b"2")
        .hard_link("bin/y", "bin/x")
        .hard_link("bin/y", "/bin/y")
        .file("/absolute", b"inside");
    let (_folder, root) = unpacked(&[one.end(), two.end()]).expect("unpacks");
    let path = |name: &str| root.folder().join(name);
    let read = |name: &str| fs::read_to_string(path(name)).expect("reads");
    assert_eq!(read("usr/lib/deep/er/file"), "through a link");
    assert!(!path("gone").exists());
    assert_eq!(read("kept/upper"), "2");
    assert!(!path("kept/lower").exists(), "hidden");
    assert!(path("becomes-folder").is_dir());
    assert_eq!(read("becomes-file"), "2");
    assert_eq!(read("bin/y"), "#!/bin/sh\n");
    assert_eq!(read("absolute"), "inside");
    assert!(!path("dev/null").exists(), "every sandbox has its own");
    assert!(path("job").is_dir() && path("in").is_dir() && path(".tensorgrid").is_dir());
    let mode = fs::metadata(path("bin/x")).expect("is there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    assert_eq!(fs::metadata(path("bin/x")).expect("is there").nlink(), 2);
    let config = root.config();
    assert_eq!(config.program(), ["/bin/x", "y"]);
    assert_eq!(config.environment().get("A").map(String::as_str), Some("b"));
    assert_eq!(config.environment().len(), 2);
    let again = Rootfs::open(root.folder().parent().expect("has one")).expect("opens");
    assert_eq!(again, root);
}

#[test]
fn paths_that_lead_out_are_refused() {
    let outside = TemporaryFolder::new().expect("a folder");
    let canary = outside.path().join("canary");
    fs::write(&canary, "alive").expect("writes");
    let out = outside.path().to_str().expect("text");
    let up = format!("{}{out}", "../".repeat(30));
    let cases: Vec<Archive> = vec![
        Archive::default().file("../escape", b"x"),
        Archive::default().file("a/../../escape", b"x"),
        Archive::default().folder(".."),
        Archive::default().file("a/..", b"x"),
        Archive::default().symlink("l", "x").hard_link("h", "../../canary"),
        Archive::default().hard_link("h", "missing"),
        Archive::default().hard_link("h", ""),
        Archive::default().folder("d").hard_link("h", "d"),
        Archive::default().file("a\0b/.wh...", b"").file(".wh...", b""),
        Archive::default().file(".wh.", b""),
        Archive::default().file("f", b"x").file("f/below", b"x"),
    ];
    for (index, archive) in cases.into_iter().enumerate() {
        let refused = unpacked(&[archive.end()]);
        let is_refused = matches!(refused, Err(ImageError::Path { .. } | ImageError::Entry { .. }));
        assert!(is_refused, "case {index}: {refused:?}");
    }
    // Links may lead out by name; nothing is ever written, linked or removed through them.
    let through: Vec<Archive> = vec![
        Archive::default().symlink("l", out).file("l/canary", b"dead"),
        Archive::default().symlink("l", &up).file("l/canary", b"dead"),
        Archive::default().symlink("l", out).file("l/.wh.canary", b""),
        Archive::default().symlink("l", out).file("l/.wh..wh..opq", b""),
        Archive::default().symlink("l", canary.to_str().expect("text")).file("l", b"dead"),
        Archive::default().symlink("l", out).hard_link("stolen", "l/canary"),
        Archive::default().symlink("l", "/proc/self/cwd").file("l/canary", b"dead"),
        Archive::default().symlink("job", out).symlink("tmp", out).symlink("var", out),
    ];
    for (index, archive) in through.into_iter().enumerate() {
        let done = unpacked(&[archive.end()]);
        assert_eq!(fs::read_to_string(&canary).expect("is there"), "alive", "case {index}");
        assert_eq!(fs::metadata(&canary).expect("is there").nlink(), 1, "case {index}");
        assert_eq!(fs::read_dir(outside.path()).expect("lists").count(), 1, "case {index}");
        if let Ok((_folder, root)) = done {
            assert!(!root.folder().join("stolen").exists(), "case {index}");
            let place = fs::symlink_metadata(root.folder().join("job")).expect("is there");
            assert!(place.is_dir(), "case {index}");
        }
    }
}

#[test]
fn devices_outside_of_dev_are_refused() {
    for kind in [b'3', b'4'] {
        let layer = Archive::default().add("etc/disk", kind, b"", "").end();
        assert!(matches!(unpacked(&[layer]), Err(ImageError::Device { .. })));
    }
}

#[test]
fn sizes_and_counts_are_bounded() {
    let bounds = Bounds { bytes: Bytes::new(10_000), entries: 5 };
    let big = Archive::default().file("big", &[0; 20_000]).end();
    let refused = bounded(&[big], &bounds);
    assert!(matches!(refused, Err(ImageError::TooManyBytes { .. })), "{refused:?}");
    // Several layers count together.
    let layer = || Archive::default().file("f", &[0; 3000]).end();
    assert!(bounded(&[layer()], &bounds).is_ok());
    let refused = bounded(&[layer(), layer(), layer()], &bounds);
    assert!(matches!(refused, Err(ImageError::TooManyBytes { .. })));
    let many = (0..6).fold(Archive::default(), |archive, n| archive.folder(&n.to_string()));
    let refused = bounded(&[many.end()], &bounds);
    assert!(matches!(refused, Err(ImageError::TooManyEntries { max: 5 })));
    // Folders made on the way count as well.
    let deep = Archive::default().file("a/b/c/d/e/f", b"").end();
    let refused = bounded(&[deep], &bounds);
    assert!(matches!(refused, Err(ImageError::TooManyEntries { .. })));
    let deeper = Archive::default().add("x", b'L', "d/".repeat(600).as_bytes(), "").folder("x");
    assert!(matches!(unpacked(&[deeper.end()]), Err(ImageError::Path { .. })));
    // A size that is stated but not there.
    let lie = header(b"f", b'0', b"77777777777\0", b"", b"0000644\0");
    let refused = unpacked(&[Archive::default().raw(&lie).end()]);
    assert!(matches!(refused, Err(ImageError::Tar { layer: 0, .. })), "{refused:?}");
}

#[test]
fn gzip_bomb_is_stopped_at_the_bound() {
    // 64 MiB of zeros behind the end of an archive: some hundred kilobytes when packed.
    let mut bomb = Archive::default().file("f", b"x").end();
    bomb.resize(64 << 20, 0);
    let bounds = Bounds { bytes: Bytes::mib(1), entries: 10 };
    assert!(matches!(bounded(&[bomb], &bounds), Err(ImageError::TooManyBytes { .. })));
}

#[test]
fn documents_must_be_what_their_hashes_say() {
    let layers = [Archive::default().file("f", b"x").end()];
    let bounds = Bounds::default();
    let check = |config: fn(&mut Value), index: fn(&mut Value), spoil: fn(&Path)| {
        let folder = TemporaryFolder::new().expect("a folder");
        let image = folder.path().join("image");
        Layout::new(&image, &layers).write_with(config, index);
        spoil(&image);
        unpack(&image, &folder.path().join("to"), &bounds).expect_err("is refused")
    };
    let fine: fn(&mut Value) = |_| {};
    let wrong_id: fn(&mut Value) = |document| {
        *document.pointer_mut("/rootfs/diff_ids/0").expect("there") = json!(sha(b"other"));
    };
    assert!(matches!(check(wrong_id, fine, |_| {}), ImageError::WrongDigest { .. }));
    let no_ids: fn(&mut Value) = |document| {
        *document.pointer_mut("/rootfs/diff_ids").expect("there") = json!([]);
    };
    let error = check(no_ids, fine, |_| {});
    assert!(matches!(error, ImageError::Layers { layers: 1, hashes: 0 }));
    let other: fn(&mut Value) = |document| *document.pointer_mut("/os").expect("os") = json!("bsd");
    assert!(matches!(check(other, fine, |_| {}), ImageError::Platform { .. }));
    let traversal: fn(&mut Value) = |document| {
        let digest = document.pointer_mut("/manifests/0/digest").expect("there");
        *digest = json!("sha256:../../etc/passwd");
    };
    assert!(matches!(check(fine, traversal, |_| {}), ImageError::Digest { .. }));
    let two: fn(&mut Value) = |document| {
        let list = document.pointer_mut("/manifests").expect("there");
        let one = list.get(0).cloned().expect("one");
        *list = json!([one, one]);
    };
    assert!(matches!(check(fine, two, |_| {}), ImageError::Ambiguous { count: 2 }));
    let elsewhere: fn(&mut Value) = |document| {
        let one = document.pointer_mut("/manifests/0").expect("there");
        *one.pointer_mut("/digest").expect("there") = json!(sha(b"x"));
    };
    assert!(matches!(check(fine, elsewhere, |_| {}), ImageError::Missing { .. }));
    let broken = |image: &Path| fs::write(image.join("index.json"), "{").expect("writes");
    assert!(matches!(check(fine, fine, broken), ImageError::Json { .. }));
    let large = |image: &Path| {
        fs::write(image.join("index.json"), vec![b' '; (4 << 20) + 1]).expect("writes");
    };
    assert!(matches!(check(fine, fine, large), ImageError::TooLarge { .. }));
    let linked = |image: &Path| {
        fs::remove_file(image.join("index.json")).expect("removes");
        std::os::unix::fs::symlink("/etc/hostname", image.join("index.json")).expect("links");
    };
    assert!(matches!(check(fine, fine, linked), ImageError::Read { .. }));
    let spoiled = |image: &Path| {
        for entry in fs::read_dir(image.join("blobs/sha256")).expect("lists").flatten() {
            let mut bytes = fs::read(entry.path()).expect("reads");
            bytes.push(b' ');
            fs::write(entry.path(), bytes).expect("writes");
        }
    };
    assert!(matches!(check(fine, fine, spoiled), ImageError::WrongDigest { .. }));
}

#[test]
fn image_of_several_machines_gives_the_one_for_this() {
    let folder = TemporaryFolder::new().expect("a folder");
    let image = folder.path().join("image");
    let layout = Layout::new(&image, &[Archive::default().file("f", b"x").end()]);
    layout.write_with(
        |_| {},
        |document| {
            let one = document.pointer("/manifests/0").cloned().expect("there");
            let here = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
            let on = |architecture: &str| {
                let mut one = one.clone();
                one.as_object_mut().expect("an object").insert(
                    "platform".into(),
                    json!({ "os": "linux", "architecture": architecture }),
                );
                one
            };
            let list = json!([on("s390x"), on(here), on("riscv64")]);
            *document.pointer_mut("/manifests").expect("there") = list;
        },
    );
    let root = unpack(&image, &folder.path().join("to"), &Bounds::default()).expect("unpacks");
    assert!(root.folder().join("f").exists());
}

#[test]
fn archives_of_both_kinds_are_unpacked() {
    let folder = TemporaryFolder::new().expect("a folder");
    let layer = Archive::default().file("f", b"from an archive").end();
    let config = json!({ "rootfs": { "diff_ids": [sha(&layer)] } }).to_string();
    let saved = json!([{ "Config": "c.json", "Layers": ["l/layer.tar"] }]).to_string();
    let docker = Archive::default()
        .file("./l/layer.tar", &layer)
        .file("c.json", config.as_bytes())
        .file("manifest.json", saved.as_bytes())
        .end();
    let image = folder.path().join("image");
    Layout::new(&image, std::slice::from_ref(&layer)).write();
    let mut oci = Archive::default()
        .file("./index.json", &fs::read(image.join("index.json")).expect("reads"));
    for entry in fs::read_dir(image.join("blobs/sha256")).expect("lists").flatten() {
        let name = format!("blobs/sha256/{}", entry.file_name().to_string_lossy());
        let long = Archive::default().add("././@LongLink", b'L', name.as_bytes(), "");
        oci = oci.raw(&long.0).file("blob", &fs::read(entry.path()).expect("reads"));
    }
    for (name, bytes) in [("docker", docker), ("oci", oci.end())] {
        let path = folder.path().join(name).with_extension("tar");
        fs::write(&path, &bytes).expect("writes");
        let root = unpack(&path, &folder.path().join(name), &Bounds::default()).expect(name);
        let text = fs::read_to_string(root.folder().join("f")).expect("reads");
        assert_eq!(text, "from an archive");
        // Cut anywhere, it is refused and nothing is left.
        for cut in [600, bytes.len() / 2] {
            fs::write(&path, bytes.get(..cut).expect("is longer")).expect("writes");
            let to = folder.path().join("cut");
            assert!(unpack(&path, &to, &Bounds::default()).is_err());
            assert!(!to.exists());
        }
    }
}

/// Goal: whatever the documents of an image say, it is unpacked whole or refused, and then nothing
/// is left. Method: bytes of them and of the layer are changed, removed or repeated.
#[test]
fn prop_changed_documents_are_unpacked_whole_or_refused() {
    let folder = TemporaryFolder::new().expect("a folder");
    let layer = Archive::default().folder("d").file("d/f", b"content").symlink("l", "d").end();
    let config = json!({ "os": "linux", "rootfs": { "diff_ids": [sha(&layer)] } }).to_string();
    let saved = json!([{ "Config": "c.json", "Layers": ["l.tar"] }]).to_string();
    let parts = [layer, config.into_bytes(), saved.into_bytes()];
    let (image, to) = (folder.path().join("image.tar"), folder.path().join("to"));
    let mut unpacked = 0;
    arbtest::arbtest(|u| {
        let mut parts = parts.clone();
        let index = u.choose_index(parts.len())?;
        let part = parts.get_mut(index).expect("chosen");
        for _ in 0..u.int_in_range(0..=3)? {
            let at = u.choose_index(part.len().max(1))?;
            match u.int_in_range(0..=2)? {
                0 => part.insert(at.min(part.len()), u.arbitrary()?),
                1 if !part.is_empty() => drop(part.remove(at)),
                _ => part.extend_from_within(at.min(part.len())..),
            }
        }
        let [layer, config, saved] = &parts;
        let archive = Archive::default()
            .file("l.tar", layer)
            .file("c.json", config)
            .file("manifest.json", saved);
        fs::write(&image, archive.end()).expect("writes");
        match unpack(&image, &to, &Bounds { bytes: Bytes::mib(1), entries: 100 }) {
            Ok(root) => {
                let text = fs::read(root.folder().join("d/f")).expect("reads");
                assert_eq!(text, b"content");
                unpacked += 1;
                crate::files::remove_tree(&to).expect("removes");
            }
            Err(_) => assert!(!to.exists()),
        }
        Ok(())
    });
    assert!(unpacked > 0, "some are not changed");
}

#[test]
fn other_packings_are_named() {
    let folder = TemporaryFolder::new().expect("a folder");
    let image = folder.path().join("image");
    let mut layout = Layout::new(&image, &[Archive::default().end()]);
    layout.layers = vec![(vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0], vec![])];
    layout.write();
    let refused = unpack(&image, &folder.path().join("to"), &Bounds::default());
    assert!(matches!(refused, Err(ImageError::Packing { packing: "zstd", .. })));
}
