// The problems that both peers in Rust have: on threads, and in tasks. Before this file stand, for
// each peer,
//
//   problem! { name(arguments) { ... } }   a function that returns a Time
//   go! { ... }                            starts a thread or a task
//   wait!(f)                               what f() comes to, which may wait
//   next!(recv)                            the next value, or None
//   channel(capacity), join(started), sleep(time)

use peers::*;
use std::time::Instant;

/// Values of one sender, to a loop in the calling thread or task.
macro_rules! each {
    ($recv:ident, $value:pat => $body:expr) => {
        while let Some($value) = next!($recv) {
            $body
        }
    };
}

problem! { spsc(n: u64, capacity: usize) {
    let (send, mut recv) = channel(capacity);
    let mut received = InOrder::default();
    let start = Instant::now();
    let sender = go! {
        for i in 0..n {
            wait!(send.send(i)).unwrap();
        }
    };
    each!(recv, value => received.add(value));
    let elapsed = start.elapsed();
    wait!(join(sender));
    check(received.are(n));
    (n, elapsed)
}}

/// So many channels with a sender each, of n / count values.
fn senders(n: u64, count: u64, capacity: usize) -> Vec<Receiver<u64>> {
    (0..count)
        .map(|_| {
            let (send, recv) = channel(capacity);
            go! {
                for i in 0..n / count {
                    wait!(send.send(i)).unwrap();
                }
            };
            recv
        })
        .collect()
}

problem! { chan_uncontended(n: u64) {
    let n = round_up(n, 100);
    let (send, mut recv) = channel(100);
    let mut received = InOrder::default();
    let start = Instant::now();
    for i in (0..n).step_by(100) {
        for j in i..i + 100 {
            wait!(send.send(j)).unwrap();
        }
        for _ in 0..100 {
            received.add(next!(recv).unwrap());
        }
    }
    let elapsed = start.elapsed();
    check(received.are(n));
    (n, elapsed)
}}

problem! { chan_nonblocking(n: u64) {
    let (_send, mut recv) = channel::<u64>(0);
    let start = Instant::now();
    let empty = (0..n).filter(|_| recv.try_recv().is_err()).count();
    let elapsed = start.elapsed();
    check(empty as u64 == n);
    (n, elapsed)
}}

problem! { items_of_4_kib(n: u64) {
    let (send, mut recv) = channel::<Page>(16);
    let mut received = EndsInOrder::default();
    let start = Instant::now();
    let sender = go! {
        let mut page: Page = [0; 512];
        for i in 0..n {
            page[0] = i;
            page[511] = i;
            opaque(&mut page);
            wait!(send.send(page)).unwrap();
        }
    };
    each!(recv, mut page => {
        opaque(&mut page);
        received.add(page[0], page[511]);
    });
    let elapsed = start.elapsed();
    wait!(join(sender));
    check(received.are(n));
    (n, elapsed)
}}

// Each word is written and read.
problem! { pipe(n: u64) {
    let (send, mut recv) = channel::<Item>(128);
    let mut sum = 0;
    let start = Instant::now();
    let sender = go! {
        for i in 0..n {
            let mut item: Item = [i; 8];
            opaque(&mut item);
            wait!(send.send(item)).unwrap();
        }
    };
    each!(recv, mut item => {
        opaque(&mut item);
        item.iter().for_each(|word| sum += word);
    });
    let elapsed = start.elapsed();
    wait!(join(sender));
    check(sum == 8 * sum_below(n));
    (n, elapsed)
}}

problem! { pipeline(n: u64) {
    let (send, mut recv) = channel::<Item>(128);
    let mut received = EndsInOrder::default();
    let start = Instant::now();
    go! {
        for i in 0..n {
            wait!(send.send([i; 8])).unwrap();
        }
    };
    for _ in 0..2 {
        let (out, next) = channel(128);
        let mut from = std::mem::replace(&mut recv, next);
        go! {
            each!(from, mut item => {
                item.iter_mut().for_each(|word| *word += 1);
                wait!(out.send(item)).unwrap();
            });
        };
    }
    each!(recv, mut item => {
        opaque(&mut item);
        received.add(item[0] - 2, item[7] - 2);
    });
    let elapsed = start.elapsed();
    check(received.are(n));
    (n, elapsed)
}}

