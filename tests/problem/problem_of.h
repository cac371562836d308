// SPDX-License-Identifier: Apache-2.0
// `problem_of`: problem of a case given by its text.
#pragma once

#include <string>

#include "harness/problem/batch/problem.h"

namespace lossgrid {

inline Problem problem_of(const std::string& text) {
  return make_problem(parse_case(text));
}

}  // namespace lossgrid
