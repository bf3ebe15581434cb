//! Nodes of the tree of fractions while the variables of a layer are bound: a round's sums, and
//! what they leave for the next round.
//!
//! With numerators n, denominators d and the layer's challenge lambda a node is d1 * n0 + d0 * n1 +
//! lambda * d0 * d1 = d1 * a + d0 * n1, where a = n0 + lambda * d0. Where both numerators are 1 it
//! is lambda * e0 * e1 - mu, where e = d + mu and mu = 1 / lambda: one product instead of two, and
//! half as much to bind. Rows of look-ups are such, and stay so while they are bound among
//! themselves.

use crate::field::{DEGREE, EF, F};
use crate::wide::{Factor, Narrow, WIDTH, Wide, lane, times};
use p3_field::{Algebra, BasedVectorSpace, Field, PrimeCharacteristicRing};
use rayon::prelude::*;

/// log2 of the leaves of a row. There are never fewer leaves.
pub(crate) const ROW_BITS: usize = 4;
/// Leaves of a row.
pub(crate) const ROW: usize = 1 << ROW_BITS;
/// Registers of a row.
pub(crate) const PARTS: usize = ROW / WIDTH;
const _: () = assert!(ROW.is_multiple_of(WIDTH));
/// Pairs of rows that one thread takes at once: fewer are not worth handing over.
pub(crate) const PAIRS_EACH: usize = 64;

/// What is known of rows: [`MIXED`], [`ONES`], or the number of their padding from [`PADDING`] on.
///
/// Numerators of padding are 0, and its denominators one number for each kind of padding. Two
/// neighbours of a kind add up to padding, and gates of a kind do not change while variables are
/// bound, so that most of them need not be computed.
#[derive(Clone, Default)]
pub(crate) struct Kinds {
    /// Rows behind are mixed.
    pub(crate) rows: Vec<u32>,
    /// The denominator of each padding.
    pub(crate) denominators: Vec<EF>,
}

/// Nothing is known.
pub(crate) const MIXED: u32 = 0;
/// All numerators are 1.
pub(crate) const ONES: u32 = 1;
/// The first padding.
pub(crate) const PADDING: u32 = 2;

impl Kinds {
    /// That of a row.
    #[inline(always)]
    pub(crate) fn of(&self, row: usize) -> u32 {
        self.rows.get(row).copied().unwrap_or(MIXED)
    }

    /// That of neighbouring rows, if it is the same for all.
    #[inline(always)]
    pub(crate) fn of_all<const ROWS: usize>(&self, first: usize) -> u32 {
        let Some(rows) = self.rows.get(first..first + ROWS) else { return MIXED };
        if rows.iter().all(|kind| *kind == rows[0]) { rows[0] } else { MIXED }
    }

    /// The padding that all of these neighbouring rows are, if there is one.
    #[inline(always)]
    pub(crate) fn padding<const ROWS: usize>(&self, first: usize) -> Option<usize> {
        self.of_all::<ROWS>(first).checked_sub(PADDING).map(|kind| kind as usize)
    }

    /// The kinds of pairs of neighbouring rows.
    pub(crate) fn halve(&mut self) {
        let both = |pair: &[u32]| if pair.len() == 2 && pair[0] == pair[1] { pair[0] } else { 0 };
        self.rows = self.rows.chunks(2).map(both).collect();
    }

    /// That of the sums of neighbouring rows.
    pub(crate) fn above(&self) -> Self {
        let mut above = self.clone();
        above.halve();
        above.rows.iter_mut().filter(|kind| **kind == ONES).for_each(|kind| *kind = MIXED);
        above.denominators.iter_mut().for_each(|denominator| *denominator = denominator.square());
        above
    }
}

/// Factors by coordinate, which numbers of the base field are summed with.
pub(crate) type By<const N: usize> = [[F; N]; DEGREE];

/// Numbers of the base field with factors of the extension.
#[inline(always)]
pub(crate) fn summed<const N: usize>(numbers: &[Narrow; N], by: &By<N>) -> Wide {
    Wide::from_basis_coefficients_fn(|place| Narrow::mixed_dot_product(numbers, &by[place]))
}

