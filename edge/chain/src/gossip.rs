//! What nodes tell each other beside consensus: waiting transactions, missing certificates, and
//! notices of seats.

use crate::{
    notice::Notice,
    payload::{HeightCertificate, TXS_MAX, format_byte},
};
use tg_bft::machine::PAYLOAD_BYTES_MAX;
use tg_types::{
    codec::{Decode, DecodeError, Encode, FORMAT_VERSION, Reader, encode_list},
    genesis::SEATS_MAX,
    tick::Height,
    tx::{PROOF_TX_BYTES_MAX, SignedTx},
};

/// Certificates in one answer.
pub const CERTIFICATES_MAX: usize = 64;

/// A message with so many bytes takes no more transactions, so that few of them block the channel.
/// One that shows a result may have 2 MiB, and ends its message.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;

// The last transaction of a message may be the longest; the rest is lengths.
const _: () = assert!(MESSAGE_BYTES_MAX + PROOF_TX_BYTES_MAX + (64 << 10) <= PAYLOAD_BYTES_MAX);

/// One message between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gossip {
    /// Transactions the sender has admitted.
    Txs(Vec<SignedTx>),
    /// The sender lacks certificates from this height on.
    CertificatesWanted(Height),
    /// The answer: certificates in order.
    Certificates(Vec<HeightCertificate>),
    /// The answer of a seat that has not got the certificate either: its own signature, so that
    /// the asker can make it again.
    Acknowledgement(HeightCertificate),
    /// Notices that the sender holds, at most one of each seat.
    Notices(Vec<Notice>),
    /// The sender has heard of no other seat yet.
    NoticesWanted,
}

impl Encode for Gossip {
    fn encode(&self, out: &mut Vec<u8>) {
        FORMAT_VERSION.encode(out);
        match self {
            Self::Txs(txs) => {
                1u8.encode(out);
                encode_list(txs, out);
            }
            Self::CertificatesWanted(from) => {
                2u8.encode(out);
                from.encode(out);
            }
            Self::Certificates(certificates) => {
                3u8.encode(out);
                encode_list(certificates, out);
            }
            Self::Acknowledgement(signed) => {
                4u8.encode(out);
                signed.encode(out);
            }
            Self::Notices(notices) => {
                5u8.encode(out);
                encode_list(notices, out);
            }
            Self::NoticesWanted => 6u8.encode(out),
        }
    }
}

impl Decode for Gossip {
    const BYTES_MIN: usize = 2;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        format_byte(reader)?;
        let at = reader.position();
        match reader.byte()? {
            1 => Ok(Self::Txs(reader.list(TXS_MAX)?)),
            2 => Ok(Self::CertificatesWanted(Height::decode(reader)?)),
            3 => Ok(Self::Certificates(reader.list(CERTIFICATES_MAX)?)),
            4 => Ok(Self::Acknowledgement(HeightCertificate::decode(reader)?)),
            5 => Ok(Self::Notices(reader.list(SEATS_MAX)?)),
            6 => Ok(Self::NoticesWanted),
            found => Err(DecodeError::Tag { at, found: found.into(), expected: "gossip message" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{notice, payload::Payload, record::Record};
    use tg_types::receipt::BlockReceipt;

    /// Goal: bytes from a peer never panic and have one form. Method: random bytes, and every
    /// truncation and every single trailing byte of a good message.
    fn check_decoder<T: Decode + Encode>(good: &[T]) {
        for value in good {
            let bytes = value.to_bytes();
            assert_eq!(T::from_bytes(&bytes).map(|value| value.to_bytes()), Ok(bytes.clone()));
            for end in 0..bytes.len() {
                assert!(T::from_bytes(&bytes[..end]).is_err());
            }
            assert!(T::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        }
        arbtest::arbtest(|u| {
            let mut bytes: Vec<u8> = u.arbitrary()?;
            if let Some(first) = bytes.first_mut() {
                *first = FORMAT_VERSION; // let the fuzz reach the inner decoders
            }
            if let Ok(value) = T::from_bytes(&bytes) {
                assert_eq!(value.to_bytes(), bytes);
            }
            Ok(())
        });
    }

    fn certificate() -> HeightCertificate {
        HeightCertificate { height: Height::new(7), bytes: vec![3; 48].into() }
    }

    #[test]
    fn prop_gossip_decodes_what_it_encodes_and_nothing_else() {
        check_decoder(&[
            Gossip::Txs(Vec::new()),
            Gossip::CertificatesWanted(Height::new(9)),
            Gossip::Certificates(vec![certificate()]),
            Gossip::Acknowledgement(certificate()),
            Gossip::Notices(vec![notice::tests::notice(1, 5), notice::tests::notice(2, 6)]),
            Gossip::NoticesWanted,
        ]);
    }

    #[test]
    fn prop_payload_decodes_what_it_encodes_and_nothing_else() {
        check_decoder(&[Payload { certificates: vec![certificate()], txs: Vec::new() }]);
    }

    #[test]
    fn prop_record_decodes_what_it_encodes_and_nothing_else() {
        let block = BlockReceipt { height: Height::new(3), events: Vec::new() };
        check_decoder(&[Record { receipts: Vec::new(), block }]);
    }
}
