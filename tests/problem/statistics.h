// SPDX-License-Identifier: Apache-2.0
// Statistics of drawn numbers, and the probabilities of a row of logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace lossgrid {

inline double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

inline double deviation(const std::vector<double>& values) {
  const double center = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

inline std::vector<double> softmax(const std::vector<double>& row) {
  const double top = *std::max_element(row.begin(), row.end());
  double sum = 0;
  std::vector<double> out;
  for (const double value : row) sum += std::exp(value - top);
  for (const double value : row) out.push_back(std::exp(value - top) / sum);
  return out;
}

}  // namespace lossgrid
