"""A Python kernel whose connection file lies where keeper puts those of the agent."""

import json, os, subprocess, sys, time
from jupyter_client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
folder = "/run/user/1000/kernels"
os.makedirs(folder, exist_ok=True)
path, _ = write_connection_file(folder + "/kernel-agent.json", kernel_name="python3")
subprocess.Popen([sys.executable, "-m", "ipykernel_launcher", "-f", path], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
client = BlockingKernelClient(connection_file=path)
client.load_connection_file()
client.start_channels()
client.wait_for_ready(timeout=30)
client.execute_interactive("whose = 'the agent'")
