//! The sums of neighbouring leaves, computed whenever they are asked for.
//!
//! The sum of two look-ups 1 / (s - x) + 1 / (s - y) is (2 s - (x + y)) / (s^2 - s (x + y) + x y):
//! it is made of their sum and product, which are numbers of the base field, or a few of them where
//! a leaf is made of several. Those are bound to challenges instead of fractions of the extension.

use crate::field::EF;
use crate::fractions::{Fractions, Level, filled, gate_of_fractions, step_of_fractions};
use crate::gates::{Binding, Gate, Kinds, ONES, PARTS, Weights, summed};
use crate::leaves::{Leaves, Ready};
use crate::wide::{Factor, Narrow, Wide, times};
use p3_field::{Field, PrimeCharacteristicRing};

/// Leaf rows of a gate after the first round, and after the second.
const EIGHT: usize = 8;
const SIXTEEN: usize = 16;

/// The level above leaves.
pub(crate) struct Pairs<'a> {
    leaves: &'a Leaves,
    /// Those of the leaves.
    kinds: &'a Kinds,
    /// The denominator of the sum of two rows of padding.
    squares: Vec<Wide>,
    rows: usize,
}

/// Sum and product of the numbers of two neighbouring leaves that have one.
#[inline(always)]
fn of_one(block: &Ready, first: usize) -> [Narrow; 2] {
    let [x0, x1] = [first, first + PARTS].map(|register| block.number(0, register));
    [x0 + x1, x0 * x1]
}

/// The same of two that have two each: sums; and products, those of different numbers added up.
#[inline(always)]
fn of_two(block: &Ready, first: usize) -> ([Narrow; 2], [Narrow; 3]) {
    let registers = [first, first + PARTS];
    let [[x0, x1], [y0, y1]] =
        [0, 1].map(|place| registers.map(|register| block.number(place, register)));
    let cross = Narrow::dot_product(&[x0, x1], &[y1, y0]);
    ([x0 + x1, y0 + y1], [x0 * x1, cross, y0 * y1])
}

/// The fraction that pairs of leaves with the numerator 1 are at challenges between them.
#[inline(always)]
fn bound<const N: usize, const TWO: usize, const THREE: usize>(
    block: &Ready,
    by: &Weights<N, TWO, THREE>,
    firsts: [usize; N],
) -> (Wide, Wide) {
    let (sum, product) = if block.count() == 1 {
        let pairs = firsts.map(|first| of_one(block, first));
        let of = |place: usize| summed(&std::array::from_fn(|pair| pairs[pair][place]), &by.one);
        (of(0), of(1))
    } else {
        let pairs = firsts.map(|first| of_two(block, first));
        let sums = std::array::from_fn(|index| pairs[index % N].0[index / N]);
        let products = std::array::from_fn(|index| pairs[index % N].1[index / N]);
        (summed(&sums, &by.two), summed(&products, &by.three))
    };
    (block.double - sum, block.square - block.shift.times(sum) + product)
}

/// The products of which the first round's sum is made where leaves have one number, with weights:
/// of the steps S of sums and P of products of two gates' children, S0 * S1, S0 * P1 + S1 * P0 and
/// P0 * P1. All of them are numbers of the base field.
#[derive(Default)]
struct Steps {
    /// What S is multiplied with to be joined with P.
    shift: EF,
    products: [[Wide; 3]; PARTS],
}

impl Steps {
    #[inline(always)]
    fn add(&mut self, block: &Ready, first: usize, weight: &Factor, part: usize) {
        let step = |place: usize| {
            let [low, high] = [0, 4].map(|row| of_one(block, first + (row + 2 * place) * PARTS));
            [high[0] - low[0], high[1] - low[1]]
        };
        let ([s0, p0], [s1, p1]) = (step(0), step(1));
        let all = [s0 * s1, Narrow::dot_product(&[s0, s1], &[p1, p0]), p0 * p1];
        for (sum, product) in self.products[part].iter_mut().zip(all) {
            *sum += weight.base(product);
        }
    }

    /// Adds them to the products of e = shift * S - P and of n = S, and goes on with another shift.
    fn join(&mut self, shift: EF, to: &mut [[Wide; 2]; PARTS]) {
        let [once, twice] = [self.shift, self.shift.square()].map(Factor::new);
        for (to, [square, cross, product]) in to.iter_mut().zip(&mut self.products) {
            to[0] += twice.times(*square) - once.times(*cross) + *product;
            to[1] += *square;
            [*square, *cross, *product] = [Wide::ZERO; 3];
        }
        self.shift = shift;
    }
}

impl<'a> Pairs<'a> {
    /// Filled up to as many rows as there may be.
    pub(crate) fn new(leaves: &'a Leaves, kinds: &'a Kinds, most: usize) -> Self {
        let squares = kinds.denominators.iter().map(|number| number.square().into()).collect();
        Self { leaves, kinds, squares, rows: filled(leaves.rows() / 2, most) }
    }

