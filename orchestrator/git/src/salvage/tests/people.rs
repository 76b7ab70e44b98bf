//! What people had left uncommitted.

use super::*;

#[test]
fn what_a_person_had_staged_is_staged_again() {
    let world = World::new();
    world.write("a", "staged\n");
    world.git(&["add", "a"]);
    world.write("a", "edited\n");
    let before = keep(&world, "r");
    world.write("a", "the agent's\n");
    world.git(&["add", "a"]);
    restore(&world.repo, &owner(), &paths(&["a"]), &before).unwrap();
    assert_eq!((world.status().as_str(), world.read("a").as_str()), ("MM a", "edited\n"));
    assert_eq!(world.git(&["show", ":a"]), "staged");
}

#[test]
fn what_a_person_did_before_the_agent_began_is_put_back_and_what_agents_hold_is_not_taken_for_it() {
    let world = World::new();
    let run = RunId::new("r").unwrap();
    world.write("a", "at the start\n");
    world.write("b", "at the start\n");
    world.write("dir/c", "at the start\n");
    keep(&world, "r");
    world.write("a", "later\n");
    world.git(&["checkout", "-q", "dir/c"]);
    world.write("b", "another agent's\n");
    world.write("new", "another agent's\n");
    world.write("person", "later\n");
    world.git(&["add", "person"]);
    let now = Uncommitted::now(&world.repo).unwrap();
    let before = now.keep_for(&world.repo, &run, &ann(), &paths(&["b", "new"])).unwrap();
    assert_eq!(Before::of(&world.repo, &run, &ann()).unwrap(), before);
    let all = ["a", "b", "dir/c", "new", "person"];
    all.iter().for_each(|name| world.write(name, "the agent's\n"));
    restore(&world.repo, &owner(), &paths(&all), &before).unwrap();
    assert_eq!(world.status(), " M a\n M b\nA  person");
    assert_eq!(["a", "b", "person"].map(|name| world.read(name)), ["later\n", "at the start\n", "later\n"]);
    Before::forget(&world.repo, &run).unwrap();
    assert_eq!(world.git(&["for-each-ref", "refs/mala-runs"]), "");
}

#[test]
fn what_is_kept_for_agents_that_begin_at_the_same_time_is_told_apart() {
    let world = World::new();
    let run = RunId::new("r").unwrap();
    world.write("a", "a person's\n");
    keep(&world, "r");
    let agents: Vec<AgentId> =
        (0..4).map(|number| AgentId::new(format!("agent-{number}")).unwrap()).collect();
    for _ in 0..10 {
        std::thread::scope(|scope| {
            for agent in &agents {
                scope.spawn(|| {
                    Uncommitted::now(&world.repo)
                        .unwrap()
                        .keep_for(&world.repo, &run, agent, &[].into())
                        .unwrap();
                    assert_eq!(Before::damage(&world.repo, &run, agent).unwrap(), []);
                });
            }
        });
    }
}

#[test]
fn what_a_person_had_comes_back_byte_for_byte_whatever_filters_do() {
    let world = World::new();
    world.write(".gitattributes", "*.crlf text eol=crlf\n*.up filter=up\n");
    for (name, value) in [("clean", "tr a-z A-Z"), ("smudge", "tr A-Z a-z")] {
        world.git(&["config", &format!("filter.up.{name}"), value]);
    }
    let files = [("mixed.crlf", "one\r\ntwo\n"), ("x.up", "Mixed Case\n"), ("dir/new\nline", "odd\n")];
    files.iter().for_each(|(name, text)| world.write(name, text));
    symlink("nowhere", world.place("link")).unwrap();
    let before = keep(&world, "r1");
    files.iter().for_each(|(name, _)| world.write(name, "the agent's\n"));
    fs::remove_file(world.place("link")).unwrap();
    let names = ["mixed.crlf", "x.up", "dir/new\nline", "link"];
    restore(&world.repo, &owner(), &paths(&names), &before).unwrap();
    for (name, text) in files {
        assert_eq!(world.read(name), text, "{name}");
    }
    assert_eq!(fs::read_link(world.place("link")).unwrap(), Path::new("nowhere"));
}

