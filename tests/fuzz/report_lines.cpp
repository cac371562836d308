// SPDX-License-Identifier: Apache-2.0
// Lines of a run that did not end.
#include "fuzz/report_properties.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lossgrid;
  const std::string lines(reinterpret_cast<const char*>(data), size);
  require_report_properties({"run.partial.jsonl", true, lines});
  return 0;
}
