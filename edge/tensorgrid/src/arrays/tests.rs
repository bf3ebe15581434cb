//! Arrays through all formats: round trips, files of numpy, and what must be refused.

use super::{
    ARRAYS_MAX, ArrayFileError, Fault, Format, Limit, RenderError, npy as npy_format, npz, parse,
    read, render, write,
};
use crate::files::{self, Readers, TemporaryFolder};
use arbtest::arbitrary::{self, Unstructured};
use tg_tensor::{Array, Data};

/// What numpy 2.4.6 makes of `savez_compressed(file, a=[[1, -2, 3], [4, 5, -6]], b=[[0.5, -1.5],
/// [65504, 6e-8]])`, the first as `<i2`, the second as `>f2` in Fortran order.
const NUMPY_COMPRESSED: &str = "\
504b03042d000000080000002100969c009affffffffffffffff05001400612e6e7079010010008c0000000000000053\
000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a4aea3a09e965f54529498179f5f94920a\
12774bcc294e058a17672416a402f91a463a0ac69a3a0ab50a64032e46867fff9919581858197efd0700504b03042d00\
0000080000002100262e6edeffffffffffffffff05001400622e6e70790100100088000000000000004d000000000000\
009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9766a4aea3a09e965f54529498179f5f94920a120f292a4d05\
0a17672416a402b91a463a0a469a3a0ab50ae4032e0b86eafffb18181801504b01022d032d0000000800000021009\
69c009a530000008c000000050000000000000000000000800100000000612e6e7079504b01022d032d0000000800000\
02100262e6ede4d0000008800000005000000000000000000000080018a000000622e6e7079504b05060000000002000\
200660000000e0100000000";

fn floats(shape: &[usize], values: &[f32]) -> Array {
    Array::new(shape.to_vec(), Data::Float(values.to_vec())).expect("fills the shape")
}

fn whole(shape: &[usize], values: &[i64]) -> Array {
    Array::new(shape.to_vec(), Data::Int(values.to_vec())).expect("fills the shape")
}

fn named(name: &str, array: Array) -> (String, Array) {
    (name.to_owned(), array)
}

