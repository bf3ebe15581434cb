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
    let asked: Vec<u8> = letters(asked).collect();
    let words: Vec<&str> = name.split(|it: char| !it.is_alphanumeric()).collect();
    !asked.is_empty()
        && (0..words.len()).any(|first| {
            let mut left = asked.as_slice();
            for word in words.iter().skip(first) {
                let word: Vec<u8> = letters(word).collect();
                match left.strip_prefix(word.as_slice()) {
                    Some([]) => return true,
                    Some(rest) => left = rest,
                    None => return false,
                }
            }
            false
        })
}

/// Letters and digits in lower case.
fn letters(text: &str) -> impl Iterator<Item = u8> {
    let kept = text.chars().filter(|it| it.is_alphanumeric());
    kept.collect::<String>().to_lowercase().into_bytes().into_iter()
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
