//! What operations read, as weights: a claim about an operation becomes claims about what it reads.
//!
//! For sums, moves and maxima the element's own definition (`tg_tensor::element`) is asked which
//! elements it reads and with which factors, so this file cannot disagree with it. Products with
//! weights are too many for that; their windows are walked here.

use crate::field::{EF, Fold, dot_base, eq_table, ext, int};
use crate::plan::{LinearShape, MatMulShape, Placed, Source};
use p3_field::PrimeCharacteristicRing;
use std::collections::BTreeMap;
use std::convert::Infallible;
use tg_tensor::Tensor;
use tg_tensor::element::Element;
use tg_tensor::program::{Primitive, Program, ValueId, Window};

/// Weights for the elements of values, and a constant.
#[derive(Default)]
pub(crate) struct Weights {
    pub(crate) cells: BTreeMap<ValueId, Vec<EF>>,
    pub(crate) constant: EF,
}

impl Weights {
    fn add(&mut self, program: &Program, value: ValueId, index: usize, weight: EF) {
        let len = program.specs()[value.index()].elements();
        self.cells.entry(value).or_insert_with(|| vec![EF::ZERO; len])[index] += weight;
    }
}

/// One term of an element: what it reads, with which factor, and what it adds anyway.
struct Affine {
    read: Option<(ValueId, usize)>,
    factor: i64,
    constant: i64,
}

fn affine(element: &Element<'_>, term: u64) -> Affine {
    let mut read = None;
    let mut with = |number: i32| {
        let look = &mut |value: ValueId, index: usize| {
            read = Some((value, index));
            Ok::<i32, Infallible>(number)
        };
        let Ok(state) = element.absorb(0, term, look);
        state
    };
    let constant = with(0);
    let factor = with(1) - constant;
    Affine { read, factor, constant }
}

/// The weights of what an operation reads whose state is a sum: a join, sum or move. `weights` are
/// those of its accumulators.
pub(crate) fn summed(program: &Program, operation: usize, weights: &[EF]) -> Weights {
    let mut found = Weights::default();
    for (index, weight) in weights.iter().enumerate() {
        let element = Element::new(program, operation, index).expect("weights are of elements");
        found.constant += *weight * int(element.start());
        for term in 0..element.terms() {
            let Affine { read, factor, constant } = affine(&element, term);
            if constant != 0 {
                found.constant += *weight * int(constant);
            }
            if let Some((value, at)) = read {
                let weight = if factor == 1 { *weight } else { *weight * int(factor) };
                found.add(program, value, at, weight);
            }
        }
    }
    found
}

/// A number that an operation reads for an element: factor times element, plus a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) from: Option<(ValueId, usize)>,
    pub(crate) factor: i64,
    pub(crate) constant: i64,
}

/// What a source of a form reads for an element of its operation: a tap, a condition, an index, one
/// of several numbers.
pub(crate) fn read_of(program: &Program, source: Source, index: usize) -> Option<Read> {
    let (operation, tap) = match source {
        Source::Tap(operation, tap) => (operation, tap),
        Source::Condition(operation) | Source::Index(operation) => (operation, 0),
        Source::Placed(Placed { operation, place, number }) => {
            return placed(program, operation, place, number, index);
        }
        // The divisor is read behind what is divided.
        Source::Beside(operation, _) => return placed(program, operation, 1, 0, index),
        Source::Column(_) | Source::Value(_) | Source::Accumulator(_) => return None,
    };
    let element = Element::new(program, operation, index)?;
    let from = reads_of(&element, tap, 0).first().copied();
    if let Primitive::ArgMax { len, .. } = program.operations()[operation].primitive {
        let len = i64::from(len);
        return Some(Read { from, factor: len, constant: len - 1 - tap as i64 });
    }
    // A window's padding counts as the start.
    let constant = if from.is_none() { element.start() } else { 0 };
    Some(Read { from, factor: 1, constant })
}

fn placed(
    program: &Program,
    operation: usize,
    place: usize,
    number: i32,
    index: usize,
) -> Option<Read> {
    let element = Element::new(program, operation, index)?;
    let from = Some(*reads_of(&element, 0, number).get(place)?);
    Some(Read { from, factor: 1, constant: 0 })
}

