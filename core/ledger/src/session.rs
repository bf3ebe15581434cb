//! One block in the making. `apply` and `build` both drive this type and nothing else changes
//! entries, so what a proposer builds and what everybody else applies cannot differ.
//!
//! A session opens (does the block follow the state? certificates, what fell due), takes
//! transactions one by one, and closes (fees, totals, roots). Every entry that is touched lives in
//! a table until the end. To add a noun: a module with its entry and its actions, a line in
//! `tables!`, and an arm in [`Session::perform`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tg_types::ids::{AccountId, Hash32, JobId, NodeId, StateKey, TxId};
use tg_types::merkle::Peaks;
use tg_types::{Action, Amount, CheckedTx, Encode, Event, Params, Receipt, Status, TxBody};

use crate::absence::{self, AbsenceEntry};
use crate::account::{self, AccountEntry};
use crate::admit;
use crate::beacon::{BeaconEntry, HeaderEntry};
use crate::capacity;
use crate::cursor::Cursor;
use crate::due::{DueHead, DuePage};
use crate::error::{ApplyError, Fail, Stop};
use crate::fee;
use crate::job::complaint::{self, ComplaintEntry};
use crate::job::dispute::{self, DisputeEntry};
use crate::job::gpus::GpuMixEntry;
use crate::job::pace::PaceEntry;
use crate::job::prove::{self, Shown};
use crate::job::{self, JobEntry, adjust, check, keyless, make_room, run, save};
use crate::list::{ListHead, ListPage};
use crate::log::LogEntry;
use crate::node::{self, NodeEntry, OwnerSeat};
use crate::params::ParamsEntry;
use crate::program::{self, DraftEntry, Piece, PieceEntry, ProgramEntry};
use crate::reads::reads;
use crate::rules::{BlockEnv, Rules};
use crate::seen::{self, SeenEntry};
use crate::slash::{self, ValidatorEntry};
use crate::stake::{self, StakeEntry};
use crate::table::{Closed, Slot, Table};
use crate::totals::Totals;
use crate::view::{Lookup, View};
use crate::weights::{self, Registration, WeightsEntry};

/// Declares one table per noun, so that none is forgotten at the end of a block.
macro_rules! tables {
    ($( $name:ident: $entry:ty, )*) => {
        /// The touched entries of all nouns.
        pub(crate) struct Tables<'a> {
            $( pub(crate) $name: Table<'a, $entry>, )*
        }

        impl<'a> Tables<'a> {
            fn new(view: &'a dyn View) -> Self {
                Self { $( $name: Table::new(view), )* }
            }

            /// Hands over what changed in all tables.
            pub(crate) fn close(self) -> Closed {
                let mut out = Closed::default();
                $( self.$name.close(&mut out); )*
                out
            }
        }
    };
}

tables! {
    totals: Totals,
    accounts: AccountEntry,
    seen: SeenEntry,
    stakes: StakeEntry,
    nodes: NodeEntry,
    jobs: JobEntry,
    due_heads: DueHead,
    due_pages: DuePage,
    headers: HeaderEntry,
    beacons: BeaconEntry,
    logs: LogEntry,
    params: ParamsEntry,
    validators: ValidatorEntry,
    cursors: Cursor,
    absences: AbsenceEntry,
    list_heads: ListHead,
    list_pages: ListPage,
    programs: ProgramEntry,
    drafts: DraftEntry,
    pieces: PieceEntry,
    disputes: DisputeEntry,
    complaints: ComplaintEntry,
    weights: WeightsEntry,
    paces: PaceEntry,
    gpu_mixes: GpuMixEntry,
}

/// Who acts, and by which transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Who signed, pays and acts.
    pub(crate) sender: AccountId,
    /// Where the sender's account lies.
    pub(crate) slot: Slot,
    /// The transaction.
    pub(crate) tx: TxId,
    /// Its bytes.
    pub(crate) size_bytes: u32,
}

