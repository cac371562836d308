// SPDX-License-Identifier: Apache-2.0
// dpo_with: `dpo` with a replaced formula, for mutants.
#pragma once

#include <memory>

#include "harness/loss/objective.h"
#include "impls/objectives/pairs/dpo.h"

namespace lossgrid {

/// Returns `dpo` with other formulas if `applies` to its options, else null.
template <class Formulas>
std::unique_ptr<Objective> dpo_with(const ObjectiveSpec& spec, bool (*applies)(const DpoOptions&)) {
  if (spec.kind != "dpo") return nullptr;
  const DpoOptions options = read_dpo_options(spec.options);
  if (!applies(options)) return nullptr;
  return std::make_unique<DpoObjective<Formulas>>(options);
}

}  // namespace lossgrid
