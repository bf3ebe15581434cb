//! What a client hands to the network: everything a run needs, sealed once, with the key split
//! among the validators. Anybody may hold a package; only those whom the chain chooses get enough
//! shares to open it. A result travels the same way back, with its key wrapped to the client alone.

use tg_privacy::{
    CombineError, ContentKey, Context, KeyOf, OpenError, Purpose, Randomness, SealError, Share,
    ShareBook, Threshold, ThresholdError, ThresholdSpec, WrapContext, WrapPublic, WrapSecret,
    Wrapped, combine, open_all, seal_all, split, unwrap, unwrap_share, wrap, wrap_share,
};
use tg_types::genesis::SEATS_MAX;
use tg_types::hash::{Tag, tagged};
use tg_types::{
    AccountId, Decode, DecodeError, Encode, GenesisHash, Hash32, JobId, List, Reader, Tier, wire,
};

/// The largest package: what is kept in memory while it is sealed and opened.
pub const PACKAGE_BYTES_MAX: usize = 64 << 20;

const RESULT_KEY: Tag = Tag::new("tensorgrid/result key");

/// Why a package cannot be made or opened.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// It is too long.
    #[error("package has {found} bytes, at most {PACKAGE_BYTES_MAX} are allowed")]
    TooLarge {
        /// How long it is.
        found: usize,
    },
    /// Too many validators, or none.
    #[error("key cannot be split among the validators")]
    Threshold(#[from] ThresholdError),
    /// It cannot be sealed.
    #[error("package cannot be sealed")]
    Seal(#[from] SealError),
    /// It cannot be read.
    #[error("package cannot be read")]
    Decode(#[from] DecodeError),
    /// The shares give no key.
    #[error("shares give no key")]
    Combine(#[from] CombineError),
    /// The key does not open it.
    #[error("package does not open")]
    Open(#[from] OpenError),
    /// It was wrapped to somebody else.
    #[error("key was not wrapped to us")]
    Unwrap(#[from] tg_privacy::UnwrapError),
    /// It holds something else.
    #[error("package holds something else")]
    Kind,
    /// No share of its key was wrapped to us.
    #[error("package has no share of its key for us")]
    NoShare,
    /// It would hold too much.
    #[error("more than {max} items of one kind")]
    TooMany {
        /// How many there may be.
        max: usize,
    },
}

wire! {
    /// What a run of a tensor program reads.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TensorInputs {
        /// The secret of the inputs' salt.
        pub salt: [u8; 32],
        /// The key to which the result is wrapped.
        pub result_to: WrapPublic,
        /// The tier, so that a checker knows what is expected of it.
        pub tier: Tier,
        /// The bytes of the model: program and weights.
        pub model: Blob,
        /// The inputs, one after the other, as bytes of tensors.
        pub inputs: Blobs,
    }
}

/// The most inputs or outputs of a run.
pub const BLOBS_MAX: usize = 64;

/// Byte strings, such as the inputs or outputs of a run.
pub type Blobs = Several<Blob, BLOBS_MAX>;

/// Items of any length, at most so many. They are read one after the other: an item may be short,
/// so their number alone promises nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Several<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Several<T, MAX> {
    /// Takes items, if there are not too many.
    ///
    /// # Errors
    /// If there are too many.
    pub fn new(items: Vec<T>) -> Result<Self, PackageError> {
        if items.len() > MAX { Err(PackageError::TooMany { max: MAX }) } else { Ok(Self(items)) }
    }

    /// The items.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }
}

impl<T, const MAX: usize> Default for Several<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Encode, const MAX: usize> Encode for Several<T, MAX> {
    fn encode(&self, out: &mut Vec<u8>) {
        tg_types::codec::encode_list(&self.0, out);
    }
}

impl<T: Decode, const MAX: usize> Decode for Several<T, MAX> {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.length(0, MAX)?;
        (0..count).map(|_| T::decode(reader)).collect::<Result<_, _>>().map(Self)
    }
}

/// Byte strings of a run.
///
/// # Errors
/// If there are too many, or one is too long.
pub fn blobs(bytes: Vec<Vec<u8>>) -> Result<Blobs, PackageError> {
    Blobs::new(bytes.into_iter().map(blob).collect::<Result<_, _>>()?)
}

/// What several jobs of one client gave, each by its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results(Several<JobResult, { Results::COUNT_MAX }>);

wire! {
    /// What one job gave.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct JobResult {
        /// The job.
        pub job: JobId,
        /// What it gave.
        pub plain: Blob,
    }
}

impl Results {
    /// The most in one package.
    pub const COUNT_MAX: usize = 256;

    /// Takes results by their jobs.
    ///
    /// # Errors
    /// If there are too many, or one is too long.
    pub fn new(results: Vec<(JobId, Vec<u8>)>) -> Result<Self, PackageError> {
        let results =
            results.into_iter().map(|(job, plain)| Ok(JobResult { job, plain: blob(plain)? }));
        Several::new(results.collect::<Result<_, PackageError>>()?).map(Self)
    }

    /// What a job gave, if it is here.
    #[must_use]
    pub fn of(&self, job: &JobId) -> Option<&[u8]> {
        let found = self.0.as_slice().iter().find(|result| result.job == *job);
        found.map(|result| result.plain.as_slice())
    }
}

impl Encode for Results {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for Results {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Several::decode(reader).map(Self)
    }
}

/// Bytes within a package.
pub type Blob = tg_types::Bytes<PACKAGE_BYTES_MAX>;

/// Sealed bytes with what opens them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Package {
    /// The key is in shares, each wrapped to one validator.
    Escrowed {
        /// What is public of the shares.
        book: ShareBook,
        /// One for each holder, in no order: each finds the one that it can open.
        shares: List<Wrapped, 1, SEATS_MAX>,
        /// The sealed bytes.
        sealed: Blob,
    },
    /// The key is wrapped to one recipient.
    Direct {
        /// The key.
        key: Wrapped,
        /// The sealed bytes.
        sealed: Blob,
    },
}

