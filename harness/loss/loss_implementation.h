// SPDX-License-Identifier: Apache-2.0
// LossImplementation: a strategy that computes log-probabilities from sharded logits or hidden
// states, and their gradient. It is independent of the objective. The harness asks if it supports a
// problem, for its cost, and for a plan; a plan belongs to one rank and its thread. A new
// implementation is a single file in impls/ (README.md there).
//
// Conventions of all implementations: the sum over CP ranks of the ranks' gradients, placed in the
// unsharded layout, is the gradient, with no other factor; every rank returns the same loss and the
// same metrics; every rank enters every collective, even if it has no valid token.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/comm/counting_communicator.h"
#include "harness/comm/process_grid.h"
#include "harness/core/skip_reason.h"
#include "harness/device/device.h"
#include "harness/loss/objective.h"
#include "harness/problem/batch/padding.h"
#include "harness/problem/batch/sharding.h"
#include "harness/problem/values/logit_transform.h"
#include "harness/problem/values/sampling_mask.h"

namespace lossgrid {

/// Last layer of a model (lm_head), for problems that start from hidden states.
struct LmHead {
  std::int64_t hidden = 0;  // H; 0: the problem starts from logits
  WeightLayout layout = WeightLayout::vocab_hidden;
  bool has_bias = false;  // one number per id, added to the product of hidden states and weight
};

/// Logits of a teacher, if the objective has a divergence from the teacher. They are given, or are
/// the product of its hidden states and its weight, in float32 like the student's logits.
struct Teacher {
  DType dtype = DType::f32;       // dtype of the logits, or of hidden states and weight
  bool sends_topk = false;        // logits are -inf except for the k ids per row that it sends
  LogitTransform transform = {};  // transform of its logits; cap and scale are the student's
  std::int64_t hidden = 0;        // size of its hidden states; 0: logits are given

  friend bool operator==(const Teacher&, const Teacher&) = default;
};

/// Kept sets of rows (harness/problem/values/sampling_mask.h), an input in addition to the logits.
struct Sampling {
  bool has_mask = false;
  // True: a target outside the kept set has log-probability 0 and no gradient. False: it is masked.
  bool zeroes_targets = false;

  friend bool operator==(const Sampling&, const Sampling&) = default;
};

/// Problem of an implementation on one pack. The referenced objects must outlive it.
struct LossProblem {
  const PackedBatch& batch;
  std::int64_t vocab;
  DType dtype;  // of inputs, and of gradients except weight's and bias's
  Grid grid;    // strategies use one dp rank of the grid
  const Objective& objective;
  const ObjectiveSpec& objective_spec;  // options from which `objective` was made
  LmHead head = {};
  Backend backend = Backend::cpu;
  LogitTransform transform = {};  // transform of the logits, with PackedBatch::temperatures
  Teacher teacher = {};
  Sampling sampling = {};

  /// Returns the part of the transform that acts on rows of logits; the rest is alpha of the
  /// product that makes the logits.
  LogitTransform row_transform() const { return transform_of_rows(transform, from_hidden()); }
  double product_alpha() const { return from_hidden() ? 1 / divisor_of_product(transform) : 1; }
  bool row_statistics() const { return objective.needs().row_statistics; }
  bool predictions() const { return objective.needs().predictions; }
  /// Returns the numbers of a row, other than its log-probability, on which the loss depends.
  RowTerms terms() const {
    RowTerms terms = objective.needs().terms;
    if (!teacher.sends_topk) terms.divergence = terms.divergence.of_all_ids();
    return terms;
  }
  /// Returns true for terms that a plan returns by token: terms of the loss and, if requested, row
  /// statistics and numbers about predictions.
  bool returns(RowTerm term) const {
    return terms().has(term) || (is_statistic(term) && row_statistics()) ||
           (is_prediction(term) && predictions());
  }
  /// Returns the number of arrays by token that a plan returns: log-probabilities and the returned
  /// terms.
  std::int64_t token_columns() const {
    return 1 + std::count_if(kAllRowTerms.begin(), kAllRowTerms.end(),
                             [this](RowTerm term) { return returns(term); });
  }
  /// Returns the number of arrays d loss / d number by token.
  std::int64_t gradient_columns() const { return 1 + terms().count(); }
  std::int64_t rows() const { return batch.padded_tokens(); }   // T_pad
  std::int64_t local_rows() const { return rows() / grid.cp; }  // T_c
  /// Returns the number of TP ranks over which the vocabulary is sharded; 1 for a head that all TP
  /// ranks hold.
  int vocab_ranks() const { return lossgrid::vocab_ranks(vocab, grid.tp); }
  std::int64_t width() const { return (vocab + vocab_ranks() - 1) / vocab_ranks(); }  // V_t
  bool from_hidden() const { return head.hidden > 0; }
  /// Returns the rows of hidden states on this rank: T_c, or T_c / tp with sequence parallelism.
  std::int64_t hidden_rows() const { return local_rows() / grid.row_parts(); }

