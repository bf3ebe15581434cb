//! Results that are proven: on a network with a provider that lies about them, and without one.

use crate::{
    jobs::one_digit,
    model::{fixture, write_floats},
    support::{Home, text, turn},
};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
};

/// The digits program and a picture for it, in the home.
fn digits(home: &Home) -> (PathBuf, PathBuf) {
    let (program, input) = (home.path("digits.tgp"), home.path("one.npy"));
    home.run(&["model", "import", &fixture("digits/digits.onnx"), "-o", text(&program)]).expect(0);
    write_floats(&input, &[1, 1, 28, 28], &one_digit());
    (program, input)
}

/// What is at an address of a node.
fn get(rpc: &str, path: &str) -> Vec<u8> {
    let host = rpc.strip_prefix("http://").expect("an address").trim_end_matches('/');
    let mut stream = TcpStream::connect(host).expect("answers");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sends");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("reads");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..end]));
    answer.split_off(end + 4)
}

/// Goal: a result is proven by its provider, verified by all validators and paid in one block; a
/// provider that lies loses its bond, and the job is done by another. Method: `up --cheat=proofs`,
/// whose cheapest provider lies about such jobs only; the digits model.
#[test]
fn result_is_proven_and_a_liar_loses_its_bond() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0", "--cheat=proofs"]);
    let (program, input) = digits(&home);
    let (here, there) = (home.path("here.npy"), home.path("there.npy"));
    let local = ["model", "run", text(&program), "--input", text(&input), "-o", text(&here)];
    home.run(&local).expect(0);
    let run = ["--json", "run", text(&program), "-i", text(&input), "-o", text(&there)];
    let proven = [&run[..], &["--verify", "proof"]].concat();
    let sealed = home.run(&proven).expect(2);
    for way in ["--public data", "--verify zk"] {
        assert!(sealed.err.contains(way), "{sealed:?}");
    }
    let quote = ["--json", "quote", text(&program), "--verify", "proof", "--public", "data"];
    let quoted = home.run(&quote).expect(0).json();
    assert!(quoted["readers"].as_str().is_some_and(|it| it.starts_with("anybody")), "{quoted}");

    let ran = home.run(&[&proven[..], &["--public", "data"]].concat()).expect(0);
    let told = ran.json();
    assert_eq!(told["status"], "settled");
    assert_eq!(fs::read(&here).expect("written"), fs::read(&there).expect("written"));
    for line in ["anybody can read", "shown to be wrong", "Slashed", "verified its proof"] {
        assert!(ran.err.contains(line), "{line}: {}", ran.err);
    }
    let job = told["job"].as_str().expect("an id");
    let shown = home.run(&["--json", "show", job]).expect(0).json();
    assert_eq!(
        (&shown["tier"], shown["runs"].as_array().map(Vec::len)),
        (&"proof".into(), Some(2))
    );

    let file = home.path("job.proof");
    let mut bytes = get(&up.rpc(), &format!("/v1/jobs/{job}/proof"));
    fs::write(&file, &bytes).expect("writes");
    let verified = home.run(&["verify", text(&file), "--explain"]).expect(0);
    for part in [job, "first sum-check: 2^-", "opening of weights: 2^-"] {
        assert!(verified.out.contains(part), "{part}: {}", verified.out);
    }
    let last = bytes.len() - 100;
    bytes[last] ^= 1;
    fs::write(&file, &bytes).expect("writes");
    home.run(&["verify", text(&file)]).expect(1);
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// Goal: a result of sealed data is proven without showing it, verified by all validators and paid
/// in one block; a provider that lies loses its bond, and the job is done by another, about a
/// commitment of its own. Method: as above, with a job file that says `verify: zk`.
#[test]
fn result_of_sealed_data_is_proven_and_a_liar_loses_its_bond() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0", "--cheat=proofs"]);
    let (program, input) = digits(&home);
    let (here, there, again) = (home.path("here.npy"), home.path("there.npy"), home.path("2.npy"));
    let local = ["model", "run", text(&program), "--input", text(&input), "-o", text(&here)];
    home.run(&local).expect(0);
    let job = home.path("job.tg.yaml");
    let stated = "program: ./digits.tgp\ninputs: {image: ./one.npy}\n\
                  outputs: {logits: ./there.npy}\nverify: zk\n";
    fs::write(&job, stated).expect("writes");
    let quoted = home.run(&["--json", "quote", text(&job)]).expect(0).json();
    let says = |key: &str, word: &str| quoted[key].as_str().is_some_and(|it| it.contains(word));
    assert!(says("readers", "provider") && says("proof", "weights are not hidden"), "{quoted}");

    let ran = home.run(&["--json", "run", text(&job)]).expect(0);
    let told = ran.json();
    assert_eq!(told["status"], "settled");
    assert_eq!(fs::read(&here).expect("written"), fs::read(&there).expect("written"));
    for line in ["data is sealed", "shown to be wrong", "Slashed", "which shows no data"] {
        assert!(ran.err.contains(line), "{line}: {}", ran.err);
    }
    let job = told["job"].as_str().expect("an id");
    let shown = home.run(&["--json", "show", job]).expect(0).json();
    assert_eq!((&shown["tier"], shown["runs"].as_array().map(Vec::len)), (&"zk".into(), Some(2)));
    home.run(&["cp", job, text(&again), "--program", text(&program)]).expect(0);
    assert_eq!(fs::read(&here).expect("written"), fs::read(&again).expect("written"));
    let resumed = home.run(&["resume", job]).expect(1);
    assert!(resumed.err.contains("for that job only"), "{resumed:?}");

    let file = home.path("job.proof");
    let mut bytes = get(&up.rpc(), &format!("/v1/jobs/{job}/proof"));
    fs::write(&file, &bytes).expect("writes");
    let verified = home.run(&["verify", text(&file), "--explain"]).expect(0);
    for part in [job, "about run 1 of the job", "opening of the inputs: 2^-"] {
        assert!(verified.out.contains(part), "{part}: {}", verified.out);
    }
    let last = bytes.len() - 100;
    bytes[last] ^= 1;
    fs::write(&file, &bytes).expect("writes");
    home.run(&["verify", text(&file)]).expect(1);
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// Goal: a small model with public weights is run by every validator instead, and the job says so.
#[test]
fn small_model_with_public_weights_is_run_by_every_validator() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0"]);
    let (program, input) = digits(&home);
    let run = ["--json", "run", text(&program), "-i", text(&input), "--verify", "proof"];
    let ran = home.run(&[&run[..], &["--public", "all"]].concat()).expect(0);
    for line in ["inputs, outputs and weights", "every validator ran the program itself"] {
        assert!(ran.err.contains(line), "{line}: {}", ran.err);
    }
    let told = ran.json();
    let shown = home.run(&["--json", "show", told["job"].as_str().expect("an id")]).expect(0);
    assert_eq!(shown.json()["tier"], "rerun");
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// Goal: a run is proven and verified without a network; a changed proof is bad.
#[test]
fn run_is_proven_and_verified_without_a_network() {
    let home = Home::new();
    let (program, input) = digits(&home);
    let file = home.path("run.proof");
    let prove = ["--json", "prove", text(&program), "-i", text(&input), "-o", text(&file)];
    let told = home.run(&prove).expect(0).json();
    assert!(told["proof_bytes"].as_u64().is_some_and(|bytes| bytes < 500_000), "{told}");
    assert!(told["security_bits"].as_f64().is_some_and(|bits| bits >= 100.0), "{told}");
    let good = home.run(&["--json", "verify", text(&file), "--explain"]).expect(0).json();
    assert_eq!(good["verdict"], "good");
    let mut bytes = fs::read(&file).expect("written");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, &bytes).expect("writes");
    let bad = home.run(&["--json", "verify", text(&file)]).expect(1).json();
    assert_eq!(bad["verdict"], "bad");
}

