//! A look over the bytes of a model before the runtime reads them.
//!
//! The runtime's reader follows whatever the file says: graphs within graphs until the stack ends,
//! and messages of two bytes that become structures of hundreds. The survey walks the same messages
//! ([onnx.proto3]) without keeping any of it, counts, and refuses what is beyond the bounds. It
//! understands only what it needs for that; whether the file is a sound model the runtime decides.
//!
//! [onnx.proto3]: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3

use std::collections::BTreeSet;

use crate::arrays::{ELEMENTS_MAX, NAME_BYTES_MAX, RANK_MAX, elements};

/// Bytes of a model. What a job may weigh ends well before.
pub const MODEL_BYTES_MAX: usize = 512 << 20;

/// Nodes of a model, those of inner graphs included. The largest published models have some ten
/// thousand.
pub const NODES_MAX: usize = 100_000;

/// Messages and texts in a model: names, attributes, tensors, values. A hundred for each of the
/// most nodes that published models have, and it bounds what a small file can become in memory.
pub const ITEMS_MAX: usize = 1 << 21;

/// Graphs within graphs. A loop within a branch within a loop is three deep.
pub const DEPTH_MAX: usize = 8;

/// Bytes of the longest varint: ten times seven bits hold 64.
const VARINT_BYTES_MAX: usize = 10;

/// Bytes that are no model within the bounds. `at` is a position in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// Too long to be looked at.
    #[error("{found} bytes, at most {MODEL_BYTES_MAX}")]
    TooLarge {
        /// How long.
        found: usize,
    },
    /// The bytes are no protocol buffer.
    #[error("byte {at} is not what a protocol buffer has there")]
    Wire {
        /// Where.
        at: usize,
    },
    /// There is no graph.
    #[error("there is no graph")]
    NoGraph,
    /// More than a bound allows.
    #[error("more than {max} {what}, at byte {at}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        max: usize,
        /// Where it was passed.
        at: usize,
    },
    /// A tensor whose shape is beyond the bounds.
    #[error("tensor at byte {at} has more than {ELEMENTS_MAX} elements or {RANK_MAX} sides")]
    Tensor {
        /// Where.
        at: usize,
    },
    /// A tensor whose numbers are in another file.
    #[error("numbers of the tensor at byte {at} are in another file")]
    External {
        /// Where.
        at: usize,
    },
}

/// What the survey found.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The operators, as the runtime names them: with a domain if it is not the usual one.
    pub(crate) operators: BTreeSet<String>,
    nodes: usize,
    items: usize,
}

