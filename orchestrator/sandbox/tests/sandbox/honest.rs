//! Work that must go on as if there were no sandbox.

use crate::world::{HELD, Mode, User, World, have, in_parallel};

struct Work {
    name: &'static str,
    needs: &'static [&'static str],
    /// Must succeed with and without the sandbox, and print the same.
    script: &'static str,
}

const fn work(name: &'static str, needs: &'static [&'static str], script: &'static str) -> Work {
    Work { name, needs, script }
}

#[rustfmt::skip]
const WORK: &[Work] = &[
    work("reads the held file", &[], "cat sub/held.txt; test -r sub/held.txt"),
    work("creates files", &[], "echo a > new; echo b >> new; cat new; stat -c %a new"),
    work("creates files with the caller's umask", &[], "umask 077; echo a > n1; mkdir d1; umask 002; echo b > n2; mkdir d2; mkfifo p; umask 0; echo c > n3; mkdir d3; stat -c '%n %a' n1 d1 n2 d2 p n3 d3"),
    work("makes files where a folder hands down an access list", &["python3"], r###"python3 -c "
import os, struct
os.mkdir('d')
entries = b''.join(struct.pack('<HHI', tag, 7, 0xffffffff) for tag in (1, 4, 0x20))
try: os.setxattr('d', 'system.posix_acl_default', struct.pack('<I', 2) + entries)
except OSError as error: print(error)
for mask in 0o022, 0o077:
    os.umask(mask); f, g = 'd/f%o' % mask, 'd/g%o' % mask
    open(f, 'w').close(); os.mkdir(g); print(oct(os.stat(f).st_mode), oct(os.stat(g).st_mode))
""###),
    work("changes a free file", &[], "echo x >> free.txt; sed -i s/free/FREE/ free.txt; cat free.txt"),
    work("makes and removes folders", &[], "mkdir -p a/b/c; touch a/b/c/f; rmdir a/b/c 2>/dev/null; rm -r a; mkdir -m 700 z; stat -c %a z; ls"),
    work("moves files and folders", &[], "mkdir a; mv free.txt a/; mv a b; cat b/free.txt; mv -T b c; ls"),
    work("moves out of the tree and back", &[], "mv free.txt $OUT/f; cat $OUT/f; mv $OUT/f back; cat back; ls $OUT"),
    work("saves like an editor", &[], "cp -p free.txt .free.swp; echo more >> .free.swp; mv -f .free.swp free.txt; cat free.txt"),
    work("links", &[], "ln free.txt hard; ln -s free.txt soft; echo x >> hard; echo y >> soft; cat free.txt; readlink soft"),
    // In one program, so that it does not take long.
    work("folders that become links", &["python3"], r###"python3 -c "
import os, shutil
sub, out = os.path.abspath('sub'), os.environ['OUT']
def fill(folder):
    os.mkdir(folder); open(folder + '/f', 'w').close()
def use(folder):
    os.symlink(sub, folder); open(folder + '/f', 'w').write('new'); os.rename(folder + '/f', folder + '/g')
    os.mkdir(folder + '/d'); print(open('sub/g').read(), sorted(os.listdir('sub')))
    os.rmdir(folder + '/d'); os.remove(folder + '/g'); os.remove(folder)
for at in 'ignored', out:
    fill(at + '/a'); os.remove(at + '/a/f'); os.rmdir(at + '/a'); use(at + '/a')
    fill(at + '/b'); os.rename(at + '/b', at + '/c'); use(at + '/b')
    fill(at + '/d'); shutil.rmtree(at + '/d'); use(at + '/d')
    os.mkdir(at + '/e'); fill(at + '/e/f'); os.rename(at + '/e', at + '/g'); os.mkdir(at + '/e'); use(at + '/e/f')
    os.mkdir(at + '/h'); fill(at + '/i'); os.rename(at + '/h', at + '/i-h'); os.rename(at + '/i', at + '/h'); use(at + '/i')
""###),
    work("links within an ignored folder", &[], "echo a > ignored/a; ln ignored/a ignored/b; echo b >> ignored/b; cat ignored/a"),
    work("changes modes", &[], "chmod 600 free.txt; chmod +x free.txt; stat -c %a free.txt; chmod u+w sub/other.txt"),
    work("truncates", &[], "truncate -s 2 free.txt; cat free.txt; truncate -s 5 new; stat -c %s new"),
    work("uses temporary files", &[], "f=$(mktemp); echo x > $f; cat $f; rm $f; d=$(mktemp -d); echo y > $d/y; cat $d/y; mkdir -p $d/a/b; mv $d/y $d/a/b/; rm -r $d"),
    work("writes beside and above the tree", &[], "echo x > ../beside; mkdir -p ../n/m; echo y > ../n/m/f; mv ../beside ../n/; cat ../n/beside ../n/m/f; sed -i s/y/z/ ../n/m/f; chmod 600 ../n/m/f; cat ../n/m/f; rm -r ../n; echo h > ~/.file; cat ~/.file"),
    work("links beside the tree", &[], "echo x > $OUT/a; ln $OUT/a ../b; ln ../b $OUT/c; echo y >> ../b; cat $OUT/a $OUT/c; rm ../b"),
    work("packs and mends its objects", &["git"], "for i in 1 2 3; do echo $i > f$i; git add f$i; git commit -qm $i; done; git repack -qad; git prune; git gc -q; git fsck; git count-objects; git bundle create -q $OUT/b HEAD; git fetch -q $OUT/b; git log --format=%s; find .git/objects -name '*.lock' -o -name 'tmp*'"),
    work("replaces what was beside the tree", &[], "echo a >> ../file; echo b > ../file.tmp; mv ../file.tmp ../file; echo c >> ../file; chmod 600 ../file; cat ../file; rm ../file; echo d > ../file; cat ../file; rmdir ../home; mkdir ../home; echo x > ../home/f; mkdir -p ../home/a/b; echo y > ../home/a/b/c; mv ../home/a ../home/z; cat ../home/f ../home/z/b/c; mv ../out ../out2; echo z > ../out2/n; mkdir ../out; mv ../out2/n ../out/; cat ../out/n; ln ../file ../out2/l; rm -r ../out ../home; ls .."),
    work("uses pipes, here-documents and process substitution", &[], "echo a | tr a b; cat <<< c; cat <(echo d); echo e | tee >(cat >&2) 2>/dev/null"),
    work("writes to devices", &[], "echo a > /dev/null; echo b > /dev/stderr; echo c > /dev/stdout; echo d > /dev/fd/1; cat /dev/null"),
    work("uses a named pipe in the tree", &[], "mkfifo p; (echo through > p) & cat p; wait"),
    work("reads a named pipe that is opened later", &[], "mkfifo p; cat p & sleep 0.1; echo late > p; wait"),
    work("waits at many named pipes at once", &[], "for i in $(seq 90); do mkfifo p$i; (echo $i > p$i) & done; sleep 0.5; for i in $(seq 90); do cat p$i; done; wait; rm p*; ls"),
    work("reopens its own descriptors", &[], "exec 3>free.txt; echo a > /proc/self/fd/3; cat free.txt; exec 4<.; echo b > /proc/self/fd/4/new; cat new"),
    work("writes an unlinked file", &[], "exec 3<>tmp; rm tmp; echo a >&3; cat /proc/self/fd/3; echo b > /proc/self/fd/3; cat /proc/self/fd/3"),
    work("writes where it is", &[], "for i in 1 2 3 4 5; do mkdir -p a ignored/c; (cd a; echo $i >> f; cd ../sub; echo $i >> f; cd ../ignored/c; echo $i >> f); (cd a; echo 1 > g; mv ../a ../z$i; mkdir ../a; echo 2 >> g); done; head a/* z*/* sub/f ignored/c/f"),
    work("python writes where it is", &["python3"], "python3 -c \"
import os, time
os.makedirs('a/b'); root = os.open('.', os.O_RDONLY)
for i in range(50):
    for d in ['a', 'b', '..', '../ignored']: os.chdir(d); open('f', 'a').write(str(i))
    os.fchdir(root)
os.chdir('a'); time.sleep(0.1); open('g', 'w'); os.rename('../a', '../z'); os.mkdir('../a'); open('g', 'a').write('z'); os.rmdir('../a'); os.rename('../z', '../a'); os.fchdir(root)
print(open('a/g').read())
for d in ['a', 'a/b', 'ignored']: print(open(d + '/f').read())
\""),
    work("goes on in a deleted folder", &[], "mkdir d; cd d; rmdir ../d; ! touch x 2>/dev/null; echo ok"),
    work("gets ordinary errors", &[], "for f in nowhere/x / . sub free.txt/x; do ( : > $f ) 2>&1 | sed 's/.*: //'; done; mkdir sub 2>&1; rmdir sub 2>&1; rm sub 2>&1; mv nothing x 2>&1; ln free.txt sub/other.txt 2>&1; true"),
    work("commits", &["git"], "echo x > new; git add new free.txt; git commit -qm second; git log --format=%s; git status --short"),
    work("branches and tags", &["git"], "git branch b; git tag t; git branch --list; git tag; git update-ref -d refs/heads/b; git branch --list"),
    work("commits an edit of a free file only", &["git"], "echo x >> free.txt; git commit -qm edit -- free.txt; git show --stat --format=%s; git gc -q; git fsck"),
    work("clones from and to elsewhere", &["git"], "git clone -q . $OUT/clone; ls $OUT/clone; cd $OUT/clone; echo x > y; git add y; git commit -qm y; git log --format=%s"),
    work("checks out a free file", &["git"], "echo x > free.txt; git checkout -q -- free.txt; cat free.txt"),
    work("python writes, renames, deletes", &["python3"], "python3 -c \"
import os, tempfile, shutil, pathlib
open('a', 'w').write('1'); os.replace('a', 'b'); print(open('b').read()); os.remove('b')
with tempfile.NamedTemporaryFile(dir='.') as f: f.write(b'x'); f.flush(); print(os.path.getsize(f.name))
with tempfile.TemporaryFile(dir='.') as f: f.write(b'x'); f.seek(0); print(f.read())
os.makedirs('x/y/z'); pathlib.Path('x/y/z/f').write_text('t'); shutil.copytree('x', 'w'); shutil.rmtree('x'); print(sorted(os.listdir('w/y/z')))
fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o644); os.write(fd, b'named'); os.link('proc/self/fd/%d' % fd, 'named', src_dir_fd=os.open('/', os.O_RDONLY)); print(open('named').read())
try: open('nowhere/x', 'w')
except FileNotFoundError as e: print(e)
try: os.open('free.txt', os.O_CREAT | os.O_EXCL)
except FileExistsError as e: print(e)
\""),
    work("python in parallel", &["python3"], "python3 -c \"
import concurrent.futures as c
def w(i):
    for j in range(20): open('f%d.%d' % (i, j), 'w').write(str(j))
with c.ThreadPoolExecutor(16) as p: list(p.map(w, range(16)))
with c.ProcessPoolExecutor(4) as p: list(p.map(w, range(16, 32)))
import glob; print(len(glob.glob('f*.*')))
\""),
    work("reads with openat2", &["python3"], "python3 -c \"
from kernel import *
def show(f, path, flags, *a, **k):
    try:
        try: fd = f(path, flags, *a, **k)
        except OSError as e:
            # Programs then use the older call.
            if e.errno != 38 or not flags & PATH: raise
            fd = os.open(path, flags)
        print(oct(os.fstat(fd).st_mode), os.fstat(fd).st_size)
        if not flags & PATH and not os.path.isdir('/proc/self/fd/%d' % fd): print(__import__('fcntl').fcntl(fd, 3) & 3, os.read(fd, 9))
        os.close(fd)
    except OSError as e: print(e.strerror)
PATH = 0o10000000
os.symlink('free.txt', 'soft'); os.symlink('nowhere', 'dangling'); os.symlink(HELD, 'absolute')
for path in 'free.txt', 'sub/held.txt', '.git/config', '.git/hooks', 'sub', 'soft', 'dangling', 'absolute', 'missing', '/dev/null', '/proc/self/comm', OUT, '../file', 'free.txt/':
    for flags in os.O_RDONLY, os.O_RDONLY | os.O_NOFOLLOW, os.O_DIRECTORY, PATH, PATH | os.O_NOFOLLOW:
        for resolve in 0, 8, 16: show(openat2, path, flags, resolve)
os.mkdir('d', 0o111); show(openat2, 'd', PATH)
r, w = os.pipe(); os.write(w, b'piped'); show(openat2, '/proc/self/fd/%d' % r, os.O_RDONLY)
show(openat2, 'free.txt', os.O_RDONLY | os.O_TRUNC); print(os.path.getsize('free.txt'))
show(os.open, OUT + '/../file', os.O_RDONLY | os.O_TRUNC); print(os.path.getsize('../file'))
show(openat2, 'made', os.O_RDWR | os.O_CREAT, 8, mode=0o640); show(openat2, OUT + '/made', os.O_RDWR | os.O_CREAT, mode=0o640); print(os.path.exists(OUT + '/made'))
\""),
    work("binds a socket in the tree", &["python3"], "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.bind('sock'); print(open)\" > /dev/null; test -S sock && echo bound"),
    // A call that the broker has not received yet may be interrupted; one that it has runs to its end, once.
    work("calls interrupted by signals run once", &["python3"], "python3 -c \"
import os, signal
signal.signal(signal.SIGALRM, lambda *a: None); signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
def once(f, *a):
    while True:
        try: return f(*a)
        except InterruptedError: pass
for i in range(300):
    once(os.mkdir, 'd'); once(os.rename, 'd', 'e'); once(os.rmdir, 'e'); once(open, 'f', 'x').close(); once(os.unlink, 'f')
signal.setitimer(signal.ITIMER_REAL, 0); print('once')
\""),
    work("ends with its status while signals come", &["python3"], "python3 -c \"
import os, signal
for i in range(200):
    if os.fork() == 0:
        signal.signal(signal.SIGALRM, lambda *a: None); signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0002)
        for j in range(i * 20): pass
        os._exit(3)
    status = os.wait()[1]
    if status != 3 << 8: print(status)
print('done')
\""),
    // The C library ends a single thread if it is told that the call to end all of them was interrupted.
    work("ends with all of its threads when a signal comes", &["python3"], "python3 -c \"
import os, signal, threading, time
for i in range(200):
    if os.fork() == 0:
        for j in range(2): threading.Thread(target=time.sleep, args=(600,)).start()
        signal.signal(signal.SIGALRM, lambda *a: None); signal.setitimer(signal.ITIMER_REAL, 0.00001 + i % 40 * 0.000003)
        os._exit(3)
    status = os.wait()[1]
    if status != 3 << 8: print(status)
print('done')
\""),
    work("vim saves", &["vim"], "vim -u NONE -es -c '%s/free/VIM/' -c wq free.txt; cat free.txt"),
    work("patches", &["patch"], "printf -- '--- a/free.txt\\n+++ b/free.txt\\n@@ -1 +1 @@\\n-free\\n+patched\\n' | patch -sp1; cat free.txt"),
    work("unpacks archives", &["tar"], "mkdir -p t/u; echo 1 > t/u/1; ln -s 1 t/u/2; chmod 555 t/u/1; tar cf $OUT/t.tar t; rm -rf t; tar xf $OUT/t.tar; ls -l t/u | awk '{print $1, $NF}'"),
    work("compiles", &["gcc"], "echo 'int main(){return 3;}' > m.c; gcc -o m m.c; ./m; echo $?"),
    work("runs what it has just written", &[], "for n in 1 2 3 4 5 6; do (for i in $(seq 100); do printf '#!/bin/true\\n' > p$n; chmod +x p$n; ./p$n || echo $?; done) & done; wait; echo done"),
    work("makes", &["make"], "printf 'a: b\\n\\tcp b a\\nb:\\n\\techo b > b\\n' > Makefile; make -s; cat a"),
    work("runs node", &["node"], "node -e \"const f=require('fs');f.mkdirSync('n/m',{recursive:true});f.writeFileSync('n/m/f','x');f.renameSync('n/m/f','n/g');console.log(f.readFileSync('n/g','utf8'));f.rmSync('n',{recursive:true})\""),
    work("uses a database", &["sqlite3"], "sqlite3 d.db 'pragma journal_mode=wal; create table t(a); insert into t values(1); select * from t'"),
    work("debugs its own children", &["strace"], "strace -o $OUT/trace true; grep -c execve $OUT/trace"),
    work("rights that were given up stay given up", &["setpriv"], "chmod 755 $OUT; setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'echo x > free.txt; chmod 666 free.txt; echo y > new; echo z > ../beside; mkdir d; rm sub/other.txt; chmod 777 $OUT; truncate -s 0 free.txt' 2>&1; stat -c '%n %U %a' * .. ../*; cat free.txt"),
    work("files belong to who made them", &["setpriv"], "chmod 777 . ..; setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'echo x > mine; mkdir d; echo y > d/f; ln -s x s; mv d e; echo z > ../beside; cd e; echo w > g' 2>&1; stat -c '%n %U %G %a' mine e e/f e/g s ../beside 2>&1"),
    work("is nice with its threads and children", &[], "python3 -c \"
import os, threading, time
def all(pid):
    os.sched_setaffinity(pid, os.sched_getaffinity(pid)); os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)); os.setpriority(os.PRIO_PROCESS, pid, 5)
    print(os.getpriority(os.PRIO_PROCESS, pid))
stay = threading.Event(); thread = threading.Thread(target=stay.wait); thread.start()
all(thread.native_id); stay.set(); all(os.getpid()); all(0)
child = os.fork()
if child == 0: os.setsid(); os.close(0); time.sleep(60); os._exit(0)
while os.getpgid(child) != child: pass
all(child); os.setpriority(os.PRIO_PGRP, child, 7); print(os.getpriority(os.PRIO_PGRP, child)); os.kill(child, 9); os.wait()
try: os.setpriority(os.PRIO_PROCESS, child, 7)
except ProcessLookupError: print('gone')\""),
    work("signals its own children", &[], "sleep 9 & kill $!; wait $!; echo $?"),
    work("may have as many files open as before", &[], "ulimit -Sn; ulimit -Hn"),
    work("passes exit codes on", &[], "(exit 3); echo $?; sh -c 'kill -TERM $$'; echo $?"),
];

