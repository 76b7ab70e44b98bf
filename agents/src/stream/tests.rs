use super::*;

fn read(kind: Kind, lines: &[&str]) -> (Vec<Progress>, Report) {
    let mut reader = Reader::new(kind, Some("asked"), Usage::default());
    let progress = lines.iter().flat_map(|line| reader.line(line.as_bytes())).collect();
    (progress, reader.report().clone())
}

fn tokens(input: u64, cached: u64, output: u64) -> Tokens {
    Tokens { input, cached, output }
}

/// All tokens as those of one model.
fn usage<const N: usize>(models: [(&str, Tokens); N], cost: Option<f64>, turns: u64) -> Usage {
    Usage { models: models.map(|(model, tokens)| (model.to_owned(), tokens)).into(), cost, turns }
}

fn doings(progress: &[Progress]) -> Vec<&str> {
    let mut texts = Vec::new();
    for it in progress {
        if let Progress::Doing(text) = it {
            texts.push(text.as_str());
        }
    }
    texts
}

#[test]
fn claude_tells_session_work_tokens_cost_and_end() {
    let (progress, report) = read(
        Kind::Claude,
        &[
            r#"{"type":"system","subtype":"init","session_id":"s-1","model":"m"}"#,
            r#"{"type":"assistant","session_id":"s-1","message":{"id":"m1","model":"big","content":[{"type":"text","text":"I look\nat it"}],"usage":{"input_tokens":10,"output_tokens":1,"cache_read_input_tokens":5}}}"#,
            r#"{"type":"assistant","session_id":"s-1","message":{"id":"m1","model":"big","content":[{"type":"tool_use","name":"Bash","input":{"command":"cargo test"}}],"usage":{"input_tokens":10,"output_tokens":7,"cache_read_input_tokens":5}}}"#,
            r#"{"type":"assistant","session_id":"s-1","parent_tool_use_id":"t1","message":{"id":"m2","model":"small","content":[{"type":"text","text":"sub-agent"}],"usage":{"input_tokens":1,"output_tokens":1}}}"#,
            "not json",
            r#"{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"done\nMALA-OUTCOME: no-change: nothing to do","session_id":"s-1","total_cost_usd":0.25,"usage":{"input_tokens":11,"output_tokens":9,"cache_read_input_tokens":5}}"#,
        ],
    );
    assert_eq!(progress[0], Progress::Session("s-1".into()));
    assert_eq!(doings(&progress), ["I look at it", "Bash: cargo test", "sub-agent"]);
    assert_eq!(report.message.as_deref(), Some("done\nMALA-OUTCOME: no-change: nothing to do"));
    let models = [("big", tokens(15, 5, 8)), ("small", tokens(1, 0, 1))];
    assert_eq!(report.usage, usage(models, Some(0.25), 2));
    assert_eq!(report.terminal, Some(Terminal { reason: "success".into(), is_error: false, message: None }));
}

#[test]
fn claude_counts_a_message_once_while_it_works() {
    let line = r#"{"type":"assistant","message":{"id":"m1","content":[],"usage":{"input_tokens":10,"output_tokens":4}}}"#;
    let (_, report) = read(Kind::Claude, &[line, line]);
    assert_eq!((report.usage.tokens(), report.usage.turns), (tokens(10, 0, 4), 1));
}

#[test]
fn claude_at_its_limit_says_until_when() {
    let (progress, _) = read(
        Kind::Claude,
        &[
            r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","resetsAt":1}}"#,
            r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794794629,"rateLimitType":"five_hour"}}"#,
        ],
    );
    let until = Some(mala_core::Timestamp::from_millis(1_794_794_629_000));
    assert_eq!(progress, [Progress::Limited(Limited { until, message: "five_hour limit reached".into() })]);
    let (_, report) = read(
        Kind::Claude,
        &[
            r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: 429 rate_limit_error"}"#,
        ],
    );
    assert!(report.limited.is_some() && report.terminal.unwrap().is_error);
}

