//! Small models, written by hand: what they give, and what is refused.

use super::{FloatModel, ModelError, RunError, Side};
use std::num::NonZeroUsize;

use crate::arrays::{Array, Arrays, Data, Element};
use crate::survey::FormError;
use crate::testing::{FLOAT, Graph, INT64, affine};

fn load(graph: &Graph) -> FloatModel {
    FloatModel::from_bytes(&graph.to_bytes()).expect("a model")
}

fn floats(shape: &[usize], numbers: &[f32]) -> Array {
    Array::new(shape.to_vec(), Data::F32(numbers.to_vec())).expect("an array")
}

fn arrays(list: &[(&str, Array)]) -> Arrays {
    let mut arrays = Arrays::new();
    for (name, array) in list {
        arrays.insert(name, array.clone()).expect("a name");
    }
    arrays
}

#[test]
fn model_says_what_it_takes_and_computes_it() {
    let model = load(&affine());
    let [x] = model.inputs() else { panic!("{:?}", model.inputs()) };
    assert_eq!((x.name.as_str(), x.element), ("x", Some(Element::F32)));
    assert_eq!(x.shape, Some(vec![Side::Free("rows".to_owned()), Side::Fixed(2)]));
    let [y] = model.outputs() else { panic!("{:?}", model.outputs()) };
    assert_eq!((y.name.as_str(), y.element), ("y", Some(Element::F32)));

    let check = |model: &FloatModel, rows: usize| {
        let x = [1.0, 2.0, -1.0, 0.5];
        let x = floats(&[rows, 2], &x[..2 * rows]);
        let outputs = model.run(&arrays(&[("x", x)])).expect("runs");
        let y = [9.5, 12.0, 14.5, 1.5, 0.5, -0.5];
        assert_eq!(outputs, arrays(&[("y", floats(&[rows, 3], &y[..3 * rows]))]));
    };
    (0..=2).for_each(|rows| check(&model, rows));
    check(&model.with_threads(NonZeroUsize::MIN), 2);
    check(&load(&affine()).with_threads(NonZeroUsize::MAX), 2);
}

#[test]
fn wide_integers_are_narrow_ones_here() {
    let graph = Graph::new()
        .input("table", FLOAT, &["4"])
        .input("at", INT64, &["n"])
        .output("found", FLOAT, &["n"])
        .output("kind", INT64, &["1"])
        .node("Gather", &["table", "at"], &["found"])
        .node("Shape", &["at"], &["kind"]);
    let model = load(&graph);
    let kinds: Vec<_> = model.inputs().iter().map(|port| port.element).collect();
    assert_eq!(kinds, [Some(Element::F32), Some(Element::I32)]);
    let at = Array::new(vec![3], Data::I32(vec![3, 0, 3])).expect("an array");
    let table = floats(&[4], &[10.0, 11.0, 12.0, 13.0]);
    let outputs = model.run(&arrays(&[("table", table), ("at", at)])).expect("runs");
    assert_eq!(outputs.get("found"), Some(&floats(&[3], &[13.0, 10.0, 13.0])));
    let kind = Array::new(vec![1], Data::I32(vec![3])).expect("an array");
    assert_eq!(outputs.get("kind"), Some(&kind));
}

#[test]
fn outputs_that_are_inputs_or_constants_are_given_too() {
    let graph = Graph::new()
        .input("x", FLOAT, &["2"])
        .output("x", FLOAT, &["2"])
        .output("w", FLOAT, &["1"])
        .output("y", FLOAT, &["2"])
        .tensor("w", &[1], &[2.0])
        .node("Mul", &["x", "w"], &["y"]);
    let model = load(&graph);
    let outputs = model.run(&arrays(&[("x", floats(&[2], &[3.0, 4.0]))])).expect("runs");
    let w = floats(&[1], &[2.0]);
    let expected = [("x", floats(&[2], &[3.0, 4.0])), ("w", w), ("y", floats(&[2], &[6.0, 8.0]))];
    assert_eq!(outputs, arrays(&expected));
}

