// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/exporter.h"

#include <map>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

std::map<std::string, Exporter, std::less<>>& registry() {
  static std::map<std::string, Exporter, std::less<>> map;
  return map;
}

}  // namespace

RegisteredExporter::RegisteredExporter(Exporter exporter) {
  registry().emplace(exporter.name, std::move(exporter));
}

std::vector<const Exporter*> exporters() {
  std::vector<const Exporter*> all;
  for (const auto& [name, exporter] : registry()) all.push_back(&exporter);
  return all;
}

const Exporter& find_exporter(std::string_view name) {
  const auto found = registry().find(name);
  if (found != registry().end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [key, exporter] : registry()) known.push_back(key);
  throw Error(ErrorCode::usage, unknown_name_message("format", name, known));
}

}  // namespace lossgrid
