// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/diagnosis/scale_suspects.h"

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

constexpr Mistake kMistakes[] = {
    {"cp", "a sum over CP in the backward of a gather, or a loss that is not divided by cp?"},
    {"1/cp", "a loss divided by cp whose gradients are not added up over CP?"},
    {"cp^2", "added up over CP twice?"},
    {"1/cp^2", "divided by cp twice?"},
    {"dp", "a sum over DP in the place of a mean?"},
    {"1/dp", "a mean over DP in the place of a sum?"},
    {"dp^2", "added up over DP twice?"},
    {"1/dp^2", "divided by dp twice?"},
    {"n_mb", "means of microbatches added up, or a division by their number that is missing?"},
    {"1/n_mb", "a division by the number of microbatches that is not undone?"},
    {"n_mb^2", "added up over microbatches twice?"},
    {"1/n_mb^2", "divided by the number of microbatches twice?"},
    {"tp", "replicated values added up over TP?"},
    {"1/tp", "a mean over TP of what is replicated or summed?"},
    {"tp^2", "replicated values added up over TP twice?"},
    {"1/tp^2", "divided by tp twice?"},
    {"valid_tokens", "a sum over the valid tokens in the place of their mean?"},
    {"1/valid_tokens", "divided by the number of valid tokens twice?"},
    {"sequences", "a sum over the sequences in the place of their mean?"},
    {"1/sequences", "divided by the number of sequences twice?"},
    {"rows", "multiplied by the number of rows?"},
    {"1/rows", "divided by the number of all rows on top of the mean?"},
    {"padded_rows", "multiplied by the number of rows, padding included?"},
    {"1/padded_rows", "divided by the number of rows, padding included, on top of the mean?"},
    {"valid_tokens/rows", "divided by all rows in the place of the valid ones?"},
    {"valid_tokens/padded_rows",
     "divided by all rows, padding included, in the place of the valid ones?"},
    {"valid_tokens/predicting_rows",
     "divided by all rows that predict a token in the place of the valid ones?"},
    {"valid_tokens/mask_tokens",
     "divided by the sum of the mask, in which first tokens that are no target count?"},
    {"valid_tokens/sequences*longest",
     "divided by the tokens of a batch that is padded to its longest sequence?"},
    {"1/sequences*longest",
     "divided by the tokens of a batch that is padded to its longest sequence, on top of the "
     "mean?"},
    {"1/longest", "divided by the length of the longest sequence on top of the mean?"},
    {"1/predicting_rows", "divided by the number of rows that predict a token on top of the mean?"},
    {"sequences/rows", "divided by all rows in the place of the sequences?"},
    {"valid_tokens/sequences", "divided by the sequences in the place of the valid tokens?"},
    {"sequences/valid_tokens", "divided by the valid tokens in the place of the sequences?"},
    {"temperature", "not divided by the temperature?"},
    {"1/temperature", "divided by the temperature twice?"},
    {"temperature^2", "multiplied by the square of the temperature?"},
    {"1/temperature^2", "not multiplied by the square of the temperature?"},
    {"logit_scale", "multiplied by the logit scale twice?"},
    {"1/logit_scale", "without the logit scale?"},
};

std::string typical_mistake(std::string_view name) {
  for (const Mistake& mistake : kMistakes) {
    if (mistake.name == name) return std::string(mistake.text);
  }
  return "";
}

/// True if `product` is another name times `name`.
bool is_factor(const std::string& name, const std::string& product) {
  return product.starts_with(name + '*') || product.ends_with('*' + name);
}