#[test]
fn inputs_that_do_not_fit_are_named() {
    let model = load(&affine());
    let refuse = |list: &[(&str, Array)]| model.run(&arrays(list)).expect_err("does not fit");
    let x = || ("x", floats(&[1, 2], &[1.0, 2.0]));
    assert!(matches!(refuse(&[]), RunError::Missing { name } if name == "x"));
    assert!(matches!(
        refuse(&[x(), ("z", floats(&[], &[1.0]))]),
        RunError::Unknown { name } if name == "z"
    ));
    let whole = Array::new(vec![1, 2], Data::I32(vec![1, 2])).expect("an array");
    let (found, expected) = (Element::I32, Element::F32);
    assert!(matches!(
        refuse(&[("x", whole)]),
        RunError::Element { found: f, expected: e, .. } if (f, e) == (found, expected)
    ));
    for shape in [vec![2], vec![1, 3], vec![1, 1, 2]] {
        let numbers = vec![0.0; shape.iter().product()];
        let refused = refuse(&[("x", floats(&shape, &numbers))]);
        assert!(matches!(&refused, RunError::Shape { found, .. } if *found == shape), "{refused}");
        assert!(refused.to_string().ends_with("expected [rows, 2]"), "{refused}");
    }
}

#[test]
fn operator_that_is_not_there_is_named() {
    let refuse = |graph: &Graph| FloatModel::from_bytes(&graph.to_bytes()).expect_err("refused");
    let plain = Graph::new().input("x", FLOAT, &["1"]).node("Mul", &["x", "x"], &["m"]);
    let named = |error: ModelError| {
        let ModelError::UnsupportedOperator { operator, .. } = error else { panic!("{error:?}") };
        operator
    };
    let odd = plain.clone().node("OddMul", &["m"], &["y"]).output("y", FLOAT, &["1"]);
    assert_eq!(named(refuse(&odd)), "OddMul");
    let foreign = plain.clone().node_in("com.example", "Mul", &["m"], &["y"]);
    assert_eq!(named(refuse(&foreign)), "com.example/Mul");
    let inner = Graph::new().node("OddMul", &["m"], &["b"]).output("b", FLOAT, &["1"]);
    let nested = plain.node_with("If", &["x"], &["y"], |node| {
        node.graph_attribute("then_branch", &inner);
        node.graph_attribute("else_branch", &inner);
    });
    assert_eq!(named(refuse(&nested)), "OddMul");
}

#[test]
fn model_that_cannot_be_used_is_an_error() {
    let refuse = |bytes: &[u8]| FloatModel::from_bytes(bytes).expect_err("refused");
    assert!(matches!(refuse(b""), ModelError::Form(FormError::NoGraph)));
    assert!(matches!(refuse(&[0xff; 64]), ModelError::Form(FormError::Wire { .. })));
    let short = Graph::new().tensor("w", &[2, 3], &[1.0]).to_bytes();
    assert!(matches!(refuse(&short), ModelError::Load(_)));
    let twice = affine().output("y", FLOAT, &["rows", "3"]).to_bytes();
    assert!(matches!(refuse(&twice), ModelError::Load(_)));
    let long = Graph::new().input(&"x".repeat(256), FLOAT, &["1"]).to_bytes();
    assert!(matches!(refuse(&long), ModelError::PortName { .. }));
    let loose = Graph::new().input("x", FLOAT, &["n"]).output("y", FLOAT, &["n"]).to_bytes();
    assert!(matches!(refuse(&loose), ModelError::Load(_)), "nothing computes y");
}

#[test]
fn run_that_stops_in_the_middle_is_an_error() {
    let graph = Graph::new()
        .input("a", FLOAT, &["n"])
        .input("b", FLOAT, &["m"])
        .output("y", FLOAT, &["n"])
        .node("Add", &["a", "b"], &["y"]);
    let inputs = [("a", floats(&[2], &[1.0, 2.0])), ("b", floats(&[3], &[1.0, 2.0, 3.0]))];
    let ran = load(&graph).run(&arrays(&inputs));
    assert!(matches!(ran, Err(RunError::Compute(_))), "{ran:?}");
}

/// Goal: a stranger's bytes give a model or an error, and a model gives a result or an error.
/// Method: a sound model with some bytes changed.
#[test]
fn prop_changed_models_are_run_or_refused() {
    arbtest::arbtest(|u| {
        let mut bytes = affine().to_bytes();
        for _ in 0..u.int_in_range(1..=3)? {
            let at = u.choose_index(bytes.len())?;
            bytes[at] = u.arbitrary()?;
        }
        if u.ratio(1, 4)? {
            bytes.truncate(u.int_in_range(0..=bytes.len())?);
        }
        if let Ok(model) = FloatModel::from_bytes(&bytes) {
            let inputs = arrays(&[("x", floats(&[1, 2], &[1.0, 2.0]))]);
            let _refused_is_fine = model.run(&inputs);
        }
        Ok(())
    });
}
