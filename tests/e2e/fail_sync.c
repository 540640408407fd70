/* Makes syncs fail with EIO while the file named by FAIL_SYNC exists, beginning with the one whose number it holds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int seen;

static int fails(void) {
    const char *path = getenv("FAIL_SYNC");
    FILE *file = path ? fopen(path, "r") : NULL;
    int first = 0;
    if (!file) return 0;
    if (fscanf(file, "%d", &first) != 1) first = 1;
    fclose(file);
    return atomic_fetch_add(&seen, 1) + 1 >= first;
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
