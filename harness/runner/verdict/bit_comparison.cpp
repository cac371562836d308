// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/bit_comparison.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace lossgrid {
namespace {

void compare(TrialRecord& record, const std::string& name, const TrialRecord& other,
             const std::vector<std::string>& outputs) {
  const auto verdict = std::find_if(record.determinism.begin(), record.determinism.end(),
                                    [&](const DeterminismRecord& d) { return d.name == name; });
  for (const std::string& output : outputs) {
    const auto fingerprint = record.fingerprints.find(output);
    if (fingerprint == record.fingerprints.end()) continue;  // there is no such output
    if (verdict->detail.empty()) {
      verdict->verdict = "same_bits";
      verdict->detail = "compared with " + other.grid();
    }
    if (fingerprint->second == other.fingerprints.at(output)) continue;
    verdict->verdict = "different_bits";
    verdict->detail += ": " + output;
  }
  if (verdict->claimed && verdict->verdict == "different_bits") {
    record.status = TrialStatus::failed;
    record.reason = fmt::format("determinism: {} gave different bits, {}", name, verdict->detail);
  }
}

}  // namespace

void BitComparison::judge(TrialRecord& record) {
  if (record.status != TrialStatus::passed) return;
  const auto [same_tp, first_of_tp] = by_tp_.try_emplace(record.tp, record);
  // By token: sums over tokens (the gradient of a weight) round differently in every split.
  if (!first_of_tp) {
    compare(record, "packing", same_tp->second, {"logprobs", "grad_logits", "grad_hidden"});
  }
  if (!any_) any_ = record;
  if (any_->tp != record.tp) compare(record, "tp_size", *any_, {"logprobs"});
}

}  // namespace lossgrid
