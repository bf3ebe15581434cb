//! Importers against goldens, and that they drop nothing in silence.

use expect_test::{ExpectFile, expect_file};
use tg_jobfile::{Imported, JobFile, JobFileError, import};

type Importer = fn(&str, &str) -> Result<Imported, JobFileError>;

const SDL: &str = include_str!("../fixtures/llama.sdl.yaml");
const COMPOSE: &str = include_str!("../fixtures/whisper.compose.yaml");
const SLURM: &str = include_str!("../fixtures/resnet.sbatch");

#[track_caller]
fn check(importer: Importer, text: &str, expected: &ExpectFile) {
    let imported = importer(text, "source").expect("imports");
    let yaml = imported.file.to_yaml();
    assert_eq!(JobFile::parse(&yaml, "again"), Ok(imported.file.clone()));
    let mut page = yaml;
    page.push_str("\n# notes\n");
    for note in imported.notes {
        page.push_str(&format!("# line {}: {}\n", note.line, note.what));
    }
    page.push_str("\n# not in this version\n");
    for key in imported.file.unsupported() {
        page.push_str(&format!("# {key}\n"));
    }
    expected.assert_eq(&page);
}

#[test]
fn sdl_becomes_a_job_file_with_notes() {
    check(import::sdl, SDL, &expect_file!["../fixtures/llama.expected.yaml"]);
}

#[test]
fn compose_becomes_a_job_file_with_notes() {
    check(import::compose, COMPOSE, &expect_file!["../fixtures/whisper.expected.yaml"]);
}

#[test]
fn slurm_becomes_a_job_file_with_notes() {
    check(import::slurm, SLURM, &expect_file!["../fixtures/resnet.expected.yaml"]);
}

/// Goal: no key is dropped in silence, wherever it stands. Method: a key that nobody knows is put
/// before every key of the source in turn; it must turn up in the notes or, where keys are the
/// author's own, in the job. A note on a key that encloses it counts: it was dropped as a whole.
#[test]
fn unknown_keys_are_noted_wherever_they_stand() {
    let sources: [(Importer, &str); 2] = [(import::sdl, SDL), (import::compose, COMPOSE)];
    for (importer, text) in sources {
        let lines: Vec<&str> = text.lines().collect();
        let before = importer(text, "source").expect("imports").notes;
        let mut tried = 0;
        for (index, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let is_key =
                line.contains(':') && !line.trim_start().starts_with('-') && *line != "---";
            if !is_key {
                continue;
            }
            tried += 1;
            let marker = format!("{:indent$}zz_marker: 1", "");
            let mut changed = lines.clone();
            changed.insert(index, &marker);
            let imported = importer(&changed.join("\n"), "source").expect("imports");
            let is_named = imported.notes.iter().any(|note| note.what.contains("zz_marker"))
                || imported.file.to_yaml().contains("zz_marker");
            let is_enclosed = enclosing(&lines, index, indent).any(|line| {
                before.iter().any(|note| note.line == line && !note.what.contains("GPU"))
            });
            assert!(is_named || is_enclosed, "line {}: {line}", index + 1);
        }
        assert!(tried > 20, "{tried}");
    }
}

/// The lines, counted from 1, of the keys and list items around a line.
fn enclosing<'a>(
    lines: &'a [&str],
    index: usize,
    mut indent: usize,
) -> impl Iterator<Item = usize> + 'a {
    (0..index).rev().filter_map(move |above| {
        let line = lines[above];
        let own = line.len() - line.trim_start().len();
        let is_outer = own < indent && !line.trim().is_empty();
        indent = if is_outer { own } else { indent };
        is_outer.then_some(above + 1)
    })
}

#[test]
fn slurm_options_are_noted_or_translated() {
    for option in ["--zz-marker=1", "--zz-marker 1", "--zz-marker", "-Z zz-marker", "zz-marker"] {
        let text = format!("#!/bin/sh\n#SBATCH {option} -J a\necho\n");
        let imported = import::slurm(&text, "source").expect("imports");
        let noted = imported.notes.iter().any(|note| note.what.contains("zz-marker"));
        assert!(noted && imported.file.name.is_some(), "{option}: {:?}", imported.notes);
    }
}

#[test]
fn slurm_counts_gpus_of_all_nodes_or_of_each() {
    let check = |options: &str, expected: u16| {
        let text = format!("#!/bin/sh\n#SBATCH {options}\necho\n");
        let file = import::slurm(&text, "source").expect("imports").file;
        let counts: Vec<u16> =
            file.resources.accelerators.iter().map(|one| one.count().get()).collect();
        assert_eq!((file.num_nodes.get(), counts), (2, vec![expected]), "{options}");
    };
    check("--gpus=a100:8 --nodes=2", 4);
    check("-N2 -G a100:7", 4);
    check("-N2 --gpus-per-node=a100:8", 8);
    check("-N2 --gres=gpu:a100:8", 8);
}

#[test]
fn slurm_array_says_how_to_run_it() {
    for option in ["--array=0-9", "-a 0-9"] {
        let text = format!("#!/bin/sh\n#SBATCH {option}\necho $SLURM_ARRAY_TASK_ID\n");
        let imported = import::slurm(&text, "source").expect("imports");
        let told = imported.notes.iter().find(|note| note.what.starts_with("`--array=0-9`"));
        assert!(told.is_some_and(|note| note.what.contains("$TG_TASK")), "{:?}", imported.notes);
    }
}

#[test]
fn sources_without_work_are_refused() {
    for (importer, text, expected) in [
        (import::sdl as Importer, "services: {}", "no service with an image"),
        (import::sdl, "services: {a: {command: x}}", "no service with an image"),
        (import::compose, "services:\n  a:\n    build: .\n", "no service with an image"),
        (import::compose, "services: {a: {image: 'a b'}}", "no service with an image"),
        (import::sdl, "services: {a: {image: 'a b', command: c}}", "no service with an image"),
        (import::compose, "[1, 2]", "no service with an image"),
        (import::compose, "a: &x 1\nb: *x\n", "aliases"),
        (import::slurm, "#!/bin/sh\n#SBATCH -J a\n", "no command"),
        (import::slurm, "", "no command"),
        (import::slurm, "echo \0\n", "expected a command"),
        (import::slurm, "#!/bin/bash -l\0\necho\n", "`the first line`: expected a command"),
        (import::slurm, &"echo a\n".repeat(10_000), "expected a command"),
        (import::slurm, &"x".repeat(65_536), "expected a command"),
    ] {
        let error = importer(text, "source").expect_err("refused").to_string();
        assert!(error.contains(expected) && error.starts_with("source:"), "{error}");
    }
}

#[test]
fn scripts_keep_the_language_of_their_first_line() {
    let run = |text: &str| {
        let yaml = import::slurm(text, "source").expect("imports").file.to_yaml();
        yaml.lines().skip_while(|line| !line.starts_with("run:")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(run("#!/bin/sh\necho a\n"), "run: |\n  echo a");
    assert_eq!(
        run("#!/usr/bin/env python3\nprint(1)\n"),
        "run:\n  - python3\n  - \"-c\"\n  - |\n    print(1)"
    );
}
