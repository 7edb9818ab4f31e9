//! The problems of bench/csp on OS threads with crossbeam's channels.

#![allow(unused_mut)] // tokio's receivers have to be

use crossbeam::channel::{bounded as channel, select, Receiver};
use crossbeam::thread::scope;
use std::thread::{sleep, spawn, JoinHandle};

macro_rules! problem {
    ($name:ident($($of:ident: $kind:ty),*) $body:block) => {
        fn $name($($of: $kind),*) -> Time $body
    };
}
macro_rules! count {
    ($name:ident() $body:block) => { fn $name() -> Figures $body };
}
macro_rules! go {
    ($($body:tt)*) => { spawn(move || { $($body)* }) };
}
macro_rules! wait {
    ($done:expr) => { $done };
}
macro_rules! next {
    ($recv:expr) => { $recv.recv().ok() };
}
include!("../problems.rs");

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap()
}

fn thread_to_fiber(n: u64) -> Time {
    spsc(n, 128)
}

fn chan_sync(n: u64) -> Time {
    let (send, recv) = channel::<u64>(0);
    let start = Instant::now();
    let mut value = 0;
    let mut elapsed = Default::default();
    scope(|s| {
        s.spawn(|_| {
            for _ in 0..n {
                send.send(recv.recv().unwrap() + 1).unwrap();
            }
        });
        for _ in 0..n {
            send.send(value).unwrap();
            value = recv.recv().unwrap();
        }
        elapsed = start.elapsed();
    })
    .unwrap();
    check(value == n);
    (n, elapsed)
}

fn many_to_many(n: u64, pairs: u64, capacity: usize) -> Time {
    let (send, recv) = channel::<u64>(capacity);
    let start = Instant::now();
    let mut receivers = vec![];
    for s in 0..pairs {
        let (send, recv) = (send.clone(), recv.clone());
        spawn(move || {
            (s..n).step_by(pairs as usize).for_each(|i| send.send(i).unwrap());
        });
        receivers.push(spawn(move || {
            recv.iter().fold((0u64, 0), |(sum, count), value| (sum + value, count + 1))
        }));
    }
    drop(send);
    let total = receivers.into_iter().fold((0, 0), |(sum, count), receiver| {
        let (my_sum, my_count) = receiver.join().unwrap();
        (sum + my_sum, count + my_count)
    });
    let elapsed = start.elapsed();
    check(total == (sum_below(n), n));
    (n, elapsed)
}

fn select_of_2(n: u64, capacity: usize) -> Time {
    let n = round_up(n, 2);
    let mut received = vec![InOrder::default(); 2];
    let start = Instant::now();
    let c = senders(n, 2, capacity);
    // A channel whose sender has ended would be ready for ever.
    let never = crossbeam::channel::never();
    let (mut a, mut b) = (&c[0], &c[1]);
    for _ in 0..n {
        select! {
            recv(a) -> value => received[0].add(value.unwrap()),
            recv(b) -> value => received[1].add(value.unwrap()),
        }
        if received[0].are(n / 2) {
            a = &never;
        }
        if received[1].are(n / 2) {
            b = &never;
        }
    }
    let elapsed = start.elapsed();
    received.iter().for_each(|one| check(one.are(n / 2)));
    (n, elapsed)
}

fn select_of_8(n: u64, capacity: usize) -> Time {
    let n = round_up(n, 8);
    let mut received = vec![InOrder::default(); 8];
    let start = Instant::now();
    let c = senders(n, 8, capacity);
    let never = crossbeam::channel::never();
    let mut of: Vec<&Receiver<u64>> = c.iter().collect();
    for _ in 0..n {
        let (chosen, value) = select! {
            recv(of[0]) -> value => (0, value),
            recv(of[1]) -> value => (1, value),
            recv(of[2]) -> value => (2, value),
            recv(of[3]) -> value => (3, value),
            recv(of[4]) -> value => (4, value),
            recv(of[5]) -> value => (5, value),
            recv(of[6]) -> value => (6, value),
            recv(of[7]) -> value => (7, value),
        };
        received[chosen].add(value.unwrap());
        if received[chosen].are(n / 8) {
            of[chosen] = &never;
        }
    }
    let elapsed = start.elapsed();
    received.iter().for_each(|one| check(one.are(n / 8)));
    (n, elapsed)
}

fn select_uncontended(n: u64) -> Time {
    let (send_a, a) = channel(1);
    let (send_b, b) = channel(1);
    let start = Instant::now();
    send_a.send(0u64).unwrap();
    for _ in 0..n {
        select! {
            recv(a) -> value => send_b.send(value.unwrap() + 1).unwrap(),
            recv(b) -> value => send_a.send(value.unwrap() + 1).unwrap(),
        }
    }
    let last = if n % 2 == 0 { a.recv() } else { b.recv() };
    let elapsed = start.elapsed();
    check(last == Ok(n));
    (n, elapsed)
}

fn select_nonblock(n: u64) -> Time {
    let (_keep, no_sender) = channel::<u64>(0);
    let (no_receiver, _keep) = channel::<u64>(0);
    let (_keep, empty) = channel::<u64>(1);
    let (full, _keep) = channel::<u64>(1);
    let mut taken = 0;
    let start = Instant::now();
    for _ in 0..n {
        select! { recv(no_sender) -> _ => {}, default => taken += 1 }
        select! { send(no_receiver, 0) -> _ => {}, default => taken += 1 }
        select! { recv(empty) -> _ => {}, default => taken += 1 }
        select! { send(full, 0) -> _ => {}, default => taken += 1 }
    }
    let elapsed = start.elapsed();
    check(taken == 4 * n - 1);
    (n, elapsed)
}

fn coarse_jobs(n: u64, microseconds: u64) -> Time {
    let steps = microseconds * 600;
    let (send_jobs, jobs) = channel::<u64>(16);
    let (send_results, results) = channel::<u64>(16);
    let start = Instant::now();
    for _ in 0..4 {
        let (jobs, results) = (jobs.clone(), send_results.clone());
        spawn(move || {
            for job in jobs {
                results.send(compute(job, steps)).unwrap();
            }
        });
    }
    drop(send_results);
    spawn(move || (0..n).for_each(|i| send_jobs.send(i % 4 + 1).unwrap()));
    let sum = results.iter().fold(0u64, |sum, result| sum.wrapping_add(result));
    let elapsed = start.elapsed();
    check(sum == computed(n, steps));
    (n, elapsed)
}

fn problems(_workers: usize) -> Problems {
    let mut all = Problems::default();
    macro_rules! timed {
        ($name:expr, $n:ident => $time:expr) => { all.timed($name, move |$n| $time) };
    }
    add_shared_problems!(timed);
    timed!("Mpmc/128", n => many_to_many(n, 4, 128));
    timed!("SelectNonblock", n => select_nonblock(n));
    all.counted.insert("WakeWhileHogging".into(), Box::new(wake_while_hogging));
    all
}

fn main() {
    peers::main(problems);
}
