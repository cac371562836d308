// SPDX-License-Identifier: Apache-2.0
// Suite files: grids and cases that are taken read back from their text.
#include "harness/problem/case/suite.h"

#include <algorithm>
#include <span>

#include "fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lossgrid;
  constexpr std::size_t kMostCompared = 16;
  const MemoryFile file(data, size);
  const auto suite = taken([&] { return read_suite(file.path()); });
  if (!suite) return 0;
  for (const Grid& grid : suite->grids) {
    require(parse_grid(format_grid(grid)) == grid, "parse(format(grid)) == grid");
    require(grid.ranks() > 0, "a grid has ranks");
  }
  const std::span cases(suite->cases);
  for (const CaseSpec& spec : cases.first(std::min(cases.size(), kMostCompared))) {
    require(parse_case(format_case(spec)) == spec, "parse(format(case)) == case");
    for (const std::string& implementation : suite->implementations) {
      if (suite->skips) stated_reasons(*suite->skips, implementation, spec);
    }
  }
  return 0;
}
