//! Kinds of programs: wherever they come from, they are held before they do anything.

use std::process::Command;

use super::stage::{Stage, code};
use super::{ended, goes, waits};
use crate::world::have;

/// Starts `turn-a`, which makes the file `ran` and exits with 5, and sees that it waits.
fn check(stage: &Stage, what: &str) {
    let show = stage.sh("$OUT/turn-a; echo $?");
    stage.await_waiting(1);
    assert!(!stage.out("ran").exists(), "{what}");
    stage.let_go("turn-a");
    assert_eq!(show.end().out, "5\n", "{what}");
    assert!(stage.out("ran").exists(), "{what}");
    assert_eq!(stage.events(), [waits("turn-a"), goes("turn-a"), ended("turn-a", code(5))], "{what}");
}

fn compile(stage: &Stage, compiler: &str, args: &[&str], source: &str) {
    std::fs::write(stage.out("a.c"), source).unwrap();
    let mut command = Command::new(compiler);
    let compiled =
        command.args(args).arg("-o").arg(stage.out("turn-a")).arg(stage.out("a.c")).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

const WITH_LIBC: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/ran", getenv("OUT"));
    return open(path, O_CREAT | O_WRONLY, 0644) < 0 ? 1 : 5;
}
"#;

/// A program without a library: its first call is the one that makes the file, of which it knows the name.
const WITHOUT_LIBC: &str = r#"
#ifdef __x86_64__
enum { OPENAT = 257, EXIT_GROUP = 231 };
static long call(long n, long a, long b, long c, long d) {
    register long fourth __asm__("r10") = d;
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "0"(n), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
    return r;
}
#else
enum { OPENAT = 56, EXIT_GROUP = 94 };
static long call(long n, long a, long b, long c, long d) {
    register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#endif
void _start(void) {
    call(OPENAT, -100, (long)RAN, 0101, 0644);
    call(EXIT_GROUP, 5, 0, 0, 0);
}
"#;

#[test]
fn scripts_wait() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\necho > $OUT/ran; exit 5\n");
    check(&stage, "shell");
    let stage = Stage::new();
    let python =
        "#!/usr/bin/env python3\nimport os, sys\nopen(os.environ['OUT'] + '/ran', 'w'); sys.exit(5)\n";
    stage.script("turn-a", python);
    check(&stage, "python");
}

#[test]
fn compiled_programs_wait() {
    let ways: [(&str, &[&str]); 5] = [
        ("gcc", &[]),
        ("gcc", &["-static"]),
        ("gcc", &["-static-pie"]),
        ("musl-gcc", &[]),
        ("musl-gcc", &["-static"]),
    ];
    for (compiler, args) in ways.into_iter().filter(|(compiler, _)| have(&[compiler])) {
        let stage = Stage::new();
        compile(&stage, compiler, args, WITH_LIBC);
        check(&stage, &format!("{compiler} {args:?}"));
    }
}

#[test]
fn a_program_without_a_library_waits_at_its_first_notified_call() {
    if !have(&["gcc"]) {
        return;
    }
    let stage = Stage::new();
    let name = format!("-DRAN=\"{}\"", stage.out("ran").display());
    compile(&stage, "gcc", &["-static", "-nostdlib", "-ffreestanding", "-O1", &name], WITHOUT_LIBC);
    check(&stage, "without a library");
}

#[test]
fn a_go_program_waits() {
    if !have(&["go"]) {
        return;
    }
    let stage = Stage::new();
    let source =
        "package main\nimport \"os\"\nfunc main() { os.Create(os.Getenv(\"OUT\") + \"/ran\"); os.Exit(5) }\n";
    std::fs::write(stage.out("a.go"), source).unwrap();
    let mut go = Command::new("go");
    go.args(["build", "-o", "turn-a", "a.go"]).env("CGO_ENABLED", "0").current_dir(stage.out(""));
    assert!(go.envs(stage.world.variables()).status().unwrap().success());
    check(&stage, "go");
}
