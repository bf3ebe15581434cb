//! How long work takes where: what settled runs have taught of classes of devices.
//!
//! A lesson is about one subject, such as a program, and says for each class of devices how long a
//! unit of its work takes, as a logarithm. Every owner of nodes has one voice in a class, whatever
//! it ran, and what is believed is the voice in the middle: whoever commits late or early moves it
//! by a rank at most. An owner's own voice moves by a small step with each run. All numbers are
//! integers, and learning takes constant work.
//!
//! The counts over half octaves by which the queue learns ([`crate::queue`]) tell more of a
//! distribution, but take 600 bytes for each kind of work and know no owners, so one machine
//! could fill them; here it is the logarithms that are shared.

use crate::catalogue::{Catalogue, UNLISTED};
use crate::logarithm::{ONE, log2, times_power};
use std::collections::BTreeMap;
use tg_types::{AccountId, Device, DeviceKind, DurationMs, List, wire};

/// Classes of devices that a lesson tells apart: as many as usually run one program. The one of
/// which nothing was heard for longest makes room.
pub const CLASSES_MAX: usize = 16;
/// Owners that are heard about a class: enough that two liars are not believed, few enough that
/// what was long ago is forgotten. The one that was not heard for longest makes room.
pub const VOICES_MAX: usize = 8;
/// Times are told apart from here on. They are counted in block times and include fetching and
/// handing over what a run reads and writes, so what is shorter says nothing of a device.
pub const FLOOR: DurationMs = DurationMs::new(4_000);
/// The most by which one run moves what its owner was heard to say, in sixteenths of an octave.
const MOVE_MAX: i16 = 4;
/// Sixteenths of an octave in logarithms of [`log2`].
const SIXTEENTH: i64 = ONE / 16;
/// Steps of the score are quarters of an octave.
const SIXTEENTHS_PER_STEP: i64 = 4;
/// The most steps by which a class may be ahead or behind.
const STEPS_MAX: i64 = 8;
/// So many steps count of what nobody but one owner says, less what every further owner adds.
const STEPS_PER_VOICE: i64 = 2;

wire! {
    /// Devices that are alike: of one kind, and of one row of the catalogue or of none. Processors
    /// are one class, or whoever is slow would choose another name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct DeviceClass {
        /// What kind of device it is.
        pub kind: DeviceKind,
        /// The number of its model in the catalogue.
        pub model: u8,
    }
}

impl DeviceClass {
    /// The class of a device with so much credited memory. A memory that no such model has makes it
    /// one that is not listed.
    pub fn of(device: &Device, memory_mib: u32) -> Self {
        let kind = device.kind;
        let rows = match kind {
            DeviceKind::Cpu => Vec::new(), // the catalogue has none
            DeviceKind::Gpu | DeviceKind::Accelerator => {
                Catalogue::shared().named(device.model.as_str())
            }
        };
        Self::of_rows(Catalogue::shared(), kind, &rows, memory_mib)
    }

    /// The same for rows that have the device's name.
    pub(crate) fn of_rows(
        catalogue: &Catalogue,
        kind: DeviceKind,
        rows: &[u8],
        memory_mib: u32,
    ) -> Self {
        let is_it = |row: &u8| catalogue.get(*row).is_some_and(|it| it.kind == kind);
        let rows: Vec<u8> = rows.iter().copied().filter(is_it).collect();
        let model = catalogue.nearest(&rows, memory_mib);
        let is_plausible = catalogue.is_plausible(model, memory_mib);
        Self { kind, model: if is_plausible { model } else { UNLISTED } }
    }

    /// What people call it: the name in the catalogue, or the kind.
    pub fn name(self) -> &'static str {
        match (Catalogue::shared().get(self.model), self.kind) {
            (Some(model), DeviceKind::Gpu | DeviceKind::Accelerator) => model.name,
            (_, DeviceKind::Cpu) => "processor",
            (None, DeviceKind::Gpu) => "GPU that is not listed",
            (None, DeviceKind::Accelerator) => "accelerator that is not listed",
        }
    }
}

