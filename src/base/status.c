#include "vrampool.h"

static const char *const names[] = {
#define NAME(name, text) "VP_" #name,
    VP_STATUSES(NAME)
#undef NAME
};

static const char *const texts[] = {
#define TEXT(name, text) text,
    VP_STATUSES(TEXT)
#undef TEXT
};

const char *vp_status_name(vp_status status)
{
    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "VP_UNKNOWN";
}

const char *vp_status_text(vp_status status)
{
    return (unsigned)status < sizeof texts / sizeof *texts ? texts[status] : "unknown status";
}
