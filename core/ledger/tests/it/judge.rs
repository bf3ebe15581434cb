//! A judge whose programs are easy to write down. A program is "prog" and a name; a run is right if
//! its result is the one computed here; a claim is a depth, an answer a depth and a number of
//! children. From some depth on an answer can be a false word about a right run, and then so are
//! the claims in it.

use tg_types::hash::sha256;
use tg_types::{
    DisputePoint, Encode as _, FillClaim, Hash32, JobSpec, KnownRun, NodeId, ProgramFacts,
    RegistrationClaim, ResultClaim, ResultVerifier, RunClaim, RunResult, ShownBy, StepJudge,
    StepVerdict, TileLot, TraceSecret, VerifyCosts, Work,
};

/// Evidence that convicts, whatever is true.
pub(crate) const REFUTED: &[u8] = b"refuted";
/// Evidence that acquits, whatever is true.
pub(crate) const UPHELD: &[u8] = b"upheld";
/// Evidence that shows the truth.
pub(crate) const STEP: &[u8] = b"step";

/// The judge of the test network.
pub(crate) struct TestJudge;

/// The id of a program.
pub(crate) fn program_id(program: &[u8]) -> Hash32 {
    Hash32::new(sha256(&[program]))
}

/// An answer to a claim of this depth, with so many children.
pub(crate) fn answer(depth: u8, children: u8) -> Vec<u8> {
    vec![b'a', depth, children]
}

/// The same, but false: its claims do not follow from the run.
pub(crate) fn false_answer(depth: u8, children: u8) -> Vec<u8> {
    vec![b'a', depth, children, b'f']
}

/// Whether a claim is a false word.
pub(crate) fn is_false(claim: &[u8]) -> bool {
    matches!(claim, [b'c', _, b'f'])
}

/// The trace that a run with this output has here.
pub(crate) fn trace_of(output: &Hash32) -> TraceSecret {
    TraceSecret::new(Hash32::new(sha256(&[b"trace", output.as_bytes()])))
}

/// The result that an honest run gives.
pub(crate) fn right_result(spec: &JobSpec) -> RunResult {
    let hash = |label: &[u8]| match &spec.work {
        Work::Tensor { program, weights, inputs, .. } => {
            Hash32::new(sha256(&[label, program.as_bytes(), weights.as_bytes(), inputs.as_bytes()]))
        }
        Work::Opaque { task } => Hash32::new(sha256(&[label, task.as_bytes()])),
    };
    let output = hash(b"output");
    RunResult {
        output,
        trace: trace_of(&output).root(),
        package: hash(b"package"),
        package_bytes: 77,
    }
}

/// The root that an honest node commits to.
pub(crate) fn filled_root(seed: &Hash32, blocks: u32) -> Hash32 {
    Hash32::new(sha256(&[b"filled", seed.as_bytes(), &blocks.to_be_bytes()]))
}

/// Openings of these places.
pub(crate) fn openings(places: &[u32]) -> Vec<u8> {
    places.iter().flat_map(|place| place.to_be_bytes()).collect()
}

/// What shows that somebody has computed the tiles that a lot draws from a run with this trace. The
/// tile of a lot has its first byte as number.
pub(crate) fn tile_answer(trace: &Hash32, lot: &TileLot) -> Vec<u8> {
    sha256(&[b"tiles", trace.as_bytes(), lot.lot.as_bytes(), &[lot.tiles]]).to_vec()
}

/// What a node commits to that has computed the whole run with this trace.
pub(crate) fn known_root(trace: &Hash32, node: &NodeId) -> Hash32 {
    Hash32::new(sha256(&[b"known", trace.as_bytes(), node.as_bytes()]))
}

/// Evidence that convicts whoever stated a false sum in the dispute.
pub(crate) const FALSE_SUM: &[u8] = b"sum";

/// From this depth on claims are sums, which no root binds.
pub(crate) const SUMS_FROM: u8 = 2;

/// Evidence that convicts a run of a wrong tile with this number.
pub(crate) fn wrong_tile(tile: u8) -> [u8; 2] {
    [b't', tile]
}

impl StepJudge for TestJudge {
    fn shows_tiles(&self, program: &[u8], run: &RunClaim, lot: &TileLot, shown: &[u8]) -> bool {
        assert_eq!(program_id(program), run.program, "the run's own program");
        shown == tile_answer(&run.trace, lot)
    }

    fn shows_whole(&self, program: &[u8], run: &RunClaim, by: &KnownRun, shown: &[u8]) -> bool {
        assert_eq!(program_id(program), run.program, "the run's own program");
        by.known == known_root(&run.trace, &by.node) && shown == tile_answer(&run.trace, &by.lot)
    }

    fn has_vouched(
        &self,
        program: &[u8],
        run: &RunClaim,
        at: &DisputePoint<'_>,
        lot: Option<&TileLot>,
    ) -> bool {
        assert_eq!(program_id(program), run.program, "the run's own program");
        match at.evidence {
            [b't', tile] => lot.is_none_or(|lot| lot.lot.as_bytes().first() == Some(tile)),
            FALSE_SUM => false,
            _ => !is_false(at.claim),
        }
    }

    fn is_bound(&self, claim: &[u8]) -> bool {
        matches!(claim, [b'c', depth, ..] if *depth < SUMS_FROM)
    }

