#include "trace/trace.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

/* A growing array of elements of one size; the last doubling wastes at most half. */
struct array {
    void *data;
    uint32_t count, room;
};

/* A table from 64-bit keys to indices: open addressing, a power of two of slots, at most half full.
 * Entries are never taken out; a dead block's entry is overwritten when its ID is used again. */
struct slot {
    uint64_t key;
    uint32_t index; /* TRACE_NEVER: free */
};

struct table {
    struct slot *slots;
    uint32_t count, room;
};

struct parser {
    const char *path, *at, *end;
    uint32_t line;
    const char *wrong; /* what is wrong in the line */
    bool exhausted;    /* memory */
    struct array events, blocks, ops, touches, names;
    struct table ids, names_by_hash, streams;
    uint32_t
        *last_op; /* of each block: the op after which it was last seen, to keep touches unique */
    uint32_t last_op_room;
    uint64_t live_bytes, total_ns;
};

/* So that no sum of sizes or of durations overflows, also over many steps. */
static const uint64_t most_live_bytes = UINT64_C(1) << 52, most_total_ns = UINT64_C(1) << 52;

static const char *const kind_names[] = {
#define WORD(name, word) word,
    TRACE_KINDS(WORD)
#undef WORD
};

const char *trace_kind_name(enum trace_kind kind)
{
    assert(kind < TRACE_KIND_COUNT);
    return kind_names[kind];
}

static bool fail(struct parser *parser, const char *why)
{
    parser->wrong = why;
    return false;
}

/* Makes room for one more element and returns it; NULL: no memory. */
static void *append(struct parser *parser, struct array *array, size_t size)
{
    if (array->count == array->room) {
        uint32_t room = array->room ? 2 * array->room : 256;
        void *data = array->count < UINT32_MAX / 4 ? realloc(array->data, room * size) : NULL;
        if (!data) {
            parser->exhausted = true;
            return NULL;
        }
        array->data = data;
        array->room = room;
    }
    return (char *)array->data + array->count++ * size;
}

static uint64_t mix(uint64_t key)
{
    key = (key ^ (key >> 31)) * UINT64_C(0x9E3779B97F4A7C15);
    return key ^ (key >> 32);
}

/* The slot that holds the key, or the free one where it belongs. The table has a free one. */
static struct slot *slot_of(const struct table *table, uint64_t key)
{
    uint32_t mask = table->room - 1;
    for (uint32_t i = (uint32_t)mix(key) & mask;; i = (i + 1) & mask) {
        struct slot *slot = &table->slots[i];
        if (slot->index == TRACE_NEVER || slot->key == key) return slot;
    }
}

static bool grow(struct parser *parser, struct table *table)
{
    struct table grown = {.room = table->room ? 2 * table->room : 256, .count = table->count};
    grown.slots = malloc(grown.room * sizeof *grown.slots);
    if (!grown.slots) {
        parser->exhausted = true;
        return false;
    }
    for (uint32_t i = 0; i < grown.room; i++) grown.slots[i].index = TRACE_NEVER;
    for (uint32_t i = 0; i < table->room; i++)
        if (table->slots[i].index != TRACE_NEVER)
            *slot_of(&grown, table->slots[i].key) = table->slots[i];
    free(table->slots);
    *table = grown;
    return true;
}

/* The key's index, or TRACE_NEVER. */
static uint32_t look_up(const struct table *table, uint64_t key)
{
    return table->room ? slot_of(table, key)->index : TRACE_NEVER;
}

static bool enter(struct parser *parser, struct table *table, uint64_t key, uint32_t index)
{
    if (2 * table->count >= table->room && !grow(parser, table)) return false;
    struct slot *slot = slot_of(table, key);
    if (slot->index == TRACE_NEVER) table->count++;
    *slot = (struct slot){key, index};
    return true;
}

/* One line's words. A word ends at a blank; a line at a newline, or at the end of the text. */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct parser *parser)
{
    while (parser->at < parser->end && is_blank(*parser->at)) parser->at++;
}

static bool at_line_end(struct parser *parser)
{
    skip_blanks(parser);
    return parser->at == parser->end || *parser->at == '\n';
}

/* Takes the next word of the line; false: there is none. */
static bool take_word(struct parser *parser, const char **word, size_t *length)
{
    if (at_line_end(parser)) return false;
    *word = parser->at;
    while (parser->at < parser->end && !is_blank(*parser->at) && *parser->at != '\n') parser->at++;
    *length = (size_t)(parser->at - *word);
    return true;
}

static bool is_word(const char *word, size_t length, const char *wanted)
{
    return strlen(wanted) == length && memcmp(word, wanted, length) == 0;
}

static bool take_number(struct parser *parser, uint64_t *number)
{
    const char *word;
    size_t length;
    if (!take_word(parser, &word, &length)) return fail(parser, "a number is missing");
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned digit = (unsigned)(unsigned char)word[i] - '0';
        if (digit > 9) return fail(parser, "a number has other letters than digits");
        if (value > (UINT64_MAX - digit) / 10) return fail(parser, "a number does not fit 64 bits");
        value = 10 * value + digit;
    }
    *number = value;
    return true;
}

