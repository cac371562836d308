// SPDX-License-Identifier: Apache-2.0
// Rules of combinations of the options of `clipped_pg`: require() refuses the first one that is
// broken.
#pragma once

#include <initializer_list>

namespace lossgrid {

struct OptionRule {
  bool is_broken;
  const char* text;
};

/// Throws bad_input with the first rule that is broken.
void require_clipped_pg(std::initializer_list<OptionRule> rules);

}  // namespace lossgrid
