// SPDX-License-Identifier: Apache-2.0
// probe/slowed:percent=P: a right implementation that is slower by a known part, to show that
// `lossgrid ab` sees it. Every phase of fused takes P % longer, by keeping the core busy for that
// part of the time that this very phase took; so the ratio of times is known on any machine.
#include <utility>

#include "harness/core/clock.h"
#include "harness/core/error.h"
#include "harness/core/text.h"
#include "impls/toolkit/strategy.h"

namespace lossgrid {
namespace {

constexpr const char* kName = "probe/slowed";
constexpr std::int64_t kMostPercent = 1000;

class SlowedPlan final : public LossPlan {
 public:
  SlowedPlan(std::unique_ptr<LossPlan> right, std::int64_t percent)
      : right_(std::move(right)), percent_(percent) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    slowed([&] { right_->forward(inputs, outputs); });
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    slowed([&] { right_->backward(inputs, gradients); });
  }

 private:
  template <typename F>
  void slowed(F&& run) const {
    const std::int64_t start = steady_clock_ns();
    run();
    const std::int64_t end = steady_clock_ns();
    const std::int64_t until = end + (end - start) * percent_ / 100;
    while (steady_clock_ns() < until) {
    }
  }

  std::unique_ptr<LossPlan> right_;
  std::int64_t percent_;
};

class Slowed final : public LossImplementation {
 public:
  explicit Slowed(const ImplementationOptions& options) : right_(make_implementation("fused")) {
    require_known_options(options, {"percent"}, kName);
    const auto percent = options.find("percent");
    if (percent == options.end()) throw_bad_input("{} needs percent=P", kName);
    percent_ = parse_integer(percent->second, std::string(kName) + ": percent", 0, kMostPercent);
  }

  ImplementationTraits describe() const override { return right_->describe(); }
  std::optional<SkipReason> unsupported(const LossProblem& problem) const override {
    return right_->unsupported(problem);
  }
  Cost cost(const LossProblem& problem) const override { return right_->cost(problem); }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<SlowedPlan>(right_->plan(problem, context), percent_);
  }

 private:
  std::unique_ptr<LossImplementation> right_;
  std::int64_t percent_ = 0;
};

const Registered registered_slowed{ImplementationEntry{
    kName, ImplementationKind::probe, "", "fused: every phase takes percent=P % longer",
    [](const ImplementationOptions& options) { return std::make_unique<Slowed>(options); }}};

}  // namespace
}  // namespace lossgrid
