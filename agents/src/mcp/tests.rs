use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use rmcp::service::{RoleServer, RunningService, serve_server};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines as TextLines, ReadHalf, WriteHalf,
};
use tokio_util::sync::CancellationToken;

use super::arguments::Arguments;
use super::lines::{LONGEST, Lines};
use super::port::{CommandLine, Commands, How, Leash, Ran};
use super::reply::reply;
use super::server::Server;
use super::tools::{TOOLS, find};

/// What a call of a tool means.
fn line(tool: &str, arguments: &Value) -> CommandLine {
    let tool = find(tool).unwrap();
    let arguments = arguments.as_object().cloned();
    tool.command(&Arguments::check(tool.fields, arguments).unwrap())
}

fn words(tool: &str, arguments: &Value) -> String {
    line(tool, arguments).words.join(" ")
}

#[test]
fn the_list_of_tools_is_short() {
    let listed: Vec<_> = TOOLS.iter().map(super::tools::Tool::listed).collect();
    let text = serde_json::to_string(&json!({ "tools": listed })).unwrap();
    assert!(text.len() < 8 * 1024, "{} bytes", text.len());
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    assert_eq!(
        names,
        [
            "lock_acquire",
            "lock_release",
            "lock_status",
            "lock_ask",
            "lock_answer",
            "lock_take",
            "lock_cancel",
            "test_run",
            "commit",
            "gate_check",
            "message_send",
            "message_inbox",
            "issue_wait",
            "issue_note"
        ]
    );
}

#[test]
fn a_tool_is_the_command_that_a_person_would_type() {
    assert_eq!(
        words("issue_wait", &json!({"issue": "bd-3", "timeout": "5m"})),
        "wait --json --timeout=5m -- bd-3"
    );
    let acquire = json!({"paths": ["a", "src/**"], "wait": "5m", "shared": true, "reason": "why"});
    assert_eq!(
        words("lock_acquire", &acquire),
        "lock acquire --json --wait=5m --reason=why --shared -- a src/**"
    );
    assert_eq!(words("lock_release", &json!({"all": true})), "lock release --json --all");
    assert_eq!(words("lock_status", &json!({})), "status --json");
    assert_eq!(
        words("lock_status", &json!({"paths": ["a"], "literal": true})),
        "lock check --json --literal -- a"
    );
    let ask = json!({"path": "a", "why": "b", "urgent": true});
    assert_eq!(words("lock_ask", &ask), "lock ask --json --why=b --urgent -- a");
    let answer = json!({"ask": "x1", "answer": "defer", "eta": "5m"});
    assert_eq!(words("lock_answer", &answer), "lock answer --json --eta=5m -- x1 defer");
    assert_eq!(words("gate_check", &json!({"issue": "bd-1"})), "gate check --json --issue=bd-1");
    assert_eq!(words("message_send", &json!({"body": "hi"})), "msg send --json --all -- -");
    let send = json!({"body": "hi", "to": ["ann", "bob"], "importance": "high", "ack": true});
    assert_eq!(
        words("message_send", &send),
        "msg send --json --importance=high --ack --to=ann --to=bob -- -"
    );
    assert_eq!(
        words("message_inbox", &json!({"unread": true, "limit": 5})),
        "msg inbox --json --unread --limit=5"
    );
    assert_eq!(words("message_inbox", &json!({"ack": 7})), "msg ack --json -- 7");
    let test = line("test_run", &json!({"command": ["cargo", "test", "--json"]}));
    assert_eq!((test.words.join(" ").as_str(), test.how), ("test --json -- cargo test --json", How::Apart));
    assert_eq!(words("test_run", &json!({"issue": "bd-1"})), "test --json --issue=bd-1");
    assert_eq!(words("commit", &json!({"undo": true})), "commit --json --undo");
    assert_eq!(words("commit", &json!({"message": "m", "paths": ["a"]})), "commit --json --message=- -- a");
    assert_eq!(words("lock_take", &json!({"ask": "x1"})), "lock take --json -- x1");
    assert_eq!(words("lock_cancel", &json!({"ask": "x1"})), "lock cancel --json -- x1");
    let rerun = line("gate_check", &json!({"rerun": true}));
    assert_eq!((rerun.words.join(" ").as_str(), rerun.how), ("gate check --json --rerun", How::Apart));
}

