//! What a node does with the jobs it is given: it looks into the chain for its runs, commits to
//! results and shows them, as well as its habit lets it.

use crate::{client::Client, world::Habit};
use rand::RngExt as _;
use tg_ledger::{JobEntry, NodeEntry, RunState, keys};
use tg_types::{
    bounded::List,
    hash::sha256,
    ids::{Hash32, JobId, NodeId},
    job::{RunFailure, RunResult},
    tx::{Action, OpenedResult, Sealed},
};

/// Has a turn: at most one transaction of each kind.
pub(crate) async fn work(client: &mut Client, habit: Habit) {
    if habit == Habit::Silent {
        return;
    }
    let me = NodeId::new(*client.account.as_bytes());
    let Some(entry) = client.entry::<NodeEntry>(keys::node(&me)).await else { return };
    let (mut seals, mut results) = (Vec::new(), Vec::new());
    for job in entry.runs.as_slice() {
        let Some(entry) = client.entry::<JobEntry>(keys::job(job)).await else { continue };
        let Some(run) = entry.live().find(|run| run.node == me) else { continue };
        let is_weak = client.chance.random_range(0..3) > 0;
        match run.state {
            RunState::Placed if habit == Habit::Fickle && is_weak => {
                let failure = RunFailure::Declined;
                client.send(Action::GiveUp { job: *job, failure }, None).await;
            }
            RunState::Placed => {
                let seal = result_of(job, &me, habit).seal(&me, &salt_of(job, &me));
                seals.push(Sealed { job: *job, seal });
            }
            RunState::Committed { .. } if habit == Habit::Forgetful && is_weak => {}
            RunState::Committed { .. } => {
                let (result, mut salt) = (result_of(job, &me, habit), salt_of(job, &me));
                // Now and then a liar shows something else than it committed to.
                if habit == Habit::Liar && client.chance.random_range(0..4) == 0 {
                    salt = client.chance.random();
                }
                results.push(OpenedResult { job: *job, result, salt });
            }
            RunState::Revealed { .. } | RunState::Ended { .. } => {}
        }
    }
    if let Ok(seals) = List::new(seals) {
        client.send(Action::CommitResults { seals }, None).await;
    }
    if let Ok(results) = List::new(results) {
        client.send(Action::RevealResults { results, vouchers: List::default() }, None).await;
    }
}

fn salt_of(job: &JobId, node: &NodeId) -> [u8; 32] {
    sha256(&[b"salt", job.as_bytes(), node.as_bytes()])
}

/// What a node says that a job gives. All but liars say the same.
fn result_of(job: &JobId, node: &NodeId, habit: Habit) -> RunResult {
    let mark = if habit == Habit::Liar { node.as_bytes() } else { &[0; 32] };
    let hash = |what: &[u8]| Hash32::new(sha256(&[what, job.as_bytes(), mark]));
    RunResult {
        output: hash(b"output"),
        trace: hash(b"trace"),
        package: hash(b"package"),
        package_bytes: 1,
    }
}
