//! Commands that end before they are finished: their client stops them, or their machine closes.

use crate::{
    checkpoints::{UNTIL, count, credited, is_saved, left, show},
    provide::Network,
    support::{Home, PATIENCE, turn, wait_until},
};
use serde_json::Value;
use std::time::{Duration, Instant};

/// An amount of a job's money.
fn amount(value: &Value) -> f64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{value}"))
}

/// Goal: a command that runs is stopped, its node is paid for a part, and it goes on later where it
/// was saved. Method: the counter of the examples, saved when it is stopped, and handed in again.
#[test]
fn running_command_is_stopped_paid_in_part_and_goes_on_later() {
    let _turn = turn();
    let network = Network::start();
    let there = Home::new();
    let provider = network.provider(&there, &["--slots", "1"]);
    wait_until("the node has credit", PATIENCE, || credited(&network) == 1);
    let job = count(&network, &[]);
    wait_until("the job is saved", PATIENCE, || is_saved(&network, &job));
    let begun = Instant::now();
    let stopped = network.home.run(&["--json", "stop", &job]).expect(0).json();
    assert_eq!(stopped["status"], "cancelled", "{stopped}");
    assert!(begun.elapsed() < Duration::from_secs(25), "it took {:?}", begun.elapsed());
    let (paid, pay) = (amount(&stopped["paid"]), amount(&stopped["pay"]));
    assert!(paid > 0.0 && paid < pay, "{paid} of {pay}");
    wait_until("the node says what it earned", PATIENCE, || {
        provider.said().contains("earned") && !provider.said().contains("; 0 TGRID earned")
    });
    let saved = show(&network, &job)["checkpoint"]["ran_ms"].as_u64().expect("saved") / 1_000;
    let again = network.home.run(&["stop", &job]).expect(1);
    assert!(again.err.contains("no longer waiting"), "{again:?}");
    let resumed = network.home.run(&["--json", "resume", &job]).expect(0).json();
    assert_eq!(resumed["goes_on"], true, "{resumed}");
    let next = resumed["job"].as_str().expect("an id").to_owned();
    network.wait_settled(&next, Duration::from_secs(120));
    let (began, ended) = (left(&network, &next, "began_at"), left(&network, &next, "count"));
    assert_eq!(ended, UNTIL);
    assert!(u64::from(began) + 6 >= saved && began > 0, "{began} after {saved} s");
    assert_eq!(provider.stop("INT").0.code(), Some(0));
    network.stop();
}

/// Goal: a machine that is told to stop has its saved command go on elsewhere, loses nothing and
/// leaves soon. Method: two machines; the one that counts gets SIGTERM, as a service would.
#[test]
fn command_of_a_provider_that_closes_goes_on_elsewhere() {
    let _turn = turn();
    let network = Network::start();
    let (here, there) = (Home::new(), Home::new());
    let first = network.provider(&here, &["--slots", "1", "--grace", "60"]);
    wait_until("the first node has credit", PATIENCE, || credited(&network) == 1);
    let job = count(&network, &[]);
    wait_until("the job is saved", PATIENCE, || is_saved(&network, &job));
    let second = network.provider(&there, &["--slots", "1"]);
    wait_until("the second node has credit", PATIENCE, || credited(&network) == 2);
    assert_eq!(show(&network, &job)["status"], "running");
    let begun = Instant::now();
    let errors = here.path("provide.err");
    assert_eq!(first.stop("TERM").0.code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(45), "it left after {:?}", begun.elapsed());
    let said = std::fs::read_to_string(errors).expect("it said something");
    assert!(said.contains("which is saved and goes on elsewhere"), "{said}");
    assert!(said.contains("The node has left the network"), "{said}");
    let moved = show(&network, &job);
    assert!(amount(&moved["checkpoint"]["paid"]) > 0.0, "{moved}");
    let saved = moved["checkpoint"]["ran_ms"].as_u64().expect("saved") / 1_000;
    network.wait_settled(&job, Duration::from_secs(120));
    let (began, ended) = (left(&network, &job, "began_at"), left(&network, &job, "count"));
    assert_eq!(ended, UNTIL);
    assert!(u64::from(began) + 6 >= saved && began > 0, "{began} after {saved} s");
    assert_eq!(second.stop("INT").0.code(), Some(0));
    network.stop();
}
