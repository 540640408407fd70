# Explains the workspace. Standard input: the reader, $1 bytes long, the notes about the job, $2 bytes long, then the start of
# the workspace: a pack that holds the tree $4, a stream for fast-import if $4 is "files", or nothing if it is "none".
# $3: name of the project. Prints the explanation as JSON; the start is left out if it can't be read.
set -u
umask 077
work=$(mktemp -d /tmp/explain.XXXXXXXXXX) || exit 1
trap 'rm -rf "$work"' EXIT
head -c "$1" >"$work/reader" && head -c "$2" >"$work/notes" && chmod 500 "$work/reader" || exit 1
# Everything of the start is data: the git directory is a new one, so no configuration of the job is ever read.
start() {
    local tree=$1
    export HOME=$work GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_DIR=$work/git
    git init --quiet --bare --template= "$GIT_DIR" && git config core.bare false || return 1
    mkdir -p "$GIT_DIR/info" "$work/before" || return 1
    if [ "$tree" = files ]; then
        # Files of a request were written as they are.
        printf '* -text -ident !filter\n' >"$GIT_DIR/info/attributes"
        git fast-import --quiet || return 1
        tree=refs/heads/start
    else
        git index-pack --stdin >/dev/null || return 1
    fi
    export GIT_WORK_TREE=$work/before
    git read-tree "$tree^{tree}" && git checkout-index --all --quiet
}
before=()
if [ "$4" != none ] && (start "$4"); then before=(--before "$work/before"); fi
"$work/reader" explain /workspace --in-sandbox --notes --facts --name "$3" "${before[@]}" <"$work/notes"
