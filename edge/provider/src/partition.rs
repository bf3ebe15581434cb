//! Partitions of GPUs (NVIDIA's MIG): carries out what the scheduler has decided.
//!
//! A decision is three numbers: compute slices, memory slices, and the first memory slice. The
//! driver is asked what kinds it makes and where they may lie, so its rules hold here and not a
//! table. A partition is a GPU instance with one compute instance that has all of it: its user
//! shares neither memory nor processors with others. What a program needs to run there and nowhere
//! else is the id, in `CUDA_VISIBLE_DEVICES`.
//!
//! Partitions stay when this program ends; [`Partitioner::list`] finds them again. MIG itself is
//! switched on by the owner: it needs a GPU that nobody uses, and on some a reset.
//!
//! Invariant: what is not wholly made is removed again, and a refusal changes nothing.

mod driver;

use crate::devices::{
    DetectSettings, DeviceId, NvidiaFault, PciAddress, open_nvml, partition_files,
};
use crate::root::Root;
use driver::{Gpu, Instance, Kind};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_RESOURCES as NO_ROOM;
use std::fmt;
use std::path::PathBuf;
use tg_scheduler::catalogue::Split;
use tg_scheduler::sharing::{Profile, profiles};
use tg_types::MigSlices;

/// NVIDIA's number of a mode that is on.
const ON: u32 = 1;

/// Where a partition lies and how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Compute slices.
    pub compute: u8,
    /// Memory slices.
    pub memory: u8,
    /// The first of them.
    pub start: u8,
}

impl Place {
    /// First memory slice and number of memory slices, as drivers have them.
    fn run(self) -> [u32; 2] {
        [self.start.into(), self.memory.into()]
    }

    /// `None` if a number is larger than any GPU has slices.
    fn of(compute: u32, [start, memory]: [u32; 2]) -> Option<Self> {
        let byte = |number: u32| u8::try_from(number).ok();
        Some(Self { compute: byte(compute)?, memory: byte(memory)?, start: byte(start)? })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} compute and {} memory slices at {}", self.compute, self.memory, self.start)
    }
}

/// A partition that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Where it lies.
    pub place: Place,
    /// The driver's number of it.
    pub instance: u32,
    /// What programs call it; absent if it was left half made.
    pub id: Option<DeviceId>,
}

/// Why a partition was not made, found or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartitionFault {
    /// There is no such GPU.
    #[error("there is no GPU {device}")]
    NoDevice {
        /// Which.
        device: DeviceId,
    },
    /// The GPU cannot be split.
    #[error("the GPU {device} has no MIG")]
    NoMig {
        /// Which.
        device: DeviceId,
    },
    /// The GPU could be split, but is not to be.
    #[error("MIG is off on the GPU {device}")]
    MigOff {
        /// Which.
        device: DeviceId,
    },
    /// This user may not split GPUs.
    #[error("this user may not change the partitions of the GPU {device}")]
    NoPermission {
        /// Which.
        device: DeviceId,
    },
    /// The driver makes no such partition there.
    #[error("the driver makes no partition of {place} on the GPU {device}")]
    NoPlace {
        /// Which GPU.
        device: DeviceId,
        /// What was asked for.
        place: Place,
    },
    /// Others lie there.
    #[error("no room for {place} on the GPU {device}, which has {} partitions", taken.len())]
    NoRoom {
        /// Which GPU.
        device: DeviceId,
        /// What was asked for.
        place: Place,
        /// What is there.
        taken: Vec<Place>,
    },
    /// Somebody uses it.
    #[error("partition {instance} of the GPU {device} is in use")]
    InUse {
        /// Which GPU.
        device: DeviceId,
        /// The driver's number of the partition.
        instance: u32,
    },
    /// There is no such partition.
    #[error("the GPU {device} has no partition {instance}")]
    Unknown {
        /// Which GPU.
        device: DeviceId,
        /// The driver's number.
        instance: u32,
    },
    /// The driver has made it and does not list it.
    #[error("the driver made partition {instance} of the GPU {device} and lists no device for it")]
    Unlisted {
        /// Which GPU.
        device: DeviceId,
        /// The driver's number.
        instance: u32,
    },
    /// The driver, its library or the GPU.
    #[error("NVIDIA's driver failed at partitions")]
    Nvidia(#[source] NvidiaFault),
}

