#!/usr/bin/env python3
"""The desktop: its start, screenshots beside the usual programs, and pixels through the pipe beside a direct connection.

Direct means a VNC client in the sandbox's own network namespace, on TCP to an X server that was started for that, without the
pipe, the server and the WebSocket in between. Both clients ask for the whole screen again and again, raw and compressed.
"""

import argparse
import base64
import ctypes
import os
import socket
import struct
import sys
import time

from yard import Yard, spread

RAW, TIGHT = 0, 7
CLONE_NEWNET = 0x40000000


class Stream:
    """Bytes of a socket, plain or in the binary frames of a WebSocket."""

    def __init__(self, plain, framed):
        self.plain, self.framed, self.left = plain, framed, 0
        self.file = plain.makefile("rb", 1 << 20)

    def send(self, data):
        if self.framed:
            head = bytes([0x82, 0x80 | len(data)]) if len(data) < 126 else struct.pack(">BBH", 0x82, 0xFE, len(data))
            data = head + bytes(4) + data
        self.plain.sendall(data)

    def read(self, count):
        parts = []
        while count:
            if self.framed and not self.left:
                kind, length = self.file.read(2)
                length = {126: lambda: struct.unpack(">H", self.file.read(2))[0], 127: lambda: struct.unpack(">Q", self.file.read(8))[0]}.get(length, lambda: length)()
                if kind & 0xF not in (0, 2):
                    self.file.read(length)
                    continue
                self.left = length
            part = self.file.read(min(count, self.left) if self.framed else count)
            if not part:
                raise SystemExit("the stream ended")
            self.left -= len(part)
            count -= len(part)
            parts.append(part)
        return b"".join(parts)


