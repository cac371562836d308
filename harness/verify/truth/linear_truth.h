// SPDX-License-Identifier: Apache-2.0
// The float64 truth of the gradients of hidden states x and of the lm_head weight w, for problems
// that start from them (projection.h), with the numbers of their bounds (linear_bounds.h). A bias
// is one more column of w, whose x is 1: the last of d weight is d bias, that of d hidden nothing.
// clang-format off
//   z = x w^T / temperature,  dz_tv = g_t ([v = y_t] - p_tv)
//   d hidden[t] = sum_v dz_tv w_v / temperature,  d weight[v] = sum_t dz_tv x_t / temperature
// clang-format on
// over the rows t that take part in the loss. `tau_tv` is the bound of the error of dz_tv in
// float32: of its computation (bounds.h, errors of the logits included) and of the interval of g_t.
//
// Rounding of logits, of each by up to e, changes dz_tv by g_t p_tv (sum_k p_tk e_tk - e_tv).
// Roundings are independent, so that their squares are added up:
// clang-format off
//   d hidden[t]: sum_k (g_t p_tk e_tk)^2 (w_k - sum_v p_tv w_v)^2
//   d weight[v]: sum_t (g_t p_tv)^2 ((1 - 2 p_tv) e_tv^2 + sum_k (p_tk e_tk)^2) x_t^2
// clang-format on
// Where the loss depends on row terms, dz and its derivative J are those of logit_gradient.h:
// clang-format off
//   d hidden[t]: sum_k e_tk^2 (t_tk (w_k - sum_v p_tv w_v) + h_t p_tk sum_v p_tv s_tv w_v)^2
//   d weight[v]: sum_t sum_k (J_tvk e_tk)^2 x_t^2
// clang-format on
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "harness/problem/batch/problem.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

/// Rows of a gradient, element by element [rows, factors]; a product is dz w / temperature, or dz
/// x.
struct LinearRows {
  std::int64_t terms = 0;          // products that an element is the sum of
  std::vector<std::int64_t> rows;  // token rows of the whole batch, or vocab ids; ascending
  std::vector<double> want;        // sum of products
  std::vector<double> spread;      // root of the sum of their squares
  std::vector<double> magnitude;   // sum of their absolute values
  std::vector<double> radius;      // the same with tau instead of |dz|
  // `want` with every dz rounded to bf16, to nearest; empty unless the problem's dtype is bf16.
  std::vector<double> rounded;
  // Root of the sum of squares of the changes by rounding of every logit; empty unless that is
  // declared.
  std::vector<double> logit_rounding;

  /// Returns the place of a token row or vocab id among `rows`, -1 if it is not there.
  std::int64_t find(std::int64_t row) const;
};

struct LinearTruth {
  std::int64_t size = 0;     // H
  std::int64_t factors = 0;  // elements of a row: H, and with a bias one more
  LinearRows hidden;         // rows that take part in the loss: the others have the gradient 0
  LinearRows weight;
  bool sampled = false;  // true if rows or ids are missing

  bool has_bias() const { return factors > size; }
};

/// Limits of the truth of each of the two gradients: products, and elements that are kept.
struct LinearLimits {
  std::int64_t products = std::int64_t{1} << 32;
  std::int64_t elements = std::int64_t{1} << 24;
};

inline constexpr LinearLimits kNoLimits{std::numeric_limits<std::int64_t>::max(),
                                        std::numeric_limits<std::int64_t>::max()};

/// Returns the truth of both gradients. With R rows that take part in the loss, all rows are there
/// if R V H and R H are within the limits, and all ids if R V H and V H are. Otherwise there are as
/// many as the limits allow:
///   rows: evenly spread, among them the first and the last (two at least);
///   ids: the edges of shards (shard_edge_ids, whatever the limits), then targets of rows that take
///   part, evenly spread if there is not room for all, then evenly spread others.
/// `serial_adds` as in bounds.h. `logit_roundings` [T]: of every row, of logits that
/// are declared to be rounded (logit_rounding), or empty. The result does not depend on `threads`.
LinearTruth make_linear_truth(const Problem& problem, const std::vector<RowTruth>& rows,
                              const ObjectiveTruth& objective, int serial_adds, int threads,
                              const LinearLimits& limits = {},
                              std::span<const LogitRoundings> logit_roundings = {});

}  // namespace lossgrid
