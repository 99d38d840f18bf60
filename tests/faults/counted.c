/* Let the n-th call of a kind fail, in a program with this library in LD_PRELOAD.

   The file in COUNTED is a `struct counted`, which the program and its children share. While it is armed, calls are
   counted by kind. Call `nth` of the kind `kind` fails, and so do all later calls unless `once` is set. Calls that
   concern files count only below the folder in COUNTED_FILES, calls that concern sockets only for TCP. A call for the
   time of day does not fail: BACK is an hour before the time, STILL the time of the call before, AHEAD ten years later. */

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
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum kind { OPEN, READ, WRITE, SYNC, NAME, TRUNCATE, ALLOCATE, ACCEPT, RECEIVE, SEND, THREAD, CONNECT, SMALL, BACK, STILL, AHEAD, KINDS };
static const int ERRORS[KINDS] = {EMFILE, EIO, ENOSPC, EIO, EIO, EIO, ENOMEM, EMFILE, ECONNRESET, EPIPE, EAGAIN, ECONNREFUSED, ENOMEM};

struct counted { int64_t armed, kind, nth, once, failed, counts[KINDS], told_ns; };

/* Allocations of this many bytes are ALLOCATE, smaller ones are SMALL: most of them are Python's own. */
#define LARGE 65536

static struct counted *counted(void)
{
    static struct counted *found;
    static char mapped[PATH_MAX];
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    const char *path = getenv("COUNTED");
    static __thread int mapping;  /* the calls below allocate */
    int before = errno, file;
    if (!path || mapping) return NULL;
    if (!found || strcmp(path, mapped)) {  /* a forked server has another file than the process that forks */
        mapping = 1;
        pthread_mutex_lock(&turn);
        file = REAL(open)(path, O_RDWR | O_CLOEXEC);
        void *map = file < 0 ? MAP_FAILED : REAL(mmap)(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (file >= 0) REAL(close)(file);
        found = map == MAP_FAILED ? NULL : map;
        snprintf(mapped, sizeof mapped, "%s", path);
        pthread_mutex_unlock(&turn);
        mapping = 0;
    }
    errno = before;
    return found && found->armed ? found : NULL;
}

static int fails(enum kind kind)
{
    struct counted *now = counted();
    int64_t count;
    if (!now) return 0;
    count = __atomic_add_fetch(&now->counts[kind], 1, __ATOMIC_SEQ_CST);
    if (now->kind != kind || count < now->nth || (now->once && count > now->nth)) return 0;
    __atomic_add_fetch(&now->failed, 1, __ATOMIC_SEQ_CST);
    errno = ERRORS[kind];
    return 1;
}

static int below(const char *path)
{
    const char *root = getenv("COUNTED_FILES");
    return root && path && !strncmp(path, root, strlen(root));
}

static int file_below(int file)
{
    char link[64], path[PATH_MAX];
    int before = errno;
    ssize_t size;
    if (!counted()) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    size = readlink(link, path, sizeof path - 1);
    errno = before;
    if (size < 0) return 0;
    path[size] = 0;
    return below(path);
}

static int is_tcp(int file)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    int before = errno, found;
    if (!counted()) return 0;
    found = getsockname(file, (struct sockaddr *)&address, &size) == 0
            && (address.ss_family == AF_INET || address.ss_family == AF_INET6);
    errno = before;
    return found;
}

static int read_fails(int file) { return (file_below(file) && fails(READ)) || (is_tcp(file) && fails(RECEIVE)); }
static int write_fails(int file) { return (file_below(file) && fails(WRITE)) || (is_tcp(file) && fails(SEND)); }

#define MODE(flags) mode_t mode = 0; if (flags & O_CREAT) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }

