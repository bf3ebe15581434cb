//! Processes of the program under test: started with a home of their own, watched, and ended.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicU16, AtomicU64, Ordering},
        mpsc::{Receiver, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// How long anything may take before the test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Lines of a process' stderr shown when a test fails.
const TAIL_LINES: usize = 30;

/// Tests with networks that run at once. They wait for blocks and dates most of the time: on two
/// cores, one of them takes an eighth of both.
const AT_ONCE: usize = 2;

/// Who may run; whoever comes first is served first, so that nobody waits for a whole run.
struct Turns {
    free: usize,
    /// The number of the next to come, and of the next to be served.
    coming: usize,
    serving: usize,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns { free: AT_ONCE, coming: 0, serving: 0 });
static TURN_CHANGED: Condvar = Condvar::new();

/// Leave to run, given back when dropped.
pub(crate) struct Turn(usize);

/// Waits until a network may run beside another.
pub(crate) fn turn() -> Turn {
    Turn::take(1)
}

/// Waits until nobody else runs: for tests that take all cores or measure.
pub(crate) fn turn_alone() -> Turn {
    Turn::take(AT_ONCE)
}

impl Turn {
    fn take(count: usize) -> Self {
        let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        let number = turns.coming;
        turns.coming += 1;
        while turns.serving != number || turns.free < count {
            turns = TURN_CHANGED.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        turns.serving += 1;
        turns.free -= count;
        TURN_CHANGED.notify_all();
        Self(count)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TURNS.lock().unwrap_or_else(PoisonError::into_inner).free += self.0;
        TURN_CHANGED.notify_all();
    }
}

/// Waits until something is so, or fails with what was waited for.
pub(crate) fn wait_until(what: &str, span: Duration, mut is_so: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < span, "waited {span:?} in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
    started.elapsed()
}

/// Addresses on loopback that were free a moment ago, with ports that no operating system gives to
/// outgoing connections and that local networks do not choose by themselves; no two calls have one
/// in common.
pub(crate) fn free_addresses(count: usize) -> Vec<String> {
    static NEXT: AtomicU16 = AtomicU16::new(12_000);
    let is_free = |address: &String| TcpListener::bind(address).is_ok();
    let address = || format!("127.0.0.1:{}", NEXT.fetch_add(1, Ordering::Relaxed));
    std::iter::repeat_with(address).filter(is_free).take(count).collect()
}

/// A user's home, removed afterwards.
pub(crate) struct Home(PathBuf);

/// What a finished process said.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Finished {
    /// The one JSON object on stdout.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.out.trim()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails unless the process ended with this exit code.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tensorgrid-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The program, with this home and nothing of the real one.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tensorgrid"));
        command
            .args(arguments)
            .current_dir(&self.0)
            .env("HOME", &self.0)
            .env("XDG_STATE_HOME", self.0.join("state"))
            .env("XDG_DATA_HOME", self.0.join("share"))
            .env("TENSORGRID_PASSPHRASE", "a test")
            .env_remove("TENSORGRID_RPC")
            .env_remove("TENSORGRID_WALLETS")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        let output = self.command(arguments).output().expect("the program starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Finished { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Starts a command that prints one line of JSON when it is ready, and waits for that line.
    pub(crate) fn start(&self, name: &str, arguments: &[&str]) -> Process {
        Process::start(self, name, arguments)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("left for inspection: {}", self.0.display());
        } else {
            let _left_to_the_system = fs::remove_dir_all(&self.0);
        }
    }
}

/// A process that runs. Killed when dropped.
pub(crate) struct Process {
    child: Child,
    name: String,
    errors: PathBuf,
    lines: Receiver<String>,
    /// What it printed when it was ready.
    pub(crate) ready: serde_json::Value,
}

impl Process {
    fn start(home: &Home, name: &str, arguments: &[&str]) -> Self {
        let mut process = Self::spawn(home, name, arguments);
        process.wait_ready();
        process
    }

    /// Starts a process without waiting for it.
    pub(crate) fn spawn(home: &Home, name: &str, arguments: &[&str]) -> Self {
        Self::spawn_command(home, name, home.command(arguments))
    }

    /// The same, for a command that was changed.
    pub(crate) fn spawn_command(home: &Home, name: &str, mut command: Command) -> Self {
        let errors = home.path(&format!("{name}.err"));
        let log = File::options().create(true).append(true).open(&errors).expect("a log file");
        let mut child =
            command.stdout(Stdio::piped()).stderr(log).spawn().expect("the program starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, lines) = sync_channel(1_024);
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let ready = serde_json::Value::Null;
        Self { child, name: name.to_owned(), errors, lines, ready }
    }

    /// Waits for the line of JSON that says that the process is ready.
    pub(crate) fn wait_ready(&mut self) {
        let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            panic!("{} was not ready in time: {}", self.name, self.tail());
        });
        self.ready = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{}: {error} in {line}", self.name));
    }

    /// Address of its JSON-RPC interface.
    pub(crate) fn rpc(&self) -> String {
        let rpc = self.ready.get("rpc").and_then(|rpc| rpc.as_str());
        rpc.unwrap_or_else(|| panic!("{} has no address: {}", self.name, self.ready)).to_owned()
    }

    /// Its number for the operating system.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it said on stderr.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// The end of its stderr.
    pub(crate) fn tail(&self) -> String {
        let text = self.said();
        let lines: Vec<&str> = text.lines().collect();
        let start = lines.len().saturating_sub(TAIL_LINES);
        lines.get(start..).unwrap_or_default().join("\n")
    }

    /// Ends it without warning, as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it can be waited for");
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let command = format!("kill -{signal} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &command]).status().expect("a shell");
        assert!(sent.success(), "{command}");
    }

    /// Asks it to stop and gives its exit status and how long that took.
    pub(crate) fn stop(mut self, signal: &str) -> (ExitStatus, Duration) {
        self.signal(signal);
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return (status, started.elapsed());
            }
            let waited = started.elapsed();
            assert!(waited < PATIENCE, "{} does not stop: {}", self.name, self.tail());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- {} ---\n{}", self.name, self.tail());
        }
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}
