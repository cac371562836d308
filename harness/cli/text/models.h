// SPDX-License-Identifier: Apache-2.0
// Models whose sizes of the last layer a plan can use: the entries of cases/models.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lossgrid {

/// Sizes of a model's last layer.
struct ModelShape {
  std::string name;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  std::string source;  // address of the configuration with the sizes
};

/// Reads all entries. Throws bad_input that names the file and the entry.
std::vector<ModelShape> load_models();

/// Returns the entry `name`. Throws bad_input with the nearest name.
ModelShape find_model(const std::string& name);

}  // namespace lossgrid
