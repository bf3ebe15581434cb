//! Checking a document against a network, offline, and saying in words what was shown.

use super::{Document, DocumentError, NetworkDocument};
use std::fmt;
use tg_chain::light::LightError;
use tg_types::{ChainId, GenesisHash, Height, key::Domain};

/// Why a document does not hold.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The document, or the network's, contradicts itself.
    #[error("the document cannot be used")]
    Document(#[from] DocumentError),
    /// It names another network.
    #[error("the document belongs to {found_chain} with genesis {found_genesis}, not to {chain}")]
    OtherNetwork {
        /// The network it names.
        found_chain: ChainId,
        /// The genesis it names.
        found_genesis: GenesisHash,
        /// The network it was checked against.
        chain: ChainId,
    },
    /// It names another group key for the same network.
    #[error("the document and the network's name different group keys")]
    OtherGroupKey,
    /// A signature or proof does not fit.
    #[error("the document does not hold")]
    Light(#[from] LightError),
}

/// A document that holds, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The kind of document.
    pub kind: &'static str,
    /// The network it holds in.
    pub chain: ChainId,
    /// The height of the certified header; `None` for a network document.
    pub height: Option<Height>,
    /// What was shown, one sentence each.
    pub sentences: Vec<String>,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentences.join("\n"))
    }
}

/// Checks a document against a network.
///
/// # Errors
/// If readable fields and bytes disagree, or a signature or proof does not fit the network.
pub fn verify(document: &Document, network: &NetworkDocument) -> Result<Verified, VerifyError> {
    network.check()?;
    match document {
        Document::Certificate(document) => {
            let certified = document.content()?;
            same_network(&document.domain(), network)?;
            let light = network.light_client()?;
            light.check_header(&certified.header, &certified.certificate)?;
            Ok(verified("certificate", network, certified.header.height, Vec::new()))
        }
        Document::Proof(document) => {
            let (proof, certificate) = document.content()?;
            same_network(&document.domain(), network)?;
            network.light_client()?.check_entry(&proof, &certificate)?;
            let (noun, id) = (&document.key.noun, hex::encode(&document.key.id.0));
            let height = proof.header.height;
            let sentences = match &document.entry {
                Some(entry) => vec![
                    format!("The state of block {height} holds the {noun} {id}."),
                    entry.sentence(),
                ],
                None => vec![format!("The state of block {height} holds no {noun} {id}.")],
            };
            Ok(verified("proof", network, height, sentences))
        }
        Document::Receipt(document) => {
            let (proof, certificate) = document.content()?;
            same_network(&document.domain(), network)?;
            network.light_client()?.check_receipt(&proof, &certificate)?;
            let receipt = &proof.receipt;
            let height = proof.header.height;
            let mut sentences = vec![
                format!(
                    "Transaction {} is number {} of block {height} and paid a fee of {}.",
                    receipt.tx, receipt.index, receipt.fee
                ),
                receipt.status.reason().sentence().to_owned(),
            ];
            sentences.extend(receipt.events.iter().map(|event| event.sentence()));
            Ok(verified("receipt", network, height, sentences))
        }
        Document::Network(document) => {
            document.check()?;
            same_network(&document.domain(), network)?;
            if document.group_key != network.group_key {
                return Err(VerifyError::OtherGroupKey);
            }
            document.light_client()?;
            let chain = network.chain.0;
            let sentences =
                vec![format!("Both files describe {chain} with genesis {}.", network.genesis)];
            Ok(Verified { kind: "network", chain, height: None, sentences })
        }
    }
}

fn same_network(found: &Domain, network: &NetworkDocument) -> Result<(), VerifyError> {
    if *found == network.domain() {
        return Ok(());
    }
    Err(VerifyError::OtherNetwork {
        found_chain: found.chain,
        found_genesis: found.genesis,
        chain: network.chain.0,
    })
}

fn verified(
    kind: &'static str,
    network: &NetworkDocument,
    height: Height,
    sentences: Vec<String>,
) -> Verified {
    let chain = network.chain.0;
    let mut all = vec![format!("The committee of {chain} certified block {height}.")];
    all.extend(sentences);
    Verified { kind, chain, height: Some(height), sentences: all }
}
