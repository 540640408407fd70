#!/usr/bin/env python3
"""Cold start of a sandbox and of a whole shell job, beside bubblewrap, runc and docker run."""

import argparse
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time

from yard import TARGET, Yard, spaced, spread


def timed(command):
    """Milliseconds until the command has ended."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1e3


def bubblewrap(root):
    """Bare bubblewrap with the same namespaces on the same image."""
    return ["bwrap", "--unshare-all", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
            "/bin/true"]


def runc_bundle(root, arguments=("/bin/true",)):
    """A bundle that runs a command on the image."""
    bundle = tempfile.mkdtemp(prefix="bench-runc-")
    subprocess.run(["runc", "spec", "--bundle", bundle], check=True)
    path = os.path.join(bundle, "config.json")
    with open(path) as file:
        config = json.load(file)
    config["process"].update(terminal=False, args=list(arguments))
    config["root"] = {"path": root, "readonly": True}
    with open(path, "w") as file:
        json.dump(config, file)
    return bundle


def docker_image(root):
    """Imports the image tree into the engine, if one answers."""
    if subprocess.run(["docker", "version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        return None
    if subprocess.run(["docker", "image", "inspect", "sandyard-bench"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode:
        tar = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
        subprocess.run(["docker", "import", "-", "sandyard-bench"], stdin=tar.stdout, check=True,
                       stdout=subprocess.DEVNULL)
    return "sandyard-bench"


def job(yard, isolation="any"):
    """Milliseconds from POST to the last byte of output, and to the terminal state."""
    begin = time.perf_counter()
    answer = yard.request("POST", "/schedule", {"kind": "shell", "code": "echo hi", "isolation": isolation})
    stream = http.client.HTTPConnection(yard.host, yard.port)
    stream.request("GET", f"/jobs/{answer['job_id']}/events")
    last_byte = None
    name = None
    for raw in stream.getresponse():
        line = raw.decode().strip()
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:") and name == "stdout":
            last_byte = (time.perf_counter() - begin) * 1e3
    stream.close()
    return last_byte, (time.perf_counter() - begin) * 1e3


def row(name, samples, base):
    """One line of the table."""
    median, high = spread(samples)
    print(f"| {name} | {median:.1f} | {high:.1f} | {median / base:.2f} |")
    return median


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--gap", type=float, default=0.15, help="seconds between launches, at least 0.1")
    arguments = parser.parse_args()
    runs, gap = arguments.runs, max(arguments.gap, 0.1)

    images = json.loads(subprocess.run([os.path.join(TARGET, "release", "sandyard"), "image", "list", "--json"],
                                       check=True, capture_output=True, text=True).stdout)
    root = next(image["root"] for image in images if image["flavour"] == "base")

    bwrap = spaced(runs, gap, lambda: timed(bubblewrap(root)))
    base = spread(bwrap)[0]
    print(f"{runs} runs, {gap * 1e3:.0f} ms apart, /bin/true\n")
    print("| what | median ms | p95 ms | × bubblewrap |\n|---|---|---|---|")
    row("fork + exec on the host", spaced(runs, gap, lambda: timed(["/bin/true"])), base)
    row("bubblewrap", bwrap, base)
    phases = subprocess.run([os.path.join(TARGET, "release", "examples", "start_phases"), root, str(runs),
                             str(int(gap * 1e3))], capture_output=True, text=True, check=True)
    for phase in json.loads(phases.stdout)["phases"]:
        row(f"native sandbox: {phase['name']}", phase["ms"], base)

    yard = Yard()
    try:
        samples = spaced(runs, gap, lambda: job(yard))
        last = row("sandyard: POST → last byte", [sample[0] for sample in samples], base)
        row("sandyard: POST → terminal state", [sample[1] for sample in samples], base)
    finally:
        yard.close()

    if shutil.which("runc"):
        bundle = runc_bundle(root)
        row("runc run", spaced(runs, gap, lambda: timed(["runc", "run", "--bundle", bundle, f"bench-{time.time_ns()}"])),
            base)
        shutil.rmtree(bundle)
    else:
        print("| runc run | not measured: not installed | | |")
    image = docker_image(root) if shutil.which("docker") else None
    if image:
        command = ["docker", "run", "--rm", "--network", "none", image, "/bin/true"]
        docker = row("docker run --network none", spaced(max(runs // 3, 5), gap, lambda: timed(command)), base)
        print(f"\nPOST → last byte is {docker / last:.1f}× faster than docker run")
    else:
        print("| docker run | not measured: no engine answers | | |")


if __name__ == "__main__":
    main()
