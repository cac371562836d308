// SPDX-License-Identifier: Apache-2.0
// Records of the checks of a trial: comparisons with the truth, properties that need no truth, and
// bitwise comparisons of two runs.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "reports/record/field.h"

namespace lossgrid {

/// One element of a compared tensor. -1: does not apply.
struct WorstElement {
  std::int64_t rank = 0;
  std::int64_t sequence = -1;
  std::int64_t token = -1;
  std::int64_t vocab_id = -1;
  double got = 0;
  double want = 0;
};

template <typename A>
void fields(A& a, WorstElement& worst) {
  a("rank", worst.rank, "World rank that holds it.");
  a("sequence", worst.sequence, "Sequence of the packed batch; null where it does not apply.",
    {.null = true, .usual = "null"});
  a("token", worst.token,
    "Offset in its sequence of the row that predicts; null where it does not apply.",
    {.null = true, .usual = "null"});
  a("vocab_id", worst.vocab_id, "Vocabulary id; null where it does not apply.",
    {.null = true, .usual = "null"});
  a("got", worst.got, "Value of the implementation; null when it is not finite.",
    {.minimum = {}, .null = true});
  a("want", worst.want, "Truth in float64; null when it is not finite.",
    {.minimum = {}, .null = true});
}

/// One compared tensor.
struct CheckRecord {
  std::string name;
  bool passed = false;
  double ratio = 0;  // infinite when the element is not a number
  double error_abs = 0;
  double bound_abs = 0;
  std::optional<WorstElement> worst;
  std::int64_t compared = 0;
  std::int64_t beyond_bound = 0;
};

template <typename A>
void fields(A& a, CheckRecord& check) {
  a.record("check", "One compared tensor: ratio = error / bound of its worst element.");
  a("name", check.name,
    "loss, logprobs, entropy, vocab_min, vocab_max, metric.NAME, grad_logits, grad_hidden, "
    "grad_weight, their _l2 (norm of 64 rows) and _bias, ...",
    {.nonempty = true});
  a.computed("passed", check.passed && std::isfinite(check.ratio),
             [&](bool passed) { check.passed = passed; }, "ratio <= 1.", {.usual = "true"});
  a("ratio", check.ratio,
    "Error / bound of the worst element; null when it is infinite or not a number.",
    {.null = true, .infinite = true, .usual = "0.0"});
  a("error_abs", check.error_abs, "Absolute error of the worst element.",
    {.null = true, .usual = "0.0"});
  a("bound_abs", check.bound_abs, "Its bound.", {.null = true, .usual = "0.0"});
  a("compared", check.compared, "Number of compared elements.");
  a("beyond_bound", check.beyond_bound, "Number of elements with ratio > 1.", {.usual = "0"});
  a("worst", check.worst, "The element with the largest ratio; null when no element was compared.",
    {.usual = "null"});
}

/// A property that needs no truth to be judged by.
struct InvariantRecord {
  std::string name;  // invariants.h
  std::string status;
  std::string detail;
};

template <typename A>
void fields(A& a, InvariantRecord& invariant) {
  a.record("invariant", "A property that needs no truth to be judged by.");
  a("name", invariant.name, "same_bits_on_all_ranks, gradient_rows_sum_to_zero, ...",
    {.nonempty = true});
  a("status", invariant.status, "not_run: it does not apply here.",
    {.one_of = "passed failed not_run", .usual = R"("passed")"});
  a("detail", invariant.detail, "Reason of another status; empty when it passed.",
    {.usual = R"("")"});
}

/// A bitwise comparison of two runs.
struct DeterminismRecord {
  std::string name;
  std::string verdict;
  bool claimed = false;
  std::string detail;
};

template <typename A>
void fields(A& a, DeterminismRecord& comparison) {
  a.record("determinism", "A bitwise comparison of two runs.");
  a("name", comparison.name, "The difference between the two runs.",
    {.one_of = "run_to_run packing tp_size"});
  a("verdict", comparison.verdict, "Outcome.", {.one_of = "same_bits different_bits not_compared"});
  a("claimed", comparison.claimed,
    "The implementation promises same bits, so different ones fail the trial.", {.usual = "false"});
  a("detail", comparison.detail, "The outputs that were compared.", {.usual = R"("")"});
}

}  // namespace lossgrid
