//! NVML's functions for MIG, which its wrapper does not have: each call once, behind safe names.
//!
//! Separate so that all code of this room that is `unsafe` is on one page. Handles of instances do
//! not leave it: they stand for something only while the library is loaded, numbers for longer.
#![expect(unsafe_code, reason = "NVML's functions for MIG have no safe wrapper")]

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper_sys::bindings::{
    NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, NVML_COMPUTE_INSTANCE_PROFILE_COUNT,
    NVML_GPU_INSTANCE_PROFILE_COUNT, NvmlLib, nvmlComputeInstance_t,
    nvmlComputeInstanceProfileInfo_t, nvmlGpuInstance_t, nvmlGpuInstanceInfo_t,
    nvmlGpuInstancePlacement_t, nvmlGpuInstanceProfileInfo_t, nvmlReturn_t,
};
use std::mem::MaybeUninit;
use std::os::raw::c_uint;

/// The most that a list of a driver is believed to have: the maker's limit is 8.
const LIST_MAX: c_uint = 64;

/// A kind of GPU instance that the driver makes.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// By which it is made.
    pub(super) id: c_uint,
    /// Compute slices.
    pub(super) compute: c_uint,
    /// The most that there can be at once.
    count_max: c_uint,
    /// First memory slice and number of memory slices, wherever one may lie.
    pub(super) places: Vec<[c_uint; 2]>,
}

/// A GPU instance that exists.
#[derive(Clone, Copy)]
pub(super) struct Instance {
    handle: nvmlGpuInstance_t,
    /// Its number.
    pub(super) id: c_uint,
    /// First memory slice and number of memory slices.
    pub(super) place: [c_uint; 2],
}

/// A whole GPU.
pub(super) struct Gpu<'nvml> {
    pub(super) device: Device<'nvml>,
}

