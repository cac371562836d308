// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: pieces of its policy losses beside PPO's, independent of
// policy_losses.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/loss/enclosure.h"
#include "harness/loss/tape.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"

namespace lossgrid {

/// As limited() of Enclosures, with the gradient of a closed clamp, whose ends are rounded too.
Var limited(const Var& a, double low, double high);

/// Returns the logarithms of a sequence's ratios as they are in the mean of geo_mean. Adds the
/// branches taken to `branches`.
std::vector<Var> geo_mean_logs(const ClippedPgOptions& options, const std::vector<Var>& logs,
                               const std::vector<double>& advantages,
                               std::map<std::string, std::int64_t>& branches);

/// Weights of the tokens of a sequence in vespo, by the sign of their advantages.
struct VespoGates {
  Enclosure positive;
  Enclosure negative;

  const Enclosure& of(double advantage) const { return advantage >= 0 ? positive : negative; }
};

/// `sum`: of the logarithms of a sequence's ratios. Adds the branch taken to `branches`.
VespoGates vespo_gates(const ClippedPgOptions& options, const Enclosure& sum,
                       std::map<std::string, std::int64_t>& branches);

/// Returns 1 for a token of dppo that loses its policy term, else 0, both if it may be either;
/// `x`: its log-probability, `p`: the previous one.
Enclosure has_diverged(const ClippedPgOptions& options, const Enclosure& x, const Enclosure& p,
                       double advantage);

}  // namespace lossgrid
