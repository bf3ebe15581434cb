//! One module per command family. Each takes its own settings and the printer, and ends with an
//! exit code or a failure.

mod catalogue;
mod doctor;
mod documents;
mod earnings;
mod events;
mod genesis;
mod import;
mod jobs;
mod look;
mod model;
mod prove;
mod provide;
mod send;
mod ticket;
mod up;
mod validator;
mod verify;
mod wallet;

use crate::{
    bench,
    failure::{Exit, Failure},
    printer::Printer,
    settings::Command,
};

pub(crate) use up::start_nodes;

/// Carries out a command.
///
/// # Errors
/// If it fails, with what to do next.
pub(crate) fn run(command: Command, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Command::Up(settings) => up::run(&settings, printer),
        Command::Genesis(settings) => genesis::run(&settings, printer),
        Command::Validator(settings) => validator::run(&settings, printer),
        Command::Wallet(settings) => wallet::run(settings, printer),
        Command::Send(settings) => send::run(settings, printer),
        Command::Ticket(rpc) => ticket::run(&rpc, printer),
        Command::Status(rpc) => look::status(&rpc, printer),
        Command::Nodes(rpc, limit) => look::nodes(&rpc, limit, printer),
        Command::Prove(keys, arguments) => prove::run(&keys, &arguments, printer),
        Command::Verify(settings) => verify::run(&settings, printer),
        Command::Save(settings) => documents::run(&settings, printer),
        Command::Events(rpc, count) => events::run(&rpc, count, printer),
        Command::Jobs(settings) => jobs::run(&settings, printer),
        Command::Provide(settings) => provide::run(*settings, printer),
        Command::Doctor(arguments, keystore) => doctor::run(&arguments, &keystore, printer),
        Command::Earnings(way, state, arguments) => {
            earnings::run(&way, &state, &arguments, printer)
        }
        Command::Import(arguments) => import::run(&arguments, printer),
        Command::Catalogue(arguments) => catalogue::run(&arguments, printer),
        Command::Model(way, arguments) => model::run(&way, &arguments, printer),
        Command::BenchChain(settings) => bench::run(&settings, printer),
        Command::BenchJobs(arguments) => bench::jobs::run(&arguments, printer),
        Command::BenchJct(arguments) => bench::jct::run(&arguments, printer),
        Command::BenchDeadlines(arguments) => bench::jct::promises(&arguments, printer),
        Command::BenchRouting(arguments) => bench::jct::learning(&arguments, printer),
        Command::BenchLearning(arguments) => bench::learning::run(&arguments, printer),
        Command::BenchPacking(arguments) => bench::packing::run(&arguments, printer),
        Command::BenchMig(arguments) => bench::mig::run(&arguments, printer),
        Command::BenchSched(arguments) => bench::sched::run(&arguments, printer),
        Command::BenchProof(arguments) => bench::proof::run(&arguments, printer),
        Command::BenchTensor(arguments) => bench::tensor::run(&arguments, printer),
    }
}
