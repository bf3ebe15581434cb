//! Landlock: rules for files, network and signals that a process gives itself and cannot take
//! back. Behind a mount namespace it is the second wall; without one it is the first.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use crate::spec::{Landlocked, Paths};
use crate::view::DEVICES;

/// What is asked for: files, TCP, signals and abstract sockets. Kernels that know less enforce the
/// part they know, and that is reported.
const ASKED: ABI = ABI::V6;

/// Restricts this process and all it starts.
pub(super) fn restrict(paths: &Paths, internet: bool) -> io::Result<Landlocked> {
    match rules(paths, internet) {
        Ok(RulesetStatus::FullyEnforced) => Ok(Landlocked::Fully),
        Ok(RulesetStatus::PartiallyEnforced) => Ok(Landlocked::Partly),
        Ok(RulesetStatus::NotEnforced) => Ok(Landlocked::Not),
        Err(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

fn rules(paths: &Paths, internet: bool) -> Result<RulesetStatus, RulesetError> {
    let everything = AccessFs::from_all(ASKED);
    let mut rules = Ruleset::default().handle_access(everything)?.scope(Scope::from_all(ASKED))?;
    if !internet {
        rules = rules.handle_access(AccessNet::from_all(ASKED))?;
    }
    let mut rules = rules.create()?;
    let read = AccessFs::from_read(ASKED);
    // Device nodes need a capability that nobody here has; they are left out all the same.
    let write = everything & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
    for path in &paths.read {
        rules = allow(rules, path, read)?;
    }
    for path in &paths.write {
        rules = allow(rules, path, write)?;
    }
    for path in DEVICES {
        rules = allow(rules, Path::new(path), device)?;
    }
    for path in &paths.devices {
        rules = allow(rules, path, device | AccessFs::IoctlDev)?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// Allows something on a path; what does not exist needs no rule.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(file) = PathFd::new(path) else { return Ok(rules) };
    let is_folder = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let access = if is_folder { access } else { access & AccessFs::from_file(ASKED) };
    rules.add_rule(PathBeneath::new(file, access))
}
