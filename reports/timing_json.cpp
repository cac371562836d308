// SPDX-License-Identifier: Apache-2.0
// The JSON form of a timing record. Samples are kept, so that whoever reads a report can summarise
// them another way; an implementation that was not timed has the same keys, with null.
#include <nlohmann/json.hpp>

#include "reports/timing_record.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

/// Below this the 20 % and 80 % quantiles are hardly more than the extremes.
constexpr std::int64_t kFewestSamples = 10;

Json entry_to_json(const TimingEntry& entry, bool has_useful_flops) {
  const bool timed = entry.why_skipped.empty();
  const auto or_null = [](bool exists, auto value) { return exists ? Json(value) : Json(nullptr); };
  Json out;
  out["implementation"] = entry.implementation;
  out["status"] = name(timed ? TimingStatus::timed : TimingStatus::skipped);
  out["reason"] = entry.why_skipped;
  out["samples_ns"] = entry.samples_ns;
  out["median_ns"] = or_null(timed, entry.median_ns);
  out["p20_ns"] = or_null(timed, entry.p20_ns);
  out["p80_ns"] = or_null(timed, entry.p80_ns);
  out["ratio_to_baseline"] = or_null(timed, entry.ratio_to_baseline);
  out["useful_flops_per_second"] =
      or_null(timed && has_useful_flops, entry.useful_flops_per_second);
  out["own_flops"] = or_null(timed, entry.own_flops);
  return out;
}

}  // namespace

std::string_view name(TimingStatus status) {
  switch (status) {
    case TimingStatus::timed:
      return "timed";
    case TimingStatus::skipped:
      return "skipped";
    case TimingStatus::error:
      return "error";
    case TimingStatus::timeout:
      return "timeout";
  }
  return "?";
}

std::string TimingRecord::why_unstable() const {
  return status == TimingStatus::timed && rounds < kFewestSamples ? "fewer than 10 samples" : "";
}

Json timing_to_json(const TimingRecord& record) {
  Json out;
  out["case"]["name"] = record.case_name;
  out["case"]["text"] = record.case_text;
  out["grid"] = record.grid;
  out["baseline"] = record.baseline;
  out["rounds"] = record.rounds;
  out["status"] = name(record.status);
  out["reason"] = record.reason;
  out["unstable"] = !record.why_unstable().empty();
  out["unstable_reason"] = record.why_unstable();
  out["useful_flops"] = record.useful_flops;
  out["entries"] = Json::array();
  for (const TimingEntry& entry : record.entries) {
    out["entries"].push_back(entry_to_json(entry, record.useful_flops > 0));
  }
  return out;
}

}  // namespace lossgrid
