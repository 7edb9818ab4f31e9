//! The problems of bench/csp on tokio's tasks and mpsc channels: the current-thread runtime for one
//! worker, the multi-thread one for more. Where the others have capacity 0, it has 1.

use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::{yield_now, JoinHandle};
use tokio::time::sleep;

macro_rules! problem {
    ($name:ident($($of:ident: $kind:ty),*) $body:block) => {
        async fn $name($($of: $kind),*) -> Time $body
    };
}
macro_rules! count {
    ($name:ident() $body:block) => { async fn $name() -> Figures $body };
}
macro_rules! go {
    ($($body:tt)*) => { tokio::spawn(async move { $($body)* }) };
}
macro_rules! wait {
    ($future:expr) => { $future.await };
}
macro_rules! next {
    ($recv:expr) => { $recv.recv().await };
}
include!("../problems.rs");

fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    tokio::sync::mpsc::channel(capacity.max(1))
}

async fn join<T>(task: JoinHandle<T>) -> T {
    task.await.unwrap()
}

async fn chan_sync(n: u64) -> Time {
    let (there, mut from_there) = channel::<u64>(1);
    let (back, mut from_back) = channel::<u64>(1);
    let start = Instant::now();
    let other = tokio::spawn(async move {
        while let Some(value) = from_there.recv().await {
            back.send(value + 1).await.unwrap();
        }
    });
    let mut value = 0;
    for _ in 0..n {
        there.send(value).await.unwrap();
        value = from_back.recv().await.unwrap();
    }
    let elapsed = start.elapsed();
    drop(there);
    other.await.unwrap();
    check(value == n);
    (n, elapsed)
}

async fn thread_to_fiber(n: u64) -> Time {
    let (send, mut recv) = channel(128);
    let mut received = InOrder::default();
    let start = Instant::now();
    let sender = std::thread::spawn(move || (0..n).for_each(|i| send.blocking_send(i).unwrap()));
    while let Some(value) = recv.recv().await {
        received.add(value);
    }
    let elapsed = start.elapsed();
    sender.join().unwrap();
    check(received.are(n));
    (n, elapsed)
}

async fn select_of_2(n: u64, capacity: usize) -> Time {
    let n = round_up(n, 2);
    let mut received = vec![InOrder::default(); 2];
    let start = Instant::now();
    let mut c = senders(n, 2, capacity).into_iter();
    let (mut a, mut b) = (c.next().unwrap(), c.next().unwrap());
    for _ in 0..n {
        tokio::select! {
            Some(value) = a.recv() => received[0].add(value),
            Some(value) = b.recv() => received[1].add(value),
        }
    }
    let elapsed = start.elapsed();
    received.iter().for_each(|one| check(one.are(n / 2)));
    (n, elapsed)
}

async fn select_of_8(n: u64, capacity: usize) -> Time {
    let n = round_up(n, 8);
    let mut received = vec![InOrder::default(); 8];
    let start = Instant::now();
    let mut c = senders(n, 8, capacity).into_iter();
    let mut next = || c.next().unwrap();
    let (mut c0, mut c1, mut c2, mut c3) = (next(), next(), next(), next());
    let (mut c4, mut c5, mut c6, mut c7) = (next(), next(), next(), next());
    for _ in 0..n {
        tokio::select! {
            Some(value) = c0.recv() => received[0].add(value),
            Some(value) = c1.recv() => received[1].add(value),
            Some(value) = c2.recv() => received[2].add(value),
            Some(value) = c3.recv() => received[3].add(value),
            Some(value) = c4.recv() => received[4].add(value),
            Some(value) = c5.recv() => received[5].add(value),
            Some(value) = c6.recv() => received[6].add(value),
            Some(value) = c7.recv() => received[7].add(value),
        }
    }
    let elapsed = start.elapsed();
    received.iter().for_each(|one| check(one.are(n / 8)));
    (n, elapsed)
}

async fn select_uncontended(n: u64) -> Time {
    let (send_a, mut a) = channel(1);
    let (send_b, mut b) = channel(1);
    let start = Instant::now();
    send_a.send(0u64).await.unwrap();
    for _ in 0..n {
        tokio::select! {
            Some(value) = a.recv() => send_b.send(value + 1).await.unwrap(),
            Some(value) = b.recv() => send_a.send(value + 1).await.unwrap(),
        }
    }
    let last = if n % 2 == 0 { a.recv().await } else { b.recv().await };
    let elapsed = start.elapsed();
    check(last == Some(n));
    (n, elapsed)
}

async fn ring(n: u64) -> Time {
    let n = round_up(n, 1000);
    let (first, mut recv) = channel::<u64>(1);
    let start = Instant::now();
    for _ in 0..999 {
        let (out, next) = channel(1);
        let mut from = std::mem::replace(&mut recv, next);
        tokio::spawn(async move {
            while let Some(value) = from.recv().await {
                out.send(value + 1).await.unwrap();
            }
        });
    }
    let mut token = 0;
    for _ in 0..n / 1000 {
        first.send(token + 1).await.unwrap();
        token = recv.recv().await.unwrap();
    }
    let elapsed = start.elapsed();
    check(token == n);
    (n, elapsed)
}

