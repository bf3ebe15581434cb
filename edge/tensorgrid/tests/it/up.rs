//! `up`: a whole network from one command.

use crate::support::{Home, text, turn};
use std::{
    fs,
    time::{Duration, Instant},
};
use tg_api::{
    Client,
    client::TxPlan,
    rpc::{Submitted, Wait},
};
use tg_types::{AccountId, Action, Amount, Lane, Memo, Params, SecretKey, key::Domain};

/// The command ends within two seconds of `^C`; another second is for a busy test machine.
const STOP_MAX: Duration = Duration::from_secs(3);

/// Goal: a network comes up, other commands find it, a transfer is final, its receipt is good
/// offline, and `^C` ends everything cleanly. Method: as a user would, with temporary data.
#[test]
fn network_comes_up_transfers_and_stops_cleanly() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0"]);
    assert_eq!(up.ready["validators"], 4);
    let job = &up.ready["job"];
    assert_eq!((&job["digit"], &job["checkers"]), (&job["drawn"], &2.into()), "{}", up.ready);
    let network = up.ready["network"].as_str().expect("a path").to_owned();
    let kept = home.path("network.json");
    fs::copy(&network, &kept).expect("the network file is there");

    home.run(&["wallet", "new", "alice"]).expect(0);
    let bob = home.run(&["--json", "wallet", "new", "bob"]).expect(0).json();
    let bob = bob["account"].as_str().expect("an account").to_owned();
    home.run(&["wallet", "faucet", "20", "--wallet", "alice"]).expect(0);
    let send = ["--json", "wallet", "send", &bob, "1.5", "--wallet", "alice", "--memo", "hi"];
    let sent = home.run(&send).expect(0).json();
    assert_eq!(sent["status"], "applied");
    let balance = home.run(&["--json", "wallet", "balance", "--wallet", "bob"]).expect(0).json();
    assert_eq!(balance["account"]["balance"], "1.5");
    let tx = sent["tx"].as_str().expect("an id");
    let receipt = home.path("receipt.json");
    home.run(&["receipt", tx, "-o", text(&receipt)]).expect(0);
    let status = home.run(&["--json", "status"]).expect(0).json();
    assert_eq!(status["totals"]["balanced"], true);
    let nodes = home.run(&["--json", "nodes"]).expect(0).json();
    assert_eq!(nodes["validators"].as_array().map(Vec::len), Some(4));
    let events = home.run(&["--json", "events", "--count", "2"]).expect(0);
    assert_eq!(events.out.lines().count(), 2, "{events:?}");

    let (status, took) = up.stop("INT");
    assert_eq!(status.code(), Some(0));
    assert!(took < STOP_MAX, "{took:?}");
    assert!(!fs::exists(&network).unwrap_or(true), "temporary data is removed");
    home.run(&["status"]).expect(1);
    let arguments = ["verify", text(&receipt), "--network", text(&kept), "--explain"];
    let verdict = home.run(&arguments).expect(0);
    assert!(verdict.out.starts_with("good: a receipt of local"), "{verdict:?}");
}

/// Goal: with `--data` the chain goes on where it was. Method: stop with SIGTERM, start again.
#[test]
fn network_with_data_goes_on_where_it_was() {
    let _turn = turn();
    let home = Home::new();
    let data = home.path("net");
    let arguments = ["--json", "up", "--data", text(&data), "--port", "0"];
    let up = home.start("up", &arguments);
    let (genesis, first) = (up.ready["genesis"].clone(), up.ready["height"].as_u64());
    let tx = up.ready["job"]["job"].as_str().expect("an id").to_owned();
    let twice = home.run(&arguments).expect(1);
    assert!(twice.err.contains("another process uses"), "{twice:?}");
    let (status, _) = up.stop("TERM");
    assert_eq!(status.code(), Some(0));

    let again = home.start("up-again", &[&arguments[..], &["--no-demo"]].concat());
    assert_eq!(again.ready["genesis"], genesis);
    assert!(again.ready["height"].as_u64() > first, "{}", again.ready);
    let receipt = home.path("old.json");
    home.run(&["receipt", &tx, "-o", text(&receipt)]).expect(0);
    let network = data.join("network.json");
    home.run(&["verify", text(&receipt), "--network", text(&network)]).expect(0);
    let refused = home.run(&["up", "--data", text(&data), "--validators", "7"]).expect(1);
    assert!(refused.err.contains("another process uses"), "{refused:?}");
    assert_eq!(again.stop("INT").0.code(), Some(0));
}

/// Blocks after which everything that is kept for a while has been replaced at least once: the
/// ledger's ring has 64 heights, a node's book of certificates 128, a certificate may be 32 late.
const BLOCKS: u64 = 240;

/// How long those blocks may take; an ordinary machine needs a tenth of it.
const BLOCKS_TIME: Duration = Duration::from_secs(180);

/// Goal: a network does not run dry after a few minutes. Method: one transfer per block, so that
/// blocks come as fast as they can.
#[test]
#[ignore = "slow: two hundred blocks, one after the other"]
fn network_goes_on_when_everything_kept_was_replaced_slow() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0", "--no-demo"]);
    let mut client = Client::new(&up.rpc()).expect("an address");
    let key = SecretKey::from_seed([7; 32]);
    let account = AccountId::from(key.public());
    client.faucet(account, None).expect("a local network has a faucet");
    let status = client.status().expect("answers");
    let domain = Domain { chain: status.chain.0, genesis: status.genesis.0 };
    let started = Instant::now();
    let mut height = status.height.0;
    while height.get() < BLOCKS {
        assert!(started.elapsed() < BLOCKS_TIME, "stuck at block {height}: {}", up.tail());
        let lane = Lane::FIRST;
        let nonce = client.nonce(account, lane).expect("answers");
        let to = AccountId::from(SecretKey::from_seed([8; 32]).public());
        let amount = Amount::new(1).expect("one unit");
        let action = Action::Transfer { to, amount, memo: Memo::EMPTY };
        let plan = TxPlan { lane, nonce, height, idempotency: None, action };
        let tx = plan.sign(&key, &domain, &Params::local()).expect("a fee");
        let mut answer = client.submit(&[tx], Wait::Final).expect("answers");
        match answer.results.pop() {
            Some(Submitted::Final { height: at, .. }) => height = at.0,
            other => panic!("not final at block {height}: {other:?}\n{}", up.tail()),
        }
    }
    assert_eq!(up.stop("INT").0.code(), Some(0));
}
