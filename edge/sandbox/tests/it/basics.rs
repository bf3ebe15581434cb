//! Ordinary use: what a program sees, what its caller is told, what is refused.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tg_sandbox::{
    Bytes, CheckpointPath, Ended, Event, FileError, Guard, Input, Level, Limits, Network, Root,
    RunError, Sandbox, SandboxError, Settings, Stop, Stream, Task, Unfit, Work,
};

use crate::place::{Folder, MARK, Place, levels, settings, shell, small, task};

pub(crate) fn every_level_here_runs_an_ordinary_program() {
    for level in levels() {
        let place = Place::at(&[level]);
        let script = "echo out; echo err >&2; cat; id -u > /dev/stdout; exit 3";
        let ran = place.run(&shell(script)).expect("runs");
        assert_eq!(ran.outcome.ended, Ended::Exited(3), "{level}: {}", ran.err);
        let uid: u32 = ran.out.lines().nth(1).expect("a number").parse().expect("a number");
        assert!(ran.out.starts_with("out\n") && uid != 0, "{level}: {}", ran.out);
        assert_eq!(ran.err, "err\n", "{level}");
        let outcome = &ran.outcome;
        assert_eq!(outcome.enforced.level, level);
        let missing: Vec<Guard> = outcome.enforced.missing().collect();
        // Without namespaces some of it depends on how new the kernel is.
        let is_complete = missing.is_empty() || missing == [Guard::CpuShare];
        assert!(is_complete || level == Level::Rlimits, "{level}: {missing:?}");
        assert!(outcome.usage.wall < Duration::from_secs(30));
        place.assert_clean("an ordinary program");
        let mut took: Vec<Duration> = (0..7).map(|_| time_of_nothing(&place)).collect();
        took.sort();
        let median = took.get(3).copied().unwrap_or_default();
        println!("{level}: {median:?} for /bin/true, median of 7; {:?}", outcome.usage);
        for line in outcome.enforced.lines() {
            println!("    {line}");
        }
    }
}

/// How long the smallest program takes, with everything before and after it.
fn time_of_nothing(place: &Place) -> Duration {
    let started = Instant::now();
    let ran = place.run(&task(&["/bin/true"])).expect("runs");
    assert_eq!(ran.outcome.ended, Ended::Exited(0));
    started.elapsed()
}

pub(crate) fn abilities_are_explained() {
    let place = Place::with(|settings| settings.allow_rlimits = false);
    let abilities = place.sandbox.abilities();
    for line in abilities.explain() {
        let mark = if line.is_present { "yes" } else { "no " };
        println!("{mark} {}: {}", line.what, line.hint.as_deref().unwrap_or("-"));
        assert_eq!(line.is_present, line.hint.is_none());
    }
    let rlimits = abilities.levels.iter().find(|(level, _)| *level == Level::Rlimits);
    assert!(matches!(rlimits, Some((_, Err(Unfit::NotAllowed)))));
    assert!(abilities.enforced(Level::Rlimits).is_none());
}

pub(crate) fn what_is_not_allowed_is_refused() {
    let folder = Folder::new("refused");
    let only = |level, allow_rlimits| {
        let mut settings = settings(folder.path());
        settings.levels = vec![level];
        settings.allow_rlimits = allow_rlimits;
        Sandbox::new(settings).expect("sandboxes")
    };
    let run = |sandbox: &Sandbox, task: &Task| {
        let stop = Stop::new().expect("a handle");
        sandbox.run(task, &stop, &mut |_| {}).expect_err("is refused")
    };
    let silent = only(Level::Rlimits, false);
    let refused = run(&silent, &shell("true"));
    assert!(matches!(refused, RunError::NoLevel { .. }), "never silently: {refused}");

    let plain = only(Level::Rlimits, true);
    let network = Task { network: Network::Host, ..shell("true") };
    assert!(matches!(run(&plain, &network), RunError::NetworkNotAllowed));
    let limits = Limits { memory: Bytes::new(1), ..small() };
    assert!(matches!(run(&plain, &Task { limits, ..shell("true") }), RunError::Limits(_)));
    assert!(matches!(run(&plain, &task(&[])), RunError::Task(_)));
    let device = Task { devices: vec!["/etc/passwd".into()], ..shell("true") };
    assert!(matches!(run(&plain, &device), RunError::Task(_)));

    let mut as_root = Settings::new(folder.path());
    as_root.job_user.uid = 0;
    assert!(matches!(Sandbox::new(as_root), Err(SandboxError::RootUser)));
}

