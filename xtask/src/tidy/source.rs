//! A scanner that knows just enough Rust: it separates code from comments and literals and finds
//! functions and test items by their braces. It is separate from the rules because each of them
//! would otherwise be fooled by a brace in a string or an attribute in a comment.
//!
//! Invariant: `code` and `comments` have the same number of characters and line breaks as the text.

use std::ops::RangeInclusive;

/// One Rust file, split by what the compiler would make of it.
pub(crate) struct Source {
    /// The text with comments and the inside of literals blanked.
    code: Vec<char>,
    /// The text with everything but comments blanked.
    comments: Vec<char>,
}

/// A function with a body, by its lines (counted from 1).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) lines: RangeInclusive<usize>,
}

/// An attribute with its line and its text between the brackets, white space removed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        Splitter::new(text).split()
    }

    /// The code line by line, without comments and literals.
    pub(crate) fn code_lines(&self) -> Vec<String> {
        lines_of(&self.code)
    }

    /// The comments line by line.
    pub(crate) fn comment_lines(&self) -> Vec<String> {
        lines_of(&self.comments)
    }

    /// All functions that have a body, nested ones included.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for at in self.words("fn") {
            let name_at = self.skip_blanks(at + "fn".len());
            let name: String =
                self.code.iter().skip(name_at).take_while(|c| is_word(**c) || **c == '$').collect();
            // `fn(u8) -> u8` is a type, and a function of a trait may have no body.
            if name.is_empty() {
                continue;
            }
            if let Some(end) = self.item_end(name_at).filter(|end| self.is_brace(*end)) {
                let lines = self.line_of(at)..=self.line_of(end);
                found.push(Function { name, lines });
            }
        }
        found
    }

    /// The lines of all items that exist only in tests.
    pub(crate) fn test_items(&self) -> Vec<RangeInclusive<usize>> {
        let mut found = Vec::new();
        for (at, attribute) in self.attributes_at() {
            if attribute.text != "cfg(test)" && !attribute.text.starts_with("cfg(all(test,") {
                continue;
            }
            let after = self.after_attributes(at);
            let end = self.item_end(after).unwrap_or(self.code.len().saturating_sub(1));
            found.push(attribute.line..=self.line_of(end));
        }
        found
    }

    /// All attributes, inner and outer.
    pub(crate) fn attributes(&self) -> Vec<Attribute> {
        self.attributes_at().into_iter().map(|(_, attribute)| attribute).collect()
    }

    fn attributes_at(&self) -> Vec<(usize, Attribute)> {
        let mut found = Vec::new();
        for (at, c) in self.code.iter().enumerate() {
            if *c != '#' {
                continue;
            }
            let open = if self.code.get(at + 1) == Some(&'!') { at + 2 } else { at + 1 };
            if self.code.get(open) != Some(&'[') {
                continue;
            }
            if let Some(close) = self.matching(open) {
                let inside = self.code.iter().take(close).skip(open + 1);
                let text = inside.filter(|c| !c.is_whitespace()).collect();
                found.push((at, Attribute { line: self.line_of(at), text }));
            }
        }
        found
    }

    /// The position behind the attributes that start at `at`.
    fn after_attributes(&self, mut at: usize) -> usize {
        loop {
            at = self.skip_blanks(at);
            let is_attribute =
                self.code.get(at) == Some(&'#') && self.code.get(at + 1) == Some(&'[');
            match is_attribute.then(|| self.matching(at + 1)).flatten() {
                Some(close) => at = close + 1,
                None => return at,
            }
        }
    }

    /// The `}` or `;` that ends the item which starts at `at`.
    fn item_end(&self, at: usize) -> Option<usize> {
        let mut position = at;
        while let Some(c) = self.code.get(position) {
            match c {
                ';' => return Some(position),
                '{' => return self.matching(position),
                '(' | '[' => position = self.matching(position)?,
                _ => {}
            }
            position += 1;
        }
        None
    }

    /// The bracket that closes the one at `open`. Brackets of all kinds nest properly in Rust, so
    /// one depth is enough.
    fn matching(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, c) in self.code.iter().enumerate().skip(open) {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Positions where `word` stands alone in the code.
    fn words(&self, word: &str) -> Vec<usize> {
        let word: Vec<char> = word.chars().collect();
        let starts = self.code.windows(word.len()).enumerate().filter(|(at, window)| {
            let before = at.checked_sub(1).and_then(|before| self.code.get(before));
            let after = self.code.get(at + word.len());
            **window == *word.as_slice()
                && !before.is_some_and(|c| is_word(*c))
                && !after.is_some_and(|c| is_word(*c))
        });
        starts.map(|(at, _)| at).collect()
    }

    fn is_brace(&self, at: usize) -> bool {
        self.code.get(at) == Some(&'}')
    }

    fn skip_blanks(&self, at: usize) -> usize {
        at + self.code.iter().skip(at).take_while(|c| c.is_whitespace()).count()
    }

    fn line_of(&self, at: usize) -> usize {
        1 + self.code.iter().take(at).filter(|c| **c == '\n').count()
    }
}

fn lines_of(text: &[char]) -> Vec<String> {
    text.split(|c| *c == '\n').map(|line| line.iter().collect()).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Walks over a text once and sorts its characters.
struct Splitter {
    text: Vec<char>,
    at: usize,
    source: Source,
}

/// Where a run of characters belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Code,
    Comment,
    Literal,
}

