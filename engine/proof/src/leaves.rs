//! The leaves of the tree of fractions, as numbers of the base field.
//!
//! A leaf is what was looked up, or an entry of a table: n / (s - x0 - beta * x1 - beta^2 * x2),
//! where s is the same for a block of leaves. Kept as the numbers x they need a fifth of the
//! memory, and the first sums over them are products of numbers of the base field.

use crate::field::{EF, F};
use crate::fractions::{Fractions, Level};
use crate::gates::{
    Binding, By, Gate, Kinds, MIXED, ONES, PADDING, PARTS, ROW, Weights, by, summed,
};
use crate::pairs::Pairs;
use crate::wide::{Factor, Narrow, WIDTH, Wide, times};
use p3_field::{PackedFieldExtension, PackedValue, PrimeCharacteristicRing};

/// Leaves of four rows: two neighbouring gates.
const QUAD: usize = 4 * ROW;
/// Rows of the smallest block whose rows of ones are told apart: those that the first two rounds
/// bring together are of one block.
const ROWS_MIN: usize = 8;
/// The most numbers of a leaf.
const NUMBERS_MAX: usize = 3;
/// Sums of products of which the steps between gates are made: of numerators with each of the
/// numbers, and of numbers with numbers by the power of beta.
const STEPS: usize = NUMBERS_MAX + 2 * NUMBERS_MAX - 1;

/// The leaves of one look-up, or of a table.
pub(crate) struct Block {
    /// s.
    pub(crate) shift: EF,
    /// n, of as many leaves as there are.
    pub(crate) numerators: Vec<F>,
    /// x0, x1 and x2; the last ones are left out if all are 0.
    pub(crate) numbers: Vec<Vec<F>>,
    /// Whether each row is padding: n is 0 and x the same as in all others of the block. There may
    /// be fewer entries than rows.
    pub(crate) padding: Vec<bool>,
}

/// Blocks of leaves, the largest first. What is less than four rows is kept as fractions.
pub(crate) struct Leaves {
    beta: EF,
    /// beta and its square.
    powers: [Factor; NUMBERS_MAX - 1],
    blocks: Vec<Ready>,
    /// The block of each four rows, and its first four rows.
    places: Vec<(u32, u32)>,
    rest: Fractions,
}

/// A block of whole fours of rows, with what its denominators are made of.
pub(crate) struct Ready {
    pub(crate) block: Block,
    pub(crate) shift: Factor,
    pub(crate) square: Wide,
    pub(crate) double: Wide,
    /// What the sums and products of two leaves of two numbers add to their denominator.
    pairs: By<4>,
}

impl Leaves {
    /// Leaves in blocks, each of which has a power of two of them, the largest first.
    pub(crate) fn new(beta: EF, blocks: Vec<Block>) -> Self {
        let is_whole = |block: &Block| block.numerators.len() >= QUAD;
        let cut = blocks.partition_point(is_whole);
        let mut whole = blocks;
        let small = whole.split_off(cut);
        let mut places = Vec::new();
        for (index, block) in whole.iter().enumerate() {
            let first = places.len() as u32;
            places.resize(places.len() + block.numerators.len() / QUAD, (index as u32, first));
        }
        let (mut numerators, mut denominators) = (Vec::new(), Vec::new());
        for block in &small {
            numerators.extend(block.numerators.iter().map(|number| EF::from(*number)));
            denominators
                .extend((0..block.numerators.len()).map(|leaf| block.denominator(beta, leaf)));
        }
        let blocks = whole.into_iter().map(|block| Ready::new(block, beta)).collect();
        let powers = [beta, beta.square()].map(Factor::new);
        Self { beta, powers, blocks, places, rest: Fractions::new(&numerators, &denominators) }
    }

    /// All leaves as fractions.
    pub(crate) fn fractions(&self) -> Fractions {
        let (mut numerators, mut denominators) = (Vec::new(), Vec::new());
        for Ready { block, .. } in &self.blocks {
            numerators.extend(Narrow::pack_slice(&block.numerators).iter().map(|n| Wide::from(*n)));
            let of = |register: usize| {
                Wide::from_ext_fn(|lane| block.denominator(self.beta, register * WIDTH + lane))
            };
            denominators.extend((0..block.numerators.len() / WIDTH).map(of));
        }
        numerators.extend(&self.rest.numerators);
        denominators.extend(&self.rest.denominators);
        Fractions { numerators, denominators }
    }

    /// The block of four rows, and the first register of it and of a part.
    #[inline(always)]
    pub(crate) fn place(&self, quad: usize, part: usize) -> Option<(&Ready, usize)> {
        let (block, first) = *self.places.get(quad)?;
        Some((&self.blocks[block as usize], (quad - first as usize) * 4 * PARTS + part))
    }
}

impl Block {
    fn denominator(&self, beta: EF, leaf: usize) -> EF {
        let add = |sum: EF, numbers: &Vec<F>| sum * beta + numbers[leaf];
        self.shift - self.numbers.iter().rev().fold(EF::ZERO, add)
    }
}

