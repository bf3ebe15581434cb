//! Models for tests, written by hand as protocol buffers.

/// Writes the fields of one message.
#[derive(Clone, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn int(&mut self, number: u64, value: i64) {
        self.varint(number << 3);
        self.varint(value.cast_unsigned());
    }

    pub(crate) fn bytes(&mut self, number: u64, value: &[u8]) {
        self.varint(number << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub(crate) fn graph_attribute(&mut self, name: &str, graph: &Graph) {
        let mut attribute = Self::default();
        attribute.bytes(1, name.as_bytes());
        attribute.bytes(6, graph.0.as_slice());
        attribute.int(20, 5);
        self.bytes(5, attribute.as_slice());
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// The element kinds of a file that tests use.
pub(crate) const FLOAT: i64 = 1;
pub(crate) const INT64: i64 = 7;

/// A graph, piece by piece.
#[derive(Clone, Default)]
pub(crate) struct Graph(Writer);

impl Graph {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn node(self, operator: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        self.node_with(operator, inputs, outputs, |_| {})
    }

    pub(crate) fn node_in(self, domain: &str, operator: &str, i: &[&str], o: &[&str]) -> Self {
        self.node_with(operator, i, o, |node| node.bytes(7, domain.as_bytes()))
    }

    pub(crate) fn node_with(
        mut self,
        operator: &str,
        inputs: &[&str],
        outputs: &[&str],
        more: impl FnOnce(&mut Writer),
    ) -> Self {
        let mut node = Writer::default();
        inputs.iter().for_each(|name| node.bytes(1, name.as_bytes()));
        outputs.iter().for_each(|name| node.bytes(2, name.as_bytes()));
        node.bytes(4, operator.as_bytes());
        more(&mut node);
        self.0.bytes(1, node.as_slice());
        self
    }

    /// A tensor of floats.
    pub(crate) fn tensor(mut self, name: &str, dims: &[i64], numbers: &[f32]) -> Self {
        let mut tensor = Writer::default();
        dims.iter().for_each(|side| tensor.int(1, *side));
        tensor.int(2, FLOAT);
        tensor.bytes(8, name.as_bytes());
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        tensor.bytes(9, &raw);
        self.0.bytes(5, tensor.as_slice());
        self
    }

    /// An input; a side with a name is free.
    pub(crate) fn input(self, name: &str, element: i64, sides: &[&str]) -> Self {
        self.value(11, name, element, sides)
    }

    /// An output.
    pub(crate) fn output(self, name: &str, element: i64, sides: &[&str]) -> Self {
        self.value(12, name, element, sides)
    }

    fn value(mut self, number: u64, name: &str, element: i64, sides: &[&str]) -> Self {
        let mut shape = Writer::default();
        for side in sides {
            let mut dimension = Writer::default();
            match side.parse() {
                Ok(fixed) => dimension.int(1, fixed),
                Err(_) => dimension.bytes(2, side.as_bytes()),
            }
            shape.bytes(1, dimension.as_slice());
        }
        let mut tensor = Writer::default();
        tensor.int(1, element);
        tensor.bytes(2, shape.as_slice());
        let mut kind = Writer::default();
        kind.bytes(1, tensor.as_slice());
        let mut value = Writer::default();
        value.bytes(1, name.as_bytes());
        value.bytes(2, kind.as_slice());
        self.0.bytes(number, value.as_slice());
        self
    }

    /// The file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut model = Writer::default();
        model.int(1, 8);
        let mut opset = Writer::default();
        opset.bytes(1, b"");
        opset.int(2, 17);
        model.bytes(8, opset.as_slice());
        model.bytes(7, self.0.as_slice());
        model.0
    }
}

/// `y = x w + b` with two inputs and three outputs a row, for any number of rows.
pub(crate) fn affine() -> Graph {
    Graph::new()
        .input("x", FLOAT, &["rows", "2"])
        .output("y", FLOAT, &["rows", "3"])
        .tensor("w", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        .tensor("b", &[3], &[0.5, 0.0, -0.5])
        .node("MatMul", &["x", "w"], &["m"])
        .node("Add", &["m", "b"], &["y"])
}
