//! What our kernels are compared with: a float matrix product, and onnxruntime if it is there.

use crate::{args::model::BenchTensorArguments, failure::Failure};
use std::time::Duration;
use tg_tensor::Model;

/// A square product in `f32` by the crate `gemm`, on one thread.
pub(super) struct FloatProduct {
    side: usize,
    left: Vec<f32>,
    right: Vec<f32>,
    product: Vec<f32>,
}

impl FloatProduct {
    /// Matrices of this side, filled with small numbers.
    pub(super) fn new(side: usize) -> Self {
        let fill = |step: usize| (0..side * side).map(move |at| ((at * step) % 255) as f32 - 127.0);
        Self {
            side,
            left: fill(31).collect(),
            right: fill(57).collect(),
            product: vec![0.0; side * side],
        }
    }

    /// Multiplies once, in the layout that `gemm` likes best: a column-major product.
    pub(super) fn run(&mut self) {
        let (side, stride) = (self.side, isize::try_from(self.side).unwrap_or(0));
        let multiply = gemm_f32::gemm::f32::get_gemm_fn();
        let (to, left, right) =
            (self.product.as_mut_ptr(), self.left.as_ptr(), self.right.as_ptr());
        let alone = gemm_common::Parallelism::None;
        #[expect(unsafe_code, reason = "the peer that is measured has no safe interface")]
        // SAFETY: the three buffers have side * side elements and do not overlap, and every stride
        // is 1 or the side, so that all elements addressed lie in them.
        unsafe {
            multiply(
                side, side, side, to, stride, 1, false, left, 1, stride, right, 1, stride, 0.0,
                1.0, false, false, false, alone,
            );
        }
    }
}

/// How many times faster than onnxruntime in `f32` we are on both models; `None` if not asked for.
#[cfg(not(feature = "onnxruntime"))]
pub(super) fn ratios(
    arguments: &BenchTensorArguments,
    _lenet: &Model,
    _mlp: &Model,
    _budget: Duration,
) -> Result<Option<(f64, f64)>, Failure> {
    if arguments.onnxruntime.is_some() {
        return Err(Failure::misuse(
            "this build cannot load onnxruntime",
            "build with `cargo build --release --features onnxruntime`",
        ));
    }
    Ok(None)
}

#[cfg(feature = "onnxruntime")]
pub(super) use with_onnxruntime::ratios;

#[cfg(feature = "onnxruntime")]
mod with_onnxruntime {
    use super::super::{REPEATS_MIN, median, once, zeros};
    use super::{BenchTensorArguments, Duration, Failure, Model};
    use crate::failure::OrFail as _;
    use ort::{session::Session, value::Tensor};
    use std::{hint::black_box, path::Path, time::Instant};
    use tg_tensor::{Options, Runner};

    /// How many times faster than onnxruntime in `f32` we are on both models, one thread each.
    pub(in super::super) fn ratios(
        arguments: &BenchTensorArguments,
        lenet: &Model,
        mlp: &Model,
        budget: Duration,
    ) -> Result<Option<(f64, f64)>, Failure> {
        let Some(library) = &arguments.onnxruntime else { return Ok(None) };
        let Some(folder) = &arguments.models else {
            return Err(Failure::misuse(
                "no models to compare on",
                "give their folder with --models",
            ));
        };
        let hint = "--onnxruntime names a library such as libonnxruntime.so.1.31.1";
        let environment = ort::init_from(library)
            .or_fail("onnxruntime cannot be loaded", hint)?
            .build()
            .or_fail("onnxruntime cannot be started", hint)?;
        let ratio = |name: &str, model: &Model| -> Result<f64, Failure> {
            let path = folder.join(format!("{name}.onnx"));
            compare(&environment, &path, model, budget)
        };
        Ok(Some((ratio("lenet", lenet)?, ratio("mlp1024", mlp)?)))
    }

    fn compare(
        environment: &ort::environment::Environment,
        path: &Path,
        model: &Model,
        budget: Duration,
    ) -> Result<f64, Failure> {
        let (what, hint) = ("onnxruntime cannot run the model", "check the model");
        let mut session = Session::builder(environment)
            .or_fail(what, hint)?
            .with_intra_threads(1)
            .or_fail(what, hint)?
            .commit_from_file(path)
            .or_fail(what, hint)?;
        let shape: Vec<usize> = match model.program().inputs() {
            [input] => input.shape.as_slice().iter().map(|side| *side as usize).collect(),
            _ => return Err(Failure::new(what, "models with one input are compared")),
        };
        let numbers = vec![0.5_f32; shape.iter().product()];
        let runner = Runner::new(model.clone(), Options { threads: 1, path: None });
        let inputs = zeros(model);
        let mut times = [Vec::new(), Vec::new()];
        let started = Instant::now();
        while started.elapsed() < budget || times[0].len() < REPEATS_MIN {
            times[0].push(once(|| drop(black_box(runner.run(&inputs)))));
            let input = Tensor::from_array((shape.clone(), numbers.clone())).or_fail(what, hint)?;
            let began = Instant::now();
            let outputs = session.run(ort::inputs![input]).or_fail(what, hint)?;
            drop(black_box(outputs));
            times[1].push(began.elapsed().as_secs_f64());
        }
        let [ours, theirs] = times.map(median);
        Ok(theirs / ours)
    }
}
