//! Operations made ready to run: what can be computed once for all runs is computed here.

use super::elements::{Elements, Target};
use super::linear::{Linear, Shape, Way};
use super::mat_mul::MatMul;
use super::moves::Moves;
use super::pointwise::{Division, Pointwise};
use super::product::Finish;
use super::reduce::{ArgMax, Fold, Reduce};
use super::table::{Lookup, Table};
use super::{Context, Scratch, Values, linear, mat_mul};
use crate::kernels::{Size, Weights};
use crate::model::Model;
use crate::program::{Operation, Primitive, Spec, ValueId};
use crate::tensor::Tensor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An operation that is ready to run.
#[derive(Debug)]
pub(super) enum Step {
    /// See [`Primitive::Linear`].
    Linear(Linear),
    /// See [`Primitive::MatMul`].
    MatMul(MatMul),
    /// See [`Primitive::Join`], [`Primitive::Product`], [`Primitive::Select`] and
    /// [`Primitive::Normalise`].
    Pointwise(Pointwise),
    /// See [`Primitive::Table`].
    Table(Table),
    /// See [`Primitive::Sum`] and [`Primitive::Max`].
    Reduce(Reduce),
    /// See [`Primitive::Move`].
    Moves(Moves),
    /// See [`Primitive::Lookup`].
    Lookup(Lookup),
    /// See [`Primitive::ArgMax`].
    ArgMax(ArgMax),
}

impl Step {
    /// Computes the operation's output.
    pub(super) fn run(
        &self,
        context: &Context<'_>,
        values: &Values<'_>,
        out: Target<'_>,
        scratch: &mut [Scratch],
    ) {
        match self {
            Self::Linear(step) => {
                let weights = bytes(values.get(step.weights));
                let reads = linear::Reads { x: values.get(step.x), weights, finish: &step.finish };
                step.run(context, reads, out, scratch);
            }
            Self::MatMul(step) => {
                let (a, b) = (values.get(step.a), values.get(step.b));
                step.run(context, mat_mul::Reads { a, b, finish: &step.finish }, out, scratch);
            }
            Self::Pointwise(step) => step.run(context, values, out, scratch),
            Self::Table(step) => step.run(context, values, out, scratch),
            Self::Reduce(step) => step.run(context, values, out, scratch),
            Self::Moves(step) => step.run(context, values, out, scratch),
            Self::Lookup(step) => step.run(context, values, out, scratch),
            Self::ArgMax(step) => step.run(context, values, out, scratch),
        }
    }
}

/// Weights as they are in the model.
pub(super) fn bytes(weights: Elements<'_>) -> &[i8] {
    match weights {
        Elements::I8(weights) => weights,
        Elements::I16(_) | Elements::I32(_) => unreachable!("weights are bytes"),
    }
}

/// Makes all operations of a model ready.
pub(super) fn prepare(model: &Model) -> Vec<Step> {
    let mut prepare = Prepare { model, packed: BTreeMap::new() };
    model.program().operations().iter().map(|operation| prepare.step(operation)).collect()
}

/// What is kept while operations are made ready: weights that several operations use are packed
/// once, by value, groups, columns and depth.
struct Prepare<'a> {
    model: &'a Model,
    packed: BTreeMap<(ValueId, usize, usize, usize), Arc<[Weights]>>,
}

