#!/usr/bin/env python3
"""The console on a job with many events: time until it shows the end, rows in the document, heap, and a linked event.

Runs a job, stops the server, adds events to its row in the store, and starts the server again: no program prints that many
separate events in reasonable time. Then bench/console.mjs looks at it with Debian's Chromium.
"""

import argparse
import json
import os
import signal
import sqlite3
import subprocess

from yard import ROOT, Yard


def fill(database: str, events: int) -> None:
    """Adds steps, results and model words before the end of the only job."""
    with sqlite3.connect(database) as store:
        number, last = store.execute("SELECT number, last_event FROM jobs").fetchone()
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
            rows.append((number, at, kind, end[1], json.dumps(data(at))))
        store.executemany("INSERT INTO events (job, id, kind, at_ms, data) VALUES (?, ?, ?, ?, ?)", rows)
        store.execute("INSERT INTO events (job, id, kind, at_ms, data) VALUES (?, ?, ?, ?, ?)", (number, events, *end))
        store.execute("UPDATE jobs SET last_event = ?, revision = revision + 1", (events,))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    setup = [os.path.join(ROOT, "scripts", "setup.sh"), "modules", "browser"]
    modules = subprocess.run(setup, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isdir(modules) or not os.path.exists("/usr/bin/chromium"):
        print("not measured: needs chromium and the browser modules (scripts/setup.sh test)")
        return
    yard = Yard()
    try:
        job = yard.request("POST", "/schedule", {"kind": "shell", "name": "A long job", "code": "echo done"})["job_id"]
        yard.request("GET", f"/status/{job}?wait=30&wait_for=end")
        yard.process.send_signal(signal.SIGTERM)
        yard.process.wait(30)
        fill(os.path.join(yard.data, "yard.db"), options.events)
        yard.serve()
        environment = {**os.environ, "SANDYARD_BROWSER_MODULES": modules}
        address = f"http://{yard.host}:{yard.port}"
        script = [os.path.join(ROOT, "bench", "console.mjs"), address, job, str(options.events), str(options.runs)]
        subprocess.run(["node", *script], env=environment, check=True)
    finally:
        yard.close()


if __name__ == "__main__":
    main()
