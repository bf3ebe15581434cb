//! What pages show, and that nothing on chain can become part of their form.

use super::{Front, failure, front, job, jobs, node, nodes};
use crate::{
    document::NetworkWord,
    rpc::{
        Happened, JobAnswer, JobRecord, JobsAnswer, ListedJob, ListedNode, NodeAnswer, NodesAnswer,
        PriceView, ReputationView, RpcError, StatusAnswer, ValidatorsAnswer, code,
    },
    text::{Number, Text, Tgrid, Units},
    view::{DeviceView, JobView, NodeView, RunView, StakeView},
    why::{RemovedView, WhyView},
    words::{Standing, TierWords},
};
use tg_chain::{Happening, index::JobPlace};
use tg_types::{
    AccountId, Amount, Event, Hash32, Height, JobId, NetworkKind, NodeId, Reason, SecretKey, Tick,
    Tier, TxId,
};

/// What a provider may call its region: it is printable, so the ledger takes it.
const HOSTILE: &str = "<script>alert(1)</script>";

fn owner() -> AccountId {
    SecretKey::from_seed([1; 32]).public().into()
}

fn units(units: u64) -> Tgrid {
    Tgrid(Amount::new(units).expect("small"))
}

fn status() -> StatusAnswer {
    StatusAnswer {
        version: "0.1.0".to_owned(),
        chain: Text("test".parse().expect("a chain id")),
        genesis: Text(tg_types::GenesisHash::new([7; 32])),
        network: NetworkWord::Local,
        height: Number(Height::new(12_345)),
        tick: Some(Number(Tick::new(1_794_827_643_000))),
        digest: None,
        state_root: None,
        certified: Some(Number(Height::new(12_344))),
        block_ms: Some(80),
        pool_txs: 0,
        pool_txs_max: 10,
        validators: 1,
        faucet: true,
        capacity_kib_max: 1_024,
    }
}

fn stake() -> StakeView {
    StakeView {
        active: units(5_000_000_000),
        active_units: Units(Amount::new(5_000_000_000).expect("small")),
        exposed: units(20_000),
        exposed_units: Units(Amount::new(20_000).expect("small")),
        unbonding: Vec::new(),
    }
}

fn listed_node() -> ListedNode {
    let device = DeviceView {
        kind: "gpu".to_owned(),
        model: Text("\"><img src=x onerror=alert(2)>".parse().expect("printable")),
        memory_mib: 24_576,
        count: 2,
        features: vec!["tensor-cores".to_owned()],
        sharing: None,
        proved: None,
    };
    let price = units(250_000_000);
    ListedNode {
        id: Text(NodeId::new([3; 32])),
        node: NodeView {
            owner: Text(owner()),
            region: Text(HOSTILE.parse().expect("printable")),
            devices: vec![device],
            price_per_hour: price,
            price_per_hour_units: Units(price.0),
            price_per_tera: price,
            price_per_tera_units: Units(price.0),
            slots: 4,
            running: 1,
            held: Vec::new(),
            host: None,
            hosted: Vec::new(),
            kept: 1,
            checking: 0,
            open: true,
            closes: None,
            present: true,
            reputation_bps: 9_000,
            since: Number(Tick::new(1_794_827_000_000)),
            capacity: "idle".to_owned(),
        },
        stake: stake(),
        stake_free: units(4_999_980_000),
        stake_free_units: Units(Amount::new(4_999_980_000).expect("small")),
        reputation: ReputationView { good: 10, bad: 1, lower_bound_bps: 9_123 },
        absent: None,
        capacity: "proved: 1 MiB in 40 ms (25 MiB/s), 3 minutes ago".to_owned(),
    }
}

