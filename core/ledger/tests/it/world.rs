//! A small network for tests: four seats, some accounts with money, short times. Its `block` is
//! the one door to the ledger, and holds every block against everything that must always be true.

use std::collections::BTreeMap;
use std::sync::Arc;

use tg_ledger::{
    AbsenceEntry, AccountEntry, Applied, ApplyError, BlockEnv, Budget, Built, ComplaintEntry,
    Cursor, DisputeEntry, JobEntry, Lookup, MemoryView, NodeEntry, PartialView, Rules, SeenEntry,
    StakeEntry, Totals, ValidatorEntry, View, apply, build, fee_floor, keys, query, reads,
};
use tg_types::hash::sha256;
use tg_types::ids::{AccountId, HeaderDigest, NodeId, Noun, StateKey};
use tg_types::merkle;
use tg_types::tx::Memo;
use tg_types::{
    Action, Amount, Bps, Bytes, CapacityParams, CertificateCheck, CheckedTx, Decode, Device,
    DeviceKind, DurationMs, Encode, EquivocationCheck, Event, Features, Genesis, GenesisSpec,
    Hash32, Height, IdempotencyId, JobId, JobParams, JobSpec, KeyEscrow, Kind, Lane, List, Needs,
    NetworkKind, NodeDescriptor, Nonce, PackageRef, Params, PublicKey, Reason, Receipt, ResultKey,
    SeatSignature, SeatSignatures, SecretKey, Signature, SignedTx, Status, Tick, Tier, TxBody,
    ValidatorSeat, Voucher, Work, YieldParams,
};

use crate::audit::audit;
use crate::judge::TestJudge;

/// When the network starts.
pub(crate) const START: Tick = Tick::new(1_700_000_000_000);
/// The fee that tests offer unless they say otherwise; above the floor of all but large
/// transactions, which offer their floor.
pub(crate) const FEE: Amount = Amount::constant(50_000);
/// A budget larger than any block.
pub(crate) const NO_BUDGET: Budget = Budget { tx_max: u32::MAX, bytes_max: u32::MAX };
/// The most rounds in which all entries of a block are found. The engine gives up after 32.
const LOADS_MAX: usize = 16;
/// Accounts and nodes with money at the start.
pub(crate) const FUNDED: u8 = 12;
/// What locks for a job of [`job_spec`].
pub(crate) const ESCROW: u64 = 500;

/// An amount of base units.
pub(crate) fn units(units: u64) -> Amount {
    Amount::new(units).expect("a test's amount is below the cap")
}

/// The account with this number. Accounts below [`FUNDED`] have money.
pub(crate) fn account(number: u8) -> AccountId {
    AccountId::new([number + 10; 32]).expect("not a small-order key")
}

/// The account that owns this seat.
pub(crate) fn owner(seat: u8) -> AccountId {
    AccountId::new([seat + 200; 32]).expect("not a small-order key")
}

/// The voting key with this number; seats have 0 to 3.
pub(crate) fn vote_key(number: u8) -> PublicKey {
    vote_secret(number).public()
}

/// The secret of a voting key.
fn vote_secret(number: u8) -> SecretKey {
    SecretKey::from_seed([number + 1; 32])
}

/// The key of the node with this number.
fn node_secret(number: u8) -> SecretKey {
    SecretKey::from_seed([number + 100; 32])
}

/// The node with this number. Nodes below [`FUNDED`] have money.
pub(crate) fn node(number: u8) -> NodeId {
    NodeId::new(*node_secret(number).public().as_bytes())
}

/// The account that speaks for a node.
pub(crate) fn voice(number: u8) -> AccountId {
    node_secret(number).public().into()
}

/// What a node offers; differs with the price.
pub(crate) fn descriptor(price: u64) -> NodeDescriptor {
    let model = "test".parse().expect("a name");
    let (kind, features) = (DeviceKind::Cpu, Features::NONE);
    let sharing = tg_types::Sharing::WHOLE;
    let device = Device { kind, model, memory_mib: 1024, count: 1, features, sharing };
    NodeDescriptor {
        region: "eu-north".parse().expect("a name"),
        devices: List::new(vec![device]).expect("one device"),
        host: tg_types::HostPart::NONE,
        price_per_hour: units(price),
        price_per_tera: units(price),
        slots: 4,
        is_open: true,
        closes: None,
    }
}

