/* Modules and libraries: PTX text, its functions with their host functions, its variables. */
#include "emu/internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "emu/ptx.h"

struct global {
    struct list node;
    char *name;
    CUdeviceptr address;
    uint64_t bytes;
    unsigned char *value;
};

/* A loaded PTX text: a CUmodule or a CUlibrary. Its globals lie on the card of the context it was
 * loaded in. */
struct module {
    uint64_t handle;
    struct context *context;
    struct list functions, globals;
    unsigned function_count;
};

struct named_function {
    struct list node;
    struct function function;
};

/* ---- The registry of host functions ---- */

enum { REGISTERED_MOST = 1024 };
static struct {
    const char *name;
    emu_kernel_fn run;
    emu_cost_fn cost;
} registered[REGISTERED_MOST];
static unsigned registered_count;

vp_status emu_kernel_register(const char *name, emu_kernel_fn function, emu_cost_fn cost)
{
    if (!name || !function) return VP_INVALID;
    vp_status status = VP_OK;
    lock_take();
    unsigned i = 0;
    while (i < registered_count && strcmp(registered[i].name, name) != 0) i++;
    if (i == REGISTERED_MOST) status = VP_QUOTA;
    if (status == VP_OK) {
        registered[i].name = name;
        registered[i].run = function;
        registered[i].cost = cost;
        if (i == registered_count) registered_count++;
    }
    lock_drop();
    return status;
}

static void *exported(const char *prefix, const char *name)
{
    char symbol[PTX_NAME_BYTES + 16];
    snprintf(symbol, sizeof symbol, "%s%s", prefix, name);
    return dlsym(RTLD_DEFAULT, symbol);
}

/* Finds the host function, when a launch first needs it. False: there is none. */
bool function_bind(struct function *function)
{
    if (function->run) return true;
    for (unsigned i = 0; i < registered_count; i++) {
        if (strcmp(registered[i].name, function->name) != 0) continue;
        function->run = registered[i].run;
        function->cost = registered[i].cost;
        return true;
    }
    function->run = (emu_kernel_fn)exported("emu_kernel_", function->name);
    function->cost = (emu_cost_fn)exported("emu_cost_", function->name);
    if (function->run) return true;
    if (strcmp(function->name, DIGEST_KERNEL) == 0) {
        function->run = digest_kernel_run;
        function->cost = digest_kernel_cost;
        return true;
    }
    log_error(
        "emulator: kernel %s has no host function: export emu_kernel_%s (link with -rdynamic) "
        "or call emu_kernel_register",
        function->name, function->name);
    return false;
}

/* ---- Loading ---- */

static void add_function(void *context, const struct ptx_entry *entry)
{
    struct module *module = context;
    struct named_function *named = calloc(1, sizeof *named);
    assert(named);
    struct function *function = &named->function;
    function->module = module;
    function->name = strdup(entry->name);
    function->param_count = entry->param_count;
    function->params = calloc(entry->param_count + 1, sizeof *function->params);
    assert(function->name && function->params);
    for (unsigned i = 0; i < entry->param_count; i++) {
        function->params[i].offset = entry->params[i].offset;
        function->params[i].bytes = entry->params[i].bytes;
        function->params_bytes = entry->params[i].offset + entry->params[i].bytes;
    }
    function->handle = handle_new(HANDLE_FUNCTION, function);
    list_push_back(&module->functions, &named->node);
    module->function_count++;
}

static void add_global(void *context, const struct ptx_global *from)
{
    struct module *module = context;
    struct global *global = calloc(1, sizeof *global);
    assert(global);
    global->name = strdup(from->name);
    global->bytes = from->bytes;
    global->value = from->value;
    list_push_back(&module->globals, &global->node);
}

static void module_free(struct module *module)
{
    list_each_safe(node, &module->functions)
    {
        struct named_function *named = list_entry(node, struct named_function, node);
        handle_free(named->function.handle);
        free(named->function.name);
        free(named->function.params);
        free(named);
    }
    list_each_safe(node, &module->globals)
    {
        struct global *global = list_entry(node, struct global, node);
        struct mapping *mapping = global->address ? mapping_at(global->address) : NULL;
        if (mapping) memory_free(mapping);
        free(global->name);
        free(global->value);
        free(global);
    }
    if (module->handle) handle_free(module->handle);
    free(module);
}

static CUresult place_globals(struct module *module)
{
    list_each(node, &module->globals)
    {
        struct global *global = list_entry(node, struct global, node);
        CUresult result = memory_alloc(module->context, global->bytes, false, &global->address);
        if (result != CUDA_SUCCESS) return result;
        struct mapping *mapping = mapping_at(global->address);
        mapping->of_module = true;
        for (uint64_t done = 0, part; done < global->bytes; done += part) {
            unsigned char *at = phys_at(mapping->phys, done, &part);
            if (part > global->bytes - done) part = global->bytes - done;
            if (!emu.options.carry_data) continue;
            if (global->value)
                memcpy(at, global->value + done, part);
            else
                memset(at, 0, part);
        }
    }
    return CUDA_SUCCESS;
}