fn record(sentence: &str, status: &str) -> JobRecord {
    let run = RunView {
        node: Text(NodeId::new([3; 32])),
        owner: Text(owner()),
        bond: units(20_000),
        state: "placed".to_owned(),
        begun: Number(Tick::ZERO),
        device: None,
        gpus: Vec::new(),
        took_ms: None,
        ended: None,
        output: None,
        trace: None,
        package: None,
    };
    let hash = Text(Hash32::new([9; 32]));
    JobRecord {
        reason: Standing::new(Reason::JobPlaced, sentence),
        tier: TierWords::new(Tier::Sync, NetworkKind::Local, None),
        price: Some(PriceView {
            run: units(1_000),
            runs: 1,
            check: units(500),
            checkers: 7,
            fees_each: units(10_000),
            check_fees_each: units(10_000),
            quoted: units(84_500),
            charged: None,
        }),
        closed: None,
        job: JobView {
            owner: Text(owner()),
            work: "tensor".to_owned(),
            program: hash,
            package: hash,
            tier: "sync".to_owned(),
            pay: units(1_000),
            pay_units: Units(Amount::new(1_000).expect("small")),
            run_max_ms: 5_000,
            escrow: units(84_500),
            escrow_units: Units(Amount::new(84_500).expect("small")),
            submitted: Number(Tick::new(1_794_827_640_000)),
            expires: Number(Tick::new(1_794_827_700_000)),
            status: status.to_owned(),
            runs: vec![run],
            extent: "whole".to_owned(),
            draw: "pending".to_owned(),
            checks: Vec::new(),
            promise: None,
            secret_weights: None,
            checkpoint: None,
            is_stopping: false,
            nodes: None,
        },
    }
}

fn job_id() -> JobId {
    JobId::new([0xab; 32])
}

fn happened(second: u64, event: Event) -> Happened {
    let (height, tick) = (Height::new(second), Tick::new(1_794_827_640_000 + second * 1_000));
    let tx = Some(TxId::new([4; 32]));
    Happened::new(&Happening { height, tick, tx, event }).expect("about a job or a node")
}

fn answer(history: Vec<Happened>) -> JobAnswer {
    JobAnswer {
        id: Text(job_id()),
        record: Some(record("Node 03030303 runs it.", "running")),
        program: None,
        why: None,
        receipt: history.last().and_then(|it| it.tx),
        history,
        more: false,
    }
}

fn queued() -> Event {
    Event::JobQueued { job: job_id(), owner: owner(), escrow: units(84_500).0 }
}

fn placed() -> Event {
    let node = NodeId::new([3; 32]);
    Event::JobPlaced { job: job_id(), node, run: 0, deadline: Tick::ZERO }
}

fn settled() -> Event {
    let (charged, refund) = (units(11_000).0, units(73_500).0);
    let output = Hash32::new([5; 32]);
    Event::JobSettled { job: job_id(), owner: owner(), output, charged, refund }
}

fn listed_jobs(sentence: &str) -> JobsAnswer {
    let place = |place| Text(JobPlace { height: Height::new(9), place });
    let old = ListedJob { id: Text(JobId::new([1; 32])), place: place(0), record: None };
    let new = ListedJob {
        id: Text(job_id()),
        place: place(1),
        record: Some(record(sentence, "running")),
    };
    JobsAnswer { jobs: vec![new, old], next: Some(place(0)) }
}

fn all_pages() -> Vec<String> {
    let status = status();
    let validators = ValidatorsAnswer { validators: Vec::new(), blocks: 64 };
    let listed = listed_node();
    let list = NodesAnswer { nodes: vec![listed.clone()], count: 3, more: true, next: Some(2) };
    let list_jobs = listed_jobs(HOSTILE);
    let mut one = answer(vec![happened(0, queued()), happened(1, placed())]);
    one.record = Some(record(HOSTILE, HOSTILE));
    one.why = Some(WhyView {
        fitting: 0,
        needed: Some(2),
        removed: vec![RemovedView { rule: HOSTILE.into(), nodes: 1, sentence: HOSTILE.into() }],
        change: Some(format!("accept a {HOSTILE}")),
    });
    let about = NodeAnswer {
        id: listed.id,
        record: Some(listed),
        jobs: vec![Text(job_id())],
        history: vec![happened(1, placed())],
        earlier: Some(Number(Height::new(1))),
    };
    let error = RpcError::new(code::UNKNOWN, "unknown", HOSTILE, HOSTILE);
    vec![
        front(&Front {
            status: &status,
            validators: &validators,
            nodes: &list,
            jobs: &list_jobs,
            totals: None,
        }),
        jobs(&status, &list_jobs, true),
        nodes(&status, &list, false),
        job(&status, &one, Some("127.0.0.1:9420")),
        node(&status, &about, true),
        failure(&status, &error),
    ]
}

