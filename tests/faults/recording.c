/* Record what a program with this library in LD_PRELOAD does to files below the folder in RECORDED.

   Each call that changes a file, a name or what is on the disk adds a record to the file in RECORD, once it has
   succeeded. One lock covers call and record in all threads and processes, so the records are in the order of the
   calls. A record is a head, the path, and data: bytes that were written, or the new path of a rename. The index of
   SQLite's log (-shm) is memory, so it is left out. What a program writes to a stream of stdio is recorded as one write
   when the file is synced. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

struct head { uint32_t kind, path, data; int64_t at; } __attribute__((packed));

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static const char *below(const char *path)
{
    static __thread char space[2][2 * PATH_MAX];
    static __thread int turns;
    const char *root = getenv("RECORDED");
    size_t size = root ? strlen(root) : 0;
    if (size && path[0] != '/') {
        char *whole = space[turns++ % 2];
        if (!getcwd(whole, PATH_MAX)) return NULL;
        path = strncat(strcat(whole, "/"), path, PATH_MAX - 2);
    }
    if (!size || strncmp(path, root, size) || strstr(path, "-shm") || strstr(path, " (deleted)")) return NULL;
    return path[size] == '/' ? path + size + 1 : path[size] ? NULL : ".";
}

static const char *path_of(int file, char *path)
{
    char link[64];
    int before = errno;
    ssize_t size;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    size = getenv("RECORDED") ? readlink(link, path, PATH_MAX - 1) : -1;
    errno = before;
    if (size < 0) return NULL;
    path[size] = 0;
    return path[0] == '/' ? below(path) : NULL;
}

static int lock(void)
{
    int record;
    pthread_mutex_lock(&turn);
    record = REAL(open)(getenv("RECORD"), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (record < 0 || flock(record, LOCK_EX)) abort();
    return record;
}

static void note(int record, int good, char kind, const char *path, const void *data, size_t size, int64_t at)
{
    struct head head = {kind, strlen(path), size, at};
    int before = errno;
    if (good && (REAL(write)(record, &head, sizeof head) < 0 || REAL(write)(record, path, head.path) < 0
                 || (size && REAL(write)(record, data, size) != (ssize_t)size))) abort();
    flock(record, LOCK_UN); /* a process that was forked meanwhile has this file open, too */
    REAL(close)(record);
    pthread_mutex_unlock(&turn);
    errno = before;
}

static void take(void) { pthread_mutex_lock(&turn); }
static void leave(void) { pthread_mutex_unlock(&turn); }
__attribute__((constructor)) static void begin(void) { pthread_atfork(take, leave, leave); }

#define RECORDED_CALL(type, good, call, kind, path, data, size, at) do { \
    int record = lock(); \
    type result = call; \
    note(record, good, kind, path, data, size, at); \
    return result; \
} while (0)

static FILE *streams[64];

static void note_stream(int file, const char *path)
{
    struct stat about;
    char *content;
    int record, at;
    for (at = 0; at < 64 && !(streams[at] && fileno(streams[at]) == file); at++) continue;
    if (at == 64 || fstat(file, &about)) return;
    content = malloc(about.st_size + 1);
    if (pread(file, content, about.st_size, 0) != about.st_size) abort();
    record = lock();
    note(record, 1, 'w', path, content, about.st_size, 0);
    free(content);
}

int fsync(int file)
{
    char link[PATH_MAX]; const char *path = path_of(file, link);
    if (!path) return REAL(fsync)(file);
    note_stream(file, path);
    RECORDED_CALL(int, result == 0, REAL(fsync)(file), 's', path, NULL, 0, 0);
}

int fdatasync(int file) { return fsync(file); }

static int cut(int file, off_t size)
{
    char link[PATH_MAX]; const char *path = path_of(file, link);
    if (!path) return REAL(ftruncate)(file, size);
    RECORDED_CALL(int, result == 0, REAL(ftruncate)(file, size), 't', path, NULL, 0, size);
}

int ftruncate(int file, off_t size) { return cut(file, size); }
int ftruncate64(int file, off64_t size) { return cut(file, size); }

static ssize_t put(int file, const void *data, size_t size, off_t at)
{
    char link[PATH_MAX]; const char *path = path_of(file, link);
    if (!path) return REAL(pwrite)(file, data, size, at);
    RECORDED_CALL(ssize_t, result >= 0, REAL(pwrite)(file, data, size, at), 'w', path, data, result, at);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) { return put(file, data, size, at); }
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) { return put(file, data, size, at); }

ssize_t write(int file, const void *data, size_t size)
{
    char link[PATH_MAX]; const char *path = path_of(file, link);
    if (!path) return REAL(write)(file, data, size);
    RECORDED_CALL(ssize_t, result >= 0, REAL(write)(file, data, size), 'w', path, data, result, lseek(file, 0, SEEK_CUR) - result);
}

static int opened(const char *name, int flags, mode_t mode)
{
    const char *path = flags & (O_CREAT | O_TRUNC) ? below(name) : NULL;
    struct stat about;
    int fresh;
    if (!path) return REAL(open)(name, flags, mode);
    fresh = stat(name, &about) != 0;
    RECORDED_CALL(int, result >= 0 && (fresh || flags & O_TRUNC), REAL(open)(name, flags, mode), fresh ? 'c' : 't', path, NULL, 0, 0);
}

#define MODE(flags) mode_t mode = 0; if (flags & O_CREAT) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }

int open(const char *name, int flags, ...) { MODE(flags) return opened(name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return opened(name, flags | O_LARGEFILE, mode); }

static FILE *stream(const char *name, const char *mode)
{
    const char *path = mode[0] == 'w' ? below(name) : NULL;
    FILE *found;
    int file, at;
    if (!path) return REAL(fopen)(name, mode);
    file = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    found = file < 0 ? NULL : fdopen(file, mode);
    pthread_mutex_lock(&turn);
    for (at = 0; found && at < 64; at++) if (!streams[at]) { streams[at] = found; break; }
    pthread_mutex_unlock(&turn);
    if (at == 64) abort();
    return found;
}

FILE *fopen(const char *name, const char *mode) { return stream(name, mode); }
FILE *fopen64(const char *name, const char *mode) { return stream(name, mode); }

int fclose(FILE *file)
{
    int at;
    pthread_mutex_lock(&turn);
    for (at = 0; at < 64; at++) if (streams[at] == file) streams[at] = NULL;
    pthread_mutex_unlock(&turn);
    return REAL(fclose)(file);
}

int mkdir(const char *name, mode_t mode)
{
    const char *path = below(name);
    if (!path) return REAL(mkdir)(name, mode);
    RECORDED_CALL(int, result == 0, REAL(mkdir)(name, mode), 'd', path, NULL, 0, 0);
}

int rename(const char *from, const char *to)
{
    const char *path = below(from), *end = below(to);
    if (!path || !end) return REAL(rename)(from, to);
    RECORDED_CALL(int, result == 0, REAL(rename)(from, to), 'r', path, end, strlen(end), 0);
}

#define REMOVAL(call) int call(const char *name) \
{ \
    const char *path = below(name); \
    if (!path) return REAL(call)(name); \
    RECORDED_CALL(int, result == 0, REAL(call)(name), 'u', path, NULL, 0, 0); \
}
REMOVAL(unlink)
REMOVAL(rmdir)
