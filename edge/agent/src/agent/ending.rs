//! Runs that end before they are finished: because another job offers more, their client stops
//! them, the node closes, there is a better place, or another member of their gang failed. The
//! program is asked to end, and ended when it does not; what the ledger is told then comes with the
//! report of the run.

use super::books::{StaleStep, Under};
use super::{Report, State};
use std::time::Duration;
use tg_types::{Event, JobId, RunFailure};

impl State {
    /// What follows when a run of ours has to end before it is finished, or has.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only some events are about that")]
    pub(super) fn ending_event(&mut self, event: &Event) {
        match *event {
            Event::YieldAsked { job, node, .. }
            | Event::StopAsked { job, node, .. }
            | Event::MoveAsked { job, node, .. }
                if node == self.node =>
            {
                self.yield_run(job);
            }
            Event::RunYielded { job, node, .. } | Event::RunMoved { job, node, .. }
                if node == self.node =>
            {
                self.forget(&job);
            }
            Event::RunStopped { job, node, .. } | Event::RunEnded { job, node, .. }
                if node == self.node =>
            {
                self.drop_run(&job);
            }
            Event::GangBroken { job, .. } if self.has_run(&job) => self.break_run(&job),
            _ => {}
        }
    }

    /// Whether a report is of something that is still wanted. A job that we were given again begins
    /// anew when its last run has ended.
    pub(super) fn is_wanted(&mut self, report: &Report) -> bool {
        let ended = self.books.end(report);
        if let Some((job, _)) = &ended {
            self.tools.desk.expect_task(job);
        }
        match ended {
            Some((_, Under::Dropped)) => false,
            Some((job, Under::Again { since })) => {
                self.begin_run(job, since);
                false
            }
            Some((_, Under::Wanted)) | None => true,
        }
    }

    /// Whether we run a job, or have a result of it.
    fn has_run(&self, job: &JobId) -> bool {
        self.books.running.contains_key(job) || self.books.runs.contains_key(job)
    }

    /// Ends a run of ours that nobody wants any more. Its program is asked to end before it is
    /// ended, so that nothing of what it leaves is carried away.
    pub(super) fn drop_run(&mut self, job: &JobId) {
        if self.books.drop_run(job) {
            let _not_begun = self.tools.desk.ask_to_end(job);
        }
        self.forget(job);
    }

    /// Ends a run of ours whose gang is broken. A commitment to its result that is still on its way
    /// would bind the next run, so the result is kept aside.
    pub(super) fn break_run(&mut self, job: &JobId) {
        let stale = self.books.take_stale(job);
        self.drop_run(job);
        self.books.stale.extend(stale.map(|stale| (*job, stale)));
    }

    /// Answers for a commitment to a result of a broken gang that binds the next run, or may.
    pub(super) async fn face_stale(&mut self, job: JobId) {
        match self.books.stale_step(&job) {
            StaleStep::Wait => {}
            StaleStep::Show(note) => self.outbox.reveal(job, &note).await,
            StaleStep::GiveUp => {
                tracing::warn!(%job, "a commitment of another member's result is on its way");
                self.drop_run(&job);
                self.give_up(job, RunFailure::Declined).await;
            }
        }
    }

    /// Gives a run up.
    pub(super) async fn give_up(&mut self, job: JobId, failure: RunFailure) {
        self.deeds.given_up += 1;
        self.tell.send_replace(self.deeds);
        self.outbox.give_up(job, failure).await;
    }

    /// Asks a program to end, and ends it when there is just enough time left to save its state.
    pub(super) fn yield_run(&mut self, job: JobId) {
        if !self.books.running.contains_key(&job) {
            return; // nothing would take back the mark that it is to end
        }
        let Some(stop) = self.tools.desk.ask_to_end(&job) else { return };
        let within = self.config.gateway.params().jobs.yields.within.get();
        self.tasks.spawn(async move {
            tokio::time::sleep(Duration::from_millis(within / 2)).await;
            stop.stop();
        });
    }
}
