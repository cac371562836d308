// SPDX-License-Identifier: Apache-2.0
// Mutants that are right but for one number, which is 1.5 of its error bounds off: bounds that
// accept them are too wide. For log-probabilities x_y - lse and entropies H, extrema of the logits,
// the loss, a metric, and elements and row sums of d logits, in each dtype of the logits. The
// bounds stand here a second time, in double from the logits of a row (u = 2^-24, d = 22 serial
// additions of the kernels), so that a mistake in those of the harness shows. One rank with one
// pack, and the mean over tokens: there every bound is a short formula.
#include <algorithm>
#include <cmath>
#include <limits>
#include <list>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/core.h>

#include "harness/core/process/heap_watch.h"
#include "impls/mutants/mutant.h"

namespace lossgrid {
namespace {

constexpr double kRoundoff = 0x1p-24;
constexpr double kBoundsOff = 1.5;

/// A row that is trained on, with the numbers of its bounds.
struct BoundedRow {
  std::int64_t row = 0;
  std::int64_t target = 0;
  std::vector<double> x;  // [V]
  double max = 0;
  double log_sum = 0;   // ln s
  double spread = 0;    // S1 = sum p |x - m|
  double squared = 0;   // S2 = sum p (x - m)^2
  double smallest = 0;  // x that is not -inf
  double reading = 0;   // 4 u |m + ln s| of float64 logits, which may be read as float32

  double p(std::size_t v) const { return std::exp(x[v] - max - log_sum); }
  double logprob() const { return x[static_cast<std::size_t>(target)] - max - log_sum; }
  double entropy() const { return log_sum + spread; }

  double logprob_bound() const {
    const double distance = max - x[static_cast<std::size_t>(target)];
    return kRoundoff * (4 * (8 + spread + log_sum + distance + std::abs(logprob())) +
                        kStatisticsSerialAdds) +
           reading;
  }
  double entropy_bound() const {
    return kRoundoff *
               (4 * (8 + squared + (1 + spread) * (spread + log_sum) + std::abs(entropy())) +
                (1 + spread) * kStatisticsSerialAdds) +
           (1 + spread) * reading;
  }
  /// Returns that of d loss / d x_v = g ([v = target] - p), rounded with roundoff `u_out`.
  double gradient_bound(std::size_t v, double g, double u_out) const {
    if (p(v) == 0) return 0;
    const double from_target = std::abs(p(v) - (static_cast<std::int64_t>(v) == target ? 1 : 0));
    const double distance = max - x[v];
    return std::abs(g) *
           (1.01 * u_out * from_target +
            p(v) * (kRoundoff * (4 * (8 + distance + log_sum) + kStatisticsSerialAdds) + reading) +
            4 * kRoundoff * from_target);
  }
};

BoundedRow bounded_row(DType dtype, std::int64_t row, std::int64_t target, std::vector<double> x) {
  BoundedRow made{.row = row, .target = target, .x = std::move(x)};
  made.max = *std::max_element(made.x.begin(), made.x.end());
  double sum = 0;
  for (const double logit : made.x) sum += std::exp(logit - made.max);
  made.log_sum = std::log(sum);
  if (dtype == DType::f64) made.reading = 4 * kRoundoff * std::abs(made.max + made.log_sum);
  made.smallest = made.max;
  for (std::size_t v = 0; v < made.x.size(); ++v) {
    if (std::isinf(made.x[v])) continue;
    made.smallest = std::min(made.smallest, made.x[v]);
    const double distance = made.max - made.x[v];
    made.spread += made.p(v) * distance;
    made.squared += made.p(v) * distance * distance;
  }
  return made;
}

/// The place whose nearest number of its dtype is closest to 1.5 bounds from the truth.
template <typename T>
class Beyond {
 public:
  void offer(T* place, double want, double bound) {
    offer_below(place, want, bound);
    offer_below(place, want, -bound);
  }
  void offer_below(T* place, double want, double bound) {
    const T value(static_cast<Wide>(want - kBoundsOff * bound));
    const double off = std::abs((want - static_cast<double>(value)) / bound - kBoundsOff);
    if (!(off < best_)) return;
    best_ = off;
    place_ = place;
    value_ = value;
  }
  void write() const {
    if (place_ != nullptr) *place_ = value_;
  }

 private:
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

  double best_ = std::numeric_limits<double>::infinity();
  T* place_ = nullptr;
  T value_{};
};

/// Changes the outputs of forward, or the gradient; the other is null.
struct Results {
  LossOutputs* outputs = nullptr;
  void* gradient = nullptr;
};

using Rows = std::vector<BoundedRow>;
using Change = void (*)(const LossProblem&, const Rows&, const Results&);

class BeyondBoundPlan final : public LossPlan {
 public:
  BeyondBoundPlan(const LossProblem& problem, std::unique_ptr<LossPlan> right, Change change)
      : problem_(problem), right_(std::move(right)), change_(change) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    right_->forward(inputs, outputs);
    change({.outputs = &outputs}, inputs);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    right_->backward(inputs, gradients);
    change({.gradient = gradients.logits}, inputs);
  }