static bool take_line_end(struct parser *parser)
{
    return at_line_end(parser) || fail(parser, "more words than expected");
}

static bool note_event(struct parser *parser, enum trace_event_kind kind, uint32_t index)
{
    struct trace_event *event = append(parser, &parser->events, sizeof *event);
    if (!event) return false;
    *event = (struct trace_event){kind, index};
    return true;
}

/* The live block with this ID; NULL: none. */
static struct trace_block *find_live(const struct parser *parser, uint64_t id, uint32_t *index)
{
    *index = look_up(&parser->ids, id);
    if (*index == TRACE_NEVER) return NULL;
    struct trace_block *block = (struct trace_block *)parser->blocks.data + *index;
    return block->died_op == TRACE_NEVER ? block : NULL;
}

static bool parse_alloc(struct parser *parser)
{
    uint64_t id, bytes;
    uint32_t index;
    if (!take_number(parser, &id) || !take_number(parser, &bytes) || !take_line_end(parser))
        return false;
    if (find_live(parser, id, &index)) return fail(parser, "alloc of a block that lives already");
    if (bytes > most_live_bytes - parser->live_bytes)
        return fail(parser, "more than 4 PiB live at once: no machine has that");
    parser->live_bytes += bytes;
    struct trace_block *block = append(parser, &parser->blocks, sizeof *block);
    if (!block) return false;
    *block = (struct trace_block){id, bytes, parser->ops.count, TRACE_NEVER};
    index = parser->blocks.count - 1;
    return enter(parser, &parser->ids, id, index) && note_event(parser, TRACE_ALLOC, index);
}

static bool parse_free(struct parser *parser)
{
    uint64_t id;
    uint32_t index;
    if (!take_number(parser, &id) || !take_line_end(parser)) return false;
    struct trace_block *block = find_live(parser, id, &index);
    if (!block) return fail(parser, "free of a block that does not live");
    block->died_op = parser->ops.count;
    parser->live_bytes -= block->bytes;
    return note_event(parser, TRACE_FREE, index);
}

/* Gives each name one index. Names with equal hashes get neighbouring keys. */
static bool intern_name(struct parser *parser, const char *word, size_t length, uint32_t *index)
{
    uint64_t key = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        key = (key ^ (unsigned char)word[i]) * UINT64_C(0x100000001b3);
    for (;; key++) {
        *index = look_up(&parser->names_by_hash, key);
        if (*index == TRACE_NEVER) break;
        if (is_word(word, length, ((char **)parser->names.data)[*index])) return true;
    }
    char **name = append(parser, &parser->names, sizeof *name);
    if (!name) return false;
    *name = strndup(word, length);
    if (!*name) parser->exhausted = true;
    *index = parser->names.count - 1;
    return *name && enter(parser, &parser->names_by_hash, key, *index);
}

static bool number_stream(struct parser *parser, uint64_t stream, uint32_t *number)
{
    *number = look_up(&parser->streams, stream);
    if (*number != TRACE_NEVER) return true;
    *number = parser->streams.count;
    return enter(parser, &parser->streams, stream, *number);
}

/* Remembers which op saw a block last. False, also, when the block is in this op already. */
static bool first_in_op(struct parser *parser, uint32_t block, uint32_t op)
{
    if (parser->last_op_room < parser->blocks.room) {
        uint32_t *grown = realloc(parser->last_op, parser->blocks.room * sizeof *grown);
        if (!grown) {
            parser->exhausted = true;
            return false;
        }
        for (uint32_t i = parser->last_op_room; i < parser->blocks.room; i++)
            grown[i] = TRACE_NEVER;
        parser->last_op = grown;
        parser->last_op_room = parser->blocks.room;
    }
    if (parser->last_op[block] == op) return false;
    parser->last_op[block] = op;
    return true;
}

static bool parse_touches(struct parser *parser, struct trace_op *op, uint32_t op_index)
{
    while (!at_line_end(parser)) {
        uint64_t id;
        uint32_t index;
        if (!take_number(parser, &id)) return false;
        if (!find_live(parser, id, &index))
            return fail(parser, "an op touches a block that does not live");
        if (!first_in_op(parser, index, op_index)) {
            if (parser->exhausted) return false;
            continue;
        }
        uint32_t *touch = append(parser, &parser->touches, sizeof *touch);
        if (!touch) return false;
        *touch = index;
        op->touch_count++;
    }
    return true;
}

