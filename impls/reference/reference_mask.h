// SPDX-License-Identifier: Apache-2.0
// `ReferenceMask`: the reference's sampling mask, gathered from all ranks, which hold a bit for
// each column of their shard. Plain code that shares nothing with the kernels.
#pragma once

#include <span>

#include "impls/reference/reference_inputs.h"

namespace lossgrid {

class ReferenceMask {
 public:
  ReferenceMask(const LossProblem& problem, RankContext context)
      : problem_(problem),
        context_(context),
        over_tp_(context.device, problem.mask_bytes(), problem.grid.tp),
        over_cp_(context.device, problem.mask_bytes() * problem.grid.tp, problem.grid.cp) {}

  static void add_cost(const LossProblem& problem, Cost& cost) {
    Gathered::add_cost(problem.mask_bytes(), problem.grid.tp, cost.forward.tp, cost);
    Gathered::add_cost(problem.mask_bytes() * problem.grid.tp, problem.grid.cp, cost.forward.cp,
                       cost);
  }

  /// Gathers the ranks' parts. Collective.
  void gather(const LossInputs& inputs) {
    const void* over_tp = over_tp_.gather(context_.tp, inputs.kept, DType::u8);
    over_cp_.gather(context_.cp, over_tp, DType::u8);
    all_.emplace(over_cp_.view());
  }

  /// True if the row that a CP rank holds at `slot` among its own keeps an id.
  bool keeps(std::int64_t cp_rank, std::int64_t slot, std::int64_t id) const {
    const std::int64_t width = problem_.width();
    const std::int64_t row_bytes = (width + 63) / 64 * 8;
    const std::int64_t shard = cp_rank * problem_.grid.tp + id / width;
    const std::int64_t row = shard * problem_.local_rows() + slot;
    const auto byte = static_cast<unsigned>(
        all_->as<const std::uint8_t>()[static_cast<std::size_t>(row * row_bytes + id % width / 8)]);
    return (byte >> (id % width % 8) & 1u) != 0;
  }

 private:
  const LossProblem& problem_;
  RankContext context_;
  Gathered over_tp_;
  Gathered over_cp_;
  std::optional<HostView> all_;  // [cp][tp][T_c][bytes of a row]
};

}  // namespace lossgrid
