// SPDX-License-Identifier: Apache-2.0
// `ForeignPlan`: the part of a plan of loaded code that reports the code's use of memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/loss/train_step.h"

namespace lossgrid {

class ForeignPlan {
 public:
  virtual ~ForeignPlan() = default;

  /// Ends the plan, which must not be used afterwards, and returns the device memory that the code
  /// leaves allocated: empty without such memory, nullopt if it is unknown. Throws a failure of the
  /// code.
  virtual std::optional<std::string> end() = 0;
  /// Returns the tensors whose guard bands the code overwrote, among tensors of another process,
  /// which are not on the rank's device.
  virtual const std::vector<std::string>& broken_guards() const = 0;
  /// Returns the report on the last train step.
  virtual const StepReport& step() const = 0;
};

}  // namespace lossgrid
