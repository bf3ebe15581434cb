//! Data that says little or too much: nothing but zeros, one constant, huge and tiny numbers. A
//! program comes out whatever the ranges are.

use super::{Bound, Choices, More, Trial, check, node, on};
use crate::graph::Options;
use crate::import::Source;
use crate::testing::{Builder, chain, int, list};

/// A model with one of everything.
fn everything() -> Builder {
    on(&[1, 4, 4, 4])
        .weight("k", &[4, 4, 3, 3])
        .weight("v", &[4])
        .weight("w", &[4, 4])
        .scalar("half", 0.5)
        .node(node("Conv", &["x", "k", "v"], "c").with("pads", list(&[1, 1, 1, 1])))
        .add("Relu", &["c"], "r")
        .add("Sigmoid", &["r"], "g")
        .add("Mul", &["r", "g"], "m")
        .add("Add", &["m", "x"], "a")
        .add("MatMul", &["a", "w"], "p")
        .add("MatMul", &["p", "a"], "q")
        .add("LayerNormalization", &["q", "v"], "n")
        .node(node("Softmax", &["n"], "s").with("axis", int(-1)))
        .node(node("AveragePool", &["s"], "o").with("kernel_shape", list(&[2, 2])))
        .add("Sub", &["x", "x"], "zero")
        .add("Add", &["zero", "half"], "b")
        .add("Div", &["x", "b"], "d")
        .add("Max", &["d", "q"], "e")
        .add("Exp", &["half"], "f")
        .add("Mul", &["e", "f"], "h")
        .node(node("ReduceMean", &["h"], "y"))
        .node(node("ReduceL2", &["h"], "z"))
        .node(node("ReduceSumSquare", &["h"], "t"))
        .node(node("ArgMax", &["h"], "i"))
        .output("y")
        .output("o")
        .output("z")
        .output("t")
        .output("i")
}

/// Calibrates on numbers of one kind and runs on those of another.
fn check_mixed(calibration: fn(f32) -> f32, evaluation: fn(f32) -> f32, bits: u32) {
    let model = everything();
    let source = Source::read(&model.bytes(), &Options::default()).expect("a model");
    let seen = Trial::new("", model.clone(), Bound::Eight).drawn(calibration);
    let other = Trial::new("", model, Bound::Eight).drawn(evaluation);
    let (seen, other) = (seen.samples(&source, 1, 4), other.samples(&source, 2, 4));
    let imported = source.import(&seen, &other, Choices { activation_bits: bits });
    imported.unwrap_or_else(|error| panic!("{}", chain(&error)));
}

#[test]
fn every_range_gives_a_program() {
    let kinds: [fn(f32) -> f32; 9] = [
        |x| x,
        |_| 0.0,
        |_| 1.0,
        |_| -3.5,
        |x| x * 1e6,
        |x| x * 1e-6,
        |x| x * 1e-20,
        |x| x * 1e12,
        |x| if x > 2.0 { 1e5 } else { 1e-3 },
    ];
    for calibration in kinds {
        for evaluation in kinds {
            check_mixed(calibration, evaluation, 8);
        }
        for bits in [4, 12, 15] {
            check_mixed(calibration, |x| x, bits);
        }
    }
}

#[test]
fn scale_of_the_data_does_not_matter() {
    let base = || on(&[1, 4, 4, 4]).weight("k", &[4, 4, 3, 3]).weight("w", &[2, 3]);
    let conv = base()
        .add("Conv", &["x", "k"], "c")
        .add("Relu", &["c"], "r")
        .add("MatMul", &["r", "w"], "y")
        .output("y");
    let sum = on(&[3, 4]).floats("z", &[4]).add("Add", &["x", "z"], "y").output("y");
    let norm = on(&[3, 8]).floats("z", &[3, 1]).add("Div", &["x", "z"], "y").output("y");
    let mut trials = Vec::new();
    let kinds: [fn(f32) -> f32; 3] = [|x| x * 1e6, |x| x * 1e-6, |x| x * 6_000.0];
    for (name, draw) in ["huge", "tiny", "large"].iter().zip(kinds) {
        trials.push(Trial::new(&format!("conv {name}"), conv.clone(), Bound::Eight).drawn(draw));
        trials.push(Trial::new(&format!("sum {name}"), sum.clone(), Bound::Wide).drawn(draw));
    }
    let positive: fn(f32) -> f32 = |x| (x.abs() + 0.5) * 1e5;
    trials.push(Trial::new("quotient", norm, Bound::Wide).drawn(positive));
    check(trials);
}
