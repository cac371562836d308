// SPDX-License-Identifier: Apache-2.0
// Row operations of the lm_head path: loops of the processor and emulated kernels of GPUs give the
// same bits, for rows shorter and longer than a block of threads.
#include "impls/kernels/hidden_rows.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "harness/device/emulated_device.h"
#include "harness/device/memory/host_view.h"
#include "impls/kernels/rows.h"

namespace lossgrid {
namespace {

class HiddenRows : public ::testing::TestWithParam<bool> {
 protected:
  Device& device() { return *device_; }

  template <typename T>
  Buffer tensor(const std::vector<T>& values) {
    Buffer buffer = device().allocate(values.size() * sizeof(T), "tensor", MemorySpace::device);
    device().copy(buffer.data(), values.data(), buffer.bytes());
    return buffer;
  }
  template <typename T>
  static std::vector<T> values(const Buffer& buffer) {
    const HostView view(buffer);
    const auto elements = view.as<const T>();
    return {elements.begin(), elements.end()};
  }
  template <typename T>
  DeviceArray<T> table(const std::vector<T>& entries) {
    DeviceArray<T> made(device(), entries.size(), "table");
    std::copy(entries.begin(), entries.end(), made.begin());
    return made;
  }

 private:
  const std::unique_ptr<Device> device_ = GetParam() ? make_emulated_device() : make_cpu_device();
};

std::vector<float> ramp(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t k = 0; k < count; ++k) {
    values.push_back(0.37f * static_cast<float>(k % 1009) - 100);
  }
  return values;
}

std::vector<bf16> rounded(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

constexpr std::int64_t kSizes[] = {1, 7, 512, 1300};

TEST_P(HiddenRows, AreGatheredInTheDtypeOfAFactor) {
  for (const std::int64_t size : kSizes) {
    const std::vector<float> from = ramp(4 * size);
    const DeviceArray<std::int32_t> source = table<std::int32_t>({3, -1, 0});
    const auto expected = [&](std::int64_t k, std::int64_t i) {
      const std::int64_t row = k == 0 ? 3 : 0;
      return k == 1 ? 0.0f : from[static_cast<std::size_t>(row * size + i)];
    };
    const auto gathered = [&](DType from_dtype, const Buffer& in, DType to_dtype) {
      Buffer out = device().allocate(3 * size * size_of(to_dtype), "out", MemorySpace::device);
      gather_rows(device(), {from_dtype, in.data(), source.data(), to_dtype, out.data(), 3, size});
      return out;
    };
    const Buffer wide = tensor(from);
    const Buffer narrow = tensor(rounded(from));
    const auto f32 = values<float>(gathered(DType::f32, wide, DType::f32));
    const auto widened = values<float>(gathered(DType::bf16, narrow, DType::f32));
    const auto b16 = values<bf16>(gathered(DType::bf16, narrow, DType::bf16));
    for (std::int64_t k = 0; k < 3; ++k) {
      for (std::int64_t i = 0; i < size; ++i) {
        const auto at = static_cast<std::size_t>(k * size + i);
        ASSERT_EQ(f32[at], expected(k, i));
        ASSERT_EQ(widened[at], static_cast<float>(bf16(expected(k, i))));
        ASSERT_EQ(b16[at].bits, bf16(expected(k, i)).bits);
      }
    }
  }
}

TEST_P(HiddenRows, AreClearedWhereTheyAreNotKept) {
  for (const std::int64_t size : kSizes) {
    const DeviceArray<std::uint8_t> keep = table<std::uint8_t>({1, 0, 2});
    std::vector<float> expected = ramp(3 * size);
    Buffer wide = tensor(expected);
    Buffer narrow = tensor(rounded(expected));
    clear_rows(device(), DType::f32, wide.data(), keep.data(), 3, size);
    clear_rows(device(), DType::bf16, narrow.data(), keep.data(), 3, size);
    std::fill_n(expected.begin() + size, size, 0.0f);
    EXPECT_EQ(values<float>(wide), expected);
    const std::vector<bf16> half = values<bf16>(narrow);
    for (std::size_t k = 0; k < half.size(); ++k) {
      ASSERT_EQ(static_cast<float>(half[k]), static_cast<float>(bf16(expected[k])));
    }
  }
}

TEST_P(HiddenRows, AreRoundedWhereTheyStand) {
  for (const std::int64_t size : kSizes) {
    const std::vector<float> from = ramp(3 * size);
    Buffer rows = tensor(from);
    round_rows(device(), reinterpret_cast<float*>(rows.data()), 3, size);
    const std::vector<bf16> got = values<bf16>(rows);
    for (std::int64_t r = 0; r < 3; ++r) {
      for (std::int64_t i = 0; i < size; ++i) {
        ASSERT_EQ(got[static_cast<std::size_t>(2 * r * size + i)].bits,
                  bf16(from[static_cast<std::size_t>(r * size + i)]).bits)
            << "size " << size << " row " << r << " column " << i;
      }
    }
  }
}

/// Rows with a target, without one in this shard, without a gradient, with -inf, and a padding
/// column.
TEST_P(HiddenRows, AreGradientsThatAreRoundedInOnePass) {
  for (const std::int64_t size : {1L, 8L, 19L, 2051L, 16 * std::int64_t{kBlockThreads} + 21}) {
    constexpr std::int64_t kRows = 4;
    std::vector<float> logits = ramp(kRows * size);
    logits[static_cast<std::size_t>(size - 1)] = -std::numeric_limits<float>::infinity();
    Buffer apart = tensor(logits);
    Buffer together = tensor(logits);
    const auto last = static_cast<std::int32_t>(size - 1);
    const DeviceArray<std::int32_t> targets = table<std::int32_t>({0, last + 50, last / 2, last});
    const DeviceArray<std::uint8_t> valid = table<std::uint8_t>({1, 1, 0, 1});
    const DeviceArray<float> shift = table<float>({3, 2, 1, 0.5f});
    const DeviceArray<float> sum = table<float>({7, 8, 9, 1.25f});
    const DeviceArray<float> grad = table<float>({0.3f, -2, 0, 1});
    LogitsRows rows{.dtype = DType::f32,
                    .data = apart.data(),
                    .rows = kRows,
                    .shard = {.begin = 0, .end = size > 1 ? size - 1 : size, .width = size},
                    .targets = targets.data(),
                    .valid = valid.data(),
                    .device = &device()};
    const RowSoftmax softmax{shift.data(), sum.data()};
    const RowGradients gradients{grad.data()};
    auto* floats = reinterpret_cast<float*>(apart.data());
    rows_gradient(rows, softmax, gradients, floats);
    round_rows(device(), floats, kRows, size);
    rows.data = together.data();
    rows_gradient_rounded(rows, softmax, gradients, reinterpret_cast<float*>(together.data()));
    const std::vector<bf16> expected = values<bf16>(apart);
    const std::vector<bf16> got = values<bf16>(together);
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t v = 0; v < size; ++v) {
        const auto at = static_cast<std::size_t>(2 * r * size + v);
        ASSERT_EQ(got[at].bits, expected[at].bits) << size << " row " << r << " column " << v;
      }
    }
  }
}

TEST_P(HiddenRows, AreWrittenAsAnOutput) {
  for (const std::int64_t count : {1, 4096, 4097}) {
    const std::vector<float> from = ramp(count);
    const Buffer in = tensor(from);
    const auto* floats = reinterpret_cast<const float*>(in.data());
    Buffer same = tensor(std::vector<float>(from.size(), -1));
    Buffer half = tensor(std::vector<bf16>(from.size(), bf16(-1)));
    write_floats(device(), floats, DType::f32, same.data(), count);
    write_floats(device(), floats, DType::bf16, half.data(), count);
    EXPECT_EQ(values<float>(same), from);
    const std::vector<bf16> got = values<bf16>(half);
    for (std::size_t k = 0; k < got.size(); ++k) ASSERT_EQ(got[k].bits, bf16(from[k]).bits);
  }
}

INSTANTIATE_TEST_SUITE_P(Impls, HiddenRows, testing::Bool(),
                         [](const auto& device) { return device.param ? "CudaEmulated" : "Cpu"; });

}  // namespace
}  // namespace lossgrid
