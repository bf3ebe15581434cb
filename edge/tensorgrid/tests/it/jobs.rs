//! Jobs, as a client sees them: quoted, run elsewhere, checked, charged as quoted.

use crate::{
    model::{fixture, write_floats},
    support::{Home, text, turn},
};
use std::fs;

/// Goal: another process has a program run by the network's providers and gets what it would have
/// computed itself, for the price that was quoted. Method: the digits model on drawn digits.
#[test]
fn job_runs_elsewhere_and_costs_what_was_quoted() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0"]);
    let (program, input) = (home.path("digits.tgp"), home.path("one.npy"));
    let model = fixture("digits/digits.onnx");
    home.run(&["model", "import", &model, "-o", text(&program)]).expect(0);
    write_floats(&input, &[1, 1, 28, 28], &one_digit());
    let quote = ["--json", "quote", text(&program), "--verify", "redundant:2"];
    let quoted = home.run(&quote).expect(0).json();
    let readers = quoted["readers"].as_str().expect("a sentence");
    let expected = "whichever provider is assigned and any 3 of these 4 validators together (";
    assert!(readers.starts_with(expected), "{readers}");
    let (here, there) = (home.path("here.npy"), home.path("there.npy"));
    let local = ["model", "run", text(&program), "--input", text(&input), "-o", text(&here)];
    home.run(&local).expect(0);
    let run = ["run", text(&program), "-i", text(&input), "-o", text(&there), "--json"];
    let ran = home.run(&[&run[..], &["--verify", "redundant:2"]].concat()).expect(0);
    let told = ran.json();
    assert_eq!(told["status"], "settled");
    assert_eq!(fs::read(&here).expect("written"), fs::read(&there).expect("written"));
    let charged = quoted["charged_if_not"].as_str().expect("an amount");
    assert!(ran.err.contains(&format!("Paid: {charged} TGRID")), "{charged}: {ran:?}");

    let jobs = home.run(&["--json", "ps"]).expect(0).json();
    assert_eq!(jobs.as_array().map(Vec::len), Some(2), "the first job and ours");
    let job = told["job"].as_str().expect("an id");
    let shown = home.run(&["--json", "show", job]).expect(0).json();
    assert_eq!(shown["runs"].as_array().map(Vec::len), Some(2));
    let why = home.run(&["--json", "why", job]).expect(0).json();
    assert_eq!((&why["fitting"], &why["removed"][0]["rule"]), (&1.into(), &"excluded".into()));
    let unknown = "00".repeat(32);
    let refused = home.run(&["show", &unknown]).expect(1);
    assert!(refused.err.contains("there is no job"), "{refused:?}");
    let poor = home.run(&[&run[..6], &["--max", "0.000000001"]].concat()).expect(1);
    assert!(poor.err.contains("more than 0.000000001 TGRID"), "{poor:?}");
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// Goal: a command is run with every number, each run is a job of its own, and what they leave is
/// told apart. Method: tasks that write and say their numbers, of which one fails.
#[test]
fn array_runs_a_command_with_every_number() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0"]);
    let out = home.path("out");
    let script = "echo \"I am $TG_TASK\"; echo \"$TG_TASK\" > /out/number; test \"$TG_TASK\" != 2";
    let run = ["--json", "run", "--array", "4", "-o", text(&out), "--", "sh", "-c", script];
    let ran = home.run(&run).expect(1).json();
    assert_eq!((&ran["done"], &ran["failed"]), (&3.into(), &1.into()), "{ran}");
    let tasks = ran["tasks"].as_array().expect("a list");
    for (number, task) in tasks.iter().enumerate() {
        assert_eq!((&task["task"], &task["status"]), (&number.into(), &"settled".into()), "{ran}");
        assert_eq!(task["stdout"], format!("I am {number}\n"));
        let written = fs::read_to_string(out.join(number.to_string()).join("number"));
        assert_eq!(written.expect("written"), format!("{number}\n"));
    }
    let words = home.run(&["run", "--array", "2", "--", "sh", "-c", "echo $TG_TASK"]).expect(0);
    assert_eq!(words.out, "0: 0\n1: 1\n2 tasks are done and paid, 0 failed.\n");
    let model = fixture("digits/digits.onnx");
    let refused = home.run(&["run", &model, "--array", "2"]).expect(2);
    assert!(refused.err.contains("$TG_TASK"), "{refused:?}");
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// Goal: an audit by tiles goes through with nothing but what the provider shows, and is quoted and
/// explained as one. Method: a network on which every result is drawn and every program counts as
/// large.
#[test]
fn audit_by_tiles_recomputes_what_was_drawn() {
    let _turn = turn();
    let home = Home::new();
    let net = home.path("net");
    let genesis = ["genesis", "--out", text(&net), "--audit-percent", "100"];
    home.run(&[&genesis[..], &["--audit-tiles-from", "1000"]].concat()).expect(0);
    let up = home.start("up", &["--json", "up", "--port", "0", "--data", text(&net)]);
    let (program, input) = (home.path("digits.tgp"), home.path("one.npy"));
    let model = fixture("digits/digits.onnx");
    home.run(&["model", "import", &model, "-o", text(&program)]).expect(0);
    write_floats(&input, &[1, 1, 28, 28], &one_digit());
    let quoted = home.run(&["--json", "quote", text(&program), "--verify", "audit"]).expect(0);
    let quoted = quoted.json();
    assert_eq!((&quoted["tiles_drawn"], &quoted["drawn_percent"]), (&8.into(), &100.0.into()));
    assert!(quoted["tiles"].as_u64().is_some_and(|tiles| tiles > 8), "{quoted}");
    let words = home.run(&["quote", text(&program), "--verify", "audit"]).expect(0);
    assert!(words.out.contains("1-(1-x)^8"), "{words:?}");
    let sync = home.run(&["--json", "quote", text(&program), "--verify", "sync"]).expect(0).json();
    assert!(sync["tiles_drawn"].is_null(), "{sync}");
    for _ in 0..3 {
        let run = ["--json", "run", text(&program), "-i", text(&input), "--verify", "audit"];
        let ran = home.run(&run).expect(0);
        let told = ran.json();
        assert_eq!(told["status"], "settled");
        let charged = quoted["charged_if_checked"].as_str().expect("an amount");
        assert!(ran.err.contains(&format!("Paid: {charged} TGRID")), "{charged}: {ran:?}");
        let job = told["job"].as_str().expect("an id");
        let shown = home.run(&["--json", "show", job]).expect(0).json();
        let checks = shown["checks"].as_array().expect("a list");
        assert_eq!((checks.len(), &shown["extent"]), (2, &"tiles".into()), "{shown}");
        assert!(checks.iter().all(|check| check["state"] == "passed"), "{shown}");
    }
    let log = fs::read_to_string(home.path("up.err")).expect("written");
    assert!(!log.contains("the whole run is recomputed"), "{log}");
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// Goal: providers show what they can do and are credited with it; one that opens other blocks of
/// its memory than were drawn gets no work, although it is the cheapest, and loses nothing. Method:
/// `up --cheat=capacity`.
#[test]
fn provider_that_does_not_show_its_capacity_gets_no_work() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0", "--cheat=capacity"]);
    assert_eq!(up.ready["job"]["digit"], up.ready["job"]["drawn"]);
    assert_eq!(up.ready["job"]["slashed"].as_array().map(Vec::len), Some(0), "{}", up.ready);
    let members = home.run(&["--json", "nodes"]).expect(0).json();
    let nodes = members["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 3);
    let (proved, not): (Vec<_>, Vec<_>) =
        nodes.iter().partition(|it| !it["node"]["devices"][0]["proved"].is_null());
    let [liar] = not[..] else { panic!("one has not proved anything: {members}") };
    for node in proved {
        assert_eq!(node["node"]["devices"][0]["proved"]["filled_kib"], 1_024, "{node}");
        let words = node["capacity"].as_str().expect("words");
        assert!(words.starts_with("proved: 1 MiB in "), "{words}");
    }
    assert!(liar["capacity"].as_str().is_some_and(|it| it.starts_with("not proved")), "{liar}");
    let job = up.ready["job"]["job"].as_str().expect("an id");
    let shown = home.run(&["--json", "show", job]).expect(0).json();
    let by = |list: &str| shown[list].as_array().expect("a list").clone();
    let nodes: Vec<_> = by("runs").into_iter().chain(by("checks")).collect();
    assert!(nodes.iter().all(|it| it["node"] != liar["id"]), "{shown}");
    let status = home.run(&["status"]).expect(0);
    assert!(status.out.contains("nodes fill up to 1 MiB of memory to get work"), "{status:?}");
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// Goal: a provider that seals its result so that nobody can open it is convicted by the
/// validators, and who paid gets the money back. Method: `up --cheat=sealed`, whose first job
/// complains by itself, and a job by hand.
#[test]
fn provider_whose_result_does_not_open_pays_for_it() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0", "--cheat=sealed"]);
    let job = &up.ready["job"];
    assert!(job["digit"].is_null(), "{}", up.ready);
    let lost = job["complaint"].as_str().and_then(|lost| lost.parse::<f64>().ok());
    assert!(lost.is_some_and(|lost| lost >= 1.0), "{}", up.ready);

    let unread = home.run(&["run", "--verify", "none", "--", "echo", "hello"]).expect(1);
    let (_, named) = unread.err.split_once("tensorgrid complain ").expect("a hint");
    let id = named.split('`').next().expect("a job").to_owned();
    let judged = home.run(&["--json", "complain", &id]).expect(0).json();
    assert_eq!((&judged["verdict"], &judged["job"]), (&"upheld".into(), &id.as_str().into()));
    let again = home.run(&["complain", &id]).expect(1);
    assert!(again.err.contains("not taken"), "{again:?}");
    let events = home.run(&["show", &id]).expect(0);
    assert!(events.out.contains("settled"), "{events:?}");
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// Goal: a complaint that would cost its bond is refused before it is sent.
#[test]
fn result_that_opens_is_not_complained_about() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0"]);
    let ran = home.run(&["--json", "run", "--verify", "none", "--", "echo", "hello"]).expect(0);
    let ran = ran.json();
    let id = ran["job"].as_str().expect("an id");
    let refused = home.run(&["complain", id]).expect(1);
    assert!(refused.err.contains("opens"), "{refused:?}");
    let theirs = up.ready["job"]["job"].as_str().expect("an id");
    let refused = home.run(&["complain", theirs]).expect(1);
    assert!(refused.err.contains("somebody else's"), "{refused:?}");
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// Goal: a provider that hands in a false result is caught, loses stake, and the job is done by
/// another. Method: `up --cheat`.
#[test]
#[ignore = "slow: waits until the liar has not defended its result"]
fn lying_provider_is_caught_slow() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0", "--cheat"]);
    let job = &up.ready["job"];
    assert_eq!(job["digit"], job["drawn"]);
    assert_eq!(job["slashed"].as_array().map(Vec::len), Some(1), "{}", up.ready);
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// One of the drawn digits, in floats from 0 to 1.
pub(crate) fn one_digit() -> Vec<f32> {
    let images = fs::read(fixture("digits/strokes-images.npy")).expect("is there");
    let pixels = &images[images.len() - 28 * 28..];
    pixels.iter().map(|pixel| f32::from(*pixel) / 255.0).collect()
}
