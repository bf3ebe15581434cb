//! Models in floating point: run as they are, by providers, in a sandbox.

use crate::{
    model::write_floats,
    support::{Finished, Home, Process, text, turn},
};
use serde_json::Value;
use std::{fs, path::PathBuf};
use tg_onnx::{
    Dtype, ElementKind,
    proto::{
        DimensionProto, GraphProto, ModelProto, NodeProto, OpsetProto, TensorProto, ValueInfoProto,
    },
};
use tg_tensor::{Array, Data};

const WEIGHTS: [[f32; 3]; 2] = [[0.5, -1.25, 2.0], [1.5, 0.75, -0.5]];
const BIAS: [f32; 3] = [0.1, -0.2, 0.3];
const ROWS: [[f32; 2]; 2] = [[1.0, 2.0], [-0.5, 0.25]];

/// A model with an input whose first side is free.
fn model(nodes: Vec<NodeProto>, tensors: Vec<TensorProto>) -> Vec<u8> {
    let value = |name: &str, side: i64| ValueInfoProto {
        name: name.to_owned(),
        element: ElementKind::Float.number(),
        shape: Some(vec![DimensionProto::Param("rows".to_owned()), DimensionProto::Value(side)]),
    };
    let graph = GraphProto {
        name: "test".to_owned(),
        nodes,
        initializers: tensors,
        inputs: vec![value("x", 2)],
        outputs: vec![value("y", 3)],
        ..GraphProto::default()
    };
    let opsets = vec![OpsetProto { domain: String::new(), version: 17 }];
    ModelProto { ir_version: 8, opsets, graph }.to_bytes()
}

/// `y = softmax(tanh(x w + b))`, for any number of rows.
fn classifier() -> Vec<u8> {
    let tensor = |name: &str, shape: &[usize], numbers: &[f32]| {
        let array = Array::new(shape.to_vec(), Data::Float(numbers.to_vec())).expect("an array");
        TensorProto::from_array(name, Dtype::Float, &array).expect("a tensor")
    };
    let nodes = vec![
        NodeProto::new("MatMul", &["x", "w"], &["m"]),
        NodeProto::new("Add", &["m", "b"], &["a"]),
        NodeProto::new("Tanh", &["a"], &["t"]),
        NodeProto::new("Softmax", &["t"], &["y"]),
    ];
    model(nodes, vec![tensor("w", &[2, 3], WEIGHTS.as_flattened()), tensor("b", &[3], &BIAS)])
}

/// What the classifier gives for a row.
fn classes(row: [f32; 2]) -> [f64; 3] {
    let sums: [f64; 3] = std::array::from_fn(|class| {
        let products = row.iter().zip(WEIGHTS).map(|(x, w)| f64::from(*x) * f64::from(w[class]));
        (products.sum::<f64>() + f64::from(BIAS[class])).tanh().exp()
    });
    sums.map(|sum| sum / sums.iter().sum::<f64>())
}

/// A network with its own providers, and a model with its input in files.
struct Stage {
    home: Home,
    up: Process,
    model: PathBuf,
    input: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let home = Home::new();
        let up = home.start("up", &["--json", "up", "--port", "0"]);
        let (model, input) = (home.path("model.onnx"), home.path("input.npy"));
        fs::write(&model, classifier()).expect("writes");
        write_floats(&input, &[2, 2], ROWS.as_flattened());
        Self { home, up, model, input }
    }

    fn run(&self, more: &[&str]) -> Finished {
        let input = format!("x={}", text(&self.input));
        let run = ["--json", "run", text(&self.model), "--float", "-i", &input];
        self.home.run(&[&run[..], more].concat())
    }
}

/// Fails unless a file holds what the classifier gives for both rows.
fn check(told: &Value) {
    for (row, found) in ROWS.iter().zip(told.as_array().expect("rows")) {
        for (class, expected) in classes(*row).iter().enumerate() {
            let found = found[class].as_f64().expect("a number");
            assert!((found - expected).abs() < 1e-5, "{row:?}, {class}: {found}, not {expected}");
        }
    }
}