impl PartitionFault {
    /// What to do about it.
    #[must_use]
    pub const fn fix(&self) -> &'static str {
        match self {
            Self::NoDevice { .. } => "`nvidia-smi -L` lists the GPUs that are there",
            Self::NoMig { .. } => "offer the GPU as a whole",
            Self::MigOff { .. } => {
                "stop what uses the GPU and run `nvidia-smi -i GPU -mig 1` as an administrator; \
                 some GPUs need a reset as well"
            }
            Self::NoPermission { .. } => {
                "run the provider as an administrator, or let its user write to \
                 /proc/driver/nvidia/capabilities/mig/config"
            }
            Self::NoPlace { .. } => {
                "`nvidia-smi mig -lgipp` lists what the driver makes, and where"
            }
            Self::NoRoom { .. } => {
                "`nvidia-smi mig -lgi` lists what is there; remove what nobody uses with -dci and \
                 -dgi"
            }
            Self::InUse { .. } => "end the programs that `nvidia-smi` lists there, then try again",
            Self::Unknown { .. } => "`nvidia-smi mig -lgi` lists what is there",
            Self::Unlisted { .. } => "update NVIDIA's driver, or restart the machine",
            Self::Nvidia(fault) => fault.fix(),
        }
    }
}

/// Makes and removes partitions of this machine's GPUs.
#[derive(Debug)]
pub struct Partitioner {
    nvml: Nvml,
    root: Root,
}

impl Partitioner {
    /// Loads NVIDIA's library.
    ///
    /// # Errors
    /// If there is none, or it does not work.
    pub fn open(settings: &DetectSettings) -> Result<Self, NvidiaFault> {
        let root = Root::new(&settings.root);
        let nvml = open_nvml(settings.nvml_library.as_deref(), &root)?;
        Ok(Self { nvml, root })
    }

    /// All partitions that the driver could make of a GPU that has none.
    ///
    /// # Errors
    /// If the GPU is not there or not to be split.
    pub fn places(&self, device: &DeviceId) -> Result<Vec<Place>, PartitionFault> {
        let asker = Asker { device, root: &self.root };
        let gpu = asker.gpu(&self.nvml)?;
        let kinds = gpu.kinds().map_err(|error| asker.fault(error))?;
        let all = kinds.iter().flat_map(|kind| {
            let places = kind.places.iter();
            places.filter_map(|place| Place::of(kind.compute, *place))
        });
        let mut all: Vec<Place> = all.collect();
        all.sort_unstable();
        // Kinds that differ in engines for media only are the same to us.
        all.dedup();
        Ok(all)
    }

    /// Into how many slices a GPU is split, if the driver makes just the partitions there that the
    /// scheduler decides about; `None` if it makes others.
    ///
    /// # Errors
    /// If the GPU is not there or not to be split.
    pub fn slices(&self, device: &DeviceId) -> Result<Option<MigSlices>, PartitionFault> {
        let listed = self.places(device)?;
        let known = [(Split::Mig7, MigSlices::Seven), (Split::Mig4, MigSlices::Four)];
        let is_it = |split: Split| {
            let of = |it: &Profile| (it.compute, it.memory);
            let places = profiles(split).iter().flat_map(|it| {
                let (compute, memory) = of(it);
                it.starts().map(move |start| Place { compute, memory, start })
            });
            let mut places: Vec<Place> = places.collect();
            places.sort_unstable();
            places == listed
        };
        Ok(known.into_iter().find(|(split, _)| is_it(*split)).map(|(_, slices)| slices))
    }

    /// Device files that a program needs for a partition, besides those of its GPU: none where the
    /// driver does not tell them apart.
    #[must_use]
    pub fn files(&self, device: &DeviceId, instance: u32) -> Vec<PathBuf> {
        let gpu = self.nvml.device_by_uuid(device.as_str());
        let place = gpu.and_then(|gpu| gpu.pci_info()).ok();
        let place = place.and_then(|place| PciAddress::parse(&place.bus_id));
        place.map_or_else(Vec::new, |place| partition_files(&self.root, place, instance))
    }

    /// The partitions that a GPU has.
    ///
    /// # Errors
    /// If the GPU is not there or not to be split.
    pub fn list(&self, device: &DeviceId) -> Result<Vec<Made>, PartitionFault> {
        let asker = Asker { device, root: &self.root };
        let gpu = asker.gpu(&self.nvml)?;
        let kinds = gpu.kinds().map_err(|error| asker.fault(error))?;
        let found = asker.found(&gpu, &kinds)?;
        found.into_iter().map(|(place, instance)| asker.made(&gpu, place, instance)).collect()
    }

