//! Why a task could not be run. How a task that was run ended is no error but an outcome.

use std::io;

use crate::control::ControlError;
use crate::files::FileError;
use crate::helper::HelperError;
use crate::level::PathError;
use crate::limits::LimitError;
use crate::outcome::Level;
use crate::spec::Stage;
use crate::task::TaskError;

/// Why a task could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its limits cannot be enforced.
    #[error("the limits cannot be enforced")]
    Limits(#[from] LimitError),
    /// It cannot be run as described.
    #[error("the task cannot be run as it is described")]
    Task(#[from] TaskError),
    /// It asks for the network and the provider does not allow it.
    #[error("the task asks for the network, which this provider does not allow")]
    NetworkNotAllowed,
    /// No level that can be used here fits it.
    #[error("no sandbox on this machine can run {what}")]
    NoLevel {
        /// What kind of task.
        what: &'static str,
    },
    /// Its program could not be started inside.
    #[error("the program {program:?} cannot be started")]
    Program {
        /// The program.
        program: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A step of building the sandbox failed.
    #[error("{level}: {stage} failed")]
    Setup {
        /// At which level.
        level: Level,
        /// Which step.
        stage: Stage,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The program that builds the sandbox gave up.
    #[error("{level} gave up before the task started, saying {said:?}")]
    Tool {
        /// At which level.
        level: Level,
        /// The beginning of what it said.
        said: String,
    },
    /// The sandbox was not ready in time.
    #[error("{level} was not ready after {seconds} s")]
    TooSlow {
        /// At which level.
        level: Level,
        /// How long it was waited for.
        seconds: u64,
    },
    /// Its processes could not be put into the control group.
    #[error("the task cannot be put into its control group")]
    Group(#[source] io::Error),
    /// Files of the run could not be made.
    #[error("the run cannot be prepared")]
    Files(#[from] FileError),
    /// A path that cannot be passed on.
    #[error("a path cannot be passed on")]
    Path(#[from] PathError),
    /// A helper could not be started.
    #[error("a helper process failed")]
    Helper(#[source] io::Error),
    /// A helper could not be talked to.
    #[error("a helper process cannot be talked to")]
    Talk(#[from] ControlError),
}

/// Why no sandbox can be made on this machine at all.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Tasks would run as root.
    #[error("the user for tasks must not be root")]
    RootUser,
    /// This program cannot be started again.
    #[error("this program cannot be started inside a sandbox")]
    Helper(#[from] HelperError),
    /// The folder for runs cannot be used.
    #[error("the folder for runs cannot be used")]
    Files(#[from] FileError),
}
