// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/kl/kl_options.h"

#include <cmath>

#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/option_rules.h"
#include "impls/objectives/k3_root.h"
#include "impls/objectives/objective_options.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {

void KlOptions::read(const OptionReader& reader) {
  reader.read("reference_policy_kl_penalty", reference_policy_kl_penalty,
              {"weight of the KL term", "verl `kl_loss_coef`", {}, {"0.1", "0.0"}});
  reader.read("reference_policy_kl_type", reference_policy_kl_type, {"k1", "k2", "k3", "abs"},
              {"estimator of the KL, or `abs`, the distance of the log-probabilities",
               "verl `kl_loss_type`"});
  reader.read("kl_gradient", kl_gradient,
              {{"score", "NeMo-RL"},
               {"value", "verl, TRL, SkyRL"},
               {"straight-through", "verl k3+"},
               {"importance", "OpenRLHF"},
               {"ratio", "TRL use_bias_correction_kl"}},
              {"gradient of the KL. `score`: the score gradient; `value`: of the estimator alone; "
               "`straight-through`: of k2, whatever the value; `importance`: of k2 times "
               "min(ratio, 10); `ratio`: of the estimator times the ratio",
               "NeMo-RL; verl, SkyRL; verl `k3+`; OpenRLHF `unbiased_gradient`; TRL "
               "`use_bias_correction_kl`"});
  reader.read("kl_input_clamp_value", kl_input_clamp_value,
              {"clamp of the log ratio in the KL; null: no clamp", "", kAbove0, {"0.4"}});
  reader.read("kl_output_clamp_value", kl_output_clamp_value,
              {"clamp of the KL; null: no clamp", "", kAbove0, {"0.05"}});
  reader.read("use_kl_in_reward", use_kl_in_reward,
              {"the KL is in the reward: no term in the loss"});
  reader.read("use_on_policy_kl_approximation", use_on_policy_kl_approximation,
              {"KL weighted by current over generation probability"});
}

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
