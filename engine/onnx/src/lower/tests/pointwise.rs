//! Functions of two elements, with every kind of broadcasting and memory order.

use super::{Bound, More, Trial, check, node, on, positive};
use crate::dtype::{Dtype, ElementKind};
use crate::testing::{Builder, floats, int, ints, list};

const ARITHMETIC: [&str; 3] = ["Add", "Sub", "Mul"];

#[test]
fn arithmetic_of_two_values() {
    let shapes: [(&[usize], &[usize]); 7] = [
        (&[2, 3, 4], &[2, 3, 4]),
        (&[2, 3, 4], &[4]),
        (&[2, 3, 4], &[3, 1]),
        (&[2, 3, 4], &[2, 1, 1]),
        (&[3, 1], &[1, 4]),
        (&[1], &[2, 3]),
        (&[2, 1, 4], &[2, 3, 1]),
    ];
    let mut trials = Vec::new();
    for operator in ARITHMETIC.iter().chain(&["Min", "Max"]) {
        for (a, b) in shapes {
            let model = on(a).floats("z", b).add(operator, &["x", "z"], "y").output("y");
            trials.push(Trial::new(&format!("{operator} {a:?} {b:?}"), model, Bound::Wide));
        }
    }
    check(trials);
}

#[test]
fn arithmetic_with_constants() {
    let shapes: [&[usize]; 9] =
        [&[4], &[3, 1], &[2, 1, 1], &[3, 4], &[2, 3, 4], &[2, 1, 4], &[], &[1, 1], &[5, 2, 3, 4]];
    let mut trials = Vec::new();
    for operator in ARITHMETIC.iter().chain(&["Min", "Max", "Div"]) {
        for shape in shapes {
            for first in [false, true] {
                if first && *operator == "Div" {
                    continue;
                }
                let inputs = if first { ["c", "x"] } else { ["x", "c"] };
                let model = on(&[2, 3, 4]).constant("c", Dtype::Float, &positive(3, shape));
                let model = model.add(operator, &inputs, "y").output("y");
                let name = format!("{operator} {shape:?} {first}");
                trials.push(Trial::new(&name, model, Bound::Wide));
            }
        }
    }
    check(trials);
}

#[test]
fn constants_meet_values_in_other_memory_orders() {
    // Square sides: a constant along the wrong axis would still fit.
    let shapes: [&[usize]; 5] = [&[4], &[4, 1], &[4, 1, 1], &[4, 4], &[1, 4, 4, 4]];
    let mut trials = Vec::new();
    for operator in ARITHMETIC.iter().chain(&["Div", "PRelu", "Max"]) {
        for shape in shapes {
            let transposed = on(&[1, 4, 4, 4])
                .constant("c", Dtype::Float, &positive(3, shape))
                .node(node("Transpose", &["x"], "t").with("perm", list(&[0, 3, 1, 2])))
                .add(operator, &["t", "c"], "y")
                .output("y");
            trials.push(Trial::new(&format!("{operator} {shape:?}"), transposed, Bound::Wide));
            let pooled = on(&[1, 4, 8, 4])
                .constant("c", Dtype::Float, &positive(3, shape))
                .node(
                    node("MaxPool", &["x"], "p")
                        .with("kernel_shape", list(&[2, 1]))
                        .with("strides", list(&[2, 1])),
                )
                .add(operator, &["p", "c"], "y")
                .output("y");
            trials.push(Trial::new(&format!("{operator} {shape:?} pooled"), pooled, Bound::Wide));
        }
    }
    check(trials);
}

#[test]
fn values_in_different_memory_orders_meet() {
    let mut trials = Vec::new();
    for operator in ["Add", "Mul", "Max", "Where"] {
        let model = on(&[2, 4, 4])
            .floats("z", &[2, 4, 4])
            .floats("c", &[4, 4])
            .scalar("zero", 0.0)
            .node(node("Transpose", &["z"], "t").with("perm", list(&[0, 2, 1])))
            .node(node("Transpose", &["c"], "d").with("perm", list(&[1, 0])))
            .add("Greater", &["d", "zero"], "g");
        let model = match operator {
            "Where" => model.add("Where", &["g", "x", "t"], "y"),
            _ => model.add(operator, &["x", "t"], "m").add(operator, &["m", "d"], "y"),
        };
        trials.push(Trial::new(operator, model.output("y"), Bound::Wide));
    }
    check(trials);
}

