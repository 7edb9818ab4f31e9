//! The problems of bench/csp on OS threads with crossbeam's channels.

use crossbeam::channel::{bounded, select, Receiver, Sender};
use crossbeam::thread::scope;
use peers::*;
use std::time::Instant;

fn chan_sync(n: u64) -> Time {
    let (send, recv) = bounded::<u64>(0);
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

fn spsc(n: u64, capacity: usize) -> Time {
    let (send, recv) = bounded(capacity);
    let mut received = InOrder::default();
    let start = Instant::now();
    let sender = std::thread::spawn(move || (0..n).for_each(|i| send.send(i).unwrap()));
    recv.iter().for_each(|value| received.add(value));
    let elapsed = start.elapsed();
    sender.join().unwrap();
    check(received.are(n));
    (n, elapsed)
}

fn many_to_many(n: u64, pairs: u64, capacity: usize) -> Time {
    let (send, recv) = bounded::<u64>(capacity);
    let start = Instant::now();
    let mut receivers = vec![];
    for s in 0..pairs {
        let (send, recv) = (send.clone(), recv.clone());
        std::thread::spawn(move || {
            (s..n).step_by(pairs as usize).for_each(|i| send.send(i).unwrap());
        });
        receivers.push(std::thread::spawn(move || {
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

fn chan_uncontended(n: u64) -> Time {
    let n = round_up(n, 100);
    let (send, recv) = bounded(100);
    let mut received = InOrder::default();
    let start = Instant::now();
    for i in (0..n).step_by(100) {
        (i..i + 100).for_each(|j| send.send(j).unwrap());
        (0..100).for_each(|_| received.add(recv.recv().unwrap()));
    }
    let elapsed = start.elapsed();
    check(received.are(n));
    (n, elapsed)
}

fn chan_nonblocking(n: u64) -> Time {
    let (_send, recv) = bounded::<u64>(0);
    let start = Instant::now();
    let empty = (0..n).filter(|_| recv.try_recv().is_err()).count();
    let elapsed = start.elapsed();
    check(empty as u64 == n);
    (n, elapsed)
}

fn items_of_4_kib(n: u64) -> Time {
    let (send, recv) = bounded::<Page>(16);
    let (mut firsts, mut lasts) = (InOrder::default(), InOrder::default());
    let start = Instant::now();
    let sender = std::thread::spawn(move || {
        let mut page: Page = [0; 512];
        for i in 0..n {
            page[0] = i;
            page[511] = i;
            opaque(&mut page);
            send.send(page).unwrap();
        }
    });
    for mut page in recv {
        opaque(&mut page);
        firsts.add(page[0]);
        lasts.add(page[511]);
    }
    let elapsed = start.elapsed();
    sender.join().unwrap();
    check(firsts.are(n) && lasts.are(n));
    (n, elapsed)
}

fn senders(n: u64, count: u64, capacity: usize) -> Vec<Receiver<u64>> {
    (0..count)
        .map(|_| {
            let (send, recv) = bounded(capacity);
            std::thread::spawn(move || {
                // The last values may find nobody who waits for them to be taken.
                (0..n / count).for_each(|i| send.send(i).unwrap());
            });
            recv
        })
        .collect()
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
    let (send_a, a) = bounded(1);
    let (send_b, b) = bounded(1);
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
    let (_keep, no_sender) = bounded::<u64>(0);
    let (no_receiver, _keep) = bounded::<u64>(0);
    let (_keep, empty) = bounded::<u64>(1);
    let (full, _keep) = bounded::<u64>(1);
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

/// Each word is written and read.
fn pipe(n: u64) -> Time {
    let (send, recv) = bounded::<Item>(128);
    let mut sum = 0;
    let start = Instant::now();
    let sender = std::thread::spawn(move || {
        for i in 0..n {
            let mut item: Item = [i; 8];
            opaque(&mut item);
            send.send(item).unwrap();
        }
    });
    for mut item in recv {
        opaque(&mut item);
        item.iter().for_each(|word| sum += word);
    }
    let elapsed = start.elapsed();
    sender.join().unwrap();
    check(sum == 8 * sum_below(n));
    (n, elapsed)
}

fn pipeline(n: u64) -> Time {
    let (send, mut recv) = bounded::<Item>(128);
    let (mut firsts, mut lasts) = (InOrder::default(), InOrder::default());
    let start = Instant::now();
    std::thread::spawn(move || (0..n).for_each(|i| send.send([i; 8]).unwrap()));
    for _ in 0..2 {
        let (out, next) = bounded(128);
        let from = std::mem::replace(&mut recv, next);
        std::thread::spawn(move || {
            for mut item in from {
                item.iter_mut().for_each(|word| *word += 1);
                out.send(item).unwrap();
            }
        });
    }
    for mut item in recv {
        opaque(&mut item);
        firsts.add(item[0] - 2);
        lasts.add(item[7] - 2);
    }
    let elapsed = start.elapsed();
    check(firsts.are(n) && lasts.are(n));
    (n, elapsed)
}

fn circulate(n: u64) -> Time {
    let (send_full, full) = bounded::<Buffer>(4);
    let (send_empty, empty) = bounded::<Buffer>(4);
    (0..4).for_each(|_| send_empty.send(vec![1; (1 << 20) / 8]).unwrap());
    let (mut firsts, mut lasts) = (InOrder::default(), InOrder::default());
    let last = (1 << 20) / 8 - 1;
    let start = Instant::now();
    let producer = std::thread::spawn(move || {
        for i in 0..n {
            let mut buffer = empty.recv().unwrap();
            buffer[0] = i;
            buffer[last] = i;
            send_full.send(buffer).unwrap();
        }
        empty // lives until all have come back
    });
    for buffer in full {
        firsts.add(buffer[0]);
        lasts.add(buffer[last]);
        let _ = send_empty.send(buffer); // the producer may have what it needs
    }
    let elapsed = start.elapsed();
    producer.join().unwrap();
    check(firsts.are(n) && lasts.are(n));
    (n, elapsed)
}

fn coarse_jobs(n: u64, microseconds: u64) -> Time {
    let steps = microseconds * 600;
    let (send_jobs, jobs) = bounded::<u64>(16);
    let (send_results, results) = bounded::<u64>(16);
    let start = Instant::now();
    for _ in 0..4 {
        let (jobs, results) = (jobs.clone(), send_results.clone());
        std::thread::spawn(move || {
            for job in jobs {
                results.send(compute(job, steps)).unwrap();
            }
        });
    }
    drop(send_results);
    std::thread::spawn(move || (0..n).for_each(|i| send_jobs.send(i % 4 + 1).unwrap()));
    let sum = results.iter().fold(0u64, |sum, result| sum.wrapping_add(result));
    let elapsed = start.elapsed();
    check(sum == computed(n, steps));
    (n, elapsed)
}

fn double_buffer(n: u64, kib: usize, pairs: u64) -> Time {
    let each = (n + pairs - 1) / pairs;
    let words = kib * 1024 / 8;
    let mut ready = vec![];
    for _ in 0..pairs {
        let (send_empty, empty) = bounded::<Buffer>(2);
        (0..2).for_each(|_| send_empty.send(vec![3; words]).unwrap());
        ready.push((vec![1u64; words], vec![2u64; words], bounded::<Buffer>(2), send_empty, empty));
    }
    let start = Instant::now();
    let mut threads = vec![];
    for (mut source, mut target, (send_full, full), send_empty, empty) in ready {
        threads.push(std::thread::spawn(move || {
            for i in 0..each {
                let mut buffer = empty.recv().unwrap();
                source[0] = i;
                source[words - 1] = i;
                buffer.copy_from_slice(&source);
                opaque(&mut buffer[..]);
                send_full.send(buffer).unwrap();
            }
        }));
        threads.push(std::thread::spawn(move || {
            let (mut firsts, mut lasts) = (InOrder::default(), InOrder::default());
            for buffer in full {
                target.copy_from_slice(&buffer);
                opaque(&mut target[..]);
                firsts.add(target[0]);
                lasts.add(target[words - 1]);
                let _ = send_empty.send(buffer); // the producer may have what it needs
            }
            check(firsts.are(each) && lasts.are(each));
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    (each * pairs, start.elapsed())
}

fn wake_while_hogging() -> Vec<(&'static str, f64)> {
    let (sent, recv): (Sender<Instant>, _) = bounded(1);
    let woken =
        std::thread::spawn(move || recv.iter().map(|at: Instant| at.elapsed()).collect::<Vec<_>>());
    for _ in 0..WAKES {
        std::thread::sleep(PAUSE);
        sent.send(Instant::now()).unwrap();
        hog();
    }
    drop(sent);
    percentiles(woken.join().unwrap())
}

fn problems(workers: usize) -> Problems {
    let mut all = Problems::default();
    all.timed("ChanSync", chan_sync);
    for capacity in [1, 16, 128, 1024] {
        all.timed(format!("Spsc/{capacity}"), move |n| spsc(n, capacity));
    }
    all.timed("Mpmc/128", |n| many_to_many(n, 4, 128));
    for capacity in [0, 10, 100] {
        all.timed(format!("ChanProdCons/{capacity}"), move |n| {
            many_to_many(n, workers as u64, capacity)
        });
    }
    all.timed("ChanUncontended", chan_uncontended);
    all.timed("ChanNonblocking", chan_nonblocking);
    all.timed("Items4KiB", items_of_4_kib);
    for capacity in [0, 128] {
        all.timed(format!("Select2/{capacity}"), move |n| select_of_2(n, capacity));
        all.timed(format!("Select8/{capacity}"), move |n| select_of_8(n, capacity));
    }
    all.timed("SelectUncontended", select_uncontended);
    all.timed("SelectNonblock", select_nonblock);
    all.timed("Pipe64", pipe);
    all.timed("Pipeline4", pipeline);
    all.timed("Circulate1MiB", circulate);
    all.timed("ThreadToFiber", |n| spsc(n, 128));
    for microseconds in [1, 17, 100] {
        all.timed(format!("CoarseJobs/{microseconds}"), move |n| coarse_jobs(n, microseconds));
    }
    for kib in [64, 256, 1024, 4096, 16384] {
        for pairs in [1, 4] {
            all.timed(format!("DoubleBuffer/{kib}/{pairs}"), move |n| double_buffer(n, kib, pairs));
        }
    }
    all.counted.insert("WakeWhileHogging".into(), Box::new(wake_while_hogging));
    all
}

fn main() {
    peers::main(problems);
}