/// A job that waits this long, of work that only its provider understands.
pub(crate) fn job_spec(expires_after_ms: u64) -> JobSpec {
    JobSpec {
        work: Work::Opaque { task: Hash32::new([1; 32]) },
        package: Hash32::new([2; 32]),
        package_bytes: 3,
        key_escrow: KeyEscrow::Validators,
        result_key: ResultKey::NONE,
        needs: Needs { memory_mib_min: 64, ..Needs::ANY },
        tier: Tier::Trusted,
        pay: units(ESCROW - 2 * job_params().step_fee.units()),
        run_max: DurationMs::SECOND,
        expires_after: DurationMs::new(expires_after_ms),
        promise: None,
        checkpoint: None,
        nodes: 1,
    }
}

/// Asks for jobs, whatever they cost.
pub(crate) fn submit(specs: Vec<JobSpec>) -> Action {
    Action::SubmitJobs {
        specs: List::new(specs).expect("a few jobs"),
        escrow_max: Amount::CAP,
        vouchers: List::default(),
    }
}

/// A plain transfer.
pub(crate) fn transfer(to: AccountId, amount: u64) -> Action {
    Action::Transfer { to, amount: units(amount), memo: Memo::EMPTY }
}

/// Evidence that the test network's check believes.
pub(crate) fn evidence_against(key: &PublicKey) -> Action {
    let bytes = [b"guilty".as_slice(), key.as_bytes()].concat();
    Action::SubmitEvidence { evidence: Bytes::new(bytes).expect("short evidence") }
}

/// Evidence that convicts nobody; it begins with a key.
pub(crate) fn forged_evidence(key: &PublicKey) -> Action {
    Action::SubmitEvidence {
        evidence: Bytes::new(key.as_bytes().to_vec()).expect("short evidence"),
    }
}

/// The certificate that the test network's check believes.
pub(crate) fn certificate(height: Height, digest: &HeaderDigest) -> Vec<u8> {
    sha256(&[b"certificate", &height.get().to_be_bytes(), digest.as_bytes()]).to_vec()
}

struct TestChecks;

impl EquivocationCheck for TestChecks {
    fn offender(&self, evidence: &[u8]) -> Option<PublicKey> {
        let key = evidence.strip_prefix(b"guilty")?;
        PublicKey::new(key.try_into().ok()?).ok()
    }
}

impl CertificateCheck for TestChecks {
    fn verify(&self, height: Height, digest: &HeaderDigest, bytes: &[u8]) -> bool {
        bytes == certificate(height, digest)
    }
}

/// Short times and small bounds, so that tests reach them.
pub(crate) fn params() -> Params {
    Params {
        fee_floor_per_byte: units(7),
        fee_burn_bps: Bps::constant(3_333),
        fee_treasury_bps: Bps::constant(1_111),
        unbonding: DurationMs::new(5_500),
        stake_min: units(1_000_000),
        slash_equivocation_bps: Bps::constant(2_500),
        slash_bounty_bps: Bps::constant(1_000),
        forged_evidence_penalty: units(777_777),
        absence_epoch: DurationMs::new(4_000),
        job_expires_max: DurationMs::new(20_000),
        block_tx_max: 150,
        block_bytes_max: 2 * 1024 * 1024,
        tx_per_second_max: 1_000,
        expiry_heights_max: 50,
        seen_retention: DurationMs::new(3_000),
        tick_step_max: DurationMs::new(10_000),
        due_per_block_max: 5,
        jobs: job_params(),
        capacity: CapacityParams::OFF,
    }
}

