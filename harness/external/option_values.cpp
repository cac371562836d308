// SPDX-License-Identifier: Apache-2.0
#include "harness/external/option_values.h"

#include "harness/core/error.h"

namespace lossgrid {

nlohmann::json typed_value(const std::string& name, const std::string& text,
                           const std::string& type) {
  if (type == "str") return text;
  const nlohmann::json value = nlohmann::json::parse(text == "True"    ? "true"
                                                     : text == "False" ? "false"
                                                                       : text,
                                                     nullptr, false);
  const bool fits = (type == "int" && value.is_number_integer()) ||
                    (type == "float" && value.is_number()) ||
                    (type == "bool" && value.is_boolean());
  if (!fits) throw_bad_input("option {} = {} is no {}", name, text, type);
  return value;
}

}  // namespace lossgrid
