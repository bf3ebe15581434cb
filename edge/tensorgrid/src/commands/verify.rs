//! Checking a document offline: good, bad, or cannot tell.
//!
//! The verdict rests on the document and the network's file alone. A file counts only in one of the
//! two forms in which it is written (one line, or one field per line), so that a changed byte is
//! always noticed, even between fields.

use super::prove;
use crate::{
    failure::{Exit, Failure, OrFail as _},
    files,
    printer::{Printer, Tone, lines},
    settings::{VerifySettings, network_beside},
};
use serde::Serialize;
use std::{error::Error, path::Path};
use tg_api::{Document, NetworkDocument, Verified, document::DOCUMENT_BYTES_MAX, verify};
use tg_types::{Decode as _, Genesis};

/// Words that stand in every document of ours. One changed byte cannot hide all of them, so a file
/// with any of them is one of ours, whole or damaged.
const MARKS: [&str; 4] = ["\"genesis\"", "\"certificate\"", "\"header\"", "\"state_root\""];

#[derive(Serialize)]
struct Report<'a> {
    verdict: &'static str,
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u64>,
    sentences: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    explanation: Vec<String>,
}

/// `verify`
pub(crate) fn run(settings: &VerifySettings, printer: &Printer) -> Result<Exit, Failure> {
    let path = settings.file.display();
    let bytes =
        read(&settings.file).map_err(|error| Failure { exit: Exit::CannotTell, ..error })?;
    if let Some(judged) = prove::verify(&bytes, settings, printer) {
        return judged;
    }
    if !is_ours(&bytes) {
        return Err(Failure::cannot_tell(
            format!("{path} is not a document of TensorGrid"),
            "save one with `tensorgrid receipt`, `proof` or `certificate`",
        ));
    }
    let Some(network) = &settings.network else {
        return Err(Failure::cannot_tell(
            "whether it is good depends on the network, and no network file was given",
            format!(
                "give --network FILE, from a place you trust; `up` and `genesis` write it as {}",
                network_beside(&settings.file).file_name().unwrap_or_default().to_string_lossy()
            ),
        ));
    };
    let network = read_network(network)?;
    match check(&bytes, &network) {
        Ok((document, verified)) => {
            good(settings, &document, &verified, &network, printer);
            Ok(Exit::Done)
        }
        Err(reasons) => {
            bad(settings, reasons, printer);
            Ok(Exit::Failed)
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let max = u64::try_from(DOCUMENT_BYTES_MAX).unwrap_or(u64::MAX);
    let what = format!("{} cannot be read", path.display());
    files::read(path, max).or_fail(what, "check the file's name")
}

fn is_ours(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    MARKS.iter().any(|mark| text.contains(mark))
}

/// The network's file: the document, or the genesis itself.
fn read_network(path: &Path) -> Result<NetworkDocument, Failure> {
    let bytes = read(path).map_err(|error| Failure { exit: Exit::CannotTell, ..error })?;
    if let Ok(genesis) = Genesis::from_bytes(&bytes) {
        return Ok(NetworkDocument::new(&genesis));
    }
    let hint = "use network.json as written by `up` or `genesis`, or the genesis itself";
    match Document::read(&bytes) {
        Ok(Document::Network(network)) => Ok(*network),
        Ok(Document::Certificate(_) | Document::Proof(_) | Document::Receipt(_)) => {
            let what = format!("{} does not describe a network", path.display());
            Err(Failure::cannot_tell(what, hint))
        }
        Err(error) => {
            let what = format!("{} does not describe a network", path.display());
            Err(Failure::cannot_tell(what, hint).because(&error))
        }
    }
}

/// Checks a document; a bad one is answered with the reasons, from near to deep.
fn check(bytes: &[u8], network: &NetworkDocument) -> Result<(Document, Verified), Vec<String>> {
    let document = Document::read(bytes).map_err(|error| causes(&error))?;
    if !is_written_by_us(&document, bytes) {
        return Err(vec!["the file is not as TensorGrid writes it".to_owned()]);
    }
    let verified = verify(&document, network).map_err(|error| causes(&error))?;
    Ok((document, verified))
}

fn is_written_by_us(document: &Document, bytes: &[u8]) -> bool {
    let pretty = document.write();
    let compact = serde_json::to_string(document).unwrap_or_default();
    let bare = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bare == pretty.trim_end().as_bytes() || bare == compact.as_bytes()
}

fn causes(error: &dyn Error) -> Vec<String> {
    Failure::new("", "").because(error).causes
}

fn good(
    settings: &VerifySettings,
    document: &Document,
    verified: &Verified,
    network: &NetworkDocument,
    printer: &Printer,
) {
    let explanation = if settings.explain { explanation(document, network) } else { Vec::new() };
    let report = Report {
        verdict: "good",
        file: settings.file.display().to_string(),
        kind: Some(verified.kind),
        chain: Some(verified.chain.to_string()),
        height: verified.height.map(|height| height.get()),
        sentences: verified.sentences.clone(),
        explanation,
    };
    printer.result(&report, || {
        let verdict = printer.word(Tone::Good, "good");
        let mut text = format!("{verdict}: a {} of {}", verified.kind, verified.chain);
        for sentence in report.sentences.iter().chain(&report.explanation) {
            text.push_str("\n  ");
            text.push_str(sentence);
        }
        text
    });
}

fn bad(settings: &VerifySettings, reasons: Vec<String>, printer: &Printer) {
    let report = Report {
        verdict: "bad",
        file: settings.file.display().to_string(),
        kind: None,
        chain: None,
        height: None,
        sentences: reasons,
        explanation: Vec::new(),
    };
    printer.result(&report, || {
        let verdict = printer.word(Tone::Bad, "bad");
        let mut text = format!("{verdict}: {} proves nothing", report.file);
        for reason in &report.sentences {
            text.push_str("\n  because ");
            text.push_str(reason);
        }
        text
    });
    printer.say("hint: get the file again; if it stays bad, do not rely on what it says");
}

/// What was checked, and what the verdict rests on.
fn explanation(document: &Document, network: &NetworkDocument) -> Vec<String> {
    let step = match document {
        Document::Certificate(_) => "the header's digest was computed from its bytes",
        Document::Proof(_) => {
            "the entry, or the gap in which it would lie, was hashed up to the header's state root"
        }
        Document::Receipt(_) => "the receipt was hashed up to the header's receipts root",
        Document::Network(_) => "both files were compared field by field",
    };
    let rows = [
        ("checked", step.to_owned()),
        ("checked", "the committee's threshold signature over height and header digest".to_owned()),
        ("rests on", format!("the network's file: genesis {}", network.genesis)),
        ("rests on", "less than a third of that committee being dishonest".to_owned()),
        (
            "rests on",
            "SHA-256 (2^128 steps to collide), BLS12-381 (about 2^117 to forge)".to_owned(),
        ),
    ];
    lines(&rows).lines().map(str::to_owned).collect()
}
