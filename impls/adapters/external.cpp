// SPDX-License-Identifier: Apache-2.0
// External implementations: a function in Python or a shared library, in a worker process of the
// rank or in this process, which gets views of this rank's tensors and returns log-probabilities or
// a loss (python/PROTOCOL.md). Log-probabilities and entropies go through the objective on this
// side, as with built-in strategies, and the function's backward gets d loss / d each of these
// numbers. A loss is returned as its value and its gradient.
#include <algorithm>

#include "harness/core/error.h"
#include "harness/device/memory/host_view.h"
#include "harness/external/external_implementation.h"
#include "harness/external/measured_json.h"
#include "harness/external/problem_json.h"
#include "harness/external/shared_arrays.h"
#include "harness/loss/declared_conventions.h"
#include "harness/loss/foreign_plan.h"
#include "impls/adapters/external_returned.h"
#include "impls/adapters/external_takes.h"
#include "impls/toolkit/objective_pass.h"
#include "impls/toolkit/strategy.h"

namespace lossgrid {
namespace {

/// Returns the declared factor by which loss and gradient are too large.
double declared_scale(const ExternalDeclaration& declaration, const LossProblem& problem) {
  return declaration.scale.value(
      {problem.grid.dp, problem.grid.cp, problem.batch.microbatch.count});
}

constexpr const char* kTakesBigrams =
    "an engine takes bigram models: cases with hidden_values=one_hot";

constexpr const char* kEntropyWithoutGraph =
    "the loss depends on the entropy, which is returned without a graph (requires_grad is False)";

class ExternalPlan final : public LossPlan, public ForeignPlan {
 public:
  ExternalPlan(const LossProblem& problem, RankContext context,
               const ExternalDeclaration& declaration, const nlohmann::json& options,
               ExternalRuntime& runtime, const Outputs& given)
      : given_(given),
        problem_(problem),
        context_(context),
        declaration_(declaration),
        runtime_(runtime),
        pack_(shift_targets(problem.batch)),
        positions_(cp_rows(problem.batch, problem.grid.cp, context.cp.rank())),
        rows_(declaration.rows == LogprobScope::pack ? pack_ : pack_.gather(positions_)),
        table_(context.device, rows_, problem),
        grad_(context.device, problem, out_rows()),
        objective_(context.device, problem, Steps()),
        own_ids_(vocab_shard(problem.vocab, problem.grid.tp, context.tp.rank()).valid()),
        arrays_(problem, declaration, pack_, positions_, out_rows(), own_ids_) {
    // First, so that no worker has a request yet if it fails on one rank.
    if (declaration.has_cost && context.observed && !context.timed) {
      predicted_ = runtime.cost(declaration.name, options,
                                problem_json(problem, context.tp.rank(), context.cp.rank()));
    }
    session_ = runtime.begin(context, {declaration.name, options, problem_json(problem), arrays_});
  }

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    write_inputs(inputs);
    nlohmann::json request = call("forward");
    request["grad"] = true;
    if (context_.walk_bytes > 0) request["walk_bytes"] = context_.walk_bytes;
    request["change"] = change();
    const nlohmann::json answer = ask(request, "forward");
    take_measurement(answer, "forward");
    if (declaration_.is_engine) step_ = step_report(answer, problem_.head.hidden * own_ids_);
    measured_->predicted = predicted_.forward;
    if (is_traced()) trained_ = returned_numbers(declaration_, arrays_, answer);
    require_graphs(answer);
    if (declaration_.returns_logprobs) {
      read_tokens(outputs.tokens);
      outputs.result = objective(outputs.tokens);
      given_.keep_given(outputs.result.metrics);
    } else {
      outputs.result = whole_loss(answer);
    }
  }

  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    if (!declaration_.is_engine) run_backward(context_.walk_bytes);
    finish_backward(inputs, gradients);
  }

  void forward_backward(const LossInputs& inputs, LossOutputs& outputs,
                        LossGradients& gradients) override {
    forward(inputs, outputs);
    if (declaration_.is_engine) return backward(inputs, gradients);
    const PhaseMeasurement forward = *measured_;
    run_backward(0);  // caches hold the data of the forward
    finish_backward(inputs, gradients);
    measured_->time_ns += forward.time_ns;
    measured_->peak_bytes = std::max(measured_->peak_bytes, forward.peak_bytes);
    measured_->calls.insert(measured_->calls.end(), forward.calls.begin(), forward.calls.end());
    measured_->changed_inputs.insert(measured_->changed_inputs.end(),
                                     forward.changed_inputs.begin(), forward.changed_inputs.end());
  }

