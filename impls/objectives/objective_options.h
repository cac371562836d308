// SPDX-License-Identifier: Apache-2.0
// OptionReader: typed reading of an objective's options, whose values are JSON text. Every read
// names the option, its type and its default once; a value of another type is bad input, and
// require_all_known() refuses options that nothing has read. Messages are one line that begins with
// the objective. An objective registers with a function that reads its options and one that makes
// it of them:
//
//   const Registered registered_nll{objective_entry(
//       "nll", "negative log-likelihood",
//       [](const OptionReader& reader) { return reader.flag("token_level_loss", true); },
//       [](bool token_level) { return std::make_unique<NllObjective>(token_level); })};
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/loss/objective.h"
#include "harness/loss/objective_choices.h"

namespace lossgrid {

/// Reader of one objective's options. `options` and `owner` must outlive it. One thread.
class OptionReader {
 public:
  OptionReader(const ObjectiveOptions& options, std::string_view owner)
      : options_(options), owner_(owner) {}

  bool flag(const std::string& option, bool fallback) const;

  /// Returns a finite number; the optional one nullopt for JSON null.
  double number(const std::string& option, double fallback) const;
  std::optional<double> optional_number(const std::string& option,
                                        std::optional<double> fallback) const;

  /// Returns one of `names`; the optional one nullopt for JSON null.
  std::string one_of(const std::string& option, const std::vector<std::string>& names,
                     const std::string& fallback) const;
  std::optional<std::string> optional_one_of(const std::string& option,
                                             const std::vector<std::string>& names) const;

  /// Returns the enumerator of one of `names`, which stand in the order of Enum; the optional one
  /// nullopt for JSON null.
  template <typename Enum>
  Enum enumerator(const std::string& option, const std::vector<std::string>& names,
                  Enum fallback) const {
    return at_name<Enum>(names, one_of(option, names, names[static_cast<std::size_t>(fallback)]));
  }
  template <typename Enum>
  std::optional<Enum> optional_enumerator(const std::string& option,
                                          const std::vector<std::string>& names) const {
    const std::optional<std::string> name = optional_one_of(option, names);
    return name ? std::optional(at_name<Enum>(names, *name)) : std::nullopt;
  }

  /// Throws bad_input, with the nearest name, for an option that none of the calls above asked for.
  void require_all_known() const;

  /// Returns the results of the calls above, as JSON text.
  const ObjectiveOptions& values() const { return values_; }
  /// Returns by option the values that a user may have meant: all names, true and false, and of
  /// numbers the one that leaves a term out (0, or null).
  const ObjectiveChoices& choices() const { return choices_; }

 private:
  template <typename Enum>
  static Enum at_name(const std::vector<std::string>& names, const std::string& name) {
    return static_cast<Enum>(std::find(names.begin(), names.end(), name) - names.begin());
  }

  /// The value's text, or null when the option is not given.
  const std::string* find(const std::string& option) const;
  void note_names(const std::string& option, const std::vector<std::string>& names) const;
  /// Keeps the value for values().
  template <typename T>
  T note(const std::string& option, T value) const;

  const ObjectiveOptions& options_;
  std::string_view owner_;
  mutable std::vector<std::string> known_;
  mutable ObjectiveOptions values_;
  mutable ObjectiveChoices choices_;
};

/// An objective made of what read(reader) returns.
template <typename Read, typename Make>
ObjectiveEntry objective_entry(std::string kind, std::string summary, Read read, Make make) {
  const auto read_all = [read, kind](const ObjectiveOptions& options, auto&& use) {
    const OptionReader reader(options, kind);
    auto values = read(reader);
    reader.require_all_known();
    return use(reader, std::move(values));
  };
  ObjectiveEntry entry;
  entry.make = [read_all, make](const ObjectiveOptions& options) {
    return read_all(options, [&](const OptionReader&, auto&& values) -> std::unique_ptr<Objective> {
      return make(values);
    });
  };
  entry.all_options = [read_all](const ObjectiveOptions& options) {
    return read_all(options, [](const OptionReader& reader, auto&&) { return reader.values(); });
  };
  register_choices(kind, [read_all](const ObjectiveOptions& options) {
    return read_all(options, [](const OptionReader& reader, auto&&) { return reader.choices(); });
  });
  entry.kind = std::move(kind);
  entry.summary = std::move(summary);
  return entry;
}

}  // namespace lossgrid
