//! `.json`: nested lists of numbers, alone, by name, or in order as test data of models has them.
//!
//! A scanner of its own instead of a general one: numbers go straight from their digits into an
//! array, so they are rounded once, memory stays within the bounds, and a fault has a place.
//! The first list of a level sets the length of all others. One number with a point or an exponent
//! makes all numbers of its array floats.

use super::{
    ARRAYS_MAX, ArrayList, ELEMENTS_MAX, FILE_BYTES_MAX, Fault, Limit, ParseError, Place,
    RenderError, SIDES_MAX, admit, cursor::Cursor,
};
use std::fmt::Write as _;
use tg_tensor::{Array, Data};

/// Names under which test data of models (as ezkl has it) lists arrays in order, without names.
const IN_ORDER: [&str; 2] = ["input_data", "output_data"];

const NUMBER: &str = "a number or a list";

/// Whether a byte may stand between the words of JSON.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The arrays of a text.
pub(super) fn parse(text: &[u8]) -> Result<ArrayList, ParseError> {
    let mut reader = Reader { cursor: Cursor::new(text, 0), elements_left: ELEMENTS_MAX };
    reader.file().map_err(|error| match error.at {
        Place::Byte(byte) => ParseError { at: place(text, byte), fault: error.fault },
        Place::Text { .. } | Place::Entry { .. } => error,
    })
}

fn place(text: &[u8], byte: usize) -> Place {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.split(|byte| *byte == b'\n').count();
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    Place::Text { line, column }
}

/// The text of arrays: an object, one line per array.
pub(super) fn render(arrays: &[(String, Array)]) -> Result<Vec<u8>, RenderError> {
    let mut text = String::from("{");
    for (index, (name, array)) in arrays.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { ",\n " });
        text.push_str(&serde_json::to_string(name).expect("a text is JSON"));
        text.push_str(": ");
        // Alone under such a name, a list is one of arrays.
        let is_in_order = arrays.len() == 1 && IN_ORDER.contains(&name.as_str());
        text.push_str(if is_in_order { "[" } else { "" });
        if is_in_order && array.shape().is_empty() {
            return Err(unsayable(name, array)); // a list that begins with a number is one array
        }
        render_array(&mut text, name, array)?;
        text.push_str(if is_in_order { "]" } else { "" });
    }
    text.push_str("}\n");
    if text.len() > FILE_BYTES_MAX {
        return Err(RenderError::TooMany(Limit::Bytes));
    }
    Ok(text.into_bytes())
}

fn render_array(text: &mut String, name: &str, array: &Array) -> Result<(), RenderError> {
    let shape = array.shape();
    let empty = shape.iter().position(|side| *side == 0);
    if empty.is_some_and(|axis| axis + 1 < shape.len()) {
        return Err(unsayable(name, array));
    }
    match array.data() {
        Data::Float(values) => {
            if let Some(index) = values.iter().position(|value| !value.is_finite()) {
                return Err(RenderError::NotFinite { name: name.to_owned(), index });
            }
            // The debug form keeps the point of 1.0, and with it the kind of number.
            render_lists(text, shape, &mut values.iter(), &|text, value| write!(text, "{value:?}"))
        }
        Data::Int(values) => {
            render_lists(text, shape, &mut values.iter(), &|text, value| write!(text, "{value}"))
        }
    }
}

fn unsayable(name: &str, array: &Array) -> RenderError {
    RenderError::Shape { name: name.to_owned(), shape: array.shape().to_owned() }
}

fn render_lists<'a, T: 'a>(
    text: &mut String,
    shape: &[usize],
    values: &mut impl Iterator<Item = &'a T>,
    render: &impl Fn(&mut String, &T) -> std::fmt::Result,
) -> Result<(), RenderError> {
    if text.len() > FILE_BYTES_MAX {
        return Err(RenderError::TooMany(Limit::Bytes));
    }
    let Some((side, inner)) = shape.split_first() else {
        let value = values.next().expect("the numbers fill the shape");
        render(text, value).expect("a text takes everything");
        return Ok(());
    };
    text.push('[');
    for index in 0..*side {
        text.push_str(if index == 0 { "" } else { ", " });
        render_lists(text, inner, values, render)?;
    }
    text.push(']');
    Ok(())
}

