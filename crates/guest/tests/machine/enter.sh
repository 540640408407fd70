# Makes a small machine in the namespaces it runs in and becomes a role of the guest there: what a driver does, in its
# plainest form. Environment: IMAGE, LINK (a directory), CONFIG, SOCKET and PROGRAM (descriptor numbers), ROLE, and BOOT: a path
# at which the machine has its boot document and the program, where it shall inherit no descriptors.
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=0755 tmpfs /mnt
mkdir /mnt/root
mount --rbind "$IMAGE" /mnt/root
cd /mnt/root
mount -o remount,bind,ro .
for place in workspace home tmp run; do mount -t tmpfs -o nosuid,nodev,mode=0755,size=64m tmpfs "./$place"; done
mkdir -p home/agent run/sandyard run/keeper run/user/1000
chown 1000:1000 workspace home/agent run/user/1000
chmod 1777 tmp
mount -t tmpfs -o nosuid,nodev,mode=0700,uid=1001 tmpfs run/keeper
echo hidden > run/keeper/secret
mount --bind "$LINK" run/sandyard
mount -t tmpfs -o nosuid,mode=0755 tmpfs dev
for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"; done
mknod -m 666 dev/tty c 5 0
mkdir dev/pts dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,nosuid,noexec devpts dev/pts
mount -t tmpfs -o nosuid,nodev,mode=1777,size=16m tmpfs dev/shm
mount -t proc -o nosuid,nodev,noexec proc proc
ip link set lo up 2>/dev/null || true
if [ -n "$BOOT" ]; then
    mkdir ".${BOOT%/*}" run/guest
    mount -t tmpfs -o nosuid,nodev,mode=0700 tmpfs ".${BOOT%/*}"
    cat <&"$CONFIG" >".$BOOT"
    mount -t tmpfs -o nosuid,nodev,mode=0755 tmpfs run/guest
    cat <&"$PROGRAM" >run/guest/sandyard-guest
    chmod 0555 run/guest/sandyard-guest
    ln run/guest/sandyard-guest run/guest/sandyard-agent
fi
pivot_root . mnt
cd /
# The old root stays at /mnt: the image may lack umount, and the boot document says to hide it.
if [ -n "$BOOT" ]; then exec -c /run/guest/sandyard-guest "$ROLE" "$BOOT" </dev/null; fi
exec 3<&"$CONFIG"
if [ -n "$SOCKET" ]; then exec 4<&"$SOCKET"; fi
exec -c -a sandyard-guest "/proc/self/fd/$PROGRAM" "$ROLE" </dev/null
