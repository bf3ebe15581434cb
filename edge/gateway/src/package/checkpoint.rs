//! Checkpoints as packages: the state of a command, sealed so that whoever runs the job next opens
//! it as it opens the inputs.
//!
//! Every node that is given a job gets the key of its inputs, from validators or from the owner. So
//! nothing has to be split or handed out anew: the key of a checkpoint follows from the key of the
//! inputs and a salt in the head, and whoever may read the inputs may read the checkpoint, nobody
//! else. Each checkpoint has a key of its own, so that no two are sealed under one.

use super::{Lock, Package, PackageError, Seal, Whose};
use crate::stream::Opening;
use crate::stream::head_bytes;
use std::io::Read;
use tg_privacy::{ContentKey, Context, Purpose, Randomness};
use tg_types::Hash32;
use tg_types::hash::{Tag, tagged};

const CHECKPOINT_KEY: Tag = Tag::new("tensorgrid/checkpoint key");

/// The key of one checkpoint of a task.
fn key_of(inputs: &ContentKey, salt: &[u8; 32]) -> ContentKey {
    ContentKey::new(*tagged(CHECKPOINT_KEY, &[&*inputs.expose(), salt]).as_bytes())
}

/// Where a checkpoint belongs: to one task of one owner. One of another does not open.
const fn context(whose: &Whose, task: Hash32) -> Context {
    let Whose { genesis, owner } = *whose;
    Context { genesis, owner, purpose: Purpose::Checkpoint, label: task }
}

impl Seal {
    /// For the state of a task whose inputs have this key.
    ///
    /// # Errors
    /// Never, for such a short head.
    pub fn checkpoint(
        whose: &Whose,
        task: Hash32,
        inputs: &ContentKey,
        mut random: impl FnMut() -> [u8; 32],
    ) -> Result<Self, PackageError> {
        let (salt, randomness) = (random(), Randomness::new(random()));
        let lock = Lock::Checkpoint { inputs: inputs.commitment(), salt };
        let head = head_bytes(&Package { whose: *whose, lock })?;
        let (key, context) = (key_of(inputs, &salt), context(whose, task));
        Ok(Self { head, escrow: None, key, context, randomness })
    }
}

impl Package {
    /// Opens the state of a task whose inputs have this key, of which `sealed` is left.
    ///
    /// # Errors
    /// If it is somebody else's, of another task, or something else.
    pub fn open_checkpoint<R: Read>(
        &self,
        inputs: &ContentKey,
        (whose, task): (&Whose, Hash32),
        sealed: R,
    ) -> Result<Opening<R>, PackageError> {
        self.check_whose(whose)?;
        let Lock::Checkpoint { inputs: of, salt } = &self.lock else {
            return Err(PackageError::Kind);
        };
        if *of != inputs.commitment() {
            return Err(PackageError::Whose);
        }
        Ok(Opening::new(&key_of(inputs, salt), &context(whose, task), &[], sealed)?)
    }
}

#[cfg(test)]
mod tests {
    use super::{Package, Seal, Whose};
    use std::io::Read as _;
    use tg_privacy::ContentKey;
    use tg_types::{AccountId, Decode as _, Encode as _, GenesisHash, Hash32, SecretKey};

    const TASK: Hash32 = Hash32::new([5; 32]);

    fn whose(owner: u8) -> Whose {
        let owner = AccountId::from(SecretKey::from_seed([owner; 32]).public());
        Whose { genesis: GenesisHash::new([9; 32]), owner }
    }

    fn sealed(salt: u8) -> Vec<u8> {
        let mut numbers = [[salt; 32], [7; 32]].into_iter();
        let random = || numbers.next().expect("two numbers");
        let key = ContentKey::new([1; 32]);
        let seal = Seal::checkpoint(&whose(1), TASK, &key, random).expect("a seal");
        assert_eq!(seal.escrow(), None, "nobody keeps a key of it");
        let mut bytes = Vec::new();
        seal.write(&b"state".to_vec(), &mut bytes).expect("into memory");
        bytes
    }

    fn open(bytes: &[u8], key: u8, owner: u8, task: Hash32) -> Option<Vec<u8>> {
        let mut sealed = bytes;
        let head = Package::read(&mut sealed).expect("a head");
        let whose = whose(owner);
        let opened = head.open_checkpoint(&ContentKey::new([key; 32]), (&whose, task), sealed);
        let mut plain = Vec::new();
        opened.ok()?.read_to_end(&mut plain).ok()?;
        Some(plain)
    }

    #[test]
    fn checkpoint_opens_with_the_key_of_the_inputs_for_its_owner_and_task_only() {
        let bytes = sealed(3);
        assert_eq!(open(&bytes, 1, 1, TASK).as_deref(), Some(&b"state"[..]));
        assert_eq!(open(&bytes, 2, 1, TASK), None, "another key");
        assert_eq!(open(&bytes, 1, 2, TASK), None, "another owner");
        assert_eq!(open(&bytes, 1, 1, Hash32::new([6; 32])), None, "another task");
        let mut changed = bytes.clone();
        if let Some(last) = changed.last_mut() {
            *last ^= 1;
        }
        assert_eq!(open(&changed, 1, 1, TASK), None, "changed");
        let mut rest = bytes.as_slice();
        let head = Package::read(&mut rest).expect("a head");
        assert_eq!(Package::from_bytes(&head.to_bytes()), Ok(head.clone()));
        let key = ContentKey::new([1; 32]);
        assert!(head.open_inputs(&key, &whose(1), rest).is_err(), "it is no input");
        assert_ne!(sealed(3), sealed(4));
    }
}
