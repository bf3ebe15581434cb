//! NVML's functions, as C calls them: those that the provider uses.
//!
//! Each reads the state file anew, so that a test changes the machine while it is in use. A state
//! file with a line that is not understood makes every function fail, so that a slip in a test does
//! not pass for an answer. What a real library refuses is refused here: calls before the beginning
//! or after the end, temperature of an instance, load of a GPU that MIG has cut up.
#![expect(unsafe_code, reason = "the interface is C's: exported names and pointers")]
#![expect(non_snake_case, reason = "the names are NVML's")]

use crate::machine::{Gpu, Handle, INSTANCES_MAX, Machine, mapped_file};
use crate::mig::Instance;
use nvml_wrapper_sys::bindings::*;
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_uint, c_ulonglong};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

const SUCCESS: nvmlReturn_t = nvmlReturn_enum_NVML_SUCCESS;
const UNINITIALIZED: nvmlReturn_t = nvmlReturn_enum_NVML_ERROR_UNINITIALIZED;
const INVALID: nvmlReturn_t = nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT;
const NOT_SUPPORTED: nvmlReturn_t = nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED;
const NOT_FOUND: nvmlReturn_t = nvmlReturn_enum_NVML_ERROR_NOT_FOUND;
const TOO_SMALL: nvmlReturn_t = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE;
const UNKNOWN: nvmlReturn_t = nvmlReturn_enum_NVML_ERROR_UNKNOWN;

/// The first handle of a GPU; its slot is added. Handles are never pointers to anything.
const GPU_HANDLE: usize = 0x1000;
/// The first handle of an instance as a device; its GPU's slot times [`SLOT_HANDLES`] and its
/// number are added.
const INSTANCE_HANDLE: usize = 0x2000;
/// Handles kept for the instances of a GPU.
const SLOT_HANDLES: usize = 0x10;

const MIB: u64 = 1 << 20;
/// Memory that the driver keeps for itself on every GPU.
const RESERVED_MIB: u64 = 400;
/// What the driver says for processes outside of MIG.
const NO_INSTANCE: c_uint = c_uint::MAX;
/// The time of all samples of processes: the machine stands still.
const SAMPLE_MICROSECONDS: u64 = 1_000_000;

/// How many times the library was begun and not ended.
static USERS: AtomicU32 = AtomicU32::new(0);

/// The file of this library, which does not change while it is loaded.
fn library() -> Result<&'static str, nvmlReturn_t> {
    static LIBRARY: OnceLock<Option<String>> = OnceLock::new();
    let found = LIBRARY.get_or_init(|| {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        // Nothing exported, which a library of the same name could stand in for.
        let here = machine as *const () as usize as u64;
        mapped_file(&maps, here).map(str::to_owned)
    });
    found.as_deref().ok_or(UNKNOWN)
}

/// The text of a file beside this library, if it is there.
fn beside(ending: &str) -> Result<Option<String>, nvmlReturn_t> {
    match std::fs::read_to_string(format!("{}{ending}", library()?)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(_) => Err(UNKNOWN),
    }
}

/// The machine as the files beside this library have it.
fn machine() -> Result<Machine, nvmlReturn_t> {
    let state = beside(crate::STATE_ENDING)?.unwrap_or_default();
    let machine = Machine::change(&state).map_err(|_| UNKNOWN)?;
    match beside(crate::CUT_ENDING)? {
        Some(text) => machine.with_cut(&text).ok_or(UNKNOWN),
        None => Ok(machine),
    }
}

/// The machine, if the library was begun and the function is not to fail.
fn asked(function: &str, device: Option<nvmlDevice_t>) -> Result<Asked, nvmlReturn_t> {
    if USERS.load(Ordering::SeqCst) == 0 {
        return Err(UNINITIALIZED);
    }
    let machine = machine()?;
    let handle = device.map(|device| handle(&machine, device)).transpose()?;
    match machine.failure(function, handle) {
        Some(code) => Err(code),
        None => Ok(Asked { machine, handle }),
    }
}

fn handle(machine: &Machine, device: nvmlDevice_t) -> Result<Handle, nvmlReturn_t> {
    let number = device as usize;
    let found = match number.checked_sub(INSTANCE_HANDLE) {
        Some(rest) => Handle::Instance(rest / SLOT_HANDLES, (rest % SLOT_HANDLES) as u32),
        None => Handle::Gpu(number.checked_sub(GPU_HANDLE).ok_or(INVALID)?),
    };
    let (Handle::Gpu(slot) | Handle::Instance(slot, _)) = found;
    if slot < machine.gpus.len() { Ok(found) } else { Err(INVALID) }
}

