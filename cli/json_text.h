/* Text of the user's in JSON, which takes UTF-8 alone: file names may be anything. */
#ifndef CLI_JSON_TEXT_H
#define CLI_JSON_TEXT_H

#include <jansson.h>

/* Where it is not UTF-8, `?` stands for each byte that is not ASCII. The caller gets the value;
 * NULL: no memory. */
json_t *json_text(const char *text);

#endif
