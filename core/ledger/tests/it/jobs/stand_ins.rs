//! Who answers in a dispute when the provider does not, and who loses what for whose words.

use tg_ledger::Turn;
use tg_types::{Action, Event, JobId, JobStatus, NetworkKind, Reason, Tier};

use super::audit_params;
use crate::fleet::*;
use crate::judge::{REFUTED, STEP, answer, false_answer};
use crate::world::*;

/// What stands on an objection.
const BOND: u64 = 500_000;
/// What a run and a check put at risk.
const RUN_BOND: u64 = 20 * PAY;
const CHECK_BOND: u64 = 10 * PAY;

/// A dispute about a result for which the first two of three checkers have vouched: one has shown
/// its answer, the other has sealed it.
struct Case {
    world: World,
    job: JobId,
    provider: u8,
    shown: u8,
    sealed: u8,
    drawn: u8,
}

impl Case {
    fn new(result: &tg_types::RunResult) -> Self {
        let mut world = World::staffed(6);
        let (job, provider, checkers) = world.checked(result);
        let [shown, sealed, drawn] = checkers[..] else { unreachable!("three checkers") };
        // The third one misses, and another is drawn in its place, who has not answered yet.
        for number in [shown, sealed] {
            world.act(number, vouch_as(number, job, result));
        }
        world.pass(4_000);
        world.act(shown, open_as(shown, job, result));
        assert!(world.ended(job).is_empty() && world.status(job) == JobStatus::Checking);
        world.succeed(account(CHALLENGER), Action::Object { job });
        Self { world, job, provider, shown, sealed, drawn }
    }

    /// The provider's turn passes without a word.
    fn lapse(&mut self) -> Vec<Event> {
        let events = self.world.pass(3_000);
        assert_eq!(self.turn(), Some(Turn::StandIns), "{events:?}");
        events
    }

    fn turn(&self) -> Option<Turn> {
        self.world.dispute(&self.job).map(|dispute| dispute.turn)
    }

    fn answer(&mut self, number: u8, words: Vec<u8>) {
        self.world.act(number, answer_by(self.job, words));
    }

    fn pick(&mut self) {
        self.world.succeed(account(CHALLENGER), Action::PickClaim { job: self.job, child: 0 });
    }

    /// What everybody has lost: provider, who has shown, who has sealed, who was drawn only.
    fn lost(&self) -> [u64; 4] {
        let lost = |number: u8| STAKE - self.world.stake(&account(number)).active.units();
        // The one that missed was fined before.
        let fine = job_params().fine.units();
        let [provider, shown, sealed, drawn] =
            [self.provider, self.shown, self.sealed, self.drawn].map(lost);
        [provider, shown, sealed, drawn - fine]
    }
}

#[test]
fn silent_provider_is_stood_in_for_by_those_who_vouched() {
    let mut case = Case::new(&right());
    let Case { job, provider, shown, sealed, drawn, .. } = case;
    case.world.refused(shown, answer_by(job, answer(0, 16)), Reason::DisputeTurn);
    let passed =
        |event: &Event| matches!(event, Event::DefencePassed { job: of, .. } if *of == job);
    assert!(case.lapse().iter().any(passed));
    let stranger = (0..6).find(|number| ![provider, shown, sealed, drawn].contains(number));
    for number in [drawn, stranger.expect("six nodes")] {
        case.world.refused(number, answer_by(job, answer(0, 16)), Reason::DisputeTurn);
        case.world.refused(number, judge_by(job, STEP), Reason::DisputeTurn);
    }
    let events = case.world.act(sealed, answer_by(job, answer(0, 16)));
    assert_eq!(events, [Event::DisputeAnswered { job, node: node(sealed), round: 0 }]);
    case.world.refused(shown, answer_by(job, answer(0, 16)), Reason::DisputeTurn);
    case.world.refused(shown, judge_by(job, REFUTED), Reason::DisputeTurn);
    case.pick();
    assert_eq!(case.turn(), Some(Turn::StandIns), "nobody waits for the provider again");
    let before = case.world.balance(&account(shown));
    case.answer(shown, answer(1, 16));
    case.pick();
    case.world.act(sealed, judge_by(job, STEP));
    assert_eq!(case.world.status(job), JobStatus::Checking);
    assert_eq!(case.lost(), [0; 4]);
    assert_eq!(case.world.balance(&account(shown)), before + BOND / 2, "who answered last");
}

#[test]
fn provider_that_comes_back_goes_on_alone() {
    let mut case = Case::new(&right());
    let (provider, job) = (case.provider, case.job);
    case.lapse();
    case.answer(provider, answer(0, 16));
    case.pick();
    assert_eq!(case.turn(), Some(Turn::Provider));
    case.world.refused(case.shown, answer_by(job, answer(1, 16)), Reason::DisputeTurn);
    case.lapse();
    case.answer(case.shown, answer(1, 16));
    case.pick();
    case.answer(provider, answer(2, 16));
    case.pick();
    case.world.act(provider, judge_by(job, STEP));
    assert_eq!(case.lost(), [0; 4]);
}