pub(crate) fn this_program_runs_inside_by_itself() {
    for level in levels() {
        let place = Place::at(&[level]);
        let inputs = vec![Input::bytes("words", "three of them").expect("a name")];
        let words = ["attack", "read", "/in/words", "/usr/bin", "/bin/sh", "/etc/ssl"];
        let task = Task { root: Root::Own, inputs, ..task(&words) };
        assert_eq!(place.sandbox.runs_own(), level != Level::Rlimits);
        if level == Level::Rlimits {
            let refused = place.run(&task).map(|_| ()).expect_err("has no namespaces");
            assert!(matches!(refused, RunError::NoLevel { .. }), "{refused}");
            continue;
        }
        let ran = place.run(&task).expect("runs");
        assert_eq!(ran.outcome.ended, Ended::Exited(0), "{level}: {}", ran.err);
        let read: Vec<&str> = ran.out.lines().filter(|line| line.starts_with('!')).collect();
        assert_eq!(read, ["!read /in/words: 13"], "{level}: {}", ran.out);
        place.assert_clean("this program");
    }
}

pub(crate) fn program_that_is_not_there_is_an_error() {
    for level in levels() {
        let place = Place::at(&[level]);
        for name in ["/no/such/program", "no-such-program", "/etc", "/dev/null"] {
            let Err(refused) = place.run(&task(&[name])) else {
                assert!(name.is_empty(), "{level}: {name} ran");
                return;
            };
            let is_named = matches!(&refused, RunError::Program { program, .. } if program == name);
            assert!(is_named, "{level}: {refused:?}");
        }
        place.assert_clean("a missing program");
    }
}

pub(crate) fn output_arrives_while_the_program_runs() {
    let level = levels().first().copied().expect("one");
    let place = Place::at(&[level]);
    // The program waits for a file that appears only after its first words were heard.
    let folder = Folder::new("live");
    let inputs = vec![Input::path("live", folder.path()).expect("a name")];
    let script = "echo first; while [ ! -e $TENSORGRID_INPUT/live/go ]; do sleep 0.05; done; \
                  echo second";
    let mut heard = String::new();
    let mut events = Vec::new();
    let task = Task { inputs, ..shell(script) };
    let ran = place.run_with(&task, &mut |event| match event {
        Event::Started { enforced } => events.push(format!("started at {}", enforced.level)),
        Event::Said { stream: Stream::Output, bytes } => {
            heard.push_str(&String::from_utf8_lossy(bytes));
            if heard == "first\n" {
                fs::write(folder.path().join("go"), "").expect("writes");
            }
        }
        Event::Prepared { .. } | Event::Said { stream: Stream::Error, .. } => {}
    });
    let ran = ran.expect("runs");
    assert_eq!(ran.outcome.ended, Ended::Exited(0), "{}", ran.err);
    assert_eq!(heard, "first\nsecond\n");
    assert_eq!(events, [format!("started at {level}")]);
}

/// What is put into the folder for checkpoints the program finds there, and what it writes there
/// can be read while it runs.
pub(crate) fn checkpoint_folder_is_filled_before_and_read_during_a_run() {
    for level in levels() {
        let place = Place::at(&[level]);
        let script = "set -e; cd \"$TG_CHECKPOINT\"; cat deep/state; echo 8 > next; \
                      mv next deep/state; echo ready; sleep 0.5; rm -r deep; ln -s /etc deep";
        let checkpoint = Some(CheckpointPath::new("/ckpt").expect("a path"));
        let task = Task { checkpoint, ..shell(script) };
        let (mut heard, mut kept, mut found) = (String::new(), None, None);
        let ran = place.run_with(&task, &mut |event| match event {
            Event::Prepared { folder } => {
                fs::create_dir(folder.path().join("deep")).expect("makes");
                fs::write(folder.path().join("deep/state"), "7\n").expect("writes");
                kept = Some((*folder).clone());
            }
            Event::Said { stream: Stream::Output, bytes } => {
                heard.push_str(&String::from_utf8_lossy(bytes));
                if heard.ends_with("ready\n") {
                    let files = kept.as_ref().expect("prepared").files(Bytes::mib(1));
                    found = Some(files.expect("lists"));
                }
            }
            Event::Started { .. } | Event::Said { stream: Stream::Error, .. } => {}
        });
        let ran = ran.expect("runs");
        assert_eq!(ran.outcome.ended, Ended::Exited(0), "{level}: {}", ran.err);
        assert_eq!(heard, "7\nready\n", "{level}");
        let found = found.expect("the program was ready");
        let paths: Vec<&Path> = found.files().iter().map(|file| file.path.as_path()).collect();
        assert_eq!(paths, [Path::new("deep/state")], "{level}");
        drop((found, kept, ran));
        place.assert_clean("a program with checkpoints");
    }
    for path in ["ckpt", "/", "/tmp", "/usr", "/a/b", "/..", "/.hidden", "/in"] {
        assert!(CheckpointPath::new(path).is_err(), "{path}");
    }
}

