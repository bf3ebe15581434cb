//! The machine that the library describes, and the lines that change it.
//!
//! Separate from the C interface so that all of it is ordinary, safe code.

use crate::mig::{self, Instance};
use nvml_wrapper_sys::bindings::{
    NVML_DEVICE_ARCH_ADA, NVML_DEVICE_ARCH_AMPERE, nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST as LOST,
    nvmlReturn_t,
};
use std::str::SplitWhitespace;

/// A place on an A100 that MIG can cut out: the largest number of instances.
pub const INSTANCES_MAX: u32 = 7;

/// A whole machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The version of the driver.
    pub driver: String,
    /// The version of CUDA that the driver brings: 1000 times the major, 10 times the minor number.
    pub cuda: i32,
    /// The GPUs in their slots; absent ones keep theirs.
    pub gpus: Vec<Gpu>,
    /// Functions that fail.
    pub failures: Vec<Failure>,
}

/// A function that answers with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its name in C.
    pub function: String,
    /// The error.
    pub code: nvmlReturn_t,
    /// For this GPU only, by its slot.
    pub slot: Option<usize>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Whether the machine has it now.
    pub present: bool,
    /// The maker's name for it.
    pub name: &'static str,
    /// Its id.
    pub uuid: &'static str,
    /// Its number on the PCI bus.
    pub bus: u32,
    /// PCI ids of device and maker.
    pub pci_id: u32,
    /// NVML's number of the architecture.
    pub architecture: u32,
    /// CUDA's version of the architecture.
    pub capability: [i32; 2],
    /// All memory.
    pub total_mib: u64,
    /// Memory in use.
    pub used_mib: u64,
    /// How busy it is, in percent.
    pub load: u32,
    /// How hot it is.
    pub temperature_c: u32,
    /// From which temperature it slows down.
    pub temperature_max_c: u32,
    /// Whether it is slowed down by heat now.
    pub hot: bool,
    /// What it draws.
    pub power_mw: u32,
    /// What it may draw.
    pub power_limit_mw: u32,
    /// The clock of its processors.
    pub clock_mhz: u32,
    /// Whether the driver keeps it ready when nobody uses it.
    pub persistence: bool,
    /// Whether MIG is on; `None` if it has no MIG.
    pub mig: Option<bool>,
    /// What MIG has cut out of it.
    pub instances: Vec<Instance>,
    /// Who uses it.
    pub processes: Vec<Process>,
}

/// A process that uses a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Memory it uses.
    pub used_mib: u64,
    /// How busy it keeps the GPU, in percent.
    pub load: u32,
}

/// Which line of the state file is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, counted from 1.
    pub number: usize,
}

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handle {
    /// A GPU, by its slot.
    Gpu(usize),
    /// An instance, by the slot of its GPU and its number there.
    Instance(usize, u32),
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            driver: "580.65.06".to_owned(),
            cuda: 13_000,
            gpus: vec![rtx_4090(), a100()],
            failures: Vec::new(),
        }
    }
}

fn rtx_4090() -> Gpu {
    Gpu {
        present: true,
        name: "NVIDIA GeForce RTX 4090",
        uuid: "GPU-4090aaaa-0000-4000-8000-000000000001",
        bus: 0x01,
        pci_id: 0x2684_10de,
        architecture: NVML_DEVICE_ARCH_ADA,
        capability: [8, 9],
        total_mib: 24_564,
        used_mib: 1_024,
        load: 3,
        temperature_c: 41,
        temperature_max_c: 90,
        hot: false,
        power_mw: 28_500,
        power_limit_mw: 450_000,
        clock_mhz: 2_520,
        persistence: true,
        mig: None,
        instances: Vec::new(),
        processes: Vec::new(),
    }
}

