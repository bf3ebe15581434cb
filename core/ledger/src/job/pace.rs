//! What settled jobs have taught about run times. Placements, quotes and dates go by it; nobody is
//! paid or punished by it.
//!
//! A run teaches when its job settles, and only if its node is not its client's own. What is
//! learned is the time from its placement to the block in which its node committed to a result, or
//! showed it: block times, and with all that a node fetches and hands over. Times are counted per
//! unit of work: multiply-adds of a program, or milliseconds of the limit that a command's client
//! declares. From fine to coarse a run is about its program, or its task (those of an array are
//! one) and its client, and about all programs or commands.
//!
//! There are [`PACE_PLACES`] entries at most. A subject's digest says where it stands. A run
//! whose place is another subject's wears that one out by one, and takes its place once it is worn
//! out: what is used stays, what came once goes.

use tg_scheduler::pace::{FLOOR, Forecast, Lesson, Level};
use tg_types::gpu::GpuPart;
use tg_types::hash::{Tag, tagged};
use tg_types::ids::{AccountId, Hash32, Noun};
use tg_types::{JobSpec, KeyEscrow, ProgramFacts, Tier, Work};

use super::record::{JobEntry, Run};
use crate::entry::{Entry, entry};
use crate::error::Stop;
use crate::keys;
use crate::program;
use crate::session::Session;

/// Places for subjects: a few megabytes at most, and more programs and arrays than are usually run
/// at a time.
pub const PACE_PLACES: u64 = 4_096;

/// Runs of others that a subject outlasts at most.
const HOLD_MAX: u8 = 16;

/// Of so many runs one is placed as if nothing was known of times, so that devices which were never
/// tried, or were slow once, are tried.
pub(super) const TRIES_ONE_IN: u64 = 16;

const SUBJECT: Tag = Tag::new("tensorgrid/pace");

entry! {
    /// What was learned of a subject.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PaceEntry {
        /// What it is about.
        pub subject: Hash32,
        /// How many runs of others it outlasts.
        pub hold: u8,
        /// What was learned.
        pub lesson: Lesson,
    }
}

impl Entry for PaceEntry {
    const NOUN: Noun = Noun::Pace;
}

/// What runs are alike in whose times are learned together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    id: Hash32,
    about: About,
}

/// How much a subject covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// One program, task or client.
    One,
    /// All programs whose results are shown in the same way, by a number.
    Programs(u8),
    /// All commands with limits in the same octave.
    Commands(u8),
}

impl Subject {
    fn one(kind: u8, id: &[u8; 32], number: u8) -> Self {
        Self { id: tagged(SUBJECT, &[&[kind], id, &[number]]), about: About::One }
    }

    fn all(about: About) -> Self {
        Self { id: Hash32::new([0; 32]), about }
    }

    /// Where it stands. What is about all has a place of its own.
    pub(crate) fn place_id(&self) -> [u8; 32] {
        let [a, b, c, d, e, f, g, h, ..] = *self.id.as_bytes();
        let place = u64::from_be_bytes([a, b, c, d, e, f, g, h]) % PACE_PLACES;
        match self.about {
            About::One => keys::numbers_id([place, 0]),
            About::Programs(way) => keys::numbers_id([way.into(), 1]),
            About::Commands(octave) => keys::numbers_id([octave.into(), 2]),
        }
    }

    /// Whether runs are placed by it. What all commands take says more of who runs them where than
    /// of devices.
    fn is_placing(&self) -> bool {
        match self.about {
            About::One | About::Programs(_) => true,
            About::Commands(_) => false,
        }
    }

    /// What is known of it, if it stands in its place.
    pub fn lesson<'a>(&self, entry: Option<&'a PaceEntry>) -> Option<&'a Lesson> {
        entry.filter(|entry| entry.subject == self.id).map(|entry| &entry.lesson)
    }
}

/// What a run of a job is about, from fine to coarse.
pub fn subjects(owner: &AccountId, spec: &JobSpec) -> Vec<Subject> {
    match &spec.work {
        Work::Tensor { program, .. } => {
            let way = match spec.tier {
                Tier::Trusted | Tier::Audit | Tier::Sync | Tier::Redundant { .. } | Tier::Rerun => {
                    0
                }
                // Making a proof takes longer than the run.
                Tier::Proof { .. } => 1,
                Tier::Zk { .. } => 2,
            };
            let one = Subject::one(1, program.as_bytes(), way);
            vec![one, Subject::all(About::Programs(way))]
        }
        Work::Opaque { task } => {
            let octave = spec.run_max.get().max(1).ilog2();
            let octave = u8::try_from(octave).unwrap_or(u8::MAX);
            let task = Subject::one(2, task.as_bytes(), 0);
            let client = Subject::one(3, owner.as_bytes(), octave);
            vec![task, client, Subject::all(About::Commands(octave))]
        }
    }
}

/// Of these, those by which runs are placed.
pub(crate) fn placing(owner: &AccountId, spec: &JobSpec) -> impl Iterator<Item = Subject> + use<> {
    subjects(owner, spec).into_iter().filter(Subject::is_placing)
}

