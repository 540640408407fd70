"""A real VNC client (vncdotool) through `sandyard open vnc`: sees the screen, types into a terminal, sees it change.

    vnc.py PORT
"""

import sys
import tempfile

from PIL import Image
from vncdotool import api

client = api.connect(f"127.0.0.1::{sys.argv[1]}", timeout=60)
try:
    folder = tempfile.mkdtemp()
    client.captureScreen(f"{folder}/before.png")
    before = Image.open(f"{folder}/before.png").convert("RGB")
    assert before.size == (1280, 800), before.size
    client.mouseMove(250, 250)
    client.mousePress(1)
    client.pause(0.5)
    for letter in "echo vnc > by-vnc":
        client.keyPress({" ": "space"}.get(letter, letter))
    client.keyPress("enter")
    client.pause(1)
    client.captureScreen(f"{folder}/after.png")
    after = Image.open(f"{folder}/after.png").convert("RGB")
    assert before.tobytes() != after.tobytes(), "the screen did not change"
finally:
    client.disconnect()
    api.shutdown()
print("vncdotool: passed")
