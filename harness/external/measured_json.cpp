// SPDX-License-Identifier: Apache-2.0
#include "harness/external/measured_json.h"

#include <cmath>
#include <limits>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

/// Returns object[key]; an empty array if the key is missing or null.
nlohmann::json listed(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : nlohmann::json::array();
}

}  // namespace

double number_in(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  const double infinity = std::numeric_limits<double>::infinity();
  return value == "inf" ? infinity : value == "-inf" ? -infinity : std::nan("");
}

PhaseMeasurement phase_measurement(const nlohmann::json& answer) {
  const nlohmann::json& from = answer.at("measured");
  PhaseMeasurement measured;
  measured.time_ns = from.value("time_ns", std::int64_t{0});
  // The peak is null if it was not requested.
  if (const auto peak = from.find("peak_bytes"); peak != from.end() && peak->is_number()) {
    measured.peak_bytes = *peak;
  }
  for (const nlohmann::json& entry : listed(from, "collectives")) {
    measured.calls.push_back(
        {entry.at("group"), entry.at("op"), entry.at("calls"), entry.at("bytes")});
  }
  for (const nlohmann::json& name : listed(answer, "changed")) {
    measured.changed_inputs.push_back(name);
  }
  return measured;
}

StepReport step_report(const nlohmann::json& answer, std::int64_t elements) {
  StepReport report;
  const nlohmann::json metrics = answer.value("metrics", nlohmann::json::object());
  for (const auto& [name, value] : metrics.items()) report.metrics[name] = number_in(value);
  for (const nlohmann::json& range : listed(answer, "held")) {
    const ElementRange held{range.at(0), range.at(1)};
    if (held.begin < 0 || held.end < held.begin || held.end > elements) {
      throw_bad_input("a rank holds the elements [{}, {}) of a gradient with {}", held.begin,
                      held.end, elements);
    }
    report.held.push_back(held);
  }
  return report;
}

LearnedCalls::Calls calls_in(const nlohmann::json& answer) {
  LearnedCalls::Calls calls;
  for (const nlohmann::json& call : listed(answer.at("measured"), "calls")) {
    const auto reduce = call.find("reduce");
    const bool reduces = reduce != call.end() && reduce->is_string();
    calls.push_back({call.at("op"), call.at("group"),
                     reduces ? reduce->get<std::string>() : std::string(), call.at("bytes")});
  }
  return calls;
}

}  // namespace lossgrid
