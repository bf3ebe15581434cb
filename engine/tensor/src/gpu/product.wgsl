// What products share: linear operations, whose factors are windows and constant weights, and
// products of two values. A step of a sum is one multiplication, or four of bytes (PACKED).

override PACKED: bool;
override WINDOWED: bool;
override OFFSETS: bool;
override A_PACK: u32;
override B_PACK: u32;

struct Params {
    finish: Finish,
    // Rows of a batch, or of all images.
    rows: u32,
    // Columns of the output.
    columns: u32,
    // Columns of a group; all of them in products of two values.
    per_group: u32,
    // Steps of a sum.
    depth: u32,
    row_tiles: u32,
    column_tiles: u32,
    // Steps from one row of the left factor to the next.
    row_steps: u32,
    // Steps from one group or batch of the left factor to the next.
    group_steps: u32,
    // Elements from one group or batch of the output to the next.
    group_elements: u32,
    // Steps that a group has of a place's channels.
    each: u32,
    // What padding counts as: an element, or the same byte four times.
    pad: u32,
    offset_a: i32,
    offset_b: i32,
    // What the offsets add to a sum by themselves, if steps are of bytes.
    offsets: i32,
    unused_0: u32,
    unused_1: u32,
    window: Window,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> a_words: array<u32>;
@group(0) @binding(3) var<storage, read> b_words: array<u32>;
// Bias and factor of each column.
@group(0) @binding(4) var<storage, read> scales: array<vec2<i32>>;

const ONES: u32 = 0x01010101u;

// A step of the left factor.
fn a_step(index: u32) -> u32 {
    if PACKED {
        return a_words[index];
    }
    return bitcast<u32>(element(a_words[index >> A_PACK], index, A_PACK) + p.offset_a);
}

// A step of the right factor.
fn b_step(index: u32) -> u32 {
    if PACKED {
        return b_words[index];
    }
    return bitcast<u32>(element(b_words[index >> B_PACK], index, B_PACK) + p.offset_b);
}

fn multiply(a: u32, b: u32) -> i32 {
    if PACKED {
        return dot4I8Packed(a, b);
    }
    return bitcast<i32>(a) * bitcast<i32>(b);
}

// The element of a sum in a column.
fn finished(sum: i32, column: u32) -> i32 {
    let scale = scales[column * p.finish.each];
    return rescale(sum + scale.x, scale.y, p.finish);
}
