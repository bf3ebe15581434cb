//! Programs as bytes, and everything that makes parts no program.

use super::*;
use crate::sample;
use crate::{Model, ModelError, Tensor};
use tg_types::codec::Encode as _;

fn label() -> Label {
    Label::lossy("x")
}

fn shape(sides: &[u32]) -> Shape {
    Shape::new(sides.to_vec()).expect("is short")
}

fn one(number: i32) -> Multipliers {
    Multipliers::new(vec![number]).expect("is one")
}

fn plain() -> Rescale {
    Rescale { pre_shift: 0, multipliers: one(1), shift: 8, zero: 0 }
}

const BYTE: Spec = Spec { len: 4, lo: -128, hi: 127 };

/// Two rows of two numbers, times a matrix of two columns.
fn linear() -> Primitive {
    Primitive::Linear {
        x: ValueId { number: 0 },
        weights: ValueId { number: 1 },
        bias: None,
        window: Window::rows(2, 2),
        columns: 2,
        groups: 1,
        pad: 0,
        bound: 128 * 7,
        rescale: plain(),
    }
}

fn parts(primitive: Primitive) -> Parts {
    Parts {
        inputs: vec![Input { label: label(), shape: shape(&[2, 2]), spec: BYTE, scaling: None }],
        constants: vec![Constant { label: label(), shape: shape(&[2, 2]), spec: BYTE_WEIGHTS }],
        operations: vec![Operation { label: label(), spec: BYTE, primitive }],
        outputs: vec![Output {
            label: label(),
            shape: shape(&[2, 2]),
            value: ValueId { number: 2 },
            scaling: None,
        }],
    }
}

const BYTE_WEIGHTS: Spec = Spec { len: 4, lo: -127, hi: 127 };

fn flaw(primitive: Primitive) -> Flaw {
    match Program::new(parts(primitive)) {
        Err(ProgramError::Part { what: "operation", index: 0, flaw, .. }) => flaw,
        other => panic!("{other:?}"),
    }
}

