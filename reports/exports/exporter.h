// SPDX-License-Identifier: Apache-2.0
// `Exporter`: a report in the format of another program. An exporter is a pure function of the
// stored run: no clock, no environment, no file. It takes every run that read_report returns:
// empty, partial, with every status. Each is one file in reports/exports/formats/ that registers
// itself before main.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/record/record.h"

namespace lossgrid {

struct Exporter {
  std::string name;     // what --to takes
  std::string summary;  // one line: content and consumers
  std::string (*text)(const RunRecord& run) = nullptr;
};

/// Returns all of them, sorted by name.
std::vector<const Exporter*> exporters();

/// Finds an exporter by name. Throws usage with the nearest name or the known ones.
const Exporter& find_exporter(std::string_view name);

/// Registers at static initialisation: `const RegisteredExporter registered_junit{{"junit", ...}};`
struct RegisteredExporter {
  explicit RegisteredExporter(Exporter exporter);
};

}  // namespace lossgrid
