"""Schedules ten jobs at once and prints each result as it comes. A repeated request does not start a job twice."""

import concurrent.futures
import json
import os
import urllib.request
import uuid

URL = os.environ.get("SANDYARD_URL", "http://127.0.0.1:8000")
HEADERS = {"content-type": "application/json"}
if "SANDYARD_TOKEN" in os.environ:
    HEADERS["authorization"] = "bearer " + os.environ["SANDYARD_TOKEN"]
RUN = uuid.uuid4().hex


def call(path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, HEADERS | headers)) as answer:
        return json.loads(answer.read())


def square(number):
    body = {"kind": "shell", "code": f"echo $(({number} * {number}))", "limits": {"memory_mib": 128, "disk_mib": 128}}
    key = {"idempotency-key": f"{RUN}-{number}"}
    job = call("/schedule", body, **key)["job_id"]
    assert call("/schedule", body, **key)["job_id"] == job
    while True:
        status = call(f"/status/{job}?wait=60&wait_for=end")
        if status["finished_at"]:
            return number, status["stdout"].strip()


with concurrent.futures.ThreadPoolExecutor(10) as pool:
    for done in concurrent.futures.as_completed([pool.submit(square, number) for number in range(10)]):
        print(*done.result())
