#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool no(int why)
{
    errno = why;
    return false;
}

/* Says nothing of the path: there may be descriptors and memory when it is written. */
static bool is_passing(int why)
{
    return why == EMFILE || why == ENFILE || why == EINTR || why == ENOMEM;
}

/* Makes a file beside it, for a moment: permissions alone do not tell, as of a file system that
 * makes no files. Not the file itself, as another process may be about to write it. */
static bool can_be_made(const char *path)
{
    static const char name[] = ".vrampool-XXXXXX";
    char beside[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    if (slash && !slash[1]) return no(EISDIR); /* a folder's name, and there is none such */
    if (folder + sizeof name > sizeof beside) return no(ENAMETOOLONG);
    memcpy(beside, path, folder);
    memcpy(beside + folder, name, sizeof name);
    int file = mkostemp(beside, O_CLOEXEC);
    if (file < 0) return is_passing(errno);
    close(file);
    unlink(beside);
    return true;
}

bool path_can_be_written(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) return errno == ENOENT && can_be_made(path);
    if (S_ISDIR(status.st_mode)) return no(EISDIR);
    /* To open and close a pipe would tell its reader that all has been said. */
    if (!S_ISREG(status.st_mode)) return access(path, W_OK) == 0;
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file >= 0) close(file);
    return file >= 0 || is_passing(errno);
}

/* Where a file that is not there would be made: its folder and its name. */
static bool split(const char *path, struct stat *folder, const char **name)
{
    char text[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    if (length + sizeof "." > sizeof text) return false;
    memcpy(text, path, length);
    memcpy(text + length, ".", sizeof ".");
    *name = path + length;
    return stat(text, folder) == 0;
}

bool path_is_same(const char *path, const char *other)
{
    struct stat a, b;
    const char *a_name, *b_name;
    bool a_there = stat(path, &a) == 0, b_there = stat(other, &b) == 0;
    if (a_there != b_there) return false;
    if (!a_there && (!split(path, &a, &a_name) || !split(other, &b, &b_name))) return false;
    bool same = a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    return same && (a_there ? S_ISREG(a.st_mode) : strcmp(a_name, b_name) == 0);
}

int path_open_to_write(const char *path, mode_t mode)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (file < 0 || file > STDERR_FILENO) return file;
    int higher = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), why = errno;
    close(file);
    errno = why;
    return higher;
}
