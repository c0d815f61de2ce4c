/* Pinned host memory: which is known, and what is found in it. */
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"
#include "params/pinned.h"

#define BASE UINT64_C(0x600000000000)
static const uint64_t bytes = UINT64_C(1) << 40;

enum { ROOM = 8 };
static vp_addr words[ROOM];

static vp_addr address_of(const void *at)
{
    return (uintptr_t)at;
}

static void add(const void *start, uint64_t size, const void *context)
{
    pinned_add(&(struct pinned_range){address_of(start), address_of(start) + size, context, false});
}

static void drop(const void *start)
{
    struct pinned_range range;
    assert_true(pinned_remove(start, &range));
    assert_int_equal(range.start, address_of(start));
}

static unsigned scan(const void *at)
{
    vp_addr named = address_of(at);
    return pinned_scan(&named, 1, BASE, bytes, words, ROOM);
}

static bool is_in_hull(const void *at)
{
    vp_addr first;
    uint64_t hull;
    return pinned_hull(&first, &hull) && address_of(at) - first < hull;
}

static void a_table_is_found_from_any_address_in_it(void **state)
{
    static vp_addr memory[18] = {BASE, 1, 0, BASE + 4096, 0, 7}, *table = memory + 1;
    table[15] = BASE + bytes - 1;
    table[16] = BASE;
    assert_false(is_in_hull(table));
    add(table, 16 * sizeof *table, NULL);
    assert_true(is_in_hull(table) && is_in_hull(&table[15]));
    assert_int_equal(scan(table), 2);
    assert_int_equal(words[0], BASE + 4096);
    assert_int_equal(words[1], BASE + bytes - 1);
    assert_int_equal(scan((char *)&table[15] + 7), 2);
    assert_int_equal(scan(table + 16), 0); /* behind it */
    assert_int_equal(scan((char *)table - 1), 0);
    drop(table);
    assert_false(is_in_hull(table));
    assert_int_equal(scan(table), 0);
}

static void of_large_memory_a_part_is_looked_at(void **state)
{
    vp_addr *large = calloc(2, MIB);
    const size_t part = 64 * KIB / sizeof *large, at = 1000;
    assert_non_null(large);
    large[0] = BASE;
    large[at] = BASE + 1;
    large[at + part] = BASE + 2;
    large[2 * MIB / sizeof *large - 1] = BASE + 3;
    add(large, 2 * MIB, NULL);
    assert_int_equal(scan(large), 2);
    assert_int_equal(scan((char *)&large[at] + 3), 1); /* an aligned address begins there */
    assert_int_equal(words[0], BASE + 1);
    assert_int_equal(scan(&large[at + 1]), 1);
    assert_int_equal(words[0], BASE + 2);
    assert_int_equal(scan(&large[2 * MIB / sizeof *large - 1]), 1);
    drop(large);
    add((char *)large + 4, MIB, NULL); /* whole, and its addresses are aligned all the same */
    assert_int_equal(scan((char *)large + MIB / 2), 2);
    drop((char *)large + 4);
    free(large);
}

static void what_comes_again_counts_once(void **state)
{
    static vp_addr table[64];
    for (unsigned i = 0; i < 64; i++) table[i] = BASE + (i < 32 ? 0 : i);
    add(table, sizeof table, NULL);
    vp_addr named[] = {address_of(table), 5, address_of(&table[3])};
    assert_int_equal(pinned_scan(named, 3, BASE, bytes, words, ROOM), 1 + 32);
    assert_int_equal(words[ROOM - 1], BASE + 38); /* and no more are written than there is room */
    drop(table);
}

static void ranges_are_told_apart(void **state)
{
    static vp_addr table[8][4];
    const unsigned order[] = {3, 0, 7, 1, 6, 2, 5, 4};
    for (unsigned i = 0; i < 8; i++) {
        table[order[i]][3] = BASE + order[i];
        add(table[order[i]], sizeof table[0], NULL);
    }
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(scan(&table[i][1]), 1);
        assert_int_equal(words[0], BASE + i);
    }
    struct pinned_range range;
    assert_false(pinned_remove(&table[2][1], &range)); /* not where one begins */
    for (unsigned i = 0; i < 8; i++) {
        drop(table[order[i]]);
        assert_int_equal(scan(table[order[i]]), 0);
        assert_true(i == 7 || is_in_hull(table[order[7]]));
    }
    assert_false(is_in_hull(table[4]));
}

