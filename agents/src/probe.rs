//! A hook called as a client would call it, to see whether it works.
//!
//! [`call`] is what the client would send for one write, and [`understand`] is what it would make of the answer. Whoever
//! wants proof runs the command in between.

use std::path::Path;

use serde_json::{Value, json};

use crate::{Client, Event};

/// What a client makes of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Understood {
    /// The tool does not run, for this reason.
    Denied(String),
    /// The tool runs.
    Passed,
    /// No answer: most clients let the tool run after it.
    Nonsense(String),
}

/// What `client` sends before it writes `file`, an absolute path, in the checkout `root`.
pub fn call(client: Client, root: &Path, file: &Path) -> Value {
    let (tool, input) = match client {
        Client::Claude => ("Write", json!({ "file_path": file, "content": "x\n" })),
        Client::Codex => {
            let patch = format!("*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n", file.display());
            ("apply_patch", json!({ "command": patch }))
        }
        Client::Gemini => ("write_file", json!({ "file_path": file, "content": "x\n" })),
        Client::Opencode => ("write", json!({ "filePath": file, "content": "x\n" })),
    };
    json!({
        "session_id": "self-test", "transcript_path": null, "cwd": root, "permission_mode": "bypassPermissions",
        "hook_event_name": Event::BeforeTool.name(client), "tool_name": tool, "tool_input": input,
        "tool_use_id": "self-test",
    })
}

/// What `client` sends when the session of [`call`] is over.
pub fn farewell(client: Client, root: &Path) -> Value {
    json!({ "session_id": "self-test", "cwd": root, "hook_event_name": Event::SessionEnd.name(client), "reason": "exit" })
}

/// What `client` makes of a hook that ended with `code` and printed this. No code is an end by a signal.
pub fn understand(client: Client, code: Option<i32>, stdout: &str, stderr: &str) -> Understood {
    let said = || {
        let words = [stderr, stdout].into_iter().find(|text| !text.trim().is_empty());
        words.map(|words| format!(" and said: {}", shorten(words))).unwrap_or_default()
    };
    match code {
        Some(2) if !stderr.trim().is_empty() => Understood::Denied(stderr.trim().to_owned()),
        Some(0) => match serde_json::from_str::<Value>(stdout) {
            Ok(answer) if answer.is_object() => match denial(client, &answer) {
                Some(reason) => Understood::Denied(reason.to_owned()),
                None => Understood::Passed,
            },
            _ => Understood::Nonsense(format!("it ended well{}, which is no answer", said())),
        },
        Some(code) => Understood::Nonsense(format!("it ended with code {code}{}", said())),
        None => Understood::Nonsense(format!("it was ended by a signal{}", said())),
    }
}

fn denial(client: Client, answer: &Value) -> Option<&str> {
    let (decision, reason) = match client {
        Client::Claude | Client::Codex => {
            let output = &answer["hookSpecificOutput"];
            (&output["permissionDecision"], &output["permissionDecisionReason"])
        }
        Client::Gemini => (&answer["decision"], &answer["reason"]),
        Client::Opencode => return answer["deny"].as_str(),
    };
    reason.as_str().filter(|_| matches!(decision.as_str(), Some("deny" | "block")))
}

/// The beginning, on one line.
fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Intent;
    use crate::answer::{Answer, render, render_failure};
    use crate::hook::parse;

    const FILE: &str = "/w/a file";

    fn asked(client: Client) -> crate::HookCall {
        parse(client, call(client, Path::new("/w"), Path::new(FILE)).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn what_is_asked_is_a_write_of_the_file() {
        for client in Client::ALL {
            let intent = asked(client).tool.unwrap().intent().unwrap();
            assert_eq!(intent, Intent::Writes { paths: vec![FILE.into()] }, "{client}");
            let farewell = farewell(client, Path::new("/w")).to_string();
            assert_eq!(parse(client, farewell.as_bytes()).unwrap().event, Event::SessionEnd);
        }
    }

    #[test]
    fn every_answer_is_understood_as_it_was_meant() {
        for client in Client::ALL {
            let call = asked(client);
            let understood = |rendered: crate::Rendered| {
                understand(client, Some(rendered.code.into()), &rendered.stdout, &rendered.stderr)
            };
            let no = Answer::Deny { reason: "held by `x`".to_owned() };
            assert_eq!(understood(render(&call, &no)), Understood::Denied("held by `x`".to_owned()));
            assert_eq!(
                understood(render_failure(Some(&call), "broken")),
                Understood::Denied("broken".to_owned())
            );
            assert_eq!(
                understood(render(&call, &Answer::Allow { context: None, rewrite: None })),
                Understood::Passed
            );
        }
    }

    #[test]
    fn what_is_no_answer_is_known_as_none() {
        for (code, out, err) in [
            (Some(0), "", ""),
            (Some(0), "all right", ""),
            (Some(1), "", "no such command"),
            (Some(2), "", ""),
            (Some(127), "", "sh: mala: not found"),
            (None, "", ""),
        ] {
            let understood = understand(Client::Claude, code, out, err);
            assert!(matches!(understood, Understood::Nonsense(_)), "{code:?} {out} {err}: {understood:?}");
        }
        let lost = understand(Client::Codex, Some(127), "", "sh: mala:\n not found");
        assert_eq!(
            lost,
            Understood::Nonsense("it ended with code 127 and said: sh: mala: not found".to_owned())
        );
    }
}
