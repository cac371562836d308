// SPDX-License-Identifier: Apache-2.0
// `plain::judge`: loss, metrics and gradient by the given logits of a problem, by a second judge
// (plain_case.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"
#include "impls/objectives/plain/plain_statistics.h"

namespace lossgrid::plain {

struct Judged {
  double loss = 0;
  Numbers metrics;
  // [valid tokens][V], by the logits of their rows; NaN at a switch.
  std::vector<std::vector<double>> gradient;
};

/// The logits of the valid tokens' rows, as given.
struct GivenRows {
  explicit GivenRows(const Case& of) {
    const auto vocab = static_cast<std::size_t>(of.problem.spec.vocab);
    for (const Token& token : of.tokens) {
      student.emplace_back(vocab);
      of.problem.given_logits().read(token.row, 0, std::span<double>(student.back()));
      teacher.emplace_back(of.problem.given_teacher ? vocab : 0);
      if (of.problem.given_teacher) {
        of.problem.given_teacher->read(token.row, 0, std::span<double>(teacher.back()));
      }
      kept.push_back(kept_ids(of.problem.spec, transformed(of, token, student.back())));
    }
  }

  std::vector<std::vector<double>> student;
  std::vector<std::vector<double>> teacher;
  std::vector<std::vector<bool>> kept;
};

inline const PlainObjective& objective_of(const Case& of) {
  return plain_objectives().at(of.problem.spec.objective.kind);
}

/// Returns the numbers of a row with the logits `given`.
inline Row row_of(const Case& of, const GivenRows& rows, std::size_t k,
                  const std::vector<double>& given) {
  const Token& token = of.tokens[k];
  const std::vector<double> z = transformed(of, token, given);
  const std::vector<double> logs = log_softmax(z, rows.kept[k]);
  Row row;
  row.value = z[0];
  row.x = of.problem.spec.head == Head::lm ? logs[static_cast<std::size_t>(token.id)] : 0;
  if (row.x == -kInf) row.x = 0;  // outside of its kept set, and not masked
  std::vector<double> finite;
  double largest_of_lower = -kInf;  // ids below the label
  double largest = -kInf;
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (logs[v] == -kInf) continue;
    finite.push_back(z[v]);
    largest = std::max(largest, z[v]);
    if (v < static_cast<std::size_t>(token.id)) largest_of_lower = std::max(largest_of_lower, z[v]);
    row.entropy -= std::exp(logs[v]) * logs[v];
    row.mean_logprob += logs[v] / static_cast<double>(z.size());
    row.sum_p2 += std::exp(2 * logs[v]);
    row.lse = z[v] - logs[v];
  }
  row.least = *std::min_element(finite.begin(), finite.end());
  row.largest = largest;
  row.mean_logit = sum_of(finite) / static_cast<double>(finite.size());
  const double of_label = z[static_cast<std::size_t>(token.id)];
  row.top1 = of_label == largest && of_label > largest_of_lower ? 1 : 0;
  const auto divergence = objective_of(of).divergence;
  if (divergence != nullptr) row.divergence = divergence(of, token, z, rows.teacher[k]);
  return row;
}

inline Judged judge(const Case& of) {
  const PlainObjective& objective = objective_of(of);
  const GivenRows given(of);
  Rows held;
  for (std::size_t k = 0; k < of.tokens.size(); ++k) {
    held.push_back(row_of(of, given, k, given.student[k]));
  }
  Judged out;
  const LossAndMetrics judged = objective.judge(of, held, held);
  out.loss = judged.loss;
  out.metrics = judged.metrics;
  out.metrics["loss"] = out.loss;
  if (of.problem.spec.statistics && of.problem.spec.head == Head::lm) {
    add_statistics(of, held, out.metrics);
  }
  if (of.problem.spec.predictions) add_predictions(of, held, out.metrics);
  for (std::size_t k = 0; k < of.tokens.size(); ++k) {
    out.gradient.emplace_back();
    for (std::size_t v = 0; v < given.student[k].size(); ++v) {
      constexpr double kStep = 1e-5;
      const auto at = [&](double step) {
        std::vector<double> logits = given.student[k];
        logits[v] += step;
        Rows live = held;
        live[k] = row_of(of, given, k, logits);
        return objective.judge(of, live, held).loss;
      };
      const double above = (at(kStep) - out.loss) / kStep;
      const double below = (out.loss - at(-kStep)) / kStep;
      // Between them is a switch of the formula, such as the end of a clamp.
      const bool has_switch = std::abs(above - below) > 1e-4 * (1 + std::abs(above));
      out.gradient.back().push_back(has_switch ? std::nan("") : (above + below) / 2);
    }
  }
  return out;
}

}  // namespace lossgrid::plain
