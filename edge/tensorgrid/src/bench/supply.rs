//! Accounts that send, and their transfers, signed before the clock starts.

use crate::args::Grant;
use std::thread;
use tg_types::{
    AccountId, Action, Amount, Encode as _, Height, Lane, Memo, Nonce, SecretKey, Signature,
    SignedTx, TxBody, hash::sha256, key::Domain,
};

/// What each account begins with: enough for a million fees.
const BALANCE: Amount = Amount::constant(50_000_000_000);

/// What each transfer pays: enough for the floor of every network with usual parameters.
const FEE: Amount = Amount::constant(20_000);

/// What each transfer moves.
const AMOUNT: Amount = Amount::constant(1);

/// The accounts that send.
pub(crate) struct Senders(Vec<SecretKey>);

impl Senders {
    /// The same accounts in every run.
    #[must_use]
    pub(crate) fn new(count: u32) -> Self {
        let key = |number: u32| {
            let seed = sha256(&[b"tensorgrid bench sender", &number.to_be_bytes()]);
            SecretKey::from_seed(seed)
        };
        Self((0..count).map(key).collect())
    }

    /// How many there are.
    #[must_use]
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Their first balances.
    #[must_use]
    pub(crate) fn grants(&self) -> Vec<Grant> {
        let account = |key: &SecretKey| AccountId::from(key.public());
        self.0.iter().map(|key| Grant { account: account(key), amount: BALANCE }).collect()
    }

    /// Transfer number `nonce` of a sender to the next one.
    fn body(&self, sender: usize, nonce: u64, expires: Height) -> Option<TxBody> {
        let receiver = self.0.get((sender + 1) % self.0.len())?;
        Some(TxBody {
            sender: AccountId::from(self.0.get(sender)?.public()),
            lane: Lane::FIRST,
            nonce: Nonce::new(nonce),
            expires,
            fee: FEE,
            idempotency: None,
            action: Action::Transfer {
                to: AccountId::from(receiver.public()),
                amount: AMOUNT,
                memo: Memo::EMPTY,
            },
        })
    }

    /// Transfers of all senders in turn, without a signature, for a ledger that sees none.
    #[must_use]
    pub(crate) fn unsigned(&self, count: usize, expires: Height) -> Vec<SignedTx> {
        let signature = Signature::new([0; Signature::BYTES]);
        (0..count)
            .filter_map(|number| {
                let nonce = u64::try_from(number / self.count()).ok()?;
                let body = self.body(number % self.count(), nonce, expires)?;
                Some(SignedTx { body, signature })
            })
            .collect()
    }

    /// Signs transfers of all senders in turn, on all cores.
    #[must_use]
    pub(crate) fn sign(&self, count: usize, domain: &Domain, expires: Height) -> Supply {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let share = count.div_ceil(threads);
        let parts: Vec<Vec<u8>> = thread::scope(|scope| {
            let part = |number: usize| {
                let range = (number * share)..((number + 1) * share).min(count);
                scope.spawn(move || {
                    let mut bytes = Vec::new();
                    for number in range {
                        self.sign_one(number, domain, expires, &mut bytes);
                    }
                    bytes
                })
            };
            let threads: Vec<_> = (0..threads).map(part).collect();
            threads.into_iter().map(|it| it.join().expect("signing does not panic")).collect()
        });
        let bytes = parts.concat();
        let size = bytes.len().checked_div(count).unwrap_or(0);
        Supply { bytes, size, senders: self.count() }
    }

    fn sign_one(&self, number: usize, domain: &Domain, expires: Height, out: &mut Vec<u8>) {
        let nonce = u64::try_from(number / self.count()).unwrap_or(u64::MAX);
        let sender = number % self.count();
        let body = self.body(sender, nonce, expires).expect("every sender exists");
        let key = self.0.get(sender).expect("every sender exists");
        body.sign(key, domain).encode(out);
    }
}

/// Signed transfers, all of the same size, one behind the other.
pub(crate) struct Supply {
    bytes: Vec<u8>,
    size: usize,
    senders: usize,
}

impl Supply {
    /// The signed transfer of a sender at a place of its lane; `None` behind the last.
    #[must_use]
    pub(crate) fn get(&self, sender: usize, nonce: usize) -> Option<&[u8]> {
        let start = nonce.checked_mul(self.senders)?.checked_add(sender)?.checked_mul(self.size)?;
        self.bytes.get(start..start.checked_add(self.size)?)
    }

    /// Bytes that all transfers take.
    #[must_use]
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Senders;
    use tg_types::{
        Decode as _, GenesisHash, Height, SignedTx,
        key::{Domain, KeyPoints},
        tx::check_batch,
    };

    #[test]
    fn supply_holds_each_senders_transfers_in_order() {
        let domain =
            Domain { chain: "t".parse().expect("a name"), genesis: GenesisHash::new([1; 32]) };
        let senders = Senders::new(3);
        let supply = senders.sign(7, &domain, Height::new(9));
        let read = |sender, nonce| {
            supply.get(sender, nonce).map(|bytes| SignedTx::from_bytes(bytes).expect("a tx"))
        };
        let tx = read(1, 1).expect("is there");
        assert_eq!(tx.body.nonce.get(), 1);
        assert_eq!(tx.body.sender, senders.grants()[1].account);
        assert!(read(0, 2).is_some() && read(1, 2).is_none());
        let answers = check_batch(&domain, vec![tx], [0; 32], &mut KeyPoints::default());
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(senders.unsigned(7, Height::new(9)).len(), 7);
    }
}
