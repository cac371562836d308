// SPDX-License-Identifier: Apache-2.0
// An implementation from outside: a function in a worker process, one for each rank, which gets
// views of this rank's tensors and returns log-probabilities or a loss (python/PROTOCOL.md).
// Log-probabilities go through the objective on this side, as those of built-in strategies do, and
// the function's backward gets d loss / d log-probability. Of a loss only its value and its
// gradient are known.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/device/rank_threads.h"
#include "harness/external/arena_layout.h"
#include "harness/external/external_implementation.h"
#include "harness/external/problem_json.h"
#include "harness/external/worker.h"
#include "impls/objective_pass.h"
#include "impls/strategy.h"

namespace lossgrid {
namespace {

// A row is added up by lanes of at least 8 numbers or pairwise, by PyTorch and Triton alike; this
// many adds in a row is more than they need up to a vocabulary of 2^11 in lanes, any in pairs.
constexpr int kSerialAdds = 256;

/// Sets rows of a matrix to zero that hold what no model hands to a loss: NaN, or an infinity that
/// `is_poison` names. Frameworks multiply such rows by a mask of zeros, and may.
template <typename T, typename F>
void clear_poisoned_rows(T* data, std::int64_t rows, std::int64_t columns, F&& is_poison) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T* row = data + r * columns;
    const bool poisoned =
        std::any_of(row, row + columns, [&](T x) { return is_poison(r, static_cast<double>(x)); });
    if (poisoned) std::fill(row, row + columns, static_cast<T>(0.0f));
  }
}

/// object[key], or nothing where that is missing or null.
nlohmann::json listed(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : nlohmann::json::array();
}

constexpr const char* kNoBigram = "an engine takes bigram models: cases with hidden_values=one_hot";

class ExternalPlan final : public LossPlan {
 public:
  ExternalPlan(const LossProblem& problem, RankContext context,
               const ExternalDeclaration& declaration, const nlohmann::json& options,
               WorkerPool& pool, const Outputs& given)
      : given_(given),
        problem_(problem),
        context_(context),
        declaration_(declaration),
        pool_(pool),
        shard_(vocab_shard(problem.vocab, problem.grid.tp, context.tp.rank())),
        pack_(shift_targets(problem.batch)),
        positions_(cp_rows(problem.batch.cu_seqlens_padded, problem.grid.cp, context.cp.rank())),
        rows_(declaration.rows == LogprobScope::pack ? pack_ : pack_.pick(positions_)),
        table_(context.device, rows_, problem.batch.sequences()),
        grad_(context.device, static_cast<std::int64_t>(rows_.rows()), "grad_logprobs"),
        objective_(context.device, problem, Steps()) {
    lay_out();
    worker_ = &pool.join(context.stage);
    arena_ = SharedMemory(layout_.bytes());
    write_batch();
    id_ = worker_->next_plan();
    ask({{"op", "begin"},
         {"plan", id_},
         {"forget", worker_->take_ended_plans()},
         {"implementation", declaration.name},
         {"options", options},
         {"problem", problem_json(problem)},
         {"arrays", layout_.arrays()},
         {"threads", rank_threads()}},
        "begin", {arena_.descriptor()});
  }

