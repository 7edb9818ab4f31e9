//! The problems of bench/csp on tokio's tasks and mpsc channels: the current-thread runtime for one
//! worker, the multi-thread one for more. Where the others have capacity 0, it has 1.

use peers::*;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{channel, Receiver};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::yield_now;

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

async fn spsc(n: u64, capacity: usize) -> Time {
    let (send, mut recv) = channel(capacity);
    let mut received = InOrder::default();
    let start = Instant::now();
    tokio::spawn(async move {
        for i in 0..n {
            send.send(i).await.unwrap();
        }
    });
    while let Some(value) = recv.recv().await {
        received.add(value);
    }
    let elapsed = start.elapsed();
    check(received.are(n));
    (n, elapsed)
}

async fn chan_uncontended(n: u64) -> Time {
    let n = round_up(n, 100);
    let (send, mut recv) = channel(100);
    let mut received = InOrder::default();
    let start = Instant::now();
    for i in (0..n).step_by(100) {
        for j in i..i + 100 {
            send.send(j).await.unwrap();
        }
        for _ in 0..100 {
            received.add(recv.recv().await.unwrap());
        }
    }
    let elapsed = start.elapsed();
    check(received.are(n));
    (n, elapsed)
}

async fn chan_nonblocking(n: u64) -> Time {
    let (_send, mut recv) = channel::<u64>(1);
    let start = Instant::now();
    let empty = (0..n).filter(|_| recv.try_recv().is_err()).count();
    let elapsed = start.elapsed();
    check(empty as u64 == n);
    (n, elapsed)
}

