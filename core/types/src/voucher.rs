//! Vouchers: validators sign that they hold packages.
//!
//! Nothing else on chain shows that the bytes behind a package's hash exist. So whoever names a
//! package to the ledger also shows that a quorum of validators has it and will keep it as long as
//! the network asks for. The signature is by a seat's voting key, over the network and the packages
//! in their order; one package list may be signed by many seats.

use crate::bounded::{BoundError, List};
use crate::codec::{Decode, DecodeError, Encode, Reader, encode_list};
use crate::genesis::{SEATS_MAX, ValidatorSeat};
use crate::ids::Hash32;
use crate::job::KeyEscrow;
use crate::key::{Batch, Domain, KeyPoints, Kind, PublicKey, SecretKey, Signature};
use crate::wire;

/// The most packages of one voucher: as many as a transaction submits jobs.
pub const PACKAGES_PER_VOUCHER_MAX: usize = 32;

/// The most vouchers of one transaction: packages that were handed over at different times are
/// vouched for apart, and collecting more before sending would only delay the first.
pub const VOUCHERS_PER_TX_MAX: usize = 8;

wire! {
    /// A package, by content.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct PackageRef {
        /// The hash of its bytes.
        pub id: Hash32,
        /// How many bytes it has.
        pub bytes: u64,
        /// Who keeps its key, if it holds inputs of a run; nobody if it holds results.
        pub key_escrow: Option<KeyEscrow>,
    }
}

/// The packages of one voucher.
pub type Packages = List<PackageRef, 1, PACKAGES_PER_VOUCHER_MAX>;

/// The vouchers of one transaction. With the largest lists of jobs or results there is room for
/// full vouchers of 16 seats; a larger committee, or many small vouchers, leave room for fewer jobs
/// or results, because the bound of a transaction's bytes holds all the same.
pub type Vouchers = List<Voucher, 0, VOUCHERS_PER_TX_MAX>;

wire! {
    /// A seat's word that it holds packages.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SeatSignature {
        /// The seat, by its place in the genesis.
        pub seat: u8,
        /// The signature by its voting key.
        pub signature: Signature,
    }
}

impl SeatSignature {
    /// Signs that a seat holds these packages. With a key that is not the seat's the signature
    /// makes every voucher void.
    pub fn sign(secret: &SecretKey, domain: &Domain, seat: u8, packages: &Packages) -> Self {
        Self { seat, signature: secret.sign(domain, Kind::Voucher, &packages.to_bytes()) }
    }

    /// Whether it is the signature of its seat, among these in the order of the genesis.
    pub fn is_valid(&self, domain: &Domain, seats: &[ValidatorSeat], packages: &Packages) -> bool {
        let key = seats.get(usize::from(self.seat)).map(|seat| seat.key);
        let message = packages.to_bytes();
        key.is_some_and(|key| key.verify(domain, Kind::Voucher, &message, &self.signature).is_ok())
    }
}

/// Signatures of seats in ascending order, each seat once: 1 to [`SEATS_MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatSignatures(Vec<SeatSignature>);

impl SeatSignatures {
    /// Puts the signatures in the order of their seats. Refuses a seat that signs twice.
    pub fn new(mut signatures: Vec<SeatSignature>) -> Result<Self, BoundError> {
        if signatures.is_empty() || signatures.len() > SEATS_MAX {
            let found = signatures.len();
            return Err(BoundError::Length { found, min: 1, max: SEATS_MAX });
        }
        signatures.sort_unstable_by_key(|one| one.seat);
        if !are_ascending(&signatures) {
            return Err(BoundError::Form { expected: "signatures of different seats" });
        }
        Ok(Self(signatures))
    }

    /// The signatures.
    pub fn as_slice(&self) -> &[SeatSignature] {
        &self.0
    }
}

fn are_ascending(signatures: &[SeatSignature]) -> bool {
    signatures.is_sorted_by(|left, right| left.seat < right.seat)
}

impl Encode for SeatSignatures {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_list(&self.0, out);
    }
}

impl Decode for SeatSignatures {
    const BYTES_MIN: usize = 1 + SeatSignature::BYTES_MIN;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let signatures: Vec<SeatSignature> = reader.list_within(1, SEATS_MAX)?;
        if !are_ascending(&signatures) {
            return Err(DecodeError::Order { at: reader.position(), expected: "seats" });
        }
        Ok(Self(signatures))
    }
}

wire! {
    /// Signatures of validators that they hold these packages and will keep them as long as the
    /// network asks for.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Voucher {
        /// The packages, in the order in which they were signed.
        pub packages: Packages,
        /// Who holds them.
        pub signatures: SeatSignatures,
    }
}

impl Voucher {
    /// The bytes that a validator signs for these packages.
    pub fn message(domain: &Domain, packages: &Packages) -> Vec<u8> {
        domain.message(Kind::Voucher, &packages.to_bytes())
    }
}

/// For every voucher the number of seats that signed it; `None` if one of its signatures is not
/// that of its seat, which makes the voucher void. `seats` are those of the genesis in its order.
///
/// All signatures of a transaction are checked together, which costs less than one by one. If one
/// is bad, each voucher is asked for itself, and no further: which signature it was is of no
/// interest, so forgers cost little more than others.
pub fn count_holders(
    domain: &Domain,
    seats: &[ValidatorSeat],
    vouchers: &[Voucher],
) -> Vec<Option<usize>> {
    let mut points = KeyPoints::default();
    let signers: Vec<_> = vouchers.iter().map(|voucher| signers(seats, voucher)).collect();
    let known: Vec<Signed<'_>> = signers.iter().flatten().cloned().collect();
    let are_all_good = are_valid(domain, &known, &mut points);
    let mut count = |signed: Option<Signed<'_>>| {
        let signed = signed?;
        let is_alone = known.len() == 1;
        let is_good = are_all_good
            || !is_alone && are_valid(domain, std::slice::from_ref(&signed), &mut points);
        is_good.then_some(signed.keys.len())
    };
    signers.into_iter().map(&mut count).collect()
}

/// A voucher with the voting keys of those who signed it.
#[derive(Clone)]
struct Signed<'a> {
    voucher: &'a Voucher,
    keys: Vec<PublicKey>,
}

/// The voucher with its keys; `None` if somebody has no seat.
fn signers<'a>(seats: &[ValidatorSeat], voucher: &'a Voucher) -> Option<Signed<'a>> {
    let key_of = |one: &SeatSignature| seats.get(usize::from(one.seat)).map(|seat| seat.key);
    let keys = voucher.signatures.0.iter().map(key_of).collect::<Option<Vec<_>>>()?;
    Some(Signed { voucher, keys })
}

/// Whether all signatures of these vouchers are valid.
fn are_valid(domain: &Domain, signed: &[Signed<'_>], points: &mut KeyPoints) -> bool {
    let count = signed.iter().map(|one| one.keys.len()).sum();
    // The coefficients also follow from all that is in the batch, so nobody can know them before.
    let mut batch = Batch::new([0; 32], count, points);
    for Signed { voucher, keys } in signed {
        let message = Voucher::message(domain, &voucher.packages);
        for (key, one) in keys.iter().zip(&voucher.signatures.0) {
            batch.push(key.as_bytes(), &message, &one.signature);
        }
    }
    batch.all_valid()
}

#[cfg(test)]
mod tests;
