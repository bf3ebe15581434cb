//! Runs a stranger's program on a provider's machine so that it can do no harm, and says what was
//! really enforced.
//!
//! A room of its own because everything here is about one enemy, the program that is run, and one
//! ally, the operating system. What a task is for, what it costs and whether its result is right
//! are other rooms' questions.
//!
//! Sandboxes are built by the best means a machine has ([`Level`]), found out by trying. Whatever
//! builds them, the first process inside is a copy of the calling program: it gives up what is left
//! of its privileges, restricts itself by Landlock and seccomp and only then starts the stranger's
//! program. So every program that uses this room calls [`init_if_asked`] first of all.
//!
//! Invariants:
//! - No network, a read-only root, one bounded work folder, an empty environment and no input,
//!   unless the task states otherwise and the provider allows it.
//! - A weaker level is never chosen silently: [`Outcome::enforced`] names the level and, for every
//!   guard, what enforced it; the level without namespaces must be allowed expressly.
//! - When a run has returned, none of its processes are left; when its [`Outputs`] are dropped,
//!   none of its files.
//! - The stranger's files are never followed, trusted or recursed into by this program.
//!
//! ```no_run
//! use std::path::Path;
//! use tg_sandbox::{Bytes, Event, Input, Limits, Sandbox, Settings, Stop, Task};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     tg_sandbox::init_if_asked(); // before anything else in `main`
//!     let sandbox = Sandbox::new(Settings::new(Path::new("/var/lib/tensorgrid/sandbox")))?;
//!     let task = Task {
//!         inputs: vec![Input::bytes("text", "some words")?, Input::path("data", "/srv/data")?],
//!         limits: Limits { memory: Bytes::mib(512), pids: 64, ..Limits::default() },
//!         ..Task::new(&["/bin/sh", "-c", "wc -w < /in/text | tee /out/count; ls /in/data"])
//!     };
//!     let stop = Stop::new()?; // a clone of it ends the run from any thread: `stop.stop()`
//!     let outcome = sandbox.run(&task, &stop, &mut |event| match event {
//!         Event::Prepared { folder } => println!("saved from {folder:?}"),
//!         Event::Started { enforced } => println!("at level {}", enforced.level),
//!         Event::Said { stream, bytes } => println!("{stream:?}: {}", bytes.len()),
//!     })?;
//!     println!("{}, {:?}", outcome.ended, outcome.usage);
//!     println!("{}", outcome.enforced.lines().join("\n"));
//!     let outputs = outcome.outputs?; // wiped when dropped
//!     for file in outputs.files() {
//!         let text = std::io::read_to_string(outputs.open(&file.path)?)?;
//!         println!("{}: {text}", file.path.display());
//!     }
//!     Ok(())
//! }
//! ```

mod abilities;
mod cgroup;
mod control;
mod error;
mod files;
mod helper;
mod init;
mod kept;
mod level;
mod limits;
pub mod oci;
mod outcome;
mod outputs;
mod processes;
mod run_folder;
mod sandbox;
mod settings;
mod spec;
mod sys;
mod task;
mod view;
mod watch;

pub use abilities::{Abilities, Ability, Unfit};
pub use control::ControlError;
pub use error::{RunError, SandboxError};
pub use files::FileError;
pub use helper::HelperError;
pub use init::init_if_asked;
pub use kept::KeptFolder;
pub use level::PathError;
pub use limits::{Bytes, LimitError, Limits};
pub use outcome::{By, Clock, Ended, Enforced, Guard, Level, Outcome, Usage};
pub use outputs::{OutputFile, Outputs};
pub use sandbox::{Sandbox, Stop};
pub use settings::Settings;
pub use spec::{JobUser, Stage};
pub use task::{
    CHECKPOINT_VARIABLE, CheckpointPath, INPUT_FOLDER, Input, InputName, Network, OUTPUT_FOLDER,
    Root, Source, Task, TaskError, WORK_FOLDER, Work,
};
pub use watch::{Event, Stream};
