//! Results of sealed data: honest ones, lies, and what the chain sees of them.

use super::super::programs::Net;
use super::least_micros;
use crate::court::hidden::{
    Committer, HiddenShown, inputs_id, output_id, output_seed, prover, seeds,
};
use crate::court::secret::{self, SecretKey};
use crate::court::{Court, CourtError, context, costs, verify};
use crate::hiding::ZkProver;
use expect_test::expect;
use std::sync::Arc;
use tg_tensor::{Model, Options, Runner, Tensor};
use tg_types::tx::SHOWN_BYTES_MAX;
use tg_types::weights::WEIGHTS_PROOFS_MAX;
use tg_types::{
    AccountId, Bytes, Decode as _, Encode as _, GenesisHash, Hash32, JobId, List, NodeId,
    RegistrationClaim, ResultClaim, ResultVerifier as _, ShownBy,
};

const SECRET: [u8; 32] = [9; 32];
const RUNS: u8 = 5;

struct Case {
    program: Vec<u8>,
    claim: ResultClaim,
    shown: HiddenShown,
}

impl Case {
    /// The honest result of a run.
    fn new(model: &Arc<Model>, net: Net, run: u8) -> Self {
        Self::of(&prover(model).expect("provable"), model, net, run)
    }

    fn of(prover: &ZkProver, model: &Arc<Model>, net: Net, run: u8) -> Self {
        let is_secret = prover.commitment().is_some_and(|weights| weights.openings() > 0);
        let (genesis, job) = (GenesisHash::new([1; 32]), JobId::new([2; 32]));
        let (node, inputs) = (NodeId::new([3; 32]), net.inputs(1));
        let committer = Committer::new(model.program()).expect("provable");
        let roots = committer.inputs(&inputs, &SECRET, RUNS).expect("fit");
        let bound = context(&genesis, &job, &node);
        let proven = prover.prove(&[inputs], &seeds(&SECRET, run), bound);
        let (_, proof) = proven.expect("proves");
        let output = committer.output(&right(model, net), output_seed(&SECRET, run));
        let output = output.expect("fit");
        let weights = prover.commitment().expect("committed");
        let by = ShownBy::Zk { weights: weights.id(), inputs: inputs_id(&roots), run, is_secret };
        let claim = ResultClaim {
            genesis,
            job,
            node,
            program: model.id(),
            weights: model.weights_root(),
            inputs: Hash32::new([4; 32]),
            output: output_id(&output),
            by,
        };
        let shown = HiddenShown {
            weights: weights.to_bytes(),
            inputs: List::new(roots).expect("few"),
            output,
            proof: Bytes::new(proof.to_bytes()).expect("short"),
        };
        Self { program: model.program().to_bytes(), claim, shown }
    }

    fn check(&self) -> Result<(), CourtError> {
        let verified = verify(&self.program, &self.claim, &self.shown.to_bytes())?;
        assert!(verified.report.is_some_and(|report| report.bits >= 100.0));
        assert!(verified.inputs.is_empty() && verified.outputs.is_empty());
        Ok(())
    }
}

fn right(model: &Arc<Model>, net: Net) -> Vec<Tensor> {
    Runner::new(Arc::clone(model), Options::default()).run(&net.inputs(1)).expect("runs")
}

/// Goal: honest results pass, in the time that they cost. Method: the networks of the tests, a
/// generous factor for busy machines.
#[test]
fn hidden_results_are_verified_within_their_cost() {
    for net in [Net::Dense, Net::Convolution, Net::Attention] {
        let model = net.model();
        let case = Case::new(&model, net, 1);
        let took = least_micros(|| assert_eq!(case.check(), Ok(()), "{net:?}"));
        let cost = costs(model.program()).zk.expect("can be shown");
        assert!(took <= 10 * cost, "{net:?}: took {took}, cost {cost}");
    }
}

/// Goal: a result stands for one network, job, provider, run, output, input and model only. Method:
/// an honest case with one of them changed at a time.
#[test]
fn hidden_result_for_something_else_is_refused() {
    type Change = fn(&mut Case);
    fn by(case: &mut Case) -> (&mut Hash32, &mut Hash32, &mut u8) {
        let ShownBy::Zk { weights, inputs, run, .. } = &mut case.claim.by else {
            unreachable!("a hidden result");
        };
        (weights, inputs, run)
    }
    let changes: [(&str, Change); 11] = [
        ("network", |case| case.claim.genesis = GenesisHash::new([7; 32])),
        ("job", |case| case.claim.job = JobId::new([7; 32])),
        ("provider", |case| case.claim.node = NodeId::new([7; 32])),
        ("output", |case| case.claim.output = Hash32::new([7; 32])),
        ("another run", |case| *by(case).2 = 2),
        ("no run", |case| *by(case).2 = RUNS),
        ("weights", |case| *by(case).0 = Hash32::new([7; 32])),
        ("inputs", |case| *by(case).1 = Hash32::new([7; 32])),
        ("way", |case| case.claim.by = ShownBy::Rerun),
        ("a root that was named before", |case| {
            // The liar may name what it likes as output, and commit to it.
            case.shown.output = case.shown.inputs.as_slice()[0];
            case.claim.output = output_id(&case.shown.output);
        }),
        ("no commitment", |case| {
            case.shown.output = Hash32::new([255; 32]);
            case.claim.output = output_id(&case.shown.output);
        }),
    ];
    let model = Net::Dense.model();
    let prover = prover(&model).expect("provable");
    for (what, change) in changes {
        let mut case = Case::of(&prover, &model, Net::Dense, 1);
        change(&mut case);
        assert!(case.check().is_err(), "{what}");
    }
}

