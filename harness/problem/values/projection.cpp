// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/projection.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lossgrid {
namespace {

/// Returns the sum of x[k] w[k] in float64, in which every product of float32 numbers is exact.
/// Eight sums side by side: compilers vectorise them, which they may not do with one sum in order.
template <typename X>
double dot(const X* x, const float* w, std::int64_t size) {
  constexpr std::int64_t kLanes = 8;
  double sums[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= size; k += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(x[k + lane]) * static_cast<double>(w[k + lane]);
    }
  }
  for (std::int64_t lane = 0; k < size; ++k, ++lane) {
    sums[lane] += static_cast<double>(x[k]) * static_cast<double>(w[k]);
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// Rows of hidden states that are multiplied together.
constexpr std::int64_t kRowsAtOnce = 8;

/// Writes the sums of x[r][k] w[k] of kRowsAtOnce rows to out, `stride` apart, each with the
/// additions of dot().
void dots(const double* x, const float* w, std::int64_t size, double divisor, double* out,
          std::int64_t stride) {
  constexpr std::int64_t kLanes = 8;
  double sums[kRowsAtOnce][kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= size; k += kLanes) {
    double wide[kLanes];
    for (std::int64_t lane = 0; lane < kLanes; ++lane) wide[lane] = w[k + lane];
    for (std::int64_t r = 0; r < kRowsAtOnce; ++r) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        sums[r][lane] += x[r * size + k + lane] * wide[lane];
      }
    }
  }
  for (std::int64_t r = 0; r < kRowsAtOnce; ++r) {
    double* own = sums[r];
    for (std::int64_t lane = 0; lane < size - k; ++lane) {
      own[lane] += x[r * size + k + lane] * static_cast<double>(w[k + lane]);
    }
    out[r * stride] =
        (((own[0] + own[1]) + (own[2] + own[3])) + ((own[4] + own[5]) + (own[6] + own[7]))) /
        divisor;
  }
}

/// Returns the Euclidean norms of the rows of `matrix` [rows, size].
std::vector<double> row_norms(const std::vector<float>& matrix, std::int64_t rows,
                              std::int64_t size) {
  std::vector<double> norms;
  norms.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = matrix.data() + r * size;
    norms.push_back(std::sqrt(dot(row, row, size)));
  }
  return norms;
}

class ProjectedLogits final : public LogitsSource {
 public:
  explicit ProjectedLogits(std::shared_ptr<const Projection> projection)
      : projection_(std::move(projection)),
        hidden_norms_(row_norms(projection_->hidden, projection_->tokens, projection_->factors())),
        weight_norms_(row_norms(projection_->weight, projection_->vocab, projection_->factors())) {}

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    read_as(token, begin, out);
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    read_as(token, begin, out);
  }

  std::int64_t rows_at_once() const override { return kRowsAtOnce; }
  /// Reads the weight once for kRowsAtOnce rows: it may be larger than any cache.
  void read_rows(std::span<const std::int64_t> tokens, std::span<double> out) const override {
    const auto rows_at_once = static_cast<std::size_t>(kRowsAtOnce);
    const auto vocab = static_cast<std::size_t>(projection_->vocab);
    std::size_t k = 0;
    for (; k + rows_at_once <= tokens.size(); k += rows_at_once) {
      read_block(tokens.subspan(k, rows_at_once), out.data() + k * vocab);
    }
    LogitsSource::read_rows(tokens.subspan(k), out.subspan(k * vocab));
  }

  bool given() const override { return false; }

  double relative_error() const override {
    return 3 * std::sqrt(static_cast<double>(projection_->factors())) * unit_roundoff(DType::f32);
  }

  void read_errors(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    const double factor = 4 * unit_roundoff(DType::f32) *
                          hidden_norms_[static_cast<std::size_t>(token)] / projection_->temperature;
    const double* norms = weight_norms_.data() + begin;
    std::transform(norms, norms + out.size(), out.begin(),
                   [factor](double norm) { return factor * norm; });
  }

 private:
  template <typename Out>
  void read_as(std::int64_t token, std::int64_t begin, std::span<Out> out) const {
    const Projection& p = *projection_;
    const float* row = p.hidden_row(token);
    const std::vector<double> hidden(row, row + p.factors());  // converted once for all ids
    for (std::size_t k = 0; k < out.size(); ++k) {
      const float* weight = p.weight_row(begin + static_cast<std::int64_t>(k));
      out[k] = static_cast<Out>(dot(hidden.data(), weight, p.factors()) / p.temperature);
    }
  }

  void read_block(std::span<const std::int64_t> tokens, double* out) const {
    const Projection& p = *projection_;
    std::vector<double> hidden;  // converted once for all ids
    for (const std::int64_t token : tokens) {
      const float* row = p.hidden_row(token);
      hidden.insert(hidden.end(), row, row + p.factors());
    }
    for (std::int64_t v = 0; v < p.vocab; ++v) {
      dots(hidden.data(), p.weight_row(v), p.factors(), p.temperature, out + v, p.vocab);
    }
  }

  std::shared_ptr<const Projection> projection_;
  std::vector<double> hidden_norms_;  // [T]
  std::vector<double> weight_norms_;  // [V]
};

}  // namespace

std::shared_ptr<const LogitsSource> make_projected_logits(
    std::shared_ptr<const Projection> projection) {
  return std::make_shared<ProjectedLogits>(std::move(projection));
}

}  // namespace lossgrid