#[test]
fn nothing_that_is_said_becomes_an_option() {
    let hostile = "--agent=somebody";
    for line in [
        line("lock_acquire", &json!({"paths": [hostile], "reason": hostile, "wait": hostile})),
        line("lock_ask", &json!({"path": hostile, "why": hostile})),
        line("lock_answer", &json!({"ask": hostile, "answer": "release", "eta": hostile})),
        line("commit", &json!({"message": hostile, "paths": [hostile], "issue": hostile})),
        line("message_send", &json!({"body": hostile, "to": [hostile], "thread": hostile})),
        line("issue_wait", &json!({"issue": hostile, "timeout": hostile})),
        line("issue_note", &json!({"issue": hostile, "text": hostile})),
        line("gate_check", &json!({"issue": hostile, "commit": hostile})),
        line("test_run", &json!({"command": [hostile], "wait": hostile})),
    ] {
        let end = line.words.iter().position(|word| word == "--").unwrap_or(line.words.len());
        assert!(!line.words[..end].iter().any(|word| word == hostile), "{line:?}");
    }
    assert_eq!(line("commit", &json!({"message": "-"})).input, "-", "texts are read, not looked at");
    assert_eq!(line("issue_note", &json!({"issue": "a", "text": "-"})).input, "-");
}

#[test]
fn wrong_arguments_are_all_named_at_once() {
    let tool = find("lock_acquire").unwrap();
    let check = |given: Value| Arguments::check(tool.fields, given.as_object().cloned()).map(|_| ());
    assert_eq!(check(json!({"paths": ["a"], "wait": null})), Ok(()), "null is as good as nothing");
    let objections = check(json!({"wait": 5, "agent": "bob"})).unwrap_err();
    assert_eq!(
        objections,
        "there is no argument \"agent\"; there are `paths`, `wait`, `shared`, `reason`, `issue`, `ttl`, `literal`; `paths` is missing; \
         `wait` must be a text, not 5"
    );
    assert!(check(json!({"paths": ["a", 1]})).unwrap_err().contains("must be a list of texts"));
    let long = check(json!({"paths": "x".repeat(100_000)})).unwrap_err();
    assert!(long.len() < 200, "{} bytes", long.len());
}

fn ran(code: u8, answer: &Value) -> Ran {
    Ran { code, answer: answer.to_string().into_bytes() }
}

