//! Look-up tables: of elements (table) and of rows (lookup).

use super::elements::{Elements, Number, Target, convert, with_elements, with_target};
use super::{Context, Scratch, Values};
use crate::kernels::{Path, look_up, look_up_bytes};
use crate::program::{Spec, ValueId, Width};
use crate::tensor::Tensor;

/// Elements that a thread takes at once at most.
const CHUNK: usize = 1 << 14;

/// Elements that are copied at once when the result is written over them.
const BLOCK: usize = 1_024;

/// The smallest number that a byte can be.
const BYTE_LO: i32 = -128;

/// How many numbers a byte can be.
const BYTES: usize = 256;

/// Look-up of each element.
#[derive(Debug)]
pub(super) struct Table {
    x: ValueId,
    /// The number of the first entry.
    lo: i32,
    /// The entries, as wide as the result. For elements of a byte there is one for every byte.
    entries: Tensor,
}

impl Table {
    /// `entries` has one for each number that `read` allows.
    pub(super) fn new(x: ValueId, entries: &[i16], read: &Spec, spec: &Spec) -> Self {
        let mut wide: Vec<i32> = entries.iter().map(|entry| (*entry).into()).collect();
        let mut lo = read.lo;
        if read.width() == Width::I8 {
            let before = (read.lo - BYTE_LO) as usize;
            wide.splice(0..0, std::iter::repeat_n(0, before));
            wide.resize(BYTES, 0);
            lo = BYTE_LO;
        }
        let entries = match spec.width() {
            Width::I8 => Tensor::I8(wide.iter().map(|entry| *entry as i8).collect()),
            Width::I16 => Tensor::I16(wide.iter().map(|entry| *entry as i16).collect()),
            Width::I32 => Tensor::I32(wide),
        };
        Self { x, lo, entries }
    }

    /// Computes the output.
    pub(super) fn run(
        &self,
        context: &Context<'_>,
        values: &Values<'_>,
        out: Target<'_>,
        scratch: &mut [Scratch],
    ) {
        let x = values.unless_overwritten(self.x);
        with_target!(out, out => {
            let ways = context.team.ways(out.len() as u64);
            let piece = context.team.piece(ways, out.len(), CHUNK);
            let chunks = out.chunks_mut(piece).enumerate();
            context.team.share(ways, scratch, chunks, |_, (index, out)| {
                let x = x.map(|x| x.part(index * piece, out.len()));
                self.look_up(context.path, x, out);
            });
        });
    }

    fn look_up<T: Entry>(&self, path: Path, x: Option<Elements<'_>>, out: &mut [T]) {
        let entries = T::of((&self.entries).into()).expect("entries are as wide as the result");
        let Some(x) = x else {
            for out in out.chunks_mut(BLOCK) {
                let mut copy = [T::narrow(0); BLOCK];
                let copy = &mut copy[..out.len()];
                copy.copy_from_slice(out);
                T::look_up(path, entries, self.lo, copy, out);
            }
            return;
        };
        match T::of(x) {
            Some(x) => T::look_up(path, entries, self.lo, x, out),
            None => with_elements!(x, x => look_up(entries, self.lo, x, out)),
        }
    }
}

/// What entries can be: look-ups that do not change the width are a case of their own.
trait Entry: Number {
    /// Elements of this width.
    fn of(elements: Elements<'_>) -> Option<&[Self]>;

    /// Looks up elements of this width.
    fn look_up(_path: Path, entries: &[Self], lo: i32, x: &[Self], out: &mut [Self]) {
        look_up(entries, lo, x, out);
    }
}

impl Entry for i8 {
    fn of(elements: Elements<'_>) -> Option<&[Self]> {
        if let Elements::I8(elements) = elements { Some(elements) } else { None }
    }

    fn look_up(path: Path, entries: &[Self], lo: i32, x: &[Self], out: &mut [Self]) {
        match entries.as_array::<BYTES>() {
            Some(entries) => look_up_bytes(path, entries, x, out),
            None => look_up(entries, lo, x, out),
        }
    }
}

impl Entry for i16 {
    fn of(elements: Elements<'_>) -> Option<&[Self]> {
        if let Elements::I16(elements) = elements { Some(elements) } else { None }
    }
}

impl Entry for i32 {
    fn of(elements: Elements<'_>) -> Option<&[Self]> {
        if let Elements::I32(elements) = elements { Some(elements) } else { None }
    }
}

/// Look-up of rows.
#[derive(Debug)]
pub(super) struct Lookup {
    /// The rows.
    pub(super) table: ValueId,
    /// Which.
    pub(super) indices: ValueId,
    /// Elements of a row.
    pub(super) row: usize,
}

impl Lookup {
    /// Computes the output.
    pub(super) fn run(
        &self,
        context: &Context<'_>,
        values: &Values<'_>,
        out: Target<'_>,
        scratch: &mut [Scratch],
    ) {
        let (table, indices) = (values.get(self.table), values.get(self.indices));
        with_target!(out, out => with_elements!(table, table => {
            let ways = context.team.ways(out.len() as u64);
            let rows = context.team.piece(ways, out.len(), CHUNK).div_ceil(self.row);
            let chunks = out.chunks_mut(rows * self.row).enumerate();
            context.team.share(ways, scratch, chunks, |_, (index, chunk)| {
                for (place, out) in chunk.chunks_mut(self.row).enumerate() {
                    let picked = indices.get(index * rows + place).unwrap_or(0);
                    let begin = picked as usize * self.row;
                    convert(&table[begin..begin + self.row], out);
                }
            });
        }));
    }
}
