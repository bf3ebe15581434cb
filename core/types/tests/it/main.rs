//! Tests of the public face of `tg-types`: what a peer, a file or a person could hand in.

mod allocation;
mod arb;
mod canonical;
mod check;
mod counting;
mod genesis;
mod golden;
mod merkle;
mod refused;
