// A product, tile by tile: 64 rows and 64 columns for each workgroup, 4 by 4 for each invocation.
// Both factors pass through the workgroup's memory, 16 steps at a time.

const SIDE: u32 = 64u;
const STEPS: u32 = 16u;
// One more than the side, so that neighbours write to different banks.
const STRIDE: u32 = 65u;

var<workgroup> left: array<u32, 1040>;
var<workgroup> right: array<u32, 1040>;

// Where a step of the sums lies: in the row, or in the window and among its channels.
struct Step {
    number: u32,
    offset: vec2<i32>,
    channel: u32,
}

fn step_at(group: u32, number: u32) -> Step {
    if !WINDOWED {
        return Step(number, vec2<i32>(0), 0u);
    }
    let channel = group * p.each + number % p.each;
    return Step(number, tap_offset(p.window, number / p.each), channel);
}

// The step of a row; `begin` is where the row's window or the row itself begins.
fn left_step(begin: Origin, step: Step) -> u32 {
    if !WINDOWED {
        return a_step(begin.place + step.number);
    }
    let place = place_read(p.window, begin, step.offset);
    if place == NOWHERE {
        return p.pad;
    }
    return a_step(place * p.window.channels + step.channel);
}

fn row_begin(group: u32, row: u32) -> Origin {
    if WINDOWED {
        return origin(p.window, row);
    }
    return Origin(group * p.group_steps + row * p.row_steps, 0i, 0i);
}

fn products(a: u32, b: vec4<u32>) -> vec4<i32> {
    return vec4<i32>(
        multiply(a, b.x), multiply(a, b.y), multiply(a, b.z), multiply(a, b.w),
    );
}

fn write_row(group: u32, row: u32, column: u32, sums: vec4<i32>) {
    if row >= p.rows || column >= p.per_group {
        return;
    }
    let count = min(4u, p.per_group - column);
    let first = group * p.per_group + column;
    var values = vec4<i32>(0);
    for (var i = 0u; i < count; i++) {
        values[i] = finished(sums[i], first + i);
    }
    put(group * p.group_elements + row * p.columns + column, values, count);
}

@compute @workgroup_size(16, 16)
fn main(
    @builtin(workgroup_id) at: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_id) mine: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = flat(at, workgroups);
    if tile >= p.finish.items {
        return;
    }
    let first_column = (tile % p.column_tiles) * SIDE;
    let first_row = (tile / p.column_tiles % p.row_tiles) * SIDE;
    let group = tile / p.column_tiles / p.row_tiles;

    // Each invocation loads one step of four rows and of four columns.
    let lane = local / STEPS;
    let own_step = local % STEPS;
    var begins: array<Origin, 4>;
    for (var i = 0u; i < 4u; i++) {
        begins[i] = row_begin(group, min(first_row + lane + i * 16u, p.rows - 1u));
    }
    var s0 = vec4<i32>(0);
    var s1 = vec4<i32>(0);
    var s2 = vec4<i32>(0);
    var s3 = vec4<i32>(0);
    var row_sums = vec4<i32>(0);
    var column_sums = vec4<i32>(0);
    for (var done = 0u; done < p.depth; done += STEPS) {
        let number = done + own_step;
        let step = step_at(group, number);
        for (var i = 0u; i < 4u; i++) {
            let side = lane + i * 16u;
            let column = first_column + side;
            var a = 0u;
            var b = 0u;
            if number < p.depth && first_row + side < p.rows {
                a = left_step(begins[i], step);
            }
            if number < p.depth && column < p.per_group {
                b = b_step((group * p.per_group + column) * p.depth + number);
            }
            left[own_step * STRIDE + side] = a;
            right[own_step * STRIDE + side] = b;
        }
        workgroupBarrier();
        for (var k = 0u; k < STEPS; k++) {
            let l = k * STRIDE + mine.y * 4u;
            let r = k * STRIDE + mine.x * 4u;
            let a = vec4<u32>(left[l], left[l + 1u], left[l + 2u], left[l + 3u]);
            let b = vec4<u32>(right[r], right[r + 1u], right[r + 2u], right[r + 3u]);
            s0 += products(a.x, b);
            s1 += products(a.y, b);
            s2 += products(a.z, b);
            s3 += products(a.w, b);
            if OFFSETS {
                row_sums += products(ONES, a);
                column_sums += products(ONES, b);
            }
        }
        workgroupBarrier();
    }
    if OFFSETS {
        let by_column = column_sums * p.offset_a + vec4<i32>(p.offsets);
        s0 += by_column + vec4<i32>(row_sums.x * p.offset_b);
        s1 += by_column + vec4<i32>(row_sums.y * p.offset_b);
        s2 += by_column + vec4<i32>(row_sums.z * p.offset_b);
        s3 += by_column + vec4<i32>(row_sums.w * p.offset_b);
    }
    let row = first_row + mine.y * 4u;
    let column = first_column + mine.x * 4u;
    write_row(group, row, column, s0);
    write_row(group, row + 1u, column, s1);
    write_row(group, row + 2u, column, s2);
    write_row(group, row + 3u, column, s3);
}
