#include "driver/driver.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"

#define LIBRARY "libcuda.so.1"

#if defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_X86_64 };
#endif

/* Where distributions, containers and WSL put it; compat (a newer driver's user part, for some
 * cards only) comes last. */
static const char *const folders[] = {
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/lib",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib64/nvidia",
    "/usr/lib/nvidia",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
    "/usr/local/cuda/compat",
};

struct search {
    const char *root;
    struct stat self; /* st_ino is 0 when there is no self */
    char *path;       /* the result */
    size_t path_size;
};

static bool note_is_ours(const char *notes, size_t size)
{
    for (size_t at = 0; size >= sizeof(Elf64_Nhdr) && at <= size - sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof note);
        at += sizeof note;
        if (note.n_namesz > size - at) return false;
        if (note.n_namesz == sizeof DRIVER_SHIM_NOTE &&
            memcmp(notes + at, DRIVER_SHIM_NOTE, sizeof DRIVER_SHIM_NOTE) == 0)
            return true;
        uint64_t next =
            at + ((uint64_t)note.n_namesz + 3) / 4 * 4 + ((uint64_t)note.n_descsz + 3) / 4 * 4;
        if (next > size) return false;
        at = next;
    }
    return false;
}

/* True when the file has the note that the shim carries. */
static bool has_shim_note(int file, const Elf64_Ehdr *header)
{
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        off_t at = (off_t)(header->e_phoff + (uint64_t)i * header->e_phentsize);
        if (pread(file, &segment, sizeof segment, at) != sizeof segment) return false;
        char notes[1024];
        if (segment.p_type != PT_NOTE) continue;
        size_t size = segment.p_filesz < sizeof notes ? (size_t)segment.p_filesz : sizeof notes;
        ssize_t got = pread(file, notes, size, (off_t)segment.p_offset);
        if (got > 0 && note_is_ours(notes, (size_t)got)) return true;
    }
    return false;
}

/* A library for this processor that is neither ourselves nor a copy of us. Containers leave empty
 * files in the driver's place, and the cache lists other processors' libraries. */
static bool is_driver(const struct search *search, const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    struct stat status;
    Elf64_Ehdr header;
    bool fine = fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                pread(file, &header, sizeof header, 0) == sizeof header &&
                memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == MACHINE;
    bool self = search->self.st_ino != 0 && fine && status.st_ino == search->self.st_ino &&
                status.st_dev == search->self.st_dev;
    fine = fine && !self && !has_shim_note(file, &header);
    close(file);
    return fine;
}

/* Takes FOLDER/NAME (NAME may be empty) if it is a driver. */
static bool take(const struct search *search, const char *folder, size_t folder_length,
                 const char *name)
{
    size_t root_length = strlen(search->root), name_length = strlen(name);
    char path[PATH_MAX];
    if (root_length + folder_length + name_length + 2 > sizeof path) return false;
    char *end = mempcpy(path, search->root, root_length);
    end = mempcpy(end, folder, folder_length);
    if (name_length) *end++ = '/';
    memcpy(end, name, name_length + 1);
    if (strlen(path) >= search->path_size || !is_driver(search, path)) return false;
    strcpy(search->path, path);
    return true;
}

/* Folders with a relative path are left out: what they mean changes with the working directory. */
static bool search_library_path(const struct search *search)
{
    const char *list = getenv("LD_LIBRARY_PATH");
    while (list && *list) {
        size_t length = strcspn(list, ":;");
        if (*list == '/' && take(search, list, length, LIBRARY)) return true;
        list += length;
        if (*list) list++;
    }
    return false;
}

/* The loader's cache, as ldconfig writes it: a header, entries of fixed size, strings. Offsets
 * count from the header, which may stand behind an older form of the same. */
struct cache_header {
    char magic[20];
    uint32_t count;
    uint32_t rest[6];
};
struct cache_entry {
    int32_t flags;
    uint32_t key, value; /* offsets of the library's name and its path */
    uint32_t rest[3];
};
#define CACHE_MAGIC "glibc-ld.so.cache1.1"
_Static_assert(sizeof(struct cache_header) == 48 && sizeof(struct cache_entry) == 24, "as on disk");

/* The string at `offset`; NULL when it does not end within the cache. */
static const char *string_at(const char *start, size_t size, uint32_t offset)
{
    bool ends = offset < size && memchr(start + offset, '\0', size - offset);
    return ends ? start + offset : NULL;
}

static bool search_cache_bytes(const struct search *search, const char *bytes, size_t size)
{
    const char *start = memmem(bytes, size, CACHE_MAGIC, sizeof CACHE_MAGIC - 1);
    if (!start) return false;
    size -= (size_t)(start - bytes);
    struct cache_header header;
    if (size < sizeof header) return false;
    memcpy(&header, start, sizeof header);
    if (header.count > (size - sizeof header) / sizeof(struct cache_entry)) return false;
    for (uint32_t i = 0; i < header.count; i++) {
        struct cache_entry entry;
        memcpy(&entry, start + sizeof header + i * sizeof entry, sizeof entry);
        const char *key = string_at(start, size, entry.key);
        const char *value = string_at(start, size, entry.value);
        if (!key || !value || strcmp(key, LIBRARY) != 0) continue;
        if (take(search, value, strlen(value), "")) return true;
    }
    return false;
}

static bool search_cache(const struct search *search)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/etc/ld.so.cache", search->root) >= sizeof path)
        return false;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    bool found = false;
    if (file >= 0 && fstat(file, &status) == 0 && status.st_size > 0) {
        size_t size = (size_t)status.st_size;
        char *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes != MAP_FAILED) {
            found = search_cache_bytes(search, bytes, size);
            munmap(bytes, size);
        }
    }
    if (file >= 0) close(file);
    return found;
}

static bool search_folders(const struct search *search)
{
    for (unsigned i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (take(search, folders[i], strlen(folders[i]), LIBRARY)) return true;
    }
    return false;
}

/* What the user names is taken or refused, never passed over. */
static vp_status take_named(const struct search *search, const char *name)
{
    char path[PATH_MAX];
    if (!realpath(name, path)) {
        log_error("%s=%s: %s", env_name(ENV_DRIVER), name, strerror(errno));
        return VP_NOT_FOUND;
    }
    if (!is_driver(search, path) || strlen(path) >= search->path_size) {
        log_error("%s=%s is not a driver library for this processor, or is vrampool's own",
                  env_name(ENV_DRIVER), name);
        return VP_NOT_FOUND;
    }
    strcpy(search->path, path);
    return VP_OK;
}

vp_status driver_find_under(const char *root, const char *self, char *path, size_t path_size)
{
    struct search search = {.root = root, .path = path, .path_size = path_size};
    if (self && stat(self, &search.self) != 0) search.self.st_ino = 0;
    if (env_get(ENV_DRIVER)) return take_named(&search, env_get(ENV_DRIVER));
    if (search_library_path(&search) || search_cache(&search) || search_folders(&search))
        return VP_OK;
    log_error(
        "no CUDA driver: " LIBRARY " is not in LD_LIBRARY_PATH, the loader's cache "
        "(%s/etc/ld.so.cache), /usr/lib64, /usr/lib/x86_64-linux-gnu, /usr/local/nvidia/lib64 "
        "or the other usual folders; install the driver, or name it in %s",
        root, env_name(ENV_DRIVER));
    return VP_NOT_FOUND;
}

vp_status driver_find(const char *self, char *path, size_t path_size)
{
    return driver_find_under("", self, path, path_size);
}
