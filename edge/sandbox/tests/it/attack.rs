//! Hostile programs, run inside sandboxes. Each says what it managed to do, a line beginning with
//! `!` for each thing that it should not have; each is also run outside as a positive control where
//! that does no harm.

use std::fs;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// Exit code of a program that was refused memory.
pub(crate) const NO_MEMORY: u8 = 7;

pub(crate) fn run(words: &[&str]) -> ExitCode {
    match words {
        ["read", paths @ ..] => paths.iter().for_each(|path| read(path)),
        ["write", paths @ ..] => paths.iter().for_each(|path| write(path)),
        ["connect", port] => connect(port.parse().expect("a port")),
        ["scan", port] => scan(port.parse().expect("a port")),
        ["memory", mib] => return memory(mib.parse().expect("a number")),
        ["memory-in-many", mib] => return memory_in_many(mib.parse().expect("a number")),
        ["processes"] => processes(),
        ["spin"] => spin(),
        ["disk", path] => return disk(Path::new(path)),
        ["disk-nameless", path] => return disk_nameless(Path::new(path)),
        ["flood"] => flood(),
        ["privileges"] => privileges(),
        ["system-calls"] => system_calls(),
        ["signal", pid] => signal(pid.parse().expect("a process")),
        ["nest", path] => nest(Path::new(path)),
        ["files"] => open_files(),
        _ => return ExitCode::from(99),
    }
    ExitCode::SUCCESS
}

fn read(path: &str) {
    let content = fs::read(path).map(|bytes| bytes.len());
    let listed = fs::read_dir(path).map(|entries| entries.count());
    match content.or(listed) {
        Ok(0) => println!("{path} is empty"),
        Ok(count) => println!("!read {path}: {count}"),
        Err(error) => println!("{path}: {error}"),
    }
}

fn write(path: &str) {
    let appended = fs::OpenOptions::new().append(true).open(path);
    if appended.is_ok_and(|mut file| file.write_all(b"x").is_ok()) {
        println!("!wrote to {path}");
    }
    let inner = Path::new(path).join("made-by-a-task");
    if fs::write(&inner, "x").is_ok() {
        println!("!made {}", inner.display());
    }
    if fs::remove_file(path).is_ok() {
        println!("!removed {path}");
    }
    if fs::rename(path, "stolen").is_ok() {
        println!("!moved {path}");
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    if fs::set_permissions(path, mode).is_ok() {
        println!("!opened {path}");
    }
}

/// Connects to a port of this machine.
pub(crate) fn connect(port: u16) {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
        Ok(_) => println!("!connected"),
        Err(error) => println!("not connected: {error}"),
    }
}

fn scan(port: u16) {
    let ports = (port.saturating_sub(200)..=port.saturating_add(200)).chain(1..=1024);
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let is_open = |port| TcpStream::connect_timeout(&address(port), Duration::from_secs(1)).is_ok();
    let open = ports.filter(|&port| is_open(port)).count();
    println!("{}{open} open ports", if open > 0 { "!" } else { "" });
}

fn memory(mib: usize) -> ExitCode {
    let mut huge: Vec<u8> = Vec::new();
    if huge.try_reserve_exact(1 << 40).is_ok() {
        println!("a terabyte was promised");
    }
    drop(huge);
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for _ in 0..mib {
        let mut chunk = Vec::new();
        if chunk.try_reserve_exact(1 << 20).is_err() {
            drop(kept);
            println!("refused");
            return ExitCode::from(NO_MEMORY);
        }
        chunk.resize(1 << 20, 1);
        kept.push(chunk);
    }
    println!("had {mib} MiB");
    std::thread::sleep(Duration::from_secs(5));
    ExitCode::SUCCESS
}

/// Several processes that are each within what one may have.
fn memory_in_many(mib: usize) -> ExitCode {
    let me = std::env::current_exe().expect("this program");
    let spawn = |_| Command::new(&me).args(["attack", "memory", &mib.to_string()]).spawn();
    let children: Vec<_> = (0..4).map(spawn).collect();
    for child in children.into_iter().flatten() {
        let mut child = child;
        let _any = child.wait();
    }
    ExitCode::from(NO_MEMORY)
}

