//! `prove`, and `verify` of what it writes.
//!
//! A proof made here is for no network, job or provider: these names are zeros, and validators
//! refuse it. A proof of a job names them; the node that has it gives it out at
//! `/v1/jobs/JOB/proof`.

mod hide;

use super::jobs::read_inputs;
use super::model;
use crate::{
    args::{Hide, ProveArguments},
    failure::{Exit, Failure, OrFail as _},
    files::{self, Readers},
    printer::{Printer, Tone, lines},
    settings::VerifySettings,
};
use serde::Serialize;
use std::{error::Error, path::Path, sync::Arc, time::Instant};
use tg_proof::court::{self, Evidence, Shown, commitment_id, context, secret};
use tg_proof::{Mode, Prover};
use tg_tensor::commit::Salt;
use tg_tensor::trace::{inputs_root, outputs_root};
use tg_tensor::{Model, Tensor};
use tg_types::weights::RegistrationFile;
use tg_types::{
    Bytes, Encode as _, GenesisHash, Hash32, JobId, NodeId, ProofFile, RegistrationClaim,
    ResultClaim, ShownBy,
};

/// What files hold.
const RUN: &str = "proof of a run";
const REGISTRATION: &str = "registration of secret weights";

const HINT: &str = "`tensorgrid model show` tells what a model reads; Normalise and some look-ups \
    cannot be proven yet";

#[derive(Serialize)]
struct Told {
    file: Option<String>,
    output: String,
    weights: String,
    setup_ms: f64,
    prove_ms: f64,
    verify_ms: f64,
    proof_bytes: usize,
    security_bits: f64,
    /// How many proofs about secret weights are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    proofs_left: Option<u16>,
}

/// A run that was proven, and what it took.
struct Proven {
    file: ProofFile,
    weights: Hash32,
    setup_ms: f64,
    prove_ms: f64,
    proof_bytes: usize,
    left: Option<u16>,
}

fn too_long() -> Failure {
    Failure::new("the proof is too long for a file", "prove a smaller model")
}

/// `prove`
pub(super) fn run(
    keys: &Path,
    arguments: &ProveArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let model = Arc::new(model::read_program(&arguments.model)?);
    let inputs = read_inputs(&model, &arguments.input)?;
    let progress = printer.progress("proving");
    let proven = match arguments.hide {
        None => openly(&model, &inputs)?,
        Some(what) => hidden(keys, &model, &inputs, what)?,
    };
    drop(progress);
    let Proven { file, weights, setup_ms, prove_ms, proof_bytes, left } = proven;
    let started = Instant::now();
    let verified = court::verify(file.program.as_slice(), &file.claim, file.shown.as_slice());
    let verified = verified.or_fail("the proof does not hold", "report this")?;
    let verify_ms = ms(started);
    if let Some(out) = &arguments.out {
        let what = format!("cannot write {}", out.display());
        files::write(out, &file.to_file(), Readers::All).or_fail(what, "is the folder there?")?;
    }
    let told = Told {
        file: arguments.out.as_ref().map(|out| out.display().to_string()),
        output: file.claim.output.to_string(),
        weights: weights.to_string(),
        setup_ms,
        prove_ms,
        verify_ms,
        proof_bytes,
        security_bits: verified.report.map_or(0.0, |report| report.bits),
        proofs_left: left,
    };
    printer.result(&told, || text(&told));
    Ok(Exit::Done)
}

/// Proves a run without showing its data.
fn hidden(
    keys: &Path,
    model: &Arc<Model>,
    inputs: &[Tensor],
    what: Hide,
) -> Result<Proven, Failure> {
    let hide::Hidden { claim, shown, weights, setup_ms, prove_ms, proof_bytes, left } =
        hide::prove(keys, model, inputs, what)?;
    let program = Bytes::new(model.program().to_bytes()).map_err(|_| too_long())?;
    let shown = Bytes::new(shown).map_err(|_| too_long())?;
    let file = ProofFile { claim, program, shown };
    Ok(Proven { file, weights, setup_ms, prove_ms, proof_bytes, left })
}