/// What [`params`] says about jobs.
pub(crate) fn job_params() -> JobParams {
    JobParams {
        pay_min: units(100),
        run_max: DurationMs::new(4_000),
        run_grace: DurationMs::new(1_000),
        answer_within: DurationMs::new(2_000),
        check_grace: DurationMs::new(1_500),
        runs_failed_max: 2,
        audit_share: Bps::constant(5_000),
        audit_checkers: 2,
        sync_checkers: 3,
        rounds_max: 3,
        audit_pay: Bps::constant(1_000),
        sync_pay: Bps::constant(5_000),
        audit_tiles_from: u64::MAX,
        audit_tiles: 4,
        audit_tiles_pay: Bps::constant(300),
        audit_unshown: Bps::constant(5_000),
        audit_tile_fee: units(50),
        step_fee: units(60),
        run_bond: 20,
        check_bond: 20,
        challenge_bond: units(500_000),
        challenge_bounty: Bps::constant(5_000),
        fine: units(7_000),
        absent_max: DurationMs::new(6_000),
        nodes_max: 16,
        placements_per_block_max: 8,
        draws_per_block_max: 4,
        is_vouched: false,
        keep_fee_per_mib: units(1_100),
        result_kept: DurationMs::new(10_000),
        complain_within: DurationMs::new(2_000),
        complaint_judged_within: DurationMs::new(1_000),
        complaint_bond: units(300_000),
        complaint_slash_bps: Bps::constant(200),
        proof_fee: units(3),
        proof_cost_max: 10_000,
        proof_cost_per_block_max: 18_000,
        proofs_per_block_max: 3,
        proof_bytes_per_block_max: 2 * 1024 * 1024,
        yields: YieldParams {
            octaves: 2,
            within: DurationMs::new(2_000),
            after: DurationMs::SECOND,
            per_job_max: 2,
            per_block_max: 2,
        },
    }
}

fn genesis(params: Params, kind: NetworkKind) -> Genesis {
    let seat = |number: u8| ValidatorSeat {
        key: vote_key(number),
        owner: owner(number),
        stake: units(10_000_000 + u64::from(number)),
        address: format!("127.0.0.1:{}", 9_000 + u16::from(number)).parse().expect("an address"),
    };
    let mut allocations: Vec<_> = (0..FUNDED).map(|n| (account(n), units(1_000_000_000))).collect();
    allocations.extend((0..FUNDED).map(|n| (voice(n), units(100_000_000))));
    allocations.extend((0..4).map(|n| (owner(n), units(50_000_000))));
    allocations.push((AccountId::from(vote_key(0)), units(50_000_000)));
    allocations.push((account(99), Amount::ZERO));
    Genesis::new(GenesisSpec {
        chain: "test".parse().expect("a chain's name"),
        kind,
        start: START,
        validators: (0..4).map(seat).collect(),
        allocations,
        treasury: units(123_456_789),
        group_key: Bytes::EMPTY,
        polynomial: Bytes::EMPTY,
        params,
    })
    .expect("a valid genesis")
}

/// A network whose blocks are made by a test.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) rules: Rules,
    pub(crate) view: MemoryView,
    /// What the next block will say about itself.
    pub(crate) env: BlockEnv,
    /// Digests of all headers so far.
    pub(crate) headers: Vec<HeaderDigest>,
}

impl World {
    /// A local network before its first block.
    pub(crate) fn unborn(params: Params) -> Self {
        Self::of_kind(params, NetworkKind::Local)
    }

    /// A network before its first block.
    pub(crate) fn of_kind(params: Params, kind: NetworkKind) -> Self {
        let genesis = Arc::new(genesis(params, kind));
        let parent = HeaderDigest::new(*genesis.hash().as_bytes());
        let env = BlockEnv {
            height: Height::FIRST,
            tick: START,
            parent,
            parent_tick: START,
            proposer: vote_key(0).into(),
            certificates: Vec::new(),
        };
        let rules = Rules {
            domain: genesis.domain(),
            genesis,
            equivocation: Arc::new(TestChecks),
            certificates: Arc::new(TestChecks),
            judge: Arc::new(TestJudge),
            verifier: Arc::new(TestJudge),
            #[cfg(feature = "planted-bugs")]
            planted: None,
        };
        Self { rules, view: MemoryView::new(), env, headers: vec![parent] }
    }