#[test]
fn a_refusal_names_the_holder_and_the_next_tool_in_text_and_structure() {
    let tool = find("lock_acquire").unwrap();
    let answer = json!({"granted": [], "conflicts": [{"path": "a", "agent": "bob"}], "cause": "held"});
    let said =
        "refused: `a` is held by `bob` (exclusive) for 3m\nhint: ask for it: mala lock ask a --why REASON\n";
    let told = serde_json::to_value(reply(tool, &ran(1, &answer), said)).unwrap();
    assert_eq!(told["isError"], true);
    let text = told["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("`a` is held by `bob`") && text.contains("lock_ask"), "{text}");
    assert_eq!(told["structuredContent"]["conflicts"][0]["agent"], "bob");
    assert!(told["structuredContent"]["hint"].as_str().unwrap().contains("lock_ask"));
}

#[test]
fn to_be_told_that_a_file_is_held_is_no_error() {
    let tool = find("lock_status").unwrap();
    let answer = json!({"available": false, "conflicts": [{"path": "a", "agent": "bob"}]});
    let told =
        serde_json::to_value(reply(tool, &ran(1, &answer), "refused: `a` is held by `bob`\n")).unwrap();
    assert_eq!(told["isError"], false);
    assert_eq!(told["content"][0]["text"], "refused: `a` is held by `bob`");
    let failed = json!({"error": {"kind": "refused", "message": "no session", "hints": ["start it again"]}});
    let told = serde_json::to_value(reply(tool, &ran(1, &failed), "")).unwrap();
    assert_eq!(
        (&told["isError"], &told["structuredContent"]["hint"]),
        (&json!(true), &json!("start it again"))
    );
}

#[test]
fn what_is_offered_is_not_called_committed() {
    let tool = find("commit").unwrap();
    let text = |answer: Value| reply(tool, &ran(0, &answer), "").content[0].as_text().unwrap().text.clone();
    let offered =
        json!({"commit": "abc", "candidate": "refs/mala/candidates/x", "branch": null, "files": ["a"]});
    let said = text(offered);
    assert!(said.starts_with("offered abc: `a`") && said.contains("do not commit again"), "{said}");
    assert!(text(json!({"undone": "abc", "files": ["a"]})).starts_with("took back abc"));
    assert!(
        text(json!({"commit": "abc", "branch": "main", "files": ["a"]})).starts_with("committed abc on main")
    );
}

#[test]
fn an_answer_that_is_no_json_is_still_a_result() {
    for tool in TOOLS {
        for code in [0, 1, 2, 3, 101, 255] {
            for answer in ["", "nonsense", "[1]", "{}", "null", "{\"a\":1}\n{\"error\":{}}"] {
                let told = reply(tool, &Ran { code, answer: answer.into() }, "\u{1b}[31mhm\n");
                assert!(told.structured_content.is_some_and(|value| value.is_object()), "{answer}");
                assert!(!told.content.is_empty());
            }
        }
    }
}

/// Commands that wait until they are let go, panic, or answer at once, as their first path says.
#[derive(Default)]
struct Fickle {
    begun: Mutex<Vec<String>>,
    cut: Mutex<Vec<String>>,
}

impl Commands for Fickle {
    fn run(&self, line: &CommandLine, leash: &Leash) -> Ran {
        let what = line.words.last().cloned().unwrap_or_default();
        if what == "panic" {
            panic!("as asked for");
        }
        if what == "wait" {
            let mut end = std::fs::File::from(leash.as_fd().try_clone_to_owned().unwrap());
            leash.remarks().push(b"waiting for somebody\n");
            self.begun.lock().unwrap().push(what.clone());
            let _ = std::io::Read::read(&mut end, &mut [0]);
            self.cut.lock().unwrap().push(what);
        }
        Ran { code: 0, answer: b"{\"granted\":[]}".to_vec() }
    }
}

/// A client at the other end of a server.
struct Client {
    commands: Arc<Fickle>,
    said: TextLines<BufReader<ReadHalf<DuplexStream>>>,
    say: Option<WriteHalf<DuplexStream>>,
    left: CancellationToken,
    server: tokio::task::JoinHandle<RunningService<RoleServer, Server>>,
}

impl Client {
    async fn start() -> Self {
        Self::of_version("2025-06-18").await
    }

    async fn of_version(version: &str) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(theirs);
        let ended = CancellationToken::new();
        let commands = Arc::new(Fickle::default());
        let server = Server {
            commands: Arc::clone(&commands) as Arc<dyn Commands>,
            version: "1".into(),
            ended: ended.clone(),
        };
        let left = CancellationToken::new();
        let lines = Lines::new(input, output, ended, left.clone());
        let server = tokio::spawn(async move { serve_server(server, lines).await.unwrap() });
        let (said, say) = tokio::io::split(ours);
        let mut client = Self { commands, said: BufReader::new(said).lines(), say: Some(say), left, server };
        let hello = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        client.ask(0, "initialize", hello).await;
        client.hear().await;
        client
    }

    async fn say(&mut self, text: &[u8]) {
        let say = self.say.as_mut().unwrap();
        say.write_all(text).await.unwrap();
        say.write_all(b"\n").await.unwrap();
    }

    async fn ask(&mut self, id: i64, method: &str, params: Value) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.say(request.to_string().as_bytes()).await;
    }

    async fn lock(&mut self, id: i64, path: &str) {
        self.ask(id, "tools/call", json!({"name": "lock_acquire", "arguments": {"paths": [path]}})).await;
    }

    async fn hear(&mut self) -> Value {
        let line = self.said.next_line().await.unwrap().expect("the server says something");
        serde_json::from_str(&line).unwrap()
    }
}

