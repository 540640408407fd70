#!/usr/bin/env python3
"""Rates of /status and /schedule beside an empty axum handler, and the server's memory as jobs pile up."""

import argparse
import json
import os
import random
import re
import sqlite3
import subprocess
import tempfile
import time

from yard import TARGET, Yard

# The letters of a job's id.
ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def wrk(url, seconds, script=None):
    """Requests per second over 64 kept connections."""
    command = ["wrk", "-t2", "-c64", f"-d{seconds}s", "--latency", url]
    if script:
        command[1:1] = ["-s", script]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in output:
        raise SystemExit(f"{url} answered with errors:\n{output}")
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))
    p99 = re.search(r"99%\s+(\S+)", output).group(1)
    return rate, p99


def empty_handler(seconds):
    """The same client against an axum handler that does nothing."""
    server = subprocess.Popen([os.path.join(TARGET, "release", "examples", "empty_handler")], stdout=subprocess.PIPE,
                              text=True)
    try:
        return wrk(server.stdout.readline().strip(), seconds)
    finally:
        server.kill()
        server.wait()


def wait_until_done_with(database, job):
    """Returns when nothing is left to do for a job; a copy made before would be work for the next server."""
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    while connection.execute("SELECT open FROM jobs WHERE id = ?", (job,)).fetchone()[0]:
        time.sleep(0.05)
    connection.close()


def seed(database, job, count):
    """Copies the rows of one ended job until so many are stored."""
    connection = sqlite3.connect(database)
    columns = lambda table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    source, = connection.execute("SELECT number FROM jobs WHERE id = ?", (job,)).fetchone()
    present, = connection.execute("SELECT count(*) FROM jobs").fetchone()
    rest = [column for column in columns("jobs") if column not in ("number", "id")]
    with connection:
        for _ in range(count - present):
            fresh = "".join(random.choices(ALPHABET, k=len(job)))
            cursor = connection.execute(f"INSERT INTO jobs (id, {', '.join(rest)}) SELECT ?, {', '.join(rest)} "
                                        "FROM jobs WHERE number = ?", (fresh, source))
            for table in ("requests", "events", "chunks"):
                others = ", ".join(column for column in columns_of(columns, table) if column != "job")
                connection.execute(f"INSERT INTO {table} (job, {others}) SELECT ?, {others} FROM {table} WHERE job = ?",
                                   (cursor.lastrowid, source))
    connection.close()


def columns_of(columns, table, known={}):
    """Column names of a table, asked once."""
    if table not in known:
        known[table] = columns(table)
    return known[table]


def lua(lines):
    """A script for wrk."""
    file = tempfile.NamedTemporaryFile("w", suffix=".lua", delete=False)
    file.write("\n".join(lines))
    file.close()
    return file.name


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=10)
    arguments = parser.parse_args()

    memory = []
    yard = Yard()
    memory.append((0, yard.resident_kib()))
    first = yard.request("POST", "/schedule", {"kind": "shell", "code": "echo hello"})["job_id"]
    wait_until_done_with(os.path.join(yard.data, "yard.db"), first)
    for count in (1_000, arguments.jobs):
        yard.process.terminate()
        yard.process.wait(30)
        seed(os.path.join(yard.data, "yard.db"), first, count)
        yard.serve()
        ids = [job["job_id"] for job in yard.request("GET", "/jobs?limit=200")["jobs"]]
        for job in ids:
            yard.request("GET", f"/status/{job}")
        memory.append((count, yard.resident_kib()))

    paths = ",".join(json.dumps(f"/status/{job}") for job in ids)
    status_script = lua([f"local paths = {{{paths}}}", "local n = 0",
                         "request = function() n = n + 1; return wrk.format('GET', paths[n % #paths + 1]) end"])
    empty, empty_p99 = empty_handler(arguments.seconds)
    status, status_p99 = wrk(f"http://{yard.host}:{yard.port}/", arguments.seconds, status_script)
    empty_again, _ = empty_handler(arguments.seconds)
    base = (empty + empty_again) / 2
    print(f"{arguments.jobs} jobs stored, 64 connections, {arguments.seconds} s\n")
    print("| what | requests/s | p99 | of the empty handler |\n|---|---|---|---|")
    print(f"| empty axum handler | {base:.0f} | {empty_p99} | 1.00 |")
    print(f"| GET /status/{{id}} | {status:.0f} | {status_p99} | {status / base:.2f} |")

    yard.process.terminate()
    yard.process.wait(30)
    yard.serve("--concurrency", "0", "--queue", "10000000")
    body = json.dumps({"kind": "shell", "code": "true"})
    schedule_script = lua(["wrk.method = 'POST'", f"wrk.body = '{body}'",
                           "wrk.headers['Content-Type'] = 'application/json'"])
    schedule, schedule_p99 = wrk(f"http://{yard.host}:{yard.port}/schedule", arguments.seconds, schedule_script)
    print(f"| POST /schedule (durable) | {schedule:.0f} | {schedule_p99} | {schedule / base:.2f} |")
    print("\n| jobs stored | server's resident memory, MiB |\n|---|---|")
    for count, kib in memory:
        print(f"| {count} | {kib / 1024:.1f} |")
    yard.process.kill()
    yard.process.wait()
    subprocess.run(["rm", "-rf", yard.data], check=True)


if __name__ == "__main__":
    main()