/// Cut as by `nvidia-smi mig -cgi 9,14,19 -C`: figures of the A100-80GB.
fn a100() -> Gpu {
    let cut = [(9, 4), (14, 2), (19, 1)];
    let instances = (1..).zip(cut).filter_map(|(id, (profile, start))| {
        let kind = mig::A100.iter().find(|kind| kind.id == profile)?;
        let (present, has_compute) = (true, true);
        Some(Instance { present, id, kind, start, has_compute, used_mib: mig::IDLE_MIB })
    });
    let instances = instances.collect();
    Gpu {
        present: true,
        name: "NVIDIA A100-SXM4-80GB",
        uuid: "GPU-a100aaaa-0000-4000-8000-000000000002",
        bus: 0x41,
        pci_id: 0x20b2_10de,
        architecture: NVML_DEVICE_ARCH_AMPERE,
        capability: [8, 0],
        total_mib: 81_920,
        used_mib: 612,
        load: 0,
        temperature_c: 35,
        temperature_max_c: 92,
        hot: false,
        power_mw: 61_200,
        power_limit_mw: 400_000,
        clock_mhz: 1_410,
        persistence: true,
        mig: Some(true),
        instances,
        processes: Vec::new(),
    }
}

impl Machine {
    /// The machine as it is built in, changed by the lines of a state file:
    /// ```text
    /// driver 470.57.02
    /// cuda 11040
    /// gpu 0 absent
    /// gpu 0 used-mib 9000        also load, temperature, power-mw, clock-mhz
    /// gpu 0 persistence off
    /// gpu 0 hot
    /// gpu 0 process 1234 512 30  its number, MiB, load
    /// gpu 1 mig off
    /// gpu 1 instance 0 absent
    /// gpu 1 instance 0 used-mib 4096
    /// fail nvmlInit_v2 18        for every GPU
    /// fail nvmlDeviceGetTemperature 15 gpu 0
    /// ```
    pub fn change(text: &str) -> Result<Self, BadLine> {
        let mut machine = Self::default();
        for (index, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            let known = machine.apply(&mut words);
            if known.is_none() || words.next().is_some() {
                return Err(BadLine { number: index + 1 });
            }
        }
        Ok(machine)
    }

    fn apply(&mut self, words: &mut SplitWhitespace<'_>) -> Option<()> {
        match words.next() {
            None => {}
            Some("driver") => words.next()?.clone_into(&mut self.driver),
            Some("cuda") => self.cuda = number(words)?,
            Some("gpu") => self.gpus.get_mut(number::<usize>(words)?)?.apply(words)?,
            Some("fail") => {
                let (function, code) = (words.next()?.to_owned(), number(words)?);
                let slot = match words.next() {
                    Some("gpu") => Some(number(words)?),
                    Some(_) => return None,
                    None => None,
                };
                self.failures.push(Failure { function, code, slot });
            }
            Some(_) => return None,
        }
        Some(())
    }

    /// The error with which a function is to answer.
    #[must_use]
    pub fn failure(&self, function: &str, handle: Option<Handle>) -> Option<nvmlReturn_t> {
        let slot = handle.map(|handle| match handle {
            Handle::Gpu(slot) | Handle::Instance(slot, _) => slot,
        });
        let is_meant = |failure: &&Failure| {
            failure.function == function && (failure.slot.is_none() || failure.slot == slot)
        };
        self.failures.iter().find(is_meant).map(|failure| failure.code)
    }

    /// The slots of all GPUs that the machine has now, in NVML's order.
    #[must_use]
    pub fn present(&self) -> Vec<usize> {
        let slots = self.gpus.iter().enumerate().filter(|(_, gpu)| gpu.present);
        slots.map(|(slot, _)| slot).collect()
    }

    /// A GPU that is there.
    pub fn gpu(&self, slot: usize) -> Result<&Gpu, nvmlReturn_t> {
        self.gpus.get(slot).filter(|gpu| gpu.present).ok_or(LOST)
    }
}

