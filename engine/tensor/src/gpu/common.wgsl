// What all kernels share: how elements lie in memory, and how numbers are rounded.
//
// Elements lie in words as they do on the host, little end first: four bytes, two halves or one
// number in each. How many, as a power of two, is a constant of the pipeline (`..._PACK`).

override OUT_PACK: u32;

// How numbers become elements.
struct Finish {
    pre_shift: u32,
    shift: u32,
    zero: i32,
    lo: i32,
    hi: i32,
    // 1 if there is a factor for each column or place, 0 if there is one for all.
    each: u32,
    // Elements of the output.
    len: u32,
    // Work items.
    items: u32,
}

// The output. Atomic, because elements of one word may come from several invocations. It is zero
// before the kernel runs.
@group(0) @binding(1) var<storage, read_write> target_words: array<atomic<u32>>;

// The number of the workgroup or invocation, of which there may be more than one side can hold.
fn flat(at: vec3<u32>, count: vec3<u32>) -> u32 {
    return at.y * count.x + at.x;
}

// The element at an index, from its word.
fn element(word: u32, index: u32, pack: u32) -> i32 {
    if pack == 2u {
        return extractBits(bitcast<i32>(word), (index & 3u) * 8u, 8u);
    }
    if pack == 1u {
        return extractBits(bitcast<i32>(word), (index & 1u) * 16u, 16u);
    }
    return bitcast<i32>(word);
}

// Bits of a word that may straddle two.
fn put_bits(index: u32, bits: u32, low: u32, size: u32) {
    if low == 0u && size == 32u {
        atomicStore(&target_words[index], bits);
        return;
    }
    atomicOr(&target_words[index], bits << low);
    if low + size > 32u {
        atomicOr(&target_words[index + 1u], bits >> (32u - low));
    }
}

fn put_halves(index: u32, values: vec2<i32>, count: u32) {
    let first = bitcast<u32>(values.x) & 0xffffu;
    let second = select(0u, bitcast<u32>(values.y) << 16u, count > 1u);
    put_bits(index / 2u, first | second, (index & 1u) * 16u, count * 16u);
}

// Writes up to four elements that follow each other.
fn put(index: u32, values: vec4<i32>, count: u32) {
    if OUT_PACK == 2u {
        let shifts = vec4<u32>(0u, 8u, 16u, 24u);
        let kept = vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(count);
        let bytes = (bitcast<vec4<u32>>(values) & vec4<u32>(255u)) << shifts;
        let bits = select(vec4<u32>(0u), bytes, kept);
        put_bits(index / 4u, bits.x | bits.y | bits.z | bits.w, (index & 3u) * 8u, count * 8u);
        return;
    }
    if OUT_PACK == 1u {
        put_halves(index, values.xy, min(count, 2u));
        if count > 2u {
            put_halves(index + 2u, values.zw, count - 2u);
        }
        return;
    }
    for (var i = 0u; i < count; i++) {
        atomicStore(&target_words[index + i], bitcast<u32>(values[i]));
    }
}

// (value + 2^(shift-1)) >> shift. Programs are checked: the sum stays within 31 bits.
fn round_shift(value: i32, shift: u32) -> i32 {
    if shift == 0u {
        return value;
    }
    return (value + (1i << (shift - 1u))) >> shift;
}

fn rescale(sum: i32, factor: i32, how: Finish) -> i32 {
    let small = round_shift(sum, how.pre_shift);
    return clamp(round_shift(small * factor, how.shift) + how.zero, how.lo, how.hi);
}
