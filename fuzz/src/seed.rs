//! Writes the inputs from which fuzzing starts, or replays findings.
//!
//! `seed <folder>` writes into `<folder>/<target>/`. `seed <target> <file>...` runs the target's
//! check on each file in an ordinary build, so that a finding has a back trace.

use arbtest::arbitrary::Unstructured;
use std::path::{Path, PathBuf};
use tg_fuzz::{onnx, opening, program, proof};
use tg_onnx::proto::{
    AttributeValue, GraphProto, ModelProto, NodeProto, OpsetProto, TensorProto, ValueInfoProto,
};
use tg_onnx::{Dtype, ElementKind};
use tg_tensor::{Array, Data, sample};

/// The most bytes of a seed: short ones are changed more often in the right place.
const SEED_BYTES_MAX: usize = 6_000;

/// Random models to choose seeds from.
const MODELS: u32 = 400;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((folder, [])) => write_all(Path::new(folder)),
        Some((target, files)) => replay(target, files),
        None => eprintln!("usage: seed <folder> | seed <program|onnx|opening|proof> <file>..."),
    }
}

fn replay(target: &str, files: &[String]) {
    let check = match target {
        "program" => program::check,
        "onnx" => onnx::check,
        "opening" => opening::check,
        "proof" => proof::check,
        unknown => return eprintln!("there is no target {unknown}"),
    };
    for file in files {
        match std::fs::read(file) {
            Ok(bytes) => check(&bytes),
            Err(error) => eprintln!("{file} cannot be read: {error}"),
        }
        println!("{file}: no finding");
    }
}

fn write_all(folder: &Path) {
    write(&folder.join("program"), models());
    write(&folder.join("opening"), opening::seeds());
    write(&folder.join("proof"), proof::seeds());
    let mut files = graphs();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    collect(&fixtures, &mut files);
    write(&folder.join("onnx"), files);
}

/// Writes seeds under the order of their making; each is checked once before.
fn write(folder: &Path, seeds: Vec<Vec<u8>>) {
    std::fs::create_dir_all(folder).expect("the folder of a corpus can be made");
    let count = seeds.len();
    for (number, seed) in seeds.into_iter().enumerate() {
        let file = folder.join(format!("seed-{number:03}"));
        std::fs::write(file, seed).expect("a seed can be written");
    }
    println!("{}: {count} seeds", folder.display());
}

/// Small models of all primitives.
fn models() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for number in 0..MODELS {
        let mut noise = number.wrapping_mul(0x9e37_79b9) | 1;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 24) as u8
        })
        .take(4_096)
        .collect();
        let Ok(model) = sample::model(&mut Unstructured::new(&bytes)) else { continue };
        let bytes = model.to_bytes();
        if bytes.len() <= SEED_BYTES_MAX && program::is_small(model.program()) {
            seeds.push(bytes);
        }
    }
    seeds
}

/// The small `.onnx` files below a folder.
fn collect(folder: &Path, files: &mut Vec<Vec<u8>>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "onnx") {
            files.extend(std::fs::read(&path).ok().filter(|b| b.len() < onnx::FILE_BYTES_MAX));
        }
    }
}

/// A graph in the making: `x` is its input, each node reads the result of the one before it.
struct Chain {
    graph: GraphProto,
    last: String,
    version: i64,
}

impl Chain {
    fn new(shape: &[usize]) -> Self {
        Self::of(ElementKind::Float, shape)
    }

    fn of(kind: ElementKind, shape: &[usize]) -> Self {
        let inputs = vec![ValueInfoProto::tensor("x", kind, shape)];
        let graph = GraphProto { inputs, ..GraphProto::default() };
        Self { graph, last: "x".to_owned(), version: 17 }
    }

