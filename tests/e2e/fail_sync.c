/* Makes syncs fail with EIO while the file named by FAIL_SYNC exists, beginning with the one whose number is its size. The
   size, because a confined server may not read the file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

static atomic_int seen;

static int fails(void) {
    const char *path = getenv("FAIL_SYNC");
    struct stat found;
    if (!path || stat(path, &found) != 0) return 0;
    return atomic_fetch_add(&seen, 1) + 1 >= found.st_size;
}

static int call(const char *name, int fd) {
    if (fails()) {
        errno = EIO;
        return -1;
    }
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return real(fd);
}

int fsync(int fd) { return call("fsync", fd); }
int fdatasync(int fd) { return call("fdatasync", fd); }