 private:
  /// Changes one number. The heap that this takes to find its bound is not watched: with it the
  /// heap check would reject the mutant, however wide the bound is.
  void change(const Results& results, const LossInputs& inputs) {
    const HeapWatchScope unwatched(nullptr);
    change_(problem_, rows_of(inputs), results);
  }

  Rows rows_of(const LossInputs& inputs) const {
    const ShiftedBatch shifted = shift_targets(problem_.batch);
    Rows rows;
    dispatch_floating(problem_.dtype, [&](auto zero) {
      const auto* logits = static_cast<const decltype(zero)*>(inputs.logits);
      for (std::size_t r = 0; r < shifted.rows(); ++r, logits += problem_.vocab) {
        if (shifted.valid[r] == 0) continue;
        std::vector<double> x;
        for (std::int64_t v = 0; v < problem_.vocab; ++v) {
          x.push_back(static_cast<double>(logits[v]));
        }
        rows.push_back(bounded_row(problem_.dtype, static_cast<std::int64_t>(r), shifted.targets[r],
                                   std::move(x)));
      }
    });
    return rows;
  }

  const LossProblem& problem_;
  std::unique_ptr<LossPlan> right_;
  Change change_;
};

template <Change change>
std::unique_ptr<LossPlan> beyond(const LossProblem& problem, RankContext /*context*/,
                                 std::unique_ptr<LossPlan> right) {
  return std::make_unique<BeyondBoundPlan>(problem, std::move(right), change);
}

double mean_weight(const LossProblem& problem) {
  return 1 / static_cast<double>(problem.batch.denominators.valid_tokens);
}

// --- outputs by token ----------------------------------------------------------------------------

using Number = double (BoundedRow::*)() const;

/// Returns a column of the outputs.
using ColumnOf = std::span<float> (*)(const TokenOutputs&);

std::span<float> logprobs_of(const TokenOutputs& outputs) {
  return outputs.logprobs;
}

template <RowTerm term>
std::span<float> column_of(const TokenOutputs& outputs) {
  return outputs.terms[term];
}

template <ColumnOf column, Number want, Number bound>
void token(const LossProblem& /*problem*/, const Rows& rows, const Results& results) {
  if (results.outputs == nullptr) return;
  Beyond<float> beyond;
  for (const BoundedRow& row : rows) {
    float* place = &column(results.outputs->tokens)[static_cast<std::size_t>(row.row)];
    const double right = (row.*want)();
    // Downwards and not close to 0: in the range that other invariants allow.
    if (std::abs(right) > 3 * (row.*bound)()) beyond.offer_below(place, right, (row.*bound)());
  }
  beyond.write();
}

/// A float64 logit that is rounded to float32.
template <RowTerm term, bool is_largest>
void extremum(const LossProblem& /*problem*/, const Rows& rows, const Results& results) {
  if (results.outputs == nullptr) return;
  Beyond<float> beyond;
  for (const BoundedRow& row : rows) {
    const double want = is_largest ? row.max : row.smallest;
    float* place = &results.outputs->tokens.terms[term][static_cast<std::size_t>(row.row)];
    beyond.offer(place, want, kRoundoff * std::abs(want));
  }
  beyond.write();
}

// --- loss and metrics ----------------------------------------------------------------------------

/// Returns the bound of a mean of terms over `count`: their own bounds, four roundings of their
/// sum, one of the quotient and one of the result.
double mean_bound(const Rows& rows, Number term, Number bound, double count) {
  double total = 0;
  double size = 0;
  for (const BoundedRow& row : rows) {
    total += (row.*bound)();
    size += std::abs((row.*term)());
  }
  return (total + kRoundoff * (4 + 1 + 1) * size) / count;
}

void loss(const LossProblem& problem, const Rows& rows, const Results& results) {
  if (results.outputs == nullptr) return;
  const double bound =
      mean_bound(rows, &BoundedRow::logprob, &BoundedRow::logprob_bound, 1 / mean_weight(problem));
  // Not where a target has probability 0.
  if (std::isfinite(bound)) results.outputs->result.loss += kBoundsOff * bound;
}

void entropy_avg(const LossProblem& /*problem*/, const Rows& rows, const Results& results) {
  if (results.outputs == nullptr) return;
  Metric& metric = results.outputs->result.metrics.at("entropy_avg");
  metric.amount += kBoundsOff * metric.count *
                   mean_bound(rows, &BoundedRow::entropy, &BoundedRow::entropy_bound, metric.count);
}

// --- d logits ------------------------------------------------------------------------------------

/// Calls offer(row, gradient of the row, d loss / d logprob, beyond) for every row and changes the
/// element that is chosen.
template <typename Offer>
void change_gradient(const LossProblem& problem, const Rows& rows, const Results& results,
                     Offer&& offer) {
  if (results.gradient == nullptr) return;
  dispatch_floating(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    Beyond<T> beyond;
    for (const BoundedRow& row : rows) {
      offer(row, static_cast<T*>(results.gradient) + row.row * problem.vocab, -mean_weight(problem),
            beyond);
    }
    beyond.write();
  });
}

