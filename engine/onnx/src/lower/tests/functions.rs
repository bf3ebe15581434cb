//! Functions of one element, alone and in chains.

use super::{Bound, More, Trial, check, node, on, one, simple};
use crate::dtype::{Dtype, ElementKind};
use crate::testing::{Builder, float, floats, int, text};

#[test]
fn functions_of_a_normal_number() {
    let nodes = [
        simple("Relu"),
        simple("LeakyRelu").with("alpha", float(0.1)),
        simple("Elu").with("alpha", float(0.7)),
        simple("Selu"),
        simple("Celu").with("alpha", float(2.0)),
        simple("Softplus"),
        simple("Softsign"),
        simple("Sigmoid"),
        simple("HardSigmoid"),
        simple("HardSwish"),
        simple("Tanh"),
        simple("Erf"),
        simple("Gelu"),
        simple("Gelu").with("approximate", text("tanh")),
        simple("Mish"),
        simple("Exp"),
        simple("Abs"),
        simple("Neg"),
        simple("Identity"),
        simple("Dropout"),
    ];
    let trial = |node: crate::proto::NodeProto| {
        Trial::new(&node.operator.clone(), one(&[3, 5], node), Bound::Wide)
    };
    check(nodes.into_iter().map(trial).collect());
}

#[test]
fn functions_that_step_do_so_at_the_same_places() {
    // Halves of whole numbers, so that no number lies near a step but on it.
    let nodes = ["Floor", "Ceil", "Round", "Sign"];
    let trial = |operator: &&str| {
        let scaled = on(&[4, 8]).scalar("two", 2.0).add("Mul", &["x", "two"], "s");
        let model = scaled.add(operator, &["s"], "y").output("y");
        Trial::new(operator, model, Bound::Wide).drawn(|x| (x * 4.0).round() / 4.0 + 0.1)
    };
    check(nodes.iter().map(trial).collect());
}

#[test]
fn functions_of_positive_numbers() {
    let positive = |operator: &str| {
        Trial::new(operator, one(&[3, 5], simple(operator)), Bound::Wide).drawn(|x| x.abs() + 0.3)
    };
    check(vec![positive("Sqrt"), positive("Log"), positive("Reciprocal")]);
}

#[test]
fn clip_with_either_bound() {
    let clip = |name: &str, inputs: &[&str]| {
        let model = on(&[4, 4]).scalar("low", -0.4).scalar("high", 0.8);
        Trial::new(name, model.node(node("Clip", inputs, "y")).output("y"), Bound::Wide)
    };
    check(vec![
        clip("both", &["x", "low", "high"]),
        clip("low", &["x", "low"]),
        clip("high", &["x", "", "high"]),
    ]);
}

#[test]
fn powers_with_constant_exponents() {
    let power = |exponent: f32, draw: fn(f32) -> f32| {
        let model = on(&[3, 4]).scalar("e", exponent).add("Pow", &["x", "e"], "y").output("y");
        Trial::new(&format!("Pow {exponent}"), model, Bound::Wide).drawn(draw)
    };
    check(vec![
        power(2.0, |x| x),
        power(3.0, |x| x),
        power(0.5, |x| x.abs() + 0.2),
        power(-0.5, |x| x.abs() + 0.5),
        power(1.0, |x| x),
    ]);
}

#[test]
fn long_chains_on_one_value() {
    let silu = on(&[2, 6]).add("Sigmoid", &["x"], "s").add("Mul", &["x", "s"], "y").output("y");
    let gelu = on(&[2, 6])
        .scalar("root", std::f32::consts::SQRT_2)
        .scalar("one", 1.0)
        .scalar("half", 0.5)
        .add("Div", &["x", "root"], "d")
        .add("Erf", &["d"], "e")
        .add("Add", &["e", "one"], "p")
        .add("Mul", &["x", "p"], "m")
        .add("Mul", &["m", "half"], "y")
        .output("y");
    let hard_swish = on(&[2, 6])
        .scalar("three", 3.0)
        .scalar("zero", 0.0)
        .scalar("six", 6.0)
        .add("Add", &["x", "three"], "a")
        .node(node("Clip", &["a", "zero", "six"], "c"))
        .add("Div", &["c", "six"], "d")
        .add("Mul", &["x", "d"], "y")
        .output("y");
    let twice = on(&[2, 6])
        .scalar("two", 2.0)
        .add("Mul", &["x", "two"], "d")
        .add("Tanh", &["d"], "t")
        .add("Mul", &["d", "two"], "y")
        .output("y")
        .output("t");
    let where_ = on(&[2, 6])
        .scalar("zero", 0.0)
        .scalar("one", 1.0)
        .add("Greater", &["x", "zero"], "g")
        .add("Where", &["g", "x", "one"], "y")
        .output("y");
    check(vec![
        Trial::new("SiLU", silu, Bound::Wide),
        Trial::new("GELU", gelu, Bound::Wide),
        Trial::new("hard swish", hard_swish, Bound::Wide),
        Trial::new("a factor and its function", twice, Bound::Wide),
        Trial::new("where", where_, Bound::Wide),
    ]);
}

#[test]
fn functions_of_whole_numbers_are_exact() {
    let ints = || Builder::new(17).input("x", ElementKind::Int64, &[4, 6]);
    let scalar = |name: &str, value: i64, model: Builder| {
        model.constant(name, Dtype::Int, &crate::testing::ints(&[], &[value]))
    };
    let equal = scalar("c", 7, ints()).add("Equal", &["x", "c"], "y").output("y");
    let less = scalar("c", 90, ints())
        .add("Less", &["x", "c"], "l")
        .add("Not", &["l"], "y")
        .output("y")
        .output("l");
    let divided = scalar("c", 7, ints()).add("Div", &["x", "c"], "y").output("y");
    let shifted = scalar("c", 3, ints()).add("Sub", &["x", "c"], "y").output("y");
    let cast = ints().node(simple("Cast").with("to", int(1))).output("y");
    let mask = scalar("c", 100, ints())
        .add("Greater", &["x", "c"], "g")
        .node(node("Cast", &["g"], "y").with("to", int(1)))
        .output("y");
    let back = on(&[3, 3])
        .node(node("Cast", &["x"], "i").with("to", int(7)))
        .node(node("Cast", &["i"], "y").with("to", int(1)))
        .output("y");
    check(vec![
        Trial::new("Equal", equal, Bound::Exact),
        Trial::new("Less", less, Bound::Exact),
        Trial::new("Div", divided, Bound::Exact),
        Trial::new("Sub", shifted, Bound::Exact),
        Trial::new("Cast", cast, Bound::Exact),
        Trial::new("Cast of truth", mask, Bound::Wide),
        Trial::new("Cast to whole", back, Bound::Wide).drawn(|x| (x * 3.0).round() + 0.4),
    ]);
}

#[test]
fn comparison_of_many_whole_numbers_stays_exact() {
    // More numbers than a table has entries: ids of a large vocabulary compared with one of them.
    let table = floats(&[70_000, 1], &vec![0.5; 70_000]);
    let model = Builder::new(17)
        .input("x", ElementKind::Int64, &[1, 50])
        .constant("t", Dtype::Float, &table)
        .constant("c", Dtype::Int, &crate::testing::ints(&[], &[1]))
        .add("Gather", &["t", "x"], "g")
        .add("Greater", &["x", "c"], "y")
        .output("y")
        .output("g");
    check(vec![Trial::new("wide Equal", model, Bound::Wide)]);
}
