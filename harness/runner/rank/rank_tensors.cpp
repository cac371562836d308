// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/rank_tensors.h"

#include "harness/device/memory/host_view.h"

namespace lossgrid {

std::unique_ptr<RankTensors> make_rank_tensors(const RankPack& pack) {
  return pack.loss_problem.from_hidden() ? make_linear_tensors(pack) : make_logits_tensors(pack);
}

std::vector<double> as_doubles(const Buffer& buffer, DType dtype) {
  const HostView view(buffer);
  std::vector<double> values;
  dispatch_floating(dtype, [&](auto zero) {
    for (const auto& x : view.as<decltype(zero)>()) values.push_back(static_cast<double>(x));
  });
  return values;
}

void halve(Buffer& buffer, DType dtype) {
  const HostView view(buffer);
  dispatch_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (T& x : view.as<T>()) x = static_cast<T>(static_cast<double>(x) / 2);
  });
  view.write_back();
}

}  // namespace lossgrid
