# Explains the workspace. Standard input: the reader, $1 bytes long, then the notes about the job.
# $2: name of the project. Prints the explanation as JSON.
set -eu
umask 077
work=$(mktemp -d /tmp/explain.XXXXXXXXXX)
trap 'rm -rf "$work"' EXIT
head -c "$1" >"$work/reader"
chmod 500 "$work/reader"
"$work/reader" explain /workspace --in-sandbox --notes --name "$2"
