//! Telling a person who does not watch: questions, blocked issues, a red branch, a run that stops or ends.
//!
//! Each is told once, beside the run, in their order: to a program, to an address of the web, on the desktop. Who cannot be told
//! is named in the summary; no run waits for that but at its end, and then not for long.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mala_config::NotifySettings;
use mala_core::{AgentId, IssueId, RunId, Timestamp};
use mala_logs::post::post_json;
use mala_logs::secrets::mask;
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use crate::event::{Event, Reporter, StopCause};
use crate::summary::{AttemptResult, Summary};

/// How often an address is tried, and the pause before it is tried again.
const MAX_POSTS: u32 = 3;
const POST_PAUSE: Duration = Duration::from_secs(1);

/// What a notification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Topic {
    Question,
    Blocked,
    BranchRed,
    Budget,
    Stopped,
    Finished,
}

/// What is told. Field names are a contract.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Notification {
    topic: Topic,
    at: Timestamp,
    /// The checkout.
    project: String,
    run: Option<RunId>,
    issue: Option<IssueId>,
    agent: Option<AgentId>,
    text: String,
}

#[derive(Debug)]
enum Message {
    Tell(Box<Notification>),
    End,
}

/// Tells whoever the settings name. Nobody, and without a thread, if they name nobody.
#[derive(Debug)]
pub(crate) struct Notifier {
    project: String,
    worker: Option<Worker>,
}

#[derive(Debug)]
struct Worker {
    messages: UnboundedSender<Message>,
    failures: mpsc::Receiver<Vec<String>>,
    /// How long the last notifications are waited for.
    patience: Duration,
}

impl Notifier {
    pub(crate) fn start(settings: &NotifySettings, project: &Path) -> Self {
        let project = project.display().to_string();
        let sinks = sinks(settings);
        if sinks.is_empty() {
            return Self { project, worker: None };
        }
        let ((messages, receiver), (sender, failures)) = (unbounded_channel(), mpsc::channel());
        let limit = settings.timeout;
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let failed = match runtime {
                Ok(runtime) => runtime.block_on(tell_all(receiver, &sinks, limit)),
                Err(error) => vec![error.to_string()],
            };
            // Nobody waits for it any more.
            let _ = sender.send(failed);
        };
        // Without a thread its end of the channel is gone, which is a failure like any other.
        let _ = thread::Builder::new().name("notify".to_owned()).spawn(work);
        Self { project, worker: Some(Worker { messages, failures, patience: 2 * settings.timeout }) }
    }

    /// Hears what is reported, and passes it on.
    pub(crate) fn listen(&self, next: Box<dyn Reporter>) -> Box<dyn Reporter> {
        match &self.worker {
            None => next,
            Some(worker) => Box::new(Listener {
                messages: worker.messages.clone(),
                project: self.project.clone(),
                run: None,
                told: HashSet::new(),
                next,
            }),
        }
    }

    /// Tells that the run is over. Gives who could not be told something, and why.
    pub(crate) fn finish(self, summary: &Summary) -> Vec<String> {
        let Some(worker) = self.worker else { return Vec::new() };
        let finished = Notification {
            topic: Topic::Finished,
            at: summary.ended_at,
            project: self.project,
            run: Some(summary.run.clone()),
            issue: None,
            agent: None,
            text: outcome(summary),
        };
        // If nobody listens any more, the failures say why.
        let _ = worker.messages.send(Message::Tell(Box::new(finished)));
        let _ = worker.messages.send(Message::End);
        worker
            .failures
            .recv_timeout(worker.patience)
            .unwrap_or_else(|_| vec!["not everybody was told in time (`notify.timeout`)".to_owned()])
    }
}

/// What a run has come to, in a line.
fn outcome(summary: &Summary) -> String {
    let of = |result| -> BTreeSet<&IssueId> {
        let attempts = summary.attempts.iter().filter(|attempt| attempt.result == result);
        attempts.map(|attempt| &attempt.issue).collect()
    };
    let (done, blocked, over) =
        (of(AttemptResult::Done), of(AttemptResult::Blocked), of(AttemptResult::HandedOver));
    let over = over.iter().filter(|issue| !done.contains(*issue) && !blocked.contains(*issue)).count();
    let blocked = blocked.difference(&done).count();
    let parts =
        [(done.len(), "done"), (over, "handed over"), (blocked, "blocked"), (summary.left.len(), "left")];
    let said: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let said = if said.is_empty() { "nothing was to be done".to_owned() } else { said.join(", ") };
    match &summary.stopped {
        Some(why) => format!("{said}; it was stopped: {why}"),
        None => said,
    }
}

struct Listener {
    messages: UnboundedSender<Message>,
    project: String,
    run: Option<RunId>,
    /// What was told, so that it is told once.
    told: HashSet<String>,
    next: Box<dyn Reporter>,
}