def web_socket(yard, job):
    plain = socket.create_connection((yard.host, yard.port))
    key = base64.b64encode(os.urandom(16)).decode()
    plain.sendall(f"GET /jobs/{job}/desktop/socket HTTP/1.1\r\nHost: {yard.host}:{yard.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
    stream = Stream(plain, True)
    while stream.file.readline() != b"\r\n":
        pass
    return stream


def direct_tcp(pid, port):
    """Connects from within the network namespace of a process; the connection stays there when we leave."""
    libc = ctypes.CDLL(None, use_errno=True)
    own, other = os.open("/proc/self/ns/net", os.O_RDONLY), os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if libc.setns(other, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        return Stream(socket.create_connection(("127.0.0.1", port)), False)
    finally:
        libc.setns(own, CLONE_NEWNET)


def throughput(stream, encoding, seconds):
    """Bytes of the protocol and screens in each second."""
    stream.read(12)
    stream.send(b"RFB 003.008\n")
    stream.read(stream.read(1)[0])
    stream.send(b"\x01")
    stream.read(4)
    stream.send(b"\x01")
    init = stream.read(24)
    width, height = struct.unpack(">HH", init[:4])
    stream.read(struct.unpack(">I", init[20:])[0])
    stream.send(struct.pack(">BBHi", 2, 0, 1, encoding))
    ask = struct.pack(">BBHHHH", 3, 0, 0, 0, width, height)
    total = screens = 0
    began = None
    stream.send(ask)
    while True:
        stream.send(ask)
        total += update(stream)
        screens += 1
        if screens == 3:
            began, total, screens = time.monotonic(), 0, 3
        if began and time.monotonic() - began > seconds:
            spent = time.monotonic() - began
            stream.plain.close()
            return total / spent / 1e6, (screens - 3) / spent


def update(stream):
    head = stream.read(4)
    count, size = struct.unpack(">H", head[2:])[0], 4
    for _ in range(count):
        _, _, width, height, encoding = struct.unpack(">HHHHi", stream.read(12))
        size += 12 + (width * height * 4 if encoding == RAW else 0)
        if encoding == RAW:
            stream.read(width * height * 4)
        else:
            size += tight(stream, width, height)
    return size


def tight(stream, width, height):
    """Skips one rectangle; the length that it had."""
    control = stream.read(1)[0]
    size = 1
    if control >> 4 == 8:
        stream.read(3)
        return size + 3
    if control >> 4 == 9:
        return size + compact(stream)
    filtered = stream.read(1)[0] if control >> 4 & 4 else 0
    size += control >> 4 & 4 and 1
    pixels = width * height * 3
    if filtered == 1:
        colours = stream.read(1)[0] + 1
        stream.read(colours * 3)
        size += 1 + colours * 3
        pixels = (width + 7) // 8 * height if colours == 2 else width * height
    if pixels < 12:
        stream.read(pixels)
        return size + pixels
    return size + compact(stream)


def compact(stream):
    length = shift = used = 0
    while True:
        byte = stream.read(1)[0]
        length |= (byte & 0x7F) << shift
        shift, used = shift + 7, used + 1
        if byte < 0x80 or used == 3:
            break
    stream.read(length)
    return length + used


def shell(yard, job, command):
    return yard.request("POST", f"/jobs/{job}/shell", {"command": command})


def session(yard):
    job = yard.request("POST", "/schedule", {"kind": "session"})["job_id"]
    while yard.request("GET", f"/status/{job}?wait=5")["sandbox"] != "live":
        pass
    return job


def timed(call):
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def picture(yard, job):
    yard.connection.request("GET", f"/jobs/{job}/screenshot.png")
    answer = yard.connection.getresponse()
    if answer.status != 200 or not answer.read().startswith(b"\x89PNG"):
        raise SystemExit("no picture")


def host_pid(name, before):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if pid not in before:
            try:
                if name in open(f"/proc/{pid}/cmdline", "rb").read():
                    return pid
            except OSError:
                continue
    raise SystemExit(f"no process {name}")


def row(what, samples, extra=""):
    median, high = spread(samples)
    print(f"| {what} | {median:.1f} | {high:.1f} | {extra} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    before = set(os.listdir("/proc"))
    yard = Yard(images="full")
    try:
        print("| what | median ms | p95 ms | |\n|---|---|---|---|")
        starts = []
        for _ in range(min(options.runs, 8)):
            job = session(yard)
            starts.append(timed(lambda: yard.request("POST", f"/jobs/{job}/gui", {"actions": [{"type": "windows"}]})))
            yard.request("DELETE", f"/jobs/{job}")
        row("desktop: first action, X server and window manager started by it", starts)
        job = session(yard)
        shell(yard, job, "xterm -geometry 150x50+10+10 -e 'seq 100000' >/dev/null 2>&1 & disown; sleep 2")
        picture(yard, job)
        row("GET screenshot.png, 1280 × 800", [timed(lambda: picture(yard, job)) for _ in range(options.runs)])
        for name, command in (("scrot", "scrot -o /tmp/s.png"), ("import", "import -window root /tmp/s.png"), ("xwd", "xwd -root -out /tmp/s.xwd")):
            if shell(yard, job, f"command -v {name}")["exit_code"]:
                print(f"| {name} in the sandbox | not measured: not in the image | | |")
                continue
            row(f"{name} in the sandbox, by the API", [timed(lambda: shell(yard, job, command)) for _ in range(options.runs)])
        row("an empty command by the API, for comparison", [timed(lambda: shell(yard, job, "true")) for _ in range(options.runs)])
        shell(yard, job, "Xvnc :2 -geometry 1280x800 -depth 24 -rfbport 5902 -localhost=0 -SecurityTypes None -AlwaysShared >/dev/null 2>&1 & disown; sleep 1")
        for number in (1, 2):
            # Text and colours, the same on both screens, so that both have the same to compress.
            shell(yard, job, f"DISPLAY=:{number} xterm -geometry 200x60+0+0 -e 'for i in $(seq 60); do seq -s \" \" $i 90; done; sleep 600' >/dev/null 2>&1 & disown; sleep 2")
        pid = host_pid(b"-rfbport\x005902", before)
        print("\n| pixels, whole screens | direct TCP, MB/s | through the pipe, MB/s | ratio |\n|---|---|---|---|")
        for name, encoding in (("raw", RAW), ("tight", TIGHT)):
            direct, _ = throughput(direct_tcp(pid, 5902), encoding, options.seconds)
            piped, _ = throughput(web_socket(yard, job), encoding, options.seconds)
            print(f"| {name} | {direct:.1f} | {piped:.1f} | {piped / direct:.2f} |")
    finally:
        yard.close()


if __name__ == "__main__":
    sys.exit(main())
