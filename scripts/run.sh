#!/bin/bash
# Takes a fresh machine to a running server: installs packages, builds, prepares the base image,
# serves in the foreground and shows one job from start to finish.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
sandyard=$target/release/sandyard
listen=${SANDYARD_LISTEN:-127.0.0.1:8000}
begin=$SECONDS

if [ -x "$sandyard" ]; then
    echo "Built before: this takes a few seconds, or a minute or two if the source has changed."
else
    echo "First start: some minutes (aim: 8 on two cores). Later ones are far quicker."
fi
if [ "$(id -u)" != 0 ]; then
    echo "error: the native driver needs root; run \`sudo make run\`" >&2
    exit 1
fi

scripts/setup.sh run

# The image builder is linked long before the server, so the image is built while cargo continues.
# The example costs one small binary and activates the dependency features of tests (tokio's test-util and
# process): without it, `make test` would compile tokio and everything above it a second time.
builder=$target/release/sandyard-image
fresh=false
[ -x "$builder" ] || fresh=true
cargo build --release --locked --workspace --bin sandyard --bin sandyard-image --example empty_handler &
compiling=$!
image=
trap 'kill $compiling $image 2>/dev/null || true' EXIT
while $fresh && kill -0 "$compiling" 2>/dev/null; do
    if [ -x "$builder" ]; then
        "$builder" base "${SANDYARD_CACHE:-/var/cache/sandyard}" &
        image=$!
        break
    fi
    sleep 1
done
wait "$compiling"
[ -z "$image" ] || wait "$image" || true
trap - EXIT
"$sandyard" image build --flavour base >/dev/null
echo "Built and prepared after $((SECONDS - begin)) s."

ready=$(mktemp)
# Quiet, so that the server's log does not interrupt the output of the first job.
"$sandyard" up --listen "$listen" --log "${SANDYARD_LOG:-warn}" >"$ready" &
server=$!
# Ctrl-C reaches the server by itself; a second signal would stop it at once.
trap : INT
trap 'kill -TERM "$server" 2>/dev/null || true' TERM
trap 'rm -f "$ready"' EXIT

until [ -s "$ready" ]; do
    kill -0 "$server" 2>/dev/null || { wait "$server"; exit 1; }
    sleep 0.1
done
cat "$ready"
url=$(grep -o 'http://[^ ]*' "$ready")

echo
echo '$ sandyard run --kind shell "…"'
"$sandyard" --url "$url" run --kind shell '
echo "Hello from a sandbox of my own: $(uname -sr), user $(id -un), $(nproc) processors"
echo "Network interfaces: $(tail -n +3 /proc/net/dev | cut -d: -f1 | xargs)"
python3 -c "print(\"Python says\", sum(range(101)))" | tee answer.txt
node -e "console.log(\"Node says\", process.version)"
' || echo "error: the first job did not succeed; \`$sandyard doctor\` may say why" >&2

cat <<TEXT

Ready after $((SECONDS - begin)) s. From another terminal:
  curl -s $url/schedule -H 'content-type: application/json' -d '{"kind": "shell", "code": "echo hello"}'
  $sandyard run --kind shell 'echo hello > hello.txt' --output result.zip
  $sandyard ps
  $sandyard demo    # builds a todo app in React for real; only the model is a recording
Every route, to try: $url/docs
Ctrl-C stops the server; jobs continue in their sandboxes.
TEXT
# A signal ends the first wait before the server has ended.
wait "$server" || wait "$server" || true
