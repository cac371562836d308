// SPDX-License-Identifier: Apache-2.0
#include "harness/device/emulated_device.h"

#include <algorithm>
#include <map>

#include <sys/mman.h>
#include <unistd.h>

#include "harness/core/philox.h"
#include "harness/core/process/heap_watch.h"
#include "harness/device/backend.h"
#include "harness/device/device_work.h"
#include "harness/device/gemm.h"
#include "harness/device/memory/host_memory.h"

namespace lossgrid {
namespace {

EmulatedStream& emulated_stream(void* stream) {
  return *static_cast<EmulatedStream*>(stream);
}

/// Multiplies in float32 and then rounds, because the processor has no product with rounding.
void gemm_rounded(const Gemm& product, std::span<float> workspace) {
  std::vector<float> sums(static_cast<std::size_t>(product.m * product.n));
  Gemm in_float32 = product;
  in_float32.c = sums.data();
  in_float32.stride = product.n;
  in_float32.rounded = nullptr;
  cpu_kernels().gemm(in_float32, workspace);
  for (std::int64_t row = 0; row < product.m; ++row) {
    std::transform(sums.begin() + row * product.n, sums.begin() + (row + 1) * product.n,
                   product.rounded + row * product.stride, [](float x) { return bf16(x); });
  }
}

void launch_gemm(const Gemm& product, std::span<float> workspace) {
  require_right_result(product);
  count_launch();
  device_work().flops += product.flops();
  emulated_stream(product.stream).launch([product, workspace] {
    if (product.rounded != nullptr) return gemm_rounded(product, workspace);
    cpu_kernels().gemm(product, workspace);
  });
}

void launch_add(const float* values, std::int64_t count, float* sum, void* stream) {
  count_launch();
  emulated_stream(stream).launch([=] { cpu_kernels().add(values, count, sum, nullptr); });
}

/// Returns kernels that launch the kernels of the processor.
const KernelTable& emulated_kernels() {
  static const KernelTable kernels{launch_gemm, cpu_kernels().gemm_workspace_floats, launch_add};
  return kernels;
}

/// Memory of the device: pages that are both readable and writable, or neither.
class Pages {
 public:
  std::byte* acquire(std::size_t bytes) {
    void* block = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
      throw Error(ErrorCode::not_enough_memory, fmt::format("cannot allocate {} bytes", bytes));
    }
    blocks_.emplace(static_cast<std::byte*>(block), bytes);
    bytes_ += rounded_up(bytes);
    return static_cast<std::byte*>(block);
  }
  void release(std::byte* block) noexcept {
    const auto found = blocks_.find(block);
    munmap(found->first, found->second);
    bytes_ -= rounded_up(found->second);
    blocks_.erase(found);
  }
  /// Returns the bytes of all pages.
  std::int64_t bytes() const { return bytes_; }
  bool has(const void* memory) const { return find(memory) != blocks_.end(); }
  void open() { protect(PROT_READ | PROT_WRITE); }
  void close() { protect(PROT_NONE); }
  /// Opens the block around `memory`, if there is one.
  void open(const void* memory) { protect(memory, PROT_READ | PROT_WRITE); }
  void close(const void* memory) { protect(memory, PROT_NONE); }

 private:
  static std::int64_t rounded_up(std::size_t bytes) {
    static const std::int64_t page = sysconf(_SC_PAGESIZE);
    return (static_cast<std::int64_t>(bytes) + page - 1) / page * page;
  }

  void protect(int access) {
    for (const auto& [block, bytes] : blocks_) mprotect(block, bytes, access);
  }
  void protect(const void* memory, int access) {
    const auto block = find(memory);
    if (block != blocks_.end()) mprotect(block->first, block->second, access);
  }

  using Blocks = std::map<std::byte*, std::size_t>;
  Blocks::const_iterator find(const void* memory) const {
    auto* place = static_cast<std::byte*>(const_cast<void*>(memory));
    const auto after = blocks_.upper_bound(place);
    if (after == blocks_.begin()) return blocks_.end();
    const auto block = std::prev(after);
    return place < block->first + block->second ? block : blocks_.end();
  }

