//! Small networks as exporters write them.

use super::{Bound, More, Trial, check, node, on};
use crate::dtype::Dtype;
use crate::testing::{Builder, floats, int, ints, list};

/// Scores of three heads over five places, from `x` of `[1, 5, 12]`.
fn scores(model: Builder) -> Builder {
    model
        .weight("q", &[12, 12])
        .weight("k", &[12, 12])
        .weight("v", &[12, 12])
        .ints("split", &[1, 5, 3, 4])
        .ints("whole", &[1, 5, 12])
        .scalar("root", 6.0)
        .add("MatMul", &["x", "q"], "xq")
        .add("MatMul", &["x", "k"], "xk")
        .add("MatMul", &["x", "v"], "xv")
        .add("Reshape", &["xq", "split"], "rq")
        .add("Reshape", &["xk", "split"], "rk")
        .add("Reshape", &["xv", "split"], "rv")
        .node(node("Transpose", &["rq"], "tq").with("perm", list(&[0, 2, 1, 3])))
        .node(node("Transpose", &["rk"], "tk").with("perm", list(&[0, 2, 3, 1])))
        .node(node("Transpose", &["rv"], "tv").with("perm", list(&[0, 2, 1, 3])))
        .add("MatMul", &["tq", "tk"], "raw")
        .add("Div", &["raw", "root"], "scores")
}

fn attended(model: Builder, scores: &str) -> Builder {
    model
        .node(node("Softmax", &[scores], "share").with("axis", int(-1)))
        .add("MatMul", &["share", "tv"], "heads")
        .node(node("Transpose", &["heads"], "places").with("perm", list(&[0, 2, 1, 3])))
        .add("Reshape", &["places", "whole"], "y")
        .output("y")
}

#[test]
fn attention_with_every_kind_of_mask() {
    let x = || on(&[1, 5, 12]);
    let small: fn(f32) -> f32 = |x| x / 3.0;
    let causal: Vec<i64> = (0..25).map(|at| i64::from(at % 5 <= at / 5)).collect();
    let added: Vec<f32> = causal.iter().map(|seen| if *seen == 1 { 0.0 } else { -1e9 }).collect();
    let plain = attended(scores(x()), "scores");
    let chosen = scores(x())
        .constant("seen", Dtype::Bool, &ints(&[1, 1, 5, 5], &causal))
        .scalar("never", f32::MIN)
        .add("Where", &["seen", "scores", "never"], "masked");
    let sum = scores(x()).constant("mask", Dtype::Float, &floats(&[1, 1, 5, 5], &added)).add(
        "Add",
        &["scores", "mask"],
        "masked",
    );
    let computed = scores(x())
        .floats("m", &[1, 1, 1, 5])
        .scalar("half", 0.5)
        .scalar("one", 1.0)
        .scalar("low", -10_000.0)
        .add("Greater", &["m", "half"], "g")
        .node(node("Cast", &["g"], "f").with("to", int(1)))
        .add("Sub", &["one", "f"], "n")
        .add("Mul", &["n", "low"], "mask")
        .add("Add", &["scores", "mask"], "masked");
    check(vec![
        Trial::new("none", plain, Bound::Deep).drawn(small),
        Trial::new("chosen", attended(chosen, "masked"), Bound::Deep).drawn(small),
        Trial::new("added", attended(sum, "masked"), Bound::Deep).drawn(small),
        Trial::new("computed", attended(computed, "masked"), Bound::Deep)
            .drawn(|x| (x / 3.0).abs().min(0.4) + if x > 0.0 { 0.6 } else { 0.0 }),
    ]);
}

#[test]
fn residual_network_in_channels_last_order() {
    let block = |name: &str, model: Builder| Trial::new(name, model.output("y"), Bound::Deep);
    let plain = on(&[1, 4, 6, 6])
        .weight("k", &[4, 4, 3, 3])
        .weight("l", &[4, 4, 3, 3])
        .scalar("s", 0.2)
        .node(node("Conv", &["x", "k"], "a").with("pads", list(&[1, 1, 1, 1])))
        .add("Relu", &["a"], "b")
        .node(node("Conv", &["b", "l"], "c").with("pads", list(&[1, 1, 1, 1])))
        .add("Mul", &["c", "s"], "d")
        .add("Add", &["d", "x"], "e")
        .add("Relu", &["e"], "y");
    let transposed = on(&[1, 4, 4, 4])
        .weight("k", &[4, 4, 1, 1])
        .weight("v", &[4])
        .add("Conv", &["x", "k"], "c")
        .node(node("Transpose", &["c"], "t").with("perm", list(&[0, 2, 3, 1])))
        .node(node("Transpose", &["x"], "u").with("perm", list(&[0, 2, 3, 1])))
        .add("Add", &["t", "v"], "d")
        .add("Add", &["d", "u"], "e")
        .add("Add", &["e", "c"], "y");
    let reshaped = on(&[1, 3, 4, 4])
        .weight("k", &[5, 3, 1, 1])
        .weight("w", &[80, 6])
        .ints("shape", &[1, -1])
        .add("Conv", &["x", "k"], "c")
        .add("Reshape", &["c", "shape"], "f")
        .add("MatMul", &["f", "w"], "y");
    let gate = on(&[1, 4, 5, 5])
        .weight("k", &[4, 4, 1, 1])
        .add("GlobalAveragePool", &["x"], "p")
        .add("Conv", &["p", "k"], "c")
        .add("HardSigmoid", &["c"], "g")
        .add("Mul", &["x", "g"], "y");
    check(vec![
        block("residual", plain),
        block("transposed", transposed),
        block("reshaped", reshaped),
        block("squeeze and excite", gate),
    ]);
}

#[test]
fn feed_forward_with_a_gate() {
    let model = on(&[1, 4, 16])
        .weight("w", &[16, 24])
        .weight("u", &[16, 24])
        .weight("d", &[24, 16])
        .add("MatMul", &["x", "w"], "a")
        .add("Sigmoid", &["a"], "s")
        .add("Mul", &["a", "s"], "g")
        .add("MatMul", &["x", "u"], "b")
        .add("Mul", &["g", "b"], "h")
        .add("MatMul", &["h", "d"], "y")
        .output("y");
    check(vec![Trial::new("gated", model, Bound::Deep)]);
}

#[test]
fn one_value_used_in_every_way() {
    let model = on(&[1, 4, 4, 4])
        .weight("k", &[4, 4, 1, 1])
        .scalar("s", 0.5)
        .add("Conv", &["x", "k"], "c")
        .add("Conv", &["c", "k"], "a")
        .add("Sigmoid", &["c"], "b")
        .add("Mul", &["c", "s"], "d")
        .add("MatMul", &["c", "d"], "e")
        .node(node("MaxPool", &["c"], "f").with("kernel_shape", list(&[1, 1])))
        .add("Add", &["a", "b"], "g")
        .add("Add", &["e", "f"], "h")
        .add("Add", &["g", "h"], "i")
        .add("Add", &["i", "d"], "y")
        .output("y")
        .output("c");
    check(vec![Trial::new("every use", model, Bound::Deep)]);
}
