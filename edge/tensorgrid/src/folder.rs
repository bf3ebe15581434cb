//! The folders of nodes and networks on disk.
//!
//! A node's folder is all that one machine needs: genesis, key, threshold share, where the others
//! are, and what the node has stored. A network's folder holds one node's folder per seat and
//! follower, and the network file that strangers need. Another format, and data of another chain,
//! are refused before anything is opened.

use crate::files::{self, FileError, Readers};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, TryLockError},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
use tg_api::{Document, NetworkDocument, text::Text};
use tg_types::{
    Address, ChainId, Decode as _, DecodeError, Encode as _, Genesis, GenesisHash, PublicKey,
    SecretKey,
};
use zeroize::Zeroizing;

/// The format of node folders that this version reads and writes.
const FORMAT: u32 = 3;

/// A genesis with the most allocations has about 5 MiB.
const GENESIS_BYTES_MAX: u64 = 16 << 20;

/// Keys, shares and node files are short.
const SMALL_BYTES_MAX: u64 = 256 << 10;

/// Final blocks, receipts and certificates that a node keeps unless its file says otherwise: a day
/// of idle blocks, or an hour of busy ones.
pub(crate) const RETAIN_HEIGHTS: u64 = 100_000;

const GENESIS: &str = "genesis";
const NETWORK: &str = "network.json";
const NODE: &str = "node.json";
const KEY: &str = "key";
const SHARE: &str = "share";
const FAUCET: &str = "faucet";
const DATA: &str = "data";
const DOOR: &str = "door";
const PACKAGES: &str = "packages";
const MARK: &str = "chain.json";
const LOCK: &str = "lock";

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is something else in the folder.
    #[error("{0} is not empty and holds no network of TensorGrid")]
    Foreign(PathBuf),
    /// There is no node in the folder.
    #[error("{0} holds no node of TensorGrid")]
    NoNode(PathBuf),
    /// Made by another version.
    #[error("{path} has format {found}; this version reads format {supported} only")]
    Format {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format of this version.
        supported: u32,
    },
    /// The genesis cannot be read.
    #[error("the genesis {path} cannot be read")]
    Genesis {
        /// Which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: DecodeError,
    },
    /// A file is no JSON of the expected shape.
    #[error("{path} cannot be read")]
    Json {
        /// Which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// A secret is not in its form.
    #[error("{0} does not hold a secret in hexadecimal digits")]
    Secret(PathBuf),
    /// Parts of different chains lie together.
    #[error("{path} belongs to genesis {found}, the folder's genesis is {expected}")]
    OtherChain {
        /// Which file.
        path: PathBuf,
        /// Its chain.
        found: GenesisHash,
        /// The folder's chain.
        expected: GenesisHash,
    },
    /// Another process uses the folder.
    #[error("another process uses {0}")]
    InUse(PathBuf),
}

/// Where a node is, and who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeerEntry {
    /// The folder's name, for people.
    pub(crate) name: String,
    /// Its vote and network key.
    pub(crate) key: Text<PublicKey>,
    /// Where it listens.
    pub(crate) address: Text<Address>,
}

/// A node's own file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeFile {
    format: u32,
    chain: Text<ChainId>,
    genesis: Text<GenesisHash>,
    /// The node's name.
    pub(crate) name: String,
    /// Address to listen on for other nodes.
    pub(crate) listen: SocketAddr,
    /// Address to listen on for clients, if the node answers any.
    pub(crate) rpc: Option<SocketAddr>,
    /// Address at which providers and clients reach the node's door, if it has one.
    #[serde(default)]
    pub(crate) door: Option<Text<Address>>,
    /// Final blocks, receipts and certificates kept.
    pub(crate) retain_heights: u64,
    /// The committee.
    pub(crate) validators: Vec<PeerEntry>,
    /// Nodes without a seat that may follow.
    pub(crate) followers: Vec<PeerEntry>,
}

impl NodeFile {
    /// The network's name.
    #[must_use]
    pub(crate) const fn chain(&self) -> ChainId {
        self.chain.0
    }
}

/// What is needed to write a node's folder.
pub(crate) struct NodeDraft<'a> {
    /// The node's name.
    pub(crate) name: &'a str,
    /// Its key.
    pub(crate) key: &'a SecretKey,
    /// Its threshold share, if it has a seat.
    pub(crate) share: Option<&'a [u8]>,
    /// The key of the faucet, if the node keeps it.
    pub(crate) faucet: Option<&'a SecretKey>,
    /// Address to listen on for other nodes.
    pub(crate) listen: SocketAddr,
    /// The committee.
    pub(crate) validators: &'a [PeerEntry],
    /// Nodes without a seat that may follow.
    pub(crate) followers: &'a [PeerEntry],
}

