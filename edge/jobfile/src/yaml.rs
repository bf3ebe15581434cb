//! YAML as a tree in which every node knows its place.
//!
//! The parser gives events; the tree is built here, because this is where the bounds are: size
//! before anything is parsed, depth before anything is kept, and no aliases, so the tree is never
//! larger than its text. Scalars stay text: what they mean is decided by the key they stand under,
//! so `0.10` is an amount to the digit and `no` is not a truth value.

use crate::fault::{Fault, Located, Position};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};
use std::collections::BTreeMap;

/// The largest file that is read. Job files have a few hundred bytes, and the scripts in them a few
/// thousand.
pub const BYTES_MAX: usize = 256 * 1024;
/// How deep lists and mappings may be nested. A compose file needs about eight.
pub const DEPTH_MAX: usize = 16;

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) value: Value,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Nothing: an empty place, `~` or `null`.
    Null,
    /// One piece of text, whatever its style.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping in the order of the file, each key once.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    pub(crate) node: Node,
}

impl Node {
    /// What is here, for a message.
    pub(crate) fn found(&self) -> String {
        /// Enough to recognise it.
        const LETTERS_MAX: usize = 40;
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
            Value::Text(text) if text.chars().count() > LETTERS_MAX => {
                let start: String = text.chars().take(LETTERS_MAX).collect();
                format!("{start:?}…")
            }
            Value::Text(text) => format!("{text:?}"),
        }
    }

    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }
}

/// Reads one document.
pub(crate) fn parse(text: &str) -> Result<Node, Located> {
    if text.len() > BYTES_MAX {
        let fault = Fault::TooLarge { bytes: text.len(), max: BYTES_MAX };
        return Err(Located::new(Position::START, fault));
    }
    let mut parser = Parser::new_from_str(text);
    let mut builder = Builder { open: Vec::new(), root: None };
    while let Some((event, at)) = next(&mut parser)? {
        builder.take(event, at)?;
    }
    let empty = Located::new(Position::START, Fault::Empty);
    builder.root.filter(|root| root.value != Value::Null).ok_or(empty)
}

fn next<'t>(
    parser: &mut Parser<'t, StrInput<'t>>,
) -> Result<Option<(Event<'t>, Position)>, Located> {
    match parser.next_event() {
        None => Ok(None),
        Some(Ok((event, span))) => Ok(Some((event, position(span.start)))),
        Some(Err(error)) => {
            let fault = Fault::Syntax { detail: error.info().to_owned() };
            Err(Located::new(position(*error.marker()), fault))
        }
    }
}

fn position(marker: Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col().saturating_add(1) }
}

/// A list or mapping whose end has not come yet.
enum Open {
    List {
        at: Position,
        items: Vec<Node>,
    },
    Map {
        at: Position,
        entries: Vec<Entry>,
        key: Option<(String, Position)>,
        /// The keys so far with their lines, to find a repeated one without looking at all.
        lines: BTreeMap<String, usize>,
    },
}

struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Position) -> Result<(), Located> {
        let refuse = |fault| Err(Located::new(at, fault));
        match event {
            Event::Alias(_) => refuse(Fault::Alias),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                refuse(Fault::Alias)
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => refuse(Fault::Tag),
            Event::DocumentStart(_) if self.root.is_some() => refuse(Fault::SecondDocument),
            Event::Scalar(text, style, _, None) => {
                let is_null = style == ScalarStyle::Plain
                    && matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL");
                let value = if is_null { Value::Null } else { Value::Text(text.into_owned()) };
                self.put(Node { at, value })
            }
            Event::SequenceStart(_, None) => self.begin(Open::List { at, items: Vec::new() }, at),
            Event::MappingStart(_, None) => {
                let (entries, lines) = (Vec::new(), BTreeMap::new());
                self.begin(Open::Map { at, entries, key: None, lines }, at)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn begin(&mut self, open: Open, at: Position) -> Result<(), Located> {
        if self.open.len() >= DEPTH_MAX {
            return Err(Located::new(at, Fault::TooDeep { max: DEPTH_MAX }));
        }
        self.open.push(open);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Located> {
        let node = match self.open.pop() {
            None => return Ok(()),
            Some(Open::List { at, items }) => Node { at, value: Value::List(items) },
            Some(Open::Map { at, entries, key: _, lines: _ }) => {
                Node { at, value: Value::Map(entries) }
            }
        };
        self.put(node)
    }

    /// Puts a finished node where it belongs.
    fn put(&mut self, node: Node) -> Result<(), Located> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, lines, .. }) => match key.take() {
                Some((key, at)) => {
                    // Nothing has no place of its own; the parser says where it stopped looking.
                    let is_null = node.value == Value::Null;
                    let node = if is_null { Node { at, ..node } } else { node };
                    entries.push(Entry { key, at, node });
                }
                None => {
                    let Value::Text(text) = node.value else {
                        return Err(Located::new(node.at, Fault::KeyForm));
                    };
                    if let Some(first) = lines.insert(text.clone(), node.at.line) {
                        let fault = Fault::RepeatedKey { key: text, first };
                        return Err(Located::new(node.at, fault));
                    }
                    *key = Some((text, node.at));
                }
            },
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, DEPTH_MAX, Node, Value, parse};
    use crate::fault::Fault;

    fn shape(node: &Node) -> String {
        match &node.value {
            Value::Null => "~".to_owned(),
            Value::Text(text) => format!("{text:?}@{}", node.at),
            Value::List(items) => {
                format!("[{}]", items.iter().map(shape).collect::<Vec<_>>().join(" "))
            }
            Value::Map(entries) => {
                let one = entries.iter().map(|e| format!("{}@{}={}", e.key, e.at, shape(&e.node)));
                format!("{{{}}}", one.collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(parse(text).map(|node| shape(&node)).as_deref(), Ok(expected));
    }

    #[track_caller]
    fn refused(text: &str, place: &str, fault: Fault) {
        let error = parse(text).expect_err("refused");
        assert_eq!((error.at.to_string().as_str(), error.fault), (place, fault));
    }

    #[test]
    fn nodes_know_their_places() {
        check("a: 1\nb:\n  - x\n  - ~\n", r#"{a@1:1="1"@1:4 b@2:1=["x"@3:5 ~]}"#);
        check("{a: {b: 'no'}, c: }", r#"{a@1:2={b@1:6="no"@1:9} c@1:16=~}"#);
        check("---\na: \"null\"\n...\n", r#"{a@2:1="null"@2:4}"#);
    }

    #[test]
    fn what_could_grow_or_mislead_is_refused() {
        refused("a: &x 1\nb: *x\n", "1:4", Fault::Alias);
        refused("a: 1\na: 2\n", "2:1", Fault::RepeatedKey { key: "a".into(), first: 1 });
        refused("a: !!str 1\n", "1:4", Fault::Tag);
        refused("a: 1\n---\nb: 2\n", "2:1", Fault::SecondDocument);
        refused("? [a]\n: 1\n", "1:3", Fault::KeyForm);
        refused("# only a comment\n", "1:1", Fault::Empty);
        refused("", "1:1", Fault::Empty);
        let deep = "[".repeat(DEPTH_MAX + 1);
        refused(&deep, &format!("1:{}", DEPTH_MAX + 1), Fault::TooDeep { max: DEPTH_MAX });
        let large = "#".repeat(BYTES_MAX + 1);
        refused(&large, "1:1", Fault::TooLarge { bytes: BYTES_MAX + 1, max: BYTES_MAX });
        let syntax = parse("a: [1, 2\n").expect_err("refused");
        assert!(matches!(syntax.fault, Fault::Syntax { .. }));
    }

    /// Goal: no file of full size takes more than it should. Method: pieces that open something,
    /// over and over; a reader that looks back from each of them would not come to an end.
    #[test]
    fn hostile_files_of_full_size_end() {
        let pieces = [
            "[", "{", "- ", "? ", "a: ", "\"", "'", "|\n ", "&a ", "!a ", "a:\n", "[a, ", "{a: ",
            "\u{feff}", "%a\n", "*a ",
        ];
        let read = |piece: &&&str| parse(&piece.repeat(BYTES_MAX / piece.len())).is_ok();
        let accepted: Vec<&&str> = pieces.iter().filter(read).collect();
        assert_eq!(accepted, [&"'", &"|\n "]);
        let keys: String = (0..30_000).map(|key| format!("{key}:\n")).collect();
        assert!(parse(&keys).is_ok());
    }
}
