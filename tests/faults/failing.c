/* Faults of disk and clock, for a program with this library in LD_PRELOAD and a folder's name in FAULTS.
   The fault happens while the folder has a file with one of these names:

   fsync   fsync and fdatasync fail with EIO
   write   writes to files fail with EIO
   full    writes to files fail with ENOSPC
   clock   the time of day is an hour back

   If the folder has a file `calls`, a line is added to it for each write, sync and rename (calls.py). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int wanted(const char *fault)
{
    char path[512];
    const char *folder = getenv("FAULTS");
    int before = errno, found;
    if (!folder) return 0;
    snprintf(path, sizeof path, "%s/%s", folder, fault);
    found = access(path, F_OK) == 0;
    errno = before;
    return found;
}

static int refused(int file)
{
    struct stat about;
    int fault = wanted("full") ? ENOSPC : wanted("write") ? EIO : 0;
    /* Sockets and the program's own log do not fail. */
    if (!fault || file <= 2 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) return 0;
    errno = fault;
    return 1;
}

static void noted(const char *call, const char *one, const char *other)
{
    char path[512], line[2 * PATH_MAX + 32];
    int before = errno, size, file;
    if (wanted("calls")) {
        snprintf(path, sizeof path, "%s/calls", getenv("FAULTS"));
        size = snprintf(line, sizeof line, "%s\t%s\t%s\n", call, one, other);
        file = open(path, O_WRONLY | O_APPEND);
        if (file < 0 || REAL(write)(file, line, size) != size) abort();
        close(file);
    }
    errno = before;
}

static void noted_of(const char *call, int file)
{
    char link[64], path[PATH_MAX];
    ssize_t size;
    if (!wanted("calls")) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    size = readlink(link, path, sizeof path - 1);
    if (size < 0) return;
    path[size] = 0;
    noted(call, path, "");
}

int fsync(int file)
{
    if (wanted("fsync")) return errno = EIO, -1;
    noted_of("sync", file);
    return REAL(fsync)(file);
}

int fdatasync(int file)
{
    if (wanted("fsync")) return errno = EIO, -1;
    noted_of("sync", file);
    return REAL(fdatasync)(file);
}

int mkdir(const char *path, mode_t mode)
{
    noted("mkdir", path, "");
    return REAL(mkdir)(path, mode);
}

int rename(const char *from, const char *to)
{
    noted("rename", from, to);
    return REAL(rename)(from, to);
}

ssize_t write(int file, const void *data, size_t size)
{
    if (file == 1) noted("said", "", "");
    else if (file > 2) noted_of("write", file);
    return refused(file) ? -1 : REAL(write)(file, data, size);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at)
{
    return refused(file) ? -1 : REAL(pwrite64)(file, data, size, at);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at)
{
    return refused(file) ? -1 : REAL(pwrite)(file, data, size, at);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = REAL(clock_gettime)(clock, time);
    if (clock == CLOCK_REALTIME && wanted("clock")) time->tv_sec -= 3600;
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    int result = REAL(gettimeofday)(time, zone);
    if (wanted("clock")) time->tv_sec -= 3600;
    return result;
}
