// A linear operation whose groups are narrow, such as a depthwise convolution: each invocation
// computes four elements that follow each other, by themselves.

fn sum(index: u32) -> i32 {
    let column = index % p.columns;
    let group = column / p.per_group;
    let begin = origin(p.window, index / p.columns);
    let weights = column * p.depth;
    var total = 0i;
    for (var tap = 0u; tap < p.window.taps; tap++) {
        let place = place_read(p.window, begin, tap_offset(p.window, tap));
        let x = place * p.window.channels + group * p.each;
        for (var step = 0u; step < p.each; step++) {
            var a = p.pad;
            if place != NOWHERE {
                a = a_step(x + step);
            }
            total += multiply(a, b_step(weights + tap * p.each + step));
        }
    }
    return total;
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
    let first = item * 4u;
    let count = min(4u, p.finish.len - first);
    var values = vec4<i32>(0);
    for (var i = 0u; i < count; i++) {
        values[i] = finished(sum(first + i), (first + i) % p.columns);
    }
    put(first, values, count);
}
