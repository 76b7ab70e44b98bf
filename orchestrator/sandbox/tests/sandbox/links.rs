//! Names of one file that come to need a lock, or no longer do, while a program runs.

use crate::world::{Mode, Outcome, User, World};

/// Both ways to get a name that needs no lock for a file that does. Before each, a look for links.
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
            "echo a > a.loose; {moves}; cp lent.txt then; touch ignored/over; echo sneaky >> b.loose"
        );
        let outcome = world.sh(Mode::Sandboxed, &script);
        assert_eq!(outcome.code, Some(0), "{way}: {outcome:?}");
        assert_eq!(world.read("lent.txt"), world.read("then"), "{way}");
        assert!(world.read("b.loose").contains("sneaky"), "{way}: it is a file of its own");
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
for f in 'a', 'ignored/a', 'made/a', 'a.loose', 'b.loose': open(f, 'w').close()
os.link('a', 'p/q/a'); os.link('a.loose', 'c.loose')
say(os.rename, 'ignored/a', 'b')
say(os.rename, 'ignored/a', 'd.loose')
say(os.rename, 'ignored/d', 'd')
say(os.rename, 'ignored', 'x')
say(os.rename, 'made', 'x')
say(os.rename, 'made', 'd.loose')
say(exchange, b'plain', b'made')
say(exchange, b'made', b'plain')
say(exchange, b'plain', b'ignored/d')
say(os.rename, 'a', 'ignored/b')
say(os.rename, 'p', 'ignored/p')
say(os.rename, 'c.loose', 'ignored/b')
say(os.rename, 'a', 'd.loose')
say(os.rename, 'p', 'p.loose')
say(os.rename, 'c.loose', 'd')
say(os.link, 'a', 'ignored/b')
say(os.link, 'ignored/a', 'b')
say(os.link, 'b.loose', 'ignored/b')
say(os.link, 'ignored/a', 'd.loose')
say(os.link, 'b.loose', 'b')
say(name, 'ignored', 'b')
say(name, OUT, 'b')
print('done:')
say(os.rename, 'ignored/a', 'made/b')
say(os.link, 'made/a', 'ignored/c')
say(os.rename, 'ignored/d', 'made/d')
say(exchange, b'made/b', b'ignored/c')
say(name, 'ignored', 'made/e')
say(name, '.', 'e')
say(os.rename, 'plain', 'x')
os.unlink('p/q/a')
for i in range(5): open('p/%d' % i, 'w').close()
say(os.rename, 'a', 'd.loose')
say(os.rename, 'd.loose', 'a')
say(os.rename, 'p', 'p.loose')
say(os.rename, 'p.loose', 'p')
say(os.rename, 'a', 'ignored/f')
say(os.rename, 'b.loose', 'ignored/g')
say(os.rename, 'p', 'ignored/p')
"#;

#[test]
fn folders_that_landlock_allows_are_like_a_file_system_of_their_own() {
    let world = World::new(User::Myself);
    let outcome = Outcome::of(world.command(Mode::Sandboxed, "python3", &["-c", MOVES]).spawn().unwrap());
    let expected = ["EXDEV\n".repeat(22), "done:\n".to_owned(), "done\n".repeat(14)].concat();
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

#[test]
fn a_folder_that_is_renamed_to_an_exempt_one_is_made_of_a_spare_one() {
    let few = "mkdir -m 750 t.new; echo 1 > t.new/1; mkdir t.new/d; echo 2 > t.new/d/2; mv t.new made";
    let look = "stat -c '%n %a' made; cat made/1 made/d/2; ls t.new 2>&1";
    let world = World::new(User::Myself);
    let outcome = world
        .sh(Mode::Sandboxed, &format!("{few}; {look}; python3 -c 'import os; os.rename(\"made\", \"x\")'"));
    assert_eq!(outcome.out, "made 750\n1\n2\nls: cannot access 't.new': No such file or directory\n");
    assert!(outcome.err.contains("Invalid cross-device link"), "it has become one that stays: {outcome:?}");
    let many = "mkdir t.new; touch t.new/1 t.new/2 t.new/3 t.new/4 t.new/5; mv t.new made; ls made; mv -T made x; ls x | wc -l";
    let outcome = World::new(User::Myself).sh(Mode::Sandboxed, many);
    assert_eq!(outcome.out, "1\n2\n3\n4\n5\n5\n", "{outcome:?}");
}

/// Ways for a link to come into a folder that was just made and that files are being made in. Each prints how a write through
/// the link ends.
const NEW_FOLDERS: &str = r#"
import errno, os, time
def write(path):
    try: open(path, 'w').write(path)
    except OSError as e: return errno.errorcode[e.errno]
    return 'done'
def fill(folder): return {write('ignored/%s/%d' % (folder, i)) for i in range(3)}
def put(folder, to):
    os.mkdir('ignored/' + folder); fill(folder)
    os.symlink(to, 'ignored/%s/link' % folder)
def rename(folder, to):
    os.symlink(to, 'ignored/link')
    os.mkdir('ignored/' + folder); fill(folder)
    os.rename('ignored/link', 'ignored/%s/link' % folder)
def double(folder, to):
    os.symlink(to, 'ignored/link')
    os.mkdir('ignored/' + folder); fill(folder)
    os.link('ignored/link', 'ignored/%s/link' % folder, follow_symlinks=False)
    os.unlink('ignored/link')
def replace(folder, to):
    os.mkdir('ignored/old'); os.symlink(to, 'ignored/old/link')
    os.mkdir('ignored/' + folder); fill(folder)
    for i in range(3): os.unlink('ignored/%s/%d' % (folder, i))
    os.rename('ignored/old', 'ignored/' + folder)
def before(folder, to):
    os.mkdir('ignored/' + folder); os.symlink(to, 'ignored/%s/link' % folder)
    try: os.mkdir('ignored/' + folder)
    except FileExistsError: fill(folder)
# By then it is known that no hard link leads out, and much is left to the kernel.
write('ignored/first'); time.sleep(0.3)
for way in put, rename, double, replace, before:
    way(way.__name__, '../../free.txt')
    print(way.__name__, write('ignored/%s/link' % way.__name__), open('free.txt').read())
    way(way.__name__ + '-held', '../../sub/held.txt')
    print(way.__name__, write('ignored/%s-held/link' % way.__name__))
print(fill('put'), sorted(os.listdir('ignored/put')))
"#;

#[test]
fn links_that_come_into_new_folders_lead_where_they_lead() {
    for user in User::all() {
        let world = World::new(user);
        let command = world.command(Mode::Sandboxed, "python3", &["-c", NEW_FOLDERS]).spawn();
        let outcome = Outcome::of(command.unwrap());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let mut expected = String::new();
        for way in ["put", "rename", "double", "replace", "before"] {
            expected += &format!("{way} done ignored/{way}/link\n{way} EACCES\n");
        }
        expected += "{'done'} ['0', '1', '2', 'link']\n";
        assert_eq!(outcome.out, expected, "{outcome:?}");
        assert_eq!(world.read("sub/held.txt"), "held by someone else\n");
    }
}
