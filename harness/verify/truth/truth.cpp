// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/truth.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "harness/core/clock.h"
#include "harness/core/error.h"
#include "harness/core/stage_clock.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/for_each_row.h"
#include "harness/verify/truth/linear_truth.h"
#include "harness/verify/truth/row_sums.h"
#include "harness/verify/truth/unpadded_batch.h"

namespace lossgrid {

void read_logit_errors(const LogitsSource& source, std::int64_t token, std::int64_t begin,
                       std::span<const double> logits, std::span<double> errors) {
  source.read_errors(token, begin, errors);
  const double relative = source.relative_error();
  // -inf stays -inf, and times a relative error it is no bound.
  for (std::size_t k = 0; k < errors.size(); ++k) {
    errors[k] = std::isinf(logits[k]) ? 0.0 : errors[k] + relative * std::abs(logits[k]);
  }
}

namespace {

void add_overflow(std::span<const double> logits, std::span<double> errors) {
  for (std::size_t k = 0; k < logits.size(); ++k) errors[k] += beyond_float32(logits[k]);
}

}  // namespace

void read_teacher_row(const Problem& problem, std::int64_t token, std::int64_t begin,
                      std::span<double> logits, std::span<double> errors) {
  problem.teacher->read(token, begin, logits);
  read_logit_errors(*problem.teacher, token, begin, logits, errors);
  add_overflow(logits, errors);
}

namespace {

DivergenceTruth divergence_of_row(const Problem& problem, std::int64_t token,
                                  const Divergence& divergence, std::span<const double> student,
                                  std::span<const double> student_errors, const RowTruth& row) {
  std::vector<double> teacher(student.size());
  std::vector<double> teacher_errors(student.size());
  std::vector<double> errors(student_errors.begin(), student_errors.end());
  errors.resize(student.size(), 0.0);
  for (std::size_t v = 0; v < errors.size(); ++v) {
    if (std::isinf(student[v])) errors[v] = 0;
  }
  // An error is as large as what is beyond float32, and sums of errors are finite.
  std::vector<double> limited(student.begin(), student.end());
  for (double& z : limited) {
    if (std::isfinite(z)) z = std::clamp(z, -kLargestOverflow, kLargestOverflow);
  }
  add_overflow(limited, errors);
  read_teacher_row(problem, token, 0, teacher, teacher_errors);
  return divergence_truth(divergence, {limited, teacher, errors, teacher_errors},
                          row.reads_as_float32 || row.rounds_log_sum_exp);
}

}  // namespace

std::vector<RowTruth> compute_rows(const Problem& problem, int threads,
                                   const Divergence& divergence) {
  std::vector<RowTruth> rows(static_cast<std::size_t>(problem.tokens()));
  const std::vector<std::int32_t> targets = problem.row_targets();
  const std::vector<std::uint8_t> valid = problem.row_valid();

  const StageScope scope(Stage::truth);
  const std::int64_t start = steady_clock_ns();
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    if (targets[t] >= 0) tokens.push_back(t);
  }
  std::atomic<std::int64_t> truth_ns = 0;  // of all threads together
  const auto row_of = [&](std::int64_t t, std::span<const double> logits) {
    const std::int64_t begin = steady_clock_ns();
    std::vector<double> errors(problem.logits->given() ? 0 : logits.size());
    if (!errors.empty()) read_logit_errors(*problem.logits, t, 0, logits, errors);
    rows[t] = row_truth(logits, targets[t], errors);
    rows[t].reads_as_float32 = problem.spec.dtype == DType::f64;
    rows[t].valid = valid[t] != 0;
    if (problem.zeroes_filtered_targets() && std::isinf(rows[t].logprob)) {
      rows[t].is_filtered = true;
      rows[t].logprob = 0;
    }
    if (divergence.is_any() && !std::isnan(rows[t].logprob)) {
      rows[t].divergence = divergence_of_row(problem, t, divergence, logits, errors, rows[t]);
    }
    truth_ns += steady_clock_ns() - begin;
  };
  const std::int64_t reading_ns = for_each_row(problem, tokens, threads, row_of);
  const double reading =
      static_cast<double>(reading_ns) / std::max(1.0, static_cast<double>(reading_ns + truth_ns));
  reassign_stage_time(
      Stage::generate,
      static_cast<std::int64_t>(reading * static_cast<double>(steady_clock_ns() - start)));
  return rows;
}