/// The coordinates of factors.
pub(crate) fn by<const N: usize>(factors: [EF; N]) -> By<N> {
    let of = |factor: &EF, place: usize| factor.as_basis_coefficients_slice()[place];
    std::array::from_fn(|place| std::array::from_fn(|index| of(&factors[index], place)))
}

/// What numbers of two or four rows are summed with to be bound: of one, two and three numbers, the
/// first of all rows first.
pub(crate) struct Weights<const N: usize, const TWO: usize, const THREE: usize> {
    pub(crate) one: By<N>,
    pub(crate) two: By<TWO>,
    pub(crate) three: By<THREE>,
}

impl<const N: usize, const TWO: usize, const THREE: usize> Weights<N, TWO, THREE> {
    fn new(rows: [EF; N], powers: [EF; 3]) -> Self {
        let of = |index: usize| rows[index % N] * powers[index / N];
        Self {
            one: by(std::array::from_fn(of)),
            two: by(std::array::from_fn(of)),
            three: by(std::array::from_fn(of)),
        }
    }
}

/// What the gates of a layer are made with after its first round, or its first two.
pub(crate) struct Binding {
    pub(crate) lambda: Factor,
    /// 1 / lambda.
    pub(crate) mu: EF,
    /// The first challenge.
    pub(crate) challenge: Factor,
    pub(crate) once: Weights<2, 4, 6>,
    /// With the second challenge too, if it is there.
    pub(crate) twice: Option<Weights<4, 8, 12>>,
}

impl Binding {
    /// `powers` are what the numbers of a leaf are multiplied with.
    pub(crate) fn new(lambda: EF, challenge: EF, powers: [EF; 3]) -> Self {
        let once = Weights::new([EF::ONE - challenge, challenge], powers);
        let [lambda_by, challenge] = [lambda, challenge].map(Factor::new);
        Self { lambda: lambda_by, mu: lambda.inverse(), challenge, once, twice: None }
    }

    /// Adds the second challenge.
    pub(crate) fn bind(&mut self, [first, second]: [EF; 2], powers: [EF; 3]) {
        let [not_first, not_second] = [first, second].map(|challenge| EF::ONE - challenge);
        let low = [not_first * not_second, first * not_second];
        let rows = [low[0], low[1], not_first * second, first * second];
        self.twice = Some(Weights::new(rows, powers));
    }
}

/// A node's children, on the way to one point.
#[derive(Clone, Copy)]
pub(crate) struct Gate {
    pub(crate) a: Wide,
    pub(crate) d0: Wide,
    pub(crate) n1: Wide,
    pub(crate) d1: Wide,
}

impl Gate {
    const ZERO: Self = Self { a: Wide::ZERO, d0: Wide::ZERO, n1: Wide::ZERO, d1: Wide::ZERO };

    /// The gate of two fractions.
    #[inline(always)]
    pub(crate) fn new((n0, d0): (Wide, Wide), (n1, d1): (Wide, Wide), lambda: &Factor) -> Self {
        Self { a: lambda.times(d0) + n0, d0, n1, d1 }
    }

    /// The gate of padding.
    pub(crate) fn padding(denominator: EF, lambda: EF) -> Self {
        let d = Wide::from(denominator);
        Self { a: (lambda * denominator).into(), d0: d, n1: Wide::ZERO, d1: d }
    }

    /// The gate of two fractions with the numerator 1.
    #[inline(always)]
    fn of_ones([e0, e1]: &[Wide; 2], lambda: &Factor, mu: Wide) -> Self {
        Self { a: lambda.times(*e0), d0: *e0 - mu, n1: Wide::ONE, d1: *e1 - mu }
    }

    #[inline(always)]
    pub(crate) fn value(&self) -> Wide {
        times(self.d1, self.a) + times(self.d0, self.n1)
    }

    /// The difference of two gates.
    #[inline(always)]
    fn step(&self, to: &Self) -> Self {
        Self { a: to.a - self.a, d0: to.d0 - self.d0, n1: to.n1 - self.n1, d1: to.d1 - self.d1 }
    }

