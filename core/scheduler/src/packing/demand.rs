//! What a task takes of a machine.

/// Thousandths of a GPU.
pub const GPU_MILLI: u16 = 1_000;
/// The most GPUs of a machine.
pub const GPUS_MAX: usize = 16;

/// GPUs that a task takes of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gpus {
    /// None.
    None,
    /// So many thousandths of one, less than all of it.
    Share(u16),
    /// So many whole ones.
    Whole(u8),
}

impl Gpus {
    /// Whole GPUs, or a share of one; a share that is no share counts as a whole GPU.
    pub const fn new(count: u8, milli: u16) -> Self {
        match (count, milli) {
            (0, _) | (1, 0) => Self::None,
            (1, 1..GPU_MILLI) => Self::Share(milli),
            (_, _) => Self::Whole(count),
        }
    }

    /// What it takes of every GPU that it uses.
    pub const fn each(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Share(milli) => milli,
            Self::Whole(_) => GPU_MILLI,
        }
    }

    /// How many GPUs it uses.
    pub const fn count(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Share(_) => 1,
            Self::Whole(count) => count,
        }
    }

    /// What it takes in all, in thousandths of a GPU.
    pub const fn milli(self) -> u32 {
        self.each() as u32 * self.count() as u32
    }
}

/// A set of models of GPUs, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Models([u64; 4]);

impl Models {
    /// All of them.
    pub const ANY: Self = Self([u64::MAX; 4]);
    /// None of them.
    pub const NONE: Self = Self([0; 4]);

    /// The set of these bits, the first for model 0.
    pub const fn of_bits(bits: [u64; 4]) -> Self {
        Self(bits)
    }

    /// The bits, the first for model 0.
    pub const fn bits(self) -> [u64; 4] {
        self.0
    }

    /// The set with one model more.
    #[must_use]
    pub const fn with(mut self, model: u8) -> Self {
        self.0[model as usize / 64] |= 1 << (model % 64);
        self
    }

    /// Whether a model is in the set.
    pub const fn contains(self, model: u8) -> bool {
        self.0[model as usize / 64] & 1 << (model % 64) != 0
    }
}

/// What a task takes of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Demand {
    /// GPUs.
    pub gpus: Gpus,
    /// Of which models.
    pub models: Models,
    /// Thousandths of a processor.
    pub cpu_milli: u32,
    /// Memory of the host.
    pub memory_mib: u32,
}