    /// The block of neighbouring rows of leaves, and the first register of a part, if all of them
    /// are look-ups of one or two numbers.
    #[inline(always)]
    fn ones<const ROWS: usize>(&self, first: usize, part: usize) -> Option<(&Ready, usize)> {
        if self.kinds.of_all::<ROWS>(first) != ONES {
            return None;
        }
        let (block, register) = self.leaves.place(first / 4, part)?;
        let (last, _) = self.leaves.place((first + ROWS - 1) / 4, part)?;
        (std::ptr::eq(block, last) && block.count() <= 2).then_some((block, register))
    }
}

impl Level for Pairs<'_> {
    type Sums<'b>
        = Fractions
    where
        Self: 'b;

    const IS_LIGHT: bool = true;

    fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    fn register(&self, register: usize) -> (Wide, Wide) {
        let row = register / PARTS;
        if row >= self.leaves.rows() / 2 {
            return (Wide::ZERO, Wide::ONE);
        }
        match self.kinds.padding::<2>(2 * row) {
            Some(padding) => (Wide::ZERO, self.squares[padding]),
            None => self.leaves.sum(register),
        }
    }

    fn kinds(&self) -> Kinds {
        self.kinds.above()
    }

    fn powers(&self) -> [EF; 3] {
        self.leaves.powers()
    }

    #[inline(always)]
    fn gate(&self, at: &Binding, quad: usize, part: usize) -> Gate {
        let Some((block, first)) = self.ones::<EIGHT>(EIGHT * quad, part) else {
            return gate_of_fractions(self, at, quad, part);
        };
        let of = |row: usize| first + row * PARTS;
        let low = bound(block, &at.once, [of(0), of(4)]);
        Gate::new(low, bound(block, &at.once, [of(2), of(6)]), &at.lambda)
    }

    #[inline(always)]
    fn gate_of_eight(&self, at: &Binding, eight: usize, part: usize) -> Option<Gate> {
        let (block, first) = self.ones::<SIXTEEN>(SIXTEEN * eight, part)?;
        let by = at.twice.as_ref()?;
        let of = |row: usize| first + row * PARTS;
        let low = bound(block, by, [of(0), of(4), of(8), of(12)]);
        let high = bound(block, by, [of(2), of(6), of(10), of(14)]);
        Some(Gate::new(low, high, &at.lambda))
    }

    /// With mu = 1 / lambda and the numerators n and denominators d of differences it is lambda *
    /// e0 * e1 - mu * n0 * n1, where e = d + mu * n: the product less (s + mu) times the sum.
    fn leading(&self, lambda: EF, kinds: &Kinds, from: usize, by: &[EF]) -> [Wide; PARTS] {
        let mu = lambda.inverse();
        let factor = Factor::new(lambda);
        let [_, beta, square] = self.powers().map(Factor::new);
        let (mut sums, mut products) = ([Wide::ZERO; PARTS], [[Wide::ZERO; 2]; PARTS]);
        let mut steps = Steps::default();
        let all = (from..).zip(by).filter(|(quad, _)| kinds.padding::<4>(4 * quad).is_none());
        for (quad, weight) in all {
            let weight = Factor::new(*weight);
            for part in 0..PARTS {
                let Some((block, first)) = self.ones::<EIGHT>(EIGHT * quad, part) else {
                    sums[part] += weight.times(step_of_fractions(self, &factor, quad, part));
                    continue;
                };
                if block.count() == 1 {
                    let shift = block.block.shift + mu;
                    if steps.shift != shift {
                        steps.join(shift, &mut products);
                    }
                    steps.add(block, first, &weight, part);
                    continue;
                }
                let shift = Factor::new(block.block.shift + mu);
                let step = |place: usize| {
                    let [low, high] = [0, 4].map(|row| first + (row + 2 * place) * PARTS);
                    let [low, high] = [low, high].map(|first| of_two(block, first));
                    let sum = beta.base(high.0[1] - low.0[1]) + (high.0[0] - low.0[0]);
                    let product = beta.base(high.1[1] - low.1[1])
                        + square.base(high.1[2] - low.1[2])
                        + (high.1[0] - low.1[0]);
                    (sum, shift.times(sum) - product)
                };
                let ((n0, e0), (n1, e1)) = (step(0), step(1));
                products[part][0] += weight.times(times(e0, e1));
                products[part][1] += weight.times(times(n0, n1));
            }
        }
        steps.join(EF::ZERO, &mut products);
        let mu = Factor::new(mu);
        for (sum, [e, n]) in sums.iter_mut().zip(products) {
            *sum += factor.times(e) - mu.times(n);
        }
        sums
    }
}
