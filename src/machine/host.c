#include "machine/host.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"

enum { PATH_BYTES = 1024, LINE_BYTES = 4096 };

/* One version's files, and how /proc names it. */
struct cgroup_version {
    const char *filesystem; /* in mountinfo */
    const char *controller; /* in mountinfo's options and in /proc/self/cgroup */
    const char *limit, *usage, *cache_key;
};

static const struct cgroup_version versions[] = {
    {"cgroup2", "", "memory.max", "memory.current", "inactive_file"},
    {"cgroup", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

/* Calls `line` for each line of a file until it returns true. False: no such file, or none did. */
static bool find_line(const char *path, bool (*line)(char *text, void *context), void *context)
{
    FILE *file = fopen(path, "re");
    if (!file) return false;
    char text[LINE_BYTES];
    bool found = false;
    while (!found && fgets(text, sizeof text, file)) {
        text[strcspn(text, "\n")] = '\0';
        found = line(text, context);
    }
    fclose(file);
    return found;
}

/* A `KEY VALUE` line, with or without a colon; in meminfo the value is followed by ` kB`. */
struct wanted_key {
    const char *key;
    uint64_t value;
};

static bool key_line(char *text, void *context)
{
    struct wanted_key *wanted = context;
    size_t length = strlen(wanted->key);
    if (strncmp(text, wanted->key, length) != 0) return false;
    char *at = text + length;
    if (*at == ':') at++;
    return *at == ' ' && sscanf(at, "%" SCNu64, &wanted->value) == 1;
}

static bool read_key(const char *path, const char *key, uint64_t *value)
{
    struct wanted_key wanted = {.key = key};
    if (!find_line(path, key_line, &wanted)) return false;
    *value = wanted.value;
    return true;
}

/* A file that is one number. `max`, as version 2 writes no limit, is none. */
static bool number_line(char *text, void *context)
{
    return sscanf(text, "%" SCNu64, (uint64_t *)context) == 1;
}

static bool read_number(const char *folder, const char *name, uint64_t *value)
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length < PATH_BYTES && find_line(path, number_line, value);
}

/* Where one version's hierarchy is mounted, and which of its groups is seen at the mount point. */
struct cgroup_mount {
    const struct cgroup_version *version;
    char point[PATH_BYTES];
    char group[PATH_BYTES];
};

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

/* mountinfo: ID PARENT DEVICE ROOT POINT OPTIONS [TAGS…] - FILESYSTEM SOURCE SUPER-OPTIONS */
static bool mount_line(char *text, void *context)
{
    struct cgroup_mount *mount = context;
    char filesystem[64], options[256] = "";
    char *rest = strstr(text, " - ");
    if (!rest || sscanf(rest, " - %63s %*s %255s", filesystem, options) < 1) return false;
    if (strcmp(filesystem, mount->version->filesystem) != 0) return false;
    if (*mount->version->controller && !has_word(options, mount->version->controller)) return false;
    return sscanf(text, "%*s %*s %*s %1023s %1023s", mount->group, mount->point) == 2;
}

/* /proc/self/cgroup: NUMBER:CONTROLLERS:PATH; version 2 has no controllers there. */
struct own_group {
    const struct cgroup_version *version;
    char path[PATH_BYTES];
};

static bool own_group_line(char *text, void *context)
{
    struct own_group *own = context;
    char *controllers = strchr(text, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) return false;
    controllers++;
    *path++ = '\0';
    bool ours = *own->version->controller ? has_word(controllers, own->version->controller)
                                          : *controllers == '\0';
    if (!ours || strlen(path) >= sizeof own->path) return false;
    strcpy(own->path, path);
    return true;
}

static void tighten(struct host_memory *memory, const struct cgroup_version *version,
                    const char *folder)
{
    uint64_t limit, usage = 0, cache = 0;
    /* Version 1 writes a huge number where there is no limit. */
    if (!read_number(folder, version->limit, &limit) || limit >= INT64_MAX / 2) return;
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (length < PATH_BYTES) read_key(path, version->cache_key, &cache);
    read_number(folder, version->usage, &usage);
    usage = usage > cache ? usage - cache : 0;
    uint64_t left = limit > usage ? limit - usage : 0;
    if (left >= memory->limit_left_bytes) return;
    memory->limit_left_bytes = left;
    memory->limit_bytes = limit;
    snprintf(memory->limit_file, sizeof memory->limit_file, "%.400s/%s", folder, version->limit);
}

static void read_version(const char *root, const struct cgroup_version *version,
                         struct host_memory *memory)
{
    char path[PATH_BYTES], folder[3 * PATH_BYTES];
    struct cgroup_mount mount = {.version = version};
    struct own_group own = {.version = version};
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    if (!find_line(path, mount_line, &mount)) return;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!find_line(path, own_group_line, &own)) return;

    /* In a container the mount shows a subtree: its root is to be taken off our path. */
    const char *inside = own.path;
    size_t shown = strlen(mount.group);
    if (strcmp(mount.group, "/") != 0 && strncmp(inside, mount.group, shown) == 0) inside += shown;
    int base = snprintf(folder, sizeof folder, "%s%s", root, mount.point);
    snprintf(folder + base, sizeof folder - (size_t)base, "%s", inside);
    for (;;) {
        tighten(memory, version, folder);
        char *slash = strrchr(folder, '/');
        if (!slash || slash < folder + base) return;
        *slash = '\0';
    }
}

vp_status host_memory_read(const char *root, struct host_memory *memory)
{
    struct host_memory read = {.limit_bytes = HOST_NO_LIMIT, .limit_left_bytes = HOST_NO_LIMIT};
    char path[PATH_BYTES];
    assert(strlen(root) < PATH_BYTES / 2);
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (!read_key(path, "MemTotal", &read.total_bytes) ||
        !read_key(path, "MemAvailable", &read.available_bytes)) {
        log_error("%s does not tell MemTotal and MemAvailable", path);
        return VP_NOT_FOUND;
    }
    read.total_bytes *= KIB;
    read.available_bytes *= KIB;
    for (unsigned i = 0; i < sizeof versions / sizeof *versions; i++)
        read_version(root, &versions[i], &read);
    *memory = read;
    return VP_OK;
}

uint64_t host_memory_free(const struct host_memory *memory)
{
    return memory->available_bytes < memory->limit_left_bytes ? memory->available_bytes
                                                              : memory->limit_left_bytes;
}

uint64_t host_memory_default(const struct host_memory *memory)
{
    return host_memory_free(memory) / 10 * 9;
}

uint64_t host_memory_share(const struct host_memory *memory, unsigned sharers)
{
    return host_memory_default(memory) / (sharers ? sharers : 1);
}