  Blocks blocks_;  // bytes of a block, by its begin
  std::int64_t bytes_ = 0;
};

class EmulatedDevice final : public Device {
 public:
  EmulatedDevice() {
    constexpr std::size_t kLaunches = 4096;  // more than small cases have between two waits
    stream_.reserve(kLaunches);
    const StreamOrder order = emulated_stream_order();
    if (order == StreamOrder::eager) stream_.at_launch([this] { run(stream_.size()); });
    if (order == StreamOrder::by_parts) {
      stream_.at_launch([this, launch = std::uint64_t{0}]() mutable {
        const auto most = static_cast<std::uint32_t>(stream_.size()) + 1;
        run(RandomStream(0, 0).below(most, launch++));
      });
    }
  }
  ~EmulatedDevice() override {
    launches_pending() = false;  // remaining work is dropped
  }

  std::string_view name() const override { return lossgrid::name(backend()); }
  Backend backend() const override { return Backend::cuda_emulated; }
  void* stream() const override { return &stream_; }
  const KernelTable& kernels() const override { return emulated_kernels(); }

  void copy(void* to, const void* from, std::size_t bytes) override {
    synchronise();
    wait();  // waits also for work that is not counted
    pages_.open(to);
    pages_.open(from);
    copy_on_host(to, from, bytes);
    pages_.close(to);
    pages_.close(from);
  }
  bool host_reads(const void* memory) const override { return !pages_.has(memory); }

  void fill(void* to, std::uint16_t pattern, std::size_t bytes, MemorySpace space) override {
    require_alive();
    if (space == MemorySpace::device) {
      stream_.launch([=] { fill_on_host(to, pattern, bytes); });
    } else {
      wait();
      fill_on_host(to, pattern, bytes);
    }
  }

  std::optional<DriverMemory> driver_memory() override {
    return DriverMemory{pages_.bytes(), pages_.bytes()};
  }

  void lose() override {
    count_launch();
    stream_.launch([] {
      throw Error(ErrorCode::device_lost, "what was launched: the device is lost (injected)");
    });
  }

 private:
  void wait() override {
    require_alive();
    run(stream_.size());
  }

  /// Runs the first `count` pending launches.
  void run(std::size_t count) {
    if (count == 0) return;
    const HeapWatchScope unwatched(nullptr);  // memory of the emulation: a kernel has no heap
    struct Open {
      explicit Open(Pages& pages) : pages(pages) { pages.open(); }
      ~Open() { pages.close(); }
      Pages& pages;
    } open(pages_);
    try {
      stream_.run(count);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::device_lost) loss_ = error.what();
      throw;
    }
  }

  void require_alive() const {
    if (loss_) throw Error(ErrorCode::device_lost, *loss_);
  }

  std::byte* acquire(std::size_t bytes, MemorySpace space) override {
    require_alive();
    return space == MemorySpace::device ? pages_.acquire(bytes) : acquire_on_host(bytes);
  }

  /// Waits first, as launched kernels may still use the memory.
  void release(std::byte* block, MemorySpace space) noexcept override {
    try {
      wait();
    } catch (const std::exception&) {  // the next wait reports the failure instead
    }
    if (space == MemorySpace::device) {
      pages_.release(block);
    } else {
      release_on_host(block);
    }
  }

  mutable EmulatedStream stream_;
  Pages pages_;
  std::optional<std::string> loss_;  // failure that cost the device; nullopt: alive
};

}  // namespace

void EmulatedStream::run(std::size_t count) {
  std::vector<std::function<void()>> kernels;
  kernels.reserve(pending_.capacity());  // room for the next launches
  kernels.swap(pending_);
  for (std::size_t k = 0; k < count; ++k) kernels[k]();
  for (std::size_t k = count; k < kernels.size(); ++k) pending_.push_back(std::move(kernels[k]));
}

std::unique_ptr<Device> make_emulated_device() {
  return std::make_unique<EmulatedDevice>();
}

}  // namespace lossgrid