/// What parsing gives, as text: `name [shape] numbers`, one array per line, or the error.
fn check(bytes: &[u8], format: Format, expected: &str) {
    let line = |(name, array): (Option<String>, Array)| {
        let name = name.map(|name| format!("{name} ")).unwrap_or_default();
        match array.data() {
            Data::Float(values) => format!("{name}{:?} {values:?}", array.shape()),
            Data::Int(values) => format!("{name}{:?} {values:?}", array.shape()),
        }
    };
    let found = match parse(bytes, format) {
        Ok(arrays) => arrays.into_iter().map(line).collect::<Vec<_>>().join("\n"),
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(found, expected);
}

fn check_json(text: &str, expected: &str) {
    check(text.as_bytes(), Format::Json, expected);
}

/// An .npy file of any version with this header and these numbers.
fn npy(version: u8, header: &str, numbers: &[u8]) -> Vec<u8> {
    let mut file = b"\x93NUMPY".to_vec();
    file.extend([version, 0]);
    let length = u32::try_from(header.len()).expect("short").to_le_bytes();
    file.extend(if version == 1 { &length[..2] } else { &length[..] });
    file.extend(header.as_bytes());
    file.extend(numbers);
    file
}

/// An .npy file with numbers of a kind.
fn npy_of(kind: &str, shape: &str, numbers: &[u8]) -> Vec<u8> {
    npy(1, &format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n"), numbers)
}

/// An entry of a zip archive, to be forged at will.
#[derive(Clone)]
struct Entry {
    name: &'static str,
    flags: u16,
    method: u16,
    checksum: u32,
    packed: Vec<u8>,
    bytes: u32,
    extra: Vec<u8>,
}

impl Entry {
    fn stored(name: &'static str, inner: &[u8]) -> Self {
        let bytes = u32::try_from(inner.len()).expect("small");
        let (packed, checksum) = (inner.to_vec(), npz::checksum(inner));
        Self { name, flags: 0, method: 0, checksum, packed, bytes, extra: Vec::new() }
    }

    fn deflated(name: &'static str, inner: &[u8]) -> Self {
        let packed = miniz_oxide::deflate::compress_to_vec(inner, 9);
        Self { method: 8, packed, ..Self::stored(name, inner) }
    }
}

/// Archives as a streaming writer makes them: sizes follow each entry in a descriptor.
fn zip(entries: &[Entry]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    let put = |bytes: &mut Vec<u8>, fields: &[u16]| {
        bytes.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
    };
    let small = |count: usize| u16::try_from(count).expect("small");
    for entry in entries {
        let at = u32::try_from(file.len()).expect("small");
        let packed = u32::try_from(entry.packed.len()).expect("small");
        let sizes = [entry.checksum, packed, entry.bytes].map(u32::to_le_bytes).concat();
        let (flags, name) = (entry.flags | 1 << 3, small(entry.name.len()));
        file.extend(b"PK\x03\x04");
        put(&mut file, &[20, flags, entry.method, 0, 33, 0, 0, 0, 0, 0, 0, name, 0]);
        file.extend(entry.name.as_bytes());
        file.extend(&entry.packed);
        file.extend(b"PK\x07\x08");
        file.extend(&sizes);
        directory.extend(b"PK\x01\x02");
        put(&mut directory, &[20, 20, flags, entry.method, 0, 33]);
        directory.extend(&sizes);
        put(&mut directory, &[name, small(entry.extra.len()), 0, 0, 0, 0, 0]);
        directory.extend(at.to_le_bytes());
        directory.extend(entry.name.as_bytes());
        directory.extend(&entry.extra);
    }
    let place = [directory.len(), file.len()].map(|count| u32::try_from(count).expect("small"));
    file.extend(&directory);
    file.extend(b"PK\x05\x06");
    put(&mut file, &[0, 0, small(entries.len()), small(entries.len())]);
    file.extend(place.map(u32::to_le_bytes).concat());
    put(&mut file, &[0]);
    file
}

/// A number of any size, also those at the borders.
fn any_array(u: &mut Unstructured<'_>, is_finite: bool) -> arbitrary::Result<Array> {
    let shape = (0..u.int_in_range(0..=4)?)
        .map(|_| u.int_in_range(1..=4_usize))
        .collect::<arbitrary::Result<Vec<_>>>()?;
    let count = 0..shape.iter().product();
    let data = if u.arbitrary()? {
        // NaN is not equal to itself, and JSON has no infinity.
        let value = |bits: u32| match f32::from_bits(bits) {
            value if value.is_nan() || (is_finite && value.is_infinite()) => -0.0,
            value => value,
        };
        let values = count.map(|_| u.arbitrary().map(value)).collect::<arbitrary::Result<_>>()?;
        Data::Float(values)
    } else {
        Data::Int(count.map(|_| u.arbitrary()).collect::<arbitrary::Result<_>>()?)
    };
    Ok(Array::new(shape, data).expect("fills the shape"))
}

/// Goal: every array that is written is read back to the bit. Method: random arrays, all formats.
#[test]
fn prop_parse_reverses_render() {
    arbtest::arbtest(|u| {
        let format = *u.choose(&[Format::Npy, Format::Npz, Format::Json])?;
        let most = if format == Format::Npy { 1 } else { 4 };
        let names = ["x", "input_data", "größe/\"0\"", "a.npy"];
        let count = u.int_in_range(1..=most)?;
        let mut arrays = Vec::new();
        for name in names.into_iter().take(count) {
            arrays.push(named(name, any_array(u, format == Format::Json)?));
        }
        let bytes = render(&arrays, format).expect("renders");
        assert_eq!(render(&arrays, format).expect("renders again"), bytes);
        let name = |name: String| (format != Format::Npy).then_some(name);
        let expected: Vec<_> =
            arrays.into_iter().map(|(known, array)| (name(known), array)).collect();
        assert_eq!(parse(&bytes, format).expect("parses"), expected);
        Ok(())
    });
}

/// Goal: no file makes the readers panic. Method: sound files with bytes changed, cut or doubled.
#[test]
fn prop_damaged_files_never_panic() {
    let arrays =
        [named("x", floats(&[2, 2], &[1.0, 2.5, -3.0, 4.0])), named("y", whole(&[1], &[7]))];
    let samples = [
        (Format::Npy, render(&arrays[..1], Format::Npy).expect("renders")),
        (Format::Npz, render(&arrays, Format::Npz).expect("renders")),
        (Format::Npz, hex::decode(NUMPY_COMPRESSED).expect("hex")),
        (Format::Json, render(&arrays, Format::Json).expect("renders")),
        (Format::Json, br#"{"input_data": [[1, 2], [3.5]]}"#.to_vec()),
    ];
    arbtest::arbtest(|u| {
        let (format, mut bytes) = u.choose(&samples)?.clone();
        for _ in 0..u.int_in_range(1..=4)? {
            let at = u.choose_index(bytes.len())?;
            match u.int_in_range(0..=2)? {
                0 => bytes[at] = u.arbitrary()?,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, u.arbitrary()?),
            }
        }
        let _either_is_fine = parse(&bytes, format);
        Ok(())
    });
}

#[test]
fn file_cut_at_any_byte_is_refused() {
    let arrays = [named("x", floats(&[2], &[1.0, 2.5])), named("y", whole(&[1, 2], &[7, -8]))];
    let samples = [
        (Format::Npy, render(&arrays[..1], Format::Npy).expect("renders")),
        (Format::Npz, render(&arrays, Format::Npz).expect("renders")),
        (Format::Npz, hex::decode(NUMPY_COMPRESSED).expect("hex")),
        (Format::Json, render(&arrays, Format::Json).expect("renders").trim_ascii().to_vec()),
        (Format::Json, br#"{"output_data": [[1, 2], [3.5, true]]}"#.to_vec()),
        (Format::Json, b"[[1e-3, 2], [3.5, 4]]".to_vec()),
    ];
    for (format, bytes) in samples {
        assert!(parse(&bytes, format).is_ok());
        for length in 0..bytes.len() {
            assert!(parse(&bytes[..length], format).is_err(), "{format} cut at {length}");
        }
    }
}

#[test]
fn every_kind_of_number_is_read_in_both_orders_of_bytes() {
    let check_both = |kind: &str, bytes: &[u8], width: usize, expected: &str| {
        let shape = format!("({},)", bytes.len() / width);
        check(&npy_of(&format!("<{kind}"), &shape, bytes), Format::Npy, expected);
        let big: Vec<u8> = bytes.chunks(width).flat_map(|c| c.iter().rev()).copied().collect();
        check(&npy_of(&format!(">{kind}"), &shape, &big), Format::Npy, expected);
        if width == 1 {
            check(&npy_of(&format!("|{kind}"), &shape, bytes), Format::Npy, expected);
        }
    };
    let of = |bytes: &[&[u8]]| bytes.concat();
    check_both("f2", &[0x00, 0x3e, 0xff, 0xfb], 2, "[2] [1.5, -65504.0]");
    let bytes = of(&[&1.5_f32.to_le_bytes(), &f32::MIN_POSITIVE.to_le_bytes()]);
    check_both("f4", &bytes, 4, "[2] [1.5, 1.1754944e-38]");
    let bytes = of(&[&0.1_f64.to_le_bytes(), &f64::NEG_INFINITY.to_le_bytes()]);
    check_both("f8", &bytes, 8, "[2] [0.1, -inf]");
    check_both("i1", &[0x80, 0x7f], 1, "[2] [-128, 127]");
    check_both("i2", &of(&[&i16::MIN.to_le_bytes(), &[1, 2]]), 2, "[2] [-32768, 513]");
    check_both("i4", &i32::MIN.to_le_bytes(), 4, "[1] [-2147483648]");
    check_both("i8", &i64::MIN.to_le_bytes(), 8, "[1] [-9223372036854775808]");
    check_both("u1", &[0xff, 0], 1, "[2] [255, 0]");
    check_both("u2", &[0xfe, 0xff], 2, "[1] [65534]");
    check_both("u4", &u32::MAX.to_le_bytes(), 4, "[1] [4294967295]");
    check_both("u8", &i64::MAX.to_le_bytes(), 8, "[1] [9223372036854775807]");
    check_both("b1", &[1, 0], 1, "[2] [1, 0]");
}

#[test]
fn number_that_does_not_fit_is_refused() {
    let refused = |kind: &str, bytes: &[u8], expected: &str| {
        check(&npy_of(kind, "(2,)", bytes), Format::Npy, expected);
    };
    let bytes = [0.0, 1e39_f64].map(f64::to_le_bytes).concat();
    refused("<f8", &bytes, "error: byte 76: number 1 is not within the range of f32");
    let bytes = [0, u64::MAX].map(u64::to_le_bytes).concat();
    refused("<u8", &bytes, "error: byte 76: number 1 is not at most 9223372036854775807");
    refused("|b1", &[1, 2], "error: byte 69: number 1 is not 0 or 1, as truth values are");
}

/// Goal: all 65536 floats of 16 bits are read exactly. Method: the definition, in 64 bits.
#[test]
fn half_floats_are_read_exactly() {
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let arrays = parse(&npy_of("<f2", "(65536,)", &bytes), Format::Npy).expect("parses");
    let Data::Float(values) = arrays[0].1.data() else { panic!("expected floats") };
    for (bits, found) in (0..=u16::MAX).zip(values) {
        let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
        let expected = match exponent {
            0 => sign * fraction * 2_f64.powi(-14),
            31 if fraction == 0.0 => sign * f64::INFINITY,
            31 => f64::NAN,
            _ => sign * (1.0 + fraction) * 2_f64.powi(exponent - 15),
        };
        let is_same = f64::from(*found) == expected || (found.is_nan() && expected.is_nan());
        assert!(is_same && found.is_sign_negative() == (bits >> 15 == 1), "{bits:04x}: {found}");
    }
    assert_eq!(values[1], 2_f32.powi(-24), "the least subnormal");
}

#[test]
fn fortran_order_is_turned_into_row_major() {
    let fortran = |shape: &str, count: u8| {
        let header = format!("{{'descr': '|u1', 'fortran_order': True, 'shape': {shape}, }}\n");
        npy(1, &header, &(0..count).collect::<Vec<u8>>())
    };
    check(&fortran("(2, 3)", 6), Format::Npy, "[2, 3] [0, 2, 4, 1, 3, 5]");
    check(&fortran("(3,)", 3), Format::Npy, "[3] [0, 1, 2]");
    check(&fortran("()", 1), Format::Npy, "[] [0]");
    check(&fortran("(2, 0, 3)", 0), Format::Npy, "[2, 0, 3] []");
    let expected = "[2, 2, 3] [0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11]";
    check(&fortran("(2, 2, 3)", 12), Format::Npy, expected);
}

#[test]
fn header_is_read_in_every_version_and_order_of_keys() {
    let header = "{'descr': '|i1', 'fortran_order': False, 'shape': (2, 1), }   \n";
    for version in 1..=3 {
        check(&npy(version, header, &[1, 2]), Format::Npy, "[2, 1] [1, 2]");
    }
    let header = r#" {"shape":(2L,1L,),"fortran_order":False,"descr":"|i1"}"#;
    check(&npy(1, header, &[1, 2]), Format::Npy, "[2, 1] [1, 2]");
}

#[test]
fn forged_header_is_refused_at_its_place() {
    let refused = |header: &str, expected: &str| {
        check(&npy(1, header, &[0; 8]), Format::Npy, &format!("error: {expected}"));
    };
    refused("", "byte 10: the end, expected a header in braces");
    let rest = "'fortran_order': False, 'shape': (8,)}";
    let kinds = npy_format::KINDS;
    for kind in ["|O", "<c8", "<M8[ns]", "<U4", "|i2", "=i1", "i1", "<f16", "<f3", "", "<é"] {
        let expected = format!("byte 20: numbers of kind {kind:?}, expected one of {kinds}");
        refused(&format!("{{'descr': '{kind}', {rest}"), &expected);
    }
    let kind = "[('x', '<f4')], ";
    let expected = format!("byte 20: numbers of kind {kind:?}, expected one of {kinds}");
    refused("{'descr': [('x', '<f4')], }", &expected);
    let wanted = "expected descr, fortran_order and shape, each once";
    refused(&format!("{{{rest}"), &format!("byte 49: {wanted}"));
    refused("{'descr': '|i1', 'descr': '|i1'}", &format!("byte 27: {wanted}"));
    refused("{'size': 8}", &format!("byte 11: {wanted}"));
    refused("{'descr' '|i1'}", "byte 19: expected a colon");
    refused("{'fortran_order': 1}", "byte 28: expected True or False");
    refused("{'shape': (8,", "byte 23: the end, expected the length of a side");
    refused("{'shape': (-8,)}", "byte 21: expected the length of a side");
    refused("{'shape': (8 8)}", "byte 23: expected a comma or a closing parenthesis");
    refused("{'shape': (99999999999999999999,)}", "byte 21: more than 268435456 numbers");
    let sides = "1, ".repeat(33);
    refused(&format!("{{'shape': ({sides})}}"), "byte 117: more than 32 sides");
    let shape =
        |shape: &str| format!("{{'descr': '|i1', 'fortran_order': False, 'shape': {shape}}}");
    let expected = "byte 65: 8 bytes of numbers, expected 7 for the shape [7]";
    refused(&shape("(7,)"), expected);
    refused(&shape("()"), "byte 63: 8 bytes of numbers, expected 1 for the shape []");
    refused(&shape("(3, 3)"), "byte 67: 8 bytes of numbers, expected 9 for the shape [3, 3]");
    refused(&shape("(4294967296, 4294967296)"), "byte 85: more than 268435456 numbers");
    refused(
        &shape("(8,) x").replace(" x}", "} x"),
        "byte 66: expected blanks up to the end of the header",
    );
}

#[test]
fn forged_frame_of_an_npy_file_is_refused() {
    let refused = |bytes: &[u8], expected: &str| {
        check(bytes, Format::Npy, &format!("error: {expected}"));
    };
    refused(b"PK\x03\x04", "byte 0: expected the magic word \\x93NUMPY of an .npy file");
    refused(b"\x93NUMPY\x01\x01", "byte 6: expected version 1.0, 2.0 or 3.0");
    refused(b"\x93NUMPY\x04\x00", "byte 6: expected version 1.0, 2.0 or 3.0");
    refused(b"\x93NUMPY\x01\x00\x10\x00{", "byte 11: the end, expected the header");
    refused(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", "byte 8: more than 10000 bytes of header");
}

#[test]
fn shape_with_too_many_numbers_is_refused_before_they_are_read() {
    let file = npy_of("|i1", "(2,)", &[1, 2]);
    assert!(npy_format::parse(&file, 2).is_ok());
    let error = npy_format::parse(&file, 1).expect_err("one number is allowed");
    assert_eq!(error.fault, Fault::TooMany(Limit::Elements));
}

#[test]
fn archive_of_numpy_is_read() {
    let file = hex::decode(NUMPY_COMPRESSED).expect("hex");
    let expected = "a [2, 3] [1, -2, 3, 4, 5, -6]\nb [2, 2] [0.5, -1.5, 65504.0, 5.9604645e-8]";
    check(&file, Format::Npz, expected);
    let mut commented = file;
    let end = commented.len() - 2;
    let comment = b"PK\x05\x06 looks like an end record";
    commented[end] = u8::try_from(comment.len()).expect("short");
    commented.extend(comment);
    check(&commented, Format::Npz, expected);
}

#[test]
fn archive_with_descriptors_is_read() {
    let (x, y) = (npy_of("|i1", "(2,)", &[1, 2]), npy_of("|i1", "(1, 300)", &[7; 300]));
    let file = zip(&[Entry::stored("x.npy", &x), Entry::deflated("größe.npy", &y)]);
    check(&file, Format::Npz, &format!("x [2] [1, 2]\ngröße [1, 300] {:?}", [7; 300]));
}

#[test]
fn forged_archive_is_refused() {
    let inner = npy_of("|i1", "(2,)", &[1, 2]);
    let entry = Entry::stored("x.npy", &inner);
    let refused = |entries: &[Entry], expected: &str| {
        check(&zip(entries), Format::Npz, &format!("error: byte {expected}"));
    };
    refused(&[], "0: expected at least one array");
    let forged = |change: fn(&mut Entry)| {
        let mut forged = entry.clone();
        change(&mut forged);
        [forged]
    };
    let zip64 = "121: zip64, the form for archives above 4 GiB, is not supported";
    refused(&forged(|e| e.bytes = u32::MAX), zip64);
    refused(&forged(|e| e.extra = vec![9, 9, 1, 0, 0, 1, 0, 0, 0]), zip64);
    let encrypted = "121: an encrypted or patched entry is not supported";
    refused(&forged(|e| e.flags = 1), encrypted);
    refused(&forged(|e| e.method = 12), "121: compression method 12 is not supported");
    let named = "121: expected an entry with a name in UTF-8 that ends in .npy";
    refused(&forged(|e| e.name = "x.txt"), named);
    let unnamed = "120: the name \"\", expected 1 to 255 bytes without control characters";
    refused(&forged(|e| e.name = ".npy"), unnamed);
    refused(&forged(|e| e.bytes += 1), "0: an entry that does not have the 71 bytes it declares");
    refused(&forged(|e| e.checksum = 1), "0: checksum db6ad926, expected 00000001");
    let no_deflate = |e: &mut Entry| (e.method, e.packed) = (8, vec![0xff; 70]);
    refused(&forged(no_deflate), "0: expected a deflated entry");
    refused(&[entry.clone(), entry.clone()], "293: the name \"x\" for the second time");
    let broken = Entry::stored("x.npy", &npy_of("|i1", "(3,)", &[1, 2]));
    let expected = "error: entry \"x\", byte 68: 2 bytes of numbers, expected 3 for the shape [3]";
    check(&zip(&[broken]), Format::Npz, expected);
}

#[test]
fn archive_whose_records_disagree_is_refused() {
    let sound = zip(&[Entry::stored("x.npy", &npy_of("|i1", "(2,)", &[1, 2]))]);
    let end = sound.len() - 22;
    let refused = |at: usize, byte: u8, expected: &str| {
        let mut forged = sound.clone();
        forged[at] = byte;
        check(&forged, Format::Npz, &format!("error: byte {expected}"));
    };
    let other = "0: expected an entry with the name and the method that the directory says";
    refused(30, b'y', other);
    refused(8, 8, other);
    refused(121 + 42, 1, "1: expected an entry of the archive");
    refused(121 + 43, 0xff, "65280: the end, expected an entry of the archive");
    refused(121 + 21, 1, "121: the end, expected the bytes of an entry");
    refused(end + 4, 1, &format!("{end}: an archive in several parts is not supported"));
    refused(end + 8, 2, &format!("{end}: an archive in several parts is not supported"));
    let apart = "expected a directory that ends where the end record begins";
    refused(end + 12, 1, &format!("{end}: {apart}"));
    let mut locator = sound[..end].to_vec();
    locator.extend(b"PK\x06\x07");
    locator.extend([0; 16]);
    locator.extend(&sound[end..]);
    let expected = "zip64, the form for archives above 4 GiB, is not supported";
    check(&locator, Format::Npz, &format!("error: byte {}: {expected}", end + 20));
}

/// Goal: what an entry declares bounds what it inflates to, and what it declares is bounded.
#[test]
fn archive_that_inflates_to_more_than_it_says_is_refused() {
    let bomb = Entry::deflated("x.npy", &vec![0; 8 << 20]);
    assert!(bomb.packed.len() < 10_000);
    let refused = |entries: &[Entry], expected: &str| {
        check(&zip(entries), Format::Npz, &format!("error: byte {expected}"));
    };
    let length = |bytes| format!("0: an entry that does not have the {bytes} bytes it declares");
    for bytes in [0, 1, 128, (8 << 20) - 1, (8 << 20) + 1, 1 << 30] {
        refused(&[Entry { bytes, ..bomb.clone() }], &length(bytes));
    }
    let too_much = Entry { bytes: (1 << 30) + 1, ..Entry::deflated("x.npy", &[]) };
    refused(&[too_much], "53: more than 1073741824 bytes");
    let sound = Entry::stored("x.npy", &npy_of("|i1", "(1,)", &[1]));
    let rest = Entry { name: "y.npy", bytes: 1 << 30, ..bomb.clone() };
    let error = parse(&zip(&[sound, rest]), Format::Npz).expect_err("too much together");
    assert_eq!(error.fault, Fault::TooMany(Limit::Bytes));
    let few = Entry { bytes: 10_000, ..Entry::deflated("x.npy", &[]) };
    refused(&[few], &length(10_000));
    let mut trailing = Entry::deflated("x.npy", &npy_of("|i1", "(1,)", &[1]));
    trailing.packed.push(0);
    let expected = length(trailing.bytes);
    refused(&[trailing], &expected);
}

#[test]
fn json_is_read_in_all_its_forms() {
    check_json(" [[1, 2], [3, 4]]\r\n", "[2, 2] [1, 2, 3, 4]");
    check_json("[[1, 2], [3, 4e0]]", "[2, 2] [1.0, 2.0, 3.0, 4.0]");
    check_json("[true, false, -3]", "[3] [1, 0, -3]");
    check_json("-0.5", "[] [-0.5]");
    check_json("[]", "[0] []");
    check_json("[[[]], [[]]]", "[2, 1, 0] []");
    check_json("[0.14195354282855988, 1e-46, 1E+2]", "[3] [0.14195354, 0.0, 100.0]");
    check_json(r#"{"a": [1], "\u0062\"": 2.5}"#, "a [1] [1]\nb\" [] [2.5]");
    check_json(r#"{"input_data": [[1, 2.5]]}"#, "[2] [1.0, 2.5]");
    check_json(
        r#"{"input_data": [[1, 2], [3.5], [[4], [5]]]}"#,
        "[2] [1, 2]\n[1] [3.5]\n[2, 1] [4, 5]",
    );
    check_json(r#"{"output_data": [1.5, 2.5]}"#, "[2] [1.5, 2.5]");
    check_json(r#"{"output_data": []}"#, "[0] []");
    let expected = "input_data [2, 1] [1, 2]\nmask [] [0]";
    check_json(r#"{"input_data": [[1], [2]], "mask": false}"#, expected);
}

#[test]
fn json_that_is_no_array_is_refused_at_its_place() {
    let refused = |text: &str, expected: &str| check_json(text, &format!("error: {expected}"));
    let lists = "as in the lists before it";
    refused("[[1, 2],\n [3]]", &format!("line 2, column 2: a list of 1, expected 2 {lists}"));
    refused("[[], [1]]", &format!("line 1, column 6: a list of 1, expected 0 {lists}"));
    refused("[[[1]], []]", &format!("line 1, column 9: a list of 0, expected 1 {lists}"));
    refused("[1, [2]]", &format!("line 1, column 5: expected a number, {lists}"));
    refused("[[], [[]]]", &format!("line 1, column 7: expected a number, {lists}"));
    refused("[[1], 2]", &format!("line 1, column 7: expected a list, {lists}"));
    let ragged = format!("line 1, column 22: a list of 2, expected 1 {lists}");
    refused(r#"{"input_data": [[1], [2, 3]], "x": 1}"#, &ragged);
    let finite = "expected a finite number: JSON has no NaN and no infinity";
    refused("[NaN]", &format!("line 1, column 2: {finite}"));
    refused("[1.0,\n-Infinity]", &format!("line 2, column 1: {finite}"));
    refused("[1e39]", "line 1, column 2: expected a number within the range of f32");
    refused("[9223372036854775808]", "line 1, column 2: expected a whole number of 64 bits");
    for (text, column) in [("[null]", 2), ("[\"1\"]", 2), ("[-]", 3), ("[+1]", 2), ("[.5]", 2)] {
        refused(text, &format!("line 1, column {column}: expected a number or a list"));
    }
    refused("[{}]", "line 1, column 2: expected a number or a list");
    refused("[1.]", "line 1, column 4: expected a digit");
    refused("[01]", "line 1, column 3: expected no digit after a leading zero");
    refused("[1, ]", "line 1, column 5: expected a number or a list");
    refused("[1 2]", "line 1, column 4: expected a comma or a closing bracket");
    refused("[1] [2]", "line 1, column 5: expected nothing after the arrays");
    refused("", "line 1, column 1: the end, expected a number or a list");
    refused("{}", "line 1, column 2: expected a name in double quotes");
    refused(r#"{"a": 1, "a": 2}"#, "line 1, column 10: the name \"a\" for the second time");
    let name = "expected 1 to 255 bytes without control characters";
    refused(r#"{"\n": 1}"#, &format!("line 1, column 2: the name \"\\n\", {name}"));
    refused(&"[".repeat(100_000), "line 1, column 33: more than 32 sides");
    let many: Vec<String> = (0..=ARRAYS_MAX).map(|index| format!("\"{index}\": 1")).collect();
    refused(&format!("{{{}}}", many.join(",\n")), "line 1025, column 1: more than 1024 arrays");
    let many = format!("{{\"input_data\": [{}[1]]}}", "[1],\n".repeat(ARRAYS_MAX));
    refused(&many, "line 1025, column 1: more than 1024 arrays");
}

#[test]
fn arrays_that_do_not_fit_a_format_are_refused() {
    let refused = |arrays: &[(String, Array)], format: Format, expected: RenderError| {
        assert_eq!(render(arrays, format), Err(expected));
    };
    let one = named("x", floats(&[2], &[1.0, f32::NAN]));
    let two = [one.clone(), named("y", whole(&[0, 3], &[]))];
    let count = |format, found| RenderError::Count { format, found };
    refused(&two, Format::Npy, count(Format::Npy, 2));
    for format in [Format::Npy, Format::Npz, Format::Json] {
        refused(&[], format, count(format, 0));
        refused(&[named("", one.1.clone())], format, RenderError::Name(String::new()));
        refused(&[one.clone(), one.clone()], format, RenderError::Repeated("x".into()));
        let deep = named("x", whole(&[1; 33], &[1]));
        refused(&[deep], format, RenderError::TooMany(Limit::Sides));
        let many = vec![one.clone(); ARRAYS_MAX + 1];
        refused(&many, format, RenderError::TooMany(Limit::Arrays));
    }
    refused(&two[..1], Format::Json, RenderError::NotFinite { name: "x".into(), index: 1 });
    refused(&two[1..], Format::Json, RenderError::Shape { name: "y".into(), shape: vec![0, 3] });
    let shape = RenderError::Shape { name: "input_data".into(), shape: Vec::new() };
    refused(&[named("input_data", whole(&[], &[1]))], Format::Json, shape);
    assert!(render(&two, Format::Npz).is_ok());
}

#[test]
fn json_is_written_so_that_kinds_and_order_survive() {
    let x = named("x", floats(&[2, 2], &[1.0, -0.0, 1e-7, 16_777_216.0]));
    let text = render(&[x.clone(), named("y", whole(&[], &[3]))], Format::Json).expect("renders");
    let expected = "{\"x\": [[1.0, -0.0], [1e-7, 16777216.0]],\n \"y\": 3}\n";
    assert_eq!(String::from_utf8(text).expect("text"), expected);
    let text = render(&[named("input_data", x.1.clone())], Format::Json).expect("renders");
    assert_eq!(parse(&text, Format::Json).expect("parses"), [(None, x.1)]);
}

#[test]
fn npy_is_written_as_numpy_does() {
    let file = render(&[named("x", whole(&[1], &[258]))], Format::Npy).expect("renders");
    let header = "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }";
    assert_eq!(file[..10], *b"\x93NUMPY\x01\x00\x76\x00");
    assert_eq!(file[10..128], *format!("{header:117}\n").as_bytes());
    assert_eq!(file[128..], [2, 1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn file_is_known_by_its_ending_then_by_its_first_bytes() {
    let folder = TemporaryFolder::new().expect("a folder");
    let array = floats(&[1, 2], &[1.0, 2.0]);
    let arrays = [named("x", array.clone())];
    for (ending, name) in [("npy", None), ("NPZ", Some("x")), ("json", Some("x"))] {
        let path = folder.path().join(format!("x.{ending}"));
        write(&path, &arrays).expect("writes");
        let expected = [(name.map(str::to_owned), array.clone())];
        assert_eq!(read(&path).expect("reads"), expected);
        let bare = folder.path().join("bare");
        std::fs::rename(&path, &bare).expect("renames");
        assert_eq!(read(&bare).expect("reads"), expected);
    }
    let path = folder.path().join("x.txt");
    assert!(matches!(write(&path, &arrays), Err(ArrayFileError::Unknown { .. })));
    files::write(&path, b"x", Readers::All).expect("writes");
    assert!(matches!(read(&path), Err(ArrayFileError::Unknown { .. })));
    let path = folder.path().join("x.npy");
    files::write(&path, b"[1]", Readers::All).expect("writes");
    let error = read(&path).expect_err("JSON is not npy");
    assert!(error.to_string().ends_with("x.npy cannot be read as npy"), "{error}");
    assert!(error.hint().contains("numpy.save"));
    let absent = read(&folder.path().join("absent.npy"));
    assert!(matches!(absent, Err(ArrayFileError::File(error)) if error.is_absent()));
}
