// SPDX-License-Identifier: Apache-2.0
// The check of an option that takes one of a few values: refuses others with the nearest one.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/core/text.h"

namespace lossgrid {

inline CLI::Validator one_of(std::vector<std::string> values) {
  const std::string description = "{" + join(values, ",") + "}";
  return CLI::Validator(
      [values = std::move(values)](const std::string& text) {
        if (std::find(values.begin(), values.end(), text) != values.end()) return std::string();
        return unknown_name_message("value", text, values);
      },
      description);
}

}  // namespace lossgrid
