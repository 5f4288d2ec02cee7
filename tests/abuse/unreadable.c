/* Makes reads of some files fail with EIO, as a failing disk does. For LD_PRELOAD.
 *
 * The file named by UNREADABLE_TRIGGER, once it exists, contains `POSITION:TEXT`: in files whose path contains the
 * text, the bytes from the position on cannot be read. Reads that start before it end there. Writes succeed.
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

#define ALL (~(size_t)0)

/* Return how many bytes can be read from a position of a file; 0 if reading fails there. */
static size_t readable(int fd, off64_t at)
{
    const char *trigger = getenv("UNREADABLE_TRIGGER");
    char wanted[256], link[64], path[4096], *text;
    ssize_t size;
    off64_t limit;
    int file = trigger ? open(trigger, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return ALL;
    size = read(file, wanted, sizeof wanted - 1);
    close(file);
    if (size <= 0)
        return ALL;
    wanted[size] = '\0';
    limit = strtoll(wanted, &text, 10);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path - 1);
    if (size <= 0 || *text != ':')
        return ALL;
    path[size] = '\0';
    if (!strstr(path, text + 1))
        return ALL;
    return at < limit ? (size_t)(limit - at) : 0;
}

#define REAL(name)                                                                                                     \
    static __typeof__(&name) real;                                                                                     \
    if (!real)                                                                                                         \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define CUT(fd, at, size)                                                                                              \
    size_t most = readable(fd, at);                                                                                    \
    if (most == 0) {                                                                                                   \
        errno = EIO;                                                                                                   \
        return -1;                                                                                                     \
    }                                                                                                                  \
    if (size > most)                                                                                                   \
        size = most

ssize_t pread(int fd, void *data, size_t size, off_t at)
{
    REAL(pread);
    CUT(fd, at, size);
    return real(fd, data, size, at);
}

ssize_t pread64(int fd, void *data, size_t size, off64_t at)
{
    REAL(pread64);
    CUT(fd, at, size);
    return real(fd, data, size, at);
}

ssize_t preadv(int fd, const struct iovec *to, int count, off_t at)
{
    size_t size = to->iov_len;
    CUT(fd, at, size);
    /* Read an affected file buffer by buffer: short reads are allowed. */
    REAL(preadv);
    return most == ALL ? real(fd, to, count, at) : pread(fd, to->iov_base, size, at);
}

ssize_t preadv64(int fd, const struct iovec *to, int count, off64_t at)
{
    size_t size = to->iov_len;
    CUT(fd, at, size);
    REAL(preadv64);
    return most == ALL ? real(fd, to, count, at) : pread64(fd, to->iov_base, size, at);
}

ssize_t sendfile(int out, int in, off_t *at, size_t size)
{
    REAL(sendfile);
    CUT(in, at ? *at : lseek(in, 0, SEEK_CUR), size);
    return real(out, in, at, size);
}

ssize_t sendfile64(int out, int in, off64_t *at, size_t size)
{
    REAL(sendfile64);
    CUT(in, at ? *at : lseek64(in, 0, SEEK_CUR), size);
    return real(out, in, at, size);
}