impl<'nvml> Gpu<'nvml> {
    fn library(&self) -> &'nvml NvmlLib {
        self.device.nvml().lib()
    }

    /// All kinds that the driver makes on this GPU, in the order of its numbers.
    pub(super) fn kinds(&self) -> Result<Vec<Kind>, NvmlError> {
        let mut kinds = Vec::new();
        for number in 0..NVML_GPU_INSTANCE_PROFILE_COUNT {
            match self.kind(number) {
                Ok(kind) => kinds.push(kind),
                // This GPU does not have it, or this driver does not know it.
                Err(NvmlError::NotSupported | NvmlError::InvalidArg) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(kinds)
    }

    fn kind(&self, number: c_uint) -> Result<Kind, NvmlError> {
        let ask = nvml_sym(self.library().nvmlDeviceGetGpuInstanceProfileInfo.as_ref())?;
        // SAFETY: the device is one of this library, which writes the structure if it succeeds.
        let info: nvmlGpuInstanceProfileInfo_t =
            unsafe { written(|place| ask(self.device.handle(), number, place)) }?;
        let (id, compute, count_max) = (info.id, info.sliceCount, info.instanceCount);
        Ok(Kind { id, compute, count_max, places: self.places(id)? })
    }

    fn places(&self, kind: c_uint) -> Result<Vec<[c_uint; 2]>, NvmlError> {
        let library = self.library();
        let ask = nvml_sym(library.nvmlDeviceGetGpuInstancePossiblePlacements_v2.as_ref())?;
        let mut count: c_uint = 0;
        // SAFETY: without a place for a list, only its length is written.
        let code = unsafe { ask(self.device.handle(), kind, std::ptr::null_mut(), &raw mut count) };
        nvml_try(code)?;
        let none = nvmlGpuInstancePlacement_t { start: 0, size: 0 };
        // SAFETY: there is room for as many as the library has just said.
        let list = unsafe {
            listed(count, none, |list, count| ask(self.device.handle(), kind, list, count))
        }?;
        Ok(list.into_iter().map(|place| [place.start, place.size]).collect())
    }

    /// The instances of a kind that exist.
    pub(super) fn instances(&self, kind: &Kind) -> Result<Vec<Instance>, NvmlError> {
        let ask = nvml_sym(self.library().nvmlDeviceGetGpuInstances.as_ref())?;
        let none: nvmlGpuInstance_t = std::ptr::null_mut();
        // SAFETY: there is room for as many as there can be of this kind.
        let list = unsafe {
            listed(kind.count_max, none, |list, count| {
                ask(self.device.handle(), kind.id, list, count)
            })
        }?;
        list.into_iter().map(|handle| self.instance(handle)).collect()
    }

    fn instance(&self, handle: nvmlGpuInstance_t) -> Result<Instance, NvmlError> {
        let ask = nvml_sym(self.library().nvmlGpuInstanceGetInfo.as_ref())?;
        // SAFETY: the handle is one that this library has just given.
        let info: nvmlGpuInstanceInfo_t = unsafe { written(|place| ask(handle, place)) }?;
        let place = [info.placement.start, info.placement.size];
        Ok(Instance { handle, id: info.id, place })
    }

    /// Makes an instance of a kind at a place.
    pub(super) fn make(&self, kind: &Kind, place: [c_uint; 2]) -> Result<Instance, NvmlError> {
        let library = self.library();
        let make = nvml_sym(library.nvmlDeviceCreateGpuInstanceWithPlacement.as_ref())?;
        let [start, size] = place;
        let placement = nvmlGpuInstancePlacement_t { start, size };
        // SAFETY: the placement is read and the handle is written while this call lasts.
        let handle: nvmlGpuInstance_t = unsafe {
            written(|made| make(self.device.handle(), kind.id, &raw const placement, made))
        }?;
        self.instance(handle).inspect_err(|_| {
            // The first fault is the one to tell.
            let _second_fault = self.destroy(handle);
        })
    }

    /// Removes an instance that has no compute instance.
    pub(super) fn remove(&self, instance: Instance) -> Result<(), NvmlError> {
        self.destroy(instance.handle)
    }

    fn destroy(&self, handle: nvmlGpuInstance_t) -> Result<(), NvmlError> {
        let remove = nvml_sym(self.library().nvmlGpuInstanceDestroy.as_ref())?;
        // SAFETY: the handle is one of this library, and is not used afterwards.
        nvml_try(unsafe { remove(handle) })
    }

    /// Gives all compute slices of an instance to one compute instance.
    pub(super) fn open(&self, instance: Instance, compute: c_uint) -> Result<(), NvmlError> {
        let make = nvml_sym(self.library().nvmlGpuInstanceCreateComputeInstance.as_ref())?;
        let kinds = self.compute_kinds(instance)?;
        let all = kinds.iter().find(|kind| kind.sliceCount == compute);
        let all = all.ok_or(NvmlError::NotSupported)?;
        // SAFETY: the handle is one of this library, which writes another if it succeeds.
        let _made: nvmlComputeInstance_t =
            unsafe { written(|made| make(instance.handle, all.id, made)) }?;
        Ok(())
    }

    /// Removes all compute instances of an instance.
    pub(super) fn close(&self, instance: Instance) -> Result<(), NvmlError> {
        let ask = nvml_sym(self.library().nvmlGpuInstanceGetComputeInstances.as_ref())?;
        let remove = nvml_sym(self.library().nvmlComputeInstanceDestroy.as_ref())?;
        let none: nvmlComputeInstance_t = std::ptr::null_mut();
        for kind in self.compute_kinds(instance)? {
            // SAFETY: there is room for as many as there can be of this kind.
            let list = unsafe {
                listed(kind.instanceCount, none, |list, count| {
                    ask(instance.handle, kind.id, list, count)
                })
            }?;
            for handle in list {
                // SAFETY: the handle is one of this library, and is not used afterwards.
                nvml_try(unsafe { remove(handle) })?;
            }
        }
        Ok(())
    }

    fn compute_kinds(
        &self,
        instance: Instance,
    ) -> Result<Vec<nvmlComputeInstanceProfileInfo_t>, NvmlError> {
        let library = self.library();
        let ask = nvml_sym(library.nvmlGpuInstanceGetComputeInstanceProfileInfo.as_ref())?;
        let mut kinds = Vec::new();
        for number in 0..NVML_COMPUTE_INSTANCE_PROFILE_COUNT {
            let engines = NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED;
            // SAFETY: the handle is one of this library, which writes the structure if it succeeds.
            match unsafe { written(|place| ask(instance.handle, number, engines, place)) } {
                Ok(kind) => kinds.push(kind),
                Err(NvmlError::NotSupported | NvmlError::InvalidArg) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(kinds)
    }

    /// The device that programs see of an instance; none while it has no compute instance.
    pub(super) fn device_of(&self, id: c_uint) -> Result<Option<Device<'nvml>>, NvmlError> {
        let ask = nvml_sym(self.library().nvmlDeviceGetGpuInstanceId.as_ref())?;
        for index in 0..self.device.mig_device_count()?.min(LIST_MAX) {
            let part = match self.device.mig_device_by_index(index) {
                Ok(part) => part,
                // The numbers have gaps where nothing is cut out.
                Err(NvmlError::NotFound) => continue,
                Err(error) => return Err(error),
            };
            // SAFETY: the device is one of this library, which writes a number if it succeeds.
            let found: c_uint = unsafe { written(|place| ask(part.handle(), place)) }?;
            if found == id {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }
}

/// What a function writes.
///
/// # Safety
/// When it succeeds, the function has written a value at the place, or zeros are one.
unsafe fn written<T>(call: impl FnOnce(*mut T) -> nvmlReturn_t) -> Result<T, NvmlError> {
    let mut place = MaybeUninit::zeroed();
    nvml_try(call(place.as_mut_ptr()))?;
    // SAFETY: as this function's caller promises.
    Ok(unsafe { place.assume_init() })
}

/// The list that a function writes, and says how long it is.
///
/// # Safety
/// The function writes no more than `room` values.
unsafe fn listed<T: Copy>(
    room: c_uint,
    none: T,
    call: impl FnOnce(*mut T, *mut c_uint) -> nvmlReturn_t,
) -> Result<Vec<T>, NvmlError> {
    if room > LIST_MAX {
        return Err(NvmlError::InsufficientMemory);
    }
    let mut list = vec![none; LIST_MAX as usize];
    let mut count = room;
    nvml_try(call(list.as_mut_ptr(), &raw mut count))?;
    list.truncate(count.min(LIST_MAX) as usize);
    Ok(list)
}
