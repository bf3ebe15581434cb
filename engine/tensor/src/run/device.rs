//! A device besides the processor, as a runner sees it.
//!
//! The runner stays in charge: it asks a device for whole operations, fetches what the processor
//! reads, and begins anew without the device if that fails. So a device can be lost at any moment,
//! and no result depends on whether there is one.

use super::{Elements, Target};
use crate::program::ValueId;
use std::fmt::Debug;

/// The device cannot go on. It knows itself what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceFailed;

/// A device that a model has been made ready for.
pub(crate) trait Device: Debug + Send + Sync {
    /// Whether it computes an operation. The answer never changes.
    fn takes(&self, operation: usize) -> bool;

    /// Begins a run; `None` if it has failed before.
    fn begin(&self) -> Option<Box<dyn Session + '_>>;
}

/// One run on a device.
pub(crate) trait Session {
    /// Computes an operation that the device takes. `host` gives what the device does not have:
    /// inputs and what the processor computed.
    fn compute<'h>(
        &mut self,
        operation: usize,
        host: &dyn Fn(ValueId) -> Elements<'h>,
    ) -> Result<(), DeviceFailed>;

    /// Copies the output of an operation that the device computed. It is not finished with yet.
    fn fetch(&mut self, operation: usize, out: Target<'_>) -> Result<(), DeviceFailed>;

    /// An operation is done, here or on the processor: values that nobody reads after it may go.
    fn finished(&mut self, operation: usize);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Place, Program};
    use crate::run::{Options, Runner};
    use crate::sample;
    use crate::tensor::Tensor;
    use arbtest::arbitrary::{Result as Drawn, Unstructured};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A device that knows all results beforehand and fails after some calls.
    #[derive(Debug)]
    struct Flaky {
        program: Program,
        inputs: Vec<Tensor>,
        results: Vec<Tensor>,
        takes: Vec<bool>,
        calls_left: Arc<AtomicUsize>,
    }

    impl Flaky {
        fn call(&self) -> Result<(), DeviceFailed> {
            let fewer = |left: usize| left.checked_sub(1);
            let left = self.calls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
            left.map(|_| ()).map_err(|_| DeviceFailed)
        }
    }

    impl Device for Flaky {
        fn takes(&self, operation: usize) -> bool {
            self.takes[operation]
        }

        fn begin(&self) -> Option<Box<dyn Session + '_>> {
            self.call().ok()?;
            Some(Box::new(FlakyRun { device: self, has: vec![false; self.takes.len()] }))
        }
    }

    struct FlakyRun<'a> {
        device: &'a Flaky,
        /// The outputs that it computed.
        has: Vec<bool>,
    }

    impl Session for FlakyRun<'_> {
        fn compute<'h>(
            &mut self,
            operation: usize,
            host: &dyn Fn(ValueId) -> Elements<'h>,
        ) -> Result<(), DeviceFailed> {
            let Flaky { program, inputs, results, takes, .. } = self.device;
            assert!(takes[operation]);
            for read in program.operations()[operation].primitive.reads() {
                let expected = match program.place(read).expect("value exists") {
                    Place::Input(index) => &inputs[index],
                    Place::Operation(index) if !takes[index] => &results[index],
                    Place::Operation(_) | Place::Constant(_) => continue,
                };
                assert_eq!(host(read), expected.into());
            }
            self.has[operation] = true;
            self.device.call()
        }

        fn fetch(&mut self, operation: usize, out: Target<'_>) -> Result<(), DeviceFailed> {
            assert!(self.has[operation]);
            match (&self.device.results[operation], out) {
                (Tensor::I8(from), Target::I8(to)) => to.copy_from_slice(from),
                (Tensor::I16(from), Target::I16(to)) => to.copy_from_slice(from),
                (Tensor::I32(from), Target::I32(to)) => to.copy_from_slice(from),
                (from, to) => panic!("{from:?} is not {to:?}"),
            }
            self.device.call()
        }

        fn finished(&mut self, _operation: usize) {}
    }

    /// Goal: whichever operations a device takes and whenever it fails, results are the same and
    /// each is shown once. Method: random models, a device that takes some and fails at random.
    #[test]
    fn prop_failing_devices_change_nothing() {
        arbtest::arbtest(|u| {
            let model = Arc::new(sample::model(u)?);
            let inputs = sample::inputs(u, model.program())?;
            let options = Options { threads: 1, path: None };
            let alone = Runner::new(Arc::clone(&model), options);
            let results = alone.run_keeping(&inputs).expect("inputs are valid");
            let calls_left = Arc::new(AtomicUsize::new(u.int_in_range(0..=30)?));
            let device = Flaky {
                program: model.program().clone(),
                inputs: inputs.clone(),
                takes: results.iter().map(|_| u.ratio(2, 3)).collect::<Drawn<_>>()?,
                results: results.clone(),
                calls_left: Arc::clone(&calls_left),
            };
            let runner = Runner::new(model, options).with_device(Box::new(device));
            for _ in 0..2 {
                let mut seen = Vec::new();
                let outputs = runner.run_observed(&inputs, &mut |index, elements| {
                    seen.push((index, elements.to_tensor()));
                });
                assert_eq!(seen, results.iter().cloned().enumerate().collect::<Vec<_>>());
                assert_eq!(outputs, alone.run(&inputs));
                refill(u, &calls_left)?;
                assert_eq!(runner.run(&inputs), alone.run(&inputs));
            }
            Ok(())
        });
    }

    fn refill(u: &mut Unstructured<'_>, calls: &AtomicUsize) -> Drawn<()> {
        calls.store(u.int_in_range(0..=30)?, Ordering::Relaxed);
        Ok(())
    }
}
