//! What a client hands to the network: everything a run needs, sealed once, with the key split
//! among the validators. Anybody may hold a package; only those whom the chain chooses get enough
//! shares to open it. A client that trusts no quorum keeps the key and hands it out itself. A
//! result travels the same way back, with its key wrapped to the client alone.
//!
//! A package says whose it is, and that is bound to everything that opens it: shares and keys are
//! wrapped in a context that names the owner, and so is every sealed chunk. Anybody may name
//! another's package in a job of its own, and may copy it with its own name in the head; the first
//! is refused by whoever compares, the second has no share that anybody can open.

mod checkpoint;
mod error;

pub use error::PackageError;

use crate::stream::{
    HEAD_BYTES_MAX, Opening, Plain, Sealing, copy, expect_end, head_bytes, length, read_bytes,
    read_head,
};
use std::io::{self, Read, Write};
use tg_privacy::content::{HEADER_BYTES, sealed_bytes};
use tg_privacy::{
    ContentKey, Context, KeyCommitment, KeyOf, Purpose, Randomness, Share, ShareBook, Threshold,
    ThresholdError, WrapContext, WrapPublic, WrapSecret, Wrapped, combine, split, unwrap,
    unwrap_share, wrap, wrap_share,
};
use tg_types::genesis::SEATS_MAX;
use tg_types::hash::{Tag, tagged};
use tg_types::{
    AccountId, Decode, DecodeError, Encode, GenesisHash, Hash32, JobId, JobSpec, KeyEscrow, List,
    Reader, Tier, wire,
};

/// The largest package: more than images and models that one machine runs have, and a bound for
/// what somebody can make others fetch. Whoever keeps one must also have the room for it.
pub const PACKAGE_BYTES_MAX: u64 = 64 << 30;

/// The longest head of a package: shares for as many validators as there can be.
const PACKAGE_HEAD_BYTES_MAX: usize = 256 << 10;

const RESULT_KEY: Tag = Tag::new("tensorgrid/result key");

/// What a run of a tensor program reads. It is in memory as a whole, because computing needs it
/// there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInputs {
    /// The secret of the inputs' salt.
    pub salt: [u8; 32],
    /// The key to which the result is wrapped.
    pub result_to: WrapPublic,
    /// The tier, so that a checker knows what is expected of it.
    pub tier: Tier,
    /// The bytes of the model: program and weights.
    pub model: Vec<u8>,
    /// The inputs, one after the other, as bytes of tensors.
    pub inputs: Vec<Vec<u8>>,
    /// What makes the commitment to the weights, if they are a secret of the job's owner.
    pub secret: Option<WeightsSecret>,
}

wire! {
    /// What makes the commitment to secret weights, for whoever is to prove a run with them.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct WeightsSecret {
        /// Its seed.
        pub seed: [u8; 32],
        /// How many proofs it is for.
        pub proofs: u16,
    }
}

impl std::fmt::Debug for WeightsSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeightsSecret").field("proofs", &self.proofs).finish_non_exhaustive()
    }
}

wire! {
    /// The head of a tensor program's package. Model and inputs follow.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct TensorHead {
        salt: [u8; 32],
        result_to: WrapPublic,
        tier: Tier,
        model_bytes: u64,
        inputs_bytes: Several<u64, BLOBS_MAX>,
        secret: Option<WeightsSecret>,
    }
}

impl TensorInputs {
    fn head(&self) -> Result<TensorHead, PackageError> {
        Ok(TensorHead {
            salt: self.salt,
            result_to: self.result_to.clone(),
            tier: self.tier,
            model_bytes: length(&self.model),
            inputs_bytes: Several::new(self.inputs.iter().map(|it| length(it)).collect())?,
            secret: self.secret,
        })
    }

    /// All of it, as it goes into a package.
    ///
    /// # Errors
    /// If there are too many inputs.
    pub fn into_plain(self) -> Result<Parts, PackageError> {
        let head = head_bytes(&self.head()?)?;
        Ok(Parts([head, self.model].into_iter().chain(self.inputs).collect()))
    }

