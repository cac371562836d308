// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/scale_suspects.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace lossgrid {
namespace {

constexpr double kWithin = 1e-3;

bool is_near(double a, double b) {
  return std::abs(a - b) <= kWithin * std::abs(b);
}

struct Mistake {
  std::string_view name;
  std::string_view text;
};

constexpr std::array<Mistake, 14> kMistakes{{
    {"cp", "a sum over CP in the backward of a gather, or a loss that is not divided by cp?"},
    {"1/cp", "a loss divided by cp whose gradients are not added up over CP?"},
    {"dp", "a sum over DP in the place of a mean?"},
    {"1/dp", "a mean over DP in the place of a sum?"},
    {"n_mb", "means of microbatches added up, or a division by their number that is missing?"},
    {"1/n_mb", "a division by the number of microbatches that is not undone?"},
    {"tp", "replicated values added up over TP?"},
    {"1/tp", "a mean over TP of what is replicated or summed?"},
    {"valid_tokens", "a sum over the valid tokens in the place of their mean?"},
    {"1/valid_tokens", "divided by the number of valid tokens twice?"},
    {"sequences", "a sum over the sequences in the place of their mean?"},
    {"1/sequences", "divided by the number of sequences twice?"},
    {"temperature", "not divided by the temperature?"},
    {"1/temperature", "divided by the temperature twice?"},
}};

std::string mistake_of(std::string_view name) {
  for (const Mistake& mistake : kMistakes) {
    if (mistake.name == name) return std::string(mistake.text);
  }
  return "";
}

/// Suspects in classes, the simplest class first: all that fit of one class are named.
using Classes = std::array<std::vector<ScaleSuspect>, 4>;

void add_products(const ScaleSizes& sizes, Classes& classes) {
  for (const int cp : {1, -1, 0}) {
    for (const int dp : {1, -1, 0}) {
      for (const int n_mb : {1, -1, 0}) {
        const ScaleFactor factor{dp, cp, n_mb};
        // A size of 1 is no factor.
        if ((cp != 0 && sizes.cp == 1) || (dp != 0 && sizes.dp == 1) ||
            (n_mb != 0 && sizes.n_mb == 1) || factor == ScaleFactor{}) {
          continue;
        }
        const std::string name = format_scale(factor);
        const int symbols = std::abs(cp) + std::abs(dp) + std::abs(n_mb);
        const std::size_t place = symbols == 1 ? 0 : static_cast<std::size_t>(symbols);
        classes[place].push_back({name, factor.value(sizes), mistake_of(name), name});
      }
    }
  }
}

void add_with_inverse(const std::string& name, double value, std::vector<ScaleSuspect>& suspects) {
  if (value == 1 || !(value > 0)) return;
  suspects.push_back({name, value, mistake_of(name), ""});
  suspects.push_back({"1/" + name, 1 / value, mistake_of("1/" + name), ""});
}

}  // namespace

std::vector<ScaleSuspect> scale_suspects(double factor, const TrialSizes& sizes) {
  const double size = std::abs(factor);
  if (!std::isfinite(factor) || is_near(size, 1)) return {};
  Classes classes;
  add_products(sizes.scale, classes);
  add_with_inverse("tp", static_cast<double>(sizes.tp), classes[0]);
  add_with_inverse("temperature", sizes.temperature, classes[0]);
  add_with_inverse("valid_tokens", static_cast<double>(sizes.valid_tokens), classes[1]);
  add_with_inverse("sequences", static_cast<double>(sizes.sequences), classes[1]);
  for (std::vector<ScaleSuspect>& suspects : classes) {
    std::erase_if(suspects, [&](const ScaleSuspect& one) { return !is_near(size, one.value); });
    if (!suspects.empty()) return suspects;
  }
  return {};
}

}  // namespace lossgrid
