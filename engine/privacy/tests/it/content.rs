//! Sealed messages: what was sealed opens, and nothing else does.

use crate::common::{account, context, key, message, randomness};
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use tg_privacy::content::{
    CHUNK_BYTES, HEADER_BYTES, SEALED_CHUNK_BYTES, SealedHeader, TAG_BYTES, sealed_bytes,
};
use tg_privacy::{
    Complaint, Context, Judge, OpenError, Opener, Purpose, Sealer, judge_complaint, open_all,
    seal_all,
};
use tg_types::{Decode, DecodeError, GenesisHash, Hash32};

/// Lengths at which something changes.
const EDGES: [usize; 9] = [
    0,
    1,
    TAG_BYTES,
    CHUNK_BYTES - 1,
    CHUNK_BYTES,
    CHUNK_BYTES + 1,
    2 * CHUNK_BYTES,
    2 * CHUNK_BYTES + 1,
    3 * CHUNK_BYTES,
];

fn sealed(plain: &[u8]) -> Vec<u8> {
    seal_all(&key(1), &context(), randomness(1), plain).expect("a short message")
}

fn opened(sealed: &[u8]) -> std::result::Result<Vec<u8>, OpenError> {
    open_all(&key(1), &context(), sealed).map(|plain| plain.to_vec())
}

/// Header and chunks of a sealed message.
fn parts(sealed: &[u8]) -> (&[u8], Vec<&[u8]>) {
    let (header, chunks) = sealed.split_at(HEADER_BYTES);
    (header, chunks.chunks(SEALED_CHUNK_BYTES).collect())
}

/// Opens header and chunks, put together in this order.
fn check_parts(header: &[u8], chunks: &[&[u8]], expected: OpenError) {
    let together = [header, &chunks.concat()].concat();
    assert_eq!(opened(&together), Err(expected));
}

/// Cuts bytes into pieces of any size, empty ones included.
fn pieces<'a>(u: &mut Unstructured<'_>, mut bytes: &'a [u8]) -> Result<Vec<&'a [u8]>> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let most = if u.ratio(1, 2)? { 64 } else { 3 * CHUNK_BYTES };
        let size = u.int_in_range(0..=most.min(bytes.len()))?;
        let (piece, rest) = bytes.split_at(if pieces.len() > 50 { bytes.len() } else { size });
        pieces.push(piece);
        bytes = rest;
    }
    Ok(pieces)
}

fn length(u: &mut Unstructured<'_>) -> Result<usize> {
    let edge = *u.choose(&EDGES)?;
    Ok(if u.arbitrary()? { edge } else { u.int_in_range(0..=edge)? })
}

#[test]
fn message_of_any_length_opens_to_itself() {
    for length in EDGES {
        let plain = message(length);
        let sealed = sealed(&plain);
        assert_eq!(Some(sealed.len() as u64), sealed_bytes(length as u64));
        assert_eq!(opened(&sealed), Ok(plain));
    }
}

#[test]
fn prop_pieces_do_not_matter() {
    arbtest(|u| {
        let plain = message(length(u)?);
        let expected = sealed(&plain);

        let mut out = Vec::new();
        let mut sealer = Sealer::start(&key(1), &context(), randomness(1), &mut out);
        for piece in pieces(u, &plain)? {
            let before = out.len();
            sealer.push(piece, &mut out).expect("a short message");
            let chunks = piece.len() / CHUNK_BYTES + 1;
            assert!(out.len() - before <= chunks * SEALED_CHUNK_BYTES, "bounded by the piece");
        }
        sealer.finish(&mut out).expect("a short message");
        assert!(out == expected);

        let mut opener = Opener::new(&key(1), &context());
        let mut judge = Judge::new(&context(), &key(1));
        let mut out = Vec::new();
        for piece in pieces(u, &expected)? {
            opener.push(piece, &mut out).expect("what was sealed");
            assert!(judge.push(piece));
        }
        opener.finish(&mut out).expect("what was sealed");
        assert!(out == plain);
        assert_eq!(judge.finish(), Complaint::Decrypts);
        Ok(())
    });
}

#[test]
fn every_flipped_bit_of_a_short_message_is_refused() {
    let sealed = sealed(b"attack at dawn");
    for at in 0..sealed.len() {
        for bit in 0..8 {
            let mut changed = sealed.clone();
            changed[at] ^= 1 << bit;
            let error = opened(&changed).expect_err("a bit was flipped");
            match at {
                0 => assert!(matches!(error, OpenError::Header(DecodeError::Version { .. }))),
                1..8 => assert_eq!(error, OpenError::Chunk { chunk: 0 }),
                8..HEADER_BYTES => assert_eq!(error, OpenError::Key),
                _ => assert_eq!(error, OpenError::Chunk { chunk: 0 }),
            }
        }
    }
}