  std::int64_t element_bytes() const { return static_cast<std::int64_t>(size_of(dtype)); }
  std::int64_t logits_elements() const { return local_rows() * width(); }
  std::int64_t logits_bytes() const { return logits_elements() * element_bytes(); }
  std::int64_t hidden_bytes() const { return hidden_rows() * head.hidden * element_bytes(); }
  std::int64_t weight_elements() const { return width() * head.hidden; }
  std::int64_t bias_elements() const { return head.has_bias ? width() : 0; }
  bool has_teacher() const { return terms().divergence.is_any(); }
  /// True if implementations compute the teacher's logits as a product.
  bool makes_teacher() const { return has_teacher() && teacher.hidden > 0; }
  std::int64_t teacher_element_bytes() const {
    return static_cast<std::int64_t>(size_of(teacher.dtype));
  }
  /// Returns the bytes of the teacher's logits, if they are given.
  std::int64_t teacher_logits_bytes() const {
    const bool is_given = has_teacher() && !makes_teacher();
    return is_given ? local_rows() * width() * teacher_element_bytes() : 0;
  }
  std::int64_t teacher_hidden_bytes() const {
    return makes_teacher() ? hidden_rows() * teacher.hidden * teacher_element_bytes() : 0;
  }
  std::int64_t teacher_weight_bytes() const {
    return makes_teacher() ? width() * teacher.hidden * teacher_element_bytes() : 0;
  }
  /// Returns the bytes of a rank's inputs from the teacher.
  std::int64_t teacher_bytes() const {
    return teacher_logits_bytes() + teacher_hidden_bytes() + teacher_weight_bytes();
  }
  /// Returns the bytes of a sampling mask: a bit for a column, whole words of 64 bits for a row.
  std::int64_t mask_bytes() const {
    return sampling.has_mask ? local_rows() * mask_words(width()) * 8 : 0;
  }
  /// The following functions return the bytes of a rank's inputs and of their gradients (for weight
  /// and bias in float32).
  std::int64_t input_bytes() const {
    if (!from_hidden()) return teacher_bytes() + mask_bytes() + logits_bytes();
    return teacher_bytes() + mask_bytes() + hidden_bytes() +
           (weight_elements() + bias_elements()) * element_bytes();
  }
  std::int64_t gradient_bytes() const {
    if (!from_hidden()) return logits_bytes();
    return hidden_bytes() + (weight_elements() + bias_elements()) * 4;
  }
};

/// Device and groups of one rank.
struct RankContext {
  Device& device;
  Communicator& tp;
  Communicator& cp;
  Communicator& stage;  // ranks with a part of the loss; calls are not counted
  bool timed = false;   // external implementations have a barrier before their clocks start
  // Bytes of their own memory that external implementations read before that barrier, because they
  // get their inputs after the harness's walk through the cache. 0: caches stay unchanged.
  std::int64_t walk_bytes = 0;
  // True: external implementations report collectives and memory of the first passes, and evaluate
  // once.
  bool observed = true;
};

/// Kind of inputs of an implementation.
enum class InputKind { logits, hidden, either };

/// Rows of a plan's outputs by token: its own [T_c], or the whole padded pack [T_pad].
enum class LogprobScope { shard, pack };

struct TokenOutputs;

/// Outputs that a plan returns: external code may return log-probabilities alone, or a loss and its
/// gradient. Checks and invariants of missing outputs are not run. Missing columns and gradients
/// are not read; a missing loss stays 0.
struct Outputs {
  bool logprobs = true;
  // The next two apply if the problem requests row statistics, the entropy also if it is a term.
  bool entropy = true;
  bool vocab_range = true;  // vocab_min and vocab_max
  // Terms of the objective except the entropy, and numbers about predictions, if the problem has
  // any.
  bool terms = true;
  bool loss = true;
  // Names of returned metrics; other metrics are left out of ObjectiveResult::metrics. Unset: all
  // metrics except those made from a missing column.
  std::optional<std::set<std::string>> metrics;
  bool owned_labels = true;
  bool gradients = true;
  bool grad_hidden = true;  // if gradients are returned and the problem starts from hidden states

