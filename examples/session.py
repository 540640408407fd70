"""Works in an open sandbox: writes a file, runs a command on it, reads the result, and looks at the use of memory."""

import json
import os
import urllib.request

URL = os.environ.get("SANDYARD_URL", "http://127.0.0.1:8000")
HEADERS = {"content-type": "application/json"}
if "SANDYARD_TOKEN" in os.environ:
    HEADERS["authorization"] = "bearer " + os.environ["SANDYARD_TOKEN"]


def call(method, path, body=None):
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, HEADERS, method=method)
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def session():
    job = json.loads(call("POST", "/schedule", {"kind": "session", "name": "example"}))["job_id"]
    while (status := json.loads(call("GET", f"/status/{job}?wait=30")))["sandbox"] != "live":
        assert status["status"] in ("pending", "running"), status["error"]
    return job


job = session()
try:
    call("PUT", f"/jobs/{job}/files/words.txt", b"pear\napple\nfig\n")
    ran = json.loads(call("POST", f"/jobs/{job}/shell", {"command": "sort words.txt > sorted.txt; wc -l < sorted.txt"}))
    print("lines:", ran["stdout"].strip())
    print(call("GET", f"/jobs/{job}/files/sorted.txt").decode(), end="")
    usage = json.loads(call("GET", f"/status/{job}?fields=usage"))["usage"]
    print("memory so far:", usage["peak_memory_bytes"] > 0)
finally:
    call("DELETE", f"/jobs/{job}")