#[test]
fn one_file_that_cannot_be_read_is_named_and_keeps_nothing_else_from_being_kept() {
    let world = World::new();
    world.write("a", "the person's\n");
    fs::remove_file(world.place("b")).unwrap();
    assert!(Command::new("mkfifo").arg(world.place("b")).status().unwrap().success());
    let before = keep(&world, "r1");
    let [left] = unreadable(&world.repo, &dirty(&world.repo).unwrap()).try_into().unwrap();
    assert_eq!(left.to_string(), "b (neither a file nor a link)");
    assert_eq!(before.files(&world.repo).unwrap(), paths(&["a"]));
    let error = save(&world.repo, "refs/mala/x/1", &paths(&["a", "b"]), "").unwrap_err();
    assert_eq!(error.to_string(), "cannot read b (neither a file nor a link)", "never saved by halves");
}

#[test]
fn what_is_as_it_will_be_given_back_is_nobodys_work() {
    let world = World::new();
    for name in ["a", "b", "dir/c"] {
        world.write(name, "the person's\n");
    }
    world.git(&["add", "b"]);
    let before = keep(&world, "r");
    let all = paths(&["a", "b", "dir/c"]);
    let unlike = || Unlike::of(&world.repo, &all, &before).unwrap();
    assert!(unlike().is_empty(), "{:?}", unlike());
    world.git(&["add", "a"]);
    world.git(&["reset", "-q", "b"]);
    fs::set_permissions(world.place("dir/c"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(
        (unlike().files, unlike().staged, unlike().all()),
        (paths(&[]), paths(&["a", "b"]), all.clone())
    );
    restore(&world.repo, &owner(), &unlike().all(), &before).unwrap();
    assert!(unlike().is_empty(), "{:?}", unlike());
    world.write("a", "the agent's\n");
    fs::remove_file(world.place("dir/c")).unwrap();
    assert_eq!((unlike().files, unlike().staged), (paths(&["a", "dir/c"]), paths(&[])));
}

/// A conflict without a merge.
fn conflict(world: &World) {
    world.write("a", "stashed\n");
    world.git(&["-c", "user.name=t", "-c", "user.email=t@example.invalid", "stash", "-q"]);
    world.write("a", "committed\n");
    world.git(&["add", "a"]);
    world.commit("meanwhile");
    let mut pop = Command::new("git");
    assert!(
        !pop.current_dir(world.repo.root()).args(["stash", "pop", "-q"]).output().unwrap().status.success()
    );
}

#[test]
fn a_persons_conflict_is_put_back_as_one() {
    let world = World::new();
    conflict(&world);
    let as_it_was = || (world.status(), world.read("a"), world.git(&["ls-files", "--stage", "a"]));
    let was = as_it_was();
    assert!(was.0 == "UU a" && was.1.contains("<<<<<<<"), "{was:?}");
    keep(&world, "r");
    let (now, run) = (Uncommitted::now(&world.repo).unwrap(), RunId::new("r").unwrap());
    let before = now.keep_for(&world.repo, &run, &ann(), &paths(&["a"])).unwrap();
    assert!(Unlike::of(&world.repo, &paths(&["a"]), &before).unwrap().is_empty());
    world.write("a", "the agent's\n");
    restore(&world.repo, &owner(), &paths(&["a"]), &before).unwrap();
    assert_eq!(as_it_was(), was);
    world.git(&["add", "a"]);
    assert_eq!(Unlike::of(&world.repo, &paths(&["a"]), &before).unwrap().staged, paths(&["a"]));
    restore(&world.repo, &owner(), &paths(&["a"]), &before).unwrap();
    assert_eq!(as_it_was(), was);
}

#[test]
fn a_conflict_is_not_saved_as_a_deletion() {
    let world = World::new();
    conflict(&world);
    let saved = save_staged(&world.repo, "refs/mala/x/1.staged", &paths(&["a"]), &[], "staged\n").unwrap();
    assert_eq!(saved, None);
}

#[test]
fn a_staged_submodule_keeps_nothing_from_being_put_back() {
    let world = World::new();
    let stage = || {
        let head = world.git(&["rev-parse", "HEAD"]);
        world.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},a-module")]);
        head
    };
    stage();
    world.commit("a submodule");
    let head = stage();
    world.write("b", "the person's\n");
    let before = keep(&world, "r");
    world.write("b", "the agent's\n");
    restore(&world.repo, &owner(), &before.files(&world.repo).unwrap(), &before).unwrap();
    assert_eq!(world.read("b"), "the person's\n");
    assert!(world.git(&["ls-files", "--stage", "a-module"]).contains(&head), "it is still staged");
}

#[test]
fn one_file_that_cannot_be_put_back_keeps_no_other_one_from_it() {
    let world = World::new();
    world.write("dir/c", "the person's\n");
    world.write("z", "the person's\n");
    let before = keep(&world, "r");
    fs::remove_dir_all(world.place("dir")).unwrap();
    symlink("/nowhere", world.place("dir")).unwrap();
    world.write("z", "the agent's\n");
    restore(&world.repo, &owner(), &paths(&["dir/c", "z"]), &before).unwrap_err();
    assert_eq!(world.read("z"), "the person's\n");
}

#[test]
fn what_an_agent_gives_back_while_it_is_read_is_not_taken_for_a_persons() {
    let world = World::new();
    world.write("a", "an agent's\n");
    world.write("b", "an agent's, too\n");
    world.write("dir/c", "the person's\n");
    let hash = world.git(&["hash-object", "a"]);
    let has_been_read = || {
        let mut look = Command::new("git");
        look.current_dir(world.repo.root()).args(["cat-file", "-e", &hash]).output().unwrap().status.success()
    };
    // Its files are given back before its locks are.
    let is_held = |path: &RepoPath| {
        let is_over = has_been_read();
        if is_over {
            world.git(&["checkout", "-q", "a"]);
            world.write("b", "the person's\n");
        }
        Ok::<_, SalvageError>(!is_over && paths(&["a", "b"]).contains(path))
    };
    let run = RunId::new("r").unwrap();
    let before = Uncommitted::keep_unheld(&world.repo, &run, &ann(), is_held).unwrap();
    let kept = before.saved.as_ref().unwrap();
    assert_eq!(before.files(&world.repo).unwrap(), paths(&["b", "dir/c"]));
    assert_eq!(world.saved(kept, "b"), "the person's");
}

#[test]
fn a_ref_of_a_persons_work_that_was_deleted_is_there_again() {
    let world = World::new();
    world.write("a", "the person's\n");
    let run = RunId::new("r").unwrap();
    let kept = keep(&world, "r").saved.unwrap();
    assert_eq!(Before::damage(&world.repo, &run, &ann()).unwrap(), []);
    for deleted in [&["update-ref", "-d", &kept.name][..], &["update-ref", &kept.name, "HEAD"]] {
        world.git(deleted);
        let damage = Before::damage(&world.repo, &run, &ann()).unwrap();
        let [Damage { files, state: DamageState::Mended, .. }] = damage.as_slice() else {
            panic!("{damage:?}")
        };
        assert_eq!(*files, [RepoPath::from_bytes("a")]);
        assert_eq!(Before::of(&world.repo, &run, &ann()).unwrap().saved, Some(kept.clone()));
    }
    Before::forget(&world.repo, &run).unwrap();
    assert_eq!(Before::damage(&world.repo, &run, &ann()).unwrap(), []);
    assert_eq!(world.git(&["for-each-ref", "refs/mala-runs"]), "");
}

#[test]
fn a_persons_work_that_was_pruned_is_named_as_lost() {
    let world = World::new();
    world.write("a", "the person's\n");
    let run = RunId::new("r").unwrap();
    let kept = keep(&world, "r").saved.unwrap();
    world.git(&["update-ref", "-d", &kept.name]);
    world.git(&["prune", "--expire=now"]);
    let damage = Before::damage(&world.repo, &run, &ann()).unwrap();
    let [Damage { files, state: DamageState::Lost, .. }] = damage.as_slice() else { panic!("{damage:?}") };
    assert_eq!(*files, [RepoPath::from_bytes("a")]);
    Before::forget_others(&world.repo, &[]).unwrap();
    assert_eq!(Before::damage(&world.repo, &run, &ann()).unwrap(), []);
}
