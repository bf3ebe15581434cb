//! What only moves elements.

use super::{Bound, More, Trial, check, node, on, simple};
use crate::dtype::{Dtype, ElementKind};
use crate::proto::NodeProto;
use crate::testing::{Builder, float, floats, int, ints, list, text};

fn moved(name: &str, model: Builder) -> Trial {
    Trial::new(name, model.output("y"), Bound::Wide)
}

/// The same node on a value as it comes and on one whose axes lie in another order.
fn both_orders(
    name: &str,
    shape: &[usize],
    build: &dyn Fn(Builder, &str) -> Builder,
) -> [Trial; 2] {
    let turned: Vec<usize> = shape.iter().rev().copied().collect();
    let order: Vec<i64> = (0..shape.len() as i64).rev().collect();
    let transposed = on(&turned).node(node("Transpose", &["x"], "t").with("perm", list(&order)));
    [moved(name, build(on(shape), "x")), moved(&format!("{name}, turned"), build(transposed, "t"))]
}

#[test]
fn concatenations() {
    let mut trials = Vec::new();
    for axis in [0, 1, 2] {
        trials.extend(both_orders(&format!("axis {axis}"), &[2, 3, 4], &|model, x| {
            let model = model.floats("z", &[2, 3, 4]).weight("c", &[2, 3, 4]);
            model.node(node("Concat", &[x, "z", "c", x], "y").with("axis", int(axis)))
        }));
    }
    let scales = on(&[2, 3])
        .scalar("s", 0.01)
        .add("Mul", &["x", "s"], "a")
        .add("Sigmoid", &["x"], "b")
        .node(node("Concat", &["a", "b", "x"], "y").with("axis", int(1)));
    trials.push(moved("different scales", scales));
    check(trials);
}

#[test]
fn concatenations_of_whole_numbers_are_exact() {
    let model = Builder::new(17)
        .input("x", ElementKind::Int64, &[2, 3])
        .constant("k", Dtype::Int, &ints(&[], &[40]))
        .constant("c", Dtype::Int, &ints(&[2, 1], &[-7, 9_000]))
        .add("Div", &["x", "k"], "d")
        .node(node("Concat", &["d", "x", "c"], "y").with("axis", int(1)))
        .output("y");
    check(vec![Trial::new("ints", model, Bound::Exact)]);
}

#[test]
fn slices() {
    let slice = |starts: &'static [i64], ends: &'static [i64], steps: &'static [i64]| {
        both_orders(&format!("{starts:?} {ends:?} {steps:?}"), &[3, 4, 5], &|model, x| {
            model
                .ints("starts", starts)
                .ints("ends", ends)
                .ints("axes", &[1, 2])
                .ints("steps", steps)
                .add("Slice", &[x, "starts", "ends", "axes", "steps"], "y")
        })
    };
    let trials = [
        slice(&[1, 0], &[3, 5], &[1, 2]),
        slice(&[-1, -1], &[-100, -100], &[-1, -2]),
        slice(&[0, 1], &[1, 2], &[1, 1]),
    ];
    check(trials.into_iter().flatten().collect());
}

#[test]
fn splits() {
    let trials = both_orders("uneven", &[3, 6, 4], &|model, x| {
        let split = NodeProto::new("Split", &[x, "parts"], &["a", "b", "c"]).with("axis", int(1));
        let model = model.ints("parts", &[1, 2, 3]).node(split);
        model.add("Identity", &["b"], "y").output("c")
    });
    let halves = on(&[2, 8])
        .node(
            NodeProto::new("Split", &["x"], &["a", "b"])
                .with("axis", int(1))
                .with("num_outputs", int(2)),
        )
        .add("Sigmoid", &["a"], "g")
        .add("Mul", &["g", "b"], "y");
    check(trials.into_iter().chain([moved("gate", halves)]).collect());
}

