//! What a provider says about a node. Claims only: capacity is credited by measured speed, never by
//! claim.

use crate::amount::Amount;
use crate::bounded::{List, Name};
use crate::wire;

wire! {
    /// What kind of processor a device is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum DeviceKind {
        /// A general processor.
        Cpu = 1,
        /// A graphics processor.
        Gpu = 2,
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
    }
}

/// The most kinds of devices of a node: more than any one machine has, and a bound on what an entry
/// costs to store.
pub const DEVICES_MAX: usize = 16;

wire! {
    /// What a node offers.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NodeDescriptor {
        /// Where it stands.
        pub region: Name,
        /// What it has.
        pub devices: List<Device, 1, DEVICES_MAX>,
        /// What an hour of it costs at least.
        pub price_per_hour: Amount,
    }
}
