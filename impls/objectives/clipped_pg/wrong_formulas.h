// SPDX-License-Identifier: Apache-2.0
// with_formulas: clipped_pg with one of its formulas replaced, for mutants and controls.
#pragma once

#include <memory>

#include "impls/objectives/clipped_pg/clipped_pg.h"

namespace lossgrid {

/// Returns clipped_pg with other formulas if `applies` to its options, else null.
template <class Formulas, typename Real = double>
std::unique_ptr<Objective> with_formulas(const ObjectiveSpec& spec,
                                         bool (*applies)(const ClippedPgOptions&)) {
  if (spec.kind != "clipped_pg") return nullptr;
  const ClippedPgOptions options = ClippedPgOptions::from(spec.options);
  if (!applies(options)) return nullptr;
  return std::make_unique<ClippedPgObjective<Formulas, Real>>(options);
}

}  // namespace lossgrid
