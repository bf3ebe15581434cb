//! Images on real levels: a small one is made from a static busybox, if the machine has one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tg_sandbox::oci::{Bounds, Rootfs, unpack};
use tg_sandbox::{Ended, Level, Root, Task};

use crate::place::{Canaries, Folder, Place, levels, task};

/// An image with busybox, packed as `docker save` packs it.
fn image(folder: &Path) -> Option<Rootfs> {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from);
    let busybox = busybox.into_iter().find(|path| path.exists())?;
    let root = folder.join("layer");
    fs::create_dir_all(root.join("bin")).expect("makes");
    fs::copy(busybox, root.join("bin/busybox")).expect("copies");
    for name in ["sh", "cat", "ls", "id", "nc", "echo", "touch", "mount", "env", "sleep"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).expect("links");
    }
    fs::write(root.join("only-here"), "of the image").expect("writes");
    let tar = |args: &[&str]| {
        assert!(Command::new("tar").args(args).status().expect("tar").success());
    };
    let text = |path: PathBuf| path.to_str().expect("text").to_owned();
    let saved = folder.join("saved");
    fs::create_dir(&saved).expect("makes");
    tar(&["-C", &text(root), "-cf", &text(saved.join("layer.tar")), "."]);
    let sum = Command::new("sha256sum").arg(saved.join("layer.tar")).output().expect("sums");
    let sum = String::from_utf8(sum.stdout).expect("text");
    let id = sum.split(' ').next().expect("a sum");
    let config = format!(
        r#"{{"os":"linux","config":{{"Env":["FROM=image"],"Entrypoint":["/bin/sh","-c"],
        "Cmd":["cat /only-here; echo; echo $FROM; ls /"]}},
        "rootfs":{{"diff_ids":["sha256:{id}"]}}}}"#
    );
    fs::write(saved.join("config.json"), config).expect("writes");
    let manifest = r#"[{"Config":"config.json","Layers":["layer.tar"]}]"#;
    fs::write(saved.join("manifest.json"), manifest).expect("writes");
    let archive = folder.join("image.tar");
    tar(&["-C", &text(saved), "-cf", &text(archive.clone()), "."]);
    Some(unpack(&archive, &folder.join("unpacked"), &Bounds::default()).expect("unpacks"))
}

pub(crate) fn images_run_without_the_machines_files() {
    let folder = Folder::new("image");
    let Some(root) = image(folder.path()) else {
        println!("!!! IMAGES ARE NOT TESTED: no busybox; apt install busybox-static");
        return;
    };
    let mut canaries = Canaries::new();
    for level in levels().into_iter().filter(|level| *level != Level::Rlimits) {
        let place = Place::at(&[level]);
        let task = Task { root: Root::Image(root.clone()), ..task(&[]) };
        let ran = place.run(&task).expect("runs");
        assert_eq!(ran.outcome.ended, Ended::Exited(0), "{level}: {}", ran.err);
        assert!(ran.out.starts_with("of the image\nimage\n"), "{level}: {}", ran.out);
        assert!(!ran.out.contains("usr") && !ran.out.contains("home"), "{level}: {}", ran.out);
        let settings = fs::read_dir(root.folder().join("etc")).expect("lists").count();
        assert_eq!(settings, 1, "{level}: the image stays as it was unpacked");
        let attack = format!(
            "touch /only-here /bin/x /in/x; echo kept > /out/x; cat {}/readable; \
             nc 127.0.0.1 {} < /dev/null && echo connected; \
             id -u; echo y > /tmp/y && cat /job/.tmp/y; mount -t tmpfs x /job",
            canaries.folder().display(),
            canaries.port(),
        );
        let task = Task { program: vec!["/bin/sh".into(), "-c".into(), attack], ..task };
        let ran = place.run(&task).expect("runs");
        let is_refused = matches!(ran.outcome.ended, Ended::Exited(code) if code != 0);
        assert!(is_refused, "{level}, the last command: {}", ran.err);
        let lines: Vec<&str> = ran.out.lines().collect();
        assert!(lines.len() == 2 && lines.first() != Some(&"0"), "{level}: {lines:?}");
        assert_eq!(lines.get(1), Some(&"y"), "{level}");
        let outputs = ran.outcome.outputs.expect("outputs");
        assert_eq!(outputs.files().len(), 1, "{level}");
        drop(outputs);
        canaries.assert_alive("an image");
        place.assert_clean("an image");
        println!("{level}: runs images");
    }
    let text = fs::read_to_string(root.folder().join("only-here")).expect("reads");
    assert_eq!(text, "of the image");
}
