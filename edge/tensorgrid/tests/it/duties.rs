//! What a machine owes to others when it dies: it is found again and done once.

use crate::{
    model::{fixture, write_floats},
    provide::Network,
    support::{Home, PATIENCE, Process, text, turn, wait_until},
};
use serde_json::Value;
use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};
use tg_api::{
    Client,
    client::TxPlan,
    rpc::{Submitted, Wait},
};
use tg_types::{AccountId, Action, Amount, JobId, Lane, Nonce, Params, SecretKey, key::Domain};

/// Jobs that are tried until one is caught at the right moment.
const TRIES: usize = 8;

/// How often to look at a job: quicker than a checker computes.
const LOOK: Duration = Duration::from_millis(2);

/// A machine that offers its services.
struct Machine {
    home: Home,
    process: Process,
    node: String,
}

impl Machine {
    fn join(network: &Network) -> Self {
        let home = Home::new();
        let process = network.provider(&home, &[]);
        let node = process.ready["node"].as_str().expect("an id").to_owned();
        Self { home, process, node }
    }

    /// Stops it in the middle of whatever it does, or lets it go on.
    fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &id]).status();
        assert!(sent.expect("there is such a command").success());
    }
}

/// A job as the network has it.
fn job(client: &mut Client, job: JobId) -> Value {
    serde_json::to_value(client.job(job).expect("answers")).expect("can be written")
}

/// Nodes and states of the checks of a job.
fn checks(client: &mut Client, id: JobId) -> Vec<(String, String)> {
    let found = job(client, id)["record"]["job"]["checks"].clone();
    let word = |check: &Value, name: &str| check[name].as_str().unwrap_or_default().to_owned();
    let checks = found.as_array().cloned().unwrap_or_default();
    checks.iter().map(|check| (word(check, "node"), word(check, "state"))).collect()
}

/// How often something happened to a job, by the node if there is one.
fn count(client: &mut Client, id: JobId, code: &str, node: Option<&str>) -> usize {
    let told = job(client, id);
    let happened = told["history"].as_array().cloned().unwrap_or_default();
    let events = happened.iter().map(|it| &it["event"]).filter(|it| it["code"] == code);
    events.filter(|it| node.is_none_or(|node| it["details"]["node"] == node)).count()
}

/// Hands a job of tier sync in, and stops one of its checkers before it has computed anything. The
/// others seal their answers and wait for it. Gives the job with that checker and another one.
fn caught(
    network: &Network,
    client: &mut Client,
    machines: &[Machine],
    run: &[&str],
) -> Option<(JobId, usize, usize)> {
    let ran = network.home.run(run).expect(0).json();
    let id: JobId = ran["job"].as_str().and_then(|id| id.parse().ok()).expect("an id");
    let place = |node: &str| machines.iter().position(|machine| machine.node == node);
    let started = Instant::now();
    let stopped = loop {
        let drawn = checks(client, id).into_iter().map(|(node, _)| node).collect::<Vec<_>>();
        if let [.., last] = &drawn[..] {
            break place(last).expect("one of ours");
        }
        assert!(started.elapsed() < PATIENCE, "nobody is drawn: {}", job(client, id));
        thread::sleep(LOOK);
    };
    machines[stopped].signal("STOP");
    let mut sealed = None;
    wait_until("another checker has sealed its answer", PATIENCE, || {
        let now = checks(client, id);
        sealed = now.iter().find(|(_, state)| state == "committed").map(|(node, _)| node.clone());
        sealed.is_some() || now.iter().any(|(_, state)| state == "passed")
    });
    let waits = checks(client, id)
        .iter()
        .any(|(node, state)| *node == machines[stopped].node && state == "drawn");
    let sealed = sealed.and_then(|node| place(&node)).filter(|place| *place != stopped);
    match sealed.filter(|_| waits) {
        Some(sealed) => Some((id, stopped, sealed)),
        None => {
            machines[stopped].signal("CONT"); // it was too quick
            network.wait_settled(&id.to_string(), PATIENCE);
            None
        }
    }
}

