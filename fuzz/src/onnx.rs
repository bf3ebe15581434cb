//! ONNX files from strangers.

use tg_onnx::generate::samples;
use tg_onnx::{Choices, Graph, Limits, Options, Source};
use tg_tensor::Model;

/// Bytes of a file that is looked at.
pub const FILE_BYTES_MAX: usize = 1 << 16;

/// Elements of all values of a graph that is imported: an import takes milliseconds.
const ELEMENTS_MAX: usize = 1 << 13;

/// Nodes of a graph that is imported.
const NODES_MAX: usize = 32;

/// Small limits, so that whatever gets past them takes memory or time that it should not.
fn options() -> Options {
    let limits = Limits {
        file_bytes: FILE_BYTES_MAX,
        elements: 1 << 12,
        elements_total: 1 << 15,
        folded_elements: 1 << 13,
        folded_steps: 1 << 16,
    };
    Options { limits, ..Options::default() }
}

/// Reads a file; a graph that comes out of it is imported and the model read back.
pub fn check(bytes: &[u8]) {
    let options = options();
    let Ok(graph) = Graph::read(bytes, &options) else { return };
    let elements = |value: &tg_onnx::Value| value.shape.iter().product::<usize>();
    let total: usize = graph.values().iter().map(elements).sum();
    if total > ELEMENTS_MAX || graph.nodes().len() > NODES_MAX {
        return;
    }
    let Ok(source) = Source::read(bytes, &options) else { return };
    let (calibration, evaluation) = (samples(&graph, 1, 2), samples(&graph, 2, 1));
    let choices = Choices { activation_bits: if bytes.len().is_multiple_of(2) { 8 } else { 15 } };
    let Ok(imported) = source.import(&calibration, &evaluation, choices) else { return };
    let again = Model::from_bytes(&imported.model.to_bytes());
    assert_eq!(again.as_ref(), Ok(&imported.model), "a model is read back from its bytes");
}
