//! Names of one file that come to need a lock, or no longer do, while a program runs.

use crate::world::{Mode, Outcome, User, World};

/// Both ways to get a name that needs no lock for a file that does. Before each, a look for links: what was seen
/// then is not true any more.
const WAYS: [(&str, &str); 2] = [
    ("a name that moves in", "ln a.loose b.loose; echo look >> b.loose; mv a.loose lent.txt"),
    (
        "a name that moves out",
        "ln a.loose b.loose; echo look >> b.loose; echo new > lent.txt; ln lent.txt x; rm b.loose; mv x b.loose",
    ),
];

#[test]
fn a_name_that_needs_no_lock_is_no_way_to_a_file_that_does() {
    for (way, moves) in WAYS {
        let world = World::new(User::Myself);
        let script = format!(
            "echo a > a.loose; {moves}; echo own >> b.loose; touch ignored/over; echo sneaky >> b.loose"
        );
        let outcome = world.sh(Mode::Sandboxed, &script);
        let lent = world.read("lent.txt");
        assert!(lent.contains("own") && !lent.contains("sneaky"), "{way}: {lent:?}, {outcome:?}");
        assert_eq!(world.read("b.loose"), lent, "{way}: both are one file");
    }
}

/// Prints how each call ends.
const MOVES: &str = r#"
import errno, os
from kernel import *
def say(what, *args):
    try: what(*args); print('done')
    except OSError as e: print(errno.errorcode[e.errno])
def checked(result):
    if result < 0: raise OSError(ctypes.get_errno(), '')
def exchange(a, b): checked(libc.renameat2(AT_FDCWD, a, AT_FDCWD, b, 2))
def name(folder, to):
    fd = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o644)
    checked(libc.linkat(AT_FDCWD, b'/proc/self/fd/%d' % fd, AT_FDCWD, to.encode(), 0x400))
os.makedirs('p/q'); os.mkdir('ignored/d'); os.mkdir('made'); os.mkdir('plain')
for f in 'a', 'ignored/a', 'made/a', 'a.loose': open(f, 'w').close()
say(os.rename, 'a', 'ignored/b')
say(os.rename, 'ignored/a', 'b')
say(os.rename, 'a.loose', 'ignored/b')
say(os.rename, 'p', 'ignored/p')
say(os.rename, 'ignored/d', 'd')
say(os.rename, 'ignored', 'x')
say(os.rename, 'made', 'x')
say(exchange, b'plain', b'made')
say(exchange, b'made', b'plain')
say(os.link, 'a', 'ignored/b')
say(os.link, 'ignored/a', 'b')
say(name, 'ignored', 'b')
say(name, OUT, 'b')
print('within')
say(os.rename, 'ignored/a', 'made/b')
say(os.link, 'made/a', 'ignored/c')
say(os.rename, 'ignored/d', 'made/d')
say(exchange, b'made/b', b'ignored/c')
say(name, 'ignored', 'made/e')
say(name, '.', 'e')
say(os.rename, 'plain', 'x')
"#;

#[test]
fn folders_that_landlock_allows_are_like_a_file_system_of_their_own() {
    let world = World::new(User::Myself);
    let outcome = Outcome::of(world.command(Mode::Sandboxed, "python3", &["-c", MOVES]).spawn().unwrap());
    let expected = ["EXDEV\n".repeat(13), "within\n".to_owned(), "done\n".repeat(7)].concat();
    assert_eq!(outcome.out, expected, "{outcome:?}");
}

#[test]
fn a_folder_made_later_is_like_any_other() {
    let look = "stat -c '%n %a %U %G' made; mv made moved 2>&1; stat -c %a moved/x";
    for prepare in ["umask 077", "umask 002", "chmod g+s .", "setfacl -d -m u:1:rwx ."] {
        let made = |mode| {
            let world = World::new(User::Myself);
            let script = format!(
                "{prepare} 2>/dev/null; mkdir made; mkdir made/x; {look}; for i in $(seq 20); do mkdir made made/x && \
                 touch made/x/y && rm -r made; done; mkdir made/; mkdir made; echo $?; ls -a made; ls .git/mala/spares"
            );
            (world.sh(mode, &script).out, std::fs::read_dir(world.root().join(".git/mala/spares")))
        };
        let (bare, _) = made(Mode::Bare);
        let (sandboxed, left) = made(Mode::Sandboxed);
        assert!(bare.contains("made ") && sandboxed.starts_with(&bare), "{prepare}: {bare} {sandboxed}");
        assert_eq!(left.unwrap().count(), 0, "none is left behind");
    }
}
