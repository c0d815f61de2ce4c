/* rates: what copies between cards and other places were measured to reach, kept per boot.
 *
 * One small text file, private to the user, in $XDG_RUNTIME_DIR/vrampool, $XDG_CACHE_HOME/vrampool
 * or ~/.cache/vrampool. It holds for one boot, one driver and one set of cards: its key. A file
 * that is of another key, damaged, or not the user's alone is as good as none: then rates are
 * measured anew. */
#ifndef MACHINE_RATES_H
#define MACHINE_RATES_H

#include <stdbool.h>
#include <stddef.h>

#include "vrampool.h"

enum { RATES_HOST = VP_MAX_CARDS, RATES_PATH = 4096 };

/* In 1e9 bytes a second; 0: not measured. RATE_BROKEN: data did not arrive as it was sent. */
struct rate {
    double out_gbps, in_gbps;
};
#define RATE_BROKEN (-1.0)

/* [card][other card, the card itself, or RATES_HOST] */
struct rates {
    struct rate of[VP_MAX_CARDS][VP_MAX_CARDS + 1];
};

/* The folder to keep them in, which need not be there yet; false: there is no place for one. */
bool rates_folder(char *folder, size_t size);

/* This boot, in one word; `root` is put before every path ("" but in tests). Empty: not known. */
void rates_boot(const char *root, char *boot, size_t size);

/* Reads what is kept in the folder under the key; false, and *rates empty: nothing of use. `cards`
 * names the cards and the driver, `boot` the boot. */
bool rates_load(const char *folder, const char *cards, const char *boot, struct rates *rates);

/* Keeps them, in the folder, which is made; false: that cannot be. */
bool rates_store(const char *folder, const char *cards, const char *boot,
                 const struct rates *rates);

#endif
