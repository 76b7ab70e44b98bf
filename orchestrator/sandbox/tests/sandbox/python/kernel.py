"""System calls that python does not wrap."""

import ctypes
import os
import struct
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_void_p
AT_FDCWD = -100
HELD = os.environ["H"]
OUT = os.environ["OUT"]
ROOT = os.environ["ROOT"]

# Since Linux 5.1 new calls have the same number on every architecture; these are older.
OLDER = {
    "x86_64": {
        "open": 2,
        "clone": 56,
        "creat": 85,
        "ptrace": 101,
        "prctl": 157,
        "ioprio_set": 251,
        "unlinkat": 263,
        "renameat": 264,
        "linkat": 265,
        "name_to_handle_at": 303,
        "open_by_handle_at": 304,
        "process_vm_writev": 311,
        "sched_setattr": 314,
        "renameat2": 316,
    },
    "aarch64": {
        "ioprio_set": 30,
        "unlinkat": 35,
        "linkat": 37,
        "renameat": 38,
        "ptrace": 117,
        "prctl": 167,
        "clone": 220,
        "name_to_handle_at": 264,
        "open_by_handle_at": 265,
        "process_vm_writev": 271,
        "sched_setattr": 274,
        "renameat2": 276,
    },
}[os.uname().machine]


def call(which, *args):
    """Makes a call by its number, or one of `OLDER` by its name. Where there is none, the kernel says so."""
    number = OLDER.get(which, -1) if isinstance(which, str) else which
    wrapped = [
        ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) if isinstance(a, int) else a
        for a in args
    ]
    result = libc.syscall(ctypes.c_long(number), *wrapped)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def outsider():
    """Number of the process that `scribe.py` is, and where its memory is to be changed."""
    with open(OUT + "/scribe") as file:
        return map(int, file.read().split())


def await_outsider():
    import time

    while not os.path.exists(OUT + "/scribed"):
        time.sleep(0.01)


def vector(bytes_or_length, address=None):
    """What `process_vm_writev` takes: an address and a length."""
    if address is None:
        vector.kept = ctypes.create_string_buffer(bytes_or_length)
        return vector(len(bytes_or_length), ctypes.addressof(vector.kept))
    return ctypes.create_string_buffer(struct.pack("QQ", address, bytes_or_length))


def openat2(path, flags, resolve=0, dirfd=AT_FDCWD, mode=0):
    how = ctypes.create_string_buffer(struct.pack("QQQ", flags, mode, resolve))
    return call(437, dirfd, os.fsencode(path), how, 24)


def ring_open(path, flags):
    """Opens a file through io_uring."""
    import mmap

    params = ctypes.create_string_buffer(120)
    ring = call(425, 4, params)
    words = struct.unpack("30I", params.raw)
    sq, cq = words[10:20], words[20:30]
    rw = mmap.PROT_READ | mmap.PROT_WRITE
    size = max(sq[6] + 4 * words[0], cq[5] + 16 * words[1])
    rings = mmap.mmap(ring, size, mmap.MAP_SHARED, rw, offset=0)
    entries = mmap.mmap(ring, 64 * words[0], mmap.MAP_SHARED, rw, offset=0x10000000)
    name = ctypes.create_string_buffer(os.fsencode(path))
    entry = struct.pack("<BBHiQQIIQ", 18, 0, 0, AT_FDCWD, 0, ctypes.addressof(name), 0o600, flags, 1)
    entries[: len(entry)] = entry
    rings[sq[6] : sq[6] + 4] = struct.pack("I", 0)
    rings[sq[1] : sq[1] + 4] = struct.pack("I", 1)
    call(426, ring, 1, 1, 1, 0, 0)


def open_with_int80(path, flags):
    """Opens a file with the 32-bit call of old."""
    memory = libc.mmap(None, ctypes.c_size_t(8192), 7, 0x62, -1, ctypes.c_long(0))
    name = os.fsencode(path) + b"\0"
    ctypes.memmove(memory + 4096, name, len(name))
    code = b"\x53\xb8\x05\0\0\0\xbb" + struct.pack("<I", memory + 4096)
    code += b"\xb9" + struct.pack("<I", flags) + b"\xba\0\0\0\0\xcd\x80\x5b\xc3"
    ctypes.memmove(memory, code, len(code))
    return ctypes.CFUNCTYPE(ctypes.c_int)(memory)()


def race(seconds, swap, strike):
    """Swaps in one thread and strikes in another."""
    import threading
    import time

    end = time.monotonic() + seconds

    def swapping():
        while time.monotonic() < end:
            try:
                swap()
            except OSError:
                pass

    thread = threading.Thread(target=swapping)
    thread.start()
    while time.monotonic() < end:
        try:
            strike()
        except OSError:
            pass
    thread.join()


def race_of_text(safe, strike):
    """Strikes with a path that is now `safe`, now that of the held file."""
    safe, bad = safe.ljust(200, b"\0"), HELD.encode().ljust(200, b"\0")
    text = ctypes.create_string_buffer(safe, 256)

    def swap():
        ctypes.memmove(text, safe, 200)
        ctypes.memmove(text, bad, 200)

    race(1.0, swap, lambda: strike(text))


# Access for everybody and the right to run it for the owner: another mode.
ACL = struct.pack('<I' + 3 * 'HHI', 2, 0x01, 7, 0xffffffff, 0x04, 4, 0xffffffff, 0x20, 4, 0xffffffff)


def victim():
    return open(OUT + '/victim').read().strip()


def typed(terminal):
    os.write(terminal, b'echo x > sub/held.txt; echo > $OUT/typed\n')
    for _ in range(100):
        if os.path.exists(OUT + '/typed'):
            break
        time.sleep(0.02)