/// A place in the text, and how many numbers may still follow.
struct Reader<'a> {
    cursor: Cursor<'a>,
    elements_left: usize,
}

/// An array of which a part was read.
struct Draft {
    /// The length of the lists of each level, once one of them was closed.
    sides: Vec<Option<usize>>,
    /// How many levels there are, once a number or an empty list was seen.
    levels: Option<usize>,
    data: Data,
}

/// One number as written.
enum Number {
    Float(f32),
    Int(i64),
}

impl Reader<'_> {
    fn file(&mut self) -> Result<ArrayList, ParseError> {
        self.skip_blanks();
        let arrays =
            if self.cursor.eat(b'{') { self.object()? } else { vec![(None, self.array()?)] };
        self.skip_blanks();
        if self.cursor.peek().is_some() {
            return Err(self.cursor.expected("nothing after the arrays"));
        }
        Ok(arrays)
    }

    fn object(&mut self) -> Result<ArrayList, ParseError> {
        let mut arrays = Vec::new();
        loop {
            self.skip_blanks();
            let at = self.cursor.at();
            let name = self.name()?;
            admit(&name, &arrays).map_err(|fault| fault.at(at))?;
            self.skip_blanks();
            self.cursor.expect(b":", "a colon")?;
            self.skip_blanks();
            if arrays.is_empty()
                && IN_ORDER.contains(&name.as_str())
                && let Some(in_order) = self.arrays_in_order()?
            {
                return Ok(in_order);
            }
            arrays.push((Some(name), self.array()?));
            self.skip_blanks();
            if self.cursor.eat(b'}') {
                return Ok(arrays);
            }
            self.cursor.expect(b",", "a comma or a closing brace")?;
        }
    }

    /// A list of arrays, if the object ends with it; otherwise nothing has been read.
    fn arrays_in_order(&mut self) -> Result<Option<ArrayList>, ParseError> {
        let (start, elements_left) = (self.cursor.clone(), self.elements_left);
        let mut arrays = Vec::new();
        let is_list = self.cursor.eat(b'[');
        self.skip_blanks();
        if is_list && self.cursor.peek() == Some(b'[') {
            loop {
                if arrays.len() >= ARRAYS_MAX {
                    return Err(Fault::TooMany(Limit::Arrays).at(self.cursor.at()));
                }
                arrays.push((None, self.array()?));
                self.skip_blanks();
                if self.cursor.eat(b']') {
                    break;
                }
                self.cursor.expect(b",", "a comma or a closing bracket")?;
                self.skip_blanks();
            }
        } else {
            self.cursor = start.clone();
            arrays.push((None, self.array()?));
        }
        self.skip_blanks();
        if self.cursor.eat(b'}') {
            return Ok(Some(arrays));
        }
        (self.cursor, self.elements_left) = (start, elements_left);
        Ok(None)
    }

    fn array(&mut self) -> Result<Array, ParseError> {
        let mut draft = Draft { sides: Vec::new(), levels: None, data: Data::Int(Vec::new()) };
        self.value(&mut draft, 0)?;
        let shape = draft.sides.into_iter().flatten().collect();
        // Of no numbers nobody knows the kind; most arrays hold floats.
        let data = if draft.data.is_empty() { Data::Float(Vec::new()) } else { draft.data };
        Ok(Array::new(shape, data).expect("the lists of each level are equally long"))
    }

    /// A number or a list, so many levels below the array itself.
    fn value(&mut self, draft: &mut Draft, level: usize) -> Result<(), ParseError> {
        let at = self.cursor.at();
        if self.cursor.eat(b'[') {
            if draft.levels.is_some_and(|levels| level >= levels) {
                return Err(Fault::Expected("a number, as in the lists before it").at(at));
            }
            if level >= SIDES_MAX {
                return Err(Fault::TooMany(Limit::Sides).at(at));
            }
            return self.list(draft, level, at);
        }
        let number = self.number()?;
        if *draft.levels.get_or_insert(level) != level {
            return Err(Fault::Expected("a list, as in the lists before it").at(at));
        }
        let Some(left) = self.elements_left.checked_sub(1) else {
            return Err(Fault::TooMany(Limit::Elements).at(at));
        };
        self.elements_left = left;
        draft.push(number);
        Ok(())
    }

    /// The rest of a list that begins at a byte of the text.
    fn list(&mut self, draft: &mut Draft, level: usize, at: usize) -> Result<(), ParseError> {
        if draft.sides.len() == level {
            draft.sides.push(None);
        }
        let mut found = 0;
        self.skip_blanks();
        while !self.cursor.eat(b']') {
            if found > 0 {
                self.cursor.expect(b",", "a comma or a closing bracket")?;
                self.skip_blanks();
            }
            self.value(draft, level + 1)?;
            found += 1;
            self.skip_blanks();
        }
        if found == 0 {
            draft.levels.get_or_insert(level + 1);
        }
        let side = draft.sides.get_mut(level).expect("levels are entered one by one");
        let wanted = *side.get_or_insert(found);
        if wanted == found { Ok(()) } else { Err(Fault::Ragged { wanted, found }.at(at)) }
    }

    fn number(&mut self) -> Result<Number, ParseError> {
        let start = self.cursor.clone();
        if let Some(truth) = self.truth() {
            return Ok(Number::Int(truth));
        }
        let rest = start.rest();
        if [&b"NaN"[..], b"Infinity", b"-Infinity"].iter().any(|word| rest.starts_with(word)) {
            return Err(start.expected("a finite number: JSON has no NaN and no infinity"));
        }
        self.cursor.eat(b'-');
        if !self.cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.cursor.expected(NUMBER));
        }
        if !self.cursor.eat(b'0') {
            self.digits()?;
        } else if self.cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.cursor.expected("no digit after a leading zero"));
        }
        let whole_end = self.cursor.at();
        if self.cursor.eat(b'.') {
            self.digits()?;
        }
        if self.cursor.eat(b'e') || self.cursor.eat(b'E') {
            let _signed = self.cursor.eat(b'+') || self.cursor.eat(b'-');
            self.digits()?;
        }
        let length = self.cursor.at() - start.at();
        let written = rest.get(..length).and_then(|bytes| str::from_utf8(bytes).ok());
        let written = written.expect("digits are text");
        if self.cursor.at() == whole_end {
            let number = written.parse().map(Number::Int);
            return number.map_err(|_| start.expected("a whole number of 64 bits"));
        }
        let number: f32 = written.parse().expect("JSON's numbers are Rust's");
        if number.is_finite() {
            Ok(Number::Float(number))
        } else {
            Err(start.expected("a number within the range of f32"))
        }
    }

    fn truth(&mut self) -> Option<i64> {
        [(&b"true"[..], 1), (b"false", 0)]
            .into_iter()
            .find_map(|(word, value)| self.cursor.expect(word, "").is_ok().then_some(value))
    }

    fn digits(&mut self) -> Result<(), ParseError> {
        match self.cursor.eat_while(|byte| byte.is_ascii_digit()) {
            [] => Err(self.cursor.expected("a digit")),
            [..] => Ok(()),
        }
    }

    /// A text in quotes; what is between them is left to the general scanner.
    fn name(&mut self) -> Result<String, ParseError> {
        const WANTED: &str = "a name in double quotes";
        let start = self.cursor.clone();
        self.cursor.expect(b"\"", WANTED)?;
        while !self.cursor.eat(b'"') {
            self.cursor.eat_while(|byte| byte != b'"' && byte != b'\\');
            if self.cursor.eat(b'\\') {
                self.cursor.take(1, "an escaped character")?;
            } else if self.cursor.peek().is_none() {
                return Err(self.cursor.expected("a closing quote"));
            }
        }
        let length = self.cursor.at() - start.at();
        let name = serde_json::from_slice(start.rest().get(..length).unwrap_or_default());
        name.map_err(|_: serde_json::Error| start.expected(WANTED))
    }

    fn skip_blanks(&mut self) {
        self.cursor.eat_while(is_blank);
    }
}

impl Draft {
    fn push(&mut self, number: Number) {
        match (&mut self.data, number) {
            (Data::Float(values), Number::Float(value)) => values.push(value),
            (Data::Float(values), Number::Int(value)) => values.push(value as f32),
            (Data::Int(values), Number::Int(value)) => values.push(value),
            (Data::Int(values), Number::Float(value)) => {
                let mut floats: Vec<f32> = values.iter().map(|value| *value as f32).collect();
                floats.push(value);
                self.data = Data::Float(floats);
            }
        }
    }
}
