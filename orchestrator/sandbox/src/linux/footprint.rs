//! How much memory a supervisor takes. There is one for every agent, and it lives as long.

use std::ffi::c_void;
use std::ptr;

use libc::{c_int, dl_phdr_info, size_t};
use rustix::mm::{Advice, madvise};

/// Lets all threads share one heap. By default each has its own, and what one of them gave back is of no use to the others.
pub(crate) fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number that is read when a thread asks for its heap.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Takes the program's code out of this process's memory. Most of it was only needed to start, and what is needed again comes
/// back from the system's cache by itself.
pub(crate) fn let_go_of_code() {
    // SAFETY: the function gets what it is made for, and is called before this returns.
    unsafe { libc::dl_iterate_phdr(Some(let_go_of_first), ptr::null_mut()) };
}

/// Called with the program first, and then with its libraries.
unsafe extern "C" fn let_go_of_first(info: *mut dl_phdr_info, _size: size_t, _data: *mut c_void) -> c_int {
    // SAFETY: both are valid as long as the call takes.
    let (base, headers) = unsafe {
        let info = &*info;
        (info.dlpi_addr, std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)))
    };
    for header in headers {
        // What the program may write to exists nowhere else.
        let is_code = header.p_flags & (libc::PF_X | libc::PF_W) == libc::PF_X;
        if header.p_type != libc::PT_LOAD || !is_code {
            continue;
        }
        let page = rustix::param::page_size();
        let (from, to) = (base + header.p_vaddr, base + header.p_vaddr + header.p_filesz);
        let (from, to) = (from as usize / page * page, to as usize / page * page);
        // SAFETY: the program cannot have written there, so the same is there again when it is read.
        let _as_before = unsafe { madvise(from as *mut c_void, to - from, Advice::LinuxDontNeed) };
    }
    1 // no libraries
}