    /// A network after its first block.
    pub(crate) fn new() -> Self {
        Self::with(params())
    }

    /// As [`World::new`], with other parameters.
    pub(crate) fn with(params: Params) -> Self {
        let mut world = Self::unborn(params);
        world.block(&[]);
        world
    }

    /// Signs nothing: the ledger takes checked transactions, and this one counts as checked.
    pub(crate) fn sign(&self, body: TxBody) -> CheckedTx {
        let tx = SignedTx { body, signature: Signature::new([0; 64]) };
        CheckedTx::from_finalised(tx, &self.rules.domain)
    }

    /// A body that is admissible as the sender's next one in lane 0.
    pub(crate) fn body(&self, sender: AccountId, action: Action) -> TxBody {
        let body = TxBody {
            sender,
            lane: Lane::FIRST,
            nonce: self.account(&sender).lanes.next(Lane::FIRST),
            expires: self.env.height.plus(10).expect("a low height"),
            fee: FEE,
            idempotency: None,
            action,
        };
        let size = self.sign(body.clone()).size_bytes();
        let floor = fee_floor(self.rules.genesis.params(), size, &body.action);
        TxBody { fee: FEE.max(floor), ..body }
    }

    /// An admissible transaction.
    pub(crate) fn tx(&self, sender: AccountId, action: Action) -> CheckedTx {
        self.sign(self.body(sender, action))
    }

    /// Admissible transactions of one sender, one after the other.
    pub(crate) fn txs(&self, sender: AccountId, actions: Vec<Action>) -> Vec<CheckedTx> {
        let first = self.account(&sender).lanes.next(Lane::FIRST).get();
        let numbered = actions.into_iter().zip(first..);
        numbered
            .map(|(action, n)| TxBody { nonce: Nonce::new(n), ..self.body(sender, action) })
            .map(|body| self.sign(body))
            .collect()
    }

    /// Offers a node in the name of an account, with the node's consent.
    pub(crate) fn registration(&self, number: u8, owner: AccountId, price: u64) -> Action {
        let secret = node_secret(number);
        let consent = secret.sign(&self.rules.domain, Kind::NodeConsent, owner.as_bytes());
        Action::RegisterNode { node: node(number), descriptor: descriptor(price), consent }
    }

    /// A voucher for packages by the seats with these voting keys.
    pub(crate) fn voucher(&self, numbers: &[u8], packages: Vec<PackageRef>) -> Voucher {
        let packages = List::new(packages).expect("one to 32 packages");
        let seats = self.rules.genesis.validators();
        let sign = |number: &u8| {
            let place = seats.iter().position(|seat| seat.key == vote_key(*number));
            let place = u8::try_from(place.unwrap_or(seats.len())).expect("few seats");
            SeatSignature::sign(&vote_secret(*number), &self.rules.domain, place, &packages)
        };
        let signatures = numbers.iter().map(sign).collect();
        let signatures = SeatSignatures::new(signatures).expect("different seats");
        Voucher { packages, signatures }
    }

    /// The action with vouchers of a quorum for everything that it hands in.
    pub(crate) fn vouched(&self, mut action: Action) -> Action {
        let mut packages: Vec<PackageRef> = Vec::new();
        if let Action::SubmitJobs { specs, .. } = &action {
            packages.extend(specs.as_slice().iter().map(JobSpec::package_ref));
            let plans = specs.as_slice().iter().filter_map(|spec| spec.checkpoint?.from);
            packages.extend(plans.map(|from| from.package_ref()));
        }
        if let Action::SubmitArray { spec, .. } = &action {
            packages.push(spec.package_ref());
        }
        if let Action::RevealResults { results, .. } = &action {
            packages.extend(results.as_slice().iter().map(|it| it.result.package_ref()));
        }
        if let Action::ProveResult { result, .. } = &action {
            packages.push(result.package_ref());
        }
        if let Action::SaveCheckpoint { checkpoint, .. }
        | Action::YieldRun { checkpoint: Some(checkpoint), .. } = &action
        {
            packages.push(checkpoint.package_ref());
        }
        packages.sort();
        packages.dedup();
        let some = packages.chunks(32).map(|some| self.voucher(&[0, 1, 2], some.to_vec()));
        let some = List::new(some.collect()).expect("two at most");
        if let Action::SubmitJobs { vouchers, .. }
        | Action::SubmitArray { vouchers, .. }
        | Action::RevealResults { vouchers, .. }
        | Action::SaveCheckpoint { vouchers, .. }
        | Action::YieldRun { vouchers, .. }
        | Action::ProveResult { vouchers, .. } = &mut action
        {
            *vouchers = some;
        }
        action
    }

