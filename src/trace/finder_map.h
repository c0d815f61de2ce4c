/* A map from block ids to numbers: open addressing, at most half full, entries moved up when one
 * goes, so that absent ids are found absent at once. Id 0 marks a free place. */
#ifndef TRACE_FINDER_MAP_H
#define TRACE_FINDER_MAP_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct finder_entry {
    uint32_t id, value;
};

struct finder_map {
    struct finder_entry *entries;
    uint32_t count, mask, shift; /* places less one; 32 less their logarithm */
};

#define FINDER_ABSENT UINT32_MAX

/* Makes room for `count` ids. */
static inline bool finder_map_create(struct finder_map *map, uint32_t count)
{
    uint32_t bits = 4;
    while ((UINT64_C(1) << bits) < 2 * (uint64_t)count) bits++;
    map->entries = bits < 31 ? calloc(UINT32_C(1) << bits, sizeof *map->entries) : NULL;
    map->count = 0;
    map->mask = (UINT32_C(1) << bits) - 1;
    map->shift = 32 - bits;
    return map->entries != NULL;
}

static inline void finder_map_destroy(struct finder_map *map)
{
    free(map->entries);
    map->entries = NULL;
}

static inline void finder_map_clear(struct finder_map *map)
{
    if (map->count > 0) memset(map->entries, 0, ((size_t)map->mask + 1) * sizeof *map->entries);
    map->count = 0;
}

static inline uint32_t finder_map_home(const struct finder_map *map, uint32_t id)
{
    return (id * UINT32_C(0x9E3779B1)) >> map->shift;
}

static inline uint32_t finder_map_find(const struct finder_map *map, uint32_t id)
{
    for (uint32_t i = finder_map_home(map, id);; i = (i + 1) & map->mask) {
        if (map->entries[i].id == id) return map->entries[i].value;
        if (map->entries[i].id == 0) return FINDER_ABSENT;
    }
}

static inline bool finder_map_is_full(const struct finder_map *map)
{
    return 2 * (uint64_t)map->count > map->mask;
}

/* Adds the id, or gives it another value. The map is not full. */
static inline void finder_map_set(struct finder_map *map, uint32_t id, uint32_t value)
{
    assert(id != 0 && map->count < map->mask);
    uint32_t i = finder_map_home(map, id);
    while (map->entries[i].id != 0 && map->entries[i].id != id) i = (i + 1) & map->mask;
    map->count += map->entries[i].id == 0;
    map->entries[i] = (struct finder_entry){id, value};
}

static inline void finder_map_remove(struct finder_map *map, uint32_t id)
{
    uint32_t i = finder_map_home(map, id);
    while (map->entries[i].id != id) {
        if (map->entries[i].id == 0) return;
        i = (i + 1) & map->mask;
    }
    map->count--;
    for (uint32_t k = (i + 1) & map->mask; map->entries[k].id != 0; k = (k + 1) & map->mask) {
        uint32_t home = finder_map_home(map, map->entries[k].id);
        if (((k - home) & map->mask) < ((k - i) & map->mask)) continue;
        map->entries[i] = map->entries[k];
        i = k;
    }
    map->entries[i].id = 0;
}

/* The same map with twice the room. */
static inline bool finder_map_grow(struct finder_map *map)
{
    struct finder_map larger;
    if (!finder_map_create(&larger, map->mask + 1)) return false;
    for (uint32_t i = 0; i <= map->mask; i++)
        if (map->entries[i].id) finder_map_set(&larger, map->entries[i].id, map->entries[i].value);
    finder_map_destroy(map);
    *map = larger;
    return true;
}

#endif
