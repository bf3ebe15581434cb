//! Methods and pages that only read.

use crate::world::{World, account, split};
use tg_api::document::NetworkWord;
use tg_chain::Notice;
use tg_types::{Amount, Decode as _, Height, Tick};

pub(crate) fn read_methods_answer(world: &World) {
    let mut client = world.client();
    let genesis = &world.genesis;
    let status = client.status().expect("status");
    assert_eq!((status.chain.0, status.genesis.0), (genesis.chain(), genesis.hash()));
    assert_eq!((status.validators, status.network, status.faucet), (1, NetworkWord::Local, true));
    assert!(status.height.0 >= Height::new(1));

    let rich = client.account(world.rich_account()).expect("account");
    assert!(rich.exists && rich.account.balance.0 > Amount::ZERO);
    let nobody = client.account(account(250)).expect("account");
    assert!(!nobody.exists && nobody.account.balance.0.is_zero());

    let validators = client.validators().expect("validators").validators;
    let [seat] = &validators[..] else { panic!("one seat") };
    assert_eq!(seat.key.0, genesis.validators()[0].key);
    assert_eq!((seat.stake.active.0, seat.slashed), (genesis.validators()[0].stake, None));
    assert!(seat.proposed >= 1 && seat.proposed_last.is_some(), "a sole seat proposes all blocks");

    let none = client.doors().expect("doors");
    assert_eq!((none.doors.len(), none.seats), (0, 1));
    world.post_notice(b"come in");
    let doors = client.doors().expect("doors").doors;
    let [door] = &doors[..] else { panic!("one door") };
    assert_eq!((door.seat.0, door.issued.0), (genesis.validators()[0].key, Tick::new(7)));
    let notice = Notice::from_bytes(&door.notice.0).expect("canonical");
    assert_eq!((notice.check(genesis), notice.text()), (Ok(()), &b"come in"[..]));
    let page: serde_json::Value =
        serde_json::from_str(&client.get("/v1/doors").expect("an address")).expect("JSON");
    assert_eq!(page["doors"][0], serde_json::to_value(door).expect("plain data"));

    let totals = client.totals().expect("totals");
    assert!(totals.balanced);
    assert_eq!(totals.sum_units, genesis.supply().units().to_string());
    assert_eq!(client.params().expect("params").params().expect("bytes"), *genesis.params());
    assert!(client.nodes(None).expect("nodes").nodes.is_empty());

    let network = client.network().expect("network");
    assert_eq!((network.domain(), network.genesis_bytes.is_none()), (genesis.domain(), true));
    let whole = client.genesis().expect("genesis").read_genesis().expect("agrees");
    assert_eq!(whole.as_ref(), Some(&**genesis));

    let block = client.block(Some(Height::new(1))).expect("block");
    assert_eq!(block.header.height.0, Height::new(1));
    assert!(!block.events.is_empty(), "the genesis' allocations are events of block 1");
    let header = tg_types::Header::from_bytes(&block.header.bytes.0).expect("canonical");
    assert_eq!(header.digest(&genesis.domain()), block.header.digest.0);
    assert!(client.block(None).expect("latest").header.height.0 >= status.height.0);
}

pub(crate) fn pages_answer(world: &World) {
    let mut client = world.client();
    let page = client.get("/").expect("a page");
    for word in [
        "<title>Network · TensorGrid</title>",
        "api-test",
        "add up to the supply",
        "Validators",
        "proposes",
        "No job yet.",
        "No node is registered.",
    ] {
        assert!(page.contains(word), "{word}: {page}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    assert!(client.get("/health").expect("healthy").contains("\"status\":\"ok\""));
    let (status, body) =
        split(&world.raw(b"GET /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
    assert_eq!(status, 404);
    assert!(body.contains("\"hint\""), "{body}");
}

pub(crate) fn metrics_count_calls(world: &World) {
    let mut client = world.client();
    let value = |text: &str, name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
    };
    let before = client.metrics().expect("metrics");
    client.status().expect("status");
    let after = client.metrics().expect("metrics");
    let calls = "tensorgrid_rpc_calls_total{method=\"status\"}";
    assert_eq!(value(&after, calls), value(&before, calls) + 1);
    assert!(value(&after, "tensorgrid_height") >= 1);
    assert!(after.lines().count() > 100, "the engine's numbers are there too");
    for line in after.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (_, number) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        assert!(number.parse::<f64>().is_ok(), "{line:?}");
    }
}