#[test]
fn pads() {
    let pad = |mode: &'static str, border: Option<f32>| {
        both_orders(&format!("{mode} {border:?}"), &[2, 3, 4], &|model, x| {
            // The float engine mirrors and repeats only the last two axes.
            let pads = if mode == "constant" { [1, 1, 2, 1, 0, 3] } else { [0, 1, 2, 0, 0, 3] };
            let model = model.ints("pads", &pads).scalar("border", border.unwrap_or(0.0));
            let inputs = if border.is_some() { vec![x, "pads", "border"] } else { vec![x, "pads"] };
            model.node(node("Pad", &inputs, "y").with("mode", text(mode)))
        })
    };
    let trials = [
        pad("constant", None),
        pad("constant", Some(-7.5)),
        pad("reflect", None),
        pad("edge", None),
    ];
    check(trials.into_iter().flatten().collect());
}

#[test]
fn reshapes_and_transpositions() {
    let reshape = |shape: &'static [i64]| {
        both_orders(&format!("to {shape:?}"), &[2, 3, 4], &|model, x| {
            model.ints("shape", shape).add("Reshape", &[x, "shape"], "y")
        })
    };
    let mut trials: Vec<Trial> = [
        reshape(&[6, 4]),
        reshape(&[4, 6]),
        reshape(&[2, 1, 3, 4, 1]),
        reshape(&[24]),
        reshape(&[0, -1]),
        reshape(&[2, 3, 2, 2]),
    ]
    .into_iter()
    .flatten()
    .collect();
    trials.extend(both_orders("flatten", &[2, 3, 4], &|model, x| {
        model.node(node("Flatten", &[x], "y").with("axis", int(2)))
    }));
    trials.extend(both_orders("squeeze", &[2, 1, 4], &|model, x| {
        let model = model.ints("axes", &[1]).ints("more", &[0, 3]);
        model.add("Squeeze", &[x, "axes"], "s").add("Unsqueeze", &["s", "more"], "y")
    }));
    for order in [[0, 2, 1], [1, 0, 2], [2, 0, 1], [2, 1, 0]] {
        trials.extend(both_orders(&format!("order {order:?}"), &[2, 3, 4], &|model, x| {
            let model = model.node(node("Transpose", &[x], "a").with("perm", list(&order)));
            model.add("Relu", &["a"], "y")
        }));
    }
    check(trials);
}

#[test]
fn repetitions() {
    let mut trials = Vec::new();
    trials.extend(both_orders("expand", &[3, 1, 2], &|model, x| {
        model.ints("shape", &[2, 3, 4, 2]).add("Expand", &[x, "shape"], "y")
    }));
    trials.extend(both_orders("tile", &[3, 2, 2], &|model, x| {
        model.ints("times", &[1, 3, 2]).add("Tile", &[x, "times"], "y")
    }));
    check(trials);
}

#[test]
fn gathers_with_constant_indices() {
    let mut trials = Vec::new();
    for axis in [0, 1, 2] {
        trials.extend(both_orders(&format!("axis {axis}"), &[3, 4, 5], &|model, x| {
            let model = model.constant("i", Dtype::Int, &ints(&[2, 2], &[2, 0, -1, 1]));
            model.node(node("Gather", &[x, "i"], "y").with("axis", int(axis)))
        }));
        trials.extend(both_orders(&format!("one of axis {axis}"), &[3, 4, 5], &|model, x| {
            let model = model.constant("i", Dtype::Int, &ints(&[], &[1]));
            model.node(node("Gather", &[x, "i"], "y").with("axis", int(axis)))
        }));
    }
    check(trials);
}

#[test]
fn gathers_with_indices_of_the_data() {
    let mut trials = Vec::new();
    for axis in [0, 1] {
        let table = Builder::new(17)
            .input("i", ElementKind::Int64, &[2, 3])
            .weight("t", &[6, 5])
            .node(node("Gather", &["t", "i"], "y").with("axis", int(axis)));
        trials.push(moved(&format!("constant, axis {axis}"), table));
        let computed = on(&[6, 5])
            .input("i", ElementKind::Int64, &[4])
            .node(node("Gather", &["x", "i"], "y").with("axis", int(axis)));
        trials.push(moved(&format!("computed, axis {axis}"), computed));
    }
    let negative = on(&[6, 5])
        .input("i", ElementKind::Int64, &[4])
        .constant("c", Dtype::Int, &ints(&[], &[3]))
        .add("Gather", &["x", "i"], "z")
        .add("Sub", &["i", "c"], "j")
        .add("Gather", &["x", "j"], "y")
        .output("z");
    trials.push(moved("negative", negative));
    check(trials);
}

