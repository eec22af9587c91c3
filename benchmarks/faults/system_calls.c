/* Makes system calls on the files of a folder fail, once it is armed, and the wall clock jump; loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define HALF -1 /* writes half of the bytes and says so */
#define KILL -2 /* kills the process in place of the call */
#define TORN -3 /* writes half of the bytes, then kills the process */
#define MIXED -4 /* one error after the other */

static const int mixed[] = {ENOSPC, EIO, EDQUOT, EROFS, EMFILE};

static char folder[PATH_MAX], call[16], mark[PATH_MAX];
static int fault, armed;
static long first, last, apart;
static atomic_long calls, readings;
static long jump;

/* From its `nth` call on, one in `every` of `count` calls of a kind, or of "all", on files within a folder gets a fault,
   or none if it is 0. Each adds the first letter of its kind to the file `marks`. */
void faults_arm(
    const char *within, const char *kind, int what, long nth, long count, long every, const char *marks) {
    snprintf(folder, sizeof folder, "%s", within);
    snprintf(call, sizeof call, "%s", kind);
    snprintf(mark, sizeof mark, "%s", marks);
    fault = what, first = nth, last = nth + count - 1, apart = every, armed = 1;
}

/* The wall clock jumps by so many seconds, back and forth, from its hundredth reading on. */
void faults_jump(long seconds) { jump = seconds; }

static int wanted(const char *kind) { return armed && (!strcmp(kind, call) || !strcmp("all", call)); }

static int found(const char *kind, const char *path) {
    if (!wanted(kind) || !path || strncmp(path, folder, strlen(folder))) return 0;
    long now = atomic_fetch_add(&calls, 1) + 1;
    if (now < first || now > last || (now - first) % apart) return 0;
    int handle = syscall(SYS_open, mark, O_WRONLY | O_CREAT | O_APPEND, 0600);
    syscall(SYS_write, handle, kind, 1);
    syscall(SYS_close, handle);
    if (fault == KILL) syscall(SYS_kill, getpid(), SIGKILL);
    int error = fault == MIXED ? mixed[now / apart % 5] : fault;
    if (error > 0) errno = error;
    return error;
}

static int found_at(const char *kind, int handle) {
    char link[64], path[PATH_MAX];
    if (!wanted(kind)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t size = syscall(SYS_readlink, link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return found(kind, path);
}

static ssize_t part(int what, ssize_t done) {
    if (what == TORN) syscall(SYS_kill, getpid(), SIGKILL);
    return done;
}

ssize_t write(int handle, const void *data, size_t size) {
    int what = found_at("write", handle);
    if (what > 0) return -1;
    return part(what, syscall(SYS_write, handle, data, what < 0 ? (size + 1) / 2 : size));
}

static ssize_t write_at(int handle, const void *data, size_t size, off_t at) {
    int what = found_at("write", handle);
    if (what > 0) return -1;
    return part(what, syscall(SYS_pwrite64, handle, data, what < 0 ? (size + 1) / 2 : size, at));
}
ssize_t pwrite(int handle, const void *data, size_t size, off_t at) { return write_at(handle, data, size, at); }
ssize_t pwrite64(int handle, const void *data, size_t size, off_t at) { return write_at(handle, data, size, at); }

int fsync(int handle) { return found_at("fsync", handle) > 0 ? -1 : (int)syscall(SYS_fsync, handle); }
int fdatasync(int handle) { return found_at("fsync", handle) > 0 ? -1 : (int)syscall(SYS_fdatasync, handle); }

int rename(const char *from, const char *to) {
    return found("rename", to) > 0 ? -1 : (int)syscall(SYS_rename, from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
    return found("rename", to) > 0 ? -1 : (int)syscall(SYS_renameat, a, from, b, to);
}
int mkdir(const char *path, mode_t mode) {
    return found("mkdir", path) > 0 ? -1 : (int)syscall(SYS_mkdir, path, mode);
}

static int opened(int at, const char *path, int flags, int mode) {
    return found("open", path) > 0 ? -1 : (int)syscall(SYS_openat, at, path, flags, mode);
}
#define OPEN(name)                                                     \
    int name(const char *path, int flags, ...) {                       \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0; \
        va_end(more);                                                  \
        return opened(AT_FDCWD, path, flags, mode);                    \
    }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                                   \
    int name(int at, const char *path, int flags, ...) {               \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0; \
        va_end(more);                                                  \
        return opened(at, path, flags, mode);                          \
    }
OPENAT(openat)
OPENAT(openat64)

static long offset(void) {
    if (!jump) return 0;
    long now = atomic_fetch_add(&readings, 1);
    return now < 100 ? 0 : (now / 100) % 2 ? jump : -jump;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    int code = (int)syscall(SYS_clock_gettime, clock, now);
    if (!code && clock == CLOCK_REALTIME) now->tv_sec += offset();
    return code;
}
int gettimeofday(struct timeval *now, void *zone) {
    int code = (int)syscall(SYS_gettimeofday, now, zone);
    if (!code) now->tv_sec += offset();
    return code;
}
time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}
