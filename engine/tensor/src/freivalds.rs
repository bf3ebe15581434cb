//! Checks a whole matrix product or convolution with one random vector instead of recomputing it.
//!
//! For a random vector r over the field of 2^61 - 1 elements, the accumulators of an output place
//! satisfy `sum_c acc[c] r[c] = sum_k x[k] (W^T r)[k] + sum_c b[c] r[c]`. If one of them is wrong,
//! the two sides agree for exactly one value of its r[c] out of 2^61 - 1, whatever the others are:
//! a wrong place passes with probability 2^-61, over the choice of a vector that is unknown when
//! the accumulators are committed to. (R. Freivalds, "Probabilistic machines can use less running
//! time", 1977; a difference of two accumulators has at most 32 bits, so it is never 0 in the
//! field.) Then every element must be the rescaled accumulator.
//!
//! The right-hand side ([`products`]) needs no accumulators. So a checker commits to it first,
//! which costs about as much as checking, and is held to it when the accumulators are opened.

use crate::program::{Operation, Primitive, Program, Rescale, Window};
use crate::tensor::Tensor;
use rayon::iter::{
    IndexedParallelIterator, IntoParallelIterator, ParallelExtend, ParallelIterator,
};
use tg_types::hash::{Tag, tagged};

/// The prime 2^61 - 1.
pub const PRIME: u64 = (1 << 61) - 1;

const VECTOR_TAG: Tag = Tag::new("tensorgrid/freivalds");

/// A multiply-add of a check takes about as long as this many of a product's integer kernel.
/// Measured on one core with AVX2, rescaling included: 2.1 ns against 0.016 ns.
const FIELD_COST: u64 = 128;

/// Columns whose weights one thread folds at a time.
const COLUMNS_EACH: usize = 128;

/// Places that one thread takes at a time.
const PLACES_EACH: usize = 16;

/// A random vector over the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector(Vec<u64>);

impl Vector {
    /// As many elements as asked for, from a beacon's seed: the blocks H(seed ‖ counter) in words
    /// of 61 bits, leaving out the one word that is no element. Every element is equally likely.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32], len: usize) -> Self {
        let block = |counter: u64| tagged(VECTOR_TAG, &[seed, &counter.to_be_bytes()]);
        let words = (0_u64..).flat_map(|counter| {
            let block = *block(counter).as_bytes();
            let (words, _) = block.as_chunks::<8>();
            [0, 1, 2, 3].map(|place| words.get(place).map_or(PRIME, |w| u64::from_be_bytes(*w)))
        });
        Self(words.map(|word| word & PRIME).filter(|word| *word != PRIME).take(len).collect())
    }

    /// The vector that an operation needs: one element for each column. `None` if it is neither a
    /// `Linear` nor a `MatMul`.
    #[must_use]
    pub fn for_operation(seed: &[u8; 32], program: &Program, operation: usize) -> Option<Self> {
        let product = Product::of(program.operations().get(operation)?)?;
        Some(Self::from_seed(seed, product.columns))
    }

    /// The elements, each below [`PRIME`].
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }
}

/// What a product reads.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// The input of a `Linear`; the left one of a `MatMul`.
    pub x: &'a Tensor,
    /// The weights of a `Linear`; the right one of a `MatMul`.
    pub weights: &'a Tensor,
    /// The biases of a `Linear` that has them.
    pub bias: Option<&'a Tensor>,
}

/// What is claimed of a product.
#[derive(Clone, Copy, Debug)]
pub struct Claimed<'a> {
    /// The accumulator of every element, before it is rescaled.
    pub accumulators: &'a [i32],
    /// The elements.
    pub output: &'a Tensor,
}

/// Why a product is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreivaldsError {
    /// Neither a `Linear` nor a `MatMul`, or no operation at all.
    #[error("operation {operation} is no product")]
    NoProduct {
        /// Which.
        operation: usize,
    },
    /// Too many or too few numbers.
    #[error("{found} {what} given, {expected} needed")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many are given.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// A place has a wrong accumulator.
    #[error("accumulators of place {place} are not those of the operands")]
    Accumulators {
        /// Which, as rows of the output.
        place: usize,
    },
    /// An element is not the rescaled accumulator.
    #[error("element {element} is {found}, its accumulator gives {expected}")]
    Output {
        /// Which.
        element: usize,
        /// The number claimed.
        found: i32,
        /// The number that the accumulator gives.
        expected: i32,
    },
}