/// Proves a run, with inputs and outputs in the clear.
fn openly(model: &Arc<Model>, inputs: &[Tensor]) -> Result<Proven, Failure> {
    let started = Instant::now();
    let prover = Prover::new(Arc::clone(model), Mode::Committed, 1);
    let prover = prover.or_fail("runs of this model cannot be proven", HINT)?;
    let setup_ms = ms(started);
    let (genesis, job, node) =
        (GenesisHash::new([0; 32]), JobId::new([0; 32]), NodeId::new([0; 32]));
    let started = Instant::now();
    let proven = prover.prove(vec![inputs.to_vec()], context(&genesis, &job, &node));
    let (statement, proof) = proven.or_fail("the run cannot be proven", HINT)?;
    let prove_ms = ms(started);
    let outputs: Vec<_> = statement.outputs.into_iter().flatten().collect();
    let (proof, commitment) = (proof.to_bytes(), prover.commitment());
    let weights = commitment_id(commitment.as_ref());
    let salt = files::random().or_fail("there are no random numbers", "try again")?;
    let proof_bytes = proof.len();
    let evidence = Evidence::proof(commitment.as_ref(), proof).ok_or_else(too_long)?;
    let shown = Shown::new(salt, inputs, &outputs, evidence).ok_or_else(too_long)?;
    let claim = ResultClaim {
        genesis,
        job,
        node,
        program: model.id(),
        weights: model.weights_root(),
        inputs: inputs_root(inputs, &Salt::new(salt)),
        output: outputs_root(outputs.iter()),
        by: ShownBy::Proof { weights },
    };
    let program = Bytes::new(model.program().to_bytes()).map_err(|_| too_long())?;
    let shown = Bytes::new(shown.to_bytes()).map_err(|_| too_long())?;
    let file = ProofFile { claim, program, shown };
    Ok(Proven { file, weights, setup_ms, prove_ms, proof_bytes, left: None })
}

fn ms(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}

fn text(told: &Told) -> String {
    let mut rows = vec![
        ("output", told.output.clone()),
        ("weights", format!("committed to in {:.1} ms as {}", told.setup_ms, told.weights)),
        ("proven in", format!("{:.1} ms", told.prove_ms)),
        ("verified in", format!("{:.1} ms", told.verify_ms)),
        ("proof", format!("{} bytes, {:.1} bits", told.proof_bytes, told.security_bits)),
    ];
    rows.extend(told.proofs_left.map(|left| ("proofs left", left.to_string())));
    rows.extend(told.file.iter().map(|file| ("written to", file.clone())));
    lines(&rows)
}

#[derive(Serialize)]
struct Report {
    verdict: &'static str,
    file: String,
    kind: &'static str,
    sentences: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    explanation: Vec<String>,
}

/// `verify` of a proof file; `None` if the bytes are of another kind.
pub(super) fn verify(
    bytes: &[u8],
    settings: &VerifySettings,
    printer: &Printer,
) -> Option<Result<Exit, Failure>> {
    let ((verdict, sentences, explanation), kind) = match ProofFile::from_file(bytes) {
        Some(Ok(file)) => (judge(&file, settings.explain), RUN),
        Some(Err(error)) => (("bad", causes(&error), Vec::new()), RUN),
        None => match RegistrationFile::from_file(bytes)? {
            Ok(file) => (judge_registration(&file, settings.explain), REGISTRATION),
            Err(error) => (("bad", causes(&error), Vec::new()), REGISTRATION),
        },
    };
    let is_good = verdict == "good";
    let file = settings.file.display().to_string();
    let report = Report { verdict, file, kind, sentences, explanation };
    printer.result(&report, || {
        let tone = if is_good { Tone::Good } else { Tone::Bad };
        let mut text = format!("{}: a {kind}", printer.word(tone, verdict));
        for sentence in report.sentences.iter().chain(&report.explanation) {
            text.push_str("\n  ");
            text.push_str(sentence);
        }
        text
    });
    Some(Ok(if is_good { Exit::Done } else { Exit::Failed }))
}

fn causes(error: &dyn Error) -> Vec<String> {
    Failure::new("", "").because(error).causes
}

