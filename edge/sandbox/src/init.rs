//! The part that runs in a copy of this program: the launcher outside the sandbox, and the first
//! process inside it. Each copy has one thread and does one thing after the other, so no code runs
//! between a `fork` and an `exec` of a program with threads.
//!
//! The first process gives up everything it does not need, starts the stranger's program, collects
//! the processes it leaves behind and reports how it ended. If the supervisor goes away, so does
//! the first process, and with it everything inside.

mod landlocked;
mod mounts;
mod privileges;
mod seccomp;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio, exit};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Signal, WaitOptions, WaitStatus};
use rustix::thread::{CapabilitySet, UnshareFlags};

use crate::control::Channel;
use crate::outputs::OUTPUT_NAME;
use crate::processes;
use crate::spec::{
    Exit, INIT_WORD, INSIDE_USER, INSIDE_WORD, Inside, JobUser, LAUNCH_WORD, Launch, NOTHING_WORD,
    PATH, Report, Rlimit, Stage,
};
use crate::sys;
use crate::view::{SHARED_MEMORY_NAME, TEMPORARY_NAME};

/// Exit code of a helper that could not do its part; the reason went to the supervisor.
const FAILED: i32 = 125;
/// What a task's machine is called.
const HOSTNAME: &[u8] = b"job";
/// How often processes that nobody waits for are collected.
const REAP_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// What building a file tree takes, kept while a helper without user 0 starts the next one.
const SETUP_CAPABILITIES: [CapabilitySet; 2] = [CapabilitySet::SYS_ADMIN, CapabilitySet::SETPCAP];

/// A step that failed, with the system's reason.
struct Failure {
    stage: Stage,
    error: io::Error,
}

/// Turns a system's reason into the failure of a step.
fn at<E: Into<io::Error>>(stage: Stage) -> impl Fn(E) -> Failure {
    move |error| Failure { stage, error: error.into() }
}

/// Acts as a sandbox's helper if this process was started as one, and then does not return.
///
/// Every program that runs sandboxes must call this first of all in `main`, before it opens a file
/// or starts a thread: a sandbox starts copies of the running program.
pub fn init_if_asked() {
    let words: Vec<OsString> = std::env::args_os().skip(1).take(3).collect();
    let Some((word, rest)) = words.split_first() else { return };
    if word != INIT_WORD {
        return;
    }
    let code = match rest {
        [role, control] if role == LAUNCH_WORD => helper(Path::new(control), launch),
        [role, control] if role == INSIDE_WORD => helper(Path::new(control), inside),
        [role] if role == NOTHING_WORD => 0,
        _ => FAILED,
    };
    exit(code);
}

/// Runs a helper's part and reports its failure.
fn helper(control: &Path, part: fn(&Path, &mut Channel) -> Result<i32, Failure>) -> i32 {
    let closed = sys::close_inherited_files();
    let Ok(mut channel) = Channel::connect(control) else { return FAILED };
    let done = closed.map_err(at(Stage::Files)).and_then(|()| part(control, &mut channel));
    done.unwrap_or_else(|Failure { stage, error }| {
        let errno = error.raw_os_error().unwrap_or(0);
        let _supervisor_gone = channel.send(&Report::Failed { stage, errno });
        FAILED
    })
}

/// The launcher: starts the first process inside, by itself or through another program.
fn launch(control: &Path, channel: &mut Channel) -> Result<i32, Failure> {
    let Ok(order) = channel.receive::<Launch>() else { return Ok(FAILED) };
    rustix::process::setsid().map_err(at(Stage::Session))?;
    match order {
        Launch::Become { program } => {
            die_with_parent()?;
            let missing = || at(Stage::Start)(io::Error::from(io::ErrorKind::NotFound));
            let (name, arguments) = program.split_first().ok_or_else(missing)?;
            let error = Command::new(name).args(arguments).env_clear().env("PATH", PATH).exec();
            Err(at(Stage::Start)(error))
        }
        Launch::Namespaces { user, network } => {
            die_with_parent()?;
            make_namespaces(user, network)?;
            let status = start_inside(control)?.wait().map_err(at(Stage::Start))?;
            Ok(status.code().unwrap_or(FAILED))
        }
        Launch::Plain => {
            // What the task leaves behind becomes a child of ours, where the supervisor finds it.
            let me = rustix::process::getpid();
            rustix::process::set_child_subreaper(Some(me)).map_err(at(Stage::Session))?;
            let _collected_with_the_others = start_inside(control)?;
            wait_for_supervisor(channel);
            processes::end_below(me, &[]);
            collect_all().map_err(at(Stage::Session))?; // so that their time is counted as ours
            Ok(0)
        }
    }
}

/// Ends this process when its parent does.
fn die_with_parent() -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(at(Stage::Session))
}

fn make_namespaces(user: Option<JobUser>, network: bool) -> Result<(), Failure> {
    let mut flags = UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    if user.is_some() {
        flags |= UnshareFlags::NEWUSER;
    }
    if !network {
        flags |= UnshareFlags::NEWNET;
    }
    sys::unshare(flags).map_err(at(Stage::Namespaces))?;
    let Some(user) = user else { return Ok(()) };
    let map = |inside: u32, outside: u32| format!("{inside} {outside} 1\n");
    fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", map(INSIDE_USER.uid, user.uid)))
        .and_then(|()| fs::write("/proc/self/gid_map", map(INSIDE_USER.gid, user.gid)))
        .map_err(at(Stage::UserMap))?;
    privileges::keep(&SETUP_CAPABILITIES).map_err(at(Stage::UserMap))
}

