//! The kernels against the processor. They need a device: software Vulkan will do.

use super::prepare::{FEW_ELEMENTS, LONG_FOLD};
use super::*;
use crate::model::Model;
use crate::program::{
    Constant, Input, Label, Multipliers, Operation, Output, Parts, Primitive, Program, Rescale,
    Shape, Spec, ValueId, Window,
};
use crate::sample;
use crate::tensor::Tensor;
use crate::{Options, Runner};

/// The first device, opened once: opening takes longer than most tests.
fn gpu() -> Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(open).clone()
}

/// The first device, for one test alone.
fn open() -> Gpu {
    if devices().is_empty() {
        panic!("no Vulkan device: install mesa-vulkan-drivers or run without --features wgpu");
    }
    Gpu::open(0).expect("a device that is listed can be opened")
}

const ONE_THREAD: Options = Options { threads: 1, path: None };

/// Compares all operations' outputs, then the program's, for which values stay on the device.
fn check(model: &Arc<Model>, runner: &Runner, inputs: &[Tensor]) {
    let processor = Runner::new(Arc::clone(model), ONE_THREAD);
    let expected = processor.run_keeping(inputs).expect("inputs are valid");
    let found = runner.run_keeping(inputs).expect("inputs are valid");
    let operations = model.program().operations().iter();
    for ((operation, found), expected) in operations.zip(&found).zip(&expected) {
        assert_eq!(found, expected, "{:?}", operation.primitive);
    }
    assert_eq!(found.len(), expected.len());
    assert_eq!(runner.run(inputs), processor.run(inputs));
    assert_eq!(gpu().failure(), None);
}

/// Whether an operation reads so much for so few elements that the processor may be quicker.
fn may_be_lopsided(program: &Program, operation: &Operation) -> bool {
    let is_long =
        |value: ValueId| program.spec(value).is_some_and(|spec| u64::from(spec.len) > LONG_FOLD);
    operation.spec.len < FEW_ELEMENTS && operation.primitive.reads().into_iter().any(is_long)
}

/// Goal: a GPU computes what the processor does. Method: random models and inputs, none of whose
/// operations is left to the processor, besides long folds of few elements.
#[test]
fn prop_gpu_computes_what_the_processor_does() {
    let gpu = gpu();
    arbtest::arbtest(|u| {
        let model = Arc::new(sample::model(u)?);
        let inputs = sample::inputs(u, model.program())?;
        let prepared = Prepared::new(&gpu, &model).expect("device works");
        for (operation, task) in model.program().operations().iter().zip(&prepared.tasks) {
            let is_done = task.is_some() || may_be_lopsided(model.program(), operation);
            assert!(is_done, "left to the processor: {:?}", operation.primitive);
        }
        let runner = Runner::new(Arc::clone(&model), ONE_THREAD);
        check(&model, &runner.with_device(Box::new(prepared)), &inputs);
        Ok(())
    })
    .budget_ms(20_000);
}

/// Goal: operations can be left to the processor anywhere between those of the device. Method: as
/// above, but each operation is the device's only by chance.
#[test]
fn prop_gpu_and_processor_take_turns() {
    let gpu = gpu();
    arbtest::arbtest(|u| {
        let model = Arc::new(sample::model(u)?);
        let inputs = sample::inputs(u, model.program())?;
        let mut prepared = Prepared::new(&gpu, &model).expect("device works");
        for task in &mut prepared.tasks {
            if u.ratio(1, 2)? {
                *task = None;
            }
        }
        let runner = Runner::new(Arc::clone(&model), ONE_THREAD);
        check(&model, &runner.with_device(Box::new(prepared)), &inputs);
        Ok(())
    })
    .budget_ms(10_000);
}

/// A linear operation.
#[derive(Clone, Copy)]
struct Layer {
    window: Window,
    columns: u32,
    groups: u32,
    x: (i32, i32),
    out: (i32, i32),
    pad: i32,
    has_bias: bool,
    has_factors: bool,
}

const BYTE: (i32, i32) = (-128, 127);

impl Layer {
    fn new(window: Window, columns: u32) -> Self {
        let (x, out) = (BYTE, BYTE);
        Self { window, columns, groups: 1, x, out, pad: 0, has_bias: true, has_factors: true }
    }

