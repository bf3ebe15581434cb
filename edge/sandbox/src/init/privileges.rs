//! Capabilities and users: kept while the sandbox is built, given up before the stranger's program
//! starts.

use std::io;

use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::spec::JobUser;

/// Capabilities are bits of 64; the kernel knows fewer and says so.
const CAPABILITY_BITS: u32 = 64;

/// Keeps capabilities over the start of the next program by a user other than 0.
pub(super) fn keep(capabilities: &[CapabilitySet]) -> io::Result<()> {
    let mut sets = rustix::thread::capabilities(None)?;
    for &capability in capabilities {
        sets.inheritable |= capability;
    }
    rustix::thread::set_capabilities(None, sets)?;
    for &capability in capabilities {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Becomes `user`, if one is given, without any capability and without a way to get one again.
pub(super) fn give_up(user: Option<JobUser>) -> io::Result<()> {
    drop_bounding_set()?;
    rustix::thread::clear_ambient_capability_set()?;
    if let Some(JobUser { uid, gid }) = user {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::set_no_new_privs(true)?;
    // The stranger's program is the same user; this keeps it from looking into this process.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Empties the bounding set. Without the right to do so there is nothing to gain from it either:
/// no program started from here on gains privileges.
fn drop_bounding_set() -> io::Result<()> {
    for bit in 0..CAPABILITY_BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