#[test]
fn embedding_rows_that_calibration_never_saw_keep_their_values() {
    // One row is far larger than all others, and rarely picked.
    let mut rows = vec![0.5_f32; 400];
    rows[399] = 40.0;
    let model = Builder::new(17)
        .input("i", ElementKind::Int64, &[1, 200])
        .constant("t", Dtype::Float, &floats(&[400, 1], &rows))
        .add("Gather", &["t", "i"], "y");
    check(vec![moved("rare row", model)]);
}

fn resize(scales: &'static [f32], mode: &'static str, nearest: &'static str) -> Trial {
    let model = on(&[1, 2, 4, 5]).constant("s", Dtype::Float, &floats(&[4], scales));
    let node = node("Resize", &["x", "", "s"], "y")
        .with("coordinate_transformation_mode", text(mode))
        .with("nearest_mode", text(nearest))
        .with("mode", text("nearest"));
    moved(&format!("{scales:?} {mode} {nearest}"), model.node(node))
}

#[test]
fn nearest_resizes() {
    let mut trials = Vec::new();
    for mode in ["asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"] {
        for nearest in ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"] {
            trials.push(resize(&[1.0, 1.0, 2.0, 3.0], mode, nearest));
            trials.push(resize(&[1.0, 1.0, 1.5, 0.6], mode, nearest));
        }
    }
    let upsample = Builder::new(9)
        .floats("x", &[1, 2, 3, 3])
        .constant("s", Dtype::Float, &floats(&[4], &[1.0, 1.0, 2.0, 2.0]))
        .add("Upsample", &["x", "s"], "y");
    trials.push(moved("Upsample", upsample));
    let channels = on(&[1, 2, 4, 4])
        .weight("k", &[3, 2, 1, 1])
        .constant("s", Dtype::Float, &floats(&[4], &[1.0, 1.0, 2.0, 2.0]))
        .add("Conv", &["x", "k"], "c")
        .node(node("Resize", &["c", "", "s"], "y").with("mode", text("nearest")));
    trials.push(Trial { bound: Bound::Eight, ..moved("of a convolution", channels) });
    check(trials);
}

#[test]
fn depth_and_space() {
    let depth = |mode: &'static str| {
        both_orders(mode, &[1, 8, 2, 3], &|model, x| {
            let node = node("DepthToSpace", &[x], "y");
            model.node(node.with("blocksize", int(2)).with("mode", text(mode)))
        })
    };
    let space = both_orders("space", &[1, 2, 4, 6], &|model, x| {
        model.node(node("SpaceToDepth", &[x], "y").with("blocksize", int(2)))
    });
    check(depth("DCR").into_iter().chain(depth("CRD")).chain(space).collect());
}

#[test]
fn shuffles_of_channels() {
    let model = on(&[1, 6, 3, 3])
        .weight("k", &[6, 6, 1, 1])
        .ints("split", &[1, 2, 3, 3, 3])
        .ints("whole", &[1, 6, 3, 3])
        .add("Conv", &["x", "k"], "c")
        .add("Reshape", &["c", "split"], "s")
        .node(node("Transpose", &["s"], "t").with("perm", list(&[0, 2, 1, 3, 4])))
        .add("Reshape", &["t", "whole"], "r")
        .add("Add", &["r", "x"], "y")
        .output("y");
    check(vec![Trial::new("shuffle", model, Bound::Eight)]);
}

#[test]
fn identity_of_an_input_is_an_output() {
    let model = on(&[2, 3]).node(simple("Identity")).node(node("Relu", &["x"], "z"));
    let alpha = on(&[2, 3]).node(simple("LeakyRelu").with("alpha", float(1.0)));
    check(vec![moved("identity", model.output("z")), moved("slope of one", alpha)]);
}