impl Prepare<'_> {
    fn step(&mut self, operation: &Operation) -> Step {
        let out = &operation.spec;
        match &operation.primitive {
            Primitive::Linear { .. } => self.linear(operation),
            Primitive::MatMul {
                a, b, rows, columns, inner, offset_a, offset_b, rescale, ..
            } => Step::MatMul(MatMul {
                a: *a,
                b: *b,
                rows: *rows as usize,
                columns: *columns as usize,
                inner: *inner as usize,
                offsets: [*offset_a, *offset_b],
                finish: Finish::new(None, rescale, out),
            }),
            Primitive::Join { sides, terms, constant, shift } => {
                let (terms, constant) = (terms.as_slice(), constant.as_slice());
                Step::Pointwise(Pointwise::join(sides.as_slice(), terms, constant, *shift, out))
            }
            Primitive::Product { sides, a, b, offset_a, offset_b, rescale } => {
                let factors = [(a, *offset_a), (b, *offset_b)];
                Step::Pointwise(Pointwise::product(sides.as_slice(), factors, rescale, out))
            }
            Primitive::Table { x, entries } => {
                Step::Table(Table::new(*x, entries.as_slice(), &self.spec(*x), out))
            }
            Primitive::Sum { x, window, offset, rescale } => {
                let fold = Fold::Sum(*offset, Finish::new(None, rescale, out));
                Step::Reduce(Reduce::new(*x, window, fold))
            }
            Primitive::Max { x, window } => {
                Step::Reduce(Reduce::new(*x, window, Fold::Max(self.spec(*x).lo)))
            }
            Primitive::Normalise { sides, a, offset, x, inverse, entries, shift, zero } => {
                let division = Division {
                    offset: *offset,
                    inverse: *inverse,
                    entries: entries.as_slice().to_vec(),
                    shift: (*shift).into(),
                    zero: *zero,
                };
                Step::Pointwise(Pointwise::normalise(sides.as_slice(), [a, x], division, out))
            }
            Primitive::Move { sides, axis, parts, fill } => {
                let (sides, parts) = (sides.as_slice(), parts.as_slice());
                Step::Moves(Moves::new(sides, usize::from(*axis), parts, *fill))
            }
            Primitive::Select { sides, condition, then, otherwise } => {
                let operands = [condition, then, otherwise];
                Step::Pointwise(Pointwise::select(sides.as_slice(), operands, out))
            }
            Primitive::Lookup { table, indices, row } => {
                Step::Lookup(Lookup { table: *table, indices: *indices, row: *row as usize })
            }
            Primitive::ArgMax { x, len, inner, .. } => {
                Step::ArgMax(ArgMax { x: *x, len: *len as usize, inner: *inner as usize })
            }
        }
    }

    fn linear(&mut self, operation: &Operation) -> Step {
        let Primitive::Linear { x, weights, bias, window, columns, groups, pad, rescale, .. } =
            &operation.primitive
        else {
            unreachable!("{:?} is not linear", operation.label);
        };
        let (columns, groups) = (*columns as usize, *groups as usize);
        let shape = Shape { window: *window, columns, groups };
        let bias = bias.and_then(|bias| self.model.constant(bias)).map(numbers);
        Step::Linear(Linear {
            x: *x,
            weights: *weights,
            shape,
            pad: *pad as i16,
            finish: Finish::new(bias, rescale, &operation.spec),
            way: self.way(&shape, *weights, *pad as i16),
        })
    }

    fn way(&mut self, shape: &Shape, value: ValueId, pad: i16) -> Way {
        let weights = self.model.constant(value).expect("weights are a constant");
        let weights = bytes(weights.into());
        shape.way(weights, pad, || {
            let key = (value, shape.groups, shape.columns, shape.packed_depth());
            Arc::clone(self.packed.entry(key).or_insert_with(|| pack(weights, shape)))
        })
    }

    fn spec(&self, value: ValueId) -> Spec {
        self.model.program().spec(value).expect("a program reads values that it has")
    }
}

/// Packs the weights of each group.
fn pack(weights: &[i8], shape: &Shape) -> Arc<[Weights]> {
    let (columns, depth) = (shape.per_group(), shape.packed_depth());
    let group = |rows: &[i8]| {
        let mut packed = Weights::default();
        if depth == shape.depth() {
            packed.pack_rows(rows, Size { columns, depth }, depth);
        } else {
            let mut padded = vec![0; columns * depth];
            let pairs = padded.chunks_exact_mut(depth).zip(rows.chunks_exact(shape.depth()));
            pairs.for_each(|(to, from)| to[..from.len()].copy_from_slice(from));
            packed.pack_rows(&padded, Size { columns, depth }, depth);
        }
        packed
    };
    weights.chunks_exact(columns * shape.depth()).map(group).collect()
}

fn numbers(tensor: &Tensor) -> Vec<i32> {
    tensor.to_numbers().into_iter().map(|number| number as i32).collect()
}
