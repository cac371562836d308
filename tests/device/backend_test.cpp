// SPDX-License-Identifier: Apache-2.0
// Backends by name, and traits that agree with the devices that they make.
#include "harness/device/backend.h"

#include <set>

#include <gmock/gmock.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

TEST(Backend, HasANameThatIsReadBack) {
  std::set<std::string_view> names;
  for (const Backend backend : all_backends()) {
    EXPECT_EQ(parse_backend(name(backend), ""), backend) << name(backend);
    names.insert(name(backend));
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"cpu", "cuda", "cuda_emulated"}));
  try {
    parse_backend("cudo", "--backend: ");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_STREQ(error.what(), "--backend: unknown backend 'cudo'; did you mean 'cuda'?");
  }
}

TEST(Backend, HasAFlagUnlessItIsTheDefault) {
  EXPECT_EQ(backend_flag(Backend::cpu), "");
  EXPECT_EQ(backend_flag(Backend::cuda_emulated), " --backend cuda_emulated");
}

TEST(Backend, HasChunksOfTheLmHeadThatFitInto5GibibytesOnAGpu) {
  EXPECT_EQ(default_chunk_rows(Backend::cpu, 1), 256);
  EXPECT_EQ(default_chunk_rows(Backend::cpu, 1'000'000'000), 256);
  for (const Backend backend : {Backend::cuda, Backend::cuda_emulated}) {
    EXPECT_EQ(default_chunk_rows(backend, 0), 8192);
    EXPECT_EQ(default_chunk_rows(backend, 163'840), 8192);
    EXPECT_EQ(default_chunk_rows(backend, 163'841), 4096);
    EXPECT_EQ(default_chunk_rows(backend, 262'144), 4096);
    EXPECT_EQ(default_chunk_rows(backend, 1'000'000'000), 256);
  }
}

TEST(BackendTraits, AgreeWithTheDevices) {
  for (const Backend backend : all_backends()) {
    SCOPED_TRACE(name(backend));
    const BackendTraits& traits = traits_of(backend);
    if (!traits.is_gpu) {
      EXPECT_EQ(text_of(no_device(backend)), "");
    }
    if (no_device(backend)) {
      EXPECT_NE(no_device(backend)->text, "");
      EXPECT_THROW(make_device(backend, 0), Error);
      continue;
    }
    const std::unique_ptr<Device> device = make_device(backend, 0);
    EXPECT_EQ(device->backend(), backend);
    EXPECT_EQ(device->stream() != nullptr, traits.launches_kernels);
    EXPECT_EQ(device->driver_memory().has_value(), traits.launches_kernels);
    EXPECT_EQ(traits.gpu_uuid().empty(), !traits.is_gpu);
    EXPECT_EQ(traits.free_gpu_bytes() > 0, traits.is_gpu);
    EXPECT_GT(traits.last_level_cache_bytes(), 0);
    const Buffer tensor = device->allocate(64, "tensor", MemorySpace::device);
    EXPECT_EQ(device->host_reads(tensor.data()), !traits.launches_kernels);
  }
}

}  // namespace
}  // namespace lossgrid
