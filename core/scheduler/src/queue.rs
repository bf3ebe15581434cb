//! Who runs when: order, deadlines, gangs, fair shares.
//!
//! The queue is a state machine: [`Event`]s in, [`Decision`]s out, everything undone to a [`Mark`]
//! at the cost of what has changed. It knows pools of machines and how many devices of which
//! machine a job holds; which machines suit a job at all is decided before.
//!
//! Order: small jobs first, where small is the expected device-time that is left over what is paid
//! for it, and waiting and what the owner has already had count against it. Order alone would make
//! large jobs late, so every deadline is entered into a timetable as late as it can be. When that
//! time comes the job runs, whatever the order says; until then the room is for whoever is next.
//!
//! A *promise* is entered on certain machines with the declared limit, and nothing that cannot be
//! interrupted is started there in its time. So it is kept unless a machine fails, and whoever has
//! one may run earlier wherever there is room. An *aim* is entered with what is expected, for the
//! whole pool, and may fail.

mod board;
mod event;
mod kept;
mod learn;
mod order;
mod promises;
mod round;
mod state;
mod timetable;

pub use board::{Board, Holder, Opening, Part, Pool};
pub use event::{
    Ask, Deadline, Decision, Event, JobNumber, NodeNumber, OwnerNumber, PoolNumber, PoolSet,
    RefusalReason, Settings, Stop,
};
pub use state::{Mark, Queue, QueueError};

#[cfg(test)]
mod tests;
