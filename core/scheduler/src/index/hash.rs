//! Draws between equals: numbers that depend on contents only, never on when something came.

/// A running digest. It is no cryptographic hash: who can choose its inputs gains a tie at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digest(u64);

impl Digest {
    pub(super) fn of(numbers: &[u64]) -> Self {
        Self(0x243f_6a88_85a3_08d3).with(numbers)
    }

    pub(super) fn with(self, numbers: &[u64]) -> Self {
        Self(numbers.iter().fold(self.0, |sum, number| scramble(sum ^ *number)))
    }

    pub(super) const fn get(self) -> u64 {
        self.0
    }
}

/// The finisher of SplitMix64: every bit of the input changes half of the output.
pub(super) const fn scramble(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
