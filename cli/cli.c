#include "cli.h"

#include <stdarg.h>
#include <stdio.h>

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
