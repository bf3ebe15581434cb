//! Slurm batch scripts: the `#SBATCH` lines as sbatch(1) describes them, and the script below them,
//! which becomes the command.

use super::draft::{Draft, Words, size_in};
use super::{Imported, check_size, nothing};
use crate::fault::{Fault, Located, Position};
use crate::form::{Form, whole};
use crate::units::Span;
use crate::words::{ImageName, LocalPath, MountPath, Script, Word};
use std::num::NonZeroU16;
use tg_types::DurationMs;

const MARK: &str = "#SBATCH";

/// Units of memory in Slurm; without one it is megabytes. They are binary.
const UNITS: [(&str, u64); 5] =
    [("", 1 << 20), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1 << 40)];

/// Short options and what they stand for.
const SHORT: [(char, &str); 17] = [
    ('A', "account"),
    ('C', "constraint"),
    ('D', "chdir"),
    ('G', "gpus"),
    ('J', "job-name"),
    ('N', "nodes"),
    ('a', "array"),
    ('c', "cpus-per-task"),
    ('d', "dependency"),
    ('e', "error"),
    ('n', "ntasks"),
    ('o', "output"),
    ('p', "partition"),
    ('q', "qos"),
    ('t', "time"),
    ('w', "nodelist"),
    ('x', "exclude"),
];

/// Commands that exist on a cluster only.
const CLUSTER: [&str; 8] =
    ["srun", "sbatch", "salloc", "scancel", "module", "ml", "mpirun", "mpiexec"];

pub(super) fn import(text: &str) -> Result<Imported, Located> {
    check_size(text)?;
    let mut draft = Draft::new();
    let mut body: Vec<&str> = Vec::new();
    let mut interpreter = None;
    let mut has_begun = false;
    let mut begins = 1;
    let mut totals = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let at = Position { line: index.saturating_add(1), column: 1 };
        if let Some(shebang) = line.strip_prefix("#!").filter(|_| index == 0) {
            interpreter = Some(shebang);
            continue;
        }
        if let Some(options) = line.strip_prefix(MARK) {
            if has_begun {
                let why = "stands after the first command, where Slurm ignores it too";
                draft.note(at, format!("`{}` {why}", line.trim()));
            } else {
                options_line(&mut draft, at, options, &mut totals);
            }
            continue;
        }
        let is_command = !line.trim_start().starts_with('#') && !line.trim().is_empty();
        if is_command {
            has_begun = true;
            command_notes(&mut draft, at, line);
        }
        if body.is_empty() {
            begins = at.line;
        }
        if !body.is_empty() || !line.trim().is_empty() {
            body.push(line);
        }
    }
    if !has_begun {
        return Err(nothing("no command below the #SBATCH lines"));
    }
    let nodes = draft.file.num_nodes;
    totals.iter().for_each(|(at, value)| gpus(&mut draft, *at, "--gpus", value, nodes));
    let at = Position { line: begins, column: 1 };
    command(&mut draft, at, interpreter, &body.join("\n"))?;
    Ok(draft.finish())
}

/// What a line of the script needs that exists on a cluster only.
fn command_notes(draft: &mut Draft, at: Position, line: &str) {
    let first = line.split_whitespace().next().unwrap_or_default();
    if CLUSTER.contains(&first) {
        let why = "belongs to a cluster; on the network the command is run as it is, in `image`";
        draft.note(at, format!("`{first}` {why}"));
    }
    if line.contains("SLURM_") {
        let why = "are not set on the network; members find $TG_RANK and $TG_NODES";
        draft.note(at, format!("variables of Slurm (SLURM_…) {why}"));
    }
}

/// The script, in the language that its first line names.
fn command(
    draft: &mut Draft,
    at: Position,
    interpreter: Option<&str>,
    body: &str,
) -> Result<(), Located> {
    let body = format!("{}\n", body.trim_end());
    let interpreter = interpreter.unwrap_or_default();
    let refuse = |at, key: &str, text: &str| {
        let (key, found) = (key.to_owned(), format!("{} bytes", text.len()));
        Err(Located::new(at, Fault::Expected { key, expected: Script::EXPECTED, found }))
    };
    if Script::read(&body).is_none() {
        return refuse(at, "the script", &body);
    }
    if Word::read(interpreter).is_none() {
        return refuse(Position::START, "the first line", interpreter);
    }
    let mut words = interpreter.split_whitespace().peekable();
    words.next_if(|word| word.ends_with("/env"));
    let program = words.next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let flag = match program {
        "sh" | "dash" | "" => None,
        "bash" | "zsh" | "ksh" | "python" | "python3" => Some("-c"),
        "perl" | "ruby" | "Rscript" => Some("-e"),
        other => {
            let why = "is not known here; the script is given to the shell";
            draft.note(Position::START, format!("`{other}` {why}"));
            None
        }
    };
    let others: Vec<&str> = words.collect();
    let Some(flag) = flag else {
        if !others.is_empty() {
            let what = format!("`{}`: options of the shell are left out", others.join(" "));
            draft.note(Position::START, what);
        }
        draft.run("the script", at, &[Words::Text(body)]);
        return Ok(());
    };
    let list = std::iter::once(program).chain(others).chain([flag, &body]);
    draft.run("the script", at, &[Words::List(list.map(str::to_owned).collect())]);
    Ok(())
}