    /// The gate at a challenge between two.
    #[inline(always)]
    pub(crate) fn fold(&self, to: &Self, challenge: &Factor) -> Self {
        let step = self.step(to);
        Self {
            a: challenge.times(step.a) + self.a,
            d0: challenge.times(step.d0) + self.d0,
            n1: challenge.times(step.n1) + self.n1,
            d1: challenge.times(step.d1) + self.d1,
        }
    }

    /// Its lanes, each as a, d0, n1, d1.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = [EF; 4]> + '_ {
        let all = [&self.a, &self.d0, &self.n1, &self.d1];
        (0..WIDTH).map(move |lane| all.map(|wide| self::lane(wide, lane)))
    }
}

/// The sums of a round before lanes are added: at 0, and of the leading coefficient.
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    mixed: [[Wide; 2]; PARTS],
    /// Of e0 * e1.
    ones: [[Wide; 2]; PARTS],
    /// The weights of ones.
    ones_weight: EF,
    /// What padding adds to the sum at 0, which is the same in all lanes.
    padding: EF,
}

impl Sums {
    const ZERO: Self = Self {
        mixed: [[Wide::ZERO; 2]; PARTS],
        ones: [[Wide::ZERO; 2]; PARTS],
        ones_weight: EF::ZERO,
        padding: EF::ZERO,
    };

    #[inline(always)]
    fn add(&mut self, part: usize, weight: &Factor, [low, high]: [&Gate; 2]) {
        self.mixed[part][0] += weight.times(low.value());
        self.mixed[part][1] += weight.times(low.step(high).value());
    }

    #[inline(always)]
    fn add_ones(&mut self, part: usize, weight: &Factor, [low, high]: [&[Wide; 2]; 2]) {
        self.ones[part][0] += weight.times(times(low[0], low[1]));
        self.ones[part][1] += weight.times(times(high[0] - low[0], high[1] - low[1]));
    }

    fn join(mut self, other: Self) -> Self {
        for (sums, others) in [(&mut self.mixed, other.mixed), (&mut self.ones, other.ones)] {
            let all = sums.iter_mut().flatten().zip(others.into_iter().flatten());
            all.for_each(|(sum, other)| *sum += other);
        }
        self.ones_weight += other.ones_weight;
        self.padding += other.padding;
        self
    }

    /// Both sums, with the weights of the lanes.
    pub(crate) fn total(&self, lanes: &[EF], lambda: EF) -> [EF; 2] {
        let ones = sum_lanes(&self.ones, lanes).map(|sum| lambda * sum);
        let [at_0, leading] = sum_lanes(&self.mixed, lanes);
        let constant = self.padding - lambda.inverse() * self.ones_weight;
        [at_0 + ones[0] + constant, leading + ones[1]]
    }
}

fn sum_lanes(parts: &[[Wide; 2]; PARTS], lanes: &[EF]) -> [EF; 2] {
    let mut totals = [EF::ZERO; 2];
    for (sums, lanes) in parts.iter().zip(lanes.chunks(WIDTH)) {
        for (total, sum) in totals.iter_mut().zip(sums) {
            let one = |(lane, weight): (usize, &EF)| *weight * self::lane(sum, lane);
            *total += lanes.iter().enumerate().map(one).sum::<EF>();
        }
    }
    totals
}

/// The rows of a round, those of ones and mixed ones apart; padding is not written down.
#[derive(Default)]
pub(crate) struct Store {
    kinds: Vec<u32>,
    /// Where each row is, among those of its kind.
    slots: Vec<u32>,
    ones: Vec<[Wide; 2]>,
    gates: Vec<Gate>,
}

/// Makes a list long enough. What stood there is not needed: it is freed first, and not copied.
fn make_room<T: Clone>(list: &mut Vec<T>, len: usize, zero: T) {
    if list.len() < len {
        *list = Vec::new();
        list.resize(len, zero);
    }
}

/// Room in a store for the rows of a chunk of pairs.
struct Out<'a> {
    ones: &'a mut [[Wide; 2]],
    gates: &'a mut [Gate],
}

