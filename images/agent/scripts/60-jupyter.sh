#!/bin/bash
# Kernel specifications, where every user and JupyterLab find them.
. "$RECIPE/scripts/env.sh"

python3 -m ipykernel install --prefix /usr/local --name python3 --display-name 'Python 3' >/dev/null
python3 -m bash_kernel.install --prefix /usr/local >/dev/null

kernel=/usr/local/share/jupyter/kernels/deno
mkdir -p "$kernel"
cat >"$kernel/kernel.json" <<'SPEC'
{
  "argv": ["/usr/local/bin/deno", "jupyter", "--kernel", "--conn", "{connection_file}"],
  "display_name": "TypeScript (Deno)",
  "language": "typescript",
  "env": {"NO_COLOR": "1"}
}
SPEC

# No news, no update checks, no build: the sandbox has no way to the network of its own.
mkdir -p /usr/local/etc/jupyter/labconfig
cat >/usr/local/etc/jupyter/labconfig/page_config.json <<'CONFIG'
{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}
CONFIG
jupyter kernelspec list
