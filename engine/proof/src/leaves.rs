//! The leaves of the tree of fractions, as numbers of the base field.
//!
//! A leaf is what was looked up, or an entry of a table: n / (s - x0 - beta * x1 - beta^2 * x2),
//! where s is the same for a block of leaves. Kept as the numbers x they need a fifth of the
//! memory, and the first sums over them are products of numbers of the base field.

use crate::field::{EF, F};
use crate::fractions::{Fractions, Gate, Level, PARTS, QUAD};
use crate::wide::{Factor, Narrow, WIDTH, Wide, times};
use p3_field::{PackedFieldExtension, PackedValue, PrimeCharacteristicRing};

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
}

/// Blocks of leaves, the largest first. What is less than four rows is kept as fractions.
pub(crate) struct Leaves {
    beta: EF,
    blocks: Vec<Ready>,
    /// The block of each four rows, and its first four rows.
    places: Vec<(u32, u32)>,
    rest: Fractions,
}

/// A block of whole fours of rows, with what its denominators are made of.
struct Ready {
    block: Block,
    shift: Factor,
    square: Wide,
}

/// What denominators are made of at a challenge.
struct Folding {
    lambda: Factor,
    challenge: Factor,
    /// The powers of beta, each also times the challenge.
    powers: [[Factor; 2]; NUMBERS_MAX - 1],
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
        let blocks = whole.into_iter().map(Ready::new).collect();
        Self { beta, blocks, places, rest: Fractions::new(&numerators, &denominators) }
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
    fn place(&self, quad: usize, part: usize) -> Option<(&Ready, usize)> {
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
    fn new(block: Block) -> Self {
        let (shift, square) = (Factor::new(block.shift), block.shift.square().into());
        Self { block, shift, square }
    }

    #[inline(always)]
    fn numerator(&self, register: usize) -> Narrow {
        Narrow::pack_slice(&self.block.numerators)[register]
    }

    #[inline(always)]
    fn number(&self, place: usize, register: usize) -> Narrow {
        Narrow::pack_slice(&self.block.numbers[place])[register]
    }

    /// The sum of two leaves, a numerator and a denominator.
    #[inline(always)]
    fn sum(&self, beta: &[Factor; NUMBERS_MAX - 1], registers: [usize; 2]) -> (Wide, Wide) {
        let [n0, n1] = registers.map(|register| self.numerator(register));
        let [x0, x1] = registers.map(|register| self.number(0, register));
        if let [_] = self.block.numbers[..] {
            let numerator = self.shift.base(n0 + n1) - (n0 * x1 + n1 * x0);
            return (numerator, self.square - self.shift.base(x0 + x1) + x0 * x1);
        }
        let denominator = |place: usize| {
            let mut found = Wide::from(self.block.shift) - [x0, x1][place];
            for (power, beta) in (1..self.block.numbers.len()).zip(beta) {
                found -= beta.base(self.number(power, registers[place]));
            }
            found
        };
        let (d0, d1) = (denominator(0), denominator(1));
        (d1 * n0 + d0 * n1, times(d0, d1))
    }

    /// A fraction at a challenge between two leaves.
    #[inline(always)]
    fn between(&self, at: &Folding, [low, high]: [usize; 2]) -> (Wide, Wide) {
        let (n0, n1) = (self.numerator(low), self.numerator(high));
        let (x0, x1) = (self.number(0, low), self.number(0, high));
        let mut denominator = Wide::from(self.block.shift) - x0 - at.challenge.base(x1 - x0);
        for (power, [beta, moved]) in (1..self.block.numbers.len()).zip(&at.powers) {
            let (x0, x1) = (self.number(power, low), self.number(power, high));
            denominator -= beta.base(x0) + moved.base(x1 - x0);
        }
        (at.challenge.base(n1 - n0) + n0, denominator)
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
        for (to, [x0, x1]) in to.iter_mut().zip(numbers) {
            *to += weight.base(n0 * x1 + n1 * x0);
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
    fn rows(&self) -> usize {
        4 * self.places.len() + self.rest.rows()
    }

    fn fill(&mut self, rows: usize) {
        self.rest.fill(rows - 4 * self.places.len());
    }

    fn sums(&self) -> impl Fn(usize) -> (Wide, Wide) + Send + Sync {
        let powers = [self.beta, self.beta.square()].map(Factor::new);
        let of_rest = self.rest.sums();
        move |index: usize| {
            let (quad, part) = (index / (2 * PARTS), index % PARTS);
            match self.place(quad, part) {
                Some((block, first)) => {
                    let first = first + index / PARTS % 2 * 2 * PARTS;
                    block.sum(&powers, [first, first + PARTS])
                }
                None => of_rest(index - 2 * PARTS * self.places.len()),
            }
        }
    }

    fn few(&self, register: usize) -> (Wide, Wide) {
        self.rest.few(register)
    }

    fn folding(&self, lambda: EF, challenge: EF) -> impl Fn(usize, usize) -> Gate + Sync {
        let power = |power: EF| [power, power * challenge].map(Factor::new);
        let at = Folding {
            lambda: Factor::new(lambda),
            challenge: Factor::new(challenge),
            powers: [power(self.beta), power(self.beta.square())],
        };
        let of_rest = self.rest.folding(lambda, challenge);
        move |quad: usize, part: usize| match self.place(quad, part) {
            Some((block, first)) => {
                let pair = |place: usize| [first + place * PARTS, first + (place + 2) * PARTS];
                Gate::new(block.between(&at, pair(0)), block.between(&at, pair(1)), &at.lambda)
            }
            None => of_rest(quad - self.places.len(), part),
        }
    }

    fn leading(&self, lambda: EF) -> impl Fn(usize, &[EF]) -> [Wide; PARTS] + Sync {
        let of_rest = self.rest.leading(lambda);
        let powers: Vec<EF> = self.beta.powers().take(2 * NUMBERS_MAX - 1).collect();
        let of_numerators = powers[..NUMBERS_MAX].iter().map(|power| -*power);
        let of_numbers = powers.iter().map(|power| lambda * *power);
        let counts: Vec<Factor> = of_numerators.chain(of_numbers).map(Factor::new).collect();
        move |from: usize, weights: &[EF]| {
            let mut steps = [[Wide::ZERO; STEPS]; PARTS];
            let whole = self.places.len().saturating_sub(from).min(weights.len());
            for (quad, weight) in (from..).zip(&weights[..whole]) {
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
            let mut sums = of_rest(others, &weights[whole..]);
            for (sum, steps) in sums.iter_mut().zip(steps) {
                let steps = steps.into_iter().zip(&counts);
                *sum += steps.map(|(step, count)| count.times(step)).sum::<Wide>();
            }
            sums
        }
    }
}
