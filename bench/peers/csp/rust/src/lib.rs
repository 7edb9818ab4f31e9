//! The protocol of ../README.md, for peers in Rust: arguments, repetition, checks, output.

use std::arch::asm;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What n operations took, where a few more than were asked for may have been done.
pub type Time = (u64, Duration);

pub type Problem = Box<dyn Fn(u64) -> Time>;
pub type Figures = Vec<(&'static str, f64)>;
/// Done once; has other results than a time.
pub type Count = Box<dyn Fn() -> Figures>;

#[derive(Default)]
pub struct Problems {
    pub timed: BTreeMap<String, Problem>,
    pub counted: BTreeMap<String, Count>,
}

impl Problems {
    pub fn timed(&mut self, name: impl Into<String>, problem: impl Fn(u64) -> Time + 'static) {
        self.timed.insert(name.into(), Box::new(problem));
    }
}

/// Values that have to arrive as 0, 1, 2, ...
#[derive(Clone, Default)]
pub struct InOrder {
    next: u64,
    wrong: u64,
}

impl InOrder {
    pub fn add(&mut self, value: u64) {
        self.wrong |= value ^ self.next;
        self.next += 1;
    }
    pub fn are(&self, n: u64) -> bool {
        self.wrong == 0 && self.next == n
    }
}

/// The first and the last word of items, both of which have to.
#[derive(Clone, Default)]
pub struct EndsInOrder {
    firsts: InOrder,
    lasts: InOrder,
}

impl EndsInOrder {
    pub fn add(&mut self, first: u64, last: u64) {
        self.firsts.add(first);
        self.lasts.add(last);
    }
    pub fn are(&self, n: u64) -> bool {
        self.firsts.are(n) && self.lasts.are(n)
    }
}

pub fn check(right: bool) {
    assert!(right, "wrong result");
}

pub fn round_up(n: u64, unit: u64) -> u64 {
    (n + unit - 1) / unit * unit
}

pub fn sum_below(n: u64) -> u64 {
    n.wrapping_mul(n.wrapping_sub(1)) / 2
}

/// The compiler must take the value for read and changed.
pub fn opaque<T: ?Sized>(value: &mut T) {
    let address = value as *mut T as *mut u8;
    unsafe { asm!("/* {0} */", in(reg) address, options(nostack, preserves_flags)) };
}

/// Every step needs the one before it: no compiler makes it shorter.
pub fn compute(mut x: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

/// What n jobs give whose numbers are 1, 2, 3, 4, 1, ...
pub fn computed(n: u64, steps: u64) -> u64 {
    (0..4).fold(0u64, |sum, i| {
        sum.wrapping_add(((n + 3 - i) / 4).wrapping_mul(compute(i + 1, steps)))
    })
}

pub type Page = [u64; 512];
pub type Item = [u64; 8];
pub type Buffer = Vec<u64>;

pub const WAKES: usize = 400;
pub const PAUSE: Duration = Duration::from_micros(100);

pub fn hog() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(500) {}
}

pub fn percentiles(mut latencies: Vec<Duration>) -> Figures {
    check(latencies.len() == WAKES);
    latencies.sort();
    let at = |i: usize| latencies[i].as_nanos() as f64;
    vec![("p50", at(WAKES / 2)), ("p99", at(WAKES * 99 / 100))]
}

pub fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find(|line| line.starts_with("Rss:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
}

/// A peer's main: make(workers) are the problems that it can express.
pub fn main(make: impl Fn(usize) -> Problems) {
    let arguments: Vec<String> = std::env::args().collect();
    let workers = arguments.get(2).map_or(1, |word| word.parse().unwrap());
    let problems = make(workers);
    if arguments.len() < 4 {
        for name in problems.timed.keys().chain(problems.counted.keys()) {
            println!("{name}");
        }
        return;
    }
    if let Some(count) = problems.counted.get(&arguments[1]) {
        for (name, value) in count() {
            println!("{name} {value}");
        }
        return;
    }
    let at_least: f64 = arguments[3].parse().unwrap();
    let solve = problems.timed.get(&arguments[1]).expect("no such problem");
    let mut n = 1;
    loop {
        // As Google Benchmark raises it.
        let (done, elapsed) = solve(n);
        let seconds = elapsed.as_secs_f64();
        if seconds >= at_least {
            println!("ns {}", seconds * 1e9 / done as f64);
            return;
        }
        let factor = if seconds > at_least / 10.0 { at_least * 1.4 / seconds } else { 10.0 };
        n = (done as f64 * factor) as u64 + 1;
    }
}