/// How much work a run is.
pub(super) fn work(spec: &JobSpec, facts: Option<&ProgramFacts>) -> u64 {
    match (&spec.work, facts) {
        // As for prices, elements are moved and rounded too.
        (Work::Tensor { .. }, Some(facts)) => facts.multiply_adds.saturating_add(facts.elements),
        (Work::Tensor { .. }, None) | (Work::Opaque { .. }, _) => spec.run_max.get(),
    }
}

/// What is to be expected of a run of a job, by what is known of its [`Subject`]s.
pub fn forecast(
    spec: &JobSpec,
    facts: Option<&ProgramFacts>,
    known: &[(Subject, Option<PaceEntry>)],
) -> Forecast {
    let work = work(spec, facts);
    let lessons = |is_placing: bool| {
        let some = known.iter().filter(move |(subject, _)| subject.is_placing() == is_placing);
        some.filter_map(|(subject, entry)| subject.lesson(entry.as_ref()))
    };
    let told = |forecast: Forecast, lesson| forecast.with_told(work, lesson);
    lessons(false).fold(Forecast::new(work, lessons(true)), told)
}

/// The same, by what the state knows of these subjects.
pub(super) fn forecast_of(
    session: &mut Session<'_>,
    work: u64,
    subjects: &[Subject],
) -> Result<Forecast, Stop> {
    let mut slots = Vec::with_capacity(subjects.len());
    for subject in subjects {
        slots.push((subject, session.tables.paces.find(&subject.place_id())?));
    }
    let paces = &session.tables.paces;
    let lessons = slots.iter().filter_map(|(subject, slot)| subject.lesson(paces.at(*slot)));
    Ok(Forecast::new(work, lessons))
}

/// A job settles: its runs teach how long they took.
pub(super) fn learn(session: &mut Session<'_>, entry: &JobEntry) -> Result<(), Stop> {
    match entry.spec.key_escrow {
        KeyEscrow::Validators => {}
        KeyEscrow::None => return Ok(()), // its nodes may have waited for its owner
    }
    if entry.spec.is_gang() {
        return Ok(()); // its members may have waited for each other
    }
    let facts = match &entry.spec.work {
        Work::Tensor { program, .. } => match program::facts(session, program)? {
            Some(facts) => Some(facts),
            None => return Ok(()),
        },
        Work::Opaque { .. } => None,
    };
    let (work, subjects) = (work(&entry.spec, facts.as_ref()), subjects(&entry.owner, &entry.spec));
    let teaches = |run: &&Run| {
        run.owner != entry.owner && has_whole_device(run) && has_whole_work(entry, run)
    };
    for run in entry.live().filter(teaches) {
        let (Some(class), Some(took)) = (run.class, run.took) else { continue };
        let level = Level::of(took.max(FLOOR), work);
        for subject in &subjects {
            let is_coarse = matches!(subject.about, About::Programs(_));
            if is_coarse && took < FLOOR {
                continue; // that it is too short to be told says nothing of longer ones
            }
            let slot = session.tables.paces.find(&subject.place_id())?;
            if let Some(lesson) = held(session.tables.paces.at_mut(slot), subject) {
                lesson.learn(class, &run.owner, level);
            }
        }
    }
    Ok(())
}

/// Whether a run had all of its device: a part of one is slower than its class.
pub(super) fn has_whole_device(run: &Run) -> bool {
    run.gpus.as_slice().iter().all(|slice| slice.part == GpuPart::Whole)
}

/// Whether a run did all of the work: it began at the beginning, and nobody asked it to end before.
fn has_whole_work(entry: &JobEntry, run: &Run) -> bool {
    let begins = entry.spec.checkpoint.is_none_or(|plan| plan.from.is_none());
    let is_first = super::save::ran_before(entry, run.begun).get() == 0;
    begins && is_first && run.yields_to.is_none()
}

/// What is known of a subject, to learn more; `None` if its place is another's.
fn held<'a>(place: &'a mut Option<PaceEntry>, subject: &Subject) -> Option<&'a mut Lesson> {
    let empty = || PaceEntry { subject: subject.id, hold: 0, lesson: Lesson::default() };
    let entry = place.get_or_insert_with(empty);
    if entry.subject != subject.id {
        if entry.hold > 0 {
            entry.hold -= 1;
            return None;
        }
        *entry = empty();
    }
    entry.hold = entry.hold.saturating_add(1).min(HOLD_MAX);
    Some(&mut entry.lesson)
}

#[cfg(test)]
mod tests {
    use super::{HOLD_MAX, PaceEntry, Subject, held};

    /// Goal: what is used keeps its place, what came once loses it. Method: two subjects take turns
    /// at one place.
    #[test]
    fn subject_that_is_worn_out_makes_room() {
        let (used, other) = (Subject::one(1, &[1; 32], 0), Subject::one(1, &[2; 32], 0));
        let mut place: Option<PaceEntry> = None;
        for _ in 0..3 * HOLD_MAX {
            assert!(held(&mut place, &used).is_some());
        }
        for _ in 0..HOLD_MAX {
            assert!(held(&mut place, &other).is_none());
            assert!(used.lesson(place.as_ref()).is_some());
        }
        assert!(held(&mut place, &other).is_some());
        assert!(used.lesson(place.as_ref()).is_none() && other.lesson(place.as_ref()).is_some());
        assert!(held(&mut place, &used).is_none());
        assert!(held(&mut place, &used).is_some());
    }
}
