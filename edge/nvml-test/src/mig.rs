//! What MIG cuts out of a GPU, by the placement rules of the A100 with 80 GB.
//!
//! Separate from the rest of the machine because it alone changes through the library's functions.
//! A GPU instance is a run of memory slices with compute slices; programs can use it from when it
//! has a compute instance. This library knows compute instances that take all of their GPU instance
//! only, so there is at most one in each.

use crate::machine::{Gpu, Machine};
use nvml_wrapper_sys::bindings::{
    nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST as LOST, nvmlReturn_enum_NVML_ERROR_IN_USE as IN_USE,
    nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_RESOURCES as NO_ROOM,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID,
    nvmlReturn_enum_NVML_ERROR_NOT_FOUND as NOT_FOUND,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED, nvmlReturn_t,
};

/// Compute slices of the whole GPU.
const COMPUTE_SLICES: u32 = 7;

/// Memory that is in use in an instance that nobody uses.
pub const IDLE_MIB: u64 = 13;

/// A kind of GPU instance: what NVML calls a profile.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// NVML's number by which it is asked for.
    pub index: u32,
    /// The driver's number, by which it is made.
    pub id: u32,
    /// Its name.
    pub name: &'static str,
    /// Compute slices.
    pub slices: u32,
    /// Memory slices.
    pub memory: u32,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Memory.
    pub memory_mib: u64,
    /// The most that there can be at once.
    pub count_max: u32,
    /// Memory slices where one may begin.
    pub starts: &'static [u32],
}

/// The kinds of the A100 with 80 GB, as `nvidia-smi mig -lgip` and `-lgipp` print them, in the
/// order of NVML's numbers.
pub const A100: &[Kind] = &[
    kind([0, 19], "1g.10gb", [1, 1], [14, 9_728, 7], &[0, 1, 2, 3, 4, 5, 6]),
    kind([1, 14], "2g.20gb", [2, 2], [28, 19_968, 3], &[0, 2, 4]),
    kind([2, 9], "3g.40gb", [3, 4], [42, 40_192, 2], &[0, 4]),
    kind([3, 5], "4g.40gb", [4, 4], [56, 40_192, 1], &[0]),
    kind([4, 0], "7g.80gb", [7, 8], [98, 80_384, 1], &[0]),
    kind([7, 20], "1g.10gb+me", [1, 1], [14, 9_728, 1], &[0, 1, 2, 3, 4, 5, 6]),
    kind([9, 15], "1g.20gb", [1, 2], [14, 19_968, 4], &[0, 2, 4, 6]),
];

const fn kind(
    [index, id]: [u32; 2],
    name: &'static str,
    [slices, memory]: [u32; 2],
    [multiprocessors, mib, count_max]: [u32; 3],
    starts: &'static [u32],
) -> Kind {
    let memory_mib = mib as u64;
    Kind { index, id, name, slices, memory, multiprocessors, memory_mib, count_max, starts }
}

/// A GPU instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Whether it is there now.
    pub present: bool,
    /// Its number on the GPU.
    pub id: u32,
    /// Its kind.
    pub kind: &'static Kind,
    /// Its first memory slice.
    pub start: u32,
    /// Whether it has a compute instance, and so is a device that programs can use.
    pub has_compute: bool,
    /// Memory in use.
    pub used_mib: u64,
}

impl Instance {
    /// Its id as a device. The same place in the numbering gives the same id, as with real drivers.
    #[must_use]
    pub fn uuid(&self) -> String {
        format!("MIG-a100aaaa-0000-5000-8000-{:012}", self.id)
    }

    fn overlaps(&self, kind: &Kind, start: u32) -> bool {
        start < self.start + self.kind.memory && self.start < start + kind.memory
    }
}

impl Machine {
    /// The device with this number among those that MIG has made of a GPU.
    pub fn mig_device(&self, slot: usize, place: usize) -> Result<&Instance, nvmlReturn_t> {
        let gpu = self.gpu(slot)?;
        let usable = gpu.present_instances().filter(|instance| instance.has_compute);
        usable.filter(|_| gpu.mig == Some(true)).nth(place).ok_or(LOST)
    }

