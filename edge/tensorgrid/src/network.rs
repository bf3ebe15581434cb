//! Making a network: keys, first balances, genesis, and one folder per node.

use crate::{
    args::{Grant, NamedAddress},
    files::{self, FileError},
    folder::{self, FolderError, NodeDraft, NodeFolder, PeerEntry},
};
use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};
use tg_api::text::Text;
use tg_chain::network::{MadeNetwork, NetworkError, NetworkPlan, SeatPlan, make_network};
use tg_types::{
    AccountId, Address, Amount, ChainId, Genesis, NetworkKind, Params, SecretKey, Tick,
};

/// What each seat has at stake in the beginning, as a multiple of the least.
const STAKE_TIMES_MIN: u64 = 10;

/// What the owner of each seat can spend in the beginning, so that it can pay for evidence.
const SEAT_BALANCE: Amount = Amount::constant(100_000_000_000);

/// What a local network's faucet has to give away.
const FAUCET_BALANCE: Amount = Amount::constant(5_000_000_000_000_000);

/// What a network's treasury begins with.
const TREASURY: Amount = Amount::constant(100_000_000_000_000);

/// Why a network was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The parts do not make a network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The first balances are more than there can be.
    #[error("the stakes are more than there can be")]
    Amount(#[from] tg_types::AmountError),
    /// The folder is in use already.
    #[error("{0} holds a network already")]
    Exists(PathBuf),
}

/// A network to be made.
pub(crate) struct Draft<'a> {
    /// Its name.
    pub(crate) chain: ChainId,
    /// What it is for.
    pub(crate) kind: NetworkKind,
    /// The ledger's parameters.
    pub(crate) params: Params,
    /// Seats and where they listen.
    pub(crate) seats: &'a [NamedAddress],
    /// Followers and where they listen.
    pub(crate) followers: &'a [NamedAddress],
    /// First balances.
    pub(crate) grants: &'a [Grant],
}

struct Member<'a> {
    place: &'a NamedAddress,
    key: SecretKey,
}

impl Member<'_> {
    fn entry(&self) -> PeerEntry {
        PeerEntry {
            name: self.place.name.clone(),
            key: Text(self.key.public()),
            address: Text(self.place.address.clone()),
        }
    }
}

/// Makes a network in a folder that is absent or empty. The first seat of a local network keeps the
/// faucet.
///
/// # Errors
/// If the folder is not empty, cannot be written, or the parts do not make a network.
pub(crate) fn make(folder: &Path, draft: &Draft<'_>) -> Result<Genesis, MakeError> {
    if folder::holds_network(folder)? {
        return Err(MakeError::Exists(folder.to_owned()));
    }
    let members = |places: &'_ [NamedAddress]| -> Result<Vec<SecretKey>, FileError> {
        places.iter().map(|_| files::random().map(SecretKey::from_seed)).collect()
    };
    let seats: Vec<Member<'_>> = pair(draft.seats, members(draft.seats)?);
    let followers: Vec<Member<'_>> = pair(draft.followers, members(draft.followers)?);
    let faucet = match draft.kind {
        NetworkKind::Local => Some(SecretKey::from_seed(files::random()?)),
        NetworkKind::Open => None,
    };
    let MadeNetwork { genesis, shares } = make_genesis(draft, &seats, faucet.as_ref())?;

    let validators: Vec<PeerEntry> = seats.iter().map(Member::entry).collect();
    let others: Vec<PeerEntry> = followers.iter().map(Member::entry).collect();
    folder::write_network_folder(folder, &genesis)?;
    let mut faucet = faucet.as_ref();
    let shares = shares.iter().map(|share| Some(&share[..])).chain(std::iter::repeat(None));
    for (member, share) in seats.iter().chain(&followers).zip(shares) {
        let node = NodeDraft {
            name: &member.place.name,
            key: &member.key,
            share,
            faucet: faucet.take(),
            listen: listen_address(&member.place.address),
            validators: &validators,
            followers: &others,
        };
        NodeFolder::write(&folder.join(&member.place.name), &genesis, &node)?;
    }
    Ok(genesis)
}

fn pair(places: &[NamedAddress], keys: Vec<SecretKey>) -> Vec<Member<'_>> {
    places.iter().zip(keys).map(|(place, key)| Member { place, key }).collect()
}

