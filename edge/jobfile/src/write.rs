//! The canonical form of a job file: keys in one order, each with its sentence as a comment, every
//! value in its shortest exact form. Reading it gives the same job; a property of the tests.

use crate::file::{JobFile, KeyEscrow, ModelSource, Public, Resources, Run, Verify, Work};
use crate::keys::{RESOURCES, TOP};
use std::fmt::Display;
use tg_types::Features;

/// Spaces of one level.
const STEP: usize = 2;

/// Writes a job.
pub(crate) fn job(job: &JobFile) -> String {
    let mut page = Page { text: String::new() };
    if let Some(name) = &job.name {
        page.top("name", &scalar(name.as_str()));
    }
    match &job.work {
        Work::Model(model) => {
            match &model.source {
                ModelSource::Model(path) => page.top("model", &scalar(path.as_str())),
                ModelSource::Float(path) => {
                    page.top("model", &scalar(path.as_str()));
                    page.top("float", "true");
                }
                ModelSource::Program(path) => page.top("program", &scalar(path.as_str())),
            }
            page.pairs("inputs", &model.inputs);
            page.pairs("outputs", &model.outputs);
        }
        Work::Task(task) => {
            if let Some(image) = &task.image {
                page.top("image", &scalar(image.as_str()));
            }
            if let Some(setup) = &task.setup {
                page.top("setup", &value(setup.as_str(), STEP));
            }
            if let Some(run) = &task.run {
                page.top("run", &command(run));
            }
            page.pairs("envs", &task.envs);
            if !task.secrets.is_empty() {
                page.top("secrets", &flow(task.secrets.iter().map(|name| name.as_str())));
            }
            page.pairs("file_mounts", &task.file_mounts);
            page.pairs("inputs", &task.inputs);
            page.pairs("outputs", &task.outputs);
        }
    }
    rest(&mut page, job);
    page.text
}

/// The keys that every kind of work has.
fn rest(page: &mut Page, job: &JobFile) {
    let lines = resources(&job.resources, true);
    if !lines.is_empty() {
        page.top("resources", &below(&lines));
    }
    if job.num_nodes.get() > 1 {
        page.top("num_nodes", &job.num_nodes.to_string());
    }
    if let Some(service) = &job.service {
        let mut lines = vec![format!("port: {}", service.port)];
        let probe = service.readiness_probe.as_ref();
        lines.extend(probe.map(|path| format!("readiness_probe: {}", scalar(path.as_str()))));
        lines.extend(service.replicas.map(|count| format!("replicas: {count}")));
        page.top("service", &below(&lines));
    }
    if let Some(checkpoint) = &job.checkpoint {
        let mut lines = vec![format!("path: {}", scalar(checkpoint.path.as_str()))];
        lines.extend(checkpoint.every.map(|span| format!("every: {span}")));
        page.top("checkpoint", &below(&lines));
    }
    if let Some(max) = job.budget_max {
        page.top("budget", &below(&[format!("max: {max}")]));
    }
    if let Some(verify) = job.verify {
        page.top("verify", &verify_value(verify));
    }
    page.shown("key_escrow", job.key_escrow.map(KeyEscrow::word));
    page.shown("public", job.public.map(Public::word));
    page.shown("run_max", job.run_max);
    page.shown("deadline", job.deadline);
    page.shown("secret_weights", job.secret_weights.then_some(true));
    page.shown("promise", job.promise.then_some(true));
    page.shown("priority", job.priority);
    if let Work::Task(task) = &job.work
        && task.network
    {
        page.top("network", "true");
    }
}

fn verify_value(verify: Verify) -> String {
    match verify {
        Verify::Redundant { replicas } => {
            below(&["mode: redundant".to_owned(), format!("replicas: {replicas}")])
        }
        Verify::None
        | Verify::Audit
        | Verify::Sync
        | Verify::Optimistic
        | Verify::Proof
        | Verify::Zk
        | Verify::Tee => verify.word().to_owned(),
    }
}

