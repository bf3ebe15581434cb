//! Operators that are abbreviations are written out, before anything is known of their operands.
//!
//! A sum of many becomes sums of two. An operator on codes (`QLinearConv` and its kin) becomes
//! the float operator between a dequantisation and a quantisation, which is what it is defined to
//! mean; so quantised models have one form, whichever way they were written.

use crate::op::MICROSOFT;
use crate::proto::{AttributeValue, NodeProto};

/// Writes out every abbreviation.
pub(crate) fn expand(nodes: Vec<NodeProto>) -> Vec<NodeProto> {
    let mut out = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.into_iter().enumerate() {
        let standard = matches!(node.domain.as_str(), "" | "ai.onnx");
        let lent = node.domain == MICROSOFT;
        match (node.operator.as_str(), node.inputs.len()) {
            ("Min" | "Max" | "Sum", 3..) if standard => {
                chain(Source::new(&node, index), &node.operator, &mut out)
            }
            ("Mean", 1..) if standard => mean(Source::new(&node, index), &mut out),
            ("QLinearConv", 8..=9) if standard => conv(Source::new(&node, index), &mut out),
            ("QLinearMatMul", 8) if standard || lent => {
                two(Source::new(&node, index), "MatMul", &mut out)
            }
            ("QLinearAdd", 7..=8) if lent => two(Source::new(&node, index), "Add", &mut out),
            ("QLinearMul", 7..=8) if lent => two(Source::new(&node, index), "Mul", &mut out),
            ("QLinearSigmoid", 4..=5) if lent => {
                one(Source::new(&node, index), "Sigmoid", &mut out)
            }
            ("QLinearLeakyRelu", 4..=5) if lent => {
                one(Source::new(&node, index), "LeakyRelu", &mut out)
            }
            ("QGemm", 6..=9) if lent => gemm(Source::new(&node, index), &mut out),
            _ => out.push(node),
        }
    }
    out
}

/// Bytes of a name that are kept for the nodes made of it. The whole name, repeated for every
/// part of a long sum, would let a small file fill the memory.
const NAME_BYTES_KEPT: usize = 64;

/// The node that is written out.
#[derive(Clone, Copy)]
struct Source<'a> {
    node: &'a NodeProto,
    /// Its position in the file, which tells apart what is made of different nodes.
    index: usize,
}

impl<'a> Source<'a> {
    const fn new(node: &'a NodeProto, index: usize) -> Self {
        Self { node, index }
    }

    fn input(self, index: usize) -> &'a str {
        self.node.inputs.get(index).map_or("", String::as_str)
    }

    fn result(self) -> &'a str {
        self.node.outputs.first().map_or("", String::as_str)
    }

    /// The name of a value in between.
    fn inner(self, what: &str) -> String {
        format!("{}#{}/{what}", short(self.result()), self.index)
    }
}

fn short(name: &str) -> &str {
    let end = (0..=NAME_BYTES_KEPT).rev().find(|end| name.is_char_boundary(*end));
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}

/// Builds the nodes that one node stands for.
struct Writer<'a> {
    source: Source<'a>,
    out: &'a mut Vec<NodeProto>,
}

impl<'a> Writer<'a> {
    fn push(&mut self, operator: &str, inputs: &[&str], output: &str, attributes: &[(&str, i64)]) {
        let mut made = NodeProto::new(operator, inputs, &[output]);
        for (name, value) in attributes {
            made = made.with(name, AttributeValue::Int(*value));
        }
        made.name = short(&self.source.node.name).to_owned();
        self.out.push(made);
    }

    /// Dequantises the triple of codes, scale and zero point that starts at operand `first`.
    fn dequantize(&mut self, first: usize, axis: i64) -> String {
        let name = self.source.inner(&format!("float{first}"));
        let triple = [first, first + 1, first + 2].map(|index| self.source.input(index).to_owned());
        let [codes, scale, zero_point] = &triple;
        self.push("DequantizeLinear", &[codes, scale, zero_point], &name, &[("axis", axis)]);
        name
    }

    /// Quantises a value with the scale at operand `first` and the zero point behind it.
    fn quantize(&mut self, value: &str, first: usize) {
        let (scale, zero_point) =
            (self.source.input(first).to_owned(), self.source.input(first + 1).to_owned());
        let result = self.source.result().to_owned();
        self.push("QuantizeLinear", &[value, &scale, &zero_point], &result, &[]);
    }

    /// A bias is stored in steps of the product of both scales.
    fn bias(&mut self, bias: usize, scales: [usize; 2]) -> String {
        let names = [bias, scales[0], scales[1]].map(|index| self.source.input(index).to_owned());
        let [codes, left, right] = &names;
        if codes.is_empty() {
            return String::new();
        }
        let (step, float, scaled) = (
            self.source.inner("bias_step"),
            self.source.inner("bias_codes"),
            self.source.inner("bias"),
        );
        self.push("Mul", &[left, right], &step, &[]);
        self.push("Cast", &[codes], &float, &[("to", 1)]);
        self.push("Mul", &[&float, &step], &scaled, &[]);
        scaled
    }

    /// The float operator itself, with the attributes of the abbreviation.
    fn float(&mut self, operator: &str, inputs: &[&str]) -> String {
        let name = self.source.inner("result");
        let mut made = NodeProto::new(operator, inputs, &[&name]);
        made.name = short(&self.source.node.name).to_owned();
        made.attributes.clone_from(&self.source.node.attributes);
        self.out.push(made);
        name
    }
}

