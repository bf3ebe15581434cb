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
    /// Rows.
    fn rows(&self) -> usize;
    /// Fills up with 0 / 1 to a multiple of four rows, at least one, but not beyond `rows`.
    fn fill(&mut self, rows: usize);
    /// The sums of neighbouring rows, by register.
    fn sums(&self) -> impl Fn(usize) -> (Wide, Wide) + Send + Sync;
    /// A register of one of two rows, where there are no more.
    fn few(&self, register: usize) -> (Wide, Wide);
    /// Gates: nodes before their children are added. Gives those at a challenge between two
    /// neighbouring ones, by row and part.
    fn folding(&self, lambda: EF, challenge: EF) -> impl Fn(usize, usize) -> Gate + Sync;
    /// The sums, over neighbouring gates from one on and with their weights, of the gate of their
    /// differences.
    fn leading(&self, lambda: EF) -> impl Fn(usize, &[EF]) -> [Wide; PARTS] + Sync;
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

    /// The sums of the neighbouring rows of another level.
    fn above(below: &impl Level) -> Self {
        let len = below.rows() / 2 * PARTS;
        let all = (0..len).into_par_iter().with_min_len(ROWS_EACH * PARTS);
        // With room to fill up.
        let (mut numerators, mut denominators) =
            (Vec::with_capacity(len + 4 * PARTS), Vec::with_capacity(len + 4 * PARTS));
        all.map(below.sums()).unzip_into_vecs(&mut numerators, &mut denominators);
        Self { numerators, denominators }
    }

    /// The step between two rows of four.
    #[inline(always)]
    fn step(&self, first: usize) -> (Wide, Wide) {
        let second = first + 2 * PARTS;
        let (n, d) = (&self.numerators, &self.denominators);
        (n[second] - n[first], d[second] - d[first])
    }
}

impl Level for Fractions {
    fn rows(&self) -> usize {
        self.denominators.len() / PARTS
    }

    fn fill(&mut self, rows: usize) {
        let len = self.rows().max(1).next_multiple_of(4).min(rows) * PARTS;
        self.numerators.resize(len, Wide::ZERO);
        self.denominators.resize(len, Wide::ONE);
    }

    fn sums(&self) -> impl Fn(usize) -> (Wide, Wide) + Send + Sync {
        |index: usize| {
            let first = index / PARTS * 2 * PARTS + index % PARTS;
            let [n0, n1] = [first, first + PARTS].map(|at| self.numerators[at]);
            let [d0, d1] = [first, first + PARTS].map(|at| self.denominators[at]);
            (times(n0, d1) + times(n1, d0), times(d0, d1))
        }
    }

    fn few(&self, register: usize) -> (Wide, Wide) {
        (self.numerators[register], self.denominators[register])
    }

    fn folding(&self, lambda: EF, challenge: EF) -> impl Fn(usize, usize) -> Gate + Sync {
        let [lambda, challenge] = [lambda, challenge].map(Factor::new);
        move |row: usize, part: usize| {
            let at = |place: usize| {
                let low = (4 * row + place) * PARTS + part;
                let (n, d) = self.step(low);
                let (n, d) = (challenge.times(n), challenge.times(d));
                (self.numerators[low] + n, self.denominators[low] + d)
            };
            Gate::new(at(0), at(1), &lambda)
        }
    }

