//! The part of ONNX's file format that the importer needs, read and written.
//!
//! A file is a protocol buffer ([onnx.proto3]). It is read by hand because a generated reader
//! trusts the lengths it finds; this one holds every length against the bytes left, every count
//! against a bound, and names the position of what it refuses. Fields that do not matter here are
//! skipped. Nesting needs no bound: the structure of the messages fixes it, since graphs within
//! attributes are noted, not read.
//!
//! The writer gives the same subset back. Tests build models with it, and [`crate::float`] hands
//! its normalised graphs to the float engine through it.
//!
//! [onnx.proto3]: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3

mod tensor;
mod wire;

pub(crate) use tensor::finite;
pub use tensor::{TensorError, TensorProto};

use wire::{Budget, Reader, Writer};

/// Bytes of a whole file. Protocol buffers end at two gibibytes, and what a job may weigh ends
/// well before one.
pub const FILE_BYTES_MAX: usize = 1 << 30;

/// Nodes of a graph. The largest published models of the supported kind have some ten thousand.
pub const NODES_MAX: usize = 100_000;

/// Messages and texts in a file. Each takes up to two hundred bytes once read, so this is what
/// bounds the memory a small file can claim: 400 MiB.
pub const ITEMS_MAX: usize = 1 << 21;

/// Bytes of one name. Exporters write the path of a module; the longest seen have some 300.
pub const NAME_BYTES_MAX: usize = 4096;

/// Sides of a shape. Nothing published goes beyond six.
pub const RANK_MAX: usize = 8;

/// Numbers in one list attribute: a `Constant` may hold a table, but large ones are tensors.
pub const LIST_MAX: usize = 1 << 16;

/// Elements of one tensor.
pub const ELEMENTS_MAX: usize = 1 << 28;

/// Bytes that are no ONNX model. `at` is a position in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// The file is too large to be looked at.
    #[error("the file has {found} bytes, at most {max} are read")]
    FileSize {
        /// How many bytes there are.
        found: usize,
        /// How many are allowed.
        max: usize,
    },
    /// The input ends inside a value.
    #[error("input ends early: at byte {at} needed {needed} more, {left} left")]
    Truncated {
        /// Where the missing piece starts.
        at: usize,
        /// How many bytes it takes.
        needed: usize,
        /// How many there are.
        left: usize,
    },
    /// An integer of more than 64 bits.
    #[error("integer at byte {at} has more than 64 bits")]
    Varint {
        /// Where it starts.
        at: usize,
    },
    /// A field with the number zero, which the format forbids.
    #[error("field at byte {at} has the number zero")]
    FieldNumber {
        /// Where the field starts.
        at: usize,
    },
    /// A form that the format does not know or that nothing here uses.
    #[error("field at byte {at} has the unknown wire form {form}")]
    WireForm {
        /// Where the field starts.
        at: usize,
        /// The form found.
        form: u64,
    },
    /// A known field with content of another form than it must have.
    #[error("field {number} at byte {at} has content of the wrong form")]
    FieldForm {
        /// Where the content starts.
        at: usize,
        /// The field's number.
        number: u64,
    },
    /// More than the bound allows.
    #[error("at byte {at} there are more than {max} {what}")]
    TooMany {
        /// Where the bound was passed.
        at: usize,
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// The file holds no graph.
    #[error("the file holds no graph")]
    NoGraph,
}

/// A model: a graph and the operator sets it is written in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelProto {
    /// Version of the format. Nothing the importer does depends on it.
    pub ir_version: i64,
    /// The operator sets.
    pub opsets: Vec<OpsetProto>,
    /// The graph.
    pub graph: GraphProto,
}

/// An operator set that the graph uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpsetProto {
    /// Whose operators. Empty for the standard ones.
    pub domain: String,
    /// The version.
    pub version: i64,
}

/// A graph: nodes that compute values from inputs and initialisers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphProto {
    /// The graph's name.
    pub name: String,
    /// The nodes, in any order.
    pub nodes: Vec<NodeProto>,
    /// Constants with names.
    pub initializers: Vec<TensorProto>,
    /// Declared inputs. Old files list the initialisers here as well.
    pub inputs: Vec<ValueInfoProto>,
    /// Declared outputs.
    pub outputs: Vec<ValueInfoProto>,
    /// Declared types of values in between. The importer infers its own.
    pub values: Vec<ValueInfoProto>,
}

