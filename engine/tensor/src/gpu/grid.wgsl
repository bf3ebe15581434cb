// Operations over a grid, one element of each operand for each place: weighted sums, products,
// choices, divisions and tables. Each invocation computes four elements that follow each other.

override KIND: u32;
override A_PACK: u32;
override B_PACK: u32;
override C_PACK: u32;
override D_PACK: u32;

const JOIN: u32 = 0u;
const PRODUCT: u32 = 1u;
const SELECT: u32 = 2u;
const NORMALISE: u32 = 3u;
const TABLE: u32 = 4u;

const MANTISSA_BITS: i32 = 10;

struct Params {
    finish: Finish,
    // Added to each element of an operand.
    offsets: vec4<i32>,
    // Where the factors of each operand begin among the numbers.
    begins: vec4<u32>,
    // 1 if an operand has a factor for each place of the last side, 0 if it has one.
    eaches: vec4<u32>,
    operands: u32,
    // How many sides there are.
    sides: u32,
    // The last side.
    last: u32,
    // Whether a division is by a square root.
    is_root: u32,
    // For each side: it, and the strides of the first three operands; then that of the fourth.
    grid: array<vec4<u32>, 12>,
}

@group(0) @binding(0) var<uniform> p: Params;
// Constants and factors of sums, one factor of a product, or the entries of a table.
@group(0) @binding(2) var<storage, read> numbers: array<i32>;
@group(0) @binding(3) var<storage, read> a_words: array<u32>;
@group(0) @binding(4) var<storage, read> b_words: array<u32>;
@group(0) @binding(5) var<storage, read> c_words: array<u32>;
@group(0) @binding(6) var<storage, read> d_words: array<u32>;

// The elements of the operands at a place.
fn seen(index: u32) -> vec4<u32> {
    var rest = index;
    var found = vec4<u32>(0u);
    for (var i = p.sides; i > 0u; i--) {
        let first = p.grid[2u * i - 2u];
        let at = rest % first.x;
        rest = rest / first.x;
        found += at * vec4<u32>(first.yzw, p.grid[2u * i - 1u].x);
    }
    return found;
}

fn a_at(index: u32) -> i32 {
    return element(a_words[index >> A_PACK], index, A_PACK);
}

fn b_at(index: u32) -> i32 {
    return element(b_words[index >> B_PACK], index, B_PACK);
}

fn c_at(index: u32) -> i32 {
    return element(c_words[index >> C_PACK], index, C_PACK);
}

fn d_at(index: u32) -> i32 {
    return element(d_words[index >> D_PACK], index, D_PACK);
}

fn limited(value: i32) -> i32 {
    return clamp(value, p.finish.lo, p.finish.hi);
}

fn join(index: u32) -> i32 {
    let at = seen(index);
    let place = index % p.last;
    let factors = p.begins + p.eaches * place;
    var sum = numbers[p.finish.each * place] + a_at(at.x) * numbers[factors.x];
    if p.operands > 1u {
        sum += b_at(at.y) * numbers[factors.y];
    }
    if p.operands > 2u {
        sum += c_at(at.z) * numbers[factors.z];
    }
    if p.operands > 3u {
        sum += d_at(at.w) * numbers[factors.w];
    }
    return limited(round_shift(sum, p.finish.shift));
}

fn normalise(index: u32) -> i32 {
    let at = seen(index);
    let a = a_at(at.x) + p.offsets.x;
    let x = max(b_at(at.y), 1i);
    var exponent = 31i - i32(countLeadingZeros(x)) - MANTISSA_BITS;
    if p.is_root == 1u {
        exponent = (exponent >> 1u) * 2i;
    }
    var mantissa = x;
    if exponent >= 0i {
        mantissa = x >> u32(exponent);
    } else {
        mantissa = x << u32(-exponent);
    }
    if p.is_root == 1u {
        exponent = exponent / 2i;
    }
    let entry = numbers[mantissa - (1i << u32(MANTISSA_BITS))];
    let shift = u32(i32(p.finish.shift) + exponent);
    return limited(round_shift(a * entry, shift) + p.finish.zero);
}

fn computed(index: u32) -> i32 {
    if KIND == JOIN {
        return join(index);
    }
    if KIND == NORMALISE {
        return normalise(index);
    }
    if KIND == TABLE {
        return numbers[a_at(index) - p.offsets.x];
    }
    let at = seen(index);
    if KIND == PRODUCT {
        let product = (a_at(at.x) + p.offsets.x) * (b_at(at.y) + p.offsets.y);
        return rescale(product, numbers[0], p.finish);
    }
    if a_at(at.x) != 0i {
        return limited(b_at(at.y));
    }
    return limited(c_at(at.z));
}
