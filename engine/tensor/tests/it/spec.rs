//! Holds `docs/tensor-program.md` against the code: its worked example and its table of limits, so
//! that somebody who implements the document gets the same bytes.

use std::fmt::Write;
use tg_tensor::commit::{CHILDREN, Salt, TILE, TILE_BYTES_MAX};
use tg_tensor::dispute::{
    Child, Claim, GROUP, Node, OPENINGS_MAX, STATE_MAX, STEP_TERMS_MAX, Verdict, check_step,
    descend, make_step,
};
use tg_tensor::element::MANTISSA_BITS;
use tg_tensor::freivalds::{self, Vector};
use tg_tensor::program::{
    Constant, ELEMENTS_MAX, ITEMS_MAX, Input, Label, MAGNITUDE_MAX, Multipliers, Operation, Output,
    PROGRAM_FORMAT, Parts, Primitive, Rescale, Scaling, Shape, Spec, TOTAL_MAX, Table, ValueId,
    Window,
};
use tg_tensor::trace::{BOOK_PATH_MAX, Run, Subject, TILE_PATH_MAX, Trace, Witness};
use tg_tensor::{Array, Data, Model, Options, Program, Runner, Tensor};
use tg_types::codec::Encode;

const DOCUMENT: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tensor-program.md"));

/// Bytes of hex on a line of the document.
const LINE_BYTES: usize = 32;

/// The salt of the example's salted trace.
const SECRET: [u8; 32] = [0x11; 32];

/// The seed of the example's random vector.
const SEED: [u8; 32] = [0x22; 32];

/// Goal: the worked example of the document is what the code gives. Method: make all of it and
/// compare the text; on failure the text to be pasted is printed.
#[test]
fn example_of_the_document_is_what_the_code_gives() {
    let found = block("```example\n");
    let expected = example();
    assert!(found == expected, "the worked example of the document should be:\n{expected}");
}

#[test]
fn limits_of_the_document_are_those_of_the_code() {
    let limits: [(&str, i128); 17] = [
        ("MAGNITUDE_MAX", MAGNITUDE_MAX.into()),
        ("ELEMENTS_MAX", ELEMENTS_MAX.into()),
        ("TOTAL_MAX", TOTAL_MAX.into()),
        ("ITEMS_MAX", ITEMS_MAX as i128),
        ("PROGRAM_FORMAT", PROGRAM_FORMAT.into()),
        ("LABEL_BYTES_MAX", Label::BYTES_MAX as i128),
        ("MANTISSA_BITS", MANTISSA_BITS.into()),
        ("TILE", TILE as i128),
        ("TILE_BYTES_MAX", TILE_BYTES_MAX as i128),
        ("CHILDREN", CHILDREN as i128),
        ("TILE_PATH_MAX", TILE_PATH_MAX as i128),
        ("BOOK_PATH_MAX", BOOK_PATH_MAX as i128),
        ("GROUP", GROUP.into()),
        ("STEP_TERMS_MAX", STEP_TERMS_MAX.into()),
        ("OPENINGS_MAX", OPENINGS_MAX as i128),
        ("STATE_MAX", STATE_MAX.into()),
        ("PRIME", freivalds::PRIME.into()),
    ];
    for (name, value) in limits {
        let row = format!("| `{name}` | {} |", grouped(value));
        assert!(DOCUMENT.contains(&row), "the document has no row starting with {row:?}");
    }
}

/// The first code block that opens with this line.
fn block(fence: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(fence).expect("the document has the block");
    rest.split_once("```").expect("the block is closed").0
}

fn example() -> String {
    let model = model();
    let program = model.program();
    let array = Array::new(vec![3], Data::Float(vec![1.0, -1.5, 2.0])).unwrap();
    let inputs = vec![program.inputs()[0].encode(&array).unwrap()];
    let runner = Runner::new(model.clone(), Options { threads: 1, path: None });
    let operations = runner.run_keeping(&inputs).unwrap();
    let accumulators = runner.accumulators(0, &[&inputs[0]]).unwrap();
    let output = program.outputs()[0].decode(&operations[1]);
    let salted = Trace::of(program, Salt::new(SECRET), &operations).unwrap();
    let trace = Trace::of(program, Salt::NONE, &operations).unwrap();
    let run = Run { inputs: &inputs, inputs_salt: Salt::NONE, operations: &operations };
    let witness = Witness::new(&model, run, &trace).unwrap();
    let subject = witness.subject();
    let claim = last_claim(&witness);
    let step = make_step(&witness, &claim).unwrap();
    assert_eq!(check_step(program, &subject, &step), Ok(Verdict::Upheld));

    let mut text = String::new();
    bytes(&mut text, "program", &program.to_bytes());
    bytes(&mut text, "program id", program.id().as_bytes());
    bytes(&mut text, "model file, behind the program", &constants(&model));
    bytes(&mut text, "weights root", subject.weights_root.as_bytes());
    bytes(&mut text, "weights id", model.weights_id().as_bytes());
    numbers(&mut text, "input", &inputs[0].to_numbers());
    numbers(&mut text, "accumulators", &accumulators);
    numbers(&mut text, "operation 0", &operations[0].to_numbers());
    numbers(&mut text, "operation 1", &operations[1].to_numbers());
    numbers(&mut text, "output", &output.to_floats());
    roots(&mut text, &subject, &trace, &salted);
    bytes(&mut text, "step", &step.to_bytes());
    freivalds(&mut text, &model, &inputs[0]);
    text
}