  bool has_metric(const std::string& name) const;
  bool has(RowTerm term) const;
  /// Returns the columns that are outputs; other columns are empty.
  TokenOutputs only_given(const TokenOutputs& columns) const;
  /// Removes metrics that are not outputs from `all`.
  void keep_given(Metrics& all) const;
};

/// Properties of an implementation, the same for every problem.
struct ImplementationTraits {
  std::string name;
  std::string summary;
  LogprobScope logprobs = LogprobScope::shard;
  // Longest serial float32 add chain over the vocabulary of one row, without the TP reduction.
  int serial_adds = 0;
  // Promises of equal bits: on every run; for every token with every packing and CP size.
  bool claims_run_to_run = true;
  bool claims_packing = true;
  // The promise for every packing, with an objective whose gradient needs sums over sequences: sums
  // of ranks may round differently from sums over the whole pack.
  bool claims_packing_of_sequence_sums = true;
  InputKind inputs = InputKind::logits;
  // Padding that its packs get in addition to the padding of grid and case.
  Padding padding = {};
  // True: plans have forward_backward only.
  bool one_sweep = false;
  // True: the gradient of the logits takes the place of the logits, so LossGradients::logits is
  // LossInputs::logits.
  bool in_place = false;
  // True: loaded from a user's file. Plans measure themselves (LossPlan::measured) and hold the
  // predictions of the function (PhaseMeasurement::predicted).
  bool is_external = false;
  bool has_cost_model = true;  // false: cost() covers only the memory of the harness
  // False: it multiplies in its own loops, which count nothing (DeviceWork::flops).
  bool counts_flops = true;
  Outputs outputs = {};
  // True: plays back the results of another program, so that equal bits of a second run, or equal
  // log-probabilities of shifted logits, prove nothing.
  bool plays_back = false;
  // Values rounded to the dtype of the problem by design: the loss; from hidden states, the logits,
  // and the gradient of the weight after every chunk of rows (Cost::chunks), or once without
  // chunks.
  bool rounds_loss = false;
  bool rounds_logits = false;
  bool rounds_grad_weight = false;
  // True: keeps a log-sum-exp in float32 and subtracts it from logits.
  bool rounds_log_sum_exp = false;
  // True: divides logits in bf16 by a temperature in bf16, and rounds the quotients to bf16.
  bool rounds_temperature = false;
  bool rounds_quotient = false;
};

/// Needs of one phase on a rank in addition to inputs and outputs.
struct PhaseCost {
  std::int64_t workspace_bytes = 0;  // peak of the plan's own buffers during the phase
  CollectiveCounts tp;
  CollectiveCounts cp;
  // Operations of matrix products, two for a multiplication and an addition, on a rank with V_t
  // columns; a rank with fewer columns needs proportionally fewer.
  std::int64_t flops = 0;
  // Bytes that the algorithm must read and write of tensors with a row of the vocabulary per token,
  // if no cache holds more than a few rows: the lower bound of its memory traffic.
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;
  // Upper bound of the bytes that are read again while a cache holds them: a row, or a block of a
  // few MiB.
  std::int64_t cached_read_bytes = 0;
  // Elements of rows of the vocabulary (logits of student and teacher) that kernels process, with
  // at most one exponential each; and elements of d loss / d logits that they write.
  std::int64_t exponentials = 0;
  std::int64_t gradients = 0;
  // Part of `exponentials` that are kept until the sum of their row is known, and then become its
  // gradient.
  std::int64_t kept_exponentials = 0;
};

/// Cost of an implementation by phase. With ImplementationTraits::one_sweep it is all in `forward`.
struct Cost {
  PhaseCost plan;
  PhaseCost forward;
  PhaseCost backward;
  std::int64_t chunks = 0;  // chunks of rows in turn; 0: logits are given
};

/// Row-major, LossProblem::dtype: logits, or hidden, weight and bias.
struct LossInputs {
  const void* logits = nullptr;   // [T_c, V_t]
  const void* hidden = nullptr;   // [hidden_rows, H]; with SP part tp_rank of the CP rank's rows
  const void* weight = nullptr;   // [V_t, H] or [H, V_t], by LmHead::layout
  const void* teacher = nullptr;  // [T_c, V_t] in Teacher::dtype, with a divergence
  // In place of the teacher's logits, in the same dtype: [hidden_rows, N], [V_t, N] with N =
  // Teacher::hidden.
  const void* teacher_hidden = nullptr;
  const void* teacher_weight = nullptr;
  const void* bias = nullptr;  // [V_t], with LmHead::has_bias
  // [T_c, mask_words(V_t)] with a sampling mask: bit c % 64 of word c / 64 is 1 if column c of the
  // shard belongs to the kept set of the row
  const std::uint64_t* kept = nullptr;
};

/// Output columns by token, [T_c] or [T_pad] by ImplementationTraits::logprobs; 0 for rows that
/// predict nothing. Columns that the problem does not request are empty.
struct TokenOutputs {
  std::span<float> logprobs;
  ByRowTerm<std::span<float>> terms = {};  // LossProblem::returns

