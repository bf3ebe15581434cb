//! Wallets on disk: one age file per key, sealed with a passphrase, readable by its owner only.
//!
//! Beside each sealed file lies a card with what may be known without the passphrase: the account
//! and whether a backup was made. The sealed file is ASCII, so a backup is a copy of it that can be
//! printed or mailed; any program that knows age opens it.

use crate::files::{self, FileError, Readers};
use age::secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    str::FromStr,
};
use tg_api::text::Text;
use tg_types::{AccountId, SecretKey};
use zeroize::Zeroizing;

/// Cost of one guess at a passphrase: scrypt with N = 2^16 takes 64 MiB and about a quarter of a
/// second, so that opening stays well below a second on slow machines.
const WORK_FACTOR: u8 = 16;

/// Dearest file that is opened, so that a planted one cannot occupy the machine for minutes.
const WORK_FACTOR_MAX: u8 = 20;

/// The format of cards and sealed secrets that this version reads and writes.
const FORMAT: u32 = 1;

/// What a sealed secret opens with.
const SECRET_MARK: &str = "tensorgrid-secret-1 ";

/// A sealed key has some hundred bytes; more is none of ours.
const FILE_BYTES_MAX: u64 = 16 * 1024;

/// Why a wallet cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeystoreError {
    /// There is no such wallet.
    #[error("there is no wallet {0}")]
    Unknown(WalletName),
    /// A wallet of this name exists.
    #[error("a wallet {0} exists already")]
    Exists(WalletName),
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The card cannot be read.
    #[error("the card {path} cannot be read")]
    Card {
        /// Which card.
        path: PathBuf,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// A card of another version.
    #[error("format {found} is not supported, expected {FORMAT}")]
    Format {
        /// The format found.
        found: u32,
    },
    /// The sealed file was not opened.
    #[error("the sealed file cannot be opened with this passphrase")]
    Sealed(#[source] age::DecryptError),
    /// The key could not be sealed.
    #[error("the key cannot be sealed")]
    Seal(#[source] io::Error),
    /// The sealed file was opened, but is no key of this version.
    #[error("the sealed file holds no key that this version reads")]
    NoKey,
    /// The key is not the card's.
    #[error("the sealed file holds the key of another account than its card says")]
    OtherAccount,
}

/// A wallet's name: 1 to 32 of a-z, 0-9, - and _.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WalletName(String);

/// Not a wallet's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to {} of a-z, 0-9, - and _", WalletName::BYTES_MAX)]
pub(crate) struct NameError;

impl WalletName {
    const BYTES_MAX: usize = 32;
}

impl FromStr for WalletName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_letter = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        let fits = (1..=Self::BYTES_MAX).contains(&text.len()) && text.bytes().all(is_letter);
        if fits { Ok(Self(text.to_owned())) } else { Err(NameError) }
    }
}

impl fmt::Display for WalletName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Serialize, Deserialize)]
struct CardFile {
    format: u32,
    account: Text<AccountId>,
    backed_up: bool,
}

/// What is known about a wallet without its passphrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    /// Its name.
    pub(crate) name: WalletName,
    /// Its account.
    pub(crate) account: AccountId,
    /// Whether a backup was made.
    pub(crate) backed_up: bool,
}

/// A folder of wallets.
#[derive(Clone, Debug)]
pub(crate) struct Keystore {
    folder: PathBuf,
}

impl Keystore {
    /// The wallets in a folder, which need not exist yet.
    #[must_use]
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where the wallets are.
    #[must_use]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a wallet's sealed key is.
    #[must_use]
    pub(crate) fn sealed_path(&self, name: &WalletName) -> PathBuf {
        self.folder.join(format!("{name}.age"))
    }

    fn card_path(&self, name: &WalletName) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    /// Whether a wallet of this name exists.
    #[must_use]
    pub(crate) fn has(&self, name: &WalletName) -> bool {
        self.sealed_path(name).exists()
    }

    /// Makes a wallet with a new key.
    ///
    /// # Errors
    /// If the name is taken or the files cannot be written.
    pub(crate) fn create(
        &self,
        name: &WalletName,
        pass: &SecretString,
    ) -> Result<Card, KeystoreError> {
        let secret = SecretKey::from_seed(files::random()?);
        let sealed = seal(&secret, pass).map_err(KeystoreError::Seal)?;
        self.add(name, &secret, &sealed, false)
    }

