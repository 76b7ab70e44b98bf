use super::*;

struct World {
    dir: tempfile::TempDir,
    events: mpsc::Receiver<(IssueId, SessionEvent)>,
    session: Box<dyn Session>,
}

fn start_script(script: &str, stdin: Option<&str>) -> World {
    start_client(Kind::Command, script, stdin)
}

fn start_client(kind: Kind, script: &str, stdin: Option<&str>) -> World {
    let dir = tempfile::tempdir().unwrap();
    let (sender, events) = mpsc::channel(16);
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(script);
    let spec = ProcessSpec {
        reach: Reach::Group,
        home: None,
        issue: IssueId::new("x").unwrap(),
        kind,
        command,
        stdin: stdin.map(str::to_owned),
        model: None,
        spent: Usage::default(),
        log: dir.path().join("x.log"),
        failure_file: dir.path().join("failure"),
    };
    let session = start(spec, sender).unwrap();
    World { dir, events, session }
}

impl World {
    /// Everything it tells until it ends.
    async fn end(&mut self) -> (usize, SessionEnd) {
        let mut told = 0;
        loop {
            let event = timeout(Duration::from_secs(30), self.events.recv()).await.expect("it ends");
            match event.expect("the end is told").1 {
                SessionEvent::Progress { .. } => told += 1,
                SessionEvent::Ended(ended) => return (told, *ended),
            }
        }
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_session_gets_its_prompt_and_leaves_its_words() {
    let mut world = start_script("cat; echo oops >&2; printf 'no newline'; exit 3", Some("the prompt\n"));
    let (_, ended) = world.end().await;
    assert_eq!(ended.report.message.as_deref(), Some("the prompt\nno newline"));
    assert_eq!((ended.stderr.as_str(), ended.how().as_str()), ("oops\n", "the agent ended with code 3"));
    assert_eq!(
        (world.log("x.log").as_str(), world.log("x.err").as_str()),
        ("the prompt\nno newline\n", "oops\n")
    );
}

#[tokio::test(flavor = "current_thread")]
async fn what_an_agent_does_is_told_though_other_lines_surround_it() {
    let script = r#"echo '{"type":"system","subtype":"hook_started","session_id":"s"}'; echo '{"type":"system","subtype":"hook_response","session_id":"s"}'
        echo '{"type":"assistant","session_id":"s","message":{"id":"m","content":[{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}'"#;
    let mut world = start_client(Kind::Claude, script, None);
    let mut doings = Vec::new();
    while let SessionEvent::Progress { progress, .. } = world.events.recv().await.unwrap().1 {
        doings.extend(progress.into_iter().filter(|one| matches!(one, Progress::Doing(_))));
    }
    assert_eq!(doings, [Progress::Doing("Bash: ls".to_owned())]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_prompt_that_nobody_reads_harms_nobody() {
    let prompt = "x".repeat(1 << 20);
    let mut world = start_script("exit 0", Some(&prompt));
    assert!(world.end().await.1.failure().is_none());
}

#[tokio::test(flavor = "current_thread")]
async fn a_session_ends_when_it_is_asked_to_and_is_killed_when_it_does_not() {
    let mut world = start_script("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done", None);
    world.events.recv().await.unwrap();
    world.session.end(Stop::Ask(Duration::from_secs(20)));
    let (_, ended) = world.end().await;
    assert!(ended.failure().is_none() && ended.report.message.unwrap().ends_with("bye"));

    let mut world = start_script("trap '' TERM; echo up; while :; do sleep 0.01; done", None);
    world.events.recv().await.unwrap();
    world.session.end(Stop::Ask(Duration::from_millis(50)));
    assert_eq!(world.end().await.1.how(), "the agent was killed by signal 9");
}

#[tokio::test(flavor = "current_thread")]
async fn what_a_session_leaves_running_in_its_group_is_killed() {
    let mut world = start_script("sleep 600 & echo $!", None);
    let (_, ended) = world.end().await;
    let child: i32 = ended.report.message.unwrap().trim().parse().unwrap();
    // Whoever inherits it may take a moment to notice.
    for _ in 0..1000 {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{child} is still running");
}

#[tokio::test(flavor = "current_thread")]
async fn a_flood_of_words_is_told_in_few() {
    let mut world = start_script("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done", None);
    let (told, ended) = world.end().await;
    assert!(told < 200, "told {told} times");
    assert!(ended.report.message.unwrap().ends_with("line 19999"));
    assert_eq!(world.log("x.log").lines().count(), 20_000, "the log has it all");
}

#[tokio::test(flavor = "current_thread")]
async fn a_line_without_end_does_not_fill_the_memory() {
    let mut world = start_script("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo end", None);
    let (_, ended) = world.end().await;
    assert!(ended.report.message.unwrap().ends_with("\nend"));
    assert_eq!(world.log("x.log").len(), MAX_LINE_BYTES + 1 + 4);
}

#[tokio::test(flavor = "current_thread")]
async fn a_program_that_is_missing_is_an_error_at_once() {
    let (sender, _events) = mpsc::channel(1);
    let dir = tempfile::tempdir().unwrap();
    let spec = ProcessSpec {
        reach: Reach::Group,
        home: None,
        issue: IssueId::new("x").unwrap(),
        kind: Kind::Command,
        command: std::process::Command::new("/no/such/program"),
        stdin: None,
        model: None,
        spent: Usage::default(),
        log: dir.path().join("log"),
        failure_file: dir.path().join("failure"),
    };
    assert_eq!(start(spec, sender).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[tokio::test(flavor = "current_thread")]
async fn secrets_in_what_an_agent_says_stay_in_its_log() {
    let mut world =
        start_script("echo 'TOKEN=abc123 is what I used'; echo 'password: hunter2' >&2; exit 1", None);
    let (_, ended) = world.end().await;
    assert_eq!(ended.report.message.as_deref(), Some("TOKEN=*** is what I used"));
    assert_eq!(ended.stderr, "password: ***\n");
    assert_eq!(world.log("x.log"), "TOKEN=abc123 is what I used\n", "the log is the user's own");
}
