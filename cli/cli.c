#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/path.h"

int cli_fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("vrampool: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return status;
}

bool cli_picture_is_apart(const char *command, const char *svg, const char *read)
{
    if (!svg || !read || access(read, F_OK) != 0 || !path_is_same(svg, read)) return true;
    cli_fail(EXIT_USAGE, "%s: --svg %s would overwrite %s, which is read; name another file",
             command, svg, read);
    return false;
}
