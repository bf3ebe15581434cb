//! What an event is about: its reason and its job. Apart, because the list of events is long.

use super::Event;
use crate::ids::JobId;
use crate::reason::Reason;

/// The reasons of events that have one of their own; the others say why they happened.
macro_rules! reasons {
    ($( $event:ident => $reason:ident, )*) => {
        impl Event {
            /// Why it happened.
            pub const fn reason(&self) -> Reason {
                match self {
                    $( Self::$event { .. } => Reason::$reason, )*
                    Self::RunEnded { why, .. }
                    | Self::DisputeEnded { why, .. }
                    | Self::PromiseRefused { why, .. } => *why,
                }
            }
        }
    };
}

/// Which events are about a job.
macro_rules! jobs {
    (with { $( $with:ident, )* } without { $( $without:ident, )* }) => {
        impl Event {
            /// The job it is about, if it is about one.
            pub const fn job(&self) -> Option<JobId> {
                match self {
                    $( Self::$with { job, .. } )|* => Some(*job),
                    $( Self::$without { .. } )|* => None,
                }
            }
        }
    };
}

reasons! {
    AccountCredited => Credited,
    Transferred => Transferred,
    Staked => Staked,
    UnbondingStarted => UnbondingStarted,
    Unbonded => Unbonded,
    NodeRegistered => NodeRegistered,
    NodeChanged => NodeChanged,
    NodeLeft => NodeLeft,
    NodeDropped => NodeSilent,
    AbsenceReported => AbsenceReported,
    JobQueued => JobQueued,
    JobCancelled => JobCancelled,
    JobExpired => JobExpired,
    Slashed => Equivocated,
    PenaltyTaken => PenaltyTaken,
    FeesShared => FeesShared,
    BeaconRecorded => BeaconRecorded,
    ProgramRecorded => ProgramRecorded,
    JobPlaced => JobPlaced,
    ResultCommitted => ResultCommitted,
    ResultRevealed => ResultRevealed,
    ResultProved => ResultProved,
    CheckDrawn => CheckDrawn,
    ResultNotDrawn => ResultNotDrawn,
    CheckCommitted => CheckCommitted,
    CheckPassed => CheckPassed,
    CheckMissed => CheckMissed,
    DisputeOpened => DisputeOpened,
    DisputeAnswered => DisputeAnswered,
    ClaimPicked => ClaimPicked,
    RunsDisagreed => RunsDisagreed,
    JobSettled => JobSettled,
    JobFailed => JobFailed,
    ProviderPaid => ProviderPaid,
    CheckerPaid => CheckerPaid,
    NodeSlashed => NodeSlashed,
    NodeFined => NodeFined,
    NodeAbsent => NodeAbsent,
    CapacityAsked => CapacityAsked,
    CapacityCommitted => CapacityCommitted,
    CapacityDrawn => CapacityDrawn,
    CapacityShown => CapacityShown,
    CapacityProved => CapacityProved,
    CapacityMissed => CapacityMissed,
    Complained => Complained,
    ComplaintJudged => ComplaintJudged,
    ComplaintUpheld => ComplaintUpheld,
    ComplaintRejected => ComplaintRejected,
    ComplaintLapsed => ComplaintLapsed,
    DefencePassed => DefencePassed,
    CheckRefused => CheckRefused,
    TilesNotShown => TilesNotShown,
    KeyLacked => KeyLacked,
    CheckExcused => CheckExcused,
    ResultUnchecked => ResultUnchecked,
    PromiseGiven => PromiseGiven,
    PromiseBroken => PromiseBroken,
    ClientCompensated => ClientCompensated,
    WeightsRegistered => WeightsRegistered,
    CheckpointSaved => CheckpointSaved,
    YieldAsked => YieldAsked,
    RunYielded => RunYielded,
    StopAsked => StopAsked,
    RunStopped => RunStopped,
    MoveAsked => MoveAsked,
    RunMoved => RunMoved,
    GangBroken => GangBroken,
    JobAdjusted => JobAdjusted,
}

jobs! {
    with {
        JobQueued, JobCancelled, JobExpired, JobPlaced, RunEnded, ResultCommitted, ResultRevealed,
        ResultProved, CheckDrawn, ResultNotDrawn, CheckCommitted, CheckPassed, CheckMissed,
        DisputeOpened, DisputeAnswered, ClaimPicked, DisputeEnded, RunsDisagreed, JobSettled,
        JobFailed, ProviderPaid, CheckerPaid, NodeSlashed, NodeFined, Complained, ComplaintJudged,
        ComplaintUpheld, ComplaintRejected, ComplaintLapsed, DefencePassed, CheckRefused,
        TilesNotShown, KeyLacked, CheckExcused, ResultUnchecked, PromiseGiven, PromiseRefused,
        PromiseBroken, CheckpointSaved, YieldAsked, RunYielded, StopAsked, RunStopped, MoveAsked,
        RunMoved, GangBroken, ClientCompensated, JobAdjusted,
    }
    without {
        AccountCredited, Transferred, Staked, UnbondingStarted, Unbonded, NodeRegistered,
        NodeChanged, NodeLeft, NodeDropped, AbsenceReported, Slashed, PenaltyTaken, FeesShared,
        BeaconRecorded, ProgramRecorded, NodeAbsent, CapacityAsked, CapacityCommitted,
        CapacityDrawn, CapacityShown, CapacityProved, CapacityMissed, WeightsRegistered,
    }
}
