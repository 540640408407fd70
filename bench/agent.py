#!/usr/bin/env python3
"""What a step of a task costs over the model's own time, and how much memory its loop takes over a long job.

A model that answers at once stands on loopback, so all that passes between its answer and the next question is ours: the
gateway, the durable answer, the loop, the durable intent, the tool, the durable result. Two kinds of steps: one that touches
nothing but the journal (`recall`), and one that runs a command (`true`).
"""

import argparse
import glob
import http.server
import json
import os
import threading
import time

from yard import Yard, spread


class Model(http.server.BaseHTTPRequestHandler):
    """Speaks as OpenAI's chat completions do, and notes when."""

    protocol_version = "HTTP/1.1"
    # Headers and body are two writes: without this the second waits for 40 ms, which would be counted as ours.
    disable_nagle_algorithm = True
    steps, call, gaps, memory = 0, None, [], []
    answered = None

    def do_POST(self):
        asked = time.perf_counter()
        self.rfile.read(int(self.headers["Content-Length"]))
        model = type(self)
        if model.answered is not None:
            model.gaps.append((asked - model.answered) * 1000)
            model.memory.append(loop_kib())
        step = len(model.gaps)
        name, arguments = model.call(step) if step < model.steps else ("finish", {"summary": "done"})
        call = {"index": 0, "id": f"call-{step}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        chunks = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [call]}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            {"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 20}},
        ]
        body = "".join(f"data: {json.dumps({'object': 'chat.completion.chunk', 'model': 'bench', **chunk})}\n\n" for chunk in chunks)
        payload = (body + "data: [DONE]\n\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)
        self.wfile.flush()
        model.answered = time.perf_counter()

    def log_message(self, *_):
        pass


def loop_kib():
    """Resident memory of the loop, which is the only one on this machine while this runs."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if file.read().split(b"\0")[0] != b"sandyard-agent":
                    continue
            with open(os.path.join(os.path.dirname(path), "status")) as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        except (OSError, StopIteration):
            continue
    return 0


def job(yard, steps, call):
    """Runs a task of so many steps; returns the gaps in ms and the loop's memory in KiB."""
    Model.steps, Model.call, Model.gaps, Model.memory, Model.answered = steps, staticmethod(call), [], [], None
    scheduled = yard.request("POST", "/schedule", {"task": "measure", "budget": {}, "limits": {"timeout_s": 3600}})
    while True:
        status = yard.request("GET", f"/status/{scheduled['job_id']}?wait=20")
        if status["status"] in ("complete", "error"):
            break
    if status["state"] != "succeeded":
        raise SystemExit(f"the job {status['state']}: {status.get('error')}")
    return Model.gaps, Model.memory


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--long", type=int, default=2000, help="steps of the job whose memory is watched")
    options = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yard = Yard("--model", f"openai-compatible@http://127.0.0.1:{server.server_port}/v1/bench")
    try:
        for name, call in [
            ("recall, one entry", lambda step: ("recall", {"number": 1, "first": 1 + step % 3})),
            ("shell, true", lambda step: ("shell", {"command": f"true {step}"})),
        ]:
            gaps, _ = job(yard, options.steps, call)
            median, late = spread(gaps[2:])
            print(f"{name:20} {median:7.2f} ms a step, p95 {late:7.2f}")
        _, memory = job(yard, options.long, lambda step: ("shell", {"command": f"seq {2000 + step}"}))
        seen = [kib for kib in memory if kib]
        tenth = len(seen) // 10
        early, end = max(seen[tenth : 2 * tenth]), max(seen[-tenth:])
        print(f"memory of the loop over {options.long} steps: {early} KiB in the second tenth, {end} KiB in the last")
    finally:
        yard.close()


if __name__ == "__main__":
    main()
