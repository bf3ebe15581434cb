//! NVIDIA's GPUs, through the management library that comes with their driver (NVML).
//!
//! The library is loaded at run time, so that one program serves machines with and without it. It
//! stays loaded between readings; after a fault, or when GPUs come and go, it is loaded anew.
//!
//! Invariant: what goes wrong with one device costs only that device, and what goes wrong with one
//! question only that figure.

mod fault;
mod read;

pub use fault::NvidiaFault;
pub(super) use fault::kernel_version;

use super::facts::{DeviceFacts, DeviceId};
use crate::processes::Processes;
use crate::root::Root;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Where the library is looked for: by the loader's own rules, then where WSL and NixOS keep it.
const LIBRARIES: [&str; 3] = [
    "libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
];

/// Where the driver lists its GPUs, one folder for each.
pub(super) const DRIVER_GPUS: &str = "/proc/driver/nvidia/gpus";

/// Where the driver's kernel part says its version.
const DRIVER_VERSION: &str = "/proc/driver/nvidia/version";

/// The most GPUs that are asked for: machines have up to 16, and a library that says more is wrong.
pub(super) const GPUS_MAX: u32 = 64;

/// A GPU that was there, or should be, and cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostDevice {
    /// What it is called, if it was seen before.
    pub id: Option<DeviceId>,
    /// The maker's name for it, if it was seen before.
    pub model: Option<String>,
    /// Its number in the library, if it still has one.
    pub index: Option<u32>,
    /// What is wrong.
    pub fault: NvidiaFault,
}

/// What a reading found.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) devices: Vec<DeviceFacts>,
    pub(super) lost: Vec<LostDevice>,
}

/// The library, loaded or not.
#[derive(Debug)]
pub(super) struct Nvidia {
    library: Option<PathBuf>,
    session: Option<Session>,
    /// The devices that were seen last, by their numbers: one that is lost cannot say its name.
    known: BTreeMap<u32, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    id: DeviceId,
    model: String,
}

impl Nvidia {
    pub(super) const fn new(library: Option<PathBuf>) -> Self {
        Self { library, session: None, known: BTreeMap::new() }
    }

    /// Reads all GPUs; `own` are the processes whose use of them is ours.
    pub(super) fn read(
        &mut self,
        root: &Root,
        own: &BTreeSet<u32>,
    ) -> Result<Reading, NvidiaFault> {
        let listed = root.names(DRIVER_GPUS);
        let session = match self.session.take() {
            Some(session) if session.listed == listed => session,
            Some(_) | None => Session::open(self.library.as_deref(), root, listed)?,
        };
        let count = session.nvml.device_count().map_err(|error| NvidiaFault::of(error, root))?;
        let processes = Processes::read(root);
        let mut reading = Reading::default();
        let mut known = BTreeMap::new();
        for index in 0..count.min(GPUS_MAX) {
            match read::device(&session, root, index, &processes, own) {
                Ok(facts) => {
                    let (id, model) = (facts.id.clone(), facts.model.clone());
                    known.insert(index, Known { id, model });
                    reading.devices.push(facts);
                }
                Err(fault) => {
                    let before = self.known.get(&index).cloned();
                    let (id, model) = before.map(|known| (known.id, known.model)).unzip();
                    reading.lost.push(LostDevice { id, model, index: Some(index), fault });
                }
            }
        }
        if reading.lost.is_empty() {
            self.known = known;
            self.session = Some(session);
        } else {
            // The next reading loads the library anew: it may see what this one lost. Names of lost
            // devices are kept until then.
            self.known.extend(known);
        }
        Ok(reading)
    }
}

/// A loaded library.
#[derive(Debug)]
pub(super) struct Session {
    nvml: Nvml,
    driver: Option<String>,
    cuda: Option<String>,
    /// The GPUs that the driver listed when the library was loaded.
    listed: Vec<String>,
}

impl Session {
    fn open(library: Option<&Path>, root: &Root, listed: Vec<String>) -> Result<Self, NvidiaFault> {
        let nvml = open_nvml(library, root)?;
        let driver = nvml.sys_driver_version().ok();
        let cuda = nvml.sys_cuda_driver_version().ok().map(|version| {
            let major = nvml_wrapper::cuda_driver_version_major(version);
            let minor = nvml_wrapper::cuda_driver_version_minor(version);
            format!("CUDA {major}.{minor}")
        });
        Ok(Self { nvml, driver, cuda, listed })
    }
}

/// Loads the library that the owner has named, or the first that is where it usually is.
pub(crate) fn open_nvml(library: Option<&Path>, root: &Root) -> Result<Nvml, NvidiaFault> {
    let candidates: Vec<PathBuf> = match library {
        Some(path) => vec![path.to_owned()],
        None => LIBRARIES.iter().map(PathBuf::from).collect(),
    };
    load(&candidates, root)
}

/// Loads the first library that is there. One that is there and fails ends the search: its fault
/// is what the owner has to know.
fn load(candidates: &[PathBuf], root: &Root) -> Result<Nvml, NvidiaFault> {
    let mut said = String::new();
    for path in candidates {
        match Nvml::builder().lib_path(path.as_os_str()).init() {
            Ok(nvml) => return check(nvml, path),
            Err(NvmlError::LibloadingError(error)) if path.is_absolute() && path.exists() => {
                let (library, said) = (path.clone(), error.to_string());
                return Err(NvidiaFault::NotNvml { library, said });
            }
            Err(NvmlError::LibloadingError(error)) => {
                // The loader's message for the first place is the one that is usually meant.
                if said.is_empty() {
                    said = error.to_string();
                }
            }
            Err(NvmlError::FailedToLoadSymbol(said)) => {
                return Err(NvidiaFault::NotNvml { library: path.clone(), said });
            }
            Err(error) => return Err(NvidiaFault::of(error, root)),
        }
    }
    Err(NvidiaFault::NoLibrary { looked_for: candidates.to_vec(), said })
}

/// A library without its end function would stop the program when it is let go, so it is refused,
/// and kept loaded for ever.
fn check(nvml: Nvml, path: &Path) -> Result<Nvml, NvidiaFault> {
    let missing = nvml.lib().nvmlShutdown.as_ref().err().map(ToString::to_string);
    match missing {
        None => Ok(nvml),
        Some(said) => {
            std::mem::forget(nvml);
            Err(NvidiaFault::NotNvml { library: path.to_owned(), said })
        }
    }
}