    fn model(&self) -> Model {
        let Self { window, columns, groups, pad, .. } = *self;
        let places = product(&[window.batch, window.height, window.width]);
        let input = spec(self.x, places * window.channels);
        let depth = window.taps() as u32 * (window.channels / groups);
        let weights = spec((-127, 127), depth * columns);
        let biases = spec((-5_000, 5_000), columns);
        let [x, w, b] = [0, 1, 2].map(|number| ValueId { number });
        let constants = vec![noise(&weights, 1), noise(&biases, 2)];
        let sum = |column: u32| -> i64 {
            let weight = |i: u32| constants[0].get(i as usize).unwrap_or(0);
            (column * depth..(column + 1) * depth).map(|i| i64::from(weight(i)).abs()).sum()
        };
        let bias = |column: u32| match self.has_bias {
            true => i64::from(constants[1].get(column as usize).unwrap_or(0)).abs(),
            false => 0,
        };
        let largest = input.magnitude().max(i64::from(pad).abs());
        let bound = (0..columns).map(|column| largest * sum(column) + bias(column)).max();
        let bound = bound.unwrap_or(0);
        let places = product(&[window.batch, window.out_height, window.out_width]);
        let out = spec(self.out, places * columns);
        let primitive = Primitive::Linear {
            x,
            weights: w,
            bias: self.has_bias.then_some(b),
            window,
            columns,
            groups,
            pad,
            bound: bound as u32,
            rescale: rescale(bound, self.out, if self.has_factors { columns } else { 1 }),
        };
        model(&[input], &[weights, biases], constants, out, primitive)
    }

    #[track_caller]
    fn check(&self) {
        let model = Arc::new(self.model());
        let inputs = [noise(&model.program().inputs()[0].spec, 3)];
        let prepared = Prepared::new(&gpu(), &model).expect("device works");
        assert!(prepared.tasks.iter().all(Option::is_some));
        let runner = Runner::new(Arc::clone(&model), ONE_THREAD);
        check(&model, &runner.with_device(Box::new(prepared)), &inputs);
    }
}

fn product(sides: &[u32]) -> u32 {
    sides.iter().product()
}

fn spec((lo, hi): (i32, i32), len: u32) -> Spec {
    Spec { len, lo, hi }
}

fn noise(spec: &Spec, seed: u64) -> Tensor {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::from(spec.lo) + (state >> 33) as i64 % (i64::from(spec.hi) - i64::from(spec.lo) + 1)
    };
    let numbers: Vec<i64> = (0..spec.len).map(|_| next()).collect();
    Tensor::new(spec, &numbers).expect("numbers are of the spec")
}

/// A rescale that fills the range of the output and is clamped at times.
fn rescale(bound: i64, out: (i32, i32), factors: u32) -> Rescale {
    let pre_shift = u8::from(bound > 1 << 20) * 8;
    let small = bound >> pre_shift;
    let factor = ((1 << 29) / (small + 1)).clamp(1, 1 << 14);
    let range = i64::from(out.1) - i64::from(out.0);
    let mut shift = 0;
    while (small * factor) >> shift > 4 * range && shift < 29 {
        shift += 1;
    }
    let multipliers = (0..factors).map(|i| (factor - i64::from(i) % factor) as i32).collect();
    let multipliers = Multipliers::new(multipliers).expect("there are not too many columns");
    Rescale { pre_shift, multipliers, shift, zero: out.0 / 3 }
}

fn model(
    inputs: &[Spec],
    constants: &[Spec],
    tensors: Vec<Tensor>,
    spec: Spec,
    primitive: Primitive,
) -> Model {
    let label = || Label::lossy("it");
    let shape = |spec: &Spec| Shape::new(vec![spec.len]).expect("one side is allowed");
    let input =
        |spec: &Spec| Input { label: label(), shape: shape(spec), spec: *spec, scaling: None };
    let constant = |spec: &Spec| Constant { label: label(), shape: shape(spec), spec: *spec };
    let value = ValueId { number: (inputs.len() + constants.len()) as u32 };
    let program = Program::new(Parts {
        inputs: inputs.iter().map(input).collect(),
        constants: constants.iter().map(constant).collect(),
        operations: vec![Operation { label: label(), spec, primitive }],
        outputs: vec![Output { label: label(), shape: shape(&spec), value, scaling: None }],
    });
    Model::new(program.expect("program is valid"), tensors).expect("model is valid")
}

/// A window over a square image with padding all around.
fn image(side: u32, channels: u32, kernel: u32) -> Window {
    Window {
        height: side,
        width: side + 1,
        out_height: side,
        out_width: side + 1,
        kernel_height: kernel,
        kernel_width: kernel,
        pad_top: (kernel / 2) as i32,
        pad_left: (kernel / 2) as i32,
        ..Window::rows(2, channels)
    }
}