/// Reads a line of options. Numbers of GPUs of all nodes together are kept for later, when it is
/// known how many nodes there are.
fn options_line(draft: &mut Draft, at: Position, line: &str, totals: &mut Vec<(Position, String)>) {
    let words = split_words(line);
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        let (name, joined) = match word.strip_prefix("--") {
            Some(long) => match long.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (long.to_owned(), None),
            },
            None => match short_option(word) {
                Some(option) => option,
                None => {
                    draft.note(at, format!("`{word}` is no option"));
                    continue;
                }
            },
        };
        let value =
            joined.or_else(|| words.next_if(|next| !next.starts_with('-')).map(str::to_owned));
        let value = value.unwrap_or_default();
        if name == "gpus" {
            totals.push((at, value));
        } else {
            option(draft, at, &name, &value);
        }
    }
}

/// `-J name` or `-Jname`.
fn short_option(word: &str) -> Option<(String, Option<String>)> {
    let mut letters = word.strip_prefix('-')?.chars();
    let letter = letters.next()?;
    let rest = letters.as_str();
    let long = SHORT.iter().find(|(short, _)| *short == letter).map(|(_, long)| *long);
    let name = long.map_or_else(|| letter.to_string(), str::to_owned);
    Some((name, (!rest.is_empty()).then(|| rest.to_owned())))
}

fn option(draft: &mut Draft, at: Position, name: &str, value: &str) {
    let dashes = if name.chars().count() == 1 { "-" } else { "--" };
    let path = format!("{dashes}{name}");
    let unreadable = |draft: &mut Draft, expected: &str| {
        draft.note(at, format!("`{path}`: expected {expected}, found {value:?}"));
    };
    match name {
        "job-name" => draft.name(&path, at, value),
        "time" => match time(value) {
            Some(span) => draft.file.run_max = Some(span),
            None => unreadable(draft, "a time such as 90, 1:30:00 or 2-12"),
        },
        "gpus-per-node" | "gpus-per-task" => gpus(draft, at, &path, value, NonZeroU16::MIN),
        "gres" => {
            for item in value.split(',') {
                match item.strip_prefix("gpu") {
                    Some(rest) => {
                        let rest = rest.trim_start_matches(':');
                        gpus(draft, at, &path, rest, NonZeroU16::MIN);
                    }
                    None => draft.note(at, format!("`{path}`: {item:?} has no counterpart")),
                }
            }
        }
        "mem" => match size_in(value, &UNITS) {
            Some(size) => draft.resources().memory = Some(size),
            None => unreadable(draft, "a size such as 4G"),
        },
        "tmp" => match size_in(value, &UNITS) {
            Some(size) => draft.resources().disk = Some(size),
            None => unreadable(draft, "a size such as 4G"),
        },
        "cpus-per-task" => match Form::read(value) {
            Some(cpus) => draft.resources().cpus = Some(cpus),
            None => unreadable(draft, "a number of processors"),
        },
        "nodes" => nodes(draft, at, &path, value),
        "ntasks" | "ntasks-per-node" if value == "1" => {}
        "export" => exports(draft, at, &path, value),
        "container-image" => image(draft, at, &path, value),
        "container-mounts" => {
            value.split(',').for_each(|item| mount(draft, at, &path, item));
        }
        "output" | "error" => {
            let why = "what the command prints comes with the result";
            draft.note(at, format!("`{path}`: {why}, not in {value:?}"));
        }
        "array" => {
            let why = "hand the file in with `run --array N`; a task finds its number, from 0 on, \
                       in $TG_TASK instead of $SLURM_ARRAY_TASK_ID";
            draft.note(at, format!("`{path}={value}`: {why}"));
        }
        "deadline" => {
            let why = "has no time zone; set `deadline` as in 2026-12-01T08:00:00Z";
            draft.note(at, format!("`{path}={value}` {why}"));
        }
        _ if value.is_empty() => draft.note(at, format!("`{path}` has no counterpart")),
        _ => draft.note(at, format!("`{path}={value}` has no counterpart")),
    }
}

/// `TYPE:N`, `TYPE` or `N`, of all these nodes together; each is given its part, rounded up.
fn gpus(draft: &mut Draft, at: Position, path: &str, value: &str, nodes: NonZeroU16) {
    for item in value.split(',') {
        let (model, count) = match item.rsplit_once(':') {
            Some((model, count)) => (model, count),
            None if whole(item).is_some() || item.is_empty() => ("", item),
            None => (item, ""),
        };
        let count = if count.is_empty() { "1" } else { count };
        let each = |all: NonZeroU16| NonZeroU16::new(all.get().div_ceil(nodes.get()));
        match (NonZeroU16::read(count).and_then(each), model) {
            (Some(count), "") => draft.any_gpu(at, path, u64::from(count.get())),
            (Some(count), model) => draft.gpu(at, path, model, count),
            (None, _) if count == "0" => {}
            (None, _) => draft.note(at, format!("`{path}`: {item:?} is no number of GPUs")),
        }
    }
}

