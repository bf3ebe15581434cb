//! What other programs are told.

use super::{Container, bubblewrap, podman, runc};
use crate::helper::Helper;
use crate::spec::JobUser;
use crate::view::{Bind, View, WorkSource};
use serde_json::{Value, json};
use std::path::Path;

const USER: JobUser = JobUser { uid: 65534, gid: 65534 };

fn view(network: bool, work: WorkSource) -> View {
    let bind = |source: &str, target: &str| Bind { source: source.into(), target: target.into() };
    View {
        base: "/state/run-x/root".into(),
        binds: vec![bind("/usr", "/usr")],
        shelves: vec![("/in".into(), vec![bind("/data/model", "/in/model")])],
        devices: vec!["/dev/null".into(), "/dev/nvidia0".into()],
        work,
        network,
    }
}

fn memory() -> WorkSource {
    WorkSource::Tmpfs { bytes: 4096, files: 64 }
}

fn folder() -> WorkSource {
    WorkSource::Folder("/state/run-x/job".into())
}

fn helper() -> Helper {
    Helper::find(None).expect("this program")
}

fn container<'a>(view: &'a View, helper: &'a Helper) -> Container<'a> {
    let state = Path::new("/state/tool");
    Container { view, helper, user: USER, name: "x", state, shared_memory: 9 }
}

/// The words after each use of an option.
fn after(words: &[String], option: &str, count: usize) -> Vec<String> {
    let at = words.iter().enumerate().filter(|(_, word)| *word == option).map(|(at, _)| at);
    at.map(|at| words.get(at + 1..=at + count).expect("there").join(" ")).collect()
}

#[test]
fn bubblewrap_shows_everything_read_only_but_the_work_folder() {
    let command = |network, work, is_root| {
        let view = view(network, work);
        bubblewrap::command(Path::new("/usr/bin/bwrap"), &view, &helper(), is_root).expect("words")
    };
    let words = command(false, folder(), true);
    assert_eq!(after(&words, "--bind", 2), ["/state/run-x/job /job"]);
    let shown = after(&words, "--ro-bind", 2);
    assert_eq!(shown, ["/state/run-x/root /", "/usr /usr", "/data/model /in/model"]);
    assert_eq!(after(&words, "--dev-bind", 1), ["/dev/null", "/dev/nvidia0"]);
    let has = |words: &[String], word: &str| words.iter().any(|known| known == word);
    assert!(has(&words, "--unshare-net") && has(&words, "--unshare-pid"));
    assert!(!has(&words, "--unshare-user"), "as root the first process changes the user");
    let words = command(true, memory(), false);
    assert!(!has(&words, "--unshare-net") && has(&words, "--unshare-user"));
    assert!(after(&words, "--bind", 2).is_empty() && after(&words, "--cap-add", 1).is_empty());
    assert_eq!(after(&words, "--size", 3), ["4096 --tmpfs /job"]);
    assert_eq!(after(&words, "--cap-drop", 1), ["ALL"]);
    let end = words.iter().position(|word| word == "--").expect("an end of options");
    assert!(words.iter().skip(end).any(|word| word == "sandbox-init"));
}

#[test]
fn container_is_read_only_without_capabilities_network_or_devices() {
    let config = |network, work| {
        let (view, helper) = (view(network, work), helper());
        runc::config(&container(&view, &helper)).expect("a configuration")
    };
    let document = config(false, folder());
    let get = |path: &str| document.pointer(path).cloned().unwrap_or_default();
    assert_eq!(get("/root"), json!({ "path": "/state/run-x/root", "readonly": true }));
    assert_eq!(get("/process/user"), json!({ "uid": 65534, "gid": 65534 }));
    assert_eq!(get("/process/noNewPrivileges"), json!(true));
    let sets = get("/process/capabilities");
    assert!(sets.as_object().expect("sets").values().all(|set| *set == json!([])));
    let first = get("/linux/resources/devices/0");
    assert_eq!(first, json!({ "allow": false, "access": "rwm" }));
    let kinds =
        |document: &Value| document.pointer("/linux/namespaces").expect("there").to_string();
    assert!(kinds(&document).contains("network"));
    assert!(!kinds(&config(true, memory())).contains("network"));
    for mount in get("/mounts").as_array().expect("mounts") {
        let text = mount.to_string();
        let is_work = mount.pointer("/destination") == Some(&json!("/job"));
        let is_bind = mount.pointer("/type") == Some(&json!("bind"));
        assert!(!is_bind || is_work || text.contains("\"ro\""), "{text}");
        assert!(!is_bind || text.contains("nosuid") && text.contains("nodev"), "{text}");
    }
    let text = config(false, memory()).to_string();
    assert!(text.contains("size=4096"));
}

#[test]
fn podman_is_told_the_same() {
    let helper = helper();
    let command =
        |view: &View| podman::command(Path::new("/usr/bin/podman"), &container(view, &helper));
    let words = command(&view(false, folder())).expect("words");
    let has = |word: &str| words.iter().any(|known| known == word);
    for word in ["--read-only", "--cap-drop=all", "--network=none", "--user=65534:65534"] {
        assert!(has(word), "{word}");
    }
    assert!(has("--volume=/usr:/usr:ro,rprivate,rbind"));
    assert!(has("--volume=/state/run-x/job:/job:rw,nosuid,nodev"));
    assert!(has("--device=/dev/nvidia0:rw") && !has("--device=/dev/null:rw"));
    // A colon would end the path and begin the options.
    let mut hostile = view(false, memory());
    hostile.binds.push(Bind { source: "/data:/etc".into(), target: "/x".into() });
    assert!(command(&hostile).is_err());
    assert!(podman::run_folder(Path::new(&"/long".repeat(50))).as_os_str().len() <= 50);
}
