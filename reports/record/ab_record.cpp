// SPDX-License-Identifier: Apache-2.0
#include "reports/record/ab_record.h"

#include <cmath>

#include "reports/record/json_fields.h"

namespace lossgrid {

bool AbRecord::is_false_alarm() const {
  return is_self_check() && (verdict == AbVerdict::regressed || verdict == AbVerdict::improved);
}

ExitCode exit_code_of(const std::vector<AbRecord>& records, bool strict) {
  ExitCode code = ExitCode::ok;
  for (const AbRecord& record : records) {
    if (record.is_false_alarm()) {
      code = worst(code, ExitCode::rank_crashed);
    } else if (record.verdict == AbVerdict::regressed) {
      code = worst(code, ExitCode::time_regression);
    } else if (record.verdict == AbVerdict::inconclusive && (strict || record.is_self_check())) {
      code = worst(code, ExitCode::inconclusive);
    }
  }
  return code;
}

nlohmann::ordered_json ab_to_json(const AbRecord& record) {
  ReportJson out;
  out["case"] = record.case_title;
  out["grid"] = record.grid;
  out["cache"] = record.cache;
  out["phase"] = record.phase;
  out["a"] = record.a;
  out["b"] = record.b;
  out["ratio"] = record.ratio.median;
  out["low"] = record.ratio.low;
  out["high"] =
      std::isfinite(record.ratio.high) ? ReportJson(record.ratio.high) : ReportJson(nullptr);
  out["confidence"] = record.ratio.confidence;
  out["launches"] = record.launch_ratios.size();
  out["pairs"] = record.pairs;
  out["margin"] = record.margin;
  out["verdict"] = name(record.verdict);
  out["seed"] = record.seed;
  out["launch_ratios"] = record.launch_ratios;
  return out;
}

AbRecord ab_from_json(const nlohmann::ordered_json& json) {
  AbRecord record;
  record.case_title = field<std::string>(json, "case");
  record.grid = field<std::string>(json, "grid");
  record.cache = field<std::string>(json, "cache");
  record.phase = field<std::string>(json, "phase");
  record.a = field<std::string>(json, "a");
  record.b = field<std::string>(json, "b");
  record.ratio = {field<double>(json, "ratio"), field<double>(json, "low"),
                  ratio_field(json, "high"), field<double>(json, "confidence")};
  record.pairs = field<std::int64_t>(json, "pairs");
  record.margin = field<double>(json, "margin");
  record.verdict = ab_verdict(field<std::string>(json, "verdict"));
  record.seed = field<std::uint64_t>(json, "seed");
  record.launch_ratios = field<std::vector<double>>(json, "launch_ratios");
  return record;
}

}  // namespace lossgrid
