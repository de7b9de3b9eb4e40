"""Serves a directory queue (dirq, QueueSimple) whose every change is synced.

usage: synced_queue.py DIRECTORY HOST PORT

A client has a connection with a thread. "put N" with N bytes on the next line adds a job,
and the answer is ":". "take" takes one, and the answer is "$N" with its bytes on the next
line, or "$-1" if there is none.
"""
import os
import socketserver
import sys

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

    def take(self):
        """Returns jobs until there are none."""
        found = True
        while found:
            found = False
            for name in self:
                if self.lock(name):
                    found = True
                    data = self.get(name)
                    self.remove(name)
                    yield data


class Client(socketserver.StreamRequestHandler):
    wbufsize = -1
    disable_nagle_algorithm = True

    def handle(self):
        queue = SyncedQueue(sys.argv[1])
        jobs = queue.take()
        for line in self.rfile:
            if line.startswith(b"put "):
                queue.add(self.rfile.read(int(line[4:]) + 2)[:-2])
                self.wfile.write(b":\r\n")
            else:
                data = next(jobs, None)
                if data is None:
                    jobs = queue.take()
                    self.wfile.write(b"$-1\r\n")
                else:
                    self.wfile.write(b"$%d\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1000


Server((sys.argv[2], int(sys.argv[3])), Client).serve_forever()
