// SPDX-License-Identifier: Apache-2.0
#include "impls/mutants/mutant.h"

#include "harness/core/error.h"

namespace lossgrid {
namespace {

/// Returns the reason for which a mutant that would change nothing does not run.
SkipReason nothing_to_change_in(std::string_view part) {
  return {fmt::format("nothing to change in {}", part), /*is_always_right=*/true};
}

LogitTransform altered_transform(const MutantOf& mutant, const LossProblem& original) {
  LogitTransform transform = original.transform;
  if (mutant.transform != nullptr) mutant.transform(transform);
  return transform;
}

Teacher altered_teacher(const MutantOf& mutant, const LossProblem& original) {
  Teacher teacher = original.teacher;
  if (mutant.teacher != nullptr && original.has_teacher()) mutant.teacher(teacher, original);
  return teacher;
}

/// `AlteredProblem`: a problem with another batch, map of logits, teacher or objective.
class AlteredProblem {
 public:
  AlteredProblem(const MutantOf& mutant, const LossProblem& original)
      : batch_(original.batch), objective_(altered_objective(mutant, original)) {
    if (mutant.batch != nullptr) mutant.batch(batch_);
    const Objective& objective = objective_ ? *objective_ : original.objective;
    problem_ = std::make_unique<LossProblem>(LossProblem{
        batch_, original.vocab, original.dtype, original.grid, objective, original.objective_spec,
        original.head, original.backend, altered_transform(mutant, original),
        altered_teacher(mutant, original), original.sampling});
  }
  AlteredProblem(const AlteredProblem&) = delete;
  AlteredProblem& operator=(const AlteredProblem&) = delete;

  const LossProblem& problem() const { return *problem_; }

  /// Returns null if the objective stays or the mutant has nothing to change in it.
  static std::unique_ptr<Objective> altered_objective(const MutantOf& mutant,
                                                      const LossProblem& original) {
    if (mutant.objective == nullptr) return nullptr;
    std::unique_ptr<Objective> objective = mutant.objective(original.objective_spec);
    if (objective == nullptr) return nullptr;
    // An objective may read the numbers of predictions without reporting them.
    const bool reports = original.predictions() && !objective->needs().predictions;
    if (reports) objective = with_predictions(std::move(objective));
    return original.row_statistics() ? with_statistics(std::move(objective)) : std::move(objective);
  }

 private:
  PackedBatch batch_;
  std::unique_ptr<Objective> objective_;
  std::unique_ptr<LossProblem> problem_;
};

class AlteredPlan final : public LossPlan {
 public:
  AlteredPlan(std::unique_ptr<AlteredProblem> altered, std::unique_ptr<Communicator> cp,
              const LossImplementation& inner, RankContext context)
      : altered_(std::move(altered)),
        cp_(std::move(cp)),
        inner_(inner.plan(altered_->problem(), context)) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    inner_->forward(inputs, outputs);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    inner_->backward(inputs, gradients);
  }
  void forward_backward(const LossInputs& inputs, LossOutputs& outputs,
                        LossGradients& gradients) override {
    inner_->forward_backward(inputs, outputs, gradients);
  }

 private:
  std::unique_ptr<AlteredProblem> altered_;
  std::unique_ptr<Communicator> cp_;  // another group than that of the pack, or null
  std::unique_ptr<LossPlan> inner_;
};

/// `Altered`: a strategy that is given another batch, map of logits, teacher or objective than the
/// harness checks it with, that does more than its cost declares, or that refuses what it could do.
class Altered final : public LossImplementation {
 public:
  Altered(const MutantOf& mutant, std::unique_ptr<LossImplementation> inner)
      : mutant_(mutant), inner_(std::move(inner)) {}

  ImplementationTraits describe() const override {
    ImplementationTraits traits = inner_->describe();
    if (mutant_.declare != nullptr) mutant_.declare(traits);
    return traits;
  }

  DType grad_logits_dtype(const LossProblem& problem) const override {
    return mutant_.declares_grad_logits ? problem.dtype : inner_->grad_logits_dtype(problem);
  }

  std::optional<SkipReason> unsupported(const LossProblem& problem) const override {
    if (mutant_.runs_on != nullptr && !mutant_.runs_on(problem)) {
      return nothing_to_change_in("this problem");
    }
    if (mutant_.transform != nullptr && altered_transform(mutant_, problem) == problem.transform) {
      return nothing_to_change_in("this map of logits");
    }
    if (mutant_.teacher != nullptr && altered_teacher(mutant_, problem) == problem.teacher) {
      return nothing_to_change_in("this teacher");
    }
    if (mutant_.objective != nullptr &&
        AlteredProblem::altered_objective(mutant_, problem) == nullptr) {
      return nothing_to_change_in(problem.objective.kind());
    }
    if (mutant_.unsupported != nullptr) {
      if (auto reason = mutant_.unsupported(problem)) return reason;
    }
    return inner_->unsupported(problem);
  }

  Cost cost(const LossProblem& problem) const override {
    return inner_->cost(AlteredProblem(mutant_, problem).problem());
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    std::unique_ptr<Communicator> cp;
    if (mutant_.cp_group != nullptr) cp = mutant_.cp_group(problem, context);
    const RankContext given{context.device, context.tp, cp ? *cp : context.cp, context.stage,
                            context.timed};
    std::unique_ptr<LossPlan> plan = std::make_unique<AlteredPlan>(
        std::make_unique<AlteredProblem>(mutant_, problem), std::move(cp), *inner_, given);
    return mutant_.plan == nullptr ? std::move(plan)
                                   : mutant_.plan(problem, context, std::move(plan));
  }

 private:
  const MutantOf mutant_;
  std::unique_ptr<LossImplementation> inner_;
};

/// Returns the strategy with its options, "linear_ce:chunk_tokens=3".
std::string unchanged_text(const MutantOf& changed) {
  std::string text = changed.strategy;
  for (const auto& [option, value] : changed.options) text += fmt::format(":{}={}", option, value);
  return text;
}

void register_changed(const MutantOf& changed, ImplementationKind kind, const char* prefix) {
  ImplementationEntry entry;
  entry.name = std::string(prefix) + changed.name;
  entry.kind = kind;
  entry.catalogue_id = changed.catalogue_id;
  entry.what = fmt::format("{}: {}", changed.strategy, changed.what);
  entry.seen_in = changed.seen_in;
  entry.rejected_by = changed.rejected_by;
  entry.unchanged = unchanged_text(changed);
  entry.backend = changed.backend;
  entry.make = [changed, name = entry.name](
                   const ImplementationOptions& options) -> std::unique_ptr<LossImplementation> {
    require_known_options(options, {}, name);
    Steps steps;
    changed.change(steps);
    auto strategy = make_strategy(changed.strategy, steps, changed.options);
    const bool only_steps = changed.batch == nullptr && changed.transform == nullptr &&
                            changed.teacher == nullptr && changed.objective == nullptr &&
                            changed.plan == nullptr && changed.unsupported == nullptr &&
                            changed.runs_on == nullptr && changed.declare == nullptr &&
                            changed.cp_group == nullptr && !changed.declares_grad_logits;
    if (only_steps) return strategy;
    return std::make_unique<Altered>(changed, std::move(strategy));
  };
  register_implementation(std::move(entry));
}

}  // namespace

RegisteredMutant::RegisteredMutant(const MutantOf& mutant) {
  register_changed(mutant, ImplementationKind::mutant, "mutant/");
}

RegisteredControl::RegisteredControl(const MutantOf& control) {
  register_changed(control, ImplementationKind::control, "control/");
}

}  // namespace lossgrid
