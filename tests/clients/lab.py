"""Real clients of Jupyter against a sandbox's JupyterLab through `/jobs/{id}/proxy/8888`: the gateway's kernel manager and client
of jupyter_server under nbclient, and jupyter_kernel_client.

    lab.py http://127.0.0.1:8000/jobs/JOB/proxy/8888 [KEY]
"""

import asyncio
import sys

import nbformat
from jupyter_kernel_client import JupyterKernelClient
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.gateway.managers import GatewayKernelManager
from nbclient import NotebookClient

url, key = sys.argv[1], (sys.argv[2:] or [None])[0]


def with_kernel_client():
    with JupyterKernelClient(server_url=url, token=key) as kernel:
        reply = kernel.execute("x = 6\nprint(x * 7)\nx")
        assert reply["status"] == "ok", reply
        kinds = [output["output_type"] for output in reply["outputs"]]
        assert reply["outputs"][0]["text"] == "42\n" and "execute_result" in kinds, reply
        assert kernel.execute("x + 1")["outputs"][0]["data"]["text/plain"] == "7"
        assert kernel.execute("1 / 0")["status"] == "error"


def with_nbclient():
    gateway = GatewayClient.instance()
    gateway.url = url
    gateway.ws_url = url.replace("http", "ws", 1)
    if key:
        gateway.auth_scheme, gateway.auth_token = "Bearer", key
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(code) for code in ("a = 20", "print(a + 1)", "[a] * 2")]
    client = NotebookClient(notebook, kernel_manager_class=GatewayKernelManager, kernel_name="python3", timeout=60)
    client.execute()
    assert notebook.cells[1].outputs[0].text == "21\n", notebook.cells[1]
    assert notebook.cells[2].outputs[0].data["text/plain"] == "[20, 20]", notebook.cells[2]


with_kernel_client()
print("jupyter_kernel_client: passed")
with_nbclient()
print("nbclient on the gateway: passed")