/// Whose package it is, on which network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whose {
    /// The network.
    pub genesis: GenesisHash,
    /// The client.
    pub owner: AccountId,
}

impl Whose {
    const fn context(&self, purpose: Purpose) -> Context {
        let label = Hash32::new([0; 32]);
        Context { genesis: self.genesis, owner: self.owner, purpose, label }
    }
}

/// How the ledger names the key to which a result is sealed.
#[must_use]
pub fn result_key_hash(key: &WrapPublic) -> Hash32 {
    tagged(RESULT_KEY, &[&key.to_bytes()])
}

/// Validators that are given shares of a key.
#[derive(Clone, Debug)]
pub struct Holders {
    /// The keys to which their shares are wrapped.
    pub keys: Vec<WrapPublic>,
    /// Seats of the committee, also those that are given none.
    pub seats: usize,
}

/// Where the shares of a key count.
#[must_use]
pub const fn share_context(genesis: GenesisHash, book: &ShareBook) -> WrapContext {
    WrapContext { genesis, key_of: KeyOf::Content { id: *book.key().hash() } }
}

impl Package {
    /// Seals what a run reads and splits the key among validators.
    ///
    /// # Errors
    /// If it is too long, or there are too many or too few holders.
    pub fn seal_inputs(
        plain: &[u8],
        whose: &Whose,
        holders: &Holders,
        mut random: impl FnMut() -> [u8; 32],
    ) -> Result<Self, PackageError> {
        let key = ContentKey::new(random());
        let mut chance = || Randomness::new(random());
        let context = whose.context(Purpose::Input);
        let sealed = blob(seal_all(&key, &context, chance(), plain)?)?;
        let found = holders.keys.len();
        let spec = ThresholdSpec { needed: Threshold::quorum(holders.seats)?.needed(), of: found };
        let (book, shares) = split(&key, Threshold::new(spec)?, chance());
        let context = share_context(whose.genesis, &book);
        let pairs = shares.iter().zip(&holders.keys);
        let shares = pairs.map(|(share, to)| wrap_share(share, to, &context, chance())).collect();
        let shares = List::new(shares).map_err(|_| ThresholdError::Of { found })?;
        Ok(Self::Escrowed { book, shares, sealed })
    }

    /// Seals what a run gave to the client.
    ///
    /// # Errors
    /// If it is too long.
    pub fn seal_output(
        plain: &[u8],
        whose: &Whose,
        to: &WrapPublic,
        mut random: impl FnMut() -> [u8; 32],
    ) -> Result<Self, PackageError> {
        let key = ContentKey::new(random());
        let mut chance = || Randomness::new(random());
        let context = whose.context(Purpose::Output);
        let sealed = blob(seal_all(&key, &context, chance(), plain)?)?;
        let context = WrapContext {
            genesis: whose.genesis,
            key_of: KeyOf::Content { id: *key.commitment().hash() },
        };
        Ok(Self::Direct { key: wrap(&key, to, &context, chance()), sealed })
    }