/// One operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeProto {
    /// Names of the operands. An empty name stands for an optional one left out.
    pub inputs: Vec<String>,
    /// Names of the results. An empty name stands for one that nobody wants.
    pub outputs: Vec<String>,
    /// The node's own name, often empty.
    pub name: String,
    /// The operator.
    pub operator: String,
    /// Whose operator. Empty for the standard ones.
    pub domain: String,
    /// Parameters.
    pub attributes: Vec<AttributeProto>,
}

/// A named parameter of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeProto {
    /// The name.
    pub name: String,
    /// The value.
    pub value: AttributeValue,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// A float.
    Float(f32),
    /// An integer or a flag.
    Int(i64),
    /// A text.
    Text(String),
    /// A tensor.
    Tensor(TensorProto),
    /// Floats.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Texts.
    Texts(Vec<String>),
    /// One or more graphs, which are not read.
    Graph,
    /// A kind that no supported operator uses, by its number, or none at all.
    Other(i64),
}

/// A value's declared name and type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueInfoProto {
    /// The name.
    pub name: String,
    /// The number of the element kind, 0 if not declared or no tensor.
    pub element: i64,
    /// The shape, if declared.
    pub shape: Option<Vec<DimensionProto>>,
}

/// One side of a declared shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DimensionProto {
    /// A number. Some exporters write zero or less for a side that is not known.
    Value(i64),
    /// A name: the side is not known.
    Param(String),
    /// Nothing was declared.
    Unknown,
}

impl ModelProto {
    /// Reads a file of at most `bytes_max` bytes.
    pub fn read(bytes: &[u8], bytes_max: usize) -> Result<Self, ProtoError> {
        let max = bytes_max.min(FILE_BYTES_MAX);
        if bytes.len() > max {
            return Err(ProtoError::FileSize { found: bytes.len(), max });
        }
        let budget = Budget::new(ITEMS_MAX);
        let mut model = Self::default();
        let mut graph = None;
        let mut reader = Reader::new(bytes, 0);
        while let Some(field) = reader.field()? {
            match field.number {
                1 => model.ir_version = field.int()?,
                7 => graph = Some(GraphProto::read(field.message(&budget)?, &budget)?),
                8 => model.opsets.push(OpsetProto::read(field.message(&budget)?, &budget)?),
                _ => {}
            }
        }
        model.graph = graph.ok_or(ProtoError::NoGraph)?;
        Ok(model)
    }

    /// The bytes of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.int(1, self.ir_version);
        writer.message(7, |writer| self.graph.write(writer));
        for opset in &self.opsets {
            writer.message(8, |writer| {
                writer.bytes(1, opset.domain.as_bytes());
                writer.int(2, opset.version);
            });
        }
        writer.finish()
    }
}

impl OpsetProto {
    fn read(mut reader: Reader<'_>, budget: &Budget) -> Result<Self, ProtoError> {
        let mut opset = Self::default();
        while let Some(field) = reader.field()? {
            match field.number {
                1 => opset.domain = field.text(budget, NAME_BYTES_MAX)?,
                2 => opset.version = field.int()?,
                _ => {}
            }
        }
        Ok(opset)
    }
}

impl GraphProto {
    fn read(mut reader: Reader<'_>, budget: &Budget) -> Result<Self, ProtoError> {
        let mut graph = Self::default();
        while let Some(field) = reader.field()? {
            match field.number {
                1 => {
                    if graph.nodes.len() >= NODES_MAX {
                        let (at, what, max) = (field.at, "nodes", NODES_MAX);
                        return Err(ProtoError::TooMany { at, what, max });
                    }
                    graph.nodes.push(NodeProto::read(field.message(budget)?, budget)?);
                }
                2 => graph.name = field.text(budget, NAME_BYTES_MAX)?,
                5 => graph.initializers.push(TensorProto::read(field.message(budget)?, budget)?),
                11 => graph.inputs.push(ValueInfoProto::read(field.message(budget)?, budget)?),
                12 => graph.outputs.push(ValueInfoProto::read(field.message(budget)?, budget)?),
                13 => graph.values.push(ValueInfoProto::read(field.message(budget)?, budget)?),
                _ => {}
            }
        }
        Ok(graph)
    }

    fn write(&self, writer: &mut Writer) {
        for node in &self.nodes {
            writer.message(1, |writer| node.write(writer));
        }
        writer.bytes(2, self.name.as_bytes());
        for tensor in &self.initializers {
            writer.message(5, |writer| tensor.write(writer));
        }
        let groups = [(11, &self.inputs), (12, &self.outputs), (13, &self.values)];
        for (number, values) in groups {
            for value in values {
                writer.message(number, |writer| value.write(writer));
            }
        }
    }
}

