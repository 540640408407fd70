#!/usr/bin/env python3
"""Latency of one execution: through our API, and by jupyter_client, Jupyter Kernel Gateway and SWE-ReX beside it.

Everything runs the same ipykernel of the same image, in the same kind of sandbox: the peers run inside a session, so that
what is compared is the way to the kernel and not the kernel. SWE-ReX has no kernel; its persistent bash runs `echo 1`, and
is measured against our bash kernel's neighbour in the table for what it is.

The peers come from a virtual environment outside of the checkout (`--peers DIR`, made by `--install`); without it they are
reported as not measured.
"""

import argparse
import io
import json
import subprocess
import sys
import tarfile
import time

from yard import Yard, spread

PROBE = r"""
import json, statistics, sys, time
runs = int(sys.argv[1])
from jupyter_client.manager import KernelManager
began = time.perf_counter()
manager = KernelManager(kernel_name='python3'); manager.start_kernel()
client = manager.blocking_client(); client.start_channels(); client.wait_for_ready(timeout=60)
client.execute_interactive('1', output_hook=lambda message: None)
start = time.perf_counter() - began
samples = []
for number in range(runs + 5):
    began = time.perf_counter()
    request = client.execute('1+1', allow_stdin=False)
    replied = idle = False
    while not replied:
        replied = client.get_shell_msg(timeout=30)['parent_header'].get('msg_id') == request
    while not idle:
        message = client.get_iopub_msg(timeout=30)
        idle = message['msg_type'] == 'status' and message['content']['execution_state'] == 'idle' and message['parent_header'].get('msg_id') == request
    samples.append((time.perf_counter() - began) * 1000)
manager.shutdown_kernel(now=True)
print(json.dumps({'start': start * 1000, 'samples': samples[5:]}))
"""

GATEWAY = r"""
import asyncio, json, subprocess, sys, time, urllib.request, uuid
runs = int(sys.argv[1])
import tornado.websocket, tornado.httpclient
server = subprocess.Popen([sys.executable, '-m', 'kernel_gateway', '--KernelGatewayApp.port=9898', '--KernelGatewayApp.ip=127.0.0.1'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
base = 'http://127.0.0.1:9898'
for _ in range(600):
    try:
        urllib.request.urlopen(base + '/api').read(); break
    except OSError:
        time.sleep(0.1)
async def main():
    began = time.perf_counter()
    request = urllib.request.Request(base + '/api/kernels', data=b'{"name": "python3"}', method='POST')
    kernel = json.load(urllib.request.urlopen(request))['id']
    socket = await tornado.websocket.websocket_connect(base.replace('http', 'ws') + f'/api/kernels/{kernel}/channels')
    session = uuid.uuid4().hex
    async def execute():
        name = uuid.uuid4().hex
        header = {'msg_id': name, 'msg_type': 'execute_request', 'session': session, 'username': '', 'version': '5.3', 'date': ''}
        content = {'code': '1+1', 'silent': False, 'store_history': True, 'user_expressions': {}, 'allow_stdin': False}
        await socket.write_message(json.dumps({'header': header, 'parent_header': {}, 'metadata': {}, 'content': content, 'channel': 'shell', 'buffers': []}))
        replied = idle = False
        while not (replied and idle):
            message = json.loads(await socket.read_message())
            if message['parent_header'].get('msg_id') != name: continue
            replied |= message['msg_type'] == 'execute_reply'
            idle |= message['msg_type'] == 'status' and message['content']['execution_state'] == 'idle'
    await execute()
    start = time.perf_counter() - began
    samples = []
    for number in range(runs + 5):
        began = time.perf_counter(); await execute(); samples.append((time.perf_counter() - began) * 1000)
    print(json.dumps({'start': start * 1000, 'samples': samples[5:]}))
try:
    asyncio.run(main())
finally:
    server.terminate()
"""

REX = r"""
import asyncio, json, sys, time
runs = int(sys.argv[1])
from swerex.runtime.local import LocalRuntime
from swerex.runtime.abstract import BashAction, CreateBashSessionRequest
async def main():
    began = time.perf_counter()
    runtime = LocalRuntime()
    await runtime.create_session(CreateBashSessionRequest())
    action = BashAction(command='echo 2', timeout=30)
    await runtime.run_in_session(action)
    start = time.perf_counter() - began
    samples = []
    for number in range(runs + 5):
        began = time.perf_counter(); await runtime.run_in_session(action); samples.append((time.perf_counter() - began) * 1000)
    print(json.dumps({'start': start * 1000, 'samples': samples[5:]}))
asyncio.run(main())
"""


