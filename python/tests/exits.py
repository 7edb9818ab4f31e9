"""Programs that end in the midst of a loop, each in another way: what test_exit.py runs."""

BEGIN = """
import atexit, os, sys, threading
import numpy as np
import leat
slow = leat.InMemory(x=np.zeros(20_000_000, np.uint8))  # a batch of millions of samples takes its time
fast = leat.InMemory(x=np.zeros((20_000, 4), np.uint8))
def feed_of(data, batch_size, **options):
    return leat.Prefetcher(
        data, "cpu", batch_size=batch_size, framework="numpy", order="sequential", **options)
def waits_forever(iterator):
    # Asks for batches, and goes on after each error, even after the one that is to end a thread.
    while True:
        try:
            next(iterator)["x"]
        except BaseException:
            pass
def inside(count, body):
    # Starts daemon threads; returns once each of them runs.
    started = threading.Semaphore(0)
    def run(i):
        started.release()
        body(i)
    for i in range(count):
        threading.Thread(target=run, args=(i,), daemon=True).start()
    for i in range(count):
        started.acquire()
"""

ENDS = {
    "a feed, a loop and a batch are globals": """
feed = feed_of(fast, 10)
loop = iter(feed)
batch = next(loop)
tensor = batch["x"]
""",
    "a global feed reads": """
feed = feed_of(slow, 10_000_000)
loop = iter(feed)
""",
    "all of it is in a cycle": """
class Node: pass
node = Node()
node.feed = feed_of(slow, 10_000_000)
node.loop = iter(node.feed.epoch(0))
node.feed.node = node
node.self = node
del node
""",
    "the feed is in sys.modules": """
feed = feed_of(slow, 10_000_000)
sys.modules["held"] = feed
sys.modules["loop"] = iter(feed)
""",
    "other hooks use the feed, before and after ours": """
def late():
    try:
        next(loop)
        os._exit(3)
    except leat.Error as e:
        assert "exits" in str(e), e
    try:
        leat.Prefetcher(fast, "cpu", batch_size=10)
        os._exit(4)
    except leat.Error as e:
        assert "exits" in str(e), e
atexit._clear()
atexit.register(late)                       # runs after the hook of leat
atexit.register(leat._core.stop_all)
atexit.register(lambda: next(loop)["x"])    # runs before it
feed = feed_of(fast, 10)
loop = iter(feed)
""",
    "daemon threads sit in next": """
feeds = [feed_of(slow, 10_000_000) for _ in range(2)]
loops = [iter(feed) for feed in feeds]
inside(2, lambda i: waits_forever(loops[i]))
""",
    "daemon threads take batches": """
feeds = [feed_of(fast, 10) for _ in range(2)]
def body(i):
    while True:
        for batch in feeds[i]:
            batch["x"].sum()
inside(2, body)
""",
    "daemon threads make and drop feeds": """
def body(i):
    while True:
        for batch in feed_of(fast, 10).epoch(0):
            if batch.index == i:
                break
inside(2, body)
""",
    "daemon threads use datasets and tensors, and errors come": """
feed = feed_of(fast, 10)
loop = iter(feed)
batch = next(loop)
def body(i):
    while True:
        try:
            if i == 0:
                fast[7]["x"]
                leat.InMemory(x=np.zeros((10, 2))).read(3)
            elif i == 1:
                batch["x"].sum()
                batch.items()
                feed.stats()._repr_html_()
            else:
                feed.state_dict()
                leat.Prefetcher(fast, "cpu", batch_size=10, framework="nothing")
        except ValueError:
            pass
inside(3, body)
""",
    "daemon threads close feeds": """
def body(i):
    while True:
        feed = feed_of(slow, 1_000_000, workers=2)
        iter(feed)
        feed.close()
inside(2, body)
""",
    "an exception that nobody handles leaves the loop": """
for batch in feed_of(fast, 10):
    x = batch["x"]
    if batch.index == 3:
        raise SystemError("on purpose")
""",
    "sys.exit in the loop": """
feed = feed_of(fast, 10)
for batch in feed:
    if batch.index == 3:
        sys.exit(5)
""",
}

CODES = {
    "an exception that nobody handles leaves the loop": 1,
    "sys.exit in the loop": 5,
}
