// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/kl/kl_options.h"

#include <cmath>

#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/option_rules.h"
#include "impls/objectives/k3_root.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {

void require_kl_fits(const ClippedPgOptions& o) {
  require_clipped_pg({
      {o.kl_gradient != KlGradient::score && o.use_on_policy_kl_approximation,
       "use_on_policy_kl_approximation = true needs kl_gradient = \"score\""},
      {o.kl_gradient == KlGradient::ratio && o.sequence_level_importance_ratios,
       "kl_gradient = \"ratio\" excludes sequence_level_importance_ratios = true"},
  });
}

void add_kl_needs(const ClippedPgOptions& o, ObjectiveNeeds& needs) {
  needs.inputs[static_cast<int>(TokenInput::reference_policy_logprobs)] = o.kl_penalty() != 0;
}

void add_kl_edges(const ClippedPgOptions& o, PolicyEdges& edges) {
  const KlType type = o.reference_policy_kl_type;
  for (const double sign : {1.0, -1.0}) {
    if (o.kl_input_clamp_value) edges.reference_offsets.add(sign * *o.kl_input_clamp_value);
    if (!o.kl_output_clamp_value) continue;
    const double bound = *o.kl_output_clamp_value;
    double distance = sign * bound;
    if (type == KlType::k2) distance = sign * std::sqrt(2 * bound);
    if (type == KlType::k3) distance = k3_root(bound, sign);
    edges.reference_offsets.add(distance);
  }
}

}  // namespace lossgrid