/// A call that is to be answered.
struct Asked {
    machine: Machine,
    handle: Option<Handle>,
}

impl Asked {
    /// The GPU, or the one that the instance belongs to.
    fn gpu(&self) -> Result<&Gpu, nvmlReturn_t> {
        match self.handle.ok_or(INVALID)? {
            Handle::Gpu(slot) | Handle::Instance(slot, _) => self.machine.gpu(slot),
        }
    }

    /// The GPU, if it is a whole one.
    fn whole(&self) -> Result<&Gpu, nvmlReturn_t> {
        match self.handle.ok_or(INVALID)? {
            Handle::Gpu(slot) => self.machine.gpu(slot),
            Handle::Instance(..) => Err(NOT_SUPPORTED),
        }
    }

    /// The instance, if it is one that programs can use.
    fn instance(&self, slot: usize, id: u32) -> Result<&Instance, nvmlReturn_t> {
        let found = self.machine.instance(slot, id)?;
        if found.has_compute { Ok(found) } else { Err(NOT_FOUND) }
    }

    fn name(&self) -> Result<String, nvmlReturn_t> {
        let name = self.gpu()?.name;
        match self.handle.ok_or(INVALID)? {
            Handle::Gpu(_) => Ok(name.to_owned()),
            Handle::Instance(slot, id) => {
                self.instance(slot, id).map(|found| format!("{name} MIG {}", found.kind.name))
            }
        }
    }

    fn uuid(&self) -> Result<String, nvmlReturn_t> {
        match self.handle.ok_or(INVALID)? {
            Handle::Gpu(slot) => self.machine.gpu(slot).map(|gpu| gpu.uuid.to_owned()),
            Handle::Instance(slot, id) => self.instance(slot, id).map(Instance::uuid),
        }
    }

    fn memory(&self, version: c_uint) -> Result<nvmlMemory_v2_t, nvmlReturn_t> {
        let (total_mib, used_mib) = match self.handle.ok_or(INVALID)? {
            Handle::Gpu(slot) => self.machine.gpu(slot).map(|gpu| (gpu.total_mib, gpu.used_mib)),
            Handle::Instance(slot, id) => {
                self.instance(slot, id).map(|found| (found.kind.memory_mib, found.used_mib))
            }
        }?;
        let (total, used, reserved) = (total_mib * MIB, used_mib * MIB, RESERVED_MIB * MIB);
        let free = total.saturating_sub(used).saturating_sub(reserved);
        Ok(nvmlMemory_v2_t { version, total, reserved, free, used })
    }
}

/// Writes a value where the caller wants it.
unsafe fn put<T>(place: *mut T, value: Result<T, nvmlReturn_t>) -> nvmlReturn_t {
    match value {
        Err(code) => code,
        Ok(_) if place.is_null() => INVALID,
        Ok(value) => {
            // SAFETY: the caller of the C function gives a place for a value of this type.
            unsafe { place.write(value) };
            SUCCESS
        }
    }
}

/// Writes text with a zero at its end, if it fits.
unsafe fn put_text(
    place: *mut c_char,
    length: c_uint,
    text: Result<String, nvmlReturn_t>,
) -> nvmlReturn_t {
    let bytes = match text {
        Err(code) => return code,
        Ok(_) if place.is_null() => return INVALID,
        Ok(text) if length as usize <= text.len() => return TOO_SMALL,
        Ok(text) => text.into_bytes(),
    };
    // SAFETY: the caller gives a place of `length` bytes, and the text with its zero is not longer.
    unsafe {
        place.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
        place.add(bytes.len()).write(0);
    }
    SUCCESS
}

/// Writes a list, or only its length if there is no room for it.
unsafe fn put_list<T: Copy>(
    count: *mut c_uint,
    place: *mut T,
    list: Result<Vec<T>, nvmlReturn_t>,
) -> nvmlReturn_t {
    let list = match list {
        Err(code) => return code,
        Ok(_) if count.is_null() => return INVALID,
        Ok(list) => list,
    };
    // SAFETY: `count` is not null, and the caller gives as many places as it says.
    unsafe {
        let room = count.read() as usize;
        count.write(c_uint::try_from(list.len()).unwrap_or(c_uint::MAX));
        if room < list.len() {
            return TOO_SMALL;
        }
        if !place.is_null() {
            place.copy_from_nonoverlapping(list.as_ptr(), list.len());
        }
    }
    SUCCESS
}

macro_rules! export {
    ($($name:ident($($argument:ident: $type:ty),*) $body:block)*) => {$(
        /// NVML's function of this name.
        ///
        /// # Safety
        /// Pointers are null or lead where NVML's header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> nvmlReturn_t $body
    )*};
}

