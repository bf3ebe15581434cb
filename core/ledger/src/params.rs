//! The ledger's parameters as an entry of the state. The first block copies them from the genesis;
//! from then on every block reads them here, so that they are under the state root like everything
//! else that decides.

use tg_types::Params;
use tg_types::ids::Noun;

use crate::entry::{Entry, entry};

entry! {
    /// The parameters in force.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ParamsEntry {
        /// All of them.
        pub params: Params,
    }
}

impl Entry for ParamsEntry {
    const NOUN: Noun = Noun::Params;
}
