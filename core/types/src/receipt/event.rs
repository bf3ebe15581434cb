//! What happened, in the past tense. Events are facts for readers; the ledger itself never reads
//! them back.

mod about;
mod sentence;

use crate::amount::Amount;
use crate::checkpoint::CheckpointRef;
use crate::ids::{AccountId, Hash32, JobId, NodeId};
use crate::job::{Message, RunResult, ShownBy};
use crate::reason::Reason;
use crate::tick::{DurationMs, Height, Tick};
use crate::wire;

wire! {
    /// Something that happened in a block.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Event {
        /// The genesis gave an account its balance.
        AccountCredited {
            /// Who received it.
            account: AccountId,
            /// How much.
            amount: Amount,
        } = 1,
        /// Money moved between accounts.
        Transferred {
            /// Who paid.
            from: AccountId,
            /// Who received it.
            to: AccountId,
            /// How much.
            amount: Amount,
        } = 2,
        /// Money was put at stake.
        Staked {
            /// Whose.
            account: AccountId,
            /// How much.
            amount: Amount,
        } = 3,
        /// Stake was called back.
        UnbondingStarted {
            /// Whose.
            account: AccountId,
            /// How much.
            amount: Amount,
            /// When it is released.
            due: Tick,
        } = 4,
        /// Stake was released.
        Unbonded {
            /// Whose.
            account: AccountId,
            /// How much.
            amount: Amount,
        } = 5,
        /// A node was registered.
        NodeRegistered {
            /// Which.
            node: NodeId,
            /// By whom.
            owner: AccountId,
        } = 6,
        /// A node's description changed.
        NodeChanged {
            /// Which.
            node: NodeId,
            /// By whom.
            owner: AccountId,
        } = 7,
        /// A node was taken out.
        NodeLeft {
            /// Which.
            node: NodeId,
            /// By whom.
            owner: AccountId,
        } = 8,
        /// A node was dropped because it was silent.
        NodeDropped {
            /// Which.
            node: NodeId,
            /// Whose it was.
            owner: AccountId,
        } = 9,
        /// A validator reported nodes it did not see.
        AbsenceReported {
            /// Who reported.
            reporter: AccountId,
            /// In which epoch.
            epoch: u64,
            /// How many nodes.
            count: u32,
        } = 10,
        /// A job was queued.
        JobQueued {
            /// Which.
            job: JobId,
            /// Whose.
            owner: AccountId,
            /// What was locked for it.
            escrow: Amount,
        } = 11,
        /// A job was cancelled.
        JobCancelled {
            /// Which.
            job: JobId,
            /// Whose.
            owner: AccountId,
            /// What went back.
            refund: Amount,
        } = 12,
        /// A job was not done in time.
        JobExpired {
            /// Which.
            job: JobId,
            /// Whose.
            owner: AccountId,
            /// What went back.
            refund: Amount,
        } = 13,
        /// A validator lost stake for voting twice.
        Slashed {
            /// Whose stake.
            offender: AccountId,
            /// Who sent the evidence.
            reporter: AccountId,
            /// What was lost.
            amount: Amount,
            /// What of it the reporter received; the rest was burned.
            bounty: Amount,
        } = 14,
        /// A penalty was burned.
        PenaltyTaken {
            /// Who paid.
            account: AccountId,
            /// How much.
            amount: Amount,
        } = 15,
        /// The block's fees were shared out.
        FeesShared {
            /// Who proposed the block.
            proposer: AccountId,
            /// What the proposer received.
            earned: Amount,
            /// What was burned.
            burned: Amount,
            /// What the treasury received.
            treasury: Amount,
        } = 16,
        /// A certificate became a beacon.
        BeaconRecorded {
            /// Of which block.
            height: Height,
            /// The beacon.
            beacon: Hash32,
        } = 17,
        /// A tensor program is on record.
        ProgramRecorded {
            /// Which.
            program: Hash32,
            /// What one run of it takes.
            multiply_adds: u64,
        } = 18,
        /// A job was given to a node.
        JobPlaced {
            /// Which.
            job: JobId,
            /// To which node.
            node: NodeId,
            /// Which run of the job, counted from 0.
            run: u8,
            /// When the node must have committed to a result.
            deadline: Tick,
        } = 19,
        /// A run ended without a result.
        RunEnded {
            /// Of which job.
            job: JobId,
            /// Of which node.
            node: NodeId,
            /// Why.
            why: Reason,
        } = 20,
        /// A node committed to a result.
        ResultCommitted {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
        } = 21,
        /// A node showed its result.
        ResultRevealed {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// The result.
            result: RunResult,
        } = 22,
        /// A node was drawn to check a result.
        CheckDrawn {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// In which round, counted from 0.
            round: u8,
        } = 23,
        /// A result was not drawn for an audit.
        ResultNotDrawn {
            /// Of which job.
            job: JobId,
        } = 24,
        /// A checker committed to its answer.
        CheckCommitted {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
        } = 25,
        /// A checker found a result right.
        CheckPassed {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
        } = 26,
        /// A checker did not answer in time.
        CheckMissed {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
        } = 27,
        /// Somebody objects to a result.
        DisputeOpened {
            /// Of which job.
            job: JobId,
            /// Who.
            challenger: AccountId,
            /// What stands on it.
            bond: Amount,
        } = 28,
        /// A provider answered in a dispute, or whoever vouched for its result in its place.
        DisputeAnswered {
            /// About which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// In which round.
            round: u8,
        } = 29,
        /// A challenger picked a claim.
        ClaimPicked {
            /// About which job.
            job: JobId,
            /// In which round.
            round: u8,
            /// Which claim.
            child: u8,
        } = 30,
        /// A dispute ended.
        DisputeEnded {
            /// About which job.
            job: JobId,
            /// Who objected.
            challenger: AccountId,
            /// How.
            why: Reason,
        } = 31,
        /// Runs of a job gave different outputs.
        RunsDisagreed {
            /// Which.
            job: JobId,
        } = 32,
        /// A job was accepted and paid.
        JobSettled {
            /// Which.
            job: JobId,
            /// Whose.
            owner: AccountId,
            /// The accepted output.
            output: Hash32,
            /// What it cost in all.
            charged: Amount,
            /// What went back.
            refund: Amount,
        } = 33,
        /// A job ended without an accepted result.
        JobFailed {
            /// Which.
            job: JobId,
            /// Whose.
            owner: AccountId,
            /// What went back.
            refund: Amount,
        } = 34,
        /// A provider was paid for a run.
        ProviderPaid {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// Who received it.
            owner: AccountId,
            /// How much.
            amount: Amount,
        } = 35,
        /// A checker was paid.
        CheckerPaid {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// Who received it.
            owner: AccountId,
            /// How much.
            amount: Amount,
        } = 36,
        /// A node's owner lost stake for a result that is wrong or does not open.
        NodeSlashed {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// Whose stake.
            owner: AccountId,
            /// What was lost.
            amount: Amount,
            /// What of it the challenger or the client received; the rest was burned.
            bounty: Amount,
        } = 37,
        /// A node's owner was fined; the fine was burned.
        NodeFined {
            /// Because of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// Whose stake.
            owner: AccountId,
            /// How much.
            amount: Amount,
        } = 38,
        /// A quorum of validators does not see a node.
        NodeAbsent {
            /// Which.
            node: NodeId,
            /// Whose.
            owner: AccountId,
        } = 39,
        /// A node was asked to fill the memory of a device.
        CapacityAsked {
            /// Which.
            node: NodeId,
            /// That of which of its devices, by its place in the offer.
            device: u8,
            /// From what.
            seed: Hash32,
            /// How many blocks of 1 KiB.
            blocks: u32,
            /// Until when it may commit to it.
            deadline: Tick,
        } = 40,
        /// A node committed to a memory that it filled.
        CapacityCommitted {
            /// Which.
            node: NodeId,
            /// The root over all blocks.
            root: Hash32,
        } = 41,
        /// Blocks of a filled memory were drawn.
        CapacityDrawn {
            /// Whose.
            node: NodeId,
            /// What they follow from.
            lot: Hash32,
            /// Until when they may be shown.
            deadline: Tick,
        } = 42,
        /// A node showed some of the blocks that were drawn.
        CapacityShown {
            /// Which.
            node: NodeId,
            /// How many of them are shown by now.
            shown: u8,
        } = 43,
        /// A node showed the capacity of a device.
        CapacityProved {
            /// Which.
            node: NodeId,
            /// That of which of its devices.
            device: u8,
            /// The memory that it is credited with.
            memory_mib: u32,
            /// How many blocks of 1 KiB it filled.
            blocks: u32,
            /// How long that took, in block time.
            took: DurationMs,
        } = 44,
        /// A node did not show the capacity of a device in time.
        CapacityMissed {
            /// Which.
            node: NodeId,
            /// That of which of its devices.
            device: u8,
            /// When it is asked again.
            again: Tick,
        } = 45,
        /// Somebody complains that a package does not open.
        Complained {
            /// Of which job.
            job: JobId,
            /// Who.
            by: AccountId,
            /// Which package.
            about: Message,
            /// The secret that should open it.
            key: [u8; 32],
            /// What stands on it.
            bond: Amount,
            /// Until when validators judge it.
            deadline: Tick,
        } = 46,
        /// A validator said whether a package opens.
        ComplaintJudged {
            /// Of which job.
            job: JobId,
            /// Which validator: the owner of the seat.
            validator: AccountId,
            /// Whether it opens.
            opens: bool,
        } = 47,
        /// A quorum of validators found that a package does not open.
        ComplaintUpheld {
            /// Of which job.
            job: JobId,
            /// Which package.
            about: Message,
            /// What those who handed it in lost: stake for a result, escrow for inputs.
            lost: Amount,
        } = 48,
        /// A quorum of validators found that a package opens; the bond was burned.
        ComplaintRejected {
            /// Of which job.
            job: JobId,
            /// Which package.
            about: Message,
            /// Who complained.
            by: AccountId,
            /// What it lost.
            lost: Amount,
        } = 49,
        /// Too few validators judged a complaint in time; the bond went back.
        ComplaintLapsed {
            /// Of which job.
            job: JobId,
            /// Which package.
            about: Message,
        } = 50,
        /// A node showed a result with all that shows it to be right.
        ResultProved {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// The result.
            result: RunResult,
            /// How it was shown to be right.
            by: ShownBy,
        } = 51,
        /// A provider did not go on in a dispute; those who vouched for the whole run may.
        DefencePassed {
            /// About which job.
            job: JobId,
            /// Until when.
            deadline: Tick,
        } = 52,
        /// A checker's answer does not show that it looked; it has no other.
        CheckRefused {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
        } = 53,
        /// A checker of tiles found a result right by recomputing the whole run: it says that the
        /// provider did not show what its tiles read.
        TilesNotShown {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
        } = 54,
        /// A checker says that the owner, who keeps the key, has not handed it out.
        KeyLacked {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
        } = 55,
        /// A checker's date has come without the key: it is neither paid nor fined.
        CheckExcused {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
        } = 56,
        /// A result was accepted unchecked: its owner withheld the key.
        ResultUnchecked {
            /// Of which job.
            job: JobId,
            /// Whose.
            owner: AccountId,
        } = 57,
        /// A job was promised to be done in time.
        PromiseGiven {
            /// Which.
            job: JobId,
            /// Which node runs it or keeps a slot for it.
            node: NodeId,
            /// When it begins at the latest.
            from: Tick,
            /// By when it will be done.
            by: Tick,
        } = 58,
        /// A job was not promised, so it ended.
        PromiseRefused {
            /// Which.
            job: JobId,
            /// Whose.
            owner: AccountId,
            /// Why.
            why: Reason,
            /// The earliest deadline that would have been promised, if there is one.
            earliest: Option<Tick>,
            /// What went back.
            refund: Amount,
        } = 59,
        /// A promise cannot be kept, and its job ends.
        PromiseBroken {
            /// Which.
            job: JobId,
            /// Whose.
            owner: AccountId,
            /// By when it was to be done.
            by: Tick,
        } = 60,
        /// A node failed a promise that nobody else could keep.
        ClientCompensated {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// Whose stake.
            owner: AccountId,
            /// Who received it.
            client: AccountId,
            /// How much.
            amount: Amount,
        } = 61,
        /// Secret weights are registered for a program.
        WeightsRegistered {
            /// The commitment to them, by content.
            weights: Hash32,
            /// The program that they fit.
            program: Hash32,
            /// Whose they are.
            owner: AccountId,
            /// How many proofs may be made about them besides the registration.
            proofs: u16,
        } = 62,
        /// The state of a command was saved.
        CheckpointSaved {
            /// Of which job.
            job: JobId,
            /// By which node.
            node: NodeId,
            /// The package with it.
            checkpoint: CheckpointRef,
            /// How long the work in it took, over all runs.
            ran: DurationMs,
        } = 63,
        /// A node was asked to end a run so that a job that offers more can have its place.
        YieldAsked {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// Which job waits for it.
            to: JobId,
            /// By when.
            by: Tick,
        } = 64,
        /// A node ended a run so that another job could have its place; it goes on later where it
        /// stopped.
        RunYielded {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// Which job it made room for.
            to: JobId,
            /// How long it ran.
            ran: DurationMs,
            /// What it was paid for that.
            paid: Amount,
            /// What went back of what was locked, because the rest does not need it.
            refund: Amount,
        } = 65,
        /// A node was asked to end a run, because its client stops the job.
        StopAsked {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// Until when its time is paid.
            by: Tick,
        } = 66,
        /// A run ended because its client stopped the job.
        RunStopped {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// How long it ran.
            ran: DurationMs,
            /// What it was paid for that.
            paid: Amount,
        } = 67,
        /// A node was asked to save the state of a run, so that it goes on elsewhere: the node
        /// closes, or there is a better place.
        MoveAsked {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// By when.
            by: Tick,
        } = 68,
        /// A node that was asked to has ended a run; it goes on elsewhere where it stopped.
        RunMoved {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// How long it ran.
            ran: DurationMs,
            /// What it was paid for that.
            paid: Amount,
            /// What went back of what was locked, because the rest does not need it.
            refund: Amount,
        } = 69,
        /// A member of a gang failed, so the runs of all its members ended.
        GangBroken {
            /// Of which job.
            job: JobId,
            /// Which member failed first.
            node: NodeId,
            /// What the other members were paid for their time.
            paid: Amount,
        } = 70,
        /// A client changed what it wants of a job.
        JobAdjusted {
            /// Which job.
            job: JobId,
            /// What a run is paid now.
            pay: Amount,
            /// On how many nodes it runs at the same time now.
            nodes: u8,
            /// When it expires now.
            expires: Tick,
            /// What is locked for it now.
            escrow: Amount,
        } = 71,
    }
}

#[cfg(test)]
mod tests {
    use super::Event;
    use crate::amount::Amount;
    use crate::ids::AccountId;
    use crate::key::SecretKey;
    use crate::reason::Reason;

    #[test]
    fn event_is_told_in_a_sentence_with_its_values() {
        let account = |number| AccountId::from(SecretKey::from_seed([number; 32]).public());
        let (from, to, amount) = (account(1), account(2), Amount::constant(1_500_000_000));
        let event = Event::Transferred { from, to, amount };
        assert_eq!(event.reason(), Reason::Transferred);
        assert_eq!(event.sentence(), format!("{from} paid 1.5 TGRID to {to}."));
    }
}