/// A node's folder, open and locked.
pub(crate) struct NodeFolder {
    path: PathBuf,
    /// The chain.
    pub(crate) genesis: Arc<Genesis>,
    /// The node's file.
    pub(crate) file: NodeFile,
    /// Its key.
    pub(crate) key: SecretKey,
    /// Its threshold share, if it has a seat.
    pub(crate) share: Option<Zeroizing<Vec<u8>>>,
    /// The key of the faucet, if the node keeps it.
    pub(crate) faucet: Option<SecretKey>,
    _lock: File,
}

impl NodeFolder {
    /// Writes the folder of a node to be.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn write(
        path: &Path,
        genesis: &Genesis,
        draft: &NodeDraft<'_>,
    ) -> Result<(), FolderError> {
        files::make_folder(path)?;
        files::write(&path.join(GENESIS), &genesis.to_bytes(), Readers::All)?;
        write_network(path, genesis)?;
        write_secret(&path.join(KEY), &draft.key.expose_seed()[..])?;
        if let Some(share) = draft.share {
            write_secret(&path.join(SHARE), share)?;
        }
        if let Some(faucet) = draft.faucet {
            write_secret(&path.join(FAUCET), &faucet.expose_seed()[..])?;
        }
        let file = NodeFile {
            format: FORMAT,
            chain: Text(genesis.chain()),
            genesis: Text(genesis.hash()),
            name: draft.name.to_owned(),
            listen: draft.listen,
            rpc: None,
            door: None,
            retain_heights: RETAIN_HEIGHTS,
            validators: draft.validators.to_vec(),
            followers: draft.followers.to_vec(),
        };
        Ok(files::write(&path.join(NODE), &to_json(&file), Readers::All)?)
    }

    /// Opens a node's folder for this process alone.
    ///
    /// # Errors
    /// If there is no node in it, another process uses it, or its parts do not fit.
    pub(crate) fn open(path: &Path) -> Result<Self, FolderError> {
        let node_path = path.join(NODE);
        let file: Option<NodeFile> = absent_is_none(read_json(&node_path))?;
        let file = file.ok_or_else(|| FolderError::NoNode(path.to_owned()))?;
        let lock = lock(&path.join(LOCK))?;
        let genesis = read_genesis(path)?;
        check_chain(&node_path, file.genesis.0, &genesis)?;
        let key = secret_key(&read_secret(&path.join(KEY))?, &path.join(KEY))?;
        let share = absent_is_none(read_secret(&path.join(SHARE)))?;
        let faucet = absent_is_none(read_secret(&path.join(FAUCET)))?;
        let faucet = faucet.map(|seed| secret_key(&seed, &path.join(FAUCET))).transpose()?;
        let genesis = Arc::new(genesis);
        let path = path.to_owned();
        Ok(Self { path, genesis, file, key, share, faucet, _lock: lock })
    }

    /// Where the node stores what it learns, made if it is not there; data of another chain or
    /// format is refused.
    ///
    /// # Errors
    /// If it is refused or cannot be made.
    pub(crate) fn data(&self) -> Result<PathBuf, FolderError> {
        let data = self.path.join(DATA);
        let mark = data.join(MARK);
        if files::is_empty_folder(&data)? {
            files::make_folder(&data)?;
            let genesis = Text(self.genesis.hash());
            files::write(&mark, &to_json(&DataMark { format: FORMAT, genesis }), Readers::All)?;
            return Ok(data);
        }
        let found: Option<DataMark> = absent_is_none(read_json(&mark))?;
        let found = found.ok_or_else(|| FolderError::Foreign(data.clone()))?;
        check_chain(&mark, found.genesis.0, &self.genesis)?;
        Ok(data)
    }

    /// Where the door's certificate is kept: a door with another one is another door to those who
    /// have a ticket.
    #[must_use]
    pub(crate) fn door(&self) -> PathBuf {
        self.path.join(DOOR)
    }

    /// Where packages of others are kept.
    #[must_use]
    pub(crate) fn packages(&self) -> PathBuf {
        self.path.join(PACKAGES)
    }

    /// Whether the node has stored anything yet.
    #[must_use]
    pub(crate) fn has_data(&self) -> bool {
        self.path.join(DATA).join(MARK).exists()
    }
}

