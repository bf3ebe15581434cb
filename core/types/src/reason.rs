//! Why something was refused, failed or happened: one number, one code and one sentence for each.
//!
//! Every refusal, receipt and event carries a reason, so that programs can branch on the code and
//! people can read the sentence. Numbers are part of the format: a reason may be added, never
//! renumbered. 1xx: a transaction does not enter a block. 2xx: it is in a block, pays its fee and
//! does nothing else. 3xx: what happened.

use crate::codec::{Decode, DecodeError, Encode, Reader};
use std::fmt;

macro_rules! reasons {
    ($( $variant:ident = $number:literal, $code:literal, $sentence:literal; )*) => {
        /// Why something was refused, failed or happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Reason {
            $( #[doc = $sentence] $variant = $number, )*
        }

        impl Reason {
            /// All reasons, by number.
            pub const ALL: &[Self] = &[$( Self::$variant, )*];

            /// The number that stands in receipts.
            pub const fn number(self) -> u16 {
                match self {
                    $( Self::$variant => $number, )*
                }
            }

            /// The word programs branch on.
            pub const fn code(self) -> &'static str {
                match self {
                    $( Self::$variant => $code, )*
                }
            }

            /// The sentence people read.
            pub const fn sentence(self) -> &'static str {
                match self {
                    $( Self::$variant => $sentence, )*
                }
            }

            fn from_number(number: u16) -> Option<Self> {
                match number {
                    $( $number => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    Malformed = 100, "malformed", "The bytes are not a transaction in canonical form.";
    TxTooLarge = 101, "tx_too_large", "The transaction has more bytes than one may have.";
    SignatureInvalid = 102, "signature_invalid",
        "The signature does not fit the sender, the content and this network.";
    NonceTooLow = 103, "nonce_too_low", "The nonce has already been used in this lane.";
    NonceTooHigh = 104, "nonce_too_high", "An earlier nonce of this lane has not been used yet.";
    FeeTooLow = 105, "fee_too_low", "The fee is below the floor for a transaction of this size.";
    FeeNotCovered = 106, "fee_not_covered", "The balance does not cover the fee.";
    Expired = 107, "expired", "The height at which the transaction expires has been reached.";
    ExpiresTooFar = 108, "expires_too_far", "The transaction would expire later than is allowed.";
    IdempotencySeen = 109, "idempotency_seen", "The idempotency id has already been used.";
    PoolFull = 112, "pool_full", "The node keeps no more waiting transactions.";
    PoolDuplicate = 113, "pool_duplicate", "The transaction is already waiting.";
    PoolReplaced = 114, "pool_replaced",
        "Another transaction with the same nonce offered a higher fee.";
    SenderBusy = 115, "sender_busy", "The sender has as many waiting transactions as it may have.";
    EvidenceLimit = 116, "evidence_limit",
        "The block holds as much evidence as it may have checked.";
    ProofLimit = 117, "proof_limit", "The block holds as many results as it may have verified.";
    ResultNotAwaited = 118, "result_not_awaited",
        "The sender has no run whose result is to be shown by this transaction.";
    ProgramLimit = 119, "program_limit", "The block holds as many programs as it may have planned.";

    BalanceTooLow = 200, "balance_too_low", "The balance does not cover the amount.";
    AmountZero = 201, "amount_zero", "The amount is zero.";
    SelfTransfer = 203, "self_transfer", "Sender and receiver are the same account.";
    StakeTooLow = 204, "stake_too_low", "The stake would be below the least that is allowed.";
    StakeMissing = 205, "stake_missing", "The account has less stake than was asked for.";
    UnbondingFull = 206, "unbonding_full",
        "The account has as many unbondings under way as it may have.";
    NodeExists = 207, "node_exists", "A node with this id is already registered.";
    NodeUnknown = 208, "node_unknown", "No node with this id is registered.";
    NodeNotOwned = 209, "node_not_owned", "The node belongs to another account.";
    NotValidator = 211, "not_validator", "Only a validator may do this.";
    EpochWrong = 212, "epoch_wrong", "The report is not about the present or the last epoch.";
    ReportRepeated = 213, "report_repeated", "This validator has already reported for this epoch.";
    JobUnknown = 215, "job_unknown", "There is no such job.";
    JobNotOwned = 216, "job_not_owned", "The job belongs to another account.";
    JobClosed = 217, "job_closed", "The job is no longer waiting.";
    JobExpiryTooLong = 218, "job_expiry_too_long", "The job would wait longer than is allowed.";
    EvidenceForged = 220, "evidence_forged",
        "The evidence convicts nobody, so whoever sent it pays the penalty.";
    OffenderUnknown = 221, "offender_unknown", "The evidence convicts a key that has no seat.";
    AlreadySlashed = 222, "already_slashed", "This validator has already been slashed for it.";
    ValidatorLocked = 225, "validator_locked",
        "A validator's stake must stay above the least for a seat.";
    ProgramUnknown = 226, "program_unknown", "The job's tensor program is not on record.";
    ProgramWrong = 227, "program_wrong", "The bytes are not the program with this id.";
    ProgramExists = 228, "program_exists", "This piece of the program is already on record.";
    PieceWrong = 229, "piece_wrong", "There is no such piece of a program.";
    CheckersTooFew = 230, "checkers_too_few",
        "Too few owners of nodes could check the result for this tier.";
    ReplicasWrong = 231, "replicas_wrong", "A redundant job has 2 to 4 replicas.";
    TierNeedsProgram = 232, "tier_needs_program",
        "This tier needs a tensor program; other work can be run redundantly.";
    EscrowTooLow = 233, "escrow_too_low", "The job costs more than may be locked for it.";
    ConsentWrong = 234, "consent_wrong", "The node has not signed that it wants this owner.";
    SlotsWrong = 235, "slots_wrong", "A node takes 1 to 256 runs at once.";
    NodesFull = 236, "nodes_full", "The network has as many nodes as it can have.";
    NodeBusy = 237, "node_busy", "The node still has runs or checks to finish.";
    StakeExposed = 238, "stake_exposed", "This stake stands for work that is not settled yet.";
    RunUnknown = 239, "run_unknown", "This node has no such run.";
    RunNotThere = 240, "run_not_there", "The run is not at this step.";
    SealWrong = 241, "seal_wrong", "What was shown is not what was committed to.";
    CheckUnknown = 242, "check_unknown", "This node was not drawn to check this result.";
    CheckNotThere = 243, "check_not_there", "The check is not at this step.";
    NotDisputable = 244, "not_disputable", "There is no result of this job to object to now.";
    DisputeUnknown = 245, "dispute_unknown", "There is no dispute about this job.";
    DisputeTurn = 246, "dispute_turn", "It is not this account's turn in the dispute.";
    AnswerWrong = 247, "answer_wrong", "The answer does not fit what was claimed before.";
    EvidenceVoid = 248, "evidence_void", "The evidence decides nothing.";
    PayTooLow = 249, "pay_too_low", "The pay of a run is below the least that is allowed.";
    RunTooLong = 250, "run_too_long", "A run may not take that long.";
    CapacityNotThere = 251, "capacity_not_there",
        "The node is not asked for this step of showing its capacity now.";
    OpeningWrong = 252, "opening_wrong", "The opening does not show the block that was drawn.";
    CapacityLimit = 253, "capacity_limit",
        "As many nodes as may at once have committed to their capacity at this height.";
    CheckKeyWrong = 254, "check_key_wrong",
        "The answer does not contain what shows that the check was done.";
    PackageNotHeld = 255, "package_not_held",
        "No valid voucher shows that a quorum of validators holds the package.";
    NotComplainable = 256, "not_complainable",
        "There is nothing of this job to complain about now.";
    ComplaintLate = 257, "complaint_late", "The time for complaints about this job is over.";
    ComplaintRepeated = 258, "complaint_repeated",
        "There is or was such a complaint about this job already.";
    ComplaintUnknown = 259, "complaint_unknown", "There is no open complaint about this job.";
    VoteRepeated = 260, "vote_repeated", "This validator has already judged this complaint.";
    ProofTooCostly = 261, "proof_too_costly",
        "Verifying the result takes longer than a block has time for.";
    ProofCostWrong = 262, "proof_cost_wrong",
        "The transaction states another cost of verifying than the program has.";
    ProofHashWrong = 263, "proof_hash_wrong", "The result does not name what is shown.";
    ProgramNotShowable = 264, "program_not_showable",
        "Runs of this program cannot be proven, or it is too large to be run by everybody.";
    ArrayWrong = 265, "array_wrong", "An array submits 1 to 256 tasks with numbers at once.";
    ArrayNeedsCommand = 266, "array_needs_command",
        "Tasks of an array learn their numbers from variables, so they are commands.";
    PromiseNeedsDate = 267, "promise_needs_date",
        "Only jobs of tier none, proof or zk end with their run, so only these can be promised.";
    PromiseNeedsShares = 268, "promise_needs_shares",
        "A job whose owner keeps the key cannot be promised: it waits for its owner.";
    CheckpointNeedsCommand = 269, "checkpoint_needs_command",
        "Only commands of tier none can go on from a checkpoint, which nobody checks.";
    KeyInShares = 270, "key_in_shares",
        "Validators have shares of this job's key, so its owner cannot withhold it.";
    WeightsExist = 271, "weights_exist", "Weights with this commitment are already registered.";
    WeightsUnknown = 272, "weights_unknown",
        "No secret weights with this commitment are registered for the program.";
    WeightsNotOwned = 273, "weights_not_owned",
        "The secret weights were registered by another account.";
    WeightsSpent = 274, "weights_spent",
        "Fewer proofs about the secret weights are left than the job may have runs.";
    WeightsCountWrong = 275, "weights_count_wrong",
        "A commitment to secret weights is for 2 to 256 proofs.";
    RegistrationWrong = 276, "registration_wrong",
        "The proof does not show that the weights fit the program.";
    CheckpointTooOften = 277, "checkpoint_too_often",
        "A job saves its state every five seconds at most, and no more often than it says.";
    CheckpointTooLarge = 278, "checkpoint_too_large",
        "The package of a checkpoint has one gibibyte at most.";
    CheckpointNotAsked = 279, "checkpoint_not_asked",
        "The job does not ask for its state to be saved.";
    YieldNotAsked = 280, "yield_not_asked", "Nobody asked this run to make room.";
    StopTooLate = 281, "stop_too_late",
        "A result was committed to, so the job cannot be stopped any more.";
    StopRepeated = 282, "stop_repeated", "The job was asked to stop already.";
    NodesWrong = 283, "nodes_wrong", "A job runs on 1 to 16 nodes.";
    GangNeedsCommand = 284, "gang_needs_command",
        "Only commands of tier none run on several nodes, without checkpoints and promises.";
    AdjustNothing = 285, "adjust_nothing", "Nothing of the job would be changed.";
    AdjustPromised = 286, "adjust_promised",
        "A slot is kept for a promised job as it is, so it cannot be changed.";
    AdjustTooLate = 287, "adjust_too_late",
        "A job that runs keeps its pay and its nodes, and may be given a later date only.";
    AdjustPast = 288, "adjust_past", "The date has passed already.";
    GpusWrong = 290, "gpus_wrong",
        "A command that needs a GPU asks for 1 to 16 whole ones, or for 1 to 19 twentieths of one.";
    HostWrong = 292, "host_wrong",
        "Only commands hold processors and memory of a machine; tensor programs take a slot.";

    Applied = 300, "applied", "The transaction was carried out.";
    Credited = 301, "credited", "The account was credited by the genesis.";
    Transferred = 302, "transferred", "An amount moved from one account to another.";
    Staked = 303, "staked", "An amount was put at stake.";
    UnbondingStarted = 304, "unbonding_started", "Stake was called back and waits for its release.";
    Unbonded = 305, "unbonded", "Stake was released to its owner.";
    NodeRegistered = 306, "node_registered", "A node was registered.";
    NodeChanged = 307, "node_changed", "A node's description was changed by its owner.";
    NodeLeft = 308, "node_left", "A node was taken out by its owner.";
    NodeSilent = 309, "node_silent",
        "A node was dropped, because a quorum of validators did not see it.";
    AbsenceReported = 310, "absence_reported", "A validator reported nodes it did not see.";
    JobQueued = 311, "job_queued", "A job was queued and its escrow locked.";
    JobCancelled = 312, "job_cancelled",
        "A job was cancelled by its owner and its escrow refunded.";
    JobExpired = 313, "job_expired", "A job was not done in time and its escrow refunded.";
    Equivocated = 314, "equivocated", "A validator voted for two things at once and lost stake.";
    PenaltyTaken = 315, "penalty_taken", "A penalty was taken and burned.";
    FeesShared = 316, "fees_shared",
        "The block's fees were burned, put into the treasury and paid to its proposer.";
    BeaconRecorded = 317, "beacon_recorded", "A certificate was recorded as beacon.";
    ProgramRecorded = 318, "program_recorded", "A tensor program is on record.";
    JobPlaced = 319, "job_placed", "A job was given to a node.";
    RunGivenUp = 320, "run_given_up", "A node gave a run up.";
    RunMissed = 321, "run_missed", "A node did not answer in time.";
    RunLost = 322, "run_lost", "A node disappeared with a run.";
    ResultCommitted = 323, "result_committed", "A node committed to a result.";
    ResultRevealed = 324, "result_revealed", "A node showed its result.";
    CheckDrawn = 325, "check_drawn", "A node was drawn to check a result.";
    ResultNotDrawn = 326, "result_not_drawn", "The result was not drawn for an audit.";
    CheckCommitted = 327, "check_committed", "A checker committed to its answer.";
    CheckPassed = 328, "check_passed", "A checker found the result right.";
    CheckMissed = 329, "check_missed", "A checker did not answer in time.";
    DisputeOpened = 330, "dispute_opened", "Somebody objects to a result.";
    DisputeAnswered = 331, "dispute_answered",
        "The provider answered in a dispute, or whoever vouched for its result.";
    ClaimPicked = 332, "claim_picked", "The challenger picked a claim in a dispute.";
    ResultRefuted = 333, "result_refuted", "The result was shown to be wrong.";
    ObjectionRefuted = 334, "objection_refuted", "The objection was shown to be wrong.";
    ResultUndefended = 335, "result_undefended", "The provider did not defend its result in time.";
    ObjectionDropped = 336, "objection_dropped", "The challenger did not go on in time.";
    RunsDisagreed = 337, "runs_disagreed",
        "Runs gave different outputs: the work is not deterministic, or a provider is wrong.";
    JobSettled = 338, "job_settled", "The result was accepted and paid.";
    JobFailed = 339, "job_failed", "No result was accepted; the escrow was refunded.";
    ProviderPaid = 340, "provider_paid", "A provider was paid for a run.";
    CheckerPaid = 341, "checker_paid", "A checker was paid.";
    NodeSlashed = 342, "node_slashed",
        "A node's owner lost stake for a result that is wrong or does not open.";
    NodeFined = 343, "node_fined", "A node's owner was fined.";
    NodeAbsent = 344, "node_absent", "A quorum of validators does not see the node.";
    CapacityAsked = 345, "capacity_asked", "A node was asked to show the capacity of a device.";
    CapacityCommitted = 346, "capacity_committed", "A node committed to a memory that it filled.";
    CapacityDrawn = 347, "capacity_drawn", "Blocks of a filled memory were drawn.";
    CapacityShown = 348, "capacity_shown", "A node showed some of the blocks that were drawn.";
    CapacityProved = 349, "capacity_proved",
        "A node showed the capacity of a device, which is credited now.";
    CapacityMissed = 350, "capacity_missed",
        "A node did not show the capacity of a device in time; it gets no work until it does.";
    Complained = 351, "complained", "Somebody complains that a package does not open.";
    ComplaintJudged = 352, "complaint_judged", "A validator said whether a package opens.";
    ComplaintUpheld = 353, "complaint_upheld",
        "A quorum of validators found that the package does not open.";
    ComplaintRejected = 354, "complaint_rejected",
        "A quorum of validators found that the package opens.";
    ComplaintLapsed = 355, "complaint_lapsed",
        "Too few validators judged the complaint in time; the bond went back.";
    PackageDoesNotOpen = 356, "package_does_not_open",
        "The package with the inputs does not open, so the job cannot be done.";
    ResultProved = 357, "result_proved",
        "A result was shown to be right, and every validator verified it.";
    DefencePassed = 358, "defence_passed",
        "The provider did not go on in a dispute; those who vouched for the whole run may.";
    CheckRefused = 359, "check_refused",
        "A checker's answer does not show that it looked, so it counts as missed.";
    TilesNotShown = 360, "tiles_not_shown",
        "A checker recomputed the whole run; it says that the provider did not show its tiles.";
    ResultNotShowable = 361, "result_not_showable",
        "A node says that no result of this job can be shown to be right in the way it asks for.";
    KeyLacked = 370, "key_lacked",
        "A checker says that the owner, who keeps the key, has not handed it out.";
    CheckExcused = 371, "check_excused",
        "A checker had no key until its date; it is neither paid nor fined.";
    ResultUnchecked = 372, "result_unchecked",
        "The result was accepted unchecked, because the owner withheld the key.";
    PromiseGiven = 373, "promise_given",
        "A job was promised to be done by its deadline: a node runs it, or keeps a slot for it.";
    PromiseTooShort = 374, "promise_too_short",
        "A run with all its dates takes longer than there is until the deadline.";
    PromiseNoRoom = 375, "promise_no_room",
        "No node that fits has a slot that is surely free early enough before the deadline.";
    PromiseNoNode = 376, "promise_no_node", "No node passes the rules, so nobody can promise it.";
    PromiseBroken = 377, "promise_broken",
        "A promised job cannot be done by its deadline any more; the escrow was refunded.";
    ClientCompensated = 378, "client_compensated",
        "The owner of the node that failed a promise paid its client.";
    WeightsRegistered = 379, "weights_registered",
        "Secret weights were shown to fit a program, and are registered for it.";
    CheckpointSaved = 380, "checkpoint_saved", "A node saved the state of a job.";
    YieldAsked = 381, "yield_asked", "A run was asked to make room for a job that offers more.";
    RunYielded = 382, "run_yielded",
        "A run made room for a job that offers more; it goes on where it stopped.";
    StopAsked = 383, "stop_asked", "A run was asked to end, because its client stops the job.";
    RunStopped = 384, "run_stopped",
        "A run ended because its client stopped the job; it was paid for its time.";
    MoveAsked = 385, "move_asked",
        "A run was asked to save its state and to end; it goes on elsewhere.";
    RunMoved = 386, "run_moved",
        "A run left its node; it goes on elsewhere where it stopped.";
    GangBroken = 387, "gang_broken",
        "A member of a gang failed, so all its runs ended.";
    JobAdjusted = 388, "job_adjusted", "A client changed what it wants of a job.";
}

impl Encode for Reason {
    fn encode(&self, out: &mut Vec<u8>) {
        self.number().encode(out);
    }
}

impl Decode for Reason {
    const BYTES_MIN: usize = 2;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.position();
        let found = u16::decode(reader)?;
        Self::from_number(found).ok_or(DecodeError::Tag { at, found, expected: "Reason" })
    }
}

/// Shows the code.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn reasons_have_ascending_numbers_and_distinct_codes() {
        assert!(Reason::ALL.is_sorted_by(|left, right| left.number() < right.number()));
        let mut codes: Vec<_> = Reason::ALL.iter().map(|reason| reason.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Reason::ALL.len());
    }

    #[test]
    fn reason_code_is_its_name_in_snake_case() {
        for reason in Reason::ALL {
            let mut snake = String::new();
            for letter in format!("{reason:?}").chars() {
                if letter.is_uppercase() && !snake.is_empty() {
                    snake.push('_');
                }
                snake.push(letter.to_ascii_lowercase());
            }
            assert_eq!(reason.code(), snake);
            assert!(reason.sentence().ends_with('.'), "{reason}");
        }
    }
}
