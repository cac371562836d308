// SPDX-License-Identifier: Apache-2.0
// Terms of an objective: its code for one token, shared by its loops on the host and its kernels,
// as a struct of plain data and portable code (harness/device/kernel/portable.h):
//
//   static constexpr int kSequenceSums, kSums, kMaxima;  // at most; all of ObjectiveSizes
//   static constexpr bool kHasGradient;
//   // Adds a valid token to the sums of its sequence.
//   void add_to_sequence(const ObjectiveTokens&, std::int64_t t, double* sums) const;
//   // Adds any token to the totals. Returns d loss / d numbers, 0 where it is not valid.
//   TokenGradient add_token(const ObjectiveTokens&, std::int64_t t, SequenceTable<const double>,
//                           double* sums, double* maxima) const;
//
// Objective::kernels returns terms_kernels(terms); impls/kernels/cuda/cuda_objectives.cu names the
// struct for GPUs.
#pragma once

#include <memory>

#include "harness/device/kernel/launch.h"
#include "harness/loss/objective_kernels-inl.h"
#include "harness/loss/objective_kernels.h"

namespace lossgrid {

/// Runs Objective::sequence_sums on the host.
template <class Terms>
void add_sequence_sums(const Terms& terms, const ObjectiveTokens& tokens,
                       SequenceTable<double> sums) {
  if (sums.columns == 0) return;
  for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
    if (tokens.valid[t] == 0) continue;
    terms.add_to_sequence(tokens, static_cast<std::int64_t>(t), &sums.at(tokens.sequence[t], 0));
  }
}

/// Runs Objective::token_terms on the host.
template <class Terms>
void add_token_terms(const Terms& terms, const ObjectiveTokens& tokens,
                     SequenceTable<const double> coefficients, double* sums, double* maxima,
                     const TokenGradients& gradients) {
  for (std::size_t t = 0; t < tokens.valid.size(); ++t) {
    [[maybe_unused]] const TokenGradient gradient =
        terms.add_token(tokens, static_cast<std::int64_t>(t), coefficients, sums, maxima);
    if constexpr (Terms::kHasGradient) gradients.add(t, gradient);
  }
}

template <class Terms>
class TermsKernels final : public ObjectiveKernels {
 public:
  explicit TermsKernels(const Terms& terms) : terms_(terms) {}

  void sequence_sums(Device& device, const ObjectiveTokens& tokens,
                     SequenceTable<double> sums) const override {
    if (sums.columns == 0) return;
    launch_kernels(device, LaunchSequenceSums<Terms>{terms_, tokens, sums});
  }

  void token_terms(Device& device, const ObjectiveTokens& tokens,
                   SequenceTable<const double> coefficients, ObjectiveTotals<double> totals,
                   const TokenGradients& gradients, double* partial_totals) const override {
    if (totals.sums.size() != Terms::kSums || totals.maxima.size() != Terms::kMaxima) {
      throw Error(
          ErrorCode::internal,
          fmt::format("totals of {} sums and {} maxima for terms of {} and {}", totals.sums.size(),
                      totals.maxima.size(), Terms::kSums, Terms::kMaxima));
    }
    const auto blocks = partial_total_blocks(static_cast<std::int64_t>(tokens.valid.size()));
    if (blocks == 0) return;
    using Launch = LaunchTokenTerms<Terms>;
    if (Launch::kHasTotals) count_launch();
    launch_kernels(device,
                   Launch{terms_, tokens, coefficients, totals, gradients, blocks, partial_totals});
  }

 private:
  Terms terms_;
};

/// Returns the kernels of `terms`; null on the processor, and on GPUs if no .cu file names them.
template <class Terms>
std::unique_ptr<ObjectiveKernels> terms_kernels(Backend backend, const Terms& terms) {
  const bool has_kernels =
      backend == Backend::cuda_emulated ||
      (backend == Backend::cuda && cuda_launch<LaunchTokenTerms<Terms>> != nullptr);
  return has_kernels ? std::make_unique<TermsKernels<Terms>>(terms) : nullptr;
}

}  // namespace lossgrid
