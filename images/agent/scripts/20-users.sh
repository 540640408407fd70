#!/bin/bash
# The two users of the guest and the places the sandbox mounts on.
. "$RECIPE/scripts/env.sh"

groupadd --gid 1000 agent
useradd --uid 1000 --gid 1000 --home-dir /home/agent --no-create-home --shell /bin/bash agent
groupadd --system --gid 990 keeper
useradd --system --uid 990 --gid 990 --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin keeper

install -d -m 755 -o agent -g agent /home/agent /workspace
for directory in /proc /sys /dev /run; do
    [ -d "$directory" ] && [ ! -L "$directory" ]
done
install -d -m 1777 /tmp /var/tmp

# Login shells see the same PATH as programs started directly.
cat >/etc/profile.d/agent.sh <<'PROFILE'
case ":$PATH:" in
*":$HOME/.local/bin:"*) ;;
*) PATH="$HOME/.local/bin:$PATH" ;;
esac
export PATH
PROFILE
printf 'LANG=C.UTF-8\n' >/etc/default/locale