  ~ExternalPlan() override {
    if (failed_) {
      pool_.discard(context_.stage.rank(), context_.stage.size());
    } else if (id_ > 0) {
      worker_->end_plan(id_);
    }
  }

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    write_inputs(inputs);
    nlohmann::json request = call("forward");
    request["grad"] = true;
    request["change"] = change();
    const nlohmann::json answer = ask(request, "forward");
    take_measurement(answer, "forward");
    if (is_traced()) trained_ = returned_numbers(answer);
    if (declaration_.returns_logprobs) read_tokens(outputs.tokens);
    if (!declaration_.returns_logprobs) {
      outputs.result = whole_loss(answer);
      return;
    }
    outputs.result = objective(outputs.tokens);
    given_.keep_given(outputs.result.metrics);
  }

  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    if (!declaration_.is_engine) run_backward();
    read_gradients(gradients);
    if (is_traced()) compare_with_training(evaluate(inputs), trained_);
    traced_ = false;  // the first time is enough
  }

  void forward_backward(const LossInputs& inputs, LossOutputs& outputs,
                        LossGradients& gradients) override {
    forward(inputs, outputs);
    if (declaration_.is_engine) return backward(inputs, gradients);
    const PhaseMeasurement forward = *measured_;
    backward(inputs, gradients);
    measured_->time_ns += forward.time_ns;
    measured_->peak_bytes = std::max(measured_->peak_bytes, forward.peak_bytes);
    measured_->calls.insert(measured_->calls.end(), forward.calls.begin(), forward.calls.end());
    measured_->changed_inputs.insert(measured_->changed_inputs.end(),
                                     forward.changed_inputs.begin(), forward.changed_inputs.end());
  }

  std::optional<PhaseMeasurement> measured() const override { return measured_; }

 private:
  static constexpr std::size_t kFloat = sizeof(float);
  static constexpr std::size_t kInt = sizeof(std::int64_t);

  std::int64_t sequences() const { return problem_.batch.sequences(); }
  std::int64_t out_rows() const { return static_cast<std::int64_t>(rows_.rows()); }
  std::byte* at(const std::string& name) const {
    return arena_.data() + layout_.arrays().at(name).at("offset").get<std::size_t>();
  }
  template <typename T>
  T* array(const std::string& name) const {
    return reinterpret_cast<T*>(at(name));
  }

  /// What the backward starts from is divided by what the declaration says that it multiplies by.
  double upstream_factor() const {
    const ScaleSizes sizes{problem_.grid.dp, problem_.grid.cp, problem_.batch.microbatch.count};
    const double gather = declaration_.gradient_summed_over_cp ? problem_.grid.cp : 1;
    return 1 / (gather * declaration_.scale.value(sizes));
  }

  bool is_traced() const { return traced_ && !context_.timed; }

  void run_backward() {
    nlohmann::json request = call("backward");
    if (!declaration_.returns_logprobs) {
      request["loss_gradient"] = upstream_factor();
    } else {
      write_upstream();
    }
    take_measurement(ask(request, "backward"), "backward");
  }

  /// What the function returns to an evaluation, which wants no gradient.
  std::vector<float> evaluate(const LossInputs& inputs) {
    write_inputs(inputs);
    nlohmann::json request = call("forward");
    request["trace"] = request["memory"] = request["grad"] = false;
    request["change"] = change();
    return returned_numbers(ask(request, "evaluation"));
  }

  void compare_with_training(const std::vector<float>& evaluated,
                             const std::vector<float>& trained) {
    // Without a graph an operation may add up in another order.
    constexpr float kRoundings = 1e-5f;
    for (std::size_t k = 0; k < trained.size(); ++k) {
      if (evaluated[k] == trained[k] || (std::isnan(evaluated[k]) && std::isnan(trained[k]))) {
        continue;
      }
      const float apart = std::abs(evaluated[k] - trained[k]);
      if (apart <= kRoundings * std::max(1.0f, std::abs(trained[k]))) continue;
      measured_->evaluation =
          fmt::format("an evaluation returns {}, training {} {}", evaluated[k], trained[k],
                      declaration_.returns_logprobs ? fmt::format("in row {}", k) : "as the loss");
      return;
    }
  }

  /// Log-probabilities, or the loss alone.
  std::vector<float> returned_numbers(const nlohmann::json& answer) const {
    if (declaration_.returns_logprobs) {
      const float* logprobs = array<float>("out.logprobs");
      return {logprobs, logprobs + out_rows()};
    }
    const nlohmann::json& loss = answer.at("loss");
    return {loss.is_number() ? loss.get<float>() : std::nanf("")};
  }

  /// What `forward` and `backward` have in common.
  nlohmann::json call(const char* op) const {
    return {{"op", op},
            {"plan", id_},
            {"trace", is_traced()},
            {"memory", is_traced()},
            {"barrier", context_.timed},
            {"protect", false}};
  }

  nlohmann::json ask(const nlohmann::json& request, const char* what,
                     std::initializer_list<int> descriptors = {}) {
    try {
      return worker_->ask(context_.stage, request,
                          fmt::format("{} of '{}'", what, declaration_.name), descriptors);
    } catch (...) {
      failed_ = true;
      throw;
    }
  }

  void lay_out() {
    const std::string element = protocol_name(problem_.dtype);
    const auto bytes = static_cast<std::size_t>(problem_.element_bytes());
    const std::int64_t padded = problem_.rows();
    if (problem_.from_hidden()) {
      const bool by_id = problem_.head.layout == WeightLayout::vocab_hidden;
      const std::vector<std::int64_t> weight =
          by_id ? std::vector<std::int64_t>{problem_.width(), problem_.head.hidden}
                : std::vector<std::int64_t>{problem_.head.hidden, problem_.width()};
      layout_.add("hidden", element, bytes, {problem_.hidden_rows(), problem_.head.hidden});
      layout_.add("weight", element, bytes, weight);
      layout_.add("grad.hidden", element, bytes, {problem_.hidden_rows(), problem_.head.hidden});
      layout_.add("grad.weight", "float32", kFloat, weight);
    } else {
      layout_.add("logits", element, bytes, {problem_.local_rows(), problem_.width()});
      layout_.add("grad.logits", element, bytes, {problem_.local_rows(), problem_.width()});
    }
    layout_.add("cu_seqlens", "int64", kInt, {sequences() + 1});
    layout_.add("cu_seqlens_padded", "int64", kInt, {sequences() + 1});
    layout_.add("lengths", "int64", kInt, {sequences()});
    layout_.add("sample_mask", "uint8", 1, {sequences()});
    if (!problem_.batch.rewards.empty()) layout_.add("rewards", "float32", kFloat, {sequences()});
    layout_.add("positions", "int64", kInt, {problem_.local_rows()});
    for (const char* name : {"sequence", "ids_padded", "targets"}) {
      layout_.add(name, "int64", kInt, {padded});
    }
    for (const char* name : {"valid", "real", "token_mask"})
      layout_.add(name, "uint8", 1, {padded});
    for (int k = 0; k < kTokenInputs; ++k) {
      if (problem_.batch.inputs[static_cast<std::size_t>(k)].empty()) continue;
      const std::string name(lossgrid::name(static_cast<TokenInput>(k)));
      layout_.add("rows." + name, "float32", kFloat, {padded});
      layout_.add("tokens." + name, "float32", kFloat, {padded});
    }
    if (!declaration_.returns_logprobs) return;
    layout_.add("out.logprobs", "float32", kFloat, {out_rows()});
    layout_.add("upstream.logprobs", "float32", kFloat, {out_rows()});
    if (!declaration_.returns_entropy) return;
    layout_.add("out.entropy", "float32", kFloat, {out_rows()});
    layout_.add("upstream.entropy", "float32", kFloat, {out_rows()});  // 0: no loss depends on it
  }

  void write_batch() {
    const PackedBatch& batch = problem_.batch;
    std::copy(batch.cu_seqlens.begin(), batch.cu_seqlens.end(), array<std::int64_t>("cu_seqlens"));
    std::copy(batch.cu_seqlens_padded.begin(), batch.cu_seqlens_padded.end(),
              array<std::int64_t>("cu_seqlens_padded"));
    std::copy(batch.input_lengths.begin(), batch.input_lengths.end(),
              array<std::int64_t>("lengths"));
    std::copy(batch.sample_mask.begin(), batch.sample_mask.end(),
              array<std::uint8_t>("sample_mask"));
    std::copy(batch.rewards.begin(), batch.rewards.end(),
              batch.rewards.empty() ? nullptr : array<float>("rewards"));
    std::copy(positions_.begin(), positions_.end(), array<std::int64_t>("positions"));
    std::copy(pack_.sequence.begin(), pack_.sequence.end(), array<std::int64_t>("sequence"));
    std::copy(pack_.targets.begin(), pack_.targets.end(), array<std::int64_t>("targets"));
    std::copy(pack_.valid.begin(), pack_.valid.end(), array<std::uint8_t>("valid"));
    std::copy(pack_.real.begin(), pack_.real.end(), array<std::uint8_t>("real"));
    const auto padded = static_cast<std::size_t>(problem_.rows());
    std::fill_n(array<std::int64_t>("ids_padded"), padded, 0);
    std::fill_n(array<std::uint8_t>("token_mask"), padded, std::uint8_t{0});
    for_each_token([&](std::int64_t row, std::int64_t token) {
      array<std::int64_t>("ids_padded")[row] = batch.input_ids[static_cast<std::size_t>(token)];
      array<std::uint8_t>("token_mask")[row] = batch.token_mask[static_cast<std::size_t>(token)];
    });
    for (int k = 0; k < kTokenInputs; ++k) write_token_input(k);
  }

  /// Calls f(row of the padded pack, token of the batch).
  template <typename F>
  void for_each_token(F&& f) const {
    const PackedBatch& batch = problem_.batch;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      for (std::int64_t t = 0; t < batch.length(i); ++t) {
        f(batch.cu_seqlens_padded[static_cast<std::size_t>(i)] + t,
          batch.cu_seqlens[static_cast<std::size_t>(i)] + t);
      }
    }
  }

  /// 0 where nothing is trained on: what stands there is poisoned.
  void write_token_input(int k) {
    const std::vector<float>& tokens = problem_.batch.inputs[static_cast<std::size_t>(k)];
    if (tokens.empty()) return;
    const std::string name(lossgrid::name(static_cast<TokenInput>(k)));
    const std::vector<float>& by_row = pack_.inputs[static_cast<std::size_t>(k)];
    float* rows = array<float>("rows." + name);
    for (std::size_t r = 0; r < by_row.size(); ++r) rows[r] = pack_.valid[r] ? by_row[r] : 0;
    float* about = array<float>("tokens." + name);
    std::fill_n(about, static_cast<std::size_t>(problem_.rows()), 0.0f);
    // The token in row r + 1 is the one that row r predicts.
    for (std::size_t r = 0; r + 1 < by_row.size(); ++r) {
      if (pack_.valid[r]) about[r + 1] = by_row[r];
    }
  }

  void write_inputs(const LossInputs& inputs) {
    if (problem_.from_hidden()) {
      std::memcpy(at("hidden"), inputs.hidden, static_cast<std::size_t>(problem_.hidden_bytes()));
      std::memcpy(at("weight"), inputs.weight,
                  static_cast<std::size_t>(problem_.weight_elements() * problem_.element_bytes()));
      clear_rows("hidden", problem_.hidden_rows(), problem_.head.hidden,
                 [](std::int64_t, double x) { return !std::isfinite(x); });
      if (declaration_.is_engine) require_bigram();
    } else {
      std::memcpy(at("logits"), inputs.logits, static_cast<std::size_t>(problem_.logits_bytes()));
      clear_rows("logits", problem_.local_rows(), problem_.width(), [&](std::int64_t r, double x) {
        const bool is_trained_on = pack_.valid[static_cast<std::size_t>(positions_[r])] != 0;
        return !is_trained_on && (std::isnan(x) || x > 0 ? !std::isfinite(x) : false);
      });
    }
    input_bits_ = input_bits();
  }

  /// Throws unsupported unless all rows of hidden states are one-hot, or zero where they were
  /// poisoned.
  void require_bigram() const {
    dispatch_floating(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      const std::span<const T> hidden(
          array<T>("hidden"),
          static_cast<std::size_t>(problem_.hidden_rows() * problem_.head.hidden));
      const bool is_binary = std::all_of(hidden.begin(), hidden.end(), [](T x) {
        return static_cast<double>(x) == 0 || static_cast<double>(x) == 1;
      });
      if (!is_binary) throw Error(ErrorCode::unsupported, kNoBigram);
    });
  }

  template <typename F>
  void clear_rows(const char* name, std::int64_t rows, std::int64_t columns, F&& is_poison) {
    dispatch_floating(problem_.dtype, [&](auto zero) {
      clear_poisoned_rows(array<decltype(zero)>(name), rows, columns, is_poison);
    });
  }

  /// By array, what the worker may not change.
  std::map<std::string, std::uint64_t> input_bits() const {
    std::map<std::string, std::uint64_t> bits;
    for (const auto& [name, array] : layout_.arrays().items()) {
      const bool is_written =
          name.starts_with("out.") || name.starts_with("grad.") || name.starts_with("upstream.");
      const bool may_change = name == "logits" && declaration_.overwrites_logits;
      if (is_written || may_change) continue;
      bits[name] = fingerprint(bytes_of(array), 0);
    }
    return bits;
  }

  std::span<const std::byte> bytes_of(const nlohmann::json& array) const {
    std::size_t size = array.at("dtype") == "uint8"      ? 1
                       : array.at("dtype") == "float32"  ? 4
                       : array.at("dtype") == "bfloat16" ? 2
                                                         : 8;
    for (const nlohmann::json& extent : array.at("shape")) size *= extent.get<std::size_t>();
    return {arena_.data() + array.at("offset").get<std::size_t>(), size};
  }

  /// The change of a mutant on this grid.
  nlohmann::json change() const {
    nlohmann::json change = declaration_.change;
    if (change.is_object() && change.value("factor", nlohmann::json()) == "cp") {
      change["factor"] = problem_.grid.cp;
    }
    return change;
  }

  void learn_calls(const nlohmann::json& measured, const char* phase) {
    LearnedCalls::Calls calls;
    for (const nlohmann::json& call : listed(measured, "calls")) {
      const auto reduce = call.find("reduce");
      const bool reduces = reduce != call.end() && reduce->is_string();
      calls.push_back({call.at("op"), call.at("group"),
                       reduces ? reduce->get<std::string>() : std::string(), call.at("bytes")});
    }
    pool_.learned_calls().see(declaration_.name, phase, std::move(calls));
  }

  void take_measurement(const nlohmann::json& answer, const char* phase) {
    PhaseMeasurement measured;
    const nlohmann::json& from = answer.at("measured");
    measured.time_ns = from.value("time_ns", std::int64_t{0});
    // null where it was not asked for.
    if (const auto peak = from.find("peak_bytes"); peak != from.end() && peak->is_number()) {
      measured.peak_bytes = *peak;
    }
    learn_calls(from, phase);
    for (const nlohmann::json& entry : listed(from, "collectives")) {
      measured.calls.push_back(
          {entry.at("group"), entry.at("op"), entry.at("calls"), entry.at("bytes")});
    }
    for (const nlohmann::json& name : listed(answer, "changed")) {
      measured.changed_inputs.push_back(name);
    }
    for (const auto& [name, bits] : input_bits()) {
      if (input_bits_.at(name) != bits) measured.changed_inputs.push_back(name);
    }
    measured_ = std::move(measured);
  }

  void read_tokens(TokenOutputs& tokens) {
    const auto count = static_cast<std::size_t>(out_rows());
    std::copy_n(array<float>("out.logprobs"), count, tokens.logprobs.begin());
    if (!problem_.row_statistics()) return;
    // Metrics that are made of zeros are not given (Description::outputs).
    for (const std::span<float> column : {tokens.entropy, tokens.vocab_min, tokens.vocab_max}) {
      std::fill(column.begin(), column.end(), 0.0f);
    }
    if (declaration_.returns_entropy) {
      std::copy_n(array<float>("out.entropy"), count, tokens.entropy.begin());
    }
  }

  ObjectiveResult objective(const TokenOutputs& outputs) {
    const ObjectiveTokens tokens = table_.tokens(outputs, 0, table_.rows());
    return declaration_.rows == LogprobScope::pack
               ? objective_.run(tokens, grad_.span())
               : objective_.run_local(context_.cp, tokens, grad_.span());
  }

  /// A loss is that of the whole pack on every rank; that of an engine is of the whole batch, and
  /// the harness adds up over dp ranks.
  ObjectiveResult whole_loss(const nlohmann::json& answer) {
    const ScaleSizes sizes{problem_.grid.dp, problem_.grid.cp, problem_.batch.microbatch.count};
    const nlohmann::json& value = answer.at("loss");
    ObjectiveResult result;
    result.loss = value.is_number() ? value.get<double>() : std::nan("");
    result.loss /= declaration_.scale.value(sizes);
    if (declaration_.is_engine) result.loss /= problem_.grid.dp;
    return result;
  }

  void write_upstream() {
    const auto factor = static_cast<float>(upstream_factor());
    float* upstream = array<float>("upstream.logprobs");
    for (std::size_t k = 0; k < rows_.rows(); ++k) {
      upstream[k] = rows_.valid[k] ? grad_.span()[k] * factor : 0;
    }
  }

  void read_gradients(LossGradients& gradients) {
    if (!problem_.from_hidden()) {
      std::memcpy(gradients.logits, at("grad.logits"),
                  static_cast<std::size_t>(problem_.logits_bytes()));
      return;
    }
    if (!declaration_.is_engine) {
      std::memcpy(gradients.hidden, at("grad.hidden"),
                  static_cast<std::size_t>(problem_.hidden_bytes()));
    }
    // An engine has added up over CP and DP already, which the harness does once more.
    const ScaleSizes sizes{problem_.grid.dp, problem_.grid.cp, problem_.batch.microbatch.count};
    const double share =
        declaration_.is_engine
            ? 1 / (declaration_.scale.value(sizes) * problem_.grid.dp * problem_.grid.cp)
            : 1;
    const float* weight = array<float>("grad.weight");
    for (std::int64_t k = 0; k < problem_.weight_elements(); ++k) {
      gradients.weight[k] += weight[k] * static_cast<float>(share);
    }
  }

  const Outputs given_;
  const LossProblem& problem_;
  RankContext context_;
  const ExternalDeclaration& declaration_;
  WorkerPool& pool_;
  VocabShard shard_;
  ShiftedBatch pack_;
  std::vector<std::int64_t> positions_;
  ShiftedBatch rows_;  // that outputs stand for
  RowTable table_;
  FloatArray grad_;
  ObjectivePass objective_;
  ArenaLayout layout_;
  Worker* worker_ = nullptr;
  SharedMemory arena_;
  std::int64_t id_ = 0;  // of this plan, among those of the worker
  bool failed_ = false;
  bool traced_ = true;  // collectives and memory are looked at
  std::map<std::string, std::uint64_t> input_bits_;
  std::vector<float> trained_;  // what the traced forward returned
  std::optional<PhaseMeasurement> measured_;
};

