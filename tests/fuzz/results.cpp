// SPDX-License-Identifier: Apache-2.0
// Recorded results: every element of every tensor that is taken can be read.
#include <vector>

#include "fuzz/memory_file.h"
#include "harness/problem/bundle/recorded_results.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lossgrid;
  const MemoryFile file(data, size);
  const auto results = taken([&] { return RecordedResults::read(file.path()); });
  if (!results) return 0;
  const SafetensorsFile tensors = SafetensorsFile::read(file.path());
  for (const std::string& name : results->names()) {
    std::vector<double> values(static_cast<std::size_t>(tensors.tensor(name).elements()));
    results->read(name, 0, values);
  }
  require(results->loss().has_value() == results->has("loss"), "a loss that is there is read");
  return 0;
}