/// The weights of what a source reads.
pub(crate) fn read(program: &Program, source: Source, weights: &[EF]) -> Weights {
    let mut found = Weights::default();
    for (index, weight) in weights.iter().enumerate() {
        let Some(Read { from, factor, constant }) = read_of(program, source, index) else {
            continue;
        };
        if constant != 0 {
            found.constant += *weight * int(constant);
        }
        if let Some((value, at)) = from {
            let weight = if factor == 1 { *weight } else { *weight * int(factor) };
            found.add(program, value, at, weight);
        }
    }
    found
}

/// The elements that a term reads, in order, if each of them were `number`.
pub(crate) fn reads_of(element: &Element<'_>, term: usize, number: i32) -> Vec<(ValueId, usize)> {
    let mut reads = Vec::with_capacity(2);
    let look = &mut |value: ValueId, index: usize| {
        reads.push((value, index));
        Ok::<i32, Infallible>(number)
    };
    let Ok(_) = element.absorb(0, term as u64, look);
    reads
}

/// The input place that a tap of an output place reads; `None` is padding.
fn place_read(window: &Window, place: usize, tap: usize) -> Option<usize> {
    let (out_width, kernel_width) = (window.out_width as usize, window.kernel_width as usize);
    let positions = window.positions() as usize;
    let (image, position) = (place / positions, place % positions);
    let row = window.row((position / out_width) as u32, (tap / kernel_width) as u32)?;
    let column = window.column((position % out_width) as u32, (tap % kernel_width) as u32)?;
    let line = image * window.height as usize + row as usize;
    Some(line * window.width as usize + column as usize)
}

impl LinearShape {
    fn taps(&self) -> usize {
        self.window.taps() as usize
    }

    /// Cells of the sum: groups, taps, channels of a group, each padded.
    fn cells(&self) -> usize {
        1 << (self.group_bits + self.tap_bits + self.each_bits)
    }

    /// Weights of groups, taps and channels at a point of the sum.
    pub(crate) fn split_weights(&self, point: &[EF]) -> [Vec<EF>; 3] {
        let (groups, rest) = point.split_at(self.group_bits);
        let (taps, each) = rest.split_at(self.tap_bits);
        [groups, taps, each].map(eq_table)
    }