class External final : public LossImplementation {
 public:
  External(ExternalDeclaration declaration, const ImplementationOptions& options,
           std::shared_ptr<WorkerPool> pool)
      : declaration_(std::move(declaration)),
        options_(typed_options(declaration_, options)),
        pool_(std::move(pool)) {}

  Description describe() const override {
    Description description{declaration_.name, declaration_.summary, declaration_.rows,
                            kSerialAdds};
    description.claims_run_to_run = false;
    description.claims_packing = false;
    description.claims_packing_of_sequence_sums = false;
    description.inputs = declaration_.inputs;
    description.is_external = true;
    description.one_sweep = declaration_.is_engine;
    description.outputs.grad_hidden = !declaration_.is_engine;
    description.outputs.logprobs = declaration_.returns_logprobs;
    description.outputs.entropy = declaration_.returns_entropy;
    description.outputs.vocab_range = false;
    description.outputs.owned_labels = false;
    if (!declaration_.returns_logprobs) description.outputs.metrics.emplace();
    return description;
  }

  std::string why_unsupported(const LossProblem& problem) const override {
    if (problem.backend != Backend::cpu) return "external implementations run on the cpu backend";
    if (declaration_.is_engine && problem.head.hidden != problem.vocab) return kNoBigram;
    const std::string padding = why_other_padding(problem.batch);
    if (!padding.empty()) return padding;
    if (!declaration_.has_supports) return "";
    return pool_->launcher().why_unsupported(declaration_.name, options_, problem_json(problem));
  }

  /// Of the arena alone; what the function needs is not known.
  Cost cost(const LossProblem& problem) const override {
    Cost cost;
    cost.plan.workspace_bytes = problem.input_bytes() + problem.gradient_bytes();
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<ExternalPlan>(problem, context, declaration_, options_, *pool_,
                                          describe().outputs);
  }

 private:
  std::string why_other_padding(const PackedBatch& batch) const {
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      if (batch.padded_length(i) % declaration_.sequence_multiple == 0) continue;
      return fmt::format(
          "sequences have to be padded to a multiple of {}: pad_multiple of the case",
          declaration_.sequence_multiple);
    }
    if (batch.padded_tokens() % declaration_.pack_multiple == 0) return "";
    return fmt::format("packs have to be padded to a multiple of {}: bin_multiple of the case",
                       declaration_.pack_multiple);
  }

  const ExternalDeclaration declaration_;
  const nlohmann::json options_;
  const std::shared_ptr<WorkerPool> pool_;
};

const ExternalMaker registered{[](const ExternalDeclaration& declaration,
                                  const ImplementationOptions& options,
                                  std::shared_ptr<WorkerPool> pool) {
  return std::make_unique<External>(declaration, options, std::move(pool));
}};

}  // namespace
}  // namespace lossgrid
