#!/bin/sh
# Runs inside the test machine, as its root. The payload disk has the programs at the paths they had when they were built.
# Every check prints one line, `RESULT <set> <check> passed|failed`; the host counts those.
set -u
user=yard

mount -o ro LABEL=images /var/cache/sandyard
# Test programs know each other by absolute path.
(cd /payload/files && find . -type d -o -type f) | while read -r path; do
    if [ -d "/payload/files/$path" ]; then
        mkdir -p "/$path"
    else
        : >"/$path"
        mount --bind "/payload/files/$path" "/$path"
    fi
done
. /payload/names

result() {
    echo "RESULT $1 $2 $3"
}

# tests SET SUITE [PREFIX...]: every test of the suite, each in a process of its own, started through PREFIX.
tests() {
    set_name=$1
    suite=$2
    shift 2
    for name in $("$suite" --list --format terse 2>/dev/null | sed -n 's/: test$//p'); do
        case " $only " in *" all "* | *" $name "*) ;; *) continue ;; esac
        if "$@" timeout 900 "$suite" --exact "$name" --nocapture >/tmp/output 2>&1 &&
            ! grep -q 'skipped:' /tmp/output; then
            result "$set_name" "$name" passed
        elif grep -q 'skipped: .* is not installed' /tmp/output; then
            result "$set_name" "$name" skipped
        else
            result "$set_name" "$name" failed
            tail -n 40 /tmp/output
        fi
    done
}

# delegate GROUP: gives a group to the ordinary user, as systemd does for a scope of theirs.
delegate() {
    mkdir -p "/sys/fs/cgroup/$1"
    for file in . cgroup.procs cgroup.subtree_control cgroup.threads; do
        chown "$user" "/sys/fs/cgroup/$1/$file"
    done
}
# as_user GROUP COMMAND…: once the driver has shared out a group, processes live in one below it.
as_user() {
    group=/sys/fs/cgroup/$1
    shift
    [ ! -d "$group/sandyard-host" ] || group=$group/sandyard-host
    sh -c 'echo 0 >"$1/cgroup.procs" && shift && exec setpriv "$@"' sh "$group" \
        --reuid "$user" --regid "$user" --clear-groups env HOME=/home/$user USER=$user SANDYARD_IMAGES=none "$@"
}
in_scope() {
    as_user user/one "$@"
}

# doctor CHECK GROUP WORDS: the ordinary user is told these words.
doctor() {
    as_user "$2" "$sandyard" doctor native >/tmp/output 2>&1
    if grep -qF -- "$3" /tmp/output; then result doctor "$1" passed; else
        result doctor "$1" failed
        cat /tmp/output
    fi
}

conditions() {
    doctor usable user/one "rootless, workspaces in memory"
    sysctl -qw kernel.unprivileged_userns_clone=0
    doctor switched-off user/one "sysctl -w kernel.unprivileged_userns_clone=1"
    sysctl -qw kernel.unprivileged_userns_clone=1
    cp /etc/subuid /tmp/subuid
    : >/etc/subuid
    doctor no-subuid user/one "usermod --add-subuids"
    cp /tmp/subuid /etc/subuid
    mount --bind /dev/null /usr/bin/newuidmap
    doctor no-newuidmap user/one "apt-get install uidmap"
    umount /usr/bin/newuidmap
    mkdir -p /sys/fs/cgroup/foreign
    doctor not-delegated foreign "systemd-run --user --scope -p Delegate=yes"
}

# Before any group below the root has the controller, or it can't be taken away.
without_cpu() {
    echo '+memory +pids -cpu' >/sys/fs/cgroup/cgroup.subtree_control
    delegate meagre
    doctor no-cpu meagre "lacks the cpu controller"
}

# judge CHECK CONDITION…: one line for a check, with what was said if it failed.
judge() {
    check=$1
    shift
    if "$@"; then result job "$check" passed; else
        result job "$check" failed
        cat /tmp/output
    fi
}

# eventually WORD COMMAND…: the command says the word, in the end.
eventually() {
    word=$1
    shift
    for _ in $(seq 300); do
        "$@" >/tmp/output 2>&1 && grep -q "$word" /tmp/output && return 0
        sleep 1
    done
    return 1
}

# Whole jobs of the ordinary user's, from the command to the zip, and over the death of a server whose successor is in another scope.
jobs() {
    cd /home/$user || return
    in_scope "$sandyard" run --kind shell 'id -u; cat /proc/self/uid_map; echo made >made.txt' \
        --output result.zip >/tmp/output 2>&1
    judge runs grep -q '^1000$' /tmp/output
    judge result test -s result.zip
    in_scope sh -c "exec $sandyard up >up.log 2>&1" &
    judge serves eventually '' in_scope "$sandyard" ps
    job=$(in_scope "$sandyard" run --detach --kind shell 'echo kept >kept.txt; sleep 100000' 2>/dev/null)
    judge starts eventually running in_scope "$sandyard" status "$job"
    judge isolation eventually rootless in_scope "$sandyard" status "$job"
    kill -9 "$(pgrep -f "^$sandyard up")"
    as_user user/two sh -c "exec $sandyard up >up-again.log 2>&1" &
    judge adopted eventually running in_scope "$sandyard" status "$job"
    in_scope "$sandyard" cancel "$job" >/tmp/output 2>&1
    judge cancelled eventually cancelled in_scope "$sandyard" status "$job"
    in_scope "$sandyard" download "$job" --output kept.zip >/tmp/output 2>&1
    judge kept test -s kept.zip
    kill "$(pgrep -f "^$sandyard up")"
    wait
    cat up.log up-again.log >/tmp/output
    judge nothing-left test -z "$(find /sys/fs/cgroup/user -path '*/sandyard-*/s*' -type d)"
}

# Servers refuse jobs without room on their disk.
mount -t tmpfs -o size=16g,mode=755 none /home
useradd --create-home --shell /bin/sh "$user"
grep -q "^$user:" /etc/subuid || usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "$user"
uname -sr
cat /sys/fs/cgroup/cgroup.controllers
case " $sets " in *" root "*) tests root "$native" ;; esac
case " $sets " in *" oci "*) tests oci "$oci" ;; esac
case " $sets " in *" doctor "*) without_cpu ;; esac
echo '+cpu +memory +pids' >/sys/fs/cgroup/cgroup.subtree_control
delegate user
echo '+cpu +memory +pids' >/sys/fs/cgroup/user/cgroup.subtree_control
delegate user/one
delegate user/two
case " $sets " in *" rootless "*) tests rootless "$native" in_scope ;; esac
case " $sets " in *" doctor "*) conditions ;; esac
case " $sets " in *" jobs "*) jobs ;; esac
result machine end passed
