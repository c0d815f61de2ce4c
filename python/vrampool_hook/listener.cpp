// Tells the pool what PyTorch's allocator does with its segments. vrampool_torch.py compiles it
// against the installed torch, whose internals differ between versions: so types are taken from the
// trace's entry itself, and what only some versions have is looked for.
//
// The callback runs under the allocator's lock, in any thread: it takes no Python lock, calls no
// torch and does not allocate. The pool's notes are made for that (vp_note_alive, vp_note_dead).
// The pool itself opens with the first allocation, after we are attached: so it is asked for anew.
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>
#include <dlfcn.h>
#include <type_traits>
#include <utility>

struct vp_pool;

namespace {

using Default = vp_pool *(*)();
using Note = void (*)(vp_pool *, std::uint64_t address, std::uint64_t bytes);

Default find_pool;
Note note_alive, note_dead;

// PyTorch hands memory out in units of 512 bytes, and its trace says what was asked for.
constexpr std::uint64_t unit = 512;

template <class Entry, class = void> struct Mempool {
    static bool is_private(const Entry &) { return false; }
};

// A CUDA graph's private memory is used by each replay, also what is free for the allocator.
template <class Entry>
struct Mempool<Entry, std::void_t<decltype(std::declval<Entry>().mempool_)>> {
    static bool is_private(const Entry &entry)
    {
        return entry.mempool_.first != 0 || entry.mempool_.second != 0;
    }
};

template <class Entry> void on_event(const Entry &entry)
{
    vp_pool *pool = find_pool();
    if (!pool) return;
    auto address = static_cast<std::uint64_t>(entry.addr_);
    auto bytes = (static_cast<std::uint64_t>(entry.size_) + unit - 1) / unit * unit;
    switch (entry.action_) {
    case Entry::Action::ALLOC:
        note_alive(pool, address, bytes);
        break;
    case Entry::Action::FREE_COMPLETED: // after FREE_REQUESTED other streams may still use it
    case Entry::Action::SEGMENT_ALLOC:  // fresh from the driver, no tensor in it yet
        if (!Mempool<Entry>::is_private(entry)) note_dead(pool, address, bytes);
        break;
    default:
        break;
    }
}

} // namespace

// 0: attached. 1: the preloaded library is not in this process. 2: torch refused.
extern "C" __attribute__((visibility("default"))) int vrampool_listener_attach()
{
    find_pool = reinterpret_cast<Default>(dlsym(RTLD_DEFAULT, "vp_default"));
    note_alive = reinterpret_cast<Note>(dlsym(RTLD_DEFAULT, "vp_note_alive"));
    note_dead = reinterpret_cast<Note>(dlsym(RTLD_DEFAULT, "vp_note_dead"));
    if (!find_pool || !note_alive || !note_dead) return 1;
    try {
        c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(
            [](const auto &entry) { on_event<std::decay_t<decltype(entry)>>(entry); });
    } catch (...) {
        return 2;
    }
    return 0;
}
