//! What tells one program in a process from the next.

use std::fs;

use crate::linux::task::Task;

/// `AT_RANDOM`: where the kernel has put 16 random bytes.
const RANDOM: u64 = 25;

/// The marks that the kernel leaves in a process's memory when it loads a program: where things are, and some random bytes.
/// Two loads of the same program differ in the latter, and mostly in the former.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// Nothing if it cannot be read, as for a program that nobody may look into.
    auxiliary: Vec<u8>,
    random: [u64; 2],
}

impl Image {
    pub(super) fn of(pid: u32) -> Self {
        let auxiliary = fs::read(format!("/proc/{pid}/auxv")).unwrap_or_default();
        let address = random_address(&auxiliary);
        let random = address.and_then(|address| Task { tid: pid }.read_words(address).ok());
        Self { auxiliary, random: random.unwrap_or_default() }
    }
}

fn random_address(auxiliary: &[u8]) -> Option<u64> {
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
    auxiliary.chunks_exact(16).find_map(|pair| {
        let (kind, value) = pair.split_at(8);
        (word(kind)? == RANDOM).then(|| word(value))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_its_image_until_it_becomes_another_program() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "echo; read line; exec sh -c 'echo; read line'"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        // A parent may go on before the new program's marks are laid out; once it speaks, they are there.
        std::io::Read::read_exact(&mut output, &mut [0]).unwrap();
        let first = Image::of(child.id());
        assert!(!first.auxiliary.is_empty());
        assert_ne!(first.random, [0, 0]);
        assert_eq!(first, Image::of(child.id()));
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, b"\n").unwrap();
        std::io::Read::read_exact(&mut output, &mut [0]).unwrap();
        let second = Image::of(child.id());
        assert_ne!(first.random, second.random);
        drop(input);
        child.wait().unwrap();
    }
}
