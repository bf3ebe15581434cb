//! Copies by a fixed map.
//!
//! Each part becomes a nest of sides with their runs, with sides joined where two are one run both
//! in the source and in the output; what remains innermost is copied run by run.

use super::elements::{Number, Target, convert, with_elements, with_target};
use super::{Context, Scratch, Values};
use crate::program::{MovePart, Run, ValueId};
use std::ops::Range;

/// One side of a part.
#[derive(Clone, Debug)]
struct Side {
    runs: Vec<Run>,
    /// From one place to the next in the output.
    out_stride: usize,
}

impl Side {
    /// If the side is one run that is read: its start, step and count.
    fn whole(&self) -> Option<(u32, i32, u32)> {
        match self.runs[..] {
            [Run::Read { start, step, count }] => Some((start, step, count)),
            _ => None,
        }
    }

    /// This side and the next inner one as one, if they are one run.
    fn join(&self, inner: &Self) -> Option<Self> {
        let ((start, step, count), (inner_start, inner_step, inner_count)) =
            (self.whole()?, inner.whole()?);
        let start = start.checked_add(inner_start)?;
        if inner_count == 1 {
            return Some(Self { runs: vec![Run::Read { start, step, count }], ..self.clone() });
        }
        let in_source = i64::from(step) == i64::from(inner_step) * i64::from(inner_count);
        let in_out = self.out_stride == inner.out_stride * inner_count as usize;
        if count > 1 && !(in_source && in_out) {
            return None;
        }
        let count = count.checked_mul(inner_count)?;
        let runs = vec![Run::Read { start, step: inner_step, count }];
        Some(Self { runs, out_stride: inner.out_stride })
    }
}

/// One part of the output and where it comes from.
#[derive(Debug)]
struct Part {
    value: ValueId,
    /// The output's element that the part begins with.
    begin: usize,
    /// At least one side, slowest first.
    sides: Vec<Side>,
}

/// A copy.
#[derive(Debug)]
pub(super) struct Moves {
    parts: Vec<Part>,
    fill: i32,
    /// Elements of one place of the slowest side.
    row: usize,
}

impl Moves {
    /// The copy of parts that follow each other along `axis`.
    pub(super) fn new(sides: &[u32], axis: usize, parts: &[MovePart], fill: i32) -> Self {
        let mut strides = vec![1_usize; sides.len()];
        for index in (1..sides.len()).rev() {
            strides[index - 1] = strides[index] * sides[index] as usize;
        }
        let mut along = 0;
        let part = |part: &MovePart| {
            let begin = along * strides[axis];
            along += part.offsets.as_slice()[axis].as_slice().iter().map(count).sum::<usize>();
            let sides = part.offsets.as_slice().iter().zip(&strides);
            let sides = sides.map(|(runs, out_stride)| Side {
                runs: runs.as_slice().to_vec(),
                out_stride: *out_stride,
            });
            Part { value: part.value, begin, sides: join(sides) }
        };
        let parts = parts.iter().map(part).collect();
        Self { parts, fill, row: strides[0] }
    }

    /// Computes the output.
    pub(super) fn run(
        &self,
        context: &Context<'_>,
        values: &Values<'_>,
        out: Target<'_>,
        scratch: &mut [Scratch],
    ) {
        with_target!(out, out => {
            let ways = context.team.ways(out.len() as u64);
            let rows = context.team.piece(ways, out.len(), out.len()).next_multiple_of(self.row);
            let chunks = out.chunks_mut(rows).enumerate();
            context.team.share(ways, scratch, chunks, |_, (index, out)| {
                for part in &self.parts {
                    let range = part.places_within(index * rows..index * rows + out.len());
                    let Some(begin) = part.out_begin(&range, index * rows) else { continue };
                    with_elements!(values.get(part.value), from => {
                        let mut copy = Copy { from, fill: self.fill, out: &mut *out };
                        copy.sides(&part.sides, range, Some(0), begin);
                    });
                }
            });
        });
    }
}

