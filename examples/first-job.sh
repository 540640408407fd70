#!/bin/bash
# Runs a script in a sandbox of its own and takes its files home, with curl and nothing else.
set -euo pipefail
url=${SANDYARD_URL:-http://127.0.0.1:8000}
key=(${SANDYARD_TOKEN:+-H "authorization: bearer $SANDYARD_TOKEN"})
call() { curl -sS --fail-with-body "${key[@]}" "$@"; }

answer=$(call "$url/schedule" -H 'content-type: application/json' \
    -d '{"kind": "shell", "code": "echo hello | tee hello.txt; nproc", "limits": {"cpus": 1}}')
job=$(sed 's/.*"job_id":"\([^"]*\)".*/\1/' <<<"$answer")

# Answers when the job has ended.
call "$url/status/$job?wait=60&wait_for=end&fields=state,stdout"
echo
call "$url/jobs/$job/download" -o "${1:-result.zip}"