#[test]
fn prop_bytes_of_a_program_give_it_again_and_no_prefix_does() {
    arbtest::arbtest(|u| {
        let program = sample::model(u)?.program().clone();
        let bytes = program.to_bytes();
        assert_eq!(Program::from_bytes(&bytes).as_ref(), Ok(&program));
        let cut = u.choose_index(bytes.len())?;
        assert!(Program::from_bytes(&bytes[..cut]).is_err());
        assert!(Program::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        Ok(())
    });
}

#[test]
fn prop_changed_bytes_are_refused_or_are_another_program() {
    arbtest::arbtest(|u| {
        let model = sample::model(u)?;
        let mut bytes = model.to_bytes();
        let at = u.choose_index(bytes.len())?;
        bytes[at] ^= 1 << u.int_in_range(0..=7)?;
        if let Ok(other) = Model::from_bytes(&bytes) {
            assert_eq!(other.to_bytes(), bytes);
            assert_ne!(other, model);
        }
        Ok(())
    });
}

#[test]
fn product_as_stated_is_a_program() {
    let program = Program::new(parts(linear())).expect("is one");
    assert_eq!(program.multiply_adds(), 8);
    assert_eq!(program.place(ValueId { number: 1 }), Some(Place::Constant(0)));
    assert_eq!(program.place(ValueId { number: 3 }), None);
}

#[test]
fn product_with_another_part_is_refused() {
    let with = |change: fn(&mut Primitive)| {
        let mut primitive = linear();
        change(&mut primitive);
        flaw(primitive)
    };
    macro_rules! field {
        ($field:ident = $value:expr) => {
            |primitive: &mut Primitive| match primitive {
                Primitive::Linear { $field, .. } => *$field = $value,
                other => panic!("{other:?}"),
            }
        };
    }
    assert_eq!(with(field!(x = ValueId { number: 2 })), Flaw::Order(2));
    assert_eq!(with(field!(weights = ValueId { number: 0 })), Flaw::NotConstant(0));
    assert!(matches!(with(field!(columns = 3)), Flaw::Count { what: "weights", .. }));
    assert!(matches!(with(field!(columns = 0)), Flaw::Side { what: "columns", .. }));
    assert!(matches!(with(field!(groups = 3)), Flaw::Count { .. }));
    assert!(matches!(with(field!(window = Window::rows(3, 2))), Flaw::Count { .. }));
    assert!(matches!(with(field!(window = Window::rows(0, 2))), Flaw::Side { .. }));
    assert!(matches!(with(field!(window = Window::rows(u32::MAX, 2))), Flaw::Side { .. }));
    assert!(matches!(with(field!(pad = 200)), Flaw::Range { .. }));
    assert!(matches!(with(field!(bound = u32::MAX)), Flaw::Bound { .. }));
    let shifted = field!(rescale = Rescale { shift: 31, ..plain() });
    assert!(matches!(with(shifted), Flaw::Bound { .. }));
    let large = field!(rescale = Rescale { multipliers: one(1 << 22), ..plain() });
    assert!(matches!(with(large), Flaw::Bound { .. }));
    let negative = field!(rescale = Rescale { multipliers: one(-1), ..plain() });
    assert!(matches!(with(negative), Flaw::Bound { .. }));
    assert!(matches!(with(field!(bias = Some(ValueId { number: 1 }))), Flaw::Count { .. }));
}

#[test]
fn other_primitives_with_wrong_parts_are_refused() {
    let x = ValueId { number: 0 };
    let sides = |sides: &[u32]| Sides::new(sides.to_vec()).expect("few");
    let operand = |strides: &[u32]| Operand {
        value: x,
        strides: Strides::new(strides.to_vec()).expect("few"),
    };
    let entries = |count: usize| Table::new(vec![0; count]).expect("bounded");
    assert!(matches!(flaw(Primitive::Table { x, entries: entries(255) }), Flaw::Count { .. }));
    let high = Table::new(vec![128; 256]).expect("bounded");
    assert!(matches!(flaw(Primitive::Table { x, entries: high }), Flaw::Range { .. }));
    let product = |a, b, grid: &[u32]| Primitive::Product {
        sides: sides(grid),
        a,
        b,
        offset_a: 0,
        offset_b: 0,
        rescale: plain(),
    };
    let outside = flaw(product(operand(&[2]), operand(&[1]), &[4]));
    assert_eq!(outside, Flaw::Outside { value: 0, index: 6, len: 4 });
    let ranks = flaw(product(operand(&[1, 1]), operand(&[1]), &[4]));
    assert!(matches!(ranks, Flaw::Count { what: "strides", .. }));
    assert!(Program::new(parts(product(operand(&[0]), operand(&[1]), &[4]))).is_ok());
    let divided = |inverse, count, shift| Primitive::Normalise {
        sides: sides(&[4]),
        a: operand(&[1]),
        offset: 0,
        x: operand(&[1]),
        inverse,
        entries: entries(count),
        shift,
        zero: 0,
    };
    assert!(Program::new(parts(divided(Inverse::Root, 3_072, 5))).is_ok());
    assert!(matches!(flaw(divided(Inverse::Root, 1_024, 5)), Flaw::Count { .. }));
    assert_eq!(flaw(divided(Inverse::Reciprocal, 1_024, 9)), Flaw::Shift(9));
    let lookup = Primitive::Lookup { table: x, indices: x, row: 1 };
    assert!(matches!(flaw(lookup), Flaw::Range { .. }), "indices may be negative");
    let place = Primitive::ArgMax { x, outer: 1, len: 4, inner: 1 };
    assert!(matches!(flaw(place), Flaw::Count { .. }));
}

#[test]
fn moves_that_read_outside_or_leave_places_are_refused() {
    let moved = |runs: &[Run]| {
        let runs = Runs::new(runs.to_vec()).expect("few");
        let offsets = List::new(vec![runs]).expect("one");
        let part = MovePart { value: ValueId { number: 0 }, offsets };
        let sides = Sides::new(vec![4]).expect("few");
        Primitive::Move { sides, axis: 0, parts: List::new(vec![part]).expect("one"), fill: 0 }
    };
    let read = |start, step, count| Run::Read { start, step, count };
    assert!(Program::new(parts(moved(&[read(3, -1, 4)]))).is_ok());
    assert!(Program::new(parts(moved(&[Run::Fill { count: 2 }, read(0, 0, 2)]))).is_ok());
    assert!(matches!(flaw(moved(&[read(0, -1, 4)])), Flaw::Outside { index: -3, .. }));
    assert!(matches!(flaw(moved(&[read(1, 1, 4)])), Flaw::Outside { index: 4, .. }));
    assert!(matches!(flaw(moved(&[read(0, 1, 3)])), Flaw::Count { .. }));
    assert!(matches!(flaw(moved(&[read(0, 1, 0), read(0, 1, 4)])), Flaw::Side { .. }));
    assert!(matches!(flaw(moved(&[read(0, i32::MAX, u32::MAX)])), Flaw::Side { .. }));
}

#[test]
fn model_states_the_bound_of_its_weights() {
    let program = Program::new(parts(linear())).expect("is one");
    let weights = |numbers: &[i64]| Tensor::new(&BYTE_WEIGHTS, numbers).expect("fits");
    assert!(Model::new(program.clone(), vec![weights(&[1, 2, -3, 4])]).is_ok());
    let refused = Model::new(program.clone(), vec![weights(&[1, 2, -3, 5])]);
    assert!(matches!(refused, Err(ModelError::Bound { stated: 896, found: 1_024, .. })));
    let refused = Model::new(program.clone(), vec![]);
    assert!(matches!(refused, Err(ModelError::Constants { found: 0, expected: 1 })));
    let refused = Model::new(program, vec![Tensor::I16(vec![1, 2, -3, 4])]);
    assert!(matches!(refused, Err(ModelError::Constant { .. })));
}

#[test]
fn labels_are_made_of_any_text_and_read_only_if_plain() {
    for text in ["", "a\nb", &"é".repeat(100)] {
        let label = Label::lossy(text);
        let mut bytes = Vec::new();
        label.encode(&mut bytes);
        assert_eq!(Label::from_bytes(&bytes), Ok(label));
    }
    for bytes in [&[0][..], &[1, b'\n'], &[1, 0xff]] {
        assert!(Label::from_bytes(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn too_many_elements_altogether_are_refused() {
    let large = Spec { len: ELEMENTS_MAX, lo: 0, hi: 1 };
    let input = Input { label: label(), shape: shape(&[ELEMENTS_MAX]), spec: large, scaling: None };
    let inputs = vec![input; 17];
    let refused = Program::new(Parts { inputs, ..Parts::default() });
    assert!(matches!(refused, Err(ProgramError::Total { .. })), "{refused:?}");
}
