//! Models as a user handles them: imported, shown, run, compared; and files that are none.

use crate::support::{Finished, Home, text};
use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) fn fixture(name: &str) -> String {
    text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)).to_owned()
}

/// Writes single-precision numbers as a `.npy` file.
pub(crate) fn write_floats(path: &Path, shape: &[usize], numbers: &[f32]) {
    let sides: Vec<String> = shape.iter().map(usize::to_string).collect();
    let mut header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", sides.join(", "));
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).expect("is short").to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    fs::write(path, bytes).expect("writes");
}

/// The 500 drawn digits as the model takes them: 0 to 1 instead of 0 to 255.
fn strokes(home: &Home) -> PathBuf {
    let bytes = fs::read(fixture("digits/strokes-images.npy")).expect("is there");
    let start = bytes.len() - 500 * 28 * 28;
    let numbers: Vec<f32> = bytes[start..].iter().map(|byte| f32::from(*byte) / 255.0).collect();
    let path = home.path("strokes.npy");
    write_floats(&path, &[500, 1, 28, 28], &numbers);
    path
}

fn run(home: &Home, words: &[&str]) -> Finished {
    let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    home.run(&words).expect(0)
}

/// Goal: integers classify as well as floats do. Method: 500 digits, half of which calibrate; both
/// models on all of them.
#[test]
fn digits_in_integers_are_right_as_often_as_in_floats() {
    let home = Home::new();
    let images = strokes(&home);
    let (images, program) = (text(&images), home.path("digits.tgp"));
    let (model, labels) = (fixture("digits/digits.onnx"), fixture("digits/strokes-labels.npy"));
    let told =
        run(&home, &["model", "import", &model, "--calibrate", images, "-o", text(&program)]);
    let told = told.json();
    assert_eq!(told["compared_on"], 250);
    assert!(told["outputs"][0]["cosine"].as_f64().is_some_and(|cosine| cosine > 0.998), "{told}");

    let right = |file: &str| {
        let told = run(&home, &["model", "run", file, "--input", images, "--labels", &labels]);
        told.json()["top1"]["right"].as_i64().expect("a count")
    };
    let (integers, floats) = (right(text(&program)), right(&model));
    assert!(floats > 480, "{floats}");
    // 0.3 percentage points of 500 images are one and a half.
    assert!((integers - floats).abs() <= 1, "{integers} against {floats}");
}

#[test]
fn transformers_stay_close_to_their_floats() {
    let home = Home::new();
    for name in ["block", "tokens"] {
        let [model, input, output] = ["{}.onnx", "{}-input.npy", "{}-output.npy"]
            .map(|form| fixture(&format!("transformer/{}", form.replace("{}", name))));
        let program = home.path("program.tgp");
        let program = text(&program);
        let told = run(&home, &["model", "import", &model, "--calibrate", &input, "-o", program]);
        let cosine = told.json()["outputs"][0]["cosine"].as_f64().expect("a number");
        assert!(cosine > 0.99, "{name}: {cosine}");
        let words = ["model", "run", program, "--input", &input, "--compare", &output];
        let cosine = run(&home, &words).json()["outputs"][0]["cosine"].as_f64().expect("a number");
        assert!(cosine > 0.99, "{name}: {cosine}");
    }
}

