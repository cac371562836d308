// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/loss_implementation.h"

namespace lossgrid {

std::string LossImplementation::why_unsupported(const LossProblem& /*problem*/) const {
  return "";
}

}  // namespace lossgrid
