//! `import`: a job file of what people already have, with everything named that had no counterpart.

use crate::{
    args::import::{ImportJobArguments, SourceKind},
    failure::{Exit, Failure, OrFail as _},
    files::{self, Readers},
    printer::Printer,
};
use serde::Serialize;
use tg_jobfile::import;

#[derive(Serialize)]
struct Told {
    yaml: String,
    notes: Vec<String>,
}

pub(super) fn run(arguments: &ImportJobArguments, printer: &Printer) -> Result<Exit, Failure> {
    let shown = arguments.file.display().to_string();
    let bytes = files::read(&arguments.file, tg_jobfile::BYTES_MAX as u64);
    let bytes = bytes.or_fail(format_args!("cannot read {shown}"), "is the path right?")?;
    let hint = "say what the file is: sdl, compose or slurm";
    let text = std::str::from_utf8(&bytes).or_fail(format_args!("{shown} is no text"), hint)?;
    let imported = match arguments.kind {
        SourceKind::Sdl => import::sdl(text, &shown),
        SourceKind::Compose => import::compose(text, &shown),
        SourceKind::Slurm => import::slurm(text, &shown),
    };
    let imported = imported.or_fail(format_args!("{shown} cannot be imported"), hint)?;
    let notes = imported.notes.iter().map(|note| format!("line {}: {}", note.line, note.what));
    let notes: Vec<String> = notes.collect();
    for note in &notes {
        printer.say(format_args!("{shown}, {note}"));
    }
    let yaml = imported.file.to_yaml();
    if let Some(out) = &arguments.out {
        let what = format!("cannot write {}", out.display());
        files::write(out, yaml.as_bytes(), Readers::All).or_fail(what, "choose another file")?;
    }
    let told = Told { yaml, notes };
    printer.result(&told, || match &arguments.out {
        Some(out) => format!("Wrote {}; run it with `tensorgrid run`.\n", out.display()),
        None => told.yaml.clone(),
    });
    Ok(Exit::Done)
}
