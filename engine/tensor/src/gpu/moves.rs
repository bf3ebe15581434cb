//! Copies: rows by number, and blocks by a fixed map.

use super::kernels::{Kernel, Variant};
use super::launch::{Finish, Launch, RUN};
use super::memory::pack;
use super::prepare::Prepare;
use crate::program::{MovePart, Operation, Primitive, Run, Width};

/// Sides of a grid at most.
const SIDES: usize = 6;

/// Parts of a move at most, each of which is a call of its own. Joining more is rare.
const PARTS_MAX: usize = 64;

/// Source offsets in the lists of a part at most. Longer ones are rare: steps need no list.
const LIST_MAX: u64 = 1 << 22;

/// A side without a list of offsets, as `NO_LIST` of `moves.wgsl`.
const NO_LIST: u32 = u32::MAX;

/// No source, as `FILL` of `moves.wgsl`.
const FILL: i32 = i32::MIN;

/// A move, as the kernel sees it: the sides of the output and what filled places hold.
struct Frame<'a> {
    sides: &'a [u32],
    axis: usize,
    fill: i32,
    /// Whether there is only one part, so that its elements follow each other in the output.
    is_whole: bool,
    finish: Finish,
    out: Width,
}

impl Prepare<'_> {
    pub(super) fn lookup(&mut self, operation: &Operation) -> Option<Launch> {
        let Primitive::Lookup { table, indices, row } = &operation.primitive else { return None };
        let constants = vec![
            ("OUT_PACK", pack(operation.spec.width())),
            ("IS_LOOKUP", 1),
            ("X_PACK", pack(self.spec(*table)?.width())),
            ("Y_PACK", pack(self.spec(*indices)?.width())),
        ];
        let finish = Finish::clamping(&operation.spec);
        let words = words(&finish, [*row, 0, RUN, 0], &[]);
        let reads = vec![self.source(*table)?, self.source(*indices)?];
        let variant = Variant { kernel: Kernel::Moves, constants };
        Launch::by_item(self.gpu, variant, &words, reads, finish.items)
    }

    pub(super) fn moves(&mut self, operation: &Operation) -> Option<Vec<Launch>> {
        let Primitive::Move { sides, axis, parts, fill } = &operation.primitive else {
            return None;
        };
        let parts = parts.as_slice();
        if parts.len() > PARTS_MAX {
            return None;
        }
        let frame = Frame {
            sides: sides.as_slice(),
            axis: usize::from(*axis),
            fill: *fill,
            is_whole: parts.len() == 1,
            finish: Finish::clamping(&operation.spec),
            out: operation.spec.width(),
        };
        let mut begin = 0;
        let mut launches = Vec::new();
        for part in parts {
            let block = Block::new(&frame, part, begin)?;
            launches.push(self.part(&frame, part, &block)?);
            begin += block.extent;
        }
        Some(launches)
    }

    fn part(&mut self, frame: &Frame<'_>, part: &MovePart, block: &Block) -> Option<Launch> {
        let constants = vec![
            ("OUT_PACK", pack(frame.out)),
            ("IS_LOOKUP", 0),
            ("X_PACK", pack(self.spec(part.value)?.width())),
            ("Y_PACK", pack(Width::I32)),
        ];
        let items = block.len.div_ceil(block.run);
        let finish = Finish { len: block.len, items, ..frame.finish };
        let own = [0, block.first, block.run, frame.fill.cast_unsigned()];
        let words = words(&finish, own, &block.sides);
        let reads = vec![self.source(part.value)?, self.numbers(&block.list)?];
        let variant = Variant { kernel: Kernel::Moves, constants };
        Launch::by_item(self.gpu, variant, &words, reads, items)
    }
}

/// `Params` of `moves.wgsl`.
fn words(finish: &Finish, own: [u32; 4], sides: &[[u32; 8]]) -> Vec<u32> {
    let mut words = finish.words().to_vec();
    words.extend(own);
    words.extend([sides.len() as u32, 0, 0, 0]);
    words.extend(sides.iter().flatten());
    words.resize(16 + 8 * SIDES, 0);
    words
}

/// One part of a move: a block of the output.
#[derive(Debug)]
struct Block {
    /// Each side as `Side` of `moves.wgsl`.
    sides: Vec<[u32; 8]>,
    /// Offsets of the sides that need lists.
    list: Vec<i32>,
    /// Places along the axis.
    extent: u32,
    /// Elements.
    len: u32,
    /// Its first element in the output.
    first: u32,
    /// Elements that an invocation copies: those that follow each other in the output.
    run: u32,
}

impl Block {
    fn new(frame: &Frame<'_>, part: &MovePart, begin: u32) -> Option<Self> {
        let (mut sides, mut list) = (Vec::new(), Vec::new());
        let (mut stride, mut len, mut first, mut extent, mut run) = (1, 1, 0, 1, RUN);
        let runs = part.offsets.as_slice().iter().zip(frame.sides).enumerate();
        for (index, (runs, side)) in runs.rev() {
            let mut places = *side;
            let line = Line::new(runs.as_slice(), &mut list)?;
            if index == frame.axis {
                places = line.places;
                extent = places;
                first = begin * stride;
                if !(frame.is_whole || (places * stride).is_multiple_of(RUN)) {
                    run = 1;
                }
            }
            let [start, step] = [line.start, line.step].map(i32::cast_unsigned);
            sides.push([places, stride, line.list, start, step, 0, 0, 0]);
            len *= places;
            stride *= side;
        }
        sides.reverse();
        Some(Self { sides, list, extent, len, first, run })
    }
}

/// The source offsets along one side: steps, or a part of the list.
#[derive(Debug)]
struct Line {
    places: u32,
    list: u32,
    start: i32,
    step: i32,
}

impl Line {
    /// Appends to the list if one is needed. `None` if it is too long or an offset too large.
    fn new(runs: &[Run], list: &mut Vec<i32>) -> Option<Self> {
        let count = |run: &Run| match run {
            Run::Read { count, .. } | Run::Fill { count } => u64::from(*count),
        };
        let total: u64 = runs.iter().map(count).sum();
        let places = u32::try_from(total).ok()?;
        match runs {
            [Run::Fill { .. }] => Some(Self { places, list: NO_LIST, start: FILL, step: 0 }),
            [Run::Read { start, step, count }] => {
                let last = offset(*start, *step, count - 1)?;
                let start = offset(*start, 0, 0)?;
                // The kernel multiplies a place with the step: what lies between is in range too.
                (last != FILL).then_some(Self { places, list: NO_LIST, start, step: *step })
            }
            several => {
                if list.len() as u64 + total > LIST_MAX {
                    return None;
                }
                let begin = list.len() as u32;
                for run in several {
                    match run {
                        Run::Fill { count } => list.extend((0..*count).map(|_| FILL)),
                        Run::Read { start, step, count } => {
                            for place in 0..*count {
                                list.push(offset(*start, *step, place)?);
                            }
                        }
                    }
                }
                Some(Self { places, list: begin, start: 0, step: 0 })
            }
        }
    }
}

/// An offset of a run; `None` if it is not a number that a list can hold.
fn offset(start: u32, step: i32, place: u32) -> Option<i32> {
    let offset = i64::from(start) + i64::from(step) * i64::from(place);
    i32::try_from(offset).ok().filter(|offset| *offset != FILL)
}
