//! Machines that offer their services: they join with a ticket, work, die and leave.

use crate::support::{Home, PATIENCE, Process, text, turn, turn_alone, wait_until};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::Value;
use std::{fs, path::PathBuf, time::Duration};

/// A network without providers, and the way into it.
pub(crate) struct Network {
    pub(crate) home: Home,
    pub(crate) up: Process,
    ticket: String,
}

impl Network {
    pub(crate) fn start() -> Self {
        let home = Home::new();
        let up = home.start("up", &["--json", "up", "--port", "0", "--no-demo"]);
        let ticket = up.ready["ticket"].as_str().expect("a ticket").to_owned();
        Self { home, up, ticket }
    }

    /// A node on a machine of its own, as far as files can tell.
    pub(crate) fn provider(&self, home: &Home, more: &[&str]) -> Process {
        let arguments = ["--json", "provide", "--join", &self.ticket];
        home.start("provide", &[&arguments[..], more].concat())
    }

    fn show(&self, job: &str) -> Value {
        self.home.run(&["--json", "show", job]).expect(0).json()
    }

    pub(crate) fn wait_settled(&self, job: &str, span: Duration) {
        wait_until("the job is settled", span, || self.show(job)["status"] == "settled");
    }

    /// Hands a command in and does not wait for it.
    fn detach(&self, command: &str) -> String {
        self.detach_with(&[], command)
    }

    fn detach_with(&self, options: &[&str], command: &str) -> String {
        let run = ["--json", "run", "--run-max", "20s", "--detach"];
        let command = ["--", "sh", "-c", command];
        let ran = self.home.run(&[&run[..], options, &command].concat()).expect(0).json();
        ran["job"].as_str().expect("an id").to_owned()
    }

    /// Waits until the first node has shown its capacity: before, that is what is in the way.
    fn wait_for_credit(&self) {
        wait_until("the node has shown its capacity", PATIENCE, || {
            let listed = self.home.run(&["--json", "nodes"]).expect(0).json();
            !listed["nodes"][0]["node"]["devices"][0]["proved"].is_null()
        });
    }

    pub(crate) fn stop(self) {
        let status = self.home.run(&["--json", "status"]).expect(0).json();
        assert_eq!(status["totals"]["balanced"], true, "all money is accounted for");
        assert_eq!(self.up.stop("INT").0.code(), Some(0));
    }
}

/// Which node a job runs on.
fn node_of(job: &Value) -> Option<&str> {
    let runs = job["runs"].as_array()?;
    runs.iter().find(|run| run["state"] == "placed")?["node"].as_str()
}

/// Goal: on a network without room the better offer is served first although it came later, and
/// both are told when their turn comes. Method: one slot, taken; then two jobs of different offers.
#[test]
fn better_offer_is_served_first_when_there_is_no_room() {
    let _turn = turn();
    let network = Network::start();
    let there = Home::new();
    let provider = network.provider(&there, &["--slots", "1"]);
    network.wait_for_credit();
    let price = |options: &[&str]| {
        let run = ["--json", "quote", "--run-max", "20s"];
        let quoted = network.home.run(&[&run[..], options, &["--", "true"]].concat());
        quoted.expect(0).json()
    };
    let (usual, urgent) = (price(&[]), price(&["--priority", "2"]));
    let amount = |quoted: &Value| quoted["run"].as_str().and_then(|run| run.parse::<f64>().ok());
    assert_eq!(amount(&urgent), amount(&usual).map(|usual| 4.0 * usual));
    let ahead = |quoted: &Value| quoted["goes_before_ms"].as_u64();
    assert_eq!((ahead(&usual), ahead(&urgent)), (Some(0), Some(20 * 60 * 1_000)));
    let bid = price(&["--bid", urgent["run"].as_str().expect("an amount")]);
    assert_eq!(bid, urgent, "another way to say the same");

    let busy = network.detach("sleep 5");
    wait_until("the slot is taken", PATIENCE, || network.show(&busy)["status"] == "running");
    let usual = network.detach("true");
    let urgent = network.detach_with(&["--priority", "2"], "sleep 3");
    let before = |job: &str| network.show(job)["jobs_before"].as_u64();
    assert_eq!((before(&usual), before(&urgent)), (Some(1), Some(0)));
    let why = network.home.run(&["why", &usual]).expect(0);
    assert!(why.out.contains("In the queue: 1 waiting job goes before it."), "{why:?}");
    wait_until("the urgent one runs", PATIENCE, || network.show(&urgent)["status"] != "queued");
    assert_eq!(network.show(&usual)["status"], "queued");
    for job in [&busy, &urgent, &usual] {
        network.wait_settled(job, PATIENCE);
    }
    assert_eq!(provider.stop("INT").0.code(), Some(0));
    network.stop();
}

