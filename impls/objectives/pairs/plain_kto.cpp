// SPDX-License-Identifier: Apache-2.0
// `kto`, plainly from docs/objectives.md ("Objectives of pairs") and TRL.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "impls/objectives/pairs/plain_pairs.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {
namespace {

LossAndMetrics kto_loss(const Case& of, const Rows& live, const Rows& held) {
  const Options& options = of.options;
  const double beta = options.number("beta", 0.1);
  const auto log_ratio = [&](const Rows& rows, std::int64_t i) {
    return over_sequence(of, i,
                         [&](std::size_t k, int) { return rows[k].x - of.tokens[k].reference; });
  };
  const double count = of.valid_sequences() / 2;
  double z0 = 0;
  for (const std::int64_t i : counted_pairs(of)) z0 += log_ratio(held, i + 1) / count;
  z0 = options.name("loss_type", "kto") == "kto" ? std::max(0.0, z0) : 0;
  LossAndMetrics out;
  for (const std::int64_t i : counted_pairs(of)) {
    const double x = log_ratio(live, i);
    out.loss +=
        (of.reward(i) > 0 ? options.number("desirable_weight", 1) * sigmoid(-beta * (x - z0))
                          : options.number("undesirable_weight", 1) * sigmoid(beta * (x - z0))) /
        count;
  }
  out.metrics["kl"] = z0;
  return out;
}

std::vector<OptionCase> kto_cases() {
  return {{"beta=0.5 desirable_weight=0.4"},
          {"beta=0.5 undesirable_weight=1.7 desirable_weight=0.7"},
          {"loss_type=apo_zero_unpaired beta=0.4 undesirable_weight=0.6"}};
}

const RegisteredPlainObjective plain_kto{{"kto", kBatchOfPairs, kto_loss, kto_cases()}};

}  // namespace
}  // namespace lossgrid::plain
