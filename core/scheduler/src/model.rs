//! Names of device models as people type them: `RTX4090` means a «NVIDIA GeForce RTX 4090», `h100`
//! any H100, but `A10` no A100.

use tg_types::Name;

/// Whether a device of this name is of the model that was asked for: what [`has_words`] says. Names
/// are ASCII and compared for every node that is asked, so nothing is allocated here.
pub fn is_of_model(asked: &Name, name: &Name) -> bool {
    let (asked, name) = (asked.as_str().as_bytes(), name.as_str().as_bytes());
    let is_start = |place: usize| place == 0 || !name[place - 1].is_ascii_alphanumeric();
    let starts = (0..name.len()).filter(|place| is_start(*place));
    starts.into_iter().any(|start| begins_with(&name[start..], asked))
}

/// Whether some words from the first on have exactly the letters and digits that were asked for.
fn begins_with(words: &[u8], asked: &[u8]) -> bool {
    if !words.first().is_some_and(u8::is_ascii_alphanumeric) {
        return false;
    }
    let is_letter = |place: &usize| words[*place].is_ascii_alphanumeric();
    let mut places = (0..words.len()).filter(is_letter);
    let mut last = None;
    for letter in asked.iter().filter(|letter| letter.is_ascii_alphanumeric()) {
        last = places.next().filter(|place| words[*place].eq_ignore_ascii_case(letter));
        if last.is_none() {
            return false;
        }
    }
    last.is_some_and(|last| !words.get(last + 1).is_some_and(u8::is_ascii_alphanumeric))
}

/// Whether what was asked for, without what is no letter or digit, is some words of the name that
/// stand one after the other.
pub(crate) fn has_words(asked: &str, name: &str) -> bool {
    let asked: Vec<char> = letters(asked).collect();
    let Some(first) = asked.first() else { return false };
    // Names may be made to be hard to compare, so letters are prepared once for all words.
    let (mut all, mut starts, mut ends) = (Vec::with_capacity(name.len()), Vec::new(), Vec::new());
    let mut is_within = false;
    for it in name.chars() {
        if it.is_alphanumeric() != is_within {
            let places = if is_within { &mut ends } else { &mut starts };
            places.push(all.len());
            is_within = !is_within;
        }
        if is_within {
            all.extend(it.to_lowercase());
        }
    }
    ends.push(all.len());
    starts.into_iter().filter(|start| all.get(*start) == Some(first)).any(|start| {
        let end = start + asked.len();
        ends.binary_search(&end).is_ok() && all.get(start..end) == Some(asked.as_slice())
    })
}

/// Letters and digits in lower case.
pub(crate) fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::{has_words, is_of_model};
    use tg_types::Name;

    /// Goal: names of devices are compared as any text is. Method: random names of few letters.
    #[test]
    fn prop_names_are_compared_as_text_is() {
        arbtest::arbtest(|u| {
            let mut name = || -> arbtest::arbitrary::Result<Name> {
                let letters = (0..u.int_in_range(1..=8)?).map(|_| u.choose(b"aAb1-."));
                let letters: Vec<u8> = letters.map(|it| it.copied()).collect::<Result<_, _>>()?;
                let text = String::from_utf8(letters).expect("ASCII");
                Ok(text.parse().expect("a name"))
            };
            let (asked, name) = (name()?, name()?);
            let expected = has_words(asked.as_str(), name.as_str());
            assert_eq!(is_of_model(&asked, &name), expected, "{asked:?} {name:?}");
            Ok(())
        });
    }

    #[test]
    fn model_is_found_by_its_words() {
        let check = |asked: &str, name: &str, expected: bool| {
            let parse = |text: &str| text.parse::<Name>().expect("a name");
            assert_eq!(is_of_model(&parse(asked), &parse(name)), expected, "{asked} {name}");
        };
        for asked in ["RTX4090", "rtx 4090", "RTX-4090", "4090", "NVIDIA GeForce RTX 4090"] {
            check(asked, "NVIDIA GeForce RTX 4090", true);
        }
        check("RTX409", "NVIDIA GeForce RTX 4090", false);
        check("409", "NVIDIA GeForce RTX 4090", false);
        check("GeForce 4090", "NVIDIA GeForce RTX 4090", false);
        check("RTX4090 Ti", "NVIDIA GeForce RTX 4090", false);
        check("A10", "NVIDIA A100-SXM4-80GB", false);
        check("A100", "NVIDIA A100-SXM4-80GB", true);
        check("A100 80GB", "NVIDIA A100-SXM4-80GB", false);
        check("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", true);
        check("h100", "h100", true);
        check("-", "NVIDIA -- H100", false);
    }
}
