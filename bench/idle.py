#!/usr/bin/env python3
"""Proportional set size of our own processes in one idle sandbox."""

import os

from yard import Yard

ROLES = ("init", "spawner", "keeper")


def guest_processes(before):
    """Pids of the guest's roles that appeared since."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if pid in before:
            continue
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                arguments = file.read().split(b"\0")
        except OSError:
            continue
        if len(arguments) > 1 and arguments[0].endswith(b"sandyard-guest"):
            found[pid] = arguments[1].decode()
    return found


def pss_kib(pid):
    """Proportional set size of a process."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:"))


def main():
    yard = Yard()
    try:
        before = set(os.listdir("/proc"))
        job = yard.request("POST", "/schedule", {"kind": "session"})["job_id"]
        while yard.request("GET", f"/status/{job}?wait=5")["sandbox"] != "live":
            pass
        total = 0
        print("| process | PSS, MiB |\n|---|---|")
        for pid, role in sorted(guest_processes(before).items(), key=lambda pair: int(pair[0])):
            size = pss_kib(pid)
            total += size
            print(f"| {role} | {size / 1024:.2f} |")
        print(f"| together | {total / 1024:.2f} |")
        yard.request("DELETE", f"/jobs/{job}")
    finally:
        yard.close()


if __name__ == "__main__":
    main()
