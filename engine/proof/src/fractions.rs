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
use p3_challenger::FieldChallenger;
use p3_field::{ExtensionField, Field, PackedFieldExtension, PackedValue, PrimeCharacteristicRing};
use p3_multi_stark::fractional_gkr::transcript::FractionGkrProverTranscript;
use p3_multi_stark::fractional_gkr::{
    FractionGkrLayerProof, FractionGkrProof, FractionGkrShape, SplitFraction,
};
use rayon::prelude::*;

/// Elements of the base field in a register.
pub(crate) type Narrow = <F as Field>::Packing;
/// Elements of the extension, one for each of these.
pub(crate) type Wide = <EF as ExtensionField<F>>::ExtensionPacking;

/// log2 of the leaves of a row. There are never fewer leaves.
pub(crate) const ROW_BITS: usize = 4;
/// Leaves of a row.
pub(crate) const ROW: usize = 1 << ROW_BITS;
const WIDTH: usize = <Narrow as PackedValue>::WIDTH;
/// Registers of a row.
const PARTS: usize = ROW / WIDTH;
const _: () = assert!(ROW.is_multiple_of(WIDTH));
/// Rows that one thread takes at once: fewer are not worth handing over.
const ROWS_EACH: usize = 128;

/// What numerators are: leaves have small ones.
pub(crate) trait Kind: Sync {
    /// Those of a register.
    type Numerators: Copy + Send + Sync;
    /// Nothing.
    const ZERO: Self::Numerators;
    /// As elements of the extension.
    fn wide(numerators: Self::Numerators) -> Wide;
    /// Times elements of the extension.
    fn times(numerators: Self::Numerators, by: Wide) -> Wide;
    /// At a challenge between two.
    fn between(low: Self::Numerators, high: Self::Numerators, challenge: EF) -> Wide;
}

/// Numerators of the base field.
pub(crate) struct Small;
/// Numerators of the extension.
pub(crate) struct Large;

impl Kind for Small {
    type Numerators = Narrow;
    const ZERO: Narrow = Narrow::ZERO;

    fn wide(numerators: Narrow) -> Wide {
        Wide::from(numerators)
    }

    fn times(numerators: Narrow, by: Wide) -> Wide {
        by * numerators
    }

    fn between(low: Narrow, high: Narrow, challenge: EF) -> Wide {
        Wide::from(challenge) * (high - low) + low
    }
}

impl Kind for Large {
    type Numerators = Wide;
    const ZERO: Wide = Wide::ZERO;

    fn wide(numerators: Wide) -> Wide {
        numerators
    }

    fn times(numerators: Wide, by: Wide) -> Wide {
        by * numerators
    }

    fn between(low: Wide, high: Wide, challenge: EF) -> Wide {
        (high - low) * challenge + low
    }
}

/// Fractions in rows. Those behind the last row are 0 / 1.
pub(crate) struct Fractions<K: Kind> {
    pub(crate) numerators: Vec<K::Numerators>,
    pub(crate) denominators: Vec<Wide>,
}

/// One element of a register.
pub(crate) fn lane(wide: &Wide, lane: usize) -> EF {
    <Wide as PackedFieldExtension<F, EF>>::extract(wide, lane)
}

/// A point of the leaves, the top bit of their number first, from the point where a proof ends.
pub(crate) fn leaf_point(mut point: Vec<EF>) -> Vec<EF> {
    let rows = point.len().saturating_sub(ROW_BITS);
    point[..rows].reverse();
    point
}

impl<K: Kind> Fractions<K> {
    fn rows(&self) -> usize {
        self.denominators.len() / PARTS
    }

    /// Fills up with 0 / 1 to a multiple of four rows, but not beyond `rows`.
    fn fill(&mut self, rows: usize) {
        let len = self.rows().next_multiple_of(4).min(rows) * PARTS;
        self.numerators.resize(len, K::ZERO);
        self.denominators.resize(len, Wide::ONE);
    }

    /// The sums of neighbouring rows.
    fn add_rows(&self) -> Fractions<Large> {
        let sum = |index: usize| {
            let first = index / PARTS * 2 * PARTS + index % PARTS;
            let [n0, n1] = [first, first + PARTS].map(|at| self.numerators[at]);
            let [d0, d1] = [first, first + PARTS].map(|at| self.denominators[at]);
            (K::times(n0, d1) + K::times(n1, d0), d0 * d1)
        };
        let (mut numerators, mut denominators) = (Vec::new(), Vec::new());
        let all = (0..self.denominators.len() / 2).into_par_iter().with_min_len(ROWS_EACH * PARTS);
        all.map(sum).unzip_into_vecs(&mut numerators, &mut denominators);
        Fractions { numerators, denominators }
    }

