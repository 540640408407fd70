# Writes the workspace, the current directory, as a pack of git's to standard output, and the id of its tree to standard
# error. What the repository in it has already is read from there.
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
# Files of the repository that its own rules would ignore belong to the start all the same.
[ -z "$head" ] || git read-tree "$head" 2> /dev/null || exit 1
git add --all --ignore-errors . 2> /dev/null
tree=$(git write-tree 2> /dev/null) || exit 1
echo "$tree" >&2
git rev-list --objects "$tree" 2> /dev/null | git pack-objects --quiet --window=0 --stdout 2> /dev/null
