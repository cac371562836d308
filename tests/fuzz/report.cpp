// SPDX-License-Identifier: Apache-2.0
// Whole reports, packed by gzip or not.
#include "fuzz/report_properties.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lossgrid;
  const MemoryFile file(data, size);
  const auto text = taken([&] { return read_report_file(file.path()); });
  if (text) require_report_properties(*text);
  return 0;
}