namespace {

/// Returns value +- radius as a float32 result: beyond the largest float32 either that number or
/// infinite.
Enclosure known_float32(double value, double radius) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kLargest = std::numeric_limits<float>::max();
  Enclosure known = Enclosure::around(value, radius);
  if (std::isinf(value)) return known;
  if (known.low < -kLargest) known.low = -kInfinity;
  if (known.high > kLargest) known.high = kInfinity;
  known.value = std::clamp(value, -kLargest, kLargest);
  known.low = std::min(known.low, known.value);
  known.high = std::max(known.high, known.value);
  return known;
}

/// Returns a row term: the logit of a head without a vocabulary exactly, where it is given so.
Enclosure known_term(const RowTruth& row, RowTerm term, int serial_adds, DType logits) {
  const double value = row.term(term);
  const double bound = term_bound(row, term, serial_adds, logits);
  const bool is_denormal = std::abs(value) < 2 * kSmallestNormalF32;
  if (term == RowTerm::logsumexp && row.vocab == 1 && bound <= kSmallestNormalF32 && !is_denormal) {
    return value;
  }
  Enclosure known = known_float32(value, bound);
  if (row.may_overflow(term)) known.low = -std::numeric_limits<double>::infinity();
  return known;
}

Enclosure known_logprob(const RowTruth& row, int serial_adds) {
  if (row.is_filtered) return {};
  Enclosure known = known_float32(row.logprob, logprob_bound(row, serial_adds));
  known.high = std::min(known.high, positive_logprob_bound(row, serial_adds));
  return known;
}

}  // namespace

double logit_rounding(double logit) {
  constexpr double kLargest = 1e100;  // in place of no bound, with a finite square
  return std::min(kLargest, std::expm1(unit_roundoff(DType::bf16) * std::abs(logit)));
}

namespace {

/// Returns the rows of which is(row) is true.
template <typename Is>
std::vector<std::int64_t> tokens_with(const std::vector<RowTruth>& rows, Is&& is) {
  std::vector<std::int64_t> tokens;
  for (std::size_t t = 0; t < rows.size(); ++t) {
    if (is(rows[t])) tokens.push_back(static_cast<std::int64_t>(t));
  }
  return tokens;
}

bool has_numbers(const RowTruth& row) {
  return row.target >= 0 && !std::isnan(row.logprob);
}

/// Makes the divergences of rows anew that have one, for what rows allow by now.
void renew_divergences(const Problem& problem, std::vector<RowTruth>& rows) {
  const auto tokens =
      tokens_with(rows, [](const RowTruth& row) { return row.divergence.has_value(); });
  for_each_row(problem, tokens, process_threads(), [&](std::int64_t t, auto logits) {
    RowTruth& row = rows[t];
    std::vector<double> errors(logits.size());
    read_logit_errors(*problem.logits, t, 0, logits, errors);
    row.divergence = divergence_of_row(problem, t, row.divergence->divergence, logits, errors, row);
  });
}

/// Adds roundings of the logits to the errors of rows. Returns the sums of their squares, [T].
std::vector<LogitRoundings> add_logit_roundings(const Problem& problem,
                                                std::vector<RowTruth>& rows) {
  std::vector<LogitRoundings> roundings(rows.size());
  const auto tokens = tokens_with(rows, has_numbers);
  for_each_row(problem, tokens, process_threads(), [&](std::int64_t t, auto logits) {
    RowTruth& row = rows[t];
    std::vector<double> errors(logits.size());
    std::vector<double> p(logits.size());
    read_logit_errors(*problem.logits, t, 0, logits, errors);
    truth_probabilities(row, logits, p);
    for (std::size_t v = 0; v < logits.size(); ++v) {
      const double e = logit_rounding(logits[v]);
      roundings[t].add(p[v], e, row.centred_logprob(logits[v], p[v]));
      errors[v] += e;
    }
    set_errors(logits, errors, row);
  });
  return roundings;
}

/// Returns the relative error of the logits of row t by declared roundings of their quotient.
double quotient_error(const Problem& problem, std::int64_t t,
                      const DeclaredRowRoundings& declared) {
  double error = 0;
  if (declared.temperature) {
    const double temperature = problem.temperature_of_row(t);
    error += std::abs(temperature / round_to(DType::bf16, temperature) - 1);
  }
  if (declared.quotient) error += 1.01 * unit_roundoff(DType::bf16);
  return error;
}

/// Adds declared roundings of quotients to the errors of rows.
void add_quotient_roundings(const Problem& problem, const DeclaredRowRoundings& declared,
                            std::vector<RowTruth>& rows) {
  const auto tokens = tokens_with(rows, has_numbers);
  for_each_row(problem, tokens, process_threads(), [&](std::int64_t t, auto logits) {
    RowTruth& row = rows[t];
    row.quotient_error = quotient_error(problem, t, declared);
    std::vector<double> errors(logits.size());
    read_logit_errors(*problem.logits, t, 0, logits, errors);
    for (std::size_t v = 0; v < logits.size(); ++v) {
      if (std::isfinite(logits[v])) errors[v] += row.quotient_error * std::abs(logits[v]);
    }
    set_errors(logits, errors, row);
  });
}

/// The log-probability 0 of a target that a sampling mask leaves out is a constant.
void take_out_filtered_logprobs(Truth& truth) {
  for (std::size_t t = 0; t < truth.rows.size(); ++t) {
    if (!truth.rows[t].valid || !truth.rows[t].is_filtered) continue;
    truth.objective.grad_logprob[t] = {};
    truth.objective.grad_sides.erase(static_cast<std::int64_t>(t));
  }
}

}  // namespace