    /// Reads all of it from a package that has so many bytes.
    ///
    /// # Errors
    /// If it is something else, or does not fit into memory.
    pub fn read(from: &mut dyn Read, package_bytes: u64) -> Result<Self, PackageError> {
        let head: TensorHead = read_head(from, HEAD_BYTES_MAX)?;
        let TensorHead { salt, result_to, tier, model_bytes, inputs_bytes, secret } = head;
        let lengths = inputs_bytes.as_slice();
        check_parts(lengths.iter().chain([&model_bytes]), package_bytes)?;
        let model = read_bytes(from, model_bytes)?;
        let inputs = lengths.iter().map(|it| read_bytes(from, *it)).collect::<Result<_, _>>()?;
        expect_end(from)?;
        Ok(Self { salt, result_to, tier, model, inputs, secret })
    }
}

/// Refuses to take so many bytes into memory, twice over, as a run of a tensor program does: as
/// they come, and as the numbers that they stand for.
///
/// # Errors
/// If there is not that much memory free.
pub fn check_memory(bytes: u64) -> Result<(), PackageError> {
    let needed = bytes.saturating_mul(2);
    match free_memory() {
        Some(free) if free < needed => Err(PackageError::Memory { needed }),
        Some(_) | None => Ok(()),
    }
}

/// Memory that the system can give without taking it from somebody; nothing if it does not tell.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10)
}

/// The length of parts together. Refuses those that are longer than what they come from, before
/// room is made for them.
fn check_parts<'a>(
    lengths: impl Iterator<Item = &'a u64>,
    package_bytes: u64,
) -> Result<u64, PackageError> {
    let found = lengths.fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    if found > package_bytes {
        return Err(PackageError::TooLarge { found, max: package_bytes });
    }
    Ok(found)
}

/// Bytes in memory, one part after the other.
#[derive(Clone, Debug)]
pub struct Parts(Vec<Vec<u8>>);

impl Parts {
    /// Outputs of a run, with a head that tells how long each is.
    ///
    /// # Errors
    /// If there are too many.
    pub fn outputs(outputs: Vec<Vec<u8>>) -> Result<Self, PackageError> {
        let lengths = outputs.iter().map(|output| length(output)).collect();
        let head = head_bytes(&Several::<u64, BLOBS_MAX>::new(lengths)?)?;
        Ok(Self(std::iter::once(head).chain(outputs).collect()))
    }

    /// Reads the outputs of a run from a package that has so many bytes, if each is as long as it
    /// must be; nothing otherwise. Memory is taken for these alone, whatever else is there.
    ///
    /// # Errors
    /// If it is something else, or does not fit into memory.
    pub fn read_outputs(
        from: &mut dyn Read,
        package_bytes: u64,
        expected: &[u64],
    ) -> Result<Option<Vec<Vec<u8>>>, PackageError> {
        let lengths: Several<u64, BLOBS_MAX> = read_head(from, HEAD_BYTES_MAX)?;
        if lengths.as_slice() != expected {
            return Ok(None);
        }
        check_memory(check_parts(expected.iter(), package_bytes)?)?;
        let read = expected.iter().map(|bytes| read_bytes(from, *bytes));
        let read = read.collect::<Result<_, _>>()?;
        expect_end(from)?;
        Ok(Some(read))
    }
}

impl Plain for Parts {
    fn bytes(&self) -> u64 {
        self.0.iter().map(|part| length(part)).sum()
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.0.iter().try_for_each(|part| out.write_all(part))
    }
}

/// The most inputs or outputs of a run.
pub const BLOBS_MAX: usize = 64;

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

/// What several jobs of one client gave, each by its job.
pub struct Results {
    head: Vec<u8>,
    plain: Vec<Box<dyn Plain>>,
}

wire! {
    /// Whose part of a package it is, and how long.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct ResultEntry {
        job: JobId,
        bytes: u64,
    }
}

impl Results {
    /// The most in one package.
    pub const COUNT_MAX: usize = 256;

    /// Takes results by their jobs.
    ///
    /// # Errors
    /// If there are too many.
    pub fn new(results: Vec<(JobId, Box<dyn Plain>)>) -> Result<Self, PackageError> {
        let entry = |(job, plain): &(JobId, Box<dyn Plain>)| ResultEntry {
            job: *job,
            bytes: plain.bytes(),
        };
        let list: Several<_, { Self::COUNT_MAX }> =
            Several::new(results.iter().map(entry).collect())?;
        let plain = results.into_iter().map(|(_, plain)| plain).collect();
        Ok(Self { head: head_bytes(&list)?, plain })
    }