  std::optional<PhaseMeasurement> measured() const override { return measured_; }
  std::optional<std::string> end() override { return session_->end(); }
  const std::vector<std::string>& broken_guards() const override { return broken_guards_; }
  const StepReport& step() const override { return step_; }

 private:
  std::int64_t out_rows() const { return static_cast<std::int64_t>(rows_.rows()); }

  /// Returns the factor of upstream gradients that cancels the declared factor.
  double upstream_factor() const {
    const double gather = declaration_.gradient_summed_over_cp ? problem_.grid.cp : 1;
    return 1 / (gather * declared_scale(declaration_, problem_));
  }

  bool is_traced() const { return traced_ && context_.observed && !context_.timed; }

  void run_backward(std::int64_t walk_bytes) {
    nlohmann::json request = call("backward");
    if (walk_bytes > 0) request["walk_bytes"] = walk_bytes;
    if (!declaration_.returns_logprobs) {
      request["loss_gradient"] = upstream_factor();
    } else {
      write_upstream();
    }
    take_measurement(ask(request, "backward"), "backward");
    measured_->predicted = predicted_.backward;
  }

  void finish_backward(const LossInputs& inputs, LossGradients& gradients) {
    read_gradients(gradients);
    if (is_traced()) {
      measured_->evaluation = difference_of_evaluation(evaluate(inputs), trained_);
    }
    traced_ = false;  // traced once only
  }

  /// Throws if the loss depends on an entropy that cannot pass on a gradient.
  void require_graphs(const nlohmann::json& answer) {
    const auto names = answer.value("without_graph", std::vector<std::string>());
    if (std::find(names.begin(), names.end(), "entropy") == names.end()) return;
    runtime_.learned_calls().see_entropy_without_graph(declaration_.name);
    if (needs_entropy_gradient()) throw Error(ErrorCode::unsupported, kEntropyWithoutGraph);
  }

  /// Returns the outputs of an evaluation, without gradients.
  ReturnedNumbers evaluate(const LossInputs& inputs) {
    write_inputs(inputs);
    nlohmann::json request = call("forward");
    request["trace"] = request["memory"] = request["grad"] = false;
    request["change"] = change();
    return returned_numbers(declaration_, arrays_, ask(request, "evaluation"));
  }

  /// Sends a request and keeps its measurement: the common part of forward and backward.
  nlohmann::json call(const char* op) const {
    return {{"op", op},
            {"trace", is_traced()},
            {"memory", is_traced()},
            {"barrier", context_.timed},
            {"protect", false}};
  }

  nlohmann::json ask(const nlohmann::json& request, const char* what) {
    return session_->ask(request, fmt::format("{} of '{}'", what, declaration_.name));
  }

  void write_inputs(const LossInputs& inputs) {
    arrays_.write_inputs(context_.device, inputs);
    if (declaration_.is_engine && !arrays_.holds_ids()) {
      throw Error(ErrorCode::unsupported, kTakesBigrams);
    }
  }

  /// Applies the change of a mutant on this grid.
  nlohmann::json change() const {
    nlohmann::json change = declaration_.change;
    if (!change.is_object()) return change;
    const nlohmann::json factor = change.value("factor", nlohmann::json());
    if (factor == "cp") change["factor"] = problem_.grid.cp;
    if (factor == "dp*cp") change["factor"] = problem_.grid.line();
    return change;
  }

  void take_measurement(const nlohmann::json& answer, const char* phase) {
    measured_ = phase_measurement(answer);
    const std::vector<std::string> changed = arrays_.changed();
    measured_->changed_inputs.insert(measured_->changed_inputs.end(), changed.begin(),
                                     changed.end());
    for (const nlohmann::json& name : answer.value("beyond", nlohmann::json::array())) {
      const std::string tensor = name;
      const bool is_new =
          std::find(broken_guards_.begin(), broken_guards_.end(), tensor) == broken_guards_.end();
      if (is_new) broken_guards_.push_back(tensor);
    }
    runtime_.learned_calls().see(declaration_.name, phase, calls_in(answer));
  }

