// A linear operation whose groups are narrow, such as a depthwise convolution: each invocation
// computes its elements by itself.

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

fn computed(index: u32) -> i32 {
    return finished(sum(index), index % p.columns);
}
