//! Saving what can be checked offline: receipts, proofs, certificates.

use crate::{
    ask::{self, OrAsk as _},
    failure::{Exit, Failure, OrFail as _},
    files::{self, Readers},
    printer::Printer,
    settings::{SaveSettings, Wanted},
};
use tg_api::Document;
use tg_types::Noun;

/// `receipt`, `proof`, `certificate`
pub(crate) fn run(settings: &SaveSettings, printer: &Printer) -> Result<Exit, Failure> {
    let mut client = ask::client(&settings.rpc)?;
    let waiting = printer.progress("waiting for the certificate");
    let document = match &settings.wanted {
        Wanted::Receipt(tx) => {
            let receipt = client.receipt(*tx).or_ask("there is no receipt to save")?;
            Document::Receipt(Box::new(receipt))
        }
        Wanted::Proof(account) => {
            let key = tg_types::StateKey::new(Noun::Account, *account.as_bytes());
            let proof = client.prove(key).or_ask("there is no proof to save")?;
            Document::Proof(Box::new(proof))
        }
        Wanted::Certificate(height) => {
            let certificate = client.certificate(*height);
            Document::Certificate(certificate.or_ask("there is no certificate to save")?)
        }
    };
    drop(waiting);
    let Some(out) = &settings.out else {
        printer.result(&document, || document.write().trim_end().to_owned());
        return Ok(Exit::Done);
    };
    let text = document.write();
    let what = format!("the {} was not saved", document.kind());
    files::write(out, text.as_bytes(), Readers::All).or_fail(what, "choose another file")?;
    let (kind, path) = (document.kind(), out.display().to_string());
    let saved = serde_json::json!({ "kind": kind, "file": path });
    printer.result(&saved, || format!("saved the {kind} to {path}"));
    printer.say(format_args!("Check it with `tensorgrid verify {path} --network FILE`."));
    Ok(Exit::Done)
}
