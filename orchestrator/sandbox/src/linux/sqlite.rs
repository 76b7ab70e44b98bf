//! SQLite's locks in a process that opens and closes the files of others.
//!
//! SQLite locks its files with `fcntl`, and a lock of that kind belongs to the process: it is gone as soon as the process
//! closes *any* descriptor of the file, whoever opened it and what for. The broker opens what its tree asks for, and mala
//! reads files of the checkout, which may be links to anything. So a program could end its supervisor's locks on the
//! store by having it read. A lock can belong to the open file instead, and other processes see no difference.

use std::ffi::{c_int, c_void};

use libsqlite3_sys::{sqlite3_vfs, sqlite3_vfs_find};

type Fcntl = unsafe extern "C" fn(c_int, c_int, *mut c_void) -> c_int;

/// Lets the locks that SQLite takes in this process last until it gives them back. To be called before SQLite is used.
pub fn keep_sqlite_locks() {
    // SAFETY: SQLite gets itself ready in the first call, and what it returns stays where it is. It calls what it is given
    // with the arguments of `fcntl`, of which the third is always there; on Linux they are passed as if there were no
    // dots in the declaration of `fcntl`.
    unsafe {
        let system: *mut sqlite3_vfs = sqlite3_vfs_find(std::ptr::null());
        if let Some(replace) = system.as_ref().and_then(|system| system.xSetSystemCall) {
            let ours = std::mem::transmute::<Fcntl, unsafe extern "C" fn()>(fcntl);
            replace(system, c"fcntl".as_ptr(), Some(ours));
        }
    }
}

unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    let of_the_open_file = match command {
        libc::F_SETLK => libc::F_OFD_SETLK,
        libc::F_SETLKW => libc::F_OFD_SETLKW,
        libc::F_GETLK => libc::F_OFD_GETLK,
        // SAFETY: as the caller wants it.
        other => return unsafe { libc::fcntl(fd, other, argument) },
    };
    // SAFETY: these commands come with the address of such a structure, which the kernel reads and writes as well.
    unsafe {
        (*argument.cast::<libc::flock>()).l_pid = 0;
        libc::fcntl(fd, of_the_open_file, argument)
    }
}