#[test]
fn quotients() {
    let by_value = |name: &str, a: &[usize], b: &[usize], draw: fn(f32) -> f32| {
        let model = on(a).floats("z", b).add("Div", &["x", "z"], "y").output("y");
        Trial::new(name, model, Bound::Wide).drawn(draw)
    };
    let signed: fn(f32) -> f32 = |x| x + 0.6_f32.copysign(x);
    let of_constant = on(&[3, 4]).weight("c", &[3, 4]).add("Div", &["c", "x"], "y").output("y");
    let squares = on(&[3, 4])
        .floats("z", &[3, 4])
        .scalar("e", 0.5)
        .add("Mul", &["z", "z"], "s")
        .add("Add", &["s", "e"], "t")
        .add("Div", &["x", "t"], "y")
        .output("y");
    check(vec![
        by_value("positive", &[2, 3, 4], &[2, 3, 4], |x| x.abs() + 0.5),
        by_value("positive, broadcast", &[2, 3, 4], &[3, 1], |x| x.abs() + 0.5),
        by_value("signed", &[2, 3, 4], &[2, 3, 4], signed),
        by_value("signed, broadcast", &[2, 1], &[3, 2, 5], signed),
        Trial::new("of a constant", of_constant, Bound::Wide).drawn(signed),
        Trial::new("by squares", squares, Bound::Wide),
    ]);
}

#[test]
fn parametric_slopes() {
    let trial = |shape: &[usize]| {
        let model = on(&[2, 3, 4]).constant("c", Dtype::Float, &positive(5, shape));
        let model = model.add("PRelu", &["x", "c"], "y").output("y");
        Trial::new(&format!("{shape:?}"), model, Bound::Wide)
    };
    let computed = on(&[2, 3, 4]).floats("z", &[3, 1]).add("PRelu", &["x", "z"], "y").output("y");
    let channels = on(&[1, 2, 4, 4])
        .weight("k", &[3, 2, 3, 3])
        .weight("s", &[3, 1, 1])
        .add("Conv", &["x", "k"], "c")
        .add("PRelu", &["c", "s"], "y")
        .output("y");
    check(vec![
        trial(&[1]),
        trial(&[4]),
        trial(&[3, 1]),
        trial(&[3, 4]),
        trial(&[2, 3, 4]),
        Trial::new("computed", computed, Bound::Wide),
        Trial::new("of channels", channels, Bound::Eight),
    ]);
}

fn two_ints() -> Builder {
    Builder::new(17).input("x", ElementKind::Int64, &[3, 40]).input(
        "z",
        ElementKind::Int64,
        &[1, 40],
    )
}

#[test]
fn comparisons_of_whole_numbers_are_exact() {
    let operators = ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"];
    let values = operators.iter().map(|operator| {
        let model = two_ints().add(operator, &["x", "z"], "y").output("y");
        Trial::new(operator, model, Bound::Exact)
    });
    let vector: Vec<i64> = (0..40).map(|at| at * 6).collect();
    let constants = operators.iter().map(|operator| {
        let model = two_ints().constant("c", Dtype::Int, &ints(&[40], &vector));
        let model = model.add(operator, &["x", "c"], "y").output("y");
        Trial::new(&format!("{operator} constant"), model, Bound::Exact)
    });
    let moved = ["Min", "Max", "Add", "Sub"].iter().map(|operator| {
        Trial::new(operator, two_ints().add(operator, &["x", "z"], "y").output("y"), Bound::Exact)
    });
    check(values.chain(constants).chain(moved).collect());
}

