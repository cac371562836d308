// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/projection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "harness/device/kernel/rank_threads.h"
#include "harness/problem/values/exact_dots.h"

namespace lossgrid {
namespace {

/// Returns the Euclidean norms of the rows of `matrix` [rows, size].
std::vector<double> row_norms(const std::vector<float>& matrix, std::int64_t rows,
                              std::int64_t size) {
  std::vector<double> norms(static_cast<std::size_t>(rows));
  parallel_for(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = matrix.data() + r * size;
      norms[static_cast<std::size_t>(r)] = std::sqrt(exact_dot(row, row, size));
    }
  });
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

  std::int64_t rows_at_once() const override { return kDotsAtOnce; }
  /// Reads the weight once for kDotsAtOnce rows: it may be larger than any cache.
  void read_rows(std::span<const std::int64_t> tokens, std::span<double> out) const override {
    const auto rows_at_once = static_cast<std::size_t>(kDotsAtOnce);
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
    const double hidden_norm = hidden_norms_[static_cast<std::size_t>(token)];
    const double factor = 4 * unit_roundoff(DType::f32) * hidden_norm / projection_->temperature;
    const double root = std::sqrt(static_cast<double>(projection_->factors()));
    const double vanishing = std::numeric_limits<float>::min() / projection_->temperature;
    const double* norms = weight_norms_.data() + begin;
    std::transform(norms, norms + out.size(), out.begin(), [&](double norm) {
      return factor * norm + vanishing * root * (root + hidden_norm + norm);
    });
  }

 private:
  template <typename Out>
  void read_as(std::int64_t token, std::int64_t begin, std::span<Out> out) const {
    const Projection& p = *projection_;
    const float* row = p.hidden_row(token);
    for (std::size_t k = 0; k < out.size(); ++k) {
      const float* weight = p.weight_row(begin + static_cast<std::int64_t>(k));
      out[k] = static_cast<Out>(exact_dot(row, weight, p.factors()) / p.temperature);
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
      exact_dots(hidden.data(), p.weight_row(v), p.factors(), out + v, p.vocab);
    }
    if (p.temperature == 1) return;
    const auto elements = static_cast<std::ptrdiff_t>(tokens.size()) * p.vocab;
    std::for_each(out, out + elements, [&](double& z) { z /= p.temperature; });
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