impl Store {
    /// Makes room for so many rows.
    fn prepare(&mut self, kinds: &Kinds, rows: usize) {
        self.kinds.clear();
        self.slots.clear();
        let (mut ones, mut mixed) = (0, 0);
        for row in 0..rows {
            let kind = kinds.of(row);
            let count = if kind == ONES { &mut ones } else { &mut mixed };
            self.kinds.push(kind);
            self.slots.push(*count);
            *count += u32::from(kind < PADDING);
        }
        make_room(&mut self.ones, ones as usize * PARTS, [Wide::ZERO; 2]);
        make_room(&mut self.gates, mixed as usize * PARTS, Gate::ZERO);
    }

    /// The room of each chunk of so many rows.
    fn chunks(&mut self, rows: usize) -> Vec<Out<'_>> {
        let (mut ones, mut gates) = (self.ones.as_mut_slice(), self.gates.as_mut_slice());
        let of = |kinds: &[u32]| {
            let count = |wanted: u32| kinds.iter().filter(|kind| **kind == wanted).count() * PARTS;
            let (first_ones, rest) = std::mem::take(&mut ones).split_at_mut(count(ONES));
            ones = rest;
            let (first_gates, rest) = std::mem::take(&mut gates).split_at_mut(count(MIXED));
            gates = rest;
            Out { ones: first_ones, gates: first_gates }
        };
        self.kinds.chunks(rows).map(of).collect()
    }

    /// A part of a row that was written down as a gate.
    #[inline(always)]
    fn mixed(&self, row: usize, part: usize) -> Option<&Gate> {
        let is_mixed = self.kinds.get(row) == Some(&MIXED);
        is_mixed.then(|| &self.gates[self.slots[row] as usize * PARTS + part])
    }

    #[inline(always)]
    fn ones(&self, row: usize, part: usize) -> &[Wide; 2] {
        &self.ones[self.slots[row] as usize * PARTS + part]
    }
}

/// A layer between its first and its last round.
pub(crate) struct Layer {
    pub(crate) by: Binding,
    /// The gate of each padding, and its value.
    paddings: Vec<(Gate, EF)>,
    /// That of rows behind the last.
    pub(crate) unused: Gate,
    mu: Wide,
}

impl Layer {
    /// That of a level of these kinds, after its first round.
    pub(crate) fn new(lambda: EF, by: Binding, kinds: &Kinds) -> Self {
        let padding = |d: &EF| (Gate::padding(*d, lambda), lambda * d.square());
        let paddings = kinds.denominators.iter().map(padding).collect();
        let mu = by.mu.into();
        Self { by, paddings, unused: Gate::padding(EF::ONE, lambda), mu }
    }

    /// The gate of a row that was written down, or need not be.
    fn read(&self, from: &Store, row: usize, part: usize) -> Gate {
        match from.kinds.get(row) {
            Some(&MIXED) => from.gates[from.slots[row] as usize * PARTS + part],
            Some(&ONES) => Gate::of_ones(from.ones(row, part), &self.by.lambda, self.mu),
            Some(padding) => self.paddings[(padding - PADDING) as usize].0,
            None => self.unused,
        }
    }
}

/// How the rows of a round are made.
pub(crate) trait Rows: Sync {
    /// A part of a row of ones.
    fn ones(&self, row: usize, part: usize) -> [Wide; 2];
    /// A part of any row.
    fn gate(&self, row: usize, part: usize) -> Gate;
}

/// Rows of a round that are made of those of the round before.
pub(crate) struct Folded<'a> {
    pub(crate) layer: &'a Layer,
    pub(crate) from: &'a Store,
    pub(crate) challenge: Factor,
}

impl Rows for Folded<'_> {
    #[inline(always)]
    fn ones(&self, row: usize, part: usize) -> [Wide; 2] {
        let (low, high) = (self.from.ones(2 * row, part), self.from.ones(2 * row + 1, part));
        [
            self.challenge.times(high[0] - low[0]) + low[0],
            self.challenge.times(high[1] - low[1]) + low[1],
        ]
    }

    #[inline(always)]
    fn gate(&self, row: usize, part: usize) -> Gate {
        match (self.from.mixed(2 * row, part), self.from.mixed(2 * row + 1, part)) {
            (Some(low), Some(high)) => low.fold(high, &self.challenge),
            (Some(_) | None, Some(_) | None) => self.gate_of_any(row, part),
        }
    }
}

