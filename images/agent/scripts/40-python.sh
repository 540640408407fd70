#!/bin/bash
# The flavour's Python packages, from its lock, into /usr/local.
. "$RECIPE/scripts/env.sh"

# The image is nobody's desktop: `pip install` must work for the agent, into its home.
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED

python3 -m pip install --quiet --no-compile --no-deps --only-binary :all: --require-hashes \
    --requirement "$FLAVOUR_DIR/python.lock"
python3 -m pip check