/// One block in the making.
pub(crate) struct Session<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) env: &'a BlockEnv,
    view: &'a dyn View,
    /// The parameters in force.
    pub(crate) params: Params,
    /// How far the ledger has come; written back at the end.
    pub(crate) cursor: Cursor,
    /// The totals as they were, and as they are now.
    pub(crate) totals_before: Totals,
    pub(crate) totals: Totals,
    /// Who earns from the block.
    pub(crate) proposer_owner: AccountId,
    pub(crate) tables: Tables<'a>,
    /// Fees collected so far; already taken from the senders.
    pub(crate) fees: Amount,
    /// Pieces of evidence judged so far.
    pub(crate) evidence_count: u32,
    /// Programs completed so far.
    pub(crate) programs_count: u32,
    /// All nodes, once they were needed; see [`node::all`].
    pub(crate) nodes: Option<Arc<[NodeId]>>,
    /// Their owners, once they were needed; see [`node::owners`].
    pub(crate) owners: Option<Arc<[OwnerSeat]>>,
    /// Whether all nodes were needed before.
    pub(crate) are_nodes_loaded: bool,
    /// Jobs that left a node in this block to go on at a better place, and whose it is: it is
    /// chosen again only if there is nobody else.
    pub(crate) parted: BTreeMap<JobId, AccountId>,
    /// What happened since the last receipt.
    pub(crate) events: Vec<Event>,
    /// What the block did before its transactions.
    pub(crate) events_opening: Vec<Event>,
    pub(crate) log_root: Hash32,
    pub(crate) receipts: Vec<Receipt>,
    receipts_tree: Peaks,
    buffer: Vec<u8>,
    missing: BTreeSet<StateKey>,
}

impl<'a> Session<'a> {
    /// A block of which nothing has been done yet.
    pub(crate) fn new(rules: &'a Rules, view: &'a dyn View, env: &'a BlockEnv) -> Self {
        Self {
            rules,
            env,
            view,
            params: rules.genesis.params().clone(),
            cursor: Cursor::default(),
            totals_before: Totals::default(),
            totals: Totals::default(),
            proposer_owner: env.proposer,
            tables: Tables::new(view),
            fees: Amount::ZERO,
            evidence_count: 0,
            programs_count: 0,
            nodes: None,
            owners: None,
            are_nodes_loaded: false,
            parted: BTreeMap::new(),
            events: Vec::new(),
            events_opening: Vec::new(),
            log_root: Hash32::new([0; 32]),
            receipts: Vec::new(),
            receipts_tree: Peaks::EMPTY,
            buffer: Vec::new(),
            missing: BTreeSet::new(),
        }
    }

    /// Notes that something happened.
    pub(crate) fn emit(&mut self, event: Event) {
        if self.events.is_empty() {
            self.events.reserve_exact(1); // most receipts have one event
        }
        self.events.push(event);
    }

    /// Names all of these entries that the view does not know, and stops if there are any.
    pub(crate) fn require(&mut self, keys: &[StateKey]) -> Result<(), Stop> {
        let unknown = |key: &&StateKey| self.view.get(key) == Lookup::Unknown;
        let mut unknown: Vec<StateKey> = keys.iter().filter(unknown).copied().collect();
        match unknown.pop() {
            Some(last) => {
                self.missing.extend(unknown);
                Err(Stop::Unknown(last))
            }
            None => Ok(()),
        }
    }

    /// Looks the nodes up again when they are needed next: they have changed.
    pub(crate) fn forget_nodes(&mut self) {
        self.nodes = None;
        self.owners = None;
    }

    /// Notes what an attempt to load lacks, so that others can be tried before all of it is asked
    /// for; `None` if it lacks something.
    pub(crate) fn attempt<T>(&mut self, loaded: Result<T, Stop>) -> Result<Option<T>, Stop> {
        match loaded {
            Ok(value) => Ok(Some(value)),
            Err(Stop::Unknown(key)) => {
                self.note_missing(key);
                Ok(None)
            }
            Err(Stop::Fatal(error)) => Err(error.into()),
        }
    }

