#!/usr/bin/env python3
"""What each driver costs beside its bare tool: the start of a job, a command in a live sandbox, memory of an idle one."""

import argparse
import glob
import json
import os
import shutil
import subprocess
import time

from start import bubblewrap, docker_image, job, runc_bundle, timed
from yard import BINARY, Yard, spaced, spread

QEMU = "qemu-system-x86_64"


def processes():
    """Everything that runs."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def pss_mib(pids):
    """Memory of these, each page shared out among those that have it."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as rollup:
                total += next(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
        except (OSError, StopIteration):
            pass
    return total / 1024


class Ours:
    """One driver of a yard."""

    def __init__(self, yard, name):
        self.yard, self.name, self.label = yard, name, f"sandyard, {name}"

    def start_ms(self):
        return job(self.yard, isolation=self.name)[0]

    def idle(self, runs, gap):
        """Milliseconds of each command in an idle sandbox, and its memory in MiB."""
        before = processes()
        session = self.yard.request("POST", "/schedule", {"kind": "session", "isolation": self.name})["job_id"]
        while self.yard.request("GET", f"/status/{session}?wait=5")["sandbox"] != "live":
            pass
        time.sleep(1)
        memory = pss_mib(processes() - before)
        commands = spaced(runs, gap, lambda: self.command_ms(session))
        self.yard.request("DELETE", f"/jobs/{session}")
        return commands, memory

    def command_ms(self, session):
        begin = time.perf_counter()
        self.yard.request("POST", f"/jobs/{session}/shell", {"command": "true"})
        return (time.perf_counter() - begin) * 1e3


class Bare:
    """A tool by itself: how it starts /bin/true, how it idles, and how a command gets into it."""

    def __init__(self, label, start, idle=None, command=None, end=None):
        self.label, self.start, self.idle_command, self.command, self.end = label, start, idle, command, end

    def start_ms(self):
        return timed(self.start())

    def idle(self, runs, gap):
        if not self.idle_command:
            return None, None
        before = processes()
        process = subprocess.Popen(self.idle_command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        time.sleep(2)
        memory = pss_mib(processes() - before)
        commands = spaced(runs, gap, lambda: timed(self.command)) if self.command else None
        if self.end:
            subprocess.run(self.end, stdout=subprocess.DEVNULL, check=True)
        else:
            process.kill()
        process.wait()
        return commands, memory


def bare_bubblewrap(root):
    if not shutil.which("bwrap"):
        return None, "not installed"
    command = bubblewrap(root)
    return Bare("bubblewrap", lambda: command, [*command[:-1], "/bin/sleep", "1000"]), None


def bare_runc(root):
    if not shutil.which("runc"):
        return None, "not installed"
    bundle, idle = runc_bundle(root), runc_bundle(root, ["/bin/sleep", "1000"])
    name = f"bench-{time.time_ns()}"
    return Bare("runc run", lambda: ["runc", "run", "--bundle", bundle, f"bench-{time.time_ns()}"],
                ["runc", "run", "--bundle", idle, name], ["runc", "exec", name, "/bin/true"],
                ["runc", "kill", name, "KILL"]), None


def bare_docker(root):
    image = docker_image(root) if shutil.which("docker") else None
    if not image:
        return None, "no engine answers"
    name = f"bench-{time.time_ns()}"
    run = ["docker", "run", "--rm", "--network", "none"]
    return Bare("docker run", lambda: [*run, image, "/bin/true"], [*run, "--name", name, image, "/bin/sleep", "1000"],
                ["docker", "exec", name, "/bin/true"], ["docker", "kill", name]), None


def bare_qemu(cache):
    """The kernel of our machines, which ends in a panic where its first process would start."""
    kernels = glob.glob(f"{cache}/vm/system-*/kernel")
    if not shutil.which(QEMU):
        return None, "not installed"
    if not kernels:
        return None, "no kernel: sandyard image build --format vm"
    boot = [QEMU, "-machine", "microvm,rtc=on", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "256M",
            "-kernel", kernels[0], "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-append"]
    return Bare("qemu, kernel boot alone (TCG)", lambda: [*boot, "rdinit=/none panic=-1 quiet"],
                [*boot, "rdinit=/none panic=0 quiet"]), None


def row(subject, runs, gap, base):
    """One line of the table; returns the median start for those that are compared with it."""
    median, high = spread(spaced(runs, gap, subject.start_ms))
    commands, memory = subject.idle(runs, gap)
    command = f"{spread(commands)[0]:.1f}" if commands else "–"
    ratio = f"{median / base:.2f}" if base else "1.00"
    print(f"| {subject.label} | {median:.1f} | {high:.1f} | {ratio} | {command} | "
          f"{f'{memory:.1f}' if memory is not None else '–'} |", flush=True)
    return median


def tried(yard):
    """The drivers, when each has been tried."""
    while True:
        drivers = yard.request("GET", "/drivers")["drivers"]
        if all(driver["state"] != "trying" for driver in drivers):
            return drivers


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--slow-runs", type=int, default=5, help="for virtual machines and engines")
    parser.add_argument("--gap", type=float, default=0.15, help="seconds between launches, at least 0.1")
    parser.add_argument("--only", help="drivers, separated by commas")
    arguments = parser.parse_args()
    gap = max(arguments.gap, 0.1)

    images = json.loads(subprocess.run([BINARY, "image", "list", "--json"], check=True, capture_output=True,
                                       text=True).stdout)
    root = next(image["root"] for image in images if image["flavour"] == "base")
    cache = os.environ.get("SANDYARD_CACHE", "/var/cache/sandyard")
    bare = {"native": lambda: bare_bubblewrap(root), "oci": lambda: bare_runc(root),
            "docker": lambda: bare_docker(root), "qemu": lambda: bare_qemu(cache)}

    yard = Yard(driver="auto")
    try:
        print("| what | start, median ms | p95 ms | × bare tool | command, median ms | idle, MiB |\n|---|---|---|---|---|---|")
        for driver in tried(yard):
            name = driver["name"]
            if arguments.only and name not in arguments.only.split(","):
                continue
            runs = arguments.runs if name in ("native", "oci") else arguments.slow_runs
            tool, missing = bare.get(name, lambda: (None, "has no bare tool here"))()
            base = row(tool, runs, gap, None) if tool else None
            if missing:
                print(f"| bare tool of {name} | not measured: {missing} | | | | |")
            if driver["usable"]:
                row(Ours(yard, name), runs, gap, base)
            else:
                print(f"| sandyard, {name} | not measured: {driver['detail']} | | | | |")
    finally:
        yard.close()


if __name__ == "__main__":
    main()
