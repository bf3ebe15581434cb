//! A real node behind a real server, used as people and programs use it.
#![expect(clippy::panic, reason = "helpers of a test fail it by panicking")]

mod bad_input;
mod documents;
mod pages;
mod reading;
mod streaming;
mod submitting;
mod world;

use world::World;

/// A name, and what is checked under it.
type Check = (&'static str, fn(&World));

/// Goal: everything the interface promises holds on a running network. Method: one validator in
/// this process, since starting one takes longer than asking it; the checks share it and are named
/// one by one.
#[test]
fn node_answers_as_promised() {
    let mut world = World::start();
    let checks: [Check; 26] = [
        ("every read method answers", reading::read_methods_answer),
        ("pages answer", reading::pages_answer),
        ("metrics show what happens", reading::metrics_count_calls),
        ("transfer is final and shown", submitting::transfer_is_final_and_shown),
        ("transactions sent again", submitting::transaction_sent_again_gives_its_receipt),
        ("refused transactions say why", submitting::refused_transactions_say_why),
        ("transaction that cannot be final", submitting::waiting_ends_with_its_time),
        ("many clients at once", submitting::many_clients_at_once_are_served),
        ("faucet pays", submitting::faucet_pays_within_its_limits),
        ("receipt document", documents::receipt_document_is_verified_offline),
        ("proof document", documents::proof_documents_are_verified_offline),
        ("certificate document", documents::certificate_document_is_verified_offline),
        ("other network", documents::documents_of_another_network_are_refused),
        ("flipped bytes", documents::files_with_a_flipped_byte_are_refused),
        ("unknown things", documents::unknown_things_are_named),
        ("job on pages", pages::job_is_told_from_queue_to_payment),
        ("pages of lists", pages::lists_are_read_page_by_page),
        ("twins as JSON", pages::pages_have_their_twins_as_json),
        ("pages that cannot be", pages::pages_that_cannot_be_say_why),
        ("wrong JSON", bad_input::wrong_json_gets_a_clear_error),
        ("wrong parameters", bad_input::wrong_parameters_get_a_clear_error),
        ("wrong HTTP", bad_input::wrong_http_gets_a_clear_error),
        ("batches", bad_input::batches_are_answered_call_by_call),
        ("stream from the beginning", streaming::stream_from_the_beginning_goes_on_live),
        ("too many listeners", streaming::listeners_beyond_the_bound_are_told_to_come_back),
        ("streams that cannot be", streaming::streams_that_cannot_be_are_refused),
    ];
    for (name, check) in checks {
        eprintln!("check: {name}");
        check(&world);
    }
    if is_update() {
        documents::write_fixtures(&world);
    }
    eprintln!("check: stopping");
    submitting::stopping_ends_what_waits(&mut world);
}

/// Whether the fixtures under `tests/fixtures` are written anew: an explicit decision, made in the
/// same way as for the snapshots of other rooms.
#[expect(clippy::disallowed_methods, reason = "the variable belongs to the snapshot tests")]
fn is_update() -> bool {
    std::env::var_os("UPDATE_EXPECT").is_some()
}