    fn leading(&self, lambda: EF) -> impl Fn(usize, &[EF]) -> [Wide; PARTS] + Sync {
        let lambda = Factor::new(lambda);
        move |from: usize, weights: &[EF]| {
            let mut sums = [Wide::ZERO; PARTS];
            for (quad, weight) in (from..).zip(weights) {
                let weight = Factor::new(*weight);
                for (part, sum) in sums.iter_mut().enumerate() {
                    let first = 4 * quad * PARTS + part;
                    let steps = (self.step(first), self.step(first + PARTS));
                    *sum += weight.times(Gate::new(steps.0, steps.1, &lambda).value());
                }
            }
            sums
        }
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
struct Sums([[Wide; 2]; PARTS]);

impl Sums {
    const ZERO: Self = Self([[Wide::ZERO; 2]; PARTS]);

    #[inline(always)]
    fn add(&mut self, part: usize, weight: &Factor, [low, high]: [&Gate; 2]) {
        self.0[part][0] += weight.times(low.value());
        self.0[part][1] += weight.times(low.step(high).value());
    }

    fn join(mut self, other: Self) -> Self {
        for (sums, others) in self.0.iter_mut().zip(other.0) {
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        }
        self
    }

    /// Both sums, with the weights of the lanes.
    fn total(&self, lanes: &[EF]) -> [EF; 2] {
        let mut totals = [EF::ZERO; 2];
        for (sums, lanes) in self.0.iter().zip(lanes.chunks(WIDTH)) {
            for (total, sum) in totals.iter_mut().zip(sums) {
                let one = |(lane, weight): (usize, &EF)| *weight * self::lane(sum, lane);
                *total += lanes.iter().enumerate().map(one).sum::<EF>();
            }
        }
        totals
    }
}

/// Sums over pairs of rows, of which `gates` gives each pair's parts and what becomes of them.
fn sum_pairs(
    weights: &[EF],
    out: &mut [Gate],
    gates: impl Fn(usize, usize) -> Gate + Sync,
) -> Sums {
    let pairs = ROWS_EACH / 2;
    let chunks = out.par_chunks_mut(2 * PARTS * pairs).zip(weights.par_chunks(pairs));
    let of = |(chunk, (out, weights)): (usize, (&mut [Gate], &[EF]))| {
        let mut sums = Sums::ZERO;
        let rows = out.chunks_exact_mut(2 * PARTS).zip(weights);
        for (pair, (out, weight)) in rows.enumerate() {
            let (row, weight) = (2 * (chunk * pairs + pair), Factor::new(*weight));
            for part in 0..PARTS {
                let (low, high) = (gates(row, part), gates(row + 1, part));
                sums.add(part, &weight, [&low, &high]);
                (out[part], out[part + PARTS]) = (low, high);
            }
        }
        sums
    };
    chunks.enumerate().map(of).reduce(|| Sums::ZERO, Sums::join)
}

/// The leading coefficient of the first round.
fn leading(level: &impl Level, lambda: EF, weights: &[EF], lanes: &[EF]) -> EF {
    let (pairs, of) = (ROWS_EACH / 2, level.leading(lambda));
    let chunks = weights.par_chunks(pairs).enumerate();
    let add = |mut sums: [Wide; PARTS], others: [Wide; PARTS]| {
        sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        sums
    };
    let sums = chunks.map(|(chunk, weights)| of(chunk * pairs, weights));
    let sums = sums.reduce(|| [Wide::ZERO; PARTS], add);
    Sums(sums.map(|sum| [Wide::ZERO, sum])).total(lanes)[1]
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

/// The rounds of a layer of rows: gates on their way to one row.
fn prove_rows<S: FieldChallenger<F>>(
    level: &impl Level,
    lambda: EF,
    point: &[EF],
    room: &mut [Vec<Gate>; 2],
    rounds: &mut Rounds<'_, '_, S>,
) -> [EF; 4] {
    let (rows, lanes) = point.split_at(point.len() - ROW_BITS);
    let of_lanes = eq_table(lanes);
    let Some((_, behind)) = rows.split_first() else {
        let factor = Factor::new(lambda);
        let gate = |part: usize| Gate::new(level.few(part), level.few(part + PARTS), &factor);
        let gates: Vec<Gate> = (0..PARTS).map(gate).collect();
        return rounds.of_row(gates.iter().flat_map(Gate::lanes).collect(), lanes);
    };
    let mut behind = behind.to_vec();
    behind.reverse();
    // Weights of pairs. Those of unused pairs are not needed one by one.
    let mut weights = eq_table(&behind);
    let mut pairs = level.rows() / 4;
    let leading = leading(level, lambda, &weights[..pairs], &of_lanes);
    let mut challenge = rounds.next(rows[0], [rounds.first, leading]);
    let folded = level.folding(lambda, challenge);
    let [next, now] = room;
    for (round, coordinate) in rows.iter().enumerate().skip(1) {
        weights = weights.chunks(2).map(|pair| pair.iter().copied().sum()).collect();
        let (from, before) = (pairs, &*now);
        pairs = from.div_ceil(2);
        let (used, out) = (&weights[..pairs], &mut next[..2 * pairs * PARTS]);
        let factor = Factor::new(challenge);
        let sums = sum_pairs(used, out, |row, part| match (round, row < from) {
            (_, false) => Gate::unused(lambda),
            (1, true) => folded(row, part),
            (_, true) => {
                let low = 2 * row * PARTS + part;
                before[low].fold(&before[low + PARTS], &factor)
            }
        });
        let [at_0, leading] = sums.total(&of_lanes);
        let unused = EF::ONE - used.iter().copied().sum::<EF>();
        challenge = rounds.next(*coordinate, [at_0 + lambda * unused, leading]);
        std::mem::swap(now, next);
    }
    let factor = Factor::new(challenge);
    let last = |part: usize| match rows.len() {
        1 => folded(0, part),
        _ => now[part].fold(&now[part + PARTS], &factor),
    };
    let gates: Vec<Gate> = (0..PARTS).map(last).collect();
    if now.len() > next.len() {
        std::mem::swap(now, next);
    }
    rounds.of_row(gates.iter().flat_map(Gate::lanes).collect(), lanes)
}

/// The levels above the leaves: those of rows, from the largest on, then those of one row's
/// fractions down to two.
struct Tree {
    rows: Vec<Fractions>,
    row: Vec<Vec<[EF; 2]>>,
}

impl Tree {
    fn new(leaves: &impl Level, bits: usize) -> Self {
        let mut rows: Vec<Fractions> = Vec::new();
        for left in (0..bits - ROW_BITS).rev() {
            let mut above = match rows.last() {
                Some(below) => Fractions::above(below),
                None => Fractions::above(leaves),
            };
            above.fill(1 << left);
            rows.push(above);
        }
        let last = rows.pop();
        let register = |part: usize| match &last {
            Some(last) => last.few(part),
            None => leaves.few(part),
        };
        let lanes = |(n, d): (Wide, Wide)| {
            (0..WIDTH).map(move |lane| [self::lane(&n, lane), self::lane(&d, lane)])
        };
        let first: Vec<[EF; 2]> = (0..PARTS).map(register).flat_map(lanes).collect();
        let mut row = vec![first];
        while let Some(last) = row.last().filter(|last| last.len() > 2) {
            let (low, high) = last.split_at(last.len() / 2);
            let add =
                |([n0, d0], [n1, d1]): (&[EF; 2], &[EF; 2])| [*d1 * *n0 + *d0 * *n1, *d0 * *d1];
            row.push(low.iter().zip(high).map(add).collect());
        }
        Self { rows, row }
    }
}

/// Proves that 2^bits fractions, of which these are the first, add up to nothing; gives the proof
/// and the point where it ends, in the order of [`leaf_point`].
///
/// # Panics
/// If they do not, or a denominator is 0: whoever makes leaves sees to that.
pub(crate) fn prove(
    mut leaves: impl Level,
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
    let mut room = room(leaves.rows());
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
            let room = &mut room;
            match (bits - 1 - layer).checked_sub(1) {
                None => prove_rows(&leaves, lambda, &point, room, &mut rounds),
                Some(level) => prove_rows(&tree.rows[level], lambda, &point, room, &mut rounds),
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
