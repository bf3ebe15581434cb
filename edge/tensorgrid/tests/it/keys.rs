//! Sealed data whose key no validator has a share of: its owner hands it out, or nobody does.

use crate::{
    jobs::one_digit,
    model::{fixture, write_floats},
    support::{Home, PATIENCE, Process, text, turn, wait_until},
};
use std::fs;

/// Goal: a job is run, checked by everybody and paid while its owner hands out the key; it is told
/// who can read the data, and that this needs the owner. Method: the digits model with `sync`.
#[test]
fn job_without_key_escrow_is_checked_and_paid_while_its_owner_is_online() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0"]);
    let (program, input) = (home.path("digits.tgp"), home.path("one.npy"));
    let model = fixture("digits/digits.onnx");
    home.run(&["model", "import", &model, "-o", text(&program)]).expect(0);
    write_floats(&input, &[1, 1, 28, 28], &one_digit());
    let sealed = ["--verify", "sync", "--key-escrow", "none"];
    let quote = [&["--json", "quote", text(&program)], &sealed[..]].concat();
    let readers = home.run(&quote).expect(0).json()["readers"].clone();
    let expected = "whichever provider is assigned and drawn checkers, once the owner, who has to \
                    be online, hands out the key";
    assert_eq!(readers, expected);

    let (here, there) = (home.path("here.npy"), home.path("there.npy"));
    let local = ["model", "run", text(&program), "--input", text(&input), "-o", text(&here)];
    home.run(&local).expect(0);
    let run = ["--json", "run", text(&program), "-i", text(&input), "-o", text(&there)];
    let ran = home.run(&[&run[..], &sealed].concat()).expect(0);
    let told = ran.json();
    assert_eq!(told["status"], "settled");
    assert_eq!(fs::read(&here).expect("written"), fs::read(&there).expect("written"));
    for words in ["it can be read by whichever", "leave it running", "was given the key of job"] {
        assert!(ran.err.contains(words), "{words:?} is not in {ran:?}");
    }
    assert!(!ran.err.contains("validators together"), "{ran:?}");
    let handed = ran.err.lines().filter(|line| line.contains("was given the key")).count();
    let job = told["job"].as_str().expect("an id");
    let shown = home.run(&["--json", "show", job]).expect(0).json();
    assert_eq!(shown["readers"], expected);
    let checkers = shown["checks"].as_array().map_or(0, Vec::len);
    assert!(checkers >= 1 && handed > checkers, "{handed} keys: {shown}");

    let detached = ["run", "--key-escrow", "none", "--detach", "--", "true"];
    let refused = home.run(&detached).expect(2);
    assert!(refused.err.contains("--detach") && refused.err.contains("hint:"), "{refused:?}");
    let escrowed = home.run(&["--json", "run", "--", "true"]).expect(0).json();
    let escrowed = escrowed["job"].as_str().expect("an id");
    let refused = home.run(&["keys", escrowed]).expect(1);
    assert!(refused.err.contains("validators keep the key"), "{refused:?}");
    let refused = home.run(&["keys"]).expect(1);
    assert!(refused.err.contains("no job of yours waits"), "{refused:?}");
    let theirs = up.ready["job"]["job"].as_str().expect("an id");
    let refused = home.run(&["keys", theirs]).expect(1);
    assert!(refused.err.contains("somebody else's"), "{refused:?}");
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// The job that a client has handed in, as it says on stderr.
fn job_of(client: &Process) -> Option<String> {
    let said = client.said();
    let line = said.lines().find_map(|line| line.strip_prefix("Job "))?;
    let is_online = said.contains("leave it running");
    is_online.then(|| line.split(' ').next().unwrap_or_default().to_owned())
}