impl Survey {
    /// Looks over a model.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, FormError> {
        if bytes.len() > MODEL_BYTES_MAX {
            return Err(FormError::TooLarge { found: bytes.len() });
        }
        let mut survey = Self::default();
        let mut has_graph = false;
        let mut message = Message { rest: bytes, at: 0 };
        while let Some(field) = survey.next(&mut message)? {
            if let (7, Content::Bytes(graph)) = (field.number, field.content) {
                has_graph = true;
                survey.graph(graph, 1)?;
            }
        }
        if has_graph { Ok(survey) } else { Err(FormError::NoGraph) }
    }

    /// The next field of a message, counted.
    fn next<'a>(&mut self, message: &mut Message<'a>) -> Result<Option<Field<'a>>, FormError> {
        let field = message.field()?;
        if let Some(Field { content: Content::Bytes(Message { at, .. }), .. }) = field {
            self.items += 1; // bounded by the line below
            if self.items > ITEMS_MAX {
                return Err(FormError::TooMany { what: "messages and texts", max: ITEMS_MAX, at });
            }
        }
        Ok(field)
    }

    fn graph(&mut self, mut graph: Message<'_>, depth: usize) -> Result<(), FormError> {
        if depth > DEPTH_MAX {
            let (what, max) = ("graphs within each other", DEPTH_MAX);
            return Err(FormError::TooMany { what, max, at: graph.at });
        }
        while let Some(field) = self.next(&mut graph)? {
            match (field.number, field.content) {
                (1, Content::Bytes(node)) => self.node(node, depth)?,
                (5, Content::Bytes(tensor)) => self.tensor(tensor)?,
                (11..=13, Content::Bytes(value)) => self.count(value, VALUE_DEPTH)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn node(&mut self, mut node: Message<'_>, depth: usize) -> Result<(), FormError> {
        self.nodes += 1; // bounded by the line below
        if self.nodes > NODES_MAX {
            return Err(FormError::TooMany { what: "nodes", max: NODES_MAX, at: node.at });
        }
        let (mut operator, mut domain) = (String::new(), String::new());
        while let Some(field) = self.next(&mut node)? {
            match (field.number, field.content) {
                (4, Content::Bytes(text)) => operator = text.name(),
                (5, Content::Bytes(attribute)) => self.attribute(attribute, depth)?,
                (7, Content::Bytes(text)) => domain = text.name(),
                _ => {}
            }
        }
        let is_usual = domain.is_empty() || domain == "ai.onnx";
        self.operators.insert(if is_usual { operator } else { format!("{domain}/{operator}") });
        Ok(())
    }

    fn attribute(&mut self, mut attribute: Message<'_>, depth: usize) -> Result<(), FormError> {
        while let Some(field) = self.next(&mut attribute)? {
            match (field.number, field.content) {
                (5 | 10, Content::Bytes(tensor)) => self.tensor(tensor)?,
                (6 | 11, Content::Bytes(graph)) => self.graph(graph, depth + 1)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn tensor(&mut self, mut tensor: Message<'_>) -> Result<(), FormError> {
        let at = tensor.at;
        let mut shape = Vec::new();
        while let Some(field) = self.next(&mut tensor)? {
            match (field.number, field.content) {
                (1, Content::Varint(side)) => push(&mut shape, side, at)?,
                (1, Content::Bytes(mut packed)) => {
                    while !packed.rest.is_empty() {
                        push(&mut shape, packed.varint()?, at)?;
                    }
                }
                (14, Content::Varint(1)) => return Err(FormError::External { at }),
                _ => {}
            }
        }
        let count = elements(&shape).filter(|count| *count <= ELEMENTS_MAX);
        count.map(|_| ()).ok_or(FormError::Tensor { at })
    }

    /// Counts messages within messages of which nothing else is asked.
    fn count(&mut self, mut message: Message<'_>, depth_max: usize) -> Result<(), FormError> {
        while let Some(field) = self.next(&mut message)? {
            if let (Content::Bytes(inner), Some(depth_max)) =
                (field.content, depth_max.checked_sub(1))
            {
                // What is text to others may be no message, and then there is nothing to count.
                match self.count(inner, depth_max) {
                    Ok(()) | Err(FormError::Wire { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// Messages within a value's description: its type, the type of a tensor, its shape, its sides.
const VALUE_DEPTH: usize = 4;

fn push(shape: &mut Vec<usize>, side: u64, at: usize) -> Result<(), FormError> {
    let side = usize::try_from(side).ok().filter(|side| *side <= ELEMENTS_MAX);
    let (Some(side), true) = (side, shape.len() < RANK_MAX) else {
        return Err(FormError::Tensor { at });
    };
    shape.push(side);
    Ok(())
}

/// Fields that are still to be read, and where they begin in the file.
#[derive(Clone, Copy)]
struct Message<'a> {
    rest: &'a [u8],
    at: usize,
}

struct Field<'a> {
    number: u64,
    content: Content<'a>,
}

enum Content<'a> {
    Varint(u64),
    Bytes(Message<'a>),
    /// Four or eight bytes.
    Fixed,
}

impl<'a> Message<'a> {
    fn field(&mut self) -> Result<Option<Field<'a>>, FormError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let at = self.at;
        let key = self.varint()?;
        let content = match key & 7 {
            0 => Content::Varint(self.varint()?),
            1 => self.take(8).map(|_| Content::Fixed)?,
            2 => {
                let length = self.varint()?;
                Content::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Content::Fixed)?,
            _ => return Err(FormError::Wire { at }),
        };
        Ok(Some(Field { number: key >> 3, content }))
    }

    fn varint(&mut self) -> Result<u64, FormError> {
        let wrong = FormError::Wire { at: self.at };
        let mut value = 0_u64;
        for (index, byte) in self.rest.iter().enumerate().take(VARINT_BYTES_MAX) {
            // The tenth byte has room for one bit; others are cut as other readers do.
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.take(index as u64 + 1)?;
                return Ok(value);
            }
        }
        Err(wrong)
    }

    fn take(&mut self, length: u64) -> Result<Self, FormError> {
        let wrong = FormError::Wire { at: self.at };
        let length = usize::try_from(length).map_err(|_| wrong.clone())?;
        let (head, rest) = self.rest.split_at_checked(length).ok_or(wrong)?;
        let taken = Self { rest: head, at: self.at };
        (self.rest, self.at) = (rest, self.at + length);
        Ok(taken)
    }

    /// The bytes as a name, cut: it is only compared and shown.
    fn name(self) -> String {
        let bytes = self.rest.get(..NAME_BYTES_MAX).unwrap_or(self.rest);
        String::from_utf8_lossy(bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{DEPTH_MAX, FormError, ITEMS_MAX, MODEL_BYTES_MAX, NODES_MAX, Survey};
    use crate::testing::{Graph, Writer, affine};

    fn check(graph: &Graph) -> Result<Survey, FormError> {
        Survey::of(&graph.to_bytes())
    }

    #[test]
    fn operators_are_found_at_every_depth() {
        let inner = Graph::new().node("Sin", &["a"], &["b"]);
        let outer = Graph::new()
            .node("Relu", &["x"], &["y"])
            .node_with("If", &["c"], &["z"], |node| node.graph_attribute("then_branch", &inner))
            .node_in("com.example", "Odd", &["x"], &["w"]);
        let survey = check(&outer).expect("within bounds");
        let names: Vec<&str> = survey.operators.iter().map(String::as_str).collect();
        assert_eq!(names, ["If", "Relu", "Sin", "com.example/Odd"]);
        assert_eq!(survey.nodes, 4);
    }

    #[test]
    fn bounds_hold_to_the_number() {
        let nest = |depth: usize| {
            (1..depth).fold(Graph::new(), |inner, _| {
                Graph::new().node_with("If", &[], &[], |node| node.graph_attribute("g", &inner))
            })
        };
        assert!(check(&nest(DEPTH_MAX)).is_ok());
        let deep = check(&nest(DEPTH_MAX + 1)).expect_err("too deep");
        assert!(matches!(deep, FormError::TooMany { max: DEPTH_MAX, .. }), "{deep}");

        let mut nodes = Writer::default();
        (0..NODES_MAX).for_each(|_| nodes.bytes(1, &[]));
        let graph = |nodes: &Writer| {
            let mut model = Writer::default();
            model.bytes(7, nodes.as_slice());
            Survey::of(model.as_slice()).map(|survey| survey.nodes)
        };
        assert_eq!(graph(&nodes), Ok(NODES_MAX));
        nodes.bytes(1, &[]);
        assert!(matches!(graph(&nodes), Err(FormError::TooMany { max: NODES_MAX, .. })));

        let mut names = Writer::default();
        (0..ITEMS_MAX).for_each(|_| names.bytes(2, &[]));
        assert!(matches!(graph(&names), Err(FormError::TooMany { max: ITEMS_MAX, .. })));

        let large = vec![0; MODEL_BYTES_MAX + 1];
        assert!(matches!(Survey::of(&large), Err(FormError::TooLarge { .. })));
    }

    #[test]
    fn tensors_that_claim_too_much_or_lie_elsewhere_are_refused() {
        let shaped = |dims: &[i64]| check(&Graph::new().tensor("w", dims, &[]));
        assert!(shaped(&[1 << 28]).is_ok(), "whether the numbers are there the runtime asks");
        for dims in [&[1 << 29][..], &[1 << 20, 1 << 20], &[-1], &[1; 17]] {
            let refused = shaped(dims).expect_err("beyond the bounds");
            assert!(matches!(refused, FormError::Tensor { .. }), "{dims:?}");
        }
        let mut tensor = Writer::default();
        tensor.int(14, 1);
        let mut graph = Writer::default();
        graph.bytes(5, tensor.as_slice());
        let mut model = Writer::default();
        model.bytes(7, graph.as_slice());
        let refused = Survey::of(model.as_slice()).expect_err("elsewhere");
        assert!(matches!(refused, FormError::External { .. }));
    }

    #[test]
    fn bytes_without_a_graph_are_no_model() {
        assert_eq!(Survey::of(&[]).err(), Some(FormError::NoGraph));
        assert_eq!(Survey::of(&[0xff; 11]).err(), Some(FormError::Wire { at: 0 }));
        assert_eq!(Survey::of(b"\x3a\x7f").err(), Some(FormError::Wire { at: 2 }));
        assert_eq!(Survey::of(b"\x0b").err(), Some(FormError::Wire { at: 0 }));
    }

    #[test]
    fn prop_any_bytes_are_surveyed_or_refused() {
        arbtest::arbtest(|u| {
            let mut bytes = affine().to_bytes();
            for _ in 0..u.int_in_range(0..=3)? {
                let at = u.choose_index(bytes.len())?;
                bytes[at] = u.arbitrary()?;
            }
            bytes.truncate(u.int_in_range(0..=bytes.len())?);
            if let Ok(survey) = Survey::of(&bytes) {
                assert!(survey.nodes <= bytes.len() && survey.items <= bytes.len());
            }
            Ok(())
        });
    }
}
