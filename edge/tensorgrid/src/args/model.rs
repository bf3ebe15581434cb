//! What can be typed after `model` and `bench tensor`.

use clap::{Args, Subcommand};
use std::{num::ParseIntError, path::PathBuf, str::FromStr};

/// `model`
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ModelArguments {
    /// Make a tensor program of an ONNX file and report its accuracy
    Import(ImportArguments),
    /// Show what a program takes, gives and does
    Show(ShowArguments),
    /// Run a program on this machine; an ONNX file is run in floats, for comparison
    Run(RunArguments),
    /// List the programs of a folder
    List(ListArguments),
    /// Commit to the weights of a model that are a secret of yours; the key stays on this machine
    Commit(CommitArguments),
    /// Prove that committed weights fit their program, and register them with the network
    Register(RegisterArguments),
}

/// `model commit`
#[derive(Clone, Debug, Args)]
pub(crate) struct CommitArguments {
    /// The program (.tgp), or an ONNX file
    pub(crate) file: PathBuf,
    /// How many proofs may be made, the registration included. Each job takes as many as it may
    /// have runs and gives back those of runs that never began
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(2..=256))]
    pub(crate) proofs: u16,
    /// Forget the commitment that there is and make another
    #[arg(long)]
    pub(crate) again: bool,
}

/// `model register`
#[derive(Clone, Debug, Args)]
pub(crate) struct RegisterArguments {
    /// The program (.tgp), or an ONNX file
    pub(crate) file: PathBuf,
    /// Write the registration to a file, for no network; proofs of `prove --hide all` belong to it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `model import`
#[derive(Clone, Debug, Args)]
pub(crate) struct ImportArguments {
    /// The ONNX file
    pub(crate) file: PathBuf,
    /// Real inputs (.npy, .npz or .json, samples along the first axis): every second one decides
    /// the integers, the others are compared; generated numbers unless given
    #[arg(long, value_name = "FILE")]
    pub(crate) calibrate: Option<PathBuf>,
    /// Other inputs to compare on; then all of --calibrate decides the integers
    #[arg(long, value_name = "FILE")]
    pub(crate) evaluate: Option<PathBuf>,
    /// File to write; that of the model with the ending .tgp unless given
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Shape of an input whose sides are not fixed, once per input; 1 for each free side otherwise
    #[arg(long, value_name = "NAME=1x3x320x320")]
    pub(crate) shape: Vec<NamedShape>,
    /// Bits of what is multiplied with weights: 8 is fastest and cheapest to prove, more is more
    /// accurate
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(6..=15))]
    pub(crate) bits: u32,
    /// Generated samples, half of them for comparison, if there are no real ones
    #[arg(long, value_name = "N", default_value_t = 128,
          value_parser = clap::value_parser!(u32).range(2..=4096))]
    pub(crate) samples: u32,
    /// Also compare every layer, on one sample
    #[arg(long)]
    pub(crate) layers: bool,
}

/// `model show`
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowArguments {
    /// The program
    pub(crate) file: PathBuf,
    /// List every operation
    #[arg(long)]
    pub(crate) operations: bool,
}

/// `model run`
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArguments {
    /// The program (.tgp), or an ONNX file
    pub(crate) file: PathBuf,
    /// Inputs (.npy, .npz or .json); with several runs along the first axis, all are run
    #[arg(long, value_name = "[NAME=]FILE", required = true)]
    pub(crate) input: Vec<NamedFile>,
    /// File for the outputs (.npy, .npz or .json); a summary is printed in any case
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// cpu, or gpu:N in builds with the feature wgpu
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub(crate) device: DeviceName,
    /// Threads; as many as cores unless given
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) threads: usize,
    /// Use the kernels without SIMD; the result is the same
    #[arg(long)]
    pub(crate) portable: bool,
    /// Commit to every value on the way and print the roots
    #[arg(long)]
    pub(crate) trace: bool,
    /// Outputs to compare with (.npy, .npz or .json)
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    /// Right classes, one for each run: count how often the first output's largest element is it
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,
}

