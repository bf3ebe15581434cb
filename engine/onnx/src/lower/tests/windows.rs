//! Convolutions, transposed convolutions and pools.

use super::{Bound, More, Trial, check, node, on, positive};
use crate::dtype::Dtype;
use crate::proto::NodeProto;
use crate::testing::{Builder, int, list, text};

fn conv(name: &str, x: &[usize], k: &[usize], build: fn(NodeProto) -> NodeProto) -> Trial {
    let model = on(x).weight("k", k).weight("b", &[k[0]]);
    let model = model.node(build(node("Conv", &["x", "k", "b"], "y"))).output("y");
    Trial::new(name, model, Bound::Eight)
}

#[test]
fn convolutions_with_every_window() {
    check(vec![
        conv("plain", &[1, 3, 6, 7], &[4, 3, 3, 3], |n| n),
        conv("pointwise", &[2, 3, 4, 4], &[5, 3, 1, 1], |n| n),
        conv("stride", &[1, 3, 7, 8], &[4, 3, 3, 3], |n| n.with("strides", list(&[2, 3]))),
        conv("pad", &[1, 3, 5, 5], &[4, 3, 3, 3], |n| n.with("pads", list(&[1, 1, 1, 1]))),
        conv("uneven pad", &[1, 3, 5, 5], &[4, 3, 3, 2], |n| n.with("pads", list(&[0, 2, 1, 0]))),
        conv("dilation", &[1, 2, 8, 8], &[3, 2, 3, 3], |n| n.with("dilations", list(&[2, 1]))),
        conv("groups", &[1, 4, 5, 5], &[6, 2, 3, 3], |n| n.with("group", int(2))),
        conv("depthwise", &[1, 5, 6, 6], &[5, 1, 3, 3], |n| {
            n.with("group", int(5)).with("pads", list(&[1, 1, 1, 1]))
        }),
        conv("depthwise, two each", &[2, 3, 6, 6], &[6, 1, 3, 3], |n| n.with("group", int(3))),
        conv("one axis", &[2, 3, 9], &[4, 3, 3], |n| {
            n.with("pads", list(&[1, 2])).with("strides", list(&[2]))
        }),
        conv("same upper", &[1, 2, 7, 6], &[3, 2, 3, 2], |n| {
            n.with("auto_pad", text("SAME_UPPER")).with("strides", list(&[2, 2]))
        }),
        conv("same lower", &[1, 2, 7, 6], &[3, 2, 2, 2], |n| {
            n.with("auto_pad", text("SAME_LOWER"))
        }),
        conv("valid", &[1, 2, 7, 6], &[3, 2, 3, 2], |n| n.with("auto_pad", text("VALID"))),
        conv("whole image", &[1, 3, 4, 4], &[5, 3, 4, 4], |n| n),
        conv("twelve bits", &[1, 3, 6, 7], &[4, 3, 3, 3], |n| n).with_bits(12),
        conv("shifted data", &[1, 3, 6, 6], &[4, 3, 3, 3], |n| n.with("pads", list(&[1, 1, 1, 1])))
            .drawn(|x| x.abs() + 2.0),
    ]);
}

fn transposed(name: &str, x: &[usize], k: &[usize], build: fn(NodeProto) -> NodeProto) -> Trial {
    let model = on(x).weight("k", k);
    let model = model.node(build(node("ConvTranspose", &["x", "k"], "y"))).output("y");
    Trial::new(name, model, Bound::Eight)
}

#[test]
fn transposed_convolutions_with_every_window() {
    check(vec![
        transposed("plain", &[1, 3, 4, 5], &[3, 2, 3, 3], |n| n),
        transposed("stride", &[1, 3, 4, 5], &[3, 2, 2, 2], |n| n.with("strides", list(&[2, 2]))),
        transposed("stride above kernel", &[1, 2, 3, 3], &[2, 2, 2, 2], |n| {
            n.with("strides", list(&[3, 3]))
        }),
        transposed("pad", &[1, 3, 4, 5], &[3, 2, 3, 3], |n| {
            n.with("strides", list(&[2, 1])).with("pads", list(&[1, 0, 1, 2]))
        }),
        transposed("output padding", &[1, 3, 4, 4], &[3, 2, 3, 3], |n| {
            let n = n.with("strides", list(&[2, 2])).with("pads", list(&[1, 1, 1, 1]));
            n.with("output_padding", list(&[1, 1]))
        }),
        transposed("groups", &[1, 4, 4, 4], &[4, 3, 2, 2], |n| {
            n.with("group", int(2)).with("strides", list(&[2, 2]))
        }),
        transposed("one axis", &[2, 3, 6], &[3, 2, 4], |n| n.with("strides", list(&[2]))),
    ]);
}