/// An answer that is one value of the device.
macro_rules! export_values {
    ($($name:ident($place:ident: $type:ty) = $value:expr;)*) => {export! {$(
        $name(device: nvmlDevice_t, $place: *mut $type) {
            let value = asked(stringify!($name), Some(device)).and_then(|asked| ($value)(&asked));
            // SAFETY: as this function's caller promises.
            unsafe { put($place, value) }
        }
    )*}};
}

pub mod mig;

fn begin(function: &str) -> nvmlReturn_t {
    USERS.fetch_add(1, Ordering::SeqCst);
    let refused = asked(function, None).err();
    if refused.is_some() {
        USERS.fetch_sub(1, Ordering::SeqCst);
    }
    refused.unwrap_or(SUCCESS)
}

export! {
    nvmlInit_v2() { begin("nvmlInit_v2") }
    nvmlInitWithFlags(_flags: c_uint) { begin("nvmlInitWithFlags") }
    nvmlShutdown() {
        let less = |users: u32| users.checked_sub(1);
        let ended = USERS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        ended.map_or(UNINITIALIZED, |_| SUCCESS)
    }
    nvmlSystemGetDriverVersion(place: *mut c_char, length: c_uint) {
        let asked = asked("nvmlSystemGetDriverVersion", None);
        let text = asked.map(|asked| asked.machine.driver);
        // SAFETY: as this function's caller promises.
        unsafe { put_text(place, length, text) }
    }
    nvmlSystemGetCudaDriverVersion_v2(place: *mut c_int) {
        let asked = asked("nvmlSystemGetCudaDriverVersion_v2", None);
        // SAFETY: as this function's caller promises.
        unsafe { put(place, asked.map(|asked| asked.machine.cuda)) }
    }
    nvmlDeviceGetCount_v2(place: *mut c_uint) {
        let asked = asked("nvmlDeviceGetCount_v2", None);
        let count = asked.map(|asked| asked.machine.present().len() as c_uint);
        // SAFETY: as this function's caller promises.
        unsafe { put(place, count) }
    }
    nvmlDeviceGetHandleByIndex_v2(index: c_uint, place: *mut nvmlDevice_t) {
        let handle = asked("nvmlDeviceGetHandleByIndex_v2", None).and_then(|asked| {
            let slot = *asked.machine.present().get(index as usize).ok_or(INVALID)?;
            let failure = asked.machine.failure("handle", Some(Handle::Gpu(slot)));
            failure.map_or(Ok((GPU_HANDLE + slot) as nvmlDevice_t), Err)
        });
        // SAFETY: as this function's caller promises.
        unsafe { put(place, handle) }
    }
    nvmlDeviceGetHandleByUUID(uuid: *const c_char, place: *mut nvmlDevice_t) {
        if uuid.is_null() {
            return INVALID;
        }
        // SAFETY: not null, and the caller gives text with a zero at its end.
        let uuid = unsafe { CStr::from_ptr(uuid) };
        let handle = asked("nvmlDeviceGetHandleByUUID", None).and_then(|asked| {
            let is_meant = |slot: &usize| {
                let gpu = asked.machine.gpu(*slot);
                gpu.is_ok_and(|gpu| gpu.uuid.as_bytes() == uuid.to_bytes())
            };
            let slot = asked.machine.present().into_iter().find(is_meant).ok_or(NOT_FOUND)?;
            Ok((GPU_HANDLE + slot) as nvmlDevice_t)
        });
        // SAFETY: as this function's caller promises.
        unsafe { put(place, handle) }
    }
    nvmlDeviceGetName(device: nvmlDevice_t, place: *mut c_char, length: c_uint) {
        let asked = asked("nvmlDeviceGetName", Some(device));
        let text = asked.and_then(|asked| asked.name());
        // SAFETY: as this function's caller promises.
        unsafe { put_text(place, length, text) }
    }
    nvmlDeviceGetUUID(device: nvmlDevice_t, place: *mut c_char, length: c_uint) {
        let asked = asked("nvmlDeviceGetUUID", Some(device));
        let text = asked.and_then(|asked| asked.uuid());
        // SAFETY: as this function's caller promises.
        unsafe { put_text(place, length, text) }
    }
    nvmlDeviceGetMemoryInfo_v2(device: nvmlDevice_t, place: *mut nvmlMemory_v2_t) {
        if place.is_null() {
            return INVALID;
        }
        // SAFETY: not null, and the caller has written the version it expects.
        let version = unsafe { (*place).version };
        let expected = (size_of::<nvmlMemory_v2_t>() | (2 << 24)) as c_uint;
        let memory = match version == expected {
            true => asked("nvmlDeviceGetMemoryInfo_v2", Some(device))
                .and_then(|asked| asked.memory(version)),
            false => Err(nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH),
        };
        // SAFETY: as this function's caller promises.
        unsafe { put(place, memory) }
    }
    nvmlDeviceGetTemperature(device: nvmlDevice_t, sensor: c_uint, place: *mut c_uint) {
        let asked = asked("nvmlDeviceGetTemperature", Some(device));
        let value = asked.and_then(|asked| asked.whole().map(|gpu| gpu.temperature_c));
        // SAFETY: as this function's caller promises.
        unsafe { put(place, if sensor == 0 { value } else { Err(INVALID) }) }
    }
    nvmlDeviceGetTemperatureThreshold(device: nvmlDevice_t, which: c_uint, place: *mut c_uint) {
        let asked = asked("nvmlDeviceGetTemperatureThreshold", Some(device));
        let is_known = which == nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_SLOWDOWN;
        let value = asked.and_then(|asked| {
            let gpu = asked.whole()?;
            if is_known { Ok(gpu.temperature_max_c) } else { Err(NOT_SUPPORTED) }
        });
        // SAFETY: as this function's caller promises.
        unsafe { put(place, value) }
    }
    nvmlDeviceGetClockInfo(device: nvmlDevice_t, _which: c_uint, place: *mut c_uint) {
        let asked = asked("nvmlDeviceGetClockInfo", Some(device));
        // SAFETY: as this function's caller promises.
        unsafe { put(place, asked.and_then(|asked| asked.whole().map(|gpu| gpu.clock_mhz))) }
    }
    nvmlDeviceGetCudaComputeCapability(
        device: nvmlDevice_t,
        major: *mut c_int,
        minor: *mut c_int
    ) {
        let asked = asked("nvmlDeviceGetCudaComputeCapability", Some(device));
        let [high, low] = match asked.and_then(|asked| asked.gpu().map(|gpu| gpu.capability)) {
            Ok(capability) => capability,
            Err(code) => return code,
        };
        // SAFETY: as this function's caller promises.
        unsafe { put(major, Ok(high)).max(put(minor, Ok(low))) }
    }
    nvmlDeviceGetMigMode(device: nvmlDevice_t, current: *mut c_uint, pending: *mut c_uint) {
        let asked = asked("nvmlDeviceGetMigMode", Some(device));
        let mode = asked.and_then(|asked| asked.whole()?.mig.ok_or(NOT_SUPPORTED));
        let mode = mode.map(c_uint::from);
        // SAFETY: as this function's caller promises.
        unsafe { put(current, mode).max(put(pending, mode)) }
    }
    nvmlDeviceGetMigDeviceHandleByIndex(
        device: nvmlDevice_t,
        index: c_uint,
        place: *mut nvmlDevice_t
    ) {
        let asked = asked("nvmlDeviceGetMigDeviceHandleByIndex", Some(device));
        let handle = asked.and_then(|asked| {
            let Some(Handle::Gpu(slot)) = asked.handle else { return Err(INVALID) };
            asked.gpu()?.mig.ok_or(NOT_SUPPORTED)?;
            let found = asked.machine.mig_device(slot, index as usize).map_err(|_| NOT_FOUND)?;
            Ok((INSTANCE_HANDLE + slot * SLOT_HANDLES + found.id as usize) as nvmlDevice_t)
        });
        // SAFETY: as this function's caller promises.
        unsafe { put(place, handle) }
    }
    nvmlDeviceGetComputeRunningProcesses_v3(
        device: nvmlDevice_t,
        count: *mut c_uint,
        place: *mut nvmlProcessInfo_t
    ) {
        let asked = asked("nvmlDeviceGetComputeRunningProcesses_v3", Some(device));
        let list = asked.and_then(|asked| {
            let processes = asked.whole()?.processes.iter().map(|process| nvmlProcessInfo_t {
                pid: process.pid,
                usedGpuMemory: process.used_mib * MIB,
                gpuInstanceId: NO_INSTANCE,
                computeInstanceId: NO_INSTANCE,
            });
            Ok(processes.collect())
        });
        // SAFETY: as this function's caller promises.
        unsafe { put_list(count, place, list) }
    }
    nvmlDeviceGetGraphicsRunningProcesses_v3(
        device: nvmlDevice_t,
        count: *mut c_uint,
        place: *mut nvmlProcessInfo_t
    ) {
        let asked = asked("nvmlDeviceGetGraphicsRunningProcesses_v3", Some(device));
        let list = asked.and_then(|asked| asked.whole().map(|_| Vec::new()));
        // SAFETY: as this function's caller promises.
        unsafe { put_list(count, place, list) }
    }
    nvmlDeviceGetProcessUtilization(
        device: nvmlDevice_t,
        place: *mut nvmlProcessUtilizationSample_t,
        count: *mut c_uint,
        since: c_ulonglong
    ) {
        let asked = asked("nvmlDeviceGetProcessUtilization", Some(device));
        let list = asked.and_then(|asked| {
            let busy = asked.whole()?.processes.iter().filter(|process| process.load > 0);
            let samples = busy.map(|process| nvmlProcessUtilizationSample_t {
                pid: process.pid,
                timeStamp: since.max(SAMPLE_MICROSECONDS),
                smUtil: process.load,
                memUtil: 0,
                encUtil: 0,
                decUtil: 0,
            });
            let samples: Vec<_> = samples.collect();
            if samples.is_empty() { Err(NOT_FOUND) } else { Ok(samples) }
        });
        // SAFETY: as this function's caller promises.
        unsafe { put_list(count, place, list) }
    }
}

