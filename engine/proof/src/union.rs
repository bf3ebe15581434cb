//! Several models as one: jobs of different models in one transcript, with one set of look-ups and
//! one opening.
//!
//! The models stand side by side in one program. A model with twice as many inferences as another
//! stands there twice, with the same constants, so all parts have the same number of inferences:
//! the greatest that divides them all. What is proven of this program is proven as of any other;
//! its id follows from the parts, so a proof about one union is none about another.

use crate::statement::Statement;
use std::sync::Arc;
use tg_tensor::program::{Parts, Program, ProgramError, ValueId};
use tg_tensor::{Model, ModelError, Tensor};

/// The tensors of one inference.
type Tensors = Vec<Tensor>;

/// Models with their numbers of inferences, proven and verified together.
///
/// ```text
/// let union = Union::new(&[(digits, 64), (words, 32)])?;
/// let prover = Prover::new(union.model().clone(), Mode::Public, union.batch())?;
/// let (statement, proof) = prover.prove(union.inputs(jobs)?, context)?;
/// ```
#[derive(Clone, Debug)]
pub struct Union {
    model: Arc<Model>,
    batch: usize,
    members: Vec<Member>,
}

/// What is known of a model of the union.
#[derive(Clone, Copy, Debug)]
struct Member {
    copies: usize,
    inputs: usize,
    outputs: usize,
}