    /// Lets the next block be this much later.
    pub(crate) fn wait(&mut self, span_ms: u64) {
        self.env.tick = self.env.tick.plus(DurationMs::new(span_ms)).expect("an early time");
    }

    /// Applies a block that must be valid, and checks everything that must always hold.
    pub(crate) fn block(&mut self, txs: &[CheckedTx]) -> Applied {
        let applied = self.try_block(txs).expect("the block is valid");
        self.commit(&applied);
        audit(self);
        applied
    }

    /// Applies a block to the state without committing it, in every way there is.
    pub(crate) fn try_block(&self, txs: &[CheckedTx]) -> Result<Applied, ApplyError> {
        let applied = apply(&self.rules, &self.view, &self.env, txs);
        assert_eq!(applied, apply(&self.rules, &self.view, &self.env, txs), "replay");
        assert_eq!(applied, self.apply_loading(txs), "loading on demand");
        if let Ok(applied) = &applied {
            self.check_result(applied, txs);
            let Built { included, refused, applied: built } = self.build(txs);
            assert!(included.into_iter().eq(0..txs.len()) && refused.is_empty(), "build takes all");
            assert_eq!(*applied, built, "building and applying are the same");
        }
        applied
    }

    /// Builds a block from candidates.
    pub(crate) fn build(&self, candidates: &[CheckedTx]) -> Built {
        build(&self.rules, &self.view, &self.env, candidates, NO_BUDGET).expect("can be built")
    }

    /// Applies a block with a view that knows nothing at first and loads what is asked for.
    pub(crate) fn apply_loading(&self, txs: &[CheckedTx]) -> Result<Applied, ApplyError> {
        let mut partial = PartialView::new();
        let mut wanted = reads(&self.rules.genesis, &self.env, txs);
        let mut loads = 0;
        loop {
            assert!(loads < LOADS_MAX, "entries are still missing after {LOADS_MAX} loads");
            loads += 1;
            for key in &wanted {
                partial.hold(*key, self.bytes(key).map(<[u8]>::to_vec));
            }
            match apply(&self.rules, &partial, &self.env, txs) {
                Err(ApplyError::Missing(missing)) => {
                    assert!(missing.is_sorted_by(|a, b| a < b), "sorted and without repetition");
                    let is_unknown = |key| partial.get(key) == Lookup::Unknown;
                    assert!(!missing.is_empty() && missing.iter().all(is_unknown), "progress");
                    wanted = missing;
                }
                answer => return answer,
            }
        }
    }

    /// Takes a block over and prepares the next one, a tenth of a second later.
    pub(crate) fn commit(&mut self, applied: &Applied) {
        self.view.commit(&applied.changes);
        let digest = sha256(&[self.env.parent.as_bytes(), applied.receipts_root.as_bytes()]);
        self.headers.push(HeaderDigest::new(digest));
        let height = self.env.height.next().expect("a low height");
        self.env = BlockEnv {
            height,
            tick: self.env.tick.plus(DurationMs::new(100)).expect("an early time"),
            parent: HeaderDigest::new(digest),
            parent_tick: self.env.tick,
            proposer: self.env.proposer,
            certificates: Vec::new(),
        };
        self.carry_due_certificate();
    }

