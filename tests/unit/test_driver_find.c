#include "driver/driver.h"

#include <elf.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "test.h"

#if defined(__aarch64__)
enum { MACHINE = EM_AARCH64, OTHER_MACHINE = EM_X86_64 };
#else
enum { MACHINE = EM_X86_64, OTHER_MACHINE = EM_AARCH64 };
#endif

/* A root folder with libraries made up for one test. */
static char root[64];

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    return remove(path);
}

static int make_root(void **state)
{
    unsetenv("VRAMPOOL_DRIVER");
    unsetenv("LD_LIBRARY_PATH");
    strcpy(root, "/tmp/vrampool-find-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void **state)
{
    return nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *under_root(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s%s", root, name);
    return path;
}

static void put(const char *name, const void *bytes, size_t size)
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
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* As much of a library as is looked at: its header, and a note if it has one. */
static void put_library(const char *name, unsigned machine, const char *note)
{
    struct {
        Elf64_Ehdr header;
        Elf64_Phdr segment;
    } file = {0};
    memcpy(file.header.e_ident, ELFMAG, SELFMAG);
    file.header.e_ident[EI_CLASS] = ELFCLASS64;
    file.header.e_machine = (Elf64_Half)machine;
    file.header.e_phoff = sizeof file.header;
    file.header.e_phentsize = sizeof file.segment;
    file.header.e_phnum = 1;
    file.segment.p_type = PT_NOTE;
    file.segment.p_offset = sizeof file.header + sizeof file.segment;
    char notes[128] = {0};
    Elf64_Nhdr gnu = {.n_namesz = 4, .n_descsz = 6, .n_type = 3}; /* odd sizes: padding counts */
    memcpy(notes, &gnu, sizeof gnu);
    memcpy(notes + sizeof gnu, "GNU", 4);
    size_t size = sizeof gnu + 4 + 8;
    if (note) {
        Elf64_Nhdr own = {.n_namesz = (Elf64_Word)strlen(note) + 1, .n_type = 1};
        memcpy(notes + size, &own, sizeof own);
        memcpy(notes + size + sizeof own, note, strlen(note) + 1);
        size += sizeof own + (strlen(note) + 4) / 4 * 4;
    }
    file.segment.p_filesz = size;
    char bytes[sizeof file.header + sizeof file.segment + sizeof notes];
    memcpy(bytes, &file.header, sizeof file.header);
    memcpy(bytes + sizeof file.header, &file.segment, sizeof file.segment);
    memcpy(bytes + file.segment.p_offset, notes, sizeof notes);
    put(name, bytes, file.segment.p_offset + size);
}

/* A loader's cache of two libraries; `old` puts the older form before it. */
static void put_cache(const char *name, const char *library, bool old)
{
    char bytes[512] = "ld.so-1.7.0";
    size_t start = old ? 32 : 0;
    uint32_t at = 48 + 2 * 24;
    memcpy(bytes + start, "glibc-ld.so.cache1.1", 20);
    uint32_t count = 2;
    memcpy(bytes + start + 20, &count, 4);
    const char *const names[2][2] = {{"libc.so.6", "/lib/libc.so.6"}, {name, library}};
    for (unsigned i = 0; i < 2; i++) {
        uint32_t entry[3] = {0x303};
        for (unsigned j = 0; j < 2; j++) {
            entry[1 + j] = at;
            strcpy(bytes + start + at, names[i][j]);
            at += (uint32_t)strlen(names[i][j]) + 1;
        }
        memcpy(bytes + start + 48 + i * 24, entry, sizeof entry);
    }
    put("/etc/ld.so.cache", bytes, start + at);
}

static void expect(const char *name)
{
    char path[512] = "";
    assert_int_equal(driver_find_under(root, NULL, path, sizeof path), VP_OK);
    assert_string_equal(path, under_root(name));
}

static void expect_none(const char *self)
{
    char path[512] = "untouched";
    log_set_level(LOG_QUIET);
    assert_int_equal(driver_find_under(root, self, path, sizeof path), VP_NOT_FOUND);
    log_set_level(LOG_WARN);
    assert_string_equal(path, "untouched");
}

static void nothing_is_not_found(void **state)
{
    expect_none(NULL);
}

static void usual_folders_are_searched(void **state)
{
    put_library("/usr/local/nvidia/lib64/libcuda.so.1", MACHINE, NULL);
    expect("/usr/local/nvidia/lib64/libcuda.so.1");
    put_library("/usr/lib64/libcuda.so.1", MACHINE, NULL);
    expect("/usr/lib64/libcuda.so.1");
}

static void the_cache_goes_before_the_folders(void **state)
{
    put_library("/usr/lib64/libcuda.so.1", MACHINE, NULL);
    put_library("/opt/driver/libcuda.so.1", MACHINE, NULL);
    put_cache("libcuda.so.1", "/opt/driver/libcuda.so.1", false);
    expect("/opt/driver/libcuda.so.1");
    put_cache("libcuda.so.1", "/opt/driver/libcuda.so.1", true);
    expect("/opt/driver/libcuda.so.1");
    put_cache("libcuda.so", "/opt/driver/libcuda.so.1", false);
    expect("/usr/lib64/libcuda.so.1");
}

static void a_broken_cache_is_passed_over(void **state)
{
    put_library("/usr/lib64/libcuda.so.1", MACHINE, NULL);
    put_library("/opt/driver/libcuda.so.1", MACHINE, NULL);
    put_cache("libcuda.so.1", "/opt/driver/libcuda.so.1", false);
    static char bytes[512];
    FILE *file = fopen(under_root("/etc/ld.so.cache"), "r");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(size > 100);
    for (size_t cut = 0; cut < size; cut++) {
        put("/etc/ld.so.cache", bytes, cut);
        expect("/usr/lib64/libcuda.so.1");
    }
    memset(bytes + 20, 0xff, 4); /* more entries than the file holds */
    put("/etc/ld.so.cache", bytes, size);
    expect("/usr/lib64/libcuda.so.1");
}

static void the_library_path_goes_before_the_cache(void **state)
{
    put_library("/opt/driver/libcuda.so.1", MACHINE, NULL);
    put_cache("libcuda.so.1", "/opt/driver/libcuda.so.1", false);
    put_library("/home/libcuda.so.1", MACHINE, NULL);
    setenv("LD_LIBRARY_PATH", "::.:/nowhere:/home:/opt/driver", 1);
    expect("/home/libcuda.so.1");
}

static void what_is_no_driver_for_us_is_passed_over(void **state)
{
    setenv("LD_LIBRARY_PATH", "/empty:/text:/other:/copy", 1);
    put("/empty/libcuda.so.1", "", 0);
    put("/text/libcuda.so.1", "INPUT(libcuda.so)\n", 18);
    put_library("/other/libcuda.so.1", OTHER_MACHINE, NULL);
    put_library("/copy/libcuda.so.1", MACHINE, DRIVER_SHIM_NOTE);
    expect_none(NULL);
    put_library("/copy/libcuda.so.1", MACHINE, "another-note");
    expect("/copy/libcuda.so.1");
}

static void never_itself_not_even_by_another_name(void **state)
{
    put_library("/shim/libcuda.so.1", MACHINE, NULL);
    put("/usr/lib64/folder", "", 0);
    assert_int_equal(link(under_root("/shim/libcuda.so.1"), under_root("/usr/lib64/libcuda.so.1")),
                     0);
    expect("/usr/lib64/libcuda.so.1");
    expect_none(under_root("/shim/libcuda.so.1"));
}

static void the_variable_is_taken_or_refused(void **state)
{
    put_library("/usr/lib64/libcuda.so.1", MACHINE, NULL);
    put_library("/mine/any-name.so", MACHINE, NULL);
    setenv("VRAMPOOL_DRIVER", under_root("/mine/any-name.so"), 1);
    expect("/mine/any-name.so");
    expect_none(under_root("/mine/any-name.so"));
    setenv("VRAMPOOL_DRIVER", under_root("/mine/missing.so"), 1);
    expect_none(NULL);
    assert_int_equal(chdir(root), 0);
    setenv("VRAMPOOL_DRIVER", "mine/any-name.so", 1);
    expect("/mine/any-name.so");
}

static void a_result_that_does_not_fit_is_none(void **state)
{
    put_library("/usr/lib64/libcuda.so.1", MACHINE, NULL);
    char path[16] = "untouched";
    log_set_level(LOG_QUIET);
    assert_int_equal(driver_find_under(root, NULL, path, sizeof path), VP_NOT_FOUND);
    log_set_level(LOG_WARN);
    assert_string_equal(path, "untouched");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_root, drop_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nothing_is_not_found),
        CASE(usual_folders_are_searched),
        CASE(the_cache_goes_before_the_folders),
        CASE(a_broken_cache_is_passed_over),
        CASE(the_library_path_goes_before_the_cache),
        CASE(what_is_no_driver_for_us_is_passed_over),
        CASE(never_itself_not_even_by_another_name),
        CASE(the_variable_is_taken_or_refused),
        CASE(a_result_that_does_not_fit_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