    /// A GPU instance that is there.
    pub fn instance(&self, slot: usize, id: u32) -> Result<&Instance, nvmlReturn_t> {
        let gpu = self.gpu(slot)?;
        let found = gpu.present_instances().find(|instance| instance.id == id);
        found.filter(|_| gpu.mig == Some(true)).ok_or(LOST)
    }

    /// All instances, one in a line: slot, number, profile, first memory slice, compute instance.
    #[must_use]
    pub fn cut_text(&self) -> String {
        let mut text = String::new();
        for (slot, gpu) in self.gpus.iter().enumerate() {
            for it in gpu.present_instances() {
                let compute = u32::from(it.has_compute);
                text += &format!("{slot} {} {} {} {compute}\n", it.id, it.kind.id, it.start);
            }
        }
        text
    }

    /// The machine with the instances of such a text in place of those it is built with; `None` if
    /// the text is not understood.
    #[must_use]
    pub fn with_cut(mut self, text: &str) -> Option<Self> {
        self.gpus.iter_mut().for_each(|gpu| gpu.instances.clear());
        for line in text.lines() {
            let words: Option<Vec<u32>> =
                line.split_whitespace().map(|word| word.parse().ok()).collect();
            let [slot, id, profile, start, compute] = words?[..] else { return None };
            let kind = A100.iter().find(|kind| kind.id == profile)?;
            let gpu = self.gpus.get_mut(usize::try_from(slot).ok()?)?;
            let (present, has_compute, used_mib) = (true, compute == 1, IDLE_MIB);
            gpu.instances.push(Instance { present, id, kind, start, has_compute, used_mib });
        }
        Some(self)
    }
}

impl Gpu {
    /// The instances that are there.
    pub fn present_instances(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(|instance| instance.present)
    }

    /// The kinds that this GPU has while MIG is on.
    fn kinds(&self) -> Result<&'static [Kind], nvmlReturn_t> {
        if self.mig == Some(true) { Ok(A100) } else { Err(NOT_SUPPORTED) }
    }

    /// The kind that is asked for by this number.
    pub fn kind_at(&self, index: u32) -> Result<&'static Kind, nvmlReturn_t> {
        let found = self.kinds()?.iter().find(|kind| kind.index == index);
        found.ok_or(NOT_SUPPORTED)
    }

    /// The kind that is made by this number.
    pub fn kind(&self, id: u32) -> Result<&'static Kind, nvmlReturn_t> {
        self.kinds()?.iter().find(|kind| kind.id == id).ok_or(INVALID)
    }

    fn has_room(&self, kind: &'static Kind, start: u32) -> bool {
        let alike = self.present_instances().filter(|it| it.kind == kind).count();
        let used: u32 = self.present_instances().map(|it| it.kind.slices).sum();
        alike < kind.count_max as usize
            && used + kind.slices <= COMPUTE_SLICES
            && !self.present_instances().any(|it| it.overlaps(kind, start))
    }

    /// Cuts an instance out at a place.
    pub fn cut(&mut self, profile: u32, start: u32, size: u32) -> Result<u32, nvmlReturn_t> {
        let kind = self.kind(profile)?;
        if size != kind.memory || !kind.starts.contains(&start) {
            return Err(INVALID);
        }
        if !self.has_room(kind, start) {
            return Err(NO_ROOM);
        }
        let is_free = |id: &u32| !self.present_instances().any(|it| it.id == *id);
        let id = (1..=COMPUTE_SLICES).find(is_free).ok_or(NO_ROOM)?;
        let (present, has_compute, used_mib) = (true, false, IDLE_MIB);
        self.instances.push(Instance { present, id, kind, start, has_compute, used_mib });
        Ok(id)
    }

    /// Gives an instance back, if it has no compute instance.
    pub fn heal(&mut self, id: u32) -> Result<(), nvmlReturn_t> {
        if self.cut_instance(id)?.has_compute {
            return Err(IN_USE);
        }
        self.instances.retain(|it| !it.present || it.id != id);
        Ok(())
    }

    /// Makes or removes the compute instance of an instance.
    pub fn set_compute(&mut self, id: u32, has_compute: bool) -> Result<(), nvmlReturn_t> {
        let instance = self.cut_instance(id)?;
        if instance.has_compute == has_compute {
            return Err(if has_compute { NO_ROOM } else { NOT_FOUND });
        }
        instance.has_compute = has_compute;
        Ok(())
    }

    fn cut_instance(&mut self, id: u32) -> Result<&mut Instance, nvmlReturn_t> {
        self.kinds()?;
        self.instances.iter_mut().find(|it| it.present && it.id == id).ok_or(NOT_FOUND)
    }
}

