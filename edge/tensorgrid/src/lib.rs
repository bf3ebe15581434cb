//! The commands of TensorGrid: run a network, run a node, keep keys, send, check, measure.
//!
//! Everything typed is parsed ([`args`]), resolved once with the environment ([`settings`]) and
//! carried out by one module per command family ([`commands`]); all output goes through
//! [`printer`]. A library, so that the end-to-end tests use the same declarations as the program.

mod absent;
mod args;
mod arrays;
mod ask;
mod bench;
mod commands;
pub mod cpu;
mod discovery;
pub mod env;
mod failure;
mod files;
mod folder;
mod keystore;
pub mod memory;
mod network;
mod node;
mod passphrase;
mod printer;
mod secrets;
mod settings;
mod stop;
mod work;

use args::Arguments;
use clap::{
    Parser as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use failure::{Exit, Failure};
use printer::Printer;
use settings::Settings;
use std::process::ExitCode;

/// Carries out what was typed.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let printer = Printer::new(Settings::printer(arguments.json));
    let outcome = Settings::resolve(arguments).and_then(|settings| {
        node::log_to_stderr(settings.log);
        commands::run(settings.command, &printer)
    });
    match outcome {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) => {
            printer.fail(&failure);
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Answers what cannot be parsed: help and version are results, the rest is misuse.
fn refuse(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    let printer = Printer::new(Settings::printer(wants_json));
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        printer.out(error.to_string().trim_end());
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    match absent_command(error) {
        Some(failure) => printer.fail(&failure),
        None if wants_json => {
            let what = text.lines().next().unwrap_or_default();
            let what = what.strip_prefix("error: ").unwrap_or(what);
            printer.fail(&Failure::misuse(what, "see `tensorgrid --help`"));
        }
        None => printer.say(text.trim_end()),
    }
    ExitCode::from(Exit::Misused as u8)
}

fn absent_command(error: &clap::Error) -> Option<Failure> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    absent::refusal(word)
}