/// Goal: a provider that lies about outputs shows nothing, though it commits to its lie and names
/// it rightly. Method: the honest proof with a commitment to outputs of which one is changed.
#[test]
fn hidden_lie_is_refused_and_not_opened_as_the_truth() {
    let (net, model) = (Net::Dense, Net::Dense.model());
    let mut case = Case::new(&model, net, 0);
    let outputs = right(&model, net);
    let output = model.program().outputs()[0].value;
    let spec = model.program().spec(output).expect("is there");
    let mut numbers = outputs[0].to_numbers();
    numbers[0] = if numbers[0] == i64::from(spec.hi) { spec.lo.into() } else { numbers[0] + 1 };
    let mut lie = outputs.clone();
    lie[0] = Tensor::new(&spec, &numbers).expect("in range");
    let committer = Committer::new(model.program()).expect("provable");
    let seed = output_seed(&SECRET, 0);
    assert_eq!(committer.output(&outputs, seed), Ok(case.shown.output));
    case.shown.output = committer.output(&lie, seed).expect("fits");
    assert_ne!(output_id(&case.shown.output), case.claim.output, "no opening of the truth");
    case.claim.output = output_id(&case.shown.output);
    assert!(matches!(case.check(), Err(CourtError::Proof(_))));
}

const KEY: SecretKey = SecretKey { seed: [5; 32], proofs: WEIGHTS_PROOFS_MAX };
const CHAIN: GenesisHash = GenesisHash::new([1; 32]);

/// A registration with all that it claims.
fn registration(model: &Arc<Model>, key: &SecretKey) -> (RegistrationClaim, Vec<u8>) {
    let owner = AccountId::new([8; 32]).expect("not a small-order key");
    let bound = secret::context(&CHAIN, &owner);
    let (weights, proof) = secret::register(model, key, bound).expect("it fits");
    (RegistrationClaim { genesis: CHAIN, owner, program: model.id(), weights }, proof)
}

/// Goal: results with registered weights pass, within the cost of those with public ones, also if
/// the commitment is for as many proofs as there may be; and only if the ledger says that they are
/// registered. Method: the same result with and without its word.
#[test]
fn results_of_secret_weights_pass_if_they_are_registered() {
    for net in [Net::Dense, Net::Convolution, Net::Attention] {
        let model = net.model();
        let prover = secret::prover(&model, &KEY).expect("provable");
        let mut case = Case::of(&prover, &model, net, 0);
        let took = least_micros(|| assert_eq!(case.check(), Ok(()), "{net:?}"));
        let cost = costs(model.program()).zk.expect("can be shown");
        assert!(took <= 10 * cost, "{net:?}: took {took}, cost {cost}");
        let length = case.shown.to_bytes().len();
        assert!(length <= SHOWN_BYTES_MAX, "{net:?}: {length} bytes");
        println!("{net:?}: a result took {took} of {cost}, {length} bytes");
        let ShownBy::Zk { is_secret, .. } = &mut case.claim.by else { unreachable!("hidden") };
        *is_secret = false;
        assert_eq!(case.check(), Err(CourtError::Other("commitments to weights")));
        let second = prover.prove(&[net.inputs(1)], &seeds(&SECRET, 1), Vec::new());
        assert!(second.is_err(), "a prover makes one proof");
    }
    let model = Net::Dense.model();
    let mut public = Case::new(&model, Net::Dense, 0);
    let ShownBy::Zk { is_secret, .. } = &mut public.claim.by else { unreachable!("hidden") };
    *is_secret = true;
    assert_eq!(public.check(), Err(CourtError::Other("commitments to weights")));
}