fn command(run: &Run) -> String {
    match run {
        Run::Shell(script) => value(script.as_str(), STEP),
        Run::Program { program, arguments } => {
            let words =
                std::iter::once(program.as_str()).chain(arguments.iter().map(|word| word.as_str()));
            let lines = words.map(|word| format!("- {}", value(word, 2 * STEP)));
            below(&lines.collect::<Vec<_>>())
        }
    }
}

/// The lines of a mapping of resources, without indentation.
fn resources(resources: &Resources, has_comments: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |key: &str, value: Option<String>| {
        let Some(value) = value else { return };
        let about = RESOURCES.about(key);
        let comment = if has_comments { format!("  # {about}") } else { String::new() };
        lines.push(format!("{key}: {value}{comment}"));
    };
    let mut names = resources.accelerators.iter().map(ToString::to_string);
    let one = (resources.accelerators.len() == 1).then(|| names.next()).flatten();
    add("accelerators", one.map(|name| scalar(&name)));
    let many = (resources.accelerators.len() > 1).then(|| flow(names));
    add("accelerators", many);
    add("gpu_memory", resources.gpu_memory.map(|size| format!("{size}+")));
    add("gpu_share", resources.gpu_share.map(|share| share.to_string()));
    let strangers = resources.share_with_strangers;
    add("share_with_strangers", strangers.map(|is_so| is_so.to_string()));
    add("memory", resources.memory.map(|size| size.to_string()));
    add("cpus", resources.cpus.map(|cpus| cpus.to_string()));
    add("disk", resources.disk.map(|size| size.to_string()));
    add("region", resources.region.as_ref().map(|region| scalar(region.as_str())));
    add("home", resources.home.as_ref().map(|home| scalar(home.as_str())));
    let has_features = resources.features != Features::NONE;
    add("features", has_features.then(|| flow(resources.features.words())));
    add("use_spot", resources.use_spot.map(|is_so| is_so.to_string()));
    if !resources.any_of.is_empty() {
        lines.push("any_of:".to_owned());
        lines.extend(resources.any_of.iter().flat_map(alternative));
    }
    lines
}

fn alternative(one: &Resources) -> Vec<String> {
    let inner = resources(one, false);
    if inner.is_empty() {
        return vec!["  - {}".to_owned()];
    }
    let marks = std::iter::once("  - ").chain(std::iter::repeat("    "));
    marks.zip(inner).map(|(mark, line)| format!("{mark}{line}")).collect()
}

struct Page {
    text: String,
}

impl Page {
    /// A key of the file with its sentence above it.
    fn top(&mut self, key: &str, value: &str) {
        let gap = if value.starts_with('\n') { "" } else { " " };
        self.text.push_str(&format!("# {}\n{key}:{gap}{value}\n", TOP.about(key)));
    }

    fn shown(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.top(key, &value.to_string());
        }
    }

    fn pairs<'a, K: Display + 'a, V: Display + 'a>(
        &mut self,
        key: &str,
        pairs: impl IntoIterator<Item = (&'a K, &'a V)>,
    ) {
        let line = |(name, text): (&K, &V)| {
            format!("{}: {}", scalar(&name.to_string()), value(&text.to_string(), 2 * STEP))
        };
        let lines: Vec<String> = pairs.into_iter().map(line).collect();
        if !lines.is_empty() {
            self.top(key, &below(&lines));
        }
    }
}

/// Lines under a key, one step in.
fn below(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n{:STEP$}{line}", "")).collect()
}

fn flow(words: impl Iterator<Item = impl AsRef<str>>) -> String {
    let words: Vec<String> = words.map(|word| scalar(word.as_ref())).collect();
    format!("[{}]", words.join(", "))
}

/// Text as a block if it has several lines and a block can hold it; its lines are indented so far.
fn value(text: &str, indent: usize) -> String {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let is_block = text.contains('\n')
        && !body.is_empty()
        && !body.ends_with('\n')
        && !body.starts_with([' ', '\t', '\n'])
        && body.chars().all(|c| c == '\n' || c == '\t' || is_printable(c))
        && body.split('\n').all(|line| line.is_empty() || !line.trim().is_empty());
    if !is_block {
        return scalar(text);
    }
    let head = if body.len() == text.len() { "|-" } else { "|" };
    let line = |line: &str| match line {
        "" => "\n".to_owned(),
        _ => format!("\n{:indent$}{line}", ""),
    };
    format!("{head}{}", body.split('\n').map(line).collect::<String>())
}