    /// Reads what a job gave, and the rest to its end; nothing if it is not here.
    ///
    /// # Errors
    /// If results cannot be read, or `read` fails.
    pub fn read<T, E: From<PackageError>>(
        from: &mut dyn Read,
        job: &JobId,
        read: impl FnOnce(&mut dyn Read) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let list: Several<ResultEntry, { Self::COUNT_MAX }> = read_head(from, HEAD_BYTES_MAX)?;
        let (mut wanted, mut found) = (Some(read), None);
        for entry in list.as_slice() {
            let mut part = (&mut *from).take(entry.bytes);
            if entry.job == *job
                && let Some(read) = wanted.take()
            {
                found = Some(read(&mut part)?);
            }
            let left = part.limit();
            copy(&mut part, &mut io::sink(), left).map_err(PackageError::from)?;
            if part.limit() > 0 {
                return Err(
                    PackageError::from(io::Error::from(io::ErrorKind::UnexpectedEof)).into()
                );
            }
        }
        expect_end(from)?;
        Ok(found)
    }
}

impl Plain for Results {
    fn bytes(&self) -> u64 {
        let parts = self.plain.iter().map(|plain| plain.bytes());
        parts.fold(length(&self.head), u64::saturating_add)
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.head)?;
        self.plain.iter().try_for_each(|plain| plain.write(out))
    }
}

wire! {
    /// What a package begins with: whose it is, and all that opens the sealed bytes behind it,
    /// which go to its end.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Package {
        /// Whose it is. Nothing opens that was sealed or wrapped for somebody else.
        pub whose: Whose,
        /// Where its key is.
        pub lock: Lock,
    }
}

/// Where the key of a package is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The key is in shares, each wrapped to one validator.
    Escrowed {
        /// What is public of the shares.
        book: ShareBook,
        /// One for each holder, in no order: each finds the one that it can open.
        shares: List<Wrapped, 1, SEATS_MAX>,
    },
    /// The key is wrapped to one recipient.
    Direct {
        /// The key.
        key: Wrapped,
    },
    /// The owner has the key and hands it out itself.
    Owned {
        /// Which key it is.
        key: KeyCommitment,
    },
    /// The key follows from that of the job's inputs: it is a checkpoint.
    Checkpoint {
        /// Which key the inputs have.
        inputs: KeyCommitment,
        /// What tells this checkpoint's key from others.
        salt: [u8; 32],
    },
}

wire! {
    /// Whose package it is, on which network.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Whose {
        /// The network.
        pub genesis: GenesisHash,
        /// The client.
        pub owner: AccountId,
    }
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
    /// Their seats, and the keys to which their shares are wrapped.
    pub keys: Vec<(usize, WrapPublic)>,
    /// Seats of the committee, also those that are given none.
    pub seats: usize,
}

/// Where the shares of a key count.
#[must_use]
pub const fn share_context(whose: &Whose, book: &ShareBook) -> WrapContext {
    key_context(whose, book.key())
}

/// Where a key counts that is wrapped to somebody.
#[must_use]
pub const fn key_context(whose: &Whose, key: KeyCommitment) -> WrapContext {
    let Whose { genesis, owner } = *whose;
    WrapContext { genesis, owner, key_of: KeyOf::Content { id: *key.hash() } }
}

/// A package that is about to be made.
pub struct Seal {
    head: Vec<u8>,
    escrow: Option<KeyEscrow>,
    key: ContentKey,
    context: Context,
    randomness: Randomness,
}

impl Seal {
    /// For what a run reads, with the key split among validators.
    ///
    /// # Errors
    /// If there are too many or too few holders.
    pub fn inputs(
        whose: &Whose,
        holders: &Holders,
        mut random: impl FnMut() -> [u8; 32],
    ) -> Result<Self, PackageError> {
        let key = ContentKey::new(random());
        let mut chance = || Randomness::new(random());
        let (threshold, of) = (Threshold::quorum(holders.seats)?, holders.keys.len());
        let (book, shares) = split(&key, threshold);
        let context = share_context(whose, &book);
        let wrapped = holders
            .keys
            .iter()
            .filter_map(|(seat, to)| Some(wrap_share(shares.get(*seat)?, to, &context, chance())));
        let shares: Vec<Wrapped> = wrapped.collect();
        if shares.len() < threshold.needed() {
            return Err(ThresholdError::Needed { found: threshold.needed(), of }.into());
        }
        let shares = List::new(shares).map_err(|_| ThresholdError::Of { found: of })?;
        Self::new(*whose, Lock::Escrowed { book, shares }, key, chance())
    }

