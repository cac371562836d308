// SPDX-License-Identifier: Apache-2.0
// OptionReader: the list of an objective's options, written as reads of them. A read names the
// option, the member that has its default and takes its value, and its text; a value of another
// type or beyond its rule is bad input, and so is an option that no read names. Messages are one
// line that begins with the objective. Refusals, defaults, documentation and the diagnosis follow
// from the same reads. An objective registers with a function that reads its options and one that
// makes it of them:
//
//   const Registered registered_nll{objective_entry(
//       "nll", "negative log-likelihood",
//       [](const OptionReader& reader) {
//         bool token_level = true;
//         reader.read("token_level_loss", token_level, {"a mean over tokens"});
//         return token_level;
//       },
//       [](bool token_level) { return std::make_unique<NllObjective>(token_level); })};
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/loss/objective.h"

namespace lossgrid {

/// The numbers that an option takes.
struct NumberRule {
  const char* text = "";  // "must be above 0"; empty: all
  bool (*holds)(double) = nullptr;
};

inline constexpr NumberRule kAbove0{"must be above 0", [](double x) { return x > 0; }};
inline constexpr NumberRule kBelow0{"must be below 0", [](double x) { return x < 0; }};
inline constexpr NumberRule kAbove1{"must be above 1", [](double x) { return x > 1; }};
inline constexpr NumberRule kNotNegative{"must not be negative", [](double x) { return x >= 0; }};
inline constexpr NumberRule kShare{"must be in [0, 1]", [](double x) { return x >= 0 && x <= 1; }};
inline constexpr NumberRule kShareAbove0{"must be in (0, 1]",
                                         [](double x) { return x > 0 && x <= 1; }};
inline constexpr NumberRule kBelowHalf{"must be in [0, 0.5)",
                                       [](double x) { return x >= 0 && x < 0.5; }};

/// The text of an option in documentation, and its rule.
struct OptionText {
  const char* effect = "";
  const char* upstream = "";  // frameworks that have it, and its names there
  NumberRule rule = {};
  // Numbers far enough from the default, and from each other, to change the loss of a small case,
  // as JSON texts. Without any, the half and the double of the default are drawn.
  std::vector<const char*> draws = {};
};

/// A name of an enumeration, and frameworks whose definition it is.
struct OptionName {
  constexpr OptionName(const char* of_value, const char* of_frameworks = "")
      : name(of_value), frameworks(of_frameworks) {}

  const char* name;
  const char* frameworks;
};
using OptionNames = std::vector<OptionName>;

/// Reader of one objective's options. `options` and `owner` must outlive it. One thread.
class OptionReader {
 public:
  enum class Purpose {
    values,
    description,    // of the options that the values leave, too
    documentation,  // of all: also those that exist beside others alone are read
  };

  OptionReader(const ObjectiveOptions& options, std::string_view owner,
               Purpose purpose = Purpose::values)
      : options_(options), owner_(owner), purpose_(purpose) {}

  /// Reads true or false, a finite number, or a finite number or null.
  void read(const char* option, bool& member, const OptionText& text) const;
  void read(const char* option, double& member, const OptionText& text) const;
  void read(const char* option, std::optional<double>& member, const OptionText& text) const;

  /// Reads one of `names`, which stand in the order of Enum; the optional one also null.
  template <typename Enum>
  void read(const char* option, Enum& member, const OptionNames& names,
            const OptionText& text) const {
    member = static_cast<Enum>(index(option, static_cast<std::size_t>(member), names, text));
  }
  template <typename Enum>
  void read(const char* option, std::optional<Enum>& member, const OptionNames& names,
            const OptionText& text) const {
    const std::optional<std::size_t> at = optional_index(option, names, text);
    member = at ? std::optional(static_cast<Enum>(*at)) : std::nullopt;
  }

  /// Returns a flag whose default is false.
  bool flag(const char* option, const OptionText& text) const;
  /// Returns a number, or null.
  double number(const char* option, double fallback, const OptionText& text) const;
  std::optional<double> optional_number(const char* option, std::optional<double> fallback,
                                        const OptionText& text) const;
  /// Returns the place of a name; nullopt for null, the default of the optional one.
  std::size_t index(const char* option, std::size_t fallback, const OptionNames& names,
                    const OptionText& text) const;
  std::optional<std::size_t> optional_index(const char* option, const OptionNames& names,
                                            const OptionText& text) const;

  /// Throws bad_input, with the nearest name, for an option that none of the calls above asked for,
  /// and for the first number that breaks its rule. Rules of combinations come behind it.
  void require_all_known() const;

  /// Returns the options in the order of the calls above; empty where values alone are read.
  const std::vector<OptionDescription>& described() const { return described_; }

  bool documents() const { return purpose_ == Purpose::documentation; }

 private:
  /// Returns the text of an option in the case, or null if it is not given.
  const std::string* find(const char* option) const;
  bool describes() const { return purpose_ != Purpose::values; }
  void describe(const char* option, const OptionText& text, std::vector<std::string> choices,
                std::string fallback, std::string value) const;
  void describe_names(const char* option, const OptionText& text, const OptionNames& names,
                      bool or_null, std::string fallback, std::string value) const;
  void require_rule(const char* option, const NumberRule& rule, double value,
                    const char* more) const;

  const ObjectiveOptions& options_;
  std::string_view owner_;
  Purpose purpose_;
  mutable std::vector<const char*> known_;
  mutable std::string broken_;  // the first rule that is
  mutable std::vector<OptionDescription> described_;
};

/// An objective made of what read(reader) returns.
template <typename Read, typename Make>
ObjectiveEntry objective_entry(std::string kind, std::string summary, Read read, Make make) {
  ObjectiveEntry entry;
  entry.make = [read, make, kind](const ObjectiveOptions& options) -> std::unique_ptr<Objective> {
    const OptionReader reader(options, kind);
    const auto values = read(reader);
    reader.require_all_known();
    return make(values);
  };
  entry.describe = [read, kind](const ObjectiveOptions& options) {
    const OptionReader reader(options, kind, OptionReader::Purpose::description);
    read(reader);
    reader.require_all_known();
    return reader.described();
  };
  entry.document = [read, kind] {
    const ObjectiveOptions none;
    const OptionReader reader(none, kind, OptionReader::Purpose::documentation);
    read(reader);
    return reader.described();
  };
  entry.kind = std::move(kind);
  entry.summary = std::move(summary);
  return entry;
}

}  // namespace lossgrid
