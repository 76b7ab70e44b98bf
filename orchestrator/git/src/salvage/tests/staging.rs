//! What agents stage.

use super::*;

/// Git on behalf of an agent: what it makes of the index is kept.
fn as_agent(world: &World, staged: &Staged, args: &[&str]) {
    let (index, next) = (world.place(".git/index"), world.place(".git/next"));
    fs::copy(&index, &next).unwrap();
    let mut git = Command::new("git");
    git.current_dir(world.repo.root()).args(args).env("GIT_INDEX_FILE", &next);
    assert!(git.status().unwrap().success(), "git {args:?}");
    staged.keep(&index, &next).unwrap();
    fs::rename(next, index).unwrap();
}

fn staged(world: &World) -> Staged {
    Staged::of(world.repo.scope(), &ann())
}

fn take_back(world: &World, staged: &Staged, then: &Oid) {
    let changes = staged.changes(&world.repo).unwrap();
    let entries = staged_by(&world.repo, &changes).unwrap();
    restore_staged(&world.repo, &owner(), &entries, &changes, Some(then)).unwrap();
    staged.forget().unwrap();
}

#[test]
fn what_an_agent_staged_is_told_from_what_others_did_meanwhile() {
    let world = World::new();
    let then = world.repo.resolve("HEAD").unwrap().unwrap();
    let staged = staged(&world);
    as_agent(&world, &staged, &["rm", "-q", "--cached", "a", "b"]);
    for name in ["person", "b"] {
        world.write(name, "a person's\n");
        world.git(&["add", name]);
    }
    as_agent(&world, &staged, &["rm", "-q", "--cached", "dir/c"]);
    staged.sum_up(&world.repo).unwrap();
    as_agent(&world, &staged, &["rm", "-q", "--cached", "person"]);
    as_agent(&world, &staged, &["rm", "-q", "--cached", "b"]);
    world.write("dir/c", "a person's\n");
    world.git(&["add", "dir/c"]);
    take_back(&world, &staged, &then);
    assert_eq!(world.status(), "M  b\nM  dir/c\nA  person");
}

#[test]
fn an_index_that_git_cannot_read_keeps_nothing_from_being_taken_back() {
    let world = World::new();
    let (then, staged) = (world.repo.resolve("HEAD").unwrap().unwrap(), staged(&world));
    as_agent(&world, &staged, &["rm", "-q", "--cached", "a"]);
    let (index, good) = (world.place(".git/index"), fs::read(world.place(".git/index")).unwrap());
    for content in [b"no index".to_vec(), good] {
        fs::write(world.place(".git/next"), content).unwrap();
        staged.keep(&index, &world.place(".git/next")).unwrap();
        fs::rename(world.place(".git/next"), &index).unwrap();
        // As if others had come in between.
        fs::copy(&index, world.place(".git/other")).unwrap();
        fs::rename(world.place(".git/other"), &index).unwrap();
    }
    as_agent(&world, &staged, &["rm", "-q", "--cached", "b"]);
    take_back(&world, &staged, &then);
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "a", "what cannot be known stays");
}

#[test]
fn what_an_agent_committed_stays_and_what_it_staged_after_that_goes() {
    let world = World::new();
    let then = world.repo.resolve("HEAD").unwrap().unwrap();
    let staged = staged(&world);
    for text in ["committed\n", "staged\n"] {
        world.write("a", text);
        as_agent(&world, &staged, &["add", "a"]);
        if text == "committed\n" {
            world.commit("work");
        }
    }
    take_back(&world, &staged, &then);
    assert_eq!((world.status().as_str(), world.git(&["show", ":a"]).as_str()), (" M a", "committed"));
}

#[test]
fn of_agents_that_are_gone_nothing_is_kept_but_what_is_still_needed() {
    let world = World::new();
    let bob = AgentId::new("bob").unwrap();
    for agent in [&ann(), &bob] {
        as_agent(&world, &Staged::of(world.repo.scope(), agent), &["rm", "-q", "--cached", "a"]);
        world.git(&["reset", "-q"]);
    }
    let elsewhere = world.repo.scope().state_dir().join("staged/another-checkout");
    fs::create_dir(&elsewhere).unwrap();
    Staged::forget_others(world.repo.scope(), std::slice::from_ref(&bob));
    let changes =
        [ann(), bob].map(|agent| Staged::of(world.repo.scope(), &agent).changes(&world.repo).unwrap());
    assert_eq!((changes[0].len(), changes[1].len(), elsewhere.exists()), (0, 1, true));
}

#[test]
fn changes_that_were_summed_up_before_a_kill_are_not_summed_up_again() {
    let world = World::new();
    let (then, staged) = (world.repo.resolve("HEAD").unwrap().unwrap(), staged(&world));
    for text in ["one\n", "two\n"] {
        world.write("a", text);
        as_agent(&world, &staged, &["add", "a"]);
        // As if somebody else had come in between, so that they do not become one change.
        fs::copy(world.place(".git/index"), world.place(".git/other")).unwrap();
        fs::rename(world.place(".git/other"), world.place(".git/index")).unwrap();
    }
    let folder = fs::read_dir(world.repo.scope().state_dir().join("staged")).unwrap().next().unwrap();
    let folder = folder.unwrap().path();
    let names = ["2.before", "2.after"].map(|name| folder.join(name));
    let kept = names.clone().map(|name| fs::read(name).unwrap());
    let changes = staged.changes(&world.repo).unwrap();
    names.iter().zip(&kept).for_each(|(name, bytes)| fs::write(name, bytes).unwrap());
    assert_eq!(staged.changes(&world.repo).unwrap(), changes, "killed before the last one was removed");
    world.write("b", "later\n");
    as_agent(&world, &staged, &["add", "b"]);
    take_back(&world, &staged, &then);
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "", "and what comes later counts");
}