  void read_tokens(TokenOutputs& tokens) {
    context_.device.synchronise();  // a kernel of the objective may still read the memory
    copy_column("out.logprobs", tokens.logprobs);
    // Metrics that would be made of zeros are left out (ImplementationTraits::outputs).
    for (const std::span<float> column : tokens.terms) {
      std::fill(column.begin(), column.end(), 0.0f);
    }
    if (declaration_.returns_entropy && problem_.returns(RowTerm::entropy)) {
      copy_column("out.entropy", tokens.terms[RowTerm::entropy]);
    }
  }

  void copy_column(const char* name, std::span<float> to) const {
    std::copy_n(arrays_.array<float>(name).begin(), rows_.rows(), to.begin());
  }

  ObjectiveResult objective(const TokenOutputs& outputs) {
    const ObjectiveTokens tokens = table_.tokens(outputs, 0, table_.rows());
    return declaration_.rows == LogprobScope::pack
               ? objective_.run(tokens, grad_.all())
               : objective_.run_local(context_.cp, tokens, grad_.all());
  }

  /// A loss is for the whole pack on every rank. An engine's loss is for the whole batch, while the
  /// harness adds losses over dp ranks.
  ObjectiveResult whole_loss(const nlohmann::json& answer) {
    ObjectiveResult result;
    result.loss = loss_in(answer) / declared_scale(declaration_, problem_);
    if (declaration_.is_engine) result.loss /= problem_.grid.dp;
    return result;
  }

  void write_upstream() {
    context_.device.synchronise();  // kernels of the objective write grad_
    write_upstream("upstream.logprobs", grad_.all().logprob);
    // The gradient of the entropy stays 0 if the loss has no entropy.
    if (needs_entropy_gradient()) {
      write_upstream("upstream.entropy", grad_.all().terms[RowTerm::entropy]);
    }
  }

  void write_upstream(const char* name, std::span<const float> gradient) {
    const auto factor = static_cast<float>(upstream_factor());
    const std::span<float> upstream = arrays_.array<float>(name);
    for (std::size_t k = 0; k < rows_.rows(); ++k) {
      upstream[k] = rows_.valid[k] ? gradient[k] * factor : 0;
    }
  }

  bool needs_entropy_gradient() const {
    return declaration_.returns_entropy && problem_.terms().has(RowTerm::entropy);
  }

  void read_gradients(LossGradients& gradients) {
    Device& device = context_.device;
    if (!problem_.from_hidden()) {
      device.copy(gradients.logits, arrays_.at("grad.logits"),
                  static_cast<std::size_t>(problem_.logits_bytes()));
      return;
    }
    if (!declaration_.is_engine) {
      device.copy(gradients.hidden, arrays_.at("grad.hidden"),
                  static_cast<std::size_t>(problem_.hidden_bytes()));
    }
    add_gradient("grad.weight", gradients.weight);
    if (problem_.head.has_bias) add_gradient("grad.bias", gradients.bias);
  }

  /// Adds a gradient of the LM head without the declared extra factor.
  void add_gradient(const char* name, float* out) {
    const std::span<const float> gradient = arrays_.array<float>(name);
    const HostView view(context_.device, out, gradient.size_bytes());
    const std::span<float> sum = view.as<float>();
    const auto share = static_cast<float>(weight_share());
    for (std::size_t k = 0; k < gradient.size(); ++k) sum[k] += gradient[k] * share;
    view.write_back();
  }

  /// Returns the factor of the weight's gradient: an engine has differentiated its scaled loss
  /// itself.
  double weight_share() const {
    return declaration_.is_engine ? 1 / declared_scale(declaration_, problem_) : 1;
  }

  const Outputs given_;
  const LossProblem& problem_;
  RankContext context_;
  const ExternalDeclaration& declaration_;
  ExternalRuntime& runtime_;
  ShiftedBatch pack_;
  std::vector<std::int64_t> positions_;
  ShiftedBatch rows_;  // rows of the outputs
  RowTable table_;
  GradientTable grad_;
  ObjectivePass objective_;
  const std::int64_t own_ids_;  // columns without padding columns
  SharedArrays arrays_;
  std::unique_ptr<ExternalSession> session_;  // destroyed before the arrays
  std::vector<std::string> broken_guards_;
  StepReport step_;
  bool traced_ = true;       // true while collectives and memory are recorded
  ReturnedNumbers trained_;  // numbers of the traced forward
  std::optional<PhaseMeasurement> measured_;
  DeclaredCost predicted_;  // prediction for this rank
};

