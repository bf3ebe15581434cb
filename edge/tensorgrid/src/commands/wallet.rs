//! Keys and money: the wallets of this machine and what their accounts have.

use crate::{
    ask::{self, OrAsk as _},
    failure::{Exit, Failure},
    keystore::{Card, Keystore, KeystoreError, WalletName},
    printer::{Printer, lines, table},
    settings::{AccountSettings, KeySettings, Rpc, WalletSettings},
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use tg_api::{
    rpc::{AccountAnswer, Submitted},
    text::{Number, Text, Tgrid, Units},
};
use tg_types::{AccountId, Amount, Height, SecretKey, TxId};

#[derive(Serialize)]
struct Listed {
    name: String,
    account: Text<AccountId>,
    backed_up: bool,
    file: PathBuf,
}

impl Listed {
    fn new(card: &Card, keystore: &Keystore) -> Self {
        Self {
            name: card.name.to_string(),
            account: Text(card.account),
            backed_up: card.backed_up,
            file: keystore.sealed_path(&card.name),
        }
    }
}

/// `wallet`
pub(crate) fn run(settings: WalletSettings, printer: &Printer) -> Result<Exit, Failure> {
    match settings {
        WalletSettings::New(key) => new(&key, printer)?,
        WalletSettings::Restore(key, file) => restore(&key, &file, printer)?,
        WalletSettings::Backup(key, file) => back_up(&key, &file, printer)?,
        WalletSettings::List(keystore) => list(&keystore, printer)?,
        WalletSettings::Balance(rpc, account) => balance(&rpc, &account, printer)?,
        WalletSettings::Faucet(rpc, account, amount) => faucet(&rpc, &account, amount, printer)?,
    }
    Ok(Exit::Done)
}

/// Opens the wallet that the settings name.
///
/// # Errors
/// If there is none, or the passphrase is wrong.
pub(crate) fn open(key: &KeySettings, printer: &Printer) -> Result<(Card, SecretKey), Failure> {
    let card = find(&key.keystore, key.name.as_ref())?;
    let passphrase = key.passphrase.known(&card.name)?;
    let opening = printer.progress("opening the wallet");
    let secret = key.keystore.open(&card.name, &passphrase);
    drop(opening);
    Ok((card, secret.map_err(|error| failure(&error, "the wallet cannot be opened"))?))
}

/// The wallet of this name, or the only one.
fn find(keystore: &Keystore, name: Option<&WalletName>) -> Result<Card, Failure> {
    if let Some(name) = name {
        return keystore.card(name).map_err(|error| failure(&error, "the wallet cannot be used"));
    }
    let cards = keystore.list().map_err(|error| failure(&error, "wallets cannot be listed"))?;
    match &cards[..] {
        [only] => Ok(only.clone()),
        [] => Err(Failure::new(
            format!("there is no wallet in {}", keystore.folder().display()),
            "make one with `tensorgrid wallet new`",
        )),
        several => {
            let names: Vec<String> = several.iter().map(|card| card.name.to_string()).collect();
            Err(Failure::misuse(
                format!("there are several wallets: {}", names.join(", ")),
                "choose one with --wallet NAME",
            ))
        }
    }
}

fn failure(error: &KeystoreError, what: &str) -> Failure {
    let hint = match error {
        KeystoreError::Unknown(_) => "`tensorgrid wallet list` shows the wallets there are",
        KeystoreError::Exists(_) => "choose another name; a wallet is never overwritten",
        KeystoreError::Sealed(_) => {
            "check the passphrase; if the file is damaged, restore a backup"
        }
        KeystoreError::Format { .. } | KeystoreError::NoKey => {
            "use the version of `tensorgrid` that made the wallet"
        }
        KeystoreError::Card { .. } | KeystoreError::OtherAccount => {
            "restore the wallet from its backup"
        }
        KeystoreError::File(_) | KeystoreError::Seal(_) => {
            "check that the folder exists and is yours; TENSORGRID_WALLETS names another"
        }
    };
    Failure::new(what, hint).because(error)
}

fn name_of(key: &KeySettings) -> Result<&WalletName, Failure> {
    key.name.as_ref().ok_or_else(|| Failure::misuse("no name", "give the wallet a name"))
}

fn new(key: &KeySettings, printer: &Printer) -> Result<(), Failure> {
    let (name, what) = (name_of(key)?, "the wallet was not made");
    if key.keystore.has(name) {
        return Err(failure(&KeystoreError::Exists(name.clone()), what)); // before asking
    }
    let passphrase = key.passphrase.chosen(name)?;
    let card = key.keystore.create(name, &passphrase).map_err(|error| failure(&error, what))?;
    print_card(&card, &key.keystore, printer);
    printer.say(format_args!(
        "Without this file and its passphrase the money is lost: make a backup with \
         `tensorgrid wallet backup FILE --wallet {name}`."
    ));
    Ok(())
}

fn restore(key: &KeySettings, file: &Path, printer: &Printer) -> Result<(), Failure> {
    let (name, what) = (name_of(key)?, "the wallet was not restored");
    let passphrase = key.passphrase.known(name)?;
    let card = key.keystore.restore(name, file, &passphrase);
    print_card(&card.map_err(|error| failure(&error, what))?, &key.keystore, printer);
    Ok(())
}

fn print_card(card: &Card, keystore: &Keystore, printer: &Printer) {
    let listed = Listed::new(card, keystore);
    printer.result(&listed, || {
        lines(&[
            ("wallet", listed.name.clone()),
            ("account", listed.account.to_string()),
            ("file", listed.file.display().to_string()),
        ])
    });
}

fn back_up(key: &KeySettings, file: &Path, printer: &Printer) -> Result<(), Failure> {
    let what = "the backup was not made";
    if file.exists() {
        let hint = "choose a new file; a backup never overwrites one";
        return Err(Failure::misuse(format!("{} exists already", file.display()), hint));
    }
    let card = find(&key.keystore, key.name.as_ref())?;
    let passphrase = key.passphrase.known(&card.name)?;
    let card = key.keystore.back_up(&card.name, &passphrase, file);
    let card = card.map_err(|error| failure(&error, what))?;
    let listed = Listed { file: file.to_owned(), ..Listed::new(&card, &key.keystore) };
    printer.result(&listed, || {
        lines(&[
            ("wallet", listed.name.clone()),
            ("account", listed.account.to_string()),
            ("backup", listed.file.display().to_string()),
        ])
    });
    printer.say("The backup opens with the same passphrase. Keep it on another machine.");
    Ok(())
}

fn list(keystore: &Keystore, printer: &Printer) -> Result<(), Failure> {
    let cards = keystore.list().map_err(|error| failure(&error, "wallets cannot be listed"))?;
    if printer.is_json() {
        for card in &cards {
            printer.result(&Listed::new(card, keystore), String::new);
        }
        return Ok(());
    }
    if cards.is_empty() {
        printer.say("There is no wallet yet; make one with `tensorgrid wallet new`.");
        return Ok(());
    }
    let row = |card: &Card| {
        let backup = if card.backed_up { "yes" } else { "no" };
        [card.name.to_string(), card.account.to_string(), backup.to_owned()]
    };
    let rows: Vec<[String; 3]> = cards.iter().map(row).collect();
    printer.out(&table(["wallet", "account", "backup"], &rows));
    Ok(())
}

fn account_of(settings: &AccountSettings) -> Result<AccountId, Failure> {
    match settings.account {
        Some(account) => Ok(account),
        None => Ok(find(&settings.keystore, settings.name.as_ref())?.account),
    }
}

fn balance(rpc: &Rpc, settings: &AccountSettings, printer: &Printer) -> Result<(), Failure> {
    let account = account_of(settings)?;
    let answer = ask::client(rpc)?.account(account).or_ask("the balance cannot be asked for")?;
    printer.result(&answer, || balance_text(&answer));
    Ok(())
}

fn balance_text(answer: &AccountAnswer) -> String {
    let mut rows = vec![
        ("account", answer.id.to_string()),
        ("balance", format!("{} TGRID", answer.account.balance)),
        ("stake", format!("{} TGRID", answer.stake.active)),
    ];
    for unbonding in &answer.stake.unbonding {
        let text = format!("{} TGRID, released at {} ms", unbonding.amount, unbonding.due);
        rows.push(("unbonding", text));
    }
    lines(&rows)
}

#[derive(Serialize)]
struct Given {
    account: Text<AccountId>,
    amount: Tgrid,
    amount_units: Units,
    tx: Text<TxId>,
    height: Number<Height>,
}

fn faucet(
    rpc: &Rpc,
    settings: &AccountSettings,
    amount: Option<Amount>,
    printer: &Printer,
) -> Result<(), Failure> {
    let account = account_of(settings)?;
    let waiting = printer.progress("waiting for the faucet");
    let answer = ask::client(rpc)?.faucet(account, amount).or_ask("the faucet gave nothing")?;
    drop(waiting);
    let Submitted::Final { tx, height, .. } = answer.result else {
        let hint = "look at `tensorgrid wallet balance` in a moment";
        return Err(Failure::cannot_tell("the faucet's transfer is not final", hint));
    };
    let (amount, amount_units) = (answer.amount, answer.amount_units);
    let given = Given { account: Text(account), amount, amount_units, tx, height };
    printer.result(&given, || {
        lines(&[
            ("account", given.account.to_string()),
            ("received", format!("{} TGRID", given.amount)),
            ("transaction", given.tx.to_string()),
            ("final in", format!("block {}", given.height)),
        ])
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::find;
    use crate::{failure::Exit, files::TemporaryFolder, keystore::Keystore};
    use age::secrecy::SecretString;

    #[test]
    fn wallet_is_chosen_if_it_is_the_only_one() {
        let folder = TemporaryFolder::new().expect("a folder");
        let keystore = Keystore::new(folder.path().to_owned());
        assert_eq!(find(&keystore, None).expect_err("none").exit, Exit::Failed);
        let pass = SecretString::from("x".to_owned());
        let first = keystore.create(&"a".parse().expect("a name"), &pass).expect("creates");
        assert_eq!(find(&keystore, None).expect("one"), first);
        keystore.create(&"b".parse().expect("a name"), &pass).expect("creates");
        assert_eq!(find(&keystore, None).expect_err("two").exit, Exit::Misused);
        assert_eq!(find(&keystore, Some(&first.name)).expect("named"), first);
    }
}