#[test]
fn logic_is_exact() {
    let trial = |operator: &&str| {
        let model = Builder::new(17)
            .input("x", ElementKind::Bool, &[2, 9])
            .input("z", ElementKind::Bool, &[9])
            .constant("c", Dtype::Bool, &ints(&[2, 1], &[0, 1]))
            .add(operator, &["x", "z"], "a")
            .add(operator, &["a", "c"], "b")
            .add("Not", &["b"], "y")
            .output("y")
            .output("a");
        Trial::new(operator, model, Bound::Exact)
    };
    check(["And", "Or", "Xor"].iter().map(trial).collect());
}

#[test]
fn comparisons_of_reals_with_constants() {
    // Numbers lie between the ones compared with, so that rounding decides nothing.
    let model = on(&[4, 5])
        .constant("c", Dtype::Float, &floats(&[5], &[0.25, -0.75, 1.25, -1.25, 0.75]))
        .floats("z", &[4, 1])
        .add("Greater", &["x", "c"], "a")
        .scalar("quarter", 0.25)
        .add("Add", &["z", "quarter"], "w")
        .add("Less", &["x", "w"], "b")
        .output("a")
        .output("b");
    let halves = Trial::new("Greater, Less", model, Bound::Exact);
    check(vec![halves.drawn(|x| (x * 2.0).round() / 2.0)]);
}

#[test]
fn choices() {
    let mask: Vec<i64> = (0..12).map(|at| at % 3 % 2).collect();
    let fixed = on(&[2, 3, 4])
        .constant("m", Dtype::Bool, &ints(&[3, 4], &mask))
        .scalar("low", -1e9)
        .weight("c", &[4])
        .add("Where", &["m", "x", "c"], "y")
        .output("y");
    let computed = on(&[2, 3, 4])
        .floats("z", &[3, 1])
        .floats("w", &[4])
        .scalar("zero", 0.05)
        .add("Greater", &["w", "zero"], "g")
        .add("Where", &["g", "x", "z"], "y")
        .output("y");
    let whole = two_ints()
        .constant("c", Dtype::Int, &ints(&[], &[-1_000]))
        .add("Less", &["x", "z"], "g")
        .add("Where", &["g", "x", "c"], "y")
        .output("y");
    let masked = two_ints()
        .add("Equal", &["x", "z"], "e")
        .node(node("Cast", &["e"], "f").with("to", int(1)))
        .weight("w", &[3, 40])
        .add("Mul", &["f", "w"], "y")
        .output("y");
    check(vec![
        Trial::new("constant condition", fixed, Bound::Wide),
        Trial::new("computed condition", computed, Bound::Wide).drawn(|x| (x * 4.0).round() / 4.0),
        Trial::new("of whole numbers", whole, Bound::Exact),
        Trial::new("truth as a factor", masked, Bound::Wide),
    ]);
}

#[test]
fn chains_behind_a_sum_or_product() {
    let sum = on(&[2, 3, 4])
        .floats("z", &[3, 1])
        .scalar("s", -1.5)
        .scalar("t", 0.25)
        .add("Add", &["x", "z"], "a")
        .add("Mul", &["a", "s"], "b")
        .add("Add", &["b", "t"], "c")
        .add("Relu", &["c"], "y")
        .output("y");
    let product = on(&[2, 3, 4])
        .floats("z", &[3, 1])
        .scalar("s", -1.5)
        .scalar("t", 3.25)
        .add("Mul", &["x", "z"], "a")
        .add("Div", &["a", "s"], "b")
        .add("Sub", &["t", "b"], "c")
        .add("Max", &["c", "t"], "y")
        .output("y");
    let turned = on(&[2, 3, 4])
        .floats("z", &[4])
        .add("Mul", &["x", "z"], "a")
        .add("Neg", &["a"], "y")
        .output("y");
    let four = on(&[3, 4])
        .floats("z", &[3, 4])
        .node(crate::proto::NodeProto::new("Sum", &["x", "z", "x", "z"], &["s"]))
        .node(crate::proto::NodeProto::new("Mean", &["s", "x"], &["y"]))
        .output("y");
    check(vec![
        Trial::new("sum", sum, Bound::Wide),
        Trial::new("product", product, Bound::Wide),
        Trial::new("negative product", turned, Bound::Wide),
        Trial::new("many summands", four, Bound::Wide),
    ]);
}