    /// Makes a wallet from a backup, after opening it.
    ///
    /// # Errors
    /// If the name is taken, the backup does not open, or the files cannot be written.
    pub(crate) fn restore(
        &self,
        name: &WalletName,
        backup: &Path,
        pass: &SecretString,
    ) -> Result<Card, KeystoreError> {
        let sealed = files::read(backup, FILE_BYTES_MAX)?;
        let secret = unseal(&sealed, pass)?;
        self.add(name, &secret, &sealed, true)
    }

    fn add(
        &self,
        name: &WalletName,
        secret: &SecretKey,
        sealed: &[u8],
        backed_up: bool,
    ) -> Result<Card, KeystoreError> {
        if self.has(name) {
            return Err(KeystoreError::Exists(name.clone()));
        }
        let account = AccountId::from(secret.public());
        let card = Card { name: name.clone(), account, backed_up };
        files::make_folder(&self.folder)?;
        self.write_card(&card)?;
        files::write(&self.sealed_path(name), sealed, Readers::Owner)?;
        Ok(card)
    }

    /// All wallets, by name.
    ///
    /// # Errors
    /// If the folder or a card cannot be read.
    pub(crate) fn list(&self) -> Result<Vec<Card>, KeystoreError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(FileError::io("list", &self.folder)(error).into()),
        };
        let mut names: Vec<WalletName> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".age")?.parse().ok())
            .collect();
        names.sort();
        names.iter().map(|name| self.card(name)).collect()
    }

    /// What is known about a wallet without its passphrase.
    ///
    /// # Errors
    /// If there is no such wallet or its card cannot be read.
    pub(crate) fn card(&self, name: &WalletName) -> Result<Card, KeystoreError> {
        if !self.has(name) {
            return Err(KeystoreError::Unknown(name.clone()));
        }
        let path = self.card_path(name);
        let bytes = files::read(&path, FILE_BYTES_MAX)?;
        let card: CardFile = serde_json::from_slice(&bytes)
            .map_err(|source| KeystoreError::Card { path, source })?;
        if card.format != FORMAT {
            return Err(KeystoreError::Format { found: card.format });
        }
        Ok(Card { name: name.clone(), account: card.account.0, backed_up: card.backed_up })
    }

    /// Opens a wallet.
    ///
    /// # Errors
    /// If there is none, the passphrase is wrong, or the files are damaged.
    pub(crate) fn open(
        &self,
        name: &WalletName,
        pass: &SecretString,
    ) -> Result<SecretKey, KeystoreError> {
        let card = self.card(name)?;
        let secret = unseal(&files::read(&self.sealed_path(name), FILE_BYTES_MAX)?, pass)?;
        if AccountId::from(secret.public()) != card.account {
            return Err(KeystoreError::OtherAccount);
        }
        Ok(secret)
    }

    /// Copies a wallet's sealed file, after opening it: a copy that nobody can open is no backup.
    ///
    /// # Errors
    /// If the wallet does not open or the copy cannot be written.
    pub(crate) fn back_up(
        &self,
        name: &WalletName,
        pass: &SecretString,
        out: &Path,
    ) -> Result<Card, KeystoreError> {
        let secret = self.open(name, pass)?;
        let sealed = files::read(&self.sealed_path(name), FILE_BYTES_MAX)?;
        files::write(out, &sealed, Readers::Owner)?;
        let card =
            Card { name: name.clone(), account: AccountId::from(secret.public()), backed_up: true };
        self.write_card(&card)?;
        Ok(card)
    }

    fn write_card(&self, card: &Card) -> Result<(), KeystoreError> {
        let path = self.card_path(&card.name);
        let file =
            CardFile { format: FORMAT, account: Text(card.account), backed_up: card.backed_up };
        let bytes = serde_json::to_vec_pretty(&file)
            .map_err(|source| KeystoreError::Card { path: path.clone(), source })?;
        Ok(files::write(&path, &bytes, Readers::Owner)?)
    }
}

fn seal(secret: &SecretKey, pass: &SecretString) -> io::Result<Vec<u8>> {
    let mut recipient = age::scrypt::Recipient::new(pass.clone());
    recipient.set_work_factor(WORK_FACTOR);
    let recipients = std::iter::once(&recipient as &dyn age::Recipient);
    let encryptor = age::Encryptor::with_recipients(recipients).map_err(io::Error::other)?;
    let armored =
        age::armor::ArmoredWriter::wrap_output(Vec::new(), age::armor::Format::AsciiArmor)?;
    let mut writer = encryptor.wrap_output(armored)?;
    let text = Zeroizing::new(hex::encode(secret.expose_seed()));
    writer.write_all(SECRET_MARK.as_bytes())?;
    writer.write_all(text.as_bytes())?;
    writer.write_all(b"\n")?;
    writer.finish()?.finish()
}

