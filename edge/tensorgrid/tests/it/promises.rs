//! Promised deadlines, as a client sees them: quoted, kept, or refused with the earliest.

use crate::support::{Home, turn};

/// Goal: a deadline that can be met is promised and kept; one that cannot is refused before
/// anything is spent, with one that is promised to whoever asks again. Method: commands with
/// limits of 10 s, for which a slot is 35 s long on a local network.
#[test]
fn deadline_is_promised_and_kept_or_refused_with_the_earliest() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0"]);
    let with = |verb: &str, more: &[&str]| {
        let first = ["--json", verb, "--run-max", "10s", "--promise"];
        home.run(&[&first[..], more, &["--", "echo", "done"]].concat())
    };
    let quoted = with("quote", &["--within", "2m"]).expect(0).json();
    assert_eq!(quoted["promise"]["would_be_given"], true, "{quoted}");
    assert_eq!(quoted["promise"]["nodes"], quoted["nodes"], "all of them are free: {quoted}");
    let ran = with("run", &["--within", "2m"]).expect(0);
    assert!(ran.err.contains("Promised by 2"), "{ran:?}");
    let told = ran.json();
    assert_eq!(told["promise"]["state"], "kept", "{told}");
    let job = told["job"].as_str().expect("an id").to_owned();
    let shown = home.run(&["--json", "show", &job]).expect(0).json();
    assert_eq!(shown["promise"]["state"], "kept", "{shown}");
    assert_eq!(shown["promise"]["by"], shown["expires"], "{shown}");

    let quoted = with("quote", &["--within", "20s"]).expect(0).json();
    assert_eq!(quoted["promise"]["would_be_given"], false, "{quoted}");
    assert!(quoted["promise"]["earliest"].is_number(), "{quoted}");
    let refused = with("run", &["--within", "20s"]).expect(1);
    let told = refused.json();
    assert_eq!(told["status"], "failed", "{refused:?}");
    let (_, after) = refused.err.split_once("The earliest that would be is ").expect("is named");
    let (earliest, _) = after.split_once(".\n").expect("a sentence");
    let job = told["job"].as_str().expect("an id");
    let shown = home.run(&["--json", "show", job]).expect(0).json();
    let promise = &shown["promise"];
    assert_eq!(
        (&promise["state"], &promise["why"]),
        (&"refused".into(), &"promise_too_short".into())
    );
    assert_eq!(shown["escrow_units"], "0", "{shown}");
    let why = home.run(&["why", job]).expect(0);
    assert!(why.out.contains("Not promised by ") && why.out.contains(earliest), "{why:?}");
    let again = with("run", &["--deadline", earliest]).expect(0);
    assert_eq!(again.json()["status"], "settled", "{again:?}");

    // What a command holds of its machine is promised with its slot.
    let quoted = with("quote", &["--within", "2m", "--cpus", "0.25"]).expect(0).json();
    assert_eq!(quoted["promise"]["would_be_given"], true, "{quoted}");
    let held = with("run", &["--within", "2m", "--cpus", "0.25"]).expect(0).json();
    assert_eq!(held["promise"]["state"], "kept", "{held}");
    let none = with("run", &["--within", "2m", "--gpus", "2"]).expect(1);
    assert!(none.err.contains("Not promised by "), "there is no GPU: {none:?}");

    let listed = home.run(&["ps"]).expect(0);
    assert!(listed.out.contains("kept by 2") && listed.out.contains("refused by 2"), "{listed:?}");
    let endless = home.run(&["run", "--promise", "--", "true"]).expect(2);
    assert!(endless.err.contains("there is no deadline"), "{endless:?}");
    let unsure = with("run", &["--within", "2m", "--verify", "redundant:2"]).expect(2);
    assert!(unsure.err.contains("cannot be promised"), "{unsure:?}");
    assert_eq!(up.stop("INT").0.code(), Some(0));
}
