//! A liar's prover of look-ups: the real one refuses fractions that do not add up to nothing.
//!
//! It claims that they do and is honest in everything else. What it sends is absorbed as a verifier
//! absorbs it.

use crate::field::{EF, F, eq_table};
use crate::fractions::Level as _;
use crate::gates::{ONES, ROW, ROW_BITS};
use crate::leaves::{Block, Leaves};
use crate::messages::LookupMessages;
use crate::wide::{WIDTH, lane};
use p3_challenger::FieldChallenger;
use p3_field::PrimeCharacteristicRing;
use p3_multi_stark::fractional_gkr::{FractionGkrLayerProof, FractionGkrProof, SplitFraction};

/// Numerators and denominators of the leaves that are used.
pub(crate) fn unpacked(leaves: &Leaves) -> [Vec<EF>; 2] {
    let all = leaves.fractions();
    let lanes = |wide| (0..WIDTH).map(move |place| lane(wide, place));
    [&all.numerators, &all.denominators].map(|list| list.iter().flat_map(lanes).collect())
}

/// Whether the fractions do not add up to nothing.
pub(crate) fn are_wrong(leaves: &Leaves) -> bool {
    let [numerators, denominators] = unpacked(leaves);
    let inverses = p3_field::batch_multiplicative_inverse(&denominators);
    let terms = numerators.iter().zip(inverses);
    terms.map(|(numerator, inverse)| inverse * *numerator).sum::<EF>() != EF::ZERO
}

/// All 2^bits leaves in the order of the variables: rows by their bits from the lowest on.
fn ordered(leaves: &Leaves, bits: usize) -> [Vec<EF>; 2] {
    let [numerators, denominators] = unpacked(leaves);
    let rows = bits - ROW_BITS;
    let leaf = |place: usize| {
        let row = (place >> ROW_BITS).reverse_bits().checked_shr(usize::BITS - rows as u32);
        row.unwrap_or_default() << ROW_BITS | place & ((1 << ROW_BITS) - 1)
    };
    let numerator = |leaf: usize| numerators.get(leaf).copied().unwrap_or(EF::ZERO);
    let denominator = |leaf: usize| denominators.get(leaf).copied().unwrap_or(EF::ONE);
    let all = || (0..1 << bits).map(leaf);
    [all().map(numerator).collect(), all().map(denominator).collect()]
}

/// Both halves of a list.
fn halves(list: &[EF]) -> [Vec<EF>; 2] {
    let (low, high) = list.split_at(list.len() / 2);
    [low.to_vec(), high.to_vec()]
}

/// Proves that they do; gives the point where it ends, as the real prover does.
pub(crate) fn prove(
    leaves: &Leaves,
    bits: usize,
    sponge: &mut impl FieldChallenger<F>,
) -> (FractionGkrProof<EF>, Vec<EF>) {
    let mut tree: Vec<[Vec<EF>; 2]> = vec![ordered(leaves, bits)];
    while let Some([numerators, denominators]) = tree.last().filter(|[n, _]| n.len() > 1) {
        let ([n0, n1], [d0, d1]) = (halves(numerators), halves(denominators));
        let above = |i: usize| (n0[i] * d1[i] + n1[i] * d0[i], d0[i] * d1[i]);
        let (numerators, denominators) = (0..n0.len()).map(above).unzip();
        tree.push([numerators, denominators]);
    }
    let root_denominator = tree.pop().map_or(EF::ONE, |[_, denominators]| denominators[0]);
    let mut said = LookupMessages::new(sponge, tree.len(), root_denominator);
    let mut proof = FractionGkrProof { root_denominator, layers: Vec::new() };
    let mut point: Vec<EF> = Vec::new();
    for [numerators, denominators] in tree.into_iter().rev() {
        let lambda = said.begin_layer();
        let ([n0, n1], [d0, d1]) = (halves(&numerators), halves(&denominators));
        let mut tables = [eq_table(&point), n0, d0, n1, d1];
        let (mut round_polys, mut ends) = (Vec::new(), Vec::new());
        while tables[0].len() > 1 {
            let half = tables[0].len() / 2;
            let value = |at: EF| {
                let term = |i: usize| {
                    let [eq, n0, d0, n1, d1] =
                        tables.each_ref().map(|t| t[i] + at * (t[i + half] - t[i]));
                    eq * (d1 * n0 + d0 * n1 + lambda * d0 * d1)
                };
                (0..half).map(term).sum::<EF>()
            };
            let values = [value(EF::ZERO), value(EF::TWO), value(EF::from_u32(3))];
            let challenge = said.round(&values);
            for table in &mut tables {
                let (low, high) = table.split_at_mut(half);
                low.iter_mut().zip(high).for_each(|(low, high)| *low += challenge * (*high - *low));
                table.truncate(half);
            }
            round_polys.push(values);
            ends.push(challenge);
        }
        let [_, n0, d0, n1, d1] = tables.map(|table| table[0]);
        let claims = SplitFraction { n0, d0, n1, d1 };
        ends.insert(0, said.end_layer(&claims));
        point = ends;
        proof.layers.push(FractionGkrLayerProof { round_polys, claims });
    }
    (proof, point)
}

