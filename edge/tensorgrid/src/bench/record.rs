//! Files with what others have recorded, as several benchmarks replay them.

use crate::{
    failure::{Failure, OrFail as _},
    files,
};
use flate2::read::MultiGzDecoder;
use std::{io::Read as _, path::Path};

/// The largest file that is read, and the longest text that one is unpacked to.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The beginning of a compressed file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A text, unpacked if it is compressed; the hint says what the file should hold.
pub(super) fn read(path: &Path, hint: &str) -> Result<String, Failure> {
    let what = || format!("cannot read {}", path.display());
    let bytes = files::read(path, FILE_BYTES_MAX).or_fail(what(), "is the path right?")?;
    if !bytes.starts_with(&GZIP) {
        return String::from_utf8(bytes).or_fail(what(), hint);
    }
    let mut text = String::new();
    let mut unpacked = MultiGzDecoder::new(bytes.as_slice()).take(FILE_BYTES_MAX);
    unpacked.read_to_string(&mut text).or_fail(what(), hint)?;
    Ok(text)
}

/// A trace's name is that of its file.
pub(super) fn trace_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(".gz").trim_end_matches(".csv");
    name.rsplit_once("pod_list_").map_or(name, |(_, trace)| trace).to_owned()
}