#[tokio::test]
async fn a_call_that_panics_fails_alone() {
    let mut client = Client::start().await;
    client.lock(1, "wait").await;
    client.lock(2, "panic").await;
    let failed = client.hear().await;
    assert_eq!((&failed["id"], &failed["result"]["isError"]), (&json!(2), &json!(true)));
    assert!(failed["result"]["content"][0]["text"].as_str().unwrap().contains("lock_status"), "{failed}");
    client.lock(3, "fine").await;
    assert_eq!(client.hear().await["id"], 3, "and the one that waits holds nobody up");
}

#[tokio::test]
async fn a_cancelled_call_lets_go_and_is_not_answered() {
    let mut client = Client::start().await;
    client.lock(1, "wait").await;
    client.say(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    while client.commands.cut.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    client.lock(2, "fine").await;
    assert_eq!(client.hear().await["id"], 2);
}

#[tokio::test]
async fn when_the_client_leaves_all_calls_let_go_and_the_server_ends() {
    let mut client = Client::start().await;
    client.lock(1, "wait").await;
    client.lock(2, "wait").await;
    client.ask(3, "ping", json!({})).await;
    assert_eq!(client.hear().await["id"], 3);
    client.say.take().unwrap().shutdown().await.unwrap();
    client.server.await.unwrap().waiting().await.unwrap();
    assert_eq!(client.commands.cut.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn whoever_gives_a_token_hears_what_a_long_call_waits_for() {
    let mut client = Client::start().await;
    let call =
        json!({"name": "lock_acquire", "arguments": {"paths": ["wait"]}, "_meta": {"progressToken": "tok"}});
    client.ask(1, "tools/call", call).await;
    let first = client.hear().await;
    assert_eq!(first["method"], "notifications/progress");
    assert_eq!(first["params"]["progressToken"], "tok");
    assert_eq!(first["params"]["message"], "waiting for somebody");
    let second = client.hear().await;
    assert!(second["params"]["progress"].as_f64() > first["params"]["progress"].as_f64(), "it only grows");
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_does_no_harm() {
    let mut client = Client::start().await;
    let wrong: &[(&[u8], i64)] = &[
        (b"garbage", -32700),
        (b"[1, 2", -32700),
        (b"\xff\xfe{}", -32700),
        (b"{\"id\":", -32700),
        (b"17", -32600),
        (b"[]", -32600),
        (b"{\"id\":8,\"jsonrpc\":\"1.0\",\"method\":\"ping\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"no/such\"}", -32601),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":7}}", -32602),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":\"lock_acquire\",\"arguments\":[]}}", -32602),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":\"$(reboot)\"}}", -32602),
    ];
    for (line, code) in wrong {
        client.say(line).await;
        let answer = client.hear().await;
        let shown = String::from_utf8_lossy(line);
        assert_eq!(answer["error"]["code"], *code, "{shown}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().len() > 20, "{shown}: {answer}");
    }
    for ignored in [&b""[..], b"   ", b"\r", br#"{"jsonrpc":"2.0","method":"notifications/what"}"#] {
        client.say(ignored).await;
    }
    client.lock(1, "fine").await;
    assert_eq!(client.hear().await["id"], 1);
}

#[tokio::test]
async fn a_message_without_end_is_refused_and_not_kept() {
    let mut client = Client::start().await;
    let mut say = client.say.take().unwrap();
    // Beside it: nobody may have to wait for the end.
    let long = tokio::spawn(async move {
        let piece = vec![b'x'; 1 << 16];
        for _ in 0..=LONGEST / piece.len() {
            say.write_all(&piece).await.unwrap();
        }
        say.write_all(b"\n").await.unwrap();
        say
    });
    let answer = client.hear().await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("longer than 8 MiB"), "{answer}");
    client.say = Some(long.await.unwrap());
    client.lock(1, &"p".repeat(1 << 20)).await;
    assert_eq!(client.hear().await["id"], 1, "a megabyte is nothing special");
}

#[tokio::test]
async fn every_request_gets_exactly_one_answer_whatever_its_id() {
    let mut client = Client::start().await;
    client.lock(1, "wait").await;
    client.lock(1, "fine").await;
    let twice = client.hear().await;
    assert_eq!((&twice["id"], &twice["error"]["code"]), (&json!(1), &json!(-32600)));
    for id in ["1.5", "null", "true", "[1]", "{}", "18446744073709551615", "1e3"] {
        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        client.say(request.as_bytes()).await;
        let answer = client.hear().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&Value::Null, &json!(-32600)),
            "{id}: {answer}"
        );
    }
    for id in [json!("1"), json!(""), json!(-7), json!(2)] {
        client.say(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string().as_bytes()).await;
        assert_eq!(client.hear().await["id"], id);
    }
    client.say(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    client.lock(1, "fine").await;
    let free_again = client.hear().await;
    assert_eq!(
        (&free_again["id"], &free_again["result"]["isError"]),
        (&json!(1), &json!(false)),
        "{free_again}"
    );
}

