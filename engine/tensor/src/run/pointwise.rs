//! Operations that make each element from the elements in its place: join, product, select and
//! normalise.
//!
//! They go block by block: what is read becomes a buffer of 32-bit numbers, the arithmetic runs
//! over buffers, and the result is narrowed into its place. A block is read whole before it is
//! written, so the result may be written over an operand. That 32 bits are enough is checked with
//! the program.

use super::elements::{Elements, Number, Target, convert, with_target};
use super::view::View;
use super::{Context, Scratch, Values};
use crate::element::MANTISSA_BITS;
use crate::kernels::{self, Multipliers, Requantise};
use crate::program::{Inverse, JoinTerm, Operand, Rescale, Spec, ValueId};

/// Elements of a block: the buffers of a thread lie in the first cache.
const BLOCK: usize = 1_024;

/// Elements that a thread takes at once at most.
const CHUNK: usize = 16 * BLOCK;

/// The buffers of a thread.
pub(super) type Buffers = [[i32; BLOCK]; 3];

/// Empty buffers.
pub(super) const BUFFERS: Buffers = [[0; BLOCK]; 3];

/// A part of the result.
struct Block<'a, T> {
    start: usize,
    out: &'a mut [T],
}

/// An operand and how it is seen.
#[derive(Debug)]
struct Seen {
    value: ValueId,
    view: View,
}

impl Seen {
    fn new(operand: &Operand, sides: &[u32]) -> Self {
        Self { value: operand.value, view: View::new(sides, operand.strides.as_slice()) }
    }

    /// Reads what stands at the places of a block.
    fn load<'a, T: Number>(
        &self,
        values: &Values<'_>,
        block: &Block<'_, T>,
        to: &'a mut [i32; BLOCK],
    ) -> &'a mut [i32] {
        let to = &mut to[..block.out.len()];
        match values.unless_overwritten(self.value) {
            Some(elements) => self.view.load(elements, block.start, to),
            None => convert(block.out, to),
        }
        to
    }
}

/// Numbers that belong to an operation: one for all places, or one for each of the last side.
#[derive(Debug)]
enum Numbers {
    One(i32),
    Each(Vec<i32>, View),
}

impl Numbers {
    fn new(numbers: &[i32], sides: &[u32]) -> Self {
        match numbers {
            [one] => Self::One(*one),
            each => Self::Each(each.to_vec(), View::along_last(sides)),
        }
    }

    /// What stands at the places of a block.
    fn load(&self, start: usize, to: &mut [i32]) {
        match self {
            Self::One(one) => to.fill(*one),
            Self::Each(each, view) => view.load(Elements::I32(each), start, to),
        }
    }
}

/// A summand of a join.
#[derive(Debug)]
struct Term {
    seen: Seen,
    factors: Numbers,
}

/// `sum(x * m) + constant`, before its rescale.
#[derive(Debug)]
struct Join {
    terms: Vec<Term>,
    constant: Numbers,
}

impl Join {
    fn block<'a, T: Number>(
        &self,
        values: &Values<'_>,
        block: &Block<'_, T>,
        buffers: &'a mut Buffers,
    ) -> &'a [i32] {
        let [sum, read, factors] = buffers;
        let sum = &mut sum[..block.out.len()];
        self.constant.load(block.start, sum);
        for term in &self.terms {
            let read = term.seen.load(values, block, read);
            match &term.factors {
                Numbers::One(factor) => {
                    for (sum, read) in sum.iter_mut().zip(read) {
                        *sum = sum.wrapping_add(read.wrapping_mul(*factor));
                    }
                }
                Numbers::Each(..) => {
                    let factors = &mut factors[..block.out.len()];
                    term.factors.load(block.start, factors);
                    for ((sum, read), factor) in sum.iter_mut().zip(read).zip(factors) {
                        *sum = sum.wrapping_add(read.wrapping_mul(*factor));
                    }
                }
            }
        }
        sum
    }
}

/// `(a + offset_a) * (b + offset_b)`, before its rescale.
#[derive(Debug)]
struct Product {
    factors: [(Seen, i32); 2],
}

