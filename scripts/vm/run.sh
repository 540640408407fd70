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

# tests SET [PREFIX...]: every test of the native suite, each in a process of its own, started through PREFIX.
tests() {
    set_name=$1
    shift
    for name in $("$native" --list --format terse 2>/dev/null | sed -n 's/: test$//p'); do
        case " $only " in *" all "* | *" $name "*) ;; *) continue ;; esac
        if timeout 900 "$@" "$native" --exact "$name" --nocapture >/tmp/output 2>&1 &&
            ! grep -q 'skipped:' /tmp/output; then
            result "$set_name" "$name" passed
        else
            result "$set_name" "$name" failed
            tail -n 40 /tmp/output
        fi
    done
}

# As the ordinary user, in a delegated group as a login with systemd would give it.
delegate() {
    echo '+cpu +memory +pids' >/sys/fs/cgroup/cgroup.subtree_control
    mkdir -p "/sys/fs/cgroup/$1"
    for file in . cgroup.procs cgroup.subtree_control cgroup.threads; do
        chown "$user" "/sys/fs/cgroup/$1/$file"
    done
}
as_user() {
    group=$1
    shift
    sh -c 'echo 0 >"/sys/fs/cgroup/$1/cgroup.procs" && shift && exec setpriv "$@"' sh "$group" \
        --reuid "$user" --regid "$user" --clear-groups env HOME=/home/$user USER=$user \
        XDG_CACHE_HOME=/var/cache SANDYARD_IMAGES=none "$@"
}
as_user_delegated() {
    as_user delegated "$@"
}

# doctor CHECK WORDS: the ordinary user is told these words.
doctor() {
    as_user "${group:-delegated}" "$sandyard" doctor native >/tmp/output 2>&1
    if grep -qF -- "$2" /tmp/output; then result doctor "$1" passed; else
        result doctor "$1" failed
        cat /tmp/output
    fi
}

conditions() {
    doctor usable "rootless"
    sysctl -qw kernel.unprivileged_userns_clone=0
    doctor switched-off "sysctl -w kernel.unprivileged_userns_clone=1"
    sysctl -qw kernel.unprivileged_userns_clone=1
    cp /etc/subuid /tmp/subuid
    : >/etc/subuid
    doctor no-subuid "/etc/subuid"
    cp /tmp/subuid /etc/subuid
    mount --bind /dev/null /usr/bin/newuidmap
    doctor no-newuidmap "apt-get install uidmap"
    umount /usr/bin/newuidmap
    mkdir -p /sys/fs/cgroup/foreign
    group=foreign doctor not-delegated "systemd-run --user --scope -p Delegate=yes"
    echo '-cpu' >/sys/fs/cgroup/cgroup.subtree_control
    delegate_without_cpu=/sys/fs/cgroup/meagre
    mkdir -p $delegate_without_cpu
    chown -R "$user" $delegate_without_cpu
    group=meagre doctor no-cpu "lacks the cpu controller"
    echo '+cpu' >/sys/fs/cgroup/cgroup.subtree_control
}

# A whole job of the ordinary user's, from the command to its zip.
job() {
    as_user delegated sh -c "cd /home/$user && $sandyard run --kind shell 'id -u; echo made > made.txt; cat /proc/self/uid_map' --output result.zip" \
        >/tmp/output 2>&1
    code=$?
    if [ $code = 0 ] && grep -q '^1000$' /tmp/output && [ -s /home/$user/result.zip ]; then
        result job whole passed
    else
        result job whole failed
        cat /tmp/output
    fi
}

useradd --create-home --shell /bin/sh "$user"
grep -q "^$user:" /etc/subuid || usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "$user"
uname -sr
cat /sys/fs/cgroup/cgroup.controllers
case " $sets " in *" root "*) tests root ;; esac
delegate delegated
case " $sets " in *" rootless "*) tests rootless as_user_delegated ;; esac
case " $sets " in *" job "*) job ;; esac
case " $sets " in *" doctor "*) conditions ;; esac
result machine end passed