class External final : public LossImplementation, public DeclaresConventions {
 public:
  External(ExternalDeclaration declaration, const ImplementationOptions& options,
           std::shared_ptr<ExternalRuntime> runtime)
      : declaration_(std::move(declaration)),
        options_(typed_options(declaration_, options)),
        runtime_(std::move(runtime)) {}

  DeclaredConventions conventions() const override {
    return {declaration_.returns_loss, declaration_.scale, declaration_.gradient_summed_over_cp,
            declaration_.pads_with_minus_inf, declaration_.weight_gradient};
  }

  ImplementationTraits describe() const override {
    ImplementationTraits traits{declaration_.name, declaration_.summary, declaration_.rows,
                                declaration_.serial_adds};
    traits.claims_run_to_run = false;
    traits.claims_packing = false;
    traits.claims_packing_of_sequence_sums = false;
    traits.inputs = declaration_.inputs;
    traits.padding = declaration_.padding;
    traits.is_external = true;
    traits.counts_flops = false;
    traits.has_cost_model = declaration_.has_cost;
    traits.one_sweep = declaration_.is_engine;
    traits.outputs.grad_hidden = !declaration_.is_engine;
    traits.outputs.logprobs = declaration_.returns_logprobs;
    traits.outputs.entropy = declaration_.returns_entropy;
    traits.outputs.vocab_range = false;
    traits.outputs.terms = false;
    traits.outputs.owned_labels = false;
    if (!declaration_.returns_logprobs) traits.outputs.metrics.emplace();
    traits.rounds_loss = declaration_.rounds_to("loss");
    traits.rounds_logits = declaration_.rounds_to("logits");
    traits.rounds_grad_weight = declaration_.rounds_to("grad_weight");
    traits.rounds_log_sum_exp = declaration_.rounds_to("log_sum_exp");
    traits.rounds_temperature = declaration_.rounds_to("temperature");
    traits.rounds_quotient = declaration_.rounds_to("quotient");
    return traits;
  }

  std::optional<SkipReason> unsupported(const LossProblem& problem) const override {
    if (declaration_.is_engine && problem.head.hidden != problem.vocab) {
      return SkipReason{kTakesBigrams};
    }
    if (const auto reason = not_taken(declaration_, problem)) return reason;
    if (!declaration_.has_supports) return std::nullopt;
    return runtime_->unsupported(declaration_.name, options_, problem_json(problem));
  }

  std::map<std::string, std::string> details(const LossProblem&) const override {
    return declaration_.details;
  }

  DType grad_logits_dtype(const LossProblem& problem) const override {
    const bool rounds = declaration_.rounds_to("grad_logits") || declaration_.is_engine;
    return rounds ? problem.dtype : DType::f32;
  }

  /// Cost of the arena, declared chunks, and the prediction of the user's model for the first rank.
  Cost cost(const LossProblem& problem) const override {
    Cost cost;
    if (declaration_.has_chunks) {
      cost.chunks = runtime_->chunks(declaration_.name, options_, problem_json(problem));
    }
    cost.plan.workspace_bytes = problem.input_bytes() + problem.gradient_bytes();
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    if (!declaration_.has_cost) return cost;
    const DeclaredCost declared =
        runtime_->cost(declaration_.name, options_, problem_json(problem, 0, 0));
    add_prediction(declared.forward, cost.forward);
    add_prediction(declared.backward, cost.backward);
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<ExternalPlan>(problem, context, declaration_, options_, *runtime_,
                                          describe().outputs);
  }

 private:
  const ExternalDeclaration declaration_;
  const nlohmann::json options_;
  const std::shared_ptr<ExternalRuntime> runtime_;
};

const ExternalMaker registered_external{[](const ExternalDeclaration& declaration,
                                           const ImplementationOptions& options,
                                           std::shared_ptr<ExternalRuntime> runtime) {
  return std::make_unique<External>(declaration, options, std::move(runtime));
}};

}  // namespace
}  // namespace lossgrid
