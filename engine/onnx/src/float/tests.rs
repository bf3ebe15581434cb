//! Every operator, computed for small operands whose results are known by hand.

use super::*;
use crate::dtype::ElementKind;
use crate::proto::NodeProto;
use crate::testing::{Builder, float, floats, int, ints, list, text};

fn node(operator: &str) -> NodeProto {
    NodeProto::new(operator, &["x"], &["y"])
}

/// Computes `model` with the output `y` on one input and compares.
fn check(model: Builder, x: &Array, expected: &Array) {
    let results = model.output("y").run(std::slice::from_ref(x));
    let [result] = &results[..] else { panic!("one output") };
    assert_eq!(result.shape(), expected.shape());
    match (result.data(), expected.data()) {
        (Data::Float(found), Data::Float(expected)) => {
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
            assert!(found.iter().zip(expected).all(near), "{found:?} is not {expected:?}");
        }
        (found, expected) => assert_eq!(found, expected),
    }
}

/// One node on one float vector.
fn check_vector(version: i64, node: NodeProto, x: &[f32], expected: &[f32]) {
    let model = Builder::new(version).floats("x", &[x.len()]).node(node);
    check(model, &floats(&[x.len()], x), &floats(&[expected.len()], expected));
}

/// One node on one float array.
fn check_array(version: i64, node: NodeProto, x: &Array, expected: &Array) {
    check(Builder::new(version).floats("x", x.shape()).node(node), x, expected);
}

#[test]
fn functions_of_one_element() {
    let x = [-2.0, 0.0, 1.0];
    let cases: [(NodeProto, [f32; 3]); 21] = [
        (node("Relu"), [0.0, 0.0, 1.0]),
        (node("LeakyRelu").with("alpha", float(0.1)), [-0.2, 0.0, 1.0]),
        (node("Elu"), [-0.864_665, 0.0, 1.0]),
        (node("Selu"), [-1.520_166, 0.0, 1.050_701]),
        (node("Celu").with("alpha", float(2.0)), [-1.264_241, 0.0, 1.0]),
        (node("Softplus"), [0.126_928, std::f32::consts::LN_2, 1.313_262]),
        (node("Softsign"), [-0.666_667, 0.0, 0.5]),
        (node("Sigmoid"), [0.119_203, 0.5, 0.731_059]),
        (node("HardSigmoid"), [0.1, 0.5, 0.7]),
        (node("HardSwish"), [-0.333_333, 0.0, 0.666_667]),
        (node("Tanh"), [-0.964_028, 0.0, 0.761_594]),
        (node("Erf"), [-0.995_322, 0.0, 0.842_701]),
        (node("Gelu"), [-0.045_500, 0.0, 0.841_345]),
        (node("Gelu").with("approximate", text("tanh")), [-0.045_402, 0.0, 0.841_192]),
        (node("Mish"), [-0.252_501, 0.0, 0.865_098]),
        (node("Exp"), [0.135_335, 1.0, std::f32::consts::E]),
        (node("Abs"), [2.0, 0.0, 1.0]),
        (node("Neg"), [2.0, 0.0, -1.0]),
        (node("Sign"), [-1.0, 0.0, 1.0]),
        (node("Clip").with("min", float(-1.0)), [-1.0, 0.0, 1.0]),
        (node("Identity"), [-2.0, 0.0, 1.0]),
    ];
    for (node, expected) in cases {
        let version = if node.operator == "Clip" { 7 } else { 20 };
        check_vector(version, node, &x, &expected);
    }
    check_vector(20, node("Sqrt"), &[4.0, 2.25], &[2.0, 1.5]);
    check_vector(20, node("Log"), &[1.0, 0.5], &[0.0, -std::f32::consts::LN_2]);
    check_vector(20, node("Reciprocal"), &[4.0, -0.5], &[0.25, -2.0]);
    check_vector(20, node("Floor"), &[1.5, -1.5], &[1.0, -2.0]);
    check_vector(20, node("Ceil"), &[1.5, -1.5], &[2.0, -1.0]);
    check_vector(20, node("Round"), &[0.5, 1.5, 2.4], &[0.0, 2.0, 2.0]);
}