static bool is_binary(const char *image)
{
    static const unsigned char elf[] = {0x7f, 'E', 'L', 'F'}, fat[] = {0x50, 0xed, 0x55, 0xba},
                               wrapped[] = {0xb1, 0x43, 0x62, 0x46};
    return memcmp(image, elf, 4) == 0 || memcmp(image, fat, 4) == 0 ||
           memcmp(image, wrapped, 4) == 0;
}

static CUresult load(struct context *context, const char *image, struct module **loaded)
{
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < 4; i++) /* text is at least that long, or ends */
        if (image[i] == '\0') return CUDA_ERROR_INVALID_IMAGE;
    if (is_binary(image)) {
        log_error("emulator: a module holds machine code only; the emulator needs its PTX text");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (!strstr(image, ".version")) return CUDA_ERROR_INVALID_IMAGE; /* no PTX at all */
    struct module *module = calloc(1, sizeof *module);
    assert(module);
    module->context = context;
    list_init(&module->functions);
    list_init(&module->globals);
    char problem[256];
    struct ptx_visitor visitor = {add_function, add_global, module};
    CUresult result = CUDA_SUCCESS;
    if (!ptx_parse(image, &visitor, problem, sizeof problem)) {
        log_error("emulator: a module's PTX: %s", problem);
        result = CUDA_ERROR_INVALID_PTX;
    }
    if (result == CUDA_SUCCESS && context) result = place_globals(module);
    if (result != CUDA_SUCCESS) {
        module_free(module);
        return result;
    }
    module->handle = handle_new(HANDLE_MODULE, module);
    *loaded = module;
    return CUDA_SUCCESS;
}

CUresult do_cuModuleLoadData(CUmodule *module, const void *image)
{
    struct module *loaded;
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = load(context_current(), image, &loaded);
    if (result == CUDA_SUCCESS) *module = HANDLE_OF(CUmodule, loaded);
    return result;
}

CUresult do_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned num_options,
                               int *options, void **option_values)
{
    return do_cuModuleLoadData(module, image); /* the options are the compiler's */
}

CUresult do_cuModuleLoad(CUmodule *module, const char *path)
{
    if (!module || !path) return CUDA_ERROR_INVALID_VALUE;
    FILE *file = fopen(path, "rb");
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    char *text = NULL;
    size_t bytes = 0, room = 0, got;
    do {
        room += 1 << 16;
        text = realloc(text, room + 8);
        assert(text);
        got = fread(text + bytes, 1, room - bytes, file);
        bytes += got;
    } while (got > 0);
    fclose(file);
    memset(text + bytes, 0, 8);
    CUresult result = do_cuModuleLoadData(module, text);
    free(text);
    return result;
}

static struct module *module_find(const void *handle)
{
    return handle_get(HANDLE_MODULE, (uintptr_t)handle);
}

static struct function *function_find(const void *handle)
{
    return handle_get(HANDLE_FUNCTION, (uintptr_t)handle);
}

