//! Showing what the machine can do: when the ledger asks, a memory is filled, its root is committed
//! to, and the blocks that a later beacon draws are opened. All of it follows from the seed, so an
//! agent that died meanwhile fills again and goes on.

use std::sync::Arc;
use tg_ledger::{CapacityStep, drawn_place};
use tg_tensor::capacity::{self, CapacityError, Filled, OPENING_BYTES_MAX};
use tg_tensor::judge::encode_openings;
use tg_types::tx::CapacityOpenings;
use tg_types::{Action, Bytes, Hash32};

/// Openings of one transaction.
const OPENINGS_PER_TX: usize = 3;

const _: () = assert!(OPENINGS_PER_TX * OPENING_BYTES_MAX < 14 * 1024);

/// What is to be done once a memory is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Commit to it.
    Commit,
    /// Keep it until blocks are drawn.
    Keep,
    /// Show blocks that were drawn.
    Show(Drawn),
}

/// Blocks that were drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    /// What they follow from.
    pub(crate) lot: Hash32,
    /// How many were shown before.
    pub(crate) shown: u8,
}

/// A memory to fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) seed: Hash32,
    pub(crate) blocks: u32,
    pub(crate) then: Then,
}

impl Question {
    /// What a node is asked for, as its record says.
    pub(crate) fn of(step: &CapacityStep) -> Option<Self> {
        let (fill, then) = match *step {
            CapacityStep::Filling { fill, .. } => (fill, Then::Commit),
            CapacityStep::Committed { fill, .. } => (fill, Then::Keep),
            CapacityStep::Showing { fill, lot, shown, .. } => {
                (fill, Then::Show(Drawn { lot, shown }))
            }
            CapacityStep::Idle | CapacityStep::Waiting { .. } | CapacityStep::Resting { .. } => {
                return None;
            }
        };
        Some(Self { seed: fill.seed, blocks: fill.blocks, then })
    }
}

/// A memory that was filled, as long as somebody may ask for its blocks.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) seed: Hash32,
    pub(crate) blocks: u32,
    pub(crate) filled: Arc<Filled>,
}

/// Fills a memory with all cores. Takes its time: not for the thread of the agent.
pub(crate) fn fill(question: &Question) -> Result<Answer, CapacityError> {
    let Question { seed, blocks, .. } = *question;
    let filled = Arc::new(capacity::fill(seed, blocks, 0)?);
    Ok(Answer { seed, blocks, filled })
}

impl Answer {
    /// The commitment.
    pub(crate) fn commitment(&self) -> Action {
        Action::CommitCapacity { root: self.filled.root() }
    }

    /// Transactions that show the blocks which are not shown yet, out of so many that were drawn.
    /// A node that lies opens others.
    pub(crate) fn openings(
        &self,
        drawn: Drawn,
        needed: u8,
        lies: bool,
    ) -> Result<Vec<Action>, CapacityError> {
        let place = |number: u8| {
            let place = drawn_place(&drawn.lot, number, self.blocks);
            if lies { place ^ 1 } else { place }
        };
        let openings: Result<Vec<_>, _> =
            (drawn.shown..needed).map(|number| self.filled.open(place(number))).collect();
        let show = |openings: &[_]| -> Option<Action> {
            let openings: CapacityOpenings = Bytes::new(encode_openings(openings)).ok()?;
            Some(Action::ShowCapacity { openings })
        };
        Ok(openings?.chunks(OPENINGS_PER_TX).filter_map(show).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{Drawn, Question, Then, fill};
    use tg_ledger::{CapacityStep, Fill, drawn_place};
    use tg_tensor::judge::TensorJudge;
    use tg_types::{Action, DurationMs, FillClaim, Hash32, Height, StepJudge, Tick};

    const SEED: Hash32 = Hash32::new([5; 32]);
    const LOT: Hash32 = Hash32::new([6; 32]);
    const BLOCKS: u32 = 1_024;

    /// How many blocks each transaction shows, as the ledger's judge counts them.
    fn judged(drawn: Drawn, needed: u8, lies: bool) -> Vec<Option<usize>> {
        let question = Question { seed: SEED, blocks: BLOCKS, then: Then::Commit };
        let answer = fill(&question).expect("a little memory");
        let Action::CommitCapacity { root } = answer.commitment() else {
            unreachable!("a commitment");
        };
        let claim = FillClaim { seed: SEED, blocks: BLOCKS, root };
        let mut shown = drawn.shown;
        let mut counts = Vec::new();
        for action in answer.openings(drawn, needed, lies).expect("blocks") {
            let Action::ShowCapacity { openings } = action else { unreachable!("openings") };
            let places: Vec<u32> =
                (shown..needed).map(|number| drawn_place(&drawn.lot, number, BLOCKS)).collect();
            let count = TensorJudge.opened(&claim, &places, openings.as_slice());
            shown += u8::try_from(count.unwrap_or(0)).expect("few");
            counts.push(count);
        }
        counts
    }

    #[test]
    fn openings_are_what_the_judge_wants_and_lies_are_not() {
        let first = Drawn { lot: LOT, shown: 0 };
        assert_eq!(judged(first, 3, false), [Some(3)]);
        assert_eq!(judged(first, 8, false), [Some(3), Some(3), Some(2)]);
        assert_eq!(judged(Drawn { shown: 5, ..first }, 8, false), [Some(3)]);
        assert_eq!(judged(first, 3, true), [None]);
    }

    #[test]
    fn record_of_a_node_says_what_is_to_be_done() {
        let fill = Fill { seed: SEED, blocks: BLOCKS, memory_mib: 7 };
        let (root, took) = (LOT, DurationMs::SECOND);
        let (since, deadline, height) = (Tick::ZERO, Tick::MAX, Height::FIRST);
        let check = |step: CapacityStep, then: Option<Then>| {
            let expected = then.map(|then| Question { seed: SEED, blocks: BLOCKS, then });
            assert_eq!(Question::of(&step), expected);
        };
        check(CapacityStep::Filling { fill, since, deadline }, Some(Then::Commit));
        check(CapacityStep::Committed { fill, root, height, took }, Some(Then::Keep));
        let showing = CapacityStep::Showing { fill, root, took, lot: LOT, shown: 2, deadline };
        check(showing, Some(Then::Show(Drawn { lot: LOT, shown: 2 })));
        check(CapacityStep::Idle, None);
        check(CapacityStep::Waiting { height }, None);
        check(CapacityStep::Resting { until: deadline }, None);
    }
}