#[test]
fn linear_matrix_products_cross_the_edges_of_tiles() {
    for (rows, channels, columns) in
        [(1, 4, 8), (63, 64, 65), (64, 68, 64), (65, 60, 130), (129, 3, 9), (200, 257, 31)]
    {
        let layer = Layer::new(Window::rows(rows, channels), columns);
        layer.check();
        Layer { x: (-3_000, 3_000), ..layer }.check();
        Layer { out: (-30_000, 30_000), has_bias: false, ..layer }.check();
        Layer { out: (-(1 << 24), 1 << 24), has_factors: false, ..layer }.check();
    }
}

#[test]
fn linear_windows_of_all_kinds_are_looked_at_alike() {
    for channels in [3, 8] {
        let window = image(9, channels, 3);
        let layer = Layer { pad: -7, ..Layer::new(window, 16) };
        layer.check();
        let small = Window { out_height: 4, out_width: 5, ..window };
        let strided = Window { stride_height: 2, stride_width: 2, ..small };
        Layer { window: strided, ..layer }.check();
        let dilated = Window { dilation_height: 2, dilation_width: 3, ..small };
        Layer { window: dilated, ..layer }.check();
        let cropped = Window { pad_top: -2, pad_left: -3, ..small };
        Layer { window: cropped, ..layer }.check();
        let spread = Window {
            out_height: 18,
            out_width: 29,
            spread_height: 2,
            spread_width: 3,
            pad_top: 2,
            ..window
        };
        Layer { window: spread, ..layer }.check();
        Layer { window: spread, x: (-500, 400), pad: 300, columns: 5, ..layer }.check();
    }
}

#[test]
fn linear_groups_are_kept_apart() {
    for (channels, groups, columns) in
        [(12, 12, 12), (16, 16, 32), (24, 2, 6), (24, 3, 30), (32, 4, 64), (10, 5, 80), (8, 1, 3)]
    {
        let layer = Layer { groups, pad: 3, ..Layer::new(image(7, channels, 3), columns) };
        layer.check();
        Layer { x: (0, 1_000), out: (0, 40_000), ..layer }.check();
        Layer { window: Window::rows(70, channels), ..layer }.check();
    }
}

#[test]
fn mat_mul_batches_and_offsets_of_all_widths() {
    let widths = [(-128, 127), (-1_000, 2_000), (20_000, 50_000)];
    for (batch, rows, columns, inner) in [(1, 70, 66, 64), (3, 5, 7, 10), (4, 64, 1, 8)] {
        for (index, a) in widths.into_iter().enumerate() {
            for b in &widths[..2] {
                let (offset_a, offset_b) = if index == 2 { (-35_000, 0) } else { (-50, 17) };
                let offset_b = if index == 1 { 0 } else { offset_b };
                check_mat_mul([batch, rows, columns, inner], [a, *b], [offset_a, offset_b]);
            }
        }
    }
    check_mat_mul([2, 65, 65, 128], [BYTE, BYTE], [0, 0]);
    check_mat_mul([1, 33, 100, 516], [BYTE, BYTE], [127, 0]);
}

#[track_caller]
fn check_mat_mul(sides: [u32; 4], ranges: [(i32, i32); 2], offsets: [i32; 2]) {
    let [batch, rows, columns, inner] = sides;
    // Narrow enough for the sum of the products.
    let most = (1 << 29) / i64::from(inner);
    let [mut a, mut b] = ranges;
    let magnitude =
        |(lo, hi): (i32, i32), offset: i32| i64::from((lo + offset).abs().max((hi + offset).abs()));
    while magnitude(a, offsets[0]) * magnitude(b, offsets[1]) > most {
        let middle = -offsets[0];
        a = (middle + (a.0 - middle) / 2, middle + (a.1 - middle) / 2);
        b = (b.0 / 2, b.1 / 2);
    }
    let bound = magnitude(a, offsets[0]) * magnitude(b, offsets[1]) * i64::from(inner);
    let out = (-128, 127);
    let primitive = Primitive::MatMul {
        a: ValueId { number: 0 },
        b: ValueId { number: 1 },
        batch,
        rows,
        columns,
        inner,
        offset_a: offsets[0],
        offset_b: offsets[1],
        rescale: rescale(bound, out, 1),
    };
    let inputs = [spec(a, batch * rows * inner), spec(b, batch * columns * inner)];
    let model = model(&inputs, &[], Vec::new(), spec(out, batch * rows * columns), primitive);
    let model = Arc::new(model);
    let runner = Runner::new(Arc::clone(&model), ONE_THREAD).on(&gpu()).expect("device works");
    check(&model, &runner, &[noise(&inputs[0], 4), noise(&inputs[1], 5)]);
}

