//! How many devices are spoken for at which time, row by row.
//!
//! A row is a machine or a whole pool. It is a step function: a width holds from its time on until
//! the next. Work with a deadline is entered as late as it can be, so what is nearer stays free for
//! those who can use it; Chetto and Chetto (1989) show that nothing entered so keeps more room for
//! others. Every search looks at a bounded number of steps.

use super::kept::Kept;

/// Steps that one search looks at: beyond, the row counts as full. At 40 ns each this is 0.2 ms.
const LOOKS_MAX: usize = 4_096;

/// From a time on, until before another, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Room that is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    /// Where.
    pub(crate) row: u32,
    /// Between which times.
    pub(crate) within: Span,
    /// How long, in all.
    pub(crate) need: u64,
    /// How many devices.
    pub(crate) width: u32,
    /// How many devices there are.
    pub(crate) capacity: u32,
    /// What every further piece costs.
    pub(crate) piece_cost: u64,
    /// In how many pieces at most.
    pub(crate) pieces_max: usize,
}

/// Devices spoken for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timetable {
    pub(crate) steps: Kept<(u32, u64), u32>,
}

impl Timetable {
    /// The width at a time.
    pub(crate) fn width(&self, row: u32, at: u64) -> u32 {
        self.steps.range((row, 0)..=(row, at)).next_back().map_or(0, |(_, width)| *width)
    }

    /// The largest width within a span.
    pub(crate) fn most(&self, row: u32, span: Span) -> u32 {
        let inner = self.steps.range((row, span.from)..(row, span.to.max(span.from)));
        let inner = inner.map(|(_, width)| *width).max().unwrap_or(0);
        inner.max(self.width(row, span.from))
    }

    /// Speaks for devices.
    pub(crate) fn enter(&mut self, row: u32, span: Span, width: u32) {
        self.shift(row, span, |old| old.saturating_add(width));
    }

    /// Gives them back.
    pub(crate) fn clear(&mut self, row: u32, span: Span, width: u32) {
        self.shift(row, span, |old| old.saturating_sub(width));
    }

    fn shift(&mut self, row: u32, span: Span, change: impl Fn(u32) -> u32) {
        if span.from >= span.to {
            return;
        }
        let after = self.width(row, span.to);
        let before = span.from.checked_sub(1).map_or(0, |time| self.width(row, time));
        let start = self.width(row, span.from);
        let inner: Vec<(u32, u64)> =
            self.steps.range((row, span.from)..(row, span.to)).map(|(key, _)| *key).collect();
        let mut last = before;
        let mut set = |steps: &mut Kept<(u32, u64), u32>, time: u64, width: u32| {
            let held = steps.get(&(row, time)).copied();
            if width == last {
                steps.remove(&(row, time));
            } else if held != Some(width) {
                steps.insert((row, time), width);
            }
            last = width;
        };
        if inner.first().is_none_or(|(_, time)| *time > span.from) {
            set(&mut self.steps, span.from, change(start));
        }
        for key in inner {
            let old = self.steps.get(&key).copied().unwrap_or(0);
            set(&mut self.steps, key.1, change(old));
        }
        set(&mut self.steps, span.to, after);
    }

    /// Drops what lies before a time; the width at that time stays.
    pub(crate) fn forget(&mut self, row: u32, before: u64) {
        let old: Vec<(u32, u64)> =
            self.steps.range((row, 0)..(row, before)).map(|(key, _)| *key).collect();
        let Some(last) = old.last() else { return };
        let width = self.steps.get(last).copied().unwrap_or(0);
        for key in old {
            self.steps.remove(&key);
        }
        if self.steps.get(&(row, before)).is_none() && width > 0 {
            self.steps.insert((row, before), width);
        }
    }

    /// The latest room, in time order; `None` if there is not enough.
    pub(crate) fn latest(&self, want: &Want) -> Option<Vec<Span>> {
        let Want { row, within, width, capacity, .. } = *want;
        let allowed = capacity.checked_sub(width)?;
        let mut left = want.need;
        let mut pieces: Vec<Span> = Vec::new();
        let mut end = within.to;
        // The end of the gap that is being walked through.
        let mut gap: Option<u64> = None;
        let steps = self.steps.range((row, 0)..(row, within.to)).rev();
        let steps = steps.map(|((_, time), booked)| (*time, *booked));
        for (time, booked) in steps.chain([(0, 0)]).take(LOOKS_MAX) {
            let from = time.max(within.from);
            if from < end {
                if booked <= allowed {
                    let close = *gap.get_or_insert(end);
                    if close - from >= left {
                        pieces.push(Span { from: close - left, to: close });
                        pieces.reverse();
                        return Some(pieces);
                    }
                } else {
                    left = take(&mut pieces, gap.take(), end, left, want)?;
                }
                end = from;
            }
            if time <= within.from {
                break;
            }
        }
        None
    }

    /// The earliest time from which on there is room in one piece.
    pub(crate) fn earliest(&self, want: &Want) -> Option<u64> {
        let Want { row, within, width, capacity, need, .. } = *want;
        let allowed = capacity.checked_sub(width)?;
        let mut from = (self.width(row, within.from) <= allowed).then_some(within.from);
        let later = self.steps.range((row, within.from.saturating_add(1))..=(row, u64::MAX));
        for (looks, ((_, time), booked)) in later.enumerate() {
            if from.is_some_and(|from| *time - from >= need) {
                break;
            }
            if looks >= LOOKS_MAX {
                return None;
            }
            if *booked > allowed {
                from = None;
            } else if from.is_none() {
                from = Some(*time);
            }
        }
        from.filter(|from| from.checked_add(need).is_some_and(|end| end <= within.to))
    }
}

/// Takes a gap whole if it is worth a piece. Returns what is still needed; `None` if there would be
/// too many pieces.
fn take(
    pieces: &mut Vec<Span>,
    close: Option<u64>,
    open: u64,
    left: u64,
    want: &Want,
) -> Option<u64> {
    let Some(close) = close else { return Some(left) };
    if close - open <= want.piece_cost.saturating_mul(2) {
        return Some(left);
    }
    pieces.push(Span { from: open, to: close });
    if pieces.len() >= want.pieces_max {
        return None;
    }
    Some(left - (close - open) + want.piece_cost)
}