impl Ready {
    fn new(block: Block, beta: EF) -> Self {
        let (shift, square) = (Factor::new(block.shift), block.shift.square().into());
        let double = block.shift.double().into();
        let pairs = by([-block.shift, -block.shift * beta, beta, beta.square()]);
        Self { block, shift, square, double, pairs }
    }

    /// Its number of numbers.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.block.numbers.len()
    }

    #[inline(always)]
    fn numerator(&self, register: usize) -> Narrow {
        Narrow::pack_slice(&self.block.numerators)[register]
    }

    #[inline(always)]
    pub(crate) fn number(&self, place: usize, register: usize) -> Narrow {
        Narrow::pack_slice(&self.block.numbers[place])[register]
    }

    /// The sum of two leaves, a numerator and a denominator. Numerators of look-ups are 1, which
    /// saves products.
    #[inline(always)]
    fn sum(&self, beta: &[Factor; NUMBERS_MAX - 1], registers: [usize; 2]) -> (Wide, Wide) {
        let [n0, n1] = registers.map(|register| self.numerator(register));
        let [x0, x1] = registers.map(|register| self.number(0, register));
        let are_ones = n0 == Narrow::ONE && n1 == Narrow::ONE;
        if let [_] = self.block.numbers[..] {
            let numerator = match are_ones {
                true => self.double - (x0 + x1),
                false => self.shift.base(n0 + n1) - (n0 * x1 + n1 * x0),
            };
            return (numerator, self.square - self.shift.base(x0 + x1) + x0 * x1);
        }
        if let ([_, _], true) = (&self.block.numbers[..], are_ones) {
            let [y0, y1] = registers.map(|register| self.number(1, register));
            let (sum, other) = (x0 + x1, y0 + y1);
            let cross = Narrow::dot_product(&[x0, x1], &[y1, y0]);
            let denominator = summed(&[sum, other, cross, y0 * y1], &self.pairs);
            let numerator = self.double - sum - beta[0].base(other);
            return (numerator, denominator + self.square + x0 * x1);
        }
        let denominator = |place: usize| {
            let mut found = Wide::from(self.block.shift) - [x0, x1][place];
            for (power, beta) in (1..self.block.numbers.len()).zip(beta) {
                found -= beta.base(self.number(power, registers[place]));
            }
            found
        };
        let (d0, d1) = (denominator(0), denominator(1));
        (if are_ones { d0 + d1 } else { d1 * n0 + d0 * n1 }, times(d0, d1))
    }

    /// The numbers of leaves at challenges between them, as one of the extension.
    #[inline(always)]
    fn bound<const N: usize, const TWO: usize, const THREE: usize>(
        &self,
        by: &Weights<N, TWO, THREE>,
        registers: [usize; N],
    ) -> Wide {
        let x = |index: usize| self.number(index / N, registers[index % N]);
        match self.count() {
            1 => summed(&std::array::from_fn(x), &by.one),
            2 => summed(&std::array::from_fn(x), &by.two),
            _ => summed(&std::array::from_fn(x), &by.three),
        }
    }

    /// A fraction at a challenge between two leaves.
    #[inline(always)]
    fn between(&self, at: &Binding, pair: [usize; 2]) -> (Wide, Wide) {
        let [n0, n1] = pair.map(|register| self.numerator(register));
        let numerator = match n0 == n1 {
            true => Wide::from(n0),
            false => at.challenge.base(n1 - n0) + n0,
        };
        (numerator, Wide::from(self.block.shift) - self.bound(&at.once, pair))
    }

    /// Adds the products of which the step between two gates is made. Denominators go down when
    /// their numbers go up; whoever joins the sums sees to that.
    #[inline(always)]
    fn step<const NUMBERS: usize>(&self, first: usize, weight: &Factor, to: &mut [Wide; STEPS]) {
        let step = |column: &[F]| {
            let column = Narrow::pack_slice(column);
            [0, 1].map(|row| column[first + (row + 2) * PARTS] - column[first + row * PARTS])
        };
        let [n0, n1] = step(&self.block.numerators);
        let numbers: [[Narrow; 2]; NUMBERS] =
            std::array::from_fn(|place| step(&self.block.numbers[place]));
        if [n0, n1] != [Narrow::ZERO; 2] {
            for (to, [x0, x1]) in to.iter_mut().zip(numbers) {
                *to += weight.base(n0 * x1 + n1 * x0);
            }
        }
        for power in 0..2 * NUMBERS - 1 {
            let mut product = Narrow::ZERO;
            for place in power.saturating_sub(NUMBERS - 1)..=power.min(NUMBERS - 1) {
                product += numbers[place][0] * numbers[power - place][1];
            }
            to[NUMBERS_MAX + power] += weight.base(product);
        }
    }
}

impl Level for Leaves {
    type Sums<'a> = Pairs<'a>;

    const IS_LIGHT: bool = true;