/// What checking and recomputing take, in multiply-adds of the integer kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// With a random vector.
    pub check: u64,
    /// Without.
    pub recompute: u64,
}

/// What the two ways take for an operation; `None` if it is no product.
#[must_use]
pub fn cost(program: &Program, operation: usize) -> Option<Cost> {
    let product = Product::of(program.operations().get(operation)?)?;
    let (places, columns) = (product.places as u64, product.columns as u64);
    let (row, terms) = (product.row as u64, product.terms as u64);
    let fold = columns * terms * product.batches as u64;
    let check = (fold + places * row + places * columns).saturating_mul(FIELD_COST);
    Some(Cost { check, recompute: (places * columns).saturating_mul(terms) })
}

/// The right-hand side for every output place. It depends on no claim.
pub fn products(
    program: &Program,
    operation: usize,
    operands: &Operands<'_>,
    vector: &Vector,
) -> Result<Vec<u64>, FreivaldsError> {
    let product = find(program, operation)?;
    let r = product.check(operands, vector)?;
    let bias = operands.bias.map_or(0, |bias| dot(bias, 0, 0, r));
    let place = |folded: &[u64], pads: &[u64], place: usize| {
        let sum = match &product.look {
            Look::Window { window, pad } => {
                window_sum(operands.x, (window, *pad), place, (folded, pads))
            }
            Look::Rows { offset, .. } => dot(operands.x, place * product.row, *offset, folded),
        };
        reduce(sum + bias)
    };
    let each = product.places / product.batches;
    let mut products = Vec::with_capacity(product.places);
    for batch in 0..product.batches {
        let folded = product.fold(operands.weights, batch, r);
        let pads = product.pads(&folded);
        let places = (batch * each..(batch + 1) * each).into_par_iter();
        let places = places.with_min_len(PLACES_EACH);
        products.par_extend(places.map(|at| place(&folded, &pads, at)));
    }
    Ok(products)
}

/// Holds accumulators against products.
pub fn check_accumulators(
    program: &Program,
    operation: usize,
    accumulators: &[i32],
    products: &[u64],
    vector: &Vector,
) -> Result<(), FreivaldsError> {
    let product = find(program, operation)?;
    count("accumulators", accumulators.len(), product.places * product.columns)?;
    count("products", products.len(), product.places)?;
    count("elements of the vector", vector.0.len(), product.columns)?;
    let is_wrong = |place: usize| {
        let (from, to) = (place * product.columns, (place + 1) * product.columns);
        let row = accumulators.get(from..to).unwrap_or_default();
        products.get(place) != Some(&reduce(dot_slice(row, 0, &vector.0)))
    };
    let places = (0..product.places).into_par_iter().with_min_len(PLACES_EACH);
    match places.find_first(|place| is_wrong(*place)) {
        None => Ok(()),
        Some(place) => Err(FreivaldsError::Accumulators { place }),
    }
}

/// Holds elements against accumulators.
pub fn check_output(
    program: &Program,
    operation: usize,
    claimed: &Claimed<'_>,
) -> Result<(), FreivaldsError> {
    let product = find(program, operation)?;
    let elements = product.places * product.columns;
    count("accumulators", claimed.accumulators.len(), elements)?;
    count("elements", claimed.output.len(), elements)?;
    let wrong = |place: usize| match claimed.output {
        Tensor::I8(output) => product.wrong_element(place, claimed.accumulators, output),
        Tensor::I16(output) => product.wrong_element(place, claimed.accumulators, output),
        Tensor::I32(output) => product.wrong_element(place, claimed.accumulators, output),
    };
    let places = (0..product.places).into_par_iter().with_min_len(PLACES_EACH);
    match places.find_map_first(wrong) {
        None => Ok(()),
        Some(error) => Err(error),
    }
}

/// Checks a product from beginning to end.
pub fn check(
    program: &Program,
    operation: usize,
    operands: &Operands<'_>,
    claimed: &Claimed<'_>,
    vector: &Vector,
) -> Result<(), FreivaldsError> {
    let products = products(program, operation, operands, vector)?;
    check_accumulators(program, operation, claimed.accumulators, &products, vector)?;
    check_output(program, operation, claimed)
}

