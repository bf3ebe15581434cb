//! The GPUs on which a node computes: a job that asks for one is run there. Opening a GPU takes a
//! while, so it is done once, when the first job asks. The bits are the same on every device, so a
//! GPU that fails costs time and nothing else: the processor does what is left.

use super::GpuPlace;
use crate::tensor_run::Engine;
use tg_types::{DeviceKind, Needs};
use tokio::sync::watch;

#[cfg(feature = "wgpu")]
use {
    super::capacity::open_gpu,
    std::collections::BTreeMap,
    std::sync::atomic::{AtomicUsize, Ordering},
    std::sync::{Mutex, PoisonError},
    tg_tensor::gpu::Gpu,
    tg_types::Name,
};

/// The GPUs that are offered.
pub(crate) struct Gpus {
    #[cfg_attr(not(feature = "wgpu"), expect(dead_code, reason = "no kernels in this build"))]
    offered: watch::Receiver<Vec<GpuPlace>>,
    // A lock: looked at by every run that asks for a GPU, and held while one is opened.
    #[cfg(feature = "wgpu")]
    opened: Mutex<BTreeMap<Name, Gpu>>,
    /// Whose turn it is.
    #[cfg(feature = "wgpu")]
    turn: AtomicUsize,
}

impl Gpus {
    pub(crate) fn new(offered: watch::Receiver<Vec<GpuPlace>>) -> Self {
        Self {
            offered,
            #[cfg(feature = "wgpu")]
            opened: Mutex::default(),
            #[cfg(feature = "wgpu")]
            turn: AtomicUsize::new(0),
        }
    }

    /// What computes a job with these needs. The first time this opens a device: not for a thread
    /// that others wait for.
    pub(crate) fn engine(&self, needs: &Needs) -> Engine {
        if needs.kind == Some(DeviceKind::Gpu) { self.any() } else { Engine::Processor }
    }

    /// The next GPU in turn that works.
    #[cfg(feature = "wgpu")]
    fn any(&self) -> Engine {
        let offered = self.offered.borrow().clone();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for number in 0..offered.len() {
            let Some(place) = offered.get((turn + number) % offered.len()) else { break };
            if let Some(gpu) = self.get(&place.model, &offered) {
                return Engine::Gpu(gpu);
            }
        }
        Engine::Processor
    }

    #[cfg(feature = "wgpu")]
    fn get(&self, model: &Name, offered: &[GpuPlace]) -> Option<Gpu> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has failed may work when it is opened anew.
        if let Some(gpu) = opened.get(model).filter(|gpu| gpu.failure().is_none()) {
            return Some(gpu.clone());
        }
        let gpu = open_gpu(model, offered);
        let gpu = gpu.inspect_err(|error| tracing::warn!(%model, %error, "the processor computes"));
        opened.insert(model.clone(), gpu.ok()?);
        opened.get(model).cloned()
    }

    /// There are no kernels for GPUs in this build.
    #[cfg(not(feature = "wgpu"))]
    #[expect(clippy::unused_self, reason = "a build with kernels needs it")]
    const fn any(&self) -> Engine {
        Engine::Processor
    }
}

#[cfg(all(test, feature = "wgpu"))]
mod tests {
    use super::{Engine, GpuPlace, Gpus};
    use tg_types::{DeviceKind, Needs};
    use tokio::sync::watch;

    #[test]
    fn gpu_computes_what_asks_for_one_and_the_processor_all_else() {
        let adapter = tg_tensor::gpu::devices().into_iter().next().expect("a driver in software");
        let model: tg_types::Name = "offered gpu".parse().expect("a name");
        let place = GpuPlace { model: model.clone(), name: adapter.name, pci: adapter.pci };
        let gone =
            GpuPlace { model: "gone".parse().expect("a name"), name: String::new(), pci: None };
        let needs = Needs { kind: Some(DeviceKind::Gpu), ..Needs::ANY };
        let check = |offered: Vec<GpuPlace>, needs: &Needs, on_gpu: bool| {
            let (_offers, offered) = watch::channel(offered);
            let gpus = Gpus::new(offered);
            for _ in 0..2 {
                assert_eq!(matches!(gpus.engine(needs), Engine::Gpu(_)), on_gpu);
            }
        };
        check(vec![place.clone()], &needs, true);
        check(vec![gone.clone(), place.clone()], &needs, true);
        check(vec![place], &Needs::ANY, false);
        check(vec![gone], &needs, false);
        check(Vec::new(), &needs, false);
    }
}
