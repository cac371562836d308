// SPDX-License-Identifier: Apache-2.0
// PlainObjective: an objective as a second judge has it, registered by the file plain_NAME.cpp of
// the objective's folder: its loss and metrics, and cases in which each of its options decides.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"

namespace lossgrid::plain {

/// Options that decide alone: "name=value|other", the result differs from that with `other`,
/// without one from that with the default.
struct OptionCase {
  std::string options;
  std::string keys = "";  // of the case, behind those of the objective's batches
  std::string objective = "";
};

/// Batches with sequences of one token and of none, some that the sample mask leaves out, and
/// masked tokens.
inline constexpr const char* kBatch = "lens=6+4+7+1+0+5 sample_mask=110111 vocab=5 mask=ragged";
inline constexpr const char* kBatchOfPairs =
    "lens=6+4+5+7+3+3+4+6 sample_mask=11110011 vocab=5 mask=ragged";

struct PlainObjective {
  std::string kind;
  std::string batch;  // keys of its batches
  LossAndMetrics (*judge)(const Case& of, const Rows& live, const Rows& held);
  std::vector<OptionCase> cases;
  /// Returns the divergence of a row. `z`: the student's logits; `teacher`: the teacher's, as
  /// given.
  double (*divergence)(const Case& of, const Token& token, const std::vector<double>& z,
                       const std::vector<double>& teacher) = nullptr;
};

inline std::map<std::string, PlainObjective>& plain_objectives() {
  static std::map<std::string, PlainObjective> objectives;
  return objectives;
}

struct RegisteredPlainObjective {
  explicit RegisteredPlainObjective(PlainObjective objective) {
    for (OptionCase& one : objective.cases) one.objective = objective.kind;
    plain_objectives().emplace(objective.kind, std::move(objective));
  }
};

/// Returns the cases of all objectives.
inline std::vector<OptionCase> option_cases() {
  std::vector<OptionCase> cases;
  for (const auto& [kind, objective] : plain_objectives()) {
    cases.insert(cases.end(), objective.cases.begin(), objective.cases.end());
  }
  return cases;
}

}  // namespace lossgrid::plain