wire! {
    /// How long a unit of work takes: sixteenths of an octave.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Level {
        /// The logarithm of milliseconds for a unit.
        pub sixteenths: i16,
    }
}

impl Level {
    /// Of so much work that took so long.
    pub fn of(took: DurationMs, work: u64) -> Self {
        let octaves = log2(took.get()) - log2(work);
        let sixteenths = (octaves + SIXTEENTH / 2).div_euclid(SIXTEENTH);
        Self { sixteenths: i16::try_from(sixteenths).unwrap_or(0) }
    }

    /// How long so much work takes; never less than can be told.
    pub fn time(self, work: u64) -> DurationMs {
        let time = times_power(work.max(1), i64::from(self.sixteenths) * SIXTEENTH);
        DurationMs::new(time).max(FLOOR)
    }

    /// A step towards what was found.
    fn towards(self, found: Self) -> Self {
        let apart = found.sixteenths.saturating_sub(self.sixteenths);
        let step = apart.clamp(-MOVE_MAX, MOVE_MAX);
        Self { sixteenths: self.sixteenths.saturating_add(step) }
    }
}

wire! {
    /// What an owner of nodes was heard to need.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Voice {
        /// The beginning of the owner's id.
        pub owner: u64,
        /// How long a unit of work takes on its nodes.
        pub level: Level,
    }
}

wire! {
    /// What is known of a class.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClassPace {
        /// The class.
        pub class: DeviceClass,
        /// Who was heard, the latest last.
        pub voices: List<Voice, 1, VOICES_MAX>,
    }
}

impl ClassPace {
    /// The voice in the middle. Of two it is the faster one: anybody can be slow.
    fn level(&self) -> Option<Level> {
        let mut levels: Vec<Level> = self.voices.as_slice().iter().map(|it| it.level).collect();
        levels.sort_unstable();
        levels.get(levels.len().saturating_sub(1) / 2).copied()
    }
}

/// Voices of a class when one more run has settled.
fn heard(mut voices: Vec<Voice>, owner: u64, found: Level) -> Vec<Voice> {
    let place = voices.iter().position(|voice| voice.owner == owner);
    let before = place.map(|place| voices.remove(place).level);
    if voices.len() == VOICES_MAX {
        voices.remove(0);
    }
    let level = before.map_or(found, |before| before.towards(found));
    voices.push(Voice { owner, level });
    voices
}

wire! {
    /// What was learned of a subject.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Lesson {
        /// By class, the one that was heard of last at the end.
        pub classes: List<ClassPace, 0, CLASSES_MAX>,
    }
}

impl Lesson {
    /// A run on a node of an owner has settled.
    pub fn learn(&mut self, class: DeviceClass, owner: &AccountId, found: Level) {
        let [a, b, c, d, e, f, g, h, ..] = *owner.as_bytes();
        let owner = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let mut classes = self.classes.as_slice().to_vec();
        let known = classes.iter().position(|it| it.class == class);
        let known = known.map(|place| classes.remove(place));
        if classes.len() == CLASSES_MAX {
            classes.remove(0);
        }
        let voices = known.map_or(Vec::new(), |known| known.voices.as_slice().to_vec());
        let voices = List::new(heard(voices, owner, found)).expect("one at least, and a few");
        classes.push(ClassPace { class, voices });
        self.classes = List::new(classes).expect("there are not more than fit");
    }
}

/// What is to be expected of a run on each class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    times: BTreeMap<DeviceClass, Expected>,
}

/// What is to be expected of a run on a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected {
    time: DurationMs,
    /// How many owners say so.
    voices: usize,
    /// Whether it counts where work is given, or is only told.
    counts: bool,
}