/// Objects to a result in the name of an account that has nothing to say later.
fn object(client: &mut Client, key: &SecretKey, id: JobId) {
    let account = AccountId::from(key.public());
    client.faucet(account, Some(Amount::tgrid(5).expect("little"))).expect("gives");
    let status = client.status().expect("answers");
    let domain = Domain { chain: status.chain.0, genesis: status.genesis.0 };
    let plan = TxPlan {
        lane: Lane::FIRST,
        nonce: Nonce::ZERO,
        height: status.height.0,
        idempotency: None,
        action: Action::Object { job: id },
    };
    let tx = plan.sign(key, &domain, &Params::local()).expect("can be paid");
    let mut told = client.submit(&[tx], Wait::Final).expect("answers");
    let last = told.results.pop().expect("one");
    assert!(matches!(last, Submitted::Final { .. }), "{last:?}");
}

/// Goal: who vouched for a result defends it in the place of a provider that is gone, even if it
/// died meanwhile and comes back when the provider's time is over; and does so once. Method: three
/// machines; the provider and the checker are killed while somebody objects for no reason.
#[test]
#[ignore = "slow: waits for two dates of a dispute, some thirty seconds"]
fn stand_in_that_was_killed_defends_the_result_slow() {
    let _turn = turn();
    let network = Network::start();
    let mut client = Client::new(&network.up.rpc()).expect("an address");
    let mut machines: Vec<Machine> = (0..3).map(|_| Machine::join(&network)).collect();
    wait_until("all nodes have shown their capacity", PATIENCE, || {
        let listed = network.home.run(&["--json", "nodes"]).expect(0).json();
        let nodes = listed["nodes"].as_array().cloned().unwrap_or_default();
        let is_proved = |it: &Value| !it["node"]["devices"][0]["proved"].is_null();
        nodes.len() == 3 && nodes.iter().all(is_proved)
    });
    let (program, input) = (network.home.path("digits.tgp"), network.home.path("one.npy"));
    let model = fixture("digits/digits.onnx");
    network.home.run(&["model", "import", &model, "-o", text(&program)]).expect(0);
    write_floats(&input, &[1, 1, 28, 28], &crate::jobs::one_digit());
    let run = ["--json", "run", text(&program), "-i", text(&input), "--verify", "sync"];
    let run = [&run[..], &["--run-max", "20s", "--detach"]].concat();
    let mut tries = (0..TRIES).filter_map(|_| caught(&network, &mut client, &machines, &run));
    let (id, stopped, sealed) = tries.next().expect("one of the jobs is caught");
    let provider = (0..3).find(|place| ![stopped, sealed].contains(place)).expect("three");

    object(&mut client, &SecretKey::from_seed([77; 32]), id);
    machines[provider].process.kill();
    machines[sealed].process.kill();
    wait_until("the provider's time is over", PATIENCE, || {
        count(&mut client, id, "defence_passed", None) == 1
    });
    let again = network.provider(&machines[sealed].home, &[]);
    assert_eq!(again.ready["node"], machines[sealed].node.as_str(), "the same node");
    let node = machines[sealed].node.clone();
    wait_until("it answers for the provider", PATIENCE, || {
        count(&mut client, id, "dispute_answered", Some(&node)) == 1
    });
    wait_until("who objected for no reason has lost", PATIENCE, || {
        count(&mut client, id, "objection_dropped", None) == 1
    });
    assert_eq!(count(&mut client, id, "dispute_answered", None), 1, "once is enough");
    assert_eq!(count(&mut client, id, "node_slashed", None), 0, "nobody has lied");
    machines[stopped].signal("CONT");
    network.wait_settled(&id.to_string(), PATIENCE);
    assert_eq!(count(&mut client, id, "check_passed", Some(&node)), 1, "its answer was not lost");
    network.stop();
}
