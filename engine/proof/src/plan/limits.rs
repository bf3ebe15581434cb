//! What can be proven: limits, and why a program is refused.

use crate::pcs::LARGE_BITS;
use tg_tensor::program::ProgramError;

/// The most inferences of one proof.
pub const BATCH_MAX: usize = 1 << 12;

/// Accumulators of one output that a proof carries in the clear; a larger output is looked up.
pub(crate) const CLEAR_MAX: usize = 1 << 13;

/// The most entries of a table.
pub(crate) const TABLE_MAX: i64 = 1 << 20;

/// The most entries of all tables of a plan; one that is written down counts again for each
/// operation that asks for it. Planning takes time of a block, and must end soon for any program.
pub(crate) const TABLES_MAX: u64 = 1 << 22;

/// The most steps of planning a stranger's program ([`super::steps`]). Up to four plans are made
/// and compared, while a block is executed.
pub(crate) const PLANNING_STEPS_MAX: u64 = 1 << 20;

/// The bits of a limb where values are few: tables of 4,096 entries are small beside those of most
/// networks.
pub(crate) const LIMB_BITS_MAX: u8 = 12;

/// From which sizes on a run is laid out in another way. Prover and verifier go by the same ones;
/// tests have small programs take the ways of large ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes<'a> {
    /// How many bits a limb may have, of which a plan takes what needs the fewest cells: with many
    /// inferences a large table costs less than one more limb of every element. The first is the
    /// least.
    pub(crate) limb_bits: &'a [u8],
    /// log2 of the cells of the smallest stack that is divided.
    pub(crate) divided_bits: usize,
}

impl Sizes<'_> {
    /// Those of all proofs. Half of a stack that is divided is still a large one.
    pub(crate) const USUAL: Self =
        Self { limb_bits: &[LIMB_BITS_MAX, 14, 16, 18], divided_bits: LARGE_BITS + 1 };
}

/// The most look-ups, as bits. Far below p, so that no number of equal look-ups is 0 in the field.
pub(crate) const LEAF_BITS_MAX: usize = 24;

/// The most numbers of one step of a maximum: each is a factor of a product.
pub(crate) const STEP_TAPS_MAX: usize = 4;

/// The most numbers of a maximum. Each has look-ups and a third of a column of its own.
pub(crate) const TAPS_MAX: u64 = 1 << 12;

/// Why a program cannot be proven.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A maximum of too many numbers.
    #[error("operation {operation}: a maximum of {taps} numbers, at most {most} can be proven")]
    Taps {
        /// Which operation.
        operation: usize,
        /// How many numbers.
        taps: u64,
        /// How many at most.
        most: u64,
    },
    /// Results before the clamp take too many numbers for a table.
    #[error("operation {operation}: {numbers} numbers before the clamp, at most {most}")]
    Wide {
        /// Which operation.
        operation: usize,
        /// How many numbers.
        numbers: i64,
        /// How many at most.
        most: i64,
    },
    /// All tables together have too many entries.
    #[error("operation {operation}: tables of {entries} entries up to here, at most {most}")]
    Tables {
        /// The operation that asks for too many.
        operation: usize,
        /// How many entries.
        entries: u64,
        /// How many at most.
        most: u64,
    },
    /// A rounded number could stand for two.
    #[error("operation {operation}: its first shift leaves no room in the field")]
    Wraps {
        /// Which operation.
        operation: usize,
    },
    /// Too many inferences, or none.
    #[error("{found} inferences in one proof, 1 to {most} are possible")]
    Batch {
        /// How many.
        found: usize,
        /// How many at most.
        most: usize,
    },
    /// Too many elements for one proof.
    #[error("2^{bits} cells of one stack or leaves of look-ups, at most 2^{most} are possible")]
    Large {
        /// log2 of the cells, or leaves.
        bits: usize,
        /// log2 of how many at most.
        most: usize,
    },
    /// An output that is a secret constant.
    #[error("output {0} is a constant, which a proof with secret weights would have to show")]
    SecretOutput(usize),
    /// An output that is a hidden input.
    #[error("output {0} is an input, which a proof that hides inputs would have to show")]
    HiddenOutput(usize),
    /// A hidden output that no operation makes.
    #[error("output {0} is an input, a constant or a moved value, which cannot be hidden")]
    CommittedOutput(usize),
    /// A hidden input whose range has too many numbers for a table.
    #[error("input {input} can be one of {numbers} numbers, at most {most} can be hidden")]
    WideInput {
        /// Which input.
        input: usize,
        /// How many numbers.
        numbers: i64,
        /// How many at most.
        most: i64,
    },
    /// A constant whose range has too many numbers to be registered.
    #[error("constant {constant} can be one of {numbers} numbers, at most {most} can be shown")]
    WideConstant {
        /// Which constant.
        constant: usize,
        /// How many numbers.
        numbers: i64,
        /// How many at most.
        most: i64,
    },
    /// A bound of a linear operation that is too large to be registered.
    #[error("operation {operation}: a bound of {bound} cannot be shown with a bias")]
    Bound {
        /// Which operation.
        operation: usize,
        /// The bound.
        bound: i64,
    },
    /// A program that is about its weights is none.
    #[error("the program about the weights is refused")]
    Registration(#[source] ProgramError),
    /// A program about the weights that validators have no time to plan.
    #[error("the program about the weights is too large to be verified in a block")]
    LargeRegistration,
    /// A program whose outputs depend on no constant.
    #[error("there are no weights to register")]
    NoWeights,
    /// The parameters do not reach the security that is asked for.
    #[error("no parameters reach {asked} bits of security")]
    Security {
        /// How many bits are asked for.
        asked: u32,
    },
}