static void what_ended_unseen_gives_way(void **state)
{
    static vp_addr memory[64];
    for (unsigned i = 0; i < 8; i++) add(&memory[8 * i], 64, NULL);
    add(&memory[4], 256, NULL); /* over half of the first to half of the fifth */
    struct pinned_range range;
    for (unsigned i = 0; i < 5; i++) assert_false(pinned_remove(&memory[8 * i], &range));
    drop(&memory[4]);
    for (unsigned i = 5; i < 8; i++) drop(&memory[8 * i]);
    add(NULL, 4096, NULL);
    add(memory, 0, NULL);
    assert_false(is_in_hull(memory));
}

static void a_context_takes_its_memory_along(void **state)
{
    static vp_addr table[3][2] = {{BASE, 0}, {BASE, 0}, {BASE, 0}};
    int here, there;
    for (unsigned i = 0; i < 3; i++) add(table[i], sizeof table[i], i == 1 ? &there : &here);
    pinned_context_ends(&here);
    assert_int_equal(scan(table[0]) + scan(table[2]), 0);
    assert_int_equal(scan(table[1]), 1);
    pinned_context_ends(&there);
    assert_false(is_in_hull(table[1]));
}

/* ---- One thread frees what the other's numbers look like addresses of ---- */

enum { TURNS = 300 };
static _Atomic(char *) shown;
static atomic_bool over;

static void *keep_scanning(void *found)
{
    while (!atomic_load(&over)) {
        char *at = atomic_load(&shown);
        vp_addr named = address_of(at) + 4096, word;
        if (at) *(unsigned *)found += pinned_scan(&named, 1, BASE, bytes, &word, 1);
    }
    return NULL;
}

static void nothing_is_read_that_is_gone(void **state)
{
    pthread_t thread;
    unsigned found = 0;
    atomic_store(&over, false);
    assert_int_equal(pthread_create(&thread, NULL, keep_scanning, &found), 0);
    for (unsigned i = 0; i < TURNS; i++) {
        char *memory =
            mmap(NULL, 256 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(memory, MAP_FAILED);
        *(vp_addr *)(void *)(memory + 8192) = BASE;
        add(memory, 256 * KIB, NULL);
        atomic_store(&shown, memory);
        assert_int_equal(scan(memory), 1);
        drop(memory);
        assert_int_equal(munmap(memory, 256 * KIB), 0);
    }
    atomic_store(&over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Registered memory is the program's own: it may go while it is on the list. */
static void registered_memory_may_have_gone(void **state)
{
    char *memory = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    for (unsigned i = 0; i < 2; i++) *(vp_addr *)(void *)(memory + i * 8192) = BASE + i;
    vp_addr first = address_of(memory);
    pinned_add(&(struct pinned_range){first, first + 16384, NULL, true});
    assert_int_equal(scan(memory), 2);
    assert_int_equal(munmap(memory + 8192, 8192), 0);
    assert_int_equal(scan(memory), 1);
    assert_int_equal(munmap(memory, 8192), 0);
    assert_int_equal(scan(memory), 0);
    drop(memory);
}

/* In the child: 0 if all is as it should be. */
static int in_child(const void *table, uint64_t size)
{
    pinned_forget();
    if (is_in_hull(table) || scan(table) != 0) return 1;
    add(table, size, NULL); /* and may go on */
    return scan(table) == 1 ? 0 : 2;
}

static void a_child_has_none(void **state)
{
    static vp_addr table[1] = {BASE};
    add(table, sizeof table, NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(in_child(table, sizeof table));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(scan(table), 1); /* the parent does not notice */
    drop(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_found_from_any_address_in_it),
        cmocka_unit_test(of_large_memory_a_part_is_looked_at),
        cmocka_unit_test(what_comes_again_counts_once),
        cmocka_unit_test(ranges_are_told_apart),
        cmocka_unit_test(what_ended_unseen_gives_way),
        cmocka_unit_test(a_context_takes_its_memory_along),
        cmocka_unit_test(nothing_is_read_that_is_gone),
        cmocka_unit_test(registered_memory_may_have_gone),
        cmocka_unit_test(a_child_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
