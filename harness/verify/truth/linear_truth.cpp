// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/linear_truth.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/problem/batch/sharding.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/for_each_index.h"
#include "harness/verify/truth/gradient_row_sums.h"
#include "harness/verify/truth/input_column.h"
#include "harness/verify/truth/logit_gradient.h"

namespace lossgrid {
namespace {

// In place of an infinite bound of float32: 0 times it is 0.
constexpr double kLargestTau = 1e300;

/// Reader of d loss / d logits of the rows that take part in the loss, piece by piece.
class GradientReader {
 public:
  GradientReader(const Problem& problem, const std::vector<RowTruth>& rows,
                 const ObjectiveTruth& objective, int serial_adds,
                 std::span<const LogitRoundings> logit_roundings)
      : problem_(problem),
        rows_(rows),
        objective_(objective),
        serial_adds_(serial_adds),
        logit_roundings_(logit_roundings) {
    for (std::int64_t t = 0; t < problem.tokens(); ++t) {
      if (!rows[t].valid) continue;
      tokens_.push_back(t);
      const RowGradientTruth gradient = objective.gradient(t);
      gradients_.emplace_back(rows[t], gradient);
      bounds_.emplace_back(rows[t], gradient, DType::f32, serial_adds);
    }
  }

  const std::vector<std::int64_t>& tokens() const { return tokens_; }
  std::int64_t target(std::int64_t token) const { return rows_[token].target; }
  const RowTruth& row(std::int64_t token) const { return rows_[token]; }
  double grad_logprob(std::int64_t token) const { return objective_.grad_logprob[token].value; }
  /// Returns the gradient of the k-th row that takes part.
  const LogitGradient& gradient(std::size_t k) const { return gradients_[k]; }

  bool rounds_logits() const { return !logit_roundings_.empty(); }

  /// Reads the logits of a row from id `begin` on, and their probabilities.
  void read_row(std::int64_t token, std::int64_t begin, std::span<double> z,
                std::span<double> p) const {
    problem_.logits->read(token, begin, z);
    truth_probabilities(rows_[token], z, p);
  }

  /// Reads dz, by the logits before a transform of rows, and tau of the ids begin .. begin +
  /// dz.size() in the k-th row that takes part. If logits are rounded, `rounding` is set to the
  /// squared change by a rounding: of every id by its own, (g p e)^2, for the gradient of hidden
  /// states, of all of them for that of the weight.
  enum class For { hidden, weight };
  void read(For gradient, std::size_t k, std::int64_t begin, std::span<double> dz,
            std::span<double> tau, std::span<double> rounding) const {
    const std::int64_t t = tokens_[k];
    const RowTruth& row = rows_[t];
    std::vector<double> z(dz.size());
    std::vector<double> p(dz.size());
    read_row(t, begin, z, p);
    read_logit_errors(*problem_.logits, t, begin, z, tau);
    gradients_[k].write(z, p, begin, dz);
    const double g = objective_.grad_logprob[t].value;
    const TrueRowTransform transform = problem_.transform_of_row(t);
    const DivergenceColumns divergences(problem_, row,
                                        objective_.gradient(t).terms[RowTerm::divergence], t, begin,
                                        static_cast<std::int64_t>(dz.size()), serial_adds_);
    for (std::size_t v = 0; v < rounding.size(); ++v) {
      const double e = logit_rounding(z[v]);
      rounding[v] = gradient == For::weight
                        ? gradients_[k].squared_change(z[v], p[v], e, logit_roundings_[t])
                        : (g * p[v]) * (g * p[v]) * (e * e);
    }
    for (std::size_t v = 0; v < p.size(); ++v) {
      const bool is_target = begin + static_cast<std::int64_t>(v) == row.target;
      DivergenceColumn divergence;
      if (divergences.is_any()) {
        divergence = divergences.at(static_cast<std::int64_t>(v), z[v], tau[v]);
      }
      dz[v] += divergence.want;
      const double slope = transform.slope(z[v]);
      const double of_slope = error_of_slope(transform.slope_error(z[v], tau[v]), dz[v]);
      const double of_dz = bounds_[k].roundings(z[v], p[v], is_target, tau[v]) +
                           bounds_[k].objective(z[v], p[v], is_target) + divergence.roundings +
                           divergence.objective;
      const double floor = floor_by_x(slope, bounds_[k].row().floor + divergence.floor);
      tau[v] = std::min(kLargestTau, floor + slope * of_dz + of_slope);
      dz[v] *= slope;
      if (!rounding.empty()) rounding[v] *= slope * slope;
    }
  }

