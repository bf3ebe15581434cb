//! The prover of sums of fractions: a tree in which every node is the sum of its two children,
//! proven from the root to the leaves, one sum-check for each layer.
//!
//! Messages are those of the library's protocol ([`crate::replay::lookups`] reads them), but the
//! variables of the leaves come in another order: leaves stand in rows of 16, neighbouring rows are
//! added first, and the leaves of the last row at the end. So leaves behind the last that is used,
//! which are 0 / 1, stay at the end of every layer and cost nothing, and registers hold parts of
//! rows, however wide they are. [`leaf_point`] brings a point back into the order of leaves.
//!
//! With numerators n, denominators d and the layer's challenge lambda a node is d1 * n0 + d0 * n1 +
//! lambda * d0 * d1 = d1 * a + d0 * n1, where a = n0 + lambda * d0. The factor eq is left out of
//! the sums: it is known, and what is left is quadratic, so two sums are enough for a round.

use crate::field::{EF, F, eq_table};
use crate::messages::LookupMessages;
use crate::wide::{Factor, WIDTH, Wide, lane, times};
use p3_challenger::FieldChallenger;
use p3_field::{Field, PackedFieldExtension, PrimeCharacteristicRing};
use p3_multi_stark::fractional_gkr::{FractionGkrLayerProof, FractionGkrProof, SplitFraction};
use rayon::prelude::*;

/// log2 of the leaves of a row. There are never fewer leaves.
pub(crate) const ROW_BITS: usize = 4;
/// Leaves of a row.
pub(crate) const ROW: usize = 1 << ROW_BITS;
/// Leaves of four rows: two neighbouring gates.
pub(crate) const QUAD: usize = 4 * ROW;
/// Registers of a row.
pub(crate) const PARTS: usize = ROW / WIDTH;
const _: () = assert!(ROW.is_multiple_of(WIDTH));
/// Rows that one thread takes at once: fewer are not worth handing over.
const ROWS_EACH: usize = 128;

/// Fractions whose neighbouring rows are added. Those behind the last row are 0 / 1.
pub(crate) trait Level: Sync {
    /// Whether the gates of the first round are computed again in the second: that is less work
    /// than to write them down, where fractions are made of a few numbers.
    const IS_LIGHT: bool = false;
    /// Rows.
    fn rows(&self) -> usize;
    /// A register of a row.
    fn register(&self, register: usize) -> (Wide, Wide);
    /// Which rows are padding.
    fn padding(&self) -> Padding;

    /// What gates multiply with beside challenges.
    fn multipliers(&self) -> Vec<EF> {
        Vec::new()
    }

    /// Fills up with 0 / 1 to a multiple of four rows, at least one, but not beyond `most`. What is
    /// computed whenever it is asked for is full.
    fn fill(&mut self, _most: usize) {}

    /// The sum of two neighbouring rows, by register.
    #[inline(always)]
    fn sum(&self, register: usize) -> (Wide, Wide) {
        let first = register / PARTS * 2 * PARTS + register % PARTS;
        let [(n0, d0), (n1, d1)] = [first, first + PARTS].map(|at| self.register(at));
        (times(n0, d1) + times(n1, d0), times(d0, d1))
    }

    /// The gate, a node before its children are added, at a challenge between two neighbouring
    /// ones: those of four rows.
    #[inline(always)]
    fn gate(&self, at: &Folding, quad: usize, part: usize) -> Gate {
        let between = |place: usize| {
            let low = (4 * quad + place) * PARTS + part;
            let ((n0, d0), (n1, d1)) = (self.register(low), self.register(low + 2 * PARTS));
            (at.challenge.times(n1 - n0) + n0, at.challenge.times(d1 - d0) + d0)
        };
        Gate::new(between(0), between(1), &at.lambda)
    }

