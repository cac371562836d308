// SPDX-License-Identifier: Apache-2.0
// Comparison of the gradients of hidden states, weight and bias with their truth, element by
// element within linear_bounds.h, and all elements together:
//   l2: consecutive blocks of up to 64 rows, |error|_2 <= |independent|_2 + |common|_2 of the
//     bound's lines with K = 1, because independent roundings are not at their largest everywhere;
//   bias: a scale error that no single element shows (check_bias). The baseline is the truth of
//     dz, rounded first where dz enters in bf16, then to the dtype of the gradient. Roundings of
//     dz and of products are independent between elements. The larger of `radius` and the bound's
//     floor is shared and adds up: all elements under the floor may vanish.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "harness/problem/batch/sharding.h"
#include "harness/verify/checks/check.h"
#include "harness/verify/checks/row_places.h"
#include "harness/verify/checks/shard_checks.h"
#include "harness/verify/truth/declared_roundings.h"
#include "harness/verify/truth/linear_truth.h"

namespace lossgrid {

struct LinearFindings {
  explicit LinearFindings(const std::string& name = "") : elements(name), l2(name + "_l2") {}

  /// Adds the findings about other elements of the same gradient (other ranks or packs). REQUIRES:
  /// no element is in both findings, since its errors would not be independent.
  void add(const LinearFindings& other);

  Check elements;  // "grad_hidden", "grad_weight" or "grad_bias"
  Check l2;        // "grad_hidden_l2", ...
  FailedElements failed;
  BiasSums bias;
  double error_squared = 0;         // squared error of all compared elements
  double want_squared = 0;          // squared truth of all compared elements
  std::int64_t not_written = 0;     // elements that still hold the poison pattern
  std::int64_t nonzero_masked = 0;  // nonzero elements in rows that take no part in the loss
  ElementPlace first_misplaced;     // first element in either count
};

/// Compares `got` [places.size(), H] in the problem's dtype: d hidden of the rows at `places`,
/// which this rank holds. `grad_logits` is the dtype in which d logits entered the products. Rows
/// outside of a sampled truth are only searched for misplaced elements. `problem` may be a part,
/// with its own truth (take_part).
LinearFindings check_grad_hidden(const Problem& problem, const Truth& truth,
                                 std::span<const RowPlace> places, const void* got,
                                 DType grad_logits, std::int64_t rank);

/// Compares `got` [ids, factors]: rows of the gradient of the weight and, with a bias, the gradient
/// of the bias as last column. They are summed in float64 over CP and DP ranks, for the ids of
/// truth.linear->weight.rows that are in `shard`, in their order. `before` [ids, factors] holds the
/// rows of the buffers before the run. Throws internal for other sizes.
LinearFindings check_grad_weight(const Problem& problem, const Truth& truth,
                                 const VocabShard& shard, std::span<const double> got,
                                 std::span<const double> before, const DeclaredRoundings& declared,
                                 std::int64_t rank);

/// Compares the last column of the same arrays, the gradient of the bias.
LinearFindings check_grad_bias(const Problem& problem, const Truth& truth, const VocabShard& shard,
                               std::span<const double> got, std::span<const double> before,
                               const DeclaredRoundings& declared, std::int64_t rank);

}  // namespace lossgrid