fn roots(text: &mut String, subject: &Subject, trace: &Trace, salted: &Trace) {
    bytes(text, "inputs root", subject.inputs_root.as_bytes());
    bytes(text, "outputs root", subject.outputs_root.as_bytes());
    for (operation, root) in trace.value_roots().iter().enumerate() {
        bytes(text, &format!("value root of operation {operation}"), root.as_bytes());
    }
    bytes(text, "trace root", subject.trace_root.as_bytes());
    bytes(text, "salt of tile 0 of value 3, secret 11…11", &salted.salt().of_tile(3, 0));
    bytes(text, "mark, secret 11…11", salted.salt().mark().as_bytes());
    bytes(text, "trace root, secret 11…11", salted.root().as_bytes());
}

fn freivalds(text: &mut String, model: &Model, x: &Tensor) {
    let vector = Vector::for_operation(&SEED, model.program(), 0).unwrap();
    let [weights, bias] = model.constants() else { panic!("the example has two constants") };
    let operands = freivalds::Operands { x, weights, bias: Some(bias) };
    let products = freivalds::products(model.program(), 0, &operands, &vector).unwrap();
    numbers(text, "vector of operation 0, seed 22…22", vector.as_slice());
    numbers(text, "products of operation 0", &products);
}

/// Two columns of three weights with biases, and a table: the least that has weights.
fn model() -> Model {
    let shape = |sides: &[u32]| Shape::new(sides.to_vec()).unwrap();
    let scaling = |scale| Some(Scaling { scale, zero: 0 });
    let value = |number| ValueId { number };
    let constant = |name: &str, sides: &[u32], spec| Constant {
        label: Label::lossy(name),
        shape: shape(sides),
        spec,
    };
    let operation =
        |name: &str, spec, primitive| Operation { label: Label::lossy(name), spec, primitive };
    let linear = Primitive::Linear {
        x: value(0),
        weights: value(1),
        bias: Some(value(2)),
        window: Window::rows(1, 3),
        columns: 2,
        groups: 1,
        pad: 0,
        bound: 128,
        rescale: Rescale {
            pre_shift: 0,
            multipliers: Multipliers::new(vec![2, 3]).unwrap(),
            shift: 5,
            zero: 0,
        },
    };
    let entries = Table::new(vec![0, 0, 0, 0, 0, 10, 20, 30]).unwrap();
    let table = Primitive::Table { x: value(3), entries };
    let (w, b) = (Spec { len: 6, lo: -127, hi: 127 }, Spec { len: 2, lo: -1_000, hi: 1_000 });
    let parts = Parts {
        inputs: vec![Input {
            label: Label::lossy("x"),
            shape: shape(&[3]),
            spec: Spec { len: 3, lo: -8, hi: 7 },
            scaling: scaling(0.5),
        }],
        constants: vec![constant("w", &[2, 3], w), constant("b", &[2], b)],
        operations: vec![
            operation("linear", Spec { len: 2, lo: -4, hi: 3 }, linear),
            operation("table", Spec { len: 2, lo: 0, hi: 30 }, table),
        ],
        outputs: vec![Output {
            label: Label::lossy("y"),
            shape: shape(&[2]),
            value: value(4),
            scaling: scaling(0.25),
        }],
    };
    let weights = Tensor::new(&w, &[1, -2, 3, 4, 5, -6]).unwrap();
    let biases = Tensor::new(&b, &[7, -8]).unwrap();
    Model::new(Program::new(parts).unwrap(), vec![weights, biases]).unwrap()
}

fn constants(model: &Model) -> Vec<u8> {
    model.to_bytes().split_off(4 + model.program().to_bytes().len())
}

/// The claim at the end of a dispute about element 0 of the linear operation.
fn last_claim(witness: &Witness<'_>) -> Child {
    let node = Node::Elements { operation: 0, from: 0, to: 1 };
    let answer = descend(witness, &node).unwrap();
    let [claim] = answer.children.as_slice() else { panic!("four terms are one step") };
    assert!(matches!(claim.claim, Claim::States { .. }));
    claim.clone()
}

fn bytes(text: &mut String, name: &str, bytes: &[u8]) {
    writeln!(text, "{name} ({} bytes)", bytes.len()).unwrap();
    for line in bytes.chunks(LINE_BYTES) {
        let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "    {hex}").unwrap();
    }
}

fn numbers<T: std::fmt::Display>(text: &mut String, name: &str, numbers: &[T]) {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    writeln!(text, "{name}\n    {}", numbers.join(" ")).unwrap();
}

/// A number with commas.
fn grouped(number: i128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
