// Kernels that compute every element by itself: each invocation computes four that follow each other,
// so that few of them write into one word. `computed` comes from the kernel.

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
        values[i] = computed(first + i);
    }
    put(first, values, count);
}