impl Reporter for Listener {
    fn report(&mut self, at: Timestamp, event: &Event) {
        if let Event::RunStarted { run, .. } = event {
            self.run = Some(run.clone());
        }
        if let Some((topic, issue, agent, text)) = worth_telling(event)
            && self.told.insert(format!("{topic:?} {issue:?} {text}"))
        {
            let notification = Notification {
                topic,
                at,
                project: self.project.clone(),
                run: self.run.clone(),
                issue: issue.cloned(),
                agent: agent.cloned(),
                text: mask(text).into_owned(),
            };
            // The end of the run says that nobody listens.
            let _ = self.messages.send(Message::Tell(Box::new(notification)));
        }
        self.next.report(at, event);
    }

    fn tick(&mut self) {
        self.next.tick();
    }
}

type Telling<'a> = (Topic, Option<&'a IssueId>, Option<&'a AgentId>, &'a str);

fn worth_telling(event: &Event) -> Option<Telling<'_>> {
    match event {
        Event::NeedsInput { issue, agent, question, .. } => {
            Some((Topic::Question, Some(issue), Some(agent), question))
        }
        Event::HandedOver { issue, agent, reason, is_blocked: true, .. } => {
            Some((Topic::Blocked, Some(issue), Some(agent), reason))
        }
        Event::BranchRed { why } => Some((Topic::BranchRed, None, None, why)),
        Event::Stopping { how, cause: StopCause::Budget } => Some((Topic::Budget, None, None, how)),
        Event::Stopping { how, cause: StopCause::Time | StopCause::Agents } => {
            Some((Topic::Stopped, None, None, how))
        }
        _ => None,
    }
}

/// Who is told.
#[derive(Debug, Clone)]
enum Sink {
    /// A program and its arguments.
    Command(Vec<String>),
    Webhook(String),
    Desktop,
}

fn sinks(settings: &NotifySettings) -> Vec<Sink> {
    let command: Vec<String> = settings.command.split_whitespace().map(str::to_owned).collect();
    let command = (!command.is_empty()).then_some(Sink::Command(command));
    let webhook =
        (!settings.webhook.trim().is_empty()).then(|| Sink::Webhook(settings.webhook.trim().to_owned()));
    command.into_iter().chain(webhook).chain(settings.desktop.then_some(Sink::Desktop)).collect()
}

/// Tells everything to everybody until the end. Gives the failures, each once.
async fn tell_all(mut messages: UnboundedReceiver<Message>, sinks: &[Sink], limit: Duration) -> Vec<String> {
    let mut failures = Vec::new();
    while let Some(Message::Tell(notification)) = messages.recv().await {
        for sink in sinks {
            if let Err(why) = sink.tell(&notification, limit).await
                && !failures.contains(&why)
            {
                failures.push(why);
            }
        }
    }
    failures
}

impl Sink {
    async fn tell(&self, notification: &Notification, limit: Duration) -> Result<(), String> {
        let document = serde_json::to_vec(notification).expect("plain data");
        match self {
            Self::Command(command) => run(command, &document, limit)
                .await
                .map_err(|why| format!("`{}` (`notify.command`) {why}", command.join(" "))),
            // An address may have a secret in it.
            Self::Webhook(address) => {
                post(address, &document, limit).await.map_err(|why| format!("`notify.webhook`: {why}"))
            }
            Self::Desktop => {
                let command = on_desktop(notification);
                run(&command, &[], limit)
                    .await
                    .map_err(|why| format!("`{}` (`notify.desktop`) {why}", command[0]))
            }
        }
    }
}

async fn post(address: &str, document: &[u8], limit: Duration) -> Result<(), String> {
    let mut tries = 1;
    loop {
        match post_json(address, document.to_vec(), limit).await {
            Ok(()) => return Ok(()),
            Err(error) if tries < MAX_POSTS && error.may_pass() => tries += 1,
            Err(error) => return Err(error.to_string()),
        }
        sleep(POST_PAUSE).await;
    }
}

fn on_desktop(notification: &Notification) -> Vec<String> {
    let subject = notification.issue.as_ref().map_or_else(String::new, |issue| format!(" {issue}"));
    let title = format!(
        "mala: {}{subject}",
        serde_json::json!(notification.topic).as_str().unwrap_or_default().replace('_', " ")
    );
    if cfg!(target_os = "macos") {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let script =
            format!("display notification {} with title {}", quoted(&notification.text), quoted(&title));
        return ["osascript", "-e", &script].map(str::to_owned).to_vec();
    }
    ["notify-send", "--app-name=mala", "--", &title, &notification.text].map(str::to_owned).to_vec()
}

