#include "base/env.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"

static const struct {
    const char *name, *form, *text;
} variables[] = {
#define ROW(id, name, form, text) {name, form, text},
    ENV_VARIABLES(ROW)
#undef ROW
};

const char *env_name(enum env_variable variable)
{
    return variables[variable].name;
}

const char *env_form(enum env_variable variable)
{
    return variables[variable].form;
}

const char *env_text(enum env_variable variable)
{
    return variables[variable].text;
}

const char *env_get(enum env_variable variable)
{
    const char *value = getenv(variables[variable].name);
    return value && *value ? value : NULL;
}

static bool wrong(enum env_variable variable, const char *value)
{
    log_error("%s=%s is not understood; it takes %s: %s", variables[variable].name, value,
              variables[variable].form, variables[variable].text);
    return false;
}

bool env_get_flag(enum env_variable variable, bool *flag)
{
    const char *value = env_get(variable);
    if (!value) return true;
    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0) return wrong(variable, value);
    *flag = *value == '1';
    return true;
}

/* One `N` or `N-M`; moves *at behind it. */
static bool take_range(const char **at, uint32_t *cards)
{
    unsigned long bounds[2];
    for (unsigned i = 0; i < 2; i++) {
        char *end;
        if (!isdigit((unsigned char)**at)) return false;
        bounds[i] = strtoul(*at, &end, 10);
        if (bounds[i] >= VP_MAX_CARDS) return false;
        *at = end;
        if (i == 0 && **at != '-') bounds[++i] = bounds[0];
        if (i == 0) (*at)++;
    }
    if (bounds[0] > bounds[1]) return false;
    for (unsigned long card = bounds[0]; card <= bounds[1]; card++) *cards |= UINT32_C(1) << card;
    return true;
}

bool env_parse_cards(const char *text, uint32_t *cards)
{
    uint32_t read = 0;
    if (strcmp(text, "all") == 0) {
        read = UINT32_MAX;
    } else if (strcmp(text, "none") != 0) {
        if (!take_range(&text, &read)) return false;
        while (*text) {
            if (*text++ != ',' || !take_range(&text, &read)) return false;
        }
    }
    *cards = read;
    return true;
}

/* `N`, `N-M`, each with `:SIZE` behind it or not; moves *at behind it. */
static bool take_share(const char **at, uint32_t *cards, uint64_t *bytes)
{
    uint32_t range = 0;
    uint64_t share = 0;
    char size[32];
    if (!take_range(at, &range)) return false;
    *cards |= range;
    if (**at != ':') return true;
    size_t length = strcspn(++*at, ",");
    if (length >= sizeof size) return false;
    memcpy(size, *at, length);
    size[length] = '\0';
    *at += length;
    if (!units_parse_size(size, &share) || share == 0) return false;
    for (; range; range &= range - 1) bytes[__builtin_ctz(range)] = share;
    return true;
}

bool env_parse_lend(const char *text, uint32_t *cards, uint64_t bytes[VP_MAX_CARDS])
{
    uint32_t read = 0;
    uint64_t shares[VP_MAX_CARDS] = {0};
    if (strchr(text, ':')) {
        if (!take_share(&text, &read, shares)) return false;
        while (*text)
            if (*text++ != ',' || !take_share(&text, &read, shares)) return false;
    } else if (!env_parse_cards(text, &read)) {
        return false;
    }
    *cards = read;
    memcpy(bytes, shares, sizeof shares);
    return true;
}

static bool read_lend(vp_options *options)
{
    const char *value = env_get(ENV_LEND);
    return !value || env_parse_lend(value, &options->lend_cards, options->lend_bytes) ||
           wrong(ENV_LEND, value);
}

static bool read_size(enum env_variable variable, uint64_t *bytes)
{
    const char *value = env_get(variable);
    return !value || units_parse_size(value, bytes) || wrong(variable, value);
}

static bool read_cards(enum env_variable variable, uint32_t *cards)
{
    const char *value = env_get(variable);
    return !value || env_parse_cards(value, cards) || wrong(variable, value);
}

/* In a process that is no rank, `ranks` is `all`: there a launcher counts the cards. */
static bool read_compute(uint32_t *cards)
{
    const char *value = env_get(ENV_COMPUTE);
    if (!value || strcmp(value, ENV_RANKS) != 0) return read_cards(ENV_COMPUTE, cards);
    *cards = UINT32_MAX;
    return true;
}

static bool read_flag(enum env_variable variable, uint32_t *number)
{
    bool flag = *number != 0;
    if (!env_get_flag(variable, &flag)) return false;
    *number = flag;
    return true;
}

static bool read_verify(uint32_t *verify)
{
    const char *value = env_get(ENV_VERIFY);
    if (!value || strcmp(value, "params") != 0) return read_flag(ENV_VERIFY, verify);
    *verify = 2;
    return true;
}

bool env_parse_chunk(const char *text, uint64_t *bytes)
{
    uint64_t read;
    if (!units_parse_size(text, &read) || (read & (read - 1)) != 0) return false;
    if (read < ENV_LEAST_CHUNK || read > ENV_MOST_CHUNK) return false;
    *bytes = read;
    return true;
}

bool env_parse_ahead(const char *text, uint32_t *ops)
{
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value < 1 || value > ENV_MOST_AHEAD) return false;
    *ops = (uint32_t)value;
    return true;
}

static bool read_chunk(uint64_t *bytes)
{
    const char *value = env_get(ENV_CHUNK);
    return !value || env_parse_chunk(value, bytes) || wrong(ENV_CHUNK, value);
}

static bool read_ahead(uint32_t *ops)
{
    const char *value = env_get(ENV_AHEAD);
    return !value || env_parse_ahead(value, ops) || wrong(ENV_AHEAD, value);
}

bool env_parse_policy(const char *text, uint32_t *policy)
{
    static const char *const words[] = {
#define WORD(name, word) word,
        VP_POLICIES(WORD)
#undef WORD
    };
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i]) != 0) continue;
        *policy = i;
        return true;
    }
    return false;
}

static bool read_policy(uint32_t *policy)
{
    const char *value = env_get(ENV_POLICY);
    return !value || env_parse_policy(value, policy) || wrong(ENV_POLICY, value);
}

vp_status env_read_options(vp_options *options)
{
    vp_options read = *options;
    if (env_get(ENV_DRIVER)) read.driver_path = env_get(ENV_DRIVER);
    if (env_get(ENV_RECORD)) read.record_path = env_get(ENV_RECORD);
    if (env_get(ENV_TIMELINE)) read.timeline_path = env_get(ENV_TIMELINE);
    bool fine = read_size(ENV_HBM, &read.hbm_bytes) && read_size(ENV_HOST, &read.host_bytes) &&
                read_chunk(&read.chunk_bytes) && read_ahead(&read.ahead_ops) &&
                read_size(ENV_RESERVE, &read.reserve_bytes) && read_compute(&read.compute_cards) &&
                read_lend(&read) && read_verify(&read.verify) &&
                read_flag(ENV_ALWAYS_MAPPED, &read.always_mapped) &&
                read_flag(ENV_STRICT, &read.strict) && read_policy(&read.policy);
    if (!fine) return VP_INVALID;
    *options = read;
    return VP_OK;
}
