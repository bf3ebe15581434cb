//! The two system calls for which no safe wrapper exists. Both are used only in a copy of the
//! program that has one thread and has just started.

use std::io;

use rustix::thread::UnshareFlags;

/// The first file that is neither of the three standard streams.
const FIRST_FILE: libc::c_uint = 3;

/// Closes whatever the starting program left open, so that none of it reaches a stranger.
///
/// To be called first of all, while nothing in this process owns a file yet.
#[expect(unsafe_code, reason = "no safe wrapper exists for close_range")]
pub(crate) fn close_inherited_files() -> io::Result<()> {
    // SAFETY: nothing in this process has opened or adopted a file yet, so no owner of a file can
    // find it closed or replaced.
    let code = unsafe { libc::close_range(FIRST_FILE, libc::c_uint::MAX, 0) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves this process into new namespaces.
#[expect(unsafe_code, reason = "the wrapper is unsafe for the sake of a flag not used here")]
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    let flags = flags.difference(UnshareFlags::FILES);
    // SAFETY: files stay shared, which is the only thing that could pull them from under another
    // thread; and there is no other thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Into::into)
}
