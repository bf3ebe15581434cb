//! A relay's certificate: made once, kept in a folder or in memory.
//!
//! Peers know its hash ([`super::RelayInfo`]), so it is signed by nobody but itself. A relay that
//! loses it is another relay to everybody.

use super::RelayError;
use crate::error::TransportError;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tg_types::{Hash32, hash::sha256};

const CERTIFICATE_FILE: &str = "relay.der";
const KEY_FILE: &str = "relay.key";

/// The most bytes of a file. A certificate of one name and one small key has some 400.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// Where a relay keeps its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificatePlace {
    /// Nowhere: it has another one after every start.
    Memory,
    /// In this folder, which is made if it is not there.
    Folder(PathBuf),
}

#[derive(Debug)]
pub(crate) struct Certificate {
    der: Vec<u8>,
    key: Vec<u8>,
}

impl Certificate {
    pub(crate) fn load_or_make(place: &CertificatePlace, host: &str) -> Result<Self, RelayError> {
        match place {
            CertificatePlace::Memory => Self::make(host),
            CertificatePlace::Folder(folder) => match Self::load(folder)? {
                Some(kept) => Ok(kept),
                None => Self::make(host)?.keep(folder),
            },
        }
    }

    /// The hash by which peers know it.
    pub(crate) fn hash(&self) -> Hash32 {
        Hash32::new(sha256(&[&self.der]))
    }

    pub(crate) fn server_config(&self) -> Result<rustls::ServerConfig, RelayError> {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.clone()));
        let chain = vec![CertificateDer::from(self.der.clone())];
        rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| RelayError::Certificate(TransportError::new(error)))
    }

    fn make(host: &str) -> Result<Self, RelayError> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let made = rcgen::generate_simple_self_signed(vec![host])
            .map_err(|error| RelayError::Certificate(TransportError::new(error)))?;
        let key = made.signing_key.serialize_der();
        Ok(Self { der: made.cert.der().to_vec(), key })
    }

    /// What the folder holds; nothing if the certificate, which is written last, is not there.
    fn load(folder: &Path) -> Result<Option<Self>, RelayError> {
        let path = folder.join(CERTIFICATE_FILE);
        let der = match read(&path) {
            Ok(der) => der,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(RelayError::File { verb: "read", path, source }),
        };
        let path = folder.join(KEY_FILE);
        let key = read(&path).map_err(|source| RelayError::File { verb: "read", path, source })?;
        Ok(Some(Self { der, key }))
    }

    fn keep(self, folder: &Path) -> Result<Self, RelayError> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|source| {
            RelayError::File { verb: "make the folder", path: folder.to_owned(), source }
        })?;
        for (name, bytes) in [(KEY_FILE, &self.key), (CERTIFICATE_FILE, &self.der)] {
            let path = folder.join(name);
            write(&path, bytes).map_err(|source| RelayError::File {
                verb: "write",
                path,
                source,
            })?;
        }
        Ok(self)
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= FILE_BYTES_MAX) {
        return Ok(bytes);
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

/// Writes a file whole and for its owner only: under another name, then renamed.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let _absent_unless_cut_off = fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)
}
