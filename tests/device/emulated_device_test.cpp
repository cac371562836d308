// SPDX-License-Identifier: Apache-2.0
// The emulated device: no launched work runs before a wait, and the host cannot access its memory.
#include "harness/device/emulated_device.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/device/device_work.h"
#include "harness/device/gemm.h"
#include "harness/device/memory/host_view.h"
#include "harness/device/memory/staging.h"

namespace lossgrid {
namespace {

EmulatedStream& stream_of(const Device& device) {
  return *static_cast<EmulatedStream*>(device.stream());
}

TEST(EmulatedDevice, LaunchesRunInOrderWhenSomebodyWaits) {
  const std::unique_ptr<Device> device = make_emulated_device();
  std::vector<int> done;
  for (const int k : {1, 2, 3}) {
    count_launch();
    stream_of(*device).launch([&done, k] { done.push_back(k); });
  }
  EXPECT_TRUE(done.empty());
  device_work() = {};
  device->synchronise();
  EXPECT_EQ(done, (std::vector<int>{1, 2, 3}));
  device->synchronise();  // nothing to wait for
  EXPECT_EQ(device_work().synchronisations, 1);
}

TEST(EmulatedDevice, RethrowsExceptionsOfKernelsAtTheWait) {
  const std::unique_ptr<Device> device = make_emulated_device();
  bool later = false;
  count_launch();
  stream_of(*device).launch([] { throw Error(ErrorCode::internal, "out of order"); });
  stream_of(*device).launch([&] { later = true; });
  EXPECT_THROW(device->synchronise(), Error);
  device->synchronise();
  EXPECT_FALSE(later);
}

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::io;  // no error was thrown
}

/// The loss is thrown by the wait, and then by every call except releases of memory.
TEST(EmulatedDevice, RunsNothingAfterItsLoss) {
  const std::unique_ptr<Device> device = make_emulated_device();
  bool before = false;
  bool behind = false;
  {
    Buffer tensor = device->allocate(64, "tensor", MemorySpace::device);
    Buffer table = device->allocate(64, "table");
    stream_of(*device).launch([&] { before = true; });
    device->lose();
    stream_of(*device).launch([&] { behind = true; });
    EXPECT_EQ(code_of([&] { device->synchronise(); }), ErrorCode::device_lost);
    EXPECT_EQ(code_of([&] { HostView(tensor).data(); }), ErrorCode::device_lost);
    EXPECT_EQ(code_of([&] { device->allocate(8, "more"); }), ErrorCode::device_lost);
    EXPECT_EQ(code_of([&] { table.poison(); }), ErrorCode::device_lost);
    stream_of(*device).launch([&] { behind = true; });
    EXPECT_EQ(code_of([&] { device->take_broken_guards(); }), ErrorCode::device_lost);
  }
  EXPECT_TRUE(before);
  EXPECT_FALSE(behind);
  EXPECT_EQ(device->tracker().live_bytes(), 0);
}

TEST(EmulatedDevice, ReportsALossDuringAReleaseAtTheNextWait) {
  const std::unique_ptr<Device> device = make_emulated_device();
  {
    Buffer tensor = device->allocate(64, "tensor", MemorySpace::device);
    device->lose();
  }
  EXPECT_EQ(code_of([&] { device->synchronise(); }), ErrorCode::device_lost);
}

TEST(Device, TheProcessorCannotBeLost) {
  EXPECT_EQ(code_of([] { make_cpu_device()->lose(); }), ErrorCode::unsupported);
}

TEST(EmulatedDevice, ItsDriverCountsPages) {
  const std::unique_ptr<Device> device = make_emulated_device();
  const auto used = [&] { return device->driver_memory().value().used_bytes; };
  EXPECT_EQ(used(), 0);
  {
    const Buffer table = device->allocate(64, "table");
    EXPECT_EQ(used(), 0) << "memory of the host";
    const Buffer tensor = device->allocate(64, "tensor", MemorySpace::device);
    const std::int64_t page = used();
    EXPECT_GT(page, 64);
    const Buffer two = device->allocate(static_cast<std::size_t>(page), "two", MemorySpace::device);
    EXPECT_EQ(used(), 3 * page);
    EXPECT_EQ(device->driver_memory()->other_bytes(), 0);
  }
  EXPECT_EQ(used(), 0);
  EXPECT_FALSE(make_cpu_device()->driver_memory().has_value());
}

TEST(EmulatedDevice, CopiesAndFillsGoBehindWhatWasLaunched) {
  const std::unique_ptr<Device> device = make_emulated_device();
  Buffer buffer = device->allocate(6, "tensor", MemorySpace::device);
  const std::vector<std::uint16_t> values{1, 2, 3};
  device->copy(buffer.data(), values.data(), 6);
  std::vector<std::uint16_t> found(3);
  device->copy(found.data(), buffer.data(), 6);
  EXPECT_EQ(found, values);
  stream_of(*device).launch([&] { buffer.as<std::uint16_t>()[1] = 7; });
  device->fill(buffer.data() + 4, 9, 2, MemorySpace::device);
  device->copy(found.data(), buffer.data(), 6);
  EXPECT_EQ(found, (std::vector<std::uint16_t>{1, 7, 9}));
  EXPECT_TRUE(device->take_broken_guards().empty());
}

TEST(EmulatedDevice, FillsMayBeginAndEndAnywhere) {
  const std::unique_ptr<Device> emulated = make_emulated_device();
  const std::unique_ptr<Device> cpu = make_cpu_device();
  for (Device* device : {emulated.get(), cpu.get()}) {
    Buffer buffer = device->allocate(7, "tensor", MemorySpace::device);  // guards follow the buffer
    device->fill(buffer.data(), 0, 7, MemorySpace::device);
    device->fill(buffer.data() + 1, 0x0201, 5, MemorySpace::device);
    const HostView view(buffer);
    const auto bytes = view.as<const std::uint8_t>();
    EXPECT_EQ(std::vector<std::uint8_t>(bytes.begin(), bytes.end()),
              (std::vector<std::uint8_t>{0, 1, 2, 1, 2, 1, 0}));
    EXPECT_TRUE(device->take_broken_guards().empty());
  }
}

TEST(EmulatedDevice, AKernelThatWritesOutsideBreaksTheGuards) {
  const std::unique_ptr<Device> device = make_emulated_device();
  Buffer buffer = device->allocate(16, "tensor", MemorySpace::device);
  std::byte* end = buffer.data() + 16;
  stream_of(*device).launch([end] { *end = std::byte{0}; });
  EXPECT_EQ(device->take_broken_guards(), std::vector<std::string>{"tensor"});
}

TEST(EmulatedDeviceDeath, TheHostIsKeptOutOfTensors) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::unique_ptr<Device> device = make_emulated_device();
  Buffer tensor = device->allocate(64, "tensor", MemorySpace::device);
  Buffer table = device->allocate(64, "table");
  EXPECT_FALSE(device->host_reads(tensor.data() + 63));
  EXPECT_TRUE(device->host_reads(table.data()));
  table.as<int>()[0] = 1;
  EXPECT_DEATH(tensor.as<int>()[0] = 1, "");
  Staging staging(*device, MemorySpace::device);
  std::byte* staged = staging.at_least(8);
  EXPECT_FALSE(device->host_reads(staged));
  EXPECT_DEATH(*staged = std::byte{1}, "");
}