#[test]
fn clip_takes_its_bounds_from_operands() {
    let clip = NodeProto::new("Clip", &["x", "", "max"], &["y"]);
    let model = Builder::new(13).floats("x", &[3]).node(clip);
    let model = model.constant("max", Dtype::Float, &floats(&[], &[0.5]));
    check(model, &floats(&[3], &[-9.0, 0.0, 1.0]), &floats(&[3], &[-9.0, 0.0, 0.5]));
}

#[test]
fn functions_of_two_elements() {
    let cases = [
        ("Add", [4.0, -2.0]),
        ("Sub", [-2.0, -6.0]),
        ("Mul", [3.0, -8.0]),
        ("Div", [1.0 / 3.0, -2.0]),
        ("Pow", [1.0, 16.0]),
        ("Min", [1.0, -4.0]),
        ("Max", [3.0, 2.0]),
        ("PRelu", [1.0, -8.0]),
        ("Sum", [4.0, -2.0]),
        ("Mean", [2.0, -1.0]),
    ];
    for (operator, expected) in cases {
        let model = Builder::new(17)
            .floats("x", &[2])
            .constant("b", Dtype::Float, &floats(&[2], &[3.0, 2.0]))
            .node(NodeProto::new(operator, &["x", "b"], &["y"]));
        check(model, &floats(&[2], &[1.0, -4.0]), &floats(&[2], &expected));
    }
}

#[test]
fn comparisons_give_truth_values() {
    let cases = [
        ("Equal", [0, 1, 0]),
        ("Less", [1, 0, 0]),
        ("LessOrEqual", [1, 1, 0]),
        ("Greater", [0, 0, 1]),
        ("GreaterOrEqual", [0, 1, 1]),
    ];
    for (operator, expected) in cases {
        let model = Builder::new(17)
            .floats("x", &[3])
            .constant("b", Dtype::Float, &floats(&[1], &[2.0]))
            .node(NodeProto::new(operator, &["x", "b"], &["t"]))
            .node(NodeProto::new("Not", &["t"], &["n"]))
            .node(NodeProto::new("Not", &["n"], &["y"]));
        check(model, &floats(&[3], &[1.0, 2.0, 3.0]), &ints(&[3], &expected));
    }
    for (operator, expected) in [("And", [0, 0, 1]), ("Or", [0, 1, 1]), ("Xor", [0, 1, 0])] {
        let model = Builder::new(17)
            .floats("x", &[3])
            .constant("b", Dtype::Bool, &ints(&[3], &[0, 1, 1]))
            .node(NodeProto::new("Cast", &["x"], &["t"]).with("to", int(9)))
            .node(NodeProto::new(operator, &["t", "b"], &["y"]));
        check(model, &floats(&[3], &[0.0, 0.0, 0.25]), &ints(&[3], &expected));
    }
}

#[test]
fn choice_and_casts() {
    let model = Builder::new(17)
        .input("x", ElementKind::Int32, &[3])
        .constant("zero", Dtype::Int, &ints(&[], &[0]))
        .constant("a", Dtype::Float, &floats(&[1], &[9.0]))
        .node(NodeProto::new("Greater", &["x", "zero"], &["mask"]))
        .node(NodeProto::new("Cast", &["x"], &["f"]).with("to", int(1)))
        .node(NodeProto::new("Where", &["mask", "f", "a"], &["y"]));
    check(model, &ints(&[3], &[-1, 0, 5]), &floats(&[3], &[9.0, 9.0, 5.0]));
    let cast = node("Cast").with("to", int(7));
    let model = Builder::new(17).floats("x", &[3]).node(cast);
    check(model, &floats(&[3], &[-1.7, 0.5, 3.0]), &ints(&[3], &[-1, 0, 3]));
    let model = Builder::new(17)
        .floats("x", &[2])
        .constant("like", Dtype::Bool, &ints(&[], &[0]))
        .node(NodeProto::new("CastLike", &["x", "like"], &["y"]));
    check(model, &floats(&[2], &[0.0, 3.5]), &ints(&[2], &[0, 1]));
}

