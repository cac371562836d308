// SPDX-License-Identifier: Apache-2.0
// Text of --case: the text and the JSON form of a case that is taken read back as the same case.
#include <algorithm>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "fuzz/property.h"
#include "harness/problem/case/case_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lossgrid;
  constexpr std::size_t kMostCompared = 16;
  const auto cases = taken([&] {
    return parse_sweep({reinterpret_cast<const char*>(data), size});
  });
  if (!cases) return 0;
  for (const CaseSpec& spec : std::span(*cases).first(std::min(cases->size(), kMostCompared))) {
    require(parse_case(format_case(spec)) == spec, "parse(format(case)) == case");
    const auto from_json = cases_from_json(case_to_json(spec), "");
    require(from_json.size() == 1 && from_json[0] == spec, "from_json(to_json(case)) == case");
  }
  return 0;
}
