//! The program's allocator: large blocks are kept for whoever needs as much next.
//!
//! The system clears every page it hands out and takes it back when the block is freed. A proof
//! needs the same hundred megabytes again and again, and clearing them was a fifth of its cost. All
//! else is left to the system's allocator.

#![expect(unsafe_code, reason = "an allocator is made of promises about pointers")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::Mutex;

/// Blocks from this size on are kept.
const LARGE_BYTES: usize = 1 << 20;
/// What all kept blocks have together, at most.
const KEPT_BYTES_MAX: usize = 384 << 20;
/// What they may have together while a block of another size is asked for. A proof of many
/// inferences needs blocks of many sizes one after the other, and again for the next proof: if each
/// made the others go, none would ever be there. More of them would make small machines pay for
/// batches they never prove.
const SPARE_BYTES_MAX: usize = 24 << 20;
/// How many blocks are kept, at most.
const KEPT_MAX: usize = 128;
/// Blocks of a coarser alignment are not kept. This one every block of the system has.
const ALIGNMENT: usize = 16;

/// The system's allocator, with a shelf for large blocks.
#[derive(Debug)]
pub struct Memory {
    shelf: Mutex<Shelf>,
}

/// Blocks that nobody uses, the oldest first.
#[derive(Debug)]
struct Shelf {
    /// Addresses and sizes.
    blocks: [(usize, usize); KEPT_MAX],
    len: usize,
    bytes: usize,
}

/// The size of the blocks that serve a layout, if they are kept: a little more than was asked for,
/// so that blocks of about the same size serve each other's purposes.
fn kept_size(layout: Layout) -> Option<usize> {
    let size = layout.size();
    if size < LARGE_BYTES || layout.align() > ALIGNMENT || size > KEPT_BYTES_MAX {
        return None;
    }
    Some(size.next_multiple_of((1 << size.ilog2()) / 8))
}

/// The layout of kept blocks of a size.
fn layout_of(size: usize) -> Option<Layout> {
    Layout::from_size_align(size, ALIGNMENT).ok()
}

impl Shelf {
    const fn new() -> Self {
        Self { blocks: [(0, 0); KEPT_MAX], len: 0, bytes: 0 }
    }

    fn remove(&mut self, place: usize) -> (usize, usize) {
        let block = self.blocks[place];
        self.blocks.copy_within(place + 1..self.len, place);
        self.len -= 1;
        self.bytes -= block.1;
        block
    }

    /// Takes the newest block of a size. If there is none, the oldest ones of as many bytes go as
    /// far as there is more than [`SPARE_BYTES_MAX`]: what is kept adds no more than that to the
    /// most that was in use.
    fn take(&mut self, size: usize) -> Option<*mut u8> {
        let found = self.blocks[..self.len].iter().rposition(|(_, found)| *found == size);
        let Some(place) = found else {
            let left = self.bytes.saturating_sub(size).max(SPARE_BYTES_MAX);
            while self.bytes > left {
                self.drop_oldest();
            }
            return None;
        };
        let (address, _) = self.remove(place);
        Some(std::ptr::with_exposed_provenance_mut(address))
    }

    fn drop_oldest(&mut self) {
        let (address, size) = self.remove(0);
        if let Some(layout) = layout_of(size) {
            // SAFETY: what is on the shelf was allocated with this layout, and nobody uses it.
            unsafe { System.dealloc(std::ptr::with_exposed_provenance_mut(address), layout) };
        }
    }

