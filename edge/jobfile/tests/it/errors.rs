//! Errors as people see them: place, key, what was expected and what was probably meant. The
//! goldens show each file and the message for it.

use expect_test::{ExpectFile, expect_file};
use tg_jobfile::JobFile;

#[track_caller]
fn check(texts: &[&str], expected: &ExpectFile) {
    let messages = texts.iter().map(|text| {
        let error = JobFile::parse(text, "job.tg.yaml").expect_err("refused");
        let shown: String = text.chars().take(200).collect();
        format!("{}\n=> {error}\n\n", shown.trim_end())
    });
    expected.assert_eq(&messages.collect::<String>());
}

#[test]
fn unknown_keys_come_with_a_suggestion() {
    let texts = [
        "modle: a.onnx\n",
        "model: a\nresources:\n  acelerators: H100\n",
        "model: a\ngpu_memory: 2GB\n",
        "run: a\ncommand: b\n",
        "run: a\nqwertz: b\n",
        "run: a\nbudget: {maximum: 1}\n",
        "run: a\nescrow: none\n",
    ];
    check(&texts, &expect_file!["../fixtures/errors/unknown-keys.txt"]);
}

#[test]
fn values_of_another_form_say_the_form() {
    let texts = [
        "",
        "- a\n",
        "run:\n",
        "run: []\n",
        "run: [a, {b: c}]\n",
        "run: a\nnetwork: yes\n",
        "run: a\nenvs: {A: }\n",
        "run: a\nenvs: {1A: x}\n",
        "run: a\nsecrets: {TOKEN: hunter2}\n",
        "run: a\nfile_mounts: {data: ./data}\n",
        "run: a\noutputs: {../x: ./x}\n",
        "run: a\nresources: {gpu_memory: 16}\n",
        "run: a\nresources: {accelerators: 'H100:0'}\n",
        "run: a\nresources: {accelerators: [H100, 'H100:1']}\n",
        "run: a\nresources: {features: [tensor-core]}\n",
        "run: a\nresources: {any_of: [{any_of: []}]}\n",
        "run: a\nbudget: {max: 1e3}\n",
        "run: a\nbudget: {}\n",
        "run: a\nverify: redundant\n",
        "run: a\nverify: {mode: redundant}\n",
        "run: a\nverify: {mode: redundant, replicas: 5}\n",
        "run: a\nverify: {mode: audit, replicas: 2}\n",
        "run: a\nkey_escrow: nobody\n",
        "run: a\ndeadline: tomorrow\n",
        "run: a\ncheckpoint: {path: ckpt, every: 10}\n",
        "run: a\nservice: {replicas: 2}\n",
        "run: a\nnum_nodes: 0\n",
        "run: a\npriority: high\n",
        "run: a\npriority: 4\n",
        "name: \"\"\nrun: a\n",
    ];
    check(&texts, &expect_file!["../fixtures/errors/values.txt"]);
}

#[test]
fn work_is_of_one_kind() {
    let texts = [
        "name: a\n",
        "model: a\nprogram: b\n",
        "model: a\nrun: b\n",
        "program: a\nenvs: {A: b}\n",
        "program: a\nfloat: true\n",
        "image: a\nfloat: false\n",
        "model: a\nfloat: yes\n",
    ];
    check(&texts, &expect_file!["../fixtures/errors/work.txt"]);
}

#[test]
fn yaml_beyond_the_bounds_is_refused() {
    let many: String = (0..1_025).map(|index| format!("  A{index}: x\n")).collect();
    let (many, large) = (format!("run: a\nenvs:\n{many}"), "#".repeat(300_000));
    let deep = format!("run: {}", "[".repeat(17));
    let texts = [
        "run: a\nrun: b\n",
        "run: &a b\nsetup: *a\n",
        "run: !!str a\n",
        "run: a\n---\nrun: b\n",
        "run: [a\n",
        "run: \"a\n",
        &many,
        &large,
        &deep,
    ];
    check(&texts, &expect_file!["../fixtures/errors/bounds.txt"]);
}

#[test]
fn keys_of_later_versions_are_read_and_named() {
    let text = "
name: finetune
num_nodes: 4
resources:
  accelerators: {A100-80GB: 1, H100: 2}
  use_spot: true
  any_of: [{region: eu}, {region: us}]
image: ghcr.io/acme/lora:2
run: torchrun --nproc_per_node 1 train.py
secrets: [HF_TOKEN]
file_mounts: {/data: s3://bucket/data}
inputs: {set: https://example.org/set}
service: {port: 8080, replicas: 2}
verify: tee
";
    let job = JobFile::parse(text, "job.tg.yaml").expect("reads");
    let said: String = job.unsupported().iter().map(|key| format!("{key}\n")).collect();
    expect_file!["../fixtures/errors/later.txt"].assert_eq(&said);
}

#[test]
fn what_this_version_can_do_is_not_refused() {
    let text = "
name: pi
run: [sh, /in/pi.sh]
setup: echo begin
envs: {SAMPLES: 1000}
file_mounts: {/in/more.txt: ./more.txt}
inputs: {pi.sh: ./pi.sh}
outputs: {pi.txt: ./pi.txt}
resources: {accelerators: 'RTX4090', memory: 1GB, cpus: 2, disk: 1GB, region: eu, features: onnx}
num_nodes: 16
budget: {max: 1}
verify: redundant:3
key_escrow: none
run_max: 10m
deadline: 2026-12-01T08:00Z
priority: 3
network: true
checkpoint: {path: /ckpt, every: 10m}
";
    let job = JobFile::parse(text, "job.tg.yaml").expect("reads");
    assert_eq!(job.unsupported(), []);
}
