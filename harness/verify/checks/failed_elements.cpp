// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/checks/failed_elements.h"

#include <algorithm>
#include <cmath>

namespace lossgrid {
namespace {

bool is_bf16(double x) {
  return round_to(DType::bf16, x) == x;
}

}  // namespace

void FailedElements::add(double got, double want, double held, DType out) {
  ++count;
  nan += std::isnan(got) ? 1 : 0;
  infinite += std::isinf(got) ? 1 : 0;
  if (!std::isfinite(got) || !std::isfinite(want)) return;
  zero += got == 0 ? 1 : 0;
  got_squared += got * got;
  got_want += got * want;
  want_squared += want * want;
  roundoff = std::max(roundoff, unit_roundoff(out));
  if (out != DType::f32 || held == 0 || is_bf16(round_to(DType::f32, held - got + want))) return;
  ++bits_compared;
  bits_of_bf16 += is_bf16(held) ? 1 : 0;
}

void FailedElements::add_nan_row(std::int64_t row) {
  const auto at = std::lower_bound(nan_rows.begin(), nan_rows.end(), row);
  if (at == nan_rows.end() || *at != row) nan_rows.insert(at, row);
}

void FailedElements::add(const FailedElements& other) {
  count += other.count;
  nan += other.nan;
  infinite += other.infinite;
  zero += other.zero;
  bits_compared += other.bits_compared;
  bits_of_bf16 += other.bits_of_bf16;
  got_squared += other.got_squared;
  got_want += other.got_want;
  want_squared += other.want_squared;
  roundoff = std::max(roundoff, other.roundoff);
  for (const std::int64_t row : other.nan_rows) add_nan_row(row);
}

std::optional<double> FailedElements::common_factor() const {
  if (nan + infinite > 0 || !(want_squared > 0) || !std::isfinite(got_squared + want_squared)) {
    return std::nullopt;
  }
  const double factor = got_want / want_squared;
  const double error = got_squared - 2 * got_want + want_squared;
  const double rest = got_squared - factor * got_want;
  const double allowed =
      std::max(1e-4 * std::min(error, got_squared), 4 * roundoff * roundoff * got_squared);
  if (!(rest <= allowed)) return std::nullopt;
  return factor;
}

bool FailedElements::are_bf16() const {
  // By chance one float32 in 2^16 is a bfloat16 number.
  constexpr std::int64_t kEnough = 8;
  return bits_compared >= kEnough && bits_of_bf16 == bits_compared;
}

}  // namespace lossgrid