    /// The sums, over neighbouring gates from one on and with their weights, of the gate of their
    /// differences. Those of which all rows are padding are left out.
    fn leading(&self, lambda: EF, padding: &Padding, from: usize, by: &[EF]) -> [Wide; PARTS] {
        let lambda = Factor::new(lambda);
        let mut sums = [Wide::ZERO; PARTS];
        let all = (from..).zip(by).filter(|(quad, _)| padding.of_quad(*quad).is_none());
        for (quad, weight) in all {
            let weight = Factor::new(*weight);
            for (part, sum) in sums.iter_mut().enumerate() {
                let step = |place: usize| {
                    let low = (4 * quad + place) * PARTS + part;
                    let ((n0, d0), (n1, d1)) = (self.register(low), self.register(low + 2 * PARTS));
                    (n1 - n0, d1 - d0)
                };
                *sum += weight.times(Gate::new(step(0), step(1), &lambda).value());
            }
        }
        sums
    }
}

/// What gates at a challenge are made with.
pub(crate) struct Folding {
    pub(crate) lambda: Factor,
    pub(crate) challenge: Factor,
    /// The challenge times what a level multiplies with.
    pub(crate) moved: Vec<Factor>,
}

/// The sums of the neighbouring rows of a level, computed whenever they are asked for: that is less
/// work than to write them down and read them again, where fractions are made of a few numbers.
struct Added<'a, L> {
    below: &'a L,
    padding: &'a Padding,
    /// The denominator of the sum of two rows of a kind of padding.
    squares: Vec<Wide>,
    rows: usize,
}

impl<'a, L: Level> Added<'a, L> {
    /// Filled up to as many rows as there may be.
    fn new(below: &'a L, padding: &'a Padding, most: usize) -> Self {
        let squares = padding.above().denominators.into_iter().map(Wide::from).collect();
        Self { below, padding, squares, rows: filled(below.rows() / 2, most) }
    }
}

impl<L: Level> Level for Added<'_, L> {
    fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    fn register(&self, register: usize) -> (Wide, Wide) {
        let row = register / PARTS;
        if row >= self.below.rows() / 2 {
            return (Wide::ZERO, Wide::ONE);
        }
        match self.padding.of::<2>(2 * row) {
            Some(kind) => (Wide::ZERO, self.squares[kind]),
            None => self.below.sum(register),
        }
    }

    fn padding(&self) -> Padding {
        self.padding.above()
    }
}

/// Rows of a level that is filled up to a multiple of four, at least one, but not beyond `most`.
pub(crate) fn filled(rows: usize, most: usize) -> usize {
    rows.max(1).next_multiple_of(4).min(most)
}

/// Rows that are padding: their numerators are 0, and their denominators one number for each kind
/// of padding. Two neighbours of a kind add up to padding, and gates of a kind do not change while
/// variables are bound, so that most of them need not be computed.
#[derive(Clone, Default)]
pub(crate) struct Padding {
    /// The kind of each row, counted from 1; 0 for rows that are none. Rows behind are none.
    pub(crate) kinds: Vec<u32>,
    /// The denominator of each kind.
    pub(crate) denominators: Vec<EF>,
}

impl Padding {
    /// The kind that all of these neighbouring rows are of, if there is one.
    #[inline(always)]
    fn of<const ROWS: usize>(&self, first: usize) -> Option<usize> {
        let kinds = self.kinds.get(first..first + ROWS)?;
        (kinds[0] > 0 && kinds.iter().all(|kind| *kind == kinds[0])).then(|| kinds[0] as usize - 1)
    }

    /// That of four neighbouring rows.
    #[inline(always)]
    pub(crate) fn of_quad(&self, quad: usize) -> Option<usize> {
        self.of::<4>(4 * quad)
    }

    /// The kinds of pairs of neighbouring rows.
    fn halve(&mut self) {
        let both = |pair: &[u32]| if pair.len() == 2 && pair[0] == pair[1] { pair[0] } else { 0 };
        self.kinds = self.kinds.chunks(2).map(both).collect();
    }

    /// That of the sums of neighbouring rows.
    fn above(&self) -> Self {
        let mut above = self.clone();
        above.halve();
        above.denominators.iter_mut().for_each(|denominator| *denominator = denominator.square());
        above
    }

    /// The gate of each kind, and its value.
    fn gates(&self, lambda: EF) -> Vec<(Gate, EF)> {
        let gate = |denominator: &EF| {
            let a = lambda * *denominator;
            let [wide_a, d] = [a, *denominator].map(Wide::from);
            (Gate { a: wide_a, d0: d, n1: Wide::ZERO, d1: d }, a * *denominator)
        };
        self.denominators.iter().map(gate).collect()
    }
}