    /// Carries the next certificate when it would be overdue otherwise.
    fn carry_due_certificate(&mut self) {
        let last = self.cursor().beacon.get();
        if last + tg_ledger::CERTIFICATE_LAG_MAX < self.env.height.get() {
            self.env.certificates = vec![self.certificate(last + 1)];
        }
    }

    /// The certificate of an earlier height.
    pub(crate) fn certificate(&self, height: u64) -> (Height, Vec<u8>) {
        let digest = &self.headers[usize::try_from(height).expect("a low height")];
        (Height::new(height), certificate(Height::new(height), digest))
    }

    /// Applies a block with one transaction that is admitted; gives its receipt.
    pub(crate) fn run(&mut self, sender: AccountId, action: Action) -> Receipt {
        let tx = self.tx(sender, action);
        self.block(&[tx]).receipts.remove(0)
    }

    /// Applies a block with one transaction that must do what it asks for.
    pub(crate) fn succeed(&mut self, sender: AccountId, action: Action) -> Vec<Event> {
        let receipt = self.run(sender, action);
        assert_eq!(receipt.status, Status::Applied);
        receipt.events
    }

    /// Applies a block with one transaction that must fail, and checks that it takes the fee and
    /// the nonce, `burned` besides, and touches nothing else.
    pub(crate) fn fail(
        &mut self,
        sender: AccountId,
        action: Action,
        reason: Reason,
        burned: Amount,
    ) {
        let tx = self.tx(sender, action);
        let applied = self.try_block(std::slice::from_ref(&tx)).expect("admissible");
        assert_eq!(applied.receipts[0].status, Status::Failed(reason));
        assert_eq!(applied.receipts[0].events.is_empty(), burned.is_zero());
        let empty = self.try_block(&[]).expect("an empty block is valid");
        let proposer = self.proposer_owner();
        let allowed = [keys::totals(), keys::account(&sender), keys::account(&proposer)];
        let mut rest = applied.changes.clone();
        rest.retain(|key, _| !allowed.contains(key));
        let mut rest_of_empty = empty.changes.clone();
        rest_of_empty.retain(|key, _| !allowed.contains(key));
        let cursor = |changes: &mut BTreeMap<StateKey, Option<Vec<u8>>>| {
            let bytes = changes.remove(&keys::cursor()).flatten().expect("written by every block");
            Cursor { allowance: 0, ..Cursor::from_bytes(&bytes).expect("a cursor") }
        };
        assert_eq!(
            cursor(&mut rest),
            cursor(&mut rest_of_empty),
            "nothing but a place in the rate"
        );
        assert_eq!(rest, rest_of_empty, "nothing but fee and nonce");

        let before = self.account(&sender);
        self.block(std::slice::from_ref(&tx));
        let after = self.account(&sender);
        if sender != proposer {
            let paid = tx.body().fee.plus(burned).expect("below the cap");
            assert_eq!(after.balance, before.balance.minus(paid).expect("covered"));
        }
        let next = before.lanes.next(Lane::FIRST).next();
        assert_eq!(Some(after.lanes.next(Lane::FIRST)), next);
    }

    /// Says that a block with this one transaction is invalid, and that building leaves it out.
    pub(crate) fn refuse(&self, tx: &CheckedTx, reason: Reason) {
        let error = self.try_block(std::slice::from_ref(tx)).expect_err("inadmissible");
        assert_eq!(error, ApplyError::InadmissibleTx { index: 0, reason });
        let built = self.build(std::slice::from_ref(tx));
        assert_eq!((built.included, built.refused), (vec![], vec![(0, reason)]));
        assert_eq!(built.applied, self.try_block(&[]).expect("an empty block is valid"));
    }

    /// The owner of the next block's proposer.
    pub(crate) fn proposer_owner(&self) -> AccountId {
        let seats = self.rules.genesis.validators();
        let mut seats = seats.iter().filter(|seat| self.env.proposer == seat.key.into());
        seats.next().expect("the proposer has a seat").owner
    }

    fn bytes(&self, key: &StateKey) -> Option<&[u8]> {
        match self.view.get(key) {
            Lookup::Present(bytes) => Some(bytes),
            Lookup::Absent | Lookup::Unknown => None,
        }
    }

