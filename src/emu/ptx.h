/* ptx: reads what the emulator needs from PTX text: the entries with the layout of their
 * parameters, and the module's global variables. Instructions are skipped. */
#ifndef EMU_PTX_H
#define EMU_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PTX_PARAMS = 256, PTX_NAME_BYTES = 1024 };

struct ptx_param {
    uint32_t offset, bytes;
};

struct ptx_entry {
    char name[PTX_NAME_BYTES];
    unsigned param_count;
    struct ptx_param params[PTX_PARAMS];
};

struct ptx_global {
    char name[PTX_NAME_BYTES];
    uint64_t bytes;
    unsigned char *value; /* from malloc: the receiver's; NULL: zeros */
};

struct ptx_visitor {
    void (*entry)(void *context, const struct ptx_entry *entry);
    void (*global)(void *context, const struct ptx_global *global);
    void *context;
};

/* Walks the text. False: it is malformed, or uses an initialiser that is not understood; `problem`
 * then says what and in which line. */
bool ptx_parse(const char *text, const struct ptx_visitor *visitor, char *problem,
               size_t problem_bytes);

#endif
