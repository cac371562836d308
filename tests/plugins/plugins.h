// SPDX-License-Identifier: Apache-2.0
// Runs of the executable with plugins of impls/plugins, which the build makes beside the tests.
#pragma once

#include <map>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "process.h"

namespace lossgrid {

/// Returns the path of a library of impls/plugins.
inline std::string plugin_file(const std::string& name) {
  return fmt::format("{}/lib{}.so", LOSSGRID_PLUGIN_FOLDER, name);
}

/// Places of a plugin: this process, or worker processes.
enum class Place { in_process, isolated };

class Plugins : public ::testing::Test {
 protected:
  /// Runs `implementations` of a library, and returns its trials by implementation and grid.
  std::map<std::string, nlohmann::ordered_json> run(const std::string& library, Place place,
                                                    const std::string& implementations,
                                                    const std::string& arguments, int exit_code) {
    const std::string report = scratch_.file("report.json");
    result_ = run_lossgrid(
        scratch_, fmt::format("run --load '{}'{} --impl {} {} --report '{}'", plugin_file(library),
                              place == Place::isolated ? " --isolate" : "", implementations,
                              arguments, report));
    EXPECT_EQ(result_.exit_code, exit_code) << result_.out << result_.err;
    std::map<std::string, nlohmann::ordered_json> trials;
    if (!std::filesystem::exists(report)) return trials;
    const nlohmann::ordered_json whole = full_report(report);
    for (const nlohmann::ordered_json& trial : whole.at("trials")) {
      trials[trial.at("implementation")] = trial;
    }
    return trials;
  }

  /// Returns the failed invariants of a trial: name -> reason.
  static std::map<std::string, std::string> failed_invariants(const nlohmann::ordered_json& trial) {
    std::map<std::string, std::string> failed;
    for (const nlohmann::ordered_json& one : trial.at("invariants")) {
      if (one.at("status") == "failed") failed[one.at("name")] = one.at("detail");
    }
    return failed;
  }

  static std::string reason_of(const nlohmann::ordered_json& trial) {
    return trial.value("reason", "");
  }

  const ScratchFolder scratch_;
  ProcessResult result_;  // of the last run
};

/// The same test in both places.
class PluginsInBothPlaces : public Plugins, public ::testing::WithParamInterface<Place> {};

inline std::string name_of_place(const ::testing::TestParamInfo<Place>& info) {
  return info.param == Place::isolated ? "isolated" : "in_process";
}

}  // namespace lossgrid
