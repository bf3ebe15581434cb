//! Slots that nodes keep for promised jobs, and where another one has room.
//!
//! A run takes one slot of its node, from its start until a time by which it has surely ended; a
//! kept slot takes one from its beginning to its end. Whoever adds another span looks for times at
//! which fewer are taken than the node has, so a kept slot is there when it begins. Late slots are
//! preferred: what is nearer stays free for those who can use it (Chetto and Chetto, 1989). What a
//! job holds besides is kept with its slot ([`crate::ahead`]).

use std::collections::BTreeMap;

use tg_types::{DurationMs, GpuSlices, HostPart, JobId, Tick, wire};

/// From a time on, until before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it begins.
    pub from: Tick,
    /// When it is over.
    pub to: Tick,
}

impl Span {
    /// Whether there is a time in both.
    pub fn meets(self, other: Self) -> bool {
        self.from.max(other.from) < self.to.min(other.to)
    }

    /// Whether all of another is within it.
    pub fn covers(self, other: Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }

    /// Whether a time is within it.
    pub fn has(self, time: Tick) -> bool {
        self.from <= time && time < self.to
    }
}

wire! {
    /// A slot of a node that waits for a promised job, with what its run will hold.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct KeptSlot {
        /// For which.
        pub job: JobId,
        /// When the job begins at the latest.
        pub from: Tick,
        /// When it has surely ended.
        pub to: Tick,
        /// The GPUs, or the part of one, that it will have.
        pub gpus: GpuSlices,
        /// What it will have of processors and memory.
        pub host: HostPart,
    }
}

impl KeptSlot {
    /// When it takes a slot.
    pub const fn span(&self) -> Span {
        Span { from: self.from, to: self.to }
    }
}

/// How many of these spans there are at the same time, at most, within another.
pub fn busiest(spans: impl Iterator<Item = Span>, within: Span) -> usize {
    let steps = steps(spans, within);
    let at_once = steps.values().scan(0, |count: &mut i64, step| {
        *count += step;
        Some(*count)
    });
    at_once.max().and_then(|most| usize::try_from(most).ok()).unwrap_or(0)
}

/// When something may begin that takes so long within a time, on a node that has so many slots of
/// which these spans take one each: from the first to the last time of each, in their order.
pub(crate) fn starts(spans: &[Span], slots: usize, within: Span, need: DurationMs) -> Vec<Span> {
    let free = free(spans, slots, within);
    let starts = free.iter().filter_map(|span| {
        let to = start_before(span, need)?;
        Some(Span { from: span.from, to })
    });
    starts.collect()
}

/// The last time at which something that takes so long may begin within a span, if it may.
fn start_before(span: &Span, need: DurationMs) -> Option<Tick> {
    let room = span.to.since(span.from).ok()?;
    let spare = room.get().checked_sub(need.get())?;
    span.from.plus(DurationMs::new(spare)).ok()
}

/// By how many the spans grow or shrink at which time, within another.
fn steps(spans: impl Iterator<Item = Span>, within: Span) -> BTreeMap<Tick, i64> {
    let mut steps = BTreeMap::new();
    for span in spans {
        let (from, to) = (span.from.max(within.from), span.to.min(within.to));
        if from < to {
            *steps.entry(from).or_default() += 1;
            *steps.entry(to).or_default() -= 1;
        }
    }
    steps
}

/// When fewer than so many of these spans are there, within another; in their order.
fn free(spans: &[Span], slots: usize, within: Span) -> Vec<Span> {
    let slots = i64::try_from(slots).unwrap_or(i64::MAX);
    let mut free = Vec::new();
    let (mut count, mut since) = (0, (slots > 0).then_some(within.from));
    for (time, step) in steps(spans.iter().copied(), within) {
        count += step;
        match (count < slots, since) {
            (false, Some(from)) => {
                free.extend((from < time).then_some(Span { from, to: time }));
                since = None;
            }
            (true, None) => since = Some(time),
            (true, Some(_)) | (false, None) => {}
        }
    }
    let last = since.map(|from| Span { from, to: within.to });
    free.extend(last.filter(|span| span.from < span.to));
    free
}

#[cfg(test)]
mod tests {
    use super::{Span, busiest, starts};
    use tg_types::{DurationMs, Tick};

    fn span(from: u64, to: u64) -> Span {
        Span { from: Tick::new(from), to: Tick::new(to) }
    }

    fn check(spans: &[Span], slots: usize, need: u64, late: Option<u64>, early: Option<u64>) {
        let need = DurationMs::new(need);
        let found = starts(spans, slots, span(10, 100), need);
        assert_eq!(found.last().map(|span| span.to.get()), late, "latest in {spans:?}");
        let found = starts(spans, slots, span(10, u64::MAX), need);
        assert_eq!(found.first().map(|span| span.from.get()), early, "earliest in {spans:?}");
    }

    #[test]
    fn room_is_found_late_and_early_around_what_is_taken() {
        check(&[], 1, 90, Some(10), Some(10));
        check(&[], 1, 91, None, Some(10));
        check(&[], 0, 1, None, None);
        check(&[span(0, 40)], 1, 20, Some(80), Some(40));
        check(&[span(0, 40)], 2, 20, Some(80), Some(10));
        check(&[span(0, 40), span(60, 100)], 1, 20, Some(40), Some(40));
        check(&[span(0, 40), span(60, 100)], 1, 21, None, Some(100));
        check(&[span(50, 60)], 1, 40, Some(60), Some(10));
        check(&[span(0, u64::MAX)], 1, 1, None, None);
    }

    /// Goal: a slot that is found has room at all times, and no later one does. Method: random
    /// spans, held against a count at every time.
    #[test]
    fn prop_found_slots_have_room_and_none_is_later_or_earlier() {
        arbtest::arbtest(|u| {
            let spans = (0..u.int_in_range(0..=8)?).map(|_| {
                let from = u.int_in_range(0..=40_u64)?;
                Ok(span(from, from + u.int_in_range(0..=20)?))
            });
            let spans = spans.collect::<arbtest::arbitrary::Result<Vec<Span>>>()?;
            let (slots, need) = (u.int_in_range(1..=3)?, u.int_in_range(1..=20_u64)?);
            let at = |time: u64| {
                let is_here = |span: &&Span| (span.from.get()..span.to.get()).contains(&time);
                spans.iter().filter(is_here).count()
            };
            let has_room = |from: u64| (from..from + need).all(|time| at(time) < slots);
            let within = span(5, 50);
            let late = (5..=50_u64.saturating_sub(need)).rev().find(|from| has_room(*from));
            let found = starts(&spans, slots, within, DurationMs::new(need));
            assert_eq!(found.last().map(|span| span.to.get()), late);
            let all: Vec<u64> =
                found.iter().flat_map(|span| span.from.get()..=span.to.get()).collect();
            let last = 50_u64.saturating_sub(need);
            assert_eq!(all, (5..=last).filter(|from| has_room(*from)).collect::<Vec<u64>>());
            let early = (5..100).find(|from| has_room(*from));
            let found = starts(&spans, slots, span(5, u64::MAX), DurationMs::new(need));
            assert_eq!(found.first().map(|span| span.from.get()), early);
            let most = (5..50).map(at).max().unwrap_or(0);
            assert_eq!(busiest(spans.iter().copied(), within), most);
            Ok(())
        });
    }
}
