//! Attacks that make system calls directly, several of them against the broker's own reading.

use super::{Attack, Class, python};

/// Somebody outside who does what his memory says.
const SCRIBE: &str = "python3 $PYTHONPATH/scribe.py & while ! test -s $OUT/scribe; do sleep 0.01; done";

/// A shell outside that does what comes through a pipe.
const SHELL: &str = "sleep 5 | sh & echo $! > $OUT/victim";

#[rustfmt::skip]
pub(super) const PYTHON: &[(Class, &[Attack])] = &[
    (Class::Writing, &[
        python("python open w", "f = open('sub/held.txt', 'w'); f.write('x')"),
        python("python open a", "f = open('sub/held.txt', 'a'); f.write('x')"),
        python("python open r+", "f = open('sub/held.txt', 'r+'); f.write('x')"),
        python("python open w+", "f = open('sub/held.txt', 'w+'); f.write('x')"),
        python("python open a+", "f = open('sub/held.txt', 'a+'); f.write('x')"),
        python("pathlib", "import pathlib; pathlib.Path('sub/held.txt').write_text('x')"),
        python("shutil.copy", "import shutil; shutil.copy('free.txt', 'sub/held.txt')"),
        python("created although it is there", "os.write(os.open('sub/held.txt', os.O_WRONLY | os.O_CREAT), b'x')"),
        python("folder descriptor", "os.write(os.open('held.txt', os.O_WRONLY, dir_fd=os.open('sub', os.O_RDONLY)), b'x')"),
        python("folder descriptor, O_PATH", "os.write(os.open('held.txt', os.O_WRONLY, dir_fd=os.open('sub', os.O_PATH)), b'x')"),
        python("fchdir", "os.fchdir(os.open('sub', os.O_PATH)); os.write(os.open('held.txt', os.O_WRONLY), b'x')"),
        python("mmap", "import mmap; f = open('sub/held.txt', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0] = 120; m.flush()"),
        python("sendfile", "os.sendfile(os.open('sub/held.txt', os.O_WRONLY), os.open('free.txt', os.O_RDONLY), 0, 4)"),
        python("copy_file_range", "os.copy_file_range(os.open('free.txt', os.O_RDONLY), os.open('sub/held.txt', os.O_WRONLY), 4)"),
        python("splice", "r, w = os.pipe(); os.write(w, b'x'); os.splice(r, os.open('sub/held.txt', os.O_WRONLY), 1)"),
        python("posix_fallocate", "os.posix_fallocate(os.open('sub/held.txt', os.O_RDWR), 0, 99)"),
    ]),
    (Class::Names, &[
        python("os.replace", "os.replace('free.txt', 'sub/held.txt')"),
        python("os.rename away", "os.rename('sub/held.txt', 'x')"),
        python("os.remove", "os.remove('sub/held.txt')"),
        python("os.truncate", "os.truncate('sub/held.txt', 0)"),
        python("os.truncate of a descriptor", "os.truncate(os.open('sub/held.txt', os.O_RDWR), 0)"),
        python("shutil.move", "import shutil; shutil.move('sub/held.txt', OUT + '/x')"),
        python("shutil.rmtree", "import shutil; shutil.rmtree('sub', ignore_errors=True)"),
        python("read only and truncated", "os.open('sub/held.txt', os.O_RDONLY | os.O_TRUNC)"),
        python("access mode 3 and truncated", "os.open('sub/held.txt', 3 | os.O_TRUNC)"),
        python("fchmod of a read descriptor", "os.fchmod(os.open('sub/held.txt', os.O_RDONLY), 0o600)"),
    ]),
    (Class::Aliases, &[
        python("linkat of a descriptor in /proc", "fd = os.open('sub/held.txt', os.O_RDONLY); call('linkat', AT_FDCWD, b'/proc/self/fd/%d' % fd, AT_FDCWD, b'h', 0x400); open('h', 'w')"),
        python("linkat of an empty path", "fd = os.open('sub/held.txt', os.O_RDONLY); call('linkat', fd, b'', AT_FDCWD, b'h', 0x1000); open('h', 'w')"),
    ]),
    (Class::Aliases, &[
        python("a shell outside, through its input", "typed(openat2('/proc/%s/fd/0' % victim(), os.O_WRONLY))").after(SHELL),
        python("a shell outside, as the first write", "typed(os.open('/proc/%s/fd/0' % victim(), os.O_WRONLY))").after(SHELL),
        python("a shell outside, by its thread", "typed(openat2('/proc/%s/task/%s/fd/0' % (victim(), victim()), os.O_WRONLY))").after(SHELL),
        python("a shell outside, without crossing a mount", "typed(openat2('%s/fd/0' % victim(), os.O_WRONLY, 0, os.open('/proc', os.O_PATH)))").after(SHELL),
    ]),
    (Class::Names, &[
        python("access list", "os.setxattr('sub/held.txt', 'system.posix_acl_access', ACL)"),
        python("access list of a descriptor", "os.setxattr(os.open('sub/held.txt', os.O_RDONLY), 'system.posix_acl_access', ACL)"),
        python("access list through a link", "os.symlink('sub/held.txt', 'l'); os.setxattr('l', 'system.posix_acl_access', ACL)"),
    ]),
    (Class::Interfaces, &[
        python("creat", "call('creat', b'sub/held.txt', 0o644)"),
        python("open", "call('open', b'sub/held.txt', os.O_WRONLY | os.O_TRUNC, 0)"),
        python("openat2", "openat2('sub/held.txt', os.O_WRONLY | os.O_TRUNC)"),
        python("openat2 beneath", "openat2('held.txt', os.O_WRONLY | os.O_TRUNC, 8, os.open('sub', os.O_PATH))"),
        python("openat2 in root", "openat2('/held.txt', os.O_WRONLY | os.O_TRUNC, 16, os.open('sub', os.O_PATH))"),
        python("openat2 in root from outside", "os.symlink('/repo/sub/held.txt', OUT + '/l'); openat2('/out/l', os.O_WRONLY | os.O_TRUNC, 16, os.open(OUT + '/..', os.O_PATH))"),
        python("rename exchanged", "call('renameat2', AT_FDCWD, b'free.txt', AT_FDCWD, b'sub/held.txt', 2)"),
        python("folder exchanged", "os.mkdir('n'); call('renameat2', AT_FDCWD, b'n', AT_FDCWD, b'sub', 2)"),
        python("rename without replacing", "call('renameat2', AT_FDCWD, b'sub/held.txt', AT_FDCWD, b'n', 1)"),
        python("renameat", "call('renameat', os.open('sub', os.O_PATH), b'held.txt', AT_FDCWD, b'n')"),
        python("unlinkat", "call('unlinkat', os.open('sub', os.O_PATH), b'held.txt', 0)"),
        python("fchmodat2", "call(452, AT_FDCWD, b'sub/held.txt', 0o600, 0)"),
        python("fchmodat2 of a descriptor", "call(452, os.open('sub/held.txt', os.O_PATH), b'', 0o600, 0x1000)"),
        python("io_uring", "ring_open('sub/held.txt', os.O_WRONLY | os.O_TRUNC)"),
        python("32-bit call", "open_with_int80(HELD, os.O_WRONLY | os.O_TRUNC)"),
        python("x32 call", "call(0x40000002, b'sub/held.txt', os.O_WRONLY | os.O_TRUNC, 0)"),
        python("file handle", r###"
h = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128)); m = ctypes.c_int()
call('name_to_handle_at', AT_FDCWD, b'sub/held.txt', h, ctypes.byref(m), 0)
call('open_by_handle_at', os.open('.', os.O_RDONLY), h, os.O_WRONLY | os.O_TRUNC)"###),
    ]),
    (Class::Processes, &[
        python("thread", "import threading; t = threading.Thread(target=lambda: open('sub/held.txt', 'w')); t.start(); t.join()"),
        python("double fork and setsid", r###"
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        try: open('sub/held.txt', 'w')
        finally: os.write(w, b'.')
    os._exit(0)
os.read(r, 1)"###),
        python("subprocess", "import subprocess; subprocess.run(['sh', '-c', 'echo x > sub/held.txt'])"),
        python("vfork", "import subprocess; subprocess._USE_VFORK = True; subprocess.run(['tee', 'sub/held.txt'], input=b'x')"),
        python("program in memory", r###"
fd = os.memfd_create('s', 0)
os.write(fd, open('/usr/bin/truncate', 'rb').read())
os.execve('/proc/self/fd/%d' % fd, ['truncate', '-s', '0', 'sub/held.txt'], os.environ)"###),
        python("descriptor from another process of the tree", r###"
import socket
a, b = socket.socketpair()
if os.fork() == 0:
    try: socket.send_fds(b, [b'.'], [os.open('sub/held.txt', os.O_WRONLY | os.O_TRUNC)])
    finally: os._exit(0)
b.close()
socket.recv_fds(a, 1, 1)"###),
    ]),
    (Class::Outsiders, &[
        python("not dumpable", "call('prctl', 4, 0, 0, 0, 0); open('sub/held.txt', 'w')"),
        python("memory of an outside process", "pid, at = outsider(); call('process_vm_writev', pid, vector(b'x'), 1, vector(1, at), 1, 0); await_outsider()").after(SCRIBE),
        python("memory of an outside process in /proc", "pid, at = outsider(); f = open('/proc/%d/mem' % pid, 'r+b', 0); f.seek(at); f.write(b'x'); await_outsider()").after(SCRIBE),
        python("memory of an outside process by openat2", "pid, at = outsider(); fd = call(437, AT_FDCWD, b'/proc/%d/mem' % pid, (ctypes.c_uint64 * 3)(os.O_RDWR, 0, 0), 24); os.pwrite(fd, b'x', at); await_outsider()").after(SCRIBE),
        python("ptrace of an outside process", "pid, at = outsider(); call('ptrace', 16, pid, 0, 0); os.waitpid(pid, 0x40000000); call('ptrace', 5, pid, at, 120); call('ptrace', 17, pid, 0, 0); await_outsider()").after(SCRIBE),
        python("ptrace of an outside process, seized", "pid, at = outsider(); call('ptrace', 0x4206, pid, 0, 0); call('ptrace', 0x4207, pid, 0, 0); os.waitpid(pid, 0x40000000); call('ptrace', 5, pid, at, 120); call('ptrace', 17, pid, 0, 0); await_outsider()").after(SCRIBE),
        python("pidfd_getfd of an outside process", "fd = call(438, os.pidfd_open(int(open(OUT + '/pid').read())), 3, 0); os.write(fd, b'x')").after("(exec 3>>sub/held.txt; echo $BASHPID > $OUT/pid; exec sleep 4 >/dev/null 2>&1) & while ! test -s $OUT/pid; do sleep 0.01; done"),
    ]),
    (Class::Namespaces, &[
        python("new mount", r###"
fd = call(428, AT_FDCWD, b'sub', 1)
os.close(os.open('held.txt', os.O_WRONLY | os.O_TRUNC, dir_fd=fd))"###),
        python("clone with a user namespace", r###"os.unshare = None; pid = call('clone', 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0: os._exit(os.system('echo x > sub/held.txt'))
os.waitpid(pid, 0)"###),
    ]),
    (Class::Races, &[
        python("race of a link", r###"
os.symlink(OUT + '/safe', OUT + '/l'); open(OUT + '/safe', 'w')
def swap():
    os.symlink(HELD, OUT + '/m'); os.replace(OUT + '/m', OUT + '/l')
    os.symlink(OUT + '/safe', OUT + '/m'); os.replace(OUT + '/m', OUT + '/l')
race(1.0, swap, lambda: open(OUT + '/l', 'w').write('x'))"###),
        python("race of a link in the tree", r###"
os.symlink('free.txt', 'l')
def swap():
    os.symlink('sub/held.txt', 'm'); os.replace('m', 'l')
    os.symlink('free.txt', 'm'); os.replace('m', 'l')
race(1.0, swap, lambda: open('l', 'w').write('x'))"###),
        python("race of the current folder", r###"
os.mkdir(OUT + '/d')
def swap():
    os.chdir(OUT + '/d'); os.chdir(ROOT + '/sub')
race(1.0, swap, lambda: open('held.txt', 'w').write('x'))"###),
        python("race of a descriptor", r###"
os.mkdir(OUT + '/d'); a = os.open(OUT + '/d', os.O_PATH); b = os.open('sub', os.O_PATH); d = os.dup(a)
def swap():
    os.dup2(a, d); os.dup2(b, d)
race(1.0, swap, lambda: os.close(os.open('held.txt', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, dir_fd=d)))"###),
        python("race of the path's text", r###"
def strike(text):
    fd = libc.open(text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    if fd >= 0: os.close(fd)
race_of_text((OUT + '/safe').encode(), strike)"###),
        python("race of a rename's text", r###"
def strike(text):
    open(OUT + '/n', 'w'); libc.rename((OUT + '/n').encode(), text)
race_of_text((OUT + '/safe').encode(), strike)"###),
        python("race of a chmod", r###"
open(OUT + '/safe', 'w'); os.symlink(OUT + '/safe', OUT + '/l')
def swap():
    os.symlink(HELD, OUT + '/m'); os.replace(OUT + '/m', OUT + '/l')
    os.symlink(OUT + '/safe', OUT + '/m'); os.replace(OUT + '/m', OUT + '/l')
race(1.0, swap, lambda: os.chmod(OUT + '/l', 0o600))"###),
        python("race of a folder in the tree", r###"
os.mkdir('ignored/d'); os.symlink('ignored/d', 'l')
def swap():
    os.symlink('sub', 'm'); os.replace('m', 'l')
    os.symlink('ignored/d', 'm'); os.replace('m', 'l')
race(1.0, swap, lambda: open('l/held.txt', 'w').write('x'))"###),
        python("race of the path's text in an ignored folder", r###"
def strike(text):
    fd = libc.open(text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    if fd >= 0: os.close(fd)
race_of_text(b'ignored/safe', strike)"###),
        python("race of the path's text in a folder made on the way", r###"
os.mkdir('made')
def strike(text):
    fd = libc.open(text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    if fd >= 0: os.close(fd)
race_of_text(b'made/safe', strike)"###),
        python("race of a rename's text in an ignored folder", r###"
def strike(text):
    open('ignored/n', 'w').close(); libc.rename(b'ignored/n', text)
race_of_text(b'ignored/safe', strike)"###),
        python("race of the text that is moved to an ignored folder", r###"
def strike(text):
    open('ignored/safe', 'w').close(); libc.rename(text, b'ignored/n')
race_of_text(b'ignored/safe', strike)"###),
        python("race of the text that is linked to an ignored folder", r###"
open('ignored/safe', 'w').close()
def strike(text):
    libc.unlink(b'ignored/n'); libc.link(text, b'ignored/n'); open('ignored/n', 'w').write('x')
race_of_text(b'ignored/safe', strike)"###),
        python("race of a link in an ignored folder", r###"
os.symlink('safe', 'ignored/l')
def swap():
    os.symlink('../sub/held.txt', 'ignored/m'); os.replace('ignored/m', 'ignored/l')
    os.symlink('safe', 'ignored/m'); os.replace('ignored/m', 'ignored/l')
race(1.0, swap, lambda: open('ignored/l', 'w').write('x'))"###),
        python("race of a link to another name of the file", r###"
os.symlink('safe', OUT + '/l'); open(OUT + '/safe', 'w')
def swap():
    os.symlink('h', OUT + '/m'); os.replace(OUT + '/m', OUT + '/l')
    os.symlink('safe', OUT + '/m'); os.replace(OUT + '/m', OUT + '/l')
race(1.0, swap, lambda: open(OUT + '/l', 'w').write('x'))"###).after("ln sub/held.txt $OUT/h"),
        python("race of a link to another name of the file in an ignored folder", r###"
os.symlink('safe', 'ignored/l')
def swap():
    os.symlink('h', 'ignored/m'); os.replace('ignored/m', 'ignored/l')
    os.symlink('safe', 'ignored/m'); os.replace('ignored/m', 'ignored/l')
race(1.0, swap, lambda: open('ignored/l', 'w').write('x'))"###).after("ln sub/held.txt ignored/h"),
        python("race of a descriptor of an ignored folder", r###"
os.mkdir('ignored/d'); a = os.open('ignored/d', os.O_PATH); b = os.open('sub', os.O_PATH); d = os.dup(a)
def swap():
    os.dup2(a, d); os.dup2(b, d)
race(1.0, swap, lambda: os.close(os.open('held.txt', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, dir_fd=d)))"###),
        python("race of openat2's flags", r###"
how = (ctypes.c_uint64 * 3)(0, 0, 0)
def swap():
    how[0] = os.O_RDONLY; how[0] = os.O_WRONLY | os.O_TRUNC
race(1.0, swap, lambda: os.close(call(437, AT_FDCWD, b'sub/held.txt', how, 24)))"###),
        python("race of openat2's flags to truncate while reading", r###"
how = (ctypes.c_uint64 * 3)(0, 0, 0)
def swap():
    how[0] = os.O_RDONLY; how[0] = os.O_RDONLY | os.O_TRUNC
race(1.0, swap, lambda: os.close(call(437, AT_FDCWD, b'sub/held.txt', how, 24)))"###),
        python("race of openat2's flags from a mere path", r###"
how = (ctypes.c_uint64 * 3)(0, 0, 0)
def swap():
    how[0] = 0o10000000; how[0] = os.O_RDONLY | os.O_TRUNC
race(1.0, swap, lambda: os.close(call(437, AT_FDCWD, b'sub/held.txt', how, 24)))"###),
        python("race of a link that is truncated while reading", r###"
os.symlink(OUT + '/safe', OUT + '/l'); open(OUT + '/safe', 'w')
def swap():
    os.symlink(HELD, OUT + '/m'); os.replace(OUT + '/m', OUT + '/l')
    os.symlink(OUT + '/safe', OUT + '/m'); os.replace(OUT + '/m', OUT + '/l')
race(1.0, swap, lambda: os.close(os.open(OUT + '/l', os.O_RDONLY | os.O_TRUNC)))"###),
        python("race of a link that is truncated without reading or writing", r###"
os.symlink(OUT + '/safe', OUT + '/l'); open(OUT + '/safe', 'w')
def swap():
    os.symlink(HELD, OUT + '/m'); os.replace(OUT + '/m', OUT + '/l')
    os.symlink(OUT + '/safe', OUT + '/m'); os.replace(OUT + '/m', OUT + '/l')
race(1.0, swap, lambda: os.close(os.open(OUT + '/l', 3 | os.O_TRUNC)))"###),
        python("race of a truncated text from a device", r###"
def strike(text):
    fd = libc.open(text, os.O_RDONLY | os.O_TRUNC)
    if fd >= 0: os.close(fd)
race_of_text(b'/dev/null', strike)"###),
    ]),
    (Class::InodeFlags, &[
        python("inode flags of a read descriptor", "import fcntl; fcntl.ioctl(os.open('sub/held.txt', os.O_RDONLY), 0x40086602, struct.pack('L', 0x80040))"),
        python("file_setattr", "call(469, AT_FDCWD, b'sub/held.txt', ctypes.create_string_buffer(struct.pack('QIIII', 0x80, 0, 0, 0, 0)), 24, 0)"),
    ]),
];