#[test]
fn registrations_are_verified_within_their_cost() {
    for net in [Net::Dense, Net::Convolution, Net::Attention] {
        let model = net.model();
        let (claim, proof) = registration(&model, &KEY);
        let program = model.program().to_bytes();
        assert_eq!(secret::commit(&model, &KEY), Ok(claim.weights), "one for all");
        let check = || secret::verify(&program, &claim, &proof).map(|report| report.bits >= 100.0);
        let took = least_micros(|| assert_eq!(check(), Ok(true), "{net:?}"));
        let cost = costs(model.program()).registration.expect("can be registered");
        assert!(took <= 10 * cost, "{net:?}: took {took}, cost {cost}");
        println!("{net:?}: a registration took {took} of {cost}, {} bytes", proof.len());
        assert!(registration(&model, &KEY).1 == proof, "proven again, it is the same");
    }
}

/// Goal: a registration is one of a network, an owner, a program and a commitment with its number.
/// Method: an honest one with one of them changed, cut, longer or altered bytes, and another proof.
#[test]
fn registration_of_anything_else_is_refused() {
    let model = Net::Dense.model();
    let key = SecretKey { seed: [5; 32], proofs: 9 };
    let (claim, proof) = registration(&model, &key);
    let program = model.program().to_bytes();
    let court = Court::default();
    assert!(court.verify_registration(&program, &claim, &proof));
    assert!(court.verify_registration(&[], &claim, &proof), "the verdict is remembered");
    type Change = fn(&mut RegistrationClaim);
    let changes: [(&str, Change); 7] = [
        ("network", |claim| claim.genesis = GenesisHash::new([7; 32])),
        ("owner", |claim| claim.owner = AccountId::new([9; 32]).expect("not of small order")),
        ("program", |claim| claim.program = Hash32::new([7; 32])),
        ("root", |claim| claim.weights.root = Hash32::new([7; 32])),
        ("no root", |claim| claim.weights.root = Hash32::new([255; 32])),
        ("more proofs", |claim| claim.weights.proofs += 1),
        ("too many proofs", |claim| claim.weights.proofs = WEIGHTS_PROOFS_MAX + 1),
    ];
    for (what, change) in changes {
        let mut other = claim;
        change(&mut other);
        assert!(!court.verify_registration(&program, &other, &proof), "{what}");
    }
    for cut in [0, 1, 200, proof.len() / 2, proof.len() - 1] {
        assert!(!court.verify_registration(&program, &claim, &proof[..cut]), "cut at {cut}");
    }
    let longer = [proof.as_slice(), &[0]].concat();
    assert!(!court.verify_registration(&program, &claim, &longer));
    for at in (0..proof.len()).step_by(proof.len() / 20) {
        let mut altered = proof.clone();
        altered[at] ^= 1;
        assert!(!court.verify_registration(&program, &claim, &altered), "byte {at}");
    }
    let conv = Net::Convolution.model();
    let other = RegistrationClaim { program: conv.id(), ..claim };
    assert!(!court.verify_registration(&conv.program().to_bytes(), &other, &proof), "program");
    let run = Case::of(&secret::prover(&model, &key).expect("provable"), &model, Net::Dense, 0);
    let bytes = run.shown.proof.as_slice();
    assert!(!court.verify_registration(&program, &claim, bytes), "a run is no registration");
}