impl Product {
    fn block<'a, T: Number>(
        &self,
        values: &Values<'_>,
        block: &Block<'_, T>,
        buffers: &'a mut Buffers,
    ) -> &'a [i32] {
        let [left, right, _] = buffers;
        let [(a, offset_a), (b, offset_b)] = &self.factors;
        let left = a.load(values, block, left);
        for (left, right) in left.iter_mut().zip(b.load(values, block, right)) {
            let right = right.wrapping_add(*offset_b);
            *left = left.wrapping_add(*offset_a).wrapping_mul(right);
        }
        left
    }
}

/// `condition != 0 ? then : otherwise`.
#[derive(Debug)]
struct Select {
    condition: Seen,
    then: Seen,
    otherwise: Seen,
}

impl Select {
    fn block<T: Number>(
        &self,
        values: &Values<'_>,
        block: &mut Block<'_, T>,
        buffers: &mut Buffers,
    ) {
        let [condition, then, otherwise] = buffers;
        let condition = self.condition.load(values, block, condition);
        let then = self.then.load(values, block, then);
        let otherwise = self.otherwise.load(values, block, otherwise);
        let taken = condition.iter().zip(then).zip(otherwise);
        for (out, ((condition, then), otherwise)) in block.out.iter_mut().zip(taken) {
            *out = T::narrow(if *condition == 0 { *otherwise } else { *then });
        }
    }
}

/// The fixed part of a division through powers of two.
#[derive(Clone, Debug)]
pub(super) struct Division {
    /// Added to what is divided.
    pub(super) offset: i32,
    /// Which inverse.
    pub(super) inverse: Inverse,
    /// The inverse of each mantissa.
    pub(super) entries: Vec<i16>,
    /// Bits dropped besides those of the mantissa's power of two.
    pub(super) shift: u32,
    /// Added at the end.
    pub(super) zero: i32,
}

impl Division {
    /// The factor of a divisor and the bits that are dropped after it: [`crate::element::power_of`]
    /// in 32 bits.
    fn factor(&self, divisor: i32) -> (i32, u32) {
        let x = divisor.max(1);
        let over = x.ilog2() as i32 - i32::from(MANTISSA_BITS);
        let (exponent, shift) = match self.inverse {
            Inverse::Reciprocal => (over, over),
            Inverse::Root => (over >> 1 << 1, over >> 1),
        };
        let mantissa = if exponent >= 0 { x >> exponent } else { x << -exponent };
        let entry = mantissa as usize - (1 << MANTISSA_BITS);
        (self.entries[entry].into(), self.shift.wrapping_add_signed(shift))
    }
}

/// `a` divided by `x` or by its root.
#[derive(Debug)]
struct Normalise {
    a: Seen,
    x: Seen,
    division: Division,
}

impl Normalise {
    /// The quotients, not yet clamped.
    fn block<'a, T: Number>(
        &self,
        values: &Values<'_>,
        block: &Block<'_, T>,
        buffers: &'a mut Buffers,
    ) -> &'a [i32] {
        let [left, right, _] = buffers;
        let left = self.a.load(values, block, left);
        // Neighbours mostly have the same divisor, so the last one's factor is kept.
        let mut last = (1, self.division.factor(1));
        for (a, x) in left.iter_mut().zip(self.x.load(values, block, right)) {
            if *x != last.0 {
                last = (*x, self.division.factor(*x));
            }
            let (factor, shift) = last.1;
            let product = a.wrapping_add(self.division.offset).wrapping_mul(factor);
            let half = (1_i32 << shift) >> 1;
            *a = (product.wrapping_add(half) >> shift).wrapping_add(self.division.zero);
        }
        left
    }
}

/// What is done with the operands.
#[derive(Debug)]
enum Rule {
    Join(Join),
    Product(Product),
    Select(Select),
    Normalise(Normalise),
}

/// A pointwise operation over a grid.
#[derive(Debug)]
pub(super) struct Pointwise {
    rule: Rule,
    how: Requantise<'static>,
}

/// What only clamps.
fn clamping(spec: &Spec) -> Requantise<'static> {
    Requantise {
        bias: None,
        multipliers: Multipliers::One(1),
        pre_shift: 0,
        shift: 0,
        zero: 0,
        lo: spec.lo,
        hi: spec.hi,
    }
}

