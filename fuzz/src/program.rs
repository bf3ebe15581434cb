//! Model files from strangers.

use tg_tensor::element::Element;
use tg_tensor::program::{Multipliers, Parts, Place, Primitive, Program, Spec, ValueId};
use tg_tensor::{Model, Options, Path, Runner, Tensor};
use tg_types::codec::{Encode, Reader};

/// The most elements of all values of a model that is run: a run takes less than a millisecond.
const ELEMENTS_MAX: u64 = 1 << 14;

/// The most terms of all elements of a model that is run.
const TERMS_MAX: u64 = 1 << 18;

/// Reads a model; one that exists has the bytes it was read from, and runs as its meaning says.
///
/// Weights and the bounds that follow from them hardly ever survive a change of the bytes. So a
/// program whose weights do not fit it is given weights that do, and run all the same.
pub fn check(bytes: &[u8]) {
    if let Ok(model) = Model::from_bytes(bytes) {
        assert_eq!(model.to_bytes(), bytes, "bytes become a model that gives the same bytes");
        let _any = (model.id(), model.weights_id());
        run(model);
    } else if let Some(model) = with_other_weights(bytes) {
        run(model);
    }
}

/// Whether a model is small enough to be run.
#[must_use]
pub fn is_small(program: &Program) -> bool {
    let elements: u64 = program.specs().iter().map(|spec| u64::from(spec.len)).sum();
    let terms = |(index, spec): (usize, &Spec)| {
        let terms = Element::new(program, index, 0).map_or(0, |element| element.terms());
        terms.saturating_mul(spec.len.into())
    };
    let specs = program.operations().iter().map(|operation| &operation.spec);
    elements <= ELEMENTS_MAX
        && specs.enumerate().map(terms).fold(0_u64, u64::saturating_add) <= TERMS_MAX
}

/// Runs a small model on the ends of its inputs' ranges and in between, on both paths, and compares
/// every element with its meaning.
fn run(model: Model) {
    if !is_small(model.program()) {
        return;
    }
    let fast = Runner::new(model, Options { threads: 1, path: None });
    let path = Some(Path::Portable);
    let plain = Runner::new(fast.model().clone(), Options { threads: 1, path });
    for kind in [Fill::Zeros, Fill::Ends, Fill::Noise] {
        let program = fast.model().program();
        let inputs: Vec<Tensor> =
            program.inputs().iter().map(|input| kind.tensor(&input.spec)).collect();
        let kept = fast.run_keeping(&inputs).expect("the inputs are of their specs");
        let again = plain.run_keeping(&inputs).expect("the inputs are of their specs");
        assert_eq!(kept, again, "both paths give the same bits");
        compare(fast.model(), &inputs, &kept);
        let outputs = fast.run(&inputs).expect("the inputs are of their specs");
        assert_eq!(outputs.len(), program.outputs().len());
    }
}

/// Compares what a runner computed with the meaning of every element.
fn compare(model: &Model, inputs: &[Tensor], kept: &[Tensor]) {
    let program = model.program();
    let read = |value: ValueId, index: usize| -> Result<i32, String> {
        let found = match program.place(value) {
            Some(Place::Input(place)) => inputs.get(place),
            Some(Place::Constant(place)) => model.constants().get(place),
            Some(Place::Operation(place)) => kept.get(place),
            None => None,
        };
        let found = found.and_then(|tensor| tensor.get(index));
        found.ok_or_else(|| format!("element {index} of value {} is read", value.number))
    };
    for (operation, tensor) in kept.iter().enumerate() {
        let spec = program.operations()[operation].spec;
        assert_eq!(tensor.check(&spec), Ok(()), "operation {operation} keeps its range");
        for index in 0..spec.elements() {
            let element = Element::new(program, operation, index).expect("it is in the spec");
            let mut read = read;
            let meant = element.compute(&mut read).expect("a program reads what exists");
            assert_eq!(tensor.get(index), Some(meant), "operation {operation}, element {index}");
        }
    }
}

/// The program of a model file with weights that fit it; `None` if there is no small program or no
/// weights that keep its sums small.
fn with_other_weights(bytes: &[u8]) -> Option<Model> {
    let mut reader = Reader::new(bytes.get(4..)?);
    let program = Program::read(&mut reader).ok()?;
    let written = program.to_bytes();
    assert_eq!(Some(written.as_slice()), bytes.get(4..4 + written.len()), "same bytes again");
    if !is_small(&program) {
        return None;
    }
    let noise = Fill::Noise;
    let constants: Vec<Tensor> =
        program.constants().iter().map(|constant| noise.tensor(&constant.spec)).collect();
    let bounded = with_bounds(&program, &constants)?;
    let model = Model::new(bounded, constants).expect("the bounds are those of the weights");
    assert_eq!(Model::from_bytes(&model.to_bytes()).as_ref(), Ok(&model));
    Some(model)
}

/// The program with the bounds that these constants give, and factors small enough for them.
fn with_bounds(program: &Program, constants: &[Tensor]) -> Option<Program> {
    let constant = |value: &ValueId| constants.get(value.index() - program.inputs().len());
    let mut operations = program.operations().to_vec();
    for operation in &mut operations {
        let Primitive::Linear { x, weights, bias, columns, pad, bound, rescale, .. } =
            &mut operation.primitive
        else {
            continue;
        };
        let largest = program.spec(*x)?.magnitude().max(i64::from(*pad).abs());
        let weights = constant(weights)?.to_numbers();
        let biases = bias.as_ref().map(|bias| constant(bias).map(Tensor::to_numbers));
        let columns = *columns as usize;
        let column = |column: usize| {
            let terms = weights.len() / columns;
            let sum: i64 = weights[column * terms..][..terms].iter().map(|w| w.abs()).sum();
            largest * sum + biases.iter().flatten().flatten().nth(column).map_or(0, |b| b.abs())
        };
        *bound = (0..columns).map(column).max().and_then(|most| u32::try_from(most).ok())?;
        if !rescale.admits((*bound).into()) {
            rescale.multipliers = Multipliers::new(vec![1]).ok()?;
        }
    }
    let parts = Parts {
        inputs: program.inputs().to_vec(),
        constants: program.constants().to_vec(),
        operations,
        outputs: program.outputs().to_vec(),
    };
    Program::new(parts).ok()
}

/// Which numbers of a range.
#[derive(Clone, Copy, Debug)]
enum Fill {
    Zeros,
    Ends,
    Noise,
}

impl Fill {
    fn tensor(self, spec: &Spec) -> Tensor {
        let (lo, hi) = (i64::from(spec.lo), i64::from(spec.hi));
        let number = |index: u32| match self {
            Self::Zeros => 0.clamp(lo, hi),
            Self::Ends if index.is_multiple_of(2) => hi,
            Self::Ends => lo,
            Self::Noise => {
                let mixed = u64::from(index).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                lo + ((mixed >> 24) % (hi - lo + 1).unsigned_abs()) as i64
            }
        };
        let numbers: Vec<i64> = (0..spec.len).map(number).collect();
        Tensor::new(spec, &numbers).expect("the numbers are of the spec")
    }
}
