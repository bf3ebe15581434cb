//! The GPUs on which a node computes: a job that asks for one is run there. Opening a GPU takes a
//! while, so it is done once, when the first job asks. The bits are the same on every device, so a
//! GPU that fails costs time and nothing else: the processor does what is left.

use super::GpuPlace;
use crate::tensor_run::Engine;
use tg_types::{DeviceKind, Name, Needs};
use tokio::sync::watch;

#[cfg(feature = "wgpu")]
use {
    super::capacity::open_gpu,
    std::collections::BTreeMap,
    std::sync::atomic::{AtomicUsize, Ordering},
    std::sync::{Mutex, PoisonError},
    tg_tensor::gpu::Gpu,
};

/// The GPUs that are offered.
pub(crate) struct Gpus {
    #[cfg_attr(not(feature = "wgpu"), expect(dead_code, reason = "no kernels in this build"))]
    offered: watch::Receiver<Vec<GpuPlace>>,
    // A lock: looked at by every run that asks for a GPU, and held while one is opened.
    #[cfg(feature = "wgpu")]
    opened: Mutex<BTreeMap<GpuPlace, Gpu>>,
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
        if needs.kind == Some(DeviceKind::Gpu) {
            self.any(needs.model.as_ref())
        } else {
            Engine::Processor
        }
    }

    /// The next GPU in turn that works, of those that are wanted.
    #[cfg(feature = "wgpu")]
    fn any(&self, model: Option<&Name>) -> Engine {
        let offered = self.offered.borrow().clone();
        let wanted = wanted(&offered, model);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for number in 0..wanted.len() {
            let Some(place) = wanted.get(turn.wrapping_add(number) % wanted.len()) else { break };
            if let Some(gpu) = self.get(place) {
                return Engine::Gpu(gpu);
            }
        }
        Engine::Processor
    }

    #[cfg(feature = "wgpu")]
    fn get(&self, place: &GpuPlace) -> Option<Gpu> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has failed may work when it is opened anew.
        if let Some(gpu) = opened.get(place).filter(|gpu| gpu.failure().is_none()) {
            return Some(gpu.clone());
        }
        let model = &place.model;
        let gpu = open_gpu(model, std::slice::from_ref(place));
        let gpu = gpu.inspect_err(|error| tracing::warn!(%model, %error, "another one computes"));
        let gpu = gpu.ok()?;
        opened.insert(place.clone(), gpu.clone());
        Some(gpu)
    }

    /// There are no kernels for GPUs in this build.
    #[cfg(not(feature = "wgpu"))]
    #[expect(clippy::unused_self, reason = "a build with kernels needs it")]
    const fn any(&self, _: Option<&Name>) -> Engine {
        Engine::Processor
    }
}

/// The GPUs of the model that is asked for. A checker may have none of it: then all of them, since
/// any is quicker than the processor.
#[cfg(any(test, feature = "wgpu"))]
fn wanted<'a>(offered: &'a [GpuPlace], model: Option<&Name>) -> Vec<&'a GpuPlace> {
    let is_wanted = |place: &&GpuPlace| model.is_none_or(|asked| is_of_model(asked, &place.model));
    let wanted: Vec<&GpuPlace> = offered.iter().filter(is_wanted).collect();
    if wanted.is_empty() { offered.iter().collect() } else { wanted }
}

/// Whether a GPU is of a model, as the scheduler sees it: words in a row of its name are those that
/// are asked for, however they are spaced.
#[cfg(any(test, feature = "wgpu"))]
fn is_of_model(asked: &Name, name: &Name) -> bool {
    let letters = |text: &str| -> String {
        text.chars().filter(|it| it.is_alphanumeric()).collect::<String>().to_lowercase()
    };
    let asked = letters(asked.as_str());
    let words = name.as_str().split(|it: char| !it.is_alphanumeric());
    let words: Vec<String> = words.map(letters).collect();
    let is_row = |row: &[String]| row.concat() == asked;
    !asked.is_empty() && (1..=words.len()).any(|count| words.windows(count).any(is_row))
}

#[cfg(test)]
mod tests {
    use super::{GpuPlace, wanted};
    #[cfg(feature = "wgpu")]
    use {
        super::{Engine, Gpus},
        tg_types::{DeviceKind, Needs},
        tokio::sync::watch,
    };

    #[test]
    fn gpus_of_the_model_that_is_asked_for_are_wanted_and_any_if_there_is_none() {
        let place = |model: &str, pci: &str| GpuPlace {
            model: model.parse().expect("a name"),
            name: String::new(),
            pci: Some(pci.to_owned()),
        };
        let offered = [
            place("NVIDIA GeForce RTX 4090", "1"),
            place("NVIDIA A100 80GB", "2"),
            place("NVIDIA GeForce RTX 4090", "3"),
        ];
        let found = |asked: Option<&str>| -> Vec<&str> {
            let asked = asked.map(|name| name.parse().expect("a name"));
            let wanted = wanted(&offered, asked.as_ref()).into_iter();
            wanted.filter_map(|place| place.pci.as_deref()).collect()
        };
        assert_eq!(found(Some("rtx4090")), ["1", "3"], "equal cards are two");
        assert_eq!(found(Some("a100")), ["2"]);
        assert_eq!(found(Some("A10")), ["1", "2", "3"], "there is none");
        assert_eq!(found(None), ["1", "2", "3"]);
    }

    #[cfg(feature = "wgpu")]
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