/// A product as this module looks at it.
struct Product<'a> {
    operation: &'a Operation,
    rescale: &'a Rescale,
    look: Look<'a>,
    /// Output places, each of which has an element in every column.
    places: usize,
    columns: usize,
    /// Independent products, each with weights of its own.
    batches: usize,
    /// Independent groups of columns, each of which reads channels of its own.
    groups: usize,
    /// Elements of the input that a place reads, padding included.
    row: usize,
    /// Taps of a place: runs of the input that lie together.
    taps: usize,
    /// Products of an element.
    terms: usize,
    /// Whether there are biases.
    is_biased: bool,
}

/// How a product looks at what it reads.
enum Look<'a> {
    Window { window: &'a Window, pad: i32 },
    Rows { offset: i32, weights_offset: i32 },
}

fn find(program: &Program, operation: usize) -> Result<Product<'_>, FreivaldsError> {
    let stated = program.operations().get(operation);
    stated.and_then(Product::of).ok_or(FreivaldsError::NoProduct { operation })
}

fn count(what: &'static str, found: usize, expected: usize) -> Result<(), FreivaldsError> {
    if found == expected { Ok(()) } else { Err(FreivaldsError::Count { what, found, expected }) }
}

impl<'a> Product<'a> {
    fn of(operation: &'a Operation) -> Option<Self> {
        match &operation.primitive {
            Primitive::Linear { window, columns, groups, pad, bias, rescale, .. } => {
                let taps = window.taps() as usize;
                Some(Self {
                    operation,
                    rescale,
                    look: Look::Window { window, pad: *pad },
                    places: window.batch as usize * window.positions() as usize,
                    columns: *columns as usize,
                    batches: 1,
                    groups: *groups as usize,
                    row: taps * window.channels as usize,
                    taps,
                    terms: taps * (window.channels / groups) as usize,
                    is_biased: bias.is_some(),
                })
            }
            Primitive::MatMul {
                batch, rows, columns, inner, offset_a, offset_b, rescale, ..
            } => Some(Self {
                operation,
                rescale,
                look: Look::Rows { offset: *offset_a, weights_offset: *offset_b },
                places: *batch as usize * *rows as usize,
                columns: *columns as usize,
                batches: *batch as usize,
                groups: 1,
                row: *inner as usize,
                taps: 1,
                terms: *inner as usize,
                is_biased: false,
            }),
            Primitive::Join { .. }
            | Primitive::Product { .. }
            | Primitive::Table { .. }
            | Primitive::Sum { .. }
            | Primitive::Max { .. }
            | Primitive::Normalise { .. }
            | Primitive::Move { .. }
            | Primitive::Select { .. }
            | Primitive::Lookup { .. }
            | Primitive::ArgMax { .. } => None,
        }
    }