    fn rows(&self) -> usize {
        4 * self.places.len() + self.rest.rows()
    }

    fn fill(&mut self, most: usize) {
        self.rest.fill(most - 4 * self.places.len());
    }

    /// Of so few rows that none are numbers.
    fn register(&self, register: usize) -> (Wide, Wide) {
        self.rest.register(register)
    }

    fn kinds(&self) -> Kinds {
        let mut kinds = Kinds::default();
        for Ready { block, .. } in &self.blocks {
            let rows = block.numerators.len() / ROW;
            let first = block.padding.iter().position(|is_padding| *is_padding);
            let padding = PADDING + kinds.denominators.len() as u32;
            if let Some(row) = first {
                kinds.denominators.push(block.denominator(self.beta, row * ROW));
            }
            let is_padding = |row: usize| block.padding.get(row).copied().unwrap_or(false);
            let numerators = Narrow::pack_slice(&block.numerators);
            let are_ones = |row: usize| {
                numerators[row * PARTS..(row + 1) * PARTS].iter().all(|one| *one == Narrow::ONE)
            };
            kinds.rows.extend((0..rows).map(|row| match row {
                row if is_padding(row) => padding,
                row if rows >= ROWS_MIN && are_ones(row) => ONES,
                _ => MIXED,
            }));
        }
        kinds
    }

    fn powers(&self) -> [EF; 3] {
        [EF::ONE, self.beta, self.beta.square()]
    }

    fn sums<'a>(&'a self, kinds: &'a Kinds, most: usize) -> Option<Pairs<'a>> {
        Some(Pairs::new(self, kinds, most))
    }

    #[inline(always)]
    fn sum(&self, register: usize) -> (Wide, Wide) {
        let (quad, part) = (register / (2 * PARTS), register % PARTS);
        match self.place(quad, part) {
            Some((block, first)) => {
                let first = first + register / PARTS % 2 * 2 * PARTS;
                block.sum(&self.powers, [first, first + PARTS])
            }
            None => self.rest.sum(register - 2 * PARTS * self.places.len()),
        }
    }

    #[inline(always)]
    fn gate(&self, at: &Binding, quad: usize, part: usize) -> Gate {
        match self.place(quad, part) {
            Some((block, first)) => {
                let of = |from: usize| first + from * PARTS;
                let low = block.between(at, [of(0), of(2)]);
                Gate::new(low, block.between(at, [of(1), of(3)]), &at.lambda)
            }
            None => self.rest.gate(at, quad - self.places.len(), part),
        }
    }

    #[inline(always)]
    fn ones(&self, at: &Binding, row: usize, part: usize) -> [Wide; 2] {
        let quad = if at.twice.is_some() { 2 * row } else { row };
        let (block, first) = self.place(quad, part).expect("ones are numbers");
        let shift = Wide::from(block.block.shift + at.mu);
        let of = |from: usize| first + from * PARTS;
        match &at.twice {
            None => {
                let (low, high) = ([of(0), of(2)], [of(1), of(3)]);
                [shift - block.bound(&at.once, low), shift - block.bound(&at.once, high)]
            }
            Some(by) => {
                let (low, high) = ([of(0), of(2), of(4), of(6)], [of(1), of(3), of(5), of(7)]);
                [shift - block.bound(by, low), shift - block.bound(by, high)]
            }
        }
    }

    fn leading(&self, lambda: EF, kinds: &Kinds, from: usize, by: &[EF]) -> [Wide; PARTS] {
        let mut steps = [[Wide::ZERO; STEPS]; PARTS];
        let whole = self.places.len().saturating_sub(from).min(by.len());
        let all = (from..).zip(&by[..whole]);
        for (quad, weight) in all.filter(|(quad, _)| kinds.padding::<4>(4 * quad).is_none()) {
            let weight = Factor::new(*weight);
            for (part, steps) in steps.iter_mut().enumerate() {
                let Some((block, first)) = self.place(quad, part) else { continue };
                match block.block.numbers.len() {
                    1 => block.step::<1>(first, &weight, steps),
                    2 => block.step::<2>(first, &weight, steps),
                    _ => block.step::<3>(first, &weight, steps),
                }
            }
        }
        let others = (from + whole).saturating_sub(self.places.len());
        let mut sums = self.rest.leading(lambda, &Kinds::default(), others, &by[whole..]);
        let powers: Vec<EF> = self.beta.powers().take(2 * NUMBERS_MAX - 1).collect();
        let of_numerators = powers[..NUMBERS_MAX].iter().map(|power| -*power);
        let of_numbers = powers.iter().map(|power| lambda * *power);
        let counts: Vec<Factor> = of_numerators.chain(of_numbers).map(Factor::new).collect();
        for (sum, steps) in sums.iter_mut().zip(steps) {
            let steps = steps.into_iter().zip(&counts);
            *sum += steps.map(|(step, count)| count.times(step)).sum::<Wide>();
        }
        sums
    }
}