/// Goal: a machine joins with nothing but a ticket, runs a command of somebody who has nothing but
/// the ticket either, and leaves. Method: homes of their own stand for machines.
#[test]
fn machine_joins_with_a_ticket_runs_a_command_and_leaves() {
    let _turn = turn();
    let network = Network::start();
    let (there, client) = (Home::new(), Home::new());
    let power = ["--power-cost", "0.30/kWh", "--watts", "100"];
    let provider = network.provider(&there, &[&["--region", "attic"], &power[..]].concat());
    let node = provider.ready["node"].as_str().expect("an id").to_owned();
    let listed = network.home.run(&["--json", "nodes"]).expect(0).json();
    let first = &listed["nodes"][0];
    assert_eq!((&first["node"]["region"], &first["id"]), (&"attic".into(), &node.into()));

    let words = client.path("words.txt");
    fs::write(&words, "one two three").expect("writes");
    let input = format!("words={}", text(&words));
    let out = client.path("out");
    let command = "sleep 1; wc -w < /in/words | tr -d ' ' | tee /out/count; echo done >&2";
    let run = ["--json", "run", "--join", &network.ticket, "-i", &input, "-o", text(&out), "--"];
    let ran = client.run(&[&run[..], &["sh", "-c", command]].concat()).expect(0).json();
    assert_eq!((&ran["status"], &ran["ended"]), (&"settled".into(), &"exited 0".into()));
    assert_eq!((&ran["stdout"], &ran["stderr"]), (&"3\n".into(), &"done\n".into()));
    assert_eq!(fs::read_to_string(out.join("count")).expect("written"), "3\n");
    assert!(ran["enforced"].as_array().is_some_and(|lines| !lines.is_empty()), "{ran}");

    let job = ran["job"].as_str().expect("an id");
    let join = ["--join", network.ticket.as_str()];
    let logs = client.run(&[&["logs", job][..], &join].concat()).expect(0);
    assert_eq!(logs.out, "3\ndone\n", "{logs:?}");
    let again = client.path("again");
    client.run(&[&["cp", job, text(&again)][..], &join].concat()).expect(0);
    assert_eq!(fs::read_to_string(again.join("count")).expect("written"), "3\n");
    let strangers = network.home.run(&["cp", job, text(&again)]).expect(1);
    assert!(strangers.err.contains("the result cannot be had"), "{strangers:?}");

    assert_eq!(provider.stop("INT").0.code(), Some(0));
    let listed = network.home.run(&["--json", "nodes"]).expect(0).json();
    assert_eq!(listed["nodes"].as_array().map(Vec::len), Some(0), "{listed}");
    let earnings = ["--json", "earnings", "--tgrid-worth", "2", "--join", &network.ticket];
    let earned = there.run(&earnings).expect(0).json();
    assert_ne!((&earned["earned"], &earned["lost"]), (&"0".into(), &"0".into()), "{earned}");
    assert_eq!((&earned["lost"], &earned["registered"]), (&"0".into(), &false.into()), "{earned}");
    let known = ["energy", "power_cost", "net"].map(|what| earned[what].is_string());
    assert_eq!(known, [true; 3], "{earned}");
    network.stop();
}

/// Goal: a command that fails, says too much or asks for what is not allowed is told so, and the
/// node goes on.
#[test]
fn command_that_fails_is_told_how() {
    let _turn = turn();
    let network = Network::start();
    let there = Home::new();
    let _provider = network.provider(&there, &[]);
    let run = |command: &str| {
        let run = ["--json", "run", "--run-max", "2s", "--memory", "64MB", "--disk", "16MB", "--"];
        network.home.run(&[&run[..], &["sh", "-c", command]].concat()).expect(1).json()
    };
    assert_eq!(run("exit 7")["ended"], "exited 7");
    assert_eq!(run("sleep 60")["ended"], "out of time");
    assert_eq!(run("head -c 100000000 /dev/zero > /out/much")["ended"], "out of disk");
    let audited = network.home.run(&["run", "--verify", "sync", "--", "true"]).expect(2);
    assert!(audited.err.contains("has no meaning that others could recompute"), "{audited:?}");
    network.stop();
}

