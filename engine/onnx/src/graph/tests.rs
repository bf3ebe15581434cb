//! Files become graphs or errors; a file cannot do harm.

use expect_test::{Expect, expect};

use super::*;
use crate::float::Reference;
use crate::proto::AttributeValue;
use crate::testing::{Builder, chain, float, floats, int, ints, list, text};

fn node(operator: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto::new(operator, inputs, outputs)
}

fn check(model: &Builder, expected: &Expect) {
    expected.assert_eq(&model.refusal());
}

/// Why a node is refused, without its name.
fn check_node(model: &Builder, expected: &Expect) {
    let refusal = model.refusal();
    let cause = refusal.split_once(" cannot be imported: ").map_or("no node", |(_, cause)| cause);
    expected.assert_eq(cause);
}

/// A model with shape arithmetic, constants to fold, nodes out of order and one that is not used.
fn model() -> Builder {
    Builder::new(17)
        .floats("x", &[2, 3])
        .ints("minus_one", &[-1])
        .ints("zero", &[0])
        .constant("w", Dtype::Float, &floats(&[1, 6], &[1.0; 6]))
        .constant("half", Dtype::Float, &floats(&[], &[0.5]))
        .node(node("Mul", &["flat", "scaled"], &["product"]))
        .node(node("Mul", &["w", "half"], &["scaled"]))
        .node(node("Shape", &["x"], &["shape"]))
        .node(node("Gather", &["shape", "zero"], &["rows"]))
        .node(node("Div", &["rows", "rows"], &["one"]))
        .node(node("Concat", &["one", "minus_one"], &["target"]).with("axis", int(0)))
        .node(node("Reshape", &["x", "target"], &["flat"]))
        .node(node("Exp", &["product"], &["unused"]))
        .node(node("ReduceSum", &["product"], &["y"]))
        .output("y")
}

