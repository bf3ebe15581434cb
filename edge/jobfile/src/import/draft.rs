//! A job while it is being translated: what is known of it, and the notes.

use super::{Imported, Note};
use crate::fault::Position;
use crate::file::{Accelerator, JobFile, Resources, Run, Service, Task, Work};
use crate::form::Form;
use crate::units::{Size, decimal, split_unit};
use crate::words::{EnvName, EnvValue, ImageName, Script, Word};
use crate::yaml::{Entry, Node, Value};
use std::num::NonZeroU16;
use tg_types::Name;

/// What stands for "any GPU": no key asks for a GPU without saying something about it.
const ANY_GPU: Size = Size::new(1_000_000_000).expect("a gigabyte is a size");

/// Why the maker's name matters.
pub(super) const MODEL_NAME: &str = "models are compared with the maker's full name, as \
     `tensorgrid nodes` shows it; correct `accelerators` if it differs";

/// A job while it is being translated.
pub(super) struct Draft {
    pub(super) file: JobFile,
    pub(super) task: Task,
    pub(super) notes: Vec<Note>,
}

/// A command as the source writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Words {
    Text(String),
    List(Vec<String>),
}

impl Draft {
    pub(super) fn new() -> Self {
        let file = JobFile::new(Work::Task(Task::default()));
        Self { file, task: Task::default(), notes: Vec::new() }
    }

    pub(super) fn finish(mut self) -> Imported {
        self.notes.sort();
        self.notes.dedup();
        self.file.work = Work::Task(self.task);
        Imported { file: self.file, notes: self.notes }
    }

    pub(super) fn resources(&mut self) -> &mut Resources {
        &mut self.file.resources
    }

    pub(super) fn note(&mut self, at: Position, what: impl Into<String>) {
        self.notes.push(Note { line: at.line, what: what.into() });
    }

    /// A key without a counterpart.
    pub(super) fn drop_key(&mut self, path: &str, entry: &Entry) {
        self.note(entry.at, format!("`{}` has no counterpart", join(path, &entry.key)));
    }

    /// A key without a counterpart, and what to do instead.
    pub(super) fn drop_key_because(&mut self, path: &str, entry: &Entry, why: &str) {
        self.note(entry.at, format!("`{}`: {why}", join(path, &entry.key)));
    }