#[test]
fn transposed_convolution_takes_in_bias_and_clamp() {
    let model = on(&[1, 3, 4, 4])
        .weight("k", &[3, 2, 2, 2])
        .weight("b", &[2])
        .node(node("ConvTranspose", &["x", "k", "b"], "c").with("strides", list(&[2, 2])))
        .add("Relu", &["c"], "y")
        .output("y");
    check(vec![Trial::new("bias and clamp", model, Bound::Eight)]);
}

fn pool(name: &str, shape: &[usize], node: NodeProto) -> Trial {
    Trial::new(name, on(shape).node(node).output("y"), Bound::Wide)
}

#[test]
fn pools_with_every_window() {
    let max = || node("MaxPool", &["x"], "y").with("kernel_shape", list(&[2, 3]));
    let mean = || node("AveragePool", &["x"], "y").with("kernel_shape", list(&[3, 2]));
    let x = &[2, 3, 7, 6];
    check(vec![
        pool("largest", x, max()),
        pool("largest, stride", x, max().with("strides", list(&[2, 2]))),
        pool("largest, pad", x, max().with("pads", list(&[1, 1, 0, 1]))),
        pool("largest, ceil", x, max().with("strides", list(&[2, 2])).with("ceil_mode", int(1))),
        pool("largest of one axis", &[2, 3, 9], {
            node("MaxPool", &["x"], "y").with("kernel_shape", list(&[3]))
        }),
        pool("mean", x, mean()),
        pool("mean, stride", x, mean().with("strides", list(&[2, 2]))),
        pool("mean, pad not counted", x, mean().with("pads", list(&[1, 1, 2, 0]))),
        pool("mean, pad counted", x, {
            mean().with("pads", list(&[1, 1, 2, 0])).with("count_include_pad", int(1))
        }),
        pool("mean, ceil", x, mean().with("strides", list(&[2, 4])).with("ceil_mode", int(1))),
        pool("mean, ceil, pad counted", x, {
            let node = mean().with("strides", list(&[2, 2])).with("ceil_mode", int(1));
            node.with("pads", list(&[0, 1, 0, 1])).with("count_include_pad", int(1))
        }),
        pool("mean of everything", x, node("GlobalAveragePool", &["x"], "y")),
        pool("largest of everything", x, node("GlobalMaxPool", &["x"], "y")),
    ]);
}

fn norm(model: Builder, from: &str, to: &str, channels: usize) -> Builder {
    model
        .weight("scale", &[channels])
        .weight("bias", &[channels])
        .weight("mean", &[channels])
        .constant("variance", Dtype::Float, &positive(9, &[channels]))
        .add("BatchNormalization", &[from, "scale", "bias", "mean", "variance"], to)
}

#[test]
fn batch_norm_wherever_it_stands() {
    let conv = on(&[1, 3, 5, 5]).weight("k", &[4, 3, 3, 3]).add("Conv", &["x", "k"], "c");
    let pooled =
        on(&[1, 3, 6, 6]).node(node("MaxPool", &["x"], "c").with("kernel_shape", list(&[2, 2])));
    let relu = on(&[1, 3, 5, 5]).weight("k", &[4, 3, 3, 3]).add("Conv", &["x", "k"], "d").add(
        "Relu",
        &["d"],
        "c",
    );
    let twice = norm(on(&[2, 3, 4, 4]), "x", "n", 3).scalar("s", -2.0);
    let twice = twice.add("Mul", &["n", "s"], "m").add("Relu", &["m"], "y").output("y");
    check(vec![
        Trial::new("behind a convolution", norm(conv, "c", "y", 4).output("y"), Bound::Eight),
        Trial::new("alone", norm(on(&[2, 3, 4, 4]), "x", "y", 3).output("y"), Bound::Wide),
        Trial::new("of rows", norm(on(&[4, 3]), "x", "y", 3).output("y"), Bound::Wide),
        Trial::new("of one axis", norm(on(&[2, 3, 5]), "x", "y", 3).output("y"), Bound::Wide),
        Trial::new("behind a pool", norm(pooled, "c", "y", 3).output("y"), Bound::Wide),
        Trial::new("behind a clamp", norm(relu, "c", "y", 4).output("y"), Bound::Eight),
        Trial::new("with more behind it", twice, Bound::Wide),
    ]);
}
