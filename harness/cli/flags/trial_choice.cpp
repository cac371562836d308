// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/flags/trial_choice.h"

#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "harness/core/text.h"
#include "harness/runner/run.h"
#include "harness/runner/trial/trial.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

/// Returns the ids in the file, each with the number of its first line.
std::map<std::string, std::size_t> listed_ids(const std::string& path) {
  std::map<std::string, std::size_t> ids;
  std::size_t number = 0;
  for (const std::string& line : split(read_text_file(path), '\n')) {
    ++number;
    if (!line.empty()) ids.emplace(line, number);
  }
  if (ids.empty()) throw_bad_input("--trials {}: it lists no trial", path);
  return ids;
}

}  // namespace

std::vector<Suite> only_listed_trials(const std::vector<Suite>& suites, const std::string& path) {
  const std::map<std::string, std::size_t> listed = listed_ids(path);
  std::map<std::string, std::size_t> unknown = listed;
  std::vector<Suite> chosen;
  for (const Suite& suite : suites) {
    for (const CaseSpec& spec : suite.cases) {
      const std::string text = format_case(spec);
      for (const std::string& implementation : suite.implementations) {
        std::vector<Grid> grids;
        for (const Grid& grid : suite.grids) {
          const std::string id = trial_id(text, grid, implementation, suite.backend);
          if (!listed.contains(id)) continue;
          unknown.erase(id);
          grids.push_back(grid);
        }
        if (grids.empty()) continue;
        chosen.push_back({.name = suite.name,
                          .summary = suite.summary,
                          .grids = std::move(grids),
                          .implementations = {implementation},
                          .cases = {spec},
                          .skips = suite.skips,
                          .timing = std::nullopt,
                          .backend = suite.backend});
      }
    }
  }
  if (!unknown.empty()) {
    const auto& [id, number] = *unknown.begin();
    throw_bad_input("--trials {}: line {}: this run has no trial '{}' (see --list-trials)", path,
                    number, id);
  }
  return chosen;
}

std::string list_of_trials(const std::vector<Suite>& suites) {
  std::string lines;
  for (const TrialRecord& trial : planned_trials(suites)) {
    lines += json_text({{"id", trial.id},
                        {"case", trial.case_name},
                        {"grid", trial.grid()},
                        {"implementation", trial.implementation}},
                       -1) +
             '\n';
  }
  return lines;
}

}  // namespace lossgrid
