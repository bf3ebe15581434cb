//! Small models for tests, built with the writer of the file format.

use tg_tensor::{Array, Data};

use crate::dtype::{Dtype, ElementKind};
use crate::error::ImportError;
use crate::float::Reference;
use crate::graph::{Graph, Options};
use crate::proto::{
    AttributeValue, GraphProto, ModelProto, NodeProto, OpsetProto, TensorProto, ValueInfoProto,
};

/// A model in the making.
#[derive(Clone, Debug)]
pub(crate) struct Builder(pub(crate) ModelProto);

impl Builder {
    /// An empty model written in a version of the standard operators.
    pub(crate) fn new(version: i64) -> Self {
        let opsets = vec![
            OpsetProto { domain: String::new(), version },
            OpsetProto { domain: "com.microsoft".to_owned(), version: 1 },
        ];
        Self(ModelProto { ir_version: 8, opsets, graph: GraphProto::default() })
    }

    /// One more input.
    pub(crate) fn input(mut self, name: &str, element: ElementKind, shape: &[usize]) -> Self {
        self.0.graph.inputs.push(ValueInfoProto::tensor(name, element, shape));
        self
    }

    /// One more float input.
    pub(crate) fn floats(self, name: &str, shape: &[usize]) -> Self {
        self.input(name, ElementKind::Float, shape)
    }

    /// One more constant.
    pub(crate) fn constant(mut self, name: &str, dtype: Dtype, array: &Array) -> Self {
        let tensor = TensorProto::from_array(name, dtype, array).expect("a test's constant");
        self.0.graph.initializers.push(tensor);
        self
    }

    /// One more constant of integers.
    pub(crate) fn ints(self, name: &str, values: &[i64]) -> Self {
        self.constant(name, Dtype::Int, &ints(&[values.len()], values))
    }

    /// One more node.
    pub(crate) fn node(mut self, node: NodeProto) -> Self {
        self.0.graph.nodes.push(node);
        self
    }

    /// One more output.
    pub(crate) fn output(mut self, name: &str) -> Self {
        let value = ValueInfoProto { name: name.to_owned(), ..ValueInfoProto::default() };
        self.0.graph.outputs.push(value);
        self
    }

    /// The file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    /// The graph that the file becomes.
    pub(crate) fn read(&self) -> Result<Graph, ImportError> {
        Graph::read(&self.bytes(), &Options::default())
    }

    /// The outputs for some inputs.
    pub(crate) fn run(&self, inputs: &[Array]) -> Vec<Array> {
        let graph = self.read().unwrap_or_else(|error| panic!("{}", chain(&error)));
        let reference = Reference::new(&graph).unwrap_or_else(|error| panic!("{}", chain(&error)));
        let outputs = reference.run(inputs, graph.outputs());
        outputs.unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    /// Why the file is refused, with all sources.
    pub(crate) fn refusal(&self) -> String {
        match self.read() {
            Ok(_) => "not refused".to_owned(),
            Err(error) => chain(&error),
        }
    }
}

/// An error and its sources in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        line = format!("{line}: {error}");
        source = error.source();
    }
    line
}

/// An array of floats.
pub(crate) fn floats(shape: &[usize], values: &[f32]) -> Array {
    Array::new(shape.to_vec(), Data::Float(values.to_vec())).expect("a test's array")
}

/// An array of integers.
pub(crate) fn ints(shape: &[usize], values: &[i64]) -> Array {
    Array::new(shape.to_vec(), Data::Int(values.to_vec())).expect("a test's array")
}

/// An integer attribute.
pub(crate) fn int(value: i64) -> AttributeValue {
    AttributeValue::Int(value)
}

/// A list of integers as an attribute.
pub(crate) fn list(values: &[i64]) -> AttributeValue {
    AttributeValue::Ints(values.to_vec())
}

/// A text attribute.
pub(crate) fn text(value: &str) -> AttributeValue {
    AttributeValue::Text(value.to_owned())
}

/// A float attribute.
pub(crate) fn float(value: f32) -> AttributeValue {
    AttributeValue::Float(value)
}
