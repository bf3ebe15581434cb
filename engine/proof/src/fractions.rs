//! The prover of sums of fractions: a tree in which every node is the sum of its two children,
//! proven from the root to the leaves, one sum-check for each layer.
//!
//! Messages are those of the library's protocol ([`crate::replay::lookups`] reads them), but the
//! variables of the leaves come in another order: leaves stand in rows of 16, neighbouring rows are
//! added first, and the leaves of the last row at the end. So leaves behind the last that is used,
//! which are 0 / 1, stay at the end of every layer and cost nothing, and registers hold parts of
//! rows, however wide they are. [`leaf_point`] brings a point back into the order of leaves.
//!
//! The factor eq is left out of the sums: it is known, and what is left is quadratic, so two sums
//! are enough for a round ([`crate::gates`]).

use crate::field::{EF, F, eq_table};
use crate::gates::{
    Binding, Folded, Gate, Kinds, Layer, PAIRS_EACH, PARTS, ROW, ROW_BITS, Rows, Store, Sums,
    sum_pairs,
};
use crate::messages::LookupMessages;
use crate::wide::{Factor, WIDTH, Wide, lane, times};
use p3_challenger::FieldChallenger;
use p3_field::{Field, PackedFieldExtension, PrimeCharacteristicRing};
use p3_multi_stark::fractional_gkr::{FractionGkrLayerProof, FractionGkrProof, SplitFraction};
use rayon::prelude::*;

/// Fractions whose neighbouring rows are added. Those behind the last row are 0 / 1.
pub(crate) trait Level: Sync {
    /// The sums of neighbouring rows, if they are computed whenever they are asked for.
    type Sums<'a>: Level
    where
        Self: 'a;
    /// Whether the gates of the first round are computed again in the second: that is less work
    /// than to write them down, where fractions are made of a few numbers.
    const IS_LIGHT: bool = false;
    /// Rows.
    fn rows(&self) -> usize;
    /// A register of a row.
    fn register(&self, register: usize) -> (Wide, Wide);
    /// What is known of its rows.
    fn kinds(&self) -> Kinds;

    /// What the numbers of a fraction are multiplied with, if it is made of some.
    fn powers(&self) -> [EF; 3] {
        [EF::ONE, EF::ZERO, EF::ZERO]
    }

    /// Fills up with 0 / 1 to a multiple of four rows, at least one, but not beyond `most`. What is
    /// computed whenever it is asked for is full.
    fn fill(&mut self, _most: usize) {}

    /// The sums of neighbouring rows, filled up to as many as there may be, where it is less work
    /// to compute them again than to write them down and read them.
    fn sums<'a>(&'a self, _kinds: &'a Kinds, _most: usize) -> Option<Self::Sums<'a>> {
        None
    }

    /// The sum of two neighbouring rows, by register.
    #[inline(always)]
    fn sum(&self, register: usize) -> (Wide, Wide) {
        let first = register / PARTS * 2 * PARTS + register % PARTS;
        let [(n0, d0), (n1, d1)] = [first, first + PARTS].map(|at| self.register(at));
        (times(n0, d1) + times(n1, d0), times(d0, d1))
    }

    /// The gate, a node before its children are added, at the first challenge between two
    /// neighbouring ones: those of four rows.
    #[inline(always)]
    fn gate(&self, at: &Binding, quad: usize, part: usize) -> Gate {
        gate_of_fractions(self, at, quad, part)
    }

    /// The same of eight rows at both challenges, where it is made of their numbers.
    fn gate_of_eight(&self, _at: &Binding, _eight: usize, _part: usize) -> Option<Gate> {
        None
    }

    /// Both children, denominators with 1 / lambda added, of four rows of ones at the first
    /// challenge, or of eight at both.
    #[inline(always)]
    fn ones(&self, at: &Binding, row: usize, part: usize) -> [Wide; 2] {
        let gate = self.gate(at, row, part);
        [gate.d0, gate.d1].map(|d| d + Wide::from(at.mu))
    }

    /// The sums, over neighbouring gates from one on and with their weights, of the gate of their
    /// differences. Those of which all rows are padding are left out.
    fn leading(&self, lambda: EF, kinds: &Kinds, from: usize, by: &[EF]) -> [Wide; PARTS] {
        let lambda = Factor::new(lambda);
        let mut sums = [Wide::ZERO; PARTS];
        let all = (from..).zip(by).filter(|(quad, _)| kinds.padding::<4>(4 * quad).is_none());
        for (quad, weight) in all {
            let weight = Factor::new(*weight);
            for (part, sum) in sums.iter_mut().enumerate() {
                *sum += weight.times(step_of_fractions(self, &lambda, quad, part));
            }
        }
        sums
    }
}

/// The gate at the first challenge, of the fractions of four rows.
#[inline(always)]
pub(crate) fn gate_of_fractions<L: Level + ?Sized>(
    level: &L,
    at: &Binding,
    quad: usize,
    part: usize,
) -> Gate {
    let first = 4 * quad * PARTS + part;
    let [low, high] = [first, first + PARTS].map(|low| [low, low + 2 * PARTS]);
    let (first, second) = (between_fractions(level, at, low), between_fractions(level, at, high));
    Gate::new(first, second, &at.lambda)
}

