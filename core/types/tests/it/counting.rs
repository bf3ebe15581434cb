//! An allocator that counts, for tests of how much memory bytes of strangers can take.
//!
//! Tests of other rooms include this file: an allocator belongs to a test binary, not to a library.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

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

/// What the work gives, and the most bytes that this thread held at once meanwhile beside those it
/// held before.
pub(crate) fn most_held<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let done = work();
    (done, MOST.get() - before)
}