static bool parse_op(struct parser *parser)
{
    struct trace_op op = {.kind = TRACE_KIND_COUNT, .first_touch = parser->touches.count};
    const char *word;
    size_t length;
    uint64_t stream;
    if (!take_word(parser, &word, &length)) return fail(parser, "the kind is missing");
    for (unsigned kind = 0; kind < TRACE_KIND_COUNT; kind++)
        if (is_word(word, length, kind_names[kind])) op.kind = (enum trace_kind)kind;
    if (op.kind == TRACE_KIND_COUNT)
        return fail(parser, "the kind is none of kernel, copy, memset, graph");
    if (!take_number(parser, &stream) || !take_number(parser, &op.duration_ns)) return false;
    if (op.duration_ns > most_total_ns - parser->total_ns)
        return fail(parser, "the durations add up to more than 52 days");
    parser->total_ns += op.duration_ns;
    if (!take_word(parser, &word, &length)) return fail(parser, "the name is missing");
    if (!number_stream(parser, stream, &op.stream)) return false;
    if (!intern_name(parser, word, length, &op.name)) return false;
    uint32_t index = parser->ops.count;
    if (!parse_touches(parser, &op, index)) return false;
    struct trace_op *kept = append(parser, &parser->ops, sizeof *kept);
    if (!kept) return false;
    *kept = op;
    return note_event(parser, TRACE_OP, index);
}

static bool parse_line(struct parser *parser)
{
    const char *word;
    size_t length;
    if (!take_word(parser, &word, &length)) return true;
    if (*word == '#') {
        const char *newline = memchr(parser->at, '\n', (size_t)(parser->end - parser->at));
        parser->at = newline ? newline : parser->end;
        return true;
    }
    if (is_word(word, length, "op")) return parse_op(parser);
    if (is_word(word, length, "alloc")) return parse_alloc(parser);
    if (is_word(word, length, "free")) return parse_free(parser);
    return fail(parser, "a line starts with alloc, free, op or #");
}

static bool parse_lines(struct parser *parser)
{
    const char *word;
    size_t length;
    uint64_t version;
    parser->line = 1;
    if (!take_word(parser, &word, &length) || !is_word(word, length, "vrampool-trace"))
        return fail(parser, "the first line is not `" TRACE_FIRST_LINE "`");
    if (!take_number(parser, &version) || !take_line_end(parser)) return false;
    if (version != 1) return fail(parser, "only version 1 of the format is known");
    if (memchr(parser->at, '\0', (size_t)(parser->end - parser->at)))
        return fail(parser, "there are zero bytes below: this is no text");
    while (parser->at < parser->end) {
        parser->at++; /* the newline */
        parser->line++;
        if (!parse_line(parser)) return false;
    }
    return true;
}

static void take_arrays(struct parser *parser, struct trace *trace)
{
    *trace = (struct trace){
        .events = parser->events.data,
        .event_count = parser->events.count,
        .blocks = parser->blocks.data,
        .block_count = parser->blocks.count,
        .ops = parser->ops.data,
        .op_count = parser->ops.count,
        .touches = parser->touches.data,
        .touch_count = parser->touches.count,
        .names = parser->names.data,
        .name_count = parser->names.count,
        .stream_count = parser->streams.count,
    };
}

void trace_release(struct trace *trace)
{
    for (uint32_t i = 0; i < trace->name_count; i++) free(trace->names[i]);
    free(trace->events);
    free(trace->blocks);
    free(trace->ops);
    free(trace->touches);
    free(trace->names);
    memset(trace, 0, sizeof *trace);
}

vp_status trace_parse(const char *path, const char *text, size_t length, struct trace *trace,
                      uint32_t *line)
{
    struct parser parser = {.path = path, .at = text, .end = text + length};
    struct trace parsed;
    vp_status status = VP_OK;
    if (!parse_lines(&parser)) {
        status = parser.exhausted ? VP_NO_HOST_MEMORY : VP_MALFORMED;
        log_error("%s:%u: %s", path, parser.line, parser.exhausted ? "no memory" : parser.wrong);
        if (line) *line = parser.line;
    }
    if (status == VP_OK && length > 0 && text[length - 1] != '\n')
        log_warn("%s:%u: the last line has no end; it may have been cut", path, parser.line);
    take_arrays(&parser, &parsed);
    free(parser.ids.slots);
    free(parser.names_by_hash.slots);
    free(parser.streams.slots);
    free(parser.last_op);
    if (status == VP_OK)
        *trace = parsed;
    else
        trace_release(&parsed);
    return status;
}

static vp_status read_failed(const char *path, const char *why)
{
    log_error("trace %s: %s", path, why);
    return VP_IO;
}

vp_status trace_read(const char *path, struct trace *trace, uint32_t *line)
{
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return read_failed(path, strerror(errno));
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(file);
        return read_failed(path, "not a regular file");
    }
    size_t length = (size_t)about.st_size;
    if (length == 0) {
        close(file);
        return trace_parse(path, "", 0, trace, line);
    }
    char *text = mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (text == MAP_FAILED) return read_failed(path, strerror(errno));
    vp_status status = trace_parse(path, text, length, trace, line);
    munmap(text, length);
    return status;
}
