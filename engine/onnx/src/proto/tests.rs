//! The file format: what is written is read again, and nothing else does harm.

use expect_test::{Expect, expect};

use super::*;
use crate::dtype::ElementKind;

/// A model with one of everything the format knows here.
fn model() -> ModelProto {
    let tensor = TensorProto {
        name: "w".to_owned(),
        dims: vec![2, 1],
        element: 1,
        floats: vec![1.0, 2.0],
        ..TensorProto::default()
    };
    let raw = TensorProto { element: 7, raw: Some(vec![0; 8]), ..TensorProto::default() };
    let node = NodeProto::new("MatMul", &["x", "w"], &["y"])
        .with("float", AttributeValue::Float(0.5))
        .with("int", AttributeValue::Int(-3))
        .with("text", AttributeValue::Text("SAME_UPPER".to_owned()))
        .with("tensor", AttributeValue::Tensor(raw))
        .with("floats", AttributeValue::Floats(vec![1.0, -1.0]))
        .with("ints", AttributeValue::Ints(vec![1, -1, i64::MAX]))
        .with("texts", AttributeValue::Texts(vec!["a".to_owned(), "b".to_owned()]))
        .with("graph", AttributeValue::Graph);
    let node = NodeProto { name: "m".to_owned(), domain: "ai.onnx".to_owned(), ..node };
    let mut input = ValueInfoProto::tensor("x", ElementKind::Float, &[1, 2]);
    if let Some(shape) = &mut input.shape {
        shape.push(DimensionProto::Param("batch".to_owned()));
        shape.push(DimensionProto::Unknown);
    }
    ModelProto {
        ir_version: 8,
        opsets: vec![OpsetProto { domain: String::new(), version: 17 }],
        graph: GraphProto {
            name: "g".to_owned(),
            nodes: vec![node],
            initializers: vec![tensor],
            inputs: vec![input],
            outputs: vec![ValueInfoProto::tensor("y", ElementKind::Float, &[1, 1])],
            values: vec![ValueInfoProto { name: "z".to_owned(), ..ValueInfoProto::default() }],
        },
    }
}

fn read(bytes: &[u8]) -> Result<ModelProto, ProtoError> {
    ModelProto::read(bytes, FILE_BYTES_MAX)
}

fn check(bytes: &[u8], expected: &Expect) {
    expected.assert_eq(&read(bytes).expect_err("must be refused").to_string());
}

#[test]
fn model_written_and_read_is_the_same() {
    assert_eq!(read(&model().to_bytes()), Ok(model()));
}

#[test]
fn unknown_fields_are_skipped() {
    let mut bytes = model().to_bytes();
    // Field 2 (producer) as text, field 90 as varint, 91 as eight and 92 as four bytes.
    bytes.extend_from_slice(&[0x12, 2, b'h', b'i', 0xd0, 5, 1, 0xd9, 5, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[0xe5, 5, 0, 0, 0, 0]);
    assert_eq!(read(&bytes), Ok(model()));
}

#[test]
fn broken_bytes_are_refused_with_their_position() {
    check(&[], &expect!["the file holds no graph"]);
    check(&[0x3a, 5, 0], &expect!["input ends early: at byte 2 needed 5 more, 1 left"]);
    check(&[0x08, 0x80], &expect!["input ends early: at byte 1 needed 1 more, 0 left"]);
    check(
        &[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2],
        &expect!["integer at byte 1 has more than 64 bits"],
    );
    check(&[0x00, 0], &expect!["field at byte 0 has the number zero"]);
    check(&[0x0b], &expect!["field at byte 0 has the unknown wire form 3"]);
    check(&[0x0a, 1, 0], &expect!["field 1 at byte 2 has content of the wrong form"]);
    check(&[0x38, 1], &expect!["field 7 at byte 1 has content of the wrong form"]);
}

#[test]
fn file_above_the_bound_is_refused() {
    let refused = ModelProto::read(&[0; 9], 8);
    assert_eq!(refused, Err(ProtoError::FileSize { found: 9, max: 8 }));
}

#[test]
fn rank_above_the_bound_is_refused() {
    let mut model = model();
    model.graph.initializers[0].dims = vec![1; RANK_MAX + 1];
    assert!(matches!(read(&model.to_bytes()), Err(ProtoError::TooMany { max: RANK_MAX, .. })));
}

/// Goal: a file of two-byte messages cannot take a hundred times its size in memory.
#[test]
fn too_many_messages_are_refused() {
    let mut graph = Vec::new();
    for _ in 0..NODES_MAX + 1 {
        graph.extend_from_slice(&[0x0a, 0]);
    }
    let wrap = |graph: &[u8]| {
        let mut writer = Writer::default();
        writer.bytes(7, graph);
        writer.finish()
    };
    let refused = read(&wrap(&graph));
    assert!(matches!(refused, Err(ProtoError::TooMany { what: "nodes", .. })));

    let values = [0x6a, 0].repeat(ITEMS_MAX + 1);
    let refused = read(&wrap(&values));
    assert!(matches!(refused, Err(ProtoError::TooMany { what: "messages and texts", .. })));
}

#[test]
fn model_cut_at_any_byte_is_read_or_refused() {
    let bytes = model().to_bytes();
    for end in 0..bytes.len() {
        let _either_is_fine = read(&bytes[..end]);
    }
}

#[test]
fn prop_random_bytes_are_read_or_refused() {
    arbtest::arbtest(|u| {
        let bytes: Vec<u8> = u.arbitrary()?;
        let _either_is_fine = read(&bytes);
        Ok(())
    });
}

#[test]
fn prop_flipped_bytes_are_read_or_refused() {
    let bytes = model().to_bytes();
    arbtest::arbtest(|u| {
        let mut bytes = bytes.clone();
        for _ in 0..u.int_in_range(1..=4)? {
            let at = u.choose_index(bytes.len())?;
            bytes[at] = u.arbitrary()?;
        }
        if let Ok(model) = read(&bytes) {
            let again = read(&model.to_bytes()).map(|model| model.to_bytes());
            assert_eq!(again, Ok(model.to_bytes())); // bytes, because NaN differs from itself
        }
        Ok(())
    });
}
