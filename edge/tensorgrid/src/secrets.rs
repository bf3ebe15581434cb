//! Keys of secret weights: what makes the commitment to a model's weights, and for what it serves.
//!
//! One proof more than a commitment is for may show something of the weights. A network counts the
//! proofs that it has made; those that are made without one are counted here, before each is made.
//! Neither knows of the other's, so a key serves one network or files, never both.

use crate::{
    failure::{Failure, OrFail as _},
    files::{self, Readers},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    path::{Path, PathBuf},
};
use tg_api::text::Text;
use tg_gateway::WeightsSecret;
use tg_proof::court::secret::SecretKey;
use tg_tensor::Model;
use tg_types::{
    AccountId, GenesisHash, Hash32,
    hash::{Tag, tagged},
};

/// The format of these files.
const FORMAT: u32 = 1;

/// They are short.
const BYTES_MAX: u64 = 4 << 10;

const NAME: Tag = Tag::new("tensorgrid/weights key file");

const WHAT: &str = "the key of the secret weights cannot be used";
const HINT: &str = "check the folder's permissions";

/// For what a key serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Serves {
    /// For nothing yet.
    Nothing,
    /// For jobs of an account of a network, which counts the proofs.
    Network {
        /// Which network.
        genesis: Text<GenesisHash>,
        /// Whose jobs.
        owner: Text<AccountId>,
    },
    /// For proofs that are made here; so many may have been, the registration included.
    Files {
        /// How many.
        proofs: u16,
    },
}

/// The key of a model's weights, as it is kept.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    format: u32,
    /// The commitment that it makes, by content.
    pub(crate) weights: Text<Hash32>,
    /// For how many proofs.
    pub(crate) proofs: u16,
    seed: Text<Hash32>,
    /// For what it serves.
    pub(crate) serves: Serves,
}

impl Kept {
    /// A new one.
    pub(crate) fn new(key: &SecretKey, weights: Hash32) -> Self {
        let (weights, seed) = (Text(weights), Text(Hash32::new(key.seed)));
        Self { format: FORMAT, weights, proofs: key.proofs, seed, serves: Serves::Nothing }
    }

    /// What makes the commitment.
    pub(crate) fn key(&self) -> SecretKey {
        SecretKey { seed: *self.seed.0.as_bytes(), proofs: self.proofs }
    }

    /// The same, as packages carry it.
    pub(crate) fn secret(&self) -> WeightsSecret {
        WeightsSecret { seed: *self.seed.0.as_bytes(), proofs: self.proofs }
    }

    /// Has it serve an account of a network from now on.
    pub(crate) fn for_network(
        &mut self,
        genesis: GenesisHash,
        owner: AccountId,
    ) -> Result<(), Failure> {
        let wanted = Serves::Network { genesis: Text(genesis), owner: Text(owner) };
        if self.serves != wanted && self.serves != Serves::Nothing {
            return Err(self.taken());
        }
        self.serves = wanted;
        Ok(())
    }

    /// Counts a registration that is made here, which is the same whenever it is made.
    pub(crate) fn count_registration(&mut self) -> Result<(), Failure> {
        match self.serves {
            Serves::Nothing => self.serves = Serves::Files { proofs: 1 },
            Serves::Files { .. } => {}
            Serves::Network { .. } => return Err(self.taken()),
        }
        Ok(())
    }

    /// Counts a proof that is about to be made here; says how many are left.
    pub(crate) fn count(&mut self) -> Result<u16, Failure> {
        self.count_registration()?;
        let Serves::Files { proofs } = &mut self.serves else { return Err(self.taken()) };
        if *proofs >= self.proofs {
            return Err(Failure::new(
                format!("all {} proofs about these weights may have been made", self.proofs),
                "commit to them anew: `tensorgrid model commit MODEL --again`",
            ));
        }
        *proofs += 1;
        Ok(self.proofs - *proofs)
    }

    fn taken(&self) -> Failure {
        let hint = "commit to the weights anew for another use: `tensorgrid model commit MODEL \
                    --again`";
        let what = match &self.serves {
            Serves::Network { genesis, owner } => format!(
                "the commitment to these weights serves account {owner} of the network {genesis}, \
                 which counts its proofs"
            ),
            Serves::Files { .. } | Serves::Nothing => {
                "the commitment to these weights serves proofs that are made without a network"
                    .to_owned()
            }
        };
        Failure::new(what, hint)
    }
}

/// The keys of this machine's secret weights.
#[derive(Debug)]
pub(crate) struct Secrets {
    folder: PathBuf,
}

