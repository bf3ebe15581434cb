//! Results on their way to the validators: those for one client that come within a moment go into
//! one sealed package, because every package is fetched and kept by every validator.

use super::work::WorkError;
use super::{AgentConfig, Cheat};
use crate::chance::Chance;
use std::sync::Arc;
use std::time::Duration;
use tg_gateway::package::{Results, Seal, Whose};
use tg_gateway::{Kept, Plain};
use tg_privacy::{WrapPublic, WrapSecret};
use tg_types::JobId;
use tokio::sync::{mpsc, oneshot};

/// What waits to be sent.
const QUEUE: usize = 1_024;

/// How long a result may wait for company.
const GATHER: Duration = Duration::from_millis(10);

/// Bytes from which a package is full.
const FULL_BYTES: u64 = 4 << 20;

/// A result that is to be sent.
pub(crate) struct Parcel {
    pub(crate) job: JobId,
    pub(crate) whose: Whose,
    pub(crate) to: WrapPublic,
    pub(crate) plain: Box<dyn Plain>,
}

/// Where a result is kept.
type Sent = Result<Kept, WorkError>;

/// The way to the task that sends.
#[derive(Clone)]
pub(crate) struct Courier {
    parcels: mpsc::Sender<(Parcel, oneshot::Sender<Sent>)>,
}

impl Courier {
    /// Starts the task; it ends when the last courier is dropped.
    pub(crate) fn start(config: Arc<AgentConfig>) -> Self {
        let (parcels, inbox) = mpsc::channel(QUEUE);
        tokio::spawn(run(config, inbox));
        Self { parcels }
    }

    /// Seals a result and has it kept.
    pub(crate) async fn send(&self, parcel: Parcel) -> Sent {
        let (answer, kept) = oneshot::channel();
        self.parcels.send((parcel, answer)).await.map_err(|_| WorkError::Panicked)?;
        kept.await.map_err(|_| WorkError::Panicked)?
    }
}

async fn run(config: Arc<AgentConfig>, mut inbox: mpsc::Receiver<(Parcel, oneshot::Sender<Sent>)>) {
    while let Some(first) = inbox.recv().await {
        let mut waiting = vec![first];
        tokio::time::sleep(GATHER).await;
        while waiting.len() < QUEUE
            && let Ok(next) = inbox.try_recv()
        {
            waiting.push(next);
        }
        while !waiting.is_empty() {
            let batch = take_batch(&mut waiting);
            let config = Arc::clone(&config);
            // Packages of different clients do not wait for each other.
            tokio::spawn(async move { deliver(&config, batch).await });
        }
    }
}

/// Takes as many results of one client as fit into a package.
fn take_batch<T>(waiting: &mut Vec<(Parcel, T)>) -> Vec<(Parcel, T)> {
    let mut batch: Vec<(Parcel, T)> = Vec::new();
    let mut rest = Vec::new();
    let mut bytes = 0_u64;
    for (parcel, answer) in waiting.drain(..) {
        let fits = batch.first().is_none_or(|(first, _)| {
            first.whose == parcel.whose
                && first.to == parcel.to
                && batch.len() < Results::COUNT_MAX
                && bytes.saturating_add(parcel.plain.bytes()) <= FULL_BYTES
        });
        if fits {
            bytes = bytes.saturating_add(parcel.plain.bytes());
            batch.push((parcel, answer));
        } else {
            rest.push((parcel, answer));
        }
    }
    *waiting = rest;
    batch
}

async fn deliver(config: &AgentConfig, batch: Vec<(Parcel, oneshot::Sender<Sent>)>) {
    let (parcels, answers): (Vec<Parcel>, Vec<_>) = batch.into_iter().unzip();
    let kept = keep(config, parcels).await;
    if let Err(error) = &kept {
        tracing::warn!(%error, "results are not kept");
    }
    for answer in answers {
        let told = kept.as_ref().map(Kept::clone).map_err(|_| WorkError::NotKept);
        let _gave_up = answer.send(told);
    }
}

async fn keep(config: &AgentConfig, parcels: Vec<Parcel>) -> Sent {
    let first = parcels.first().ok_or(WorkError::NotKept)?;
    let (whose, to) = (first.whose, first.to.clone());
    let results = Results::new(parcels.into_iter().map(|it| (it.job, it.plain)).collect())?;
    let seed = (config.random)().ok_or(WorkError::Random)?;
    let mut numbers = Chance::new(seed);
    let to = match config.cheats {
        // Nobody has this key: a package that is there and does not open.
        Some(Cheat::Sealed) => WrapSecret::from_seed(numbers.draw()).public().clone(),
        Some(Cheat::Results | Cheat::Capacity | Cheat::Proofs) | None => to,
    };
    let seal = Seal::output(&whose, &to, || numbers.draw())?;
    Ok(config.gateway.keep(seal, Box::new(results)).await?)
}

#[cfg(test)]
mod tests {
    use super::{FULL_BYTES, Parcel, take_batch};
    use tg_gateway::package::{Results, Whose};
    use tg_privacy::WrapSecret;
    use tg_types::{AccountId, GenesisHash, JobId, SecretKey};

    fn parcel(owner: u8, bytes: u64) -> (Parcel, u8) {
        let account = AccountId::from(SecretKey::from_seed([owner; 32]).public());
        let whose = Whose { genesis: GenesisHash::new([9; 32]), owner: account };
        let to = WrapSecret::from_seed([owner; 32]).public().clone();
        let plain = vec![0; usize::try_from(bytes).expect("small")];
        (Parcel { job: JobId::new([0; 32]), whose, to, plain: Box::new(plain) }, owner)
    }

    #[test]
    fn results_of_one_client_travel_together_as_far_as_they_fit() {
        let mut waiting = vec![parcel(1, 10), parcel(2, 10), parcel(1, 10)];
        waiting.extend([parcel(1, FULL_BYTES), parcel(1, 5)]);
        let owners = |batch: Vec<(Parcel, u8)>| -> Vec<(u8, u64)> {
            batch.iter().map(|(parcel, owner)| (*owner, parcel.plain.bytes())).collect()
        };
        assert_eq!(owners(take_batch(&mut waiting)), [(1, 10), (1, 10), (1, 5)]);
        assert_eq!(owners(take_batch(&mut waiting)), [(2, 10)]);
        assert_eq!(owners(take_batch(&mut waiting)), [(1, FULL_BYTES)]);
        assert!(waiting.is_empty());
        let mut many: Vec<_> = (0..=Results::COUNT_MAX).map(|_| parcel(1, 1)).collect();
        assert_eq!(take_batch(&mut many).len(), Results::COUNT_MAX);
        assert_eq!(many.len(), 1);
    }
}