Truth make_truth(const Problem& problem, std::vector<RowTruth> rows, const Objective& objective,
                 int serial_adds, const DeclaredRowRoundings& declared) {
  for (RowTruth& row : rows) row.rounds_log_sum_exp = declared.log_sum_exp;
  if (declared.log_sum_exp) renew_divergences(problem, rows);
  const std::vector<RowTruth> exact = rows;
  std::vector<LogitRoundings> roundings;
  if (declared.logits && problem.projection && problem.spec.dtype == DType::bf16) {
    roundings = add_logit_roundings(problem, rows);
  }
  const bool divides_bf16 = problem.untransformed != nullptr && problem.untransformed->given() &&
                            problem.spec.dtype == DType::bf16;
  if (divides_bf16 && (declared.temperature || declared.quotient)) {
    add_quotient_roundings(problem, declared, rows);
  }
  std::vector<TokenTruth> tokens(rows.size());
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const RowTruth& row = rows[t];
    if (!row.valid) continue;
    tokens[t].logprob = known_logprob(row, serial_adds);
    for (const RowTerm term : kAllRowTerms) {
      if (term == RowTerm::divergence && !row.divergence) continue;
      tokens[t].terms[term] = known_term(row, term, serial_adds, problem.spec.dtype);
    }
    Enclosure& top1 = tokens[t].terms[RowTerm::top1];
    top1.low = std::max(top1.low, 0.0);
    top1.high = std::min(top1.high, 1.0);
  }
  Truth truth{std::move(rows), objective.truth(unpadded_batch(problem), tokens)};
  take_out_filtered_logprobs(truth);
  if (problem.projection) {
    truth.linear = std::make_shared<const LinearTruth>(make_linear_truth(
        problem, exact, truth.objective, serial_adds, process_threads(), {}, roundings));
  }
  return truth;
}

Truth take_part(const Truth& whole, const Problem& part) {
  Truth truth;
  truth.linear = whole.linear;
  const std::vector<std::uint8_t> valid = part.row_valid();
  for (std::int64_t t = 0; t < part.tokens(); ++t) {
    truth.rows.push_back(whole.rows[part.whole_row(t)]);
    truth.rows.back().valid = valid[t] != 0;
    const auto take = [&](const std::vector<Enclosure>& from, std::vector<Enclosure>& to) {
      if (from.empty()) return;
      to.push_back(valid[t] != 0 ? from[part.whole_row(t)] : Enclosure());
    };
    take(whole.objective.grad_logprob, truth.objective.grad_logprob);
    for (const RowTerm term : kAllGradientTerms) {
      take(whole.objective.grad_terms[term], truth.objective.grad_terms[term]);
    }
    const auto sides = whole.objective.grad_sides.find(part.whole_row(t));
    if (valid[t] != 0 && sides != whole.objective.grad_sides.end()) {
      truth.objective.grad_sides.emplace(t, sides->second);
    }
  }
  return truth;
}

void truth_probabilities(const RowTruth& row, std::span<const double> logits, std::span<double> p) {
  softmax_probabilities(logits, row.max, row.sum, p);
}

void truth_gradient(const RowTruth& row, double grad_logprob, std::span<const double> p,
                    std::int64_t begin, std::span<double> out) {
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = -grad_logprob * p[k];
  const std::int64_t at = row.target - begin;
  if (at < 0 || at >= static_cast<std::int64_t>(out.size())) return;
  // Written as 1 - p_y it would cancel when the label is certain.
  out[at] = grad_logprob * (row.others / row.sum);
}

}  // namespace lossgrid
