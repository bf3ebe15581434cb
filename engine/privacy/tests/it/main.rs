//! Tests of the public face of `tg-privacy`: what an owner, a provider, a validator or a stranger
//! could hand in.

mod common;
mod content;
mod golden;
mod shares;
mod story;
mod wrap;
