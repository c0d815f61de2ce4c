/* Finds the line of a value in a JSON text, which the JSON library forgets. */
#ifndef CLI_JSON_LINE_H
#define CLI_JSON_LINE_H

/* `path` names the value by keys and indices, such as `/cards/0/hbm`; keys without `/` or escapes.
 * The text must be valid JSON. Returns the line, from 1, of the value or of the last part of the
 * path that is there. */
unsigned json_line_of(const char *text, const char *path);

#endif