#[test]
fn prop_flipped_bit_of_a_long_message_is_refused_in_its_chunk() {
    let plain = message(3 * CHUNK_BYTES + 5);
    let sealed = sealed(&plain);
    arbtest(|u| {
        let at = u.int_in_range(HEADER_BYTES..=sealed.len() - 1)?;
        let mut changed = sealed.clone();
        changed[at] ^= 1 << u.int_in_range(0..=7)?;
        let chunk = (at - HEADER_BYTES) / SEALED_CHUNK_BYTES;

        let mut out = Vec::new();
        let mut opener = Opener::new(&key(1), &context());
        let refused = OpenError::Chunk { chunk: chunk.try_into().expect("few chunks") };
        let pushed = opener.push(&changed, &mut out);
        assert_eq!(pushed.and_then(|()| opener.finish(&mut out)), Err(refused));
        assert!(out == plain[..chunk * CHUNK_BYTES], "only what was checked is given out");
        Ok(())
    });
}

#[test]
fn message_cut_off_anywhere_is_refused() {
    let short = sealed(b"attack at dawn");
    for length in 0..short.len() {
        assert!(opened(&short[..length]).is_err(), "{length}");
    }
    for length in [2 * CHUNK_BYTES, 2 * CHUNK_BYTES + 9] {
        let sealed = sealed(&message(length));
        let (header, chunks) = parts(&sealed);
        let missing = OpenError::Truncated { chunk: 0 };
        check_parts(header, &[], missing);
        for count in 1..chunks.len() {
            let last = OpenError::Chunk { chunk: u32::try_from(count).expect("few") - 1 };
            check_parts(header, &chunks[..count], last);
        }
        for cut in 1..=TAG_BYTES + 1 {
            assert!(opened(&sealed[..sealed.len() - cut]).is_err(), "{cut}");
        }
    }
}

#[test]
fn chunks_reordered_repeated_left_out_or_added_are_refused() {
    let sealed_bytes = sealed(&message(4 * CHUNK_BYTES));
    let (header, chunks) = parts(&sealed_bytes);
    let [a, b, c, d] = chunks[..] else { panic!("four chunks") };
    let at = |chunk| OpenError::Chunk { chunk };
    check_parts(header, &[b, a, c, d], at(0));
    check_parts(header, &[c, b, a, d], at(0));
    check_parts(header, &[a, c, b, d], at(1));
    check_parts(header, &[a, b, d, c], at(2));
    check_parts(header, &[a, a, b, c, d], at(1));
    check_parts(header, &[a, b, c, c, d], at(3));
    check_parts(header, &[a, b, c, d, d], at(3));
    check_parts(header, &[b, c, d], at(0));
    check_parts(header, &[a, c, d], at(1));
    check_parts(header, &[a, b, d], at(2));
    check_parts(header, &[a, b, c, d, &[0]], at(3));
    check_parts(header, &[a, b, c, d, &[0; TAG_BYTES]], at(3));
    check_parts(header, &[a, b, c, d, header], at(3));
}

#[test]
fn chunks_of_another_message_under_the_same_key_are_refused() {
    let plain = message(2 * CHUNK_BYTES);
    let (ours, theirs) = (sealed(&plain), seal_all(&key(1), &context(), randomness(2), &plain));
    let theirs = theirs.expect("a short message");
    let ((our_header, our), (their_header, their)) = (parts(&ours), parts(&theirs));
    assert_ne!(our_header, their_header);
    check_parts(our_header, &[our[0], their[1]], OpenError::Chunk { chunk: 1 });
    check_parts(our_header, &[their[0], our[1]], OpenError::Chunk { chunk: 0 });
    check_parts(their_header, &our, OpenError::Chunk { chunk: 0 });
}

#[test]
fn another_context_is_refused_in_each_field() {
    let plain = message(CHUNK_BYTES + 1);
    let sealed = sealed(&plain);
    let right = context();
    let purposes = [Purpose::Weights, Purpose::Output, Purpose::Program];
    let mut others = vec![
        Context { genesis: GenesisHash::new([0x98; 32]), ..right },
        Context { owner: account(2), ..right },
        Context { label: Hash32::new([0x10; 32]), ..right },
    ];
    others.extend(purposes.map(|purpose| Context { purpose, ..right }));
    for other in others {
        let refused = open_all(&key(1), &other, &sealed).map(|plain| plain.len());
        assert_eq!(refused, Err(OpenError::Chunk { chunk: 0 }), "{other:?}");
    }
    assert_eq!(opened(&sealed), Ok(plain));
}