    /// Checks all lengths; returns the vector.
    fn check<'v>(
        &self,
        operands: &Operands<'_>,
        vector: &'v Vector,
    ) -> Result<&'v [u64], FreivaldsError> {
        let inputs = match &self.look {
            Look::Window { window, .. } => {
                [window.batch, window.height, window.width, window.channels]
                    .iter()
                    .map(|side| *side as usize)
                    .product()
            }
            Look::Rows { .. } => self.places * self.row,
        };
        count("elements of the input", operands.x.len(), inputs)?;
        count("weights", operands.weights.len(), self.batches * self.columns * self.terms)?;
        let biases = if self.is_biased { self.columns } else { 0 };
        count("biases", operands.bias.map_or(0, Tensor::len), biases)?;
        count("elements of the vector", vector.0.len(), self.columns)?;
        Ok(&vector.0)
    }

    /// The transposed weights of a batch times the vector: a factor for every element that a place
    /// reads, in the order in which they lie there.
    fn fold(&self, weights: &Tensor, batch: usize, r: &[u64]) -> Vec<u64> {
        let offset = match &self.look {
            Look::Window { .. } => 0,
            Look::Rows { weights_offset, .. } => *weights_offset,
        };
        let channels = self.row / self.taps;
        let each = channels / self.groups;
        let group = |column: usize| column / (self.columns / self.groups);
        let part = |part: usize| {
            let mut sums = vec![0_i128; self.row];
            let columns = (part * COLUMNS_EACH..self.columns).take(COLUMNS_EACH);
            for (column, factor) in columns.clone().zip(r.iter().skip(part * COLUMNS_EACH)) {
                for tap in 0..self.taps {
                    let into = tap * channels + group(column) * each;
                    let from = (batch * self.columns + column) * self.terms + tap * each;
                    let sums = sums.get_mut(into..into + each).unwrap_or_default();
                    add_scaled(weights, from, offset, *factor, sums);
                }
            }
            sums
        };
        let add = |mut one: Vec<i128>, other: Vec<i128>| {
            one.iter_mut().zip(other).for_each(|(one, other)| *one += other);
            one
        };
        let parts = (0..self.columns.div_ceil(COLUMNS_EACH)).into_par_iter();
        let sums = parts.map(part).reduce_with(add).unwrap_or_default();
        sums.into_iter().map(reduce).collect()
    }

    /// The first element of a place that is not its rescaled accumulator.
    fn wrong_element<T: Copy + Into<i32>>(
        &self,
        place: usize,
        accumulators: &[i32],
        output: &[T],
    ) -> Option<FreivaldsError> {
        let (from, to) = (place * self.columns, (place + 1) * self.columns);
        let (row, elements) = (accumulators.get(from..to)?, output.get(from..to)?);
        for (column, (accumulator, element)) in row.iter().zip(elements).enumerate() {
            let expected = self.rescale.apply((*accumulator).into(), column, &self.operation.spec);
            let found = (*element).into();
            if found != expected {
                return Some(FreivaldsError::Output { element: from + column, found, expected });
            }
        }
        None
    }

    /// The sum of the factors of each tap: what padding of 1 counts there.
    fn pads(&self, folded: &[u64]) -> Vec<u64> {
        let sum = |tap: &[u64]| reduce(tap.iter().map(|factor| i128::from(*factor)).sum());
        folded.chunks(self.row / self.taps).map(sum).collect()
    }
}

/// The products of the elements that a place reads with their factors, summed.
fn window_sum(
    x: &Tensor,
    (window, pad): (&Window, i32),
    place: usize,
    (folded, pads): (&[u64], &[u64]),
) -> i128 {
    let positions = window.positions() as usize;
    let (image, position) = (place / positions, (place % positions) as u32);
    let channels = window.channels as usize;
    let mut sum = 0_i128;
    for ((tap, factors), pads) in (0_u32..).zip(folded.chunks(channels)).zip(pads) {
        let row = window.row(position / window.out_width, tap / window.kernel_width);
        let column = window.column(position % window.out_width, tap % window.kernel_width);
        sum += match row.zip(column) {
            Some((row, column)) => {
                let line = image * window.height as usize + row as usize;
                dot(x, (line * window.width as usize + column as usize) * channels, 0, factors)
            }
            None => i128::from(pad) * i128::from(*pads),
        };
    }
    sum
}

/// The products of elements from a place on with factors, summed. Elements have 32 bits, factors 61
/// and there are at most 2^28 of them: below 2^127.
fn dot(tensor: &Tensor, from: usize, offset: i32, factors: &[u64]) -> i128 {
    let to = from + factors.len();
    match tensor {
        Tensor::I8(x) => dot_slice(x.get(from..to).unwrap_or_default(), offset, factors),
        Tensor::I16(x) => dot_slice(x.get(from..to).unwrap_or_default(), offset, factors),
        Tensor::I32(x) => dot_slice(x.get(from..to).unwrap_or_default(), offset, factors),
    }
}

fn dot_slice<T: Copy + Into<i64>>(x: &[T], offset: i32, factors: &[u64]) -> i128 {
    let offset = i64::from(offset);
    let product =
        |(x, factor): (&T, &u64)| i128::from((*x).into() + offset) * i128::from(*factor as i64);
    x.iter().zip(factors).map(product).sum()
}

