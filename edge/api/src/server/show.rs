//! The addresses that people and simple programs read: pages, their files, and the same answers as
//! JSON under `/v1`. Questions become calls of the same functions that JSON-RPC calls.

use super::{
    Shared, errors,
    limits::{FRONT_NODES, PAGE_NODES},
    methods, routes, work,
};
use crate::{
    pages,
    rpc::{JobParams, JobsParams, NodeParams, NodesParams, ReceiptParams, RpcError, code},
    text::{Number, OneText, Text, read_text},
};
use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde::Serialize;
use std::sync::Arc;
use tg_types::Height;

/// What a page may do: load its own files, talk to its own node, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// How long a browser may keep the script and the style, in seconds: they change with the program.
const ASSETS_KEPT: &str = "max-age=60";

type AppState = State<Arc<Shared>>;

/// The addresses.
pub(super) fn router() -> Router<Arc<Shared>> {
    Router::new()
        .route("/", get(front))
        .route("/jobs", get(jobs))
        .route("/jobs/{id}", get(job))
        .route("/nodes", get(nodes))
        .route("/nodes/{id}", get(node))
        .route("/assets/page.css", get(|| asset("text/css; charset=utf-8", pages::STYLE)))
        .route("/assets/page.js", get(|| asset("text/javascript; charset=utf-8", pages::SCRIPT)))
        .route("/assets/icon.svg", get(|| asset("image/svg+xml", pages::ICON)))
        .route("/v1/jobs", get(jobs_json))
        .route("/v1/jobs/{id}", get(job_json))
        .route("/v1/jobs/{id}/proof", get(job_proof))
        .route("/v1/nodes", get(nodes_json))
        .route("/v1/nodes/{id}", get(node_json))
        .route("/v1/receipts/{tx}", get(receipt_json))
        .route("/v1/doors", get(doors_json))
}

async fn asset(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, ASSETS_KEPT),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text).into_response()
}

/// The options of an address: `limit` and `before`, each as it is read.
fn options(address: &Uri) -> Result<(Option<u32>, Option<&str>), RpcError> {
    let (mut limit, mut before) = (None, None);
    let query = address.query().unwrap_or_default();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("limit", text)) => {
                let read = text.parse().map_err(|_| wrong("limit is not a number"))?;
                limit = Some(read);
            }
            Some(("before", text)) => before = Some(text),
            _ => return Err(wrong("there is an option besides limit and before")),
        }
    }
    Ok((limit, before))
}

fn wrong(why: &str) -> RpcError {
    errors::params(why, "options are limit=NUMBER and before=PLACE, as an answer's next says")
}

/// A value that stands in an address.
fn read<T: OneText>(text: &str) -> Result<Text<T>, RpcError> {
    let found = read_text(text).map(Text);
    found.ok_or_else(|| errors::params(format!("expected {}", T::WHAT), "follow a link of a page"))
}

fn number(text: &str) -> Result<u64, RpcError> {
    text.parse().map_err(|_| wrong("before is not a number"))
}

fn jobs_params(address: &Uri) -> Result<JobsParams, RpcError> {
    let (limit, before) = options(address)?;
    Ok(JobsParams { limit, before: before.map(read).transpose()? })
}

fn nodes_params(address: &Uri) -> Result<NodesParams, RpcError> {
    let (limit, before) = options(address)?;
    Ok(NodesParams { limit, before: before.map(number).transpose()? })
}

fn node_params(id: &str, address: &Uri) -> Result<NodeParams, RpcError> {
    let before = options(address)?.1.map(number).transpose()?;
    Ok(NodeParams { node: read(id)?, before: before.map(|height| Number(Height::new(height))) })
}

