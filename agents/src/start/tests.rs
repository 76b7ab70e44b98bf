use super::*;

fn profile(name: &str) -> Profile {
    built_in_profiles().into_iter().find(|profile| profile.name == name).unwrap()
}

fn order<'a>(profile: &'a Profile, session: Option<&'a str>) -> Order<'a> {
    Order {
        profile,
        prompt: "do it",
        session,
        mala: "/opt/my mala",
        root: Path::new("/home/ann/checkout"),
        folder: Path::new("/state/agent"),
        home: Path::new("/home/ann"),
        budget: Some(2.5),
        is_root: true,
    }
}

fn made(profile: &Profile, session: Option<&str>) -> LaunchSpec {
    spec(&order(profile, session)).unwrap()
}

fn custom(command: &[&str], prompt_by: PromptBy) -> Profile {
    Profile {
        name: "mine".to_owned(),
        kind: Kind::Command,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        prompt_by,
        env: BTreeMap::from([("MINE".to_owned(), "1".to_owned())]),
        ..profile("claude")
    }
}

#[test]
fn every_client_has_a_profile_that_says_how_to_get_it() {
    let profiles = built_in_profiles();
    let names: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
    assert_eq!(names, ["claude", "codex", "gemini", "opencode"]);
    for profile in &profiles {
        assert_eq!((profile.kind.name(), &profile.command[0]), (profile.name.as_str(), &profile.name));
        assert!(profile.install.is_some());
    }
}

#[test]
fn claude_gets_its_session_its_budget_its_hooks_and_its_prompt_on_stdin() {
    let mut claude = profile("claude");
    claude.model = Some("m".to_owned());
    let spec = made(&claude, Some("s-1"));
    let line = spec.command.join(" ");
    assert!(
        line.starts_with(
            "claude -p --output-format stream-json --verbose --permission-mode bypassPermissions"
        )
    );
    assert!(line.contains("--model m --resume s-1 --max-budget-usd 2.5000 --mcp-config"), "{line}");
    assert!(line.contains("'/opt/my mala' hook claude"), "{line}");
    assert_eq!((spec.stdin.as_deref(), spec.env["IS_SANDBOX"].as_str()), (Some("do it"), "1"));
}

#[test]
fn codex_gets_hooks_it_trusts_and_its_prompt_on_stdin() {
    let codex = profile("codex");
    let spec = made(&codex, Some("t-1"));
    assert_eq!(spec.command[1..3], ["exec", "resume"]);
    assert_eq!(spec.command[spec.command.len() - 2..], ["t-1", "-"]);
    assert!(spec.command.contains(&"--dangerously-bypass-hook-trust".to_owned()));
    assert!(spec.command.iter().any(|arg| arg.starts_with("hooks.PreToolUse=")));
    assert!(!made(&codex, None).command.contains(&"resume".to_owned()));
}

#[test]
fn gemini_has_a_home_of_its_own_that_takes_the_place_of_the_users() {
    let mut gemini = profile("gemini");
    gemini.env.insert("GEMINI_CLI_HOME".to_owned(), "/srv/gemini".to_owned());
    let spec = made(&gemini, None);
    let (home, users) = spec.home.unwrap();
    assert_eq!(users, Path::new("/home/ann"));
    assert_eq!(spec.env["GEMINI_CLI_HOME"], home.path.to_string_lossy(), "the profile's is behind it");
    assert!(home.settings(None).unwrap().contains("hook gemini"));
    assert_eq!(spec.command[spec.command.len() - 2..], ["-p", "do it"]);
}

#[test]
fn opencode_is_given_its_session_and_prompt() {
    let opencode = profile("opencode");
    assert_eq!(
        made(&opencode, Some("o-1")).command[1..],
        ["run", "--format", "json", "--session", "o-1", "do it"]
    );
}

#[test]
fn a_profile_cannot_take_the_hooks_away_unseen() {
    let refusal = |profile: &Profile| spec(&order(profile, None)).unwrap_err().to_string();
    let mut claude = profile("claude");
    claude.command.push("--settings=mine.json".to_owned());
    assert!(refusal(&claude).contains("the profile `claude` sets `--settings`"), "{}", refusal(&claude));
    let mut opencode = profile("opencode");
    opencode.env.insert(OPENCODE_CONFIG.to_owned(), "mine".to_owned());
    assert!(refusal(&opencode).contains("take it out of [agents.opencode]"), "{}", refusal(&opencode));
}

#[test]
fn any_program_gets_its_prompt_the_way_it_likes() {
    let stdin = made(&custom(&["agent", "-x"], PromptBy::Stdin), None);
    assert_eq!((stdin.command.join(" ").as_str(), stdin.stdin.as_deref()), ("agent -x", Some("do it")));
    assert_eq!(stdin.env["MINE"], "1");
    let file = made(&custom(&["agent", "--file={prompt}", "-x"], PromptBy::File), None);
    assert_eq!(file.command, ["agent", "--file=/state/agent/prompt.md", "-x"]);
    assert_eq!(file.files, [(PathBuf::from("/state/agent/prompt.md"), "do it".to_owned())]);
    let argument = made(&custom(&["agent", "-x"], PromptBy::Argument), None);
    assert_eq!((argument.command.join("|").as_str(), argument.stdin), ("agent|-x|do it", None));
}

#[test]
fn what_cannot_work_is_said_beforehand() {
    let empty = custom(&[], PromptBy::Stdin);
    assert!(spec(&order(&empty, None)).unwrap_err().to_string().contains("[agents.mine] command"));
    let program = custom(&["agent"], PromptBy::Argument);
    assert!(matches!(spec(&order(&program, Some("s"))), Err(LaunchError::NoSessions { .. })));
    let long = "x".repeat(LONGEST_ARGUMENT + 1);
    let too_long = spec(&Order { prompt: &long, ..order(&program, None) }).unwrap_err();
    assert!(too_long.to_string().contains("prompt = \"stdin\""), "{too_long}");
}