pub(crate) fn program_is_stopped_from_outside() {
    for level in levels() {
        let place = Place::at(&[level]);
        let stop = Stop::new().expect("a handle");
        let other = stop.clone();
        let task = shell(&format!("echo up; trap '' TERM INT HUP; sleep {MARK}"));
        let outcome = place.sandbox.run(&task, &stop, &mut |event| {
            if matches!(event, Event::Said { .. }) {
                let stop = other.clone();
                thread::spawn(move || stop.stop());
            }
        });
        assert_eq!(outcome.expect("runs").ended, Ended::Stopped, "{level}");
        place.assert_clean("a stopped program");
        // Stopped before it begins.
        let outcome = place.sandbox.run(&task, &stop, &mut |_| {});
        assert_eq!(outcome.expect("runs").ended, Ended::Stopped, "{level}");
        place.assert_clean("a program stopped early");
    }
}

pub(crate) fn outputs_are_read_and_then_removed() {
    let script = "cd $TENSORGRID_OUTPUT; mkdir sub; echo result > sub/file; \
                  ln -s /etc/hostname link; echo x > ../beside; echo y > $TMPDIR/y; \
                  mkdir ../closed; echo z > ../closed/z; chmod 0 ../closed; exit 4";
    for level in levels() {
        for work in [Work::Memory, Work::Disk] {
            let place = Place::at(&[level]);
            let ran = place.run(&Task { work, ..shell(script) }).expect("runs");
            assert!(matches!(ran.outcome.ended, Ended::Exited(_)), "{level}: {}", ran.err);
            let outputs = ran.outcome.outputs.expect("outputs");
            assert_eq!(outputs.files().len(), 1, "{level}: {outputs:?}");
            let file = outputs.files().first().expect("one");
            assert_eq!((file.path.as_path(), file.bytes.get()), (Path::new("sub/file"), 7));
            assert_eq!(outputs.left_out(), 1, "{level}: the link");
            let mut text = String::new();
            let mut file = outputs.open(&file.path).expect("opens");
            file.read_to_string(&mut text).expect("reads");
            assert_eq!(text, "result\n", "{level} {work:?}");
            for path in ["link", "sub", "../beside", "../../lock"] {
                assert!(outputs.open(Path::new(path)).is_err(), "{level}: {path}");
            }
            drop(outputs);
            place.assert_clean("outputs");
        }
    }
}

pub(crate) fn outputs_are_bounded() {
    let level = levels().first().copied().expect("one");
    let place = Place::at(&[level]);
    let limits = Limits { outputs: Bytes::new(100), ..small() };
    // A hole takes no space, but is as long to read.
    let script = "dd if=/dev/null of=out/holes bs=1 seek=101 2> /dev/null";
    let ran = place.run(&Task { limits, ..shell(script) }).expect("runs");
    assert_eq!(ran.outcome.ended, Ended::Exited(0), "{}", ran.err);
    assert!(matches!(ran.outcome.outputs, Err(FileError::TooLarge { .. })));
    place.assert_clean("too long outputs");
}