/// Collects suspects; sizes of 1 are no factors.
class Suspects {
 public:
  explicit Suspects(const TrialSizes& sizes) : sizes_(sizes) {
    add_products();
    add_squares("tp", static_cast<double>(sizes.tp));
    add_squares("temperature", sizes.temperature);
    add_with_inverse("logit_scale", sizes.logit_scale, 0);
    const auto if_other = [](std::int64_t count, std::int64_t than) {
      return count == than ? 0 : count;
    };
    const std::array<std::pair<std::string, std::int64_t>, 8> counts{
        {{"valid_tokens", sizes.valid_tokens},
         {"sequences", sizes.sequences},
         {"rows", sizes.rows},
         {"padded_rows", if_other(sizes.padded_rows, sizes.rows)},
         {"predicting_rows", if_other(sizes.predicting_rows, sizes.valid_tokens)},
         {"mask_tokens",
          sizes.mask_tokens == sizes.rows ? 0 : if_other(sizes.mask_tokens, sizes.valid_tokens)},
         {"longest", sizes.longest},
         {"sequences*longest", if_other(sizes.sequences * sizes.longest, sizes.rows)}}};
    for (const auto& [name, count] : counts) {
      add_with_inverse(name, static_cast<double>(count), 1);
      for (const auto& [below, divisor] : counts) {
        if (name == below || count == 0 || divisor == 0) continue;
        if (is_factor(name, below) || is_factor(below, name)) continue;
        add(name + "/" + below, static_cast<double>(count) / static_cast<double>(divisor), 2);
      }
    }
  }

  std::vector<ScaleSuspect> take() {
    std::stable_sort(all_.begin(), all_.end(), [](const ScaleSuspect& a, const ScaleSuspect& b) {
      return a.order < b.order;
    });
    return std::move(all_);
  }

 private:
  void add(const std::string& name, double value, int order) {
    if (value == 1 || !(value > 0) || !std::isfinite(value)) return;
    all_.push_back(
        {.name = name, .value = value, .mistake = typical_mistake(name), .order = order});
  }

  void add_with_inverse(const std::string& name, double value, int order) {
    add(name, value, order);
    add("1/" + name, 1 / value, order);
  }

  void add_squares(const std::string& name, double value) {
    add_with_inverse(name, value, 0);
    add_with_inverse(name + "^2", value * value, 1);
  }

  /// Adds products of the sizes that frameworks scale by, and the square of each size.
  void add_products() {
    for (const int cp : {1, -1, 0, 2, -2}) {
      for (const int dp : {1, -1, 0, 2, -2}) {
        for (const int n_mb : {1, -1, 0, 2, -2}) add_product({dp, cp, n_mb});
      }
    }
  }

  void add_product(const ScaleFactor& factor) {
    const ScaleSizes& sizes = sizes_.scale;
    const int symbols = std::abs(factor.cp) + std::abs(factor.dp) + std::abs(factor.n_mb);
    const int most = std::max({std::abs(factor.cp), std::abs(factor.dp), std::abs(factor.n_mb)});
    const bool has_one = (factor.cp != 0 && sizes.cp == 1) || (factor.dp != 0 && sizes.dp == 1) ||
                         (factor.n_mb != 0 && sizes.n_mb == 1);
    if (symbols == 0 || has_one || (most == 2 && symbols > 2)) return;
    std::string name = format_scale(factor);
    if (most == 2) {
      const std::string of = factor.cp != 0 ? "cp" : factor.dp != 0 ? "dp" : "n_mb";
      name = (factor.cp + factor.dp + factor.n_mb < 0 ? "1/" : "") + of + "^2";
    }
    const int order = symbols == 1 ? 0 : most == 2 ? 1 : symbols;
    all_.push_back({name, factor.value(sizes), typical_mistake(name), factor, true, order});
  }

  const TrialSizes& sizes_;
  std::vector<ScaleSuspect> all_;
};

}  // namespace

std::vector<ScaleSuspect> scale_suspects(const TrialSizes& sizes) {
  return Suspects(sizes).take();
}

std::vector<ScaleSuspect> scale_suspects(double factor, const TrialSizes& sizes) {
  const double size = std::abs(factor);
  if (!std::isfinite(factor) || is_near(size, 1)) return {};
  std::vector<ScaleSuspect> suspects = scale_suspects(sizes);
  std::erase_if(suspects, [&](const ScaleSuspect& one) { return !is_near(size, one.value); });
  return suspects;
}

std::vector<ScaleSuspect> simplest(std::vector<ScaleSuspect> suspects) {
  if (suspects.empty()) return suspects;
  const int order = suspects.front().order;
  std::erase_if(suspects, [&](const ScaleSuspect& one) { return one.order > order; });
  return suspects;
}

}  // namespace lossgrid