export_values! {
    nvmlDeviceGetPciInfo_v3(place: nvmlPciInfo_t) = |asked: &Asked| asked.gpu().map(pci_info);
    nvmlDeviceGetUtilizationRates(place: nvmlUtilization_t) = |asked: &Asked| {
        let gpu = asked.whole()?;
        match gpu.mig {
            Some(true) => Err(NOT_SUPPORTED),
            Some(false) | None => Ok(nvmlUtilization_t { gpu: gpu.load, memory: gpu.load / 2 }),
        }
    };
    nvmlDeviceGetPowerUsage(place: c_uint) = |asked: &Asked| asked.whole().map(|gpu| gpu.power_mw);
    nvmlDeviceGetEnforcedPowerLimit(place: c_uint) =
        |asked: &Asked| asked.whole().map(|gpu| gpu.power_limit_mw);
    nvmlDeviceGetArchitecture(place: c_uint) =
        |asked: &Asked| asked.gpu().map(|gpu| gpu.architecture);
    nvmlDeviceGetPersistenceMode(place: nvmlEnableState_t) =
        |asked: &Asked| asked.whole().map(|gpu| gpu.persistence.into());
    nvmlDeviceGetCurrentClocksThrottleReasons(place: c_ulonglong) = |asked: &Asked| {
        let slowed = u64::from(nvmlClocksThrottleReasonHwThermalSlowdown);
        asked.whole().map(|gpu| if gpu.hot { slowed } else { 0 })
    };
    nvmlDeviceGetMaxMigDeviceCount(place: c_uint) =
        |asked: &Asked| asked.whole().map(|gpu| gpu.mig.map_or(0, |_| INSTANCES_MAX));
    nvmlDeviceIsMigDeviceHandle(place: c_uint) =
        |asked: &Asked| Ok(matches!(asked.handle, Some(Handle::Instance(..))).into());
    nvmlDeviceGetDeviceHandleFromMigDeviceHandle(place: nvmlDevice_t) =
        |asked: &Asked| match asked.handle {
            Some(Handle::Instance(slot, _)) => Ok((GPU_HANDLE + slot) as nvmlDevice_t),
            Some(Handle::Gpu(_)) | None => Err(INVALID),
        };
    nvmlDeviceGetAttributes_v2(place: nvmlDeviceAttributes_t) = |asked: &Asked| {
        let Some(Handle::Instance(slot, id)) = asked.handle else { return Err(NOT_SUPPORTED) };
        asked.instance(slot, id).map(|found| found.kind).map(|kind| nvmlDeviceAttributes_t {
            multiprocessorCount: kind.multiprocessors,
            sharedCopyEngineCount: kind.slices,
            sharedDecoderCount: 0,
            sharedEncoderCount: 0,
            sharedJpegCount: 0,
            sharedOfaCount: 0,
            gpuInstanceSliceCount: kind.slices,
            computeInstanceSliceCount: kind.slices,
            memorySizeMB: kind.memory_mib,
        })
    };
}

fn pci_info(gpu: &Gpu) -> nvmlPciInfo_t {
    let mut busId = [0; 32];
    let text = format!("00000000:{:02X}:00.0", gpu.bus);
    for (place, letter) in busId.iter_mut().zip(text.bytes()) {
        *place = letter as c_char;
    }
    nvmlPciInfo_t {
        busIdLegacy: [0; 16],
        domain: 0,
        bus: gpu.bus,
        device: 0,
        pciDeviceId: gpu.pci_id,
        pciSubSystemId: 0,
        busId,
    }
}
