#include "base/units.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool unit_shift(const char *unit, unsigned *shift)
{
    static const char letters[] = "kmgt";
    *shift = 0;
    if (*unit == '\0' || strcasecmp(unit, "b") == 0) return true;
    const char *at = strchr(letters, tolower((unsigned char)unit[0]));
    if (!at) return false;
    *shift = 10u * (unsigned)(at - letters + 1);
    return unit[1] == '\0' || strcasecmp(unit + 1, "b") == 0 || strcasecmp(unit + 1, "ib") == 0;
}

bool units_parse_size(const char *text, uint64_t *bytes)
{
    if (!text || !isdigit((unsigned char)text[0])) return false;
    char *end;
    uint64_t whole = strtoull(text, &end, 10);
    double fraction = 0;
    if (*end == '.') {
        if (!isdigit((unsigned char)end[1])) return false;
        double scale = 0.1;
        for (end++; isdigit((unsigned char)*end); end++, scale /= 10)
            fraction += (*end - '0') * scale;
    }
    unsigned shift;
    if (!unit_shift(end, &shift)) return false;
    if (whole > (UINT64_C(1) << 62) >> shift) return false;
    *bytes = (whole << shift) + (uint64_t)(fraction * (double)(UINT64_C(1) << shift));
    return true;
}

char *units_format_size(uint64_t bytes, char *out, size_t out_size)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    while (value >= 1024 && unit < 5) {
        value /= 1024;
        unit++;
    }
    snprintf(out, out_size, unit ? "%.1f %s" : "%.0f %s", value, names[unit]);
    return out;
}