/// Adds elements from a place on, times a factor.
fn add_scaled(tensor: &Tensor, from: usize, offset: i32, factor: u64, sums: &mut [i128]) {
    let to = from + sums.len();
    match tensor {
        Tensor::I8(x) => add_slice(x.get(from..to).unwrap_or_default(), offset, factor, sums),
        Tensor::I16(x) => add_slice(x.get(from..to).unwrap_or_default(), offset, factor, sums),
        Tensor::I32(x) => add_slice(x.get(from..to).unwrap_or_default(), offset, factor, sums),
    }
}

fn add_slice<T: Copy + Into<i64>>(x: &[T], offset: i32, factor: u64, sums: &mut [i128]) {
    let (offset, factor) = (i64::from(offset), i128::from(factor as i64));
    for (sum, x) in sums.iter_mut().zip(x) {
        *sum += i128::from((*x).into() + offset) * factor;
    }
}

/// The element of the field that a number stands for.
fn reduce(number: i128) -> u64 {
    number.rem_euclid(PRIME.into()) as u64
}

#[cfg(test)]
mod tests {
    use super::{
        Claimed, FreivaldsError, Operands, PRIME, Vector, check, check_accumulators, cost, products,
    };
    use crate::element::Element;
    use crate::program::{Primitive, ValueId};
    use crate::tensor::Tensor;
    use crate::trace::testing::{Ran, Random};

    /// The accumulators of an operation, by the meaning of each element.
    fn accumulators(ran: &Ran, operation: usize) -> Vec<i32> {
        let (program, witness) = (ran.program(), ran.witness());
        let state = |index| {
            let element = Element::new(program, operation, index).unwrap();
            let mut state = element.start();
            for term in 0..element.terms() {
                let mut read = |value, index| witness.read(value, index).ok_or(());
                state = element.absorb(state, term, &mut read).unwrap();
            }
            i32::try_from(state).unwrap()
        };
        (0..ran.operations[operation].len()).map(state).collect()
    }

    fn reads(ran: &Ran, operation: usize) -> Option<[Option<ValueId>; 3]> {
        match &ran.program().operations()[operation].primitive {
            Primitive::Linear { x, weights, bias, .. } => Some([Some(*x), Some(*weights), *bias]),
            Primitive::MatMul { a, b, .. } => Some([Some(*a), Some(*b), None]),
            Primitive::Join { .. }
            | Primitive::Product { .. }
            | Primitive::Table { .. }
            | Primitive::Sum { .. }
            | Primitive::Max { .. }
            | Primitive::Normalise { .. }
            | Primitive::Move { .. }
            | Primitive::Select { .. }
            | Primitive::Lookup { .. }
            | Primitive::ArgMax { .. } => None,
        }
    }

    #[test]
    fn vector_is_uniform_reproducible_and_in_the_field() {
        let vector = Vector::from_seed(&[3; 32], 10_001);
        assert_eq!(vector, Vector::from_seed(&[3; 32], 10_001));
        assert_eq!(vector.as_slice()[..7], Vector::from_seed(&[3; 32], 7).as_slice()[..]);
        assert_ne!(vector.as_slice()[0], Vector::from_seed(&[4; 32], 1).as_slice()[0]);
        assert!(vector.as_slice().iter().all(|element| *element < PRIME));
        let upper = vector.as_slice().iter().filter(|element| **element > PRIME / 2).count();
        assert!((4_700..5_300).contains(&upper), "{upper}");
    }