int open(const char *path, int flags, ...) { MODE(flags) return below(path) && fails(OPEN) ? -1 : REAL(open)(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return below(path) && fails(OPEN) ? -1 : REAL(open64)(path, flags, mode); }

ssize_t read(int file, void *data, size_t size) { return read_fails(file) ? -1 : REAL(read)(file, data, size); }
ssize_t pread(int file, void *data, size_t size, off_t at) { return read_fails(file) ? -1 : REAL(pread)(file, data, size, at); }
ssize_t pread64(int file, void *data, size_t size, off64_t at) { return read_fails(file) ? -1 : REAL(pread64)(file, data, size, at); }
ssize_t write(int file, const void *data, size_t size) { return write_fails(file) ? -1 : REAL(write)(file, data, size); }
ssize_t pwrite(int file, const void *data, size_t size, off_t at) { return write_fails(file) ? -1 : REAL(pwrite)(file, data, size, at); }
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) { return write_fails(file) ? -1 : REAL(pwrite64)(file, data, size, at); }
ssize_t writev(int file, const struct iovec *parts, int count) { return write_fails(file) ? -1 : REAL(writev)(file, parts, count); }
int fsync(int file) { return file_below(file) && fails(SYNC) ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return file_below(file) && fails(SYNC) ? -1 : REAL(fdatasync)(file); }
int ftruncate(int file, off_t size) { return file_below(file) && fails(TRUNCATE) ? -1 : REAL(ftruncate)(file, size); }
int ftruncate64(int file, off64_t size) { return file_below(file) && fails(TRUNCATE) ? -1 : REAL(ftruncate64)(file, size); }
int rename(const char *from, const char *to) { return below(from) && fails(NAME) ? -1 : REAL(rename)(from, to); }
int unlink(const char *path) { return below(path) && fails(NAME) ? -1 : REAL(unlink)(path); }
int mkdir(const char *path, mode_t mode) { return below(path) && fails(NAME) ? -1 : REAL(mkdir)(path, mode); }

ssize_t recv(int file, void *data, size_t size, int flags) { return is_tcp(file) && fails(RECEIVE) ? -1 : REAL(recv)(file, data, size, flags); }
ssize_t send(int file, const void *data, size_t size, int flags) { return is_tcp(file) && fails(SEND) ? -1 : REAL(send)(file, data, size, flags); }
ssize_t sendmsg(int file, const struct msghdr *message, int flags) { return is_tcp(file) && fails(SEND) ? -1 : REAL(sendmsg)(file, message, flags); }
ssize_t recvmsg(int file, struct msghdr *message, int flags) { return is_tcp(file) && fails(RECEIVE) ? -1 : REAL(recvmsg)(file, message, flags); }
int accept4(int file, struct sockaddr *address, socklen_t *size, int flags) { return is_tcp(file) && fails(ACCEPT) ? -1 : REAL(accept4)(file, address, size, flags); }
int accept(int file, struct sockaddr *address, socklen_t *size) { return is_tcp(file) && fails(ACCEPT) ? -1 : REAL(accept)(file, address, size); }

int connect(int file, const struct sockaddr *address, socklen_t size) { return address->sa_family == AF_INET && fails(CONNECT) ? -1 : REAL(connect)(file, address, size); }

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*begin)(void *), void *given)
{
    return fails(THREAD) ? EAGAIN : REAL(pthread_create)(thread, how, begin, given);
}

#define YEARS_S (10LL * 365 * 24 * 3600)
#define IN_NS 1000000000LL

static int64_t told_ns(int64_t now_ns)
{
    struct counted *now = counted();
    int back = fails(BACK), still = fails(STILL), ahead = fails(AHEAD);
    if (!now) return now_ns;
    if (still && now->told_ns) return now->told_ns;
    return now->told_ns = now_ns - (back ? 3600 * IN_NS : 0) + (ahead ? YEARS_S * IN_NS : 0);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = REAL(clock_gettime)(clock, time);
    if (result == 0 && clock == CLOCK_REALTIME) {
        int64_t told = told_ns(time->tv_sec * IN_NS + time->tv_nsec);
        time->tv_sec = told / IN_NS;
        time->tv_nsec = told % IN_NS;
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    int result = REAL(gettimeofday)(time, zone);
    int64_t told = told_ns(time->tv_sec * IN_NS + time->tv_usec * 1000);
    time->tv_sec = told / IN_NS;
    time->tv_usec = told % IN_NS / 1000;
    return result;
}

/* dlsym itself allocates, so these call the C library under its other names. */
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static int lacks(size_t size) { return size && fails(size >= LARGE ? ALLOCATE : SMALL); }
void *malloc(size_t size) { return lacks(size) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return lacks(size && count > SIZE_MAX / size ? SIZE_MAX : count * size) ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return lacks(size) ? NULL : __libc_realloc(old, size); }
