// SPDX-License-Identifier: Apache-2.0
// `PluginProblem`: a problem and the values of options as the structs of the C interface, made from
// JSON (python/PROTOCOL.md). Owns the memory that the structs point to.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/external/plugin/plugin_library.h"

namespace lossgrid {

/// Place of a rank in the grid.
struct PluginPlace {
  int tp_rank = 0;
  int cp_rank = 0;
  int dp_rank = 0;
};

class PluginProblem {
 public:
  /// `options` are the given options; all other options have their defaults.
  PluginProblem(const PluginImplementation& implementation, const nlohmann::json& options,
                const nlohmann::json& problem, const PluginPlace& place, DLDevice device);
  PluginProblem(const PluginProblem&) = delete;
  PluginProblem& operator=(const PluginProblem&) = delete;

  const lossgrid_problem& get() const { return problem_; }
  std::int64_t width() const { return (problem_.vocab + problem_.tp - 1) / problem_.tp; }
  std::int64_t own_ids() const { return problem_.vocab_end - problem_.vocab_start; }

 private:
  void set_options(const PluginImplementation& implementation, const nlohmann::json& options);
  void set_what_is_taken(const nlohmann::json& problem);

  std::string weight_layout_;
  std::string objective_;
  std::string filtered_targets_;
  std::string cp_layout_;
  std::vector<std::string> texts_;
  std::vector<lossgrid_value> values_;
  lossgrid_problem problem_{};
};

}  // namespace lossgrid
