//! Everything the program says.
//!
//! stdout carries the result and nothing else, so that it can be piped; stderr carries the talk.
//! With `--json` the result is one object per line. Colour only helps where a person looks: it is
//! never the only carrier of a meaning, and `NO_COLOR` turns it off.

use crate::failure::Failure;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::{
    fmt::Display,
    io::{self, IsTerminal as _, Write as _},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

/// A wait shorter than this needs no explanation.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a spinner turns on a terminal.
const SPIN: Duration = Duration::from_millis(100);

/// How often a wait is mentioned again where there is no terminal.
const REMIND: Duration = Duration::from_secs(10);

/// Changes of a progress text that may wait to be shown; more are skipped.
const NOTES_MAX: usize = 8;

/// What the printer depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PrinterSettings {
    /// Results as JSON.
    pub(crate) json: bool,
    /// Colour is unwelcome.
    pub(crate) no_color: bool,
}

/// How a word is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Something went well.
    Good,
    /// Something went wrong.
    Bad,
    /// A name or a heading.
    Strong,
    /// Less important than the rest.
    Quiet,
}

/// Says things. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    json: bool,
    color_out: bool,
    color_talk: bool,
    terminal_talk: bool,
}

impl Printer {
    /// A printer for the process' own stdout and stderr.
    #[must_use]
    pub(crate) fn new(settings: PrinterSettings) -> Self {
        let terminal_talk = io::stderr().is_terminal();
        Self {
            json: settings.json,
            color_out: !settings.no_color && io::stdout().is_terminal(),
            color_talk: !settings.no_color && terminal_talk,
            terminal_talk,
        }
    }

    /// Whether results are JSON.
    #[must_use]
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a result: as JSON, or as the text that people read.
    pub(crate) fn result(&self, value: &impl Serialize, text: impl FnOnce() -> String) {
        let line = if self.json {
            serde_json::to_string(value).expect("results are plain data")
        } else {
            text()
        };
        self.out(&line);
    }

    /// Prints a line to stdout. A reader that has gone away does not matter any more.
    pub(crate) fn out(&self, line: &str) {
        let mut stdout = io::stdout().lock();
        let _gone = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    }

    /// Says a line on stderr.
    pub(crate) fn say(&self, line: impl Display) {
        let _gone = writeln!(io::stderr().lock(), "{line}");
    }

    /// Says what failed, why, and what to do next.
    pub(crate) fn fail(&self, failure: &Failure) {
        if self.json {
            let error = serde_json::json!({
                "error": failure.what, "causes": failure.causes, "hint": failure.hint,
            });
            self.say(error);
            return;
        }
        let error = self.talk_word(Tone::Bad, "error:");
        let because: String =
            failure.causes.iter().map(|cause| format!("\n  because {cause}")).collect();
        let hint = self.talk_word(Tone::Strong, "hint:");
        self.say(format_args!("{error} {}{because}\n{hint} {}", failure.what, failure.hint));
    }

    /// A word for stdout.
    #[must_use]
    pub(crate) fn word(&self, tone: Tone, word: &str) -> String {
        paint(self.color_out, tone, word)
    }

    fn talk_word(&self, tone: Tone, word: &str) -> String {
        paint(self.color_talk, tone, word)
    }

    /// Shows that something takes time, once it has taken a second. Ends when dropped.
    #[must_use]
    pub(crate) fn progress(&self, text: impl Into<String>) -> Progress {
        let (notes, received) = sync_channel(NOTES_MAX);
        let (printer, text) = (*self, text.into());
        let thread = thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || printer.show_progress(text, &received))
            .ok(); // without a thread there is no progress to see, and nothing else changes
        Progress { notes, thread }
    }

    fn show_progress(&self, mut text: String, notes: &Receiver<Note>) {
        let started = Instant::now();
        let mut due = PATIENCE;
        let mut spinner = None;
        loop {
            match notes.recv_timeout(due.saturating_sub(started.elapsed())) {
                Ok(Note::Text(newer)) => text = newer,
                Ok(Note::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if self.terminal_talk => {
                    let spinner = spinner.get_or_insert_with(|| new_spinner(self.color_talk));
                    spinner.set_message(format!("{text} ({} s)", started.elapsed().as_secs()));
                    spinner.tick();
                    due = started.elapsed() + SPIN;
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.say(format_args!("… {text} ({} s)", started.elapsed().as_secs()));
                    due = started.elapsed() + REMIND;
                }
            }
        }
        if let Some(spinner) = spinner {
            spinner.finish_and_clear();
        }
    }
}

fn new_spinner(color: bool) -> ProgressBar {
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let template = if color { "{spinner:.cyan} {msg}" } else { "{spinner} {msg}" };
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    spinner.with_style(style)
}

fn paint(color: bool, tone: Tone, word: &str) -> String {
    let code = match tone {
        Tone::Good => "32",
        Tone::Bad => "31",
        Tone::Strong => "1",
        Tone::Quiet => "2",
    };
    if color { format!("\u{1b}[{code}m{word}\u{1b}[0m") } else { word.to_owned() }
}

enum Note {
    Text(String),
    Stop,
}

/// Something that takes time and is shown.
pub(crate) struct Progress {
    notes: SyncSender<Note>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Progress {
    /// Changes what is shown.
    pub(crate) fn set(&self, text: impl Into<String>) {
        let _skipped_when_busy = self.notes.try_send(Note::Text(text.into()));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let _ended = self.notes.send(Note::Stop);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Lines of "label  value" with the values below each other.
#[must_use]
pub(crate) fn lines(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let row = |(label, value): &(&str, String)| format!("{label:<width$}  {value}");
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}

/// A table with a heading; columns are as wide as their widest cell.
#[must_use]
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        let heading = heading.get(column).copied();
        cells.chain(heading).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |cells: &[String; N]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let heading = heading.map(str::to_owned);
    std::iter::once(&heading).chain(rows).map(line).collect::<Vec<_>>().join("\n")
}

/// A duration as people say it.
#[must_use]
pub(crate) fn duration(span: Duration) -> String {
    if span < Duration::from_secs(1) {
        format!("{} ms", span.as_millis())
    } else {
        format!("{:.1} s", span.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::{Tone, duration, lines, paint, table};
    use std::time::Duration;

    #[test]
    fn word_without_colour_is_the_word() {
        assert_eq!(paint(false, Tone::Bad, "bad"), "bad");
        assert_eq!(paint(true, Tone::Bad, "bad"), "\u{1b}[31mbad\u{1b}[0m");
    }

    #[test]
    fn lines_and_tables_are_aligned() {
        let rows = [("a", "1".to_owned()), ("long", "2".to_owned())];
        assert_eq!(lines(&rows), "a     1\nlong  2");
        let cells = [["x".to_owned(), "y".to_owned()], ["longer".to_owned(), "z".to_owned()]];
        assert_eq!(table(["name", "v"], &cells), "name    v\nx       y\nlonger  z");
    }

    #[test]
    fn duration_is_read_in_its_unit() {
        assert_eq!(duration(Duration::from_millis(999)), "999 ms");
        assert_eq!(duration(Duration::from_millis(2_340)), "2.3 s");
    }
}