fn make_genesis(
    draft: &Draft<'_>,
    seats: &[Member<'_>],
    faucet: Option<&SecretKey>,
) -> Result<MadeNetwork, MakeError> {
    let stake = draft.params.stake_min.times(STAKE_TIMES_MIN)?;
    let account = |key: &SecretKey| AccountId::from(key.public());
    let mut allocations: Vec<(AccountId, Amount)> =
        seats.iter().map(|seat| (account(&seat.key), SEAT_BALANCE)).collect();
    allocations.extend(faucet.map(|key| (account(key), FAUCET_BALANCE)));
    allocations.extend(draft.grants.iter().map(|grant| (grant.account, grant.amount)));
    let plan = NetworkPlan {
        chain: draft.chain,
        kind: draft.kind,
        start: now(),
        seats: seats
            .iter()
            .map(|seat| SeatPlan {
                key: SecretKey::from_seed(*seat.key.expose_seed()),
                address: seat.place.address.clone(),
                stake,
            })
            .collect(),
        allocations,
        treasury: TREASURY,
        params: draft.params.clone(),
        seed: files::random()?,
    };
    Ok(make_network(plan)?)
}

/// The clock of this machine as block time.
#[must_use]
pub(crate) fn now() -> Tick {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Tick::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Where a node binds: its own address on loopback, every interface otherwise, since the address
/// others use may be translated on the way.
pub(crate) fn listen_address(address: &Address) -> SocketAddr {
    let text = address.as_str();
    match text.parse::<SocketAddr>() {
        Ok(socket) if socket.ip().is_loopback() => socket,
        Ok(SocketAddr::V6(socket)) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, socket.port())),
        Ok(SocketAddr::V4(_)) | Err(_) => {
            let port = text.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.unwrap_or(0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Draft, MakeError, make};
    use crate::{
        args::NamedAddress,
        files::TemporaryFolder,
        folder::{FolderError, NodeFolder, read_genesis},
    };
    use std::path::Path;
    use tg_types::{NetworkKind, Params};

    fn place(text: &str) -> NamedAddress {
        text.parse().expect("a named address")
    }

    fn make_in(folder: &Path, kind: NetworkKind) -> Result<tg_types::Genesis, MakeError> {
        let params = match kind {
            NetworkKind::Local => Params::local(),
            NetworkKind::Open => Params::open(),
        };
        let seats = ["a=127.0.0.1:7000", "b=127.0.0.1:7001", "c=h:1", "d=h:2"].map(place);
        let draft = Draft {
            chain: "test".parse().expect("a name"),
            kind,
            params,
            seats: &seats,
            followers: &[place("f=127.0.0.1:7009")],
            grants: &[],
        };
        make(folder, &draft)
    }

    #[test]
    fn network_folder_opens_as_it_was_made() {
        let folder = TemporaryFolder::new().expect("a folder");
        let genesis = make_in(folder.path(), NetworkKind::Local).expect("makes");
        assert_eq!(read_genesis(folder.path()).expect("reads").hash(), genesis.hash());
        let first = NodeFolder::open(&folder.path().join("a")).expect("opens");
        assert!(first.share.is_some() && first.faucet.is_some());
        assert_eq!(first.file.listen.to_string(), "127.0.0.1:7000");
        let follower = NodeFolder::open(&folder.path().join("f")).expect("opens");
        assert!(follower.share.is_none() && follower.faucet.is_none());
        assert_eq!(follower.file.validators.len(), 4);
        let third = NodeFolder::open(&folder.path().join("c")).expect("opens");
        assert_eq!(third.file.listen.to_string(), "0.0.0.0:1");
        let again = NodeFolder::open(&folder.path().join("a"));
        assert!(matches!(again, Err(FolderError::InUse(_))));
        let twice = make_in(folder.path(), NetworkKind::Local);
        assert!(matches!(twice, Err(MakeError::Exists(_))));
    }

    #[test]
    fn open_network_has_no_faucet() {
        let folder = TemporaryFolder::new().expect("a folder");
        make_in(folder.path(), NetworkKind::Open).expect("makes");
        assert!(NodeFolder::open(&folder.path().join("a")).expect("opens").faucet.is_none());
    }

    #[test]
    fn folder_of_another_format_or_chain_is_refused() {
        let folder = TemporaryFolder::new().expect("a folder");
        make_in(folder.path(), NetworkKind::Local).expect("makes");
        let seat = folder.path().join("a");
        let node = NodeFolder::open(&seat).expect("opens");
        node.data().expect("is made");
        drop(node);

        let other = TemporaryFolder::new().expect("a folder");
        make_in(other.path(), NetworkKind::Local).expect("makes");
        for file in ["genesis", "node.json", "key", "share"] {
            std::fs::copy(other.path().join("a").join(file), seat.join(file)).expect("copies");
        }
        let node = NodeFolder::open(&seat).expect("is a whole node");
        assert!(matches!(node.data(), Err(FolderError::OtherChain { .. })));
        drop(node);

        std::fs::copy(folder.path().join("b/genesis"), seat.join("genesis")).expect("copies");
        assert!(matches!(NodeFolder::open(&seat), Err(FolderError::OtherChain { .. })));

        let mut bytes = std::fs::read(seat.join("genesis")).expect("reads");
        bytes[0] = 2;
        std::fs::write(seat.join("genesis"), bytes).expect("writes");
        let refused = NodeFolder::open(&seat);
        assert!(matches!(refused, Err(FolderError::Format { found: 2, supported: 1, .. })));
        let text = std::fs::read_to_string(seat.join("node.json")).expect("reads");
        std::fs::write(seat.join("node.json"), text.replace("\"format\": 3", "\"format\": 9"))
            .expect("writes");
        let refused = NodeFolder::open(&seat);
        assert!(matches!(refused, Err(FolderError::Format { found: 9, .. })));
        let nothing = TemporaryFolder::new().expect("a folder");
        assert!(matches!(NodeFolder::open(nothing.path()), Err(FolderError::NoNode(_))));
    }
}
