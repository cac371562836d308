// SPDX-License-Identifier: Apache-2.0
// `Draw`: random numbers about one token or sequence, from which inputs of objectives are made.
#pragma once

#include <cstdint>

#include "harness/problem/values/random_streams.h"

namespace lossgrid {

/// Random numbers of one stream for one token or sequence: four uniform ones and a normal one.
class Draw {
 public:
  Draw(std::uint64_t seed, Stream stream, std::int64_t index)
      : stream_(random_stream(seed, stream)), index_(static_cast<std::uint64_t>(index)) {}

  double uniform(std::uint32_t column) const { return stream_.uniform(index_, column); }
  double between(double low, double high, std::uint32_t column) const {
    return low + (high - low) * uniform(column);
  }
  double normal() const { return static_cast<double>(stream_.normal(index_, 4)); }

 private:
  RandomStream stream_;
  std::uint64_t index_;
};

inline double with_sign(bool positive, double magnitude) {
  return positive ? magnitude : -magnitude;
}

}  // namespace lossgrid
