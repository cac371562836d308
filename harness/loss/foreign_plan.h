// SPDX-License-Identifier: Apache-2.0
// `ForeignPlan`: the part of a plan of loaded code that can report how the code treats memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/loss/train_step.h"

namespace lossgrid {

class ForeignPlan {
 public:
  virtual ~ForeignPlan() = default;

  /// Ends the plan, which does nothing more, and returns the memory of the device that the code
  /// leaves allocated, empty for none; nullopt where nobody can know. Throws a failure of the code.
  virtual std::optional<std::string> end() = 0;
  /// Returns the tensors outside of which the code wrote, of those that are not on the device of
  /// the rank but in another process.
  virtual const std::vector<std::string>& broken_guards() const = 0;
  /// Returns the report on the last train step.
  virtual const StepReport& step() const = 0;
};

}  // namespace lossgrid
