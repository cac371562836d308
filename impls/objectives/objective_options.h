// SPDX-License-Identifier: Apache-2.0
// Typed reading of an objective's options, whose values are JSON text. Every read names the option,
// its type and its default once; a value of another type is bad input, and require_all_known()
// refuses options that nothing has read. Messages are one line that begins with the objective.
//
//   const OptionReader reader(options, "clipped_pg");
//   const bool token_level = reader.flag("token_level_loss", true);
//   reader.require_all_known();
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/loss/objective.h"

namespace lossgrid {

/// Keeps references: `options` and `owner` must live as long as the reader. One thread.
class OptionReader {
 public:
  OptionReader(const ObjectiveOptions& options, std::string_view owner)
      : options_(options), owner_(owner) {}

  bool flag(const std::string& option, bool fallback) const;

  /// A finite number; of the optional one also null, which gives no value.
  double number(const std::string& option, double fallback) const;
  std::optional<double> optional_number(const std::string& option,
                                        std::optional<double> fallback) const;

  /// One of `names`; of the optional one also null, which gives no value.
  std::string one_of(const std::string& option, const std::vector<std::string>& names,
                     const std::string& fallback) const;
  std::optional<std::string> optional_one_of(const std::string& option,
                                             const std::vector<std::string>& names) const;

  /// Throws bad_input, with the nearest name, for an option that none of the calls above asked for.
  void require_all_known() const;

 private:
  /// The value's text, or null when the option is not given.
  const std::string* find(const std::string& option) const;

  const ObjectiveOptions& options_;
  std::string_view owner_;
  mutable std::vector<std::string> known_;
};

}  // namespace lossgrid