#[test]
fn text_from_the_chain_never_becomes_markup() {
    for page in all_pages() {
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(!page.contains("<img"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)"), "it is shown as it is: {page}");
    }
}

/// Goal: whatever a provider calls its devices and region, a page has the same tags. Method: random
/// printable names; tags are counted without looking at their text.
#[test]
fn prop_names_change_no_tag() {
    let tags = |listed: ListedNode| {
        let list = NodesAnswer { nodes: vec![listed], count: 1, more: false, next: None };
        let page = nodes(&status(), &list, true);
        (page.matches('<').count(), page.matches('>').count(), page.matches('"').count())
    };
    let expected = tags(listed_node());
    arbtest::arbtest(|u| {
        let mut text = String::new();
        for _ in 0..u.int_in_range(1..=24)? {
            text.push(char::from(u.int_in_range(b'!'..=b'~')?));
        }
        let Ok(name) = text.parse::<tg_types::Name>() else { return Ok(()) };
        let mut listed = listed_node();
        listed.node.region = Text(name.clone());
        listed.node.devices[0].model = Text(name);
        assert_eq!(tags(listed), expected, "{text}");
        Ok(())
    });
}

#[test]
fn pages_load_nothing_from_elsewhere_and_need_no_script() {
    for page in all_pages() {
        let loads = page.split("src=\"").skip(1).chain(page.split("href=\"").skip(1));
        for target in loads {
            assert!(target.starts_with('/') || target.starts_with('#'), "{target}");
        }
        assert!(!page.contains("style=\"") && !page.contains(" onclick"), "{page}");
        assert_eq!(page.matches("<script").count(), page.matches("<noscript>").count());
        assert!(page.contains("<h1"), "{page}");
    }
}

#[test]
fn job_page_tells_the_story_and_how_to_check_it() {
    let history = vec![happened(0, queued()), happened(1, placed()), happened(3, settled())];
    let page = job(&status(), &answer(history), Some("127.0.0.1:9420"));
    for words in [
        "Job <code>abab…abab</code>",
        "Node 03030303 runs it.",
        "<strong>Placed</strong>: node <a class=\"id\" href=\"/nodes/0303",
        "<strong>Paid</strong>: 0.000011 TGRID; 0.0000735 TGRID came back.",
        "+3.0 s",
        "local demo",
        "Does not protect against: ",
        "tensorgrid verify job-abababab.json --network network.json --explain",
        "--rpc http://127.0.0.1:9420",
        "href=\"/v1/receipts/0404",
        "/v1/jobs/abab",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = job(&status(), &answer(Vec::new()), None);
    assert!(!page.contains("--rpc") && !page.contains("tensorgrid verify"), "{page}");
}

#[test]
fn stages_show_what_was_reached_and_what_was_not() {
    let count = |history: Vec<Happened>, class: &str| {
        let page = job(&status(), &answer(history), None);
        page.matches(&format!("<li class=\"{class}\"><span")).count()
    };
    let placed = || vec![happened(0, queued()), happened(1, placed())];
    assert_eq!((count(placed(), "done"), count(placed(), "open")), (2, 4));
    let mut failed = placed();
    let refund = units(84_500).0;
    failed.push(happened(2, Event::JobFailed { job: job_id(), owner: owner(), refund }));
    assert_eq!(count(failed, "bad"), 1);
}

#[test]
fn lists_lead_on_to_their_next_page() {
    let page = jobs(&status(), &listed_jobs("Runs."), false);
    assert!(page.contains("href=\"/jobs?before=9-0\""), "{page}");
    assert!(page.contains("data-watch=\"nothing\""), "an earlier page does not change");
    let list = NodesAnswer { nodes: vec![listed_node()], count: 9, more: true, next: Some(7) };
    let page = nodes(&status(), &list, true);
    assert!(page.contains("href=\"/nodes?before=7\""), "{page}");
    assert!(page.contains("2 × GPU &quot;&gt;&lt;img"), "{page}");
}