/// `4`, or `2-4`, of which the smaller number must do.
fn nodes(draft: &mut Draft, at: Position, path: &str, value: &str) {
    let (least, most) = value.split_once('-').unwrap_or((value, value));
    match NonZeroU16::read(least) {
        Some(count) => draft.file.num_nodes = count,
        None => draft.note(at, format!("`{path}`: {value:?} is no number of nodes")),
    }
    if least != most {
        draft.note(at, format!("`{path}`: a job has a fixed number of nodes, not {value}"));
    }
}

fn exports(draft: &mut Draft, at: Position, path: &str, value: &str) {
    for item in value.split(',') {
        match item {
            "NONE" | "NIL" => {}
            "ALL" => {
                let why = "a job sees the variables in `envs` only, never all of yours";
                draft.note(at, format!("`{path}=ALL`: {why}"));
            }
            item => draft.variable(path, at, item),
        }
    }
}

/// The image of a container plug-in: `docker://name`, or `registry#name`.
fn image(draft: &mut Draft, at: Position, path: &str, value: &str) {
    let plain = value.strip_prefix("docker://").unwrap_or(value).replacen('#', "/", 1);
    match ImageName::read(&plain) {
        Some(image) => draft.task.image = Some(image),
        None => draft.note(at, format!("`{path}`: expected {}", ImageName::EXPECTED)),
    }
}

fn mount(draft: &mut Draft, at: Position, path: &str, item: &str) {
    let mut parts = item.splitn(3, ':');
    let source = parts.next().and_then(LocalPath::read);
    let target = parts.next().and_then(MountPath::read);
    if let Some(flags) = parts.next().filter(|flags| *flags != "ro") {
        draft.note(at, format!("`{path}`: the flags {flags:?} have no counterpart"));
    }
    match (source, target) {
        (Some(source), Some(target)) => {
            draft.task.file_mounts.insert(target, source);
        }
        (None, _) | (_, None) => {
            draft.note(at, format!("`{path}`: {item:?} is not SOURCE:/ABSOLUTE/PATH"));
        }
    }
}

/// sbatch(1): minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes and
/// days-hours:minutes:seconds.
fn time(text: &str) -> Option<Span> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(whole(days)?), clock),
        None => (None, text),
    };
    let parts: Option<Vec<u64>> = clock.split(':').map(whole).collect();
    let (hours, minutes, seconds) = match (days, parts?.as_slice()) {
        (None, [minutes]) => (0, *minutes, 0),
        (None, [minutes, seconds]) => (0, *minutes, *seconds),
        (Some(_), [hours]) => (*hours, 0, 0),
        (Some(_), [hours, minutes]) => (*hours, *minutes, 0),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return None,
    };
    let total = days.unwrap_or(0).checked_mul(24)?.checked_add(hours)?;
    let total = total.checked_mul(60)?.checked_add(minutes)?;
    let total = total.checked_mul(60)?.checked_add(seconds)?;
    Span::new(DurationMs::new(total.checked_mul(1_000)?))
}

/// Words of an option line: quotes hold them together, a word that begins with # ends the line.
fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::{size_in, split_words, time};
    use crate::units::Size;

    #[test]
    fn times_are_read_as_slurm_reads_them() {
        for (text, expected) in [
            ("90", "1h30m"),
            ("10:30", "10m30s"),
            ("1:30:00", "1h30m"),
            ("2-12", "2d12h"),
            ("1-0:30", "1d30m"),
            ("7-00:00:01", "7d1s"),
        ] {
            assert_eq!(time(text).map(|span| span.to_string()).as_deref(), Some(expected));
        }
        for text in
            ["", "0", "UNLIMITED", "1:2:3:4", "1-", "-1", "1-1:1:1:1", "99999999999999999999"]
        {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn words_are_split_at_spaces_outside_quotes() {
        assert_eq!(split_words(" -J 'my job' --mem=4G # why"), ["-J", "my job", "--mem=4G"]);
        assert_eq!(split_words(r#" --comment="a # b" -N2"#), ["--comment=a # b", "-N2"]);
        assert_eq!(split_words("  "), Vec::<String>::new());
    }

    #[test]
    fn memory_without_a_unit_is_megabytes() {
        assert_eq!(size_in("4096", &super::UNITS), Size::new(4 << 30));
        assert_eq!(size_in("4G", &super::UNITS), Size::new(4 << 30));
        assert_eq!(size_in("0", &super::UNITS), None);
    }
}
