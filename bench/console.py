#!/usr/bin/env python3
"""The console in a browser: a job of 100,000 events, 10,000 jobs in the list, a diff of 100,000 lines, a replay, and at rest.

Runs two jobs, stops the server, adds events to one of them and jobs to the store, and starts the server again: no program prints
that many separate events in reasonable time. Then bench/console.mjs looks at it with Debian's Chromium. With `--peer ADDRESS` it
also loads the first page of another console, such as one of OpenHands' `agent-canvas` from npm (bench/README.md).
"""

import argparse
import base64
import json
import os
import secrets
import signal
import sqlite3
import subprocess

from yard import ROOT, Yard

DIFF_LINES = 100_000


def fill(database, job, events, jobs):
    """Adds events before the end of the job, and copies of it to the list."""
    with sqlite3.connect(database) as store:
        number, last = store.execute("SELECT number, last_event FROM jobs WHERE id = ?", (job,)).fetchone()
        add_events(store, number, last, events)
        columns = [row[1] for row in store.execute("PRAGMA table_info(jobs)") if row[1] not in ("number", "id", "name")]
        names = ", ".join(columns)
        for at in range(jobs):
            name = base64.b32encode(secrets.token_bytes(16)).decode().lower().rstrip("=")
            copy = f"INSERT INTO jobs (id, name, {names}) SELECT ?, ?, {names} FROM jobs WHERE number = ?"
            store.execute(copy, (name, f"Job number-{at}", number))


def add_events(store, number, last, events):
    """Adds steps, results, words of a model and files before the last event of a job."""
    end = store.execute("SELECT kind, at_ms, data FROM events WHERE job = ? AND id = ?", (number, last)).fetchone()
    store.execute("DELETE FROM events WHERE job = ? AND id = ?", (number, last))
    kinds = [
        ("model", lambda at: {"entry": at, "offset": 0, "text": f"Now part {at}, which takes a sentence or two to explain.", "done": True}),
        ("step", lambda at: {"call": f"c{at}", "tool": "shell", "arguments": json.dumps({"command": f"make part-{at} && ./run --fast"})}),
        ("tool", lambda at: {"call": f"c{at - 1}", "tool": "shell", "failed": at % 90 == 0, "interrupted": False, "took_ms": 12, "output": "line of output\n" * 12}),
        ("file", lambda at: {"path": f"src/module_{at % 97}/part_{at}.py"}),
    ]
    rows = []
    for at in range(last, events):
        kind, data = kinds[at % 4]
        # A tenth of a second apart, so that a replay has a course.
        rows.append((number, at, kind, end[1] - (events - at) * 100, json.dumps(data(at))))
    store.executemany("INSERT INTO events (job, id, kind, at_ms, data) VALUES (?, ?, ?, ?, ?)", rows)
    store.execute("INSERT INTO events (job, id, kind, at_ms, data) VALUES (?, ?, ?, ?, ?)", (number, events, *end))
    store.execute("UPDATE jobs SET last_event = ?, revision = revision + 1 WHERE number = ?", (events, number))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer", help="address of another console")
    options = parser.parse_args()
    setup = [os.path.join(ROOT, "scripts", "setup.sh"), "modules", "browser"]
    modules = subprocess.run(setup, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isdir(modules) or not os.path.exists("/usr/bin/chromium"):
        print("not measured: needs chromium and the browser modules (scripts/setup.sh test)")
        return
    yard = Yard()
    try:
        ids = []
        for name, code in [("A long diff", f"seq {DIFF_LINES} | sed 's/$/ is a line of text/' > big.txt"), ("A long job", "echo done")]:
            # A job that starts with a file has a patch in its result.
            body = {"kind": "shell", "name": name, "code": code, "files": {"begin.txt": "begun\n"}}
            ids.append(yard.request("POST", "/schedule", body)["job_id"])
            yard.request("GET", f"/status/{ids[-1]}?wait=60&wait_for=end")
        yard.process.send_signal(signal.SIGTERM)
        yard.process.wait(30)
        diff, job = ids
        fill(os.path.join(yard.data, "yard.db"), job, options.events, options.jobs)
        yard.serve()
        seen = {"base": f"http://{yard.host}:{yard.port}", "job": job, "diff": diff, "events": options.events, "jobs": options.jobs, "runs": options.runs,
                "peer": options.peer}
        script = [os.path.join(ROOT, "bench", "console.mjs"), json.dumps(seen)]
        subprocess.run(["node", *script], env={**os.environ, "SANDYARD_BROWSER_MODULES": modules}, check=True)
    finally:
        yard.close()


if __name__ == "__main__":
    main()
