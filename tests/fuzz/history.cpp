// SPDX-License-Identifier: Apache-2.0
// Histories: every series that is taken has a point.
#include "reports/change/history.h"

#include "fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lossgrid;
  const MemoryFile file(data, size);
  const auto history = taken([&] { return read_history(file.path()); });
  if (!history) return 0;
  for (const HistorySeries& series : *history) {
    require(!series.points.empty(), "a series has a point");
  }
  return 0;
}