/// Goal: a job survives the death of its provider while its client is away, and is paid once.
/// Method: the client hands it in and ends; the node it runs on is killed.
#[test]
fn job_of_a_killed_provider_is_done_elsewhere() {
    let _turn = turn();
    let network = Network::start();
    let homes = [Home::new(), Home::new()];
    let mut providers = homes.each_ref().map(|home| network.provider(home, &[]));
    let job = network.detach("sleep 2; echo done");
    wait_until("the job runs", PATIENCE, || node_of(&network.show(&job)).is_some());
    let shown = network.show(&job);
    let node = node_of(&shown).expect("it runs");
    let on = providers.iter_mut().find(|provider| provider.ready["node"] == node);
    on.expect("one of ours").kill();
    network.wait_settled(&job, PATIENCE);
    let done = network.show(&job);
    let runs = done["runs"].as_array().expect("runs");
    let paid: Vec<&Value> = runs.iter().filter(|run| run["state"] == "revealed").collect();
    assert_eq!(paid.len(), 1, "{done}");
    assert_ne!(paid[0]["node"], node, "{done}");
    let out = network.home.path("out");
    network.home.run(&["cp", &job, text(&out)]).expect(0);
    assert_eq!(network.home.run(&["logs", &job]).expect(0).out, "done\n");
    network.stop();
}

/// Stops a node until the chain says this of the registered nodes, and lets it go on: it must be
/// listed as present again, and get work, without anybody's help.
fn check_that_a_node_comes_back(is_lost: impl Fn(&Value) -> bool) {
    let _turn = turn();
    let network = Network::start();
    let there = Home::new();
    let provider = network.provider(&there, &[]);
    network.wait_for_credit();
    let listed = || network.home.run(&["--json", "nodes"]).expect(0).json()["nodes"].clone();
    provider.signal("STOP");
    let away = wait_until("the node is lost", 2 * PATIENCE, || is_lost(&listed()));
    provider.signal("CONT");
    let back = wait_until("the node is back", PATIENCE, || {
        let nodes = listed();
        !nodes[0].is_null() && nodes[0]["absent"].is_null()
    });
    let job = network.detach("echo done");
    network.wait_settled(&job, PATIENCE);
    eprintln!("lost after {away:.1?}, back after {back:.1?}");
    wait_until("the node says so", PATIENCE, || provider.said().contains("it is back"));
    assert_eq!(provider.stop("INT").0.code(), Some(0));
    network.stop();
}

/// Goal: a machine that stood still for some seconds is not out of work afterwards.
#[test]
fn node_that_was_not_seen_comes_back() {
    check_that_a_node_comes_back(|nodes| !nodes[0]["absent"].is_null());
}

/// Goal: nor is one that stood still for so long that it is not registered any more.
#[test]
#[ignore = "slow: an absent node is dropped after a minute"]
fn node_that_was_dropped_registers_again_slow() {
    check_that_a_node_comes_back(|nodes| nodes[0].is_null());
}

/// Goal: a job that was taken back is done after all, without the files it was made of. Method: it
/// waits in a network without nodes, is stopped, its input is deleted, a node joins.
#[test]
fn stopped_job_is_resumed_without_its_files() {
    let _turn = turn();
    let network = Network::start();
    let given = network.home.path("given");
    fs::write(&given, "kept").expect("writes");
    let there = Home::new();
    let far = network.provider(&there, &["--region", "attic"]);
    let input = format!("given={}", text(&given));
    let run = ["--json", "run", "--detach", "--region", "mars", "-i", &input, "--"];
    let ran = network.home.run(&[&run[..], &["cat", "/in/given"]].concat()).expect(0).json();
    let job = ran["job"].as_str().expect("an id");
    let early = network.home.run(&["resume", job]).expect(1);
    assert!(early.err.contains("goes on by itself"), "{early:?}");
    network.home.run(&["stop", job]).expect(0);
    fs::remove_file(&given).expect("removes");
    let resumed = network.home.run(&["--json", "resume", job]).expect(0).json();
    let again = resumed["job"].as_str().expect("an id");
    assert_ne!(again, job);
    let strangers = Home::new();
    let refused = strangers.run(&["resume", job, "--join", &network.ticket]).expect(1);
    assert!(refused.err.contains("somebody else's"), "{refused:?}");
    // It still asks for a node on Mars, which comes now.
    assert_eq!(far.stop("INT").0.code(), Some(0));
    let _near = network.provider(&there, &["--region", "mars"]);
    network.wait_settled(again, PATIENCE);
    assert_eq!(network.home.run(&["logs", again]).expect(0).out, "kept");
    let done = network.home.run(&["resume", again]).expect(1);
    assert!(done.err.contains("is done"), "{done:?}");
    network.stop();
}

