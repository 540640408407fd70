# Clones "$1" at "$2" (a branch, tag or commit; may be empty) into the current directory, through the proxy "$3".
# Certificates to trust are read from standard input. The job has not run yet. The repository is not trusted: no hooks, no
# submodules, no prompts, no protocol but that of the address.
set -u
[ "$PWD" != / ] || exit 1
url=$1 reference=$2 proxy=$3
state=$(mktemp -d) || exit 1
trap 'rm -rf "$state"' EXIT
cat > "$state/trust.pem" || exit 1
export HOME=$state GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=/bin/false
export GIT_ALLOW_PROTOCOL=${url%%:*} GIT_LFS_SKIP_SMUDGE=1
[ ! -s "$state/trust.pem" ] || export GIT_SSL_CAINFO=$state/trust.pem

run() {
    git -c "http.proxy=$proxy" -c http.lowSpeedLimit=1000 -c http.lowSpeedTime=60 -c core.hooksPath=/dev/null \
        -c credential.helper= -c advice.detachedHead=false "$@"
}
# An earlier attempt may have been interrupted.
empty() { find . -mindepth 1 -delete; }
clone() { empty && run clone --quiet --template= --no-recurse-submodules ${reference:+--branch="$reference"} "$@" -- "$url" .; }

# Enough history to read; `git fetch --unshallow` gets the rest if the job may reach the host.
depth=--depth=50
if [[ $reference =~ ^([0-9a-f]{40}|[0-9a-f]{64})$ ]]; then
    commit=$reference reference=
    empty && run init --quiet --template= --initial-branch=start . && run remote add origin "$url" || exit 1
    # Some servers refuse to send a commit by its id; then the whole repository is cloned to find it.
    run fetch --quiet --no-recurse-submodules "$depth" origin "$commit" 2> "$state/first" || clone --no-checkout || exit 1
    run checkout --quiet --detach "$commit"
else
    clone "$depth" --single-branch 2> "$state/first" && exit 0
    # The simplest servers can't send a part of the history.
    if grep --quiet --ignore-case 'shallow' "$state/first"; then
        clone
    else
        cat "$state/first" >&2
        exit 1
    fi
fi