 private:
  const Problem& problem_;
  const std::vector<RowTruth>& rows_;
  const ObjectiveTruth& objective_;
  const int serial_adds_;
  std::span<const LogitRoundings> logit_roundings_;
  std::vector<std::int64_t> tokens_;
  std::vector<LogitGradient> gradients_;
  std::vector<GradientBound> bounds_;
};

/// Returns `count` of `from` with even steps, the first and the last among them; all if there are
/// fewer.
std::vector<std::int64_t> evenly_spread(const std::vector<std::int64_t>& from, std::int64_t count) {
  const auto last = static_cast<std::int64_t>(from.size()) - 1;
  if (count > last) return from;
  std::vector<std::int64_t> picked;
  for (std::int64_t i = 0; i < count; ++i) {
    picked.push_back(from[static_cast<std::size_t>(count > 1 ? i * last / (count - 1) : 0)]);
  }
  return picked;
}

/// Returns the number of rows of `size` elements, of `factors` products each, within the limits.
std::int64_t rows_within(const LinearLimits& limits, std::int64_t size, std::int64_t factors) {
  return std::min(limits.products / size / std::max<std::int64_t>(factors, 1),
                  limits.elements / size);
}

std::vector<std::int64_t> weight_ids(const Problem& problem, const std::vector<RowTruth>& rows,
                                     const std::vector<std::int64_t>& tokens, std::int64_t count) {
  const std::int64_t vocab = problem.spec.vocab;
  std::vector<std::int64_t> all(static_cast<std::size_t>(vocab));
  for (std::int64_t v = 0; v < vocab; ++v) all[static_cast<std::size_t>(v)] = v;
  if (count >= vocab) return all;
  std::set<std::int64_t> chosen;
  for (const std::int32_t edge : shard_edge_ids(vocab)) chosen.insert(edge);
  std::set<std::int64_t> targets;
  for (const std::int64_t t : tokens) targets.insert(rows[t].target);
  const auto fill_up = [&](const auto& candidates) {
    std::vector<std::int64_t> others;
    std::set_difference(candidates.begin(), candidates.end(), chosen.begin(), chosen.end(),
                        std::back_inserter(others));
    const auto room = count - static_cast<std::int64_t>(chosen.size());
    for (const std::int64_t id : evenly_spread(others, std::max<std::int64_t>(room, 0))) {
      chosen.insert(id);
    }
  };
  fill_up(targets);
  fill_up(all);
  return {chosen.begin(), chosen.end()};
}

LinearRows empty_rows(const Problem& problem, std::vector<std::int64_t> rows, std::int64_t size,
                      bool rounds_logits) {
  const std::size_t elements = rows.size() * static_cast<std::size_t>(size);
  LinearRows out;
  out.rows = std::move(rows);
  for (std::vector<double>* column : {&out.want, &out.spread, &out.magnitude, &out.radius}) {
    column->assign(elements, 0.0);
  }
  if (problem.spec.dtype == DType::bf16) out.rounded.assign(elements, 0.0);
  if (rounds_logits) out.logit_rounding.assign(elements, 0.0);
  return out;
}

/// Adds the changes of d hidden of the k-th row that takes part by roundings of its logits, where
/// the loss depends on row terms.
void add_changes_by_roundings(const Projection& projection, const GradientReader& reader,
                              std::size_t k, RoundingSums& sums) {
  const std::int64_t token = reader.tokens()[k];
  const LogitGradient& gradient = reader.gradient(k);
  std::vector<double> z(static_cast<std::size_t>(projection.vocab));
  std::vector<double> p(z.size());
  reader.read_row(token, 0, z, p);
  std::vector<double> mean(static_cast<std::size_t>(projection.factors()));  // sum p w
  std::vector<double> centred(mean.size());                                  // sum p s w
  for (std::size_t v = 0; v < z.size(); ++v) {
    const float* w = projection.weight_row(static_cast<std::int64_t>(v));
    const double s = reader.row(token).centred_logprob(z[v], p[v]);
    for (std::size_t h = 0; h < mean.size(); ++h) {
      mean[h] += p[v] * w[h];
      centred[h] += p[v] * s * w[h];
    }
  }
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (p[v] == 0) continue;
    const double e = logit_rounding(z[v]);
    sums.add_change(e * gradient.own_slope(z[v], p[v]),
                    projection.weight_row(static_cast<std::int64_t>(v)), mean,
                    e * gradient.entropy() * p[v], centred);
  }
}

void add_hidden(const Problem& problem, const GradientReader& gradient, int most_threads,
                LinearRows& out) {
  const Projection& projection = *problem.projection;
  const auto vocab = static_cast<std::size_t>(projection.vocab);
  const int threads = threads_for(std::ssize(out.rows) * projection.vocab, most_threads);
  for_each_index(static_cast<std::int64_t>(out.rows.size()), threads, [&](std::int64_t row) {
    const std::vector<std::int64_t>& tokens = gradient.tokens();
    const auto found = std::lower_bound(tokens.begin(), tokens.end(), out.rows[row]);
    std::vector<double> dz(vocab);
    std::vector<double> tau(vocab);
    std::vector<double> rounding(gradient.rounds_logits() ? vocab : 0);
    const auto at = static_cast<std::size_t>(found - tokens.begin());
    gradient.read(GradientReader::For::hidden, at, 0, dz, tau, rounding);
    GradientRowSums sums(projection.factors(), out);
    for (std::size_t v = 0; v < vocab; ++v) {
      sums.add(dz[v], tau[v], projection.weight_row(static_cast<std::int64_t>(v)));
    }
    if (!gradient.gradient(at).logprob_alone()) {
      if (!rounding.empty()) {
        add_changes_by_roundings(projection, gradient, at, sums.roundings());
      }
      sums.write(projection.temperature, static_cast<std::size_t>(row), out,
                 [](std::size_t, double) { return 0.0; });
      return;
    }
    for (std::size_t v = 0; v < rounding.size(); ++v) {
      sums.roundings().add(rounding[v], projection.weight_row(static_cast<std::int64_t>(v)));
    }
    if (problem.untransformed != nullptr) {
      sums.write(projection.temperature, static_cast<std::size_t>(row), out,
                 [](std::size_t, double) { return 0.0; });
      return;
    }
    // sum p w, from d hidden = g (w_y - sum p w).
    const float* target = projection.weight_row(gradient.target(*found));
    const double g = gradient.grad_logprob(*found);
    sums.write(projection.temperature, static_cast<std::size_t>(row), out,
               [&](std::size_t h, double want) { return g == 0 ? 0.0 : target[h] - want / g; });
  });
}

/// The most neighbouring ids whose gradients of logits are read together.
constexpr std::size_t kIdsAtOnce = 16;

/// A run [begin, end) of neighbouring ids in `ids`.
std::vector<std::pair<std::size_t, std::size_t>> runs_of(const std::vector<std::int64_t>& ids) {
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (std::size_t k = 0; k < ids.size(); ++k) {
    const bool follows =
        k > 0 && ids[k] == ids[k - 1] + 1 && runs.back().second - runs.back().first < kIdsAtOnce;
    if (!follows) runs.emplace_back(k, k);
    runs.back().second = k + 1;
  }
  return runs;
}

void add_weight(const Problem& problem, const GradientReader& gradient, int most_threads,
                LinearRows& out) {
  const Projection& projection = *problem.projection;
  const std::vector<std::int64_t>& tokens = gradient.tokens();
  const int threads = threads_for(std::ssize(out.rows) * std::ssize(tokens), most_threads);
  const auto runs = runs_of(out.rows);
  for_each_index(static_cast<std::int64_t>(runs.size()), threads, [&](std::int64_t run) {
    const auto [begin, end] = runs[static_cast<std::size_t>(run)];
    const std::size_t width = end - begin;
    std::vector<double> dz(tokens.size() * width);
    std::vector<double> tau(dz.size());
    std::vector<double> rounding(gradient.rounds_logits() ? dz.size() : 0);
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      gradient.read(
          GradientReader::For::weight, k, out.rows[begin], std::span(dz).subspan(k * width, width),
          std::span(tau).subspan(k * width, width),
          rounding.empty() ? std::span<double>() : std::span(rounding).subspan(k * width, width));
    }
    for (std::size_t id = 0; id < width; ++id) {
      GradientRowSums sums(projection.factors(), out);
      for (std::size_t k = 0; k < tokens.size(); ++k) {
        const float* hidden = projection.hidden_row(problem.whole_row(tokens[k]));
        sums.add(dz[k * width + id], tau[k * width + id], hidden);
        if (!rounding.empty()) sums.roundings().add(rounding[k * width + id], hidden);
      }
      sums.write(projection.temperature, begin + id, out, [](std::size_t, double) { return 0.0; });
    }
  });
}

}  // namespace

