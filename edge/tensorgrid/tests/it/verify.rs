//! `verify`: good, bad, cannot tell.

use crate::support::{Home, text, turn, turn_alone};
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
};

/// Flipped bytes per document in the ordinary run; the slow one flips every byte.
const FLIPS: usize = 40;

struct Saved {
    home: Home,
    network: PathBuf,
    documents: Vec<PathBuf>,
}

/// Saves a certificate, a balance proof, a proof of absence and a receipt, and stops the network.
fn save() -> Saved {
    let home = Home::new();
    let data = home.path("net");
    let up = home.start("up", &["--json", "up", "--data", text(&data), "--port", "0"]);
    let made = home.run(&["--json", "wallet", "new"]).expect(0).json();
    let account = made["account"].as_str().expect("an account").to_owned();
    let names = ["certificate.json", "absence.json", "proof.json", "receipt.json"];
    let documents: Vec<PathBuf> = names.iter().map(|name| home.path(name)).collect();
    let [certificate, absence, proof, receipt] = &documents[..] else { panic!("four") };
    home.run(&["certificate", "-o", text(certificate)]).expect(0);
    home.run(&["proof", &account, "-o", text(absence)]).expect(0);
    home.run(&["wallet", "faucet"]).expect(0);
    home.run(&["proof", &account, "-o", text(proof)]).expect(0);
    let tx = up.ready["job"]["job"].as_str().expect("an id");
    home.run(&["receipt", tx, "-o", text(receipt)]).expect(0);
    assert_eq!(up.stop("INT").0.code(), Some(0));
    Saved { network: data.join("network.json"), home, documents }
}

impl Saved {
    fn verify(&self, document: &Path) -> Option<i32> {
        self.home.run(&["verify", text(document), "--network", text(&self.network)]).code
    }

    /// Flips bytes of a document, `step` apart, and wants each to be noticed. One core flips with
    /// one mask, another with the other.
    fn flip(&self, document: &Path, step: usize) {
        let bytes = fs::read(document).expect("is there");
        thread::scope(|scope| {
            for mask in [0x01, 0x20] {
                let bytes = &bytes;
                scope.spawn(move || {
                    let flipped = self.home.path(&format!("flipped-{mask}.json"));
                    for place in (0..bytes.len()).step_by(step.max(1)) {
                        let mut changed = bytes.clone();
                        changed[place] ^= mask;
                        fs::write(&flipped, &changed).expect("writes");
                        let code = self.verify(&flipped);
                        let name = document.display();
                        assert_eq!(code, Some(1), "byte {place} of {name} xor {mask:#x}");
                    }
                });
            }
        });
    }
}

#[test]
fn verify_tells_good_from_bad_and_from_what_it_cannot_tell() {
    let _turn = turn();
    let saved = save();
    for document in &saved.documents {
        assert_eq!(saved.verify(document), Some(0), "{}", document.display());
        let alone = saved.home.run(&["verify", text(document)]);
        assert!(alone.expect(3).err.contains("--network FILE"));
        let length = fs::metadata(document).expect("is there").len();
        saved.flip(document, usize::try_from(length).expect("small") / FLIPS + 1);
        let mut cut = fs::read(document).expect("is there");
        cut.truncate(cut.len() / 2);
        fs::write(saved.home.path("cut.json"), cut).expect("writes");
        assert_eq!(saved.verify(&saved.home.path("cut.json")), Some(1));
    }
    let strange = saved.home.path("strange");
    fs::write(&strange, b"something else").expect("writes");
    assert_eq!(saved.verify(&strange), Some(3));
    assert_eq!(saved.verify(&saved.home.path("nowhere")), Some(3));
    let explained = ["--json", "verify", text(&saved.documents[3]), "--network"];
    let explained = [&explained[..], &[text(&saved.network), "--explain"]].concat();
    let report = saved.home.run(&explained).expect(0).json();
    assert_eq!((&report["verdict"], &report["kind"]), (&"good".into(), &"receipt".into()));
    assert!(report["explanation"].as_array().is_some_and(|lines| !lines.is_empty()));
}

#[test]
fn verify_against_another_network_is_bad() {
    let _turn = turn();
    let saved = save();
    let other = saved.home.path("other");
    saved.home.run(&["genesis", "--out", text(&other)]).expect(0);
    for document in &saved.documents {
        let network = other.join("network.json");
        saved.home.run(&["verify", text(document), "--network", text(&network)]).expect(1);
    }
}

#[test]
#[ignore = "slow: starts the program thousands of times"]
fn verify_notices_every_flipped_byte_slow() {
    let _turn = turn_alone();
    let saved = save();
    for document in &saved.documents {
        saved.flip(document, 1);
    }
}