/// Goal: jobs that cannot be placed say which rule is in the way and what would help.
#[test]
fn impossible_jobs_say_why_they_wait() {
    let _turn = turn();
    let network = Network::start();
    let there = Home::new();
    let provider = network.provider(&there, &["--region", "attic"]);
    let node = provider.ready["node"].as_str().expect("an id");
    network.wait_for_credit();
    let impossible = [
        (vec!["--region", "mars"], "region", "accept any region"),
        (vec!["--gpu", "H100"], "kind", "accept"),
        (vec!["--vram", "80GB"], "kind", "accept"),
        (vec!["--memory", "4000GB"], "memory", "of memory at most"),
        (vec!["--feature", "tensor-cores"], "features", "ask for"),
        (vec!["--cpus", "1000"], "host", "of a machine at most"),
    ];
    for (needs, rule, change) in impossible {
        let run = [&["--json", "run", "--detach"][..], &needs, &["--", "true"]].concat();
        let ran = network.home.run(&run).expect(0).json();
        let job = ran["job"].as_str().expect("an id");
        let why = network.home.run(&["--json", "why", job]).expect(0).json();
        assert_eq!((&why["fitting"], &why["removed"][0]["rule"]), (&0.into(), &rule.into()));
        let words = why["change"].as_str().unwrap_or_default();
        assert!(words.contains(change), "{needs:?}: {why}");
        assert!(why["eta"]["sentence"].as_str().is_some_and(|it| it.contains("not known yet")));
        let of_node = network.home.run(&["--json", "why", "--node", node]).expect(0).json();
        let first = &of_node["jobs"][0];
        assert_eq!((&first["job"], &first["outcome"]), (&job.into(), &"removed".into()));
        assert_eq!(first["rule"], rule, "the same rules: {of_node}");
        network.home.run(&["stop", job]).expect(0);
    }
    let slip = network.home.run(&["quote", "--gpu", "RTX 4091", "--", "true"]).expect(1);
    assert!(slip.err.contains("RTX-4090") && slip.err.contains("catalogue"), "{slip:?}");
    let quote = ["--json", "quote", "-g", "A100-80GB:1", "--", "true"];
    let quote = network.home.run(&quote).expect(0).json();
    assert_eq!(quote["gpus"], serde_json::json!(["A100-80GB"]), "{quote}");
    network.stop();
}

/// Goal: GPUs and their parts are offered as the driver's library lists them. Method: a library
/// with the C interface of NVML that lists two, one of them cut up.
#[test]
fn gpus_of_a_driver_are_offered_with_their_parts() {
    let _turn = turn();
    let network = Network::start();
    let there = Home::new();
    let library = there.path("libnvidia-ml.so.1");
    fs::copy(built_library(), &library).expect("the library was built");
    let provider = network.provider(&there, &["--nvml-library", text(&library)]);
    let models: Vec<&str> = provider.ready["devices"]
        .as_array()
        .expect("devices")
        .iter()
        .filter_map(|device| device["model"].as_str())
        .collect();
    assert!(models.iter().any(|model| model.contains("RTX 4090")), "{models:?}");
    assert!(models.iter().any(|model| model.contains("MIG")), "{models:?}");
    let nodes = network.home.run(&["nodes"]).expect(0).out;
    assert!(nodes.contains("RTX 4090") && nodes.contains("MIG"), "{nodes}");
    network.stop();
}

