// SPDX-License-Identifier: Apache-2.0
// `ReturnedNumbers`: numbers that an external function returned from a forward; and the comparison
// of an evaluation, which keeps no graph, with a training step on the same inputs.
#pragma once

#include <string>
#include <vector>

#include "harness/external/declaration.h"
#include "harness/external/shared_arrays.h"

namespace lossgrid {

/// Numbers that a function returned: log-probabilities and entropies by row, or a loss alone.
struct ReturnedNumbers {
  std::vector<float> logprobs;
  std::vector<float> entropies;
  std::vector<float> loss;
};

/// Returns the loss in the answer to a forward, in which "nan", "inf" and "-inf" are texts.
double loss_in(const nlohmann::json& answer);

/// Returns the numbers in the answer to a forward and in the arrays that it wrote.
ReturnedNumbers returned_numbers(const ExternalDeclaration& declaration, const SharedArrays& arrays,
                                 const nlohmann::json& answer);

/// Returns the first difference beyond roundings as a sentence; empty without such a difference.
std::string difference_of_evaluation(const ReturnedNumbers& evaluated,
                                     const ReturnedNumbers& trained);

}  // namespace lossgrid
