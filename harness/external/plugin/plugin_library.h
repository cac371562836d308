// SPDX-License-Identifier: Apache-2.0
// `PluginLibrary`: a shared library of a user (include/lossgrid/plugin.h) and its implementations,
// in the form of declarations. Stays open until the process ends. Any thread may read it.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lossgrid/plugin.h"

namespace lossgrid {

struct PluginOption {
  std::string name;
  std::string type;  // "int", "float", "bool" or "str"
  nlohmann::json default_value;
};

struct PluginImplementation {
  const lossgrid_implementation* table;
  nlohmann::json declaration;  // python/PROTOCOL.md, DECLARATION
  std::vector<PluginOption> options;

  bool returns_nll() const;
};

class PluginLibrary {
 public:
  /// Opens `file`. Throws bad_input with one line that names the file and the rule it breaks.
  explicit PluginLibrary(const std::string& file);

  const std::vector<PluginImplementation>& implementations() const { return implementations_; }
  /// Returns the implementation `name`, which must exist.
  const PluginImplementation& find(const std::string& name) const;

 private:
  std::vector<PluginImplementation> implementations_;
};

}  // namespace lossgrid
