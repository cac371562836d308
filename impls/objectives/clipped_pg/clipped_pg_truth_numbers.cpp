// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/clipped_pg_truth_numbers.h"

#include <limits>

namespace lossgrid {

Enclosure constant(double value) {
  return static_cast<double>(static_cast<float>(value)) == value ? value : rounded(value, 1);
}

Enclosure limited(const Enclosure& a, double low, double high) {
  return low <= a.low && a.high <= high ? a : rounded(clamp(a, low, high), 2);
}

Var limited(const Var& a, double low, double high) {
  const Var near = Tape::record(rounded(a.enclosure(), 2), a, 1.0);
  return Tape::record(limited(a.enclosure(), low, high), clamp(near, low, high), 1.0);
}

Enclosure reciprocal(std::int64_t count) {
  return 1.0 / Enclosure(static_cast<double>(count));
}

bool is_finite_float(double value) {
  return value <= static_cast<double>(std::numeric_limits<float>::max());
}

}  // namespace lossgrid