/// `f(a, b, c)` as `f(f(a, b), c)`.
fn chain(source: Source<'_>, operator: &str, out: &mut Vec<NodeProto>) {
    let mut writer = Writer { source, out };
    let mut sofar = writer.source.input(0).to_owned();
    let count = source.node.inputs.len();
    for index in 1..count {
        let last = index + 1 == count;
        let name = if last {
            writer.source.result().to_owned()
        } else {
            writer.source.inner(&format!("part{index}"))
        };
        let next = writer.source.input(index).to_owned();
        writer.push(operator, &[&sofar, &next], &name, &[]);
        sofar = name;
    }
}

fn mean(source: Source<'_>, out: &mut Vec<NodeProto>) {
    let count = source.node.inputs.len();
    let mut writer = Writer { source, out };
    let (sum, share) = (writer.source.inner("sum"), writer.source.inner("share"));
    let summed =
        NodeProto { outputs: vec![sum.clone()], operator: "Sum".to_owned(), ..source.node.clone() };
    if count > 2 {
        chain(Source::new(&summed, source.index), "Sum", writer.out);
    } else {
        writer.out.push(summed);
    }
    let value = AttributeValue::Float(1.0 / count as f32);
    writer.out.push(NodeProto::new("Constant", &[], &[&share]).with("value_float", value));
    let result = writer.source.result().to_owned();
    writer.push("Mul", &[&sum, &share], &result, &[]);
}

fn conv(source: Source<'_>, out: &mut Vec<NodeProto>) {
    let mut writer = Writer { source, out };
    let (x, weights) = (writer.dequantize(0, 1), writer.dequantize(3, 0));
    let bias = writer.bias(8, [1, 4]);
    let result = writer.float("Conv", &[&x, &weights, &bias]);
    writer.quantize(&result, 6);
}

fn two(source: Source<'_>, operator: &str, out: &mut Vec<NodeProto>) {
    let mut writer = Writer { source, out };
    // Of a matrix product, the left scales belong to rows and the right ones to columns.
    let (left, right) = (writer.dequantize(0, -2), writer.dequantize(3, -1));
    let result = writer.float(operator, &[&left, &right]);
    writer.quantize(&result, 6);
}

fn one(source: Source<'_>, operator: &str, out: &mut Vec<NodeProto>) {
    let mut writer = Writer { source, out };
    let x = writer.dequantize(0, 0);
    let result = writer.float(operator, &[&x]);
    writer.quantize(&result, 3);
}

fn gemm(source: Source<'_>, out: &mut Vec<NodeProto>) {
    let node = source.node;
    let transposed = node.attribute("transB") == Some(&AttributeValue::Int(1));
    let alpha = node.attribute("alpha").is_some_and(|alpha| *alpha != AttributeValue::Float(1.0));
    if alpha {
        // The steps of the bias would have to be scaled as well; nobody writes such files.
        out.push(node.clone());
        return;
    }
    let mut writer = Writer { source, out };
    let left = writer.dequantize(0, 0);
    let right = writer.dequantize(3, if transposed { 0 } else { 1 });
    let bias = writer.bias(6, [1, 4]);
    let result = writer.float("Gemm", &[&left, &right, &bias]);
    if writer.source.input(7).is_empty() {
        let name = writer.source.result().to_owned();
        writer.push("Identity", &[&result], &name, &[]);
    } else {
        writer.quantize(&result, 7);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(node: NodeProto) -> Vec<String> {
        let show = |node: &NodeProto| {
            format!("{} = {}({})", node.outputs.join(" "), node.operator, node.inputs.join(" "))
        };
        expand(vec![node]).iter().map(show).collect()
    }

    #[test]
    fn maximum_of_three_becomes_two_of_two() {
        let node = NodeProto::new("Max", &["a", "b", "c"], &["y"]);
        assert_eq!(written(node), ["y#0/part1 = Max(a b)", "y = Max(y#0/part1 c)"]);
        let node = NodeProto::new("Max", &["a", "b"], &["y"]);
        assert_eq!(written(node), ["y = Max(a b)"]);
    }

    #[test]
    fn mean_becomes_a_sum_and_a_factor() {
        let node = NodeProto::new("Mean", &["a", "b", "c"], &["y"]);
        let expected = [
            "y#0/sum#0/part1 = Sum(a b)",
            "y#0/sum = Sum(y#0/sum#0/part1 c)",
            "y#0/share = Constant()",
            "y = Mul(y#0/sum y#0/share)",
        ];
        assert_eq!(written(node), expected);
    }

    #[test]
    fn convolution_of_codes_becomes_one_of_floats() {
        let inputs = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"];
        let node = NodeProto::new("QLinearConv", &inputs, &["y"]);
        let expected = [
            "y#0/float0 = DequantizeLinear(x xs xz)",
            "y#0/float3 = DequantizeLinear(w ws wz)",
            "y#0/bias_step = Mul(xs ws)",
            "y#0/bias_codes = Cast(b)",
            "y#0/bias = Mul(y#0/bias_codes y#0/bias_step)",
            "y#0/result = Conv(y#0/float0 y#0/float3 y#0/bias)",
            "y = QuantizeLinear(y#0/result ys yz)",
        ];
        assert_eq!(written(node), expected);
    }
}
