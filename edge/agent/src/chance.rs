//! Numbers from a seed that the system's random source gave: one draw from the system serves one
//! operation that needs several.

use tg_types::hash::{Tag, tagged};

const NUMBERS: Tag = Tag::new("tensorgrid/numbers");

/// As many secrets as needed from one.
pub struct Chance {
    seed: [u8; 32],
    drawn: u64,
}

impl Chance {
    /// From a seed that is used for nothing else.
    #[must_use]
    pub const fn new(seed: [u8; 32]) -> Self {
        Self { seed, drawn: 0 }
    }

    /// The next 32 bytes.
    pub fn draw(&mut self) -> [u8; 32] {
        self.drawn += 1;
        *tagged(NUMBERS, &[&self.seed, &self.drawn.to_be_bytes()]).as_bytes()
    }
}