/// Runs a program to its end, without a shell.
async fn run(command: &[String], input: &[u8], limit: Duration) -> Result<(), String> {
    let Some((program, args)) = command.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let ran = async {
        let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // It need not read what it is told.
            let _ = stdin.write_all(input).await;
        }
        let output = child.wait_with_output().await.map_err(|error| format!("was lost: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).map(|line| format!(": {}", mask(line)));
        Err(format!("failed ({}){}", output.status, last.unwrap_or_default()))
    };
    timeout(limit, ran)
        .await
        .unwrap_or_else(|_elapsed| Err("was not done in time (`notify.timeout`)".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use tempfile::TempDir;

    use super::*;

    #[derive(Default, Clone)]
    struct Heard(Arc<Mutex<usize>>);

    impl Reporter for Heard {
        fn report(&mut self, _at: Timestamp, _event: &Event) {
            *self.0.lock().unwrap() += 1;
        }
    }

    fn settings(command: &str) -> NotifySettings {
        let timeout = Duration::from_secs(5);
        NotifySettings { command: command.to_owned(), webhook: String::new(), desktop: false, timeout }
    }

    fn asked(question: &str) -> Event {
        Event::NeedsInput {
            issue: IssueId::new("bd-1").unwrap(),
            agent: AgentId::new("alice").unwrap(),
            question: question.to_owned(),
            until: Timestamp::from_millis(0),
        }
    }

    /// Reports `events` to somebody who is told by `settings`. Gives the failures.
    fn told(settings: &NotifySettings, events: &[Event]) -> Vec<String> {
        let notifier = Notifier::start(settings, Path::new("/checkout"));
        let heard = Heard::default();
        let mut reporter = notifier.listen(Box::new(heard.clone()));
        events.iter().for_each(|event| reporter.report(Timestamp::from_millis(7), event));
        assert_eq!(*heard.0.lock().unwrap(), events.len(), "everything is passed on");
        notifier.finish(&Summary::for_test())
    }

    /// A program that writes each line that it is told into a file of its own.
    fn teller(directory: &TempDir) -> (String, impl Fn() -> Vec<serde_json::Value>) {
        let (script, out) = (directory.path().join("tell.sh"), directory.path().join("told"));
        fs::write(&script, format!("cat >> {0}; echo >> {0}\n", out.display())).unwrap();
        let read = move || {
            let text = fs::read_to_string(&out).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        (format!("sh {}", script.display()), read)
    }

    #[test]
    fn what_a_person_should_know_is_told_once_in_its_order_without_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let (command, told_lines) = teller(&directory);
        let red = Event::BranchRed { why: "token=ghp_0123456789abcdefghijklmnopqrstuvwxyz".to_owned() };
        let by_person = Event::Stopping { how: "now".to_owned(), cause: StopCause::Person };
        let warning = Event::Warning { text: "no".to_owned() };
        let events = [asked("Blue?"), warning, red.clone(), asked("Blue?"), by_person, red, asked("Red?")];
        assert_eq!(told(&settings(&command), &events), Vec::<String>::new());
        let lines = told_lines();
        let topics: Vec<&str> = lines.iter().map(|line| line["topic"].as_str().unwrap()).collect();
        assert_eq!(topics, ["question", "branch_red", "question", "finished"]);
        assert_eq!((&lines[0]["issue"], &lines[0]["text"]), (&"bd-1".into(), &"Blue?".into()));
        assert_eq!(lines[0]["project"], "/checkout");
        assert!(!lines[1]["text"].as_str().unwrap().contains("ghp_0"), "{lines:?}");
    }

    #[test]
    fn who_cannot_be_told_is_named_once_and_holds_nobody_up() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("fail.sh");
        fs::write(&script, "echo no such room >&2; exit 3\n").unwrap();
        let failures = told(&settings(&format!("sh {}", script.display())), &[asked("a?"), asked("b?")]);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(
            failures[0].contains("(`notify.command`) failed (exit status: 3): no such room"),
            "{failures:?}"
        );
        let failures = told(&settings("no-such-program-of-anybody"), &[]);
        assert!(failures[0].contains("cannot be started"), "{failures:?}");
        let hanging = NotifySettings { timeout: Duration::from_millis(200), ..settings("sleep 600") };
        let since = Instant::now();
        let failures = told(&hanging, &[]);
        assert!(failures[0].contains("in time (`notify.timeout`)"), "{failures:?}");
        assert!(since.elapsed() < Duration::from_secs(60), "nobody waits for it to end by itself");
        let nowhere = NotifySettings { webhook: "ftp://x/secret".to_owned(), ..settings("") };
        let failures = told(&nowhere, &[]);
        assert!(
            failures[0].starts_with("`notify.webhook`: it is no address") && !failures[0].contains("secret")
        );
    }

    #[test]
    fn an_address_that_fails_is_tried_again() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let webhook = format!("http://{}/", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            ["500 Oh", "204 Fine"].map(|answer| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut got = [0; 4096];
                let length = stream.read(&mut got).unwrap();
                write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    .unwrap();
                String::from_utf8_lossy(&got[..length]).contains("\"topic\":\"finished\"")
            })
        });
        assert_eq!(told(&NotifySettings { webhook, ..settings("") }, &[]), Vec::<String>::new());
        assert_eq!(server.join().unwrap(), [true, true]);
    }

    #[test]
    fn without_anybody_to_tell_nothing_is_started() {
        let notifier = Notifier::start(&settings("  "), Path::new("/checkout"));
        assert!(notifier.worker.is_none());
        assert_eq!(notifier.finish(&Summary::for_test()), Vec::<String>::new());
    }
}
