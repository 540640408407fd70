"""A server for one benchmark: the release binary on a temporary data folder."""

import http.client
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
BINARY = os.path.join(TARGET, "release", "sandyard")


class Yard:
    """Starts `sandyard up`, speaks HTTP to it over one kept connection, and removes everything at the end."""

    def __init__(self, *flags, images="base", driver="native"):
        self.data = tempfile.mkdtemp(prefix="bench-yard-")
        self.images = images
        self.driver = driver
        self.serve(*flags)

    def serve(self, *flags):
        """Starts the server on the data folder."""
        self.log = open(os.path.join(self.data, "server.log"), "wb")
        command = [BINARY, "up", "--listen", "127.0.0.1:0", "--driver", self.driver, "--images", self.images,
                   "--data", self.data, *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        for line in self.process.stdout:
            found = re.search(r"http://([\d.]+):(\d+)", line)
            if found:
                self.host, self.port = found.group(1), int(found.group(2))
                break
        else:
            raise SystemExit(open(self.log.name).read())
        self.connection = http.client.HTTPConnection(self.host, self.port)

    def request(self, method, path, body=None):
        """One exchange; returns the parsed JSON."""
        payload = None if body is None else json.dumps(body)
        self.connection.request(method, path, payload, {"Content-Type": "application/json"} if payload else {})
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status >= 400:
            raise SystemExit(f"{method} {path}: {answer.status} {data.decode(errors='replace')}")
        return json.loads(data) if data else None

    def resident_kib(self):
        """Resident memory of the server."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def close(self):
        """Removes every job, then the server and its data."""
        cursor = None
        while True:
            page = self.request("GET", "/jobs?limit=200" + (f"&cursor={cursor}" if cursor else ""))
            live = [job for job in page["jobs"] if job.get("sandbox") not in (None, "none", "gone")]
            for job in live:
                self.request("DELETE", f"/jobs/{job['job_id']}")
            cursor = page.get("cursor")
            if not cursor or not page["jobs"] or not live:
                break
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        shutil.rmtree(self.data, ignore_errors=True)


def spread(samples):
    """Median and 95th percentile."""
    ordered = sorted(samples)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]


def spaced(runs, gap, sample):
    """Calls `sample` so many times with a pause before each, after one that does not count."""
    results = []
    for number in range(runs + 1):
        time.sleep(gap)
        value = sample()
        if number:
            results.append(value)
    return results