    /// For what a run reads, with a key that its owner keeps and can tell again.
    ///
    /// # Errors
    /// Never, for such a short head.
    pub fn owned(
        whose: &Whose,
        key: ContentKey,
        randomness: Randomness,
    ) -> Result<Self, PackageError> {
        Self::new(*whose, Lock::Owned { key: key.commitment() }, key, randomness)
    }

    /// For what a run gave to the client.
    ///
    /// # Errors
    /// Never, for a key of ours.
    pub fn output(
        whose: &Whose,
        to: &WrapPublic,
        mut random: impl FnMut() -> [u8; 32],
    ) -> Result<Self, PackageError> {
        let key = ContentKey::new(random());
        let mut chance = || Randomness::new(random());
        let context = key_context(whose, key.commitment());
        let wrapped = wrap(&key, to, &context, chance());
        Self::new(*whose, Lock::Direct { key: wrapped }, key, chance())
    }

    fn new(
        whose: Whose,
        lock: Lock,
        key: ContentKey,
        randomness: Randomness,
    ) -> Result<Self, PackageError> {
        let package = Package { whose, lock };
        let (head, escrow) = (head_bytes(&package)?, package.escrow());
        let purpose = if escrow.is_some() { Purpose::Input } else { Purpose::Output };
        Ok(Self { head, escrow, key, context: whose.context(purpose), randomness })
    }

    /// Who keeps the key, if it is of a run's inputs.
    #[must_use]
    pub const fn escrow(&self) -> Option<KeyEscrow> {
        self.escrow
    }

    /// How many bytes the package will have.
    ///
    /// # Errors
    /// If these are too many.
    pub fn bytes(&self, plain: &dyn Plain) -> Result<u64, PackageError> {
        let sealed = sealed_bytes(plain.bytes()).unwrap_or(u64::MAX);
        let found = sealed.saturating_add(length(&self.head));
        let max = PACKAGE_BYTES_MAX;
        if found > max { Err(PackageError::TooLarge { found, max }) } else { Ok(found) }
    }

    /// Writes the package, sealing what goes in piece by piece.
    ///
    /// # Errors
    /// If one side fails, or there is more or less than was stated.
    pub fn write(self, plain: &dyn Plain, out: &mut dyn Write) -> Result<(), PackageError> {
        out.write_all(&self.head)?;
        let sealing = Sealing::start(&self.key, &self.context, self.randomness, out);
        let mut counted = Counting { out: sealing, written: 0 };
        plain.write(&mut counted)?;
        let (found, stated) = (counted.written, plain.bytes());
        if found != stated {
            return Err(PackageError::Length { found, stated });
        }
        counted.out.finish()
    }
}