/// Why models or their jobs cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum UnionError {
    /// No models, or one without inferences.
    #[error("there is nothing to prove of member {member}")]
    Empty {
        /// Which one.
        member: usize,
    },
    /// All together are no program.
    #[error("the models are too large for one program")]
    Program(#[from] ProgramError),
    /// All together are no model.
    #[error("the models are no model together")]
    Model(#[from] ModelError),
    /// Another number of members or inferences.
    #[error("member {member} has {found} inferences, expected are {expected}")]
    Inferences {
        /// Which one; the number of members if they are too many or too few.
        member: usize,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// Another number of tensors.
    #[error("inference {inference} of member {member} has {found} tensors, not {expected}")]
    Tensors {
        /// Which member.
        member: usize,
        /// Which of its inferences.
        inference: usize,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
}

impl Union {
    /// Puts models together, each with its number of inferences.
    pub fn new(members: &[(Arc<Model>, usize)]) -> Result<Self, UnionError> {
        let batch = members.iter().fold(0, |batch, (_, count)| greatest_divisor(batch, *count));
        if let Some(member) = members.iter().position(|(_, count)| *count == 0) {
            return Err(UnionError::Empty { member });
        }
        if batch == 0 {
            return Err(UnionError::Empty { member: 0 });
        }
        let mut parts = Parts::default();
        let mut constants = Vec::new();
        for (model, count) in members {
            for _ in 0..count / batch {
                parts.inputs.extend_from_slice(model.program().inputs());
            }
            parts.constants.extend_from_slice(model.program().constants());
            constants.extend_from_slice(model.constants());
        }
        let mut first = First { constant: parts.inputs.len(), ..First::default() };
        first.operation = first.constant + parts.constants.len();
        let mut known = Vec::with_capacity(members.len());
        for (model, count) in members {
            let program = model.program();
            for _ in 0..count / batch {
                first.add(program, &mut parts);
            }
            first.constant += program.constants().len();
            let (inputs, outputs) = (program.inputs().len(), program.outputs().len());
            known.push(Member { copies: count / batch, inputs, outputs });
        }
        let model = Arc::new(Model::new(Program::new(parts)?, constants)?);
        Ok(Self { model, batch, members: known })
    }

    /// The model that all of them are together.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// How many inferences of it there are.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The inputs of each inference of the union, from those of each member's inferences.
    pub fn inputs(&self, jobs: &[Vec<Tensors>]) -> Result<Vec<Tensors>, UnionError> {
        self.gather(jobs, |member| member.inputs)
    }

    /// The statement about the union, from the inputs and outputs of each member's inferences.
    pub fn statement(
        &self,
        inputs: &[Vec<Tensors>],
        outputs: &[Vec<Tensors>],
        context: Vec<u8>,
    ) -> Result<Statement, UnionError> {
        let inputs = self.gather(inputs, |member| member.inputs)?;
        let outputs = self.gather(outputs, |member| member.outputs)?;
        Ok(Statement { inputs, outputs, context })
    }

    /// The outputs of each member's inferences, from those of the union; `None` if there are not as
    /// many as the union has.
    #[must_use]
    pub fn outputs(&self, made: &[Tensors]) -> Option<Vec<Vec<Tensors>>> {
        let mut found = Vec::with_capacity(self.members.len());
        let mut from = 0;
        for member in &self.members {
            let mut all = Vec::with_capacity(member.copies * self.batch);
            for _ in 0..member.copies {
                for tensors in made {
                    all.push(tensors.get(from..from + member.outputs)?.to_vec());
                }
                from += member.outputs;
            }
            found.push(all);
        }
        (made.len() == self.batch).then_some(found)
    }

    fn gather(
        &self,
        jobs: &[Vec<Tensors>],
        count: impl Fn(&Member) -> usize,
    ) -> Result<Vec<Tensors>, UnionError> {
        if jobs.len() != self.members.len() {
            let (found, expected) = (jobs.len(), self.members.len());
            return Err(UnionError::Inferences { member: found, found, expected });
        }
        let mut gathered = vec![Vec::new(); self.batch];
        for (index, (member, inferences)) in self.members.iter().zip(jobs).enumerate() {
            let (found, expected) = (inferences.len(), member.copies * self.batch);
            if found != expected {
                return Err(UnionError::Inferences { member: index, found, expected });
            }
            for (inference, tensors) in inferences.iter().enumerate() {
                // Without this check tensors of one member could be taken for those of the next.
                let (found, expected) = (tensors.len(), count(member));
                if found != expected {
                    return Err(UnionError::Tensors { member: index, inference, found, expected });
                }
                gathered[inference % self.batch].extend_from_slice(tensors);
            }
        }
        Ok(gathered)
    }
}

/// The number of the first input, constant and operation of the next copy.
#[derive(Default)]
struct First {
    input: usize,
    constant: usize,
    operation: usize,
}

impl First {
    /// Adds the operations and outputs of a copy whose inputs and constants are there.
    fn add(&mut self, program: &Program, parts: &mut Parts) {
        let (inputs, constants) = (program.inputs().len(), program.constants().len());
        let renumber = |value: ValueId| {
            let own = value.index();
            let number = match own.checked_sub(inputs) {
                None => self.input + own,
                Some(constant) if constant < constants => self.constant + constant,
                Some(behind) => self.operation + behind - constants,
            };
            ValueId { number: number as u32 }
        };
        for operation in program.operations() {
            let mut operation = operation.clone();
            operation.primitive = operation.primitive.renumbered(renumber);
            parts.operations.push(operation);
        }
        for output in program.outputs() {
            let mut output = output.clone();
            output.value = renumber(output.value);
            parts.outputs.push(output);
        }
        self.input += inputs;
        self.operation += program.operations().len();
    }
}

fn greatest_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::programs::Net;
    use crate::{Mode, Prover, Verifier, VerifyError, verify_all};

    fn mixed() -> (Union, Vec<Vec<Tensors>>) {
        let union = Union::new(&[(Net::Dense.model(), 4), (Net::Convolution.model(), 2)]);
        let of = |net: Net, count: i64| (0..count).map(|seed| net.inputs(seed)).collect();
        (union.expect("two models"), vec![of(Net::Dense, 4), of(Net::Convolution, 2)])
    }

    #[test]
    fn union_of_different_models_is_proven_in_one_proof() {
        let (union, jobs) = mixed();
        assert_eq!(union.batch(), 2);
        for mode in [Mode::Public, Mode::Committed] {
            let prover = Prover::new(union.model().clone(), mode, union.batch()).expect("a plan");
            let inputs = union.inputs(&jobs).expect("as many as there are");
            let (statement, proof) = prover.prove(inputs, b"both".to_vec()).expect("inputs fit");
            let made = union.outputs(&statement.outputs).expect("as many as there are");
            let single = |net: Net, seed: i64| {
                let prover = Prover::new(net.model(), Mode::Public, 1).expect("a plan");
                prover.prove(vec![net.inputs(seed)], Vec::new()).expect("inputs fit").0.outputs
            };
            assert_eq!(made[0][3..], single(Net::Dense, 3));
            assert_eq!(made[1][1..], single(Net::Convolution, 1));
            let verifier = match mode {
                Mode::Public => Verifier::public(union.model().clone(), 2),
                Mode::Committed => {
                    let program = union.model().program().clone();
                    Verifier::committed(program, prover.commitment(), 2)
                }
            };
            let verifier = verifier.expect("a plan");
            let stated = union.statement(&jobs, &made, b"both".to_vec()).expect("they fit");
            assert_eq!(stated, statement);
            let bytes = proof.to_bytes();
            assert!(verifier.verify(&stated, &bytes).is_ok());
            // One number of one member is another.
            for member in 0..2 {
                let mut forged = made.clone();
                let mut numbers = forged[member][1][0].to_numbers();
                numbers[0] = if numbers[0] == 0 { 1 } else { 0 };
                let output = &union.model().program().outputs()[2 * member];
                let spec = union.model().program().specs()[output.value.index()];
                forged[member][1][0] = Tensor::new(&spec, &numbers).expect("of the range");
                let stated = union.statement(&jobs, &forged, b"both".to_vec()).expect("they fit");
                assert!(verifier.verify(&stated, &bytes).is_err());
            }
        }
    }

    #[test]
    fn union_with_tensors_of_a_neighbour_is_refused() {
        let (union, mut jobs) = mixed();
        let moved = jobs[1][0].remove(0);
        jobs[0][0].push(moved);
        let found = union.inputs(&jobs);
        assert!(matches!(found, Err(UnionError::Tensors { member: 0, inference: 0, .. })));
        jobs.pop();
        assert!(matches!(union.inputs(&jobs), Err(UnionError::Inferences { found: 1, .. })));
        assert!(matches!(Union::new(&[]), Err(UnionError::Empty { member: 0 })));
        let none = Union::new(&[(Net::Dense.model(), 2), (Net::Dense.model(), 0)]);
        assert!(matches!(none, Err(UnionError::Empty { member: 1 })));
    }

    #[test]
    fn separate_proofs_are_verified_together_and_the_forged_one_is_named() {
        let nets = [Net::Dense, Net::Convolution, Net::Dense];
        let made = nets.map(|net| {
            let prover = Prover::new(net.model(), Mode::Public, 1).expect("a plan");
            let verifier = Verifier::public(net.model(), 1).expect("a plan");
            let (statement, proof) =
                prover.prove(vec![net.inputs(5)], Vec::new()).expect("inputs fit");
            (verifier, statement, proof.to_bytes())
        });
        let mut proofs: Vec<_> = made.iter().map(|(v, s, b)| (v, s, b.as_slice())).collect();
        assert!(verify_all(&proofs).iter().all(Result::is_ok));
        proofs[1].2 = &proofs[1].2[1..];
        let found = verify_all(&proofs);
        assert!(matches!(found[1], Err(VerifyError::Bytes)), "{:?}", found[1]);
        assert!(found[0].is_ok() && found[2].is_ok());
    }

    /// Goal: a proof does not depend on the machine. Method: pools of one to four threads, with
    /// public and with secret weights.
    #[test]
    fn proof_has_the_same_bytes_with_any_number_of_threads() {
        let (union, jobs) = mixed();
        for mode in [Mode::Public, Mode::Committed] {
            let bytes = [1, 2, 4].map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                pool.expect("threads").install(|| {
                    let prover = Prover::new(union.model().clone(), mode, 2).expect("a plan");
                    let inputs = union.inputs(&jobs).expect("as many as there are");
                    prover.prove(inputs, Vec::new()).expect("inputs fit").1.to_bytes()
                })
            });
            assert!(bytes.iter().all(|other| *other == bytes[0]));
        }
    }
}
