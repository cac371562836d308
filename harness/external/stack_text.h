// SPDX-License-Identifier: Apache-2.0
// Reader of stacks of workers, in Python or native code: finds the place in the user's code, and
// the cause, which is the user's code or other ranks.
#pragma once

#include <string>

#include "harness/core/error.h"

namespace lossgrid {

struct StackPlace {
  // "at my_loss.py:20 in mine", "in all_reduce, called at my_loss.py:13 in forward"
  std::string text;
  Cause cause = Cause::own;
};

/// Returns the place of a process from the output of its fault handler: Python's, or lines such as
/// "/home/libmine.so(forward+0x12)[0x7f..]", for which the place is "in libmine.so (forward+0x12)".
StackPlace place_in_stack(const std::string& stacks);

/// Returns the cause of the exception at the end of a traceback: a collective, or the user's own
/// code.
Cause cause_of_traceback(const std::string& traceback);

}  // namespace lossgrid
