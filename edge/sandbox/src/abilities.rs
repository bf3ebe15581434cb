//! What can be enforced on this machine: each level tried by a real run of a program that does
//! nothing, each limit by a real control group. Separate from running, because people ask for it
//! («doctor») and because a provider publishes it before it takes work.

use crate::cgroup::Controller;
use crate::error::RunError;
use crate::outcome::{By, Enforced, Guard, Level};

/// Why a level cannot be used here.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// The settings leave it out.
    #[error("not among the levels of the settings")]
    NotChosen,
    /// The settings must allow it expressly.
    #[error("tasks may not run without namespaces (the setting allow_rlimits)")]
    NotAllowed,
    /// A program is missing.
    #[error("{tool} is not installed")]
    NotInstalled {
        /// Which one.
        tool: &'static str,
    },
    /// It works for root only.
    #[error("it works for root only")]
    NeedsRoot,
    /// The trial failed.
    #[error("the trial failed")]
    Failed(#[from] RunError),
    /// The trial ended, but not as it should.
    #[error("the trial ended otherwise: {0}")]
    Otherwise(crate::outcome::Ended),
}

impl Unfit {
    /// What somebody can do about it.
    fn hint(&self, level: Level) -> Option<String> {
        let install = |package: &str| format!("install {package}, such as: apt install {package}");
        match self {
            Self::NotChosen => None,
            Self::NotAllowed => Some("better: install bubblewrap".to_owned()),
            Self::NotInstalled { tool: "bwrap" } => Some(install("bubblewrap")),
            Self::NotInstalled { tool } => Some(install(tool)),
            Self::NeedsRoot => Some("run the node as root, or use bubblewrap".to_owned()),
            Self::Failed(error) => Some(failure_hint(level, error)),
            Self::Otherwise(_) => Some("look for limits that end programs at once".to_owned()),
        }
    }
}

fn failure_hint(level: Level, error: &RunError) -> String {
    let why = chain(error);
    let how = match level {
        Level::Bubblewrap | Level::Namespaces => {
            "user namespaces may be forbidden: see sysctl user.max_user_namespaces, \
             kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns"
        }
        Level::Runc | Level::Podman => "run the program by hand to see more",
        Level::Rlimits => "the data folder must be where other users can pass, such as /var/lib",
    };
    format!("{why}; {how}")
}

/// An error with everything below it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}

/// One line of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ability {
    /// What it is about.
    pub what: String,
    /// Whether it can be had here.
    pub is_present: bool,
    /// Why not, and what to do about it.
    pub hint: Option<String>,
}

/// What can be enforced on this machine.
#[derive(Debug)]
pub struct Abilities {
    /// Whether this program is root, so that tasks can be another user.
    pub is_root: bool,
    /// Each level with what would hold a task there, or why it cannot be used.
    pub levels: Vec<(Level, Result<Enforced, Unfit>)>,
    pub(crate) controllers: Vec<Controller>,
}

impl Abilities {
    /// Levels that can be used, best first.
    pub fn usable(&self) -> impl Iterator<Item = Level> {
        self.levels.iter().filter(|(_, fit)| fit.is_ok()).map(|(level, _)| *level)
    }

    /// What would hold a task at a level; nothing if it cannot be used.
    #[must_use]
    pub fn enforced(&self, level: Level) -> Option<&Enforced> {
        self.levels.iter().find(|(known, _)| *known == level)?.1.as_ref().ok()
    }

    /// Everything in words: levels, then limits, then walls inside.
    #[must_use]
    pub fn explain(&self) -> Vec<Ability> {
        let mut lines: Vec<Ability> = self.levels.iter().map(explain_level).collect();
        for controller in Controller::ALL {
            let is_present = self.controllers.contains(&controller);
            let otherwise = match controller {
                Controller::Memory => "limited for each process and watched in sum",
                Controller::Cpu => "not limited at all",
                Controller::CpuTime => "limited for each process and watched in sum",
                Controller::Pids => "limited for each user",
            };
            lines.push(Ability {
                what: format!("control group for {}", controller.name()),
                is_present,
                hint: (!is_present).then(|| {
                    format!("{otherwise}; run as root, or let systemd delegate (Delegate=yes)")
                }),
            });
        }
        let best = self.usable().next().and_then(|level| self.enforced(level));
        let has = |guard, by| best.is_some_and(|best| best.by(guard).contains(&by));
        let wall = |what: &str, is_present: bool, hint: &str| Ability {
            what: what.to_owned(),
            is_present,
            hint: (!is_present).then(|| hint.to_owned()),
        };
        lines.push(wall(
            "Landlock for files",
            has(Guard::Files, By::Landlock),
            "needs Linux 5.13 and landlock among the lsm= of the kernel command line",
        ));
        lines.push(wall(
            "Landlock for network and signals",
            has(Guard::Processes, By::Landlock),
            "needs Linux 6.12",
        ));
        lines.push(wall(
            "seccomp",
            has(Guard::SystemCalls, By::Seccomp),
            "needs a kernel with CONFIG_SECCOMP_FILTER on x86-64 or aarch64",
        ));
        lines.push(wall("tasks as another user", self.is_root, "run the node as root"));
        lines
    }
}

fn explain_level((level, fit): &(Level, Result<Enforced, Unfit>)) -> Ability {
    let what = format!("level {level}");
    match fit {
        Ok(_) => Ability { what, is_present: true, hint: None },
        Err(unfit) => {
            let hint = match unfit.hint(*level) {
                Some(hint) => format!("{unfit}; {hint}"),
                None => unfit.to_string(),
            };
            Ability { what, is_present: false, hint: Some(hint) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Abilities, Unfit};
    use crate::cgroup::Controller;
    use crate::outcome::{By, Enforced, Guard, Level};

    #[test]
    fn what_is_missing_is_explained_with_a_hint() {
        let mut enforced = Enforced::new(Level::Namespaces);
        enforced.add(Guard::Files, By::Landlock);
        let abilities = Abilities {
            is_root: false,
            levels: vec![
                (Level::Bubblewrap, Err(Unfit::NotInstalled { tool: "bwrap" })),
                (Level::Namespaces, Ok(enforced)),
                (Level::Rlimits, Err(Unfit::NotAllowed)),
            ],
            controllers: vec![Controller::Memory],
        };
        assert_eq!(abilities.usable().collect::<Vec<_>>(), [Level::Namespaces]);
        let lines = abilities.explain();
        assert!(lines.iter().all(|line| line.is_present == line.hint.is_none()));
        let of = |what: &str| lines.iter().find(|line| line.what == what).expect("a line");
        let hint = of("level bubblewrap").hint.as_deref().expect("a hint");
        assert!(hint.contains("apt install bubblewrap"), "{hint}");
        assert!(of("control group for memory").is_present);
        assert!(!of("control group for cpu share").is_present);
        assert!(of("Landlock for files").is_present);
        assert!(!of("Landlock for network and signals").is_present);
    }
}
