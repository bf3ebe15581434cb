//! Models that came with integers of their own.

use super::{Bound, CALIBRATION, EVALUATION, More, Trial, node, on};
use crate::dtype::{Dtype, ElementKind};
use crate::graph::Options;
use crate::import::Source;
use crate::lower::Choices;
use crate::proto::NodeProto;
use crate::testing::{Builder, chain, floats, int, ints};

/// Codes of a weight, with scale and zero point, as the node `name`.
fn coded(model: Builder, name: &str, shape: &[usize], seed: i64) -> Builder {
    let count = shape.iter().product::<usize>() as i64;
    let codes: Vec<i64> = (0..count).map(|at| (at * 37 + seed * 11) % 201 - 100).collect();
    let (stored, scale) = (format!("{name}.codes"), format!("{name}.scale"));
    let zero = format!("{name}.zero");
    model
        .constant(&stored, Dtype::Int8, &ints(shape, &codes))
        .scalar(&scale, 0.004)
        .constant(&zero, Dtype::Int8, &ints(&[], &[0]))
        .add("DequantizeLinear", &[&stored, &scale, &zero], name)
}

/// A value as codes and back.
fn rounded(model: Builder, from: &str, to: &str, scale: f32, zero: i64) -> Builder {
    let (codes, s, z) = (format!("{to}.codes"), format!("{to}.scale"), format!("{to}.zero"));
    model
        .scalar(&s, scale)
        .constant(&z, Dtype::Uint8, &ints(&[], &[zero]))
        .add("QuantizeLinear", &[from, &s, &z], &codes)
        .add("DequantizeLinear", &[&codes, &s, &z], to)
}

/// Imports a model; no number may differ by more than `steps` steps of `step`, and few by one.
fn check(name: &str, model: Builder, step: f64, steps: f64) {
    let trial = Trial::new(name, model, Bound::Eight);
    let source = Source::read(&trial.model.bytes(), &Options::default())
        .unwrap_or_else(|error| panic!("{name}: {}", chain(&error)));
    assert!(source.is_quantised());
    let calibration = trial.samples(&source, 1, CALIBRATION);
    let evaluation = trial.samples(&source, 2, EVALUATION);
    let imported = source
        .import(&calibration, &evaluation, Choices { activation_bits: 8 })
        .unwrap_or_else(|error| panic!("{name}: {}", chain(&error)));
    assert_eq!(imported.report.samples, EVALUATION, "{name}");
    for output in &imported.report.outputs {
        assert!(output.error_max <= step * steps + 1e-6, "{name}: {output:?}");
        assert!(output.cosine > 0.999, "{name}: {output:?}");
        assert!(output.steps_differ * 50 <= output.numbers, "{name}: {output:?}");
    }
}

#[test]
fn convolution_between_codes() {
    let model = rounded(on(&[1, 3, 6, 6]), "x", "a", 0.03, 120);
    let model = coded(model, "k", &[4, 3, 3, 3], 1).weight("b", &[4]);
    let model = model.add("Conv", &["a", "k", "b"], "c").add("Relu", &["c"], "r");
    check("conv", rounded(model, "r", "y", 0.02, 0).output("y"), 0.02, 1.0);
}

#[test]
fn matrix_product_between_codes() {
    let model = rounded(on(&[4, 10]), "x", "a", 0.03, 128);
    let model = coded(model, "w", &[10, 6], 2).weight("b", &[6]);
    let model = model.add("Gemm", &["a", "w", "b"], "c");
    check("gemm", rounded(model, "c", "y", 0.05, 100).output("y"), 0.05, 1.0);
}

#[test]
fn weights_with_a_scale_for_each_column() {
    let codes: Vec<i64> = (0..36).map(|at| at * 41 % 255 - 127).collect();
    let model = rounded(on(&[5, 6]), "x", "a", 0.03, 128)
        .constant("w.codes", Dtype::Int8, &ints(&[6, 6], &codes))
        .constant("w.scale", Dtype::Float, &floats(&[6], &[0.01, 0.002, 0.03, 0.004, 0.005, 0.02]))
        .constant("w.zero", Dtype::Int8, &ints(&[6], &[0; 6]));
    for axis in [0, 1] {
        let back = node("DequantizeLinear", &["w.codes", "w.scale", "w.zero"], "w");
        let model =
            model.clone().node(back.with("axis", int(axis))).add("MatMul", &["a", "w"], "c");
        let model = rounded(model, "c", "y", 0.1, 128).output("y");
        let trial = Trial::new(&format!("axis {axis}"), model, Bound::Eight);
        super::check(vec![trial]);
    }
}

