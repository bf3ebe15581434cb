//! Random programs: what can be proven verifies, and stops to when one thing is changed.

use super::{CONTEXT, verifier};
use crate::{Mode, PlanError, Prover};
use arbtest::arbitrary::{Result, Unstructured};
use std::cell::Cell;
use std::sync::Arc;
use tg_tensor::program::{Label, Output, Parts, Program, Shape, ValueId};
use tg_tensor::{Model, Tensor, sample};

/// A part of a random program that can be proven: the latest operation of which that is true, as
/// the only output.
pub(crate) fn provable(model: &Model) -> Option<Arc<Model>> {
    let program = model.program();
    for operation in (0..program.operations().len()).rev() {
        let value = program.value_of(operation);
        let len = program.operations()[operation].spec.len;
        let shape = Shape::new(vec![len]).ok()?;
        let output = Output { label: Label::lossy("y"), shape, value, scaling: None };
        let parts = Parts {
            inputs: program.inputs().to_vec(),
            constants: program.constants().to_vec(),
            operations: program.operations().to_vec(),
            outputs: vec![output],
        };
        let program = Program::new(parts).ok()?;
        let model = Arc::new(Model::new(program, model.constants().to_vec()).ok()?);
        match Prover::new(model.clone(), Mode::Public, 1) {
            Ok(_) => return Some(model),
            Err(PlanError::Security { .. } | PlanError::Batch { .. }) => panic!("must not happen"),
            Err(_) => {}
        }
    }
    None
}

/// The same tensor with one element changed to another of its range; `None` if there is no other.
pub(crate) fn changed(
    u: &mut Unstructured<'_>,
    tensor: &Tensor,
    model: &Model,
    value: ValueId,
) -> Result<Option<Tensor>> {
    let spec = model.program().specs()[value.index()];
    let mut numbers = tensor.to_numbers();
    let at = u.int_in_range(0..=numbers.len() - 1)?;
    let other = u.int_in_range(i64::from(spec.lo)..=i64::from(spec.hi))?;
    if numbers[at] == other {
        return Ok(None);
    }
    numbers[at] = other;
    Ok(Some(Tensor::new(&spec, &numbers).expect("of the range")))
}

fn check(u: &mut Unstructured<'_>, proofs: &Cell<u32>) -> Result<()> {
    let Some(model) = provable(&sample::model(u)?) else { return Ok(()) };
    let mode = if u.arbitrary()? { Mode::Public } else { Mode::Committed };
    let batch = u.int_in_range(1..=3)?;
    let Ok(prover) = Prover::new(model.clone(), mode, batch) else { return Ok(()) };
    let verifier = verifier(&model, &prover, mode, batch);
    let mut inputs = Vec::new();
    for _ in 0..batch {
        inputs.push(sample::inputs(u, model.program())?);
    }
    let (statement, proof) = prover.prove(inputs, CONTEXT.to_vec()).expect("inputs that fit");
    let bytes = proof.to_bytes();
    let found = verifier.verify(&statement, &bytes);
    assert!(found.is_ok(), "{found:?} {mode:?} batch {batch}: {:#?}", model.program());
    proofs.set(proofs.get() + 1);

    let inference = u.int_in_range(0..=batch - 1)?;
    let mut other = statement.clone();
    let value = model.program().outputs()[0].value;
    if let Some(tensor) = changed(u, &statement.outputs[inference][0], &model, value)? {
        other.outputs[inference][0] = tensor;
        assert!(verifier.verify(&other, &bytes).is_err(), "wrong output accepted");
    }
    let mut other = statement.clone();
    let value = ValueId { number: 0 };
    if let Some(tensor) = changed(u, &statement.inputs[inference][0], &model, value)? {
        other.inputs[inference][0] = tensor;
        assert!(verifier.verify(&other, &bytes).is_err(), "other input accepted");
    }
    let mut other = bytes.clone();
    let at = u.int_in_range(0..=bytes.len() - 1)?;
    other[at] ^= 1 << u.int_in_range(0..=7_u8)?;
    assert!(verifier.verify(&statement, &other).is_err(), "flipped bit accepted at {at}");
    Ok(())
}

/// Goal: no program is proven wrongly, and none that can be planned fails. Method: random programs,
/// modes, batches and inputs; then one output, one input, one bit of the proof is changed.
#[test]
fn prop_random_programs_verify_and_changes_do_not() {
    let proofs = Cell::new(0);
    arbtest::arbtest(|u| check(u, &proofs)).budget_ms(5_000);
    // A few take half a second; a busy machine still makes this many.
    assert!(proofs.get() > 3, "only {} proofs", proofs.get());
}

#[test]
#[ignore = "slow: many more random programs"]
fn prop_random_programs_verify_and_changes_do_not_slow() {
    let proofs = Cell::new(0);
    arbtest::arbtest(|u| check(u, &proofs)).budget_ms(240_000);
    assert!(proofs.get() > 100, "only {} proofs", proofs.get());
}