/// The fraction at the first challenge between two.
#[inline(always)]
fn between_fractions<L: Level + ?Sized>(
    level: &L,
    at: &Binding,
    [low, high]: [usize; 2],
) -> (Wide, Wide) {
    let ((n0, d0), (n1, d1)) = (level.register(low), level.register(high));
    (at.challenge.times(n1 - n0) + n0, at.challenge.times(d1 - d0) + d0)
}

/// The gate of the differences of the fractions of four rows.
#[inline(always)]
pub(crate) fn step_of_fractions<L: Level + ?Sized>(
    level: &L,
    lambda: &Factor,
    quad: usize,
    part: usize,
) -> Wide {
    let step = |place: usize| {
        let low = (4 * quad + place) * PARTS + part;
        let ((n0, d0), (n1, d1)) = (level.register(low), level.register(low + 2 * PARTS));
        (n1 - n0, d1 - d0)
    };
    Gate::new(step(0), step(1), lambda).value()
}

/// Rows of a level that is filled up to a multiple of four, at least one, but not beyond `most`.
pub(crate) fn filled(rows: usize, most: usize) -> usize {
    rows.max(1).next_multiple_of(4).min(most)
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
    fn above(below: &impl Level, kinds: &Kinds, most: usize) -> Self {
        let squares: Vec<Wide> =
            kinds.denominators.iter().map(|denominator| denominator.square().into()).collect();
        let of = |register: usize| {
            let row = register / PARTS;
            if row >= below.rows() / 2 {
                return (Wide::ZERO, Wide::ONE);
            }
            match kinds.padding::<2>(2 * row) {
                Some(padding) => (Wide::ZERO, squares[padding]),
                None => below.sum(register),
            }
        };
        let (mut numerators, mut denominators) = (Vec::new(), Vec::new());
        let all = (0..filled(below.rows() / 2, most) * PARTS).into_par_iter();
        let sums = all.with_min_len(2 * PAIRS_EACH * PARTS).map(of);
        sums.unzip_into_vecs(&mut numerators, &mut denominators);
        Self { numerators, denominators }
    }
}

impl Level for Fractions {
    type Sums<'a> = Self;

    fn rows(&self) -> usize {
        self.denominators.len() / PARTS
    }

    #[inline(always)]
    fn register(&self, register: usize) -> (Wide, Wide) {
        (self.numerators[register], self.denominators[register])
    }

    fn kinds(&self) -> Kinds {
        Kinds::default()
    }

    fn fill(&mut self, most: usize) {
        let len = filled(self.rows(), most) * PARTS;
        self.numerators.resize(len, Wide::ZERO);
        self.denominators.resize(len, Wide::ONE);
    }
}

/// The leading coefficient of the first round.
fn leading(level: &impl Level, kinds: &Kinds, lambda: EF, weights: &[EF], lanes: &[EF]) -> EF {
    let chunks = weights.par_chunks(PAIRS_EACH).enumerate();
    let add = |mut sums: [Wide; PARTS], others: [Wide; PARTS]| {
        sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        sums
    };
    let sums =
        chunks.map(|(chunk, weights)| level.leading(lambda, kinds, chunk * PAIRS_EACH, weights));
    let sums = sums.reduce(|| [Wide::ZERO; PARTS], add);
    let all = sums.iter().flat_map(|sum| (0..WIDTH).map(move |place| lane(sum, place)));
    all.zip(lanes).map(|(sum, weight)| *weight * sum).sum()
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

/// The rows of gates after the first round of a layer.
struct First<'a, L> {
    level: &'a L,
    layer: &'a Layer,
}

impl<L: Level> Rows for First<'_, L> {
    #[inline(always)]
    fn ones(&self, row: usize, part: usize) -> [Wide; 2] {
        self.level.ones(&self.layer.by, row, part)
    }

    #[inline(always)]
    fn gate(&self, row: usize, part: usize) -> Gate {
        match row < self.level.rows() / 4 {
            true => self.level.gate(&self.layer.by, row, part),
            false => self.layer.unused,
        }
    }
}

/// Those after the second, of a level that is light.
struct Second<'a, L> {
    first: First<'a, L>,
    challenge: Factor,
}

impl<L: Level> Rows for Second<'_, L> {
    #[inline(always)]
    fn ones(&self, row: usize, part: usize) -> [Wide; 2] {
        self.first.ones(row, part)
    }

    #[inline(always)]
    fn gate(&self, row: usize, part: usize) -> Gate {
        let First { level, layer } = self.first;
        level.gate_of_eight(&layer.by, row, part).unwrap_or_else(|| {
            let low = self.first.gate(2 * row, part);
            low.fold(&self.first.gate(2 * row + 1, part), &self.challenge)
        })
    }
}

/// The rows of gates after a round.
struct Made<'a, L> {
    level: &'a L,
    layer: &'a Layer,
    round: usize,
    /// That of the round.
    challenge: EF,
    /// The rows before it, if they were written down.
    from: &'a Store,
}

