//! Block headers: what a quorum signs, and what every proof of a receipt ends in.

use crate::codec::{Decode, DecodeError, Encode, Reader, encode_opening};
use crate::hash::{Tag, tagged};
use crate::ids::{AccountId, Hash32, HeaderDigest};
use crate::key::{Domain, Kind};
use crate::tick::{Height, Tick};

/// A block's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The block's number.
    pub height: Height,
    /// The block's time.
    pub tick: Tick,
    /// The header before.
    pub parent: HeaderDigest,
    /// Who proposed the block and earns from its fees.
    pub proposer: AccountId,
    /// The hash of the block's transaction bytes.
    pub payload: Hash32,
    /// The root of all ledger entries after the block.
    pub state_root: Hash32,
    /// The Merkle root of the block's receipts, the block receipt last.
    pub receipts_root: Hash32,
    /// The root of the log of all headers before this one.
    pub log_root: Hash32,
}

impl Header {
    /// The header's digest in its network. Two networks never share a digest, even with equal
    /// headers.
    pub fn digest(&self, domain: &Domain) -> HeaderDigest {
        let message = domain.message_of(Kind::Header, |out| self.encode(out));
        HeaderDigest::new(*tagged(Tag::HEADER, &[&message]).as_bytes())
    }
}

impl Encode for Header {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_opening(Kind::Header, out);
        self.height.encode(out);
        self.tick.encode(out);
        self.parent.encode(out);
        self.proposer.encode(out);
        self.payload.encode(out);
        self.state_root.encode(out);
        self.receipts_root.encode(out);
        self.log_root.encode(out);
    }
}

impl Decode for Header {
    const BYTES_MIN: usize = 2 + 2 * 8 + 6 * 32;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.opening(Kind::Header)?;
        Ok(Self {
            height: Height::decode(reader)?,
            tick: Tick::decode(reader)?,
            parent: HeaderDigest::decode(reader)?,
            proposer: AccountId::decode(reader)?,
            payload: Hash32::decode(reader)?,
            state_root: Hash32::decode(reader)?,
            receipts_root: Hash32::decode(reader)?,
            log_root: Hash32::decode(reader)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Header;
    use crate::ids::{GenesisHash, Hash32, HeaderDigest};
    use crate::key::{Domain, SecretKey};
    use crate::tick::{Height, Tick};
    use std::collections::BTreeSet;

    #[test]
    fn digest_differs_between_networks_and_with_every_field() {
        let here = |chain: &str, genesis| Domain {
            chain: chain.parse().expect("a chain's name"),
            genesis: GenesisHash::new([genesis; 32]),
        };
        let one = Hash32::new([1; 32]);
        let header = Header {
            height: Height::FIRST,
            tick: Tick::new(1),
            parent: HeaderDigest::new([1; 32]),
            proposer: SecretKey::from_seed([1; 32]).public().into(),
            payload: one,
            state_root: one,
            receipts_root: one,
            log_root: one,
        };
        let other = Hash32::new([2; 32]);
        let variants = [
            header.clone(),
            Header { height: Height::new(2), ..header.clone() },
            Header { tick: Tick::new(2), ..header.clone() },
            Header { parent: HeaderDigest::new([2; 32]), ..header.clone() },
            Header { proposer: SecretKey::from_seed([2; 32]).public().into(), ..header.clone() },
            Header { payload: other, ..header.clone() },
            Header { state_root: other, ..header.clone() },
            Header { receipts_root: other, ..header.clone() },
            Header { log_root: other, ..header },
        ];
        let mut digests = BTreeSet::new();
        for domain in [here("here", 1), here("there", 1), here("here", 2)] {
            for variant in &variants {
                assert!(digests.insert(variant.digest(&domain)), "{variant:?} {domain}");
            }
        }
    }
}