#[test]
fn graph_keeps_only_what_depends_on_the_data() {
    let graph = model().read().unwrap();
    let mut lines = String::new();
    for node in graph.nodes() {
        let names = |ids: Vec<ValueId>| -> Vec<String> {
            let show = |id| format!("{}{:?}", graph.value(id).name, graph.dims(id));
            ids.into_iter().map(show).collect()
        };
        let inputs = names(node.inputs.iter().flatten().copied().collect());
        lines += &format!("{:?} {inputs:?} -> {:?}\n", node.op, names(node.outputs.clone()));
    }
    expect![[r#"
        Reshape { shape: [1, 6] } ["x[2, 3]"] -> ["flat[1, 6]"]
        Binary(Mul) ["flat[1, 6]", "scaled[1, 6]"] -> ["product[1, 6]"]
        Reduce { kind: Sum, axes: [0, 1], keep: true } ["product[1, 6]"] -> ["y[1, 1]"]
    "#]]
    .assert_eq(&lines);
    let scaled = graph.find("scaled").unwrap();
    assert_eq!(graph.constant(scaled), Some(&floats(&[1, 6], &[0.5; 6])));
    assert_eq!((graph.producer(scaled), graph.consumers(scaled)), (None, &[1][..]));
    let flat = graph.find("flat").unwrap();
    assert_eq!((graph.producer(flat), graph.consumers(flat)), (Some(0), &[1][..]));
    assert_eq!(graph.find("half"), None, "only needed on the way");
    assert_eq!(graph.values().len(), 5);
}

#[test]
fn free_sides_are_filled_in() {
    let mut model =
        Builder::new(17).floats("x", &[1, 3]).node(node("Relu", &["x"], &["y"])).output("y");
    model.0.graph.inputs[0].shape = Some(vec![
        DimensionProto::Param("batch".to_owned()),
        DimensionProto::Value(-1),
        DimensionProto::Unknown,
        DimensionProto::Value(3),
    ]);
    let read = |shapes: &[(&str, &[usize])]| {
        let shapes = shapes.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec()));
        let options = Options { shapes: shapes.collect(), free_side: 2, ..Options::default() };
        let graph = Graph::read(&model.bytes(), &options);
        graph.map(|graph| graph.dims(graph.outputs()[0]).to_vec()).map_err(|error| chain(&error))
    };
    assert_eq!(read(&[]), Ok(vec![2, 2, 2, 3]));
    assert_eq!(read(&[("x", &[1, 5, 7, 3])]), Ok(vec![1, 5, 7, 3]));
    expect![[r#"
        "shape [1, 5, 7, 4] does not fit input \"x\", declared as [None, None, None, Some(3)]"
    "#]]
    .assert_debug_eq(&read(&[("x", &[1, 5, 7, 4])]).unwrap_err());
    assert!(read(&[("x", &[3])]).is_err());
    assert!(read(&[("x", &[0, 5, 7, 3])]).is_err());
    assert!(read(&[("x", &[1 << 40, 5, 7, 3])]).is_err());
    assert!(read(&[("z", &[3])]).is_err());
}

#[test]
fn initialisers_may_be_declared_as_inputs() {
    let model = Builder::new(17)
        .floats("x", &[2])
        .floats("c", &[2])
        .constant("c", Dtype::Float, &floats(&[2], &[1.0, 2.0]))
        .node(node("Add", &["x", "c"], &["y"]))
        .output("y");
    let graph = model.read().unwrap();
    assert_eq!(graph.inputs().len(), 1);
}

#[test]
fn outputs_may_be_inputs_or_constants() {
    let model = Builder::new(17)
        .floats("x", &[2])
        .constant("c", Dtype::Float, &floats(&[2], &[1.0, 2.0]))
        .node(node("Neg", &["c"], &["n"]))
        .output("x")
        .output("c")
        .output("n")
        .output("n");
    let x = floats(&[2], &[5.0, 6.0]);
    let negated = floats(&[2], &[-1.0, -2.0]);
    let expected = [x.clone(), floats(&[2], &[1.0, 2.0]), negated.clone(), negated];
    assert_eq!(model.run(&[x]), expected);
}

#[test]
fn broken_graphs_are_refused() {
    let base = || Builder::new(17).floats("x", &[2]);
    check(&base(), &expect!["the graph has no outputs"]);
    check(&base().output("y"), &expect![[r#"value "y", used by "y", is defined nowhere"#]]);
    let dangling = base().node(node("Relu", &["z"], &["y"])).output("y");
    check(&dangling, &expect![[r#"value "z", used by "y", is defined nowhere"#]]);
    let twice =
        base().node(node("Relu", &["x"], &["y"])).node(node("Neg", &["x"], &["y"])).output("y");
    check(&twice, &expect![[r#"value "y" is defined twice"#]]);
    let over_input = base().node(node("Relu", &["x"], &["x"])).output("x");
    check(&over_input, &expect![[r#"value "x" is defined twice"#]]);
    let circle = base()
        .node(node("Add", &["x", "b"], &["a"]))
        .node(node("Relu", &["a"], &["b"]))
        .output("b");
    check(&circle, &expect![[r#"node "a" depends on its own result"#]]);
    let mask = base()
        .node(node("Dropout", &["x"], &["d", "mask"]))
        .node(node("Where", &["mask", "d", "x"], &["y"]))
        .output("y");
    check_node(&mask, &expect!["2 results, the operator gives 1"]);
}

#[test]
fn versions_out_of_range_are_refused() {
    let model = |version| {
        Builder::new(version).floats("x", &[2]).node(node("Relu", &["x"], &["y"])).output("y")
    };
    assert!(model(OPSET_MIN).read().is_ok());
    assert!(model(OPSET_MAX).read().is_ok());
    check(&model(6), &expect!["operator set Some(6) is not supported, expected 7 to 24"]);
    check(&model(25), &expect!["operator set Some(25) is not supported, expected 7 to 24"]);
    let mut none = model(17);
    none.0.opsets.clear();
    check(&none, &expect!["operator set None is not supported, expected 7 to 24"]);
}

#[test]
fn unsupported_operators_are_refused_with_a_hint() {
    let hint = |operator: &str, domain: &str| {
        let made = NodeProto { domain: domain.to_owned(), ..node(operator, &["x"], &["y"]) };
        let model = Builder::new(17).floats("x", &[2]).node(made).output("y");
        let error = model.read().unwrap_err();
        format!("{}\n{}\n", chain(&error), error.hint().unwrap_or("no hint").replace(": ", ":\n"))
    };
    expect![[r#"
        node "y" (LSTM) cannot be imported: the operator is not supported
        it carries state from step to step:
        unroll it at export, or use a convolution or attention instead
    "#]]
    .assert_eq(&hint("LSTM", ""));
    assert!(hint("If", "").contains("control flow"));
    assert!(hint("Loop", "").contains("fixed trip counts"));
    assert!(hint("NonZero", "").contains("depends on the data"));
    assert!(hint("MatMulInteger", "").contains("QDQ"));
    assert!(hint("Blargh", "").contains("supported operators"));
    expect![[r#"
        node "y" (FusedThing) cannot be imported: operators of domain "com.acme" are not known
        export with standard operators only (ai.onnx), without runtime fusions
    "#]]
    .assert_eq(&hint("FusedThing", "com.acme"));
}

#[test]
fn forms_that_are_not_supported_are_named() {
    let one = |made: NodeProto| {
        Builder::new(17)
            .floats("x", &[1, 1, 4, 4])
            .ints("p", &[0, 0, 0, -1, 0, 0, 0, 0])
            .node(made)
            .output("y")
    };
    let cropped = node("Pad", &["x", "p"], &["y"]);
    let expected = expect!["a negative pad, which is a slice, is not supported"];
    check_node(&one(cropped), &expected);
    let pool = node("MaxPool", &["x"], &["y"]).with("kernel_shape", list(&[2, 2]));
    let dilated = pool.clone().with("dilations", list(&[2, 2]));
    check_node(&one(dilated), &expect!["a dilated pool is not supported"]);
    let padded = pool.with("auto_pad", text("SOME"));
    let expected = expect![[r#"attribute "auto_pad" is "SOME", which is not known"#]];
    check_node(&one(padded), &expected);
    let cubic = node("Resize", &["x"], &["y"]).with("mode", text("cubic"));
    let expected = expect![[r#"attribute "mode" is "cubic", which is not known"#]];
    check_node(&one(cubic), &expected);
    let dynamic = node("Reshape", &["x", "x"], &["y"]);
    check_node(&one(dynamic), &expect!["the shape (operand 1) depends on the data"]);
    let kind = node("Concat", &["x"], &["y"]).with("axis", float(1.0));
    let expected = expect![[r#"attribute "axis" is of kind 1, expected an integer"#]];
    check_node(&one(kind), &expected);
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let base = || {
        Builder::new(17)
            .floats("x", &[2, 3])
            .constant("w", Dtype::Float, &floats(&[2, 2], &[1.0; 4]))
            .constant("i", Dtype::Int, &ints(&[1], &[2]))
            .output("y")
    };
    let mut lines = String::new();
    for made in [
        node("MatMul", &["x", "w"], &["y"]),
        node("Add", &["x", "w"], &["y"]),
        node("Add", &["x", "i"], &["y"]),
        node("Add", &["x"], &["y"]),
        node("Add", &["x", ""], &["y"]),
        node("Conv", &["x", "w"], &["y"]),
        node("Gather", &["x", "i"], &["y"]),
        node("Gather", &["x", "w"], &["y"]),
        node("Softmax", &["x"], &["y"]).with("axis", int(2)),
        node("Transpose", &["x"], &["y"]).with("perm", list(&[0, 0])),
        node("Reshape", &["x", "i"], &["y"]),
        node("Squeeze", &["x"], &["y"]).with("axes", list(&[0])),
        node("Not", &["x"], &["y"]),
        node("Cast", &["x"], &["y"]).with("to", int(8)),
        node("Split", &["x"], &["y", "z"]).with("split", list(&[1, 2])),
    ] {
        let refusal = base().node(made).refusal();
        lines += refusal.trim_start_matches("node \"y\" ").trim_start();
        lines += "\n";
    }
    expect![[r#"
        (MatMul) cannot be imported: shapes [2, 3] and [2, 2] do not fit each other
        (Add) cannot be imported: shapes [2, 3] and [2, 2] do not fit each other
        (Add) cannot be imported: operand 1 is int, expected the kind of the first
        (Add) cannot be imported: 1 operands, expected 2 to 2
        (Add) cannot be imported: 1 operands, expected 2 to 2
        (Conv) cannot be imported: operand 0 has rank 2, expected 3 or 4
        (Gather) cannot be imported: index 2 is outside of an axis of 2
        (Gather) cannot be imported: operand 1 is float, expected int
        (Softmax) cannot be imported: the axis is 2, which is out of range
        (Transpose) cannot be imported: the axis (again) is 0, which is out of range
        (Reshape) cannot be imported: shapes [2, 3] and [2] do not fit each other
        (Squeeze) cannot be imported: shapes [2, 3] and [3] do not fit each other
        (Not) cannot be imported: operand 0 is float, expected bool
        (Cast) cannot be imported: the element kind is 8, which is out of range
        (Split) cannot be imported: shapes [2, 3] and [1, 2] do not fit each other
    "#]]
    .assert_eq(&lines);
}

/// Goal: a small file cannot ask for much memory or work. Method: each operator that can make
/// something large out of little is asked to.
#[test]
fn shape_bombs_are_refused() {
    let huge = 1_i64 << 40;
    let base = || {
        Builder::new(17)
            .floats("x", &[1, 1, 2, 2])
            .constant("c", Dtype::Float, &floats(&[1, 1, 1, 1], &[1.0]))
            .ints("huge", &[huge, huge])
            .ints("large", &[1, 1, 1 << 15, 1 << 15])
            .ints("pads", &[0, 0, huge, huge, 0, 0, 0, 0])
            .constant("zero", Dtype::Int, &ints(&[], &[0]))
            .constant("one", Dtype::Int, &ints(&[], &[1]))
            .constant("far", Dtype::Int, &ints(&[], &[i64::MAX]))
            .constant("factors", Dtype::Float, &floats(&[4], &[1.0, 1.0, 1e8, 1e8]))
            .output("y")
    };
    let kernel = list(&[2, 2]);
    for made in [
        node("ConstantOfShape", &["huge"], &["y"]),
        node("ConstantOfShape", &["large"], &["y"]),
        node("Expand", &["x", "huge"], &["y"]),
        node("Expand", &["c", "large"], &["y"]),
        node("Tile", &["x", "large"], &["y"]),
        node("Tile", &["c", "large"], &["y"]),
        node("Range", &["zero", "far", "one"], &["y"]),
        node("Pad", &["x", "pads"], &["y"]),
        node("Pad", &["c", "pads"], &["y"]),
        node("Resize", &["x", "", "factors"], &["y"]),
        node("Conv", &["x", "c"], &["y"]).with("pads", list(&[1 << 20; 4])),
        node("Conv", &["x", "c"], &["y"]).with("pads", list(&[i64::MAX; 4])),
        node("ConvTranspose", &["x", "c"], &["y"]).with("strides", list(&[1 << 20; 2])),
        node("MaxPool", &["x"], &["y"]).with("kernel_shape", kernel).with("pads", list(&[9; 4])),
        node("DepthToSpace", &["x"], &["y"]).with("blocksize", int(1 << 33)),
        node("Unsqueeze", &["x"], &["y"]).with("axes", list(&[0, 1, 2, 3, 4])),
    ] {
        let refusal = base().node(made.clone()).refusal();
        assert!(refusal.contains("cannot be imported"), "{made:?}: {refusal}");
    }
}

/// A shape without elements has large sides for free.
#[test]
fn empty_shapes_are_not_walked_along() {
    let mut model = Builder::new(17)
        .floats("x", &[1])
        .constant("c", Dtype::Float, &floats(&[0], &[]))
        .node(node("Concat", &["c"; 1000], &["e"]).with("axis", int(1)))
        .node(node("Transpose", &["e"], &["t"]))
        .node(node("Size", &["t"], &["s"]))
        .node(node("Cast", &["s"], &["f"]).with("to", int(1)))
        .node(node("Add", &["x", "f"], &["y"]))
        .output("y");
    model.0.graph.initializers[0].dims = vec![1 << 27, 0];
    assert!(model.read().is_ok());
}

/// A long name, repeated for every part of a long sum, would fill the memory.
#[test]
fn long_sums_with_long_names_stay_small() {
    let name = "n".repeat(4096);
    let many = node("Sum", &["x"; 20_000], &[&name]);
    let model = Builder::new(17).floats("x", &[1]).node(many).output(&name);
    let graph = model.read().unwrap();
    assert_eq!(graph.nodes().len(), 19_999);
    let bytes: usize = graph.values().iter().map(|value| value.name.len()).sum();
    assert!(bytes < 4_000_000, "{bytes}");
}

#[test]
fn long_evaluations_are_refused() {
    let model = Builder::new(17)
        .floats("x", &[1])
        .ints("side", &[1 << 12, 1 << 12])
        .node(node("ConstantOfShape", &["side"], &["a"]))
        .node(node("MatMul", &["a", "a"], &["b"]))
        .node(node("ReduceSum", &["b"], &["c"]).with("keepdims", int(0)))
        .node(node("Add", &["x", "c"], &["y"]))
        .output("y");
    let expected = expect!["evaluating constants would take more than 17179869184 steps"];
    check_node(&model, &expected);
}

/// Goal: many small steps cannot add up to much memory. Method: one node that doubles, often.
#[test]
fn doubling_again_and_again_is_refused() {
    let mut model = Builder::new(17)
        .floats("x", &[2])
        .constant("c", Dtype::Float, &floats(&[1], &[1.0]))
        .node(node("Concat", &["c", "c"], &["v0"]).with("axis", int(0)));
    for step in 0..40 {
        let (from, to) = (format!("v{step}"), format!("v{}", step + 1));
        model = model.node(node("Concat", &[&from, &from], &[&to]).with("axis", int(0)));
    }
    let model = model.node(node("Add", &["x", "v40"], &["y"])).output("y");
    assert!(model.refusal().contains("elements"), "{}", model.refusal());
}

#[test]
fn weights_that_are_not_numbers_are_refused() {
    let mut model = Builder::new(17)
        .floats("x", &[2])
        .constant("c", Dtype::Float, &floats(&[2], &[1.0, f32::NAN]))
        .node(node("Add", &["x", "c"], &["y"]))
        .output("y");
    check(&model, &expect![[r#"initialiser "c" cannot be used: element 1 is not a number"#]]);
    model.0.graph.initializers[0].external = true;
    assert!(model.read().unwrap_err().hint().unwrap().contains("inside the file"));

    // Zero divided by zero, while folding.
    let folded = Builder::new(17)
        .floats("x", &[1])
        .constant("c", Dtype::Float, &floats(&[1], &[0.0]))
        .node(node("Div", &["c", "c"], &["d"]))
        .node(node("Add", &["x", "d"], &["y"]))
        .output("y");
    check_node(&folded, &expect!["a constant result is not usable: element 0 is not a number"]);
    let log = Builder::new(17)
        .floats("x", &[1])
        .constant("c", Dtype::Float, &floats(&[1], &[0.0]))
        .node(node("Log", &["c"], &["d"]))
        .node(node("Add", &["x", "d"], &["y"]))
        .output("y");
    let graph = log.read().unwrap();
    assert_eq!(graph.constant(graph.find("d").unwrap()), Some(&floats(&[1], &[f32::MIN])));
}

#[test]
fn integer_arithmetic_that_overflows_is_refused() {
    for (operator, b) in [("Div", 0), ("Add", 1), ("Mul", 2), ("Pow", 2), ("Sub", -1)] {
        let model = Builder::new(17)
            .floats("x", &[2])
            .ints("a", &[i64::MAX])
            .ints("b", &[b])
            .node(node(operator, &["a", "b"], &["s"]))
            .node(node("Reshape", &["x", "s"], &["y"]))
            .output("y");
        check_node(&model, &expect!["integer arithmetic on constants overflows"]);
    }
}

/// Goal: long chains of shape arithmetic import in about a second. Method: 2,000 nodes for the
/// integer path and 2,000 that go through the float engine.
#[test]
fn long_chains_of_constants_are_fast() {
    for (operator, dtype, one) in
        [("Add", Dtype::Int, ints(&[1], &[1])), ("Add", Dtype::Float, floats(&[1], &[1.0]))]
    {
        let mut model = Builder::new(17).input("x", dtype.into(), &[1]).constant("v0", dtype, &one);
        model = model.constant("one", dtype, &one);
        for step in 0..2000 {
            let (from, to) = (format!("v{step}"), format!("v{}", step + 1));
            model = model.node(node(operator, &[&from, "one"], &[&to]));
        }
        let model = model.node(node("Add", &["x", "v2000"], &["y"])).output("y");
        let start = std::time::Instant::now();
        let graph = model.read().unwrap();
        let last = graph.constant(graph.find("v2000").unwrap()).unwrap();
        assert_eq!(last.to_floats(), [2001.0]);
        let taken = start.elapsed();
        assert!(taken.as_secs() < 5, "{dtype}: {taken:?}"); // slow machines, parallel tests
    }
}

/// A model with many kinds of operators, small enough to be broken at every byte.
fn varied() -> Builder {
    let kernel = floats(&[1, 1, 2, 2], &[1.0, -1.0, 0.5, 2.0]);
    Builder::new(13)
        .floats("x", &[1, 1, 4, 4])
        .constant("w", Dtype::Float, &kernel)
        .ints("s", &[1, -1])
        .ints("pads", &[0, 0, 1, 1, 0, 0, 0, 0])
        .node(node("Pad", &["x", "pads"], &["p"]).with("mode", text("reflect")))
        .node(
            node("Conv", &["p", "w"], &["c"])
                .with("strides", list(&[2, 2]))
                .with("auto_pad", text("SAME_UPPER")),
        )
        .node(
            node("MaxPool", &["c"], &["m"])
                .with("kernel_shape", list(&[2, 2]))
                .with("ceil_mode", int(1)),
        )
        .node(node("Reshape", &["m", "s"], &["r"]))
        .node(node("Constant", &[], &["k"]).with(
            "value",
            AttributeValue::Tensor(
                TensorProto::from_array("", Dtype::Int, &ints(&[1], &[0])).unwrap(),
            ),
        ))
        .node(node("Gather", &["r", "k"], &["g"]).with("axis", int(1)))
        .node(node("Softmax", &["g"], &["y"]))
        .output("y")
}

fn try_everything(bytes: &[u8]) {
    let limits = Limits {
        elements: 1 << 16,
        elements_total: 1 << 18,
        folded_elements: 1 << 16,
        folded_steps: 1 << 20,
        ..Limits::default()
    };
    if let Ok(graph) = Graph::read(bytes, &Options { limits, ..Options::default() })
        && let Ok(reference) = Reference::new(&graph)
    {
        let array = |id: &ValueId| {
            let value = graph.value(*id);
            let count = value.shape.iter().product();
            let data = match value.dtype {
                Dtype::Float => Data::Float(vec![0.5; count]),
                Dtype::Int | Dtype::Bool | Dtype::Int8 | Dtype::Uint8 => Data::Int(vec![1; count]),
            };
            Array::new(value.shape.clone(), data).unwrap()
        };
        let inputs: Vec<Array> = graph.inputs().iter().map(array).collect();
        let _either_is_fine = reference.run(&inputs, graph.outputs());
    }
}

#[test]
fn model_cut_at_any_byte_does_no_harm() {
    let bytes = varied().bytes();
    assert!(Graph::read(&bytes, &Options::default()).is_ok());
    for end in 0..bytes.len() {
        try_everything(&bytes[..end]);
    }
}

#[test]
fn model_with_any_byte_changed_does_no_harm() {
    let bytes = varied().bytes();
    for at in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] ^= change;
            try_everything(&bytes);
        }
    }
}

#[test]
fn prop_changed_models_do_no_harm() {
    let bytes = varied().bytes();
    arbtest::arbtest(|u| {
        let mut bytes = bytes.clone();
        for _ in 0..u.int_in_range(1..=6)? {
            let at = u.choose_index(bytes.len())?;
            bytes[at] = u.arbitrary()?;
        }
        try_everything(&bytes);
        Ok(())
    })
    .budget_ms(2_000);
}

/// Goal: no operator panics, whatever it is given. Method: random operators on random operands
/// with random attributes.
#[test]
fn prop_random_nodes_do_no_harm() {
    const OPERATORS: [&str; 48] = [
        "Gemm",
        "MatMul",
        "Conv",
        "ConvTranspose",
        "Clip",
        "Softmax",
        "LogSoftmax",
        "LayerNormalization",
        "InstanceNormalization",
        "GroupNormalization",
        "BatchNormalization",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "Add",
        "Div",
        "Pow",
        "PRelu",
        "Max",
        "Where",
        "Equal",
        "And",
        "ReduceSum",
        "ReduceL2",
        "ArgMax",
        "Concat",
        "Slice",
        "Split",
        "Pad",
        "Reshape",
        "Flatten",
        "Transpose",
        "Squeeze",
        "Unsqueeze",
        "Expand",
        "Tile",
        "Gather",
        "Cast",
        "ConstantOfShape",
        "Range",
        "Resize",
        "Upsample",
        "DepthToSpace",
        "SpaceToDepth",
        "QuantizeLinear",
        "DequantizeLinear",
        "QLinearConv",
        "Shape",
    ];
    const NAMES: [&str; 14] = [
        "axis",
        "axes",
        "pads",
        "strides",
        "dilations",
        "kernel_shape",
        "group",
        "auto_pad",
        "mode",
        "perm",
        "blocksize",
        "num_groups",
        "keepdims",
        "output_padding",
    ];
    const VALUES: [&str; 11] = ["x", "v", "n", "b", "q", "s", "i", "c", "e", "", "z"];
    arbtest::arbtest(|u| {
        let base = Builder::new(u.int_in_range(7..=21)?)
            .floats("x", &[1, 2, 4, 4])
            .floats("v", &[2])
            .input("n", ElementKind::Int64, &[2])
            .input("b", ElementKind::Bool, &[4])
            .input("q", ElementKind::Uint8, &[1, 2, 4, 4])
            .constant("s", Dtype::Float, &floats(&[2], &[1.0, 2.0]))
            .ints("i", &[1, 2, -1])
            .constant("c", Dtype::Float, &floats(&[2, 2, 1, 1], &[1.0, 2.0, 3.0, 0.0]))
            .constant("e", Dtype::Float, &floats(&[0], &[]))
            .constant("z", Dtype::Uint8, &ints(&[], &[3]));
        let mut inputs = Vec::new();
        for _ in 0..u.int_in_range(0..=5)? {
            inputs.push(*u.choose(&VALUES)?);
        }
        let mut made = node(u.choose(&OPERATORS)?, &inputs, &["y"]);
        for _ in 0..u.int_in_range(0..=4)? {
            let value = match u.int_in_range(0..=3)? {
                0 => int(u.int_in_range(-3..=5)?),
                1 => {
                    let mut values = Vec::new();
                    for _ in 0..u.int_in_range(0..=4)? {
                        values.push(u.int_in_range(-2..=4)?);
                    }
                    list(&values)
                }
                2 => text(u.choose(&["SAME_UPPER", "VALID", "edge", "reflect", "linear"])?),
                _ => int(u.arbitrary()?),
            };
            made = made.with(u.choose(&NAMES)?, value);
        }
        let end = node("Identity", &["y"], &["o"]);
        try_everything(&base.node(made).node(end).output("o").bytes());
        Ok(())
    })
    .budget_ms(5_000);
}
