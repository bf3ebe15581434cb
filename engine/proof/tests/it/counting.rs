//! What a piece of work holds in memory, and how long it takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The bytes a thread holds, and the most it has held since it was last asked.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[expect(unsafe_code, reason = "counting what is allocated needs an allocator")]
// SAFETY: every call goes to the system's allocator unchanged; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.get().wrapping_add(layout.size());
        HELD.set(held);
        MOST.set(MOST.get().max(held));
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promise about pointer and layout is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What a piece of work may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Bytes that it may hold at once.
    pub(crate) held: usize,
    pub(crate) time: Duration,
}

/// What a piece of work gave, and what it took.
pub(crate) fn measured<R>(work: impl FnOnce() -> R) -> (R, Bounds) {
    let (before, begun) = (HELD.get(), Instant::now());
    MOST.set(before);
    let made = work();
    (made, Bounds { held: MOST.get() - before, time: begun.elapsed() })
}

/// What a piece of work gave that stayed within its bounds.
pub(crate) fn bounded<R>(bounds: Bounds, work: impl FnOnce() -> R) -> R {
    let (made, took) = measured(work);
    assert!(took.held <= bounds.held && took.time <= bounds.time, "{took:?} of {bounds:?}");
    made
}
