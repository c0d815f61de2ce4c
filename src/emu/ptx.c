/* A tokenizer and a walk over the declarations; see ptx.h. */
#include "emu/ptx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A token is a word (letters, digits and . _ $ % @ : in it), a string, or one other character. */
struct parser {
    const char *at, *begin;
    char token[PTX_NAME_BYTES];
    const char *problem;
};

static bool fail(struct parser *p, const char *problem)
{
    if (!p->problem) p->problem = problem;
    return false;
}

static void skip_blanks(struct parser *p)
{
    for (;;) {
        while (isspace((unsigned char)*p->at)) p->at++;
        if (p->at[0] == '/' && p->at[1] == '/') {
            while (*p->at && *p->at != '\n') p->at++;
        } else if (p->at[0] == '/' && p->at[1] == '*') {
            const char *end = strstr(p->at + 2, "*/");
            p->at = end ? end + 2 : p->at + strlen(p->at);
        } else {
            return;
        }
    }
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("._$%@", c));
}

/* Reads the next token; false at the end of the text. */
static bool next(struct parser *p)
{
    skip_blanks(p);
    size_t n = 0;
    if (*p->at == '\0') return false;
    if (*p->at == '"') {
        p->at++;
        while (*p->at && *p->at != '"') p->at++;
        if (*p->at) p->at++;
        p->token[n++] = '"';
    } else if (in_word(*p->at)) {
        while (in_word(*p->at)) {
            if (n + 1 < sizeof p->token) p->token[n++] = *p->at;
            p->at++;
        }
    } else {
        p->token[n++] = *p->at++;
    }
    p->token[n] = '\0';
    return true;
}

static bool is(const struct parser *p, const char *token)
{
    return strcmp(p->token, token) == 0;
}

