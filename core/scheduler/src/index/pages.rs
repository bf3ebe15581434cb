//! Tasks by number. Numbers are given in order, so those that are near are kept side by side.

use std::collections::BTreeMap;

/// Numbers of a page: one for each bit of a word.
const PAGE: u64 = 64;

/// Things by number, in pages of which none is empty.
#[derive(Clone, Debug)]
pub(super) struct Pages<T> {
    pages: BTreeMap<u64, Page<T>>,
}

/// Things whose numbers differ in their last bits only.
#[derive(Clone, Debug)]
struct Page<T> {
    /// Which of them are there.
    bits: u64,
    /// Those, in order.
    things: Vec<T>,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { pages: BTreeMap::new() }
    }
}

impl<T> Page<T> {
    /// The place of a number among those that are there, or where it would be.
    fn place(&self, number: u64) -> Result<usize, usize> {
        let bit = 1 << (number % PAGE);
        let place = (self.bits & (bit - 1)).count_ones() as usize;
        if self.bits & bit == 0 { Err(place) } else { Ok(place) }
    }
}

impl<T> Pages<T> {
    pub(super) fn get(&self, number: u64) -> Option<&T> {
        let page = self.pages.get(&(number / PAGE))?;
        page.place(number).ok().map(|place| &page.things[place])
    }

    /// Sets a number or, with `None`, removes it. Returns what was there.
    pub(super) fn set(&mut self, number: u64, thing: Option<T>) -> Option<T> {
        let Some(thing) = thing else { return self.remove(number) };
        let empty = || Page { bits: 0, things: Vec::new() };
        let page = self.pages.entry(number / PAGE).or_insert_with(empty);
        match page.place(number) {
            Ok(place) => Some(std::mem::replace(&mut page.things[place], thing)),
            Err(place) => {
                page.bits |= 1 << (number % PAGE);
                page.things.insert(place, thing);
                None
            }
        }
    }

    fn remove(&mut self, number: u64) -> Option<T> {
        let page = self.pages.get_mut(&(number / PAGE))?;
        let place = page.place(number).ok()?;
        page.bits &= !(1 << (number % PAGE));
        let removed = page.things.remove(place);
        if page.bits == 0 {
            self.pages.remove(&(number / PAGE));
        }
        Some(removed)
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.pages.iter().flat_map(|(first, page)| {
            let numbers = (0..PAGE).filter(|low| page.bits & 1 << low != 0);
            numbers.map(move |low| first * PAGE + low).zip(&page.things)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Pages;
    use std::collections::BTreeMap;

    /// Goal: pages are but one map. Method: random changes beside a plain map.
    #[test]
    fn prop_pages_answer_as_a_map_does() {
        arbtest::arbtest(|u| {
            let (mut pages, mut plain) = (Pages::default(), BTreeMap::new());
            for _ in 0..u.int_in_range(0..=300)? {
                let number = *u.choose(&[0, u64::MAX - 200])? + u.int_in_range(0..=200)?;
                assert_eq!(pages.get(number), plain.get(&number));
                let thing: Option<u16> = u.arbitrary()?;
                let old = match thing {
                    Some(thing) => plain.insert(number, thing),
                    None => plain.remove(&number),
                };
                assert_eq!(pages.set(number, thing), old);
            }
            assert!(pages.iter().eq(plain.iter().map(|(number, thing)| (*number, thing))));
            Ok(())
        });
    }
}
