#include "emu/internal.h"

#include <string.h>

/* ---- How long a copy takes, and over which engine it goes ---- */

struct transit {
    double alone_ns, both_ns, most_ns;
    uint32_t start_ns;
    int from, to; /* places that most of the time goes between */
};

static double or_else(double gbps, double otherwise)
{
    return gbps > 0 ? gbps : otherwise;
}

/* How many of the bytes at `address` lie in one place; *place is the host for any host pointer. */
static uint64_t place_run(uint64_t address, uint64_t bytes, int *place)
{
    *place = (int)emu.machine.cards;
    if (!address_is_device(address)) return bytes;
    struct mapping *mapping = mapping_at(address);
    if (!mapping) return bytes; /* the copy will fault there */
    *place = mapping->phys->place;
    uint64_t left = mapping->range.end - address;
    return left < bytes ? left : bytes;
}

static void transit_add(struct transit *transit, int from, int to, uint64_t bytes)
{
    const struct machine_path *path = &emu.machine.path[from][to];
    double gbps = path->gbps;
    if (from == to && from < (int)emu.machine.cards)
        gbps = or_else(gbps, emu.machine.hbm_gbps[from] / 2); /* reads and writes there */
    gbps = or_else(gbps, 10);
    double ns = (double)bytes / gbps;
    transit->alone_ns += ns;
    transit->both_ns += (double)bytes / or_else(path->both_gbps, gbps);
    if (path->start_ns > transit->start_ns) transit->start_ns = path->start_ns;
    if (ns <= transit->most_ns) return;
    transit->most_ns = ns;
    transit->from = from;
    transit->to = to;
}

static uint64_t copy_bytes(const struct copy *copy)
{
    return copy->width * copy->height * copy->depth;
}

/* The addresses of byte `index` of a copy in row order, and how many bytes follow in its row. */
static uint64_t copy_at(const struct copy *copy, uint64_t index, uint64_t *from, uint64_t *to)
{
    uint64_t x = index % copy->width, row = index / copy->width;
    uint64_t y = row % copy->height, z = row / copy->height;
    *from = copy->from.address + z * copy->from.slice + y * copy->from.pitch + x;
    *to = copy->to.address + z * copy->to.slice + y * copy->to.pitch + x;
    return copy->width - x;
}

enum { ROUTE_STEPS = 4096 }; /* more parts than that are taken to be like those before */

static struct transit transit_of(const struct copy *copy)
{
    struct transit transit = {.from = (int)emu.machine.cards, .to = (int)emu.machine.cards};
    uint64_t total = copy_bytes(copy), done = 0;
    for (unsigned step = 0; done < total; step++) {
        uint64_t from, to, part = copy_at(copy, done, &from, &to);
        int from_place, to_place;
        part = place_run(from, part, &from_place);
        part = place_run(to, part, &to_place);
        if (step == ROUTE_STEPS) part = total - done;
        transit_add(&transit, from_place, to_place, part);
        done += part;
    }
    return transit;
}

void copy_start(struct op *op)
{
    struct transit transit = transit_of(&op->copy);
    op->flight = flight_begin(op);
    op->from = transit.from;
    op->to = transit.to;
    op_cut(op, copy_bytes(&op->copy), true);
    op_run_timed(op, transit.alone_ns + transit.start_ns, transit.both_ns + transit.start_ns);
}

void copy_piece(struct op *op, uint64_t first, uint64_t last)
{
    const struct copy *copy = &op->copy;
    while (first < last) {
        uint64_t from, to, part = copy_at(copy, first, &from, &to);
        struct spot source, target;
        if (part > last - first) part = last - first;
        if (!spot_find(from, part, op->card, EMU_READ, TRANSLATE_COPY, &source)) {
            op_fault(op, from, EMU_READ);
            return;
        }
        if (!spot_find(to, source.bytes, op->card, EMU_WRITE, TRANSLATE_COPY, &target)) {
            op_fault(op, to, EMU_WRITE);
            return;
        }
        part = target.bytes;
        if (!copy->staged && !op->torn)
            flight_touch(op->flight, source.phys_id, source.offset, part, EMU_READ);
        flight_touch(op->flight, target.phys_id, target.offset, part, EMU_WRITE);
        if (emu.options.carry_data) memmove(target.at, source.at, part);
        first += part;
    }
}

/* ---- Memsets ---- */

void set_start(struct op *op)
{
    const struct set *set = &op->set;
    uint64_t bytes = set->width * set->height;
    int place;
    place_run(set->to.address, 1, &place);
    double gbps = place == (int)op->card ? emu.machine.hbm_gbps[place]
                                         : emu.machine.path[op->card][place].gbps;
    op->flight = flight_begin(op);
    op_cut(op, bytes, true);
    double ns = 1500 + (double)bytes / or_else(gbps, 10);
    op_run_timed(op, ns, ns);
}

/* Fills `bytes` bytes that begin `phase` bytes into a value. */
static void fill(unsigned char *at, uint64_t bytes, uint32_t value, unsigned value_bytes,
                 unsigned phase)
{
    if (value_bytes == 1) {
        memset(at, (int)(value & 0xff), bytes);
        return;
    }
    unsigned char pattern[64];
    for (unsigned i = 0; i < sizeof pattern; i++)
        pattern[i] = (unsigned char)(value >> 8 * ((phase + i) % value_bytes));
    for (; bytes >= sizeof pattern; bytes -= sizeof pattern, at += sizeof pattern)
        memcpy(at, pattern, sizeof pattern);
    memcpy(at, pattern, bytes);
}

void set_piece(struct op *op, uint64_t first, uint64_t last)
{
    const struct set *set = &op->set;
    while (first < last) {
        uint64_t x = first % set->width, part = set->width - x;
        uint64_t to = set->to.address + first / set->width * set->to.pitch + x;
        struct spot target;
        if (part > last - first) part = last - first;
        if (!spot_find(to, part, op->card, EMU_WRITE, TRANSLATE_KERNEL, &target)) {
            op_fault(op, to, EMU_WRITE);
            return;
        }
        flight_touch(op->flight, target.phys_id, target.offset, target.bytes, EMU_WRITE);
        if (emu.options.carry_data)
            fill(target.at, target.bytes, set->value, set->value_bytes,
                 (unsigned)(x % set->value_bytes));
        first += target.bytes;
    }
}
