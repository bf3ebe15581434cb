//! The wish to stop: `^C` or SIGTERM. The first asks politely, the second ends the process at once.

use std::{
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};

/// What shells expect of a process ended by `^C`.
const EXIT_INTERRUPTED: i32 = 130;

/// Hears the wish to stop from the moment it is made.
pub(crate) struct StopSignal(Receiver<()>);

impl StopSignal {
    /// Starts to listen.
    ///
    /// # Errors
    /// If the operating system refuses a handler or a thread.
    pub(crate) fn listen() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let inside = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        drop(inside);
        let (sender, receiver) = sync_channel(1);
        // The thread ends with the process: a second signal may come until then.
        let _listening = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                for is_first in [true, false] {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    if is_first {
                        let _nobody_waits = sender.send(());
                    }
                }
            });
            std::process::exit(EXIT_INTERRUPTED);
        })?;
        Ok(Self(receiver))
    }

    /// Waits for the wish to stop, at most `span`; says whether it came.
    #[must_use]
    pub(crate) fn came_within(&self, span: Duration) -> bool {
        match self.0.recv_timeout(span) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
            Err(RecvTimeoutError::Timeout) => false,
        }
    }
}
