// SPDX-License-Identifier: Apache-2.0
#include "impls/mutants/changed_product.h"

#include "harness/device/memory/host_view.h"
#include "harness/device/memory/staging.h"

namespace lossgrid {

void multiply_to_bf16(const RankContext& context, const Gemm& product, std::span<float> workspace) {
  context.device.kernels().gemm(product, workspace);
  if (product.m == 0 || product.n == 0) return;
  const auto elements = static_cast<std::size_t>((product.m - 1) * product.stride + product.n);
  const HostView rows(context.device, product.c, elements * sizeof(float));
  for (std::int64_t i = 0; i < product.m; ++i) {
    for (std::int64_t j = 0; j < product.n; ++j) {
      float& value = rows.as<float>()[static_cast<std::size_t>(i * product.stride + j)];
      value = static_cast<float>(bf16(value));
    }
  }
  rows.write_back();
}

void multiply_by_shard_of_next_rank(const RankContext& context, const Gemm& product,
                                    std::int64_t elements, std::span<float> workspace) {
  const auto count = static_cast<std::size_t>(elements);
  const std::size_t bytes = count * size_of(product.b.dtype);
  const int ranks = context.tp.size();
  Staging shards(context.device, MemorySpace::device);
  std::byte* all = shards.at_least(bytes * static_cast<std::size_t>(ranks));
  context.tp.all_gather(product.b.data, all, count, product.b.dtype);
  Gemm of_next = product;
  of_next.b.data = all + bytes * static_cast<std::size_t>((context.tp.rank() + 1) % ranks);
  context.device.kernels().gemm(of_next, workspace);
  context.device.synchronise();  // before the shards are freed
}

}  // namespace lossgrid