/// Goal: a provider that falls silent does not spare its friends. Method: nobody says a word, and
/// nobody goes on with a claim that the root binds.
#[test]
fn silence_of_all_costs_half_of_every_bond() {
    for rounds in 0..2 {
        let mut case = Case::new(&wrong(1));
        let (job, shown) = (case.job, case.shown);
        case.lapse();
        for round in 0..rounds {
            case.answer(shown, answer(round, 16));
            case.pick();
        }
        let before = case.world.balance(&account(CHALLENGER));
        let events = case.world.pass(3_000);
        let (challenger, why) = (account(CHALLENGER), Reason::ResultUndefended);
        assert!(events.contains(&Event::DisputeEnded { job, challenger, why }));
        assert_eq!(case.lost(), [RUN_BOND / 2, CHECK_BOND / 2, CHECK_BOND / 2, 0]);
        let bounties = (RUN_BOND / 2 + CHECK_BOND) / 10;
        assert_eq!(case.world.balance(&challenger), before + BOND + bounties);
        assert_eq!(case.world.ended(job), [why]);
    }
}

/// Goal: nobody answers for a sum that somebody else has stated. Method: the shown checker, or the
/// provider, states something false about a right result, and nobody can go on with it.
#[test]
fn silence_about_a_sum_costs_its_author_only() {
    for is_provider in [false, true] {
        let mut case = Case::new(&right());
        case.lapse();
        case.answer(case.shown, answer(0, 16));
        case.pick();
        let author = if is_provider { case.provider } else { case.shown };
        case.answer(author, false_answer(1, 16));
        case.pick();
        let job = case.job;
        case.world.refused(case.provider, answer_by(job, answer(2, 16)), Reason::AnswerWrong);
        // If the provider spoke last, the turn passes once more.
        case.world.pass(if is_provider { 6_000 } else { 3_000 });
        let author = if is_provider { 0 } else { CHECK_BOND / 2 };
        assert_eq!(case.lost(), [RUN_BOND / 2, author, 0, 0]);
        assert_eq!(case.world.ended(job)[0], Reason::ResultUndefended);
    }
}

/// Goal: a false word costs whoever said it all it has at risk; a provider that was away loses what
/// silence costs, one that spoke itself all of its bond. Method: the same, with evidence.
#[test]
fn false_word_costs_its_author_the_whole_bond() {
    for is_provider in [false, true] {
        let mut case = Case::new(&right());
        let (job, challenger) = (case.job, account(CHALLENGER));
        case.lapse();
        case.answer(case.shown, answer(0, 16));
        case.pick();
        let author = if is_provider { case.provider } else { case.shown };
        case.answer(author, false_answer(1, 16));
        case.pick();
        let before = case.world.balance(&challenger);
        case.world.succeed(challenger, judge_by(job, STEP));
        let (lost, bounty, why) = if is_provider {
            ([RUN_BOND, 0, 0, 0], RUN_BOND / 2, Reason::ResultRefuted)
        } else {
            let bounty = RUN_BOND / 2 / 10 + CHECK_BOND / 2;
            ([RUN_BOND / 2, CHECK_BOND, 0, 0], bounty, Reason::ResultUndefended)
        };
        assert_eq!(case.lost(), lost);
        assert_eq!(case.world.balance(&challenger), before + BOND + bounty - FEE.units());
        assert_eq!(case.world.ended(job), [why]);
    }
}

#[test]
fn evidence_that_roots_bind_convicts_all_who_vouched_whoever_spoke() {
    let mut case = Case::new(&wrong(1));
    let job = case.job;
    case.lapse();
    for round in 0..3 {
        case.answer(case.sealed, answer(round, 16));
        case.pick();
    }
    case.world.succeed(account(CHALLENGER), judge_by(job, STEP));
    assert_eq!(case.lost(), [RUN_BOND, CHECK_BOND, CHECK_BOND, 0]);
    assert_eq!(case.world.ended(job), [Reason::ResultRefuted]);
}

#[test]
fn checkers_of_tiles_and_those_who_have_not_answered_stand_in_for_nobody() {
    let mut params = audit_params(10_000);
    params.jobs.audit_tiles_from = 1;
    for (params, tier, has_answered) in
        [(params, Tier::Audit, true), (busy_params(), Tier::Sync, false)]
    {
        let mut world = World::staffed_with(params, NetworkKind::Local, 6);
        let job = world.ask(spec(tier));
        let [provider] = world.runners(job)[..] else { unreachable!("one run") };
        world.deliver(provider, job, &right());
        world.draw();
        let checkers = world.checkers(job);
        for number in checkers.iter().filter(|_| has_answered) {
            let answer = answer_to(&world.check_of(job, *number), &right());
            world.act(*number, seal_answer(*number, job, &answer));
        }
        world.succeed(account(CHALLENGER), Action::Object { job });
        world.pass(3_000);
        assert_eq!(world.ended(job), [Reason::ResultUndefended]);
        for number in checkers {
            assert_eq!(world.stake(&account(number)).active.units(), STAKE);
        }
    }
}

/// Goal: nobody can keep a dispute alive for ever. Method: the provider lets every turn of its own
/// lapse and answers in the time of those who stand in for it; the challenger goes along.
#[test]
fn dispute_with_stand_ins_ends_after_so_many_windows() {
    let mut case = Case::new(&wrong(1));
    let (job, provider, began) = (case.job, case.provider, case.world.env.tick);
    for round in 0..=64 {
        case.lapse();
        case.answer(provider, answer(round, 1));
        if round < 64 {
            case.pick();
        }
    }
    let last = Action::PickClaim { job, child: 0 };
    case.world.fail(account(CHALLENGER), last, Reason::AnswerWrong, tg_types::Amount::ZERO);
    case.world.pass(3_000);
    assert_eq!(case.world.dispute(&job), None);
    let lasted = case.world.env.tick.since(began).expect("later").get();
    let windows = lasted / job_params().answer_within.get();
    assert!(windows <= 65 * 3, "{windows} windows");
}
