#!/bin/sh
# First process of the test machine: version 2 control groups alone, then what the payload disk says.
# Lives in the system disk, so it knows nothing about the tests.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
for place in "proc /proc" "sysfs /sys" "devtmpfs /dev"; do
    set -- $place
    mountpoint -q "$2" || mount -t "$1" none "$2"
done
mkdir -p /dev/pts /dev/shm /payload
mount -t devpts -o gid=5,mode=620 none /dev/pts
for place in /dev/shm /run /tmp; do
    mount -t tmpfs -o mode=1777 none "$place"
done
mount -t cgroup2 -o nsdelegate none /sys/fs/cgroup
mount -t securityfs none /sys/kernel/security
modprobe loop
ip link set lo up
mount -o ro LABEL=payload /payload && sh /payload/run.sh
echo "machine ends"
sync
reboot -f
