//! A run from the start of its launcher to the end of its last process: what it says is passed on,
//! what it uses is looked at, and when it must end, everything ends. One loop, one thread.
//!
//! Invariants: the stranger's program starts only after its processes are in their control group
//! and the first process has reported that everything holds; nothing the program says or does
//! changes what is enforced; when the loop returns, no process of the run is left.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::cgroup::{Controller, Group};
use crate::control::Channel;
use crate::error::RunError;
use crate::files::measure;
use crate::kept::KeptFolder;
use crate::limits::{Bytes, Limits};
use crate::outcome::{By, Clock, Ended, Enforced, Guard, Level, Usage};
use crate::processes;
use crate::sandbox::Stop;
use crate::spec::{Exit, Inside, Landlocked, Launch, Report, Stage};
use crate::task::Network;

/// How long other programs may take to build a sandbox.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long ended processes may take to be gone, and their last words to be read.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// How long whatever built the sandbox may take to see that it is over.
const LINGER_MAX: Duration = Duration::from_secs(5);
/// What the system tells of processor time without a group is this coarse.
const CPU_COARSENESS: Duration = Duration::from_millis(100);
/// How often the loop looks at what is used.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The same for looks that read much: trees of files, processes without a group.
const SLOW_LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// The longest wait for something to happen.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Read from a stream at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Kept of what other programs say while they build a sandbox.
const TALK_BYTES_MAX: usize = 4096;

/// Which stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// What the task writes to standard output.
    Output,
    /// What it writes to standard error.
    Error,
}

/// What happens during a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// The folder that is saved is there, empty; what is put into it now the program finds there.
    Prepared {
        /// The folder.
        folder: &'a KeptFolder,
    },
    /// The sandbox stands; the program starts now.
    Started {
        /// What holds it.
        enforced: &'a Enforced,
    },
    /// It said something.
    Said {
        /// Where.
        stream: Stream,
        /// What.
        bytes: &'a [u8],
    },
}

/// What a run that is over was like. All its processes are gone.
pub(crate) struct Watched {
    pub(crate) ended: Ended,
    pub(crate) usage: Usage,
    pub(crate) enforced: Enforced,
    /// Its work folder, if it got that far.
    pub(crate) work: Option<OwnedFd>,
}

/// What a run is.
pub(crate) struct Run {
    pub(crate) level: Level,
    pub(crate) limits: Limits,
    pub(crate) is_root: bool,
    /// Who the first process may be besides this program's own user.
    pub(crate) job_uid: Option<u32>,
    pub(crate) network: Network,
    pub(crate) is_on_disk: bool,
    pub(crate) program: String,
}

/// A run that is going on.
pub(crate) struct Watch<'a> {
    run: Run,
    launcher: Launcher,
    listener: Option<UnixListener>,
    launch: Launch,
    inside_order: Inside,
    outside: Option<Channel>,
    inside: Option<Channel>,
    first: Option<First>,
    group: &'a Group,
    streams: [Option<OwnedFd>; 2],
    talk: Vec<u8>,
    work: Option<OwnedFd>,
    born: Instant,
    started: Option<Instant>,
    landlock: Landlocked,
    exit: Option<Exit>,
    verdict: Option<Ended>,
    is_disk_full: bool,
    usage: Usage,
    looked: Instant,
    looked_slowly: Instant,
    /// Whether the program was asked to end.
    is_asked: bool,
}

/// The first process inside, as the machine numbers it.
struct First {
    pid: Pid,
    handle: OwnedFd,
}

/// The launcher, ended with all below it if it is dropped early.
struct Launcher {
    child: Child,
    pid: Pid,
}

impl Launcher {
    fn new(child: Child) -> Self {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Self { child, pid: pid.expect("a child has a number") }
    }

    /// Whether it has ended; it stays to be asked about until it is dropped.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(rustix::process::waitid(WaitId::Pid(self.pid), options), Ok(None))
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        if !self.has_ended() {
            processes::end_below(self.pid, &[]);
            let _ended_already = self.child.kill();
        }
        let _nothing_to_say = self.child.wait();
    }
}

