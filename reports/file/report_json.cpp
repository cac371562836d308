// SPDX-License-Identifier: Apache-2.0
#include "reports/file/report_json.h"

#include <utility>

#include "reports/file/json_writer.h"
#include "reports/file/report_fields.h"
#include "reports/file/report_format.h"

namespace lossgrid {

using Json = nlohmann::ordered_json;

Json trial_to_json(const TrialRecord& trial) {
  return JsonWriter::object_of(trial);
}

Json memory_to_json(const PhaseMemoryRecord& record) {
  return JsonWriter::object_of(record);
}

Json mutant_to_json(const MutantRecord& mutant) {
  return JsonWriter::object_of(mutant);
}

Json timing_to_json(const TimingRecord& record) {
  return JsonWriter::object_of(record);
}

Json ab_to_json(const AbRecord& record) {
  return JsonWriter::object_of(record);
}

Json trial_to_json(const TrialRecord& trial, Json memory) {
  JsonWriter writer;
  writer.replace("memory", std::move(memory));
  return writer.write(trial);
}

Json run_header_to_json(const RunRecord& run) {
  JsonWriter writer;
  header_fields(writer, const_cast<RunRecord&>(run));  // see JsonWriter::write
  return writer.take();
}

Json run_to_json(const RunRecord& run) {
  return JsonWriter::object_of(run);
}

Json run_to_json(const RunRecord& run, Json trials) {
  JsonWriter writer;
  writer.replace("trials", std::move(trials));
  return writer.write(run);
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json without_volatile_keys(Json report) {
  if (report.is_object()) {
    for (const std::string& key : report_format().volatile_keys) report.erase(key);
  }
  if (report.is_structured()) {
    for (Json& value : report) value = without_volatile_keys(std::move(value));
  }
  return report;
}

}  // namespace lossgrid
