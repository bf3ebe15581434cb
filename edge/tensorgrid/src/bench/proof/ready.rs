//! A model made ready to be proven in one of the modes.

use super::HINT;
use crate::failure::{Failure, OrFail as _};
use std::{sync::Arc, time::Instant};
use tg_proof::{HidingProver, HidingVerifier, Mode, Prover, Seed, Seeds, Verifier, VerifyError};
use tg_tensor::{Model, Tensor};

const CONTEXT: &[u8] = b"bench";

/// A way to prove.
#[derive(Clone, Copy)]
pub(super) enum Measured {
    /// With public or committed weights and public inputs.
    Plain(Mode),
    /// With public weights and hidden inputs.
    Zk,
}

impl Measured {
    /// All of them.
    pub(super) const ALL: [Self; 3] =
        [Self::Plain(Mode::Public), Self::Plain(Mode::Committed), Self::Zk];

    /// Its name, and what it hides.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Plain(Mode::Public) => ("public", "nothing"),
            Self::Plain(Mode::Committed) => ("committed", "weights, without being zero-knowledge"),
            Self::Zk => ("zk", "inputs and all intermediate values"),
        }
    }
}

type Prove = dyn Fn() -> Result<Vec<u8>, Failure>;
type Verify = dyn Fn(&[u8]) -> Result<(), VerifyError>;

/// A model that is ready to be proven and verified.
pub(super) struct Ready {
    /// Makes the bytes of a proof.
    pub(super) prove: Box<Prove>,
    /// Verifies them.
    pub(super) verify: Box<Verify>,
    /// Seconds that it took to make the prover ready.
    pub(super) setup_s: f64,
    /// -log2 of the chance that a false statement passes.
    pub(super) security_bits: f64,
}

impl Ready {
    /// Makes a model ready for these inputs.
    pub(super) fn new(
        model: &Arc<Model>,
        mode: Measured,
        inputs: &[Vec<Tensor>],
        what: &str,
    ) -> Result<Self, Failure> {
        match mode {
            Measured::Plain(mode) => plain(model, mode, inputs, what),
            Measured::Zk => zk(model, inputs, what),
        }
    }
}

fn plain(
    model: &Arc<Model>,
    mode: Mode,
    inputs: &[Vec<Tensor>],
    what: &str,
) -> Result<Ready, Failure> {
    let started = Instant::now();
    let prover = Prover::new(model.clone(), mode, inputs.len()).or_fail(what, HINT)?;
    let setup_s = started.elapsed().as_secs_f64();
    let verifier = match mode {
        Mode::Public => Verifier::public(model.clone(), inputs.len()),
        Mode::Committed => {
            Verifier::committed(model.program().clone(), prover.commitment(), inputs.len())
        }
    };
    let verifier = verifier.or_fail(what, HINT)?;
    let (inputs, what) = (inputs.to_vec(), what.to_owned());
    let prove = move || prover.prove(inputs.clone(), CONTEXT.to_vec()).or_fail(&what, HINT);
    let (statement, _) = prove()?;
    let security_bits = verifier.report().bits;
    let verify = move |bytes: &[u8]| verifier.verify(&statement, bytes).map(drop);
    let prove = Box::new(move || Ok(prove()?.1.to_bytes()));
    Ok(Ready { prove, verify: Box::new(verify), setup_s, security_bits })
}

fn zk(model: &Arc<Model>, inputs: &[Vec<Tensor>], what: &str) -> Result<Ready, Failure> {
    let started = Instant::now();
    let prover = HidingProver::new(model.clone(), inputs.len()).or_fail(what, HINT)?;
    let setup_s = started.elapsed().as_secs_f64();
    let verifier = HidingVerifier::new(model.clone(), inputs.len()).or_fail(what, HINT)?;
    let (inputs, what) = (inputs.to_vec(), what.to_owned());
    // What is measured is no secret.
    let seeds = Seeds { inputs: Seed::new([1; 32]), proof: Seed::new([2; 32]) };
    let prove = move || prover.prove(&inputs, &seeds, CONTEXT.to_vec()).or_fail(&what, HINT);
    let (statement, _) = prove()?;
    let security_bits = verifier.report().bits;
    let verify = move |bytes: &[u8]| verifier.verify(&statement, bytes).map(drop);
    let prove = Box::new(move || Ok(prove()?.1.to_bytes()));
    Ok(Ready { prove, verify: Box::new(verify), setup_s, security_bits })
}
