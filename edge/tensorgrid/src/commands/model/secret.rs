//! `model commit` and `model register`: weights that only their owner has come to be trusted by a
//! commitment that hides them, and by a proof that they fit their program.

use crate::{
    args::model::{CommitArguments, RegisterArguments},
    failure::{Exit, Failure, OrFail as _},
    files::{self, Readers},
    printer::{Printer, lines},
    secrets::{Kept, Secrets},
    work::{
        connect::{Session, Standing, Way},
        order::Client,
    },
};
use serde::Serialize;
use std::{path::Path, sync::Arc};
use tg_api::text::{Text, Tgrid};
use tg_ledger::{WeightsEntry, keys};
use tg_proof::court::{self, secret};
use tg_tensor::Model;
use tg_types::tx::ShownBytes;
use tg_types::weights::RegistrationFile;
use tg_types::{Action, Bytes, Encode as _, Hash32, Lane, RegistrationClaim, SecretWeights};

const WHAT: &str = "the weights were not registered";
const HINT: &str = "is the network still there? `tensorgrid status` tells";

#[derive(Serialize)]
struct Committed {
    weights: Text<Hash32>,
    proofs: u16,
    key: String,
}

/// `model commit`
pub(super) fn commit(
    folder: &Path,
    arguments: &CommitArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let model = Arc::new(super::read_program(&arguments.file)?);
    check_provable(&model)?;
    let secrets = Secrets::new(folder);
    let lock = secrets.lock()?;
    if !arguments.again && secrets.find(&model)?.is_some() {
        return Err(Failure::new(
            "there is a commitment to these weights on this machine already",
            "use it, or give --again to forget it and make another",
        ));
    }
    let seed = files::random().or_fail("there are no random numbers", "try again")?;
    let key = secret::SecretKey { seed, proofs: arguments.proofs };
    let weights = secret::commit(&model, &key);
    let weights = weights.or_fail("the weights cannot be committed to", PROVABLE)?.id();
    secrets.keep(&model, &Kept::new(&key, weights))?;
    drop(lock);
    let file = secrets.path(&model).display().to_string();
    let committed = Committed { weights: Text(weights), proofs: arguments.proofs, key: file };
    printer.result(&committed, || {
        lines(&[
            ("weights", weights.to_string()),
            ("good for", format!("{} proofs, its registration included", committed.proofs)),
            ("key", format!("{}, which only you can read", committed.key)),
        ])
    });
    printer.say("Next: `tensorgrid model register` shows that they fit their program.");
    Ok(Exit::Done)
}

const PROVABLE: &str = "`tensorgrid model show` tells what a model does; Normalise, some look-ups \
    and large models cannot be proven without showing their data";

/// Refuses a model that no network would register.
fn check_provable(model: &Model) -> Result<(), Failure> {
    let costs = court::costs(model.program());
    if costs.zk.is_none() {
        let what = "runs of this program cannot be proven without their data";
        return Err(Failure::misuse(what, PROVABLE));
    }
    if costs.registration.is_none() {
        let what = "it cannot be proven that weights fit this program";
        let hint = "it has no weights, or ranges or bounds that are too wide; leave its weights \
                    public";
        return Err(Failure::misuse(what, hint));
    }
    Ok(())
}

/// `model register`
pub(super) fn register(
    way: &Way,
    arguments: &RegisterArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let model = super::read_program(&arguments.file)?;
    check_provable(&model)?;
    if let Some(out) = &arguments.out {
        return write(&Secrets::new(&way.keys), &model, out, printer);
    }
    let session = Session::open(way, "client", Standing::Passing)?;
    let inside = session.runtime.enter();
    session.gateway.serve(None).or_fail(WHAT, HINT)?;
    drop(inside);
    let done = register_with(&session, &Secrets::new(&way.keys), &model, printer);
    session.close();
    done
}

#[derive(Serialize)]
struct Registered {
    weights: Text<Hash32>,
    proofs: u16,
    left: u16,
    /// Whether it was registered before.
    was_registered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    fee: Option<Tgrid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proof_bytes: Option<usize>,
}

impl Registered {
    fn text(&self) -> String {
        let left = format!("{} of {}, for all runs of your jobs", self.left, self.proofs);
        let mut rows = vec![("weights", self.weights.to_string()), ("proofs left", left)];
        rows.extend(self.proof_bytes.map(|bytes| ("registration", format!("{bytes} bytes"))));
        rows.extend(self.fee.as_ref().map(|fee| ("fee", format!("{fee} TGRID"))));
        lines(&rows)
    }
}

