// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/heap_watch.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "harness/core/process/sanitizers.h"

namespace lossgrid {
namespace {

// Static storage, because making it allocates nothing and a thread that ends may still allocate.
constinit thread_local HeapWatch* watch_of_thread = nullptr;

void note_allocation(std::size_t bytes) noexcept {
  if (watch_of_thread != nullptr) watch_of_thread->note(bytes);
}

}  // namespace

void HeapWatch::note(std::size_t bytes) noexcept {
  if (bytes < least_bytes_) return;
  ++allocations_;
  const auto size = static_cast<std::int64_t>(bytes);
  std::int64_t largest = largest_bytes_;
  while (largest < size && !largest_bytes_.compare_exchange_weak(largest, size)) {
  }
}

HeapWatch* heap_watch() noexcept {
  return watch_of_thread;
}

HeapWatchScope::HeapWatchScope(HeapWatch* watch) noexcept : outer_(watch_of_thread) {
  watch_of_thread = watch;
}

HeapWatchScope::~HeapWatchScope() {
  watch_of_thread = outer_;
}

}  // namespace lossgrid

#if LOSSGRID_ASAN || LOSSGRID_TSAN

// A sanitizer has its own malloc and calls back for every allocation; the thread sanitizer leaves
// out allocations with an alignment (allocator_interface.h).
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*,
                                                                             std::size_t),
                                                         void (*free_hook)(const volatile void*));

namespace lossgrid {
namespace {

const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t bytes) { note_allocation(bytes); },
    [](const volatile void*) {});

}  // namespace
}  // namespace lossgrid

#else

// Functions of the GNU C library, under the names that it provides to programs that replace malloc.
// operator new calls malloc and aligned_alloc.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* block);

void* malloc(std::size_t bytes) noexcept {
  lossgrid::note_allocation(bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  lossgrid::note_allocation(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) noexcept {
  lossgrid::note_allocation(bytes);
  return __libc_realloc(block, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  lossgrid::note_allocation(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return memalign(alignment, bytes);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) noexcept {
  const bool is_power_of_two = alignment != 0 && (alignment & (alignment - 1)) == 0;
  if (!is_power_of_two || alignment % sizeof(void*) != 0) return EINVAL;
  void* made = memalign(alignment, bytes);
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}
void free(void* block) noexcept {
  __libc_free(block);
}
}

#endif