    /// The key of a run's inputs, from enough shares.
    ///
    /// # Errors
    /// If the shares give no key, or the package holds something else.
    pub fn key_of(&self, shares: &[Share]) -> Result<ContentKey, PackageError> {
        let Self::Escrowed { book, .. } = self else { return Err(PackageError::Kind) };
        Ok(combine(book, shares)?)
    }

    /// Whether this is the key of a run's inputs.
    #[must_use]
    pub fn is_key(&self, key: &ContentKey) -> bool {
        match self {
            Self::Escrowed { book, .. } => book.key() == key.commitment(),
            Self::Direct { .. } => false,
        }
    }

    /// Opens a run's inputs.
    ///
    /// # Errors
    /// If the key does not open them, or the package holds something else.
    pub fn open_inputs_with(
        &self,
        key: &ContentKey,
        whose: &Whose,
    ) -> Result<Vec<u8>, PackageError> {
        let Self::Escrowed { sealed, .. } = self else { return Err(PackageError::Kind) };
        Ok(open_all(key, &whose.context(Purpose::Input), sealed.as_slice())?.to_vec())
    }

    /// Opens a run's inputs with enough shares.
    ///
    /// # Errors
    /// If the shares give no key, or the package holds something else.
    pub fn open_inputs(&self, shares: &[Share], whose: &Whose) -> Result<Vec<u8>, PackageError> {
        self.open_inputs_with(&self.key_of(shares)?, whose)
    }

    /// Opens a result.
    ///
    /// # Errors
    /// If it was wrapped to somebody else, or holds something else.
    pub fn open_output(&self, secret: &WrapSecret, whose: &Whose) -> Result<Vec<u8>, PackageError> {
        let Self::Direct { key, sealed } = self else { return Err(PackageError::Kind) };
        let header = tg_privacy::SealedHeader::decode(&mut Reader::new(sealed.as_slice()))?;
        let context = WrapContext {
            genesis: whose.genesis,
            key_of: KeyOf::Content { id: *header.key().hash() },
        };
        let key = unwrap(key, secret, &context)?;
        Ok(open_all(&key, &whose.context(Purpose::Output), sealed.as_slice())?.to_vec())
    }

    /// A validator's share: the one that its secret opens and that the book lists.
    ///
    /// # Errors
    /// If there is none.
    pub fn share_of(
        &self,
        secret: &WrapSecret,
        genesis: GenesisHash,
    ) -> Result<Share, PackageError> {
        let Self::Escrowed { book, shares, .. } = self else { return Err(PackageError::Kind) };
        let context = share_context(genesis, book);
        let mut opened =
            shares.as_slice().iter().filter_map(|it| unwrap_share(it, secret, &context).ok());
        opened.find(|share| book.check(share).is_ok()).ok_or(PackageError::NoShare)
    }
}

/// Bytes that a package can hold.
///
/// # Errors
/// If there are too many.
pub fn blob(bytes: Vec<u8>) -> Result<Blob, PackageError> {
    let found = bytes.len();
    Blob::new(bytes).map_err(|_| PackageError::TooLarge { found })
}

impl Encode for Package {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Escrowed { book, shares, sealed } => {
                out.push(1);
                book.encode(out);
                shares.encode(out);
                sealed.encode(out);
            }
            Self::Direct { key, sealed } => {
                out.push(2);
                key.encode(out);
                sealed.encode(out);
            }
        }
    }
}