    /// A node before its children are added: the gate of a row and part.
    fn gate(&self, row: usize, part: usize, lambda: EF) -> Gate {
        let [first, second] = [2 * row * PARTS + part, (2 * row + 1) * PARTS + part];
        let d0 = self.denominators[first];
        Gate {
            a: d0 * lambda + K::wide(self.numerators[first]),
            d0,
            n1: K::wide(self.numerators[second]),
            d1: self.denominators[second],
        }
    }

    /// The same of two neighbouring gates at a challenge.
    fn folded(&self, row: usize, part: usize, lambda: EF, challenge: EF) -> Gate {
        let at = |place: usize| {
            let low = (4 * row + place) * PARTS + part;
            let high = low + 2 * PARTS;
            let (n, d) = (&self.numerators, &self.denominators);
            let n = K::between(n[low], n[high], challenge);
            (n, (d[high] - d[low]) * challenge + d[low])
        };
        let ((n0, d0), (n1, d1)) = (at(0), at(1));
        Gate { a: d0 * lambda + n0, d0, n1, d1 }
    }
}

/// A node's children, on the way to one point.
#[derive(Clone, Copy)]
struct Gate {
    a: Wide,
    d0: Wide,
    n1: Wide,
    d1: Wide,
}

impl Gate {
    const ZERO: Self = Self { a: Wide::ZERO, d0: Wide::ZERO, n1: Wide::ZERO, d1: Wide::ZERO };

    /// The gate of children that are 0 / 1.
    fn unused(lambda: EF) -> Self {
        Self { a: lambda.into(), d0: Wide::ONE, n1: Wide::ZERO, d1: Wide::ONE }
    }

    fn value(&self) -> Wide {
        self.d1 * self.a + self.d0 * self.n1
    }

    /// The difference of two gates.
    fn step(&self, to: &Self) -> Self {
        Self { a: to.a - self.a, d0: to.d0 - self.d0, n1: to.n1 - self.n1, d1: to.d1 - self.d1 }
    }

