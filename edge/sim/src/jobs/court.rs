//! Disputes as they are fought on the ledger: answers, choices and the step that decides.

use super::{
    plan::{Checker, Ploy},
    play::{Held, Job, Play},
    tally::Role,
    trigger::Trigger,
};
use rand::RngExt as _;
use tg_ledger::{DisputeEntry, JobEntry, Turn};
use tg_tensor::{
    commit::TILE,
    dispute::{
        Answer, Child, Claim, Difference, Node, STATE_MAX, consistent, descend, differs,
        handover_of, make_step,
    },
    element::Element,
    judge::Evidence,
    program::Program,
    trace::{Handover, Witness},
};
use tg_types::{
    codec::{Decode as _, Encode as _},
    ids::{AccountId, JobId},
    reason::Reason,
    tx::{Action, DisputeAnswer, DisputeEvidence},
};

/// Where the money of those is counted who object to what they have nothing to do with.
const STRANGER: &str = "stranger";

/// How a challenger goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// It has computed the run.
    Knows,
    /// It objects to what is right, and goes anywhere.
    Wanders,
    /// It is the provider's own owner.
    Accomplice,
    /// It knows somebody who will state something false in the provider's place.
    Frames,
}

/// An objection.
#[derive(Clone, Debug)]
pub(super) struct Challenge {
    pub(super) account: AccountId,
    style: Style,
    /// Where its money is counted.
    line: (Role, &'static str),
    /// What the provider has said so far.
    heard: Vec<Answer>,
}

impl Challenge {
    const fn new(account: AccountId, style: Style, line: (Role, &'static str)) -> Self {
        Self { account, style, line, heard: Vec::new() }
    }

    /// A checker that found the result wrong.
    pub(super) const fn honest(account: AccountId) -> Self {
        Self::new(account, Style::Knows, (Role::Challenge, Checker::Honest.name()))
    }

    /// A checker that lies.
    pub(super) const fn false_checker(account: AccountId, checker: Checker) -> Self {
        Self::new(account, Style::Wanders, (Role::Challenge, checker.name()))
    }

    /// Somebody who has nothing to do with it.
    pub(super) const fn stranger(account: AccountId) -> Self {
        Self::new(account, Style::Wanders, (Role::Challenge, STRANGER))
    }

    /// Somebody who knows a checker that will state something false.
    pub(super) const fn framer(account: AccountId) -> Self {
        Self::new(account, Style::Frames, (Role::Challenge, STRANGER))
    }

    /// The provider's own owner: what it gets belongs to the run.
    pub(super) const fn accomplice(account: AccountId, ploy: Ploy) -> Self {
        Self::new(account, Style::Accomplice, (Role::Run, ploy.name()))
    }

    /// Where its money is counted.
    pub(super) const fn line(&self) -> (Role, &'static str) {
        self.line
    }

    /// Whether it knows somebody who states something false.
    pub(super) const fn is_framing(&self) -> bool {
        matches!(self.style, Style::Frames)
    }

    /// What it means that it was won or lost for this reason, if a scenario is there for that.
    pub(super) fn ended(&self, why: Reason) -> Option<Trigger> {
        let is_shown = why == Reason::ResultRefuted;
        let is_won = is_shown || why == Reason::ResultUndefended;
        match self.style {
            Style::Knows if is_won => {
                Some(if is_shown { Trigger::Refuted } else { Trigger::Undefended })
            }
            Style::Accomplice if is_won => Some(Trigger::Helped),
            Style::Wanders if !is_won => {
                let is_stranger = self.line.1 == STRANGER;
                Some(if is_stranger { Trigger::FalseChallenge } else { Trigger::FalseCheck })
            }
            Style::Knows | Style::Wanders | Style::Accomplice | Style::Frames => None,
        }
    }

    /// Whether it objects in good faith.
    pub(super) const fn is_honest(&self) -> bool {
        matches!(self.style, Style::Knows)
    }
}

impl Play {
    /// The turn of whoever must go on in a dispute.
    pub(super) fn argue(&mut self, id: &JobId, job: &mut Job, entry: &JobEntry) {
        let Some(dispute) = self.grid.dispute(id) else { return };
        let Ok(claim) = Child::from_bytes(dispute.claim.as_slice()) else { return };
        match dispute.turn {
            Turn::Provider => self.defend(id, job, &claim),
            Turn::StandIns => self.stand_in(id, job, entry, &claim),
            Turn::Challenger => self.attack(id, job, &claim, &dispute),
        }
    }

