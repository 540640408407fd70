# Writes the workspace, the current directory, as a git pack to standard output, and the id of its tree to standard error.
# Objects of the repository in the workspace are reused.
set -u -o pipefail
state=$(mktemp -d) || exit 1
trap 'rm -rf "$state"' EXIT
export HOME=$state GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
head=
if [ -d .git/objects ]; then
    head=$(git rev-parse --quiet --verify 'HEAD^{tree}' 2> /dev/null)
    export GIT_ALTERNATE_OBJECT_DIRECTORIES=$PWD/.git/objects
fi
export GIT_DIR=$state/git
git init --quiet --bare --template= "$GIT_DIR" 2> /dev/null || exit 1
git config core.bare false
export GIT_WORK_TREE=$PWD
# The start includes tracked files that the repository's own rules ignore.
[ -z "$head" ] || git read-tree "$head" 2> /dev/null || exit 1
git add --all --ignore-errors . 2> /dev/null
tree=$(git write-tree 2> /dev/null) || exit 1
echo "$tree" >&2
git rev-list --objects "$tree" 2> /dev/null | git pack-objects --quiet --window=0 --stdout 2> /dev/null