    /// Makes a partition at a place.
    ///
    /// # Errors
    /// If the driver makes none there, others lie there, or this user may not. Nothing is left.
    pub fn make(&self, device: &DeviceId, place: Place) -> Result<Made, PartitionFault> {
        let asker = Asker { device, root: &self.root };
        let gpu = asker.gpu(&self.nvml)?;
        let kinds = gpu.kinds().map_err(|error| asker.fault(error))?;
        // The driver's order has the plain kind before those with more engines for media.
        let is_meant = |kind: &&Kind| {
            kind.compute == u32::from(place.compute) && kind.places.contains(&place.run())
        };
        let no_place = || PartitionFault::NoPlace { device: device.clone(), place };
        let kind = kinds.iter().find(is_meant).ok_or_else(no_place)?;
        let instance = match gpu.make(kind, place.run()) {
            Err(NvmlError::UnexpectedVariant(NO_ROOM)) => {
                let taken = asker.found(&gpu, &kinds)?.into_iter().map(|(place, _)| place);
                let (device, taken) = (device.clone(), taken.collect());
                return Err(PartitionFault::NoRoom { device, place, taken });
            }
            made => made.map_err(|error| asker.fault(error))?,
        };
        let opened = gpu.open(instance, kind.compute).map_err(|error| asker.fault(error));
        let made = opened.and_then(|()| asker.usable(&gpu, place, instance));
        if made.is_err() {
            // The first fault is the one to tell; what is left over is listed as half made.
            let _second_fault = gpu.close(instance).and_then(|()| gpu.remove(instance));
        }
        made
    }

    /// Removes a partition.
    ///
    /// # Errors
    /// If it is not there or in use, or this user may not.
    pub fn remove(&self, device: &DeviceId, instance: u32) -> Result<(), PartitionFault> {
        let asker = Asker { device, root: &self.root };
        let gpu = asker.gpu(&self.nvml)?;
        let kinds = gpu.kinds().map_err(|error| asker.fault(error))?;
        let found = asker.found(&gpu, &kinds)?.into_iter().find(|(_, it)| it.id == instance);
        let unknown = || PartitionFault::Unknown { device: device.clone(), instance };
        let (_, found) = found.ok_or_else(unknown)?;
        match gpu.close(found).and_then(|()| gpu.remove(found)) {
            Err(NvmlError::InUse) => {
                Err(PartitionFault::InUse { device: device.clone(), instance })
            }
            removed => removed.map_err(|error| asker.fault(error)),
        }
    }
}

/// Asks about one GPU, and says what errors mean for it.
struct Asker<'a> {
    device: &'a DeviceId,
    root: &'a Root,
}

impl Asker<'_> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the library has dozens of errors; those with a meaning of their own are named"
    )]
    fn fault(&self, error: NvmlError) -> PartitionFault {
        let device = self.device.clone();
        match error {
            NvmlError::NoPermission => PartitionFault::NoPermission { device },
            other => PartitionFault::Nvidia(NvidiaFault::of(other, self.root)),
        }
    }

    /// The GPU, if it is to be split.
    fn gpu<'nvml>(&self, nvml: &'nvml Nvml) -> Result<Gpu<'nvml>, PartitionFault> {
        let device = match nvml.device_by_uuid(self.device.as_str()) {
            Err(NvmlError::NotFound | NvmlError::InvalidArg) => {
                return Err(PartitionFault::NoDevice { device: self.device.clone() });
            }
            found => found.map_err(|error| self.fault(error))?,
        };
        match device.mig_mode() {
            Ok(mode) if mode.current == ON => Ok(Gpu { device }),
            Ok(_) => Err(PartitionFault::MigOff { device: self.device.clone() }),
            Err(NvmlError::NotSupported) => {
                Err(PartitionFault::NoMig { device: self.device.clone() })
            }
            Err(error) => Err(self.fault(error)),
        }
    }

    /// What is there.
    fn found(
        &self,
        gpu: &Gpu<'_>,
        kinds: &[Kind],
    ) -> Result<Vec<(Place, Instance)>, PartitionFault> {
        let mut all = Vec::new();
        for kind in kinds {
            let found = gpu.instances(kind).map_err(|error| self.fault(error))?;
            all.extend(
                found.into_iter().filter_map(|instance| {
                    Some((Place::of(kind.compute, instance.place)?, instance))
                }),
            );
        }
        Ok(all)
    }

    fn made(
        &self,
        gpu: &Gpu<'_>,
        place: Place,
        instance: Instance,
    ) -> Result<Made, PartitionFault> {
        let part = gpu.device_of(instance.id).map_err(|error| self.fault(error))?;
        let id = part.map(|part| part.uuid()).transpose().map_err(|error| self.fault(error))?;
        Ok(Made { place, instance: instance.id, id: id.map(DeviceId::new) })
    }

    fn usable(
        &self,
        gpu: &Gpu<'_>,
        place: Place,
        instance: Instance,
    ) -> Result<Made, PartitionFault> {
        let made = self.made(gpu, place, instance)?;
        let (device, instance) = (self.device.clone(), instance.id);
        match made.id {
            Some(_) => Ok(made),
            None => Err(PartitionFault::Unlisted { device, instance }),
        }
    }
}
