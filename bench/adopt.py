#!/usr/bin/env python3
"""How long a new server takes to adopt the live sandboxes of a killed one, and how `/healthz` answers meanwhile."""

import http.client
import sys
import time

from yard import Yard

SIZES = (64, 300, 1000)


def metric(yard, name):
    """The value of a counter."""
    yard.connection.request("GET", "/metrics")
    text = yard.connection.getresponse().read().decode()
    return next((float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " ")), 0)


def adopt(sandboxes):
    """Returns the seconds until all are adopted, and the slowest answer of /healthz in milliseconds."""
    flags = ("--concurrency", str(sandboxes), "--memory-mib", str(sandboxes * 32 + 2048), "--disk-mib", str(sandboxes * 80))
    yard = Yard(*flags)
    try:
        limits = {"memory_mib": 32, "disk_mib": 64, "timeout_s": 3600}
        jobs = [yard.request("POST", "/schedule", {"kind": "session", "limits": limits})["job_id"]
                for _ in range(sandboxes)]
        for job in jobs:
            while yard.request("GET", f"/status/{job}?fields=sandbox")["sandbox"] != "live":
                time.sleep(0.05)
        yard.process.kill()
        yard.process.wait()
        began = time.monotonic()
        yard.serve(*flags)
        slowest = 0.0
        while metric(yard, "sandyard_links_total") < sandboxes:
            asked = time.monotonic()
            health = http.client.HTTPConnection(yard.host, yard.port)
            health.request("GET", "/healthz")
            health.getresponse().read()
            health.close()
            slowest = max(slowest, time.monotonic() - asked)
            if time.monotonic() - began > 120:
                break
            time.sleep(0.02)
        return time.monotonic() - began, slowest * 1000, metric(yard, "sandyard_leases_lost_total")
    finally:
        yard.close()


def main():
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    print("| live sandboxes | adopted in, s | slowest `/healthz`, ms | leases lost |\n|---|---|---|---|")
    for size in sizes:
        seconds, slowest, lost = adopt(size)
        print(f"| {size} | {seconds:.2f} | {slowest:.0f} | {lost:.0f} |", flush=True)


if __name__ == "__main__":
    main()
