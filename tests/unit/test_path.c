#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static char folder[] = "/tmp/vrampool-test-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void assert_refused(const char *path, int why)
{
    errno = 0;
    assert_false(path_can_be_written(path));
    assert_int_equal(errno, why);
}

static void a_new_file_is_not_made(void **state)
{
    assert_true(path_can_be_written(in_folder("new")));
    assert_int_not_equal(access(in_folder("new"), F_OK), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing is left in it */
    assert_int_equal(mkdir(folder, 0700), 0);
}

static void a_file_stays_as_it_is(void **state)
{
    char text[8] = {0};
    int file = open(in_folder("old"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(file, "before", 6), 6);
    assert_true(path_can_be_written(in_folder("old")));
    assert_int_equal(pread(file, text, sizeof text, 0), 6);
    assert_string_equal(text, "before");
    close(file);
    unlink(in_folder("old"));
}

static void what_cannot_be_written_is_refused(void **state)
{
    char long_name[400];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_refused(folder, EISDIR);
    assert_refused(in_folder("nonesuch/file"), ENOENT);
    assert_refused(in_folder("nonesuch/"), EISDIR);
    assert_refused("/proc/vrampool-test", ENOENT); /* also for who may do everything */
    assert_refused(in_folder(long_name), ENAMETOOLONG);
}

static void assert_same(bool same, const char *name, const char *other)
{
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder(name));
    assert_int_equal(path_is_same(path, in_folder(other)), same);
    assert_int_equal(path_is_same(in_folder(other), path), same);
}

static void one_file_is_known_by_all_its_names(void **state)
{
    assert_same(true, "new", "./new");
    assert_same(false, "new", "newer");
    close(open(in_folder("old"), O_RDWR | O_CREAT, 0600));
    assert_same(false, "new", "old");
    assert_same(true, "old", ".//old");
    char old[512];
    snprintf(old, sizeof old, "%s", in_folder("old"));
    assert_int_equal(symlink("old", in_folder("soft")), 0);
    assert_int_equal(link(old, in_folder("hard")), 0);
    assert_same(true, "old", "soft");
    assert_same(true, "soft", "hard");
    unlink(in_folder("soft"));
    unlink(in_folder("hard"));
    unlink(in_folder("old"));
    assert_false(path_is_same("/dev/null", "/dev/null"));
}

/* Where the program has closed its stdin, nothing of ours gets that descriptor. */
static void a_closed_standard_stream_stays_closed(void **state)
{
    int before = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    int file = path_open_to_write(in_folder("new"), 0600);
    assert_true(file > STDERR_FILENO);
    assert_int_equal(fcntl(file, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
    assert_int_equal(write(file, "text", 4), 4);
    close(file);
    if (before >= 0) {
        dup2(before, STDIN_FILENO);
        close(before);
    }
    struct stat status;
    assert_int_equal(stat(in_folder("new"), &status), 0);
    assert_int_equal(status.st_size, 4);
    assert_int_equal(status.st_mode & 0777, 0600);
    unlink(in_folder("new"));
    assert_true(path_open_to_write(in_folder("nonesuch/file"), 0600) < 0);
    assert_int_equal(errno, ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_file_is_not_made),
        cmocka_unit_test(a_file_stays_as_it_is),
        cmocka_unit_test(what_cannot_be_written_is_refused),
        cmocka_unit_test(one_file_is_known_by_all_its_names),
        cmocka_unit_test(a_closed_standard_stream_stays_closed),
    };
    if (!mkdtemp(folder)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