TEST(EmulatedDevice, ViewsOfTheHostAreCopiesThatGoBack) {
  const std::unique_ptr<Device> emulated = make_emulated_device();
  const std::unique_ptr<Device> cpu = make_cpu_device();
  for (Device* device : {emulated.get(), cpu.get()}) {
    Buffer buffer = device->allocate(8, "tensor", MemorySpace::device);
    const HostView view(buffer);
    EXPECT_EQ(view.data() == buffer.data(), device == cpu.get());
    view.as<int>()[1] = 5;
    view.write_back();
    EXPECT_EQ(HostView(*device, buffer.data() + 4, 4).as<int>()[0], 5);
  }
}

TEST(EmulatedDevice, ProductsWaitTheirTurn) {
  const std::unique_ptr<Device> device = make_emulated_device();
  DeviceArray<float> a(*device, 1, "a", MemorySpace::device);
  DeviceArray<float> c(*device, 1, "c");
  const float three = 3;
  device->copy(a.data(), &three, sizeof(three));
  c[0] = 1;
  const Matrix factor{DType::f32, a.data(), 1};
  Gemm square{1, 1, 1, factor, factor, c.data(), 1};
  square.accumulate = true;
  square.stream = device->stream();
  device->kernels().gemm(square, {});
  device->kernels().add(a.data(), 1, c.data(), device->stream());
  EXPECT_EQ(c[0], 1);
  device->synchronise();
  EXPECT_EQ(c[0], 1 + 9 + 3);
}

/// Rows of the result are three elements apart; c is not touched.
TEST(EmulatedDevice, ProductsRoundEverySumOnceWhereThatIsAskedFor) {
  const std::unique_ptr<Device> device = make_emulated_device();
  const std::vector<float> a{1, 0x1p-9f, -3, 0x1p-8f};
  const std::vector<float> b{1, 2, 1, 0x1p9f};
  std::vector<bf16> rounded(6, bf16(7.0f));
  Gemm product{2, 2, 2, {DType::f32, a.data(), 2}, {DType::f32, b.data(), 2}, nullptr, 3};
  product.stream = device->stream();
  product.rounded = rounded.data();
  device->kernels().gemm(product, {});
  device->synchronise();
  std::vector<float> found;
  for (const bf16 x : rounded) found.push_back(static_cast<float>(x));
  EXPECT_EQ(found, (std::vector<float>{1, 3, 7, -3, -4, 7}));
  product.accumulate = true;
  EXPECT_THROW(device->kernels().gemm(product, {}), Error);
  EXPECT_EQ(code_of([&] { cpu_kernels().gemm(product, {}); }), ErrorCode::internal);
}

}  // namespace
}  // namespace lossgrid