fn processes() {
    let mut children = Vec::new();
    for _ in 0..2000 {
        match Command::new("sleep").arg(crate::place::MARK).stdin(Stdio::null()).spawn() {
            Ok(child) => children.push(child),
            Err(error) => {
                println!("{} processes, then {error}", children.len());
                return;
            }
        }
    }
    println!("!{} processes", children.len());
}

fn spin() {
    let mut number = 1_u64;
    loop {
        number = std::hint::black_box(number.wrapping_mul(3));
    }
}

fn disk(path: &Path) -> ExitCode {
    let mut file = fs::File::create(path.join("big")).expect("makes a file");
    let chunk = vec![7; 1 << 20];
    for written in 0..4096 {
        if let Err(error) = file.write_all(&chunk) {
            println!("{written} MiB, then {error}");
            return ExitCode::FAILURE;
        }
    }
    println!("!wrote 4 GiB");
    ExitCode::SUCCESS
}

/// Many files, each smaller than allowed, open but without a name.
fn disk_nameless(path: &Path) -> ExitCode {
    let mut kept = Vec::new();
    for _ in 0..200 {
        let mut file = fs::File::create(path.join("small")).expect("makes a file");
        fs::remove_file(path.join("small")).expect("takes its name");
        if let Err(error) = file.write_all(&[7; 2 << 20]) {
            println!("{} files, then {error}", kept.len());
            return ExitCode::FAILURE;
        }
        kept.push(file);
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("!wrote {} files", kept.len());
    ExitCode::SUCCESS
}

fn flood() {
    let line = [b'x'; 4096];
    let mut out = io::stdout().lock();
    while out.write_all(&line).is_ok() {}
}

fn privileges() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| line.starts_with("Cap")) {
        let is_bounding = line.starts_with("CapBnd"); // useless without a way to gain any
        let set = line.split_ascii_whitespace().nth(1).unwrap_or_default();
        if set.chars().any(|digit| digit != '0') && !is_bounding {
            println!("!capabilities: {line}");
        }
    }
    if status.contains("NoNewPrivs:\t0") {
        println!("!may gain privileges");
    }
    let root = rustix::fs::Uid::ROOT;
    if rustix::thread::set_thread_res_uid(root, root, root).is_ok() {
        println!("!became user 0");
    }
    if rustix::process::geteuid().is_root() {
        println!("!is user 0");
    }
    for program in ["/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd", "/usr/bin/newgrp"] {
        let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
        if output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("uid=0")) {
            println!("!{program} gave privileges");
        }
    }
    let mounted = rustix::mount::mount(
        "tmpfs",
        "/",
        "tmpfs",
        rustix::mount::MountFlags::empty(),
        None::<&std::ffi::CStr>,
    );
    if mounted.is_ok() {
        println!("!mounted");
    }
    for options in [["--user", "true"], ["--mount", "true"], ["--net", "true"]] {
        let status = Command::new("unshare").args(options).stderr(Stdio::null()).status();
        if status.is_ok_and(|status| status.success()) {
            println!("!made a namespace by {}", options.join(" "));
        }
    }
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        "disk",
        rustix::fs::FileType::BlockDevice,
        rustix::fs::Mode::RWXU,
        rustix::fs::makedev(8, 0),
    );
    if made.is_ok() {
        println!("!made a device");
    }
}