#[test]
fn another_key_is_refused_before_anything_is_opened() {
    let sealed_bytes = sealed(&message(3));
    let refused = open_all(&key(2), &context(), &sealed_bytes).map(|plain| plain.len());
    assert_eq!(refused, Err(OpenError::Key));
    // Even where nothing follows the header.
    let mut opener = Opener::new(&key(2), &context());
    assert_eq!(opener.push(&sealed_bytes[..HEADER_BYTES], &mut vec![]), Err(OpenError::Key));
    assert_eq!(opener.push(&[], &mut vec![]), Err(OpenError::Key));
}

/// Without the commitment, a message can be made that several keys open. With it, a header that
/// names another key makes the chunks another message's.
#[test]
fn header_that_names_another_key_opens_with_neither() {
    let ours = sealed(&message(3));
    let theirs = seal_all(&key(2), &context(), randomness(1), &message(3)).expect("short");
    let mut mixed = ours.clone();
    mixed[8..HEADER_BYTES].copy_from_slice(&theirs[8..HEADER_BYTES]);
    assert_eq!(opened(&mixed), Err(OpenError::Key));
    let refused = open_all(&key(2), &context(), &mixed).map(|plain| plain.len());
    assert_eq!(refused, Err(OpenError::Chunk { chunk: 0 }));
}

#[test]
fn header_tells_the_key_to_whoever_has_none() {
    let sealed = sealed(&[]);
    let header = SealedHeader::from_bytes(&sealed[..HEADER_BYTES]).expect("a header");
    assert_eq!(header.key(), key(1).commitment());
}

#[test]
fn same_randomness_in_another_context_gives_another_nonce() {
    let other = Context { purpose: Purpose::Output, ..context() };
    let one = seal_all(&key(1), &context(), randomness(1), &[]).expect("short");
    let two = seal_all(&key(1), &other, randomness(1), &[]).expect("short");
    assert_ne!(one[1..8], two[1..8]);
}

#[test]
fn complaint_is_decided_by_the_published_key() {
    let good = sealed(&message(2 * CHUNK_BYTES + 1));
    let judged = |sealed: &[u8]| judge_complaint(sealed, &context(), &key(1));
    assert_eq!(judged(&good), Complaint::Decrypts);
    assert_eq!(judge_complaint(&good, &context(), &key(2)), Complaint::KeyIsNotTheOne);

    for chunk in 0..3 {
        let mut bad = good.clone();
        bad[HEADER_BYTES + chunk as usize * SEALED_CHUNK_BYTES] ^= 1;
        assert_eq!(judged(&bad), Complaint::Undecryptable { chunk });
        assert_eq!(judge_complaint(&bad, &context(), &key(2)), Complaint::KeyIsNotTheOne);
    }
    let cut = &good[..good.len() - 1];
    assert_eq!(judged(cut), Complaint::Undecryptable { chunk: 2 });
    assert_eq!(judged(&good[..HEADER_BYTES]), Complaint::Undecryptable { chunk: 0 });
    for length in 0..HEADER_BYTES {
        assert_eq!(judged(&good[..length]), Complaint::NotSealed);
    }
    let another_format = [&[2], &good[1..]].concat();
    assert_eq!(judged(&another_format), Complaint::NotSealed);

    let upheld = [Complaint::NotSealed, Complaint::Undecryptable { chunk: 0 }];
    assert!(upheld.iter().all(Complaint::is_upheld));
    assert!(!Complaint::Decrypts.is_upheld() && !Complaint::KeyIsNotTheOne.is_upheld());
}

/// Goal: whatever bytes a stranger calls a sealed message, opening and judging agree and do not
/// panic. Method: random bytes, half of them behind the beginning of a good message.
#[test]
fn prop_strange_bytes_are_refused() {
    let good = sealed(&message(CHUNK_BYTES + 40));
    arbtest(|u| {
        let kept = if u.arbitrary()? { u.int_in_range(0..=good.len() - 1)? } else { 0 };
        let mut strange = good[..kept].to_vec();
        strange.extend_from_slice(u.bytes(u.len().min(200))?);
        if strange == good {
            return Ok(());
        }
        let complaint = judge_complaint(&strange, &context(), &key(1));
        match opened(&strange).expect_err("nobody sealed it") {
            OpenError::Header(_) => assert_eq!(complaint, Complaint::NotSealed),
            OpenError::Key => assert_eq!(complaint, Complaint::KeyIsNotTheOne),
            OpenError::Chunk { chunk }
            | OpenError::Truncated { chunk }
            | OpenError::Empty { chunk }
            | OpenError::TooLong { chunk } => {
                assert_eq!(complaint, Complaint::Undecryptable { chunk });
            }
        }
        Ok(())
    });
}
