// SPDX-License-Identifier: Apache-2.0
#include "harness/device/device_work.h"

#include <memory>

#include <gtest/gtest.h>

#include "harness/device/device.h"
#include "harness/device/emulated_device.h"
#include "harness/device/gemm.h"

namespace lossgrid {
namespace {

/// Products of a device are counted at the launch; products of the processor's own table are not
/// counted.
TEST(DeviceWork, CountsTheFlopsOfProducts) {
  const float a[6] = {1, 2, 3, 4, 5, 6};
  const float b[3] = {1, 1, 1};
  for (const auto make : {make_cpu_device, make_emulated_device}) {
    const std::unique_ptr<Device> device = make();
    float c[2] = {};
    Gemm product{2, 1, 3, {DType::f32, a, 3}, {DType::f32, b, 1}, c, 1};
    product.stream = device->stream();
    device_work() = {};
    device->kernels().gemm(product, {});
    device->kernels().gemm(product, {});
    EXPECT_EQ(device_work().flops, 2 * (2 * 2 * 1 * 3));
    device->synchronise();
    EXPECT_EQ(device_work().flops, 2 * (2 * 2 * 1 * 3));
    EXPECT_EQ(c[0], 6);
    EXPECT_EQ(c[1], 15);
    cpu_kernels().gemm(product, {});
    EXPECT_EQ(device_work().flops, 2 * (2 * 2 * 1 * 3));
  }
}

}  // namespace
}  // namespace lossgrid
