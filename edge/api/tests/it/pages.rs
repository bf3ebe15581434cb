//! Pages and their JSON twins, with a job that is handed in, waits, runs and is paid.

use crate::world::{World, account, split, tgrid};
use serde_json::Value;
use tg_api::{
    Document, NetworkDocument,
    client::TxPlan,
    rpc::{JobsParams, Submitted, Wait},
    text::Text,
    verify,
};
use tg_types::{
    Action, Amount, Device, DeviceKind, DurationMs, Features, Hash32, JobId, JobSpec, Kind, Lane,
    List, Needs, NodeDescriptor, NodeId, ResultKey, RunResult, SecretKey, Tier, Work,
    tx::{OpenedResult, Sealed},
};

/// What the test's provider calls its region.
const REGION: &str = "<script>alert(1)</script>";

/// The key of the test's node.
fn node_key() -> SecretKey {
    SecretKey::from_seed([60; 32])
}

/// Signs and submits an action and gives the transaction's id.
fn send(world: &World, key: &SecretKey, action: Action) -> tg_types::TxId {
    let mut client = world.client();
    let nonce = client.nonce(key.public().into(), Lane::FIRST).expect("nonce");
    let height = client.status().expect("status").height.0;
    let plan = TxPlan { lane: Lane::FIRST, nonce, height, idempotency: None, action };
    let tx = plan.sign(key, &world.genesis.domain(), world.genesis.params()).expect("a small fee");
    let answer = client.submit(&[tx], Wait::Final).expect("submitted");
    match &answer.results[..] {
        [Submitted::Final { tx, code, .. }] if code.to_string() == "applied" => tx.0,
        other => panic!("not applied: {other:?}"),
    }
}

fn submit(world: &World, count: usize) -> Vec<JobId> {
    let hash = Hash32::new([8; 32]);
    let spec = JobSpec {
        work: Work::Opaque { task: hash },
        package: hash,
        package_bytes: 1,
        key_escrow: tg_types::KeyEscrow::Validators,
        result_key: ResultKey::NONE,
        needs: Needs::ANY,
        tier: Tier::Trusted,
        pay: Amount::new(2_000).expect("small"),
        run_max: DurationMs::HOUR,
        expires_after: DurationMs::HOUR,
        promise: None,
        checkpoint: None,
        nodes: 1,
    };
    let specs = List::new(vec![spec; count]).expect("few");
    let tx = send(
        world,
        &world.rich,
        Action::SubmitJobs { specs, escrow_max: tgrid(1), vouchers: List::default() },
    );
    (0..count).map(|place| JobId::of(tx, u8::try_from(place).expect("few"))).collect()
}

fn register(world: &World) -> NodeId {
    let key = node_key();
    let node = NodeId::new(*key.public().as_bytes());
    let owner = world.rich_account();
    let device = Device {
        kind: DeviceKind::Cpu,
        model: "cpu".parse().expect("a name"),
        memory_mib: 2_048,
        count: 1,
        features: Features::NONE,
        sharing: tg_types::Sharing::WHOLE,
    };
    let descriptor = NodeDescriptor {
        region: REGION.parse().expect("printable"),
        devices: List::new(vec![device]).expect("one"),
        host: tg_types::HostPart::NONE,
        price_per_hour: Amount::new(1_000).expect("small"),
        price_per_tera: Amount::new(1_000).expect("small"),
        slots: 1,
        is_open: true,
        closes: None,
    };
    let consent = key.sign(&world.genesis.domain(), Kind::NodeConsent, owner.as_bytes());
    send(world, &world.rich, Action::Stake { amount: tgrid(10) });
    let fees = Action::Transfer {
        to: key.public().into(),
        amount: tgrid(1),
        memo: tg_types::bounded::Bytes::EMPTY,
    };
    send(world, &world.rich, fees);
    send(world, &world.rich, Action::RegisterNode { node, descriptor, consent });
    node
}

