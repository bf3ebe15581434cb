//! Products with weights and of two values.

use super::{Bound, More, Trial, check, node, on};
use crate::testing::{Builder, float, int, list};

fn gemm(inputs: &[&str]) -> crate::proto::NodeProto {
    node("Gemm", inputs, "y")
}

#[test]
fn gemm_in_all_its_forms() {
    let model = |x: &[usize], w: &[usize], c: &[usize]| on(x).weight("w", w).weight("c", c);
    let all = &["x", "w", "c"];
    let trial = |name: &str, model: Builder, node| {
        Trial::new(name, model.node(node).output("y"), Bound::Eight)
    };
    check(vec![
        trial("plain", model(&[3, 8], &[8, 5], &[5]), gemm(&["x", "w"])),
        trial("bias", model(&[3, 8], &[8, 5], &[5]), gemm(all)),
        trial("bias of rank two", model(&[3, 8], &[8, 5], &[1, 5]), gemm(all)),
        trial("one bias", model(&[3, 8], &[8, 5], &[1]), gemm(all)),
        trial("bias by row", model(&[3, 8], &[8, 5], &[3, 1]), gemm(all)),
        trial("bias by row of a square", model(&[5, 8], &[8, 5], &[5, 1]), gemm(all)),
        trial("bias of each", model(&[3, 8], &[8, 5], &[3, 5]), gemm(all)),
        trial(
            "factors",
            model(&[3, 8], &[8, 5], &[5]),
            gemm(all).with("alpha", float(0.5)).with("beta", float(2.0)),
        ),
        trial(
            "factors and rows",
            model(&[3, 8], &[8, 5], &[3, 5]),
            gemm(all).with("alpha", float(-0.5)).with("beta", float(-2.0)),
        ),
        trial("left turned", model(&[8, 3], &[8, 5], &[5]), gemm(all).with("transA", int(1))),
        trial("right turned", model(&[3, 8], &[5, 8], &[5]), gemm(all).with("transB", int(1))),
        trial(
            "both turned",
            model(&[8, 3], &[5, 8], &[5]),
            gemm(all).with("transA", int(1)).with("transB", int(1)),
        ),
    ]);
}

#[test]
fn gemm_of_two_values() {
    let two = |x: &[usize], z: &[usize]| on(x).floats("z", z).weight("c", &[5]);
    let computed = on(&[3, 8])
        .floats("z", &[3, 5])
        .weight("w", &[8, 5])
        .node(gemm(&["x", "w", "z"]).with("beta", float(0.5)))
        .output("y");
    let relu = two(&[3, 8], &[8, 5])
        .node(node("Gemm", &["x", "z", "c"], "g").with("alpha", float(-1.5)))
        .add("Relu", &["g"], "y")
        .output("y");
    check(vec![
        Trial::new(
            "plain",
            two(&[3, 8], &[8, 5]).node(gemm(&["x", "z"])).output("y"),
            Bound::Eight,
        ),
        Trial::new(
            "turned",
            two(&[8, 3], &[5, 8])
                .node(gemm(&["x", "z"]).with("transA", int(1)).with("transB", int(1)))
                .output("y"),
            Bound::Eight,
        ),
        Trial::new("factor, addend and clamp", relu, Bound::Eight),
        Trial::new("computed addend", computed, Bound::Eight),
    ]);
}

#[test]
fn matrix_products_with_constants_on_either_side() {
    let right = |x: &[usize], w: &[usize]| {
        let model = on(x).weight("w", w).add("MatMul", &["x", "w"], "y").output("y");
        Trial::new(&format!("{x:?} {w:?}"), model, Bound::Eight)
    };
    let left = |w: &[usize], x: &[usize]| {
        let model = on(x).weight("w", w).add("MatMul", &["w", "x"], "y").output("y");
        Trial::new(&format!("{w:?} {x:?} constant first"), model, Bound::Eight)
    };
    check(vec![
        right(&[4, 6], &[6, 3]),
        right(&[2, 4, 6], &[6, 3]),
        right(&[6], &[6, 3]),
        right(&[4, 6], &[6]),
        right(&[2, 4, 6], &[6]),
        right(&[2, 4, 6], &[2, 6, 3]),
        right(&[2, 3, 4, 6], &[3, 6, 5]),
        right(&[4, 6], &[2, 6, 3]),
        left(&[5, 4], &[4, 6]),
        left(&[2, 5, 4], &[4, 6]),
        left(&[4], &[4, 6]),
        left(&[5, 4], &[3, 4, 6]),
    ]);
}