    /// Stops if any of these attempts to load lacks something.
    pub(crate) fn all_of<const COUNT: usize>(
        &mut self,
        attempts: [Result<(), Stop>; COUNT],
    ) -> Result<(), Stop> {
        let mut is_complete = true;
        for loaded in attempts {
            is_complete &= self.attempt(loaded)?.is_some();
        }
        if is_complete { Ok(()) } else { self.check_complete() }
    }

    /// Takes one transaction in: admission, fee and nonce, action, receipt.
    pub(crate) fn take(&mut self, tx: &CheckedTx) -> Result<(), Fail> {
        let body = tx.body();
        let (call, charge) = admit::check(self, tx)?;
        let index = u32::try_from(self.receipts.len()).expect("a block's count is a u32");
        let fees = self.fees.plus(body.fee)?;

        self.fees = fees;
        account::charge(self, call.slot, &charge);
        let status = match self.perform(&call, body) {
            Ok(()) => Status::Applied,
            Err(Fail::Refused(reason)) => Status::Failed(reason),
            Err(Fail::Stop(stop)) => return Err(stop.into()),
        };
        let events = std::mem::take(&mut self.events);
        let receipt = Receipt { tx: call.tx, index, status, fee: body.fee, events };
        self.hash_leaf(&receipt);
        self.receipts.push(receipt);
        Ok(())
    }

    /// Carries an action out. A refusal leaves everything as it was, except that forged evidence
    /// costs its sender the penalty, and a program that is none costs its sender the draft.
    fn perform(&mut self, call: &Call, body: &TxBody) -> Result<(), Fail> {
        match &body.action {
            Action::Transfer { to, amount, memo: _ } => account::transfer(self, call, to, *amount)?,
            Action::Stake { amount } => stake::stake(self, call, *amount)?,
            Action::Unstake { amount } => stake::unstake(self, call, *amount)?,
            Action::RegisterNode { node, descriptor, consent } => {
                node::register(self, call, node, descriptor, consent)?;
            }
            Action::ChangeNode { node, descriptor } => node::change(self, call, node, descriptor)?,
            Action::LeaveNode { node } => node::leave(self, call, node)?,
            Action::ReportAbsent { epoch, nodes } => {
                absence::report(self, call, *epoch, nodes.as_slice())?;
            }
            Action::SubmitJobs { .. }
            | Action::SubmitArray { .. }
            | Action::CancelJob { .. }
            | Action::AdjustJob { .. } => self.serve_client(call, &body.action)?,
            Action::YieldRun { job, checkpoint, vouchers } => {
                make_room::yield_run(self, call, job, *checkpoint, vouchers.as_slice())?;
            }
            Action::SaveCheckpoint { job, checkpoint, vouchers } => {
                save::save(self, call, job, *checkpoint, vouchers.as_slice())?;
            }
            Action::PutProgram { program, piece, pieces, bytes } => {
                let (piece, pieces) = (*piece, *pieces);
                program::put(self, call, &Piece { program, piece, pieces, bytes })?;
            }
            Action::RegisterWeights { program, weights, cost, proof } => {
                let (cost, proof) = (*cost, proof.as_slice());
                weights::register(self, call, &Registration { program, weights, cost, proof })?;
            }
            Action::CommitResults { seals } => run::commit(self, call, seals.as_slice())?,
            Action::RevealResults { results, vouchers } => {
                run::reveal(self, call, results.as_slice(), vouchers.as_slice())?;
            }
            Action::ProveResult { job, result, cost, shown, vouchers } => {
                let (params, size) = (&self.params, call.size_bytes);
                let floor = fee::floor(params, size, &body.action);
                let fee = fee::shown(params, size, *cost, result.package_bytes).min(floor);
                let (bytes, vouchers) = (shown.as_slice(), vouchers.as_slice());
                prove::prove(self, call, &Shown { job, result, bytes, vouchers, fee })?;
            }
            Action::GiveUp { job, failure } => run::give_up(self, call, job, *failure)?,
            Action::CommitChecks { seals } => check::commit(self, call, seals.as_slice())?,
            Action::RevealChecks { answers } => check::reveal(self, call, answers.as_slice())?,
            Action::LackKey { job } => keyless::lack(self, call, job)?,
            Action::Object { job } => dispute::open(self, call, job)?,
            Action::AnswerDispute { job, answer } => dispute::answer(self, call, job, answer)?,
            Action::PickClaim { job, child } => dispute::pick(self, call, job, *child)?,
            Action::JudgeDispute { job, evidence } => {
                dispute::judge(self, call, job, evidence.as_slice())?;
            }
            Action::CommitCapacity { root } => capacity::commit(self, call, *root)?,
            Action::ShowCapacity { openings } => capacity::show(self, call, openings.as_slice())?,
            Action::Complain { job, about, key } => complaint::open(self, call, job, *about, key)?,
            Action::JudgeComplaint { job, opens } => complaint::judge(self, call, job, *opens)?,
            Action::SubmitEvidence { evidence } => {
                slash::report(self, call, evidence.as_slice())?;
            }
        }
        if let Some(id) = &body.idempotency {
            seen::remember(self, call, id)?;
        }
        Ok(())
    }

