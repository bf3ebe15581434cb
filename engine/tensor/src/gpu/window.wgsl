// Windows over [batch, height, width, channels].

struct Window {
    height: u32,
    width: u32,
    // In steps.
    channels: u32,
    out_width: u32,
    // Output places of an image.
    positions: u32,
    kernel_width: u32,
    // Taps of a window.
    taps: u32,
    unused: u32,
    stride_height: u32,
    stride_width: u32,
    dilation_height: u32,
    dilation_width: u32,
    pad_top: i32,
    pad_left: i32,
    spread_height: u32,
    spread_width: u32,
}

// Where the window of an output place begins.
struct Origin {
    // The first place of its image.
    place: u32,
    row: i32,
    column: i32,
}

const NOWHERE: u32 = 0xffffffffu;

fn origin(window: Window, place: u32) -> Origin {
    let image = place / window.positions;
    let position = place % window.positions;
    let row = i32((position / window.out_width) * window.stride_height) - window.pad_top;
    let column = i32((position % window.out_width) * window.stride_width) - window.pad_left;
    return Origin(image * window.height * window.width, row, column);
}

// The line that is read; NOWHERE is padding.
fn line(at: i32, spread: u32, lines: u32) -> u32 {
    if at < 0i {
        return NOWHERE;
    }
    var found = u32(at);
    if spread > 1u {
        if found % spread != 0u {
            return NOWHERE;
        }
        found = found / spread;
    }
    return select(NOWHERE, found, found < lines);
}

// How far a tap lies from where the window begins.
fn tap_offset(window: Window, tap: u32) -> vec2<i32> {
    let down = (tap / window.kernel_width) * window.dilation_height;
    let right = (tap % window.kernel_width) * window.dilation_width;
    return vec2<i32>(i32(down), i32(right));
}

// The place that a tap reads; NOWHERE is padding.
fn place_read(window: Window, begin: Origin, offset: vec2<i32>) -> u32 {
    let row = line(begin.row + offset.x, window.spread_height, window.height);
    let column = line(begin.column + offset.y, window.spread_width, window.width);
    if row == NOWHERE || column == NOWHERE {
        return NOWHERE;
    }
    return begin.place + row * window.width + column;
}
