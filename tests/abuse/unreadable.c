/* Makes reads of some files fail with EIO, as a failing disk does. For LD_PRELOAD.
 *
 * As soon as the file named by UNREADABLE_TRIGGER exists, reading from files whose path contains the text in it
 * fails. After "send:" only sendfile fails, which comes when the head of an answer has left. Writing goes on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_unreadable(int fd, int is_sent)
{
    const char *trigger = getenv("UNREADABLE_TRIGGER");
    char wanted[256], link[64], path[4096];
    ssize_t size;
    int file = trigger ? open(trigger, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return 0;
    size = read(file, wanted, sizeof wanted - 1);
    close(file);
    if (size <= 0)
        return 0;
    wanted[size] = '\0';
    if (strncmp(wanted, "send:", 5) == 0) {
        if (!is_sent)
            return 0;
        memmove(wanted, wanted + 5, size - 4);
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path - 1);
    if (size <= 0)
        return 0;
    path[size] = '\0';
    return strstr(path, wanted) != NULL;
}

#define FAILS(fd, is_sent)                                                                                             \
    if (is_unreadable(fd, is_sent)) {                                                                                           \
        errno = EIO;                                                                                                   \
        return -1;                                                                                                     \
    }
#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t pread(int fd, void *data, size_t size, off_t at) { REAL(pread); FAILS(fd, 0); return real(fd, data, size, at); }
ssize_t pread64(int fd, void *data, size_t size, off64_t at) { REAL(pread64); FAILS(fd, 0); return real(fd, data, size, at); }
ssize_t preadv(int fd, const struct iovec *to, int count, off_t at) { REAL(preadv); FAILS(fd, 0); return real(fd, to, count, at); }
ssize_t preadv64(int fd, const struct iovec *to, int count, off64_t at) { REAL(preadv64); FAILS(fd, 0); return real(fd, to, count, at); }
ssize_t sendfile(int out, int in, off_t *at, size_t size) { REAL(sendfile); FAILS(in, 1); return real(out, in, at, size); }
ssize_t sendfile64(int out, int in, off64_t *at, size_t size) { REAL(sendfile64); FAILS(in, 1); return real(out, in, at, size); }
