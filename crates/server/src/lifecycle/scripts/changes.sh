# Writes the difference between the workspace, the current directory, and its start as a patch of at most "$2" bytes. The
# start is read from standard input: a pack that holds the tree "$1", or, if "$1" is empty, a stream for fast-import.
# Everything that the job wrote is data here: the git directory is a new one, so no configuration of the job is ever read.
set -u -o pipefail
tree=$1 most=$2
state=$(mktemp -d) || exit 1
trap 'rm -rf "$state"' EXIT
export HOME=$state GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_DIR=$state/git
git init --quiet --bare --template= "$GIT_DIR" || exit 1
git config core.bare false
if [ -n "$tree" ]; then
    git index-pack --stdin > /dev/null || exit 1
else
    git fast-import --quiet || exit 1
    tree=refs/heads/start
fi
# Files of package managers and interpreters are no changes.
mkdir -p "$GIT_DIR/info"
printf '%s\n' node_modules/ __pycache__/ .venv/ .ipynb_checkpoints/ > "$GIT_DIR/info/exclude"
export GIT_WORK_TREE=$PWD
git read-tree "$tree^{tree}" || exit 1
git -c advice.addEmbeddedRepo=false add --intent-to-add --ignore-errors . 2> /dev/null
git diff --binary --no-ext-diff --no-textconv --no-color --ignore-submodules=all "$tree^{tree}" -- . | head --bytes="$most"
status=${PIPESTATUS[0]}
# 141 is SIGPIPE: `head` had enough and closed the pipe.
[ "$status" = 0 ] || [ "$status" = 141 ]
