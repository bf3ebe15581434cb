//! What the ledger is told from outside: the network's rules, which never change, and the block's
//! surroundings, which the header states.

use std::sync::Arc;

use tg_types::ids::{AccountId, HeaderDigest};
use tg_types::{
    CertificateCheck, Domain, EquivocationCheck, Genesis, Height, ResultVerifier, StepJudge, Tick,
};

#[cfg(feature = "planted-bugs")]
use crate::planted::PlantedBug;

/// The rules of one network.
#[derive(Clone)]
pub struct Rules {
    /// How the network began.
    pub genesis: Arc<Genesis>,
    /// Where signatures of this network count.
    pub domain: Domain,
    /// Judges evidence of double votes.
    pub equivocation: Arc<dyn EquivocationCheck>,
    /// Judges certificates of finalised headers.
    pub certificates: Arc<dyn CertificateCheck>,
    /// Judges tensor programs and disputes about them.
    pub judge: Arc<dyn StepJudge>,
    /// Verifies results that are shown to be right at once.
    pub verifier: Arc<dyn ResultVerifier>,
    /// A mistake to make on purpose.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<PlantedBug>,
}

/// What a block says about itself, besides its transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockEnv {
    /// The block's height.
    pub height: Height,
    /// The block's time.
    pub tick: Tick,
    /// The digest of the header before.
    pub parent: HeaderDigest,
    /// The parent's time; for the first block the genesis' start.
    pub parent_tick: Tick,
    /// Who proposed the block: the voting key of a seat.
    pub proposer: AccountId,
    /// Certificates of earlier heights, the next missing one first.
    pub certificates: Vec<(Height, Vec<u8>)>,
}

/// How much a proposer wants in a block. The ledger's own limits hold besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The most transactions.
    pub tx_max: u32,
    /// The most bytes of transactions.
    pub bytes_max: u32,
}