    /// What is read, summed over places: `rows` are the weights of all places of all inferences, x
    /// gives the numbers of one.
    pub(crate) fn left_table<'a>(&self, rows: &[EF], x: impl Fn(usize) -> &'a [i32]) -> Vec<EF> {
        let (channels, each) = (self.window.channels as usize, self.each);
        let places = (self.window.batch as usize) * self.window.positions() as usize;
        let mut fold = Fold::new(self.cells());
        let mut row = vec![0_i16; self.cells()];
        for (index, weight) in rows.iter().enumerate() {
            let read = x(index / places);
            for tap in 0..self.taps() {
                let place = place_read(&self.window, index % places, tap);
                for group in 0..self.groups {
                    let at = ((group << self.tap_bits) + tap) << self.each_bits;
                    let to = &mut row[at..at + each];
                    match place {
                        // A factor has 16 bits; the program's checks say so.
                        Some(place) => {
                            let from = &read[place * channels + group * each..][..each];
                            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as i16);
                        }
                        None => to.fill(self.pad as i16),
                    }
                }
            }
            fold.add(*weight, 0, &row);
        }
        fold.finish()
    }

    /// The same where the weights of a place are one for each inference times one for each place of
    /// it: what is read is summed over inferences first.
    pub(crate) fn left_table_of_many<'a>(
        &self,
        inferences: &[EF],
        rows: &[EF],
        x: impl Fn(usize) -> &'a [i32],
    ) -> Vec<EF> {
        let (channels, each) = (self.window.channels as usize, self.each);
        let mut fold = Fold::new(x(0).len());
        let mut narrow: Vec<i16> = Vec::new();
        for (inference, weight) in inferences.iter().enumerate() {
            narrow.clear();
            // A factor has 16 bits; the program's checks say so.
            narrow.extend(x(inference).iter().map(|number| *number as i16));
            fold.add(*weight, 0, &narrow);
        }
        let read = fold.finish();
        let pad = inferences.iter().copied().sum::<EF>() * ext(self.pad);
        let mut table = vec![EF::ZERO; self.cells()];
        for (row, weight) in rows.iter().enumerate() {
            for tap in 0..self.taps() {
                let place = place_read(&self.window, row, tap);
                for group in 0..self.groups {
                    let at = ((group << self.tap_bits) + tap) << self.each_bits;
                    let to = &mut table[at..at + each];
                    match place {
                        Some(place) => {
                            let from = &read[place * channels + group * each..][..each];
                            to.iter_mut().zip(from).for_each(|(to, from)| *to += *weight * *from);
                        }
                        None => to.iter_mut().for_each(|to| *to += *weight * pad),
                    }
                }
            }
        }
        table
    }

    /// The weights, summed over columns.
    pub(crate) fn right_table(&self, columns: &[EF], weights: &Tensor) -> Vec<EF> {
        let terms = self.taps() * self.each;
        let mut fold = Fold::new(self.cells());
        let mut row = vec![0_i16; 1 << (self.tap_bits + self.each_bits)];
        for (column, weight) in columns.iter().enumerate() {
            for tap in 0..self.taps() {
                let from = column * terms + tap * self.each;
                narrow(weights, from, &mut row[tap << self.each_bits..][..self.each]);
            }
            let group = column / (self.columns / self.groups);
            fold.add(*weight, group << (self.tap_bits + self.each_bits), &row);
        }
        fold.finish()
    }

    /// The weights of each column at a point of the sum of one group.
    pub(crate) fn slice(&self, point: &[EF], weights: &Tensor) -> Vec<EF> {
        let [_, taps, each] = self.split_weights(point);
        let mut factors = Vec::with_capacity(self.taps() * self.each);
        for tap in taps.iter().take(self.taps()) {
            factors.extend(each.iter().take(self.each).map(|channel| *tap * *channel));
        }
        let mut row = vec![0_i16; factors.len()];
        let column = |column: usize| {
            narrow(weights, column * factors.len(), &mut row);
            dot_base(&factors, row.iter().map(|weight| int((*weight).into())))
        };
        (0..self.columns).map(column).collect()
    }

    /// The weights of the elements that are read, at a point of the sum.
    pub(crate) fn left_weights(&self, rows: &[EF], point: &[EF]) -> (Vec<EF>, EF) {
        let [groups, taps, each] = self.split_weights(point);
        let (window, channels) = (&self.window, self.window.channels as usize);
        let places = (window.batch * window.height * window.width) as usize;
        let mut by_place = vec![EF::ZERO; places];
        let mut padded = EF::ZERO;
        for (place, weight) in rows.iter().enumerate() {
            for (tap, factor) in taps.iter().take(self.taps()).enumerate() {
                let product = *weight * *factor;
                match place_read(window, place, tap) {
                    Some(read) => by_place[read] += product,
                    None => padded += product,
                }
            }
        }
        let mut by_channel = Vec::with_capacity(channels);
        for group in groups.iter().take(self.groups) {
            by_channel.extend(each.iter().take(self.each).map(|weight| *group * *weight));
        }
        let constant = padded * by_channel.iter().copied().sum::<EF>() * ext(self.pad);
        let cells = by_place
            .into_iter()
            .flat_map(|place| by_channel.iter().map(move |channel| place * *channel))
            .collect();
        (cells, constant)
    }

    /// The weights of the weights, at a point of the sum.
    pub(crate) fn right_weights(&self, columns: &[EF], point: &[EF]) -> Vec<EF> {
        let [groups, taps, each] = self.split_weights(point);
        let mut cells = Vec::with_capacity(columns.len() * self.taps() * self.each);
        for (column, weight) in columns.iter().enumerate() {
            let weight = *weight * groups[column / (self.columns / self.groups)];
            for tap in taps.iter().take(self.taps()) {
                let weight = weight * *tap;
                cells.extend(each.iter().take(self.each).map(|channel| weight * *channel));
            }
        }
        cells
    }
}