#[test]
fn sum_between_codes() {
    let model = rounded(on(&[4, 10]), "x", "a", 0.03, 128).floats("z", &[4, 10]);
    let model = rounded(model, "z", "b", 0.0471, 100).add("Add", &["a", "b"], "c");
    check("add", rounded(model, "c", "y", 0.0613, 110).output("y"), 0.0613, 1.0);
}

#[test]
fn codes_that_are_moved_and_joined() {
    let model = rounded(on(&[2, 6]), "x", "a", 0.03, 128).floats("z", &[2, 6]);
    let model = rounded(model, "z", "b", 0.011, 90);
    let concat = node("Concat", &["a", "b"], "c").with("axis", int(1));
    let model = model.node(concat).ints("shape", &[4, 6]).add("Reshape", &["c", "shape"], "d");
    check("concat", rounded(model, "d", "y", 0.03, 128).output("y"), 0.03, 1.0);
}

#[test]
fn codes_as_inputs_and_outputs() {
    let model = Builder::new(17)
        .input("x", ElementKind::Uint8, &[3, 8])
        .scalar("s", 0.02)
        .constant("z", Dtype::Uint8, &ints(&[], &[128]))
        .add("DequantizeLinear", &["x", "s", "z"], "a");
    let model = coded(model, "w", &[8, 4], 3).add("MatMul", &["a", "w"], "c");
    let model = model.add("QuantizeLinear", &["c", "s", "z"], "y").output("y");
    check("codes", model, 1.0, 1.0);
}

fn parameters(model: Builder, scales: &[(&str, f32, i64)]) -> Builder {
    scales.iter().fold(model, |model, (name, scale, zero)| {
        let (s, z) = (format!("{name}s"), format!("{name}z"));
        model.scalar(&s, *scale).constant(&z, Dtype::Uint8, &ints(&[], &[*zero]))
    })
}

#[test]
fn operators_on_codes() {
    let codes = |name: &str, shape: &[usize]| {
        let count = shape.iter().product::<usize>() as i64;
        let numbers: Vec<i64> = (0..count).map(|at| (at * 53 + 17) % 251 + 3).collect();
        (name.to_owned(), ints(shape, &numbers))
    };
    let base = |shape: &[usize]| {
        let model = Builder::new(17).floats("x", shape);
        let model = parameters(model, &[("a", 0.03, 128), ("b", 0.0113, 129), ("c", 0.05, 120)]);
        model.add("QuantizeLinear", &["x", "as", "az"], "q")
    };
    let finish =
        |model: Builder| model.add("DequantizeLinear", &["r", "cs", "cz"], "y").output("y");
    let (name, numbers) = codes("w", &[8, 4]);
    let product = base(&[3, 8]).constant(&name, Dtype::Uint8, &numbers).add(
        "QLinearMatMul",
        &["q", "as", "az", "w", "bs", "bz", "cs", "cz"],
        "r",
    );
    check("QLinearMatMul", finish(product), 0.05, 1.0);
    let (name, numbers) = codes("w", &[4, 2, 3, 3]);
    let conv = base(&[1, 2, 5, 5]).constant(&name, Dtype::Uint8, &numbers).add(
        "QLinearConv",
        &["q", "as", "az", "w", "bs", "bz", "cs", "cz"],
        "r",
    );
    check("QLinearConv", finish(conv), 0.05, 1.0);
    let mut sum =
        NodeProto::new("QLinearAdd", &["q", "as", "az", "p", "bs", "bz", "cs", "cz"], &["r"]);
    sum.domain = "com.microsoft".to_owned();
    let sum =
        base(&[3, 8]).floats("z", &[3, 8]).add("QuantizeLinear", &["z", "bs", "bz"], "p").node(sum);
    check("QLinearAdd", finish(sum), 0.05, 1.0);
}

#[test]
fn values_with_many_scales_are_refused() {
    let model = on(&[2, 3])
        .constant("s", Dtype::Float, &floats(&[3], &[0.1, 0.2, 0.3]))
        .constant("z", Dtype::Uint8, &ints(&[3], &[0, 1, 2]))
        .node(node("QuantizeLinear", &["x", "s", "z"], "q").with("axis", int(1)))
        .node(node("DequantizeLinear", &["q", "s", "z"], "y").with("axis", int(1)))
        .output("y");
    let flaw = Trial::new("many", model, Bound::Eight).flaw().expect_err("it is refused");
    assert!(flaw.contains("only weights can have them"), "{flaw}");
}
