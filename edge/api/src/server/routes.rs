//! HTTP: which address does what, and what is refused before a method is called.

use super::{
    Shared, errors,
    events::{self, Wish},
    limits::{BATCH_CALLS_MAX, BODY_BYTES_MAX, BODY_TIMEOUT, BODY_VALUES_MAX, STREAM_KEEP_ALIVE},
    methods, show,
};
use crate::rpc::{Request as Call, Response as Answer, RpcError, code};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{
        IntoResponse as _, Response,
        sse::{KeepAlive, Sse},
    },
    routing::{get, post},
};
use serde::Serialize;
use serde_json::Value;
use std::{sync::Arc, time::Instant};
use tg_ledger::{Cursor, PromiseCounts, keys};
use tokio::sync::OwnedSemaphorePermit;

/// Bytes that one permit of the bodies' semaphore stands for.
const PERMIT_BYTES: usize = 1 << 10;

type AppState = State<Arc<Shared>>;

/// All addresses.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    show::router()
        .route("/rpc", post(rpc))
        .route("/events", get(stream))
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .method_not_allowed_fallback(wrong_method)
        .fallback(not_found)
        .with_state(shared)
}

pub(super) fn json_response(status: StatusCode, answer: &impl Serialize) -> Response {
    let body = serde_json::to_vec(answer).expect("our answers are plain JSON");
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// An error outside of JSON-RPC, in the same words.
pub(super) fn plain_error(status: StatusCode, error: &RpcError) -> Response {
    json_response(status, error)
}

/// An error before the id of the request is known.
fn early_error(status: StatusCode, error: RpcError) -> Response {
    json_response(status, &Answer::new(Value::Null, Err(error)))
}

async fn not_found() -> Response {
    let hint = "addresses are /, /jobs, /nodes, /v1/jobs, /v1/nodes, /v1/receipts, /v1/doors, \
                /rpc, /events, /metrics and /health";
    plain_error(StatusCode::NOT_FOUND, &errors::unknown("this address", hint))
}

async fn wrong_method() -> Response {
    let error = errors::request("it came with the wrong HTTP method");
    plain_error(StatusCode::METHOD_NOT_ALLOWED, &error)
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
    height: u64,
}

async fn health(State(shared): AppState) -> Response {
    match shared.tip().await {
        Ok(height) => json_response(StatusCode::OK, &Health { status: "ok", height: height.get() }),
        Err(error) => plain_error(StatusCode::SERVICE_UNAVAILABLE, &error),
    }
}

async fn metrics(State(shared): AppState) -> Response {
    let Ok(_place) = shared.calls.try_acquire() else { return busy(&shared) };
    let mut text = shared.chain.metrics().to_text();
    text.push_str(&shared.counters.to_text(shared.listening()));
    match shared.entry::<Cursor>(keys::cursor()).await {
        Ok(cursor) => text.push_str(&promises_text(&cursor.unwrap_or_default().promises)),
        Err(error) => {
            tracing::warn!(error = %error.message, "the counts of promises are not there")
        }
    }
    match shared.chain.engine_metrics().await {
        Ok(engine) => {
            let lines = engine.lines().filter(|line| *line != "# EOF");
            text.extend(lines.flat_map(|line| [line, "\n"]));
        }
        Err(error) => tracing::warn!(%error, "the engine's numbers are not there"),
    }
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// How many jobs were promised, and what became of them.
fn promises_text(counts: &PromiseCounts) -> String {
    let PromiseCounts { given, kept, broken } = counts;
    let of = |word: &str, count: &u64| {
        let name = format!("tensorgrid_promises_{word}_total");
        format!("# TYPE {name} counter\n{name} {count}\n")
    };
    [of("given", given), of("kept", kept), of("broken", broken)].concat()
}

async fn stream(State(shared): AppState, request: Request) -> Response {
    let Ok(place) = Arc::clone(&shared.listeners).try_acquire_owned() else {
        return busy(&shared);
    };
    let last_id = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
    let wish = match Wish::parse(request.uri().query(), last_id) {
        Ok(wish) => wish,
        Err(error) => return plain_error(StatusCode::BAD_REQUEST, &error),
    };
    match events::listen(&shared, wish, place).await {
        Ok(events) => Sse::new(events)
            .keep_alive(KeepAlive::new().interval(STREAM_KEEP_ALIVE).text("alive"))
            .into_response(),
        Err(error) => {
            let status = match error.code {
                code::PARAMS => StatusCode::BAD_REQUEST,
                code::UNKNOWN => StatusCode::NOT_FOUND,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            plain_error(status, &error)
        }
    }
}

pub(super) fn busy(shared: &Shared) -> Response {
    shared.counters.busy();
    plain_error(StatusCode::SERVICE_UNAVAILABLE, &errors::busy())
}

async fn rpc(State(shared): AppState, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(_place) = shared.calls.try_acquire() else {
        shared.counters.busy();
        return early_error(StatusCode::SERVICE_UNAVAILABLE, errors::busy());
    };
    let (bytes, _room) = match take_body(&shared, &parts.headers, body).await {
        Ok(taken) => taken,
        Err((status, error)) => {
            match error.code {
                code::BUSY => shared.counters.busy(),
                _ => shared.counters.malformed(),
            }
            return early_error(status, error);
        }
    };
    let parsed = parse(&bytes);
    drop(bytes);
    match parsed {
        Err(error) => {
            shared.counters.malformed();
            early_error(StatusCode::OK, error)
        }
        Ok(Value::Array(calls)) => batch(&shared, calls).await,
        Ok(call) => match answer(&shared, call).await {
            Some(answer) => json_response(StatusCode::OK, &answer),
            None => StatusCode::NO_CONTENT.into_response(),
        },
    }
}

/// Reads a body within its bounds. The permit stands for its bytes as long as they are in memory.
async fn take_body(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, OwnedSemaphorePermit), (StatusCode, RpcError)> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // A page of another origin can send forms and text to this address without asking, but not
    // JSON.
    let kind = text(header::CONTENT_TYPE).and_then(|kind| kind.split(';').next());
    if !kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        let mut error = errors::request("its content type is not application/json");
        error.data.hint = "send the header content-type: application/json".to_owned();
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
    }
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
    let length = length.unwrap_or(BODY_BYTES_MAX);
    if length > BODY_BYTES_MAX {
        return Err(too_large());
    }
    let permits = u32::try_from(length.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
    let room = Arc::clone(&shared.bodies).try_acquire_many_owned(permits);
    let room = room.map_err(|_| (StatusCode::SERVICE_UNAVAILABLE, errors::busy()))?;
    let read = axum::body::to_bytes(body, BODY_BYTES_MAX);
    match tokio::time::timeout(BODY_TIMEOUT, read).await {
        Ok(Ok(bytes)) => Ok((bytes, room)),
        Ok(Err(_)) => Err(too_large()),
        Err(_) => {
            let error = errors::timeout("The body of the request", "send it at once");
            Err((StatusCode::REQUEST_TIMEOUT, error))
        }
    }
}

fn too_large() -> (StatusCode, RpcError) {
    let mut error = errors::request(format!("it has more than {BODY_BYTES_MAX} bytes"));
    error.data.hint = "split it into several requests".to_owned();
    (StatusCode::PAYLOAD_TOO_LARGE, error)
}

/// Reads the JSON of a body. Values are counted first, because each takes more memory than the byte
/// or two it may come in.
fn parse(bytes: &[u8]) -> Result<Value, RpcError> {
    let separators = bytes.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{'));
    if separators.count() > BODY_VALUES_MAX {
        return Err(errors::request(format!("it has more than {BODY_VALUES_MAX} values")));
    }
    serde_json::from_slice(bytes).map_err(errors::parse)
}

/// Calls of one request. They run side by side, because one may wait for a block.
async fn batch(shared: &Shared, calls: Vec<Value>) -> Response {
    if calls.is_empty() || calls.len() > BATCH_CALLS_MAX {
        shared.counters.malformed();
        let why = format!("it is a list of {}, expected 1 to {BATCH_CALLS_MAX}", calls.len());
        return early_error(StatusCode::OK, errors::request(why));
    }
    let answers = futures::future::join_all(calls.into_iter().map(|call| answer(shared, call)));
    let answers: Vec<Answer> = answers.await.into_iter().flatten().collect();
    if answers.is_empty() {
        return StatusCode::NO_CONTENT.into_response();
    }
    json_response(StatusCode::OK, &answers)
}

/// The answer to one call, `None` if the caller wants none.
async fn answer(shared: &Shared, call: Value) -> Option<Answer> {
    let id = call.get("id").cloned();
    let call = match read_call(call) {
        Ok(call) => call,
        Err(error) => {
            shared.counters.malformed();
            let id = id.filter(is_id).unwrap_or(Value::Null);
            return Some(Answer::new(id, Err(error)));
        }
    };
    let started = Instant::now();
    let mut stop = shared.stop.clone();
    let outcome = tokio::select! {
        outcome = methods::call(shared, &call.method, call.params) => outcome,
        _ = stop.wait_for(|stopping| *stopping) => Err(errors::stopping()),
    };
    shared.counters.called(&call.method, started.elapsed(), outcome.is_err());
    // A call with the id null is answered; only one without an id is a notification.
    id.map(|id| Answer::new(id, outcome))
}

fn read_call(call: Value) -> Result<Call, RpcError> {
    if !call.is_object() {
        return Err(errors::request("it is not an object"));
    }
    let call: Call = serde_json::from_value(call).map_err(errors::request)?;
    if call.jsonrpc != "2.0" {
        return Err(errors::request("its field jsonrpc is not \"2.0\""));
    }
    if !call.id.as_ref().is_none_or(is_id) {
        return Err(errors::request("its id is neither text nor a number"));
    }
    Ok(call)
}

fn is_id(id: &Value) -> bool {
    matches!(id, Value::String(_) | Value::Number(_) | Value::Null)
}

#[cfg(test)]
mod tests {
    use super::{parse, read_call};
    use crate::rpc::code;
    use serde_json::json;

    #[test]
    fn call_of_another_form_is_refused() {
        for call in [
            json!(1),
            json!("status"),
            json!({}),
            json!({"jsonrpc": "2.0", "id": 1}),
            json!({"jsonrpc": "1.0", "id": 1, "method": "status"}),
            json!({"jsonrpc": "2.0", "id": {}, "method": "status"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": 5}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "status", "extra": 1}),
        ] {
            let error = read_call(call.clone()).expect_err("refused");
            assert_eq!(error.code, code::REQUEST, "{call}");
        }
        assert!(read_call(json!({"jsonrpc": "2.0", "id": null, "method": "status"})).is_ok());
    }

    #[test]
    fn body_of_many_tiny_values_is_refused_before_it_is_parsed() {
        let body = format!("[{}0]", "0,".repeat(100_000));
        assert_eq!(parse(body.as_bytes()).expect_err("refused").code, code::REQUEST);
        assert_eq!(parse(b"{").expect_err("refused").code, code::PARSE);
        assert_eq!(parse(&b"[".repeat(30_000)).expect_err("refused").code, code::PARSE);
    }

    #[test]
    fn prop_random_bytes_never_break_the_parser() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            if let Ok(value) = parse(&bytes) {
                let _refused_is_fine = read_call(value);
            }
            Ok(())
        });
    }
}
