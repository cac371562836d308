// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/ratio/proximal_truth.h"

#include "impls/objectives/clipped_pg/clipped_pg_truth_numbers.h"

namespace lossgrid {
namespace {

/// Returns the interval of both ways to write an interpolation in float32.
Enclosure between(const Enclosure& from, const Enclosure& to, const Enclosure& share) {
  return hull(from + share * (to - from), (1.0 - share) * from + share * to);
}

}  // namespace

Enclosure true_proximal(const ClippedPgOptions& options, const Enclosure& x, double q,
                        double version, std::map<std::string, std::int64_t>& branches) {
  const double steps = *options.current_version - version;
  const bool is_between = version >= 0 && steps > 1;
  branches[version < 0  ? "proximal_without_version"
           : steps < 1  ? "proximal_not_before"
           : is_between ? "proximal_between"
                        : "proximal_is_generation"] += 1;
  const Enclosure share = is_between ? Enclosure(steps - 1) / Enclosure(steps) : Enclosure(0.0);
  if (options.prox_logp_method == ProximalPolicy::loglinear) {
    return is_between ? between(q, x, share) : Enclosure(q);
  }
  const Enclosure probability =
      is_between ? between(exp(Enclosure(q)), exp(x), share) : exp(Enclosure(q));
  return log(probability + constant(1e-10));
}

}  // namespace lossgrid