impl Decode for Package {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.position();
        match reader.byte()? {
            1 => Ok(Self::Escrowed {
                book: ShareBook::decode(reader)?,
                shares: List::decode(reader)?,
                sealed: Blob::decode(reader)?,
            }),
            2 => Ok(Self::Direct { key: Wrapped::decode(reader)?, sealed: Blob::decode(reader)? }),
            found => Err(DecodeError::Tag { at, found: found.into(), expected: "Package" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Holders, Package, PackageError, Results, Whose};
    use tg_privacy::{Share, WrapSecret};
    use tg_types::{AccountId, Decode as _, Encode as _, GenesisHash, JobId, SecretKey};

    fn random() -> impl FnMut() -> [u8; 32] {
        let mut number = 0_u8;
        move || {
            number += 1;
            [number; 32]
        }
    }

    fn whose(number: u8) -> Whose {
        let owner = AccountId::from(SecretKey::from_seed([number; 32]).public());
        Whose { genesis: GenesisHash::new([9; 32]), owner }
    }

    /// Four seats, of which so many are given shares.
    fn validators(holding: usize) -> (Vec<WrapSecret>, Holders) {
        let secrets: Vec<WrapSecret> = (1..=4).map(|n| WrapSecret::from_seed([n; 32])).collect();
        let keys = secrets.iter().take(holding).map(|secret| secret.public().clone()).collect();
        (secrets, Holders { keys, seats: 4 })
    }

    #[test]
    fn inputs_open_with_a_quorum_of_shares_and_not_with_fewer() {
        let (secrets, holders) = validators(4);
        let made = Package::seal_inputs(b"numbers", &whose(1), &holders, random()).expect("small");
        let package = Package::from_bytes(&made.to_bytes()).expect("one byte form");
        assert_eq!(package, made);
        let genesis = whose(1).genesis;
        let share = |seat: usize| package.share_of(&secrets[seat], genesis).expect("ours");
        let shares: Vec<Share> = (1..4).map(share).collect();
        assert_eq!(package.open_inputs(&shares, &whose(1)).expect("three of four"), b"numbers");
        let few = package.open_inputs(&shares[1..], &whose(1));
        assert!(matches!(few, Err(PackageError::Combine(_))));
        let other = package.open_inputs(&shares, &whose(2));
        assert!(matches!(other, Err(PackageError::Open(_))));
        let stranger = package.share_of(&WrapSecret::from_seed([9; 32]), genesis);
        assert!(matches!(stranger, Err(PackageError::NoShare)));
    }

    /// Goal: seats that are gone while a package is sealed make it no easier to open.
    #[test]
    fn inputs_for_fewer_holders_need_as_many_shares() {
        let (secrets, holders) = validators(3);
        let package = Package::seal_inputs(b"numbers", &whose(1), &holders, random());
        let package = package.expect("a quorum holds");
        let share = |secret| package.share_of(secret, whose(1).genesis);
        let shares: Vec<Share> = secrets[..3].iter().map(|it| share(it).expect("ours")).collect();
        assert_eq!(package.open_inputs(&shares, &whose(1)).expect("three of three"), b"numbers");
        assert!(package.open_inputs(&shares[1..], &whose(1)).is_err());
        assert!(matches!(share(&secrets[3]), Err(PackageError::NoShare)));
        let (_, few) = validators(2);
        let refused = Package::seal_inputs(b"numbers", &whose(1), &few, random());
        assert!(matches!(refused, Err(PackageError::Threshold(_))));
    }

    #[test]
    fn results_are_found_by_their_jobs() {
        let job = |number: u8| JobId::new([number; 32]);
        let made = Results::new(vec![(job(1), vec![1]), (job(2), Vec::new())]).expect("few");
        let read = Results::from_bytes(&made.to_bytes()).expect("one byte form");
        assert_eq!(read, made);
        assert_eq!((read.of(&job(1)), read.of(&job(3))), (Some(&[1][..]), None));
        let many = vec![(job(1), Vec::new()); Results::COUNT_MAX + 1];
        assert!(matches!(Results::new(many), Err(PackageError::TooMany { .. })));
    }

    #[test]
    fn output_opens_for_the_client_alone() {
        let client = WrapSecret::from_seed([7; 32]);
        let made = Package::seal_output(b"a two", &whose(1), client.public(), random());
        let made = made.expect("small");
        let package = Package::from_bytes(&made.to_bytes()).expect("one byte form");
        assert_eq!(package.open_output(&client, &whose(1)).expect("ours"), b"a two");
        let stranger = WrapSecret::from_seed([8; 32]);
        assert!(matches!(package.open_output(&stranger, &whose(1)), Err(PackageError::Unwrap(_))));
        assert!(matches!(package.open_inputs(&[], &whose(1)), Err(PackageError::Kind)));
        assert!(package.open_output(&client, &whose(2)).is_err());
    }

    #[test]
    fn prop_truncated_or_changed_packages_never_open_wrongly() {
        let client = WrapSecret::from_seed([7; 32]);
        let made = Package::seal_output(b"a two", &whose(1), client.public(), random());
        let bytes = made.expect("small").to_bytes();
        arbtest::arbtest(|u| {
            let mut changed = bytes.clone();
            let at = u.choose_index(changed.len())?;
            if u.arbitrary()? {
                changed.truncate(at);
            } else {
                changed[at] ^= 1 << u.int_in_range(0..=7)?;
            }
            let opened = Package::from_bytes(&changed)
                .map_err(PackageError::from)
                .and_then(|package| package.open_output(&client, &whose(1)));
            assert!(opened.is_err());
            Ok(())
        });
    }
}