/// Goal: more workgroups than one side of a dispatch can have. Method: one byte more than those
/// compute.
#[test]
fn dispatches_of_two_sides_compute_every_element() {
    let len = launch::SIDE_MAX * 64 * launch::RUN + 5;
    let input = spec(BYTE, len);
    let entries = (0..256).map(|i| (i * 7 % 256 - 128) as i16).collect();
    let entries = crate::program::Table::new(entries).expect("a table of bytes");
    let primitive = Primitive::Table { x: ValueId { number: 0 }, entries };
    let model = Arc::new(model(&[input], &[], Vec::new(), spec(BYTE, len), primitive));
    let runner = Runner::new(Arc::clone(&model), ONE_THREAD).on(&gpu()).expect("device works");
    check(&model, &runner, &[noise(&input, 6)]);
}

#[test]
fn values_too_large_for_the_device_are_left_to_the_processor() {
    let mut gpu = open();
    let opened = Arc::get_mut(&mut gpu.0).expect("nobody else has it");
    opened.bounds.value_bytes = 1_000;
    let layer = Layer::new(Window::rows(10, 64), 64);
    let model = Arc::new(layer.model());
    let prepared = Prepared::new(&gpu, &model).expect("device works");
    assert!(prepared.tasks.iter().all(Option::is_none));
    let runner = Runner::new(Arc::clone(&model), ONE_THREAD).on(&gpu).expect("device works");
    check(&model, &runner, &[noise(&spec(BYTE, 640), 3)]);
}

#[test]
fn long_folds_of_few_elements_are_left_to_the_processor() {
    let (input, out) = (spec(BYTE, 10_000), spec((0, 10_000), 1));
    let x = ValueId { number: 0 };
    let primitive = Primitive::ArgMax { x, outer: 1, len: 10_000, inner: 1 };
    let model = model(&[input], &[], Vec::new(), out, primitive);
    let prepared = Prepared::new(&gpu(), &model).expect("device works");
    assert!(prepared.tasks.iter().all(Option::is_none));
}

/// Goal: a lost device changes no result. Method: destroy it between two runs.
#[test]
fn run_on_a_lost_device_is_made_by_the_processor() {
    let gpu = open();
    let model = Arc::new(Layer::new(Window::rows(10, 64), 64).model());
    let runner = Runner::new(Arc::clone(&model), ONE_THREAD).on(&gpu).expect("device works");
    let inputs = [noise(&spec(BYTE, 640), 3)];
    let expected = Runner::new(Arc::clone(&model), ONE_THREAD).run(&inputs);
    assert_eq!(runner.run(&inputs), expected);
    assert_eq!(gpu.failure(), None);

    gpu.destroy();
    for _ in 0..3 {
        assert_eq!(runner.run(&inputs), expected);
        assert!(gpu.failure().is_some());
    }
    assert!(Runner::new(model, ONE_THREAD).on(&gpu).is_err());
}

#[test]
fn refused_commands_are_errors_and_no_panics() {
    let gpu = open();
    let too_large = gpu.reserve(u64::from(u32::MAX) << 20);
    drop(too_large);
    assert!(matches!(gpu.check(), Err(GpuError::Refused { .. } | GpuError::Memory)), "{gpu:?}");
}

#[test]
fn devices_are_listed_and_opened_by_number() {
    let all = devices();
    let gpu = gpu();
    assert_eq!(all.first(), Some(gpu.info()));
    for (index, device) in all.iter().enumerate() {
        assert_eq!(device.index, index);
        assert!(!device.name.is_empty() && !device.backend.is_empty());
    }
    let (index, found) = (all.len(), all.len());
    assert_eq!(Gpu::open(index).err(), Some(GpuError::NoDevice { index, found }));
}

#[test]
fn devices_below_the_needs_of_the_kernels_are_refused() {
    let info = gpu().info().clone();
    let needs = wgpu::Limits {
        max_compute_invocations_per_workgroup: INVOCATIONS,
        max_compute_workgroup_storage_size: WORKGROUP_BYTES,
        max_storage_buffers_per_shader_stage: BUFFERS,
        ..wgpu::Limits::default()
    };
    assert_eq!(check_limits(&info, &needs), Ok(()));
    let small = wgpu::Limits { max_compute_invocations_per_workgroup: 255, ..needs };
    let what = "invocations of a workgroup";
    let device = info.name.clone();
    let expected = GpuError::Limit { device, what, found: 255, needed: 256 };
    assert_eq!(check_limits(&info, &small), Err(expected));
}