/// `model list`
#[derive(Clone, Debug, Args)]
pub(crate) struct ListArguments {
    /// The folder
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
}

/// `bench tensor`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchTensorArguments {
    /// Folder with lenet.onnx and mlp1024.onnx; models of the same sizes are generated otherwise
    #[arg(long, value_name = "DIR")]
    pub(crate) models: Option<PathBuf>,
    /// The library of onnxruntime to compare with, in builds with the feature onnxruntime
    #[arg(long, value_name = "FILE")]
    pub(crate) onnxruntime: Option<PathBuf>,
    /// Seconds for each figure
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(crate) secs: u64,
}

/// `bench proof`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchProofArguments {
    /// Folder with mlp.onnx, lenet.onnx and mlp1024.onnx; without it, only what needs no files
    #[arg(long, value_name = "DIR")]
    pub(crate) models: Option<PathBuf>,
    /// Measure only these: mlp, lenet, mlp1024, digits, vgg16, gpt2-block
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Inferences in one proof of a model of the folder
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) batch: usize,
    /// A Python that has ezkl 23.0.5, to prove the models of the folder in the same run
    #[arg(long, value_name = "PYTHON")]
    pub(crate) ezkl: Option<PathBuf>,
    /// Repetitions of each step
    #[arg(long, value_name = "N", default_value_t = 9,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) repeats: u32,
}

/// An input's name and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedShape {
    /// The input.
    pub(crate) name: String,
    /// Its sides.
    pub(crate) sides: Vec<usize>,
}

/// Not a named shape.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NamedShapeError {
    /// No `=`.
    #[error("expected NAME=1x3x320x320")]
    Form,
    /// A side that is no number.
    #[error("a side is no number")]
    Side(#[from] ParseIntError),
}

impl FromStr for NamedShape {
    type Err = NamedShapeError;

    fn from_str(text: &str) -> Result<Self, NamedShapeError> {
        let (name, sides) = text.rsplit_once('=').ok_or(NamedShapeError::Form)?;
        let sides: Result<Vec<usize>, ParseIntError> =
            sides.split(['x', ',']).map(str::parse).collect();
        if name.is_empty() {
            return Err(NamedShapeError::Form);
        }
        Ok(Self { name: name.to_owned(), sides: sides? })
    }
}

/// A file, perhaps for one input only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    /// The input it is for; by name inside the file, or by order, unless given.
    pub(crate) name: Option<String>,
    /// The file.
    pub(crate) path: PathBuf,
}

impl FromStr for NamedFile {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once('=') {
            Some((name, path)) if !name.is_empty() => {
                Self { name: Some(name.to_owned()), path: path.into() }
            }
            _ => Self { name: None, path: text.into() },
        })
    }
}

/// Where to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceName {
    /// On the processor.
    Cpu,
    /// On the GPU with this number.
    Gpu(usize),
}

/// Not a device.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("expected cpu or gpu:N, such as gpu:0")]
pub(crate) struct DeviceNameError;

impl FromStr for DeviceName {
    type Err = DeviceNameError;

    fn from_str(text: &str) -> Result<Self, DeviceNameError> {
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            Some(("gpu", number)) => number.parse().map(Self::Gpu).map_err(|_| DeviceNameError),
            _ => Err(DeviceNameError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_shape_takes_names_with_signs_and_refuses_other_forms() {
        let shape: NamedShape = "serving:0=1x43844x1".parse().expect("is one");
        assert_eq!((shape.name.as_str(), shape.sides), ("serving:0", vec![1, 43_844, 1]));
        for text in ["", "x", "=1x2", "x=", "x=1xa", "x=-1"] {
            assert!(text.parse::<NamedShape>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn device_is_cpu_or_a_numbered_gpu() {
        assert_eq!("cpu".parse::<DeviceName>().expect("is one"), DeviceName::Cpu);
        assert_eq!("gpu:1".parse::<DeviceName>().expect("is one"), DeviceName::Gpu(1));
        for text in ["", "gpu", "gpu:", "gpu:x", "tpu:0"] {
            assert!(text.parse::<DeviceName>().is_err(), "{text:?}");
        }
    }
}