    /// Carries out what a client wants of jobs.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are carried out by the caller")]
    fn serve_client(&mut self, call: &Call, action: &Action) -> Result<(), Fail> {
        match action {
            Action::SubmitJobs { specs, escrow_max, vouchers } => {
                job::submit(self, call, specs.as_slice(), *escrow_max, vouchers.as_slice())
            }
            Action::SubmitArray { spec, tasks, escrow_max, vouchers } => {
                job::submit_array(self, call, (spec, *tasks), *escrow_max, vouchers.as_slice())
            }
            Action::CancelJob { job } => job::cancel(self, call, job),
            Action::AdjustJob { job, change, escrow_max } => {
                adjust::adjust(self, call, (job, change), *escrow_max)
            }
            _ => Ok(()),
        }
    }

    /// Adds a receipt's bytes to the tree of receipts.
    pub(crate) fn hash_leaf(&mut self, leaf: &impl Encode) {
        self.buffer.clear();
        leaf.encode(&mut self.buffer);
        self.receipts_tree.append(&self.buffer);
    }

    /// The root over all receipts so far.
    pub(crate) fn receipts_root(&self) -> Hash32 {
        self.receipts_tree.root()
    }

    /// Remembers an entry that the view does not know.
    pub(crate) fn note_missing(&mut self, key: StateKey) {
        self.missing.insert(key);
    }

    /// Stops if an unknown entry was met. From then on a session only finds out what else is
    /// unknown; its result is worth nothing.
    pub(crate) fn check_complete(&self) -> Result<(), Stop> {
        match self.missing.first() {
            Some(key) => Err(Stop::Unknown(*key)),
            None => Ok(()),
        }
    }

    /// The error for the caller. If entries are missing, it names all that were met and all that
    /// the transactions will surely need.
    pub(crate) fn explain(mut self, stop: Stop, txs: &[CheckedTx]) -> ApplyError {
        match stop {
            Stop::Fatal(error) if self.missing.is_empty() => return error,
            Stop::Fatal(_) => {}
            Stop::Unknown(key) => self.note_missing(key),
        }
        let sure = reads(&self.rules.genesis, self.env, txs);
        let is_unknown = |key: &StateKey| self.view.get(key) == Lookup::Unknown;
        self.missing.extend(sure.into_iter().filter(is_unknown));
        ApplyError::Missing(self.missing.into_iter().collect())
    }
}
