"""Validates a server's OpenAPI document, has openapi-python-client make a client of it, and uses that: `openapi.py URL`.

Runs in an empty folder of its own.
"""

import io
import json
import pathlib
import subprocess
import sys
import urllib.request
import zipfile

from openapi_spec_validator import validate

# Documents that are none of JSON: generators leave their answers to the caller, who gets the bytes.
UNTYPED = ("application/x-ndjson", "application/x-asciicast", "image/svg+xml", "application/zip", "image/png", "text/plain", "text/event-stream", "text/vnd.graphviz")


def generate(document):
    pathlib.Path("openapi.json").write_text(json.dumps(document))
    program = pathlib.Path(sys.executable).with_name("openapi-python-client")
    made = subprocess.run(
        [sys.executable, program, "generate", "--path", "openapi.json", "--output-path", "sandyard_client", "--meta", "none"],
        capture_output=True, text=True, check=True,
    )
    said = made.stdout + made.stderr
    # A schema that the generator can't read would be missing without a word of ours.
    assert "Unable to" not in said and "will not be generated" not in said, said
    for complaint in (line for line in said.splitlines() if "nsupported content" in line):
        assert any(kind in complaint for kind in UNTYPED), complaint


def use(url):
    sys.path.insert(0, ".")
    from sandyard_client import Client
    from sandyard_client.api.files import put_jobs_id_files_path
    from sandyard_client.api.jobs import get_jobs_id_download, get_status_id, post_schedule
    from sandyard_client.api.tools import post_jobs_id_shell
    from sandyard_client.models import JobKind, JobState, ScheduleBody, ShellRequest
    from sandyard_client.types import File

    with Client(base_url=url, timeout=90) as client:
        scheduled = post_schedule.sync(client=client, body=ScheduleBody(kind=JobKind.SHELL, code="echo hello | tee hello.txt"))
        status = get_status_id.sync(scheduled.job_id, client=client, wait=60, wait_for="end")
        assert status.state == JobState.SUCCEEDED and status.stdout == "hello\n", status
        archive = zipfile.ZipFile(io.BytesIO(get_jobs_id_download.sync_detailed(scheduled.job_id, client=client).content))
        assert archive.read("hello.txt") == b"hello\n", archive.namelist()

        session = post_schedule.sync(client=client, body=ScheduleBody(kind=JobKind.SESSION)).job_id
        while get_status_id.sync(session, client=client, wait=30).sandbox != "live":
            pass
        content = bytes(range(256))
        put_jobs_id_files_path.sync(session, "all.bin", client=client, body=File(payload=io.BytesIO(content)))
        # The route answers bytes or a listing, and a generated function reads every answer as the first kind that is documented.
        assert client.get_httpx_client().get(f"/jobs/{session}/files/all.bin").content == content
        ran = post_jobs_id_shell.sync(session, client=client, body=ShellRequest(command="wc -c < all.bin; exit 3"))
        assert (ran.stdout, ran.exit_code) == ("256\n", 3), ran


url = sys.argv[1]
with urllib.request.urlopen(url + "/openapi.json") as answer:
    document = json.load(answer)
validate(document)
assert all("501" not in operation.get("responses", {}) for path in document["paths"].values() for operation in path.values())
generate(document)
use(url)
print("done")