    /// Puts a block on the shelf; the oldest ones make room for it.
    fn put(&mut self, block: *mut u8, size: usize) {
        while self.len == KEPT_MAX || self.len > 0 && self.bytes + size > KEPT_BYTES_MAX {
            self.drop_oldest();
        }
        self.blocks[self.len] = (block.expose_provenance(), size);
        self.len += 1;
        self.bytes += size;
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// One that has kept nothing yet.
    pub const fn new() -> Self {
        Self { shelf: Mutex::new(Shelf::new()) }
    }

    /// A kept block of a size, if there is one. Nobody waits for the shelf.
    fn kept(&self, size: usize) -> Option<*mut u8> {
        self.shelf.try_lock().ok()?.take(size)
    }
}

// SAFETY: a block is either the system's, and goes back to it with the layout it came with, or one
// of `kept_size` bytes, which is a function of the caller's layout: the same when it comes back. A
// block is on the shelf only between the two.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(size) = kept_size(layout) else {
            // SAFETY: the caller's promise about the layout is passed on.
            return unsafe { System.alloc(layout) };
        };
        match (self.kept(size), layout_of(size)) {
            (Some(block), _) => block,
            // SAFETY: the size is not 0.
            (None, Some(layout)) => unsafe { System.alloc(layout) },
            (None, None) => null_mut(),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(size) = kept_size(layout) else {
            // SAFETY: the caller's promise about the layout is passed on.
            return unsafe { System.alloc_zeroed(layout) };
        };
        match (self.kept(size), layout_of(size)) {
            (Some(block), _) => {
                // SAFETY: the block has at least this many bytes.
                unsafe { block.write_bytes(0, layout.size()) };
                block
            }
            // SAFETY: the size is not 0.
            (None, Some(layout)) => unsafe { System.alloc_zeroed(layout) },
            (None, None) => null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(size) = kept_size(layout) else {
            // SAFETY: a block of such a layout is the system's.
            return unsafe { System.dealloc(block, layout) };
        };
        match (self.shelf.try_lock(), layout_of(size)) {
            (Ok(mut shelf), _) => shelf.put(block, size),
            // SAFETY: it was allocated with this layout.
            (Err(_), Some(layout)) => unsafe { System.dealloc(block, layout) },
            (Err(_), None) => {}
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else {
            return null_mut();
        };
        let (from, to) = (kept_size(layout), kept_size(wanted));
        if from.is_some() && from == to {
            return block;
        }
        match (from, to, from.and_then(layout_of)) {
            // SAFETY: neither is kept: the block is the system's.
            (None, None, _) => unsafe { System.realloc(block, layout, size) },
            // SAFETY: the block has the layout of kept ones. The system may move pages instead of
            // bytes.
            (Some(_), Some(to), Some(layout)) => unsafe { System.realloc(block, layout, to) },
            _ => {
                // SAFETY: the size is not 0, as the caller promises.
                let new = unsafe { self.alloc(wanted) };
                if !new.is_null() {
                    let bytes = layout.size().min(size);
                    // SAFETY: both have as many bytes and are different blocks; the old one is
                    // given back with its layout.
                    unsafe {
                        block.copy_to_nonoverlapping(new, bytes);
                        self.dealloc(block, layout);
                    }
                }
                new
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).expect("a layout")
    }

    fn kept(memory: &Memory) -> (usize, usize) {
        let shelf = memory.shelf.lock().expect("nobody panicked");
        (shelf.len, shelf.bytes)
    }

    #[test]
    fn large_block_serves_the_next_of_about_its_size() {
        let memory = Memory::new();
        let size = 3 << 20;
        // SAFETY: layouts are those the blocks came with.
        unsafe {
            let first = memory.alloc(layout(size));
            first.write_bytes(7, size);
            memory.dealloc(first, layout(size));
            let second = memory.alloc_zeroed(layout(size - 100));
            assert_eq!(first, second);
            assert!((0..size - 100).all(|at| second.add(at).read() == 0));
            assert_eq!(kept(&memory), (0, 0));
            memory.dealloc(second, layout(size - 100));
            let other = memory.alloc(layout(2 * size));
            assert_eq!(kept(&memory), (1, size), "it stays for the next of its size");
            memory.dealloc(other, layout(2 * size));
        }
        assert_eq!(kept(&memory), (2, 3 * size));
    }

    #[test]
    fn blocks_beyond_the_spare_ones_make_room_for_another_size() {
        let memory = Memory::new();
        let (size, other) = (SPARE_BYTES_MAX / 4, 3 << 20);
        // SAFETY: layouts are those the blocks came with.
        unsafe {
            let blocks: Vec<_> = (0..6).map(|_| memory.alloc(layout(size))).collect();
            blocks.into_iter().for_each(|block| memory.dealloc(block, layout(size)));
            assert_eq!(kept(&memory), (6, 6 * size));
            let one = memory.alloc(layout(other));
            assert_eq!(kept(&memory), (5, 5 * size), "the oldest made room");
            let large = memory.alloc(layout(3 * size));
            assert_eq!(kept(&memory), (4, SPARE_BYTES_MAX), "as much as is spare stays");
            memory.dealloc(one, layout(other));
            memory.dealloc(large, layout(3 * size));
        }
    }

    #[test]
    fn small_and_huge_blocks_are_not_kept_and_old_ones_go() {
        let memory = Memory::new();
        for size in [64, LARGE_BYTES - 1, KEPT_BYTES_MAX + 1] {
            // SAFETY: the layout is the one the block came with.
            unsafe { memory.dealloc(memory.alloc(layout(size)), layout(size)) };
            assert_eq!(kept(&memory), (0, 0));
        }
        let sizes: Vec<usize> = (1..40).map(|step| step << 20).collect();
        // SAFETY: layouts are those the blocks came with.
        unsafe {
            let blocks: Vec<_> = sizes.iter().map(|size| memory.alloc(layout(*size))).collect();
            for (block, size) in blocks.into_iter().zip(&sizes) {
                memory.dealloc(block, layout(*size));
                assert!(kept(&memory).1 <= KEPT_BYTES_MAX);
            }
        }
        assert!(kept(&memory).0 > 4);
    }

    /// Goal: what is in a block stays when it grows and shrinks over all limits.
    #[test]
    fn contents_survive_every_change_of_size() {
        let memory = Memory::new();
        let sizes =
            [100, LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + 1, 5 << 20, 9 << 20, 2 << 20, 50];
        // SAFETY: layouts are those the blocks have.
        unsafe {
            let mut size = 10;
            let mut block = memory.alloc(layout(size));
            (0..10).for_each(|at| block.add(at).write(at as u8));
            for next in sizes {
                block = memory.realloc(block, layout(size), next);
                size = next;
                assert!((0..10).all(|at| block.add(at).read() == at as u8));
                block.add(size - 1).write(9);
                (0..10).for_each(|at| block.add(at).write(at as u8));
            }
            memory.dealloc(block, layout(size));
        }
    }
}