pub(crate) fn inputs_and_environment_are_as_stated() {
    let folder = Folder::new("inputs");
    fs::write(folder.path().join("data"), "input data").expect("writes");
    for level in levels() {
        let place = Place::at(&[level]);
        let data = Input::path("data.txt", folder.path().join("data")).expect("a name");
        let given = Input::bytes("given", "given bytes").expect("a name");
        let script = "cd $TENSORGRID_INPUT; cat data.txt given; echo; echo x > data.txt; \
                      echo x > given; cd $TENSORGRID_WORK; pwd; env | sort";
        let mut task = Task { inputs: vec![data, given], ..shell(script) };
        task.environment.insert("STATED".into(), "yes".into());
        let ran = place.run(&task).expect("runs");
        let lines: Vec<&str> = ran.out.lines().collect();
        assert_eq!(lines.first(), Some(&"input datagiven bytes"), "{level}: {}", ran.err);
        let names = lines.iter().skip(2).filter_map(|line| line.split('=').next());
        let own = ["PWD", "OLDPWD", "SHLVL", "_"]; // a shell's own
        let names: Vec<&str> = names.filter(|name| !own.contains(name)).collect();
        let expected = "HOME PATH STATED TENSORGRID_INPUT TENSORGRID_OUTPUT TENSORGRID_WORK TMPDIR";
        assert_eq!(names.join(" "), expected, "{level}");
        if level != Level::Rlimits {
            assert_eq!(lines.get(1), Some(&"/job"), "{level}");
        }
        let data = fs::read_to_string(folder.path().join("data")).expect("reads");
        assert_eq!(data, "input data", "{level}");
    }
}

pub(crate) fn assigned_devices_are_there_and_no_others() {
    let candidates = ["/dev/fuse", "/dev/net/tun", "/dev/ptmx", "/dev/tty"];
    let found: Vec<&str> =
        candidates.into_iter().filter(|path| Path::new(path).exists()).take(2).collect();
    let [assigned, other] = found.as_slice() else {
        println!("!!! DEVICES ARE NOT TESTED: this machine has too few");
        return;
    };
    for level in levels().into_iter().filter(|level| *level != Level::Rlimits) {
        let place = Place::at(&[level]);
        let script = format!("test -c {assigned} && echo assigned; test -e {other} && echo other");
        let task = Task { devices: vec![assigned.into()], ..shell(&script) };
        let ran = place.run(&task).expect("runs");
        let has_all = level == Level::Podman || level == Level::Runc; // they make some themselves
        let is_right = ran.out == "assigned\n" || (has_all && ran.out.starts_with("assigned\n"));
        assert!(is_right, "{level}: {} {}", ran.out, ran.err);
    }
}

/// A supervisor that is killed: it runs a task and waits.
pub(crate) fn be_a_supervisor(folder: &str, level: &str) -> ExitCode {
    let mut settings = settings(Path::new(folder));
    settings.levels.retain(|known| known.name() == level);
    let sandbox = Sandbox::new(settings).expect("sandboxes");
    let stop = Stop::new().expect("a handle");
    let task = shell(&format!("setsid sleep {MARK} & echo up; sleep {MARK}"));
    let outcome = sandbox.run(&task, &stop, &mut |event| {
        if matches!(event, Event::Said { .. }) {
            println!("up");
        }
    });
    println!("{outcome:?}");
    ExitCode::FAILURE
}

/// Goal: nothing survives a supervisor that is killed. Method: one is killed while its task runs;
/// its processes must go by themselves, its files and groups with the next start.
pub(crate) fn what_a_dead_supervisor_left_is_swept() {
    for level in levels() {
        let folder = Folder::new("dead");
        let mut supervisor = Command::new(std::env::current_exe().expect("this program"))
            .args(["dead-supervisor", folder.path().to_str().expect("text"), level.name()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut word = [0; 3];
        supervisor.stdout.as_mut().expect("piped").read_exact(&mut word).expect("says so");
        assert_eq!(&word, b"up\n");
        supervisor.kill().expect("kills");
        supervisor.wait().expect("waits");
        let patience = Instant::now();
        while !crate::place::processes_with(MARK, true).is_empty() {
            let is_patient = patience.elapsed() < Duration::from_secs(60);
            assert!(is_patient, "{level}: processes go by themselves");
            thread::sleep(Duration::from_millis(20));
        }
        let state = folder.path().join("state");
        let is_run = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("run-");
        let runs = || fs::read_dir(&state).expect("lists").flatten().filter(is_run).count();
        assert_eq!(runs(), 1, "{level}: its files are still there");
        let mut settings = settings(folder.path());
        settings.levels = vec![level];
        drop(Sandbox::new(settings).expect("sandboxes"));
        assert_eq!(runs(), 0, "{level}: its files are swept");
        crate::place::forget_podman(&state);
        Place::at(&[Level::Rlimits]).assert_clean("a dead supervisor");
    }
}
