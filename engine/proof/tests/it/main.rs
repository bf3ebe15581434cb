//! Tests of the public face of `tg-proof`: what a stranger could hand to a verifier.

mod bounds;
#[path = "../../../../core/types/tests/it/counting.rs"]
mod counting;
mod planning;
mod strangers;
