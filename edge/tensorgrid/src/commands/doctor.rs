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
use tg_api::words::WHAT_IS_PROVED;
use tg_provider::devices::{Catalogue, Severity, findings};
use tg_tensor::capacity::{self, CapacityError, Filled};
use tg_types::Hash32;

/// Blocks of the memory that is filled: 32 MiB, more than most processors keep close by.
const CAPACITY_BLOCKS: u32 = 1 << 15;

/// What the memory is filled from.
const CAPACITY_SEED: Hash32 = Hash32::new([0; 32]);

#[derive(Serialize)]
struct Told {
    devices: Vec<String>,
    /// How fast each device fills its memory, which is what networks measure.
    capacity: Vec<Capacity>,
    not_found: Vec<String>,
    sandbox: Vec<Checked>,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Capacity {
    device: String,
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
    let catalogue = machine::detect(arguments.nvml_library.clone(), arguments.software_gpus);
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
    let capacity = capacities(&catalogue, &mut found);
    found.extend(unsaved_keys(keystore));
    drop(progress);
    let devices = catalogue
        .offered()
        .into_iter()
        .map(|device| format!("{} × {}, {} MiB", device.count, device.model, device.memory_mib));
    let told = Told {
        devices: devices.collect(),
        capacity,
        not_found: catalogue.absences().iter().map(ToString::to_string).collect(),
        sandbox,
        findings: found,
    };
    let is_ill = told.findings.iter().any(|it| it.severity == Severity::Error.to_string());
    printer.result(&told, || text(&told, printer));
    Ok(if is_ill { Exit::Failed } else { Exit::Done })
}

/// Fills the memory of each device as a network would ask this machine to.
fn capacities(catalogue: &Catalogue, found: &mut Vec<Finding>) -> Vec<Capacity> {
    let mut measured = Vec::new();
    let host = || capacity::fill(CAPACITY_SEED, CAPACITY_BLOCKS, 0);
    measured.extend(measure("processor", host).ok());
    found.extend(machine::missing_kernels(catalogue).map(|what| Finding {
        severity: Severity::Warning.to_string(),
        code: "gpu-no-kernels",
        what,
        fix: machine::KERNELS_FIX.to_owned(),
    }));
    fill_gpus(catalogue, &mut measured, found);
    measured
}

/// Fills the memory of each GPU that can be opened, and says what is wrong with the others.
#[cfg(feature = "wgpu")]
fn fill_gpus(catalogue: &Catalogue, measured: &mut Vec<Capacity>, found: &mut Vec<Finding>) {
    use tg_agent::agent::{FillError, open_gpu};
    let places = machine::gpu_places(catalogue, &machine::GpuChoice::All);
    for place in &places {
        let filled = open_gpu(&place.model, std::slice::from_ref(place)).and_then(|gpu| {
            let fill = || capacity::fill_on(&gpu, CAPACITY_SEED, CAPACITY_BLOCKS);
            measure(place.model.as_str(), fill).map_err(FillError::from)
        });
        match filled {
            Ok(filled) => measured.push(filled),
            Err(error) => found.push(Finding {
                severity: Severity::Warning.to_string(),
                code: "gpu-not-filled",
                what: format!("{} cannot show its memory: {}", place.model, causes(&error)),
                fix: "look at its driver; until then it gets no work".to_owned(),
            }),
        }
    }
}

/// An error with all that caused it.
#[cfg(feature = "wgpu")]
fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<String>>().join(": ")
}

#[cfg(not(feature = "wgpu"))]
fn fill_gpus(_: &Catalogue, _: &mut Vec<Capacity>, _: &mut Vec<Finding>) {}

/// Times how long a memory takes to fill.
fn measure(
    device: &str,
    fill: impl FnOnce() -> Result<Filled, CapacityError>,
) -> Result<Capacity, CapacityError> {
    let started = Instant::now();
    let _root = fill()?.root();
    let took = started.elapsed();
    let seconds = took.as_secs_f64().max(1e-6);
    let multiply_adds = u64::from(CAPACITY_BLOCKS) * capacity::BLOCK_MULTIPLY_ADDS;
    let tenth = |number: f64| (number * 10.0).round() / 10.0;
    Ok(Capacity {
        device: device.to_owned(),
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
    for it in &told.capacity {
        text.push_str(&format!(
            "capacity  {}: {} MiB filled in {} ms ({} MiB/s, {} GMAC/s)\n",
            it.device, it.filled_mib, it.took_ms, it.mib_per_s, it.giga_multiply_adds_per_s
        ));
    }
    if !told.capacity.is_empty() {
        text.push_str(&format!(
            "          Networks measure this when a node joins. {WHAT_IS_PROVED}\n"
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
