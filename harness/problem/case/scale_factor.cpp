// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/scale_factor.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

constexpr int kMaxExponent = 4;
constexpr std::size_t kMaxLength = 64;

struct Symbol {
  std::string_view name;
  int ScaleFactor::*exponent;
  std::int64_t ScaleSizes::*size;
};

constexpr std::array<Symbol, 3> kSymbols{
    Symbol{"dp", &ScaleFactor::dp, &ScaleSizes::dp},
    Symbol{"cp", &ScaleFactor::cp, &ScaleSizes::cp},
    Symbol{"n_mb", &ScaleFactor::n_mb, &ScaleSizes::n_mb},
};

ScaleFactor inverse(const ScaleFactor& factor) {
  return {-factor.dp, -factor.cp, -factor.n_mb};
}

/// Parser of product := term (('*' | '/') term)*, term := name | '1' | '(' product ')'.
class ScaleParser {
 public:
  ScaleParser(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  ScaleFactor parse() {
    if (text_.size() > kMaxLength) fail();
    const ScaleFactor factor = product();
    if (at_ != text_.size()) fail();
    return factor;
  }

 private:
  ScaleFactor product() {
    ScaleFactor factor = term();
    while (next_is('*') || next_is('/')) {
      const bool divides = text_[at_++] == '/';
      const ScaleFactor right = term();
      factor = factor * (divides ? inverse(right) : right);
    }
    return factor;
  }

  ScaleFactor term() {
    if (next_is('(')) {
      ++at_;
      const ScaleFactor factor = product();
      if (!next_is(')')) fail();
      ++at_;
      return factor;
    }
    const std::size_t end = std::min(text_.find_first_of("*/()", at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    ScaleFactor factor;
    if (word == "1") return factor;
    for (const Symbol& symbol : kSymbols) {
      if (word != symbol.name) continue;
      factor.*symbol.exponent = 1;
      return factor;
    }
    fail();
  }

  bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }

  [[noreturn]] void fail() const {
    throw_bad_input(
        "{} = '{}' is not a product of dp, cp, n_mb and 1 such as dp*n_mb/cp or 1/(dp*cp)", what_,
        text_);
  }

  std::string_view text_;
  std::string_view what_;
  std::size_t at_ = 0;
};

std::string product_text(const std::vector<std::string>& names) {
  const std::string product = join(names, "*");
  return names.size() > 1 ? "(" + product + ")" : product;
}

}  // namespace

double ScaleFactor::value(const ScaleSizes& sizes) const {
  double numerator = 1;
  double denominator = 1;
  for (const Symbol& symbol : kSymbols) {
    const auto size = static_cast<double>(sizes.*symbol.size);
    for (int k = 0; k < this->*symbol.exponent; ++k) numerator *= size;
    for (int k = 0; k > this->*symbol.exponent; --k) denominator *= size;
  }
  return numerator / denominator;
}

bool ScaleFactor::is_one(const ScaleSizes& sizes) const {
  std::map<std::int64_t, int> exponents;  // by prime
  for (const Symbol& symbol : kSymbols) {
    std::int64_t rest = sizes.*symbol.size;
    for (std::int64_t prime = 2; rest > 1; ++prime) {
      if (prime * prime > rest) prime = rest;
      for (; rest % prime == 0; rest /= prime) exponents[prime] += this->*symbol.exponent;
    }
  }
  return std::all_of(exponents.begin(), exponents.end(),
                     [](const auto& entry) { return entry.second == 0; });
}

ScaleFactor operator*(const ScaleFactor& a, const ScaleFactor& b) {
  return {a.dp + b.dp, a.cp + b.cp, a.n_mb + b.n_mb};
}

std::string format_scale(const ScaleFactor& factor) {
  std::vector<std::string> above;
  std::vector<std::string> below;
  for (const Symbol& symbol : kSymbols) {
    const int exponent = factor.*symbol.exponent;
    std::vector<std::string>& side = exponent > 0 ? above : below;
    side.insert(side.end(), static_cast<std::size_t>(std::abs(exponent)), std::string(symbol.name));
  }
  const std::string numerator = above.empty() ? "1" : join(above, "*");
  return below.empty() ? numerator : numerator + "/" + product_text(below);
}

ScaleFactor parse_scale(std::string_view text, std::string_view what) {
  const ScaleFactor factor = ScaleParser(text, what).parse();
  for (const Symbol& symbol : kSymbols) {
    if (std::abs(factor.*symbol.exponent) > kMaxExponent) {
      throw_bad_input("{} = '{}' holds {} more than {} times", what, text, symbol.name,
                      kMaxExponent);
    }
  }
  return factor;
}

}  // namespace lossgrid
