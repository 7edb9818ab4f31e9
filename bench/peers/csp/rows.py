"""What is compared, and what is asked of it."""

class Row:
    """A problem. `go`, `best` and `threads` are the ratios, theirs to ours, that are asked for
    against Go, the fastest peer and the fastest one of OS threads; a dict gives them for each
    number of workers. `gain` is what two workers must gain over one of our own, `most` a bound
    on our own figure. `streamed` has glibc store large copies past the caches, as Go does."""

    def __init__(self, problem, program, go=None, best=None, threads=None, metric="ns",
                 workers=(1, 2), gain=1 / 1.1, most=None, quick=False, streamed=False):
        self.problem, self.program, self.metric = problem, program, metric
        self.go, self.best, self.threads = go, best, threads
        self.gain, self.most = gain, most
        self.workers, self.quick = workers, quick
        self.name = problem + (" streamed" if streamed else "")
        self.label = self.name + ("" if metric == "ns" else f" {metric}")
        self.environment = {"GLIBC_TUNABLES": STREAMED} if streamed else {}
        self.runtime = program != "machine" and not problem.startswith("Futex")


# Go's memmove stores past the caches from 1 MiB on; glibc's threshold is hundreds of MiB here.
STREAMED = "glibc.cpu.x86_non_temporal_threshold=0x100000"
FASTER = NO_SLOWER = 1.0
WITHIN_1_3 = 1 / 1.3
WITHIN_1_5 = 1 / 1.5
AT_TWO = lambda ratio: {2: ratio}

ROWS = [
    Row("ChanSync", "channel", 3, FASTER, quick=True),
    Row("Spsc/1", "channel", 3.5, FASTER, quick=True),
    Row("Spsc/16", "channel", 3.5, FASTER),
    Row("Spsc/128", "channel", 3.5, FASTER, quick=True),
    Row("Spsc/1024", "channel", 3.5, FASTER),
    Row("Mpmc/128", "channel", 3.5, FASTER, quick=True),
    Row("ChanProdCons/0", "channel", gain=None),  # has more fibers with more workers
    Row("ChanProdCons/10", "channel", gain=None),
    Row("ChanProdCons/100", "channel", gain=None),
    Row("Select2/0", "select", 3, FASTER, quick=True),
    Row("Select2/128", "select", 2.3, FASTER),
    Row("Select8/0", "select", 3, FASTER),
    Row("Select8/128", "select", 2.3, FASTER, quick=True),
    Row("SelectUncontended", "select"),
    Row("SelectNonblock", "select", 2, WITHIN_1_3, quick=True),
    Row("ChanUncontended", "channel", 2, WITHIN_1_3, quick=True),
    Row("ChanNonblocking", "channel", 2, WITHIN_1_3),
    Row("Ring/10", "pipeline"),
    Row("Ring/1000", "pipeline", 3, FASTER, quick=True),
    Row("RingShuffled/1000", "pipeline"),
    Row("Spawn/256", "spawn"),
    Row("Spawn/1000", "spawn"),
    Row("Spawn/1000000", "spawn", 5, FASTER, quick=True),
    Row("Parked/100000", "spawn", metric="bytes", most=4.4 * 1024),
    Row("Sieve/500", "pipeline", best=FASTER, gain=1, quick=True),
    Row("Sieve/2000", "pipeline", 3.5, FASTER, gain=1),
    Row("Pipe64", "pipeline", best=FASTER, quick=True),
    Row("Pipeline4", "pipeline", 2, FASTER, quick=True),
    Row("Items4KiB", "channel", 2, FASTER),
    Row("Circulate1MiB", "pipeline", 2, FASTER),
    Row("ThreadToFiber", "channel", {1: 1.5, 2: 1.2}, FASTER, quick=True),
    Row("Readable", "io", WITHIN_1_5, gain=None, quick=True),
    Row("ReadableOrReceived", "io", gain=None),
    Row("IdleDescriptors", "io", metric="ratio", most=1.05),
    Row("ThreadToFiberBusy", "channel"),
    Row("ThreadToPoller", "channel"),
    Row("ThreadToThread", "channel", workers=(1,)),
    Row("CoarseJobs/1", "pipeline", 1, NO_SLOWER),
    Row("CoarseJobs/17", "pipeline", 1, NO_SLOWER, quick=True),
    Row("CoarseJobs/100", "pipeline", 1, NO_SLOWER),
]
for pairs in (1, 4):
    for kib, gain in ((64, 1.0), (256, 1.25), (1024, 1.7), (4096, 1.7), (16384, 1.7)):
        ROWS.append(Row(f"DoubleBuffer/{kib}/{pairs}", "double_buffer",
                        AT_TWO(2.5) if kib == 1024 else None, threads=AT_TWO(NO_SLOWER),
                        gain=gain, quick=kib == 1024 and pairs == 1))
for kib in (1024, 4096, 16384):
    ROWS.append(Row(f"DoubleBuffer/{kib}/1", "double_buffer", threads=AT_TWO(NO_SLOWER),
                    streamed=True))
ROWS += [
    Row("WakeWhileHogging", "latency", metric="p50", workers=(2,)),
    Row("WakeWhileHogging", "latency", best=FASTER, metric="p99", workers=(2,), most=200e3,
        quick=True),
    Row("FutexWake", "latency", metric="p50", workers=(2,)),
    Row("FutexWake", "latency", metric="p99", workers=(2,), quick=True),
    Row("FutexWakeLooking", "latency", metric="p50", workers=(2,)),
    Row("FutexWakeLooking", "latency", metric="p99", workers=(2,)),
    Row("LockUnlock", "machine", workers=(1,)),
    Row("BareSwitch/2", "machine", workers=(1,)),
    Row("BareSwitch/1000", "machine", workers=(1,)),
    Row("FirstTouch", "machine", workers=(1,), quick=True),
]
for kib in (64, 256, 1024, 4096, 16384):
    ROWS.append(Row(f"HandOff/{kib}", "machine", quick=kib == 1024))
    ROWS.append(Row(f"CopyApart/{kib}", "machine", workers=(2,), quick=kib == 1024))
for kib in (1024, 4096, 16384):
    ROWS.append(Row(f"HandOff/{kib}", "machine", streamed=True))
# Where a peer's problem is not quite the one of the row. The first that fits counts.
NOTES = [
    ("boost_fiber", "(Spsc/1.|Mpmc|ChanProdCons/1|Items|Pipe|ThreadToFiber|CoarseJobs)",
     "its capacities are powers of two less one: the next one above the named, 31 for 16"),
    ("tokio", "(ChanSync|Select./0|Ring|Sieve)", "capacity 1: it has no rendezvous"),
    ("tokio", "CoarseJobs", "the four tasks share the receiver through a mutex"),
    ("tokio", "Parked", "stackless tasks, on a semaphore"),
    ("boost_fiber|tokio|tbb|moodycamel|threads", "ChanNonblocking", "capacity 1"),
    ("tbb", "(Spawn|Pipeline4|CoarseJobs)", "tasks and parallel_pipeline; a task cannot wait"),
    ("moodycamel", "(Mpmc|ChanProdCons)", "in order only among the values of one sender"),
    ("go", "ThreadToFiber", "the thread is a goroutine with LockOSThread"),
    ("crossbeam|tbb|moodycamel|threads", "ThreadToFiber", "to a second thread"),
]
STEADY = 100e3  # FutexWake's p99 up to which WakeWhileHogging's says something
