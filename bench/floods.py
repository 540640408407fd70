#!/usr/bin/env python3
"""Memory of the server, and the answer time of /healthz, while clients misbehave: crowded JSON, unfinished bodies, readers that
stop, half-sent heads. Prints one row for each flood: most resident memory, worst answer of /healthz, and memory afterwards."""

import argparse
import http.client
import resource
import socket
import threading
import time

from yard import Yard

MIB = 1024 * 1024
JSON = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"


def crowded(size):
    """JSON of so many bytes with as many values as fit."""
    return b'{"jsonrpc":"2.0","id":1,"method":"x","params":[' + b"0," * ((size - 60) // 2) + b"0]}"


def head(path, length):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: {length}\r\n\r\n".encode()


class Watch(threading.Thread):
    """Samples memory and /healthz until it is stopped."""

    def __init__(self, yard):
        super().__init__(daemon=True)
        self.yard, self.stop = yard, threading.Event()
        self.before_kib = self.most_kib = yard.resident_kib()
        self.worst_s = 0.0

    def run(self):
        while not self.stop.wait(0.05):
            self.most_kib = max(self.most_kib, self.yard.resident_kib())
            self.worst_s = max(self.worst_s, health_s(self.yard))

    def row(self, name, note):
        self.stop.set()
        self.join()
        time.sleep(5)
        after = self.yard.resident_kib()
        mib = [f"{kib / 1024:.0f}" for kib in (self.before_kib, self.most_kib, after)]
        print(f"| {name} | {' | '.join(mib)} | {self.worst_s * 1000:.0f} | {note} |", flush=True)


def health_s(yard):
    """Seconds until /healthz answers on a new connection; 30 if it does not."""
    started = time.monotonic()
    try:
        connection = http.client.HTTPConnection(yard.host, yard.port, timeout=30)
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        connection.close()
    except OSError:
        return 30.0
    return time.monotonic() - started


def connect(yard):
    stream = socket.create_connection((yard.host, yard.port), timeout=30)
    return stream


def answer(stream):
    """The status line; empty if the connection ended without one."""
    try:
        return stream.recv(4096).split(b"\r\n")[0].decode(errors="replace")
    except OSError:
        return ""


def tally(lines):
    counts = {}
    for line in lines:
        counts[line or "no answer"] = counts.get(line or "no answer", 0) + 1
    return ", ".join(f"{count} × {line}" for line, count in sorted(counts.items()))


def one_body(yard, path, size):
    body = crowded(size)
    stream = connect(yard)
    stream.settimeout(120)
    started = time.monotonic()
    try:
        stream.sendall(head(path, len(body)) + body)
    except OSError:
        pass
    line = answer(stream)
    return f"{line} after {time.monotonic() - started:.1f} s"


def unfinished(yard, count):
    """Bodies of 16 MiB that lack their last byte."""
    body = b" " * (16 * MIB - 1)
    streams = []

    def send(stream):
        try:
            stream.sendall(head("/schedule", 16 * MIB) + body)
        except OSError:
            pass

    for _ in range(count):
        stream = connect(yard)
        stream.settimeout(20)
        streams.append(stream)
    threads = [threading.Thread(target=send, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(5)
    for stream in streams:
        stream.settimeout(0.01)
    note = tally(answer(stream) for stream in streams)
    return note, streams


def slow_readers(yard, count, log):
    streams = []
    for _ in range(count):
        stream = socket.socket()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.settimeout(30)
        stream.connect((yard.host, yard.port))
        stream.sendall(f"GET /jobs/{log}/logs HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        streams.append(stream)
    time.sleep(15)
    return f"{count} readers", streams


def half_heads(yard, count):
    streams = []
    for _ in range(count):
        stream = socket.socket()
        stream.settimeout(5)
        try:
            stream.connect((yard.host, yard.port))
            stream.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
            streams.append(stream)
        except OSError:
            break
    time.sleep(3)
    return f"{len(streams)} connections", streams


def log_job(yard):
    """An ended job with 30 MiB of output."""
    job = yard.request("POST", "/schedule", {"kind": "shell", "code": "yes sandyard | head -c 30000000"})["job_id"]
    while not yard.request("GET", f"/status/{job}?wait=5").get("finished_at"):
        pass
    return job


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bodies", type=int, default=100)
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--heads", type=int, default=4200)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yard = Yard()
    try:
        log = log_job(yard)
        print("| flood | MiB before | most | MiB after | /healthz at worst, ms | answers |\n|---|---|---|---|---|---|")
        floods = [
            ("one crowded /mcp of 20 MiB", lambda: (one_body(yard, "/mcp", 20 * MIB), [])),
            ("one crowded /schedule of 16 MiB", lambda: (one_body(yard, "/schedule", 16 * MIB - 64), [])),
            (f"{options.bodies} unfinished bodies", lambda: unfinished(yard, options.bodies)),
            (f"{options.readers} readers of /logs that stop", lambda: slow_readers(yard, options.readers, log)),
            (f"{options.heads} half-sent heads", lambda: half_heads(yard, options.heads)),
        ]
        for name, flood in floods:
            watch = Watch(yard)
            watch.start()
            note, streams = flood()
            for stream in streams:
                stream.close()
            watch.row(name, note)
    finally:
        yard.connection.close()
        yard.close()


if __name__ == "__main__":
    main()
