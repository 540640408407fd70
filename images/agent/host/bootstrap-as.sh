#!/bin/bash
# bootstrap.sh for another processor than this machine's, whose programs the kernel runs in an emulator.
#   bootstrap-as.sh ARCHITECTURE ROOT SCRATCH SUITE SOURCES APT_OPTIONS
set -euo pipefail
export architecture=$1
shift
mmdebstrap() {
    command mmdebstrap --architectures="$architecture" "$@"
}
export -f mmdebstrap
exec "$(dirname "$0")/bootstrap.sh" "$@"
