// SPDX-License-Identifier: Apache-2.0
#include "harness/external/declared_cost.h"

#include "harness/core/error.h"

namespace lossgrid {
namespace {

PhasePrediction prediction_from(const nlohmann::json& phase) {
  PhasePrediction predicted;
  if (const nlohmann::json& peak = phase.at("peak_bytes"); !peak.is_null()) {
    predicted.peak_bytes = peak.get<std::int64_t>();
  }
  const nlohmann::json& calls = phase.at("calls");
  if (calls.is_null()) return predicted;
  predicted.calls.emplace();
  for (const nlohmann::json& entry : calls) {
    predicted.calls->push_back(
        {entry.at("group"), entry.at("op"), entry.at("calls"), entry.at("bytes")});
  }
  return predicted;
}

}  // namespace

DeclaredCost declared_cost_from(const nlohmann::json& answer) {
  try {
    return {prediction_from(answer.at("forward")), prediction_from(answer.at("backward"))};
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::rank_failed,
                fmt::format("a cost that is not of the protocol: {}", error.what()));
  }
}

void add_prediction(const PhasePrediction& predicted, PhaseCost& cost) {
  cost.workspace_bytes += predicted.peak_bytes.value_or(0);
  if (!predicted.calls) return;
  for (const MeasuredCalls& calls : *predicted.calls) {
    CollectiveCounts* counts = calls.group == "tp"   ? &cost.tp
                               : calls.group == "cp" ? &cost.cp
                                                     : nullptr;
    if (counts == nullptr) continue;
    for (int c = 0; c < kCollectives; ++c) {
      const auto operation = static_cast<Collective>(c);
      if (name(operation) != calls.operation) continue;
      counts->add(operation, calls.calls, calls.payload_bytes);
    }
  }
}

}  // namespace lossgrid
