//! Running a float model: the part that happens inside the sandbox.
//!
//! A stranger's model is read and run by a copy of this program that is alone in a sandbox, never
//! by the provider's process: the reader of the format and a hundred operators are more than
//! anybody can vouch for. The copy knows its part by a word on its command line, reads two files,
//! writes one, and says on standard error why it did not. Nothing else of the program runs in it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::exit;

use tg_float::{Arrays, FloatModel, MODEL_BYTES_MAX, ModelError, RunError};
use tg_sandbox::{INPUT_FOLDER, OUTPUT_FOLDER};
use tg_types::{Decode as _, DecodeError, Encode as _};

/// The input with the model.
pub const MODEL_FILE: &str = "model.onnx";

/// The input with the model's inputs, as [`Arrays`].
pub const INPUTS_FILE: &str = "inputs.arrays";

/// The output with the model's outputs, as [`Arrays`].
pub const OUTPUTS_FILE: &str = "outputs.arrays";

/// The argument that makes a copy of this program run a model; the number of threads follows.
pub(crate) const WORD: &str = "float-run";

/// Exit code of a copy that could not; the reason is on standard error.
const FAILED: i32 = 1;

/// Why a model was not run.
#[derive(Debug, thiserror::Error)]
enum FloatRunError {
    #[error("{path} cannot be read")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} has more than {MODEL_BYTES_MAX} bytes")]
    TooLarge { path: PathBuf },
    #[error("the model cannot be used")]
    Model(#[from] ModelError),
    #[error("the inputs cannot be read")]
    Inputs(#[from] DecodeError),
    #[error("the model was not run")]
    Run(#[from] RunError),
    #[error("the outputs cannot be written")]
    Write(#[source] io::Error),
}

/// Runs a model if this process was started to do so, and then does not return.
///
/// Every program that has a [`crate::task_run::Workshop`] calls this first of all in `main`, after
/// [`tg_sandbox::init_if_asked`].
pub fn run_if_asked() {
    let words: Vec<OsString> = std::env::args_os().skip(1).take(3).collect();
    let [word, threads] = words.as_slice() else { return };
    let threads = threads.to_str().and_then(|threads| threads.parse().ok());
    let Some(threads) = threads.filter(|_| word == WORD) else { return };
    let done = run(Path::new(INPUT_FOLDER), Path::new(OUTPUT_FOLDER), threads);
    exit(match done {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{}", chain(&error));
            FAILED
        }
    });
}

fn run(inputs: &Path, outputs: &Path, threads: NonZeroUsize) -> Result<(), FloatRunError> {
    let model = FloatModel::from_bytes(&read(&inputs.join(MODEL_FILE))?)?.with_threads(threads);
    let given = Arrays::from_bytes(&read(&inputs.join(INPUTS_FILE))?)?;
    let found = model.run(&given)?;
    fs::write(outputs.join(OUTPUTS_FILE), found.to_bytes()).map_err(FloatRunError::Write)
}

fn read(path: &Path) -> Result<Vec<u8>, FloatRunError> {
    let failed = |source| FloatRunError::Read { path: path.to_owned(), source };
    let limit = u64::try_from(MODEL_BYTES_MAX).unwrap_or(u64::MAX);
    let mut file = File::open(path).map_err(failed)?.take(limit);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    let mut more = [0];
    match file.into_inner().read(&mut more).map_err(failed)? {
        0 => Ok(bytes),
        _ => Err(FloatRunError::TooLarge { path: path.to_owned() }),
    }
}

/// An error with everything below it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{FloatRunError, INPUTS_FILE, MODEL_FILE, OUTPUTS_FILE, chain, run};
    use std::fs;
    use std::num::NonZeroUsize;
    use std::path::PathBuf;
    use tg_float::{Array, Arrays, Data};
    use tg_types::{Decode as _, Encode as _};

    /// `y = x + x` for any number of numbers, as `onnx.helper` writes it.
    const TWICE: &[u8] = b"\x08\x08\x42\x04\x0a\x00\x10\x11\x3a\x32\
        \x0a\x0e\x0a\x01x\x0a\x01x\x12\x01y\x22\x03Add\
        \x5a\x0f\x0a\x01x\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x12\x00\
        \x62\x0f\x0a\x01y\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x12\x00";

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("tg-float-run-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }

        fn write(&self, name: &str, bytes: &[u8]) {
            fs::write(self.0.join(name), bytes).expect("writes");
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _left_to_the_system = fs::remove_dir_all(&self.0);
        }
    }

    fn arrays(name: &str, numbers: &[f32]) -> Arrays {
        let mut arrays = Arrays::new();
        let array = Array::new(vec![numbers.len()], Data::F32(numbers.to_vec()));
        arrays.insert(name, array.expect("an array")).expect("a name");
        arrays
    }

    #[test]
    fn model_and_inputs_become_outputs() {
        let folder = Folder::new("runs");
        folder.write(MODEL_FILE, TWICE);
        folder.write(INPUTS_FILE, &arrays("x", &[1.0, -2.5]).to_bytes());
        run(&folder.0, &folder.0, NonZeroUsize::MIN).expect("runs");
        let found = fs::read(folder.0.join(OUTPUTS_FILE)).expect("written");
        assert_eq!(Arrays::from_bytes(&found), Ok(arrays("y", &[2.0, -5.0])));
    }

    #[test]
    fn what_is_wrong_is_said_and_nothing_is_written() {
        let folder = Folder::new("refuses");
        let refuse = || run(&folder.0, &folder.0, NonZeroUsize::MIN).expect_err("refused");
        assert!(matches!(refuse(), FloatRunError::Read { .. }));
        folder.write(MODEL_FILE, b"nonsense");
        assert!(matches!(refuse(), FloatRunError::Model(_)));
        folder.write(MODEL_FILE, TWICE);
        folder.write(INPUTS_FILE, b"nonsense");
        assert!(matches!(refuse(), FloatRunError::Inputs(_)));
        folder.write(INPUTS_FILE, &arrays("z", &[1.0]).to_bytes());
        assert_eq!(chain(&refuse()), "the model was not run: input \"x\" is missing");
        assert!(!folder.0.join(OUTPUTS_FILE).exists());
    }
}