impl<L: Level> Made<'_, L> {
    /// The sums over their pairs. They are written down if there is room for them.
    fn sum(&self, weights: &[EF], kinds: &Kinds, out: Option<&mut Store>) -> Sums {
        let Self { level, layer, round, from, .. } = *self;
        let challenge = Factor::new(self.challenge);
        let first = First { level, layer };
        match round {
            1 => sum_pairs(layer, weights, kinds, out, &first),
            2 if L::IS_LIGHT => sum_pairs(layer, weights, kinds, out, &Second { first, challenge }),
            _ => sum_pairs(layer, weights, kinds, out, &Folded { layer, from, challenge }),
        }
    }

    /// A part of the first row.
    fn gate(&self, part: usize) -> Gate {
        let Self { level, layer, round, from, .. } = *self;
        let challenge = Factor::new(self.challenge);
        let first = First { level, layer };
        match round {
            1 => first.gate(0, part),
            2 if L::IS_LIGHT => Second { first, challenge }.gate(0, part),
            _ => Folded { layer, from, challenge }.gate(0, part),
        }
    }
}

/// The rounds of a layer of rows: gates on their way to one row.
fn prove_rows<L: Level, S: FieldChallenger<F>>(
    level: &L,
    kinds: &Kinds,
    lambda: EF,
    point: &[EF],
    room: &mut [Store; 2],
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
    let leading = leading(level, kinds, lambda, &weights[..pairs], &of_lanes);
    let mut challenge = rounds.next(rows[0], [rounds.first, leading]);
    let by = Binding::new(lambda, challenge, level.powers());
    let (mut layer, mut kinds) = (Layer::new(lambda, by, kinds), kinds.clone());
    kinds.halve();
    let [mut next, mut now] = room.each_mut();
    for (round, coordinate) in rows.iter().enumerate().skip(1) {
        weights = weights.chunks(2).map(|pair| pair.iter().copied().sum()).collect();
        pairs = pairs.div_ceil(2);
        let used = &weights[..pairs];
        kinds.halve();
        if round == 2 && L::IS_LIGHT {
            layer.by.bind([rounds.ends[0], challenge], level.powers());
        }
        let from = Made { level, layer: &layer, round, challenge, from: now };
        let is_written = round > 1 || !L::IS_LIGHT;
        let sums = from.sum(used, &kinds, is_written.then_some(&mut *next));
        let [at_0, leading] = sums.total(&of_lanes, lambda);
        let unused = EF::ONE - used.iter().copied().sum::<EF>();
        challenge = rounds.next(*coordinate, [at_0 + lambda * unused, leading]);
        if is_written {
            std::mem::swap(&mut now, &mut next);
        }
    }
    if rows.len() == 2 && L::IS_LIGHT {
        layer.by.bind([rounds.ends[0], challenge], level.powers());
    }
    let made = Made { level, layer: &layer, round: rows.len(), challenge, from: now };
    let gates = (0..PARTS).map(|part| made.gate(part));
    rounds.of_row(gates.collect::<Vec<_>>().iter().flat_map(Gate::lanes).collect(), lanes)
}

/// The levels above the leaves: those of rows, from the largest on, then those of one row's
/// fractions down to two.
struct Tree {
    /// The number of the first level that is written down; that of the leaves is 0.
    first: usize,
    rows: Vec<Fractions>,
    row: Vec<Vec<[EF; 2]>>,
    /// What is known of the leaves and of each level of rows.
    kinds: Vec<Kinds>,
}

impl Tree {
    fn new<L: Level>(leaves: &L, bits: usize) -> Self {
        let levels = bits - ROW_BITS;
        let mut rows: Vec<Fractions> = Vec::new();
        let mut kinds = vec![leaves.kinds()];
        let mut first = 1;
        for level in 1..=levels {
            let (below, most) = (&kinds[level - 1], 1 << (levels - level));
            let above = match rows.last() {
                Some(last) => Some(Fractions::above(last, below, most)),
                None if level == 1 && level < levels && L::IS_LIGHT => None,
                None => {
                    first = level;
                    Some(match (level, leaves.sums(&kinds[0], 2 * most)) {
                        (2, Some(sums)) => Fractions::above(&sums, below, most),
                        (_, Some(_) | None) => Fractions::above(leaves, below, most),
                    })
                }
            };
            rows.extend(above);
            kinds.push(below.above());
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
        Self { first, rows, row, kinds }
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
    let mut room = [Store::default(), Store::default()];
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
            let kinds = &tree.kinds[level];
            match (level.checked_sub(tree.first), level) {
                (Some(place), _) => {
                    prove_rows(&tree.rows[place], kinds, lambda, &point, room, rounds)
                }
                (None, 0) => prove_rows(&leaves, kinds, lambda, &point, room, rounds),
                (None, _) => {
                    let sums = leaves.sums(&tree.kinds[0], 2 << (layer - ROW_BITS));
                    let sums = sums.expect("levels that are not written down are computed");
                    prove_rows(&sums, kinds, lambda, &point, room, rounds)
                }
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
