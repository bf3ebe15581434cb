// Fills a part of one slice of a memory, as `capacity.rs` defines it: a workgroup for each lane.
//
// A block is 256 words, little end first, as on the host. The block before and its hash stay with
// the workgroup; the other block is read from the buffer of its slice. Blocks that come from the
// seed and their hashes are there already.

struct Part {
    // Which slice, and the blocks of a slice and of a lane in it.
    slice: u32,
    slice_blocks: u32,
    segment_blocks: u32,
    // The blocks of every lane's segment that are filled now: from the first up to the last one.
    first: u32,
    last: u32,
}

const WORDS: u32 = 256u;
const INVOCATIONS: u32 = 64u;

// Chunks of 64 bytes that SHA-256 takes for a block: 16 with the block, one with its length.
const CHUNKS: u32 = 17u;
const BLOCK_BITS: u32 = 8192u;

@group(0) @binding(0) var<uniform> part: Part;
@group(0) @binding(1) var<storage, read_write> leaves: array<u32>;
@group(0) @binding(2) var<storage, read_write> slice_0: array<u32>;
@group(0) @binding(3) var<storage, read_write> slice_1: array<u32>;
@group(0) @binding(4) var<storage, read_write> slice_2: array<u32>;
@group(0) @binding(5) var<storage, read_write> slice_3: array<u32>;

var<workgroup> before: array<u32, WORDS>;
var<workgroup> other: array<u32, WORDS>;
var<workgroup> hash: array<u32, 8>;
// The words of all rounds of all chunks, with the constants of the rounds added.
var<workgroup> rounds: array<u32, CHUNKS * 64u>;

// FIPS 180-4, 4.2.2.
const ROUND: array<u32, 64> = array<u32, 64>(
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u,
    0xab1c5ed5u, 0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu,
    0x9bdc06a7u, 0xc19bf174u, 0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu,
    0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau, 0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u,
    0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u, 0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu,
    0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u, 0xa2bfe8a1u, 0xa81a664bu,
    0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u, 0x19a4c116u,
    0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u,
    0xc67178f2u,
);

fn load(slice: u32, at: u32) -> u32 {
    switch slice {
        case 0u: { return slice_0[at]; }
        case 1u: { return slice_1[at]; }
        case 2u: { return slice_2[at]; }
        default: { return slice_3[at]; }
    }
}

fn store(slice: u32, at: u32, word: u32) {
    switch slice {
        case 0u: { slice_0[at] = word; }
        case 1u: { slice_1[at] = word; }
        case 2u: { slice_2[at] = word; }
        default: { slice_3[at] = word; }
    }
}

// The words of a block are loaded and stored by all invocations together.
fn load_before(slice: u32, block: u32, local: u32) {
    for (var at = local; at < WORDS; at += INVOCATIONS) {
        before[at] = load(slice, block * WORDS + at);
    }
}

fn load_other(slice: u32, block: u32, local: u32) {
    for (var at = local; at < WORDS; at += INVOCATIONS) {
        other[at] = load(slice, block * WORDS + at);
    }
}

fn turn(word: u32, bits: u32) -> u32 {
    return (word >> bits) | (word << (32u - bits));
}

fn swapped(word: u32) -> u32 {
    let outer = (word << 24u) | (word >> 24u);
    return outer | ((word & 0xff00u) << 8u) | ((word >> 8u) & 0xff00u);
}

// The words of one chunk's rounds: each chunk is one invocation's.
fn schedule(chunk: u32) {
    var last: array<u32, 16>;
    for (var i = 0u; i < 16u; i++) {
        if chunk < CHUNKS - 1u {
            last[i] = swapped(before[chunk * 16u + i]);
        } else {
            last[i] = select(select(0u, BLOCK_BITS, i == 15u), 0x80000000u, i == 0u);
        }
    }
    for (var i = 0u; i < 64u; i++) {
        let at = i & 15u;
        if i >= 16u {
            let two = last[(i + 14u) & 15u];
            let fifteen = last[(i + 1u) & 15u];
            let high = turn(two, 17u) ^ turn(two, 19u) ^ (two >> 10u);
            let low = turn(fifteen, 7u) ^ turn(fifteen, 18u) ^ (fifteen >> 3u);
            last[at] = high + last[(i + 9u) & 15u] + low + last[at];
        }
        rounds[chunk * 64u + i] += last[at];
    }
}