impl Forecast {
    /// Of so much work, by lessons from fine to coarse.
    pub fn new<'a>(work: u64, lessons: impl IntoIterator<Item = &'a Lesson>) -> Self {
        let mut forecast = Self::default();
        lessons.into_iter().for_each(|lesson| forecast.add(work, lesson, true));
        forecast
    }

    /// The same with a still coarser lesson, which is told but does not count where work is given.
    #[must_use]
    pub fn with_told(mut self, work: u64, lesson: &Lesson) -> Self {
        self.add(work, lesson, false);
        self
    }

    fn add(&mut self, work: u64, lesson: &Lesson, counts: bool) {
        for pace in lesson.classes.as_slice() {
            let Some(level) = pace.level() else { continue };
            let (time, voices) = (level.time(work), pace.voices.as_slice().len());
            self.times.entry(pace.class).or_insert(Expected { time, voices, counts });
        }
    }

    /// How long a run on this class takes, if anything is known of it.
    pub fn on(&self, class: DeviceClass) -> Option<DurationMs> {
        self.times.get(&class).map(|expected| expected.time)
    }

    /// How long a run on this class takes, if so many owners at least say so.
    pub fn told_by(&self, voices_min: usize, class: DeviceClass) -> Option<DurationMs> {
        let expected = self.times.get(&class)?;
        (expected.voices >= voices_min).then_some(expected.time)
    }

    /// The shortest time that a run takes anywhere, of what so many owners at least say.
    pub fn least_told_by(&self, voices_min: usize) -> Option<DurationMs> {
        let told = self.times.values().filter(|expected| expected.voices >= voices_min);
        told.map(|expected| expected.time).min()
    }

    /// How long a run takes wherever it is: the time in the middle of what is known.
    pub fn anywhere(&self) -> Option<DurationMs> {
        let middle = middle(self.times.values())?;
        Some(DurationMs::new(times_power(1, middle)))
    }

    /// How far classes are ahead of the middle of all that are known.
    pub fn paces(&self) -> Paces {
        let counted = || self.times.iter().filter(|(_, expected)| expected.counts);
        let Some(middle) = middle(counted().map(|(_, expected)| expected)) else {
            return Paces::default();
        };
        let steps = |Expected { time, voices, .. }: &Expected| {
            let ahead = (middle - log2(time.get())) / (SIXTEENTHS_PER_STEP * SIXTEENTH);
            let voices = i64::try_from(*voices).unwrap_or(STEPS_MAX);
            let most = (STEPS_PER_VOICE * (voices + 1)).min(STEPS_MAX);
            i8::try_from(ahead.clamp(-most, most)).unwrap_or(0)
        };
        let paces = counted().map(|(class, expected)| (*class, steps(expected)));
        Paces { steps: paces.filter(|(_, steps)| *steps != 0).collect() }
    }
}

/// The logarithm in the middle of those of some times; `None` if there are none. A class for which
/// somebody makes up any time moves it no further than to its neighbour.
fn middle<'a>(times: impl Iterator<Item = &'a Expected>) -> Option<i64> {
    let mut logarithms: Vec<i64> = times.map(|expected| log2(expected.time.get())).collect();
    logarithms.sort_unstable();
    let last = logarithms.len().checked_sub(1)?;
    let (low, high) = (logarithms.get(last / 2)?, logarithms.get(logarithms.len() / 2)?);
    Some((low + high) / 2)
}

/// By how many steps of a quarter of an octave classes are faster for some work than the middle of
/// all classes that have been tried. A class that has not been is taken to be as fast as that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paces {
    /// By class; those that are left out are in the middle.
    steps: Vec<(DeviceClass, i8)>,
}

impl Paces {
    /// How far a class is ahead, or behind if it is below 0.
    pub fn of(&self, class: DeviceClass) -> i8 {
        let place = self.steps.binary_search_by_key(&class, |(known, _)| *known);
        place.ok().and_then(|place| self.steps.get(place)).map_or(0, |(_, steps)| *steps)
    }
}

#[cfg(test)]
mod tests;