/// Joins neighbouring sides as far as possible.
fn join(sides: impl Iterator<Item = Side>) -> Vec<Side> {
    let mut joined: Vec<Side> = Vec::new();
    for side in sides {
        match joined.last().and_then(|last| last.join(&side)) {
            Some(both) => {
                joined.pop();
                joined.push(both);
            }
            None => joined.push(side),
        }
    }
    joined
}

fn count(run: &Run) -> usize {
    match run {
        Run::Read { count, .. } | Run::Fill { count } => *count as usize,
    }
}

impl Part {
    /// The places of the first side that lie in a range of the output's rows. A place never lies in
    /// two rows.
    fn places_within(&self, range: Range<usize>) -> Range<usize> {
        let Some(first) = self.sides.first() else { return 0..0 };
        let places = first.runs.iter().map(count).sum();
        let place =
            |at: usize| at.saturating_sub(self.begin).div_ceil(first.out_stride).min(places);
        place(range.start)..place(range.end)
    }

    /// Where in the rows from `from` on the first of these places begins; `None` without places.
    fn out_begin(&self, places: &Range<usize>, from: usize) -> Option<usize> {
        let stride = self.sides.first().map_or(1, |side| side.out_stride);
        (!places.is_empty()).then(|| self.begin + places.start * stride - from)
    }
}

/// A copy under way.
struct Copy<'a, S, T> {
    from: &'a [S],
    fill: i32,
    out: &'a mut [T],
}

impl<S: Number, T: Number> Copy<'_, S, T> {
    /// Copies some places of the first side, all of the others. `source` is the sum of the offsets
    /// so far, `None` if there was fill.
    fn sides(&mut self, sides: &[Side], places: Range<usize>, source: Option<i64>, begin: usize) {
        let Some((side, inner)) = sides.split_first() else { return };
        let (mut at, mut before) = (begin, 0);
        for run in &side.runs {
            let clipped = clip(&places, before, count(run));
            before += count(run);
            if clipped.is_empty() {
                continue;
            }
            let (offset, step) = match *run {
                Run::Read { start, step, .. } => (source.map(|s| s + i64::from(start)), step),
                Run::Fill { .. } => (None, 0),
            };
            let step = i64::from(step);
            let offset = offset.map(|offset| offset + step * clipped.start as i64);
            let Some(next) = inner.first() else {
                self.line(at, clipped.len(), side.out_stride, offset.map(|offset| (offset, step)));
                at += clipped.len() * side.out_stride;
                continue;
            };
            let all = next.runs.iter().map(count).sum();
            for place in 0..clipped.len() as i64 {
                self.sides(inner, 0..all, offset.map(|offset| offset + step * place), at);
                at += side.out_stride;
            }
        }
    }

    /// Copies one run of the last side.
    fn line(&mut self, at: usize, len: usize, out_stride: usize, source: Option<(i64, i64)>) {
        if out_stride != 1 {
            let out = self.out[at..].iter_mut().step_by(out_stride).take(len);
            return gather(self.from, self.fill, source, out);
        }
        let out = &mut self.out[at..at + len];
        match source {
            None => out.fill(T::narrow(self.fill)),
            Some((offset, 1)) => convert(&self.from[offset as usize..][..len], out),
            Some((offset, 0)) => out.fill(T::narrow(self.from[offset as usize].into())),
            Some(_) => gather(self.from, self.fill, source, out.iter_mut()),
        }
    }
}

/// Copies one by one.
fn gather<'a, S: Number, T: Number + 'a>(
    from: &[S],
    fill: i32,
    source: Option<(i64, i64)>,
    out: impl Iterator<Item = &'a mut T>,
) {
    let Some((offset, step)) = source else { return out.for_each(|out| *out = T::narrow(fill)) };
    for (place, out) in out.enumerate() {
        *out = T::narrow(from[(offset + step * place as i64) as usize].into());
    }
}

/// The part of a run that is among some places, counted from the run's start.
fn clip(places: &Range<usize>, before: usize, count: usize) -> Range<usize> {
    let within = |place: usize| place.saturating_sub(before).min(count);
    within(places.start)..within(places.end)
}