async fn items_of_4_kib(n: u64) -> Time {
    let (send, mut recv) = channel::<Page>(16);
    let (mut firsts, mut lasts) = (InOrder::default(), InOrder::default());
    let start = Instant::now();
    tokio::spawn(async move {
        let mut page: Page = [0; 512];
        for i in 0..n {
            page[0] = i;
            page[511] = i;
            opaque(&mut page);
            send.send(page).await.unwrap();
        }
    });
    while let Some(mut page) = recv.recv().await {
        opaque(&mut page);
        firsts.add(page[0]);
        lasts.add(page[511]);
    }
    let elapsed = start.elapsed();
    check(firsts.are(n) && lasts.are(n));
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

fn senders(n: u64, count: u64, capacity: usize) -> Vec<Receiver<u64>> {
    (0..count)
        .map(|_| {
            let (send, recv) = channel(capacity.max(1));
            tokio::spawn(async move {
                for i in 0..n / count {
                    send.send(i).await.unwrap();
                }
            });
            recv
        })
        .collect()
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

async fn parked() -> Vec<(&'static str, f64)> {
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
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
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

/// Each word is written and read.
async fn pipe(n: u64) -> Time {
    let (send, mut recv) = channel::<Item>(128);
    let mut sum = 0;
    let start = Instant::now();
    tokio::spawn(async move {
        for i in 0..n {
            let mut item: Item = [i; 8];
            opaque(&mut item);
            send.send(item).await.unwrap();
        }
    });
    while let Some(mut item) = recv.recv().await {
        opaque(&mut item);
        item.iter().for_each(|word| sum += word);
    }
    let elapsed = start.elapsed();
    check(sum == 8 * sum_below(n));
    (n, elapsed)
}

async fn pipeline(n: u64) -> Time {
    let (send, mut recv) = channel::<Item>(128);
    let (mut firsts, mut lasts) = (InOrder::default(), InOrder::default());
    let start = Instant::now();
    tokio::spawn(async move {
        for i in 0..n {
            send.send([i; 8]).await.unwrap();
        }
    });
    for _ in 0..2 {
        let (out, next) = channel(128);
        let mut from = std::mem::replace(&mut recv, next);
        tokio::spawn(async move {
            while let Some(mut item) = from.recv().await {
                item.iter_mut().for_each(|word| *word += 1);
                out.send(item).await.unwrap();
            }
        });
    }
    while let Some(mut item) = recv.recv().await {
        opaque(&mut item);
        firsts.add(item[0] - 2);
        lasts.add(item[7] - 2);
    }
    let elapsed = start.elapsed();
    check(firsts.are(n) && lasts.are(n));
    (n, elapsed)
}

async fn circulate(n: u64) -> Time {
    let (send_full, mut full) = channel::<Buffer>(4);
    let (send_empty, mut empty) = channel::<Buffer>(4);
    for _ in 0..4 {
        send_empty.send(vec![1; (1 << 20) / 8]).await.unwrap();
    }
    let (mut firsts, mut lasts) = (InOrder::default(), InOrder::default());
    let last = (1 << 20) / 8 - 1;
    let start = Instant::now();
    tokio::spawn(async move {
        for i in 0..n {
            let mut buffer = empty.recv().await.unwrap();
            buffer[0] = i;
            buffer[last] = i;
            send_full.send(buffer).await.unwrap();
        }
    });
    while let Some(buffer) = full.recv().await {
        firsts.add(buffer[0]);
        lasts.add(buffer[last]);
        let _ = send_empty.send(buffer).await; // the producer may have what it needs
    }
    let elapsed = start.elapsed();
    check(firsts.are(n) && lasts.are(n));
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

async fn double_buffer(n: u64, kib: usize, pairs: u64) -> Time {
    let each = (n + pairs - 1) / pairs;
    let words = kib * 1024 / 8;
    let mut ready = vec![];
    for _ in 0..pairs {
        let (send_empty, empty) = channel::<Buffer>(2);
        for _ in 0..2 {
            send_empty.send(vec![3; words]).await.unwrap();
        }
        ready.push((vec![1u64; words], vec![2u64; words], channel::<Buffer>(2), send_empty, empty));
    }
    let start = Instant::now();
    let mut tasks = vec![];
    for (mut source, mut target, (send_full, mut full), send_empty, mut empty) in ready {
        tasks.push(tokio::spawn(async move {
            for i in 0..each {
                let mut buffer = empty.recv().await.unwrap();
                source[0] = i;
                source[words - 1] = i;
                buffer.copy_from_slice(&source);
                opaque(&mut buffer[..]);
                send_full.send(buffer).await.unwrap();
            }
        }));
        tasks.push(tokio::spawn(async move {
            let (mut firsts, mut lasts) = (InOrder::default(), InOrder::default());
            while let Some(buffer) = full.recv().await {
                target.copy_from_slice(&buffer);
                opaque(&mut target[..]);
                firsts.add(target[0]);
                lasts.add(target[words - 1]);
                let _ = send_empty.send(buffer).await; // the producer may have what it needs
            }
            check(firsts.are(each) && lasts.are(each));
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    (each * pairs, start.elapsed())
}

async fn wake_while_hogging() -> Vec<(&'static str, f64)> {
    let (sent, mut recv) = channel::<Instant>(1);
    let woken = tokio::spawn(async move {
        let mut latencies = Vec::with_capacity(WAKES);
        while let Some(at) = recv.recv().await {
            latencies.push(at.elapsed());
        }
        latencies
    });
    for _ in 0..WAKES {
        tokio::time::sleep(PAUSE).await;
        sent.send(Instant::now()).await.unwrap();
        hog();
    }
    drop(sent);
    percentiles(woken.await.unwrap())
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
    timed!("ChanSync", n => chan_sync(n));
    for capacity in [1, 16, 128, 1024] {
        timed!(format!("Spsc/{capacity}"), n => spsc(n, capacity));
    }
    timed!("ChanUncontended", n => chan_uncontended(n));
    timed!("ChanNonblocking", n => chan_nonblocking(n));
    timed!("Items4KiB", n => items_of_4_kib(n));
    timed!("ThreadToFiber", n => thread_to_fiber(n));
    for capacity in [0, 128] {
        timed!(format!("Select2/{capacity}"), n => select_of_2(n, capacity));
        timed!(format!("Select8/{capacity}"), n => select_of_8(n, capacity));
    }
    timed!("SelectUncontended", n => select_uncontended(n));
    timed!("Ring/1000", n => ring(n));
    for at_once in [256, 1_000, 1_000_000] {
        timed!(format!("Spawn/{at_once}"), n => spawn(n, at_once));
    }
    for primes in [500, 2_000] {
        timed!(format!("Sieve/{primes}"), n => sieve(n, primes));
    }
    timed!("Pipe64", n => pipe(n));
    timed!("Pipeline4", n => pipeline(n));
    timed!("Circulate1MiB", n => circulate(n));
    for us in [1, 17, 100] {
        timed!(format!("CoarseJobs/{us}"), n => coarse_jobs(n, us));
    }
    for kib in [64, 256, 1024, 4096, 16384] {
        for pairs in [1, 4] {
            timed!(format!("DoubleBuffer/{kib}/{pairs}"), n => double_buffer(n, kib, pairs));
        }
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