fn unseal(sealed: &[u8], pass: &SecretString) -> Result<SecretKey, KeystoreError> {
    let armored = age::armor::ArmoredReader::new(sealed);
    let decryptor = age::Decryptor::new(armored).map_err(KeystoreError::Sealed)?;
    let mut identity = age::scrypt::Identity::new(pass.clone());
    identity.set_max_work_factor(WORK_FACTOR_MAX);
    let mut reader = decryptor
        .decrypt(std::iter::once(&identity as &dyn age::Identity))
        .map_err(KeystoreError::Sealed)?;
    let mut text = Zeroizing::new(String::with_capacity(SECRET_MARK.len() + 2 * 32 + 1));
    reader
        .read_to_string(&mut text)
        .map_err(|error| KeystoreError::Sealed(age::DecryptError::Io(error)))?;
    let digits = text.strip_prefix(SECRET_MARK).and_then(|rest| rest.strip_suffix('\n'));
    let mut seed = Zeroizing::new([0; 32]);
    digits
        .and_then(|digits| hex::decode_to_slice(digits, &mut *seed).ok())
        .ok_or(KeystoreError::NoKey)?;
    Ok(SecretKey::from_seed(*seed))
}

#[cfg(test)]
mod tests {
    use super::{Keystore, KeystoreError, WalletName};
    use crate::files::{self, Readers, TemporaryFolder};
    use age::secrecy::SecretString;
    use std::os::unix::fs::PermissionsExt as _;

    fn name(text: &str) -> WalletName {
        text.parse().expect("a name")
    }

    fn pass(text: &str) -> SecretString {
        SecretString::from(text.to_owned())
    }

    #[test]
    fn wallet_round_trip_gives_the_same_key() {
        let folder = TemporaryFolder::new().expect("a folder");
        let keystore = Keystore::new(folder.path().join("wallets"));
        assert!(keystore.list().expect("lists").is_empty());
        let card = keystore.create(&name("a"), &pass("one")).expect("creates");
        assert!(!card.backed_up);
        let secret = keystore.open(&name("a"), &pass("one")).expect("opens");
        assert_eq!(tg_types::AccountId::from(secret.public()), card.account);
        let sealed = keystore.sealed_path(&name("a"));
        let mode = std::fs::metadata(&sealed).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        let copy = folder.path().join("copy.age");
        assert!(keystore.back_up(&name("a"), &pass("one"), &copy).expect("copies").backed_up);
        assert!(keystore.list().expect("lists").iter().all(|card| card.backed_up));
        let restored = keystore.restore(&name("b"), &copy, &pass("one")).expect("restores");
        assert_eq!(restored.account, card.account);
        assert_eq!(keystore.list().expect("lists").len(), 2);
    }

    #[test]
    fn wallet_that_cannot_be_opened_is_refused() {
        let folder = TemporaryFolder::new().expect("a folder");
        let keystore = Keystore::new(folder.path().to_owned());
        let card = keystore.create(&name("a"), &pass("one")).expect("creates");
        let wrong = keystore.open(&name("a"), &pass("two"));
        assert!(matches!(wrong, Err(KeystoreError::Sealed(_))));
        assert!(matches!(keystore.card(&name("b")), Err(KeystoreError::Unknown(_))));
        let twice = keystore.create(&name("a"), &pass("one"));
        assert!(matches!(twice, Err(KeystoreError::Exists(_))));
        assert_eq!(keystore.card(&name("a")).expect("unchanged"), card);

        let path = keystore.sealed_path(&name("a"));
        let mut bytes = files::read(&path, 16_384).expect("reads");
        let middle = bytes.len() / 2;
        bytes[middle] = if bytes[middle] == b'A' { b'B' } else { b'A' };
        files::write(&path, &bytes, Readers::Owner).expect("writes");
        assert!(matches!(
            keystore.open(&name("a"), &pass("one")),
            Err(KeystoreError::Sealed(_) | KeystoreError::NoKey)
        ));
    }

    #[test]
    fn wallet_name_that_is_a_path_is_refused() {
        for text in ["", "..", "a/b", "A", "ä", &"x".repeat(33)] {
            assert!(text.parse::<WalletName>().is_err(), "{text:?}");
        }
    }
}