impl NodeProto {
    /// A node without a name and without attributes.
    #[must_use]
    pub fn new(operator: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        Self {
            inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
            outputs: outputs.iter().map(|name| (*name).to_owned()).collect(),
            operator: operator.to_owned(),
            ..Self::default()
        }
    }

    /// The same node with one more attribute.
    #[must_use]
    pub fn with(mut self, name: &str, value: AttributeValue) -> Self {
        self.attributes.push(AttributeProto { name: name.to_owned(), value });
        self
    }

    /// The first attribute of this name.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&AttributeValue> {
        self.attributes.iter().find(|attribute| attribute.name == name).map(|found| &found.value)
    }

    fn read(mut reader: Reader<'_>, budget: &Budget) -> Result<Self, ProtoError> {
        let mut node = Self::default();
        while let Some(field) = reader.field()? {
            match field.number {
                1 => node.inputs.push(field.text(budget, NAME_BYTES_MAX)?),
                2 => node.outputs.push(field.text(budget, NAME_BYTES_MAX)?),
                3 => node.name = field.text(budget, NAME_BYTES_MAX)?,
                4 => node.operator = field.text(budget, NAME_BYTES_MAX)?,
                5 => {
                    let message = field.message(budget)?;
                    node.attributes.push(AttributeProto::read(message, budget)?);
                }
                7 => node.domain = field.text(budget, NAME_BYTES_MAX)?,
                _ => {}
            }
        }
        Ok(node)
    }

    fn write(&self, writer: &mut Writer) {
        for name in &self.inputs {
            writer.bytes(1, name.as_bytes());
        }
        for name in &self.outputs {
            writer.bytes(2, name.as_bytes());
        }
        if !self.name.is_empty() {
            writer.bytes(3, self.name.as_bytes());
        }
        writer.bytes(4, self.operator.as_bytes());
        for attribute in &self.attributes {
            writer.message(5, |writer| attribute.write(writer));
        }
        if !self.domain.is_empty() {
            writer.bytes(7, self.domain.as_bytes());
        }
    }
}

/// The fields of an attribute before its kind is settled.
#[derive(Default)]
struct AttributeFields {
    kind: Option<i64>,
    float: Option<f32>,
    int: Option<i64>,
    text: Option<String>,
    tensor: Option<TensorProto>,
    floats: Vec<f32>,
    ints: Vec<i64>,
    texts: Vec<String>,
    graph: bool,
}

impl AttributeFields {
    /// The value. Files of the first years state no kind; there the only field present decides.
    fn settle(self) -> AttributeValue {
        let kind = self.kind.unwrap_or_else(|| self.guess());
        match kind {
            1 => AttributeValue::Float(self.float.unwrap_or_default()),
            2 => AttributeValue::Int(self.int.unwrap_or_default()),
            3 => AttributeValue::Text(self.text.unwrap_or_default()),
            4 => self.tensor.map_or(AttributeValue::Other(kind), AttributeValue::Tensor),
            5 | 10 => AttributeValue::Graph,
            6 => AttributeValue::Floats(self.floats),
            7 => AttributeValue::Ints(self.ints),
            8 => AttributeValue::Texts(self.texts),
            other => AttributeValue::Other(other),
        }
    }

    fn guess(&self) -> i64 {
        let present = [
            (1, self.float.is_some()),
            (2, self.int.is_some()),
            (3, self.text.is_some()),
            (4, self.tensor.is_some()),
            (5, self.graph),
            (6, !self.floats.is_empty()),
            (7, !self.ints.is_empty()),
            (8, !self.texts.is_empty()),
        ];
        present.iter().find(|(_, set)| *set).map_or(0, |(kind, _)| *kind)
    }
}

impl AttributeProto {
    fn read(mut reader: Reader<'_>, budget: &Budget) -> Result<Self, ProtoError> {
        let mut name = String::new();
        let mut fields = AttributeFields::default();
        while let Some(field) = reader.field()? {
            match field.number {
                1 => name = field.text(budget, NAME_BYTES_MAX)?,
                2 => fields.float = Some(field.float()?),
                3 => fields.int = Some(field.int()?),
                4 => fields.text = Some(field.text(budget, LIST_MAX)?),
                5 => {
                    fields.tensor = Some(TensorProto::read(field.message(budget)?, budget)?);
                }
                6 | 11 => fields.graph = true,
                7 => field.floats_into(&mut fields.floats, LIST_MAX)?,
                8 => field.ints_into(&mut fields.ints, LIST_MAX)?,
                9 => fields.texts.push(field.text(budget, LIST_MAX)?),
                20 => fields.kind = Some(field.int()?),
                _ => {}
            }
        }
        Ok(Self { name, value: fields.settle() })
    }