/// Fractions of the extension in rows.
pub(crate) struct Fractions {
    pub(crate) numerators: Vec<Wide>,
    pub(crate) denominators: Vec<Wide>,
}

/// A point of the leaves, the top bit of their number first, from the point where a proof ends.
pub(crate) fn leaf_point(mut point: Vec<EF>) -> Vec<EF> {
    let rows = point.len().saturating_sub(ROW_BITS);
    point[..rows].reverse();
    point
}

impl Fractions {
    /// Packs fractions, and fills the last row up with 0 / 1.
    pub(crate) fn new(numerators: &[EF], denominators: &[EF]) -> Self {
        let len = numerators.len().next_multiple_of(ROW) / WIDTH;
        let pack = |from: &[EF], other: EF| {
            let at = |place: usize| from.get(place).copied().unwrap_or(other);
            let register = |index: usize| Wide::from_ext_fn(|lane| at(index * WIDTH + lane));
            (0..len).map(register).collect()
        };
        Self { numerators: pack(numerators, EF::ZERO), denominators: pack(denominators, EF::ONE) }
    }

    /// The sums of the neighbouring rows of another level, filled up to as many as there may be.
    fn above(below: &impl Level, padding: &Padding, most: usize) -> Self {
        let added = Added::new(below, padding, most);
        let len = added.rows * PARTS;
        let (mut numerators, mut denominators) = (Vec::new(), Vec::new());
        let all = (0..len).into_par_iter().with_min_len(ROWS_EACH * PARTS);
        let sums = all.map(|register| added.register(register));
        sums.unzip_into_vecs(&mut numerators, &mut denominators);
        Self { numerators, denominators }
    }
}

impl Level for Fractions {
    fn rows(&self) -> usize {
        self.denominators.len() / PARTS
    }

    #[inline(always)]
    fn register(&self, register: usize) -> (Wide, Wide) {
        (self.numerators[register], self.denominators[register])
    }

    fn padding(&self) -> Padding {
        Padding::default()
    }

    fn fill(&mut self, most: usize) {
        let len = filled(self.rows(), most) * PARTS;
        self.numerators.resize(len, Wide::ZERO);
        self.denominators.resize(len, Wide::ONE);
    }
}

/// A node's children, on the way to one point.
#[derive(Clone, Copy)]
pub(crate) struct Gate {
    a: Wide,
    d0: Wide,
    n1: Wide,
    d1: Wide,
}

impl Gate {
    const ZERO: Self = Self { a: Wide::ZERO, d0: Wide::ZERO, n1: Wide::ZERO, d1: Wide::ZERO };

    /// The gate of two fractions.
    #[inline(always)]
    pub(crate) fn new((n0, d0): (Wide, Wide), (n1, d1): (Wide, Wide), lambda: &Factor) -> Self {
        Self { a: lambda.times(d0) + n0, d0, n1, d1 }
    }

    /// The gate of children that are 0 / 1.
    fn unused(lambda: EF) -> Self {
        Self { a: lambda.into(), d0: Wide::ONE, n1: Wide::ZERO, d1: Wide::ONE }
    }

    #[inline(always)]
    fn value(&self) -> Wide {
        times(self.d1, self.a) + times(self.d0, self.n1)
    }

    /// The difference of two gates.
    #[inline(always)]
    fn step(&self, to: &Self) -> Self {
        Self { a: to.a - self.a, d0: to.d0 - self.d0, n1: to.n1 - self.n1, d1: to.d1 - self.d1 }
    }

    /// The gate at a challenge between two.
    #[inline(always)]
    fn fold(&self, to: &Self, challenge: &Factor) -> Self {
        let step = self.step(to);
        Self {
            a: challenge.times(step.a) + self.a,
            d0: challenge.times(step.d0) + self.d0,
            n1: challenge.times(step.n1) + self.n1,
            d1: challenge.times(step.d1) + self.d1,
        }
    }

    /// Its lanes, each as a, d0, n1, d1.
    fn lanes(&self) -> impl Iterator<Item = [EF; 4]> + '_ {
        let all = [&self.a, &self.d0, &self.n1, &self.d1];
        (0..WIDTH).map(move |lane| all.map(|wide| self::lane(wide, lane)))
    }
}