impl Gpu {
    fn apply(&mut self, words: &mut SplitWhitespace<'_>) -> Option<()> {
        match words.next()? {
            "absent" => self.present = false,
            "hot" => self.hot = true,
            "used-mib" => self.used_mib = number(words)?,
            "load" => self.load = number(words)?,
            "temperature" => self.temperature_c = number(words)?,
            "power-mw" => self.power_mw = number(words)?,
            "clock-mhz" => self.clock_mhz = number(words)?,
            "persistence" => self.persistence = switch(words)?,
            "mig" => self.mig = Some(switch(words)?),
            "process" => {
                let (pid, used_mib, load) = (number(words)?, number(words)?, number(words)?);
                self.processes.push(Process { pid, used_mib, load });
            }
            "instance" => {
                let instance = self.instances.get_mut(number::<usize>(words)?)?;
                match words.next()? {
                    "absent" => instance.present = false,
                    "used-mib" => instance.used_mib = number(words)?,
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }
}

fn number<T: std::str::FromStr>(words: &mut SplitWhitespace<'_>) -> Option<T> {
    words.next()?.parse().ok()
}

fn switch(words: &mut SplitWhitespace<'_>) -> Option<bool> {
    match words.next()? {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// The file that is mapped at an address, from the text of `/proc/self/maps`: how the library
/// finds the state file beside itself.
#[must_use]
pub fn mapped_file(maps: &str, address: u64) -> Option<&str> {
    maps.lines().find_map(|line| {
        let (from, rest) = line.split_once('-')?;
        let (to, rest) = rest.split_once(' ')?;
        let range = u64::from_str_radix(from, 16).ok()?..u64::from_str_radix(to, 16).ok()?;
        let path = rest.split_once('/')?.1;
        // The slash is part of the path, so it is taken one byte further left.
        let start = line.len().checked_sub(path.len() + 1)?;
        range.contains(&address).then(|| line.get(start..)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::{BadLine, Handle, Machine, mapped_file};

    #[test]
    fn machine_without_a_state_file_has_two_gpus() {
        let machine = Machine::change("").expect("no line is wrong");
        assert_eq!(machine, Machine::default());
        assert_eq!(machine.present(), [0, 1]);
        assert_eq!(machine.mig_device(1, 2).map(|found| found.id), Ok(3));
        assert!(machine.mig_device(1, 3).is_err());
        assert!(machine.mig_device(0, 0).is_err());
    }

    #[test]
    fn lines_change_what_they_name() {
        let text = "driver 1.2\n\ngpu 0 absent\ngpu 1 instance 0 absent\n\
                    gpu 1 process 7 100 50\nfail f 15 gpu 1\nfail g 9";
        let machine = Machine::change(text).expect("all lines are known");
        assert_eq!(machine.driver, "1.2");
        assert_eq!(machine.present(), [1]);
        assert!(machine.gpu(0).is_err());
        assert_eq!(machine.mig_device(1, 0).map(|found| found.kind.slices), Ok(2));
        assert_eq!(machine.failure("f", Some(Handle::Gpu(1))), Some(15));
        assert_eq!(machine.failure("f", Some(Handle::Gpu(0))), None);
        assert_eq!(machine.failure("g", None), Some(9));
    }

    #[test]
    fn line_with_an_unknown_or_missing_word_is_refused() {
        for line in [
            "gpu",
            "gpu 2 absent",
            "gpu 0 used-mib",
            "gpu 0 used-mib -1",
            "gpu 0 absent now",
            "gpu 0 instance 0 absent",
            "fail f",
            "fail f 1 on 0",
            "colour red",
        ] {
            let text = format!("cuda 1\n{line}");
            assert_eq!(Machine::change(&text), Err(BadLine { number: 2 }), "{line}");
        }
    }

    #[test]
    fn mapped_file_is_the_one_at_the_address() {
        let maps = "55d0-55e0 r--p 00000000 fe:01 123   /bin/x\n\
                    7f00-7f10 r-xp 00000000 00:00 0\n\
                    7f10-7f20 r-xp 00001000 fe:01 9 /a folder/lib.so\n";
        assert_eq!(mapped_file(maps, 0x7f10), Some("/a folder/lib.so"));
        assert_eq!(mapped_file(maps, 0x55df), Some("/bin/x"));
        assert_eq!(mapped_file(maps, 0x7f00), None);
        assert_eq!(mapped_file(maps, 0x7f20), None);
    }
}