    fn write(&self, writer: &mut Writer) {
        writer.bytes(1, self.name.as_bytes());
        match &self.value {
            AttributeValue::Float(value) => writer.float(2, *value),
            AttributeValue::Int(value) => writer.int(3, *value),
            AttributeValue::Text(value) => writer.bytes(4, value.as_bytes()),
            AttributeValue::Tensor(value) => writer.message(5, |writer| value.write(writer)),
            AttributeValue::Floats(values) => writer.floats(7, values),
            AttributeValue::Ints(values) => writer.ints(8, values),
            AttributeValue::Texts(values) => {
                for value in values {
                    writer.bytes(9, value.as_bytes());
                }
            }
            AttributeValue::Graph | AttributeValue::Other(_) => {}
        }
        writer.int(20, self.value.kind());
    }
}

impl AttributeValue {
    /// The number of this kind in `AttributeProto.AttributeType`.
    #[must_use]
    pub const fn kind(&self) -> i64 {
        match self {
            Self::Float(_) => 1,
            Self::Int(_) => 2,
            Self::Text(_) => 3,
            Self::Tensor(_) => 4,
            Self::Graph => 5,
            Self::Floats(_) => 6,
            Self::Ints(_) => 7,
            Self::Texts(_) => 8,
            Self::Other(kind) => *kind,
        }
    }
}

impl ValueInfoProto {
    /// A declared tensor with known sides.
    #[must_use]
    pub fn tensor(name: &str, element: crate::dtype::ElementKind, shape: &[usize]) -> Self {
        let side = |side: &usize| {
            i64::try_from(*side).map_or(DimensionProto::Unknown, DimensionProto::Value)
        };
        Self {
            name: name.to_owned(),
            element: element.number(),
            shape: Some(shape.iter().map(side).collect()),
        }
    }

    fn read(mut reader: Reader<'_>, budget: &Budget) -> Result<Self, ProtoError> {
        let mut value = Self::default();
        while let Some(field) = reader.field()? {
            match field.number {
                1 => value.name = field.text(budget, NAME_BYTES_MAX)?,
                2 => value.read_type(field.message(budget)?, budget)?,
                _ => {}
            }
        }
        Ok(value)
    }

    /// `TypeProto`: only its tensor type, field 1, is understood.
    fn read_type(&mut self, mut reader: Reader<'_>, budget: &Budget) -> Result<(), ProtoError> {
        while let Some(field) = reader.field()? {
            if field.number != 1 {
                continue;
            }
            let mut tensor = field.message(budget)?;
            while let Some(field) = tensor.field()? {
                match field.number {
                    1 => self.element = field.int()?,
                    2 => self.shape = Some(read_shape(field.message(budget)?, budget)?),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn write(&self, writer: &mut Writer) {
        writer.bytes(1, self.name.as_bytes());
        writer.message(2, |writer| {
            writer.message(1, |writer| {
                writer.int(1, self.element);
                if let Some(shape) = &self.shape {
                    writer.message(2, |writer| write_shape(writer, shape));
                }
            });
        });
    }
}

fn read_shape(mut reader: Reader<'_>, budget: &Budget) -> Result<Vec<DimensionProto>, ProtoError> {
    let mut shape = Vec::new();
    while let Some(field) = reader.field()? {
        if field.number != 1 {
            continue;
        }
        if shape.len() >= RANK_MAX {
            return Err(ProtoError::TooMany { at: field.at, what: "sides", max: RANK_MAX });
        }
        let mut side = DimensionProto::Unknown;
        let mut dimension = field.message(budget)?;
        while let Some(field) = dimension.field()? {
            match field.number {
                1 => side = DimensionProto::Value(field.int()?),
                2 => side = DimensionProto::Param(field.text(budget, NAME_BYTES_MAX)?),
                _ => {}
            }
        }
        shape.push(side);
    }
    Ok(shape)
}

fn write_shape(writer: &mut Writer, shape: &[DimensionProto]) {
    for side in shape {
        writer.message(1, |writer| match side {
            DimensionProto::Value(value) => writer.int(1, *value),
            DimensionProto::Param(name) => writer.bytes(2, name.as_bytes()),
            DimensionProto::Unknown => {}
        });
    }
}

#[cfg(test)]
mod tests;