/// The sums of a round before lanes are added: at 0, and of the leading coefficient.
#[derive(Clone, Copy)]
struct Sums {
    parts: [[Wide; 2]; PARTS],
    /// What padding adds to the sum at 0, which is the same in all lanes.
    padding: EF,
}

impl Sums {
    const ZERO: Self = Self { parts: [[Wide::ZERO; 2]; PARTS], padding: EF::ZERO };

    #[inline(always)]
    fn add(&mut self, part: usize, weight: &Factor, [low, high]: [&Gate; 2]) {
        self.parts[part][0] += weight.times(low.value());
        self.parts[part][1] += weight.times(low.step(high).value());
    }

    fn join(mut self, other: Self) -> Self {
        for (sums, others) in self.parts.iter_mut().zip(other.parts) {
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        }
        self.padding += other.padding;
        self
    }

    /// Both sums, with the weights of the lanes.
    fn total(&self, lanes: &[EF]) -> [EF; 2] {
        let mut totals = [self.padding, EF::ZERO];
        for (sums, lanes) in self.parts.iter().zip(lanes.chunks(WIDTH)) {
            for (total, sum) in totals.iter_mut().zip(sums) {
                let one = |(lane, weight): (usize, &EF)| *weight * self::lane(sum, lane);
                *total += lanes.iter().enumerate().map(one).sum::<EF>();
            }
        }
        totals
    }
}

/// Sums over pairs of rows, of which `gates` gives each pair's parts. They are written down if
/// there is room for them. Pairs of one kind of padding are as `paddings` says.
fn sum_pairs(
    weights: &[EF],
    out: Option<&mut [Gate]>,
    (padding, paddings): (&Padding, &[(Gate, EF)]),
    gates: impl Fn(usize, usize) -> Gate + Sync,
) -> Sums {
    let pairs = ROWS_EACH / 2;
    let of = |chunk: usize, weights: &[EF], out: &mut [Gate]| {
        let mut sums = Sums::ZERO;
        let mut unwritten = [Gate::ZERO; 2 * PARTS];
        for (pair, weight) in weights.iter().enumerate() {
            let row = 2 * (chunk * pairs + pair);
            let out = out.get_mut(2 * PARTS * pair..2 * PARTS * (pair + 1));
            if let Some(kind) = padding.of::<2>(row) {
                let (gate, value) = paddings[kind];
                sums.padding += *weight * value;
                if let Some(out) = out {
                    out.fill(gate);
                }
                continue;
            }
            let out = out.unwrap_or(&mut unwritten);
            for (place, out) in out.iter_mut().enumerate() {
                *out = gates(row + place / PARTS, place % PARTS);
            }
            let (low, high) = out.split_at(PARTS);
            let weight = Factor::new(*weight);
            for (part, (low, high)) in low.iter().zip(high).enumerate() {
                sums.add(part, &weight, [low, high]);
            }
        }
        sums
    };
    let chunks = weights.par_chunks(pairs).enumerate();
    match out {
        Some(out) => {
            let chunks = chunks.zip(out.par_chunks_mut(2 * PARTS * pairs));
            let sums = chunks.map(|((chunk, weights), out)| of(chunk, weights, out));
            sums.reduce(|| Sums::ZERO, Sums::join)
        }
        None => {
            let sums = chunks.map(|(chunk, weights)| of(chunk, weights, &mut []));
            sums.reduce(|| Sums::ZERO, Sums::join)
        }
    }
}

/// The leading coefficient of the first round.
fn leading(level: &impl Level, padding: &Padding, lambda: EF, weights: &[EF], lanes: &[EF]) -> EF {
    let pairs = ROWS_EACH / 2;
    let chunks = weights.par_chunks(pairs).enumerate();
    let add = |mut sums: [Wide; PARTS], others: [Wide; PARTS]| {
        sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        sums
    };
    let sums =
        chunks.map(|(chunk, weights)| level.leading(lambda, padding, chunk * pairs, weights));
    let sums = sums.reduce(|| [Wide::ZERO; PARTS], add);
    let parts = sums.map(|sum| [Wide::ZERO, sum]);
    Sums { parts, padding: EF::ZERO }.total(lanes)[1]
}

