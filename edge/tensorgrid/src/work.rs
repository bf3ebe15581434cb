//! Jobs and nodes, apart from how they are typed and shown: what a job costs, handing it in,
//! waiting for it, taking the result; a node of this machine; the doors of a network of its own.

pub(crate) mod account;
pub(crate) mod connect;
pub(crate) mod handing;
pub(crate) mod local;
pub(crate) mod machine;
pub(crate) mod market;
pub(crate) mod order;
pub(crate) mod provider;
pub(crate) mod splitter;
pub(crate) mod story;
pub(crate) mod times;