    /// The provider shows the step that decides, or says what the claim is made of. Those who know
    /// that they would lose, or have nothing to show, say nothing.
    fn defend(&mut self, id: &JobId, job: &Job, claim: &Child) {
        let Some(Held { party, ran: Some(ran), .. }) = &job.held else { return };
        let party = &self.cast.parties[*party];
        let says_nothing = match party.ploy {
            Ploy::NoAnswer | Ploy::Accomplice | Ploy::Late | Ploy::Copied => true,
            Ploy::Mute | Ploy::Away => true,
            Ploy::Honest | Ploy::Unshown | Ploy::Unreadable => false,
            Ploy::Lazy | Ploy::Middle | Ploy::Last => false,
            Ploy::Garbage | Ploy::Withheld | Ploy::FakeOutput => false,
        };
        if says_nothing {
            return;
        }
        let witness = self.works.witness(ran);
        // A liar points to what it did not lie about: its output is what its trace says.
        let bluffs = party.ploy.lies() && claim.node == Node::Trace;
        if let Some(tiles) = traced(&witness).filter(|_| bluffs) {
            self.grid.send(party.account, judge(id, &tiles));
        }
        if let Some(step) = make_step(&witness, claim) {
            self.grid.send(party.account, judge(id, &Evidence::Step(step)));
            return;
        }
        let Ok(mut answer) = descend(&witness, &claim.node) else { return };
        make_up(self.works.program(), claim, &mut answer);
        let answer = DisputeAnswer::new(answer.to_bytes()).expect("an answer fits a transaction");
        let action = Action::AnswerDispute { job: *id, answer };
        if party.ploy == Ploy::Lazy {
            self.grid.send(party.account, action.clone()); // once more than it may
        }
        self.grid.send(party.account, action);
    }

    /// Those who vouched for a result speak in the provider's place, as `tg-agent` does: what their
    /// own runs say. Who vouched for a friend's lie, or for what it has not seen, says nothing.
    fn stand_in(&mut self, id: &JobId, job: &Job, entry: &JobEntry, claim: &Child) {
        let is_lie = job.held.as_ref().is_none_or(|held| held.is_lie);
        let own = self.works.run(job.asked.task, job.asked.salt);
        let witness = self.works.witness(&own);
        for check in entry.stand_ins() {
            let Some(party) = self.cast.of_node(&check.node) else { continue };
            let party = &self.cast.parties[party];
            if is_lie || party.checker == Checker::Idle {
                continue;
            }
            if let Some(step) = make_step(&witness, claim) {
                self.grid.send(party.account, judge(id, &Evidence::Step(step)));
                continue;
            }
            let Ok(mut answer) = descend(&witness, &claim.node) else { continue };
            if party.checker == Checker::Frames {
                state_falsely(self.works.program(), claim, &mut answer);
            }
            if consistent(self.works.program(), claim, &answer).is_ok() {
                let bytes = answer.to_bytes();
                let answer = DisputeAnswer::new(bytes).expect("an answer fits a transaction");
                self.grid.send(party.account, Action::AnswerDispute { job: *id, answer });
            }
        }
    }