/// Goal: a float model runs elsewhere and gives what it should, one provider's word or two
/// providers' agreement, typed or from a job file. Method: a small classifier, computed here too.
#[test]
fn float_model_runs_elsewhere_and_gives_the_right_numbers() {
    let _turn = turn();
    let stage = Stage::new();
    let read = |name: &str| -> Value {
        let text = fs::read_to_string(stage.home.path(name)).expect("was written");
        serde_json::from_str(&text).expect("JSON")
    };
    let ran = stage.run(&["-o", "out.json"]).expect(0).json();
    assert_eq!((&ran["status"], &ran["ended"]), (&"settled".into(), &"exited 0".into()));
    check(&read("out.json")["y"]);
    assert!(ran["enforced"].as_array().is_some_and(|lines| !lines.is_empty()), "{ran}");

    let job = ran["job"].as_str().expect("an id");
    stage.home.run(&["cp", job, "again.json"]).expect(0);
    assert_eq!(read("again.json"), read("out.json"));
    stage.home.run(&["cp", job, "again.npz"]).expect(0);
    assert!(fs::read(stage.home.path("again.npz")).expect("was written").starts_with(b"PK"));

    let file = "model: ./model.onnx\nfloat: true\ninputs: {x: ./input.npy}\n\
                outputs: {y: ./y.json}\nresources: {cpus: 1}\nverify: redundant:2\n";
    fs::write(stage.home.path("job.tg.yaml"), file).expect("writes");
    let ran = stage.home.run(&["--json", "run", "job.tg.yaml"]).expect(0).json();
    let shown = stage.home.run(&["--json", "show", ran["job"].as_str().expect("an id")]).expect(0);
    assert_eq!(shown.json()["runs"].as_array().map(Vec::len), Some(2));
    assert_eq!(read("y.json"), read("out.json"), "the same bits at both providers");
    assert_eq!(stage.up.stop("INT").0.code(), Some(0));
}

/// Goal: a model that takes more than it was given is ended, and the provider goes on. Method: a
/// tensor of sixteen gigabytes, whose shape no reader of the file can see.
#[test]
fn hostile_float_model_harms_nobody() {
    let _turn = turn();
    let stage = Stage::new();
    let array = Array::new(vec![2], Data::Int(vec![1 << 16, 1 << 16])).expect("an array");
    let shape = TensorProto::from_array("s", Dtype::Int, &array).expect("a tensor");
    let nodes = vec![
        NodeProto::new("ReduceSum", &["x"], &["sum"]),
        NodeProto::new("Expand", &["sum", "s"], &["wide"]),
        NodeProto::new("MatMul", &["wide", "wide"], &["y"]),
    ];
    let sound = fs::read(&stage.model).expect("is there");
    fs::write(&stage.model, model(nodes, vec![shape])).expect("writes");
    let ran = stage.run(&["--memory", "256MB", "-o", "no.json"]).expect(1).json();
    assert_eq!((&ran["status"], &ran["files"]), (&"settled".into(), &Value::Array(Vec::new())));
    assert!(!stage.home.path("no.json").exists());
    fs::write(&stage.model, sound).expect("writes");
    stage.run(&["--verify", "redundant:2"]).expect(0);
    assert_eq!(stage.up.stop("INT").0.code(), Some(0));
}

/// Goal: whatever cannot work is refused with its reason before money is locked.
#[test]
fn float_job_that_cannot_work_is_refused_with_a_hint() {
    let _turn = turn();
    let stage = Stage::new();
    let refuse = |finished: Finished, words: &[&str]| {
        for word in words.iter().chain(&["hint"]) {
            assert!(finished.err.contains(word), "{word:?} is not in {:?}", finished.err);
        }
    };
    for tier in ["audit", "sync"] {
        let refused = stage.run(&["--verify", tier]).expect(2);
        refuse(refused, &["floats have no exact meaning", "redundant:2"]);
    }
    let command = stage.home.run(&["run", "--float", "--", "true"]).expect(2);
    refuse(command, &["--float is for models"]);
    fs::write(stage.home.path("a.tgp"), b"").expect("writes");
    refuse(stage.home.run(&["run", "a.tgp", "--float"]).expect(2), &["is no .onnx file"]);
    write_floats(&stage.input, &[1, 3], &[1.0, 2.0, 3.0]);
    refuse(stage.run(&[]).expect(1), &["has the shape [1, 3], expected [rows, 2]"]);
    let missing = stage.home.run(&["run", "model.onnx", "--float"]).expect(2);
    refuse(missing, &["input \"x\" is missing"]);
    let odd = model(vec![NodeProto::new("Oddity", &["x"], &["y"])], Vec::new());
    fs::write(&stage.model, odd).expect("writes");
    refuse(stage.run(&[]).expect(1), &["operator Oddity is not supported"]);
    fs::write(&stage.model, b"nonsense").expect("writes");
    refuse(stage.run(&[]).expect(1), &["no ONNX model within the bounds"]);
    let jobs = stage.home.run(&["--json", "ps"]).expect(0).json();
    assert_eq!(jobs.as_array().map(Vec::len), Some(1), "the first job alone: {jobs}");
    assert_eq!(stage.up.stop("INT").0.code(), Some(0));
}