/// A layer's sum-check as far as it went.
struct Rounds<'a, 'b, S> {
    transcript: &'a mut LookupMessages<'b, S>,
    /// What is left of the sum, without the factor eq.
    sum: EF,
    /// The value at 0 of the first round. Its variable is the one that chose between the children
    /// of the last layer, so this is the first of them.
    first: EF,
    /// The factor eq of what is bound.
    prefix: EF,
    messages: Vec<[EF; 3]>,
    ends: Vec<EF>,
}

impl<S: FieldChallenger<F>> Rounds<'_, '_, S> {
    /// Sends a round's polynomial, given by its value at 0 and its leading coefficient.
    fn next(&mut self, coordinate: EF, [at_0, leading]: [EF; 2]) -> EF {
        let at_1 = (self.sum - (EF::ONE - coordinate) * at_0) * coordinate.inverse();
        let middle = at_1 - at_0 - leading;
        let value = |x: EF| at_0 + x * (middle + x * leading);
        let factor = |x: EF| EF::ONE - coordinate + x * (coordinate.double() - EF::ONE);
        let message = [0, 2, 3].map(EF::from_u8).map(|x| self.prefix * factor(x) * value(x));
        let challenge = self.transcript.round(&message);
        self.messages.push(message);
        self.ends.push(challenge);
        self.sum = value(challenge);
        self.prefix *= factor(challenge);
        challenge
    }

    /// The rounds of the leaves of the last row: gates are a, d0, n1, d1.
    fn of_row(&mut self, mut gates: Vec<[EF; 4]>, point: &[EF]) -> [EF; 4] {
        let value = |[a, d0, n1, d1]: [EF; 4]| d1 * a + d0 * n1;
        for (place, coordinate) in point.iter().enumerate() {
            let (low, high) = gates.split_at(gates.len() / 2);
            let mut sums = [EF::ZERO; 2];
            for ((low, high), weight) in low.iter().zip(high).zip(eq_table(&point[place + 1..])) {
                let step = std::array::from_fn(|index| high[index] - low[index]);
                sums[0] += weight * value(*low);
                sums[1] += weight * value(step);
            }
            let challenge = self.next(*coordinate, sums);
            let fold = |(low, high): (&[EF; 4], &[EF; 4])| {
                std::array::from_fn(|at| low[at] + challenge * (high[at] - low[at]))
            };
            gates = low.iter().zip(high).map(fold).collect();
        }
        gates[0]
    }
}

/// The gates of two rounds, the larger first, for a layer of so many rows and all above it.
fn room(rows: usize) -> [Vec<Gate>; 2] {
    let pairs = rows / 4 + 2;
    [pairs, pairs / 2 + 2].map(|pairs| vec![Gate::ZERO; pairs * PARTS])
}

/// The gates of a layer between its first and its last round.
struct Gates<'a, L> {
    level: &'a L,
    lambda: EF,
    /// The first challenge.
    at: Folding,
}

impl<'a, L: Level> Gates<'a, L> {
    fn new(level: &'a L, lambda: EF, challenge: EF) -> Self {
        let moved = level.multipliers().iter().map(|by| Factor::new(*by * challenge)).collect();
        let [of_lambda, of_challenge] = [lambda, challenge].map(Factor::new);
        Self { level, lambda, at: Folding { lambda: of_lambda, challenge: of_challenge, moved } }
    }

    /// Whether those of a round are written down.
    fn is_written(round: usize) -> bool {
        round > 1 || !L::IS_LIGHT
    }

    /// The gate of four rows after the first round.
    #[inline(always)]
    fn first(&self, quad: usize, part: usize) -> Gate {
        match quad < self.level.rows() / 4 {
            true => self.level.gate(&self.at, quad, part),
            false => Gate::unused(self.lambda),
        }
    }

    /// A gate after a round, from those before it if they were written down, at the round's
    /// challenge.
    #[inline(always)]
    fn after(&self, round: usize, before: &[Gate], at: &Factor, row: usize, part: usize) -> Gate {
        if round == 1 {
            return self.first(row, part);
        }
        let pair = [2 * row, 2 * row + 1].map(|row| match Self::is_written(round - 1) {
            true => before[row * PARTS + part],
            false => self.first(row, part),
        });
        pair[0].fold(&pair[1], at)
    }
}