    /// The gate at a challenge between two.
    fn fold(&self, to: &Self, challenge: EF) -> Self {
        let step = self.step(to);
        Self {
            a: step.a * challenge + self.a,
            d0: step.d0 * challenge + self.d0,
            n1: step.n1 * challenge + self.n1,
            d1: step.d1 * challenge + self.d1,
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

    fn add(&mut self, part: usize, weight: EF, [low, high]: [&Gate; 2]) {
        self.0[part][0] += low.value() * weight;
        self.0[part][1] += low.step(high).value() * weight;
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
            let row = 2 * (chunk * pairs + pair);
            for part in 0..PARTS {
                let (low, high) = (gates(row, part), gates(row + 1, part));
                sums.add(part, *weight, [&low, &high]);
                (out[part], out[part + PARTS]) = (low, high);
            }
        }
        sums
    };
    chunks.enumerate().map(of).reduce(|| Sums::ZERO, Sums::join)
}

/// The same where the gates are not kept.
fn sum_only(weights: &[EF], gates: impl Fn(usize, usize) -> Gate + Sync) -> Sums {
    let pairs = ROWS_EACH / 2;
    let of = |(chunk, weights): (usize, &[EF])| {
        let mut sums = Sums::ZERO;
        for (pair, weight) in weights.iter().enumerate() {
            let row = 2 * (chunk * pairs + pair);
            for part in 0..PARTS {
                sums.add(part, *weight, [&gates(row, part), &gates(row + 1, part)]);
            }
        }
        sums
    };
    weights.par_chunks(pairs).enumerate().map(of).reduce(|| Sums::ZERO, Sums::join)
}

/// A layer's sum-check as far as it went.
struct Rounds<'a, 'b, S> {
    transcript: &'a mut FractionGkrProverTranscript<'b, S, F, EF>,
    /// What is left of the sum, without the factor eq.
    sum: EF,
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

/// Room for the gates of two rounds.
struct Room([Vec<Gate>; 2]);

/// The rounds of a layer of rows: gates on their way to one row.
fn prove_rows<K: Kind, S: FieldChallenger<F>>(
    level: &Fractions<K>,
    lambda: EF,
    point: &[EF],
    room: &mut Room,
    rounds: &mut Rounds<'_, '_, S>,
) -> [EF; 4] {
    let (rows, lanes) = point.split_at(point.len() - ROW_BITS);
    let of_lanes = eq_table(lanes);
    let Some((_, behind)) = rows.split_first() else {
        let gates: Vec<Gate> = (0..PARTS).map(|part| level.gate(0, part, lambda)).collect();
        return rounds.of_row(gates.iter().flat_map(Gate::lanes).collect(), lanes);
    };
    let mut behind = behind.to_vec();
    behind.reverse();
    // Weights of pairs. Those of unused pairs are not needed one by one.
    let mut weights = eq_table(&behind);
    let mut pairs = level.rows() / 4;
    let total = |sums: Sums, used: &[EF]| {
        let [at_0, leading] = sums.total(&of_lanes);
        [at_0 + lambda * (EF::ONE - used.iter().copied().sum::<EF>()), leading]
    };
    let used = &weights[..pairs];
    let sums = sum_only(used, |row, part| level.gate(row, part, lambda));
    let mut challenge = rounds.next(rows[0], total(sums, used));
    let [mut next, mut now] = [0, 1].map(|at| std::mem::take(&mut room.0[at]));
    for (round, coordinate) in rows.iter().enumerate().skip(1) {
        weights = weights.chunks(2).map(|pair| pair.iter().copied().sum()).collect();
        let from = pairs;
        pairs = from.div_ceil(2);
        let (used, out) = (&weights[..pairs], &mut next[..2 * pairs * PARTS]);
        let before = &now;
        let sums = sum_pairs(used, out, |row, part| match (round, row < from) {
            (_, false) => Gate::unused(lambda),
            (1, true) => level.folded(row, part, lambda, challenge),
            (_, true) => {
                let low = 2 * row * PARTS + part;
                before[low].fold(&before[low + PARTS], challenge)
            }
        });
        challenge = rounds.next(*coordinate, total(sums, used));
        std::mem::swap(&mut now, &mut next);
    }
    let last = |part: usize| match rows.len() {
        1 => level.folded(0, part, lambda, challenge),
        _ => now[part].fold(&now[part + PARTS], challenge),
    };
    let gates: Vec<Gate> = (0..PARTS).map(last).collect();
    let is_first_larger = now.len() > next.len();
    room.0 = if is_first_larger { [now, next] } else { [next, now] };
    rounds.of_row(gates.iter().flat_map(Gate::lanes).collect(), lanes)
}

/// The levels above the leaves: those of rows, from the largest on, then those of one row's
/// fractions down to two.
struct Tree {
    rows: Vec<Fractions<Large>>,
    row: Vec<Vec<[EF; 2]>>,
}

impl Tree {
    fn new<K: Kind>(leaves: &Fractions<K>, bits: usize) -> Self {
        let mut rows: Vec<Fractions<Large>> = Vec::new();
        for left in (0..bits - ROW_BITS).rev() {
            let mut above = rows.last().map_or_else(|| leaves.add_rows(), Fractions::add_rows);
            above.fill(1 << left);
            rows.push(above);
        }
        let lanes = |n: &Wide, d: &Wide| {
            let lane = |lane: usize| [self::lane(n, lane), self::lane(d, lane)];
            (0..WIDTH).map(lane).collect::<Vec<_>>()
        };
        let first: Vec<[EF; 2]> = match rows.pop() {
            Some(last) => {
                let all = last.numerators.iter().zip(&last.denominators);
                all.flat_map(|(n, d)| lanes(n, d)).collect()
            }
            None => {
                let all = leaves.numerators.iter().zip(&leaves.denominators);
                all.flat_map(|(n, d)| lanes(&K::wide(*n), d)).collect()
            }
        };
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
pub(crate) fn prove<K: Kind>(
    mut leaves: Fractions<K>,
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
    let shape = FractionGkrShape { num_variables: bits };
    let mut transcript =
        FractionGkrProverTranscript::<_, F, EF>::new(sponge, shape, root_denominator);
    let largest = leaves.rows() / 4 + 2;
    let mut room = Room([largest, largest / 2 + 2].map(|rows| vec![Gate::ZERO; rows * PARTS]));
    let (mut numerator, mut denominator) = (EF::ZERO, root_denominator);
    let mut point: Vec<EF> = Vec::new();
    let mut layers = Vec::with_capacity(bits);
    for layer in 0..bits {
        let lambda = transcript.begin_layer();
        let mut rounds = Rounds {
            transcript: &mut transcript,
            sum: numerator + lambda * denominator,
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
            match (bits - 1 - layer).checked_sub(1) {
                None => prove_rows(&leaves, lambda, &point, &mut room, &mut rounds),
                Some(level) => {
                    prove_rows(&tree.rows[level], lambda, &point, &mut room, &mut rounds)
                }
            }
        };
        let Rounds { messages, mut ends, .. } = rounds;
        let claims = SplitFraction { n0: a - lambda * d0, d0, n1, d1 };
        let branch = transcript.end_layer(&claims);
        numerator = claims.n0 + branch * (n1 - claims.n0);
        denominator = d0 + branch * (d1 - d0);
        ends.insert(0, branch);
        point = ends;
        layers.push(FractionGkrLayerProof { round_polys: messages, claims });
    }
    transcript.finish();
    (FractionGkrProof { root_denominator, layers }, point)
}