impl MatMulShape {
    /// One side's rows, summed with their weights: `rows` gives those of one inference and product,
    /// x the numbers of one inference.
    pub(crate) fn table<'a>(
        &self,
        side: usize,
        inferences: usize,
        rows: impl Fn(usize, usize) -> Vec<EF>,
        x: impl Fn(usize) -> &'a [i32],
    ) -> Vec<EF> {
        let mut table = Vec::new();
        let mut row = vec![0_i16; self.inner];
        let (inner, count) = (self.inner, self.rows[side]);
        for inference in 0..inferences {
            for batch in 0..self.batch {
                let mut fold = Fold::new(1 << self.inner_bits);
                for (index, weight) in rows(inference, batch).into_iter().enumerate() {
                    let from = &x(inference)[(batch * count + index) * inner..][..inner];
                    // With its offset it is a factor of 16 bits; the program's checks say so.
                    let moved = from.iter().map(|x| (i64::from(*x) + self.offsets[side]) as i16);
                    row.iter_mut().zip(moved).for_each(|(to, from)| *to = from);
                    fold.add(weight, 0, &row);
                }
                table.extend(fold.finish());
            }
            table.resize((inference + 1) << (self.batch_bits + self.inner_bits), EF::ZERO);
        }
        table
    }

    /// The weights of one side's elements of one inference, at a point of products and summands.
    pub(crate) fn weights(
        &self,
        rows: impl Fn(usize, usize) -> EF,
        side: usize,
        point: &[EF],
    ) -> Vec<EF> {
        let (batches, inner) = point.split_at(self.batch_bits);
        let (batches, inner) = (eq_table(batches), eq_table(inner));
        let mut cells = Vec::new();
        for (batch, weight) in batches.iter().take(self.batch).enumerate() {
            for row in 0..self.rows[side] {
                let weight = *weight * rows(batch, row);
                cells.extend(inner.iter().take(self.inner).map(|factor| weight * *factor));
            }
        }
        cells
    }
}

/// Elements of a tensor of at most 16 bits.
fn narrow(tensor: &Tensor, from: usize, to: &mut [i16]) {
    match tensor {
        Tensor::I8(all) => {
            let from = &all[from..from + to.len()];
            to.iter_mut().zip(from).for_each(|(to, from)| *to = (*from).into());
        }
        Tensor::I16(all) => to.copy_from_slice(&all[from..from + to.len()]),
        Tensor::I32(all) => {
            let from = &all[from..from + to.len()];
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as i16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ProductKind;
    use crate::tests::programs::Net;
    use crate::{Mode, Prover};

    /// Goal: summing over inferences first changes nothing. Method: all linear operations of the
    /// nets of the tests, with numbers and weights that are neither constant nor sorted.
    #[test]
    fn left_table_of_many_is_that_of_their_rows() {
        let some = |seed: usize| ext((seed as i64 * 7_919 + 13) % 100_003).square();
        let mut tried = 0;
        for net in Net::ALL {
            let prover = Prover::new(net.model(), Mode::Public, 3).expect("it can be proven");
            let plan = &prover.setup().plan;
            for product in &plan.products {
                let ProductKind::Linear(shape) = &product.kind else { continue };
                let len = plan.program.specs()[shape.x.index()].elements();
                let numbers: Vec<i32> =
                    (0..3 * len).map(|at| (at * 31 + at * at * 7) as i32 % 251 - 125).collect();
                let x = |inference: usize| &numbers[inference * len..][..len];
                let inferences: Vec<EF> = (0..3).map(some).collect();
                let rows: Vec<EF> =
                    (0..plan.layout_of(product.operation).side(0)).map(|at| some(at + 5)).collect();
                let both = |inference: &EF| rows.iter().map(|row| *inference * *row).collect();
                let all: Vec<EF> = inferences.iter().flat_map::<Vec<EF>, _>(both).collect();
                let found = shape.left_table_of_many(&inferences, &rows, x);
                assert_eq!(found, shape.left_table(&all, x));
                tried += 1;
            }
        }
        assert!(tried > 3, "{tried}");
    }
}
