//! Whether a package opens, once its key is public. Every validator that keeps the package comes to
//! the same answer, because nothing but the key, the package and the chain goes into it.

use crate::package::{Package, PackageError, Results, Whose, result_key_hash};
use std::io::Read;
use tg_privacy::{ContentKey, WrapSecret};
use tg_types::{AccountId, GenesisHash, JobId, JobSpec, Message, RunResult};

/// Who knows what is inside packages. Validators keep them and understand nothing of it. What is
/// inside is read as it is opened, to its end.
pub trait Contents: Send + Sync + 'static {
    /// Whether these are the inputs that a job names.
    ///
    /// # Errors
    /// If they cannot be read.
    fn are_inputs(&self, spec: &JobSpec, plain: &mut dyn Read) -> Result<bool, PackageError>;

    /// Whether this is the output that a result names. Tensor programs are given as the chain has
    /// them on record.
    ///
    /// # Errors
    /// If it cannot be read.
    fn is_output(
        &self,
        spec: &JobSpec,
        program: Option<&[u8]>,
        result: &RunResult,
        plain: &mut dyn Read,
    ) -> Result<bool, PackageError>;
}

/// A complaint with all that decides it.
pub(crate) struct Case<'a> {
    pub(crate) genesis: GenesisHash,
    pub(crate) job: JobId,
    pub(crate) owner: AccountId,
    pub(crate) spec: &'a JobSpec,
    /// The result that was accepted, if one was.
    pub(crate) result: Option<RunResult>,
    /// The bytes of the job's program, if it has one.
    pub(crate) program: Option<&'a [u8]>,
}

impl Case<'_> {
    /// Whether the package opens with this key to what the chain says is in it. A key that is not
    /// the one of the package shows nothing: then the package counts as one that opens. Inputs that
    /// are another owner's, or whose key is elsewhere than the job says, need no key to be refused.
    ///
    /// # Errors
    /// If the package could not be read here, which says nothing about it.
    pub(crate) fn opens(
        &self,
        about: Message,
        key: [u8; 32],
        package: impl Read,
        contents: &dyn Contents,
    ) -> Result<bool, PackageError> {
        match self.tried(about, key, package, contents) {
            Err(error) if error.is_wrong() => Ok(false),
            tried => tried,
        }
    }

    fn tried(
        &self,
        about: Message,
        key: [u8; 32],
        mut package: impl Read,
        contents: &dyn Contents,
    ) -> Result<bool, PackageError> {
        match about {
            Message::Inputs => {
                let head = Package::read(&mut package)?;
                // What everybody sees needs no key: nobody has to publish one of another's data.
                if !head.is_of(&self.whose(), self.spec) {
                    return Ok(false);
                }
                let key = ContentKey::new(key);
                if !head.is_key(&key) {
                    return Ok(true);
                }
                // Those who check the result could not all have it.
                if !head.is_split_fairly(&key) {
                    return Ok(false);
                }
                let mut plain = head.open_inputs(&key, &self.whose(), package)?;
                contents.are_inputs(self.spec, &mut plain)
            }
            Message::Result => {
                let secret = WrapSecret::from_seed(key);
                let Some(result) = self.result else { return Ok(true) };
                if result_key_hash(secret.public()) != self.spec.result_key.hash {
                    return Ok(true);
                }
                let head = Package::read(&mut package)?;
                let mut plain = head.open_output(&secret, &self.whose(), package)?;
                let is_output = Results::read(&mut plain, &self.job, |plain| {
                    contents.is_output(self.spec, self.program, &result, plain)
                });
                Ok(is_output?.unwrap_or(false))
            }
        }
    }

    const fn whose(&self) -> Whose {
        Whose { genesis: self.genesis, owner: self.owner }
    }
}

#[cfg(test)]
mod tests {
    use super::{Case, Contents};
    use crate::package::{
        Holders, Lock, Package, PackageError, Results, Seal, Whose, result_key_hash, share_context,
    };
    use crate::stream::{Plain, head_bytes};
    use std::io::Read;
    use tg_privacy::{
        ContentKey, Randomness, Share, ShareBook, ShareIndex, WrapPublic, WrapSecret, wrap_share,
    };
    use tg_types::{
        AccountId, Amount, Decode as _, DurationMs, Encode as _, GenesisHash, Hash32, JobId,
        JobSpec, KeyEscrow, List, Message, Needs, ResultKey, RunResult, SecretKey, Tier, Work,
    };

