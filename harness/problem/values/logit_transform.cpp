// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/logit_transform.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "harness/core/dtype.h"

namespace lossgrid {

LogitTransform transform_of_rows(const LogitTransform& transform, bool from_hidden) {
  return from_hidden && transform.is_one_factor() ? LogitTransform() : transform;
}

LogitTransform teacher_part(const LogitTransform& transform) {
  return {.temperature = transform.temperature, .by_sequence = transform.by_sequence};
}

double divisor_of_product(const LogitTransform& transform) {
  return transform.is_one_factor() ? transform.temperature / transform.scale : 1.0;
}

double TrueRowTransform::apply(double x) const {
  if (!std::isfinite(x)) return x;
  return limit > 0 ? limit * std::tanh(factor * x / limit) : factor * x;
}

double TrueRowTransform::slope(double z) const {
  if (limit == 0) return factor;
  if (!std::isfinite(z)) return 0;
  const double t = z / limit;
  return factor * (1 - t) * (1 + t);
}

double TrueRowTransform::slope_error(double z, double error) const {
  const double u32 = unit_roundoff(DType::f32);
  if (limit == 0) return factor == 1 ? 0.0 : 3 * u32 * factor;
  if (!std::isfinite(z)) return 0;
  // 1 - t^2 with t off by error / limit and two roundings, and products with the factor.
  const double t = std::abs(z / limit);
  return factor * (2 * t * (error / limit + 2 * u32 * t) + 4 * u32);
}

RowTransform TrueRowTransform::as_float() const {
  return {static_cast<float>(factor), static_cast<float>(limit)};
}

TrueRowTransform row_transform(const LogitTransform& transform, double sequence_temperature) {
  const double temperature = transform.temperature * sequence_temperature;
  return {transform.scale / temperature, transform.softcap / temperature};
}

double transform_error(const LogitTransform& transform) {
  const int roundings = transform.is_identity() ? 0 : transform.softcap > 0 ? 8 : 3;
  return roundings * unit_roundoff(DType::f32);
}

namespace {

class TransformedLogits final : public LogitsSource {
 public:
  TransformedLogits(std::shared_ptr<const LogitsSource> source, const LogitTransform& transform,
                    std::vector<float> temperatures)
      : source_(std::move(source)), transform_(transform), temperatures_(std::move(temperatures)) {}

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    source_->read(token, begin, out);
    const TrueRowTransform row = of(token);
    for (double& x : out) x = row.apply(x);
  }

  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    std::vector<double> exact(out.size());
    read(token, begin, std::span<double>(exact));
    std::transform(exact.begin(), exact.end(), out.begin(),
                   [](double z) { return static_cast<float>(z); });
  }

  std::int64_t rows_at_once() const override { return source_->rows_at_once(); }
  void read_rows(std::span<const std::int64_t> tokens, std::span<double> out) const override {
    source_->read_rows(tokens, out);
    const std::size_t vocab = tokens.empty() ? 0 : out.size() / tokens.size();
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      const TrueRowTransform row = of(tokens[k]);
      for (double& x : out.subspan(k * vocab, vocab)) x = row.apply(x);
    }
  }

  bool given() const override { return false; }

  double relative_error() const override {
    return source_->relative_error() + transform_error(transform_);
  }

  void read_errors(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    source_->read_errors(token, begin, out);
    const TrueRowTransform row = of(token);
    const double temperature = transform_.temperature * own_temperature(token);
    const double vanishing =
        std::numeric_limits<float>::min() * (1 + row.factor + row.limit + 1 / temperature);
    for (double& error : out) error = row.factor * error + vanishing;
  }

 private:
  double own_temperature(std::int64_t token) const {
    return temperatures_.empty() ? 1.0 : temperatures_[static_cast<std::size_t>(token)];
  }
  TrueRowTransform of(std::int64_t token) const {
    return row_transform(transform_, own_temperature(token));
  }

  std::shared_ptr<const LogitsSource> source_;
  const LogitTransform transform_;
  const std::vector<float> temperatures_;  // [T] or empty
};

}  // namespace

std::shared_ptr<const LogitsSource> make_transformed_logits(
    std::shared_ptr<const LogitsSource> source, const LogitTransform& transform,
    std::vector<float> temperatures) {
  return std::make_shared<TransformedLogits>(std::move(source), transform, std::move(temperatures));
}

}  // namespace lossgrid
