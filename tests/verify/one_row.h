// SPDX-License-Identifier: Apache-2.0
// Problems with given logits, small enough for truths and bounds worked out on paper, and the rule
// by which a bound is sharp.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "harness/loss/registry.h"
#include "harness/verify/checks/shard_checks.h"

namespace lossgrid {

inline constexpr double kRoundoff32 = 0x1p-24;
inline constexpr double kRoundoff16 = 0x1p-8;
inline constexpr double kLn3 = 1.0986122886681098;
inline constexpr std::array<DType, 3> kFloatingDtypes{DType::f32, DType::bf16, DType::f64};

/// Expects a check to pass for an error of 0.9 bounds and to fail for one of 1.5, in both
/// directions. `passes(share)`: for an error of `share` bounds.
inline void expect_sharp(const std::string& what, const std::function<bool(double)>& passes) {
  for (const double sign : {1.0, -1.0}) {
    EXPECT_TRUE(passes(sign * 0.9)) << what << ", " << sign * 0.9 << " bounds";
    EXPECT_FALSE(passes(sign * 1.5)) << what << ", " << sign * 1.5 << " bounds";
  }
}

/// Logits that a test writes down, the same in every row.
class SameLogits final : public LogitsSource {
 public:
  explicit SameLogits(std::vector<double> logits) : logits_(std::move(logits)) {}
  void read(std::int64_t, std::int64_t begin, std::span<double> out) const override {
    std::copy_n(logits_.begin() + begin, out.size(), out.begin());
  }
  void read(std::int64_t, std::int64_t begin, std::span<float> out) const override {
    for (std::size_t k = 0; k < out.size(); ++k) {
      out[k] = static_cast<float>(logits_[static_cast<std::size_t>(begin) + k]);
    }
  }

 private:
  std::vector<double> logits_;
};

/// One sequence of two tokens: row 0 predicts `target`, with the loss -log p. 12 serial additions.
struct OneRow {
  static constexpr int kSerialAdds = 12;

  OneRow(DType dtype, std::vector<double> logits, std::int32_t target, bool is_trained = true)
      : problem(make_problem(parse_case("lens=2 mask=" + std::string(is_trained ? "01" : "10") +
                                        " poison=none vocab=" + std::to_string(logits.size()) +
                                        " dtype=" + std::string(name(dtype))))),
        shard(vocab_shard(static_cast<std::int64_t>(logits.size()), 1, 0)) {
    problem.logits = std::make_shared<const SameLogits>(std::move(logits));
    problem.input_ids[1] = target;
    truth = make_truth(problem, compute_rows(problem, 1), *make_objective({}, false), kSerialAdds);
    places = place_rows(problem, problem.cu_seqlens, std::vector<std::int64_t>{0, 1});
  }

  Problem problem;
  Truth truth;
  VocabShard shard;
  std::vector<RowPlace> places;
};

}  // namespace lossgrid