impl Splitter {
    fn new(text: &str) -> Self {
        let source = Source { code: Vec::new(), comments: Vec::new() };
        Self { text: text.chars().collect(), at: 0, source }
    }

    fn split(mut self) -> Source {
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('/')) => self.line_comment(),
                ('/', Some('*')) => self.block_comment(),
                ('"', _) => self.string(),
                ('\'', _) => self.character_or_lifetime(),
                ('r', Some('"' | '#')) if self.raw_may_start() => self.raw_string(),
                _ => self.take(Class::Code),
            }
        }
        self.source
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn take(&mut self, class: Class) {
        let Some(c) = self.peek(0) else { return };
        let blank = if c == '\n' { '\n' } else { ' ' };
        self.source.code.push(if class == Class::Code { c } else { blank });
        self.source.comments.push(if class == Class::Comment { c } else { blank });
        self.at += 1;
    }

    fn take_many(&mut self, count: usize, class: Class) {
        for _ in 0..count {
            self.take(class);
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.take(Class::Comment);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (None, _) => return,
                (Some('/'), Some('*')) => {
                    depth += 1;
                    self.take_many(2, Class::Comment);
                }
                (Some('*'), Some('/')) => {
                    depth -= 1;
                    self.take_many(2, Class::Comment);
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.take(Class::Comment),
            }
        }
    }

    fn string(&mut self) {
        self.take(Class::Code);
        loop {
            match self.peek(0) {
                None => return,
                Some('\\') => self.take_many(2, Class::Literal),
                Some('"') => return self.take(Class::Code),
                Some(_) => self.take(Class::Literal),
            }
        }
    }

    /// `'a'` and `'\n'` are literals, `'a` is a lifetime.
    fn character_or_lifetime(&mut self) {
        let is_literal = self.peek(1) == Some('\\') || self.peek(2) == Some('\'');
        self.take(Class::Code);
        if !is_literal {
            return;
        }
        if self.peek(0) == Some('\\') {
            self.take(Class::Literal);
        }
        self.take(Class::Literal);
        while self.peek(0).is_some_and(|c| c != '\'' && c != '\n') {
            self.take(Class::Literal);
        }
        self.take(Class::Code);
    }

    /// Whether the `r` here begins a raw string: it is not the end of a word (other than the
    /// prefixes `b` and `c`), and quotes follow its hashes.
    fn raw_may_start(&self) -> bool {
        let before = |back: usize| self.at.checked_sub(back).and_then(|at| self.text.get(at));
        let word_before = match before(1) {
            Some('b' | 'c') => before(2).is_some_and(|c| is_word(*c)),
            Some(c) => is_word(*c),
            None => false,
        };
        let hashes = self.hashes(self.at + 1);
        !word_before && self.text.get(self.at + 1 + hashes) == Some(&'"')
    }

    fn hashes(&self, at: usize) -> usize {
        self.text.iter().skip(at).take_while(|c| **c == '#').count()
    }

    fn raw_string(&mut self) {
        let hashes = self.hashes(self.at + 1);
        self.take_many(1 + hashes + 1, Class::Code);
        while let Some(c) = self.peek(0) {
            if c == '"' && self.hashes(self.at + 1) >= hashes {
                return self.take_many(1 + hashes, Class::Code);
            }
            self.take(Class::Literal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, lines: RangeInclusive<usize>) -> Function {
        Function { name: name.into(), lines }
    }

    #[test]
    fn functions_with_braces_in_literals_and_comments_keep_their_lines() {
        let text = r##"
fn first(x: fn(u8) -> u8) -> [u8; 2] {
    let s = "} \" {"; // }
    let r = r#"}" {"#; /* } /* } */ } */
    let c = ['}', '\'', '"'];
}
trait T { fn without_body(&self); }
fn last<'a>(x: &'a str) where u8: Copy {
}
"##;
        let found = Source::new(text).functions();
        assert_eq!(found, [function("first", 2..=6), function("last", 8..=9)]);
    }

    #[test]
    fn test_items_are_found_with_further_attributes_and_without_a_body() {
        let text = "fn a() {}\n#[cfg(test)]\n#[rustfmt::skip]\nmod tests {\n    {}\n}\n\
                    #[cfg(test)]\nmod more;\nfn b() {}\n";
        assert_eq!(Source::new(text).test_items(), [2..=6, 7..=8]);
    }

    #[test]
    fn attributes_in_comments_and_strings_are_not_attributes() {
        let text =
            "// #[allow(x)]\nconst A: &str = \"#[allow(y)]\";\n#![expect(z,\n reason = \"r\")]";
        let expected = Attribute { line: 3, text: "expect(z,reason=\"\")".into() };
        assert_eq!(Source::new(text).attributes(), [expected]);
    }

    #[test]
    fn source_cut_anywhere_is_scanned_without_panic() {
        let text = "/* /* */ */ fn f() { r##\"x\"##; b'\\''; '\\u{1F600}'; \"\\\"\" } // end";
        for end in 0..=text.chars().count() {
            let cut: String = text.chars().take(end).collect();
            let source = Source::new(&cut);
            assert_eq!(source.code.len(), end);
            assert_eq!(source.comments.len(), end);
            let _any_answer_will_do = (source.functions(), source.test_items());
        }
    }
}
