// SPDX-License-Identifier: Apache-2.0
#include "impls/adapters/external_returned.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

namespace lossgrid {
namespace {

/// Returns the first index at which the numbers differ.
std::optional<std::size_t> first_difference(const std::vector<float>& evaluated,
                                            const std::vector<float>& trained) {
  // Without a graph an operation may add up in another order.
  constexpr float kRoundings = 1e-5f;
  for (std::size_t k = 0; k < trained.size(); ++k) {
    if (evaluated[k] == trained[k] || (std::isnan(evaluated[k]) && std::isnan(trained[k]))) {
      continue;
    }
    const float apart = std::abs(evaluated[k] - trained[k]);
    if (apart <= kRoundings * std::max(1.0f, std::abs(trained[k]))) continue;
    return k;
  }
  return std::nullopt;
}

}  // namespace

double loss_in(const nlohmann::json& answer) {
  const nlohmann::json& value = answer.at("loss");
  if (value.is_number()) return value.get<double>();
  const double infinity = std::numeric_limits<double>::infinity();
  return value == "inf" ? infinity : value == "-inf" ? -infinity : std::nan("");
}

ReturnedNumbers returned_numbers(const ExternalDeclaration& declaration, const SharedArrays& arrays,
                                 const nlohmann::json& answer) {
  ReturnedNumbers out;
  const auto read = [&](const char* name, std::vector<float>& to) {
    const std::span<float> column = arrays.array<float>(name);
    to.assign(column.begin(), column.end());
  };
  if (declaration.returns_logprobs) read("out.logprobs", out.logprobs);
  if (declaration.returns_entropy) read("out.entropy", out.entropies);
  if (declaration.returns_loss) out.loss.push_back(static_cast<float>(loss_in(answer)));
  return out;
}

std::string difference_of_evaluation(const ReturnedNumbers& evaluated,
                                     const ReturnedNumbers& trained) {
  const auto sentence = [](float now, float then, const std::string& place) {
    return fmt::format("an evaluation returns {}, training {} {}", now, then, place);
  };
  if (const auto k = first_difference(evaluated.logprobs, trained.logprobs)) {
    return sentence(evaluated.logprobs[*k], trained.logprobs[*k], fmt::format("in row {}", *k));
  }
  if (const auto k = first_difference(evaluated.entropies, trained.entropies)) {
    return sentence(evaluated.entropies[*k], trained.entropies[*k],
                    fmt::format("as the entropy of row {}", *k));
  }
  if (const auto k = first_difference(evaluated.loss, trained.loss)) {
    return sentence(evaluated.loss[*k], trained.loss[*k], "as the loss");
  }
  return "";
}

}  // namespace lossgrid
