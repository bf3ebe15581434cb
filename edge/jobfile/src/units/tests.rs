//! What is read as a number with a unit, what is not, and that writing is the inverse of reading.

use super::{Cpus, Deadline, Form, GpuShare, Priority, Size, Span};
use std::fmt::{Debug, Display};
use tg_types::{DurationMs, Tick};

#[track_caller]
fn check<T: Form + Display>(text: &str, expected: &str) {
    let read = T::read(text).map(|value| value.to_string());
    assert_eq!(read.as_deref(), Some(expected), "{text}");
}

#[track_caller]
fn refused<T: Form + Debug + PartialEq>(texts: &[&str]) {
    for text in texts {
        assert_eq!(T::read(text), None, "{text:?}");
    }
}

#[test]
fn sizes_are_read_exactly() {
    assert_eq!(Size::read("2GB+").map(Size::bytes), Some(2_000_000_000));
    assert_eq!(Size::read("2GiB").map(Size::bytes), Some(2 << 30));
    check::<Size>("2GB+", "2GB");
    check::<Size>("16 GB", "16GB");
    check::<Size>("1.5GB", "1500MB");
    check::<Size>("0.5GiB", "512MiB");
    check::<Size>("1KB", "1kB");
    check::<Size>("1024GiB", "1TiB");
    check::<Size>("1025B", "1025B");
    check::<Size>("1024TiB", "1024TiB");
    assert_eq!(Size::read("1B").map(Size::mib_ceil), Some(1));
    assert_eq!(Size::read("24GB").map(Size::mib_ceil), Some(22_889));
    assert_eq!(Size::MAX.mib_ceil(), 1 << 30);
}

#[test]
fn sizes_of_another_form_are_refused() {
    refused::<Size>(&["", "GB", "16", "16gb", "16G", "-1GB", "0GB", "1..5GB", ".5GB", "1.GB"]);
    refused::<Size>(&[
        "1GB++",
        "1.0000000001GB",
        "0.3B",
        "1025TiB",
        "99999999999999999999GB",
        "1e3GB",
    ]);
}

#[test]
fn processors_are_read_in_thousandths() {
    check::<GpuShare>("0.25", "0.25");
    check::<GpuShare>("0.50", "0.5");
    check::<GpuShare>("0.05", "0.05");
    refused::<GpuShare>(&["", "0", "1", "0.3333", "0.01", "1.5", "25%", "1/4", "-0.5"]);
    check::<Cpus>("4", "4");
    check::<Cpus>("8+", "8");
    check::<Cpus>("0.5", "0.5");
    check::<Cpus>("1.250", "1.25");
    refused::<Cpus>(&["", "0", "0.0", "-1", "0.0001", "half", "65537", "4 cores", "+"]);
}

#[test]
fn spans_are_read_in_falling_units() {
    check::<Span>("10m", "10m");
    check::<Span>("90s", "1m30s");
    check::<Span>("1h30m", "1h30m");
    check::<Span>("48h", "2d");
    check::<Span>("1d500ms", "1d500ms");
    refused::<Span>(&["", "0s", "10", "m", "10 m", "1m1h", "1m1m", "1w", "-1s", "1.5h", "3651d"]);
    refused::<Span>(&["99999999999999999999s", "999999999999999999d"]);
}

#[test]
fn deadlines_are_read_as_rfc_3339() {
    check::<Deadline>("2026-12-01T08:00Z", "2026-12-01T08:00:00Z");
    check::<Deadline>("2026-12-01T09:00+01:00", "2026-12-01T08:00:00Z");
    check::<Deadline>("2026-12-01t00:30:15.5-23:59", "2026-12-02T00:29:15.500Z");
    check::<Deadline>("2028-02-29T23:59:59.001Z", "2028-02-29T23:59:59.001Z");
    check::<Deadline>("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z");
    refused::<Deadline>(&["", "2026-12-01", "2026-12-01T08:00", "2026-12-01 08:00Z", "tomorrow"]);
    refused::<Deadline>(&["2026-13-01T08:00Z", "2026-02-29T08:00Z", "2026-12-01T24:00Z"]);
    refused::<Deadline>(&["2026-12-01T08:00:60Z", "2026-12-01T8:00Z", "26-12-01T08:00Z"]);
    refused::<Deadline>(&[
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00+00:01",
        "2026-12-01T08:00+24:00",
    ]);
    refused::<Deadline>(&[
        "2026-12-01T08:00.5Z",
        "2026-12-01T08:00:00.Z",
        "2026-12-01T08:00:00.0001Z",
    ]);
    refused::<Deadline>(&["9999-12-31T23:59:59-00:01", "2026-+1-01T08:00Z"]);
}

#[test]
fn priorities_have_bounds() {
    check::<Priority>("0", "0");
    check::<Priority>("3", "3");
    refused::<Priority>(&["", "-", "+1", "--1", "4", "-1", "high", "1.0", "256", "99999999"]);
}

#[test]
fn prop_what_is_written_reads_back() {
    arbtest::arbtest(|u| {
        let size = Size::new(u.int_in_range(1..=Size::MAX.bytes())?).expect("in range");
        assert_eq!(Size::read(&size.to_string()), Some(size));
        let round = Size::new(u.int_in_range(1..=1_000)? * 1_000_000_000).expect("in range");
        assert_eq!(Size::read(&format!("{round}+")), Some(round));
        let cpus = u.int_in_range(1..=Cpus::MAX.thousandths())?;
        let cpus = Cpus::from_thousandths(cpus).expect("in range");
        assert_eq!(Cpus::read(&cpus.to_string()), Some(cpus));
        let span = u.int_in_range(1..=Span::MAX.get().get())?;
        let span = Span::new(DurationMs::new(span)).expect("in range");
        assert_eq!(Span::read(&span.to_string()), Some(span));
        let tick = Tick::new(u.int_in_range(0..=Deadline::MAX.get().get())?);
        let deadline = Deadline::new(tick).expect("in range");
        assert_eq!(Deadline::read(&deadline.to_string()), Some(deadline));
        Ok(())
    });
}

#[test]
fn prop_any_text_is_read_or_refused() {
    arbtest::arbtest(|u| {
        let text: String = u.arbitrary()?;
        let text = if u.arbitrary()? { format!("{}{text}", u.arbitrary::<u64>()?) } else { text };
        let _either = (Size::read(&text), Cpus::read(&text), Span::read(&text));
        let _either = (Deadline::read(&text), Priority::read(&text));
        Ok(())
    });
}
