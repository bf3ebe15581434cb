//! The network on loopback: own relay, real sockets, no outside address.

mod blobs;
mod calls;
mod frames;
mod hostile;
mod natlab;
mod relays;
mod support;
mod tickets;
