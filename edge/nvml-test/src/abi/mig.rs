//! NVML's functions that make, list and remove what MIG cuts out of a GPU.
//!
//! Lists are written as NVML writes these: the caller gives room for as many as the profile can
//! have, and the count is an answer only.

use super::{Asked, GPU_HANDLE, INSTANCE_HANDLE, INVALID, NOT_SUPPORTED, SLOT_HANDLES, SUCCESS};
use super::{UNKNOWN, asked, library, put};
use crate::machine::{Gpu, Handle};
use crate::mig::{Instance, Kind};
use nvml_wrapper_sys::bindings::*;
use std::os::raw::c_uint;
use std::sync::Mutex;

/// The first handle of a GPU instance, and of a compute instance: numbered as instances are.
const PART_HANDLE: usize = 0x4000;
const COMPUTE_HANDLE: usize = 0x8000;

/// Changes are made one after the other.
static CHANGES: Mutex<()> = Mutex::new(());

/// A GPU instance by its handle.
#[derive(Clone, Copy)]
struct Part {
    slot: usize,
    id: u32,
}

impl Part {
    fn of(handle: usize, first: usize) -> Result<Self, nvmlReturn_t> {
        let rest = handle.checked_sub(first).ok_or(INVALID)?;
        let (slot, id) = (rest / SLOT_HANDLES, (rest % SLOT_HANDLES) as u32);
        if slot < SLOT_HANDLES { Ok(Self { slot, id }) } else { Err(INVALID) }
    }

    fn handle(self, first: usize) -> usize {
        first + self.slot * SLOT_HANDLES + self.id as usize
    }

    fn gpu(self) -> nvmlDevice_t {
        (GPU_HANDLE + self.slot) as nvmlDevice_t
    }

    fn find(self, asked: &Asked) -> Result<&Instance, nvmlReturn_t> {
        asked.machine.instance(self.slot, self.id).map_err(|_| INVALID)
    }
}

/// The slot of a whole GPU.
fn slot(asked: &Asked) -> Result<usize, nvmlReturn_t> {
    match asked.handle {
        Some(Handle::Gpu(slot)) => Ok(slot),
        Some(Handle::Instance(..)) | None => Err(INVALID),
    }
}

/// Changes a GPU, and keeps it so.
fn changed<T>(
    function: &str,
    device: nvmlDevice_t,
    change: impl FnOnce(&mut Gpu) -> Result<T, nvmlReturn_t>,
) -> Result<T, nvmlReturn_t> {
    let _one_at_a_time = CHANGES.lock().map_err(|_| UNKNOWN)?;
    let mut asked = asked(function, Some(device))?;
    asked.whole()?;
    let slot = slot(&asked)?;
    let answer = change(asked.machine.gpus.get_mut(slot).ok_or(INVALID)?)?;
    let path = format!("{}{}", library()?, crate::CUT_ENDING);
    // Readers see the old file or the new one, never half of it.
    let fresh = format!("{path}.new");
    let written = std::fs::write(&fresh, asked.machine.cut_text());
    written.and_then(|()| std::fs::rename(&fresh, &path)).map_err(|_| UNKNOWN)?;
    Ok(answer)
}

fn profile_info(kind: &Kind) -> nvmlGpuInstanceProfileInfo_t {
    nvmlGpuInstanceProfileInfo_t {
        id: kind.id,
        isP2pSupported: 0,
        sliceCount: kind.slices,
        instanceCount: kind.count_max,
        multiprocessorCount: kind.multiprocessors,
        copyEngineCount: kind.slices,
        decoderCount: 0,
        encoderCount: 0,
        jpegCount: 0,
        ofaCount: 0,
        memorySizeMB: kind.memory_mib,
    }
}

/// What a compute instance that takes all of a GPU instance is.
fn compute_info(kind: &Kind) -> nvmlComputeInstanceProfileInfo_t {
    nvmlComputeInstanceProfileInfo_t {
        id: compute_profile(kind),
        sliceCount: kind.slices,
        instanceCount: 1,
        multiprocessorCount: kind.multiprocessors,
        sharedCopyEngineCount: kind.slices,
        sharedDecoderCount: 0,
        sharedEncoderCount: 0,
        sharedJpegCount: 0,
        sharedOfaCount: 0,
    }
}

