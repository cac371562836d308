// SPDX-License-Identifier: Apache-2.0
// Results of the memory kernels, in every variant, on every set of instructions of this processor,
// for sizes and addresses that no vector divides.
#include "harness/measure/memory_kernels.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <hwy/targets.h>

#include "harness/device/kernel/rank_threads.h"
#include "harness/measure/memory_sweep.h"

namespace lossgrid {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kMargin = 64;
constexpr std::size_t kSizes[] = {0,   1,   3,    4,    5,    63,    64,    255,
                                  256, 257, 1023, 4096, 4100, 12345, 65536, 70003};
constexpr MemoryKernel kKernels[] = {MemoryKernel::read, MemoryKernel::copy, MemoryKernel::update};

Bytes pattern(std::size_t size, std::uint32_t seed) {
  Bytes bytes(size);
  for (std::size_t k = 0; k < size; ++k) {
    bytes[k] = static_cast<std::uint8_t>(((k + seed) * 2654435761u) >> 13);
  }
  return bytes;
}

std::uint32_t word_at(const std::uint8_t* p) {
  std::uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

std::uint32_t sum_of_words(const std::uint8_t* p, std::size_t bytes) {
  std::uint32_t sum = 0;
  for (std::size_t at = 0; at + 4 <= bytes; at += 4) sum += word_at(p + at);
  return sum;
}

/// Buffers with margins around the range of a kernel, whose first byte is `offset` bytes after a
/// multiple of 64.
struct Arena {
  Arena(std::size_t bytes, std::size_t offset)
      : from(pattern(bytes + 3 * kMargin, 1)), to(pattern(bytes + 3 * kMargin, 2)) {
    const auto place = [&](const Bytes& buffer) {
      const std::size_t address = reinterpret_cast<std::uintptr_t>(buffer.data());
      return kMargin - address % kMargin + offset;
    };
    from_at = place(from);
    to_at = place(to);
  }
  const std::uint8_t* in() const { return from.data() + from_at; }
  std::uint8_t* out() { return to.data() + to_at; }

  Bytes from;
  Bytes to;
  std::size_t from_at;
  std::size_t to_at;
};

template <typename Run>
void expect_right(MemoryKernel kernel, std::size_t bytes, std::size_t offset, Run&& run) {
  Arena arena(bytes, offset);
  const Bytes from_before = arena.from;
  Bytes expected = arena.to;
  std::uint8_t* out = expected.data() + arena.to_at;
  if (kernel == MemoryKernel::copy) std::copy_n(arena.in(), bytes, out);
  if (kernel == MemoryKernel::update) {
    for (std::size_t at = 0; at + 4 <= bytes; at += 4)
      out[at + 3] ^= 0x80;  // the sign of a float32
  }
  const std::uint32_t sum = kernel == MemoryKernel::read ? sum_of_words(arena.in(), bytes) : 0;
  EXPECT_EQ(run(arena.in(), arena.out()), sum);
  EXPECT_TRUE(arena.to == expected);
  EXPECT_TRUE(arena.from == from_before);
}

class MemoryKernels : public testing::Test {
 public:
  ~MemoryKernels() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
    set_rank_threads(core_share(1).cores);
  }
};

TEST_F(MemoryKernels, AreRightInEveryVariantOnEveryTarget) {
  set_rank_threads(1);
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  for (const std::int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    EXPECT_EQ(memory_sweep_target(), hwy::TargetName(target));
    for (const MemoryKernel kernel : kKernels) {
      for (const MemoryVariant variant : variants_of(kernel)) {
        for (const std::size_t bytes : kSizes) {
          for (const std::size_t offset : {0u, 4u, 1u, 48u}) {
            SCOPED_TRACE(testing::Message()
                         << hwy::TargetName(target) << ' ' << name(kernel) << ' ' << name(variant)
                         << ' ' << bytes << " bytes at " << offset);
            expect_right(kernel, bytes, offset, [&](const void* from, void* to) {
              return run_memory_kernel(kernel, variant, from, to, bytes);
            });
          }
        }
      }
    }
  }
}

TEST_F(MemoryKernels, AreRightHoweverManyThreadsThereAre) {
  for (const int threads : {1, core_share(1).cores}) {
    set_rank_threads(threads);
    for (const MemoryKernel kernel : kKernels) {
      // The last size is divided into pieces.
      for (const std::size_t bytes : {0u, 4099u, 700001u, 900000u, (70u << 20) + 5u}) {
        SCOPED_TRACE(testing::Message() << name(kernel) << ' ' << bytes << " bytes");
        expect_right(kernel, bytes, 0, [&](const void* from, void* to) {
          return run_memory_kernel(kernel, variants_of(kernel).back(), from, to, bytes);
        });
      }
    }
  }
}

TEST_F(MemoryKernels, TakeNoBuffersForNoBytes) {
  for (const MemoryKernel kernel : kKernels) {
    for (const MemoryVariant variant : variants_of(kernel)) {
      EXPECT_EQ(run_memory_kernel(kernel, variant, nullptr, nullptr, 0), 0u);
    }
  }
}

TEST_F(MemoryKernels, UpdateNegatesEveryFloat) {
  std::vector<float> numbers(5001);
  std::iota(numbers.begin(), numbers.end(), 1.0f);
  run_memory_kernel(MemoryKernel::update, MemoryVariant::plain, nullptr, numbers.data(),
                    numbers.size() * 4);
  for (std::size_t k = 0; k < numbers.size(); ++k)
    ASSERT_EQ(numbers[k], -static_cast<float>(k + 1));
}

TEST(VariantsOf, AreThoseThatTheKernelHas) {
  EXPECT_THAT(variants_of(MemoryKernel::read),
              testing::ElementsAre(MemoryVariant::plain, MemoryVariant::prefetch,
                                   MemoryVariant::eight_places));
  EXPECT_THAT(variants_of(MemoryKernel::update),
              testing::Not(testing::Contains(MemoryVariant::library)));
  EXPECT_THAT(variants_of(MemoryKernel::copy), testing::Contains(MemoryVariant::library));
}

}  // namespace
}  // namespace lossgrid