def install(folder):
    """The peers, with whatever pip the machine has."""
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "jupyter_kernel_gateway", "swe-rex"], check=True)


def upload(yard, job, folder):
    """Puts a folder into the workspace as one archive."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(folder, "peers")
    yard.connection.request("PUT", f"/jobs/{job}/files/peers.tar.gz", data.getvalue())
    answer = yard.connection.getresponse()
    answer.read()
    assert answer.status < 300, answer.status
    shell(yard, job, "tar xzf peers.tar.gz && rm peers.tar.gz")


def shell(yard, job, command, timeout=600):
    return yard.request("POST", f"/jobs/{job}/shell", {"command": command, "timeout_s": timeout})


def inside(yard, job, name, program, runs, env=""):
    """Runs a measuring program in the sandbox."""
    yard.connection.request("PUT", f"/jobs/{job}/files/{name}.py", program)
    yard.connection.getresponse().read()
    answer = shell(yard, job, f"{env} python3 {name}.py {runs}")
    lines = answer["stdout"].strip().splitlines()
    if answer["exit_code"] or not lines:
        print(f"{name}: not measured ({answer['stderr'].strip().splitlines()[-1:]})", file=sys.stderr)
        return None
    return json.loads(lines[-1])


def ours(yard, job, language, code, runs):
    """Through the API, over one kept connection."""
    body = {"language": language, "code": code}
    began = time.perf_counter()
    yard.request("POST", f"/jobs/{job}/code", body)
    start = (time.perf_counter() - began) * 1000
    samples = []
    for _ in range(runs + 5):
        began = time.perf_counter()
        answer = yard.request("POST", f"/jobs/{job}/code", body)
        samples.append((time.perf_counter() - began) * 1000)
        assert answer["status"] == "ok", answer
    return {"start": start, "samples": samples[5:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--peers", help="folder with jupyter_kernel_gateway and swe-rex, outside of the checkout")
    parser.add_argument("--install", action="store_true", help="fill that folder first")
    options = parser.parse_args()
    if options.peers and options.install:
        install(options.peers)
    yard = Yard(images="full")
    try:
        job = yard.request("POST", "/schedule", {"kind": "session"})["job_id"]
        while yard.request("GET", f"/status/{job}?wait=5")["sandbox"] != "live":
            time.sleep(0.05)
        rows = []
        # Ours and direct in turns, so that both see the same weather.
        half = options.runs // 2
        first = ours(yard, job, "python", "1+1", half)
        direct = inside(yard, job, "direct", PROBE, options.runs)
        second = ours(yard, job, "python", "1+1", options.runs - half)
        mine = {"start": first["start"], "samples": first["samples"] + second["samples"]}
        rows.append(("jupyter_client in the sandbox", direct))
        rows.append(("POST /jobs/{id}/code, python", mine))
        rows.append(("POST /jobs/{id}/code, typescript", ours(yard, job, "typescript", "1+1", options.runs)))
        rows.append(("POST /jobs/{id}/code, bash", ours(yard, job, "bash", "echo 2", options.runs)))
        if options.peers:
            upload(yard, job, options.peers)
            path = "PYTHONPATH=/workspace/peers"
            rows.append(("Jupyter Kernel Gateway, WebSocket", inside(yard, job, "gateway", GATEWAY, options.runs, path)))
            rows.append(("SWE-ReX, bash session", inside(yard, job, "rex", REX, options.runs, path)))
        base = spread(direct["samples"])[0] if direct else None
        print("| what | median ms | p95 ms | over direct | first answer ms |\n|---|---|---|---|---|")
        for name, result in rows:
            if not result:
                print(f"| {name} | not measured | | | |")
                continue
            median, high = spread(result["samples"])
            over = f"{median - base:+.2f}" if base else ""
            print(f"| {name} | {median:.2f} | {high:.2f} | {over} | {result['start']:.0f} |")
    finally:
        yard.close()


if __name__ == "__main__":
    main()