#[test]
fn products_of_matrices() {
    let model = Builder::new(17)
        .floats("x", &[1, 2])
        .constant("w", Dtype::Float, &floats(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
        .constant("c", Dtype::Float, &floats(&[3], &[1.0, 1.0, 1.0]))
        .node(
            NodeProto::new("Gemm", &["x", "w", "c"], &["y"])
                .with("transB", int(1))
                .with("alpha", float(2.0))
                .with("beta", float(10.0)),
        );
    check(model, &floats(&[1, 2], &[1.0, -1.0]), &floats(&[1, 3], &[8.0, 8.0, 8.0]));
    let model = Builder::new(17)
        .floats("x", &[2, 1, 2])
        .constant("w", Dtype::Float, &floats(&[2], &[1.0, 2.0]))
        .node(NodeProto::new("MatMul", &["x", "w"], &["y"]));
    let x = floats(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
    check(model, &x, &floats(&[2, 1], &[5.0, 11.0]));
    let model = Builder::new(17)
        .floats("x", &[2])
        .constant("w", Dtype::Float, &floats(&[2, 2, 1], &[1.0, 2.0, 3.0, 4.0]))
        .node(NodeProto::new("MatMul", &["x", "w"], &["p"]))
        .node(NodeProto::new("Squeeze", &["p"], &["v"]))
        .node(NodeProto::new("MatMul", &["v", "x"], &["y"]));
    check(model, &floats(&[2], &[1.0, 10.0]), &floats(&[], &[451.0]));
}

#[test]
fn slopes_of_channels() {
    let model = Builder::new(17)
        .floats("x", &[1, 2, 2])
        .constant("b", Dtype::Float, &floats(&[2, 1], &[10.0, 100.0]))
        .node(NodeProto::new("PRelu", &["x", "b"], &["y"]));
    let x = floats(&[1, 2, 2], &[1.0, -1.0, -2.0, 3.0]);
    check(model, &x, &floats(&[1, 2, 2], &[1.0, -10.0, -200.0, 3.0]));
}

/// Goal: a constant is the same, computed while importing or by the float engine. Method: the
/// same nodes on a constant and on an input.
#[test]
fn constants_are_computed_as_data_is() {
    let x = ints(&[2, 3], &[3, -1, 4, 1, -5, 9]);
    let cases: [(&str, &[&str]); 15] = [
        ("Add", &["x", "row"]),
        ("Sub", &["row", "x"]),
        ("Mul", &["x", "x"]),
        ("Div", &["x", "row"]),
        ("Min", &["x", "row"]),
        ("Equal", &["x", "row"]),
        ("Less", &["x", "row"]),
        ("Abs", &["x"]),
        ("Sign", &["x"]),
        ("Transpose", &["x"]),
        ("Concat", &["x", "x"]),
        ("Gather", &["x", "index"]),
        ("Expand", &["x", "shape"]),
        ("ReduceSum", &["x"]),
        ("ReduceMax", &["x"]),
    ];
    for (operator, inputs) in cases {
        let base = Builder::new(17)
            .ints("row", &[1, -2, 4])
            .ints("index", &[1, -2])
            .ints("shape", &[2, 1, 3])
            .node(NodeProto::new(operator, inputs, &["y"]).with("axis", int(0)))
            .output("y");
        let data = base.clone().input("x", ElementKind::Int64, &[2, 3]);
        let folded = base.constant("x", Dtype::Int, &x);
        assert_eq!(folded.run(&[]), data.run(std::slice::from_ref(&x)), "{operator}");
    }
}

#[test]
fn bytes_are_cast_to_floats() {
    let cast = node("Cast").with("to", int(1));
    let model = Builder::new(17).input("x", ElementKind::Uint8, &[2]).node(cast);
    check(model, &ints(&[2], &[0, 255]), &floats(&[2], &[0.0, 255.0]));
}

#[test]
fn convolutions() {
    let image = floats(&[1, 1, 3, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    let conv = |attributes: &[(&str, crate::proto::AttributeValue)]| {
        let mut node = NodeProto::new("Conv", &["x", "w"], &["y"]);
        for (name, value) in attributes {
            node = node.with(name, value.clone());
        }
        let kernel = floats(&[1, 1, 2, 2], &[1.0, 1.0, 1.0, 1.0]);
        let model = Builder::new(17).floats("x", &[1, 1, 3, 3]);
        model.constant("w", Dtype::Float, &kernel).node(node)
    };
    check(conv(&[]), &image, &floats(&[1, 1, 2, 2], &[12.0, 16.0, 24.0, 28.0]));
    // The odd row and column of padding stand behind, or before.
    let upper = [12.0, 16.0, 9.0, 24.0, 28.0, 15.0, 15.0, 17.0, 9.0];
    let same = [("auto_pad", text("SAME_UPPER"))];
    check(conv(&same), &image, &floats(&[1, 1, 3, 3], &upper));
    let lower = [1.0, 3.0, 5.0, 5.0, 12.0, 16.0, 11.0, 24.0, 28.0];
    let same = [("auto_pad", text("SAME_LOWER"))];
    check(conv(&same), &image, &floats(&[1, 1, 3, 3], &lower));
    let dilated = [("dilations", list(&[2, 2])), ("strides", list(&[2, 1]))];
    check(conv(&dilated), &image, &floats(&[1, 1, 1, 1], &[20.0]));

    let grouped = Builder::new(17)
        .floats("x", &[1, 2, 3])
        .constant("w", Dtype::Float, &floats(&[2, 1, 2], &[1.0, 1.0, 1.0, -1.0]))
        .constant("b", Dtype::Float, &floats(&[2], &[10.0, 20.0]))
        .node(
            NodeProto::new("Conv", &["x", "w", "b"], &["y"])
                .with("group", int(2))
                .with("pads", list(&[1, 0])),
        );
    let x = floats(&[1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    check(grouped, &x, &floats(&[1, 2, 3], &[11.0, 13.0, 15.0, 16.0, 19.0, 19.0]));
}

#[test]
fn transposed_convolutions() {
    let model = |node: NodeProto| {
        Builder::new(17)
            .floats("x", &[1, 1, 2])
            .constant("w", Dtype::Float, &floats(&[1, 1, 3], &[1.0, 10.0, 100.0]))
            .node(node.with("strides", list(&[2])))
    };
    let node = || NodeProto::new("ConvTranspose", &["x", "w"], &["y"]);
    let x = floats(&[1, 1, 2], &[1.0, 2.0]);
    let full = [1.0, 10.0, 102.0, 20.0, 200.0];
    check(model(node()), &x, &floats(&[1, 1, 5], &full));
    let cut = model(node().with("pads", list(&[1, 0])));
    check(cut, &x, &floats(&[1, 1, 4], &full[1..]));
    let longer = model(node().with("output_padding", list(&[1])));
    check(longer, &x, &floats(&[1, 1, 6], &[1.0, 10.0, 102.0, 20.0, 200.0, 0.0]));
    // Of one surplus element, the start loses it unless the mode is SAME_UPPER.
    let asked = model(node().with("output_shape", list(&[4])));
    check(asked, &x, &floats(&[1, 1, 4], &full[1..]));
    let upper = model(node().with("auto_pad", text("SAME_UPPER")));
    check(upper, &x, &floats(&[1, 1, 4], &full[..4]));
}

#[test]
fn pools() {
    let x = floats(&[1, 1, 5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
    let pool = |operator, ceil, pads: &[i64], count| {
        node(operator)
            .with("kernel_shape", list(&[2]))
            .with("strides", list(&[2]))
            .with("ceil_mode", int(ceil))
            .with("pads", list(pads))
            .with("count_include_pad", int(count))
    };
    let check = |node, expected: &[f32]| {
        check_array(19, node, &x, &floats(&[1, 1, expected.len()], expected));
    };
    check(pool("MaxPool", 0, &[0, 0], 0), &[2.0, 4.0]);
    check(pool("MaxPool", 1, &[0, 0], 0), &[2.0, 4.0, 5.0]);
    check(pool("AveragePool", 0, &[1, 0], 0), &[1.0, 2.5, 4.5]);
    check(pool("AveragePool", 0, &[1, 0], 1), &[0.5, 2.5, 4.5]);
    check(pool("AveragePool", 1, &[0, 0], 1), &[1.5, 3.5, 5.0]);
    check(node("GlobalMaxPool"), &[5.0]);
    check(node("GlobalAveragePool"), &[3.0]);
}

#[test]
fn softmax_before_opset_13_normalises_jointly() {
    let x = floats(&[1, 2, 2], &[0.0, 0.0, 0.0, 0.0]);
    let quarter = floats(&[1, 2, 2], &[0.25; 4]);
    let half = floats(&[1, 2, 2], &[0.5; 4]);
    check_array(11, node("Softmax"), &x, &quarter);
    check_array(13, node("Softmax"), &x, &half);
    check_array(11, node("Softmax").with("axis", int(2)), &x, &half);
    let logs = floats(&[1, 2, 2], &[-1.386_294; 4]);
    check_array(12, node("LogSoftmax").with("axis", int(-2)), &x, &logs);
}

#[test]
fn normalisations() {
    let x = floats(&[1, 2, 2], &[1.0, 3.0, 10.0, 30.0]);
    let with = |node: NodeProto, vectors: &[(&str, &[f32])]| {
        let mut model = Builder::new(21).floats("x", &[1, 2, 2]).node(node);
        for (name, values) in vectors {
            model = model.constant(name, Dtype::Float, &floats(&[2], values));
        }
        model
    };
    let scale: (&str, &[f32]) = ("scale", &[1.0, 2.0]);
    let bias: (&str, &[f32]) = ("bias", &[0.0, 1.0]);
    let names = ["x", "scale", "bias"];
    let layer = NodeProto::new("LayerNormalization", &names, &["y", "", "unused"]);
    let expected = floats(&[1, 2, 2], &[-1.0, 3.0, -1.0, 3.0]);
    check(with(layer, &[scale, bias]), &x, &expected);
    let instance = NodeProto::new("InstanceNormalization", &names, &["y"]);
    let expected = floats(&[1, 2, 2], &[-1.0, 1.0, -1.0, 3.0]);
    check(with(instance, &[scale, bias]), &x, &expected);
    let group = NodeProto::new("GroupNormalization", &names, &["y"]);
    check(with(group.clone().with("num_groups", int(2)), &[scale, bias]), &x, &expected);
    // One group: mean 11, variance 131.5.
    let expected = floats(&[1, 2, 2], &[-0.872_041, -0.697_633, 0.825_592, 4.313_757]);
    check(with(group.with("num_groups", int(1)), &[scale, bias]), &x, &expected);
    let batch =
        NodeProto::new("BatchNormalization", &["x", "scale", "bias", "mean", "var"], &["y"]);
    let model = with(batch, &[scale, bias, ("mean", &[1.0, 10.0]), ("var", &[4.0, 100.0])]);
    check(model, &x, &floats(&[1, 2, 2], &[0.0, 1.0, 1.0, 5.0]));
}

#[test]
fn reductions() {
    let x = floats(&[2, 2], &[1.0, -2.0, 3.0, 4.0]);
    let cases = [
        ("ReduceMean", [2.0, 1.0]),
        ("ReduceSum", [4.0, 2.0]),
        ("ReduceMax", [3.0, 4.0]),
        ("ReduceMin", [1.0, -2.0]),
        ("ReduceProd", [3.0, -8.0]),
        ("ReduceSumSquare", [10.0, 20.0]),
        ("ReduceL2", [3.162_278, 4.472_136]),
        ("ReduceL1", [4.0, 6.0]),
    ];
    for (operator, expected) in cases {
        let old = node(operator).with("axes", list(&[0]));
        check_array(11, old, &x, &floats(&[1, 2], &expected));
        let new = NodeProto::new(operator, &["x", "axes"], &["y"]).with("keepdims", int(0));
        let model = Builder::new(18).floats("x", &[2, 2]).ints("axes", &[-2]).node(new);
        check(model, &x, &floats(&[2], &expected));
    }
    check_array(13, node("ReduceSum"), &x, &floats(&[1, 1], &[6.0]));
    let noop = node("ReduceSum").with("noop_with_empty_axes", int(1));
    check_array(13, noop, &x, &x);
    let arg = node("ArgMax").with("axis", int(-1)).with("keepdims", int(0));
    check(Builder::new(13).floats("x", &[2, 2]).node(arg), &x, &ints(&[2], &[0, 1]));
    let arg = node("ArgMin");
    check(Builder::new(13).floats("x", &[2, 2]).node(arg), &x, &ints(&[1, 2], &[0, 0]));
}

#[test]
fn elements_moved_around() {
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let with = |operator: &str, lists: &[(&str, &[i64])]| {
        let mut names = vec!["x"];
        names.extend(lists.iter().map(|(name, _)| *name));
        let mut model = Builder::new(18).floats("x", &[2, 3]);
        for (name, values) in lists.iter().filter(|(name, _)| !name.is_empty()) {
            model = model.ints(name, values);
        }
        model.node(NodeProto::new(operator, &names, &["y"]))
    };
    let plain = |shape: &[usize]| floats(shape, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    check(with("Reshape", &[("s", &[0, -1, 1])]), &x, &plain(&[2, 3, 1]));
    check(with("Unsqueeze", &[("a", &[0, -1])]), &x, &plain(&[1, 2, 3, 1]));
    check_array(18, node("Flatten").with("axis", int(0)), &x, &plain(&[1, 6]));
    check_array(11, node("Unsqueeze").with("axes", list(&[1])), &x, &plain(&[2, 1, 3]));
    check_array(18, node("Squeeze"), &plain(&[1, 6, 1]), &plain(&[6]));
    let turned = floats(&[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    check_array(18, node("Transpose"), &x, &turned);
    let slice = with("Slice", &[("s", &[-1]), ("e", &[i64::MIN]), ("a", &[1]), ("t", &[-2])]);
    check(slice, &x, &floats(&[2, 2], &[3.0, 1.0, 6.0, 4.0]));
    let slice = with("Slice", &[("s", &[1]), ("e", &[i64::MAX])]);
    check(slice, &x, &floats(&[1, 3], &[4.0, 5.0, 6.0]));
    let old = node("Slice").with("starts", list(&[1])).with("ends", list(&[9]));
    check_array(9, old.with("axes", list(&[1])), &x, &floats(&[2, 2], &[2.0, 3.0, 5.0, 6.0]));
    let tiled = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0];
    check(with("Tile", &[("r", &[1, 2])]), &x, &floats(&[2, 6], &tiled));
    let gather = with("Gather", &[("i", &[-1, 0])]);
    check(gather, &x, &floats(&[2, 3], &[4.0, 5.0, 6.0, 1.0, 2.0, 3.0]));
    let row = floats(&[1, 2], &[1.0, 2.0]);
    let expand = Builder::new(18).floats("x", &[1, 2]).ints("s", &[2, 1]).node(NodeProto::new(
        "Expand",
        &["x", "s"],
        &["y"],
    ));
    check(expand, &row, &floats(&[2, 2], &[1.0, 2.0, 1.0, 2.0]));
    let both = NodeProto::new("Concat", &["x", "x"], &["y"]).with("axis", int(-1));
    check(
        Builder::new(18).floats("x", &[1, 2]).node(both),
        &row,
        &floats(&[1, 4], &[1.0, 2.0, 1.0, 2.0]),
    );
}

#[test]
fn splits_of_every_age() {
    let x = floats(&[3], &[1.0, 2.0, 3.0]);
    let back = NodeProto::new("Concat", &["b", "a"], &["y"]).with("axis", int(0));
    let turned = floats(&[3], &[3.0, 1.0, 2.0]);
    let old = NodeProto::new("Split", &["x"], &["a", "b"]).with("split", list(&[2, 1]));
    check(Builder::new(11).floats("x", &[3]).node(old).node(back.clone()), &x, &turned);
    let new = NodeProto::new("Split", &["x", "s"], &["a", "b"]);
    let model = Builder::new(13).floats("x", &[3]).ints("s", &[2, 1]).node(new);
    check(model.node(back.clone()), &x, &turned);
    let even = NodeProto::new("Split", &["x"], &["a", "b"]).with("num_outputs", int(2));
    check(Builder::new(18).floats("x", &[3]).node(even).node(back), &x, &turned);
}

#[test]
fn borders() {
    let x = floats(&[1, 3], &[1.0, 2.0, 3.0]);
    let pad = |mode: &str| {
        let node = NodeProto::new("Pad", &["x", "p", "v"], &["y"]).with("mode", text(mode));
        Builder::new(13)
            .floats("x", &[1, 3])
            .ints("p", &[0, 2, 0, 1])
            .constant("v", Dtype::Float, &floats(&[], &[7.0]))
            .node(node)
    };
    let result = |values: [f32; 6]| floats(&[1, 6], &values);
    check(pad("constant"), &x, &result([7.0, 7.0, 1.0, 2.0, 3.0, 7.0]));
    check(pad("reflect"), &x, &result([3.0, 2.0, 1.0, 2.0, 3.0, 2.0]));
    check(pad("edge"), &x, &result([1.0, 1.0, 1.0, 2.0, 3.0, 3.0]));
    let old = node("Pad").with("pads", list(&[0, 1, 0, 0])).with("value", float(5.0));
    check_array(10, old, &x, &floats(&[1, 4], &[5.0, 1.0, 2.0, 3.0]));
}

#[test]
fn resizing() {
    let x = floats(&[1, 1, 1, 2], &[1.0, 3.0]);
    let wide = floats(&[1, 1, 1, 4], &[1.0, 1.0, 3.0, 3.0]);
    let scales = floats(&[4], &[1.0, 1.0, 1.0, 2.0]);
    let base = |version| {
        Builder::new(version).floats("x", &[1, 1, 1, 2]).constant("s", Dtype::Float, &scales)
    };
    let floor = |node: NodeProto| {
        node.with("coordinate_transformation_mode", text("asymmetric"))
            .with("nearest_mode", text("floor"))
    };
    check(base(9).node(NodeProto::new("Upsample", &["x", "s"], &["y"])), &x, &wide);
    check(base(10).node(NodeProto::new("Resize", &["x", "s"], &["y"])), &x, &wide);
    let new = floor(NodeProto::new("Resize", &["x", "", "s"], &["y"]));
    check(base(13).node(new), &x, &wide);
    let sized = floor(NodeProto::new("Resize", &["x", "", "", "n"], &["y"]));
    check(
        base(13).ints("n", &[1, 1, 1, 3]).node(sized),
        &x,
        &floats(&[1, 1, 1, 3], &[1.0, 1.0, 3.0]),
    );
    let linear = NodeProto::new("Resize", &["x", "", "s"], &["y"]).with("mode", text("linear"));
    check(base(13).node(linear), &x, &floats(&[1, 1, 1, 4], &[1.0, 1.5, 2.5, 3.0]));
}

#[test]
fn depth_and_space() {
    let deep = floats(&[1, 4, 1, 1], &[1.0, 2.0, 3.0, 4.0]);
    let flat = floats(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    check_array(13, node("DepthToSpace").with("blocksize", int(2)), &deep, &flat);
    check_array(13, node("SpaceToDepth").with("blocksize", int(2)), &flat, &deep);
    let crd = node("DepthToSpace").with("blocksize", int(2)).with("mode", text("CRD"));
    let x: Vec<f32> = (0..8).map(|value| value as f32).collect();
    let expected = floats(&[1, 2, 2, 2], &x);
    check_array(13, crd, &floats(&[1, 8, 1, 1], &x), &expected);
}

/// A model that quantises, computes and dequantises, in both ways of writing it.
#[test]
fn quantised_models_run() {
    let base = || {
        Builder::new(13)
            .floats("x", &[1, 2])
            .constant("xs", Dtype::Float, &floats(&[], &[0.5]))
            .constant("xz", Dtype::Uint8, &ints(&[], &[128]))
            .constant("w", Dtype::Int8, &ints(&[2, 2], &[2, 4, -2, 6]))
            .constant("ws", Dtype::Float, &floats(&[2], &[0.5, 0.25]))
            .constant("wz", Dtype::Int8, &ints(&[2], &[0, 0]))
            .node(NodeProto::new("QuantizeLinear", &["x", "xs", "xz"], &["q"]))
    };
    let x = floats(&[1, 2], &[1.1, -2.0]);
    // x is 1.0 and -2.0 after rounding; the weights are 1, 1, -1 and 1.5.
    let expected = floats(&[1, 2], &[3.0, -2.0]);
    let qdq = base()
        .node(NodeProto::new("DequantizeLinear", &["q", "xs", "xz"], &["f"]))
        .node(NodeProto::new("DequantizeLinear", &["w", "ws", "wz"], &["g"]))
        .node(NodeProto::new("MatMul", &["f", "g"], &["y"]));
    check(qdq.clone(), &x, &expected);
    let names = ["q", "xs", "xz", "w", "ws", "wz", "xs", "xz"];
    let direct = base().node(NodeProto::new("QLinearMatMul", &names, &["r"])).node(NodeProto::new(
        "DequantizeLinear",
        &["r", "xs", "xz"],
        &["y"],
    ));
    check(direct, &x, &expected);

    // The weights are constants that remember their codes.
    let graph = qdq.output("y").read().unwrap();
    let weights = graph.value(graph.find("g").unwrap());
    assert_eq!(weights.constant, Some(floats(&[2, 2], &[1.0, 1.0, -1.0, 1.5])));
    let codes = graph.value(weights.quantised.unwrap().codes);
    assert_eq!((codes.name.as_str(), codes.dtype), ("w", Dtype::Int8));
    assert_eq!(weights.quantised.unwrap().axis, 1);
}

#[test]
fn convolution_of_codes_has_a_bias_in_steps_of_both_scales() {
    let names = ["x", "xs", "xz", "w", "xs", "xz", "xs", "xz", "b"];
    let add = ["r", "xs", "xz", "r", "xs", "xz", "xs", "xz"];
    let add = NodeProto::new("QLinearAdd", &add, &["y"]);
    let add = NodeProto { domain: "com.microsoft".to_owned(), ..add };
    let model = Builder::new(13)
        .input("x", ElementKind::Uint8, &[1, 1, 2])
        .constant("xs", Dtype::Float, &floats(&[], &[0.5]))
        .constant("xz", Dtype::Uint8, &ints(&[], &[10]))
        .constant("w", Dtype::Uint8, &ints(&[1, 1, 1], &[14]))
        .constant("b", Dtype::Int, &ints(&[1], &[4]))
        .node(NodeProto::new("QLinearConv", &names, &["r"]))
        .node(add);
    // (12 - 10) / 2 · 2 + 4 / 4 = 3, which is the code 16; twice it is 6, the code 22.
    check(model, &ints(&[1, 1, 2], &[12, 10]), &ints(&[1, 1, 2], &[22, 14]));
}

#[test]
fn every_value_can_be_asked_for_again_and_again() {
    let model = Builder::new(17)
        .floats("x", &[2])
        .constant("c", Dtype::Float, &floats(&[2], &[1.0, 2.0]))
        .node(NodeProto::new("Add", &["x", "c"], &["a"]))
        .node(NodeProto::new("Relu", &["a"], &["y"]))
        .output("y");
    let graph = model.read().unwrap();
    let reference = Reference::new(&graph).unwrap();
    let ids: Vec<ValueId> =
        ["x", "c", "a", "y", "a"].iter().map(|name| graph.find(name).unwrap()).collect();
    for shift in [0.0, -5.0] {
        let x = floats(&[2], &[shift, 1.0]);
        let found = reference.run(std::slice::from_ref(&x), &ids).unwrap();
        let a = floats(&[2], &[shift + 1.0, 3.0]);
        let y = floats(&[2], &[(shift + 1.0).max(0.0), 3.0]);
        assert_eq!(found, [x, floats(&[2], &[1.0, 2.0]), a.clone(), y, a]);
    }
    assert_eq!(reference.run(&[floats(&[2], &[0.0, 0.0])], &[]).unwrap(), []);
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let model = Builder::new(17)
        .input("x", ElementKind::Int64, &[2])
        .node(NodeProto::new("Neg", &["x"], &["y"]))
        .output("y");
    let graph = model.read().unwrap();
    let reference = Reference::new(&graph).unwrap();
    let run = |inputs: &[Array]| reference.run(inputs, graph.outputs());
    assert!(matches!(run(&[]), Err(FloatError::InputCount { found: 0, expected: 1 })));
    assert!(matches!(run(&[ints(&[1], &[1])]), Err(FloatError::InputShape { .. })));
    assert!(matches!(run(&[floats(&[2], &[1.0, 2.0])]), Err(FloatError::InputKind { .. })));
    let wide = run(&[ints(&[2], &[1, 1 << 40])]);
    assert!(matches!(wide, Err(FloatError::Wide { found, .. }) if found == 1 << 40));
    assert_eq!(run(&[ints(&[2], &[1, -2])]).unwrap(), [ints(&[2], &[-1, 2])]);
}