/// Counts what is written.
struct Counting<W> {
    out: W,
    written: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.written = self.written.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Package {
    /// Reads what a package begins with and leaves the reader where it is sealed.
    ///
    /// # Errors
    /// If it is something else.
    pub fn read(from: &mut dyn Read) -> Result<Self, PackageError> {
        read_head(from, PACKAGE_HEAD_BYTES_MAX)
    }

    /// The key of a run's inputs, from enough shares.
    ///
    /// # Errors
    /// If the shares give no key, or the package holds something else.
    pub fn key_of(&self, shares: &[Share]) -> Result<ContentKey, PackageError> {
        let Lock::Escrowed { book, .. } = &self.lock else { return Err(PackageError::Kind) };
        Ok(combine(book, shares)?)
    }

    /// Who keeps the key of a run's inputs; nothing if it holds something else.
    #[must_use]
    pub const fn escrow(&self) -> Option<KeyEscrow> {
        match self.lock {
            Lock::Escrowed { .. } => Some(KeyEscrow::Validators),
            Lock::Owned { .. } => Some(KeyEscrow::None),
            Lock::Direct { .. } | Lock::Checkpoint { .. } => None,
        }
    }

    /// Whether these can be the inputs of a job: they are its owner's, and their key is where the
    /// job says. Everybody sees that, without any key.
    #[must_use]
    pub fn is_of(&self, whose: &Whose, spec: &JobSpec) -> bool {
        self.whose == *whose && self.escrow() == Some(spec.key_escrow)
    }

    /// Whether this is the key of a run's inputs.
    #[must_use]
    pub fn is_key(&self, key: &ContentKey) -> bool {
        match &self.lock {
            Lock::Escrowed { book, .. } => book.key() == key.commitment(),
            Lock::Owned { key: ours } => *ours == key.commitment(),
            Lock::Direct { .. } | Lock::Checkpoint { .. } => false,
        }
    }

    /// Whether every quorum of seats has this key in its shares, as far as a package can say: an
    /// owner may have made some that do not fit to the others.
    #[must_use]
    pub fn is_split_fairly(&self, key: &ContentKey) -> bool {
        match &self.lock {
            Lock::Escrowed { book, .. } => book.is_of(key),
            Lock::Owned { .. } | Lock::Direct { .. } | Lock::Checkpoint { .. } => true,
        }
    }

    fn check_whose(&self, whose: &Whose) -> Result<(), PackageError> {
        if self.whose == *whose { Ok(()) } else { Err(PackageError::Whose) }
    }

    /// Opens a run's inputs, of which `sealed` is left.
    ///
    /// # Errors
    /// If the package is somebody else's, or holds something else.
    pub fn open_inputs<R: Read>(
        &self,
        key: &ContentKey,
        whose: &Whose,
        sealed: R,
    ) -> Result<Opening<R>, PackageError> {
        self.check_whose(whose)?;
        self.escrow().ok_or(PackageError::Kind)?;
        Ok(Opening::new(key, &whose.context(Purpose::Input), &[], sealed)?)
    }

    /// Opens a result, of which `sealed` is left.
    ///
    /// # Errors
    /// If it is somebody else's, was wrapped to somebody else, or holds something else.
    pub fn open_output<R: Read>(
        &self,
        secret: &WrapSecret,
        whose: &Whose,
        mut sealed: R,
    ) -> Result<Opening<R>, PackageError> {
        self.check_whose(whose)?;
        let Lock::Direct { key } = &self.lock else { return Err(PackageError::Kind) };
        let mut begun = [0; HEADER_BYTES];
        sealed.read_exact(&mut begun)?;
        let header = tg_privacy::SealedHeader::from_bytes(&begun)?;
        let context = key_context(whose, header.key());
        let key = unwrap(key, secret, &context)?;
        Ok(Opening::new(&key, &whose.context(Purpose::Output), &begun, sealed)?)
    }

    /// A validator's share: the one of its seat, if its secret opens it and the book lists it. So
    /// no two seats have the same one.
    ///
    /// # Errors
    /// If there is none, or the package is of another network.
    pub fn share_of(
        &self,
        (seat, secret): (usize, &WrapSecret),
        genesis: GenesisHash,
    ) -> Result<Share, PackageError> {
        if self.whose.genesis != genesis {
            return Err(PackageError::Whose);
        }
        let Lock::Escrowed { book, shares } = &self.lock else { return Err(PackageError::Kind) };
        let context = share_context(&self.whose, book);
        let mut opened =
            shares.as_slice().iter().filter_map(|it| unwrap_share(it, secret, &context).ok());
        let is_ours = |share: &Share| share.index().position() == seat && book.check(share).is_ok();
        opened.find(is_ours).ok_or(PackageError::NoShare)
    }
}

impl Encode for Lock {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Escrowed { book, shares } => {
                out.push(1);
                book.encode(out);
                shares.encode(out);
            }
            Self::Direct { key } => {
                out.push(2);
                key.encode(out);
            }
            Self::Owned { key } => {
                out.push(3);
                key.encode(out);
            }
            Self::Checkpoint { inputs, salt } => {
                out.push(4);
                inputs.encode(out);
                salt.encode(out);
            }
        }
    }
}

impl Decode for Lock {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.position();
        match reader.byte()? {
            1 => Ok(Self::Escrowed {
                book: ShareBook::decode(reader)?,
                shares: List::decode(reader)?,
            }),
            2 => Ok(Self::Direct { key: Wrapped::decode(reader)? }),
            3 => Ok(Self::Owned { key: KeyCommitment::decode(reader)? }),
            4 => Ok(Self::Checkpoint {
                inputs: KeyCommitment::decode(reader)?,
                salt: reader.array()?,
            }),
            found => Err(DecodeError::Tag { at, found: found.into(), expected: "Lock" }),
        }
    }
}

#[cfg(test)]
mod tests;
