// SPDX-License-Identifier: Apache-2.0
// PackLayout: a pack without its tokens. Costs and times depend on lengths and on the kinds of
// inputs, so plans of any size are cheap.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "harness/comm/process_grid.h"
#include "harness/core/skip_reason.h"
#include "harness/loss/loss_implementation.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// True if a mask has bits, which fit given lengths only; other masks are rules.
bool has_mask_bits(const std::string& mask);

class PackLayout {
 public:
  /// Lays out the case, without `padding` if that does not fit (padding_misfit). Throws bad_input
  /// if keys of the case break a rule, the grid does not fit, or a product of sizes may exceed 63
  /// bits.
  PackLayout(const CaseSpec& spec, const Grid& grid, const Padding& padding = {});
  PackLayout(const PackLayout&) = delete;
  PackLayout& operator=(const PackLayout&) = delete;

  /// Returns the problem for an implementation, which refers to this layout.
  LossProblem problem() const;
  const CaseSpec& spec() const { return problem_.spec; }
  const std::optional<SkipReason>& misfit() const { return misfit_; }
  std::int64_t tokens() const;

 private:
  void require_countable() const;

  Grid grid_;
  std::unique_ptr<const Objective> objective_;
  Problem problem_;
  PackedBatch batch_;
  std::optional<SkipReason> misfit_;
};

}  // namespace lossgrid
