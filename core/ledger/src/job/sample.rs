//! A job for unit tests of what jobs cost and how they wait.

use tg_types::{Amount, DurationMs, Hash32, JobSpec, KeyEscrow, Needs, ResultKey, Tier, Work};

/// A command of tier none with this pay, which may run for so long.
pub(super) fn command(pay: u64, run_max: u64) -> JobSpec {
    let hash = Hash32::new([0; 32]);
    JobSpec {
        work: Work::Opaque { task: hash },
        package: hash,
        package_bytes: 0,
        key_escrow: KeyEscrow::Validators,
        result_key: ResultKey::NONE,
        needs: Needs::ANY,
        tier: Tier::Trusted,
        pay: Amount::new(pay).expect("below the cap"),
        run_max: DurationMs::new(run_max),
        expires_after: DurationMs::DAY,
        promise: None,
        checkpoint: None,
        nodes: 1,
    }
}
