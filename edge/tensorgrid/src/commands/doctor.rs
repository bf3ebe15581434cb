//! `doctor`: what this machine has, what is wrong with it, and how to mend it.

use crate::{
    args::provide::DoctorArguments,
    failure::{Exit, Failure},
    files::TemporaryFolder,
    keystore::Keystore,
    printer::{Printer, Tone},
    work::machine,
};
use serde::Serialize;
use std::time::Instant;
use tg_api::words::HOST_ONLY;
use tg_provider::devices::{Severity, findings};
use tg_types::Hash32;

/// Blocks of the memory that is filled: 32 MiB, more than most processors keep close by.
const CAPACITY_BLOCKS: u32 = 1 << 15;

#[derive(Serialize)]
struct Told {
    devices: Vec<String>,
    /// How fast this machine fills memory, which is what networks measure.
    capacity: Option<Capacity>,
    not_found: Vec<String>,
    sandbox: Vec<Checked>,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Capacity {
    filled_mib: u32,
    took_ms: u64,
    mib_per_s: f64,
    giga_multiply_adds_per_s: f64,
}

#[derive(Serialize)]
struct Checked {
    what: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Serialize)]
struct Finding {
    severity: String,
    code: &'static str,
    what: String,
    fix: String,
}

pub(super) fn run(
    arguments: &DoctorArguments,
    keystore: &Keystore,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let progress = printer.progress("looking at this machine");
    let catalogue = machine::detect(arguments.nvml_library.clone());
    let mut found: Vec<Finding> = findings(&catalogue)
        .into_iter()
        .map(|finding| Finding {
            severity: finding.severity.to_string(),
            code: finding.code,
            what: finding.what,
            fix: finding.fix,
        })
        .collect();
    let sandbox = sandbox(&mut found);
    found.extend(unsaved_keys(keystore));
    drop(progress);
    let devices = catalogue
        .offered()
        .into_iter()
        .map(|device| format!("{} × {}, {} MiB", device.count, device.model, device.memory_mib));
    let told = Told {
        devices: devices.collect(),
        capacity: capacity(),
        not_found: catalogue.absences().iter().map(ToString::to_string).collect(),
        sandbox,
        findings: found,
    };
    let is_ill = told.findings.iter().any(|it| it.severity == Severity::Error.to_string());
    printer.result(&told, || text(&told, printer));
    Ok(if is_ill { Exit::Failed } else { Exit::Done })
}

/// Fills a memory as a network would ask this machine to.
fn capacity() -> Option<Capacity> {
    let started = Instant::now();
    let filled = tg_tensor::capacity::fill(Hash32::new([0; 32]), CAPACITY_BLOCKS, 0);
    let took = started.elapsed();
    let _root = filled.ok()?.root();
    let seconds = took.as_secs_f64().max(1e-6);
    let multiply_adds = u64::from(CAPACITY_BLOCKS) * tg_tensor::capacity::BLOCK_MULTIPLY_ADDS;
    let tenth = |number: f64| (number * 10.0).round() / 10.0;
    Some(Capacity {
        filled_mib: CAPACITY_BLOCKS / 1_024,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        mib_per_s: tenth(f64::from(CAPACITY_BLOCKS / 1_024) / seconds),
        giga_multiply_adds_per_s: tenth(multiply_adds as f64 / seconds / 1e9),
    })
}

/// What can hold strangers' programs here.
fn sandbox(found: &mut Vec<Finding>) -> Vec<Checked> {
    let error = |what: String| Finding {
        severity: Severity::Error.to_string(),
        code: "no-sandbox",
        what,
        fix: "install bubblewrap, or offer tensor programs only (`provide --no-sandbox`)"
            .to_owned(),
    };
    let Ok(folder) = TemporaryFolder::new() else {
        found.push(error("there is no temporary folder to try sandboxes in".to_owned()));
        return Vec::new();
    };
    match machine::workshop(folder.path(), false) {
        Ok(workshop) => {
            let abilities = workshop.sandbox.abilities();
            if abilities.usable().next().is_none() {
                found.push(error("no sandbox works on this machine".to_owned()));
            }
            let explained = abilities.explain().into_iter();
            explained
                .map(|it| Checked { what: it.what, ok: it.is_present, hint: it.hint })
                .collect()
        }
        Err(failed) => {
            found.push(error(format!("sandboxes cannot be tried: {failed}")));
            Vec::new()
        }
    }
}

/// Wallets of this machine of which no copy is known.
fn unsaved_keys(keystore: &Keystore) -> Vec<Finding> {
    let wallets = keystore.list().unwrap_or_default();
    let unsaved = wallets.into_iter().filter(|wallet| !wallet.backed_up);
    unsaved
        .map(|wallet| Finding {
            severity: Severity::Warning.to_string(),
            code: "key-not-backed-up",
            what: format!("wallet {} has no backup; a lost key is lost money", wallet.name),
            fix: format!("tensorgrid wallet backup FILE --name {}", wallet.name),
        })
        .collect()
}

fn text(told: &Told, printer: &Printer) -> String {
    let mut text = String::new();
    for device in &told.devices {
        text.push_str(&format!("{} {device}\n", printer.word(Tone::Good, "device   ")));
    }
    if let Some(it) = &told.capacity {
        text.push_str(&format!(
            "capacity  {} MiB filled in {} ms ({} MiB/s, {} GMAC/s); networks measure this when a \
             node joins\n          {HOST_ONLY}\n",
            it.filled_mib, it.took_ms, it.mib_per_s, it.giga_multiply_adds_per_s
        ));
    }
    for absence in &told.not_found {
        text.push_str(&format!("not found {absence}\n"));
    }
    for ability in &told.sandbox {
        let hint = ability.hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default();
        let word = if ability.ok { "works    " } else { "missing  " };
        text.push_str(&format!("{word} {}{hint}\n", ability.what));
    }
    for finding in &told.findings {
        text.push_str(&format!("{}: {}\n  {}\n", finding.severity, finding.what, finding.fix));
    }
    if told.findings.is_empty() {
        text.push_str("Nothing is wrong.\n");
    }
    text
}
