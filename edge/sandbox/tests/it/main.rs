//! Sandboxes on the real machine. This binary has a `main` of its own because it plays four parts:
//! the tests, the helpers of the sandboxes (`init_if_asked`), the hostile programs that run inside
//! (`attack`), and the same tests again as a user without privileges (`as-nobody`).
//!
//! It understands as much of the usual test options as `cargo test` and `cargo xtask ci` use: a
//! part of a name, `--ignored`, `--include-ignored`, `--list`. Tests run one after the other.

mod attack;
mod basics;
mod corpus;
mod images;
mod place;

use std::panic::catch_unwind;
use std::process::ExitCode;

/// One test: its name, and what it does. Slow ones end in `_slow`, as everywhere.
type Test = (&'static str, fn());

const TESTS: &[Test] = &[
    (
        "every_level_here_runs_an_ordinary_program",
        basics::every_level_here_runs_an_ordinary_program,
    ),
    ("abilities_are_explained", basics::abilities_are_explained),
    ("what_is_not_allowed_is_refused", basics::what_is_not_allowed_is_refused),
    ("output_arrives_while_the_program_runs", basics::output_arrives_while_the_program_runs),
    (
        "checkpoint_folder_is_filled_before_and_read_during_a_run",
        basics::checkpoint_folder_is_filled_before_and_read_during_a_run,
    ),
    ("program_is_stopped_from_outside", basics::program_is_stopped_from_outside),
    ("outputs_are_read_and_then_removed", basics::outputs_are_read_and_then_removed),
    ("outputs_are_bounded", basics::outputs_are_bounded),
    ("inputs_and_environment_are_as_stated", basics::inputs_and_environment_are_as_stated),
    ("assigned_devices_are_there_and_no_others", basics::assigned_devices_are_there_and_no_others),
    ("what_a_dead_supervisor_left_is_swept", basics::what_a_dead_supervisor_left_is_swept),
    ("program_that_is_not_there_is_an_error", basics::program_that_is_not_there_is_an_error),
    ("this_program_runs_inside_by_itself", basics::this_program_runs_inside_by_itself),
    ("images_run_without_the_machines_files", images::images_run_without_the_machines_files),
    ("escape_corpus", corpus::escape_corpus),
    ("escape_corpus_as_nobody", corpus::escape_corpus_as_nobody),
    ("escape_corpus_slow", corpus::escape_corpus_slow),
    ("escape_corpus_as_nobody_slow", corpus::escape_corpus_as_nobody_slow),
];

fn main() -> ExitCode {
    tg_sandbox::init_if_asked();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["attack", rest @ ..] => attack::run(rest),
        [corpus::AS_NOBODY, extent] => {
            corpus::run_here(extent);
            ExitCode::SUCCESS
        }
        ["dead-supervisor", folder, level] => basics::be_a_supervisor(folder, level),
        words if place::others_reach_this_program() => run_tests(words),
        words => place::run_where_others_reach_it(words),
    }
}

fn run_tests(words: &[&str]) -> ExitCode {
    let has = |option: &str| words.contains(&option);
    let part = words.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
    let is_asked = |name: &str| {
        let is_slow = name.ends_with("_slow");
        let fits = if has("--ignored") { is_slow } else { !is_slow || has("--include-ignored") };
        name.contains(part) && fits
    };
    let asked: Vec<&Test> = TESTS.iter().filter(|(name, _)| is_asked(name)).collect();
    if has("--list") {
        for (name, _) in asked {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let _alone = place::wait_for_others();
    println!("\nrunning {} tests", asked.len());
    let mut failed = Vec::new();
    for (name, test) in &asked {
        let started = std::time::Instant::now();
        let passed = catch_unwind(test).is_ok();
        let word = if passed { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.1} s)", started.elapsed().as_secs_f32());
        if !passed {
            failed.push(*name);
        }
    }
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    let passed = asked.len() - failed.len();
    println!("\ntest result: {word}. {passed} passed; {} failed; {failed:?}\n", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