#[cfg(test)]
mod tests {
    use super::{A100, IN_USE, INVALID, Machine, NO_ROOM, NOT_FOUND, NOT_SUPPORTED};

    const UNCUT: &str = "gpu 1 instance 0 absent\ngpu 1 instance 1 absent\ngpu 1 instance 2 absent";

    fn uncut() -> Machine {
        Machine::change(UNCUT).expect("known lines")
    }

    #[test]
    fn kinds_lie_within_the_gpu_and_their_number_fits() {
        for kind in A100 {
            assert!(kind.starts.iter().all(|start| start + kind.memory <= 8), "{}", kind.name);
            let mut machine = uncut();
            let gpu = &mut machine.gpus[1];
            let cut = kind.starts.iter().map(|start| gpu.cut(kind.id, *start, kind.memory));
            let made = cut.filter(Result::is_ok).count();
            assert_eq!(made, kind.count_max as usize, "{}", kind.name);
        }
    }

    #[test]
    fn places_that_overlap_or_do_not_exist_are_refused_with_nvmls_codes() {
        let mut machine = uncut();
        let gpu = &mut machine.gpus[1];
        assert_eq!(gpu.cut(9, 0, 4), Ok(1));
        for (profile, start, size, code) in [
            (9, 0, 4, NO_ROOM),
            (5, 0, 4, NO_ROOM),
            (19, 3, 1, NO_ROOM),
            (0, 0, 8, NO_ROOM),
            (9, 2, 4, INVALID),
            (9, 4, 3, INVALID),
            (19, 7, 1, INVALID),
            (77, 0, 1, INVALID),
        ] {
            assert_eq!(gpu.cut(profile, start, size), Err(code), "{profile} at {start}");
        }
        assert_eq!(gpu.cut(9, 4, 4), Ok(2));
        assert_eq!(gpu.cut(19, 6, 1), Err(NO_ROOM));
        assert_eq!(machine.gpus[0].cut(19, 0, 1), Err(NOT_SUPPORTED));
        machine.gpus[1].mig = Some(false);
        assert_eq!(machine.gpus[1].cut(19, 0, 1), Err(NOT_SUPPORTED));
    }

    #[test]
    fn instance_is_a_device_while_it_has_a_compute_instance() {
        let mut machine = uncut();
        let id = machine.gpus[1].cut(19, 6, 1).expect("room");
        assert!(machine.mig_device(1, 0).is_err());
        assert_eq!(machine.gpus[1].set_compute(id, false), Err(NOT_FOUND));
        assert_eq!(machine.gpus[1].set_compute(id, true), Ok(()));
        assert_eq!(machine.gpus[1].set_compute(id, true), Err(NO_ROOM));
        assert_eq!(machine.mig_device(1, 0).map(|it| it.start), Ok(6));
        assert_eq!(machine.gpus[1].heal(id), Err(IN_USE));
        assert_eq!(machine.gpus[1].set_compute(id, false), Ok(()));
        assert_eq!(machine.gpus[1].heal(id), Ok(()));
        assert_eq!(machine.gpus[1].heal(id), Err(NOT_FOUND));
    }

    #[test]
    fn what_is_cut_is_read_as_it_was_written() {
        let mut machine = uncut();
        machine.gpus[1].cut(14, 4, 2).expect("room");
        machine.gpus[1].cut(15, 6, 2).expect("room");
        machine.gpus[1].set_compute(2, true).expect("has none");
        let text = machine.cut_text();
        assert_eq!(text, "1 1 14 4 0\n1 2 15 6 1\n");
        let read = Machine::default().with_cut(&text).expect("own text");
        assert_eq!(read.cut_text(), text);
        for wrong in ["1 1 14 4", "9 1 14 4 0", "1 1 77 4 0", "1 x 14 4 0"] {
            assert_eq!(Machine::default().with_cut(wrong), None, "{wrong}");
        }
    }
}