    fn attack(&mut self, id: &JobId, job: &mut Job, claim: &Child, dispute: &DisputeEntry) {
        let answer = dispute.answer.as_ref().and_then(|it| Answer::from_bytes(it.as_slice()).ok());
        let (Some(answer), Some(challenge)) = (answer, &mut job.challenge) else { return };
        challenge.heard.push(answer.clone());
        let account = challenge.account;
        let actions = match challenge.style {
            Style::Accomplice => Vec::new(),
            Style::Wanders => {
                let place = self.chance.random_range(0..answer.children.len());
                vec![pick(id, place)]
            }
            Style::Frames => {
                let own = self.works.run(job.asked.task, job.asked.salt);
                let mut witness = self.works.witness(&own);
                challenge.heard.iter().for_each(|answer| witness.learn(answer));
                let mine = descend(&witness, &claim.node).ok();
                match mine.and_then(|mine| differs(&mine, &answer)) {
                    Some(Difference::Child(place)) => {
                        let picked = answer.children.get(place);
                        let step = picked.and_then(|child| make_step(&witness, child));
                        let judged = step.map(|step| judge(id, &Evidence::Step(step)));
                        std::iter::once(pick(id, place)).chain(judged).collect()
                    }
                    Some(Difference::Salt) | None => {
                        vec![pick(id, self.chance.random_range(0..answer.children.len()))]
                    }
                }
            }
            Style::Knows => {
                let program = self.works.program();
                let told = challenge.heard.iter().find_map(|it| handover_of(program, it));
                told.map_or(Vec::new(), |handover| {
                    let own = self.works.run(job.asked.task, job.asked.salt);
                    let mut witness = self.works.witness(&own);
                    challenge.heard.iter().for_each(|answer| witness.learn(answer));
                    go_down(id, &witness, claim, &answer, handover)
                })
            }
        };
        for action in actions {
            self.grid.send(account, action);
        }
    }
}

fn pick(id: &JobId, place: usize) -> Action {
    Action::PickClaim { job: *id, child: u8::try_from(place).expect("at most 16 children") }
}

fn judge(id: &JobId, evidence: &Evidence) -> Action {
    let evidence = DisputeEvidence::new(evidence.to_bytes());
    Action::JudgeDispute { job: *id, evidence: evidence.expect("evidence fits a transaction") }
}

/// The first child that differs, and the step itself once it is one. If nothing differs, it is the
/// output beside the trace that is wrong.
fn go_down(
    id: &JobId,
    witness: &Witness<'_>,
    claim: &Child,
    answer: &Answer,
    handover: Handover,
) -> Vec<Action> {
    let mine = descend(witness, &claim.node).ok();
    match mine.and_then(|mine| differs(&mine, answer)) {
        None => traced(witness).map(|tiles| judge(id, &tiles)).into_iter().collect(),
        Some(Difference::Salt) => vec![judge(id, &Evidence::Salt(handover))],
        Some(Difference::Child(place)) => {
            let step = answer.children.get(place).and_then(|child| make_step(witness, child));
            let judged = step.map(|step| judge(id, &Evidence::Step(step)));
            std::iter::once(pick(id, place)).chain(judged).collect()
        }
    }
}

/// What the trace says of the outputs.
fn traced(witness: &Witness<'_>) -> Option<Evidence> {
    let mut tiles = Vec::new();
    for output in witness.program().outputs() {
        let count = witness.program().spec(output.value)?.elements().div_ceil(TILE);
        for tile in 0..u32::try_from(count).ok()? {
            tiles.push(witness.open(output.value, tile)?);
        }
    }
    Some(Evidence::Traced(tiles))
}

/// Changes states so that they end where the claim says, if they would not by themselves: a liar's
/// last way out. An honest answer stays as it is.
fn make_up(program: &Program, claim: &Child, answer: &mut Answer) {
    let Some(Claim::States { after: honest, .. }) = answer.children.last().map(|it| &it.claim)
    else {
        return;
    };
    let end = match (&claim.claim, claim.node) {
        (Claim::Values { values }, Node::Elements { operation, from, .. }) => {
            let fold = Element::new(program, operation as usize, from as usize);
            let (Some(fold), [value]) = (fold, values.as_slice()) else { return };
            if fold.finish(*honest) == *value { *honest } else { state_of(&fold, *value) }
        }
        (Claim::States { after, .. }, _) => *after,
        (Claim::Values { .. } | Claim::Digest { .. }, _) => return,
    };
    if let Some(Claim::States { after, .. }) = answer.children.last_mut().map(|it| &mut it.claim) {
        *after = end;
    }
}

/// Changes the last state of an element so that it still gives the same element.
fn state_falsely(program: &Program, claim: &Child, answer: &mut Answer) {
    let Node::Elements { operation, from, .. } = claim.node else { return };
    let Some(Claim::States { after, .. }) = answer.children.last_mut().map(|it| &mut it.claim)
    else {
        return;
    };
    let Some(fold) = Element::new(program, operation as usize, from as usize) else { return };
    let is_same = |other: &i64| fold.finish(*other) == fold.finish(*after);
    let other = [*after + 1, *after - 1].into_iter().find(is_same);
    *after = other.unwrap_or(*after);
}

/// The smallest state that gives at least a value; finishes never fall.
fn state_of(fold: &Element<'_>, value: i32) -> i64 {
    let (mut low, mut high) = (-STATE_MAX, STATE_MAX);
    while low < high {
        let middle = low + (high - low) / 2;
        if fold.finish(middle) >= value { high = middle } else { low = middle + 1 }
    }
    low
}