impl Secrets {
    /// Those in a folder with keys.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Where the key of a model's weights is.
    pub(crate) fn path(&self, model: &Model) -> PathBuf {
        let (program, root) = (model.id(), model.weights_root());
        let name = tagged(NAME, &[program.as_bytes(), root.as_bytes()]).to_string();
        let short: String = name.chars().take(32).collect();
        self.folder.join(format!("{short}.weights.json"))
    }

    /// The key of a model's weights, if there is one.
    pub(crate) fn find(&self, model: &Model) -> Result<Option<Kept>, Failure> {
        let path = self.path(model);
        let bytes = match files::read(&path, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(Failure::new(WHAT, HINT).because(&error)),
        };
        let hint = format!("{} is damaged or of another version", path.display());
        let kept: Kept = serde_json::from_slice(&bytes).or_fail(WHAT, &hint)?;
        if kept.format != FORMAT {
            return Err(Failure::new(WHAT, hint));
        }
        Ok(Some(kept))
    }

    /// The key of a model's weights.
    pub(crate) fn known(&self, model: &Model) -> Result<Kept, Failure> {
        self.find(model)?.ok_or_else(|| {
            Failure::new(
                "there is no commitment to the weights of this model on this machine",
                "make one: `tensorgrid model commit MODEL`",
            )
        })
    }

    /// Keeps a key; nobody else on this machine can read it.
    pub(crate) fn keep(&self, model: &Model, kept: &Kept) -> Result<(), Failure> {
        let bytes = serde_json::to_vec_pretty(kept).or_fail(WHAT, HINT)?;
        files::make_folder(&self.folder).or_fail(WHAT, HINT)?;
        files::write(&self.path(model), &bytes, Readers::Owner).or_fail(WHAT, HINT)
    }

    /// Changes the key of a model's weights while no other process does, and keeps it.
    pub(crate) fn change<T>(
        &self,
        model: &Model,
        change: impl FnOnce(&mut Kept) -> Result<T, Failure>,
    ) -> Result<(Kept, T), Failure> {
        let _lock = self.lock()?;
        let mut kept = self.known(model)?;
        let made = change(&mut kept)?;
        self.keep(model, &kept)?;
        Ok((kept, made))
    }

    /// Waits until no other process changes keys.
    pub(crate) fn lock(&self) -> Result<File, Failure> {
        files::make_folder(&self.folder).or_fail(WHAT, HINT)?;
        let path = self.folder.join("weights.lock");
        let file = OpenOptions::new().create(true).append(true).open(path).or_fail(WHAT, HINT)?;
        file.lock().or_fail(WHAT, HINT)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::{Kept, Serves};
    use tg_api::text::Text;
    use tg_proof::court::secret::SecretKey;
    use tg_types::{AccountId, GenesisHash, Hash32};

    fn kept(proofs: u16) -> Kept {
        Kept::new(&SecretKey { seed: [5; 32], proofs }, Hash32::new([6; 32]))
    }

    /// Goal: no proof is made that is not counted, and none beyond the number, the registration
    /// included, which is counted once.
    #[test]
    fn proofs_are_counted_before_they_are_made() {
        let mut kept = kept(3);
        assert_eq!(kept.count().ok(), Some(1));
        assert!(kept.count_registration().is_ok());
        assert_eq!((kept.count().ok(), kept.serves), (Some(0), Serves::Files { proofs: 3 }));
        assert!(kept.count().is_err_and(|failure| failure.hint.contains("--again")));
        assert!(kept.count_registration().is_ok(), "it is the same proof again");
        assert_eq!(kept.serves, Serves::Files { proofs: 3 });
    }

    /// Goal: a key never serves two counters. Method: all orders of uses.
    #[test]
    fn key_serves_one_network_or_files() {
        let (genesis, other) = (GenesisHash::new([1; 32]), GenesisHash::new([2; 32]));
        let owner = AccountId::new([8; 32]).expect("not a small-order key");
        let mut first = kept(3);
        assert!(first.for_network(genesis, owner).is_ok());
        assert!(first.for_network(genesis, owner).is_ok(), "it may be registered again");
        assert!(first.for_network(other, owner).is_err() && first.count().is_err());
        assert!(first.count_registration().is_err());
        let expected = Serves::Network { genesis: Text(genesis), owner: Text(owner) };
        assert_eq!(first.serves, expected, "refusals change nothing");
        let mut second = kept(3);
        assert!(second.count().is_ok() && second.for_network(genesis, owner).is_err());
        let text = serde_json::to_string(&first).expect("writes");
        let read: Kept = serde_json::from_str(&text).expect("reads");
        assert_eq!((read.key(), read.serves), (first.key(), first.serves));
    }
}
