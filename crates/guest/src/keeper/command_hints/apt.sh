#!/bin/sh
# Stands before apt: packages of the system belong to the image, which a running sandbox can only read.
name=${0##*/}
for word in "$@"; do
    case $word in
        install | reinstall | remove | purge | autoremove | update | upgrade | full-upgrade | dist-upgrade | build-dep)
            cat >&2 << END
$name: packages of the system can't be changed in a running sandbox: its root is read-only, and there is no root user.
hint: whoever runs the server puts them into the image: \`sandyard image build --with PACKAGE\`, or
      SANDYARD_PACKAGES="PACKAGE ..." sandyard up. For this job use what needs no root: pip, uv, npm, cargo,
      or a program's own archive unpacked below ~/.local (~/.local/bin is on the PATH).
END
            exit 100
            ;;
        -* | *=*) ;;
        *) break ;;
    esac
done
exec "/usr/bin/$name" "$@"
