//! Operators that are refused, and what a user can do instead.

use crate::error::NodeError;

/// The error for an operator that is not supported.
pub(super) fn unsupported(operator: &str) -> NodeError {
    NodeError::Unsupported { hint: hint(operator) }
}

fn hint(operator: &str) -> &'static str {
    match operator {
        "LSTM" | "GRU" | "RNN" => {
            "it carries state from step to step: unroll it at export, or use a convolution or \
             attention instead"
        }
        "Loop" | "If" | "Scan" => {
            "it is control flow: export with fixed trip counts and fixed conditions, so that \
             only plain operators remain"
        }
        "NonZero" | "Unique" | "Compress" | "NonMaxSuppression" | "StringNormalizer" => {
            "the size of its result depends on the data: end the model before it and do the rest \
             outside"
        }
        "TopK" => "it sorts: end the model before it and choose the best outside",
        "MatMulInteger" | "ConvInteger" | "DynamicQuantizeLinear" | "DynamicQuantizeLSTM" => {
            "it chooses scales while running: use the float model, or quantise it statically (QDQ)"
        }
        "RandomNormal" | "RandomNormalLike" | "RandomUniform" | "RandomUniformLike"
        | "Multinomial" | "Bernoulli" => {
            "it draws random numbers, and every run must give the same: draw them outside and \
             make them an input"
        }
        "DFT" | "STFT" | "MelWeightMatrix" | "HannWindow" | "HammingWindow" | "BlackmanWindow" => {
            "write the transform as a convolution or a matrix product with constant weights"
        }
        "Einsum" => "export it as MatMul, Transpose and Reshape",
        "Attention" | "MultiHeadAttention" | "GroupQueryAttention" | "RotaryEmbedding" => {
            "export attention as MatMul and Softmax, without fusing it"
        }
        "SequenceConstruct" | "SequenceAt" | "SequenceEmpty" | "SequenceInsert"
        | "SequenceErase" | "SequenceLength" | "SplitToSequence" | "ConcatFromSequence"
        | "Optional" | "OptionalGetElement" | "OptionalHasElement" => {
            "it works on lists of tensors: export with plain tensors"
        }
        "GridSample" | "RoiAlign" | "AffineGrid" | "DeformConv" | "MaxUnpool" | "MaxRoiPool" => {
            "it reads at places that depend on the data: end the model before it"
        }
        "Mod" => "compute remainders outside of the model",
        _ => "rewrite it with supported operators before exporting",
    }
}