/// Goal: a job's name of its weights is new for every job, and so tells nothing of them.
#[test]
fn name_of_secret_weights_depends_on_the_job() {
    let root = Net::Dense.model().weights_root();
    assert_ne!(secret::name(&root, &[1; 32]), secret::name(&root, &[2; 32]));
    assert_ne!(secret::name(&root, &SECRET), root);
    assert_eq!(format!("{KEY:?}"), "SecretKey { proofs: 256, .. }");
    let names = [
        format!("name {}", hex(secret::name(&Hash32::new([1; 32]), &SECRET).as_bytes())),
        format!("commitment {}", {
            let key = SecretKey { seed: [5; 32], proofs: 9 };
            let weights = secret::commit(&Net::Dense.model(), &key).expect("provable");
            hex(weights.id().as_bytes())
        }),
    ];
    expect![[r#"
        name 836c903b5727dd68af3c8dddf1faa5ac5f8545a2a11ab14fa64540232cd7c948
        commitment 2235cffba25c81ee2da11a34c05faa69226af06d4f673b9b7b438a38698ce9d2
    "#]]
    .assert_eq(&names.map(|name| name + "\n").concat());
}

/// Goal: what stands in a block says nothing that the same inputs would say again. Method: two jobs
/// about the same inputs with other secrets have no commitment in common; within a job no two runs
/// have.
#[test]
fn equal_inputs_cannot_be_told_by_their_commitments() {
    let model = Net::Dense.model();
    let committer = Committer::new(model.program()).expect("provable");
    let inputs = Net::Dense.inputs(1);
    let roots = |secret| committer.inputs(&inputs, &[secret; 32], RUNS).expect("fit");
    let mut all = [roots(1), roots(2)].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2 * usize::from(RUNS));
    assert_eq!(roots(1), roots(1));
}

#[test]
fn bytes_that_show_no_hidden_result_are_refused() {
    let model = Net::Dense.model();
    let case = Case::new(&model, Net::Dense, 0);
    let bytes = case.shown.to_bytes();
    assert_eq!(HiddenShown::from_bytes(&bytes), Ok(case.shown));
    let check = |bytes: &[u8]| verify(&case.program, &case.claim, bytes).map(drop);
    for cut in [0, 33, 200, bytes.len() / 2, bytes.len() - 1] {
        assert!(check(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let mut changed = bytes;
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    assert!(check(&changed).is_err());
}

/// Goal: outputs that name one value are all what was proven. Method: a provider that commits to
/// the truth for the first of two such outputs, and to something else for the other.
#[test]
fn second_name_of_an_output_is_bound_too() {
    let model = Net::Dense.model_with_outputs(2);
    let outputs = right(&model, Net::Dense);
    let committer = Committer::new(model.program()).expect("provable");
    let seed = output_seed(&SECRET, 0);
    assert_eq!(Case::new(&model, Net::Dense, 0).check(), Ok(()));
    assert_eq!(outputs[0], outputs[1]);
    let spec = model.program().spec(model.program().outputs()[1].value).expect("is there");
    let other = Tensor::new(&spec, &vec![spec.lo.into(); outputs[1].len()]).expect("in range");
    let refused = committer.output(&[outputs[0].clone(), other], seed);
    assert!(matches!(refused, Err(CourtError::Proof(_))), "{refused:?}");
}

/// Goal: a provider that proves a run again sends the same bytes, since two proofs about one
/// commitment would show more than it hides. Method: the same seeds and context, twice.
#[test]
fn run_that_is_proven_again_has_the_same_proof() {
    let model = Net::Dense.model();
    let shown = || Case::new(&model, Net::Dense, 1).shown.to_bytes();
    assert!(shown() == shown());
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Goal: what clients, providers and blocks of different versions must agree on does not change
/// unnoticed. Method: bytes and names of fixed numbers.
#[test]
fn formats_of_hidden_results_stay_as_they_are() {
    let (first, second) = (Hash32::new([2; 32]), Hash32::new([3; 32]));
    let shown = HiddenShown {
        weights: [1; 34],
        inputs: List::new(vec![first, second]).expect("two"),
        output: Hash32::new([4; 32]),
        proof: Bytes::new(vec![5, 6, 7]).expect("short"),
    };
    let bytes = shown.to_bytes();
    assert_eq!(HiddenShown::from_bytes(&bytes), Ok(shown));
    let names = [
        format!("shown {}", bytes.chunks(32).map(hex).collect::<Vec<_>>().join("\n      ")),
        format!("two inputs {}", hex(inputs_id(&[first, second]).as_bytes())),
        format!("one input {}", hex(inputs_id(&[first]).as_bytes())),
        format!("output {}", hex(output_id(&first).as_bytes())),
        format!("first seed {}", hex(output_seed(&SECRET, 0))),
        format!("last seed {}", hex(output_seed(&SECRET, 8))),
    ];
    expect![[r#"
        shown 0101010101010101010101010101010101010101010101010101010101010101
              0101020202020202020202020202020202020202020202020202020202020202
              0202020303030303030303030303030303030303030303030303030303030303
              0303030404040404040404040404040404040404040404040404040404040404
              04040403050607
        two inputs bed185c00ed862fe3e6d8a95ce30e03035cdff6e27015eb83eeae6368390b63c
        one input 8d68c42bc979acdb24da211c354ef7c18ddbaf4ad42662acdb00e3b901e6dd9d
        output 7196d7cf84e7479974f54a1c78220387637df99f91b77838794e91be7cfb22d5
        first seed afe7c907950a853cd9c2557dbb48b694dad032f176594e9ecc3355d9fca0785f
        last seed 19226f02c297b641f60a9bf9922cd56bd98e11053588424c22ecd1a0dd818aca
    "#]]
    .assert_eq(&names.map(|name| name + "\n").concat());
}

/// Goal: the commitments that jobs and results name do not change unnoticed, and with them the
/// parameters that all validators choose.
#[test]
fn commitments_of_hidden_results_stay_as_they_are() {
    let (net, model) = (Net::Dense, Net::Dense.model());
    let committer = Committer::new(model.program()).expect("provable");
    let roots = committer.inputs(&net.inputs(1), &SECRET, 1).expect("fit");
    let output = committer.output(&right(&model, net), output_seed(&SECRET, 0)).expect("fit");
    let names = [roots[0], output].map(|root| hex(root.as_bytes()) + "\n").concat();
    expect![[r#"
        3c5ab1466a1ee17f3fdde6fb4496afec592328c335933c622b67423323e03f1d
        5539394a29d85e32203011993c01797c5dab62cf18e2f9f9205109675e0ce374
    "#]]
    .assert_eq(&names);
}
