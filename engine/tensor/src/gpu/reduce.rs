//! Sums and largest elements of windows, and places of largest elements.

use super::kernels::{Kernel, Variant};
use super::launch::{Finish, Launch, window_words};
use super::memory::pack;
use super::prepare::{Prepare, is_lopsided};
use crate::program::{Operation, Primitive, ValueId, Window};

/// An operation, as `Params` of `reduce.wgsl`.
#[derive(Debug)]
struct Reduce<'a> {
    /// `KIND`: 0 sum, 1 maximum, 2 place of the maximum.
    kind: u32,
    x: ValueId,
    finish: Finish,
    offset: i32,
    candidates: u32,
    inner: u32,
    window: Window,
    terms: u64,
    factors: &'a [i32],
}

impl Prepare<'_> {
    pub(super) fn reduce(&mut self, operation: &Operation) -> Option<Launch> {
        let spec = &operation.spec;
        let plain = |x: ValueId, window: Window| Reduce {
            kind: 0,
            x,
            finish: Finish::clamping(spec),
            offset: 0,
            candidates: 0,
            inner: 1,
            window,
            terms: window.taps(),
            factors: &[1],
        };
        let reduce = match &operation.primitive {
            Primitive::Sum { x, window, offset, rescale } => Reduce {
                finish: Finish::rescaling(rescale, spec),
                offset: *offset,
                factors: rescale.multipliers.as_slice(),
                ..plain(*x, *window)
            },
            Primitive::Max { x, window } => {
                Reduce { kind: 1, offset: self.spec(*x)?.lo, ..plain(*x, *window) }
            }
            Primitive::ArgMax { x, len, inner, .. } => Reduce {
                kind: 2,
                candidates: *len,
                inner: *inner,
                terms: (*len).into(),
                ..plain(*x, Window::rows(1, 1))
            },
            Primitive::Linear { .. }
            | Primitive::MatMul { .. }
            | Primitive::Join { .. }
            | Primitive::Product { .. }
            | Primitive::Table { .. }
            | Primitive::Normalise { .. }
            | Primitive::Move { .. }
            | Primitive::Select { .. }
            | Primitive::Lookup { .. } => return None,
        };
        if is_lopsided(spec.len, reduce.terms) {
            return None;
        }
        let constants = vec![
            ("OUT_PACK", pack(spec.width())),
            ("KIND", reduce.kind),
            ("X_PACK", pack(self.spec(reduce.x)?.width())),
        ];
        let variant = Variant { kernel: Kernel::Reduce, constants };
        let own = [reduce.offset.cast_unsigned(), reduce.candidates, reduce.inner, 0];
        let window = window_words(&reduce.window, 1)?;
        let words = [&reduce.finish.words()[..], &own, &window].concat();
        let reads = vec![self.source(reduce.x)?, self.numbers(reduce.factors)?];
        Launch::by_item(self.gpu, variant, &words, reads, reduce.finish.items)
    }
}
