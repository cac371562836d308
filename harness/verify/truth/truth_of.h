// SPDX-License-Identifier: Apache-2.0
// `TruthOf`: an objective with another truth, for make_truth alone: loss and gradients as a mistake
// makes them. Nothing runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "harness/core/error.h"
#include "harness/loss/objective.h"

namespace lossgrid {

class TruthOf final : public Objective {
 public:
  using Function =
      std::function<ObjectiveTruth(const PackedBatch& batch, std::span<const TokenTruth> rows)>;

  TruthOf(const Objective& like, Function truth)
      : Objective(like.needs()),
        kind_(like.kind()),
        draw_(like.input_draw()),
        truth_(std::move(truth)) {}

  std::string_view kind() const override { return kind_; }
  ObjectiveSizes sizes() const override { return {}; }
  std::shared_ptr<const InputDraw> input_draw() const override { return draw_; }
  void token_terms(const ObjectiveTokens&, const PackedBatch&, SequenceTable<const double>,
                   ObjectiveTotals<double>, const TokenGradients&) const override {
    throw Error(ErrorCode::internal, "a truth alone runs nowhere");
  }
  ObjectiveResult finish(const PackedBatch&, SequenceTable<const double>,
                         SequenceTable<const double>,
                         ObjectiveTotals<const double>) const override {
    throw Error(ErrorCode::internal, "a truth alone runs nowhere");
  }
  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    return truth_(batch, rows);
  }

 private:
  std::string kind_;
  std::shared_ptr<const InputDraw> draw_;
  Function truth_;
};

/// Tokens [T] that are trained on together, if their masks allow it, and the weight of their loss.
struct WeighedPart {
  std::vector<std::uint8_t> tokens;
  double weight = 1;
};

/// Returns the sum over parts of their weight times the loss of `objective` on each alone, with
/// denominators counted on it.
std::shared_ptr<const Objective> sum_of_parts(const std::shared_ptr<const Objective>& objective,
                                              std::vector<WeighedPart> parts);

/// Returns the sum of both.
std::shared_ptr<const Objective> sum_of(const std::shared_ptr<const Objective>& objective,
                                        const std::shared_ptr<const Objective>& added);

/// Returns `objective` on a batch with the masks `token_mask` [T], in which change(truth) changes
/// d loss / d numbers.
std::shared_ptr<const Objective> with_changed_gradient(
    const std::shared_ptr<const Objective>& objective, std::vector<std::uint8_t> token_mask,
    std::function<void(ObjectiveTruth& truth)> change);

}  // namespace lossgrid