/// Commits to a result of the job and shows it.
fn run(world: &World, job: JobId, node: NodeId) {
    let hash = Hash32::new([5; 32]);
    let result = RunResult { output: hash, trace: hash, package: hash, package_bytes: 1 };
    let salt = [6; 32];
    let seal = result.seal(&node, &salt);
    let seals = List::new(vec![Sealed { job, seal }]).expect("one");
    send(world, &node_key(), Action::CommitResults { seals });
    let results = List::new(vec![OpenedResult { job, result, salt }]).expect("one");
    send(world, &node_key(), Action::RevealResults { results, vouchers: List::default() });
}

fn get(world: &World, target: &str) -> (u16, String, String) {
    let request =
        format!("GET {target} HTTP/1.1\r\nhost: node.test:1\r\nconnection: close\r\n\r\n");
    let answer = world.raw(request.as_bytes());
    let (status, body) = split(&answer);
    (status, answer.split("\r\n\r\n").next().unwrap_or_default().to_lowercase(), body)
}

fn page(world: &World, target: &str) -> String {
    let (status, head, body) = get(world, target);
    assert_eq!(status, 200, "{target}: {body}");
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    assert!(!body.contains("<script>alert"), "{target}: {body}");
    body
}

fn json(world: &World, target: &str) -> Value {
    let (status, head, body) = get(world, target);
    assert_eq!(status, 200, "{target}: {body}");
    assert!(head.contains("content-type: application/json"), "{head}");
    serde_json::from_str(&body).expect("JSON")
}

fn contains(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// Goal: pages tell a job's whole path. Method: it is looked at while no node is there, while it
/// runs, and when it is paid; the node is called something nasty.
pub(crate) fn job_is_told_from_queue_to_payment(world: &World) {
    let jobs = submit(world, 3);
    let first = jobs[0];
    let waiting = page(world, &format!("/jobs/{first}"));
    contains(&waiting, &["Why it waits", "Waits: no node is registered.", "queued", "Escrowed"]);
    contains(&page(world, "/"), &["No node is registered.", "Waits: no node is registered."]);

    let node = register(world);
    let running = page(world, &format!("/jobs/{first}"));
    let short = &node.to_string()[..8];
    contains(&running, &["running", &format!("Node {short} runs it."), "Placed"]);
    contains(&page(world, &format!("/jobs/{}", jobs[1])), &["are busy (busy)"]);

    run(world, first, node);
    let paid = page(world, &format!("/jobs/{first}"));
    contains(
        &paid,
        &["settled", "Paid on the provider's word", "Charged", "--rpc http://node.test:1"],
    );
    let shown = page(world, &format!("/nodes/{node}"));
    contains(&shown, &["&lt;script&gt;alert(1)", "Registered", "Run paid", "1 × CPU, 2 GiB"]);
    contains(&page(world, "/"), &["&lt;script&gt;", "settled", "none"]);
    contains(&page(world, "/nodes"), &["&lt;script&gt;", short]);
}

/// Goal: lists are bounded and every page goes on where the last one ended. Method: pages of two,
/// over what the check before has handed in.
pub(crate) fn lists_are_read_page_by_page(world: &World) {
    let mut client = world.client();
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let answer = client.jobs(&JobsParams { limit: Some(2), before }).expect("jobs");
        assert!(answer.jobs.len() <= 2);
        seen.extend(answer.jobs);
        before = answer.next;
        if before.is_none() {
            break;
        }
    }
    assert!(seen.len() >= 3, "{seen:?}");
    assert!(seen.is_sorted_by(|left, right| left.place.0 > right.place.0));
    let place = seen[0].place;
    let target = format!("/jobs?limit=1&before={place}");
    let further = page(world, &target);
    contains(
        &further,
        &[&format!("/jobs/{}", seen[1].id), "Earlier jobs", "data-watch=\"nothing\""],
    );
    assert!(!further.contains(&seen[0].id.to_string()));
    assert_eq!(client.nodes(None).expect("nodes").count, 1);
    let none = json(world, "/v1/nodes?before=0");
    assert_eq!((&none["nodes"], &none["count"]), (&Value::Array(Vec::new()), &1.into()));
}