/// Verdict, what was found, and on what that rests.
type Judged = (&'static str, Vec<String>, Vec<String>);

/// Holds a registration of secret weights against what it says.
fn judge_registration(file: &RegistrationFile, explain: bool) -> Judged {
    let RegistrationFile { claim, program, proof } = file;
    let report = match secret::verify(program.as_slice(), claim, proof.as_slice()) {
        Ok(report) => report,
        Err(error) => return ("bad", causes(&error), Vec::new()),
    };
    let (weights, proofs) = (claim.weights.id(), claim.weights.proofs);
    let mut sentences = vec![
        format!(
            "The secret weights behind the commitment {weights} fit program {}.",
            claim.program
        ),
        format!("The commitment hides them for {proofs} proofs, this one included."),
    ];
    sentences.push(if claim.genesis == RegistrationClaim::NOWHERE {
        "It is for no network.".to_owned()
    } else {
        format!("It is of account {} of the network {}.", claim.owner, claim.genesis)
    });
    let mut explanation = Vec::new();
    if explain {
        explanation.push(format!(
            "A false statement passes with a probability of at most 2^-{:.1}, which is proven.",
            report.bits
        ));
        explanation.push(
            "Hidden: the weights. Shown: the program with its sizes, tables and the bounds of its \
             products, within which the weights are."
                .to_owned(),
        );
    }
    ("good", sentences, explanation)
}

fn judge(file: &ProofFile, explain: bool) -> Judged {
    let verified = court::verify(file.program.as_slice(), &file.claim, file.shown.as_slice());
    let verified = match verified {
        Ok(verified) => verified,
        Err(error) => return ("bad", causes(&error), Vec::new()),
    };
    let ResultClaim { genesis, job, node, program, inputs, output, by, .. } = &file.claim;
    let inputs = if let ShownBy::Zk { inputs: committed, .. } = by { committed } else { inputs };
    let mut sentences = vec![format!(
        "Program {program} gives output {output} on the inputs with the root {inputs}."
    )];
    let mut explanation = Vec::new();
    match (by, &verified.report) {
        (ShownBy::Proof { weights } | ShownBy::Zk { weights, .. }, Some(report)) => {
            let secret = if is_secret(by) { " secret:" } else { "" };
            let sentence =
                format!("Its weights are{secret} those behind the commitment {weights}.");
            sentences.push(sentence);
            explanation.push(format!(
                "A false statement passes with a probability of at most 2^-{:.1}, which is proven:",
                report.bits
            ));
            let terms = report.terms.iter();
            explanation.extend(terms.map(|term| format!("  {}: 2^-{:.1}", term.name, term.bits)));
            explanation.push("It rests on SHA-256, for which no collisions are known.".to_owned());
            explanation.push(not_shown(by).to_owned());
        }
        (ShownBy::Rerun | ShownBy::Proof { .. } | ShownBy::Zk { .. }, _) => {
            sentences.push("The program was run here, with the weights of the file.".to_owned());
        }
    }
    let is_free = *job == JobId::new([0; 32]);
    sentences.push(if is_free {
        "It is for no network and no job.".to_owned()
    } else {
        format!("It is for job {job} on node {node} of the network {genesis}, and no other.")
    });
    if explain {
        let count = |tensors: &[Tensor]| tensors.iter().map(|it| it.len()).sum::<usize>();
        explanation.push(match by {
            ShownBy::Zk { run, .. } => format!(
                "Nothing is read in the clear: the file has commitments to inputs and outputs. It \
                 is about run {run} of the job, counted from 0; each has a commitment of its own. \
                 Whoever opens the result finds that of the outputs again."
            ),
            ShownBy::Proof { .. } | ShownBy::Rerun => format!(
                "Read in the clear: {} numbers of inputs, {} of outputs; both fit the program, and \
                 have the roots that are named.",
                count(&verified.inputs),
                count(&verified.outputs)
            ),
        });
        if !is_free {
            explanation.push(
                "Whether the job was paid, and what it named, tells its receipt: `tensorgrid \
                 receipt`, then `tensorgrid verify`."
                    .to_owned(),
            );
        }
    } else {
        explanation.clear();
    }
    ("good", sentences, explanation)
}

/// Whether a result is about weights that are a secret.
const fn is_secret(by: &ShownBy) -> bool {
    match by {
        ShownBy::Zk { is_secret, .. } => *is_secret,
        ShownBy::Proof { .. } | ShownBy::Rerun => false,
    }
}

/// What a proof of a run leaves open about its weights.
const fn not_shown(by: &ShownBy) -> &'static str {
    if is_secret(by) {
        "Hidden: inputs, outputs and weights. Not shown here: that the weights fit the program. \
         Their registration shows it, under the same commitment: a network's, or the file that \
         `tensorgrid model register --out` writes."
    } else {
        "Not shown: that the committed weights are those you mean; whoever has them computes the \
         commitment again."
    }
}

#[cfg(test)]
mod tests {
    use super::judge;
    use tg_types::{Bytes, GenesisHash, Hash32, JobId, NodeId, ProofFile, ResultClaim, ShownBy};

    #[test]
    fn file_that_shows_nothing_is_bad() {
        let hash = Hash32::new([1; 32]);
        let claim = ResultClaim {
            genesis: GenesisHash::new([1; 32]),
            job: JobId::new([1; 32]),
            node: NodeId::new([1; 32]),
            program: hash,
            weights: hash,
            inputs: hash,
            output: hash,
            by: ShownBy::Rerun,
        };
        let file = ProofFile { claim, program: Bytes::EMPTY, shown: Bytes::EMPTY };
        let (verdict, reasons, _) = judge(&file, true);
        assert_eq!((verdict, reasons.is_empty()), ("bad", false));
        let read = ProofFile::from_file(&file.to_file());
        assert_eq!(read, Some(Ok(file)));
        assert_eq!(ProofFile::from_file(b"{}"), None);
    }
}