std::int64_t LinearRows::find(std::int64_t row) const {
  const auto at = std::lower_bound(rows.begin(), rows.end(), row);
  return at != rows.end() && *at == row ? at - rows.begin() : -1;
}

LinearTruth make_linear_truth(const Problem& problem, const std::vector<RowTruth>& rows,
                              const ObjectiveTruth& objective, int serial_adds, int threads,
                              const LinearLimits& limits,
                              std::span<const LogitRoundings> logit_roundings) {
  const std::int64_t size = problem.projection->factors();
  const std::int64_t vocab = problem.spec.vocab;
  const GradientReader gradient(problem, rows, objective, serial_adds, logit_roundings);
  const bool rounds = gradient.rounds_logits();
  const std::vector<std::int64_t>& tokens = gradient.tokens();
  const auto taking_part = static_cast<std::int64_t>(tokens.size());

  LinearTruth truth;
  truth.size = problem.projection->size;
  truth.factors = size;
  const std::int64_t rows_kept = std::max<std::int64_t>(rows_within(limits, size, vocab), 2);
  const std::int64_t ids_kept = rows_within(limits, size, taking_part);
  truth.hidden = empty_rows(problem, evenly_spread(tokens, rows_kept), size, rounds);
  truth.weight = empty_rows(problem, weight_ids(problem, rows, tokens, ids_kept), size, rounds);
  truth.sampled = static_cast<std::int64_t>(truth.hidden.rows.size()) < taking_part ||
                  static_cast<std::int64_t>(truth.weight.rows.size()) < vocab;
  truth.hidden.terms = problem.spec.vocab;
  truth.weight.terms = static_cast<std::int64_t>(tokens.size());
  add_hidden(problem, gradient, threads, truth.hidden);
  add_weight(problem, gradient, threads, truth.weight);
  return truth;
}

}  // namespace lossgrid