#[test]
fn codex_tells_session_work_tokens_and_end() {
    let (progress, report) = read(
        Kind::Codex,
        &[
            r#"{"type":"thread.started","thread_id":"t-1"}"#,
            r#"{"type":"turn.started"}"#,
            r#"{"type":"item.started","item":{"type":"command_execution","command":"ls -la"}}"#,
            r#"{"type":"item.completed","item":{"type":"file_change","changes":[{"path":"a"},{"path":"b"}]}}"#,
            r#"{"type":"item.completed","item":{"type":"agent_message","text":"all done"}}"#,
            r#"{"type":"turn.completed","usage":{"input_tokens":20,"cached_input_tokens":3,"output_tokens":6}}"#,
        ],
    );
    assert_eq!(doings(&progress), ["shell: ls -la", "edit: a, b", "all done"]);
    assert_eq!(report.session.as_deref(), Some("t-1"));
    assert_eq!(report.message.as_deref(), Some("all done"));
    assert_eq!(report.usage, usage([("asked", tokens(20, 3, 6))], None, 1));
    let (_, failed) =
        read(Kind::Codex, &[r#"{"type":"turn.failed","error":{"message":"You've hit your usage limit."}}"#]);
    assert!(failed.limited.is_some());
}

/// What a resumed process reports as its own, if `spent` was used before.
fn resumed(kind: Kind, spent: Usage, line: &str) -> Usage {
    let mut reader = Reader::new(kind, Some("asked"), spent);
    reader.line(line.as_bytes());
    reader.report().usage.clone()
}

#[test]
fn a_resumed_codex_counts_the_whole_conversation_and_is_read_as_its_own_part() {
    let spent = usage([("asked", tokens(20, 4, 10))], None, 1);
    let line =
        r#"{"type":"turn.completed","usage":{"input_tokens":30,"cached_input_tokens":9,"output_tokens":15}}"#;
    let own = usage([("asked", tokens(10, 5, 5))], None, 1);
    assert_eq!(resumed(Kind::Codex, spent, line), own);
}

#[test]
fn a_resumed_claude_may_add_what_was_spent_before_and_is_read_as_its_own_part() {
    let spent = usage([("", tokens(20, 0, 10))], Some(0.25), 2);
    let line = |total: f64, tokens: u64| {
        format!(
            r#"{{"type":"result","subtype":"success","is_error":false,"num_turns":3,"total_cost_usd":{total},
               "usage":{{"input_tokens":30,"output_tokens":15}},"modelUsage":{{"m":{{"inputTokens":{tokens},"outputTokens":15}}}}}}"#
        )
    };
    let own = |line: String| resumed(Kind::Claude, spent.clone(), &line.replace('\n', "")).cost;
    assert_eq!(own(line(0.75, 60)), Some(0.5), "its own and what was before");
    assert_eq!(own(line(0.5, 30)), Some(0.5), "its own only");
}

#[test]
fn gemini_speaks_in_pieces() {
    let (_, report) = read(
        Kind::Gemini,
        &[
            r#"{"type":"init","session_id":"g-1","model":"first"}"#,
            r#"{"type":"message","role":"user","content":"the prompt"}"#,
            r#"{"type":"message","role":"assistant","content":"first ","delta":true}"#,
            r#"{"type":"tool_use","tool_name":"run_shell_command","parameters":{"command":"ls"}}"#,
            r#"{"type":"message","role":"assistant","content":"all ","delta":true}"#,
            r#"{"type":"message","role":"assistant","content":"done","delta":true}"#,
            r#"{"type":"result","status":"success","stats":{"total_tokens":9,"input_tokens":5,"output_tokens":2,"cached":1}}"#,
        ],
    );
    assert_eq!((report.session.as_deref(), report.message.as_deref()), (Some("g-1"), Some("all done")));
    assert_eq!(report.usage, usage([("first", tokens(5, 1, 4))], None, 1), "what it thought is output");
}

