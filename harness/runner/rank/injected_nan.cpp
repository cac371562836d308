// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/injected_nan.h"

#include <algorithm>
#include <limits>

namespace lossgrid {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::size_t first_trained(std::span<const RowPlace> rows, const Truth& truth) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const RowPlace& place) {
    return place.row >= 0 && truth.rows[place.row].valid;
  });
  return found == rows.end() ? 0 : static_cast<std::size_t>(found - rows.begin());
}

}  // namespace

void write_a_nan(RankPhase phase, const RankPack& pack, const Truth& truth,
                 std::span<const std::int64_t> own, LossOutputs& outputs,
                 const LossGradients& gradients) {
  if (phase == RankPhase::forward) {
    const std::int64_t place = own[first_trained(pack.rows, truth)];
    outputs.tokens.logprobs[static_cast<std::size_t>(place)] = kNan;
    return;
  }
  const LossProblem& problem = pack.loss_problem;
  const bool hidden = problem.from_hidden();
  const auto count =
      static_cast<std::size_t>(hidden ? problem.hidden_rows() : problem.local_rows());
  const std::size_t begin =
      count * static_cast<std::size_t>(hidden && problem.grid.sp ? pack.rank.tp_rank : 0);
  const std::size_t row = first_trained(pack.rows.subspan(begin, count), truth);
  const auto width = static_cast<std::size_t>(hidden ? problem.head.hidden : problem.width());
  dispatch_floating(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T value(kNan);
    T* to = static_cast<T*>(hidden ? gradients.hidden : gradients.logits);
    pack.device.copy(to + row * width, &value, sizeof(value));
  });
}

}  // namespace lossgrid