    /// The entries of a mapping; anything else is noted.
    pub(super) fn entries<'n>(&mut self, path: &str, node: &'n Node) -> &'n [Entry] {
        match &node.value {
            Value::Map(entries) => return entries,
            Value::Null => {}
            Value::Text(_) | Value::List(_) => {
                self.note(node.at, format!("`{path}`: expected a mapping, found {}", node.found()));
            }
        }
        &[]
    }

    /// The items of a list; anything else is noted.
    pub(super) fn items<'n>(&mut self, path: &str, node: &'n Node) -> &'n [Node] {
        match &node.value {
            Value::List(items) => return items,
            Value::Null => {}
            Value::Text(_) | Value::Map(_) => {
                self.note(node.at, format!("`{path}`: expected a list, found {}", node.found()));
            }
        }
        &[]
    }

    /// A value of a known form; anything else is noted.
    pub(super) fn read<T: Form>(&mut self, path: &str, node: &Node) -> Option<T> {
        let read = node.text().and_then(T::read);
        if read.is_none() {
            self.unreadable(path, node, T::EXPECTED);
        }
        read
    }

    pub(super) fn unreadable(&mut self, path: &str, node: &Node, expected: &str) {
        self.note(node.at, format!("`{path}`: expected {expected}, found {}", node.found()));
    }

    /// A piece of text; anything else is noted.
    pub(super) fn text<'n>(&mut self, path: &str, node: &'n Node) -> Option<&'n str> {
        let text = node.text();
        if text.is_none() {
            self.unreadable(path, node, "text");
        }
        text
    }

    /// The job's name.
    pub(super) fn name(&mut self, path: &str, at: Position, text: &str) {
        match Name::read(text) {
            Some(name) => self.file.name = Some(name),
            None => self.note(at, format!("`{path}`: a name has {}", Name::EXPECTED)),
        }
    }

    /// A variable, as `NAME=value` or, to be taken from the client's environment, as `NAME`.
    pub(super) fn variable(&mut self, path: &str, at: Position, text: &str) {
        match text.split_once('=') {
            Some((name, value)) => self.variable_value(path, at, name, value),
            None => self.secret(path, at, text),
        }
    }

    pub(super) fn variable_value(&mut self, path: &str, at: Position, name: &str, value: &str) {
        match (EnvName::read(name), EnvValue::read(value)) {
            (Some(name), Some(value)) => {
                if self.task.envs.insert(name.clone(), value).is_some() {
                    self.note(at, format!("`{path}`: {name} is set twice; the last one holds"));
                }
            }
            (None, _) => {
                let expected = EnvName::EXPECTED;
                self.note(at, format!("`{path}`: {name:?} is not {expected}"));
            }
            (Some(name), None) => {
                self.note(at, format!("`{path}`: the value of {name} is too long"));
            }
        }
    }

    pub(super) fn secret(&mut self, path: &str, at: Position, name: &str) {
        match EnvName::read(name) {
            Some(name) => {
                self.note(at, format!("`{path}`: {name} has no value; it is in `secrets` now"));
                self.task.secrets.insert(name);
            }
            None => self.note(at, format!("`{path}`: {name:?} is not {}", EnvName::EXPECTED)),
        }
    }

    /// A command as text or as a list of words.
    pub(super) fn words(&mut self, path: &str, node: &Node) -> Option<Words> {
        match &node.value {
            Value::Text(text) => Some(Words::Text(text.clone())),
            Value::List(items) => {
                let words = items.iter().filter_map(|item| self.text(path, item));
                Some(Words::List(words.map(str::to_owned).collect()))
            }
            Value::Null | Value::Map(_) => {
                self.unreadable(path, node, "a command");
                None
            }
        }
    }

    /// What is started: the words of the entry point, followed by those of the command.
    pub(super) fn run(&mut self, path: &str, at: Position, parts: &[Words]) {
        let lists: Option<Vec<&[String]>> = parts
            .iter()
            .map(|part| if let Words::List(words) = part { Some(words.as_slice()) } else { None })
            .collect();
        let run = match lists {
            Some(lists) => {
                let words: Vec<&String> = lists.into_iter().flatten().collect();
                let program = words.first().and_then(|word| Script::read(word));
                let arguments = words.iter().skip(1).map(|word| Word::read(word));
                let arguments: Option<Vec<Word>> = arguments.collect();
                program
                    .zip(arguments)
                    .map(|(program, arguments)| Run::Program { program, arguments })
            }
            None => {
                let texts: Vec<String> = parts.iter().map(Words::for_shell).collect();
                Script::read(&texts.join(" ")).map(Run::Shell)
            }
        };
        if run.is_none() {
            self.note(at, format!("`{path}`: expected {}", Script::EXPECTED));
        }
        self.task.run = run;
    }

    /// A port at which the job answers; there is one.
    pub(super) fn port(&mut self, path: &str, at: Position, text: &str) {
        match (NonZeroU16::read(text), &self.file.service) {
            (Some(port), None) => {
                self.file.service = Some(Service { port, readiness_probe: None, replicas: None });
            }
            (Some(port), Some(_)) => {
                self.note(at, format!("`{path}`: a service has one port; {port} is left out"));
            }
            (None, _) => self.note(at, format!("`{path}`: {text:?} is no port")),
        }
    }

    /// GPUs of no particular model.
    pub(super) fn any_gpu(&mut self, at: Position, path: &str, count: u64) {
        let resources = self.resources();
        resources.gpu_memory = Some(resources.gpu_memory.unwrap_or(ANY_GPU));
        self.note(at, format!("`{path}`: a GPU is asked for as `gpu_memory`; raise it as needed"));
        if count > 1 {
            self.note(at, format!("`{path}`: one GPU is asked for; {count} need a model's name"));
        }
    }

    /// GPUs of a model, as one more alternative.
    pub(super) fn gpu(&mut self, at: Position, path: &str, model: &str, count: NonZeroU16) {
        let one = Name::read(model).and_then(|model| Accelerator::new(model, count));
        let Some(one) = one else {
            self.note(at, format!("`{path}`: {model:?} is no name of a GPU"));
            return;
        };
        if !self.resources().accelerators.contains(&one) {
            self.resources().accelerators.push(one);
        }
        self.note(at, format!("`{path}`: {MODEL_NAME}"));
    }
}

impl Words {
    fn for_shell(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::List(words) => {
                let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
                words.join(" ")
            }
        }
    }
}

/// Whether a service names an image that can be one. Without it there is nothing to run.
pub(super) fn has_image(node: &Node) -> bool {
    let Value::Map(entries) = &node.value else { return false };
    let mut images = entries.iter().filter(|entry| entry.key == "image");
    images.any(|entry| entry.node.text().and_then(ImageName::read).is_some())
}

/// One word as the shell reads it.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// A number with one of these units behind it.
pub(super) fn size_in(text: &str, units: &[(&str, u64)]) -> Option<Size> {
    let (number, unit) = split_unit(text.trim());
    let (_, scale) = units.iter().find(|(name, _)| *name == unit.trim())?;
    Size::new(decimal(number, *scale)?)
}
