#include "machine/rates.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES = 32768, ROW_BYTES = 80, PRIVATE = 077 };

_Static_assert(VP_MAX_CARDS *(VP_MAX_CARDS + 1) * ROW_BYTES < FILE_BYTES, "all rows fit");

static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

bool rates_folder(char *folder, size_t size)
{
    const char *run = secure_getenv("XDG_RUNTIME_DIR"), *cache = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    int length = -1;
    if (run && *run == '/')
        length = snprintf(folder, size, "%s/vrampool", run);
    else if (cache && *cache == '/')
        length = snprintf(folder, size, "%s/vrampool", cache);
    else if (home && *home == '/')
        length = snprintf(folder, size, "%s/.cache/vrampool", home);
    return length > 0 && (size_t)length < size;
}

void rates_boot(const char *root, char *boot, size_t size)
{
    char path[RATES_PATH];
    *boot = '\0';
    snprintf(path, sizeof path, "%s/proc/sys/kernel/random/boot_id", root);
    FILE *file = fopen(path, "re");
    if (!file) return;
    if (!fgets(boot, (int)size, file)) *boot = '\0';
    boot[strcspn(boot, " \n")] = '\0';
    fclose(file);
}

/* One file for a set of cards: that of another boot is overwritten. */
static bool path_of(const char *folder, const char *cards, char *path, size_t size)
{
    int length =
        snprintf(path, size, "%s/rates-%016" PRIx64, folder, hash_of(cards, strlen(cards)));
    return length > 0 && (size_t)length < size;
}

static bool is_private(const struct stat *status)
{
    return status->st_uid == geteuid() && (status->st_mode & PRIVATE) == 0;
}

static bool is_private_folder(const char *folder)
{
    struct stat status;
    return lstat(folder, &status) == 0 && S_ISDIR(status.st_mode) && is_private(&status);
}

static bool read_file(const char *path, char *text)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return false;
    struct stat status;
    bool good = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && is_private(&status) &&
                status.st_size < FILE_BYTES;
    ssize_t length = good ? read(file, text, FILE_BYTES - 1) : -1;
    close(file);
    if (length >= 0) text[length] = '\0';
    return length >= 0 && strlen(text) == (size_t)length;
}

/* What comes before the rows. */
static int write_head(char *text, size_t size, const char *cards, const char *boot)
{
    return snprintf(text, size, "vrampool rates 1\n%016" PRIx64 " %s\n",
                    hash_of(cards, strlen(cards)), boot);
}

static bool is_rate(double gbps)
{
    return gbps == RATE_BROKEN || (gbps >= 0 && gbps < 1e6);
}

/* One `CARD OTHER OUT IN`. */
static bool take_row(const char *line, struct rates *rates)
{
    unsigned card, other;
    struct rate rate;
    int used = 0;
    if (sscanf(line, "%u %u %lf %lf%n", &card, &other, &rate.out_gbps, &rate.in_gbps, &used) != 4)
        return false;
    if (line[used] != '\n' || card >= VP_MAX_CARDS || other > RATES_HOST) return false;
    if (!is_rate(rate.out_gbps) || !is_rate(rate.in_gbps)) return false;
    rates->of[card][other] = rate;
    return true;
}

/* The last line is the sum of what comes before it. */
static bool has_its_sum(const char *text)
{
    const char *last = strstr(text, "\nsum ");
    if (!last) return false;
    char sum[32];
    snprintf(sum, sizeof sum, "sum %016" PRIx64 "\n", hash_of(text, (size_t)(last + 1 - text)));
    return strcmp(last + 1, sum) == 0;
}

bool rates_load(const char *folder, const char *cards, const char *boot, struct rates *rates)
{
    char path[RATES_PATH], text[FILE_BYTES], head[512];
    memset(rates, 0, sizeof *rates);
    if (!*boot || !path_of(folder, cards, path, sizeof path) || !is_private_folder(folder))
        return false;
    if (!read_file(path, text) || !has_its_sum(text)) return false;
    int length = write_head(head, sizeof head, cards, boot);
    if (length < 0 || (size_t)length >= sizeof head || strncmp(text, head, (size_t)length) != 0)
        return false;
    const char *line = text + length;
    while (strncmp(line, "sum ", 4) != 0) {
        if (!take_row(line, rates)) {
            memset(rates, 0, sizeof *rates);
            return false;
        }
        line = strchr(line, '\n') + 1;
    }
    return true;
}

static size_t write_text(char *text, const char *cards, const char *boot, const struct rates *rates)
{
    int head = write_head(text, FILE_BYTES, cards, boot);
    size_t used = head > 0 && head < 512 ? (size_t)head : 0;
    for (unsigned card = 0; card < VP_MAX_CARDS && used; card++) {
        for (unsigned other = 0; other <= RATES_HOST; other++) {
            const struct rate *rate = &rates->of[card][other];
            if (rate->out_gbps == 0 && rate->in_gbps == 0) continue;
            used += (size_t)snprintf(text + used, FILE_BYTES - used, "%u %u %.4f %.4f\n", card,
                                     other, rate->out_gbps, rate->in_gbps);
        }
    }
    if (!used) return 0;
    return used + (size_t)snprintf(text + used, FILE_BYTES - used, "sum %016" PRIx64 "\n",
                                   hash_of(text, used));
}

/* Into a file of its own first: who reads meanwhile finds the old one, or the new. */
static bool replace_file(const char *path, const char *text, size_t length)
{
    char draft[RATES_PATH + 32];
    snprintf(draft, sizeof draft, "%s.%ld", path, (long)getpid());
    int file = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return false;
    bool good = write(file, text, length) == (ssize_t)length;
    good &= close(file) == 0;
    if (good && rename(draft, path) == 0) return true;
    unlink(draft);
    return false;
}

bool rates_store(const char *folder, const char *cards, const char *boot, const struct rates *rates)
{
    char path[RATES_PATH], text[FILE_BYTES];
    if (!*boot || !path_of(folder, cards, path, sizeof path)) return false;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) return false;
    if (!is_private_folder(folder)) return false;
    size_t length = write_text(text, cards, boot, rates);
    return length && replace_file(path, text, length);
}
