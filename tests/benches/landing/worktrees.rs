//! The usual alternative, as well as we can write it: every agent in a worktree of its own, and a merge queue that validates all that
//! waits together, finds what is red by halves, and sends conflicts and red work back to be done again from the new tip.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::workload::{Outcome, Workload, git, place};

/// Work that is to be done: an issue, and whether it was sent back.
#[derive(Debug, Clone, Copy)]
struct Task {
    issue: u32,
    is_again: bool,
}

#[derive(Debug, Default)]
struct Board {
    tasks: Vec<Task>,
    /// Issues that have not landed.
    open: u32,
    sent_back: u32,
}

type Shared = Arc<(Mutex<Board>, Condvar)>;

pub(crate) fn run(workload: &Workload) -> Outcome {
    let (dir, root) = place();
    workload.repository(&root);
    // The queue moves the branch, so nobody has it checked out.
    git(&root, &["checkout", "-q", "--detach"]).unwrap();
    let tasks = (0..workload.issues).rev().map(|issue| Task { issue, is_again: false }).collect();
    let board: Shared =
        Arc::new((Mutex::new(Board { tasks, open: workload.issues, sent_back: 0 }), Condvar::new()));
    let (offers, queue) = channel();
    let worktree = |name: &str| {
        let place = dir.path().join(name);
        git(&root, &["worktree", "add", "-q", "--detach", place.to_str().unwrap(), "main"]).unwrap();
        place
    };
    let places: Vec<_> = (0..workload.agents).map(|number| worktree(&format!("agent-{number}"))).collect();
    let merging = worktree("queue");
    let started = Instant::now();
    thread::scope(|scope| {
        for place in &places {
            let (offers, board) = (offers.clone(), board.clone());
            scope.spawn(move || agent(workload, place, &board, &offers));
        }
        drop(offers);
        let (merging, board) = (&merging, &board);
        scope.spawn(move || land(merging, board, &queue));
    });
    let took = started.elapsed();
    let sent_back = board.0.lock().unwrap().sent_back;
    workload.outcome(&root, took, sent_back, Duration::ZERO)
}

fn agent(workload: &Workload, place: &Path, board: &Shared, offers: &Sender<(u32, String)>) {
    while let Some(task) = next(board) {
        git(place, &["checkout", "-q", "--force", "--detach", "main"]).unwrap();
        // Who does it again knows what to do, and has to read what has changed.
        thread::sleep(if task.is_again { workload.think / 2 } else { workload.think });
        workload.write(place, task.issue, task.is_again);
        Workload::test(place);
        git(place, &["add", "-A"]).unwrap();
        git(place, &["commit", "-q", "--allow-empty", "-m", &format!("issue {}", task.issue)]).unwrap();
        let _ = offers.send((task.issue, git(place, &["rev-parse", "HEAD"]).unwrap()));
    }
}

/// What was sent back comes first. Waits while others may still be sent back.
fn next(board: &Shared) -> Option<Task> {
    let mut now = board.0.lock().unwrap();
    loop {
        if let Some(task) = now.tasks.pop() {
            return Some(task);
        }
        if now.open == 0 {
            return None;
        }
        now = board.1.wait(now).unwrap();
    }
}

fn land(place: &Path, board: &Shared, queue: &Receiver<(u32, String)>) {
    while let Ok(first) = queue.recv() {
        let mut waiting = vec![first];
        waiting.extend(queue.try_iter());
        while !waiting.is_empty() {
            waiting = round(place, board, waiting);
            waiting.extend(queue.try_iter());
        }
    }
}

/// Merges and validates what waits, and lands the longest part that is green. Gives what waits for the next round.
fn round(place: &Path, board: &Shared, waiting: Vec<(u32, String)>) -> Vec<(u32, String)> {
    git(place, &["checkout", "-q", "--force", "--detach", "main"]).unwrap();
    let mut stack: Vec<(u32, String, String)> = Vec::new();
    for (issue, commit) in waiting {
        if git(place, &["cherry-pick", "--allow-empty", &commit]).is_some() {
            stack.push((issue, commit, git(place, &["rev-parse", "HEAD"]).unwrap()));
        } else {
            git(place, &["cherry-pick", "--abort"]).unwrap();
            send_back(board, issue);
        }
    }
    let is_green = |count: usize| {
        git(place, &["checkout", "-q", "--force", "--detach", &stack[count - 1].2]).unwrap();
        Workload::test(place)
    };
    let (mut green, mut red) = (0, stack.len() + 1);
    if !stack.is_empty() && is_green(stack.len()) {
        green = stack.len();
    } else if !stack.is_empty() {
        red = stack.len();
        while red - green > 1 {
            let middle = green.midpoint(red);
            if is_green(middle) { green = middle } else { red = middle }
        }
    }
    if green > 0 {
        git(place, &["update-ref", "-m", "landed", "refs/heads/main", &stack[green - 1].2]).unwrap();
        let mut now = board.0.lock().unwrap();
        now.open -= u32::try_from(green).unwrap();
        board.1.notify_all();
    }
    if red <= stack.len() {
        send_back(board, stack[red - 1].0);
    }
    stack.into_iter().skip(red).map(|(issue, commit, _)| (issue, commit)).collect()
}

fn send_back(board: &Shared, issue: u32) {
    let mut now = board.0.lock().unwrap();
    now.tasks.push(Task { issue, is_again: true });
    now.sent_back += 1;
    board.1.notify_all();
}
