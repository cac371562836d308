// SPDX-License-Identifier: Apache-2.0
#include "impls/toolkit/linear_options.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/device/backend.h"
#include "impls/kernels/product_rows.h"
#include "impls/toolkit/product_factor.h"

namespace lossgrid {
namespace {

/// Returns the reason why statistics cannot come from the product; nullopt if they can.
std::optional<SkipReason> no_tiles(const LossProblem& problem) {
  if (problem.dtype != DType::bf16) return SkipReason{"forward=tiles is about cases in bf16"};
  if (problem.head.layout != WeightLayout::vocab_hidden) {
    return SkipReason{"forward=tiles is about weights [V, H]"};
  }
  if (problem.head.hidden % kProductSizeMultiple != 0) {
    return SkipReason{
        fmt::format("forward=tiles is about hidden sizes divisible by {}", kProductSizeMultiple)};
  }
  if (problem.head.has_bias) return SkipReason{"forward=tiles has no bias"};
  if (problem.sampling.has_mask) return SkipReason{"forward=tiles has no sampling mask"};
  if (!problem.row_transform().is_identity())
    return SkipReason{"forward=tiles has no transform of rows"};
  for (const RowTerm term : kAllRowTerms) {
    if (problem.returns(term) && term != RowTerm::logsumexp) {
      return SkipReason{fmt::format("forward=tiles has no {}", name(term))};
    }
  }
  return no_product_statistics(problem.backend);
}

std::string rate(double flops) {
  return fmt::format("{:.0f} GFLOP/s", flops * 1e-9);
}

}  // namespace

std::int64_t LinearOptions::chunk_rows(const LossProblem& problem) const {
  const std::int64_t rows = problem.local_rows();
  if (!chunked) return rows;
  if (chunk_tokens > 0) return std::min(chunk_tokens, rows);
  return std::min(default_chunk_rows(problem.backend, problem.width()), rows);
}

std::int64_t LinearOptions::chunks(const LossProblem& problem) const {
  const std::int64_t rows = chunk_rows(problem);
  return rows > 0 ? (problem.local_rows() + rows - 1) / rows : 0;
}

DType LinearOptions::factor_dtype(const LossProblem& problem) const {
  return product_factor_dtype(problem.dtype, problem.backend, bf16_gemm);
}

std::map<std::string, std::string> LinearOptions::details(const LossProblem& problem) const {
  const BackendTraits& traits = traits_of(problem.backend);
  std::map<std::string, std::string> details{{"gemm", traits.gemm_library()}};
  if (!traits.has_bf16_choice || problem.dtype != DType::bf16) return details;
  const Bf16GemmRates& rates = bf16_gemm_rates();
  details["bf16_gemm"] =
      fmt::format("{}{}: native {}, converted to f32 {}",
                  factor_dtype(problem) == DType::bf16 ? "native" : "converted",
                  bf16_gemm ? " (asked for)" : "",
                  rates.native_supported ? rate(rates.native_flops) : "not supported",
                  rate(rates.converted_flops));
  return details;
}

std::optional<SkipReason> LinearOptions::unsupported(const LossProblem& problem) const {
  if (tiles) {
    if (std::optional<SkipReason> reason = no_tiles(problem)) return reason;
  }
  if (!bf16_gemm) return std::nullopt;
  if (problem.dtype != DType::bf16) return SkipReason{"bf16_gemm is about cases in bf16"};
  if (!traits_of(problem.backend).has_bf16_choice) {
    return SkipReason{"bf16_gemm is about processors"};
  }
  if (bf16_gemm == Bf16Gemm::native && !bf16_gemm_rates().native_supported) {
    return SkipReason{"this processor has no native product of bf16 matrices"};
  }
  return std::nullopt;
}

LinearOptions read_linear_options(const ImplementationOptions& options,
                                  const std::vector<std::string>& own,
                                  const std::string& strategy) {
  std::vector<std::string> known = own;
  known.emplace_back("bf16_gemm");
  require_known_options(options, known, strategy);
  LinearOptions read;
  read.chunked = std::find(own.begin(), own.end(), "chunk_tokens") != own.end();
  if (const auto chunk = options.find("chunk_tokens"); chunk != options.end()) {
    read.chunk_tokens =
        parse_integer(chunk->second, strategy + ": chunk_tokens", 1, std::int64_t{1} << 31);
  }
  if (const auto way = options.find("forward"); way != options.end()) {
    if (way->second != "logits" && way->second != "tiles") {
      throw_bad_input("{}: forward = '{}' is neither logits nor tiles", strategy, way->second);
    }
    read.tiles = way->second == "tiles";
  }
  if (const auto way = options.find("bf16_gemm"); way != options.end()) {
    if (way->second != "native" && way->second != "converted") {
      throw_bad_input("{}: bf16_gemm = '{}' is neither native nor converted", strategy,
                      way->second);
    }
    read.bf16_gemm = way->second == "native" ? Bf16Gemm::native : Bf16Gemm::converted;
  }
  return read;
}

}  // namespace lossgrid
