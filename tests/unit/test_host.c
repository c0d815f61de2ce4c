#include "machine/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <ftw.h>

#include "base/log.h"
#include "base/units.h"
#include "test.h"

/* A root folder of files made up for one test. */
static char root[64];

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    return remove(path);
}

static int make_root(void **state)
{
    strcpy(root, "/tmp/vrampool-host-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void **state)
{
    return nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void put_file(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void put_meminfo(void)
{
    put_file("/proc/meminfo", "MemTotal:       8388608 kB\nMemFree:        1 kB\n"
                              "MemAvailable:   4194304 kB\n");
}

static struct host_memory read_root(void)
{
    struct host_memory memory;
    assert_int_equal(host_memory_read(root, &memory), VP_OK);
    return memory;
}

static void without_groups_what_is_available_counts(void **state)
{
    put_meminfo();
    struct host_memory memory = read_root();
    assert_int_equal(memory.total_bytes, 8 * GIB);
    assert_int_equal(memory.available_bytes, 4 * GIB);
    assert_true(memory.limit_bytes == HOST_NO_LIMIT);
    assert_int_equal(host_memory_free(&memory), 4 * GIB);
    assert_in_range(host_memory_default(&memory), 4 * GIB / 10 * 9 - 10, 4 * GIB / 10 * 9 + 10);
    assert_string_equal(memory.limit_file, "");
}

static void the_tightest_nested_group_counts(void **state)
{
    put_meminfo();
    put_file("/proc/self/cgroup", "0::/a/b\n");
    put_file("/proc/self/mountinfo",
             "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    put_file("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put_file("/sys/fs/cgroup/a/memory.max", "3221225472\n");
    put_file("/sys/fs/cgroup/a/memory.current", "2147483648\n");
    put_file("/sys/fs/cgroup/a/memory.stat", "anon 5\nfile 99\ninactive_file 1073741824\n");
    struct host_memory memory = read_root();
    assert_int_equal(memory.limit_bytes, 3 * GIB);
    assert_int_equal(memory.limit_left_bytes, 2 * GIB); /* 3 less 2 used, of which 1 is cache */
    assert_int_equal(host_memory_free(&memory), 2 * GIB);
    assert_non_null(strstr(memory.limit_file, "/sys/fs/cgroup/a/memory.max"));
}

static void a_roomy_group_does_not_count(void **state)
{
    put_meminfo();
    put_file("/proc/self/cgroup", "0::/\n");
    put_file("/proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put_file("/sys/fs/cgroup/memory.max", "6442450944\n");
    struct host_memory memory = read_root();
    assert_int_equal(memory.limit_bytes, 6 * GIB);
    assert_int_equal(host_memory_free(&memory), 4 * GIB);
}

static void version_one_is_read_too(void **state)
{
    put_meminfo();
    put_file("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/job\n0::/\n");
    put_file("/proc/self/mountinfo",
             "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
             "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,cpu,memory\n");
    put_file("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
    put_file("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "268435456\n");
    put_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    struct host_memory memory = read_root();
    assert_int_equal(memory.limit_bytes, GIB);
    assert_int_equal(host_memory_free(&memory), 768 * MIB);
}

/* A container without a namespace of its own: the mount shows the subtree of its group. */
static void a_container_sees_its_own_subtree(void **state)
{
    put_meminfo();
    put_file("/proc/self/cgroup", "4:memory:/docker/77/inner\n");
    put_file("/proc/self/mountinfo",
             "35 31 0:32 /docker/77 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    put_file("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "3221225472\n");
    struct host_memory memory = read_root();
    assert_int_equal(memory.limit_bytes, 2 * GIB);
}

/* The path may name a group that is not visible here; its visible parents still count. */
static void an_invisible_group_leaves_its_parents(void **state)
{
    put_meminfo();
    put_file("/proc/self/cgroup", "0::/../elsewhere\n");
    put_file("/proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put_file("/sys/fs/cgroup/memory.max", "1073741824\n");
    put_file("/sys/fs/cgroup/memory.current", "2147483648\n");
    struct host_memory memory = read_root();
    assert_int_equal(memory.limit_bytes, GIB);
    assert_int_equal(host_memory_free(&memory), 0);
}

static void damaged_files_are_no_limit(void **state)
{
    put_meminfo();
    put_file("/proc/self/cgroup", "garbage\n0:\n0::\n");
    put_file("/proc/self/mountinfo",
             "a - \nb - cgroup2\n - cgroup2 x y\n1 2 3 / /m rw - cgroup2 x y\n");
    put_file("/m/memory.max", "-\n");
    struct host_memory memory = read_root();
    assert_true(memory.limit_bytes == HOST_NO_LIMIT);
}

static void without_meminfo_nothing_is_known(void **state)
{
    struct host_memory memory;
    assert_int_equal(host_memory_read(root, &memory), VP_NOT_FOUND);
    put_file("/proc/meminfo", "MemTotal: 1 kB\n");
    assert_int_equal(host_memory_read(root, &memory), VP_NOT_FOUND);
}

static void this_machine_can_be_read(void **state)
{
    struct host_memory memory;
    assert_int_equal(host_memory_read("", &memory), VP_OK);
    assert_true(memory.total_bytes >= memory.available_bytes && memory.available_bytes > 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, make_root, drop_root)

int main(void)
{
    log_set_level(LOG_QUIET);
    const struct CMUnitTest tests[] = {
        CASE(without_groups_what_is_available_counts),
        CASE(the_tightest_nested_group_counts),
        CASE(a_roomy_group_does_not_count),
        CASE(version_one_is_read_too),
        CASE(a_container_sees_its_own_subtree),
        CASE(an_invisible_group_leaves_its_parents),
        CASE(damaged_files_are_no_limit),
        CASE(without_meminfo_nothing_is_known),
        cmocka_unit_test(this_machine_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