fn check(work: &Work, user: User) -> Result<(), String> {
    if !have(work.needs) {
        return Ok(());
    }
    let run = |mode| {
        let world = World::new(user);
        let before = world.read(HELD);
        let outcome = world.sh(mode, &format!("set -o pipefail\n{}", work.script));
        assert_eq!(world.read(HELD), before, "{}: honest work leaves the held file alone", work.name);
        (outcome.code, outcome.out.replace(&*world.base().to_string_lossy(), "BASE"), outcome.err)
    };
    let (bare, sandboxed) = (run(Mode::Bare), run(Mode::Sandboxed));
    if (&bare.0, &bare.1) == (&sandboxed.0, &sandboxed.1) {
        return Ok(());
    }
    Err(format!("{}:\n without: {bare:?}\n    with: {sandboxed:?}", work.name))
}

#[test]
fn honest_work_is_not_disturbed() {
    for user in User::all() {
        let results = in_parallel(WORK, |work| check(work, user));
        let broken: Vec<String> = results.into_iter().filter_map(Result::err).collect();
        println!("{user:?}: {} of {} kinds of work pass", WORK.len() - broken.len(), WORK.len());
        assert!(broken.is_empty(), "{user:?}: {}\n{}", broken.len(), broken.join("\n"));
    }
}
