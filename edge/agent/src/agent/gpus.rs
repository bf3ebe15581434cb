//! The GPUs on which a node computes: a job that asks for one is run there.
//!
//! A tensor program is computed by our own kernels, beside others. Opening a GPU takes a while, so
//! it is done once, when the first job asks. The bits are the same on every device, so a GPU that
//! fails costs time and nothing else: the processor does what is left.
//!
//! A command is a stranger's program: it has a GPU for itself or is not run, and sees no other.

use crate::tensor_run::Engine;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tg_types::{DeviceKind, Name, Needs};
use tokio::sync::watch;

#[cfg(feature = "wgpu")]
use {
    super::capacity::open_gpu,
    std::collections::BTreeMap,
    std::sync::atomic::{AtomicUsize, Ordering},
    tg_tensor::gpu::Gpu,
};

/// How a stranger's program gets to a device, and to no other.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceAccess {
    /// Its device files.
    pub files: Vec<PathBuf>,
    /// Variables that name it.
    pub variables: Vec<(String, String)>,
    /// The driver's libraries, which images do not have.
    pub libraries: Vec<PathBuf>,
}

/// Where a GPU of this machine is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuPlace {
    /// As what it is offered.
    pub model: Name,
    /// What its driver calls it.
    pub name: String,
    /// Its place on the bus, if that is known.
    pub pci: Option<String>,
    /// The memory that it is offered with.
    pub memory_mib: u32,
    /// How strangers' programs get to it, if they can.
    pub access: Option<DeviceAccess>,
}

impl GpuPlace {
    /// Whether both are one device, or devices that nothing tells apart. What its driver offers
    /// besides may change while it is in use.
    fn is_same(&self, other: &Self) -> bool {
        match (&self.pci, &other.pci) {
            (Some(one), Some(other)) => one == other,
            _ => (&self.model, &self.name) == (&other.model, &other.name),
        }
    }

    /// A GPU that strangers' programs do not get to.
    #[must_use]
    pub const fn new(model: Name, name: String, pci: Option<String>) -> Self {
        Self { model, name, pci, memory_mib: 0, access: None }
    }
}

/// A command asks for a GPU, and every one that would do is taken or out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no GPU is free for a program of its own")]
pub(crate) struct NoGpu;

/// A GPU that one command has for itself, until this is dropped.
pub(crate) struct Seat {
    place: GpuPlace,
    gpus: Arc<Gpus>,
}

impl Seat {
    /// How the command gets to it.
    pub(crate) fn access(&self) -> DeviceAccess {
        self.place.access.clone().unwrap_or_default()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.gpus.taken();
        if let Some(at) = taken.iter().position(|place| place.is_same(&self.place)) {
            taken.swap_remove(at);
        }
    }
}

/// The GPUs that are offered.
pub(crate) struct Gpus {
    offered: watch::Receiver<Vec<GpuPlace>>,
    // A lock: runs begin and end on threads of their own, and hold it for a moment.
    /// Those that commands have for themselves.
    taken: Mutex<Vec<GpuPlace>>,
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
            taken: Mutex::default(),
            #[cfg(feature = "wgpu")]
            opened: Mutex::default(),
            #[cfg(feature = "wgpu")]
            turn: AtomicUsize::new(0),
        }
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Vec<GpuPlace>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A GPU for a command with these needs, if it asks for one.
    pub(crate) fn seat(self: &Arc<Self>, needs: &Needs) -> Result<Option<Seat>, NoGpu> {
        if needs.kind != Some(DeviceKind::Gpu) {
            return Ok(None);
        }
        let offered = self.offered.borrow().clone();
        let mut taken = self.taken();
        let count =
            |all: &[GpuPlace], one: &GpuPlace| all.iter().filter(|it| it.is_same(one)).count();
        let place = offered.iter().find(|place| {
            place.access.is_some()
                && needs.model.as_ref().is_none_or(|asked| is_of_model(asked, &place.model))
                && place.memory_mib >= needs.memory_mib_min
                && count(&taken, place) < count(&offered, place)
        });
        let place = place.ok_or(NoGpu)?.clone();
        taken.push(place.clone());
        Ok(Some(Seat { place, gpus: Arc::clone(self) }))
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
    #[cfg(feature = "wgpu")]
    use super::Engine;
    use super::{DeviceAccess, GpuPlace, Gpus, wanted};
    use std::path::PathBuf;
    use std::sync::Arc;
    use tg_types::{DeviceKind, Needs};
    use tokio::sync::watch;

    fn place(model: &str, pci: &str) -> GpuPlace {
        let model = model.parse().expect("a name");
        GpuPlace::new(model, String::new(), Some(pci.to_owned()))
    }

    /// Goal: no two commands have one GPU, and none has one that it did not ask for. Method: two
    /// cards, one of them out of reach of programs, and needs of all kinds.
    #[test]
    fn command_has_a_gpu_for_itself_or_none() {
        let access = |number: u8| DeviceAccess {
            files: vec![PathBuf::from(format!("/dev/nvidia{number}"))],
            ..DeviceAccess::default()
        };
        let near =
            GpuPlace { memory_mib: 24_000, access: Some(access(0)), ..place("RTX 4090", "1") };
        let far = GpuPlace { memory_mib: 80_000, ..place("A100", "2") };
        let (_offers, offered) = watch::channel(vec![near, far]);
        let gpus = Arc::new(Gpus::new(offered));
        let needs = |model: Option<&str>, memory_mib_min| Needs {
            kind: Some(DeviceKind::Gpu),
            model: model.map(|name| name.parse().expect("a name")),
            memory_mib_min,
            ..Needs::ANY
        };
        assert!(gpus.seat(&Needs::ANY).is_ok_and(|seat| seat.is_none()), "it asks for none");
        for refused in [needs(Some("A100"), 0), needs(None, 24_001), needs(Some("T4"), 0)] {
            assert!(gpus.seat(&refused).is_err(), "{refused:?}");
        }
        let seat = gpus.seat(&needs(Some("rtx4090"), 24_000)).ok().flatten().expect("one is free");
        assert_eq!(seat.access(), access(0));
        assert!(gpus.seat(&needs(None, 0)).is_err(), "it is taken");
        drop(seat);
        assert!(gpus.seat(&needs(None, 0)).is_ok_and(|seat| seat.is_some()), "it is free again");
    }

    #[test]
    fn gpus_of_the_model_that_is_asked_for_are_wanted_and_any_if_there_is_none() {
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
        let place = GpuPlace::new(model, adapter.name, adapter.pci);
        let gone = GpuPlace::new("gone".parse().expect("a name"), String::new(), None);
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