    fn opened(&self, fill: &FillClaim, places: &[u32], openings: &[u8]) -> Option<usize> {
        let (opened, rest) = openings.as_chunks::<4>();
        let opened: Vec<u32> = opened.iter().map(|bytes| u32::from_be_bytes(*bytes)).collect();
        let is_right = fill.root == filled_root(&fill.seed, fill.blocks)
            && rest.is_empty()
            && places.starts_with(&opened);
        is_right.then_some(opened.len())
    }

    fn facts(&self, program: &[u8]) -> Option<ProgramFacts> {
        let name = program.strip_prefix(b"prog")?;
        Some(ProgramFacts {
            id: program_id(program),
            multiply_adds: 1_000 * name.len() as u64,
            operations: 3,
            elements: 10,
        })
    }

    fn first_claim(&self, _run: &RunClaim) -> Vec<u8> {
        vec![b'c', 0]
    }

    fn is_consistent(&self, program: &[u8], _: &RunClaim, claim: &[u8], answer: &[u8]) -> bool {
        assert!(program.starts_with(b"prog"), "the judge is asked about programs on record only");
        match (claim, answer) {
            ([b'c', asked], [b'a', given, _]) => asked == given,
            // What roots bind cannot be stated otherwise; what is false does not become right.
            ([b'c', asked], [b'a', given, _, b'f']) => {
                asked == given && given.saturating_add(1) >= SUMS_FROM
            }
            ([b'c', asked, b'f'], [b'a', given, _, b'f']) => asked == given,
            (_, _) => false,
        }
    }

    fn child(&self, answer: &[u8], child: u8) -> Option<Vec<u8>> {
        match answer {
            [b'a', depth, children] if child < *children => Some(vec![b'c', depth + 1]),
            [b'a', depth, children, b'f'] if child < *children => Some(vec![b'c', depth + 1, b'f']),
            _ => None,
        }
    }

    fn judge(&self, program: &[u8], run: &RunClaim, at: &DisputePoint<'_>) -> Option<StepVerdict> {
        assert_eq!(program_id(program), run.program, "the run's own program");
        assert!(matches!(at.claim, [b'c', _, ..]) && at.answer.is_none_or(|it| it.len() >= 3));
        let RunClaim { program, weights, inputs, .. } = *run;
        let parts = [program.as_bytes(), weights.as_bytes(), inputs.as_bytes()];
        let hash = |label: &[u8]| sha256(&[label, parts[0], parts[1], parts[2]]);
        let is_output_right = *run.output.as_bytes() == hash(b"output");
        let is_right = is_output_right && run.trace == trace_of(&run.output).root();
        match at.evidence {
            REFUTED | FALSE_SUM | [b't', _] => Some(StepVerdict::Refuted),
            UPHELD => Some(StepVerdict::Upheld),
            STEP if is_right && !is_false(at.claim) => Some(StepVerdict::Upheld),
            STEP => Some(StepVerdict::Refuted),
            _ => None,
        }
    }
}

/// What shows a claim here: it names all of the claim, whether that is right or not.
pub(crate) fn proof_of(claim: &ResultClaim) -> Vec<u8> {
    let by = match claim.by {
        ShownBy::Proof { weights } => *weights.as_bytes(),
        ShownBy::Rerun => [0; 32],
        ShownBy::Zk { weights, inputs, run, is_secret } => {
            sha256(&[weights.as_bytes(), inputs.as_bytes(), &[run, is_secret.into()]])
        }
    };
    let names = [claim.genesis.as_bytes(), claim.job.as_bytes(), claim.node.as_bytes(), &by];
    let hashes = [&claim.program, &claim.weights, &claim.inputs, &claim.output];
    let parts: Vec<&[u8]> =
        names.into_iter().chain(hashes.map(Hash32::as_bytes)).map(<[u8; 32]>::as_slice).collect();
    sha256(&parts).to_vec()
}

/// What verifying a registration takes here, whatever the program.
pub(crate) const REGISTRATION_COST: u64 = 8_000;

/// What shows that weights fit here: it names all of the claim.
pub(crate) fn registration_of(claim: &RegistrationClaim) -> Vec<u8> {
    sha256(&[b"registration", &claim.to_bytes()]).to_vec()
}

impl ResultVerifier for TestJudge {
    fn costs(&self, program: &[u8]) -> VerifyCosts {
        let multiply_adds = self.facts(program).expect("a program").multiply_adds;
        let is_provable = !program.ends_with(b"unprovable");
        let proof = is_provable.then_some(1_000 + multiply_adds);
        let (zk, registration) =
            (proof.map(|cost| cost + 2_000), is_provable.then_some(REGISTRATION_COST));
        VerifyCosts { proof, rerun: Some(multiply_adds), zk, registration }
    }

    fn verify_registration(&self, program: &[u8], claim: &RegistrationClaim, proof: &[u8]) -> bool {
        assert_eq!(program_id(program), claim.program, "the weights' own program");
        proof == registration_of(claim)
    }

    fn verify(&self, program: &[u8], claim: &ResultClaim, shown: &[u8]) -> bool {
        assert_eq!(program_id(program), claim.program, "the run's own program");
        let parts = [&claim.program, &claim.weights, &claim.inputs].map(Hash32::as_bytes);
        let output = sha256(&[b"output", parts[0], parts[1], parts[2]]);
        *claim.output.as_bytes() == output && shown == proof_of(claim)
    }
}