    /// Contents that are right if they are these.
    struct Only(&'static [u8]);

    impl Contents for Only {
        fn are_inputs(&self, _: &JobSpec, plain: &mut dyn Read) -> Result<bool, PackageError> {
            let mut found = Vec::new();
            plain.read_to_end(&mut found)?;
            Ok(found == self.0)
        }

        fn is_output(
            &self,
            spec: &JobSpec,
            _: Option<&[u8]>,
            _: &RunResult,
            plain: &mut dyn Read,
        ) -> Result<bool, PackageError> {
            self.are_inputs(spec, plain)
        }
    }

    const GENESIS: GenesisHash = GenesisHash::new([9; 32]);
    const JOB: JobId = JobId::new([1; 32]);
    const SEED: [u8; 32] = [5; 32];

    fn owner() -> AccountId {
        SecretKey::from_seed([3; 32]).public().into()
    }

    fn numbers() -> impl FnMut() -> [u8; 32] {
        let mut number = 100_u8;
        move || {
            number += 1;
            [number; 32]
        }
    }

    fn spec() -> JobSpec {
        let hash = Hash32::new([0; 32]);
        let key = result_key_hash(WrapSecret::from_seed(SEED).public());
        JobSpec {
            work: Work::Opaque { task: hash },
            package: hash,
            package_bytes: 0,
            key_escrow: KeyEscrow::Validators,
            result_key: ResultKey { nonce: [0; 16], hash: key },
            needs: Needs::ANY,
            tier: Tier::Trusted,
            pay: Amount::ZERO,
            run_max: DurationMs::MINUTE,
            expires_after: DurationMs::MINUTE,
            promise: None,
            checkpoint: None,
            nodes: 1,
        }
    }

    /// A package in memory.
    fn sealed(seal: Seal, plain: &dyn Plain) -> Vec<u8> {
        let mut package = Vec::new();
        seal.write(plain, &mut package).expect("seals");
        package
    }

    fn opens(package: &[u8], about: Message, key: [u8; 32]) -> bool {
        opens_of(&spec(), package, about, key)
    }

    fn opens_of(spec: &JobSpec, package: &[u8], about: Message, key: [u8; 32]) -> bool {
        let hash = Hash32::new([0; 32]);
        let result = RunResult { output: hash, trace: hash, package: hash, package_bytes: 0 };
        let result = Some(result);
        let (genesis, owner) = (GENESIS, owner());
        let case = Case { genesis, job: JOB, owner, spec, result, program: None };
        case.opens(about, key, package, &Only(b"right")).expect("is in memory")
    }

    /// A sealed result: of which job, what, for whom and to which key.
    fn result(job: JobId, plain: &[u8], owner: AccountId, to: &WrapPublic) -> Vec<u8> {
        let results = Results::new(vec![(job, Box::new(plain.to_vec()))]).expect("one");
        let whose = Whose { genesis: GENESIS, owner };
        sealed(Seal::output(&whose, to, numbers()).expect("a seal"), &results)
    }

    #[test]
    fn result_opens_only_to_what_was_promised_for_its_owner_and_key() {
        let secret = WrapSecret::from_seed(SEED);
        let (key, stranger) = (secret.public(), WrapSecret::from_seed([6; 32]));
        let good = result(JOB, b"right", owner(), key);
        assert!(opens(&good, Message::Result, SEED));
        let wrong = [
            result(JOB, b"wrong", owner(), key),
            result(JobId::new([2; 32]), b"right", owner(), key),
            result(JOB, b"right", SecretKey::from_seed([4; 32]).public().into(), key),
            result(JOB, b"right", owner(), stranger.public()),
            good[..good.len() - 1].to_vec(),
            b"garbage".to_vec(),
        ];
        for package in wrong {
            assert!(!opens(&package, Message::Result, SEED));
            // Another key than that of the job shows nothing about the package.
            assert!(opens(&package, Message::Result, [6; 32]));
        }
        for place in [0, 40, good.len() - 1] {
            let mut changed = good.clone();
            changed[place] ^= 1;
            assert!(!opens(&changed, Message::Result, SEED), "byte {place}");
        }
    }

    #[test]
    fn inputs_open_only_to_what_the_job_names() {
        let whose = Whose { genesis: GENESIS, owner: owner() };
        let keys = vec![(0, WrapSecret::from_seed([8; 32]).public().clone())];
        let seal = |plain: &[u8], whose: &Whose| {
            let holders = Holders { keys: keys.clone(), seats: 1 };
            let seal = Seal::inputs(whose, &holders, numbers()).expect("a holder");
            let package = sealed(seal, &plain.to_vec());
            let head = Package::read(&mut package.as_slice()).expect("a head");
            let secret = WrapSecret::from_seed([8; 32]);
            let share = head.share_of((0, &secret), GENESIS).expect("a share");
            let key = *head.key_of(&[share]).expect("a key").expose();
            (package, key)
        };
        let (good, key) = seal(b"right", &whose);
        assert!(opens(&good, Message::Inputs, key));
        assert!(opens(&good, Message::Inputs, [0; 32]), "another key shows nothing");
        let (wrong, key) = seal(b"wrong", &whose);
        assert!(!opens(&wrong, Message::Inputs, key));
        assert!(opens(&wrong, Message::Inputs, [0; 32]));
        let other = Whose { owner: SecretKey::from_seed([4; 32]).public().into(), ..whose };
        let (foreign, foreign_key) = seal(b"right", &other);
        // Another's package is refused without its key.
        for key in [[0; 32], foreign_key] {
            assert!(!opens(&foreign, Message::Inputs, key));
        }
        assert!(!opens(b"garbage", Message::Inputs, key));
        // So is a result where inputs should be, which has no key that could be shown.
        let direct = result(JOB, b"right", owner(), WrapSecret::from_seed(SEED).public());
        assert!(!opens(&direct, Message::Inputs, [0; 32]));
        // And a package whose key is not where the job says.
        let kept = JobSpec { key_escrow: KeyEscrow::None, ..spec() };
        assert!(!opens_of(&kept, &good, Message::Inputs, [0; 32]));
    }

    /// Goal: an owner cannot have its job run by a node that gets the key, and its result left
    /// unchecked by those who do not. Method: one of four shares fits the book and not the others;
    /// the node finds the key by leaving it out, and what it shows convinces every validator.
    #[test]
    fn inputs_with_a_share_that_does_not_fit_are_refused_by_their_key() {
        let whose = Whose { genesis: GENESIS, owner: owner() };
        let secrets: Vec<WrapSecret> = (1..=4).map(|it| WrapSecret::from_seed([it; 32])).collect();
        let keys = secrets.iter().map(|secret| secret.public().clone()).enumerate().collect();
        let holders = Holders { keys, seats: 4 };
        let good = Seal::inputs(&whose, &holders, numbers()).expect("holders");
        let good = sealed(good, &b"right".to_vec());
        let mut rest = good.as_slice();
        let mut head = Package::read(&mut rest).expect("a head");
        let Lock::Escrowed { book, shares } = &mut head.lock else { panic!("not in shares") };
        let odd = Share::new(ShareIndex::new(4).expect("an index"), [1; 32]);
        let mut bytes = book.to_bytes();
        let place = bytes.len() - 32; // the digest of the last one
        bytes[place..].copy_from_slice(odd.digest().as_bytes());
        *book = ShareBook::from_bytes(&bytes).expect("a book");
        let (context, mut wrapped) = (share_context(&whose, book), shares.as_slice().to_vec());
        wrapped[3] = wrap_share(&odd, secrets[3].public(), &context, Randomness::new([2; 32]));
        *shares = List::new(wrapped).expect("four");
        let lie = [&head_bytes(&head).expect("short")[..], rest].concat();
        let share = |seat: usize| head.share_of((seat, &secrets[seat]), GENESIS).expect("fits");
        assert!(head.key_of(&[share(1), share(2), share(3)]).is_err(), "a quorum without the key");
        let key = head.key_of(&[share(0), share(1), share(2)]).expect("a quorum that has it");
        assert!(head.is_key(&key) && !head.is_split_fairly(&key));
        assert!(!opens(&lie, Message::Inputs, *key.expose()));
        assert!(opens(&good, Message::Inputs, *key.expose()));
        assert!(opens(&lie, Message::Inputs, [0; 32]), "another key shows nothing");
    }

    #[test]
    fn inputs_that_their_owner_keeps_are_judged_by_its_key() {
        let whose = Whose { genesis: GENESIS, owner: owner() };
        let seal = |plain: &[u8]| {
            let seal = Seal::owned(&whose, ContentKey::new([7; 32]), Randomness::new([8; 32]));
            sealed(seal.expect("a seal"), &plain.to_vec())
        };
        let kept = JobSpec { key_escrow: KeyEscrow::None, ..spec() };
        let opens = |package: &[u8], about, key| opens_of(&kept, package, about, key);
        let (good, wrong) = (seal(b"right"), seal(b"wrong"));
        assert!(opens(&good, Message::Inputs, [7; 32]));
        assert!(!opens(&wrong, Message::Inputs, [7; 32]));
        assert!(!opens(&good[..good.len() - 1], Message::Inputs, [7; 32]));
        assert!(opens(&wrong, Message::Inputs, [0; 32]), "another key shows nothing");
    }
}