#[test]
fn outputs_are_the_same_bits_on_every_path_and_with_any_threads() {
    let home = Home::new();
    let input = fixture("transformer/block-input.npy");
    let program = home.path("block.tgp");
    let program = text(&program);
    let model = fixture("transformer/block.onnx");
    run(&home, &["model", "import", &model, "--calibrate", &input, "-o", program]);
    let mut outputs = Vec::new();
    for more in [&["--threads", "1"][..], &["--threads", "2"], &["--threads", "3"], &["--portable"]]
    {
        let out = home.path("out.npy");
        let mut words = vec!["model", "run", program, "--input", &input, "-o", text(&out)];
        words.extend(more);
        run(&home, &words);
        outputs.push(fs::read(&out).expect("was written"));
    }
    assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn program_is_shown_listed_and_traced() {
    let home = Home::new();
    let program = home.path("digits.tgp");
    let program = text(&program);
    run(&home, &["model", "import", &fixture("digits/digits.onnx"), "-o", program]);
    let shown = run(&home, &["model", "show", program, "--operations"]).json();
    assert_eq!(shown["inputs"][0]["shape"], serde_json::json!([1, 1, 28, 28]));
    assert!(shown["operations"].as_array().is_some_and(|list| !list.is_empty()));
    let listed = run(&home, &["model", "list", "."]).json();
    assert_eq!(listed["program_id"], shown["program_id"]);

    let image = home.path("image.npy");
    write_floats(&image, &[1, 1, 28, 28], &[0.25; 784]);
    let words = ["model", "run", program, "--input", text(&image), "--trace"];
    let (first, second) = (run(&home, &words).json(), run(&home, &words).json());
    let of = |told: &serde_json::Value, what: &str| told["traces"][0][what].clone();
    assert_eq!(of(&first, "program_id"), shown["program_id"]);
    assert_eq!(of(&first, "output_id"), of(&second, "output_id"));
    assert_ne!(of(&first, "trace_root"), of(&second, "trace_root"), "each run has its own salt");
}

#[test]
fn quantised_file_keeps_its_integers() {
    let home = Home::new();
    let images = strokes(&home);
    for name in ["digits-qdq", "digits-qlinear"] {
        let model = fixture(&format!("digits/{name}.onnx"));
        let out = home.path("q.tgp");
        let words = ["model", "import", &model, "--calibrate", text(&images), "-o", text(&out)];
        let output = run(&home, &words).json()["outputs"][0].clone();
        assert!(output["cosine"].as_f64().is_some_and(|cosine| cosine > 0.999), "{output}");
        assert!(output["steps_max"].as_f64().is_some_and(|steps| steps <= 4.0), "{output}");
    }
}

fn check(home: &Home, words: &[&str], code: i32, expected: &[&str]) {
    let finished = home.run(words).expect(code);
    for word in expected {
        assert!(finished.err.contains(word), "{word:?} is not in {:?}", finished.err);
    }
    assert!(!finished.err.contains("panicked"), "{:?}", finished.err);
}

#[test]
fn file_that_is_no_model_is_refused_with_a_hint() {
    let home = Home::new();
    let path = home.path("bad.onnx");
    let bad = text(&path);
    let whole = fs::read(fixture("digits/digits.onnx")).expect("is there");
    for bytes in [&b""[..], b"nonsense", &whole[..whole.len() / 2], &[0xff; 4096]] {
        fs::write(&path, bytes).expect("writes");
        check(&home, &["model", "import", bad], 1, &["cannot import", "because", "hint:"]);
        check(&home, &["model", "show", bad], 1, &["is no tensor program", "hint:"]);
    }
    check(&home, &["model", "show", "absent.tgp"], 1, &["cannot read absent.tgp", "hint:"]);
    check(&home, &["model", "list", "absent"], 1, &["cannot list absent", "hint:"]);
}

#[test]
fn input_that_does_not_fit_is_refused_with_a_hint() {
    let home = Home::new();
    let program = home.path("digits.tgp");
    let program = text(&program);
    run(&home, &["model", "import", &fixture("digits/digits.onnx"), "-o", program]);
    let input = home.path("input.npy");
    let words = ["model", "run", program, "--input", text(&input)];
    write_floats(&input, &[1, 1, 28, 27], &[0.0; 756]);
    check(&home, &words, 2, &["takes [1, 1, 28, 28], got [1, 1, 28, 27]", "hint:"]);
    write_floats(&input, &[1, 1, 28, 28], &[f32::NAN; 784]);
    check(&home, &words, 1, &["NaN at element 0", "hint:"]);
    let device = [&words[..], &["--device", "tpu:0"]].concat();
    check(&home, &device, 2, &["expected cpu or gpu:N"]);
}