pub(crate) fn pages_have_their_twins_as_json(world: &World) {
    let listed = json(world, "/v1/jobs?limit=100");
    let jobs = listed["jobs"].as_array().expect("a list");
    let paid = jobs.iter().find(|job| job["record"]["job"]["status"] == "settled").expect("one");
    let id = paid["id"].as_str().expect("an id");
    assert_eq!(paid["record"]["reason"]["code"], "job_settled");
    assert_eq!(paid["record"]["price"]["charged"], "0.000012");
    let job = json(world, &format!("/v1/jobs/{id}"));
    let steps = job["history"].as_array().expect("a list").iter();
    let steps: Vec<&str> = steps.filter_map(|step| step["step"].as_str()).collect();
    assert_eq!(steps, ["Escrowed", "Placed", "Committed", "Revealed", "Run paid", "Paid"]);
    assert_eq!(job["record"]["tier"]["not_against"], "A lying provider.");

    let mut client = world.client();
    let typed = client.job(id.parse().expect("an id")).expect("a job");
    assert_eq!(serde_json::to_value(&typed).expect("JSON"), job);
    let node =
        typed.record.as_ref().and_then(|record| record.job.runs.first()).expect("a run").node;
    let about = client.node(node.0).expect("a node");
    assert_eq!(
        about.record.as_ref().map(|record| record.node.owner),
        Some(Text(world.rich_account()))
    );
    assert!(about.history.iter().any(|it| it.step == "Run paid"));
    assert_eq!(about.history.last().map(|it| it.step.as_str()), Some("Registered"));

    let receipt = get(world, &format!("/v1/receipts/{}", job["receipt"].as_str().expect("a tx")));
    let document = Document::read(receipt.2.as_bytes()).expect("a document");
    let network = NetworkDocument::new(&world.genesis);
    let sentences = verify(&document, &network).expect("holds").sentences;
    assert!(sentences.iter().any(|line| line.contains("was accepted")), "{sentences:?}");
}

pub(crate) fn pages_that_cannot_be_say_why(world: &World) {
    let unknown = "11".repeat(32);
    for (target, expected) in [
        (format!("/jobs/{unknown}"), 404),
        (format!("/nodes/{unknown}"), 404),
        ("/jobs/x".to_owned(), 400),
        ("/jobs/%3Cscript%3E".to_owned(), 400),
        ("/jobs?before=1".to_owned(), 400),
        ("/jobs?limit=0".to_owned(), 400),
        ("/jobs?limit=101".to_owned(), 400),
        ("/jobs?after=%3Cscript%3Ealert(1)".to_owned(), 400),
        ("/nodes?before=x".to_owned(), 400),
        (format!("/nodes/{}?before=-1", account(1)), 400),
    ] {
        let (status, head, body) = get(world, &target);
        assert_eq!(status, expected, "{target}: {body}");
        assert!(head.contains("text/html") && head.contains("content-security-policy"), "{head}");
        assert!(body.contains("Hint: ") && !body.contains("<script>"), "{target}: {body}");
        let twin = get(world, &format!("/v1{target}"));
        assert_eq!(twin.0, expected, "{target}: {}", twin.2);
        assert!(twin.2.contains("\"hint\""), "{}", twin.2);
    }
    assert_eq!(get(world, &format!("/v1/receipts/{unknown}")).0, 404);
    for target in ["/assets/page.css", "/assets/page.js", "/assets/icon.svg"] {
        let (status, head, body) = get(world, target);
        assert_eq!(status, 200, "{target}");
        assert!(head.contains("nosniff") && !body.is_empty(), "{head}");
        assert!(
            !body.contains("http://") || target.ends_with("svg"),
            "{target} loads from elsewhere"
        );
    }
}