/// Goal: weights that are a secret come to be trusted and are used: committed to here, registered
/// with the network, and runs with them proven and paid; all that would show them or that is not
/// counted is refused with a hint, and nobody else can have jobs with them. Method: `up` and the
/// digits model with so few proofs that they run out; then another account with the same key.
#[test]
fn secret_weights_are_registered_used_and_counted() {
    let _turn = turn();
    let home = Home::new();
    let up = home.start("up", &["--json", "up", "--port", "0"]);
    let (program, input) = digits(&home);
    let (here, there) = (home.path("here.npy"), home.path("there.npy"));
    let local = ["model", "run", text(&program), "--input", text(&input), "-o", text(&here)];
    home.run(&local).expect(0);
    let run = ["--json", "run", text(&program), "-i", text(&input), "-o", text(&there)];
    let secret = [&run[..], &["--verify", "zk", "--secret-weights"]].concat();
    let hidden_by = [&run[..], &["--secret-weights"]].concat();
    assert!(home.run(&hidden_by).expect(2).err.contains("tier zk"));
    assert!(home.run(&secret).expect(1).err.contains("model commit"));
    let commit = ["--json", "model", "commit", text(&program), "--proofs", "7"];
    let committed = home.run(&commit).expect(0).json();
    assert!(home.run(&commit).expect(1).err.contains("--again"));
    let key = PathBuf::from(committed["key"].as_str().expect("a path"));
    let mode = fs::metadata(&key).expect("written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else reads it");
    assert!(home.run(&secret).expect(1).err.contains("model register"));

    let register = ["--json", "model", "register", text(&program)];
    let registered = home.run(&register).expect(0).json();
    assert_eq!(registered["weights"], committed["weights"]);
    assert_eq!((registered["proofs"].as_u64(), registered["left"].as_u64()), (Some(7), Some(6)));
    let again = home.run(&register).expect(0).json();
    assert_eq!(again["was_registered"], true);
    let offline = ["prove", text(&program), "-i", text(&input), "--hide", "all"];
    assert!(home.run(&offline).expect(1).err.contains("which counts its proofs"));

    let quote = ["--json", "quote", text(&program), "--verify", "zk", "--secret-weights"];
    let quoted = home.run(&quote).expect(0).json();
    let says = |key: &str, word: &str| quoted[key].as_str().is_some_and(|it| it.contains(word));
    assert!(says("weights", "6 of 7 proofs") && says("proof", "outputs or weights"), "{quoted}");

    let ran = home.run(&secret).expect(0);
    let told = ran.json();
    assert_eq!(told["status"], "settled");
    assert_eq!(fs::read(&here).expect("written"), fs::read(&there).expect("written"));
    assert!(ran.err.contains("neither data nor the registered weights"), "{}", ran.err);
    let job = told["job"].as_str().expect("an id");
    let shown = home.run(&["--json", "show", job]).expect(0).json();
    assert_eq!((&shown["tier"], &shown["secret_weights"]), (&"zk".into(), &committed["weights"]));
    let file = home.path("job.proof");
    fs::write(&file, get(&up.rpc(), &format!("/v1/jobs/{job}/proof"))).expect("writes");
    let verified = home.run(&["verify", text(&file), "--explain"]).expect(0);
    for part in [job, "Its weights are secret", "Hidden: inputs, outputs and weights"] {
        assert!(verified.out.contains(part), "{part}: {}", verified.out);
    }

    // One proof was used: the next job finds five, the one after it four and is not taken.
    home.run(&secret).expect(0);
    let spent = home.run(&secret).expect(1);
    assert!(spent.err.contains("4 proofs") && spent.err.contains("--again"), "{}", spent.err);
    // Another account on this machine has the key of the weights, and cannot use it.
    let keys = key.parent().expect("a folder");
    for entry in fs::read_dir(keys).expect("reads") {
        let path = entry.expect("reads").path();
        if path.to_string_lossy().ends_with(".client.key") {
            fs::remove_file(path).expect("removes");
        }
    }
    let stranger = home.run(&secret).expect(1);
    assert!(stranger.err.contains("were registered by"), "{}", stranger.err);
    assert!(home.run(&register).expect(1).err.contains("serves account"));
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// Goal: a run is proven without a network and without showing data or weights; the registration
/// says that the weights fit, and proofs are counted.
#[test]
fn run_is_proven_without_showing_anything_and_counted() {
    let home = Home::new();
    let (program, input) = digits(&home);
    let (file, registration) = (home.path("run.proof"), home.path("weights.tgw"));
    let prove = ["--json", "prove", text(&program), "-i", text(&input), "-o", text(&file)];
    let hidden = home.run(&[&prove[..], &["--hide", "data"]].concat()).expect(0).json();
    assert!(hidden["security_bits"].as_f64().is_some_and(|bits| bits >= 100.0), "{hidden}");
    let verify = ["verify", text(&file), "--explain"];
    assert!(home.run(&verify).expect(0).out.contains("Nothing is read in the clear"));
    let all = [&prove[..], &["--hide", "all"]].concat();
    assert!(home.run(&all).expect(1).err.contains("model commit"));
    let commit = ["--json", "model", "commit", text(&program), "--proofs", "2"];
    let committed = home.run(&commit).expect(0).json();
    let write = ["model", "register", text(&program), "-o", text(&registration)];
    home.run(&write).expect(0);
    let judged = home.run(&["--json", "verify", text(&registration), "--explain"]).expect(0);
    let weights = committed["weights"].as_str().expect("an id");
    assert!(judged.out.contains("good") && judged.out.contains(weights), "{judged:?}");
    let proven = home.run(&all).expect(0).json();
    assert_eq!((&proven["weights"], proven["proofs_left"].as_u64()), (&weights.into(), Some(0)));
    let judged = home.run(&verify).expect(0);
    assert!(judged.out.contains("Their registration shows it"), "{}", judged.out);
    assert!(home.run(&all).expect(1).err.contains("--again"), "all were made");
    home.run(&write).expect(0);
    let mut bytes = fs::read(&registration).expect("written");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&registration, &bytes).expect("writes");
    home.run(&["verify", text(&registration)]).expect(1);
}
