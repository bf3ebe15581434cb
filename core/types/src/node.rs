//! What a provider says about a node, and what was measured of it. Offers are claims only: a device
//! is credited with what was shown of it.

use crate::amount::Amount;
use crate::bounded::{List, Name};
use crate::codec::{Decode, DecodeError, Encode, Reader};
use crate::gpu::Sharing;
use crate::host::HostPart;
use crate::tick::{DurationMs, Tick};
use crate::wire;

wire! {
    /// What kind of processor a device is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum DeviceKind {
        /// A general processor.
        Cpu = 1,
        /// A graphics processor.
        Gpu = 2,
        /// Another accelerator, such as a TPU or an NPU.
        Accelerator = 3,
    }
}

/// What a device can do besides the usual: a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Features(u16);

impl Features {
    /// Nothing special.
    pub const NONE: Self = Self(0);
    /// Matrix units of a graphics processor.
    pub const TENSOR_CORES: Self = Self(1);
    /// Numbers of 16 bits at full speed.
    pub const HALF_PRECISION: Self = Self(1 << 1);
    /// A private part of a larger device.
    pub const PARTITION: Self = Self(1 << 2);
    /// Runs strangers' programs in a sandbox.
    pub const SANDBOX: Self = Self(1 << 3);
    /// Runs floating-point ONNX models.
    pub const ONNX: Self = Self(1 << 4);

    /// All that have a meaning, with the words people use for them.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::TENSOR_CORES, "tensor-cores"),
        (Self::HALF_PRECISION, "half-precision"),
        (Self::PARTITION, "partition"),
        (Self::SANDBOX, "sandbox"),
        (Self::ONNX, "onnx"),
    ];

    /// Both together.
    pub const fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Whether all of `needed` are there.
    pub const fn contains(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// The words for those in the set.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter(move |(one, _)| self.contains(*one)).map(|(_, word)| word)
    }

    /// The feature with this name.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, name)| *name == word).map(|(one, _)| one)
    }
}

impl Encode for Features {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for Features {
    const BYTES_MIN: usize = 2;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bits = u16::decode(reader)?;
        let known = Self::ALL.into_iter().fold(Self::NONE, |all, (one, _)| all.with(one));
        let expected = "features that have a meaning";
        if !known.contains(Self(bits)) {
            return Err(DecodeError::Range { at: reader.position(), expected });
        }
        Ok(Self(bits))
    }
}

wire! {
    /// Equal devices of a node.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Device {
        /// What kind they are.
        pub kind: DeviceKind,
        /// The maker's name for them.
        pub model: Name,
        /// Memory of each.
        pub memory_mib: u32,
        /// How many there are.
        pub count: u16,
        /// What each can do.
        pub features: Features,
        /// How each may be given out.
        pub sharing: Sharing,
    }
}

wire! {
    /// What was measured of a device of a node.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Proved {
        /// Which, by its place in the offer.
        pub device: u8,
        /// The memory that was claimed when the node was asked: the device is credited with it.
        pub memory_mib: u32,
        /// Blocks of 1 KiB that were filled: a share of that.
        pub blocks: u32,
        /// How long that took in block time, the way to and from the node included.
        pub took: DurationMs,
        /// When.
        pub at: Tick,
    }
}

impl Proved {
    /// How fast the memory was filled. Block times are coarse: it is a lower bound.
    pub fn blocks_per_second(&self) -> u64 {
        let second = DurationMs::SECOND.get();
        u64::from(self.blocks).saturating_mul(second) / self.took.get().max(1)
    }
}

/// The most kinds of devices of a node: more than any one machine has, and a bound on what an entry
/// costs to store.
pub const DEVICES_MAX: usize = 16;

/// The most runs a node can be given at once: its record lists them.
pub const SLOTS_MAX: u16 = 256;

wire! {
    /// What a node offers.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NodeDescriptor {
        /// Where it stands.
        pub region: Name,
        /// What it has.
        pub devices: List<Device, 1, DEVICES_MAX>,
        /// The processors and the memory of its machine that runs may hold.
        pub host: HostPart,
        /// What an hour of a run costs at least that has one GPU, or none; more GPUs cost as many
        /// times that, and a part of one its part.
        pub price_per_hour: Amount,
        /// What 10^12 multiply-adds of a tensor program cost at least.
        pub price_per_tera: Amount,
        /// How many runs it takes at once.
        pub slots: u16,
        /// Whether it takes runs now. Checks are drawn all the same.
        pub is_open: bool,
        /// When it closes, if it knows: it is given no run that may last longer, and commands that
        /// are saved move away before.
        pub closes: Option<Tick>,
    }
}

#[cfg(test)]
mod tests {
    use super::{Features, Proved};
    use crate::codec::{Decode, Encode};
    use crate::tick::{DurationMs, Tick};

    #[test]
    fn speed_is_blocks_by_block_time() {
        let proved = |took| Proved {
            device: 0,
            memory_mib: 1,
            blocks: 1_024,
            took: DurationMs::new(took),
            at: Tick::ZERO,
        };
        assert_eq!(proved(500).blocks_per_second(), 2_048);
        assert_eq!(proved(0).blocks_per_second(), 1_024_000);
    }

    #[test]
    fn features_have_words_and_unknown_bits_are_refused() {
        let both = Features::TENSOR_CORES.with(Features::ONNX);
        assert_eq!(both.words().collect::<Vec<_>>(), ["tensor-cores", "onnx"]);
        assert_eq!(Features::of_word("sandbox"), Some(Features::SANDBOX));
        assert_eq!(Features::of_word("magic"), None);
        assert_eq!(Features::from_bytes(&both.to_bytes()), Ok(both));
        assert!(Features::from_bytes(&[0x80, 0]).is_err());
    }
}