#[test]
fn matrix_products_of_two_values() {
    let pair = |x: &[usize], z: &[usize]| {
        let model = on(x).floats("z", z).add("MatMul", &["x", "z"], "y").output("y");
        Trial::new(&format!("{x:?} {z:?}"), model, Bound::Eight)
    };
    check(vec![
        pair(&[4, 6], &[6, 3]),
        pair(&[2, 4, 6], &[2, 6, 3]),
        pair(&[2, 1, 4, 6], &[3, 6, 5]),
        pair(&[1, 4, 6], &[5, 6, 2]),
        pair(&[6], &[6]),
        pair(&[6], &[2, 6, 3]),
        pair(&[2, 4, 6], &[6]),
        pair(&[2, 600], &[600, 3]),
        pair(&[2, 600], &[600, 3]).with_bits(12),
        pair(&[2, 600], &[600, 3]).with_bits(15),
    ]);
}

#[test]
fn products_in_other_memory_orders() {
    // A transposition of an operand only changes how it is read.
    let turned = on(&[6, 4])
        .weight("w", &[6, 3])
        .node(node("Transpose", &["x"], "t").with("perm", list(&[1, 0])))
        .add("MatMul", &["t", "w"], "y")
        .output("y");
    let heads = on(&[2, 5, 12])
        .weight("w", &[12, 12])
        .ints("split", &[2, 5, 3, 4])
        .ints("whole", &[2, 5, 12])
        .add("MatMul", &["x", "w"], "p")
        .add("Reshape", &["p", "split"], "q")
        .node(node("Transpose", &["q"], "a").with("perm", list(&[0, 2, 1, 3])))
        .node(node("Transpose", &["q"], "b").with("perm", list(&[0, 2, 3, 1])))
        .add("MatMul", &["a", "b"], "s")
        .node(node("Softmax", &["s"], "m").with("axis", int(-1)))
        .add("MatMul", &["m", "a"], "c")
        .node(node("Transpose", &["c"], "d").with("perm", list(&[0, 2, 1, 3])))
        .add("Reshape", &["d", "whole"], "y")
        .output("y");
    let conv = on(&[1, 3, 4, 4])
        .weight("k", &[6, 3, 1, 1])
        .weight("w", &[4, 5])
        .add("Conv", &["x", "k"], "c")
        .add("MatMul", &["c", "w"], "y")
        .output("y");
    check(vec![
        Trial::new("transposed operand", turned, Bound::Eight),
        Trial::new("heads", heads, Bound::Deep),
        Trial::new("matrix product of a convolution", conv, Bound::Eight),
    ]);
}

#[test]
fn what_follows_a_product_is_taken_in() {
    let base = || on(&[4, 8]).weight("w", &[8, 5]).weight("v", &[5]).scalar("s", -0.7);
    let scaled = base()
        .add("MatMul", &["x", "w"], "p")
        .add("Add", &["p", "v"], "q")
        .add("Mul", &["q", "s"], "r")
        .add("Relu", &["r"], "y")
        .output("y");
    let columns = base()
        .add("MatMul", &["x", "w"], "p")
        .add("Mul", &["v", "p"], "q")
        .add("Sub", &["s", "q"], "y")
        .output("y");
    let divided = base()
        .add("MatMul", &["x", "w"], "p")
        .add("Div", &["p", "v"], "q")
        .add("Relu", &["q"], "r")
        .add("Neg", &["r"], "t")
        .add("Min", &["t", "s"], "y")
        .output("y");
    let batched = on(&[2, 3, 6])
        .weight("w", &[2, 6, 5])
        .weight("v", &[5])
        .add("MatMul", &["x", "w"], "p")
        .add("Mul", &["p", "v"], "y")
        .output("y");
    let nothing = base()
        .scalar("zero", 0.0)
        .add("MatMul", &["x", "w"], "p")
        .add("Mul", &["p", "zero"], "q")
        .add("Add", &["q", "v"], "y")
        .output("y");
    check(vec![
        Trial::new("bias, factor, clamp", scaled, Bound::Eight),
        Trial::new("factor by column", columns, Bound::Eight),
        Trial::new("division by column", divided, Bound::Eight),
        Trial::new("factor by column of a stack", batched, Bound::Eight),
        Trial::new("a factor of zero", nothing, Bound::Eight),
    ]);
}

#[test]
fn more_bits_are_closer() {
    let trial = |bits: u32| {
        let model = on(&[4, 300])
            .weight("w", &[300, 20])
            .weight("v", &[20, 5])
            .add("MatMul", &["x", "w"], "p")
            .add("Relu", &["p"], "r")
            .add("MatMul", &["r", "v"], "y")
            .output("y");
        Trial::new(&format!("{bits} bits"), model, Bound::Eight).with_bits(bits)
    };
    check((8..=15).map(trial).collect());
}
