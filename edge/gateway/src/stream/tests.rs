//! Streams at the boundaries of chunks, and streams that are not what was sealed.

use super::{FileSource, HEAD_BYTES_MAX, Opening, Plain, Sealing, copy, expect_end, read_head};
use crate::package::PackageError;
use std::io::{self, Read, Write};
use tg_privacy::content::{CHUNK_BYTES, HEADER_BYTES, SEALED_CHUNK_BYTES};
use tg_privacy::{ContentKey, Context, Purpose, Randomness};
use tg_types::{AccountId, GenesisHash, Hash32, SecretKey};

fn key(number: u8) -> ContentKey {
    ContentKey::new([number; 32])
}

fn context(purpose: Purpose) -> Context {
    Context {
        genesis: GenesisHash::new([1; 32]),
        owner: AccountId::from(SecretKey::from_seed([2; 32]).public()),
        purpose,
        label: Hash32::new([0; 32]),
    }
}

/// Bytes that differ from place to place.
fn content(bytes: usize) -> Vec<u8> {
    (0_u32..).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).take(bytes).collect()
}

fn sealed(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let chance = Randomness::new([5; 32]);
    let mut sealing = Sealing::start(&key(4), &context(Purpose::Input), chance, &mut out);
    sealing.write_all(plain).expect("into memory");
    sealing.finish().expect("short");
    out
}

fn opened_as(sealed: &[u8], key: &ContentKey, purpose: Purpose) -> Result<Vec<u8>, io::ErrorKind> {
    let opening = Opening::new(key, &context(purpose), &[], sealed);
    let mut plain = Vec::new();
    opening.expect("a header is read later").read_to_end(&mut plain).map_err(|it| it.kind())?;
    Ok(plain)
}

fn opened(sealed: &[u8]) -> Result<Vec<u8>, io::ErrorKind> {
    opened_as(sealed, &key(4), Purpose::Input)
}

#[test]
fn streams_of_all_lengths_around_chunks_open_to_what_was_sealed() {
    let chunk = CHUNK_BYTES;
    for bytes in [0, 1, chunk - 1, chunk, chunk + 1, 4 * chunk, 4 * chunk + 1, 9 * chunk - 1] {
        let plain = content(bytes);
        let sealed = sealed(&plain);
        let stated = tg_privacy::content::sealed_bytes(bytes as u64);
        assert_eq!(Some(sealed.len() as u64), stated);
        assert!(opened(&sealed) == Ok(plain), "{bytes} bytes");
    }
}

#[test]
fn streams_that_are_not_what_was_sealed_are_refused() {
    let chunk = SEALED_CHUNK_BYTES;
    let whole = sealed(&content(5 * CHUNK_BYTES));
    let part = |from: usize, to: usize| {
        whole[HEADER_BYTES + from * chunk..][..(to - from) * chunk].to_vec()
    };
    let header = whole[..HEADER_BYTES].to_vec();
    let wrong = [
        ("empty", Vec::new()),
        ("truncated header", header[..HEADER_BYTES - 1].to_vec()),
        ("no chunk", header.clone()),
        ("truncated at a chunk", [header.clone(), part(0, 4)].concat()),
        ("truncated in a chunk", whole[..whole.len() - 1].to_vec()),
        ("reordered", [header.clone(), part(1, 2), part(0, 1), part(2, 5)].concat()),
        ("repeated", [header.clone(), part(0, 1), part(0, 5)].concat()),
        ("without its first chunk", [header, part(1, 5)].concat()),
        ("extended", [whole.clone(), vec![0]].concat()),
        ("extended by its last chunk", [whole.clone(), part(4, 5)].concat()),
    ];
    for (what, stream) in wrong {
        assert_eq!(opened(&stream), Err(io::ErrorKind::InvalidData), "{what}");
    }
    let refused = Err(io::ErrorKind::InvalidData);
    assert_eq!(opened_as(&whole, &key(5), Purpose::Input), refused, "wrong key");
    assert_eq!(opened_as(&whole, &key(4), Purpose::Output), refused, "wrong context");
}

#[test]
fn prop_changed_streams_give_the_beginning_of_the_content_and_then_an_error() {
    let plain = content(2 * CHUNK_BYTES + 7);
    let whole = sealed(&plain);
    arbtest::arbtest(|u| {
        let mut changed = whole.clone();
        let at = u.choose_index(changed.len())?;
        changed[at] ^= 1 << u.int_in_range(0..=7)?;
        let opening = Opening::new(&key(4), &context(Purpose::Input), &[], changed.as_slice());
        let mut found = Vec::new();
        let read = opening.expect("a header is read later").read_to_end(&mut found);
        assert!(read.is_err() && plain.starts_with(&found));
        Ok(())
    });
}

