// SPDX-License-Identifier: Apache-2.0
// `allowed_values`: the validator of an option that takes one of a few values.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/core/text.h"

namespace lossgrid {

/// Returns a validator that refuses other values and names the nearest one.
inline CLI::Validator allowed_values(std::vector<std::string> values) {
  const std::string description = "{" + join(values, ",") + "}";
  return CLI::Validator(
      [values = std::move(values)](const std::string& text) {
        if (std::find(values.begin(), values.end(), text) != values.end()) return std::string();
        return unknown_name_message("value", text, values);
      },
      description);
}

}  // namespace lossgrid
