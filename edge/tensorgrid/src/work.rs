//! A client's side of jobs: what they cost, handing them in, waiting for them, taking the result;
//! and the network of peers that this machine runs for itself.

pub(crate) mod connect;
pub(crate) mod local;
pub(crate) mod order;
pub(crate) mod story;
