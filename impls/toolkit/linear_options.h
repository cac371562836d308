// SPDX-License-Identifier: Apache-2.0
// LinearOptions: options of strategies that start from hidden states, and the problems that they
// support with these options.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/device/gemm.h"
#include "harness/loss/loss_implementation.h"
#include "impls/toolkit/strategy.h"

namespace lossgrid {

/// Options of the matrix products of a strategy.
struct LinearOptions {
  bool chunked = false;
  bool tiles = false;  // statistics come from the product itself (kernels/product_rows.h)
  std::int64_t chunk_tokens = 0;                     // 0: the default of the backend
  std::optional<Bf16Gemm> bf16_gemm = std::nullopt;  // nullopt: the faster way, by measurement

  std::int64_t chunk_rows(const LossProblem& problem) const;
  std::int64_t chunks(const LossProblem& problem) const;
  /// Returns the dtype of the factor that is multiplied with the weight, which may be the gradient
  /// of logits.
  DType factor_dtype(const LossProblem& problem) const;
  /// The following functions return the results of LossImplementation::details and unsupported.
  std::map<std::string, std::string> details(const LossProblem& problem) const;
  std::optional<SkipReason> unsupported(const LossProblem& problem) const;
};

/// Reads bf16_gemm=native|converted and, if they are in the strategy's `own` options, chunk_tokens
/// and forward=logits|tiles. The strategy works in chunks if it has chunk_tokens.
LinearOptions read_linear_options(const ImplementationOptions& options,
                                  const std::vector<std::string>& own, const std::string& strategy);

}  // namespace lossgrid
