// Sums and largest elements of windows, and the place of the largest element along a side. Each
// invocation computes four elements that follow each other.

override KIND: u32;
override X_PACK: u32;

const SUM: u32 = 0u;
const MAX: u32 = 1u;
const ARG_MAX: u32 = 2u;

struct Params {
    finish: Finish,
    // Added to each element of a sum, or the smallest that a largest element can be.
    offset: i32,
    // Candidates of an arg-max.
    candidates: u32,
    // Places behind the side of an arg-max.
    inner: u32,
    unused: u32,
    window: Window,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> x_words: array<u32>;
@group(0) @binding(3) var<storage, read> factors: array<i32>;

fn x_at(index: u32) -> i32 {
    return element(x_words[index >> X_PACK], index, X_PACK);
}

fn arg_max(index: u32) -> i32 {
    let first = index / p.inner * p.candidates * p.inner + index % p.inner;
    var best = x_at(first);
    var place = 0u;
    for (var i = 1u; i < p.candidates; i++) {
        let value = x_at(first + i * p.inner);
        if value > best {
            best = value;
            place = i;
        }
    }
    return clamp(i32(place), p.finish.lo, p.finish.hi);
}

fn computed(index: u32) -> i32 {
    if KIND == ARG_MAX {
        return arg_max(index);
    }
    let place = index / p.window.channels;
    let channel = index % p.window.channels;
    let begin = origin(p.window, place);
    var state = select(0i, p.offset, KIND == MAX);
    for (var tap = 0u; tap < p.window.taps; tap++) {
        let read = place_read(p.window, begin, tap_offset(p.window, tap));
        if read != NOWHERE {
            let x = x_at(read * p.window.channels + channel);
            state = select(state + x + p.offset, max(state, x), KIND == MAX);
        }
    }
    if KIND == MAX {
        return clamp(state, p.finish.lo, p.finish.hi);
    }
    return rescale(state, factors[place % p.window.positions * p.finish.each], p.finish);
}
