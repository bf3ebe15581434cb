//! The models in `fixtures/`, on every path, with any number of threads and, with the feature
//! `wgpu`, on a GPU.

use tg_onnx::{Choices, Imported, Options, Source, generate};
use tg_tensor::{Options as RunOptions, Path, Runner, Tensor};

/// Samples that decide the integers, and as many to compare on.
const SAMPLES: usize = 16;

const MODELS: [(&str, &[u8]); 5] = [
    ("digits", include_bytes!("../../../../fixtures/digits/digits.onnx")),
    ("digits-qdq", include_bytes!("../../../../fixtures/digits/digits-qdq.onnx")),
    ("digits-qlinear", include_bytes!("../../../../fixtures/digits/digits-qlinear.onnx")),
    ("block", include_bytes!("../../../../fixtures/transformer/block.onnx")),
    ("tokens", include_bytes!("../../../../fixtures/transformer/tokens.onnx")),
];

fn import(name: &str, bytes: &[u8]) -> (Imported, Vec<Tensor>) {
    let source = Source::read(bytes, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let [calibration, evaluation] =
        [1, 2].map(|seed| generate::samples(source.graph(), seed, SAMPLES));
    let imported = source
        .import(&calibration, &evaluation, Choices { activation_bits: 8 })
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let ports = imported.model.program().inputs().iter().zip(&evaluation[0]);
    let inputs = ports.map(|(port, array)| port.encode(array).expect("fits")).collect();
    (imported, inputs)
}

#[test]
fn models_on_generated_numbers_stay_close_to_their_floats() {
    for (name, bytes) in MODELS {
        let (imported, _) = import(name, bytes);
        for output in &imported.report.outputs {
            assert!(output.cosine > 0.99, "{name}: {output:?}");
        }
    }
}

#[test]
fn models_give_the_same_bits_on_every_path_and_with_any_threads() {
    for (name, bytes) in MODELS {
        let (imported, inputs) = import(name, bytes);
        let plain = RunOptions { threads: 1, path: Some(Path::Portable) };
        let wanted = Runner::new(imported.model.clone(), plain).run_keeping(&inputs).expect("runs");
        for threads in [1, 2, 3] {
            let runner = Runner::new(imported.model.clone(), RunOptions { threads, path: None });
            assert_eq!(runner.run_keeping(&inputs).as_ref(), Ok(&wanted), "{name}, {threads}");
        }
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn models_give_the_same_bits_on_a_gpu() {
    let gpu = tg_tensor::gpu::Gpu::open(0).expect("a GPU, such as Mesa's software Vulkan");
    for (name, bytes) in MODELS {
        let (imported, inputs) = import(name, bytes);
        let on_cpu = Runner::new(imported.model.clone(), RunOptions::default());
        let on_gpu = Runner::new(imported.model, RunOptions::default()).on(&gpu).expect("fits");
        assert_eq!(on_gpu.run_keeping(&inputs), on_cpu.run_keeping(&inputs), "{name}");
        assert!(gpu.failure().is_none(), "{name}: {:?}", gpu.failure());
    }
}
