//! What somebody means who asks for an accelerator by a name: people type what the catalogue, the
//! maker or a price list calls it, nodes report what their drivers do.

use super::{Catalogue, Model, UNLISTED};
use crate::model::{has_words, letters};
use tg_types::DeviceKind;

/// A device has at least this much of the memory that its model is named by, in percent: drivers
/// keep some, and the next smaller model has a quarter less.
const MEMORY_PERCENT_MIN: u64 = 90;
/// Names that are suggested.
const NEAR_MAX: usize = 3;

/// What is meant by a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Words that drivers report of all models that are meant.
    pub words: String,
    /// What kind of device it is, if all are of one.
    pub kind: Option<DeviceKind>,
    /// The least memory by which the model is told from others with the same words; 0 if it need
    /// not be.
    pub memory_mib_min: u32,
    /// The models that are meant, as the catalogue calls them.
    pub names: Vec<&'static str>,
}

/// Why a name means nothing in particular.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// No model is called so; these are.
    Unknown(Vec<&'static str>),
    /// Several are that have nothing in common.
    Several(Vec<&'static str>),
}

impl Catalogue {
    /// What is meant by a name: `h100` any H100, `A100-80GB` one row of the table, which nodes know
    /// by the words and the memory.
    pub fn wanted(&self, asked: &str) -> Result<Wanted, Unclear> {
        let found: Vec<&Model> = self.called(asked).collect();
        let names: Vec<&'static str> = found.iter().map(|model| model.name).collect();
        let Some(first) = found.first() else { return Err(Unclear::Unknown(self.near(asked))) };
        let kind = found.iter().all(|model| model.kind == first.kind).then_some(first.kind);
        // What drivers call so needs no other words.
        if found.iter().all(|model| has_words(asked, model.words)) {
            return Ok(Wanted { words: asked.to_owned(), kind, memory_mib_min: 0, names });
        }
        if found.iter().any(|model| model.words != first.words) {
            return Err(Unclear::Several(names));
        }
        let is_shared =
            self.models.iter().filter(|it| it.words == first.words).count() > names.len();
        let memory = found.iter().map(|model| model.memory_mib).min().filter(|_| is_shared);
        let memory = u64::from(memory.unwrap_or(0)) * MEMORY_PERCENT_MIN / 100;
        let memory_mib_min = u32::try_from(memory).unwrap_or(u32::MAX);
        Ok(Wanted { words: first.words.to_owned(), kind, memory_mib_min, names })
    }

    /// Names of models that somebody may mean who asks for these words and so much memory.
    pub fn names_of(&self, asked: &str, memory_mib_min: u32) -> Vec<&'static str> {
        let is_enough = |model: &&Model| model.memory_mib >= memory_mib_min;
        self.called(asked).filter(is_enough).map(|model| model.name).collect()
    }

    /// The models that have this name or these words.
    fn called(&self, asked: &str) -> impl Iterator<Item = &Model> {
        let meant = self.asked(asked);
        let numbered = (0..UNLISTED).zip(&self.models);
        numbered.filter(move |(number, _)| meant.contains(*number)).map(|(_, model)| model)
    }

    /// The names that are nearest to what was typed.
    pub fn near(&self, asked: &str) -> Vec<&'static str> {
        let asked: Vec<char> = letters(asked).collect();
        let mut all: Vec<(usize, &'static str)> = Vec::new();
        for model in &self.models {
            let name: Vec<char> = letters(model.name).collect();
            let words: Vec<char> = letters(model.words).collect();
            all.push((apart(&asked, &name).min(apart(&asked, &words)), model.name));
        }
        all.sort_by_key(|(apart, _)| *apart);
        all.into_iter().take(NEAR_MAX).map(|(_, name)| name).collect()
    }
}

/// How many letters have to be put in, left out or replaced to make one text of another.
fn apart(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in (1..).zip(from) {
        let mut before = line - 1;
        if let Some(first) = row.first_mut() {
            *first = line;
        }
        for (place, other) in (1..).zip(to) {
            let (left, above) = (row[place - 1], row[place]);
            row[place] = (before + usize::from(letter != other)).min(left + 1).min(above + 1);
            before = above;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Catalogue, Unclear, apart};
    use tg_types::DeviceKind;

    fn wanted(asked: &str) -> (String, u32, Vec<&'static str>) {
        let wanted = Catalogue::shared().wanted(asked).expect("it is listed");
        assert_eq!(wanted.kind, Some(DeviceKind::Gpu));
        (wanted.words, wanted.memory_mib_min, wanted.names)
    }

    #[test]
    fn names_that_people_type_are_found() {
        for asked in ["RTX 4090", "rtx4090", "RTX-4090"] {
            let (words, memory, names) = wanted(asked);
            assert_eq!((words.as_str(), memory), (asked, 0), "drivers say so too");
            assert_eq!(names, ["RTX-4090", "RTX-4090-LAPTOP"], "{asked}");
        }
        let (words, memory, names) = wanted("A100-80GB");
        assert_eq!((words.as_str(), memory, names), ("A100", 73_728, vec!["A100-80GB"]));
        let (words, memory, names) = wanted("a100");
        assert_eq!((words.as_str(), memory), ("a100", 0));
        assert_eq!(names, ["A100-80GB", "A100-40GB"]);
    }

    #[test]
    fn unknown_names_come_with_the_nearest_ones() {
        let near = |asked: &str| match Catalogue::shared().wanted(asked) {
            Err(Unclear::Unknown(near)) => near,
            other => panic!("{asked}: {other:?}"),
        };
        assert_eq!(near("RTX 4091").first(), Some(&"RTX-4090"));
        assert_eq!(near("H10O").first(), Some(&"H100"));
        assert_eq!(near("zzz").len(), 3);
        assert_eq!(near("").len(), 3);
        assert_eq!(Catalogue::shared().names_of("a100", 50_000), ["A100-80GB"]);
    }

    #[test]
    fn words_are_apart_by_letters() {
        let apart = |a: &str, b: &str| {
            apart(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
        };
        assert_eq!((apart("", ""), apart("abc", ""), apart("", "ab")), (0, 3, 2));
        assert_eq!((apart("kitten", "sitting"), apart("h100", "h100")), (3, 0));
    }
}
