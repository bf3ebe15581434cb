//! Which certificate a peer accepts from which relay: the one it was told, and no other.
//!
//! Trusting the relays' certificates as authorities would let each relay vouch for the names of
//! all others. A pinned certificate vouches for itself.

use super::{RelayInfo, RelayUrl};
use iroh::tls::CaTlsConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use tg_types::{Hash32, hash::sha256};

/// The most relays a peer knows. A committee has fewer seats.
pub(crate) const RELAYS_MAX: usize = 128;

/// The relays a peer knows, with the hashes of their certificates.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    // A lock and not a channel: a handshake asks in the middle of a call that cannot wait.
    known: RwLock<BTreeMap<RelayUrl, Hash32>>,
    /// The last certificate that was not accepted, and the host that showed it.
    rejected: RwLock<Option<(String, Hash32)>>,
}

impl Pins {
    /// Adds a relay, or gives one a new certificate. `false` if there are too many.
    pub(crate) fn insert(&self, relay: &RelayInfo) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= RELAYS_MAX && !known.contains_key(&relay.url) {
            return false;
        }
        known.insert(relay.url.clone(), relay.certificate);
        true
    }

    pub(crate) fn contains(&self, url: &RelayUrl) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).contains_key(url)
    }

    pub(crate) fn urls(&self) -> Vec<RelayUrl> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// The relay that last showed another certificate than its own, and the hash of that.
    pub(crate) fn rejected(&self) -> Option<(RelayUrl, Hash32)> {
        let (host, found) = self.rejected.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        let relay = self.urls().into_iter().find(|url| url.server_name() == host)?;
        Some((relay, found))
    }

    /// The relay that the transport names so.
    pub(crate) fn url(&self, named: &iroh::RelayUrl) -> Option<RelayUrl> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.keys().find(|url| url.transport() == *named).cloned()
    }

    /// Whether a relay on this host has this certificate. TLS does not name the port.
    fn accepts(&self, host: &str, certificate: Hash32) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let is_known =
            known.iter().any(|(url, pinned)| *pinned == certificate && url.server_name() == host);
        let mut rejected = self.rejected.write().unwrap_or_else(PoisonError::into_inner);
        *rejected = (!is_known).then(|| (host.to_owned(), certificate));
        is_known
    }

    pub(crate) fn tls_config(self: &Arc<Self>) -> CaTlsConfig {
        let pins = Arc::clone(self);
        CaTlsConfig::custom_server_cert_verifier(Arc::new(move |provider| {
            Ok(Arc::new(Verifier { pins: Arc::clone(&pins), provider }))
        }))
    }
}

#[derive(Debug)]
struct Verifier {
    pins: Arc<Pins>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let hash = Hash32::new(sha256(&[certificate]));
        if self.pins.accepts(&name.to_str(), hash) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
