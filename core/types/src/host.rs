//! Processors and memory of the machine that a node is: what it offers of them, what a job asks
//! for, what a run holds.
//!
//! Separate from devices because they are not given out by device: whoever has a GPU or none takes
//! processors and memory of the same machine.

use crate::ids::JobId;
use crate::wire;
use std::fmt;

wire! {
    /// So much of the processors and the memory of a machine. Zero says nothing of either: an offer
    /// of which they are not counted, a job for which a slot's worth will do.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct HostPart {
        /// Thousandths of a processor.
        pub cpu_milli: u32,
        /// Memory.
        pub memory_mib: u32,
    }
}

impl HostPart {
    /// Nothing is said.
    pub const NONE: Self = Self { cpu_milli: 0, memory_mib: 0 };

    /// What is left of it; nothing of what is less than that.
    pub const fn without(self, taken: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_sub(taken.cpu_milli),
            memory_mib: self.memory_mib.saturating_sub(taken.memory_mib),
        }
    }

    /// Both together, as far as they can be counted.
    pub const fn with(self, more: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_add(more.cpu_milli),
            memory_mib: self.memory_mib.saturating_add(more.memory_mib),
        }
    }

    /// What of it remains below a bound. What the bound says nothing of is not bounded.
    pub fn at_most(self, bound: Self) -> Self {
        let least = |own: u32, most: u32| if most == 0 { own } else { own.min(most) };
        Self {
            cpu_milli: least(self.cpu_milli, bound.cpu_milli),
            memory_mib: least(self.memory_mib, bound.memory_mib),
        }
    }
}

/// For people.
impl fmt::Display for HostPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, milli) = (self.cpu_milli / 1_000, self.cpu_milli % 1_000);
        let processors = if milli == 0 {
            whole.to_string()
        } else {
            format!("{whole}.{milli:03}").trim_end_matches('0').to_owned()
        };
        let word = if self.cpu_milli == 1_000 { "processor" } else { "processors" };
        match (self.cpu_milli, self.memory_mib) {
            (_, 0) => write!(f, "{processors} {word}"),
            (0, memory) => write!(f, "{memory} MiB"),
            (_, memory) => write!(f, "{processors} {word} and {memory} MiB"),
        }
    }
}

wire! {
    /// What a run has of its node's processors and memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct HeldHost {
        /// The run, by its job.
        pub job: JobId,
        /// What it has.
        pub part: HostPart,
    }
}

#[cfg(test)]
mod tests {
    use super::HostPart;

    #[test]
    fn parts_have_words() {
        let part = |cpu_milli, memory_mib| HostPart { cpu_milli, memory_mib };
        assert_eq!(part(2_500, 0).to_string(), "2.5 processors");
        assert_eq!(part(1_000, 512).to_string(), "1 processor and 512 MiB");
        assert_eq!(part(0, 512).to_string(), "512 MiB");
    }

    #[test]
    fn what_a_bound_says_nothing_of_is_not_bounded() {
        let part = |cpu_milli, memory_mib| HostPart { cpu_milli, memory_mib };
        assert_eq!(part(4_000, 900).at_most(part(2_000, 0)), part(2_000, 900));
        assert_eq!(part(4_000, 900).without(part(5_000, 100)), part(0, 800));
        assert_eq!(part(u32::MAX, 1).with(part(1, 1)), part(u32::MAX, 2));
    }
}