  static constexpr std::size_t kColumns = 1 + kRowTerms;

  /// Returns all columns in order of declaration; columns that are not requested are empty.
  std::array<std::span<float>, kColumns> columns() const {
    std::array<std::span<float>, kColumns> all{logprobs};
    std::copy(terms.begin(), terms.end(), all.begin() + 1);
    return all;
  }
  TokenOutputs part(std::int64_t begin, std::int64_t count) const;
};

/// Returns the requested columns of `problem`, of `rows` elements, one after the other in `block`.
TokenOutputs columns_in(std::span<float> block, const LossProblem& problem, std::int64_t rows);

/// Returns the columns of d loss / d number of `problem`, of `rows` tokens, one after the other in
/// `block`.
TokenGradients gradients_in(std::span<float> block, const LossProblem& problem, std::int64_t rows);

struct LossOutputs {
  TokenOutputs tokens;
  ObjectiveResult result;  // result of this pack; metrics of several packs are joined (metric.h)
  // Number of valid targets that this rank counts; the sum over all ranks is the number of valid
  // targets.
  std::int64_t owned_labels = 0;
};

/// Gradients d loss / d inputs of this rank's shard, of the shapes of the inputs.
struct LossGradients {
  void* logits = nullptr;  // LossProblem::dtype; every element is written
  void* hidden = nullptr;  // LossProblem::dtype; every element is written; includes the sum over TP
  // Accumulated, like Megatron-LM's `main_grad`; rows of padding ids are not changed. The sum over
  // CP and DP ranks is the gradient of the shard.
  float* weight = nullptr;
  float* bias = nullptr;  // likewise
};

/// Calls of one operation by a function without Communicator, measured or predicted by the
/// function's model.
struct MeasuredCalls {
  std::string group;
  std::string operation;
  std::int64_t calls = 0;
  std::int64_t payload_bytes = 0;
};

/// Predicted needs of a function in one phase on a rank, as far as its author supplied a model.
struct PhasePrediction {
  std::optional<std::int64_t> peak_bytes;           // as PhaseMeasurement::peak_bytes
  std::optional<std::vector<MeasuredCalls>> calls;  // all calls
};

/// Measurement of one phase by its plan.
struct PhaseMeasurement {
  std::int64_t time_ns = 0;
  std::int64_t peak_bytes = 0;  // peak beyond the bytes held before the phase
  std::vector<MeasuredCalls> calls;
  std::vector<std::string> changed_inputs;  // inputs that must not change
  // Difference in the outputs of an evaluation, which keeps no graph; empty without a difference.
  std::string evaluation;
  PhasePrediction predicted;
};

/// Implementation bound to a problem and a rank, with all of its workspaces.
class LossPlan {
 public:
  virtual ~LossPlan() = default;
  virtual void forward(const LossInputs& inputs, LossOutputs& outputs) = 0;
  /// Requires an earlier forward on the same inputs.
  virtual void backward(const LossInputs& inputs, LossGradients& gradients) = 0;
  /// Runs both phases, one after the other unless overridden.
  virtual void forward_backward(const LossInputs& inputs, LossOutputs& outputs,
                                LossGradients& gradients);
  /// Returns the measurement of the last call by a plan that measures itself.
  virtual std::optional<PhaseMeasurement> measured() const { return std::nullopt; }
};

class LossImplementation {
 public:
  virtual ~LossImplementation() = default;
  virtual ImplementationTraits describe() const = 0;
  /// Throws bad_input if the file of the implementation does not fit the problem.
  virtual void require_fits(const LossProblem& problem) const;
  /// Returns the reason why the problem is not supported; nullopt unless overridden.
  virtual std::optional<SkipReason> unsupported(const LossProblem& problem) const;
  virtual Cost cost(const LossProblem& problem) const = 0;
  /// Returns the dtype of the gradient of logits in the products for hidden states and weight.
  virtual DType grad_logits_dtype(const LossProblem& problem) const { return problem.dtype; }
  /// Returns the implementation's choices for this problem, for the report: "bf16_gemm" -> "native,
  /// ...".
  virtual std::map<std::string, std::string> details(const LossProblem& problem) const;
  /// Makes a plan with all workspaces allocated. The problem must outlive the plan.
  virtual std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const = 0;
};

}  // namespace lossgrid