// The rounds of all chunks, one after the other: no two invocations can share them.
fn digest() {
    var s0 = 0x6a09e667u; var s1 = 0xbb67ae85u; var s2 = 0x3c6ef372u; var s3 = 0xa54ff53au;
    var s4 = 0x510e527fu; var s5 = 0x9b05688cu; var s6 = 0x1f83d9abu; var s7 = 0x5be0cd19u;
    for (var chunk = 0u; chunk < CHUNKS; chunk++) {
        var a = s0; var b = s1; var c = s2; var d = s3;
        var e = s4; var f = s5; var g = s6; var h = s7;
        for (var i = 0u; i < 64u; i++) {
            let choice = (e & f) ^ (~e & g);
            let high = turn(e, 6u) ^ turn(e, 11u) ^ turn(e, 25u);
            let first = h + high + choice + rounds[chunk * 64u + i];
            let majority = (a & b) ^ (a & c) ^ (b & c);
            let low = turn(a, 2u) ^ turn(a, 13u) ^ turn(a, 22u);
            h = g; g = f; f = e;
            e = d + first;
            d = c; c = b; b = a;
            a = first + low + majority;
        }
        s0 += a; s1 += b; s2 += c; s3 += d;
        s4 += e; s5 += f; s6 += g; s7 += h;
    }
    hash[0] = s0; hash[1] = s1; hash[2] = s2; hash[3] = s3;
    hash[4] = s4; hash[5] = s5; hash[6] = s6; hash[7] = s7;
}

// The remainder of the first 64 bits of the hash. Divisors are below 2^22, so ten bits more fit.
fn lot(divisor: u32) -> u32 {
    var rest = hash[0] % divisor;
    let low = hash[1];
    rest = ((rest << 10u) | (low >> 22u)) % divisor;
    rest = ((rest << 10u) | ((low >> 12u) & 1023u)) % divisor;
    rest = ((rest << 10u) | ((low >> 2u) & 1023u)) % divisor;
    return ((rest << 2u) | (low & 3u)) % divisor;
}

// Four bytes of the hash from a place on; after the last comes the first.
fn mask(place: u32) -> u32 {
    var word = 0u;
    for (var i = 0u; i < 4u; i++) {
        let at = (place + i) & 31u;
        let byte = (hash[at >> 2u] >> (24u - 8u * (at & 3u))) & 255u;
        word |= byte << (8u * i);
    }
    return word;
}

fn bytes(word: u32) -> vec4<i32> {
    let signed = vec4<i32>(bitcast<i32>(word));
    return (signed << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u);
}

// Four bytes of the product of both blocks: the row and the four columns of a word.
fn product(word: u32) -> u32 {
    let row = word / 8u;
    let columns = word % 8u;
    var sums = vec4<i32>(256);
    for (var k = 0u; k < 32u; k += 4u) {
        let x = bytes(before[row * 8u + k / 4u]);
        sums += x.x * bytes(other[k * 8u + columns]);
        sums += x.y * bytes(other[(k + 1u) * 8u + columns]);
        sums += x.z * bytes(other[(k + 2u) * 8u + columns]);
        sums += x.w * bytes(other[(k + 3u) * 8u + columns]);
    }
    let rounded = clamp(sums >> vec4<u32>(9u), vec4<i32>(-128), vec4<i32>(127));
    let packed = (bitcast<vec4<u32>>(rounded) & vec4<u32>(255u)) << vec4<u32>(0u, 8u, 16u, 24u);
    let combined = packed.x | packed.y | packed.z | packed.w;
    return combined ^ other[word] ^ mask(row + 4u * columns);
}

@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let lane = group.x;
    let start = lane * part.segment_blocks;
    let finished = part.slice * part.slice_blocks;
    // The block before the first one: of this segment, or the last of the lane in the last slice.
    var slice_before = part.slice;
    var block_before = start + part.first - 1u;
    if part.first == 0u {
        slice_before = part.slice - 1u;
        block_before = start + part.segment_blocks - 1u;
    }
    load_before(slice_before, block_before, local);
    if local < 8u {
        hash[local] = leaves[(slice_before * part.slice_blocks + block_before) * 8u + local];
    }
    let round = ROUND[local];
    workgroupBarrier();

    for (var step = part.first; step < part.last; step++) {
        let step_before = max(step, 1u) - 1u;
        let chosen = lot(max(finished + step_before, 1u));
        if chosen < finished {
            load_other(chosen / part.slice_blocks, chosen % part.slice_blocks, local);
        } else {
            load_other(part.slice, start + chosen - finished, local);
        }
        for (var chunk = 0u; chunk < CHUNKS; chunk++) {
            rounds[chunk * 64u + local] = round;
        }
        workgroupBarrier();

        let p0 = product(local);
        let p1 = product(local + INVOCATIONS);
        let p2 = product(local + 2u * INVOCATIONS);
        let p3 = product(local + 3u * INVOCATIONS);
        workgroupBarrier();

        let to = (start + step) * WORDS + local;
        before[local] = p0;
        before[local + INVOCATIONS] = p1;
        before[local + 2u * INVOCATIONS] = p2;
        before[local + 3u * INVOCATIONS] = p3;
        store(part.slice, to, p0);
        store(part.slice, to + INVOCATIONS, p1);
        store(part.slice, to + 2u * INVOCATIONS, p2);
        store(part.slice, to + 3u * INVOCATIONS, p3);
        // Later steps read the block from its buffer, by other invocations than wrote it.
        storageBarrier();
        workgroupBarrier();

        if local < CHUNKS {
            schedule(local);
        }
        workgroupBarrier();
        if local == 0u {
            digest();
        }
        workgroupBarrier();
        if local < 8u {
            leaves[(finished + start + step) * 8u + local] = hash[local];
        }
    }
}
