"""The official MCP client on a server: `tools.py http URL`, `tools.py stdio PROGRAM URL`, with `legacy` behind for the older handshake.

Lists the tools, runs a job, works in a session, and sees refusals as errors of the tool.
"""

import asyncio
import base64
import json
import re
import sys
import urllib.request
import zipfile
from io import BytesIO

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

EXPECTED = {
    "schedule_job", "job_status", "list_jobs", "cancel_job", "reply_to_job", "job_logs", "download_link", "explain_result", "run_shell",
    "run_code", "read_file", "write_file", "edit_file", "delete_file", "list_files", "search_files", "gui", "screenshot", "delete_job",
    "list_kernels", "start_kernel", "control_kernel", "port_link", "recall",
}


# Leaves a file, and a program of two parts for the explanation.
JOB = "echo hello; echo oops >&2; echo kept > file.txt; echo 'x = 1' > one.py; echo 'import one' > two.py"


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def ok(client, tool, /, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, f"{tool}: {text(result)}"
    return text(result)


async def structured(client, tool, /, **arguments):
    """The answer for programs. The client itself compares it with the tool's schema."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error and result.structured_content is not None, f"{tool}: {text(result)}"
    return result.structured_content


async def refused(client, tool, /, *words, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error, f"{tool}: {text(result)}"
    for word in words:
        assert word in text(result), f"{tool}: {word} is not in {text(result)}"


async def run_a_job(client):
    said = await ok(client, "schedule_job", kind="shell", code=JOB, name="mcp", wait_s=60)
    facts = json.loads(said.split("\n[end of")[0])
    assert facts["state"] == "succeeded" and facts["exit_code"] == 0, said
    assert "[end of stdout]\nhello" in said and "[end of stderr]\noops" in said, said
    job = facts["job_id"]
    assert "audit" not in facts and "signature" not in said, said
    told = await structured(client, "job_status", job_id=job)
    assert (told["state"], told["stdout"]) == ("succeeded", "hello\n") and "audit" not in told, told
    listed = await structured(client, "list_jobs", status="complete")
    assert [one["job_id"] for one in listed["jobs"]].count(job) == 1, listed
    assert await ok(client, "job_logs", job_id=job) == "hello\n"
    log = await structured(client, "job_logs", job_id=job, stream="stderr")
    assert log == {"stream": "stderr", "text": "oops\n", "left_out_bytes": 0}, log
    explained = await structured(client, "explain_result", job_id=job)
    files = [file for part in explained["parts"] for file in part["files"]]
    assert sorted(files) == ["one.py", "two.py"] and "one.py" in explained["markdown"], explained
    assert job in await ok(client, "list_jobs", status="complete")
    link = await ok(client, "download_link", job_id=job)
    assert re.match(r"http://127\.0\.0\.1:\d+/jobs/", link), link
    with urllib.request.urlopen(link) as answer:
        archive = zipfile.ZipFile(BytesIO(answer.read()))
    assert archive.read("file.txt") == b"kept\n", archive.namelist()
    await refused(client, "run_shell", "sandbox_not_live", job_id=job, command="true")


async def work_in_a_session(client):
    started = await ok(client, "schedule_job", kind="session")
    job = re.search(r"[a-z2-7]{26}", started).group()
    # The sandbox is still starting: the first call waits for it.
    assert "wrote 11 bytes" in await ok(client, "write_file", job_id=job, path="src/grüße.txt", content="eins\nzwei\nd")
    assert await ok(client, "read_file", job_id=job, path="/workspace/src/grüße.txt") == "eins\nzwei\nd"
    await ok(client, "edit_file", job_id=job, path="src/grüße.txt", edits=[{"old": "zwei", "new": "2"}])
    await refused(client, "edit_file", "edit_mismatch", "hint", job_id=job, path="src/grüße.txt", edits=[{"old": "drei", "new": "3"}])
    part = await ok(client, "read_file", job_id=job, path="src/grüße.txt", offset=5, max_bytes=2)
    assert part.startswith("2\n") and "go on with offset 7" in part, part
    assert await ok(client, "list_files", job_id=job) == "src/"
    assert "src/grüße.txt:2: 2" in await ok(client, "search_files", job_id=job, text="2")
    ran = await structured(client, "run_shell", job_id=job, command="echo out; echo err >&2; exit 4")
    assert (ran["stdout"], ran["stderr"], ran["exit_code"]) == ("out\n", "err\n", 4), ran
    found = await structured(client, "recall", job_id=job, path="src/grüße.txt")
    assert any(passage["text"] == "eins\nzwei\nd" for passage in found["passages"]), found
    assert "zwei" in await ok(client, "recall", job_id=job, query="eins zwei")
    await refused(client, "explain_result", "not_ended", job_id=job)
    await refused(client, "reply_to_job", job_id=job, text="nobody listens")
    listed = await structured(client, "list_files", job_id=job)
    assert [entry["name"] for entry in listed["entries"]] == ["src"], listed
    link = await structured(client, "port_link", job_id=job, port=5173)
    assert f"/jobs/{job}/ports/5173?ticket=" in link["url"], link
    assert (await structured(client, "list_kernels", job_id=job))["kernels"] == []
    await refused(client, "control_kernel", "unknown_kernel", job_id=job, kernel="python-9", action="stop")
    await refused(client, "control_kernel", "unknown_kernel", job_id=job, kernel="../../schedule", action="interrupt")
    await ok(client, "write_file", job_id=job, path="gone/x", content="x")
    folder = await structured(client, "read_file", job_id=job, path="gone")
    assert (folder["content"], folder["listing"]["entries"][0]["name"]) == ("folder", "x"), folder
    gone = await structured(client, "delete_file", job_id=job, path="gone", recursive=True)
    assert gone == {"done": "deleted", "subject": "gone"}, gone
    await refused(client, "read_file", "file_not_found", job_id=job, path="gone/x")
    await ok(client, "write_file", job_id=job, path="empty", content="")
    assert await ok(client, "read_file", job_id=job, path="empty") == "[the file is empty]"
    assert "[exit code 3]" in await ok(client, "run_shell", job_id=job, command="echo no >&2; exit 3")
    long = await ok(client, "run_shell", job_id=job, command="seq 1000000")
    assert len(long) < 50_000 and long.startswith("1\n2\n") and "bytes left out" in long, len(long)
    assert "time was up" in await ok(client, "run_shell", job_id=job, command="sleep 60", timeout_s=1)
    pixel = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
    await ok(client, "write_file", job_id=job, path="a.png", base64=base64.b64encode(pixel).decode())
    shown = await client.call_tool("read_file", {"job_id": job, "path": "a.png"})
    assert (shown.structured_content["content"], shown.structured_content["media_type"]) == ("picture", "image/png"), shown
    assert shown.content[0].type == "image" and base64.b64decode(shown.content[0].data) == pixel
    await refused(client, "read_file", "file_not_found", job_id=job, path="nothing")
    await refused(client, "read_file", "invalid_path", job_id=job, path="../../etc/passwd")
    await refused(client, "run_shell", "known arguments", job_id=job, command="true", comand="x")
    await refused(client, "download_link", "not_ended", job_id=job)
    return job


async def look_and_compute(client, job):
    assert await ok(client, "run_code", job_id=job, language="python", code="x = 6; print('hi')") == "hi\n"
    assert await ok(client, "run_code", job_id=job, language="python", code="x * 7") == "42"
    kernel = (await structured(client, "start_kernel", job_id=job, language="python"))["kernel"]
    fresh = await structured(client, "run_code", job_id=job, language="python", kernel=kernel, code="'x' in dir()")
    assert fresh["result"] == "False", fresh
    again = await structured(client, "control_kernel", job_id=job, kernel=kernel, action="restart")
    assert again == {"done": "restarted", "subject": kernel}, again
    await ok(client, "control_kernel", job_id=job, kernel=kernel, action="stop")
    kept = (await structured(client, "list_kernels", job_id=job))["kernels"]
    assert [one["kernel"] for one in kept] == ["python"], kept
    raised = await ok(client, "run_code", job_id=job, language="python", code="1 / 0")
    assert "[exception]" in raised and "ZeroDivisionError" in raised and "\x1b" not in raised, raised
    picture = await client.call_tool("screenshot", {"job_id": job})
    assert picture.content[0].type == "image" and picture.content[0].mime_type == "image/png", text(picture)
    assert picture.structured_content["width"] > 0 and picture.structured_content["height"] > 0, picture.structured_content
    acted = await client.call_tool("gui", {"job_id": job, "actions": [{"type": "move", "x": 5, "y": 5}, {"type": "screenshot"}]})
    assert [block.type for block in acted.content] == ["text", "text", "image"], text(acted)


async def give_up(client, job):
    """A call that is given up takes its command along."""
    waiting = asyncio.create_task(client.call_tool("run_shell", {"job_id": job, "command": "echo $$ > pid; sleep 1000", "timeout_s": 900}))
    while "[exit code 0]" not in await ok(client, "run_shell", job_id=job, command="test -s pid"):
        pass
    waiting.cancel()
    while "[exit code 0]" in await ok(client, "run_shell", job_id=job, command="kill -0 $(cat pid)"):
        await asyncio.sleep(0.1)


async def main(kind, *rest):
    mode = "legacy" if "legacy" in rest else "auto"
    if kind == "http":
        server = rest[0] + "/mcp"
    else:
        server = stdio_client(StdioServerParameters(command=rest[0], args=["--url", rest[1], "mcp"]))
    async with Client(server, mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == EXPECTED, [tool.name for tool in tools]
        assert all(tool.description and tool.input_schema["type"] == "object" for tool in tools)
        assert all(tool.output_schema["type"] == "object" for tool in tools)
        await run_a_job(client)
        job = await work_in_a_session(client)
        if "full" in rest:
            await look_and_compute(client, job)
        # Over HTTP the older protocol says so in a message of its own, which nothing connects with the call.
        if (kind, mode) != ("http", "legacy"):
            await give_up(client, job)
        await ok(client, "cancel_job", job_id=job)
        assert '"state": "cancelled"' in await ok(client, "job_status", job_id=job, wait_s=60)
        await ok(client, "delete_job", job_id=job)
        await refused(client, "job_status", "unknown_job", job_id=job)
        await refused(client, "schedule_job", "unknown_kind", kind="pyton", code="1")
        await refused(client, "job_status", "unknown_job", job_id="a" * 26)
    print("done")


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 240))
