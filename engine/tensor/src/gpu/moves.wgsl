// Copies: rows by number, and blocks by a fixed map. A block is one part of a move; parts are
// written one after the other, each by its own dispatch.

override IS_LOOKUP: bool;
override X_PACK: u32;
override Y_PACK: u32;

const FILL: i32 = i32(-2147483648);

// One side of a block.
struct Side {
    // Places.
    places: u32,
    // Elements of the output from one place to the next.
    stride: u32,
    // Where its source offsets begin in the list, or NO_LIST.
    list: u32,
    // Without a list: the first offset and the distance of two, or FILL.
    start: i32,
    step: i32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

const NO_LIST: u32 = 0xffffffffu;

struct Params {
    // Its length is that of the block.
    finish: Finish,
    // Elements of a row of a look-up.
    row: u32,
    // The first element of the output that the block has.
    first: u32,
    // Elements of an item, which follow each other in the output.
    run: u32,
    fill: i32,
    sides: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
    grid: array<Side, 6>,
}

@group(0) @binding(0) var<uniform> p: Params;
// The source.
@group(0) @binding(2) var<storage, read> x_words: array<u32>;
// Numbers of rows, or lists of source offsets.
@group(0) @binding(3) var<storage, read> y_words: array<u32>;

fn x_at(index: u32) -> i32 {
    return element(x_words[index >> X_PACK], index, X_PACK);
}

fn y_at(index: u32) -> i32 {
    return element(y_words[index >> Y_PACK], index, Y_PACK);
}

// The source offset of a side; FILL is none.
fn offset(side: Side, at: u32) -> i32 {
    if side.list != NO_LIST {
        return y_at(side.list + at);
    }
    if side.start == FILL {
        return FILL;
    }
    return side.start + side.step * i32(at);
}

// The element of a block and its place in the output.
struct Moved {
    value: i32,
    place: u32,
}

fn moved(index: u32) -> Moved {
    if IS_LOOKUP {
        let picked = u32(max(y_at(index / p.row), 0i));
        return Moved(x_at(picked * p.row + index % p.row), index);
    }
    var rest = index;
    var place = p.first;
    var source = 0i;
    var is_fill = false;
    for (var i = p.sides; i > 0u; i--) {
        let side = p.grid[i - 1u];
        let at = rest % side.places;
        rest = rest / side.places;
        place += at * side.stride;
        let step = offset(side, at);
        is_fill = is_fill || step == FILL;
        source += step;
    }
    if is_fill {
        return Moved(p.fill, place);
    }
    return Moved(x_at(u32(source)), place);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) at: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let item = flat(at, workgroups) * 64u + local;
    if item >= p.finish.items {
        return;
    }
    let first = item * p.run;
    let count = min(p.run, p.finish.len - first);
    var values = vec4<i32>(0);
    var place = 0u;
    for (var i = 0u; i < count; i++) {
        let found = moved(first + i);
        values[i] = clamp(found.value, p.finish.lo, p.finish.hi);
        place = select(place, found.place, i == 0u);
    }
    put(place, values, count);
}
