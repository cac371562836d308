// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/usable_truth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/core/error.h"
#include "harness/verify/truth/linear_truth.h"

namespace lossgrid {
namespace {

/// Returns the fault of logits that have no probabilities.
std::string wrong_logit(std::span<const double> logits) {
  for (std::size_t v = 0; v < logits.size(); ++v) {
    if (logits[v] < std::numeric_limits<double>::infinity()) continue;
    return fmt::format("{} at vocab id {}, must be finite or -inf", logits[v], v);
  }
  return "all are -inf, one at least must be finite";
}

std::string place_of(const Problem& problem, std::int64_t token) {
  const std::int64_t sequence = problem.sequence_of(token);
  return fmt::format("sequence {}, token {}", problem.whole_sequence(sequence),
                     token - problem.cu_seqlens[sequence]);
}

/// Returns the fault of logits whose divergence from the teacher's has no gradient.
std::string wrong_divergence(const DivergenceTruth& truth, std::span<const double> student,
                             std::span<const double> teacher) {
  if (!truth.p.is_distribution()) {
    return "all are -inf where the teacher has a probability, one at least must be finite";
  }
  std::size_t v = 0;
  while (v + 1 < teacher.size() && !(std::isinf(teacher[v]) && student[v] > teacher[v])) ++v;
  return fmt::format("{} at vocab id {}, must be -inf where the teacher's is: the divergence is {}",
                     student[v], v, truth.value);
}

/// Returns the fault of gradients whose products add up to more than a float32 holds.
std::string sums_beyond_float32(const LinearTruth& truth) {
  for (const auto& [name, rows] :
       {std::pair{"hidden states", &truth.hidden}, {"the weight", &truth.weight}}) {
    for (const double sum : rows->magnitude) {
      if (sum <= std::numeric_limits<float>::max()) continue;
      return fmt::format(
          "the products of an element of d loss / d {} add up to {:.3g}, beyond "
          "the largest float32",
          name, sum);
    }
  }
  return "";
}

}  // namespace

void require_trainable(const Problem& problem, std::span<const RowTruth> rows) {
  const auto read = [&](const LogitsSource& source, std::int64_t t) {
    std::vector<double> logits(static_cast<std::size_t>(problem.spec.vocab));
    source.read(t, 0, std::span<double>(logits));
    return logits;
  };
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    if (!rows[t].valid) continue;
    const auto refuse = [&](std::string_view tensor, const std::string& fault) {
      throw_bad_input("{}: {} of {}, whose next token is trained on: {}", describe(problem.source),
                      tensor, place_of(problem, t), fault);
    };
    const char* logits = problem.projection ? "hidden x weight" : "logits";
    if (std::isnan(rows[t].logprob)) refuse(logits, wrong_logit(read(*problem.logits, t)));
    const std::optional<DivergenceTruth>& divergence = rows[t].divergence;
    if (!divergence || divergence->has_gradient()) continue;
    const std::vector<double> teacher = read(*problem.teacher, t);
    if (!divergence->q.is_distribution()) {
      refuse(problem.spec.teacher_hidden > 0 ? "teacher_hidden x teacher_weight"
             : problem.spec.teacher_topk > 0 ? "teacher_topk_logits"
                                             : "teacher_logits",
             wrong_logit(teacher));
    }
    refuse(logits, wrong_divergence(*divergence, read(*problem.logits, t), teacher));
  }
}

void require_numbers(const Problem& problem, const Truth& truth) {
  std::string what;
  std::string where;
  if (std::isnan(truth.objective.loss.value)) what = "the loss is nan";
  for (const auto& [name, metric] : truth.objective.metrics) {
    const std::optional<Enclosure> value = metric.value();
    if (value && std::isnan(value->value)) what = fmt::format("metric {} is nan", name);
  }
  for (std::int64_t t = problem.tokens() - 1; t >= 0; --t) {
    if (!truth.rows[t].valid) continue;
    const RowGradientTruth grad = truth.objective.gradient(t);
    const auto require_finite = [&](std::string_view number, const Enclosure& gradient) {
      if (std::isfinite(gradient.value)) return;
      what = fmt::format("d loss / d {} of {} is {}", number, place_of(problem, t), gradient.value);
    };
    for (const RowTerm term : std::views::reverse(kAllGradientTerms)) {
      require_finite(name(term), grad.terms[term]);
    }
    require_finite("logprob", grad.logprob);
    if (std::isinf(truth.rows[t].logprob)) {
      where = fmt::format(", where the target of {} has probability 0", place_of(problem, t));
    }
  }
  if (what.empty() && truth.linear) what = sums_beyond_float32(*truth.linear);
  if (what.empty()) return;
  throw_bad_input("{}: {}: {}{}", describe(problem.source), problem.spec.objective.kind, what,
                  where);
}

}  // namespace lossgrid
