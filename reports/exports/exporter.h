// SPDX-License-Identifier: Apache-2.0
// Other programs' formats of a report. An exporter is a pure function of the stored run: no clock,
// no environment, no file. It takes every run that read_report returns: empty, partial, with every
// status. Each is one file in reports/exports/ that registers itself before main.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/record/record.h"

namespace lossgrid {

struct Exporter {
  std::string name;     // what --to takes
  std::string summary;  // one line: what it holds, and for whom
  std::string (*text)(const RunRecord& run) = nullptr;
};

/// Sorted by name.
std::vector<const Exporter*> exporters();

/// Throws usage with the nearest name or the known ones.
const Exporter& find_exporter(std::string_view name);

/// Registers at static initialisation: `const RegisteredExporter registered{{"junit", ...}};`
struct RegisteredExporter {
  explicit RegisteredExporter(Exporter exporter);
};

}  // namespace lossgrid
