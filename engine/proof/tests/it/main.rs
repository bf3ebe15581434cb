//! Tests of the public face of `tg-proof`: what a stranger could hand to a verifier.

mod counting;
mod planning;
mod strangers;