problem! { circulate(n: u64) {
    let (send_full, mut full) = channel::<Buffer>(4);
    let (send_empty, mut empty) = channel::<Buffer>(4);
    let last = (1 << 20) / 8 - 1;
    for _ in 0..4 {
        wait!(send_empty.send(vec![1; last + 1])).unwrap();
    }
    let mut received = EndsInOrder::default();
    let start = Instant::now();
    go! {
        for i in 0..n {
            let mut buffer = next!(empty).unwrap();
            buffer[0] = i;
            buffer[last] = i;
            wait!(send_full.send(buffer)).unwrap();
        }
    };
    each!(full, buffer => {
        received.add(buffer[0], buffer[last]);
        let _ = wait!(send_empty.send(buffer)); // the producer may have what it needs
    });
    let elapsed = start.elapsed();
    check(received.are(n));
    (n, elapsed)
}}

problem! { double_buffer(n: u64, kib: usize, pairs: u64) {
    let each = (n + pairs - 1) / pairs;
    let words = kib * 1024 / 8;
    let mut ready = vec![];
    for _ in 0..pairs {
        let (send_empty, empty) = channel::<Buffer>(2);
        for _ in 0..2 {
            wait!(send_empty.send(vec![3; words])).unwrap();
        }
        ready.push((vec![1u64; words], vec![2u64; words], channel::<Buffer>(2), send_empty, empty));
    }
    let start = Instant::now();
    let mut started = vec![];
    for (mut source, mut target, (send_full, mut full), send_empty, mut empty) in ready {
        started.push(go! {
            for i in 0..each {
                let mut buffer = next!(empty).unwrap();
                source[0] = i;
                source[words - 1] = i;
                buffer.copy_from_slice(&source);
                opaque(&mut buffer[..]);
                wait!(send_full.send(buffer)).unwrap();
            }
        });
        started.push(go! {
            let mut received = EndsInOrder::default();
            each!(full, buffer => {
                target.copy_from_slice(&buffer);
                opaque(&mut target[..]);
                received.add(target[0], target[words - 1]);
                let _ = wait!(send_empty.send(buffer)); // the producer may have what it needs
            });
            check(received.are(each));
        });
    }
    for one in started {
        wait!(join(one));
    }
    (each * pairs, start.elapsed())
}}

count! { wake_while_hogging() {
    let (sent, mut recv) = channel::<Instant>(1);
    let woken = go! {
        let mut latencies = Vec::with_capacity(WAKES);
        each!(recv, at => latencies.push(at.elapsed()));
        latencies
    };
    for _ in 0..WAKES {
        wait!(sleep(PAUSE));
        wait!(sent.send(Instant::now())).unwrap();
        hog();
    }
    drop(sent);
    percentiles(wait!(join(woken)))
}}

/// Adds them all.
macro_rules! add_shared_problems {
    ($timed:ident) => {
        for capacity in [1, 16, 128, 1024] {
            $timed!(format!("Spsc/{capacity}"), n => spsc(n, capacity));
        }
        $timed!("ChanUncontended", n => chan_uncontended(n));
        $timed!("ChanNonblocking", n => chan_nonblocking(n));
        $timed!("Items4KiB", n => items_of_4_kib(n));
        for capacity in [0, 128] {
            $timed!(format!("Select2/{capacity}"), n => select_of_2(n, capacity));
            $timed!(format!("Select8/{capacity}"), n => select_of_8(n, capacity));
        }
        $timed!("ChanSync", n => chan_sync(n));
        $timed!("SelectUncontended", n => select_uncontended(n));
        $timed!("Pipe64", n => pipe(n));
        $timed!("Pipeline4", n => pipeline(n));
        $timed!("Circulate1MiB", n => circulate(n));
        $timed!("ThreadToFiber", n => thread_to_fiber(n));
        for us in [1, 17, 100] {
            $timed!(format!("CoarseJobs/{us}"), n => coarse_jobs(n, us));
        }
        for kib in [64, 256, 1024, 4096, 16384] {
            for pairs in [1, 4] {
                $timed!(format!("DoubleBuffer/{kib}/{pairs}"), n => double_buffer(n, kib, pairs));
            }
        }
    };
}