#[test]
fn gemini_tells_the_tokens_of_each_model() {
    let line = r#"{"type":"result","status":"success","stats":{"total_tokens":30,"input_tokens":20,"output_tokens":10,
        "models":{"pro":{"total_tokens":20,"input_tokens":15,"output_tokens":5,"cached":8},
        "flash":{"total_tokens":10,"input_tokens":5,"output_tokens":5,"cached":0}}}}"#;
    let (_, report) = read(Kind::Gemini, &[&line.replace('\n', "")]);
    assert_eq!(
        report.usage.models,
        usage([("pro", tokens(15, 8, 5)), ("flash", tokens(5, 0, 5))], None, 0).models
    );
}

#[test]
fn a_cost_of_nothing_that_opencode_tells_of_tokens_is_none() {
    let step = r#"{"type":"step_finish","part":{"reason":"stop","cost":0,"tokens":{"input":4,"output":2,"reasoning":1,"cache":{"read":5,"write":6}}}}"#;
    let (_, report) = read(Kind::Opencode, &[step]);
    assert_eq!(report.usage, usage([("asked", tokens(15, 5, 3))], None, 1));
}

#[test]
fn opencode_adds_up_its_steps() {
    let step = r#"{"type":"step_finish","sessionID":"o-1","part":{"reason":"stop","cost":0.5,"tokens":{"input":4,"output":2,"cache":{"read":30,"write":5}}}}"#;
    let tool = r#"{"type":"tool_use","sessionID":"o-1","part":{"tool":"edit","state":{"input":{"filePath":"a.rs"}}}}"#;
    let said = r#"{"type":"text","sessionID":"o-1","part":{"text":"done"}}"#;
    let (progress, report) = read(Kind::Opencode, &[tool, step, said, step]);
    assert_eq!(doings(&progress), ["edit: a.rs", "done"]);
    assert_eq!(report.usage, usage([("asked", tokens(78, 60, 4))], Some(1.0), 2));
    assert_eq!(report.message.as_deref(), Some("done"));
}

#[test]
fn opencode_recovers_from_an_error_only_by_coming_to_an_end_of_its_own() {
    let step = |reason: &str| {
        format!(r#"{{"type":"step_finish","sessionID":"o-1","part":{{"reason":"{reason}"}}}}"#)
    };
    let error = r#"{"type":"error","sessionID":"o-1","error":{"name":"ContextOverflowError","data":{"message":"too long"}}}"#;
    let has_recovered = |lines: &[&str]| read(Kind::Opencode, lines).1.has_recovered;
    let (stop, tools) = (step("stop"), step("tool-calls"));
    assert!(has_recovered(&[&tools, error, &tools, &stop]));
    assert!(!has_recovered(&[&tools, error, &tools]), "it is in the middle of its work");
    assert!(!has_recovered(&[&stop, error]) && !has_recovered(&[&stop]));
    let (_, report) = read(Kind::Opencode, &[&stop, error]);
    assert_eq!(report.terminal.unwrap().message.as_deref(), Some("too long"));
}

#[test]
fn a_tool_that_has_run_is_told_and_one_that_was_refused_is_not() {
    for (kind, ran, refused) in [
        (
            Kind::Claude,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"ok"}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","is_error":true}]}}"#,
        ),
        (
            Kind::Codex,
            r#"{"type":"item.completed","item":{"type":"command_execution","command":"ls","status":"completed"}}"#,
            r#"{"type":"item.completed","item":{"type":"command_execution","command":"ls","status":"failed"}}"#,
        ),
        (
            Kind::Gemini,
            r#"{"type":"tool_result","tool_id":"t","status":"success"}"#,
            r#"{"type":"tool_result","tool_id":"t","status":"error"}"#,
        ),
        (
            Kind::Opencode,
            r#"{"type":"tool_use","part":{"tool":"bash","state":{"status":"completed"}}}"#,
            r#"{"type":"tool_use","part":{"tool":"bash","state":{"status":"error"}}}"#,
        ),
    ] {
        let tells = |line| read(kind, &[line]).0.contains(&Progress::ToolEnded);
        assert!(tells(ran) && !tells(refused), "{kind:?}");
    }
}