CUresult do_cuModuleUnload(CUmodule handle)
{
    struct module *module = module_find(handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = do_cuCtxSynchronize(); /* its kernels may be running */
    module_free(module);
    return result;
}

static struct function *find_function(struct module *module, const char *name)
{
    list_each(node, &module->functions)
    {
        struct named_function *named = list_entry(node, struct named_function, node);
        if (strcmp(named->function.name, name) == 0) return &named->function;
    }
    return NULL;
}

CUresult do_cuModuleGetFunction(CUfunction *function, CUmodule handle, const char *name)
{
    struct module *module = module_find(handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
    struct function *found = find_function(module, name);
    if (!found) return CUDA_ERROR_NOT_FOUND;
    *function = HANDLE_OF(CUfunction, found);
    return CUDA_SUCCESS;
}

CUresult do_cuModuleGetFunctionCount(unsigned *count, CUmodule handle)
{
    struct module *module = module_find(handle);
    if (!count || !module) return CUDA_ERROR_INVALID_VALUE;
    *count = module->function_count;
    return CUDA_SUCCESS;
}

static CUresult global_of(struct module *module, const char *name, CUdeviceptr *address,
                          size_t *bytes)
{
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    list_each(node, &module->globals)
    {
        struct global *global = list_entry(node, struct global, node);
        if (strcmp(global->name, name) != 0) continue;
        if (address) *address = global->address;
        if (bytes) *bytes = global->bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult do_cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule handle,
                                 const char *name)
{
    struct module *module = module_find(handle);
    return module ? global_of(module, name, address, bytes) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult do_cuModuleGetLoadingMode(int *mode)
{
    if (!mode) return CUDA_ERROR_INVALID_VALUE;
    *mode = 2; /* lazy */
    return CUDA_SUCCESS;
}

/* ---- Libraries: modules that belong to no context ---- */

CUresult do_cuLibraryLoadData(CUlibrary *library, const void *code, int *jit_options,
                              void **jit_options_values, unsigned num_jit_options,
                              int *library_options, void **library_option_values,
                              unsigned num_library_options)
{
    struct module *loaded;
    if (!library) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = load(context_current(), code, &loaded);
    if (result == CUDA_SUCCESS) *library = HANDLE_OF(CUlibrary, loaded);
    return result;
}

CUresult do_cuLibraryUnload(CUlibrary library)
{
    struct module *module = module_find(library);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (context_current()) do_cuCtxSynchronize();
    module_free(module);
    return CUDA_SUCCESS;
}

CUresult do_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    return do_cuModuleGetFunction((CUfunction *)kernel, (CUmodule)library, name);
}

CUresult do_cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    if (!module_find(library)) return CUDA_ERROR_INVALID_HANDLE;
    *module = (CUmodule)library;
    return CUDA_SUCCESS;
}

CUresult do_cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                               const char *name)
{
    return do_cuModuleGetGlobal_v2(address, bytes, (CUmodule)library, name);
}

CUresult do_cuLibraryGetKernelCount(unsigned *count, CUlibrary library)
{
    return do_cuModuleGetFunctionCount(count, (CUmodule)library);
}

CUresult do_cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    return do_cuFuncGetModule((CUmodule *)library, (CUfunction)kernel);
}

CUresult do_cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    if (!function_find(kernel)) return CUDA_ERROR_INVALID_HANDLE;
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

/* ---- What is known of a function. A CUkernel and its CUfunction are the same handle here. ---- */

CUresult do_cuFuncGetName(const char **name, CUfunction handle)
{
    struct function *function = function_find(handle);
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    *name = function->name;
    return CUDA_SUCCESS;
}

CUresult do_cuKernelGetName(const char **name, CUkernel kernel)
{
    return do_cuFuncGetName(name, (CUfunction)kernel);
}

CUresult do_cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *bytes)
{
    struct function *function = function_find(handle);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (!offset || index >= function->param_count) return CUDA_ERROR_INVALID_VALUE;
    *offset = function->params[index].offset;
    if (bytes) *bytes = function->params[index].bytes;
    return CUDA_SUCCESS;
}

CUresult do_cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
    return do_cuFuncGetParamInfo((CUfunction)kernel, index, offset, bytes);
}

CUresult do_cuFuncGetModule(CUmodule *module, CUfunction handle)
{
    struct function *function = function_find(handle);
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    *module = HANDLE_OF(CUmodule, function->module);
    return CUDA_SUCCESS;
}

CUresult do_cuFuncGetAttribute(int *value, int attribute, CUfunction handle)
{
    if (!value || attribute < 0 || attribute > 15) return CUDA_ERROR_INVALID_VALUE;
    if (!function_find(handle)) return CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = 48 << 10; break;
    default: *value = 0; break;
    }
    return CUDA_SUCCESS;
}

CUresult do_cuKernelGetAttribute(int *value, int attribute, CUkernel kernel, CUdevice device)
{
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    return do_cuFuncGetAttribute(value, attribute, (CUfunction)kernel);
}

CUresult do_cuFuncSetAttribute(CUfunction handle, int attribute, int value)
{
    return function_find(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult do_cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device)
{
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    return do_cuFuncSetAttribute((CUfunction)kernel, attribute, value);
}

CUresult do_cuKernelSetCacheConfig(CUkernel kernel, int config, CUdevice device)
{
    return do_cuKernelSetAttribute(0, config, kernel, device);
}

CUresult do_cuFuncLoad(CUfunction handle)
{
    return function_find(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult do_cuFuncIsLoaded(int *state, CUfunction handle)
{
    if (!state) return CUDA_ERROR_INVALID_VALUE;
    *state = 1;
    return do_cuFuncLoad(handle);
}

CUresult do_cuFuncSetCacheConfig(CUfunction handle, int config)
{
    return function_find(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult do_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *num_blocks, CUfunction handle,
                                                        int block_size, size_t dynamic_smem_size)
{
    if (!num_blocks || block_size < 1) return CUDA_ERROR_INVALID_VALUE;
    if (!function_find(handle)) return CUDA_ERROR_INVALID_HANDLE;
    *num_blocks = block_size > 1024 ? 0 : 2048 / block_size;
    if (*num_blocks > 32) *num_blocks = 32;
    return CUDA_SUCCESS;
}

static void release_module(void *object)
{
    module_free(object);
}

void module_close(void)
{
    handle_each(HANDLE_MODULE, release_module);
}