/// NVML's number of the compute profile with all slices.
fn compute_profile(kind: &Kind) -> u32 {
    match kind.slices {
        1 => NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE,
        2 => NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE,
        3 => NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE,
        4 => NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE,
        _ => NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE,
    }
}

/// Writes a list where there is room for all of it, and its length.
unsafe fn put_all<T: Copy>(
    count: *mut c_uint,
    place: *mut T,
    list: Result<Vec<T>, nvmlReturn_t>,
) -> nvmlReturn_t {
    let list = match list {
        Err(code) => return code,
        Ok(_) if count.is_null() => return INVALID,
        Ok(list) => list,
    };
    // SAFETY: `count` is not null, and the caller gives room for all that the profile can have.
    unsafe {
        if !place.is_null() {
            place.copy_from_nonoverlapping(list.as_ptr(), list.len());
        }
        count.write(c_uint::try_from(list.len()).unwrap_or(c_uint::MAX));
    }
    SUCCESS
}

export! {
    nvmlDeviceGetGpuInstanceProfileInfo(
        device: nvmlDevice_t,
        profile: c_uint,
        place: *mut nvmlGpuInstanceProfileInfo_t
    ) {
        let asked = asked("nvmlDeviceGetGpuInstanceProfileInfo", Some(device));
        let info = asked.and_then(|asked| match profile < NVML_GPU_INSTANCE_PROFILE_COUNT {
            true => asked.whole()?.kind_at(profile).map(profile_info),
            false => Err(INVALID),
        });
        // SAFETY: as this function's caller promises.
        unsafe { put(place, info) }
    }
    nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        device: nvmlDevice_t,
        profile: c_uint,
        place: *mut nvmlGpuInstancePlacement_t,
        count: *mut c_uint
    ) {
        let asked = asked("nvmlDeviceGetGpuInstancePossiblePlacements_v2", Some(device));
        let list = asked.and_then(|asked| {
            let kind = asked.whole()?.kind(profile)?;
            let size = kind.memory;
            let places = kind
                .starts
                .iter()
                .map(|&start| nvmlGpuInstancePlacement_t { start, size });
            Ok(places.collect())
        });
        // SAFETY: as this function's caller promises.
        unsafe { put_all(count, place, list) }
    }
    nvmlDeviceCreateGpuInstanceWithPlacement(
        device: nvmlDevice_t,
        profile: c_uint,
        placement: *const nvmlGpuInstancePlacement_t,
        place: *mut nvmlGpuInstance_t
    ) {
        if placement.is_null() || place.is_null() {
            return INVALID;
        }
        // SAFETY: not null, so it leads to a placement.
        let nvmlGpuInstancePlacement_t { start, size } = unsafe { placement.read() };
        let function = "nvmlDeviceCreateGpuInstanceWithPlacement";
        let made = changed(function, device, |gpu| gpu.cut(profile, start, size));
        let slot = (device as usize).saturating_sub(GPU_HANDLE);
        let made = made.map(|id| Part { slot, id }.handle(PART_HANDLE) as nvmlGpuInstance_t);
        // SAFETY: as this function's caller promises.
        unsafe { put(place, made) }
    }
    nvmlGpuInstanceDestroy(instance: nvmlGpuInstance_t) {
        let gone = Part::of(instance as usize, PART_HANDLE).and_then(|part| {
            changed("nvmlGpuInstanceDestroy", part.gpu(), |gpu| gpu.heal(part.id))
        });
        gone.err().unwrap_or(SUCCESS)
    }
    nvmlDeviceGetGpuInstances(
        device: nvmlDevice_t,
        profile: c_uint,
        place: *mut nvmlGpuInstance_t,
        count: *mut c_uint
    ) {
        let asked = asked("nvmlDeviceGetGpuInstances", Some(device));
        let list = asked.and_then(|asked| {
            let (gpu, slot) = (asked.whole()?, slot(&asked)?);
            let kind = gpu.kind(profile)?;
            let alike = gpu.present_instances().filter(|it| it.kind == kind);
            let parts = alike.map(|it| Part { slot, id: it.id }.handle(PART_HANDLE));
            Ok(parts.map(|handle| handle as nvmlGpuInstance_t).collect())
        });
        // SAFETY: as this function's caller promises.
        unsafe { put_all(count, place, list) }
    }
    nvmlGpuInstanceGetInfo(instance: nvmlGpuInstance_t, place: *mut nvmlGpuInstanceInfo_t) {
        let info = Part::of(instance as usize, PART_HANDLE).and_then(|part| {
            let asked = asked("nvmlGpuInstanceGetInfo", Some(part.gpu()))?;
            let found = part.find(&asked)?;
            let (device, id, profileId) = (part.gpu(), part.id, found.kind.id);
            let placement =
                nvmlGpuInstancePlacement_t { start: found.start, size: found.kind.memory };
            Ok(nvmlGpuInstanceInfo_t { device, id, profileId, placement })
        });
        // SAFETY: as this function's caller promises.
        unsafe { put(place, info) }
    }
    nvmlGpuInstanceGetComputeInstanceProfileInfo(
        instance: nvmlGpuInstance_t,
        profile: c_uint,
        engines: c_uint,
        place: *mut nvmlComputeInstanceProfileInfo_t
    ) {
        let info = Part::of(instance as usize, PART_HANDLE).and_then(|part| {
            let function = "nvmlGpuInstanceGetComputeInstanceProfileInfo";
            let asked = asked(function, Some(part.gpu()))?;
            let kind = part.find(&asked)?.kind;
            let is_known = profile < NVML_COMPUTE_INSTANCE_PROFILE_COUNT && engines == 0;
            match is_known {
                false => Err(INVALID),
                true if profile == compute_profile(kind) => Ok(compute_info(kind)),
                true => Err(NOT_SUPPORTED),
            }
        });
        // SAFETY: as this function's caller promises.
        unsafe { put(place, info) }
    }
    nvmlGpuInstanceCreateComputeInstance(
        instance: nvmlGpuInstance_t,
        profile: c_uint,
        place: *mut nvmlComputeInstance_t
    ) {
        if place.is_null() {
            return INVALID;
        }
        let made = Part::of(instance as usize, PART_HANDLE).and_then(|part| {
            changed("nvmlGpuInstanceCreateComputeInstance", part.gpu(), |gpu| {
                let found = gpu.present_instances().find(|it| it.id == part.id);
                let kind = found.ok_or(INVALID)?.kind;
                if profile != compute_profile(kind) {
                    return Err(NOT_SUPPORTED);
                }
                gpu.set_compute(part.id, true)
            })?;
            Ok(part.handle(COMPUTE_HANDLE) as nvmlComputeInstance_t)
        });
        // SAFETY: as this function's caller promises.
        unsafe { put(place, made) }
    }
    nvmlGpuInstanceGetComputeInstances(
        instance: nvmlGpuInstance_t,
        profile: c_uint,
        place: *mut nvmlComputeInstance_t,
        count: *mut c_uint
    ) {
        let list = Part::of(instance as usize, PART_HANDLE).and_then(|part| {
            let asked = asked("nvmlGpuInstanceGetComputeInstances", Some(part.gpu()))?;
            let found = part.find(&asked)?;
            let is_there = found.has_compute && profile == compute_profile(found.kind);
            let handle = part.handle(COMPUTE_HANDLE) as nvmlComputeInstance_t;
            Ok(if is_there { vec![handle] } else { Vec::new() })
        });
        // SAFETY: as this function's caller promises.
        unsafe { put_all(count, place, list) }
    }
    nvmlComputeInstanceDestroy(instance: nvmlComputeInstance_t) {
        let gone = Part::of(instance as usize, COMPUTE_HANDLE).and_then(|part| {
            let change = |gpu: &mut Gpu| gpu.set_compute(part.id, false);
            changed("nvmlComputeInstanceDestroy", part.gpu(), change)
        });
        gone.err().unwrap_or(SUCCESS)
    }
    nvmlDeviceGetGpuInstanceId(device: nvmlDevice_t, place: *mut c_uint) {
        let id = asked("nvmlDeviceGetGpuInstanceId", Some(device)).and_then(|asked| {
            match asked.handle {
                Some(Handle::Instance(slot, id)) => asked.instance(slot, id).map(|it| it.id),
                Some(Handle::Gpu(_)) | None => Err(INVALID),
            }
        });
        // SAFETY: as this function's caller promises.
        unsafe { put(place, id) }
    }
}

const _: () = assert!(INSTANCE_HANDLE + SLOT_HANDLES * SLOT_HANDLES <= PART_HANDLE);
