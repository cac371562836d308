// SPDX-License-Identifier: Apache-2.0
// Stacks of Python as text: where the user's code was, and whether other ranks may have kept it
// there.
#pragma once

#include <string>

#include "harness/core/error.h"

namespace lossgrid {

struct StackPlace {
  // "at my_loss.py:20 in mine", "in all_reduce, called at my_loss.py:13 in forward"
  std::string text;
  Cause cause = Cause::own;
};

/// Where a process is, from what its fault handler has written.
StackPlace place_in_stack(const std::string& stacks);

/// In what the exception was raised that a traceback ends with: in a collective, or in the user's
/// own code.
Cause cause_of_traceback(const std::string& traceback);

}  // namespace lossgrid