/// Goal: while the owner is away nobody can run the job, though all validators are there; when it
/// is back, with nothing but its account, the job is done. Method: the job waits for a machine in a
/// cellar; its client is killed before there is one.
#[test]
#[ignore = "slow: a node has to wait for an owner that is away"]
fn job_waits_for_an_owner_that_was_killed_and_came_back_slow() {
    let _turn = turn();
    let (network, attic, cellar, client) = (Home::new(), Home::new(), Home::new(), Home::new());
    let up = network.start("up", &["--json", "up", "--port", "0", "--no-demo"]);
    let ticket = up.ready["ticket"].as_str().expect("a ticket");
    let join = ["--join", ticket];
    let provide =
        |region: &'static str| ["--json", "provide", "--region", region, "--join", ticket];
    let first = attic.start("provide", &provide("attic"));
    let run = ["run", "--region", "cellar", "--key-escrow", "none", "--run-max", "90s"];
    let command = ["--", "echo", "hello"];
    let mut owner = Process::spawn(&client, "run", &[&run[..], &join, &command].concat());
    wait_until("the job is on the chain", PATIENCE, || job_of(&owner).is_some());
    let job = job_of(&owner).expect("an id");
    owner.kill();

    let mut second = cellar.command(&provide("cellar"));
    second.env("TENSORGRID_LOG", "warn");
    let mut second = Process::spawn_command(&cellar, "provide", second);
    second.wait_ready();
    let away = "owner of the data does not hand out its key";
    wait_until("the node says what it waits for", PATIENCE, || second.said().contains(away));
    let shown = client.run(&[&["--json", "show", &job], &join[..]].concat()).expect(0).json();
    assert_eq!(
        (&shown["status"], &shown["runs"][0]["state"]),
        (&"running".into(), &"placed".into())
    );
    let why = client.run(&[&["why", &job], &join[..]].concat()).expect(0);
    assert!(why.out.contains(&format!("tensorgrid keys {job}")), "{why:?}");
    let stranger = network.run(&["keys", &job]).expect(1);
    assert!(stranger.err.contains("somebody else's"), "{stranger:?}");

    let ended = client.run(&[&["--json", "keys"], &join[..]].concat()).expect(0);
    assert_eq!(ended.json(), serde_json::json!({"job": job, "status": "settled"}));
    let node = second.ready["node"].as_str().expect("an id");
    assert!(ended.err.contains(&format!("node {} was given the key", &node[..8])), "{ended:?}");
    let logs = client.run(&[&["logs", &job], &join[..]].concat()).expect(0);
    assert_eq!(logs.out, "hello\n", "{logs:?}");
    for provider in [first, second] {
        assert_eq!(provider.stop("INT").0.code(), Some(0));
    }
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// Goal: an owner that goes away with its result, before a checker has the key, pays for the run,
/// and the record says that its checkers were excused. Method: the client is killed as soon as the
/// provider has the key.
#[test]
#[ignore = "slow: checkers wait for an owner that is gone until their date"]
fn owner_that_withholds_the_key_from_checkers_pays_and_they_are_excused_slow() {
    let _turn = turn();
    let (home, client) = (Home::new(), Home::new());
    let up = home.start("up", &["--json", "up", "--port", "0"]);
    let ticket = up.ready["ticket"].as_str().expect("a ticket");
    let (program, input) = (home.path("digits.tgp"), home.path("one.npy"));
    let model = fixture("digits/digits.onnx");
    home.run(&["model", "import", &model, "-o", text(&program)]).expect(0);
    write_floats(&input, &[1, 1, 28, 28], &one_digit());
    let run = ["run", text(&program), "-i", text(&input), "--join", ticket, "--verify", "sync"];
    let sealed = ["--key-escrow", "none", "--run-max", "5s"];
    let mut owner = Process::spawn(&client, "run", &[&run[..], &sealed].concat());
    wait_until("the provider has the key", PATIENCE, || owner.said().contains("was given the key"));
    owner.kill();
    let job = job_of(&owner).expect("an id");
    let show = || client.run(&["--json", "show", &job, "--join", ticket]).expect(0).json();
    wait_until("the job has ended", PATIENCE, || {
        ["settled", "failed", "expired"].iter().any(|end| show()["status"] == *end)
    });

    let shown = show();
    assert_eq!(shown["status"], "settled", "{shown}");
    let checks = shown["checks"].as_array().cloned().unwrap_or_default();
    assert!(!checks.is_empty() && checks.iter().all(|it| it["state"] == "excused"), "{shown}");
    assert_eq!(shown["checked"], serde_json::json!({"vouched": 0, "excused": checks.len()}));
    assert_eq!(up.stop("INT").0.code(), Some(0));
}