/// What the network knows of registered weights.
pub(crate) fn look(session: &Session, weights: &Hash32) -> Result<Option<WeightsEntry>, Failure> {
    let entry = session.runtime.block_on(session.gateway.entry(keys::weights(weights)));
    entry.or_fail("the registration cannot be looked up", HINT)
}

/// Registers weights with a network.
fn register_with(
    session: &Session,
    secrets: &Secrets,
    model: &Model,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let (genesis, owner) = (session.gateway.domain().genesis, session.account());
    let (kept, ()) = secrets.change(model, |kept| kept.for_network(genesis, owner))?;
    if let Some(entry) = look(session, &kept.weights.0)? {
        let (weights, proofs, left) = (kept.weights, entry.proofs, entry.left);
        let was_registered = true;
        let told =
            Registered { weights, proofs, left, was_registered, fee: None, proof_bytes: None };
        printer.result(&told, || told.text());
        printer.say("They were registered before.");
        return Ok(Exit::Done);
    }
    let params = session.gateway.params();
    let cost = court::costs(model.program()).registration.unwrap_or(u64::MAX);
    if cost > params.jobs.proof_cost_max {
        let most = params.jobs.proof_cost_max;
        let what = format!("validators verify a proof for {most} microseconds at most");
        return Err(Failure::new(what, "register a smaller model"));
    }
    let progress = printer.progress("proving that the weights fit");
    let (weights, proof) = prove(model, &kept, secret::context(&genesis, &owner))?;
    drop(progress);
    let proof_bytes = proof.len();
    let proof = shown(proof)?;
    let action = Action::RegisterWeights { program: model.id(), weights, cost, proof };
    let fee = session.gateway.fee(&session.key, action.clone());
    session.afford(fee)?;
    let client = Client { gateway: &session.gateway, key: &session.key };
    session.runtime.block_on(client.record(model)).or_fail(WHAT, HINT)?;
    let sent = session.runtime.block_on(async {
        let nonce = session.gateway.nonce(owner, Lane::FIRST).await?;
        session.gateway.send(&session.key, (Lane::FIRST, nonce), action).await
    });
    sent.or_fail(WHAT, "try again: the proof is the same, and shows nothing more")?;
    let (proofs, left) = (weights.proofs, weights.proofs.saturating_sub(1));
    let (weights, fee) = (Text(weights.id()), Some(Tgrid(fee)));
    let proof_bytes = Some(proof_bytes);
    let told = Registered { weights, proofs, left, was_registered: false, fee, proof_bytes };
    printer.result(&told, || told.text());
    printer.say("Next: `tensorgrid run MODEL --verify zk --secret-weights`.");
    Ok(Exit::Done)
}

fn prove(
    model: &Model,
    kept: &Kept,
    context: Vec<u8>,
) -> Result<(SecretWeights, Vec<u8>), Failure> {
    let made = secret::register(model, &kept.key(), context);
    made.or_fail("it cannot be proven that the weights fit", PROVABLE)
}

fn shown(proof: Vec<u8>) -> Result<ShownBytes, Failure> {
    let long = "the proof is too long for a transaction";
    Bytes::new(proof).map_err(|_| Failure::new(long, "commit to the weights for fewer proofs"))
}

#[derive(Serialize)]
struct Written {
    weights: Text<Hash32>,
    file: String,
    proof_bytes: usize,
}

/// Writes a registration that is for no network.
fn write(secrets: &Secrets, model: &Model, out: &Path, printer: &Printer) -> Result<Exit, Failure> {
    let (kept, ()) = secrets.change(model, Kept::count_registration)?;
    let (genesis, owner) = (RegistrationClaim::NOWHERE, RegistrationClaim::nobody());
    let (weights, proof) = prove(model, &kept, secret::context(&genesis, &owner))?;
    let claim = RegistrationClaim { genesis, owner, program: model.id(), weights };
    let long = |_| Failure::new("the program is too long for a file", "register a smaller model");
    let program = Bytes::new(model.program().to_bytes()).map_err(long)?;
    let proof_bytes = proof.len();
    let file = RegistrationFile { claim, program, proof: shown(proof)? };
    let what = format!("cannot write {}", out.display());
    files::write(out, &file.to_file(), Readers::All).or_fail(what, "is the folder there?")?;
    let (weights, file) = (Text(weights.id()), out.display().to_string());
    let written = Written { weights, file, proof_bytes };
    printer.result(&written, || {
        lines(&[
            ("weights", written.weights.to_string()),
            ("registration", format!("{proof_bytes} bytes")),
            ("written to", written.file.clone()),
        ])
    });
    Ok(Exit::Done)
}