/// Says which chain a data folder belongs to.
#[derive(Serialize, Deserialize)]
struct DataMark {
    format: u32,
    genesis: Text<GenesisHash>,
}

/// What every file of every format begins with.
#[derive(Deserialize)]
struct Opening {
    format: u32,
}

/// Writes the files of a network that are not a node's own.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write_network_folder(path: &Path, genesis: &Genesis) -> Result<(), FolderError> {
    files::make_folder(path)?;
    files::write(&path.join(GENESIS), &genesis.to_bytes(), Readers::All)?;
    write_network(path, genesis)
}

/// The genesis in a network's or node's folder.
///
/// # Errors
/// If it cannot be read or has another format.
pub(crate) fn read_genesis(path: &Path) -> Result<Genesis, FolderError> {
    let path = path.join(GENESIS);
    let bytes = files::read(&path, GENESIS_BYTES_MAX)?;
    Genesis::from_bytes(&bytes).map_err(|source| {
        if let DecodeError::Version { found, supported, .. } = source {
            let (found, supported) = (found.into(), supported.into());
            return FolderError::Format { path, found, supported };
        }
        FolderError::Genesis { path, source }
    })
}

/// Whether a folder holds a network; an empty or absent one does not, another is refused.
///
/// # Errors
/// If something else is in it.
pub(crate) fn holds_network(path: &Path) -> Result<bool, FolderError> {
    if files::is_empty_folder(path)? {
        return Ok(false);
    }
    if path.join(GENESIS).exists() && !path.join(NODE).exists() {
        return Ok(true);
    }
    Err(FolderError::Foreign(path.to_owned()))
}

/// Where the network file of a folder is.
#[must_use]
pub(crate) fn network_path(path: &Path) -> PathBuf {
    path.join(NETWORK)
}

fn write_network(path: &Path, genesis: &Genesis) -> Result<(), FolderError> {
    let document = Document::Network(Box::new(NetworkDocument::new(genesis)));
    Ok(files::write(&path.join(NETWORK), document.write().as_bytes(), Readers::All)?)
}

fn lock(path: &Path) -> Result<File, FolderError> {
    let file = File::create(path).map_err(FileError::io("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(FolderError::InUse(path.parent().unwrap_or(path).to_owned()))
        }
        Err(TryLockError::Error(error)) => Err(FileError::io("lock", path)(error).into()),
    }
}

fn check_chain(path: &Path, found: GenesisHash, genesis: &Genesis) -> Result<(), FolderError> {
    let expected = genesis.hash();
    if found == expected {
        return Ok(());
    }
    Err(FolderError::OtherChain { path: path.to_owned(), found, expected })
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("node files are plain data");
    bytes.push(b'\n');
    bytes
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, FolderError> {
    let bytes = files::read(path, SMALL_BYTES_MAX)?;
    let broken = |source| FolderError::Json { path: path.to_owned(), source };
    let Opening { format: found } = serde_json::from_slice(&bytes).map_err(broken)?;
    if found != FORMAT {
        return Err(FolderError::Format { path: path.to_owned(), found, supported: FORMAT });
    }
    serde_json::from_slice(&bytes).map_err(broken)
}

fn write_secret(path: &Path, secret: &[u8]) -> Result<(), FolderError> {
    let text = Zeroizing::new(format!("{}\n", *Zeroizing::new(hex::encode(secret))));
    Ok(files::write(path, text.as_bytes(), Readers::Owner)?)
}

fn read_secret(path: &Path) -> Result<Zeroizing<Vec<u8>>, FolderError> {
    let bytes = Zeroizing::new(files::read(path, SMALL_BYTES_MAX)?);
    let digits = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let secret = hex::decode(digits).map_err(|_| FolderError::Secret(path.to_owned()))?;
    Ok(Zeroizing::new(secret))
}

fn secret_key(seed: &[u8], path: &Path) -> Result<SecretKey, FolderError> {
    let seed = seed.try_into().map_err(|_| FolderError::Secret(path.to_owned()))?;
    Ok(SecretKey::from_seed(seed))
}

fn absent_is_none<T>(result: Result<T, FolderError>) -> Result<Option<T>, FolderError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(FolderError::File(error)) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}
