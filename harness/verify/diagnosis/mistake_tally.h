// SPDX-License-Identifier: Apache-2.0
// `MistakeTally`: count of wrong values that one mistake explains.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace lossgrid {

struct MistakeTally {
  std::int64_t tried = 0;  // rows in which the mistake would change the value
  std::int64_t fits = 0;   // tried rows with the value that the mistake makes

  /// Adds a row. `values` are the values that the mistake could produce; the row fits if any of
  /// them is `got`. Values that equal the truth are no evidence.
  void add(const std::vector<double>& values, double got, double want, double within) {
    bool shows = false;
    bool is_one = false;
    for (const double value : values) {
      if (!std::isfinite(value) || std::abs(value - want) <= 4 * within) continue;
      shows = true;
      is_one = is_one || std::abs(value - got) <= within;
    }
    tried += shows ? 1 : 0;
    fits += is_one ? 1 : 0;
  }
  void add(const MistakeTally& other) {
    tried += other.tried;
    fits += other.fits;
  }
};

}  // namespace lossgrid