/// Calls that must be refused before their arguments are looked at.
#[expect(unsafe_code, reason = "the calls that are refused have no safe wrapper")]
fn system_calls() {
    // Attaching to nobody: where it is not refused, it changes nothing either.
    let attach = i64::from(libc::PTRACE_ATTACH);
    let calls: [(&str, i64, i64); 14] = [
        ("ptrace", libc::SYS_ptrace, attach),
        ("bpf", libc::SYS_bpf, 0),
        ("keyctl", libc::SYS_keyctl, 0),
        ("add_key", libc::SYS_add_key, 0),
        ("userfaultfd", libc::SYS_userfaultfd, 0),
        ("io_uring_setup", libc::SYS_io_uring_setup, 0),
        ("perf_event_open", libc::SYS_perf_event_open, 0),
        ("unshare", libc::SYS_unshare, 0),
        ("setns", libc::SYS_setns, 0),
        ("process_vm_readv", libc::SYS_process_vm_readv, 0),
        ("init_module", libc::SYS_init_module, 0),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, 0),
        ("clone3", libc::SYS_clone3, 0),
        ("one of tomorrow", 1999, 0),
    ];
    for (name, number, first) in calls {
        // SAFETY: no call is given an address of memory.
        let result = unsafe { libc::syscall(number, first, 0, 0, 0, 0) };
        let error = io::Error::last_os_error().raw_os_error();
        let is_refused = result == -1 && matches!(error, Some(libc::EPERM | libc::ENOSYS));
        if !is_refused {
            println!("!{name} gave {result}, {error:?}");
        }
    }
    let namespaces = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;
    for family in [libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG] {
        // SAFETY: no memory is named.
        if unsafe { libc::socket(family, libc::SOCK_RAW, 0) } >= 0 {
            println!("!made a socket of family {family}");
        }
    }
    // SAFETY: with a stack of zero the child would go on as a copy, like after a fork; it ends.
    let pid = unsafe { libc::syscall(libc::SYS_clone, namespaces | libc::SIGCHLD, 0, 0, 0, 0) };
    if pid == 0 {
        std::process::exit(0);
    }
    if pid > 0 {
        println!("!cloned into namespaces");
    }
}

/// Looks into and signals a process of the machine, by the machine's number.
fn signal(pid: i32) {
    for name in ["environ", "mem", "maps", "cwd", "fd"] {
        let path = format!("/proc/{pid}/{name}");
        let is_open = fs::File::open(&path).is_ok() || fs::read_link(&path).is_ok();
        if is_open && pid != i32::try_from(std::process::id()).unwrap_or(0) {
            println!("!opened {path}");
        }
    }
    let pid = Pid::from_raw(pid).expect("a number");
    let limit = rustix::process::Rlimit { current: Some(3), maximum: Some(3) };
    if rustix::process::prlimit(Some(pid), rustix::process::Resource::Nofile, limit).is_ok() {
        println!("!limited {pid:?}");
    }
    if rustix::process::setpriority_process(Some(pid), 19).is_ok() {
        println!("!slowed {pid:?}");
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(0);
    if rustix::thread::sched_setaffinity(Some(pid), &set).is_ok() {
        println!("!moved {pid:?}");
    }
    for signal in [Signal::USR1, Signal::KILL] {
        if rustix::process::kill_process(pid, signal).is_ok() {
            println!("!signalled {pid:?}");
        }
    }
}

/// Makes folders in each other beyond any length of a path, closes them, and hides a file.
fn nest(path: &Path) {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    let none = rustix::fs::Mode::empty();
    let open = |at: std::os::fd::BorrowedFd<'_>, name: &str| {
        rustix::fs::openat(at, name, flags, none).expect("opens")
    };
    let mut at = open(rustix::fs::CWD, path.to_str().expect("text"));
    let name = "deep".repeat(20);
    for _ in 0..60 {
        rustix::fs::mkdirat(&at, &name, rustix::fs::Mode::RWXU).expect("makes");
        at = open(std::os::fd::AsFd::as_fd(&at), &name);
    }
    let link = rustix::fs::symlinkat("/", &at, "root");
    let closed = rustix::fs::fchmod(&at, none);
    println!("{link:?} {closed:?}");
}

/// Looks for open files besides the three streams.
#[expect(unsafe_code, reason = "asking about a number that may be no file has no safe wrapper")]
fn open_files() {
    for number in 3..256 {
        // SAFETY: asking for flags changes nothing, whatever the number stands for.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0 {
            println!("!file {number} is open");
        }
    }
}
