//! Reductions, arg-max, softmax and the norms.

use super::{Bound, Choices, More, Trial, check, node, on, one, positive, simple};
use crate::dtype::Dtype;
use crate::graph::Options;
use crate::import::Source;
use crate::testing::{Builder, float, floats, int, list};
use tg_tensor::{Options as RunOptions, Runner};

#[test]
fn reductions_over_all_kinds_of_axes() {
    let axes: [&[i64]; 7] = [&[0], &[1], &[-1], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];
    let kinds = ["Mean", "Sum", "Max", "Min", "L1", "L2", "SumSquare"];
    let mut trials = Vec::new();
    for kind in kinds {
        for axes in axes {
            for keep in [0, 1] {
                let reduce = node(&format!("Reduce{kind}"), &["x", "axes"], "y");
                let model = on(&[2, 3, 4]).ints("axes", axes);
                let model = model.node(reduce.with("keepdims", int(keep))).output("y");
                trials.push(Trial::new(&format!("{kind} {axes:?} {keep}"), model, Bound::Wide));
            }
        }
    }
    check(trials);
}

#[test]
fn reductions_in_other_memory_orders() {
    let mut trials = Vec::new();
    for kind in ["Mean", "Max", "Min", "L2"] {
        for axes in [&[1][..], &[2], &[0, 3], &[2, 3]] {
            let reduce =
                node(&format!("Reduce{kind}"), &["t", "axes"], "r").with("keepdims", int(0));
            let model = on(&[2, 3, 4, 5])
                .ints("axes", axes)
                .scalar("s", -2.0)
                .node(node("Transpose", &["x"], "t").with("perm", list(&[2, 0, 3, 1])))
                .node(reduce)
                .add("Mul", &["r", "s"], "y")
                .output("y");
            trials.push(Trial::new(&format!("{kind} {axes:?}"), model, Bound::Wide));
        }
    }
    check(trials);
}

#[test]
fn sums_of_many_elements() {
    let trial = |kind: &str| {
        let model = on(&[2, 40_000]).ints("axes", &[1]);
        let model = model.add(&format!("Reduce{kind}"), &["x", "axes"], "y").output("y");
        Trial::new(kind, model, Bound::Eight).drawn(|x| x + 0.5)
    };
    check(vec![trial("Mean"), trial("Sum"), trial("L1"), trial("L2"), trial("SumSquare")]);
}

#[test]
fn places_of_extremes_are_exact() {
    let mut trials = Vec::new();
    for operator in ["ArgMax", "ArgMin"] {
        for axis in [0, 1, -1] {
            for keep in [0, 1] {
                let arg = simple(operator).with("axis", int(axis)).with("keepdims", int(keep));
                let trial = Trial::new(
                    &format!("{operator} {axis} {keep}"),
                    one(&[3, 4, 5], arg),
                    Bound::Exact,
                );
                trials.push(trial);
            }
        }
        let turned = on(&[3, 4, 5])
            .node(node("Transpose", &["x"], "t").with("perm", list(&[2, 0, 1])))
            .node(node(operator, &["t"], "y").with("axis", int(1)))
            .output("y");
        trials.push(Trial::new(operator, turned, Bound::Exact));
    }
    check(trials);
}

/// The float engine takes the last of equals, the standard and a program the first.
#[test]
fn first_of_equal_extremes_is_taken() {
    for (operator, expected) in [("ArgMax", [1, 0]), ("ArgMin", [0, 0])] {
        let model = one(&[2, 4], simple(operator).with("axis", int(1)));
        let sample = vec![floats(&[2, 4], &[1.0, 3.0, 3.0, 1.0, 2.0, 2.0, 2.0, 2.0])];
        let source = Source::read(&model.bytes(), &Options::default()).expect("a model");
        let calibration = [sample.clone()];
        let imported = source.import(&calibration, &[], Choices { activation_bits: 8 });
        let model = imported.expect("it is imported").model;
        let port = model.program().inputs().first().expect("one input");
        let inputs = [port.encode(&sample[0]).expect("it fits")];
        let found =
            Runner::new(model.clone(), RunOptions::default()).run(&inputs).expect("it runs");
        assert_eq!(found[0].to_numbers(), expected, "{operator}");
    }
}

#[test]
fn softmax_over_each_axis() {
    let mut trials = Vec::new();
    for version in [11, 13] {
        for axis in [0, 1, 2, -1] {
            let model = Builder::new(version)
                .floats("x", &[2, 3, 7])
                .node(simple("Softmax").with("axis", int(axis)))
                .output("y");
            trials.push(Trial::new(&format!("{version} {axis}"), model, Bound::Wide));
        }
    }
    let turned = on(&[2, 3, 7])
        .node(node("Transpose", &["x"], "t").with("perm", list(&[1, 2, 0])))
        .node(node("Softmax", &["t"], "y").with("axis", int(1)))
        .output("y");
    trials.push(Trial::new("turned", turned, Bound::Wide));
    let steep = one(&[4, 9], simple("Softmax"));
    trials.push(Trial::new("steep", steep, Bound::Wide).drawn(|x| x * 12.0));
    let moved = on(&[2, 6])
        .add("Softmax", &["x"], "s")
        .node(node("Concat", &["s", "x"], "y").with("axis", int(0)))
        .output("y");
    trials.push(Trial::new("concatenated", moved, Bound::Wide));
    check(trials);
}