/// Text on one line: bare if nobody can take it for anything else, quoted otherwise.
fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Words that some readers of YAML take for truth values or nothing.
const TYPED: [&str; 10] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "~"];

fn is_plain(text: &str) -> bool {
    let is_start = text.starts_with(|c: char| c.is_ascii_alphanumeric() || "/_".contains(c))
        || text.starts_with("./")
        || text.starts_with("../");
    let is_inside = |c: char| c.is_ascii_alphanumeric() || "_./+@=:%- ".contains(c);
    let is_typed = TYPED.iter().any(|word| text.eq_ignore_ascii_case(word));
    let is_based = ["0x", "0o", "0b"].iter().any(|base| text.starts_with(base));
    let is_numeric = text.starts_with(|c: char| c.is_ascii_digit())
        && !text.contains(|c: char| c.is_ascii_alphabetic());
    let looks_like_number = text.parse::<f64>().is_ok() || is_based || is_numeric;
    let is_ended = text.ends_with(':') || text.ends_with(' ') || text.contains(": ");
    is_start && text.chars().all(is_inside) && !is_typed && !looks_like_number && !is_ended
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            letter if is_printable(letter) => out.push(letter),
            letter => out.push_str(&format!("\\U{:08X}", u32::from(letter))),
        }
    }
    out.push('"');
    out
}

/// What YAML 1.2, production 1, lets stand as it is on one line, without the marks that some
/// readers take for the end of a line or of the file.
fn is_printable(letter: char) -> bool {
    let is_mark = matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    !letter.is_control() && !is_mark
}

#[cfg(test)]
mod tests {
    use super::{scalar, value};
    use crate::yaml;

    #[test]
    fn text_is_quoted_where_it_could_be_something_else() {
        for plain in ["digits", "./a.npy", "RTX4090:1", "a b", "ghcr.io/acme/lora:2", "1st", "/in"]
        {
            assert_eq!(scalar(plain), plain);
        }
        for text in
            ["", "1", "0x1f", "-c", "no", "NULL", "a: b", "a:", "a #b", " a", "a ", "{", "..."]
        {
            assert_ne!(scalar(text), text, "{text:?}");
        }
    }

    #[test]
    fn prop_any_text_reads_back_from_every_place() {
        arbtest::arbtest(|u| {
            let pieces = ["\n", " ", "\t", "a", "#", ": ", "- ", "é", "\u{feff}", "\r", "|", "'"];
            let mut text: String = u.arbitrary()?;
            for _ in 0..u.int_in_range(0..=8)? {
                text.push_str(u.choose(&pieces)?);
            }
            let page = format!("a:\n  b: {}\nc: [{}]\n", value(&text, 4), scalar(&text));
            let read = yaml::parse(&page).unwrap_or_else(|error| panic!("{error:?}\n{page}"));
            let again = yaml::parse(&format!("a: {{b: {0}}}\nc: [{0}]\n", scalar(&text)));
            let texts = |node: &yaml::Node| format!("{:?}", strip(node));
            assert_eq!(texts(&read), texts(&again.expect("reads")), "{page}");
            assert!(texts(&read).contains(&format!("{text:?}")), "{page}");
            Ok(())
        });
    }

    /// The texts of a tree without their places.
    fn strip(node: &yaml::Node) -> Vec<String> {
        match &node.value {
            yaml::Value::Null => vec!["nothing".to_owned()],
            yaml::Value::Text(text) => vec![text.clone()],
            yaml::Value::List(items) => items.iter().flat_map(strip).collect(),
            yaml::Value::Map(entries) => entries.iter().flat_map(|e| strip(&e.node)).collect(),
        }
    }
}