    pub(crate) fn entry<T: Decode>(&self, key: &StateKey) -> Option<T> {
        self.bytes(key).map(|bytes| T::from_bytes(bytes).expect("entries are readable"))
    }

    pub(crate) fn account(&self, id: &AccountId) -> AccountEntry {
        query::account(self.bytes(&keys::account(id))).expect("entries are readable")
    }

    pub(crate) fn balance(&self, id: &AccountId) -> u64 {
        self.account(id).balance.units()
    }

    pub(crate) fn stake(&self, id: &AccountId) -> StakeEntry {
        query::stake(self.bytes(&keys::stake(id))).expect("entries are readable")
    }

    pub(crate) fn totals(&self) -> Totals {
        self.entry(&keys::totals()).unwrap_or_default()
    }

    pub(crate) fn cursor(&self) -> Cursor {
        self.entry(&keys::cursor()).unwrap_or_default()
    }

    pub(crate) fn node(&self, id: &NodeId) -> Option<NodeEntry> {
        self.entry(&keys::node(id))
    }

    pub(crate) fn job(&self, id: &JobId) -> Option<JobEntry> {
        self.entry(&keys::job(id))
    }

    pub(crate) fn dispute(&self, id: &JobId) -> Option<DisputeEntry> {
        self.entry(&keys::dispute(id))
    }

    pub(crate) fn complaint(&self, id: &JobId) -> Option<ComplaintEntry> {
        self.entry(&keys::complaint(id))
    }

    pub(crate) fn validator(&self, key: &PublicKey) -> Option<ValidatorEntry> {
        self.entry(&keys::validator(key))
    }

    pub(crate) fn absence(&self, id: &NodeId) -> Option<AbsenceEntry> {
        self.entry(&keys::absence(id))
    }

    pub(crate) fn has_seen(&self, id: &AccountId, mark: &IdempotencyId) -> bool {
        self.entry::<SeenEntry>(&keys::seen(id, mark)).is_some()
    }

    pub(crate) fn beacon(&self, height: u64) -> Option<Hash32> {
        let height = Height::new(height);
        query::beacon(self.bytes(&keys::beacon(height)), height).expect("entries are readable")
    }

    pub(crate) fn header(&self, height: u64) -> Option<HeaderDigest> {
        let height = Height::new(height);
        query::header(self.bytes(&keys::header(height)), height).expect("entries are readable")
    }

    /// What an answer says about itself must be true.
    fn check_result(&self, applied: &Applied, txs: &[CheckedTx]) {
        for (key, change) in &applied.changes {
            assert_ne!(change.as_deref(), self.bytes(key), "{key:?} changed");
        }
        let mut leaves: Vec<Vec<u8>> = applied.receipts.iter().map(Receipt::to_bytes).collect();
        for (receipt, bytes) in applied.receipts.iter().zip(&leaves) {
            assert_eq!(Receipt::from_bytes(bytes).as_ref(), Ok(receipt));
        }
        leaves.push(applied.block_receipt.to_bytes());
        assert_eq!(applied.receipts_root, merkle::root(&leaves));
        assert_eq!(applied.log_root, merkle::root(&self.headers));
        assert_eq!(applied.receipts.len(), txs.len());
        let events: usize = applied.receipts.iter().map(|receipt| receipt.events.len()).sum();
        assert_eq!(applied.events_len, events + applied.block_receipt.events.len());
        for ((receipt, tx), index) in applied.receipts.iter().zip(txs).zip(0..) {
            let said = (receipt.tx, receipt.index, receipt.fee);
            assert_eq!(said, (tx.id(), index, tx.body().fee));
        }
    }

    /// Every entry of a noun, by its id.
    pub(crate) fn ids(&self, noun: Noun) -> Vec<[u8; 32]> {
        let keys = self.view.iter().map(|(key, _)| *key);
        keys.filter(|key| key.noun() == noun).map(|key| key.id()).collect()
    }
}
