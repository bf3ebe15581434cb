//! The reference names every key, and every example in it is a job file.

use crate::read;
use tg_jobfile::{JobFile, SECTIONS};
use tg_types::Features;

#[test]
fn reference_names_every_key() {
    let text = read("docs/jobfile.md");
    for section in SECTIONS {
        for key in section.keys {
            let name = format!("| `{}` |", section.join(key.name));
            assert!(text.contains(&name), "{name}");
        }
    }
}

#[test]
fn examples_in_the_reference_are_job_files() {
    let text = read("docs/jobfile.md");
    let blocks: Vec<&str> = text.split("```yaml\n").skip(1).collect();
    assert!(blocks.len() >= 2);
    for block in blocks {
        let block = block.split("```").next().expect("split gives one");
        let job = JobFile::parse(block, "docs/jobfile.md").expect("a job file");
        assert_eq!(JobFile::parse(&job.to_yaml(), "again"), Ok(job));
    }
}

/// Both kinds of work with every key that a first user meets, spelt in all the short ways.
#[test]
fn short_spellings_mean_what_the_long_ones_do() {
    let short = "
name: finetune
num_nodes: 4
resources: {accelerators: {A100-80GB: 1, H100: 1}, use_spot: true}
image: ghcr.io/acme/lora:2
run: torchrun --nproc_per_node 1 train.py
checkpoint: {path: /ckpt, every: 10m}
budget: {max: 120}
deadline: 2026-12-01T08:00Z
verify: redundant:2
";
    let long = "
verify:
  mode: redundant
  replicas: 2
deadline: '2026-12-01T09:00:00.000+01:00'
budget:
  max: 120.0 TGRID
checkpoint:
  every: 600s
  path: /ckpt
run: >-
  torchrun --nproc_per_node 1
  train.py
image: \"ghcr.io/acme/lora:2\"
resources:
  use_spot: true
  accelerators:
    - A100-80GB
    - H100:1
  features: []
num_nodes: 4
network: false
name: finetune
";
    let short = JobFile::parse(short, "short").expect("reads");
    assert_eq!(JobFile::parse(long, "long"), Ok(short.clone()));
    let canonical = short.to_yaml();
    assert!(canonical.contains("deadline: 2026-12-01T08:00:00Z\n"), "{canonical}");
    assert!(canonical.contains("max: 120 TGRID\n"), "{canonical}");
}

/// A float model asks for nodes that have a sandbox with the runtime; the same file without the
/// word asks for nothing.
#[test]
fn float_model_needs_what_runs_it() {
    let needs = |text: &str| JobFile::parse(text, "test").expect("a job file").needs().features;
    let both = Features::SANDBOX.with(Features::ONNX);
    assert_eq!(needs("model: a.onnx\nfloat: true\n"), both);
    assert_eq!(needs("model: a.onnx\nfloat: false\n"), Features::NONE);
    assert_eq!(needs("model: a.onnx\n"), Features::NONE);
}
