#include "json_text.h"

#include <stdlib.h>
#include <string.h>

json_t *json_text(const char *text)
{
    json_t *value = json_string(text);
    char *plain = value ? NULL : strdup(text);
    if (!plain) return value;
    for (char *at = plain; *at; at++)
        if ((unsigned char)*at >= 0x80) *at = '?';
    value = json_string(plain);
    free(plain);
    return value;
}
