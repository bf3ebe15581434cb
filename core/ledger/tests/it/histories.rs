//! Random histories for properties. The first ones come from fixed bytes, so that what a property
//! must have seen does not depend on how busy a machine is; then others are tried for a while.

use arbtest::arbitrary::{Result, Unstructured};

use tg_types::hash::sha256;

/// How long a property looks for histories that nobody has seen, in milliseconds.
const RANDOM_MS: u64 = 3_000;
/// Bytes of the histories, fixed and random ones.
const BYTES_MIN: u32 = 1 << 9;
const BYTES_MAX: u32 = 1 << 12;

/// So many bytes that are the same on every machine.
pub(crate) fn fixed_bytes(kind: &str, len: usize) -> Vec<u8> {
    let blocks = u32::try_from(len.div_ceil(32)).expect("few");
    let block = |number: u32| sha256(&[kind.as_bytes(), &number.to_be_bytes()]);
    (0..blocks).flat_map(block).take(len).collect()
}

/// Plays so many fixed histories, and then random ones. What the fixed ones saw is given back.
pub(crate) fn play<S: Default>(
    kind: &str,
    fixed: usize,
    mut history: impl FnMut(&mut Unstructured<'_>, &mut S) -> Result<()>,
) -> S {
    let len = BYTES_MAX as usize;
    let mut seen = S::default();
    for (number, part) in fixed_bytes(kind, fixed * len).chunks(len).enumerate() {
        let _told = Told { kind, number };
        history(&mut Unstructured::new(part), &mut seen).expect("bytes suffice");
    }
    arbtest::arbtest(|u| history(u, &mut S::default()))
        .size_min(BYTES_MIN)
        .size_max(BYTES_MAX)
        .budget_ms(RANDOM_MS)
        .run();
    seen
}

/// Says which fixed history it was if a test fails in it.
struct Told<'a> {
    kind: &'a str,
    number: usize,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in fixed history {} of {}", self.number, self.kind);
        }
    }
}