impl Folded<'_> {
    /// A part of a row that is made of one that was not written down as a gate.
    #[inline(never)]
    fn gate_of_any(&self, row: usize, part: usize) -> Gate {
        let [low, high] = [2 * row, 2 * row + 1].map(|row| self.layer.read(self.from, row, part));
        low.fold(&high, &self.challenge)
    }
}

/// Where the next rows of a chunk are written down, if they are.
struct Writer<'a> {
    out: Option<Out<'a>>,
    /// What was written.
    ones: usize,
    gates: usize,
}

impl Writer<'_> {
    /// A part of two rows of ones.
    #[inline(always)]
    fn write_ones(&mut self, part: usize, [low, high]: [&[Wide; 2]; 2]) {
        if let Some(out) = &mut self.out {
            out.ones[self.ones + part] = *low;
            out.ones[self.ones + PARTS + part] = *high;
        }
    }

    /// A part of two rows of any kinds.
    #[inline(always)]
    fn write(&mut self, part: usize, kinds: [u32; 2], pair: [&Gate; 2], mu: Wide) {
        let Some(out) = &mut self.out else { return };
        let (mut ones, mut gates) = (self.ones, self.gates);
        for (kind, gate) in kinds.into_iter().zip(pair) {
            match kind {
                MIXED => {
                    out.gates[gates + part] = *gate;
                    gates += PARTS;
                }
                ONES => {
                    out.ones[ones + part] = [gate.d0 + mu, gate.d1 + mu];
                    ones += PARTS;
                }
                _padding => {}
            }
        }
    }

    /// Goes on behind two rows.
    fn pass(&mut self, kinds: [u32; 2]) {
        for kind in kinds {
            self.ones += PARTS * usize::from(kind == ONES);
            self.gates += PARTS * usize::from(kind == MIXED);
        }
    }
}

/// The sums over a chunk of pairs of rows, of which the first has this number.
fn sum_chunk(
    layer: &Layer,
    (first, weights): (usize, &[EF]),
    kinds: &Kinds,
    out: Option<Out<'_>>,
    rows: &impl Rows,
) -> Sums {
    let mut sums = Sums::ZERO;
    let mut writer = Writer { out, ones: 0, gates: 0 };
    for (row, weight) in (first..).step_by(2).zip(weights) {
        let (by, of_rows) = (Factor::new(*weight), [kinds.of(row), kinds.of(row + 1)]);
        match kinds.of_all::<2>(row) {
            MIXED => {
                for part in 0..PARTS {
                    let (low, high) = (rows.gate(row, part), rows.gate(row + 1, part));
                    sums.add(part, &by, [&low, &high]);
                    writer.write(part, of_rows, [&low, &high], layer.mu);
                }
            }
            ONES => {
                sums.ones_weight += *weight;
                for part in 0..PARTS {
                    let (low, high) = (rows.ones(row, part), rows.ones(row + 1, part));
                    sums.add_ones(part, &by, [&low, &high]);
                    writer.write_ones(part, [&low, &high]);
                }
            }
            padding => sums.padding += *weight * layer.paddings[(padding - PADDING) as usize].1,
        }
        writer.pass(of_rows);
    }
    sums
}

/// Sums over pairs of rows with their weights. Rows are written down if there is room for them.
pub(crate) fn sum_pairs(
    layer: &Layer,
    weights: &[EF],
    kinds: &Kinds,
    out: Option<&mut Store>,
    rows: &impl Rows,
) -> Sums {
    let chunks = weights.par_chunks(PAIRS_EACH).enumerate();
    let chunks = chunks.map(|(chunk, weights)| (2 * PAIRS_EACH * chunk, weights));
    match out {
        Some(out) => {
            out.prepare(kinds, 2 * weights.len());
            let chunks = chunks.zip(out.chunks(2 * PAIRS_EACH));
            let sums = chunks.map(|(chunk, out)| sum_chunk(layer, chunk, kinds, Some(out), rows));
            sums.reduce(|| Sums::ZERO, Sums::join)
        }
        None => {
            let sums = chunks.map(|chunk| sum_chunk(layer, chunk, kinds, None, rows));
            sums.reduce(|| Sums::ZERO, Sums::join)
        }
    }
}