/// Starts the first process as a child.
fn start_inside(control: &Path) -> Result<Child, Failure> {
    Command::new("/proc/self/exe")
        .arg(INIT_WORD)
        .arg(INSIDE_WORD)
        .arg(control)
        .env_clear()
        .stdin(Stdio::null())
        .spawn()
        .map_err(at(Stage::Start))
}

/// The first process inside.
fn inside(_: &Path, channel: &mut Channel) -> Result<i32, Failure> {
    let Ok(order) = channel.receive::<Inside>() else { return Ok(FAILED) };
    if let Some(view) = &order.view {
        mounts::enter(view).map_err(at(Stage::Mounts))?;
    }
    if order.hostname {
        rustix::system::sethostname(HOSTNAME).map_err(at(Stage::Namespaces))?;
    }
    privileges::give_up(order.user).map_err(at(Stage::Privileges))?;
    die_with_parent()?; // after the change of user, which takes it back
    let work = open_work(&order.work).map_err(at(Stage::Work))?;
    set_rlimits(&order.rlimits).map_err(at(Stage::Rlimits))?;
    let internet = order.sockets == crate::spec::Sockets::Internet;
    let landlock = landlocked::restrict(&order.paths, internet).map_err(at(Stage::Landlock))?;
    seccomp::restrict(order.sockets, order.shares).map_err(at(Stage::Seccomp))?;
    if channel.send_with(&Report::Ready { landlock }, std::os::fd::AsFd::as_fd(&work)).is_err() {
        return Ok(FAILED);
    }
    drop(work);
    let program = start_program(&order).map_err(at(Stage::Program))?;
    let ended = watch(channel, program).map_err(at(Stage::Program))?;
    let Some(exit) = ended else { return Ok(FAILED) };
    end_everything().map_err(at(Stage::Program))?;
    if channel.send(&Report::Ended(exit)).is_ok() {
        wait_for_supervisor(channel);
    }
    Ok(0)
}

/// Makes the folders that links lead to and opens the work folder.
fn open_work(work: &Path) -> io::Result<OwnedFd> {
    for name in [TEMPORARY_NAME, SHARED_MEMORY_NAME, OUTPUT_NAME] {
        let path = work.join(name);
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
    }
    std::env::set_current_dir(work)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, work, flags, Mode::empty())?)
}

fn set_rlimits(rlimits: &[Rlimit]) -> io::Result<()> {
    let set = |resource, value: u64| {
        // A limit above the one in force would be refused, and the one in force is stricter.
        let in_force = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let value = Some(value.min(in_force));
        let limit = rustix::process::Rlimit { current: value, maximum: value };
        rustix::process::setrlimit(resource, limit)
    };
    set(Resource::Core, 0)?;
    for rlimit in rlimits {
        match *rlimit {
            Rlimit::Data(bytes) => set(Resource::Data, bytes)?,
            Rlimit::Cpu(seconds) => set(Resource::Cpu, seconds)?,
            Rlimit::FileSize(bytes) => set(Resource::Fsize, bytes)?,
            Rlimit::Processes(count) => set(Resource::Nproc, count)?,
            Rlimit::Files(count) => set(Resource::Nofile, count)?,
        }
    }
    Ok(())
}

fn start_program(order: &Inside) -> io::Result<Pid> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let (name, arguments) = order.program.split_first().ok_or_else(missing)?;
    let child = Command::new(name)
        .args(arguments)
        .env_clear()
        .envs(&order.environment)
        .stdin(Stdio::null())
        .spawn()?;
    // The child is waited for by number, together with those it leaves behind.
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(missing)
}

/// Waits for the program and collects others that end. Nothing if the supervisor went away.
fn watch(channel: &Channel, program: Pid) -> io::Result<Option<Exit>> {
    let ended = rustix::process::pidfd_open(program, PidfdFlags::empty())?;
    loop {
        if let Some(exit) = collect(program)? {
            return Ok(Some(exit));
        }
        let mut files = [
            PollFd::new(&ended, PollFlags::IN),
            PollFd::new(channel, PollFlags::IN | PollFlags::HUP),
        ];
        match poll(&mut files, Some(&REAP_INTERVAL)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // The supervisor has nothing more to say: if something can be read, it is the end.
        let [_, supervisor] = &files;
        if !supervisor.revents().is_empty() {
            return Ok(None);
        }
    }
}

/// Collects whatever has ended; the exit of the program if it was among them.
fn collect(program: Pid) -> io::Result<Option<Exit>> {
    let mut found = None;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == program => found = exit_of(status).or(found),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(Errno::CHILD) => return Ok(found),
            Err(error) => return Err(error.into()),
        }
    }
}

fn exit_of(status: WaitStatus) -> Option<Exit> {
    let number = |number: i32| u32::try_from(number).unwrap_or(0);
    let code = status.exit_status().map(|code| Exit::Code(u8::try_from(code).unwrap_or(u8::MAX)));
    code.or_else(|| status.terminating_signal().map(|signal| Exit::Signal(number(signal))))
}

/// Ends all other processes where process numbers are the sandbox's own. Elsewhere the supervisor
/// does it: there, «all» would be all processes of the user.
fn end_everything() -> io::Result<()> {
    if rustix::process::getpid() != Pid::INIT {
        return Ok(());
    }
    match rustix::process::kill_process_group(Pid::INIT, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(error.into()),
    }
    collect_all()
}

/// Waits until there is nobody left to wait for.
fn collect_all() -> io::Result<()> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Stays, collecting others, until the supervisor closes the talk.
fn wait_for_supervisor(channel: &Channel) {
    loop {
        let mut files = [PollFd::new(channel, PollFlags::IN | PollFlags::HUP)];
        let _looked_at_below = poll(&mut files, Some(&REAP_INTERVAL));
        let [supervisor] = &files;
        if !supervisor.revents().is_empty() {
            return;
        }
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
    }
}
