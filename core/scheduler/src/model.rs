//! Names of device models as people type them: `RTX4090` means a «NVIDIA GeForce RTX 4090», `h100`
//! any H100, but `A10` no A100.

use tg_types::Name;

/// Whether a device of this name is of the model that was asked for.
pub(crate) fn is_of_model(asked: &Name, name: &Name) -> bool {
    has_words(asked.as_str(), name.as_str())
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
fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::is_of_model;
    use tg_types::Name;

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
