# Sourced by the scripts beside it, in their mount namespace.

# Sets `tree` to a path at which ROOT can be written without waiting for the disk. Package tools flush every few files,
# which on a busy disk takes longer than the work itself; nobody uses the tree before the builder has flushed all of
# it. A volatile overlay (Linux 5.10) swallows the flushes. It has an empty lower layer, so ROOT gets exactly what is
# written. Where it can't be mounted, ROOT itself serves.
#   mount_tree ROOT SCRATCH
mount_tree() {
    mount --make-rprivate /
    # A volatile overlay refuses a work directory that was used before.
    rm -rf "$2"
    mkdir -p "$1" "$2/lower" "$2/work" "$2/tree"
    tree=$1
    if mount -t overlay -o "lowerdir=$2/lower,upperdir=$1,workdir=$2/work,volatile" overlay "$2/tree" 2>/dev/null; then
        tree=$2/tree
    fi
}