impl Pointwise {
    /// A weighted sum.
    pub(super) fn join(
        sides: &[u32],
        terms: &[JoinTerm],
        constant: &[i32],
        shift: u8,
        spec: &Spec,
    ) -> Self {
        let term = |term: &JoinTerm| Term {
            seen: Seen::new(&term.operand, sides),
            factors: Numbers::new(term.multipliers.as_slice(), sides),
        };
        let terms = terms.iter().map(term).collect();
        let rule = Rule::Join(Join { terms, constant: Numbers::new(constant, sides) });
        Self { rule, how: Requantise { shift: shift.into(), ..clamping(spec) } }
    }

    /// A product of two operands, each with its offset.
    pub(super) fn product(
        sides: &[u32],
        factors: [(&Operand, i32); 2],
        rescale: &Rescale,
        spec: &Spec,
    ) -> Self {
        let factors = factors.map(|(operand, offset)| (Seen::new(operand, sides), offset));
        let how = Requantise {
            multipliers: Multipliers::One(rescale.multiplier(0)),
            pre_shift: rescale.pre_shift.into(),
            shift: rescale.shift.into(),
            zero: rescale.zero,
            ..clamping(spec)
        };
        Self { rule: Rule::Product(Product { factors }), how }
    }

    /// A choice: the condition, what is taken where it holds, and what elsewhere.
    pub(super) fn select(sides: &[u32], operands: [&Operand; 3], spec: &Spec) -> Self {
        let [condition, then, otherwise] = operands.map(|operand| Seen::new(operand, sides));
        Self { rule: Rule::Select(Select { condition, then, otherwise }), how: clamping(spec) }
    }

    /// A division of the first operand by the second.
    pub(super) fn normalise(
        sides: &[u32],
        operands: [&Operand; 2],
        division: Division,
        spec: &Spec,
    ) -> Self {
        let [a, x] = operands.map(|operand| Seen::new(operand, sides));
        Self { rule: Rule::Normalise(Normalise { a, x, division }), how: clamping(spec) }
    }

    /// About how long an element takes, in thousandths of a microsecond.
    fn element_work(&self) -> u64 {
        match &self.rule {
            Rule::Join(join) => join.terms.len() as u64,
            Rule::Product(_) => 2,
            Rule::Select(_) => 3,
            Rule::Normalise(_) => 4,
        }
    }

    /// Computes the output.
    pub(super) fn run(
        &self,
        context: &Context<'_>,
        values: &Values<'_>,
        out: Target<'_>,
        scratch: &mut [Scratch],
    ) {
        with_target!(out, out => {
            let ways = context.team.ways(out.len() as u64 * self.element_work());
            let piece = context.team.piece(ways, out.len(), CHUNK);
            let chunks = out.chunks_mut(piece).enumerate();
            context.team.share(ways, scratch, chunks, |scratch, (index, chunk)| {
                let start = index * piece;
                for (index, out) in chunk.chunks_mut(BLOCK).enumerate() {
                    let mut block = Block { start: start + index * BLOCK, out };
                    self.block(context, values, &mut block, &mut scratch.buffers);
                }
            });
        });
    }

    fn block<T: Number>(
        &self,
        context: &Context<'_>,
        values: &Values<'_>,
        block: &mut Block<'_, T>,
        buffers: &mut Buffers,
    ) {
        let numbers = match &self.rule {
            Rule::Join(join) => join.block(values, block, buffers),
            Rule::Product(product) => product.block(values, block, buffers),
            Rule::Normalise(normalise) => normalise.block(values, block, buffers),
            Rule::Select(select) => return select.block(values, block, buffers),
        };
        kernels::requantise_row(context.path, numbers, &self.how, block.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::power_of;

    #[test]
    fn factor_of_every_power_is_that_of_the_definition() {
        for inverse in [Inverse::Reciprocal, Inverse::Root] {
            let entries: Vec<i16> = (0..3 << MANTISSA_BITS).collect();
            let division = Division { offset: 0, inverse, entries, shift: 20, zero: 0 };
            for x in (0..30).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1, -bits]) {
                let (mantissa, exponent) = power_of(x.into(), inverse);
                let (entry, shift) = division.factor(x);
                assert_eq!(i64::from(entry), mantissa - (1 << MANTISSA_BITS), "{x} {inverse:?}");
                assert_eq!(i64::from(shift), 20 + exponent, "{x} {inverse:?}");
            }
        }
    }
}
