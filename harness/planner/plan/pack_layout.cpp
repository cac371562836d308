// SPDX-License-Identifier: Apache-2.0
#include "harness/planner/plan/pack_layout.h"

#include <numeric>

#include "harness/core/text.h"
#include "harness/loss/loss_problem.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/case_data.h"
#include "harness/problem/batch/case_rules.h"

namespace lossgrid {
bool has_mask_bits(const std::string& mask) {
  return mask.find_first_not_of("01+") == std::string::npos;
}

PackLayout::PackLayout(const CaseSpec& spec, const Grid& grid, const Padding& padding)
    : grid_(grid), objective_(make_objective(spec.objective, spec.statistics, spec.predictions)) {
  require_case_rules(spec);
  problem_.spec = spec;
  problem_.teacher_dtype = teacher_dtype_of(spec);
  problem_.lengths = case_lengths(spec);
  if (SamplingFilter{spec.top_k, spec.top_p}.is_any()) {
    problem_.sampling_mask = std::make_shared<const SamplingMask>(0, spec.vocab);
  }
  require_fits(problem_, grid);
  misfit_ = padding_misfit(problem_, padding, grid);
  if (!misfit_) problem_.padding = padding;
  const PackedLayout layout = layout_of(problem_, grid);
  const std::int64_t sequences = problem_.sequences();
  batch_.sample_mask = case_sample_mask(spec, sequences);
  if (has_mask_bits(spec.mask)) case_token_mask(spec, layout.cu, batch_.sample_mask);
  batch_.cu_seqlens_padded = layout.cu_padded;
  batch_.cp_layout = grid.cp_layout;
  batch_.ahead = problem_.ahead();
  batch_.cu_seqlens = spec.cu == CuMode::true_lengths ? layout.cu : layout.cu_padded;
  batch_.input_lengths = problem_.lengths;
  const ObjectiveNeeds needs = objective_->needs();
  for (int k = 0; k < kTokenInputs; ++k) batch_.inputs[k].resize(needs.inputs[k] ? 1 : 0);
  if (needs.rewards) batch_.rewards.resize(static_cast<std::size_t>(sequences));
  if (needs.has_groups()) batch_.group_tokens.resize(static_cast<std::size_t>(sequences));
  objective_->require(batch_);
  require_countable();
}

LossProblem PackLayout::problem() const {
  return make_loss_problem(problem_, batch_, grid_, *objective_);
}

std::int64_t PackLayout::tokens() const {
  return std::accumulate(problem_.lengths.begin(), problem_.lengths.end(), std::int64_t{0});
}

/// Throws if a cost may exceed 63 bits. Costs are sums of a few products of sizes, at most of the
/// whole pack: 64 bytes for every stored element, 16 FLOPs for every term of a product.
void PackLayout::require_countable() const {
  const LossProblem pack = problem();
  const std::int64_t rows = std::max<std::int64_t>(1, pack.rows());
  const std::int64_t columns = pack.width() * grid_.tp;
  const std::int64_t hidden = pack.head.hidden;
  const std::int64_t weight = checked_product(columns, hidden, "vocab x hidden");
  checked_product(checked_product(rows, columns, "rows x vocab"), 64, "bytes of rows x vocab");
  checked_product(checked_product(rows, hidden, "rows x hidden"), 64, "bytes of rows x hidden");
  checked_product(weight, 64, "bytes of vocab x hidden");
  const std::int64_t of_teacher = pack.teacher.hidden;
  checked_product(checked_product(rows, of_teacher, "rows x hidden of a teacher"), 64,
                  "bytes of rows x hidden of a teacher");
  const std::int64_t teacher_weight =
      checked_product(columns, of_teacher, "vocab x hidden of a teacher");
  checked_product(teacher_weight, 64, "bytes of vocab x hidden of a teacher");
  checked_product(checked_product(rows, teacher_weight, "rows x vocab x hidden of a teacher"), 16,
                  "FLOPs of a teacher");
  checked_product(checked_product(rows, weight, "rows x vocab x hidden"), 16,
                  "FLOPs of rows x vocab x hidden");
}

}  // namespace lossgrid
