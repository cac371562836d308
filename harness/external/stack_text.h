// SPDX-License-Identifier: Apache-2.0
// Reader of stacks of workers, of Python or of native code: the place in the user's code, and the
// cause, its own or other ranks.
#pragma once

#include <string>

#include "harness/core/error.h"

namespace lossgrid {

struct StackPlace {
  // "at my_loss.py:20 in mine", "in all_reduce, called at my_loss.py:13 in forward"
  std::string text;
  Cause cause = Cause::own;
};

/// Returns the place of a process in the output of its fault handler: of Python, or lines such as
/// "/home/libmine.so(forward+0x12)[0x7f..]"; for these "in libmine.so (forward+0x12)".
StackPlace place_in_stack(const std::string& stacks);

/// Returns the cause of the exception at the end of a traceback: a collective, or the user's own
/// code.
Cause cause_of_traceback(const std::string& traceback);

}  // namespace lossgrid