/// Goal: leaves in the base field are proven as the fractions they stand for, and padding as any
/// other. Method: look-ups of one, two and three numbers and their tables, of sizes down to less
/// than a row, with rows of padding behind every few that are used, all ones or not, both ways.
#[test]
fn prop_leaves_are_proven_as_their_fractions() {
    let (mut padded, mut ones) = (0, 0);
    arbtest::arbtest(|u| {
        let (alpha, beta) = (EF::from_u64(u.arbitrary()?), EF::from_u64(u.arbitrary()?).square());
        let mut blocks = Vec::new();
        for table in 0..u.int_in_range(1..=4_u32)? {
            let shift = alpha - beta.cube() * F::from_u32(table);
            let size = 1 << u.int_in_range(0..=8)?;
            let columns = u.int_in_range(1..=3_u32)?;
            let entries: Vec<Vec<F>> = (0..columns)
                .map(|column| (0..size).map(|at: u32| F::from_u32(at * (7 * column + 1))).collect())
                .collect();
            let mut counts = vec![F::ZERO; size as usize];
            let mut looked_up = vec![Vec::new(); columns as usize];
            let mut ones = vec![F::ZERO; 1 << u.int_in_range(0..=10)?];
            let period = 1 << u.int_in_range(0..=5)?;
            let used = u.int_in_range(1..=period)?;
            let are_all_ones = u.arbitrary()?;
            let padding: Vec<bool> =
                (0..ones.len() / ROW).map(|row| row % period >= used).collect();
            for (leaf, one) in ones.iter_mut().enumerate() {
                if padding.get(leaf / ROW) == Some(&true) {
                    looked_up.iter_mut().for_each(|to| to.push(F::from_u32(table + 3)));
                    padded += 1;
                    continue;
                }
                let entry = u.choose_index(size as usize)?;
                *one = F::from_bool(are_all_ones || u.ratio(3, 4)?);
                counts[entry] -= *one;
                looked_up.iter_mut().zip(&entries).for_each(|(to, from)| to.push(from[entry]));
            }
            blocks.push(Block { shift, numerators: ones, numbers: looked_up, padding });
            blocks.push(Block { shift, numerators: counts, numbers: entries, padding: Vec::new() });
        }
        blocks.sort_by_key(|block| std::cmp::Reverse(block.numerators.len()));
        let total: usize = blocks.iter().map(|block| block.numerators.len()).sum();
        let bits = crate::field::bits_of(total).max(ROW_BITS);
        let leaves = Leaves::new(beta, blocks);
        ones += leaves.kinds().rows.iter().filter(|kind| **kind == ONES).count();
        let fractions = leaves.fractions();
        let by_numbers = crate::fractions::prove(leaves, bits, &mut crate::pcs::sponge());
        let by_fractions = crate::fractions::prove(fractions, bits, &mut crate::pcs::sponge());
        assert_eq!(crate::codec::write(&by_numbers), crate::codec::write(&by_fractions));
        Ok(())
    })
    .budget_ms(1_000);
    assert!(padded > 100 && ones > 10, "{padded}, {ones}");
}