/// The rounds of a layer of two rows: those of its only row of gates.
fn prove_row<S: FieldChallenger<F>>(
    level: &impl Level,
    lambda: EF,
    lanes: &[EF],
    rounds: &mut Rounds<'_, '_, S>,
) -> [EF; 4] {
    let lambda = Factor::new(lambda);
    let gate = |part: usize| Gate::new(level.register(part), level.register(part + PARTS), &lambda);
    let gates: Vec<Gate> = (0..PARTS).map(gate).collect();
    rounds.of_row(gates.iter().flat_map(Gate::lanes).collect(), lanes)
}

/// The rounds of a layer of rows: gates on their way to one row.
fn prove_rows<L: Level, S: FieldChallenger<F>>(
    level: &L,
    padding: &Padding,
    lambda: EF,
    point: &[EF],
    room: &mut [Vec<Gate>; 2],
    rounds: &mut Rounds<'_, '_, S>,
) -> [EF; 4] {
    let (rows, lanes) = point.split_at(point.len() - ROW_BITS);
    let Some((_, behind)) = rows.split_first() else {
        return prove_row(level, lambda, lanes, rounds);
    };
    let of_lanes = eq_table(lanes);
    let mut behind = behind.to_vec();
    behind.reverse();
    // Weights of pairs. Those of unused pairs are not needed one by one.
    let mut weights = eq_table(&behind);
    let mut pairs = level.rows() / 4;
    let leading = leading(level, padding, lambda, &weights[..pairs], &of_lanes);
    let mut challenge = rounds.next(rows[0], [rounds.first, leading]);
    let (paddings, mut padding) = (padding.gates(lambda), padding.clone());
    padding.halve();
    let gates = Gates::new(level, lambda, challenge);
    let [next, now] = room;
    for (round, coordinate) in rows.iter().enumerate().skip(1) {
        weights = weights.chunks(2).map(|pair| pair.iter().copied().sum()).collect();
        let (from, before) = (pairs, &*now);
        pairs = from.div_ceil(2);
        let used = &weights[..pairs];
        let is_written = Gates::<L>::is_written(round);
        let out = is_written.then(|| &mut next[..2 * pairs * PARTS]);
        padding.halve();
        let at = Factor::new(challenge);
        let kinds = (&padding, paddings.as_slice());
        let sums = sum_pairs(used, out, kinds, |row, part| match row < from {
            true => gates.after(round, before, &at, row, part),
            false => Gate::unused(lambda),
        });
        let [at_0, leading] = sums.total(&of_lanes);
        let unused = EF::ONE - used.iter().copied().sum::<EF>();
        challenge = rounds.next(*coordinate, [at_0 + lambda * unused, leading]);
        if is_written {
            std::mem::swap(now, next);
        }
    }
    let at = Factor::new(challenge);
    let last = |part: usize| gates.after(rows.len(), now, &at, 0, part);
    let gates: Vec<Gate> = (0..PARTS).map(last).collect();
    if now.len() > next.len() {
        std::mem::swap(now, next);
    }
    rounds.of_row(gates.iter().flat_map(Gate::lanes).collect(), lanes)
}

/// The levels above the leaves: those of rows, from the largest on, then those of one row's
/// fractions down to two.
struct Tree {
    /// The number of the first level that is written down; that of the leaves is 0.
    first: usize,
    rows: Vec<Fractions>,
    row: Vec<Vec<[EF; 2]>>,
    /// The padding of the leaves and of each level of rows.
    padding: Vec<Padding>,
}

