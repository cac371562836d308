// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/bit_comparison.h"

#include <algorithm>
#include <string>
#include <vector>

#include "harness/runner/verdict/trial_verdict.h"

namespace lossgrid {
namespace {

DeterminismRecord& verdict_on(TrialRecord& record, const std::string& name) {
  return *std::find_if(record.determinism.begin(), record.determinism.end(),
                       [&](const DeterminismRecord& d) { return d.name == name; });
}

void compare(TrialRecord& record, const std::string& name, const TrialRecord& other,
             const std::vector<std::string>& outputs) {
  DeterminismRecord& verdict = verdict_on(record, name);
  for (const std::string& output : outputs) {
    const auto fingerprint = record.fingerprints.find(output);
    if (fingerprint == record.fingerprints.end()) continue;  // there is no such output
    if (verdict.detail.empty()) {
      verdict.verdict = "same_bits";
      verdict.detail = "compared with " + other.grid();
    }
    if (fingerprint->second == other.fingerprints.at(output)) continue;
    verdict.verdict = "different_bits";
    verdict.detail += ": " + output;
  }
}

}  // namespace

void BitComparison::judge(TrialRecord& record) {
  if (record.status != TrialStatus::passed) return;
  const auto [same_tp, is_first_of_tp] = first_by_tp_.try_emplace(record.tp, record);
  // Per-token outputs only: sums over tokens (the gradient of a weight) round differently in every
  // split.
  const bool is_comparable = verdict_on(record, "packing").detail.empty();
  if (!is_first_of_tp && is_comparable) {
    compare(record, "packing", same_tp->second, {"logprobs", "grad_logits", "grad_hidden"});
  }
  if (!first_) first_ = record;
  if (first_->tp != record.tp) compare(record, "tp_size", *first_, {"logprobs"});
  // It passed, so nothing but its bits can be wrong.
  set_verdict(record, {.compared = true, .determinism = record.determinism});
}

}  // namespace lossgrid
