//! Wallets: made, listed, backed up, restored, refused.

use crate::support::{Home, text, turn};
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn wallet_is_backed_up_and_restored() {
    let home = Home::new();
    let made = home.run(&["--json", "wallet", "new"]).expect(0).json();
    assert_eq!(made["name"], "main");
    let file = made["file"].as_str().expect("a path");
    let mode = std::fs::metadata(file).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    home.run(&["wallet", "new"]).expect(1);

    let copy = home.path("copy.age");
    home.run(&["wallet", "backup", text(&copy)]).expect(0);
    home.run(&["wallet", "backup", text(&copy)]).expect(2);
    let armored = std::fs::read_to_string(&copy).expect("is there");
    assert!(armored.starts_with("-----BEGIN AGE ENCRYPTED FILE-----"), "{armored}");
    let restored = home.run(&["--json", "wallet", "restore", text(&copy), "second"]).expect(0);
    assert_eq!(restored.json()["account"], made["account"]);
    let listed = home.run(&["--json", "wallet", "list"]).expect(0);
    let backed_up = listed.out.lines().filter(|line| line.contains("\"backed_up\":true"));
    assert_eq!(backed_up.count(), 2, "{listed:?}");
    let ambiguous = home.run(&["wallet", "backup", text(&home.path("x"))]).expect(2);
    assert!(ambiguous.err.contains("--wallet NAME"), "{ambiguous:?}");
}

#[test]
fn wallet_with_a_wrong_passphrase_stays_closed() {
    let home = Home::new();
    let pass = home.path("pass");
    std::fs::write(&pass, "right\n").expect("writes");
    home.run(&["wallet", "new", "--passphrase-file", text(&pass)]).expect(0);
    let copy = home.path("copy.age");
    let refused = home.run(&["wallet", "backup", text(&copy)]).expect(1);
    assert!(refused.err.contains("hint: check the passphrase"), "{refused:?}");
    assert!(!copy.exists());
    home.run(&["wallet", "backup", text(&copy), "--passphrase-file", text(&pass)]).expect(0);
}

/// Goal: staking, idempotency and refusals, as a user meets them. Method: one local network.
#[test]
fn wallet_stakes_and_is_refused_with_reasons() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0", "--no-demo"]);
    let made = home.run(&["--json", "wallet", "new"]).expect(0).json();
    let account = made["account"].as_str().expect("an account").to_owned();
    let poor = home.run(&["stake", "10"]).expect(1);
    assert!(poor.err.contains("does not cover the fee"), "{poor:?}");
    assert!(poor.err.contains("wallet faucet"), "{poor:?}");
    home.run(&["wallet", "faucet", "50"]).expect(0);

    assert_eq!(home.run(&["--json", "stake", "20"]).expect(0).json()["status"], "applied");
    let balance = home.run(&["--json", "wallet", "balance"]).expect(0).json();
    assert_eq!(balance["stake"]["active"], "20");
    assert_eq!(home.run(&["--json", "unstake", "5"]).expect(0).json()["code"], "applied");
    let failed = home.run(&["--json", "unstake", "100"]).expect(1).json();
    assert_eq!(failed["code"], "stake_missing");

    let other = home.run(&["--json", "wallet", "new", "other"]).expect(0).json();
    let to = other["account"].as_str().expect("an account");
    let mark = "00112233445566778899aabbccddeeff";
    let send = ["wallet", "send", to, "1", "--wallet", "main", "--idempotency", mark];
    home.run(&send).expect(0);
    let twice = home.run(&send).expect(1);
    assert!(twice.err.contains("idempotency id has already been used"), "{twice:?}");
    let broke = ["--json", "wallet", "send", &account, "1000", "--wallet", "other"];
    assert_eq!(home.run(&broke).expect(1).json()["code"], "balance_too_low");
    drop(up);
}