/// A source that never was in memory as a whole, and counts the largest piece it was asked for.
struct Generated {
    left: u64,
    largest: usize,
}

impl Read for Generated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.largest = self.largest.max(buffer.len());
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        buffer[..count].fill(7);
        self.left -= count as u64;
        Ok(count)
    }
}

/// Passes what is sealed to an opener as it comes, and counts the largest piece.
struct Counting<'a> {
    opener: tg_privacy::Opener,
    plain: Vec<u8>,
    opened: u64,
    largest: &'a mut usize,
}

impl Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.opener.push(bytes, &mut self.plain).map_err(io::Error::other)?;
        *self.largest = (*self.largest).max(bytes.len()).max(self.plain.capacity());
        self.opened += self.plain.len() as u64;
        assert!(self.plain.iter().all(|byte| *byte == 7));
        self.plain.clear();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Goal: memory does not grow with the content. Method: 256 MiB that are made on the way in and
/// dropped on the way out; every buffer that passes by is measured.
#[test]
fn sealing_and_opening_take_a_few_chunks_of_memory() {
    const BYTES: u64 = 256 << 20;
    let mut source = Generated { left: BYTES, largest: 0 };
    let mut largest = 0;
    let context = context(Purpose::Input);
    let opener = tg_privacy::Opener::new(&key(4), &context);
    let mut counting = Counting { opener, plain: Vec::new(), opened: 0, largest: &mut largest };
    let chance = Randomness::new([5; 32]);
    let mut sealing = Sealing::start(&key(4), &context, chance, &mut counting);
    assert_eq!(copy(&mut source, &mut sealing, u64::MAX).expect("copies"), BYTES);
    sealing.finish().expect("ends");
    let Counting { opener, mut plain, opened, .. } = counting;
    opener.finish(&mut plain).expect("is whole");
    assert_eq!(opened + plain.len() as u64, BYTES);
    let most = 8 * SEALED_CHUNK_BYTES;
    assert!(source.largest <= most && largest <= most, "{} {largest}", source.largest);
}

#[test]
fn head_is_bounded_and_has_one_form() {
    let head: Vec<u8> = super::head_bytes(&Hash32::new([7; 32])).expect("short");
    let read = |bytes: &[u8], most| read_head::<Hash32>(&mut { bytes }, most);
    assert_eq!(read(&head, 32).expect("a head"), Hash32::new([7; 32]));
    assert!(matches!(read(&head, 31), Err(PackageError::Head { found: 32, max: 31 })));
    assert!(matches!(read(&head[..20], 32), Err(PackageError::Stream(_))));
    let longer = [&[0, 0, 0, 33], &head[4..], &[0]].concat();
    assert!(matches!(read(&longer, 64), Err(PackageError::Decode(_))));
    // A length alone promises nothing: no memory is taken for what is not there.
    let huge = u32::try_from(HEAD_BYTES_MAX).expect("32 bits").to_be_bytes();
    assert!(matches!(read(&huge, HEAD_BYTES_MAX), Err(PackageError::Stream(_))));
    assert!(expect_end(&mut { &[][..] }).is_ok());
    assert!(matches!(expect_end(&mut { &[1][..] }), Err(PackageError::Trailing)));
}

#[test]
fn file_that_changes_while_it_is_read_is_noticed() {
    let path = std::env::temp_dir().join(format!("tg-stream-{}", std::process::id()));
    std::fs::write(&path, content(100_000)).expect("writes");
    let source = FileSource::open(path.clone()).expect("is there");
    let bytes = FileSource::Bytes(content(100_000).into());
    assert_eq!((source.bytes(), source.hash()), (bytes.bytes(), bytes.hash()));
    let mut out = Vec::new();
    source.write(&mut out).expect("is the same");
    assert_eq!(out, content(100_000));
    for changed in [content(99_999), vec![0; 100_000]] {
        std::fs::write(&path, changed).expect("writes");
        let refused = source.write(&mut io::sink()).expect_err("is another");
        assert!(refused.to_string().contains("changed while it was read"), "{refused}");
        assert!(!PackageError::from(refused).is_wrong(), "no fault of a package");
    }
    std::fs::remove_file(path).expect("removes");
}

#[test]
fn bytes_are_plain() {
    let (plain, mut out) = (content(10), Vec::new());
    Plain::write(&plain, &mut out).expect("into memory");
    assert_eq!((Plain::bytes(&plain), out), (10, plain));
}