impl Tree {
    fn new<L: Level>(leaves: &L, bits: usize) -> Self {
        let levels = bits - ROW_BITS;
        let first = if L::IS_LIGHT && levels > 1 { 2 } else { 1 };
        let mut rows: Vec<Fractions> = Vec::new();
        let mut padding = vec![leaves.padding()];
        for level in 1..=levels {
            let (below, most) = (&padding[level - 1], 1 << (levels - level));
            if level >= first {
                rows.push(match (rows.last(), level) {
                    (Some(last), _) => Fractions::above(last, below, most),
                    (None, 1) => Fractions::above(leaves, below, most),
                    (None, _) => {
                        let added = Added::new(leaves, &padding[0], 2 * most);
                        Fractions::above(&added, below, most)
                    }
                });
            }
            padding.push(below.above());
        }
        let last = rows.pop();
        let register = |part: usize| match &last {
            Some(last) => last.register(part),
            None => leaves.register(part),
        };
        let lanes = |(n, d): (Wide, Wide)| {
            (0..WIDTH).map(move |lane| [self::lane(&n, lane), self::lane(&d, lane)])
        };
        let mut row: Vec<Vec<[EF; 2]>> = vec![(0..PARTS).map(register).flat_map(lanes).collect()];
        while let Some(last) = row.last().filter(|last| last.len() > 2) {
            let (low, high) = last.split_at(last.len() / 2);
            let add =
                |([n0, d0], [n1, d1]): (&[EF; 2], &[EF; 2])| [*d1 * *n0 + *d0 * *n1, *d0 * *d1];
            row.push(low.iter().zip(high).map(add).collect());
        }
        Self { first, rows, row, padding }
    }
}

/// Proves that 2^bits fractions, of which these are the first, add up to nothing; gives the proof
/// and the point where it ends, in the order of [`leaf_point`].
///
/// # Panics
/// If they do not, or a denominator is 0: whoever makes leaves sees to that.
pub(crate) fn prove<L: Level>(
    mut leaves: L,
    bits: usize,
    sponge: &mut impl FieldChallenger<F>,
) -> (FractionGkrProof<EF>, Vec<EF>) {
    leaves.fill(1 << (bits - ROW_BITS));
    let tree = Tree::new(&leaves, bits);
    let root =
        tree.row.last().map_or([EF::ZERO; 4], |two| [two[0][0], two[0][1], two[1][0], two[1][1]]);
    assert_eq!(root[3] * root[0] + root[1] * root[2], EF::ZERO, "look-ups add up");
    let root_denominator = root[1] * root[3];
    assert_ne!(root_denominator, EF::ZERO, "denominators are not 0");
    let mut transcript = LookupMessages::new(sponge, bits, root_denominator);
    // Of leaves that are light the first gates are not written down.
    let mut room = room(if L::IS_LIGHT { leaves.rows() / 2 } else { leaves.rows() });
    let (mut numerator, mut denominator) = (EF::ZERO, root_denominator);
    let mut children = [EF::ZERO; 2];
    let mut point: Vec<EF> = Vec::new();
    let mut layers = Vec::with_capacity(bits);
    for layer in 0..bits {
        let lambda = transcript.begin_layer();
        let mut rounds = Rounds {
            transcript: &mut transcript,
            sum: numerator + lambda * denominator,
            first: children[0] + lambda * children[1],
            prefix: EF::ONE,
            messages: Vec::with_capacity(layer),
            ends: Vec::with_capacity(layer + 1),
        };
        let [a, d0, n1, d1] = if layer < ROW_BITS {
            let (low, high) = tree.row[ROW_BITS - 1 - layer].split_at(1 << layer);
            let gates = low.iter().zip(high);
            let gates = gates.map(|([n0, d0], [n1, d1])| [*n0 + lambda * *d0, *d0, *n1, *d1]);
            rounds.of_row(gates.collect(), &point)
        } else {
            let (room, rounds) = (&mut room, &mut rounds);
            let level = bits - 1 - layer;
            let padding = &tree.padding[level];
            match level.checked_sub(tree.first) {
                Some(place) => prove_rows(&tree.rows[place], padding, lambda, &point, room, rounds),
                None if level > 0 => {
                    let added = Added::new(&leaves, &tree.padding[0], 2 << (layer - ROW_BITS));
                    prove_rows(&added, padding, lambda, &point, room, rounds)
                }
                None => prove_rows(&leaves, padding, lambda, &point, room, rounds),
            }
        };
        let Rounds { messages, mut ends, .. } = rounds;
        let claims = SplitFraction { n0: a - lambda * d0, d0, n1, d1 };
        let branch = transcript.end_layer(&claims);
        numerator = claims.n0 + branch * (n1 - claims.n0);
        denominator = d0 + branch * (d1 - d0);
        children = [claims.n0, d0];
        ends.insert(0, branch);
        point = ends;
        layers.push(FractionGkrLayerProof { round_polys: messages, claims });
    }
    (FractionGkrProof { root_denominator, layers }, point)
}
