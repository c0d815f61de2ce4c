/* Keeping measured rates: what was kept is found again, and nothing that is not surely that. */
#include "test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine/rates.h"

static char root[64], folder[128], path[256];
static const char cards[] = "13000 580.159.04 2 aabb ccdd", boot[] = "b007-1d";

static int begin(void **state)
{
    strcpy(root, "/tmp/vrampool-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/vrampool", root);
    *path = '\0';
    return 0;
}

static int end(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static struct rates some(void)
{
    struct rates rates = {0};
    rates.of[0][1] = (struct rate){102.25, 101.5};
    rates.of[0][RATES_HOST] = (struct rate){55.5, 54.125};
    rates.of[15][0] = (struct rate){RATE_BROKEN, RATE_BROKEN};
    return rates;
}

/* Stores some, and finds the one file. */
static void keep(void)
{
    struct rates rates = some();
    assert_true(rates_store(folder, cards, boot, &rates));
    char command[192];
    snprintf(command, sizeof command, "ls %s/*", folder);
    FILE *list = popen(command, "r");
    assert_non_null(list);
    assert_non_null(fgets(path, sizeof path, list));
    path[strcspn(path, "\n")] = '\0';
    assert_null(fgets(command, sizeof command, list)); /* no draft is left */
    pclose(list);
}

static bool finds(void)
{
    struct rates rates;
    memset(&rates, 1, sizeof rates);
    bool found = rates_load(folder, cards, boot, &rates);
    struct rates expected = found ? some() : (struct rates){0};
    assert_memory_equal(&rates, &expected, sizeof rates); /* all of it, or nothing */
    return found;
}

static void what_is_kept_is_found_again(void **state)
{
    assert_false(finds());
    keep();
    assert_true(finds());
    struct stat status;
    assert_int_equal(stat(folder, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    keep(); /* over what is there */
    assert_true(finds());
}

static void it_holds_for_one_boot_and_one_set_of_cards(void **state)
{
    struct rates rates;
    keep();
    assert_false(rates_load(folder, cards, "b007-2d", &rates));
    assert_false(rates_load(folder, cards, "", &rates)); /* which boot is not known */
    assert_false(rates_load(folder, "13000 580.159.04 2 aabb ccde", boot, &rates));
    rates = some();
    assert_false(rates_store(folder, cards, "", &rates));
    assert_true(rates_store(folder, cards, "b007-2d", &rates)); /* the old boot's is overwritten */
    assert_false(finds());
}

/* Whatever byte is another, or missing. */
static void a_damaged_file_is_none(void **state)
{
    keep();
    char text[4096], damaged[4096];
    FILE *file = fopen(path, "r");
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    assert_in_range(length, 50, sizeof text - 2);
    for (size_t i = 0; i <= 2 * length; i++) {
        memcpy(damaged, text, length);
        size_t kept = i < length ? length : 2 * length - i;
        if (i < length) damaged[i] ^= 1;
        file = fopen(path, "w");
        fwrite(damaged, 1, kept, file);
        fclose(file);
        assert_int_equal(finds(), i == length);
    }
}

static void what_others_may_write_is_not_believed(void **state)
{
    keep();
    assert_int_equal(chmod(path, 0620), 0);
    assert_false(finds());
    assert_int_equal(chmod(path, 0600), 0);
    assert_true(finds());
    assert_int_equal(chmod(folder, 0777), 0);
    assert_false(finds());
    struct rates rates = some();
    assert_false(rates_store(folder, cards, boot, &rates));
    assert_int_equal(chmod(folder, 0700), 0);
    char elsewhere[256];
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", root);
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_false(finds());
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* nor is it waited for */
    assert_false(finds());
}

static void the_folder_is_the_users(void **state)
{
    char found[RATES_PATH];
    setenv("HOME", "/home/me", 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("XDG_RUNTIME_DIR");
    assert_true(rates_folder(found, sizeof found));
    assert_string_equal(found, "/home/me/.cache/vrampool");
    setenv("XDG_CACHE_HOME", "/var/me", 1);
    assert_true(rates_folder(found, sizeof found));
    assert_string_equal(found, "/var/me/vrampool");
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    assert_true(rates_folder(found, sizeof found));
    assert_string_equal(found, "/run/user/7/vrampool");
    assert_false(rates_folder(found, 8));
    setenv("XDG_RUNTIME_DIR", "relative", 1); /* not allowed: as if it were not set */
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_false(rates_folder(found, sizeof found));
}

static void the_boot_has_a_name(void **state)
{
    char name[64], command[256];
    snprintf(command, sizeof command,
             "mkdir -p %s/proc/sys/kernel/random && echo 1-2-3 > %s/proc/sys/kernel/random/boot_id",
             root, root);
    assert_int_equal(system(command), 0);
    rates_boot(root, name, sizeof name);
    assert_string_equal(name, "1-2-3");
    rates_boot("/nonexistent", name, sizeof name);
    assert_string_equal(name, "");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_kept_is_found_again), CASE(it_holds_for_one_boot_and_one_set_of_cards),
        CASE(a_damaged_file_is_none),      CASE(what_others_may_write_is_not_believed),
        CASE(the_folder_is_the_users),     CASE(the_boot_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