static uint32_t type_bytes(const char *token)
{
    static const struct {
        const char *name;
        uint32_t bytes;
    } types[] = {{".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2},   {".s16", 2},
                 {".f16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4}, {".f32", 4},   {".f16x2", 4},
                 {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8}, {".b128", 16}, {".pred", 1}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(token, types[i].name) == 0) return types[i].bytes;
    return 0;
}

/* What a declaration of a parameter or variable says: `.align 8 .b8 name[16]`. */
struct declared {
    uint32_t unit, alignment;
    uint64_t bytes;
    bool unsized;
    char name[PTX_NAME_BYTES];
};

/* The parser stands behind the state space; stops on the token behind the declaration. */
static bool declaration(struct parser *p, struct declared *d)
{
    memset(d, 0, sizeof *d);
    bool pointer = false; /* behind .ptr, what is said is said of the pointee */
    while (next(p) && p->token[0] == '.') {
        if (is(p, ".ptr")) pointer = true;
        if (is(p, ".align")) {
            if (!next(p)) break;
            if (!pointer) d->alignment = (uint32_t)strtoul(p->token, NULL, 10);
        } else if (type_bytes(p->token)) {
            d->unit = type_bytes(p->token);
        }
    }
    if (d->unit == 0 || !in_word(p->token[0])) return fail(p, "a type and a name are expected");
    memcpy(d->name, p->token, sizeof d->name);
    if (d->alignment == 0) d->alignment = d->unit;
    d->bytes = d->unit;
    while (next(p) && is(p, "[")) {
        if (!next(p)) return fail(p, "the text ends inside a declaration");
        if (is(p, "]")) {
            d->unsized = true;
            continue;
        }
        d->bytes *= strtoull(p->token, NULL, 0);
        if (!next(p) || !is(p, "]")) return fail(p, "`]` is expected");
    }
    return true;
}

static bool parameters(struct parser *p, struct ptx_entry *entry)
{
    uint64_t end = 0;
    if (!next(p)) return fail(p, "the text ends inside parameters");
    while (!is(p, ")")) {
        struct declared d;
        if (!is(p, ".param")) return fail(p, "`.param` is expected");
        if (!declaration(p, &d)) return false;
        if (entry->param_count == PTX_PARAMS) return fail(p, "too many parameters");
        uint64_t offset = (end + d.alignment - 1) / d.alignment * d.alignment;
        end = offset + d.bytes;
        if (end > 32764) return fail(p, "parameters are larger than a card takes");
        entry->params[entry->param_count++] =
            (struct ptx_param){(uint32_t)offset, (uint32_t)d.bytes};
        if (is(p, ",") && !next(p)) return fail(p, "the text ends inside parameters");
    }
    return true;
}

/* Skips to behind the body, or the `;` of a declaration without one. */
static bool skip_body(struct parser *p)
{
    unsigned depth = 0;
    while (next(p)) {
        if (is(p, "{")) depth++;
        if (is(p, "}") && depth > 0 && --depth == 0) return true;
        if (is(p, ";") && depth == 0) return true;
    }
    return fail(p, "the text ends inside a body");
}

static bool entry(struct parser *p, const struct ptx_visitor *visitor)
{
    struct ptx_entry *found = calloc(1, sizeof *found);
    if (!found || !next(p)) {
        free(found);
        return fail(p, "an entry without a name");
    }
    memcpy(found->name, p->token, sizeof found->name);
    const char *before = p->at;
    bool good = true;
    if (next(p) && is(p, "("))
        good = parameters(p, found);
    else
        p->at = before;
    if (good) visitor->entry(visitor->context, found);
    free(found);
    return good && skip_body(p);
}

/* One number of an initialiser: an integer, or the bits of a float (0f…) or double (0d…). */
static bool number(const char *token, uint32_t unit, unsigned char *out)
{
    char *end;
    uint64_t bits;
    if (token[0] == '0' && token[1] && strchr("fFdD", token[1]))
        bits = strtoull(token + 2, &end, 16);
    else
        bits = (uint64_t)strtoull(token, &end, 0);
    if (*end == 'U') end++;
    memcpy(out, &bits, unit < 8 ? unit : 8); /* little endian, like a card */
    return *end == '\0';
}

static bool initialiser(struct parser *p, const struct declared *d, struct ptx_global *global)
{
    uint64_t at = 0, room = d->unsized ? 0 : global->bytes;
    bool negative = false;
    global->value = calloc(1, room ? room : 1);
    while (next(p) && !is(p, ";")) {
        if (is(p, "{") || is(p, "}") || is(p, ",")) continue;
        if (is(p, "-")) {
            negative = true;
            continue;
        }
        if (d->unsized) {
            room = at + d->unit;
            global->bytes = room;
            global->value = realloc(global->value, room);
        }
        if (at + d->unit > room) return fail(p, "an initialiser is longer than its variable");
        if (!number(p->token, d->unit, global->value + at))
            return fail(p, "this initialiser is not understood by the emulator");
        if (negative) {
            uint64_t bits = 0;
            memcpy(&bits, global->value + at, d->unit < 8 ? d->unit : 8);
            bits = 0 - bits;
            memcpy(global->value + at, &bits, d->unit < 8 ? d->unit : 8);
        }
        negative = false;
        at += d->unit;
    }
    return true;
}

static bool global_variable(struct parser *p, const struct ptx_visitor *visitor)
{
    struct declared d;
    struct ptx_global *global = calloc(1, sizeof *global);
    if (!global) return fail(p, "out of memory");
    bool good = declaration(p, &d);
    if (good) {
        memcpy(global->name, d.name, sizeof global->name);
        global->bytes = d.bytes;
        if (is(p, "=")) good = initialiser(p, &d, global);
    }
    if (good)
        visitor->global(visitor->context, global);
    else
        free(global->value);
    free(global);
    return good;
}

bool ptx_parse(const char *text, const struct ptx_visitor *visitor, char *problem,
               size_t problem_bytes)
{
    struct parser p = {.at = text, .begin = text};
    bool good = true, versioned = false, is_extern = false;
    while (good && next(&p)) {
        if (is(&p, ".version")) versioned = true;
        if (is(&p, ".extern")) is_extern = true;
        if (is(&p, ";")) is_extern = false;
        if (is(&p, ".entry")) good = entry(&p, visitor);
        if (is(&p, ".func")) good = skip_body(&p);
        if ((is(&p, ".global") || is(&p, ".const")) && !is_extern)
            good = global_variable(&p, visitor);
    }
    if (good && !versioned) good = fail(&p, "no .version: this is not PTX");
    if (good) return true;
    unsigned line = 1;
    for (const char *at = p.begin; at < p.at; at++) line += *at == '\n';
    snprintf(problem, problem_bytes, "line %u, near `%.40s`: %s", line, p.token,
             p.problem ? p.problem : "malformed");
    return false;
}