    /// Goal: honest products pass, and no single change does. Method: all products of the zoo
    /// (padded and grouped convolution, batched product with offsets, plain layer), random changes.
    #[test]
    fn prop_changed_accumulator_or_element_is_refused() {
        let mut random = Random(101);
        let ran = Ran::zoo(&mut random);
        let (program, witness) = (ran.program(), ran.witness());
        let mut seen = 0;
        for operation in 0..ran.operations.len() {
            let vector = Vector::for_operation(&random.bytes(), program, operation);
            assert_eq!(cost(program, operation).is_some(), vector.is_some());
            let (Some([x, weights, bias]), Some(vector)) = (reads(&ran, operation), vector) else {
                continue;
            };
            seen += 1;
            let get = |value: Option<ValueId>| value.and_then(|value| witness.tensor(value));
            let (x, weights) = (get(x).unwrap(), get(weights).unwrap());
            let operands = Operands { x, weights, bias: get(bias) };
            let right = accumulators(&ran, operation);
            let output = &ran.operations[operation];
            let claimed = Claimed { accumulators: &right, output };
            assert_eq!(check(program, operation, &operands, &claimed, &vector), Ok(()));
            let columns = vector.as_slice().len();
            for _ in 0..50 {
                let element = random.below(right.len());
                let mut wrong = right.clone();
                wrong[element] ^= 1 << random.below(32);
                let claimed = Claimed { accumulators: &wrong, output };
                let refused = check(program, operation, &operands, &claimed, &vector);
                let place = element / columns;
                assert_eq!(refused, Err(FreivaldsError::Accumulators { place }));

                let mut numbers = output.to_numbers();
                let spec = program.operations()[operation].spec;
                let other = i64::from(spec.lo) + random.below(100) as i64;
                if numbers[element] == other {
                    continue;
                }
                numbers[element] = other;
                let output = Tensor::new(&spec, &numbers).unwrap();
                let claimed = Claimed { accumulators: &right, output: &output };
                let refused = check(program, operation, &operands, &claimed, &vector);
                let Err(FreivaldsError::Output { element: named, .. }) = refused else {
                    panic!("{refused:?}");
                };
                assert_eq!(named, element);
            }
            let mut other = x.clone();
            if let Tensor::I8(elements) = &mut other {
                elements[0] ^= 1;
                let operands = Operands { x: &other, ..operands };
                let claimed = Claimed { accumulators: &right, output };
                assert!(check(program, operation, &operands, &claimed, &vector).is_err());
            }
        }
        assert_eq!(seen, 3);
    }

    #[test]
    fn numbers_that_do_not_fit_are_an_error() {
        let mut random = Random(102);
        let ran = Ran::zoo(&mut random);
        let program = ran.program();
        let x = &ran.inputs[0];
        let weights = &ran.model.constants()[0];
        let bias = Some(&ran.model.constants()[1]);
        let vector = Vector::for_operation(&[0; 32], program, 0).unwrap();
        let operands = Operands { x, weights, bias };
        let good = products(program, 0, &operands, &vector).unwrap();
        let short = Vector::from_seed(&[0; 32], 7);
        for (operands, vector) in [
            (Operands { x: weights, ..operands }, &vector),
            (Operands { weights: x, ..operands }, &vector),
            (Operands { bias: None, ..operands }, &vector),
            (operands, &short),
        ] {
            let refused = products(program, 0, &operands, vector);
            assert!(matches!(refused, Err(FreivaldsError::Count { .. })));
        }
        let refused = check_accumulators(program, 0, &[0; 5], &good, &vector);
        assert!(matches!(refused, Err(FreivaldsError::Count { found: 5, .. })));
        for operation in [1, 999, usize::MAX] {
            let refused = products(program, operation, &operands, &vector);
            assert_eq!(refused, Err(FreivaldsError::NoProduct { operation }));
            assert_eq!(cost(program, operation), None);
        }
    }

    /// Goal: checks agree with the runner. Method: products of random models.
    #[test]
    fn prop_products_of_random_models_are_accepted() {
        arbtest::arbtest(|u| {
            let model = crate::sample::model(u)?;
            let inputs = crate::sample::inputs(u, model.program())?;
            let ran = Ran::new(model, inputs, [[1; 32]; 2]);
            let (program, witness) = (ran.program(), ran.witness());
            for operation in 0..ran.operations.len() {
                let Some([x, weights, bias]) = reads(&ran, operation) else { continue };
                let get = |value: Option<ValueId>| value.and_then(|value| witness.tensor(value));
                let (x, weights) = (get(x).unwrap(), get(weights).unwrap());
                let operands = Operands { x, weights, bias: get(bias) };
                let vector = Vector::for_operation(&u.arbitrary()?, program, operation).unwrap();
                let mut sums = accumulators(&ran, operation);
                let output = &ran.operations[operation];
                let claimed = Claimed { accumulators: &sums, output };
                assert_eq!(check(program, operation, &operands, &claimed, &vector), Ok(()));
                let place = u.choose_index(sums.len())?;
                sums[place] ^= 1 << u.int_in_range(0..=31)?;
                let claimed = Claimed { accumulators: &sums, output };
                assert!(check(program, operation, &operands, &claimed, &vector).is_err());
            }
            Ok(())
        });
    }
}
