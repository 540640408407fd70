#!/usr/bin/env python3
"""What each driver costs beside its bare tool: the start of a job, a command in a live sandbox, its processor's speed, memory of an idle one."""

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

# Counts in the interpreter that every image has: the processor's work alone.
WORK = "awk 'BEGIN { while (i < 5000000) i++ }'"


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
        """Milliseconds of each command in an idle sandbox and of the work, and its memory in MiB."""
        before = processes()
        session = self.yard.request("POST", "/schedule", {"kind": "session", "isolation": self.name})["job_id"]
        while self.yard.request("GET", f"/status/{session}?wait=5")["sandbox"] != "live":
            pass
        time.sleep(1)
        memory = pss_mib(processes() - before)
        commands = spaced(runs, gap, lambda: self.command_ms(session, "true"))
        work = spaced(3, gap, lambda: self.command_ms(session, WORK))
        self.yard.request("DELETE", f"/jobs/{session}")
        return commands, work, memory

    def command_ms(self, session, command):
        begin = time.perf_counter()
        answer = self.yard.request("POST", f"/jobs/{session}/shell", {"command": command})
        if answer["exit_code"] != 0:
            raise SystemExit(f"{command}: {answer}")
        return (time.perf_counter() - begin) * 1e3


class Bare:
    """A tool by itself: how it starts /bin/true, how it idles, and what to put before a command for it."""

    def __init__(self, label, start, idle, enter=None, end=None):
        self.label, self.start, self.idle_command, self.enter, self.end = label, start, idle, enter, end

    def start_ms(self):
        return timed(self.start())

    def idle(self, runs, gap):
        before = processes()
        process = subprocess.Popen(self.idle_command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        time.sleep(2)
        memory = pss_mib(processes() - before)
        commands = work = None
        if self.enter:
            commands = spaced(runs, gap, lambda: timed([*self.enter, "/bin/true"]))
            work = spaced(3, gap, lambda: timed([*self.enter, "/bin/sh", "-c", WORK]))
        if self.end:
            subprocess.run(self.end, stdout=subprocess.DEVNULL, check=True)
        else:
            process.kill()
        process.wait()
        return commands, work, memory


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
                ["runc", "run", "--bundle", idle, name], ["runc", "exec", name],
                ["runc", "kill", name, "KILL"]), None


def bare_docker(root):
    image = docker_image(root) if shutil.which("docker") else None
    if not image:
        return None, "no engine answers"
    name = f"bench-{time.time_ns()}"
    run = ["docker", "run", "--rm", "--network", "none"]
    return Bare("docker run", lambda: [*run, image, "/bin/true"], [*run, "--name", name, image, "/bin/sleep", "1000"],
                ["docker", "exec", name], ["docker", "kill", name]), None


def bare_qemu(cache):
    """The kernel of our machines, which ends in a panic where its first process would start."""
    kernels = glob.glob(f"{cache}/kernels/*/vmlinuz")
    if not shutil.which(QEMU):
        return None, "not installed"
    if not kernels:
        return None, "no kernel: sandyard image build --format vm"
    boot = [QEMU, "-machine", "microvm,pcie=off,usb=off,x-option-roms=off,isa-serial=on,rtc=on", "-accel",
            "tcg,thread=multi", "-cpu", "max", "-m", "256M", "-kernel", kernels[0], "-nodefaults", "-no-user-config",
            "-display", "none", "-monitor", "none", "-no-reboot", "-append"]
    arguments = f"quiet reboot=t no_timer_check tsc_early_khz={clock_khz()} rdinit=/none panic="
    return Bare("qemu, kernel boot alone (TCG)", lambda: [*boot, arguments + "-1"], [*boot, arguments + "0"]), None


def clock_khz():
    """Rate of the processor's clock, without which an emulated boot may hang."""
    with open("/proc/cpuinfo") as file:
        return next(int(float(line.split(":")[1]) * 1000) for line in file if line.startswith("cpu MHz"))


def row(subject, runs, gap, base):
    """One line of the table; returns the median start for those that are compared with it."""
    median, high = spread(spaced(runs, gap, subject.start_ms))
    commands, work, memory = subject.idle(runs, gap)
    command, worked = (f"{spread(samples)[0]:.1f}" if samples else "–" for samples in (commands, work))
    ratio = f"{median / base:.2f}" if base else "1.00"
    print(f"| {subject.label} | {median:.1f} | {high:.1f} | {ratio} | {command} | {worked} | {memory:.1f} |", flush=True)
    return median


def tried(yard):
    """The drivers, when each has been tried."""
    while True:
        drivers = yard.request("GET", "/drivers")["drivers"]
        if all(driver["state"] != "trying" for driver in drivers):
            return drivers
        time.sleep(0.5)


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

    # A distribution's runtime may be outdated, which is no matter here.
    for driver in ("OCI", "DOCKER"):
        os.environ.setdefault(f"SANDYARD_{driver}_ALLOW_OUTDATED_RUNTIME", "true")
    yard = Yard(driver="auto")
    try:
        print("| what | start, median ms | p95 ms | × bare tool | command, ms | work, ms | idle, MiB |\n|---|---|---|---|---|---|---|")
        host = spread(spaced(3, gap, lambda: timed(["/bin/sh", "-c", WORK])))[0]
        print(f"| the host itself | | | | | {host:.1f} | |", flush=True)
        for driver in tried(yard):
            name = driver["name"]
            if arguments.only and name not in arguments.only.split(","):
                continue
            runs = arguments.runs if name in ("native", "oci") else arguments.slow_runs
            tool, missing = bare.get(name, lambda: (None, "has no bare tool here"))()
            base = row(tool, runs, gap, None) if tool else None
            if missing:
                print(f"| bare tool of {name} | not measured: {missing} | | | | | |")
            if driver["usable"]:
                row(Ours(yard, name), runs, gap, base)
            else:
                print(f"| sandyard, {name} | not measured: {driver['detail']} | | | | | |")
    finally:
        yard.close()


if __name__ == "__main__":
    main()
