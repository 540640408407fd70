#!/usr/bin/env python3
"""The queue: schedule, claim and fenced finish with events, audit and sandbox rows, by the store alone, beside other queues.

All use one PostgreSQL server on this machine with its default durability, one job at a time and the same number of workers and
connections. `--reader S` holds a transaction that reads open for that long meanwhile; `--ended N` measures again beside N jobs that
have ended. Peers are npm packages: `--peers DIR --install` installs them."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PEERS = {"pg-boss": "10.4.2", "graphile-worker": "0.17.3", "pg": "8"}
CONNECTIONS = 8


class Cluster:
    """A PostgreSQL server with its own folder, ended with the script."""

    def __init__(self, data):
        versions = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        if not versions:
            sys.exit("error: PostgreSQL is not installed")
        self.programs = versions[-1]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sandyard-queue-", dir=data))
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        self.run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username=bench", f"--pgdata={self.folder}/data")
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c shared_buffers=256MB -c max_connections=100"
        self.run("pg_ctl", "start", "--wait", f"--pgdata={self.folder}/data", f"--log={self.folder}/log", "--options", options)

    def command(self, program, *arguments):
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        return [*user, str(self.programs / program), *arguments]

    def run(self, program, *arguments):
        subprocess.run(self.command(program, *arguments), check=True, stdout=subprocess.DEVNULL, cwd="/")

    def database(self, name):
        self.run("createdb", "--host", str(self.folder), "--username=bench", name)
        return f"postgres://bench@/{name}?host={str(self.folder).replace('/', '%2F')}"

    def read_long(self, name, seconds):
        """A transaction that has looked and goes on to look."""
        sql = f"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT COUNT(*) FROM pg_class; SELECT pg_sleep({seconds})"
        host = ["--host", str(self.folder), "--username=bench", "--dbname", name]
        return subprocess.Popen(self.command("psql", *host, "--command", sql), stdout=subprocess.DEVNULL, cwd="/")

    def stop(self):
        self.run("pg_ctl", "stop", "--mode=fast", f"--pgdata={self.folder}/data")
        shutil.rmtree(self.folder)


def measuring_binary():
    """The test binary of the server, in which the measurement is an ignored test."""
    build = ["cargo", "test", "--release", "--locked", "-p", "sandyard-server", "--lib", "--no-run", "--message-format=json"]
    output = subprocess.run(build, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent).stdout
    found = [json.loads(line) for line in output.splitlines()]
    return next(line["executable"] for line in reversed(found) if line.get("executable"))


def ours(binary, url, options, **settings):
    environment = {"QUEUE_JOBS": options.jobs, "QUEUE_WORKERS": options.workers, "QUEUE_DATA": options.data, **settings}
    if url:
        environment["QUEUE_URL"] = url
    environment = {name: str(value) for name, value in environment.items()}
    command = [binary, "--ignored", "--exact", "store::queue_measure::measure", "--nocapture"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | environment).stdout
    return json.loads(next(line for line in output.splitlines() if line.startswith("{")))


def peer(name, url, options):
    script = options.peers / "queue.mjs"
    shutil.copy(HERE / "queue.mjs", script)
    command = ["node", str(script), name, url, str(options.jobs), str(options.workers), str(CONNECTIONS)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=options.peers)
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


def row(what, found, unit):
    if not found:
        print(f"| {what} | not measured | | | | |")
        return
    whole = found["whole_per_s"]
    ratio = f"{whole / unit:.2f}" if unit else ""
    print(
        f"| {what} | {found['schedule_per_s']:,.0f} | {found['claim_and_finish_per_s']:,.0f} | {whole:,.0f} | {ratio} "
        f"| {found['pick_up_median_ms']:.2f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--servers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--reader", type=int, default=0, metavar="S", help="seconds beside a long reader")
    parser.add_argument("--ended", type=int, default=0, metavar="N", help="measure again beside N ended jobs")
    parser.add_argument("--peers", type=pathlib.Path, help="folder with the npm packages of the peers")
    parser.add_argument("--install", action="store_true", help="install the peers there")
    parser.add_argument("--data", default="/tmp", help="folder on the disk that is measured")
    parser.add_argument("--binary", help="the built test binary of the server")
    options = parser.parse_args()
    if options.install:
        options.peers.mkdir(parents=True, exist_ok=True)
        packages = [f"{name}@{version}" for name, version in PEERS.items()]
        subprocess.run(["npm", "install", "--silent", "--ignore-scripts", *packages], check=True, cwd=options.peers)
    binary = options.binary or measuring_binary()
    cluster = Cluster(options.data)
    try:
        measure(binary, cluster, options)
    finally:
        cluster.stop()


def measure(binary, cluster, options):
    print("| what | schedule/s | claim and finish/s | whole/s | x pg-boss | pick-up, median ms |")
    print("|---|---|---|---|---|---|")
    found = {name: None for name in ["pg-boss", "graphile-worker"]}
    if options.peers:
        found = {name: peer(name, cluster.database(name.replace("-", "_")), options) for name in found}
    unit = (found["pg-boss"] or {}).get("whole_per_s")
    for name, result in found.items():
        row(f"{name} {PEERS[name]}", result, unit)
    for servers in options.servers:
        result = ours(binary, cluster.database(f"ours_{servers}"), options, QUEUE_SERVERS=servers)
        row(f"Sandyard on PostgreSQL, servers: {servers}", result, unit)
    row("Sandyard on SQLite", ours(binary, None, options), unit)
    if options.ended:
        url = cluster.database("ended")
        settings = {"QUEUE_JOBS": options.ended, "QUEUE_PICK_UPS": 10}
        ours(binary, url, options, **settings)
        # The same data folder's key is gone, so the yard forgets its proof.
        cluster.run("psql", "--host", str(cluster.folder), "--username=bench", "--dbname=ended", "--command", "DELETE FROM sandyard.yard")
        row(f"beside {options.ended:,} ended jobs", ours(binary, url, options), unit)
    if options.reader:
        beside_reader(binary, cluster, options, unit)


def beside_reader(binary, cluster, options, unit):
    """The same again and again in one database, while one transaction reads all the time."""
    url = cluster.database("reader")
    forget = ["--host", str(cluster.folder), "--username=bench", "--dbname=reader", "--command", "DELETE FROM sandyard.yard"]
    row("before the long reader", ours(binary, url, options), unit)
    cluster.run("psql", *forget)
    reader = cluster.read_long("reader", options.reader + 60)
    begun, last = time.monotonic(), None
    while time.monotonic() - begun < options.reader:
        last = ours(binary, url, options)
        cluster.run("psql", *forget)
    row(f"after {time.monotonic() - begun:,.0f} s beside a long reader", last, unit)
    reader.kill()


if __name__ == "__main__":
    main()