template <bool of_target>
void gradient_element(const LossProblem& problem, const Rows& rows, const Results& results) {
  const auto offer = [&](const BoundedRow& row, auto* gradient, double g, auto& beyond) {
    for (std::size_t v = 0; v < row.x.size(); ++v) {
      const bool is_target = static_cast<std::int64_t>(v) == row.target;
      if (is_target != of_target || row.p(v) < 1e-6) continue;
      beyond.offer(gradient + v, g * ((is_target ? 1 : 0) - row.p(v)),
                   row.gradient_bound(v, g, unit_roundoff(problem.dtype)));
    }
  };
  change_gradient(problem, rows, results, offer);
}

/// The sum of a row, whose bound is the sum of the bounds of its elements, by one element.
void gradient_row_sum(const LossProblem& problem, const Rows& rows, const Results& results) {
  const auto offer = [&](const BoundedRow& row, auto* gradient, double g, auto& beyond) {
    double sum = 0;
    double bound = 0;
    for (std::size_t v = 0; v < row.x.size(); ++v) {
      sum += static_cast<double>(gradient[v]);
      bound += row.gradient_bound(v, g, unit_roundoff(problem.dtype));
    }
    for (std::size_t v = 0; v < row.x.size(); ++v) {
      beyond.offer(gradient + v, static_cast<double>(gradient[v]) - sum, bound);
    }
  };
  change_gradient(problem, rows, results, offer);
}

// --- registration --------------------------------------------------------------------------------

/// True if log-probabilities are those of the given logits, as the bounds above have it.
bool has_plain_logits(const LossProblem& problem) {
  return problem.transform.is_identity() && problem.batch.temperatures.empty() &&
         !problem.sampling.has_mask;
}

template <DType dtype>
bool runs_on(const LossProblem& problem) {
  return problem.dtype == dtype && problem.backend == Backend::cpu && problem.grid.ranks() == 1 &&
         problem.batch.microbatch.count == 1 && problem.row_statistics() &&
         problem.objective_spec == ObjectiveSpec() && has_plain_logits(problem);
}

struct Tensor {
  const char* name;
  const char* what;
  const char* rejected_by;
  decltype(MutantOf::plan) plan;
  bool only_f64 = false;  // given logits of other dtypes are exact in float32
};

constexpr Tensor kTensors[] = {
    {"logprobs", "a log-probability", "logprobs",
     beyond<token<logprobs_of, &BoundedRow::logprob, &BoundedRow::logprob_bound>>},
    {"entropy", "an entropy", "entropy",
     beyond<token<column_of<RowTerm::entropy>, &BoundedRow::entropy, &BoundedRow::entropy_bound>>},
    {"vocab_min", "the smallest logit of a row", "vocab_min",
     beyond<extremum<RowTerm::vocab_min, false>>, true},
    {"vocab_max", "the largest logit of a row", "vocab_max",
     beyond<extremum<RowTerm::vocab_max, true>>, true},
    {"loss", "the loss", "loss", beyond<loss>},
    {"metric", "the metric entropy_avg", "metric.entropy_avg", beyond<entropy_avg>},
    {"grad_logits", "an element of d logits", "grad_logits", beyond<gradient_element<false>>},
    {"grad_target", "an element of d logits at its target", "grad_logits",
     beyond<gradient_element<true>>},
    {"row_sum", "the sum of a row of d logits", "gradient_rows_sum_to_zero",
     beyond<gradient_row_sum>},
};

/// Returns a text that stays as long as the registered mutants, which hold pointers.
const char* kept(std::string text) {
  static std::list<std::string> texts;
  return texts.emplace_back(std::move(text)).c_str();
}

/// Registers the mutants of one dtype.
template <DType dtype>
bool register_beyond() {
  for (const Tensor& tensor : kTensors) {
    if (tensor.only_f64 && dtype != DType::f64) continue;
    const std::string of(name(dtype));
    RegisteredMutant({
        .name = kept(fmt::format("beyond_bound_{}_{}", tensor.name, of)),
        .what = kept(fmt::format("{} is 1.5 error bounds off, with {} logits", tensor.what, of)),
        .strategy = "cp_local",
        .runs_on = runs_on<dtype>,
        .plan = tensor.plan,
        .rejected_by = tensor.rejected_by,
    });
  }
  return true;
}

const bool registered_beyond[] = {register_beyond<DType::f32>(), register_beyond<DType::bf16>(),
                                  register_beyond<DType::f64>()};

}  // namespace
}  // namespace lossgrid