    /// One more node, whose first operand is the result before it and whose others are constants.
    fn then(
        mut self,
        operator: &str,
        constants: &[Constant<'_>],
        attributes: &[(&str, AttributeValue)],
    ) -> Self {
        let number = self.graph.nodes.len();
        let mut operands = if operator == "Constant" { vec![] } else { vec![self.last.clone()] };
        for (place, constant) in constants.iter().enumerate() {
            let name = format!("c{number}_{place}");
            match constant {
                Constant::Same => operands.push(self.last.clone()),
                Constant::Input => operands.push("x".to_owned()),
                Constant::Floats(shape) => {
                    let count: usize = shape.iter().product();
                    let number = |place: usize| ((place * 37 % 19) as f32 - 7.0) / 8.0;
                    let data = Data::Float((0..count).map(number).collect());
                    self.initializer(&name, Dtype::Float, shape, data);
                    operands.push(name);
                }
                Constant::Number(number) => {
                    self.initializer(&name, Dtype::Float, &[], Data::Float(vec![*number]));
                    operands.push(name);
                }
                Constant::Ints(dtype, numbers) => {
                    let shape = [numbers.len()];
                    self.initializer(&name, *dtype, &shape, Data::Int(numbers.to_vec()));
                    operands.push(name);
                }
                Constant::Code(dtype, number) => {
                    self.initializer(&name, *dtype, &[], Data::Int(vec![*number]));
                    operands.push(name);
                }
            }
        }
        let result = format!("y{number}");
        let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
        let mut node = NodeProto::new(operator, &operands, &[&result]);
        for (name, value) in attributes {
            node = node.with(name, value.clone());
        }
        self.graph.nodes.push(node);
        self.last = result;
        self
    }

    fn version(mut self, version: i64) -> Self {
        self.version = version;
        self
    }

    fn initializer(&mut self, name: &str, dtype: Dtype, shape: &[usize], data: Data) {
        let array = Array::new(shape.to_vec(), data).expect("as many numbers as the shape says");
        let tensor = TensorProto::from_array(name, dtype, &array);
        self.graph.initializers.push(tensor.expect("a kind that is written"));
    }

    fn bytes(mut self) -> Vec<u8> {
        let name = self.last.clone();
        self.graph.outputs.push(ValueInfoProto { name, ..ValueInfoProto::default() });
        let opsets = vec![
            OpsetProto { domain: String::new(), version: self.version },
            OpsetProto { domain: "com.microsoft".to_owned(), version: 1 },
        ];
        ModelProto { ir_version: 8, opsets, graph: self.graph }.to_bytes()
    }
}

/// What a node reads besides the result before it.
enum Constant<'a> {
    /// The same once more.
    Same,
    /// The graph's input.
    Input,
    Floats(&'a [usize]),
    Number(f32),
    Ints(Dtype, &'a [i64]),
    Code(Dtype, i64),
}

/// One small graph for each way of importing something.
fn graphs() -> Vec<Vec<u8>> {
    let mut chains = pointwise();
    chains.extend(windows());
    chains.extend(layouts());
    chains.extend(networks());
    chains.into_iter().map(Chain::bytes).collect()
}

fn pointwise() -> Vec<Chain> {
    use Constant::{Floats, Input, Number, Same};
    let mut chains = Vec::new();
    for operator in [
        "Relu",
        "LeakyRelu",
        "Elu",
        "Selu",
        "Celu",
        "Softplus",
        "Softsign",
        "Sigmoid",
        "HardSigmoid",
        "HardSwish",
        "Tanh",
        "Erf",
        "Mish",
        "Sqrt",
        "Exp",
        "Log",
        "Abs",
        "Neg",
        "Reciprocal",
        "Floor",
        "Ceil",
        "Round",
        "Sign",
        "Identity",
        "Clip",
        "Softmax",
        "LogSoftmax",
        "GlobalMaxPool",
        "GlobalAveragePool",
        "ArgMax",
        "ArgMin",
        "ReduceMean",
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceSumSquare",
        "Flatten",
        "Transpose",
        "Shape",
        "Size",
    ] {
        chains.push(Chain::new(&[1, 2, 3, 4]).then(operator, &[], &[]));
    }
    chains.push(Chain::new(&[2, 5]).then("Gelu", &[], &[]).version(20));
    for operator in
        ["Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Min", "Max", "Equal", "Less", "Greater"]
    {
        chains.push(Chain::new(&[2, 5]).then(operator, &[Floats(&[5])], &[]));
        chains.push(Chain::new(&[2, 5]).then("Tanh", &[], &[]).then(operator, &[Input], &[]));
        chains.push(Chain::new(&[2, 5]).then(operator, &[Number(2.0)], &[]));
    }
    let kept = Chain::new(&[2, 5]).then("Greater", &[Number(0.0)], &[]);
    chains.push(kept.then("Where", &[Input, Floats(&[5])], &[]));
    chains.push(Chain::new(&[2, 5]).then("Sum", &[Same, Floats(&[5]), Number(1.0)], &[]));
    chains.push(Chain::new(&[2, 5]).then("Mean", &[Same, Floats(&[5]), Number(1.0)], &[]));
    chains
}

fn windows() -> Vec<Chain> {
    use Constant::Floats;
    let ints = |numbers: &[i64]| AttributeValue::Ints(numbers.to_vec());
    let int = AttributeValue::Int;
    let kernel = || ("kernel_shape", ints(&[2, 2]));
    let weights = [Floats(&[4, 2, 3, 3]), Floats(&[4])];
    vec![
        Chain::new(&[1, 2, 5, 5]).then("Conv", &weights, &[("pads", ints(&[1, 1, 1, 1]))]),
        Chain::new(&[1, 2, 6, 5]).then(
            "Conv",
            &[Floats(&[4, 1, 2, 3])],
            &[("group", int(2)), ("strides", ints(&[2, 1])), ("dilations", ints(&[2, 1]))],
        ),
        Chain::new(&[1, 3, 8]).then("Conv", &[Floats(&[2, 3, 3])], &[]),
        Chain::new(&[1, 2, 3, 3]).then(
            "ConvTranspose",
            &[Floats(&[2, 3, 2, 2])],
            &[("strides", ints(&[2, 2]))],
        ),
        Chain::new(&[1, 2, 4, 4]).then("MaxPool", &[], &[kernel(), ("strides", ints(&[2, 2]))]),
        Chain::new(&[1, 2, 4, 5]).then(
            "AveragePool",
            &[],
            &[kernel(), ("pads", ints(&[1, 0, 0, 1])), ("count_include_pad", int(0))],
        ),
        Chain::new(&[1, 2, 3, 3]).then(
            "BatchNormalization",
            &[Floats(&[2]), Floats(&[2]), Floats(&[2]), Floats(&[2])],
            &[],
        ),
        Chain::new(&[1, 2, 3, 3]).then("InstanceNormalization", &[Floats(&[2]), Floats(&[2])], &[]),
        Chain::new(&[2, 3, 8]).then("LayerNormalization", &[Floats(&[8]), Floats(&[8])], &[]),
        Chain::new(&[1, 4, 3])
            .then("GroupNormalization", &[Floats(&[4]), Floats(&[4])], &[("num_groups", int(2))])
            .version(21),
    ]
}

fn layouts() -> Vec<Chain> {
    use Constant::{Floats, Ints, Number};
    let ints = |numbers: &[i64]| AttributeValue::Ints(numbers.to_vec());
    let int = AttributeValue::Int;
    let text = |text: &str| AttributeValue::Text(text.to_owned());
    let whole = |numbers| Ints(Dtype::Int, numbers);
    let x = || Chain::new(&[2, 3, 4]);
    vec![
        x().then("Concat", &[Floats(&[2, 1, 4])], &[("axis", int(1))]),
        x().then("Slice", &[whole(&[3]), whole(&[-9]), whole(&[2]), whole(&[-2])], &[]),
        x().then("Split", &[whole(&[3, 1])], &[("axis", int(2))]),
        x().then("Pad", &[whole(&[0, 1, 0, 0, 0, 2]), Number(0.5)], &[]),
        x().then("Pad", &[whole(&[0, 1, 0, 0, 0, 2])], &[("mode", text("reflect"))]),
        x().then("Reshape", &[whole(&[0, -1])], &[]),
        x().then("Unsqueeze", &[whole(&[0])], &[]).then("Squeeze", &[whole(&[0])], &[]),
        x().then("Transpose", &[], &[("perm", ints(&[2, 0, 1]))]),
        x().then("Expand", &[whole(&[2, 1, 3, 4])], &[]),
        x().then("Tile", &[whole(&[1, 2, 1])], &[]),
        x().then("Gather", &[whole(&[2, 0])], &[("axis", int(1))]),
        x().then("Shape", &[], &[]).then("ConstantOfShape", &[], &[]).then(
            "Add",
            &[Constant::Input],
            &[],
        ),
        x().then("Unsqueeze", &[whole(&[0])], &[]).then(
            "Resize",
            &[Floats(&[0]), Floats(&[0]), whole(&[1, 2, 6, 8])],
            &[("mode", text("nearest"))],
        ),
        Chain::new(&[1, 4, 2, 2]).then("DepthToSpace", &[], &[("blocksize", int(2))]),
        Chain::new(&[1, 1, 4, 4]).then("SpaceToDepth", &[], &[("blocksize", int(2))]),
        x().then("Cast", &[], &[("to", int(6))]).then("Cast", &[], &[("to", int(1))]),
        x().then("ReduceMean", &[], &[("axes", ints(&[1])), ("keepdims", int(0))]),
        x().then("ArgMax", &[], &[("axis", int(1)), ("keepdims", int(0))]),
    ]
}

fn networks() -> Vec<Chain> {
    use Constant::{Code, Floats, Input, Ints, Number, Same};
    let ints = |numbers: &[i64]| AttributeValue::Ints(numbers.to_vec());
    let int = AttributeValue::Int;
    let scale = || [Number(0.05), Code(Dtype::Uint8, 120)];
    let signed = || [Number(0.02), Code(Dtype::Int8, 0)];
    let attention = Chain::new(&[4, 6]).then("MatMul", &[Floats(&[6, 6])], &[]).then(
        "Transpose",
        &[],
        &[("perm", ints(&[1, 0]))],
    );
    vec![
        Chain::new(&[2, 6])
            .then("Gemm", &[Floats(&[6, 5]), Floats(&[5])], &[])
            .then("Relu", &[], &[])
            .then("Gemm", &[Floats(&[3, 5])], &[("transB", int(1))]),
        attention.then("MatMul", &[Same], &[]),
        Chain::new(&[4, 4]).then("Softmax", &[], &[]).then("MatMul", &[Input], &[]),
        Chain::of(ElementKind::Int64, &[3]).then("Cast", &[], &[("to", int(1))]),
        Chain::new(&[2, 6])
            .then("QuantizeLinear", &scale(), &[])
            .then("DequantizeLinear", &scale(), &[])
            .then("MatMul", &[Floats(&[6, 2])], &[])
            .then("QuantizeLinear", &signed(), &[])
            .then("DequantizeLinear", &signed(), &[]),
        Chain::new(&[2, 2]).then("QuantizeLinear", &scale(), &[]).then(
            "QLinearMatMul",
            &[
                Number(0.05),
                Code(Dtype::Uint8, 120),
                Ints(Dtype::Int8, &[3, -4]),
                Number(0.02),
                Code(Dtype::Int8, 0),
                Number(0.1),
                Code(Dtype::Uint8, 128),
            ],
            &[],
        ),
    ]
}
