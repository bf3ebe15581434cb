//! Requests that are wrong, each answered with what is wrong about it.

use crate::world::{World, split};
use serde_json::{Value, json};
use tg_api::rpc::code;

const JSON: &str = "application/json";

/// Posts a body and checks status, code and that there is a sentence and a hint.
fn check(world: &World, body: &str, expected: i64) -> Value {
    let (status, answer) = world.post(JSON, body);
    assert_eq!(status, 200, "{body}: {answer}");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let error = answer.get("error").unwrap_or_else(|| panic!("{body}: {answer}"));
    assert_eq!(error["code"], expected, "{body}: {answer}");
    for field in ["code", "sentence", "hint"] {
        let text = error["data"][field].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "{body}: no {field} in {answer}");
    }
    assert_eq!(error["message"], error["data"]["sentence"]);
    answer
}

fn call(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params}).to_string()
}

pub(crate) fn wrong_json_gets_a_clear_error(world: &World) {
    for body in ["", "{", "[1,", "nonsense", "{\"jsonrpc\": \"2.0\",}", "\u{0}", "{}x"] {
        let answer = check(world, body, code::PARSE);
        assert_eq!(answer["id"], Value::Null);
    }
    check(world, &"[".repeat(20_000), code::PARSE);
    check(world, &format!("[{}1]", "1,".repeat(200_000)), code::REQUEST);
    for body in ["{}", "1", "null", "[]", r#"{"jsonrpc":"1.0","id":1,"method":"status"}"#] {
        check(world, body, code::REQUEST);
    }
    let answer = check(world, r#"{"jsonrpc":"2.0","id":7,"method":1}"#, code::REQUEST);
    assert_eq!(answer["id"], 7);
}

pub(crate) fn wrong_parameters_get_a_clear_error(world: &World) {
    let answer = check(world, &call("no_such_method", &json!({})), code::METHOD);
    assert_eq!(answer["id"], "a");
    assert!(answer["error"]["data"]["hint"].as_str().is_some_and(|hint| hint.contains("submit")));
    let upper = "AB".repeat(32);
    for (method, params) in [
        ("status", json!({"x": 1})),
        ("status", json!([1])),
        ("status", json!(5)),
        ("account", json!({})),
        ("account", json!({"account": 5})),
        ("account", json!({"account": "00"})),
        ("account", json!({"account": upper})),
        ("account", json!({"account": "00".repeat(32)})),
        ("nonce", json!({"account": "11".repeat(32), "lane": 8})),
        ("receipt", json!({"tx": "zz"})),
        ("prove", json!({})),
        ("prove", json!({"noun": "account"})),
        ("prove", json!({"noun": "nothing", "id": "11".repeat(32)})),
        ("prove", json!({"noun": "account", "id": "11".repeat(32), "key": "11".repeat(33)})),
        ("prove", json!({"key": "ff".repeat(33)})),
        ("certificate", json!({"height": -1})),
        ("certificate", json!({"height": 1.5})),
        ("block", json!({"height": "1"})),
        ("nodes", json!({"limit": 0})),
        ("nodes", json!({"limit": 1_000_000})),
        ("nodes", json!({"before": -1})),
        ("jobs", json!({"limit": 101})),
        ("jobs", json!({"before": "7"})),
        ("jobs", json!({"before": "07-0"})),
        ("job", json!({"job": "x"})),
        ("job", json!({})),
        ("node", json!({"node": "x"})),
        ("submit", json!({})),
        ("submit", json!({"txs": []})),
        ("submit", json!({"txs": ["0"]})),
        ("submit", json!({"txs": ["AB"]})),
        ("submit", json!({"txs": ["00"], "wait": "forever"})),
        ("faucet", json!({"account": "11".repeat(32), "amount": "-1"})),
        ("faucet", json!({"account": "11".repeat(32), "amount": "1e3"})),
    ] {
        check(world, &call(method, &params), code::PARAMS);
    }
}

pub(crate) fn wrong_http_gets_a_clear_error(world: &World) {
    let status_call = call("status", &json!({}));
    let (status, body) = world.post("text/plain", &status_call);
    assert_eq!(status, 415);
    assert!(body.contains("content-type: application/json"), "{body}");
    assert_eq!(world.post("application/json; charset=utf-8", &status_call).0, 200);

    let (status, body) = world.post(JSON, &" ".repeat(6 << 20));
    assert_eq!(status, 413);
    assert!(body.contains("split it"), "{body}");
    let endless = "POST /rpc HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
        content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(0x10_0000));
    let (status, _) =
        split(&world.raw(format!("{endless}{}0\r\n\r\n", chunk.repeat(6)).as_bytes()));
    assert_eq!(status, 413);
    let chunked = format!("{endless}{:x}\r\n{status_call}\r\n0\r\n\r\n", status_call.len());
    assert_eq!(split(&world.raw(chunked.as_bytes())).0, 200);

    let get = b"GET /rpc HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let (status, body) = split(&world.raw(get));
    assert_eq!(status, 405);
    assert!(body.contains("wrong HTTP method"), "{body}");
}

pub(crate) fn batches_are_answered_call_by_call(world: &World) {
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "status"},
        {"jsonrpc": "2.0", "method": "status"},
        {"jsonrpc": "2.0", "id": "two", "method": "no_such_method"},
        {"jsonrpc": "2.0", "id": null, "method": "totals"},
        5,
    ]);
    let (status, answer) = world.post(JSON, &batch.to_string());
    assert_eq!(status, 200);
    let answers: Vec<Value> = serde_json::from_str(&answer).expect("a list");
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!("two"), &Value::Null, &Value::Null]);
    assert!(answers[0]["result"]["height"].is_u64());
    assert_eq!(answers[1]["error"]["code"], code::METHOD);
    assert_eq!(answers[2]["result"]["balanced"], true);
    assert_eq!(answers[3]["error"]["code"], code::REQUEST);

    let (status, answer) = world.post(JSON, r#"{"jsonrpc":"2.0","method":"status"}"#);
    assert_eq!((status, answer.as_str()), (204, ""));
    let many = vec![json!({"jsonrpc": "2.0", "id": 1, "method": "status"}); 65];
    check(world, &json!(many).to_string(), code::REQUEST);
}