/// Goal: a GPU shows its memory by its own kernels, as the processor does beside it, is credited,
/// and computes a job that asks for one, to the same bits. Method: Mesa's driver in software,
/// offered under a name that says so, by a flag.
#[cfg(feature = "wgpu")]
#[test]
fn gpu_in_software_shows_its_memory_and_computes_if_it_is_offered() {
    let _turn = turn();
    let network = Network::start();
    let there = Home::new();
    let provider = network.provider(&there, &["--software-gpus"]);
    let devices = provider.ready["devices"].as_array().expect("devices");
    let model = devices.iter().filter_map(|device| device["model"].as_str()).nth(1);
    assert!(model.is_some_and(|model| model.starts_with("software ")), "{devices:?}");
    let listed = || network.home.run(&["--json", "nodes"]).expect(0).json();
    wait_until("both devices have shown their memory", PATIENCE, || {
        let devices = listed()["nodes"][0]["node"]["devices"].clone();
        (0..2).all(|place| !devices[place]["proved"].is_null())
    });
    let gpu = listed()["nodes"][0]["node"]["devices"][1].clone();
    assert_eq!((&gpu["kind"], &gpu["proved"]["filled_kib"]), (&"gpu".into(), &1_024.into()));
    assert_eq!(gpu["proved"]["memory_mib"], gpu["memory_mib"]);
    let words = network.home.run(&["nodes"]).expect(0).out;
    assert!(words.contains("; gpu proved: 1 MiB in "), "{words}");

    let home = &network.home;
    let (program, input) = (home.path("digits.tgp"), home.path("one.npy"));
    let model = crate::model::fixture("digits/digits.onnx");
    home.run(&["model", "import", &model, "-o", text(&program)]).expect(0);
    crate::model::write_floats(&input, &[1, 1, 28, 28], &crate::jobs::one_digit());
    let (here, there) = (home.path("here.npy"), home.path("there.npy"));
    home.run(&["model", "run", text(&program), "--input", text(&input), "-o", text(&here)])
        .expect(0);
    let run = ["run", text(&program), "-i", text(&input), "-o", text(&there), "--verify", "none"];
    home.run(&[&run[..], &["--gpu", "software"]].concat()).expect(0);
    assert_eq!(fs::read(&here).expect("written"), fs::read(&there).expect("written"));

    // A command has the GPU for itself; two of them take turns.
    let both = ["1", "2"].map(|number| {
        network.detach_with(&["--gpu", "software"], &format!("sleep 0.3; echo {number}"))
    });
    for (job, said) in both.iter().zip(["1\n", "2\n"]) {
        network.wait_settled(job, PATIENCE);
        assert_eq!(home.run(&["logs", job]).expect(0).out, said);
    }
    network.stop();
}

/// The library beside the program under test.
fn built_library() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_tensorgrid"));
    program.parent().expect("a folder").join("deps").join(tg_nvml_test::LIBRARY_FILE)
}

/// Goal: whatever dies, every job ends, no money is lost and no node loses its stake. Method: 100
/// jobs, one of three nodes killed and at once started again after every fifth, seed 1.
#[test]
#[ignore = "slow: a hundred jobs with nodes dying all the time"]
fn jobs_of_dying_providers_all_end_slow() {
    const JOBS: usize = 100;
    let _turn = turn_alone();
    let network = Network::start();
    let homes = [Home::new(), Home::new(), Home::new()];
    let mut providers = homes.each_ref().map(|home| network.provider(home, &[]));
    let mut chance = StdRng::seed_from_u64(1);
    let mut kills = 0;
    let mut kill = |providers: &mut [Process; 3]| {
        let place = chance.random_range(0..providers.len());
        providers[place].kill();
        providers[place] = network.provider(&homes[place], &[]);
        kills += 1;
    };
    let jobs: Vec<String> = (0..JOBS)
        .map(|number| {
            if number % 5 == 4 {
                kill(&mut providers);
            }
            network.detach(&format!("sleep 0.5; echo {number}"))
        })
        .collect();
    for (number, job) in jobs.iter().enumerate() {
        network.wait_settled(job, PATIENCE);
        assert_eq!(network.home.run(&["logs", job]).expect(0).out, format!("{number}\n"));
        let shown = network.show(job);
        let paid = shown["runs"].as_array().expect("runs").iter();
        assert_eq!(paid.filter(|run| run["state"] == "revealed").count(), 1, "{shown}");
    }
    assert_eq!(kills, JOBS / 5);
    for home in &homes {
        let earned = home.run(&["--json", "earnings", "--join", &network.ticket]).expect(0).json();
        assert_eq!((&earned["stake"], &earned["lost"]), (&"100".into(), &"0".into()), "{earned}");
    }
    network.stop();
}