#[test]
fn norms() {
    let with = |model: Builder, shape: &[usize]| {
        model.constant("s", Dtype::Float, &positive(4, shape)).weight("b", shape)
    };
    let norm = |operator: &str| node(operator, &["x", "s", "b"], "y");
    let layer = |name: &str, x: &[usize], s: &[usize], axis: i64| {
        let model = with(on(x), s).node(norm("LayerNormalization").with("axis", int(axis)));
        Trial::new(name, model.output("y"), Bound::Wide)
    };
    let group = |name: &str, x: &[usize], groups: i64| {
        let node = norm("GroupNormalization").with("num_groups", int(groups));
        Trial::new(name, with(on(x), &[x[1]]).node(node).output("y"), Bound::Wide)
    };
    let plain = on(&[3, 16])
        .constant("s", Dtype::Float, &positive(4, &[16]))
        .add("LayerNormalization", &["x", "s"], "y")
        .output("y");
    let behind = with(on(&[3, 16]), &[16])
        .scalar("f", -0.5)
        .add("LayerNormalization", &["x", "s", "b"], "n")
        .add("Mul", &["n", "f"], "m")
        .add("Relu", &["m"], "y")
        .output("y");
    let instance = |name: &str, x: &[usize]| {
        let model = with(on(x), &[x[1]]).node(norm("InstanceNormalization"));
        Trial::new(name, model.output("y"), Bound::Wide)
    };
    let turned = with(on(&[2, 6, 16]), &[6])
        .node(node("Transpose", &["x"], "t").with("perm", list(&[0, 2, 1])))
        .add("LayerNormalization", &["t", "s", "b"], "y")
        .output("y");
    check(vec![
        layer("layer", &[3, 16], &[16], -1),
        layer("layer of two axes", &[2, 4, 6], &[4, 6], 1),
        layer("layer of two axes, one scaled", &[2, 4, 6], &[6], 1),
        Trial::new("layer without bias", plain, Bound::Wide),
        Trial::new("layer with more behind", behind, Bound::Wide),
        Trial::new("layer turned", turned, Bound::Wide),
        layer("layer of few", &[5, 3], &[3], -1).drawn(|x| x * 4.0),
        layer("layer off centre", &[3, 16], &[16], -1).drawn(|x| x + 5.0),
        instance("instance", &[2, 3, 4, 5]),
        instance("instance of one axis", &[2, 3, 20]),
        group("groups", &[2, 6, 4, 4], 3),
        group("one group", &[2, 6, 4, 4], 1),
    ]);
}

#[test]
fn norms_written_out() {
    let base = || {
        on(&[4, 24])
            .ints("axes", &[-1])
            .scalar("two", 2.0)
            .scalar("e", 1e-5)
            .scalar("one", 1.0)
            .weight("w", &[24])
    };
    let layer = base()
        .node(node("ReduceMean", &["x", "axes"], "m"))
        .add("Sub", &["x", "m"], "c")
        .add("Pow", &["c", "two"], "p")
        .node(node("ReduceMean", &["p", "axes"], "v"))
        .add("Add", &["v", "e"], "a")
        .add("Sqrt", &["a"], "r")
        .add("Div", &["c", "r"], "n")
        .add("Mul", &["n", "w"], "y")
        .output("y");
    let mean_square = || {
        base()
            .add("Mul", &["x", "x"], "p")
            .node(node("ReduceMean", &["p", "axes"], "v"))
            .add("Add", &["v", "e"], "a")
            .add("Sqrt", &["a"], "r")
    };
    let divided = mean_square().add("Div", &["x", "r"], "n").add("Mul", &["n", "w"], "y");
    let reciprocal = mean_square().add("Reciprocal", &["r"], "i").add("Mul", &["x", "i"], "n").add(
        "Mul",
        &["w", "n"],
        "y",
    );
    let inverse = mean_square().add("Div", &["one", "r"], "i").add("Mul", &["i", "x"], "n").add(
        "Mul",
        &["w", "n"],
        "y",
    );
    let small: fn(f32) -> f32 = |x| x * 0.01;
    check(vec![
        Trial::new("layer", layer, Bound::Wide),
        Trial::new("root, divided", divided.output("y"), Bound::Wide),
        Trial::new("root, reciprocal", reciprocal.clone().output("y"), Bound::Wide),
        Trial::new("root, one over it", inverse.output("y"), Bound::Wide),
        Trial::new("root of small numbers", reciprocal.output("y"), Bound::Wide).drawn(small),
    ]);
}

#[test]
fn norm_of_numbers_far_below_epsilon() {
    let model = on(&[3, 16])
        .constant("s", Dtype::Float, &positive(4, &[16]))
        .node(node("LayerNormalization", &["x", "s"], "y").with("epsilon", float(1e-3)))
        .output("y");
    check(vec![
        Trial::new("tiny", model.clone(), Bound::Wide).drawn(|x| x * 1e-5),
        Trial::new("huge", model, Bound::Wide).drawn(|x| x * 1e5),
    ]);
}

/// Squares of 15 bits have 30; a table between them and their root would lose the small ones.
#[test]
fn root_of_squares_keeps_small_numbers() {
    let written = |name: &str, square: &str, inputs: &[&str]| {
        let model = on(&[6, 40, 2])
            .ints("axes", &[-1])
            .scalar("two", 2.0)
            .scalar("e", 1e-3)
            .add(square, inputs, "p")
            .node(node("ReduceSum", &["p", "axes"], "s").with("keepdims", int(0)))
            .add("Sqrt", &["s"], "r")
            .node(node("Transpose", &["r"], "t").with("perm", list(&[1, 0])))
            .add("Add", &["t", "e"], "a")
            .add("Log", &["a"], "y");
        Trial::new(name, model.output("y").output("r"), Bound::Eight)
    };
    // Three decades of magnitudes.
    let draw: fn(f32) -> f32 = |x| x.signum() * 10_f32.powf(x.abs().min(2.0) * 1.5 - 2.0);
    check(vec![
        written("product", "Mul", &["x", "x"]).drawn(draw),
        written("power", "Pow", &["x", "two"]).drawn(draw),
    ]);
}
