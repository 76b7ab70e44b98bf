//! Copies of what held programs print. Their readers must not notice.

use std::fs;

use super::stage::{Stage, code, signal};
use super::{ended, have};

/// A stage on which `turn-log` does not have to wait long.
fn stage(program: &str) -> Stage {
    let stage = Stage::new();
    stage.script("turn-log", program);
    stage.let_all_go();
    stage
}

const BOTH: &str = "#!/bin/bash\nfor i in {1..300}; do echo out $i; echo err $i >&2; done\n";

fn both() -> String {
    (1..=300).map(|i| format!("out {i}\nerr {i}\n")).collect()
}

#[test]
fn output_keeps_its_order_among_the_programs_around_it() {
    let stage = stage(BOTH);
    let end = stage.sh("for i in 1 2 3 4 5; do echo before; $OUT/turn-log; /bin/echo after; done").end();
    assert_eq!(end.out, format!("before\n{}after\n", both()).repeat(5));
    assert_eq!(stage.log().unwrap(), both());
}

#[test]
fn two_streams_go_to_their_own_readers_and_one_log() {
    let stage = stage(BOTH);
    let show = stage.python(
        "import os, subprocess
p = subprocess.run([os.environ['OUT'] + '/turn-log'], capture_output=True, text=True)
print(p.stdout + p.stderr, end='')",
    );
    let own = |stream| (1..=300).map(|i| format!("{stream} {i}\n")).collect::<String>();
    assert_eq!(show.end().out, own("out") + &own("err"));
    let log = stage.log().unwrap();
    let of = |stream| {
        log.lines()
            .filter(|line| line.starts_with(stream))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    assert_eq!((of("out"), of("err"), log.len()), (own("out"), own("err"), both().len()));
}

#[test]
fn a_lot_of_output_comes_through_a_slow_reader() {
    let stage = stage("#!/bin/sh\nseq 300000\n");
    let script = "$OUT/turn-log | (sleep 0.3; sha256sum); sha256sum < $OUT/log; seq 300000 | sha256sum";
    let out = stage.sh(script).end().out;
    let sums: Vec<_> = out.lines().collect();
    assert_eq!(sums.len(), 3);
    assert!(sums[0] == sums[2] && sums[1] == sums[2], "{out}");
}

#[test]
fn sockets_are_captured_like_pipes() {
    let stage = stage(BOTH);
    let show = stage.python(
        "import os, socket, subprocess
a, b = socket.socketpair()
p = subprocess.Popen([os.environ['OUT'] + '/turn-log'], stdout=b, stderr=b); b.close()
while d := a.recv(65536): os.write(1, d)
p.wait()",
    );
    assert_eq!(show.end().out, both());
    assert_eq!(stage.log().unwrap(), both());
}

#[test]
fn node_reads_what_its_child_prints() {
    if !have(&["node"]) {
        return;
    }
    let stage = stage(BOTH);
    let script = "const p = require('child_process').spawnSync(process.env.OUT + '/turn-log', {stdio: ['ignore', 'pipe', 'pipe']});
console.log(p.stdout.toString().split('\\n').length, p.stderr.toString().split('\\n').length, p.status)";
    assert_eq!(stage.play("node", &["-e", script]).end().out, "301 301 0\n");
}

#[test]
fn a_program_notices_that_its_reader_is_gone() {
    let stage = stage("#!/bin/sh\nexec yes\n");
    assert_eq!(stage.sh("$OUT/turn-log | head -n 2").end().out, "y\ny\n");
    assert!(stage.events().contains(&ended("turn-log", signal(13))), "{:?}", stage.events());
    // Also one that lives on: the error comes as ever.
    let program = "#!/bin/bash
trap '' PIPE
while ! test -e $OUT/gone; do sleep 0.01; done
for i in {1..500}; do echo x || exit 3; sleep 0.01; done\n";
    let stage = self::stage(program);
    let end =
        stage.sh("$OUT/turn-log 2>/dev/null | (exec <&-; echo > $OUT/gone); exit ${PIPESTATUS[0]}").end();
    assert_eq!(end.exit.unwrap().code, Some(3), "{}", end.out);
}

#[test]
fn a_child_that_is_left_does_not_hold_up_the_end() {
    let program = "#!/bin/sh\n(while ! test -e $OUT/late; do sleep 0.01; done; echo late) &\necho main\n";
    let stage = stage(program);
    let mut show = stage.sh("$OUT/turn-log; while ! test -e $OUT/over; do sleep 0.01; done");
    stage.await_events("it ended", |events| events.contains(&ended("turn-log", code(0))));
    assert_eq!(show.next(5), "main\n");
    fs::write(stage.out("late"), "").unwrap();
    assert_eq!(show.next(5), "late\n");
    fs::write(stage.out("over"), "").unwrap();
    assert_eq!(show.end().out, "");
    assert_eq!(stage.log().unwrap(), "main\n");
}

#[test]
fn the_last_words_of_a_killed_program_are_captured() {
    let stage = stage("#!/bin/sh\necho words; kill -KILL $$\n");
    let out = stage.sh("$OUT/turn-log | cat").end().out;
    assert!(out.contains("words\n"), "{out}");
    assert_eq!(stage.log().unwrap(), "words\n");
}

#[test]
fn a_log_is_complete_before_anybody_has_read() {
    // More than two pipes hold.
    let stage = stage("#!/usr/bin/python3\nimport os\nos.write(1, b'x' * 180000)\nos.kill(os.getpid(), 9)\n");
    let show = stage.python(
        "import os, subprocess, time
out = os.environ['OUT']
p = subprocess.Popen([out + '/turn-log'], stdout=subprocess.PIPE)
while not os.path.exists(out + '/captured'): time.sleep(0.01)
print(os.path.getsize(out + '/log'), len(p.stdout.read()))",
    );
    assert_eq!(show.end().out, "180000 180000\n");
}

#[test]
fn what_a_program_adds_to_a_file_is_copied_at_the_end() {
    let stage = stage(BOTH);
    for (before, redirection) in [("", ">$OUT/f 2>&1"), ("old\n", ">>$OUT/f 2>&1")] {
        fs::write(stage.out("f"), before).unwrap();
        let end = stage.sh(&format!("$OUT/turn-log {redirection}; echo after >> $OUT/f")).end();
        assert!(end.exit.unwrap().success(), "{}", end.out);
        assert_eq!(fs::read_to_string(stage.out("f")).unwrap(), format!("{before}{}after\n", both()));
        assert!(stage.log().unwrap().starts_with(&both()));
    }
    let end = stage.sh("(echo old; $OUT/turn-log 2>/dev/null) > $OUT/f").end();
    assert!(end.exit.unwrap().success(), "{}", end.out);
    let out: String = (1..=300).map(|i| format!("out {i}\n")).collect();
    assert_eq!(stage.log().unwrap(), out);
}

#[test]
fn a_terminal_stays_a_terminal() {
    let stage = stage("#!/bin/sh\ntest -t 1 && test -t 2 && echo terminal\n");
    let show = stage.python("import os, pty; pty.spawn([os.environ['OUT'] + '/turn-log'])");
    assert_eq!(show.end().out, "terminal\r\n");
    assert_eq!(stage.log(), None);
}
