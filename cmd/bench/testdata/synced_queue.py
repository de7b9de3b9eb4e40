"""Measures a directory queue (dirq, QueueSimple) whose every change is synced.

usage: synced_queue.py PHASE DIRECTORY WORKERS JOBS OCTETS

PHASE is submit or consume. Each worker is a process. Prints one JSON object:
jobs, seconds, errors, and of one operation p50_ms, p99_ms and p999_ms.
"""
import array
import json
import multiprocessing
import os
import random
import signal
import sys
import time

from dirq.QueueSimple import QueueSimple


def sync(path):
    """Puts a file or the entries of a directory on stable storage."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class SyncedQueue(QueueSimple):
    """A directory queue whose changes outlive the loss of power."""

    last = None  # intermediate directory known to be on stable storage

    def _add_data(self, data):
        directory, tmp = super()._add_data(data)
        sync(tmp)
        return directory, tmp

    def add(self, data):
        name = super().add(data)
        directory = name.split("/")[0]
        sync("%s/%s" % (self.path, directory))
        if directory != self.last:
            sync(self.path)
            self.last = directory
        return name

    def remove(self, name):
        super().remove(name)
        sync("%s/%s" % (self.path, name.split("/")[0]))


def submit(path, jobs, octets):
    """Adds jobs and yields after each."""
    queue = SyncedQueue(path)
    pool = random.randbytes(octets + 4096)
    for _ in range(jobs):
        start = random.randrange(4096)
        queue.add(pool[start:start + octets])
        yield True


def consume(path, jobs, octets):
    """Takes jobs until there are none and yields after each whether it is right."""
    queue = SyncedQueue(path)
    found = True
    while found:
        found = False
        for name in queue:
            if not queue.lock(name):
                continue
            found = True
            data = queue.get(name)
            queue.remove(name)
            yield len(data) == octets


def work(phase, path, jobs, octets, ready, results):
    """Is one worker: does the phase and reports how long each operation took."""
    took, errors = array.array("d"), 0
    operations = phase(path, jobs, octets)
    ready.wait()
    start = begin = time.perf_counter()
    for right in operations:
        now = time.perf_counter()
        took.append(now - begin)
        errors += not right
        begin = time.perf_counter()
    results.put((took.tobytes(), errors, start, begin))


def main():
    phase = {"submit": submit, "consume": consume}[sys.argv[1]]
    path = sys.argv[2]
    workers, jobs, octets = map(int, sys.argv[3:])
    # The children are daemons: they end with an orderly end of this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    fork = multiprocessing.get_context("fork")
    ready, results = fork.Barrier(workers), fork.SimpleQueue()
    processes = []
    for i in range(workers):
        share = jobs // workers + (i < jobs % workers)
        args = (phase, path, share, octets, ready, results)
        processes.append(fork.Process(target=work, args=args, daemon=True))
        processes[-1].start()
    # The clock is one for all processes. The first may be through before the
    # last is running, so they say themselves when they began and ended.
    took, errors, starts, ends = array.array("d"), 0, [], []
    for _ in processes:
        times, wrong, start, end = results.get()
        took.frombytes(times)
        errors += wrong
        starts.append(start)
        ends.append(end)
    seconds = max(ends) - min(starts)
    took = sorted(took)

    def quantile(fraction):
        return 1000 * took[min(int(fraction * len(took)), len(took) - 1)] if took else 0

    json.dump({"jobs": len(took), "seconds": seconds, "errors": errors, "p50_ms": quantile(0.5),
               "p99_ms": quantile(0.99), "p999_ms": quantile(0.999)}, sys.stdout)


main()
