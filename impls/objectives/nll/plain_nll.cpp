// SPDX-License-Identifier: Apache-2.0
// `nll`, plainly from docs/objectives.md.
#include <cmath>
#include <string>
#include <vector>

#include "impls/objectives/clipped_pg/aggregation/plain_aggregation.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {
namespace {

LossAndMetrics nll_loss(const Case& of, const Rows& live, const Rows& held) {
  const double e = of.options.number("label_smoothing", 0);
  const double c = of.options.number("z_loss_coefficient", 0);
  const bool dft = of.options.name("loss_type", "nll") == "dft";
  const double loss =
      weighted(token_weights(of), by_token(of, [&](std::size_t k) {
                 const Row& row = live[k];
                 if (dft) return -std::exp(held[k].x) * row.x;
                 return -(1 - e) * row.x - e * row.mean_logprob + c * row.lse * row.lse;
               }));
  return {loss};
}

std::vector<OptionCase> nll_cases() {
  return {{""},
          {"", "logit_scale=1.5 logit_softcap=3 temperature=0.7 sequence_temperatures=true"},
          {"token_level_loss=false label_smoothing=0.2 z_loss_coefficient=0.1",
           "temperature=0.7 sequence_temperatures=true"},
          {"loss_type=dft", "temperature=1.4 statistics=false"},
          {"", "global_valid_toks=40 global_valid_seqs=9"},
          {"token_level_loss=false", "global_valid_seqs=9"},
          {"", "values=ties predictions=true temperature=0.7"},
          {"token_level_loss=false loss_type=dft"},
          {"label_smoothing=0.3 z_loss_coefficient=0.2", "top_k=3 logit_softcap=2"},
          {"", "top_k=3 predictions=true sequence_temperatures=true logit_softcap=2"},
          {"", "top_p=0.7 filtered_targets=zero sequence_temperatures=true"}};
}

const RegisteredPlainObjective plain_nll{{"nll", kBatch, nll_loss, nll_cases()}};

}  // namespace
}  // namespace lossgrid::plain