const fn status_of(error: &RpcError) -> StatusCode {
    match error.code {
        code::PARAMS => StatusCode::BAD_REQUEST,
        code::UNKNOWN => StatusCode::NOT_FOUND,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Answers with a page, or with one that says what went wrong.
async fn page(shared: &Shared, making: impl Future<Output = Result<String, RpcError>>) -> Response {
    let Ok(_place) = shared.calls.try_acquire() else { return routes::busy(shared) };
    let (status, page) = match making.await {
        Ok(page) => (StatusCode::OK, page),
        Err(error) => match methods::status(shared).await {
            Ok(status) => (status_of(&error), pages::failure(&status, &error)),
            Err(_) => return routes::plain_error(status_of(&error), &error),
        },
    };
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (status, headers, page).into_response()
}

/// Answers with JSON.
async fn json<A: Serialize>(
    shared: &Shared,
    making: impl Future<Output = Result<A, RpcError>>,
) -> Response {
    let Ok(_place) = shared.calls.try_acquire() else { return routes::busy(shared) };
    match making.await {
        Ok(answer) => routes::json_response(StatusCode::OK, &answer),
        Err(error) => routes::plain_error(status_of(&error), &error),
    }
}

/// Answers with the file of a job's proof.
async fn job_proof(State(shared): AppState, Path(id): Path<String>) -> Response {
    let Ok(_place) = shared.calls.try_acquire() else { return routes::busy(&shared) };
    let making = async { work::proof(&shared, read(&id)?.0).await };
    match making.await {
        Ok(file) => ([(header::CONTENT_TYPE, "application/octet-stream")], file).into_response(),
        Err(error) => routes::plain_error(status_of(&error), &error),
    }
}

async fn front(State(shared): AppState) -> Response {
    let shared = &*shared;
    page(shared, async {
        let nodes = NodesParams { limit: Some(FRONT_NODES), before: None };
        let status = methods::status(shared).await?;
        let validators = methods::validators(shared).await?;
        let nodes = work::nodes(shared, nodes).await?;
        let jobs = work::jobs_or_none(shared).await?;
        let totals = shared.chain.totals().await.map_err(errors::chain)?;
        let totals = totals.as_ref().map(Into::into);
        Ok(pages::front(&pages::Front {
            status: &status,
            validators: &validators,
            nodes: &nodes,
            jobs: &jobs,
            totals: totals.as_ref(),
        }))
    })
    .await
}

async fn jobs(State(shared): AppState, address: Uri) -> Response {
    let shared = &*shared;
    page(shared, async {
        let params = jobs_params(&address)?;
        let is_first = params.before.is_none();
        let found = work::jobs(shared, params).await?;
        Ok(pages::jobs(&methods::status(shared).await?, &found, is_first))
    })
    .await
}

async fn nodes(State(shared): AppState, address: Uri) -> Response {
    let shared = &*shared;
    page(shared, async {
        let mut params = nodes_params(&address)?;
        params.limit = params.limit.or(Some(PAGE_NODES));
        let is_first = params.before.is_none();
        let found = work::nodes(shared, params).await?;
        Ok(pages::nodes(&methods::status(shared).await?, &found, is_first))
    })
    .await
}

async fn job(State(shared): AppState, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let shared = &*shared;
    page(shared, async {
        let found = work::job(shared, JobParams { job: read(&id)? }).await?;
        Ok(pages::job(&methods::status(shared).await?, &found, host(&headers)))
    })
    .await
}

async fn node(State(shared): AppState, Path(id): Path<String>, address: Uri) -> Response {
    let shared = &*shared;
    page(shared, async {
        let params = node_params(&id, &address)?;
        let is_first = params.before.is_none();
        let found = work::node(shared, params).await?;
        Ok(pages::node(&methods::status(shared).await?, &found, is_first))
    })
    .await
}

async fn jobs_json(State(shared): AppState, address: Uri) -> Response {
    let shared = &*shared;
    json(shared, async { work::jobs(shared, jobs_params(&address)?).await }).await
}

async fn nodes_json(State(shared): AppState, address: Uri) -> Response {
    let shared = &*shared;
    json(shared, async { work::nodes(shared, nodes_params(&address)?).await }).await
}

async fn job_json(State(shared): AppState, Path(id): Path<String>) -> Response {
    let shared = &*shared;
    json(shared, async { work::job(shared, JobParams { job: read(&id)? }).await }).await
}

async fn node_json(State(shared): AppState, Path(id): Path<String>, address: Uri) -> Response {
    let shared = &*shared;
    json(shared, async { work::node(shared, node_params(&id, &address)?).await }).await
}

async fn doors_json(State(shared): AppState) -> Response {
    let shared = &*shared;
    json(shared, async { Ok(methods::doors(shared)) }).await
}

async fn receipt_json(State(shared): AppState, Path(tx): Path<String>) -> Response {
    let shared = &*shared;
    let params = async { Ok(ReceiptParams { tx: read(&tx)?, wait_ms: None }) };
    json(shared, async { methods::receipt(shared, params.await?).await }).await
}

/// Where the reader found this node. It stands in a command that people copy, so it is left out if
/// it is anything but a host and a port.
fn host(headers: &HeaderMap) -> Option<&str> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte);
    Some(host).filter(|host| !host.starts_with('-') && host.bytes().all(is_plain))
}

#[cfg(test)]
mod tests {
    use super::{host, options};
    use axum::http::{HeaderMap, HeaderValue, Uri, header};

    #[test]
    fn options_of_another_form_are_refused() {
        let check = |query: &str| {
            let address: Uri = format!("/jobs?{query}").parse().expect("an address");
            options(&address).map(|(limit, before)| (limit, before.map(str::to_owned))).ok()
        };
        assert_eq!(check(""), Some((None, None)));
        assert_eq!(check("limit=5&before=17-0"), Some((Some(5), Some("17-0".to_owned()))));
        for query in ["limit=x", "limit=-1", "limit", "after=3", "before", "limit=99999999999"] {
            assert_eq!(check(query), None, "{query}");
        }
    }

    #[test]
    fn host_that_is_more_than_a_host_is_left_out() {
        let check = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(text));
            host(&headers).map(str::to_owned)
        };
        assert_eq!(check("127.0.0.1:9420").as_deref(), Some("127.0.0.1:9420"));
        assert_eq!(check("[::1]:9420").as_deref(), Some("[::1]:9420"));
        for text in ["a; rm -rf /", "a$(b)", "<script>", "-o", "a b", "a\"b"] {
            assert_eq!(check(text), None, "{text}");
        }
    }
}
