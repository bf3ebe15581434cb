//! What peers know of a relay: where it is and which certificate it shows.

use std::fmt;
use std::str::FromStr;
use tg_types::{Address, BoundError, Decode, DecodeError, Encode, Hash32, Reader};

const SCHEME: &str = "https://";

/// Why text or an address is no relay's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelayUrlError {
    /// Not by HTTPS.
    #[error("expected https://host:port")]
    Scheme,
    /// Not a host and a port.
    #[error("expected https://host:port")]
    Address(#[source] BoundError),
    /// Not a host that a URL can have in this form.
    #[error("expected a lower-case host name or an IP address in its shortest form")]
    Host,
}

/// Where a relay is reached: `https://host:port`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayUrl(Address);

impl RelayUrl {
    /// The URL of a relay at this address.
    ///
    /// # Errors
    /// If the host is not in the one form that names it.
    pub fn new(address: Address) -> Result<Self, RelayUrlError> {
        let url: iroh::RelayUrl =
            format!("{SCHEME}{address}").parse().map_err(|_| RelayUrlError::Host)?;
        if url.host_str() != Some(host_of(&address).as_str()) {
            return Err(RelayUrlError::Host);
        }
        Ok(Self(address))
    }

    /// Host and port.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.0
    }

    /// The port, by TCP and UDP.
    #[must_use]
    pub fn port(&self) -> u16 {
        let (_, port) = self.0.as_str().rsplit_once(':').expect("an address has a port");
        port.parse().expect("an address has a port")
    }

    /// The host as TLS names it: without the brackets of an IPv6 address.
    pub(crate) fn server_name(&self) -> String {
        host_of(&self.0).trim_start_matches('[').trim_end_matches(']').to_owned()
    }

    pub(crate) fn transport(&self) -> iroh::RelayUrl {
        self.to_string().parse().expect("a URL is read when it is made")
    }
}

pub(crate) fn host_of(address: &Address) -> String {
    let (host, _) = address.as_str().rsplit_once(':').expect("an address has a port");
    host.to_owned()
}

impl FromStr for RelayUrl {
    type Err = RelayUrlError;

    fn from_str(text: &str) -> Result<Self, RelayUrlError> {
        let address = text.strip_prefix(SCHEME).ok_or(RelayUrlError::Scheme)?;
        Self::new(address.parse().map_err(RelayUrlError::Address)?)
    }
}

impl Encode for RelayUrl {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for RelayUrl {
    const BYTES_MIN: usize = Address::BYTES_MIN;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let address = Address::decode(reader)?;
        let expected = "relay's host and port, the host in its one form";
        Self::new(address).map_err(|_| DecodeError::Range { at: reader.position(), expected })
    }
}

impl fmt::Display for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.0)
    }
}

impl fmt::Debug for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelayUrl({self})")
    }
}

/// What peers have to know of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayInfo {
    /// Where it is.
    pub url: RelayUrl,
    /// The SHA-256 hash of its certificate (DER). Peers accept this one and no other, so no
    /// authority has to vouch for a relay and no relay can pose as another.
    pub certificate: Hash32,
}

impl Encode for RelayInfo {
    fn encode(&self, out: &mut Vec<u8>) {
        self.url.encode(out);
        self.certificate.encode(out);
    }
}

impl Decode for RelayInfo {
    const BYTES_MIN: usize = RelayUrl::BYTES_MIN + Hash32::BYTES_MIN;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { url: RelayUrl::decode(reader)?, certificate: Hash32::decode(reader)? })
    }
}