#[test]
fn opencode_tells_a_refused_account_by_its_status() {
    let error = |status: u16| {
        format!(
            r#"{{"type":"error","error":{{"name":"APIError","data":{{"message":"revoked","statusCode":{status}}}}}}}"#
        )
    };
    assert_eq!(read(Kind::Opencode, &[&error(401)]).1.denied.as_deref(), Some("revoked"));
    assert_eq!(read(Kind::Opencode, &[&error(400)]).1.denied, None);
}

#[test]
fn any_program_may_say_what_it_has_used() {
    let lines = [
        r#"mala: usage {"input": 120, "output": 30}"#,
        r#"mala: usage {"model": "gpt-5", "input": 10, "cached": 4, "output": 1, "cost": 0.5}"#,
        r#"mala: usage {"input": 200, "output": 50}"#,
        r#"mala: usage {"inptu": 1}"#,
        "mala: usage is what it is",
    ];
    let (progress, report) = read(Kind::Command, &lines);
    let models = [("asked", tokens(200, 0, 50)), ("gpt-5", tokens(10, 4, 1))];
    assert_eq!(report.usage, usage(models, Some(0.5), 2), "lines that are not understood are words");
    assert_eq!(progress.iter().filter(|one| **one == Progress::Usage).count(), 3);
    assert_eq!(report.message.unwrap().lines().count(), 2);
}

#[test]
fn any_program_says_what_it_prints() {
    let (progress, report) =
        read(Kind::Command, &["working on the rate limit", "", "MALA-OUTCOME: obsolete: gone"]);
    assert_eq!(report.message.as_deref(), Some("working on the rate limit\n\nMALA-OUTCOME: obsolete: gone"));
    assert_eq!((progress.len(), report.limited), (2, None), "prose about limits is no limit");
    let (_, report) = read(Kind::Command, &["mala: rate limit, try again in 5 minutes"]);
    assert!(report.limited.unwrap().until.is_some());
}

#[test]
fn endless_output_is_kept_short_and_on_one_line() {
    let long = "x\u{1b}[31m é ".repeat(50_000);
    let (progress, report) = read(Kind::Command, &[&long, &long, "the end"]);
    assert!(report.message.as_ref().unwrap().len() <= 2 * LONGEST_MESSAGE);
    assert!(report.message.unwrap().ends_with("the end"));
    assert!(
        doings(&progress)
            .iter()
            .all(|text| text.chars().count() <= LONGEST_DOING && !text.contains('\u{1b}'))
    );
}

#[test]
fn claude_shows_its_retries_and_is_not_waited_for_where_no_retry_can_help() {
    let retry = |error: &str, status: u32| {
        format!(
            r#"{{"type":"system","subtype":"api_retry","attempt":7,"max_retries":10,"retry_delay_ms":32593,"error_status":{status},"error":"{error}"}}"#
        )
    };
    let (progress, report) = read(Kind::Claude, &[&retry("rate_limit", 429)]);
    assert_eq!(doings(&progress), ["retry 7 of 10 in 33 s: rate_limit (429)"]);
    assert_eq!(report.denied, None);
    let (progress, report) = read(Kind::Claude, &[&retry("authentication_failed", 401)]);
    assert_eq!(progress.last(), Some(&Progress::Denied));
    assert_eq!(report.denied.as_deref(), Some("authentication_failed (401)"));
}

#[test]
fn a_failure_keeps_what_the_client_said_of_it() {
    let line = r#"{"type":"result","status":"error","error":{"message":"[API Error: The input token count exceeds\nthe maximum]"}}"#;
    let (_, report) = read(Kind::Gemini, &[line]);
    let said = report.terminal.unwrap().message;
    assert_eq!(said.as_deref(), Some("[API Error: The input token count exceeds the maximum]"));
    let line =
        r#"{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: Missing bearer"}}"#;
    let (progress, report) = read(Kind::Codex, &[line]);
    assert_eq!(progress, [Progress::Denied]);
    assert_eq!(report.denied.as_deref(), Some("unexpected status 401 Unauthorized: Missing bearer"));
}
