//! When somebody last touched the machine, as far as this user may see it.
//!
//! Keyboards and mice are watched by waiting for something to arrive in their files, which is never
//! read: what is typed is nobody's business. A file in which something waits is opened anew, which
//! empties it. Only members of the system's group `input` may do so; everybody may see when a
//! terminal was last used, by the time of the last reading from it.

use crate::root::Root;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, SystemTime};

/// The most keyboards and mice that are watched; machines have a dozen, power buttons included.
const DEVICES_MAX: usize = 64;

/// Where terminals are: those of windows and of the network, and the machine's own.
const TERMINALS: [&str; 2] = ["/dev/pts", "/dev"];

/// A keyboard or mouse that is open.
#[derive(Debug)]
struct Watched {
    path: String,
    file: File,
}

/// Watches for a person.
#[derive(Debug)]
pub(super) struct InputWatch {
    watched: Vec<Watched>,
    /// When something last arrived, by the sampler's clock. Before the first time it is unknown.
    touched: Option<Duration>,
    started: Option<Duration>,
}

impl InputWatch {
    /// Opens what may be opened.
    pub(super) fn open(root: &Root) -> Self {
        let list = root.text("/proc/bus/input/devices").unwrap_or_default();
        let paths = handlers(&list).into_iter().map(|name| format!("/dev/input/{name}"));
        let opened = paths.filter_map(|path| Some(Watched { file: open(root, &path)?, path }));
        Self { watched: opened.take(DEVICES_MAX).collect(), touched: None, started: None }
    }

    /// How long ago the last touch was. `None` if neither keyboard nor terminal can be seen.
    pub(super) fn age(&mut self, root: &Root, at: Duration, now: SystemTime) -> Option<Duration> {
        let started = *self.started.get_or_insert(at);
        if self.has_arrived(root) {
            self.touched = Some(at);
        }
        // Without any touch so far, the last one was before the watch began.
        let since = at.saturating_sub(self.touched.unwrap_or(started));
        let devices = (!self.watched.is_empty() || self.touched.is_some()).then_some(since);
        devices.into_iter().chain(terminal_age(root, now)).min()
    }

    /// Whether something has arrived since the last time. Devices that are gone are let go.
    fn has_arrived(&mut self, root: &Root) -> bool {
        let mut any = false;
        let mut kept = Vec::new();
        for watched in self.watched.drain(..) {
            let mut fds = [PollFd::new(&watched.file, PollFlags::IN)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let is_answered = poll(&mut fds, Some(&at_once)).is_ok();
            let [answer] = fds.map(|fd| fd.revents());
            let has_input = is_answered && answer.contains(PollFlags::IN);
            let is_gone = answer.intersects(PollFlags::ERR | PollFlags::NVAL);
            any |= has_input;
            if !has_input && !is_gone {
                kept.push(watched);
            } else if let Some(file) = open(root, &watched.path) {
                kept.push(Watched { file, ..watched });
            }
        }
        self.watched = kept;
        any
    }
}

fn open(root: &Root, path: &str) -> Option<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let flags = i32::try_from(flags).ok()?;
    OpenOptions::new().read(true).custom_flags(flags).open(root.path(path)).ok()
}

/// Names of the files of keyboards and mice, from the kernel's list of input devices: those that
/// also have a handler for keys or for a pointer. Sensors, which always move, have neither.
fn handlers(list: &str) -> Vec<&str> {
    let lines = list.lines().filter_map(|line| line.strip_prefix("H: Handlers="));
    let names = lines.filter_map(|line| {
        let is_hand = |word: &str| word == "kbd" || numbered(word, "mouse");
        let mut words = line.split_ascii_whitespace();
        words.clone().any(is_hand).then(|| words.find(|word| numbered(word, "event"))).flatten()
    });
    names.collect()
}

