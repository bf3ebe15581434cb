//! The program `tensorgrid`. Everything but the look at the CPU is in the library beside it.

use std::process::ExitCode;

#[global_allocator]
static MEMORY: tensorgrid::memory::Memory = tensorgrid::memory::Memory::new();

fn main() -> ExitCode {
    // First of all: code built for newer CPUs must not run before this.
    if let Err(lacking) = tensorgrid::cpu::check() {
        return tensorgrid::cpu::refuse(lacking);
    }
    // The first process of a sandbox is a copy of this program, and nothing else.
    tg_sandbox::init_if_asked();
    // So is what runs a float model inside one.
    tg_agent::float_run::run_if_asked();
    tensorgrid::run()
}