#[tokio::test]
async fn a_batch_is_answered_as_one_where_the_version_has_batches() {
    let mut client = Client::of_version("2025-03-26").await;
    let ping = |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let note = json!({"jsonrpc": "2.0", "method": "notifications/what"});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "lock_acquire", "arguments": {"paths": ["fine"]}}});
    client.say(json!([ping(1), note, call, ping(1), 17]).to_string().as_bytes()).await;
    let answers = client.hear().await;
    let mut ids: Vec<String> =
        answers.as_array().unwrap().iter().map(|answer| answer["id"].to_string()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["1", "1", "2", "null"], "{answers}");
    client.say(json!([note]).to_string().as_bytes()).await;
    client.say(b"[]").await;
    assert_eq!(
        client.hear().await["error"]["code"],
        -32600,
        "one answer to an empty batch, none to a notification"
    );
    // What is taken back is not waited for.
    let wait = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
        "params": {"name": "lock_acquire", "arguments": {"paths": ["wait"]}}});
    client.say(json!([wait, ping(4)]).to_string().as_bytes()).await;
    while client.commands.begun.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    client.say(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#).await;
    assert_eq!(client.hear().await[0]["id"], 4);
}

#[tokio::test]
async fn where_the_version_has_no_batches_one_is_refused_in_words() {
    let mut client = Client::start().await;
    client.say(br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#).await;
    let answer = client.hear().await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("2025-06-18"), "{answer}");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_read_from_for_ever() {
    let mut client = Client::start().await;
    let mut say = client.say.take().unwrap();
    let said = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&said);
    let talker = tokio::spawn(async move {
        for id in 1..200_000 {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": "no/such/method/at/all"});
            say.write_all(format!("{request}\n").as_bytes()).await.unwrap();
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    // It stands still once the pipes and the answers that may be open are full.
    let mut before = usize::MAX;
    while before != said.load(std::sync::atomic::Ordering::Relaxed) {
        before = said.load(std::sync::atomic::Ordering::Relaxed);
        for _ in 0..20_000 {
            tokio::task::yield_now().await;
        }
    }
    assert!((1..10_000).contains(&before), "{before}");
    talker.abort();
}

#[tokio::test]
async fn a_client_that_leaves_without_reading_is_not_waited_for() {
    let mut client = Client::start().await;
    client.lock(1, "wait").await;
    let mut say = client.say.take().unwrap();
    for id in 2..5_000 {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "no/such/method/at/all"});
        let line = format!("{request}\n");
        // It is full when nothing more is taken.
        if tokio::time::timeout(std::time::Duration::from_secs(1), say.write_all(line.as_bytes()))
            .await
            .is_err()
        {
            break;
        }
    }
    client.left.cancel();
    say.shutdown().await.unwrap();
    drop(say);
    client.server.await.unwrap().waiting().await.unwrap();
    assert_eq!(client.commands.cut.lock().unwrap().len(), 1, "the call that waited was let go");
}