impl<'a> Watch<'a> {
    pub(crate) fn new(
        run: Run,
        launcher: Child,
        listener: UnixListener,
        streams: [OwnedFd; 2],
        orders: (Launch, Inside),
        group: &'a Group,
    ) -> Self {
        let now = Instant::now();
        let (launch, inside_order) = orders;
        Self {
            run,
            launcher: Launcher::new(launcher),
            listener: Some(listener),
            launch,
            inside_order,
            outside: None,
            inside: None,
            first: None,
            group,
            streams: streams.map(Some),
            talk: Vec::new(),
            work: None,
            born: now,
            started: None,
            landlock: Landlocked::Not,
            exit: None,
            verdict: None,
            is_disk_full: false,
            usage: Usage::default(),
            looked: now,
            looked_slowly: now,
            is_asked: false,
        }
    }

    /// Runs to the end.
    pub(crate) fn run(
        mut self,
        stop: &Stop,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<Watched, RunError> {
        for stream in self.streams.iter().flatten() {
            rustix::fs::fcntl_setfl(stream, OFlags::NONBLOCK)
                .map_err(|error| RunError::Helper(error.into()))?;
        }
        while !self.is_over() {
            self.wait(stop);
            self.accept()?;
            self.listen(on)?;
            self.read_streams(on);
            self.look(stop)?;
        }
        self.end(on);
        let (ended, enforced) = (self.settle(), self.enforced());
        Ok(Watched { ended, usage: self.usage, enforced, work: self.work.take() })
    }

    /// Whether the program has ended or must.
    fn is_over(&self) -> bool {
        let is_inside_gone = self.inside.as_ref().is_some_and(Channel::is_over);
        self.exit.is_some() || self.verdict.is_some() || (self.started.is_some() && is_inside_gone)
    }

    /// Waits for something to happen, not for long.
    fn wait(&self, stop: &Stop) {
        let mut files = vec![PollFd::new(stop.file(), PollFlags::IN)];
        files.extend(self.streams.iter().flatten().map(|file| PollFd::new(file, PollFlags::IN)));
        files.extend(self.listener.iter().map(|file| PollFd::new(file, PollFlags::IN)));
        let talks = self.outside.iter().chain(&self.inside).filter(|talk| !talk.is_over());
        files.extend(talks.map(|file| PollFd::new(file, PollFlags::IN)));
        let _looked_at_anyway = poll(&mut files, Some(&TICK));
    }

    /// Takes up the talk with the launcher, then with the first process.
    fn accept(&mut self) -> Result<(), RunError> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(RunError::Helper(error)),
        };
        let mut channel = Channel::accepted(stream).map_err(RunError::Helper)?;
        let peer = channel.peer().map_err(RunError::Helper)?;
        let (pid, uid) = (peer.pid, peer.uid.as_raw());
        let is_ours = uid == rustix::process::geteuid().as_raw() || Some(uid) == self.run.job_uid;
        if !is_ours || (self.outside.is_none() && pid != self.launcher.pid) {
            return Ok(()); // whoever else found the socket is not talked to
        }
        if self.outside.is_none() {
            channel.send(&self.launch)?;
            self.outside = Some(channel);
            return Ok(());
        }
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| RunError::Helper(error.into()))?;
        self.first = Some(First { pid, handle });
        self.group.add(pid).map_err(RunError::Group)?;
        channel.send(&self.inside_order)?;
        self.inside = Some(channel);
        self.listener = None;
        Ok(())
    }

    /// Hears what the helpers report.
    fn listen(&mut self, on: &mut dyn FnMut(Event<'_>)) -> Result<(), RunError> {
        let mut reports = Vec::new();
        for channel in [&mut self.outside, &mut self.inside].into_iter().flatten() {
            channel.take_in()?;
            while let Some(report) = channel.next::<Report>()? {
                reports.push(report);
            }
        }
        if let Some(folder) = self.inside.as_mut().and_then(Channel::take_folder) {
            self.work = Some(folder);
        }
        for report in reports {
            match report {
                Report::Failed { stage, errno } => return Err(self.failure(stage, errno)),
                Report::Ready { landlock } => {
                    self.landlock = landlock;
                    self.started = Some(Instant::now());
                    on(Event::Started { enforced: &self.enforced() });
                }
                Report::Ended(exit) => self.exit = Some(exit),
            }
        }
        Ok(())
    }

    fn failure(&self, stage: Stage, errno: i32) -> RunError {
        let source = io::Error::from_raw_os_error(errno);
        if stage == Stage::Program {
            return RunError::Program { program: self.run.program.clone(), source };
        }
        RunError::Setup { level: self.run.level, stage, source }
    }

    /// Passes on what came through the streams. Before the program starts it is the talk of those
    /// who build the sandbox.
    fn read_streams(&mut self, on: &mut dyn FnMut(Event<'_>)) {
        for (index, stream) in [Stream::Output, Stream::Error].into_iter().enumerate() {
            let Some(Some(file)) = self.streams.get(index) else { continue };
            let mut bytes = [0; CHUNK_BYTES];
            let count = match rustix::io::read(file, &mut bytes) {
                Ok(0) => {
                    if let Some(stream) = self.streams.get_mut(index) {
                        *stream = None;
                    }
                    continue;
                }
                Ok(count) => count,
                Err(_) => continue, // nothing there
            };
            let read = bytes.get(..count).unwrap_or_default();
            if self.started.is_none() {
                let room = TALK_BYTES_MAX.saturating_sub(self.talk.len());
                self.talk.extend(read.iter().take(room));
                continue;
            }
            let max = self.run.limits.streams.get();
            let room = max.saturating_sub(self.usage.streams.get());
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            let kept = read.get(..room.min(count)).unwrap_or_default();
            if kept.len() < read.len() && self.verdict.is_none() {
                self.verdict = Some(Ended::TooMuchSaid);
            }
            let length = u64::try_from(kept.len()).unwrap_or(u64::MAX);
            self.usage.streams = Bytes::new(self.usage.streams.get().saturating_add(length));
            if !kept.is_empty() {
                on(Event::Said { stream, bytes: kept });
            }
        }
    }

    /// Looks at time, memory, disk and at those who should still be there.
    fn look(&mut self, stop: &Stop) -> Result<(), RunError> {
        if self.is_over() {
            return Ok(());
        }
        let mut files = [PollFd::new(stop.file(), PollFlags::IN)];
        let now_only = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut files, Some(&now_only)).is_ok_and(|count| count > 0) {
            self.verdict = Some(Ended::Stopped);
            return Ok(());
        }
        let Some(started) = self.started else { return self.look_at_start() };
        if started.elapsed() >= self.run.limits.wall {
            self.verdict = Some(Ended::OutOfTime(Clock::Wall));
            return Ok(());
        }
        if stop.is_asked() && !self.is_asked {
            self.is_asked = true;
            if let Some(first) = &self.first {
                processes::ask_below(first.pid);
            }
        }
        if self.looked.elapsed() >= LOOK_INTERVAL {
            self.looked = Instant::now();
            self.look_at_group();
            self.look_at_work();
        }
        if self.looked_slowly.elapsed() >= SLOW_LOOK_INTERVAL {
            self.looked_slowly = Instant::now();
            self.look_at_processes();
            self.look_at_folder();
        }
        Ok(())
    }

    /// Before the program starts: whether it still can.
    fn look_at_start(&self) -> Result<(), RunError> {
        let level = self.run.level;
        if self.born.elapsed() > START_TIMEOUT {
            return Err(RunError::TooSlow { level, seconds: START_TIMEOUT.as_secs() });
        }
        // What it said may still be on its way: ended and said all it had to say.
        let is_silent = self.streams.iter().all(Option::is_none);
        if self.launcher.has_ended() && is_silent {
            let said = String::from_utf8_lossy(&self.talk).trim().to_owned();
            return Err(RunError::Tool { level, said });
        }
        Ok(())
    }

    fn look_at_group(&mut self) {
        if self.group.is_out_of_memory() {
            self.verdict.get_or_insert(Ended::OutOfMemory);
        }
        if let Some(cpu) = self.group.cpu() {
            self.note_cpu(cpu);
        }
    }

    fn note_cpu(&mut self, cpu: Duration) {
        self.usage.cpu = self.usage.cpu.max(cpu);
        if cpu >= self.run.limits.cpu_time {
            self.verdict.get_or_insert(Ended::OutOfTime(Clock::Cpu));
        }
    }

    /// A work folder in memory: a full one refuses by itself; that it is full is noted.
    fn look_at_work(&mut self) {
        let Some(work) = self.work.as_ref().filter(|_| !self.run.is_on_disk) else { return };
        let Ok(stat) = rustix::fs::fstatfs(work) else { return };
        let block = u64::try_from(stat.f_bsize).unwrap_or(0);
        let used = stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(block);
        self.usage.disk = self.usage.disk.max(Bytes::new(used));
        self.is_disk_full = stat.f_bfree == 0 || stat.f_ffree == 0;
    }

    /// A work folder on disk is measured, with open files that have no name any more.
    fn look_at_folder(&mut self) {
        let Some(work) = self.work.as_ref().filter(|_| self.run.is_on_disk) else { return };
        let max = self.run.limits.disk;
        let nameless = rustix::fs::fstat(work)
            .map_or(0, |stat| processes::nameless_bytes(self.top(), stat.st_dev));
        let used = match measure(work) {
            Some(bytes) => Bytes::new(bytes.saturating_add(nameless)),
            None if self.exit.is_some() => return, // no longer a way to hide
            None => Bytes::new(max.get().saturating_add(1)),
        };
        self.usage.disk = self.usage.disk.max(used);
        if used > max {
            self.verdict.get_or_insert(Ended::OutOfDisk);
        }
    }

    /// What no group counts.
    fn look_at_processes(&mut self) {
        let counts = |controller| self.group.enforces(controller).is_some();
        if counts(Controller::Memory) && counts(Controller::CpuTime) {
            return;
        }
        let sample = processes::sample(self.top());
        if !counts(Controller::CpuTime) {
            self.note_cpu(sample.cpu);
        }
        if counts(Controller::Memory) {
            return;
        }
        let max = self.run.limits.memory.get();
        let mut used = sample.memory;
        if used > max {
            // Pages shared after a fork were counted for each process; once is right.
            used = processes::shared_memory(self.top()).unwrap_or(used);
        }
        let peak = self.usage.memory_peak.unwrap_or_default();
        self.usage.memory_peak = Some(peak.max(Bytes::new(used)));
        if used > max {
            self.verdict.get_or_insert(Ended::OutOfMemory);
        }
    }

    /// The process below which all of the task's are. Some programs that run containers start them
    /// elsewhere than below themselves; without namespaces the first process may be gone.
    fn top(&self) -> Pid {
        let first = self.first.as_ref().filter(|_| self.run.level.has_namespaces());
        first.map_or(self.launcher.pid, |first| first.pid)
    }

    /// Ends whatever is left, reads the last words, takes the last counts.
    fn end(&mut self, on: &mut dyn FnMut(Event<'_>)) {
        self.usage.wall = self.started.map_or(Duration::ZERO, |started| started.elapsed());
        if !self.run.level.has_namespaces() {
            // While the first process lives, what it left behind cannot slip away from below it.
            let spared: Vec<Pid> = self.first.iter().map(|first| first.pid).collect();
            processes::end_below(self.launcher.pid, &spared);
        }
        self.look_at_work();
        self.look_at_folder();
        if let Some(first) = self.first.as_ref().filter(|_| self.exit.is_none()) {
            let _ended_already = rustix::process::pidfd_send_signal(&first.handle, Signal::KILL);
        }
        self.listener = None;
        self.outside = None;
        self.inside = None; // at which the first process ends
        self.group.kill();
        let ending = Instant::now();
        let mut is_told = false;
        while ending.elapsed() < END_TIMEOUT {
            self.read_streams(on);
            let is_silent = self.streams.iter().all(Option::is_none);
            let has_ended = self.launcher.has_ended();
            if has_ended && is_silent {
                break;
            }
            if !has_ended && !is_told && ending.elapsed() > LINGER_MAX {
                is_told = true;
                let _ended_already = self.launcher.child.kill();
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.take_counts();
    }

    fn take_counts(&mut self) {
        if let Some(peak) = self.group.memory_peak() {
            self.usage.memory_peak = Some(peak);
        }
        let cpu = self.group.cpu().or_else(|| processes::cpu_of(self.launcher.pid));
        self.usage.cpu = self.usage.cpu.max(cpu.unwrap_or_default());
    }

    /// How it ended, from what we decided and from what was seen.
    fn settle(&self) -> Ended {
        if let Some(verdict) = self.verdict {
            return verdict;
        }
        let is_well = self.exit == Some(Exit::Code(0));
        let signal = |number: libc::c_int| Some(Exit::Signal(number.unsigned_abs()));
        if !is_well && self.group.is_out_of_memory() {
            return Ended::OutOfMemory;
        }
        if !is_well && (self.is_disk_full || self.exit == signal(libc::SIGXFSZ)) {
            return Ended::OutOfDisk;
        }
        let is_cpu_over = self.usage.cpu + CPU_COARSENESS >= self.run.limits.cpu_time;
        if self.exit == signal(libc::SIGXCPU) || (is_cpu_over && self.exit == signal(libc::SIGKILL))
        {
            return Ended::OutOfTime(Clock::Cpu);
        }
        match self.exit {
            Some(Exit::Code(code)) => Ended::Exited(code),
            Some(Exit::Signal(signal)) => Ended::Signalled(signal),
            // The first process was ended from inside: only this signal does that.
            None => Ended::Signalled(libc::SIGKILL.unsigned_abs()),
        }
    }

    /// What holds the task, from what was really set up.
    fn enforced(&self) -> Enforced {
        let Run { level, is_root, network, is_on_disk, .. } = self.run;
        let mut enforced = Enforced::new(level);
        let mut add = |guard, by| enforced.add(guard, by);
        if level.has_namespaces() {
            add(Guard::Files, By::MountNamespace);
            add(Guard::Processes, By::PidNamespace);
            add(Guard::LeftBehind, By::PidNamespace);
            if network == Network::None {
                add(Guard::Network, By::NetworkNamespace);
            }
            if !is_root {
                add(Guard::Privileges, By::UserNamespace);
            }
        }
        if self.landlock != Landlocked::Not {
            add(Guard::Files, By::Landlock);
        }
        if self.landlock == Landlocked::Fully {
            add(Guard::Processes, By::Landlock);
            if network == Network::None {
                add(Guard::Network, By::Landlock);
            }
        }
        if network == Network::None {
            add(Guard::Network, By::Seccomp);
        }
        // Refusing to trace is not enough where anything else could still be signalled.
        if !enforced.by(Guard::Processes).is_empty() {
            enforced.add(Guard::Processes, By::Seccomp);
        }
        let mut add = |guard, by| enforced.add(guard, by);
        add(Guard::SystemCalls, By::Seccomp);
        add(Guard::Privileges, By::NoPrivileges);
        if is_root {
            add(Guard::Privileges, By::OtherUser);
        }
        let disk: &[By] = if is_on_disk { &[By::Rlimit, By::Watcher] } else { &[By::Tmpfs] };
        disk.iter().for_each(|&by| add(Guard::Disk, by));
        for (guard, controller, otherwise) in [
            (Guard::Memory, Controller::Memory, &[By::Rlimit, By::Watcher][..]),
            (Guard::CpuShare, Controller::Cpu, &[]),
            (Guard::CpuTime, Controller::CpuTime, &[By::Rlimit]),
            (Guard::Pids, Controller::Pids, &[By::Rlimit]),
        ] {
            match self.group.enforces(controller) {
                Some(by) => add(guard, by),
                None => otherwise.iter().for_each(|&by| add(guard, by)),
            }
        }
        if let Some(by) = self.group.enforces(Controller::Pids) {
            add(Guard::LeftBehind, by);
        }
        for guard in [Guard::CpuTime, Guard::WallTime, Guard::Streams, Guard::LeftBehind] {
            add(guard, By::Watcher);
        }
        enforced
    }
}
