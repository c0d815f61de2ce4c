/* What was measured, as tables of all pairs and as JSON. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "bench.h"

const char *bench_place_name(const struct bench *bench, unsigned place, char name[16])
{
    if (place < bench->cards)
        snprintf(name, 16, "card%u", place);
    else
        snprintf(name, 16, "host0");
    return name;
}

static double copy_of(const struct bench_pair *pair)
{
    return pair->copy_gbps;
}

static double read_of(const struct bench_pair *pair)
{
    return pair->read_gbps;
}

static double write_of(const struct bench_pair *pair)
{
    return pair->write_gbps;
}

static double latency_of(const struct bench_pair *pair)
{
    return pair->latency_ns;
}

static double translation_of(const struct bench_pair *pair)
{
    return pair->translation_ns;
}

static void print_matrix(const struct bench *bench, const char *title,
                         double (*value_of)(const struct bench_pair *))
{
    char name[16];
    printf("\n%s\n%-8s", title, "from\\to");
    for (unsigned to = 0; to <= bench->cards; to++)
        printf(" %8s", bench_place_name(bench, to, name));
    const struct bench_pair *pair = bench->pair;
    for (unsigned from = 0; from <= bench->cards; from++) {
        printf("\n%-8s", bench_place_name(bench, from, name));
        for (unsigned to = 0; to <= bench->cards; to++) {
            bool there = pair < bench->pair + bench->pairs && pair->from == from && pair->to == to;
            if (there && value_of(pair) > 0)
                printf(" %8.1f", value_of(pair));
            else
                printf(" %8s", "-");
            pair += there;
        }
    }
    putchar('\n');
}

static void print_translation(const struct bench *bench)
{
    const struct bench_translation *model = &bench->translation;
    char page[32], operand[32];
    if (model->rounds == 0) return;
    print_matrix(bench, "translation in layers, ns: a model, nothing of it is measured",
                 translation_of);
    printf(
        "\nmodel      average %.0f ns, 99th percentile %.0f, worst pair %.0f, first round %.0f\n",
        model->average_ns, model->p99_ns, model->worst_pair_ns, model->cold_ns);
    printf("           %.1f %% answered by a card's cache of %llu entries, %.1f %% by the "
           "controller,\n"
           "           after %.0f ns in its queue; pages of %s, operands of %s, %u rounds\n",
           100 * model->hit_share, (unsigned long long)model->entries,
           100 * model->controller_share, model->wait_ns,
           units_format_size(model->page_bytes, page, sizeof page),
           units_format_size(model->operand_bytes, operand, sizeof operand), model->rounds);
    printf("           pages at random from all memory: average %.0f ns, %.1f %% from the cache, "
           "%.0f ns in the queue\n",
           model->uniform_ns, 100 * model->uniform_hit_share, model->uniform_wait_ns);
}

void bench_print_table(const struct bench *bench)
{
    char size[32], asked[32];
    printf("machine    %s%s\n", bench->machine,
           bench->emulated ? ", emulated: rates and latencies are in its own time" : "");
    printf("size       %s a copy, median of %u rounds",
           units_format_size(bench->size_bytes, size, sizeof size), bench->rounds);
    if (bench->size_bytes < bench->asked_bytes)
        printf(" (cut down from %s: %s)",
               units_format_size(bench->asked_bytes, asked, sizeof asked),
               bench->emulated ? "emulated" : "a card has no room for more");
    putchar('\n');
    print_matrix(bench, "copy, GB/s", copy_of);
    print_matrix(bench, "read in place by a kernel, GB/s (a card reads the other end)", read_of);
    print_matrix(bench, "written in place by a kernel, GB/s", write_of);
    print_matrix(bench, "latency of a load, ns", latency_of);
    if (bench->has_fallback)
        printf("\nfallback   %.1f GB/s, %.0f ns: card0 to card1 through the host\n",
               bench->fallback_gbps, bench->fallback_latency_ns);
    else
        printf("\nfallback   none: there is one card\n");
    printf("lookup     %.1f ns: an address in a page table of 100000 chunks, on this CPU\n",
           bench->lookup_ns);
    printf("filter     %.1f ns: whether one of them is remote, the same\n", bench->filter_ns);
    print_translation(bench);
}

/* A figure as people write it; null where there is none. */
static json_t *figure(double value)
{
    return value > 0 ? json_real((double)(long long)(value * 100 + 0.5) / 100) : json_null();
}

static json_t *pair_json(const struct bench *bench, const struct bench_pair *pair)
{
    char from[16], to[16];
    return json_pack("{ss ss si so so so so so}", "from", bench_place_name(bench, pair->from, from),
                     "to", bench_place_name(bench, pair->to, to), "hops", (int)pair->hops,
                     "copy_gbps", figure(pair->copy_gbps), "latency_ns", figure(pair->latency_ns),
                     "read_gbps", figure(pair->read_gbps), "write_gbps", figure(pair->write_gbps),
                     "translation_ns", figure(pair->translation_ns));
}

static json_t *translation_json(const struct bench_translation *model)
{
    if (model->rounds == 0) return json_null();
    return json_pack("{sb so so so so sf sf sf sf sf sf si sI sI sI}", "model", 1, "average_ns",
                     figure(model->average_ns), "p99_ns", figure(model->p99_ns), "worst_pair_ns",
                     figure(model->worst_pair_ns), "first_round_ns", figure(model->cold_ns),
                     "hit_share", model->hit_share, "controller_share", model->controller_share,
                     "queue_ns", model->wait_ns, "uniform_ns", model->uniform_ns,
                     "uniform_hit_share", model->uniform_hit_share, "uniform_queue_ns",
                     model->uniform_wait_ns, "rounds", (int)model->rounds, "page_bytes",
                     (json_int_t)model->page_bytes, "operand_bytes",
                     (json_int_t)model->operand_bytes, "entries", (json_int_t)model->entries);
}

void bench_print_json(const struct bench *bench)
{
    json_t *pairs = json_array();
    for (unsigned i = 0; i < bench->pairs; i++)
        json_array_append_new(pairs, pair_json(bench, &bench->pair[i]));
    json_t *root = json_pack(
        "{ss sb sI sI si so so so so so so}", "machine", bench->machine, "emulated",
        bench->emulated, "asked_bytes", (json_int_t)bench->asked_bytes, "size_bytes",
        (json_int_t)bench->size_bytes, "rounds", (int)bench->rounds, "pairs", pairs,
        "fallback_gbps", figure(bench->fallback_gbps), "fallback_latency_ns",
        figure(bench->fallback_latency_ns), "lookup_ns", figure(bench->lookup_ns), "filter_ns",
        figure(bench->filter_ns), "translation", translation_json(&bench->translation));
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(root);
}