async fn spawn(n: u64, at_once: u64) -> Time {
    let n = round_up(n, at_once);
    let ran = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut tasks = Vec::with_capacity(at_once as usize);
    for _ in 0..n / at_once {
        for _ in 0..at_once {
            let ran = ran.clone();
            tasks.push(tokio::spawn(async move {
                ran.fetch_add(1, Relaxed);
            }));
        }
        for task in tasks.drain(..) {
            task.await.unwrap();
        }
    }
    let elapsed = start.elapsed();
    check(ran.load(Relaxed) == n);
    (n, elapsed)
}

async fn parked() -> Figures {
    const TASKS: u64 = 100_000;
    let gate = Arc::new(Semaphore::new(0));
    let arrived = Arc::new(AtomicU64::new(0));
    let left = Arc::new(AtomicU64::new(0));
    let before = resident();
    for i in 0..TASKS {
        let (gate, arrived, left) = (gate.clone(), arrived.clone(), left.clone());
        tokio::spawn(async move {
            arrived.fetch_add(1, Relaxed);
            gate.acquire().await.unwrap_err(); // it is closed
            left.fetch_add(1, Relaxed);
        });
        if i % 256 == 0 {
            yield_now().await;
        }
    }
    while arrived.load(Relaxed) < TASKS {
        yield_now().await;
    }
    sleep(std::time::Duration::from_millis(10)).await;
    let after = resident();
    check(left.load(Relaxed) == 0);
    gate.close();
    while left.load(Relaxed) < TASKS {
        yield_now().await;
    }
    vec![("bytes", (after - before) / TASKS as f64)]
}

async fn sieve(n: u64, primes: u64) -> Time {
    let mut prime = 0;
    let start = Instant::now();
    for _ in 0..n {
        let (send, mut recv) = channel::<u64>(1);
        tokio::spawn(async move {
            let mut candidate = 2;
            while send.send(candidate).await.is_ok() {
                candidate += 1;
            }
        });
        for _ in 0..primes {
            prime = recv.recv().await.unwrap();
            let (out, next) = channel(1);
            let mut from = std::mem::replace(&mut recv, next);
            tokio::spawn(async move {
                while let Some(candidate) = from.recv().await {
                    if candidate % prime != 0 && out.send(candidate).await.is_err() {
                        return;
                    }
                }
            });
        }
    }
    let elapsed = start.elapsed();
    check(prime == if primes == 500 { 3571 } else { 17389 });
    (n, elapsed)
}

/// A receiver has one owner: the four tasks share it through a mutex.
async fn coarse_jobs(n: u64, microseconds: u64) -> Time {
    let steps = microseconds * 600;
    let (send_jobs, jobs) = channel::<u64>(16);
    let (send_results, mut results) = channel::<u64>(16);
    let jobs = Arc::new(Mutex::new(jobs));
    let start = Instant::now();
    for _ in 0..4 {
        let (jobs, results) = (jobs.clone(), send_results.clone());
        tokio::spawn(async move {
            loop {
                let job = jobs.lock().await.recv().await;
                match job {
                    Some(job) => results.send(compute(job, steps)).await.unwrap(),
                    None => return,
                }
            }
        });
    }
    drop(send_results);
    tokio::spawn(async move {
        for i in 0..n {
            send_jobs.send(i % 4 + 1).await.unwrap();
        }
    });
    let mut sum = 0u64;
    while let Some(result) = results.recv().await {
        sum = sum.wrapping_add(result);
    }
    let elapsed = start.elapsed();
    check(sum == computed(n, steps));
    (n, elapsed)
}

/// Runs on a task that any worker may run, not on the calling thread.
fn on<T: Send + 'static>(runtime: &Runtime, future: impl Future<Output = T> + Send + 'static) -> T {
    runtime.block_on(async { tokio::spawn(future).await.unwrap() })
}

fn problems(workers: usize) -> Problems {
    let runtime = Rc::new(
        match workers {
            1 => Builder::new_current_thread().enable_time().build(),
            _ => Builder::new_multi_thread().worker_threads(workers).enable_time().build(),
        }
        .unwrap(),
    );
    let mut all = Problems::default();
    macro_rules! timed {
        ($name:expr, $n:ident => $future:expr) => {{
            let runtime = runtime.clone();
            all.timed($name, move |$n| on(&runtime, $future));
        }};
    }
    add_shared_problems!(timed);
    timed!("Ring/1000", n => ring(n));
    for at_once in [256, 1_000, 1_000_000] {
        timed!(format!("Spawn/{at_once}"), n => spawn(n, at_once));
    }
    for primes in [500, 2_000] {
        timed!(format!("Sieve/{primes}"), n => sieve(n, primes));
    }
    let other = runtime.clone();
    all.counted.insert("Parked/100000".into(), Box::new(move || on(&other, parked())));
    all.counted
        .insert("WakeWhileHogging".into(), Box::new(move || on(&runtime, wake_while_hogging())));
    all
}

fn main() {
    peers::main(problems);
}