/// Whether a name is a word with a number behind it.
fn numbered(name: &str, word: &str) -> bool {
    let digits = name.strip_prefix(word).unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// How long ago somebody typed in a terminal: the kernel notes when it was last read from.
fn terminal_age(root: &Root, now: SystemTime) -> Option<Duration> {
    let paths = TERMINALS.iter().flat_map(|folder| {
        let is_terminal = |name: &String| match *folder {
            "/dev" => numbered(name, "tty"),
            _ => numbered(name, ""),
        };
        let names = root.names(folder).into_iter().filter(is_terminal);
        names.map(|name| root.path(&format!("{folder}/{name}"))).collect::<Vec<_>>()
    });
    let read = paths.filter_map(|path| std::fs::metadata(path).ok()?.accessed().ok());
    // A terminal that was read in the future, after the clock was set back, was read just now.
    let ages = read.map(|time| now.duration_since(time).unwrap_or(Duration::ZERO));
    ages.min()
}

#[cfg(test)]
mod tests {
    use super::{InputWatch, handlers, terminal_age};
    use crate::root::Root;
    use crate::testing::{Folder, noise};
    use std::fs::{File, FileTimes, OpenOptions};
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::time::{Duration, SystemTime};

    const LIST: &str = "I: Bus=0011 Vendor=0001 Product=0001 Version=ab41\n\
        N: Name=\"AT Translated Set 2 keyboard\"\n\
        H: Handlers=sysrq kbd event3 leds\n\n\
        N: Name=\"Logitech USB Receiver Mouse\"\n\
        H: Handlers=mouse0 event5\n\n\
        N: Name=\"ST LIS3LV02DL Accelerometer\"\n\
        H: Handlers=event9 js0\n\n\
        N: Name=\"HDA Intel PCH Headphone\"\n\
        H: Handlers=event10\n";

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// A pipe in place of a device's file: what is written waits, as events would.
    fn pipe(folder: &Folder, name: &str) -> File {
        folder.write("dev/input/.keep", "");
        let path = folder.path().join("dev/input").join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).expect("a pipe");
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("a flag");
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags).open(path).expect("opens")
    }

    #[test]
    fn keyboards_and_mice_are_watched_but_not_sensors() {
        assert_eq!(handlers(LIST), ["event3", "event5"]);
        assert!(handlers("").is_empty());
    }

    #[test]
    fn prop_any_list_names_files_of_events_only() {
        arbtest::arbtest(|u| {
            let pieces = ["H: Handlers=", "kbd", "event", "3", "mouse0", " ", "\n", "/", ".."];
            for name in handlers(&noise(u, &pieces)?) {
                let digits = name.strip_prefix("event").expect("a file of events");
                assert!(digits.bytes().all(|digit| digit.is_ascii_digit()));
            }
            Ok(())
        });
    }

    #[test]
    fn touch_is_seen_once_and_grows_old() {
        let folder = Folder::new();
        folder.write("proc/bus/input/devices", LIST);
        let mut keyboard = pipe(&folder, "event3");
        let root = Root::new(folder.path());
        let mut watch = InputWatch::open(&root);
        let now = SystemTime::now();
        assert_eq!(watch.age(&root, seconds(10), now), Some(seconds(0)));
        assert_eq!(watch.age(&root, seconds(30), now), Some(seconds(20)));
        keyboard.write_all(b"key").expect("writes");
        assert_eq!(watch.age(&root, seconds(40), now), Some(seconds(0)));
        // A pipe keeps what is not read, a device does not: here it is emptied by hand.
        let mut buffer = [0; 8];
        let _emptied = std::io::Read::read(&mut keyboard, &mut buffer).expect("reads");
        assert_eq!(watch.age(&root, seconds(45), now), Some(seconds(5)));
    }

    #[test]
    fn machine_without_anything_to_see_is_unknown() {
        let folder = Folder::new();
        let root = Root::new(folder.path());
        assert_eq!(InputWatch::open(&root).age(&root, seconds(1), SystemTime::now()), None);
        // Listed, but not to be opened.
        folder.write("proc/bus/input/devices", LIST);
        assert_eq!(InputWatch::open(&root).age(&root, seconds(1), SystemTime::now()), None);
    }

    #[test]
    fn terminal_was_used_when_it_was_last_read() {
        let folder = Folder::new();
        let root = Root::new(folder.path());
        let now = SystemTime::now();
        assert_eq!(terminal_age(&root, now), None);
        for (path, age) in
            [("dev/pts/3", 500), ("dev/tty1", 300), ("dev/pts/ptmx", 1), ("dev/tty", 2)]
        {
            folder.write(path, "");
            let file = OpenOptions::new().write(true).open(folder.path().join(path));
            let times = FileTimes::new().set_accessed(now - seconds(age));
            file.expect("opens").set_times(times).expect("sets its time");
        }
        assert_eq!(terminal_age(&root, now), Some(seconds(300)));
        assert_eq!(terminal_age(&root, now - seconds(400)), Some(seconds(0)));
    }
}
