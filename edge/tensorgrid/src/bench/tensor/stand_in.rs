//! Generated models of the measured sizes. Their weights are drawn from a fixed seed; what they
//! compute means nothing, how long it takes does.

use crate::failure::{Failure, OrFail as _};
use tg_tensor::program::{
    Constant, Input, Label, Multipliers, Operation, Output, Parts, Primitive, Program, Rescale,
    Shape, Spec, ValueId, Window,
};
use tg_tensor::{Model, Tensor};

/// One layer of a generated model.
enum Layer {
    /// A product with weights, to 8 bits, negative results cut off.
    Product { window: Window, columns: u32 },
    /// The largest of each window.
    Pool(Window),
}

/// A square matrix product.
pub(super) fn product(side: u32) -> Result<Model, Failure> {
    chain(side * side, &[Layer::Product { window: Window::rows(side, side), columns: side }])
}

/// Three layers of 1,024 inputs each, one row.
pub(super) fn mlp1024() -> Result<Model, Failure> {
    let layer = |columns| Layer::Product { window: Window::rows(1, 1_024), columns };
    chain(1_024, &[layer(1_024), layer(1_024), layer(10)])
}

/// Two convolutions with pools and three products over a 28 x 28 image.
pub(super) fn lenet() -> Result<Model, Failure> {
    let row = |inputs, columns| Layer::Product { window: Window::rows(1, inputs), columns };
    let layers = [
        Layer::Product { window: square(28, 1, 5, 1, 2), columns: 6 },
        Layer::Pool(square(28, 6, 2, 2, 0)),
        Layer::Product { window: square(14, 6, 5, 1, 0), columns: 16 },
        Layer::Pool(square(10, 16, 2, 2, 0)),
        row(400, 120),
        row(120, 84),
        row(84, 10),
    ];
    chain(28 * 28, &layers)
}

/// Four convolutions of 3 x 3 over 56 x 56 places with 64 channels.
pub(super) fn conv_stack() -> Result<Model, Failure> {
    let layer = || Layer::Product { window: square(56, 64, 3, 1, 1), columns: 64 };
    chain(56 * 56 * 64, &[layer(), layer(), layer(), layer()])
}

/// A square window over a square image.
fn square(side: u32, channels: u32, kernel: u32, stride: u32, pad: u32) -> Window {
    let out = (side + 2 * pad - kernel) / stride + 1;
    let pad = i32::try_from(pad).unwrap_or(0);
    Window {
        height: side,
        width: side,
        out_height: out,
        out_width: out,
        kernel_height: kernel,
        kernel_width: kernel,
        stride_height: stride,
        stride_width: stride,
        pad_top: pad,
        pad_left: pad,
        ..Window::rows(1, channels)
    }
}

const WORD: &str = "this is an error of ours";

fn chain(inputs: u32, layers: &[Layer]) -> Result<Model, Failure> {
    let refused = "a generated model is refused";
    let label = |text: &str| Label::lossy(text);
    let spec = Spec { len: inputs, lo: -128, hi: 127 };
    let shape = |len: u32| Shape::new(vec![len]).or_fail(refused, WORD);
    let mut parts = Parts::default();
    let input = Input { label: label("input"), shape: shape(inputs)?, spec, scaling: None };
    parts.inputs.push(input);
    let mut numbers = Vec::new();
    let mut chance = Chance(1);
    let products = layers.iter().filter(|layer| matches!(layer, Layer::Product { .. })).count();
    let first_made = 1 + u32::try_from(products).unwrap_or(0);
    for (place, layer) in (0_u32..).zip(layers) {
        let x = ValueId { number: if place == 0 { 0 } else { first_made + place - 1 } };
        let (primitive, len) = match layer {
            Layer::Product { window, columns } => {
                let terms = u32::try_from(window.taps()).unwrap_or(0) * window.channels;
                let weights: Vec<i64> = (0..terms * columns).map(|_| chance.weight()).collect();
                let spec = Spec { len: terms * columns, lo: -127, hi: 127 };
                let number = 1 + u32::try_from(numbers.len()).unwrap_or(0);
                let bound = bound(&weights, terms as usize);
                numbers.push(Tensor::new(&spec, &weights).or_fail(refused, WORD)?);
                let constant = Constant { label: label("weights"), shape: shape(spec.len)?, spec };
                parts.constants.push(constant);
                let multipliers = Multipliers::new(vec![1]).or_fail(refused, WORD)?;
                let shift = u8::try_from((bound / 512).max(1).ilog2()).unwrap_or(0);
                let rescale = Rescale { pre_shift: 0, multipliers, shift, zero: 0 };
                let places = u32::try_from(window.positions()).unwrap_or(0) * window.batch;
                let primitive = Primitive::Linear {
                    x,
                    weights: ValueId { number },
                    bias: None,
                    window: *window,
                    columns: *columns,
                    groups: 1,
                    pad: 0,
                    bound,
                    rescale,
                };
                (primitive, places * columns)
            }
            Layer::Pool(window) => {
                let places = u32::try_from(window.positions()).unwrap_or(0);
                (Primitive::Max { x, window: *window }, places * window.channels)
            }
        };
        let spec = Spec { len, lo: -128, hi: 127 };
        parts.operations.push(Operation { label: label("layer"), spec, primitive });
    }
    let last = u32::try_from(layers.len()).unwrap_or(0);
    let value = ValueId { number: first_made + last - 1 };
    let len = parts.operations.last().map_or(inputs, |operation| operation.spec.len);
    let output = Output { label: label("output"), shape: shape(len)?, value, scaling: None };
    parts.outputs.push(output);
    let program = Program::new(parts).or_fail(refused, WORD)?;
    Model::new(program, numbers).or_fail(refused, WORD)
}

/// The largest accumulator of inputs from -128 to 127.
fn bound(weights: &[i64], terms: usize) -> u32 {
    let sum = |column: &[i64]| column.iter().map(|weight| weight.unsigned_abs()).sum::<u64>() * 128;
    let most = weights.chunks(terms.max(1)).map(sum).max().unwrap_or(0);
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// Numbers from a seed.
struct Chance(u64);

impl Chance {
    /// A weight from -127 to 127.
    fn weight(&mut self) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        i64::try_from((self.0 >> 33) % 255).unwrap_or(0) - 127
    }
}
