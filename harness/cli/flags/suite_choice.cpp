// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/flags/suite_choice.h"

#include "harness/cli/command.h"
#include "harness/core/error.h"

namespace lossgrid {
namespace {

Suite suite_of_cases(const std::vector<std::string>& cases) {
  Suite suite;
  suite.grids = {Grid{}};
  for (const std::string& text : cases) {
    for (const CaseSpec& spec : parse_sweep(text)) suite.cases.push_back(spec);
  }
  return suite;
}

}  // namespace

std::vector<Suite> chosen_suites(const std::string& command, const SuiteChoice& choice) {
  std::vector<std::string> cases = choice.cases;
  const bool has_neither = choice.suite.empty() && cases.empty();
  if (has_neither && !choice.default_case.empty()) cases = {choice.default_case};
  if (choice.suite.empty() == cases.empty()) {
    throw Error(ErrorCode::usage, command + " needs either --suite or --case");
  }
  std::vector<Suite> suites =
      choice.suite.empty() ? std::vector<Suite>{suite_of_cases(cases)} : load_suites(choice.suite);
  for (Suite& suite : suites) {
    if (!choice.implementations.empty()) suite.implementations = parse_list(choice.implementations);
    if (choice.grids.empty()) continue;
    suite.grids.clear();
    for (const std::string& text : parse_list(choice.grids)) {
      suite.grids.push_back(parse_grid(text));
    }
  }
  return suites;
}

}  // namespace lossgrid
