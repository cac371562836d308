// SPDX-License-Identifier: Apache-2.0
// Record of a hunt, as plain values: what was drawn, which pairs of settings it covered, and what
// failed, by cause.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "reports/record/field.h"

namespace lossgrid {

/// A case that was drawn, with what ran on it.
struct DrawnRecord {
  std::string case_text;
  std::vector<std::string> grids;
  std::vector<std::string> implementations;
  std::string refusal;  // empty: it ran
};

template <typename A>
void fields(A& a, DrawnRecord& drawn) {
  a.record("drawn_case", "A case that a hunt drew.");
  a("case", drawn.case_text, "Text of the case, as in --case.", {.nonempty = true});
  a("grids", drawn.grids, "Grids, as in --grid.", {.nonempty = true});
  a("implementations", drawn.implementations, "Implementations, as in --impl.", {.nonempty = true});
  a("refusal", drawn.refusal, "The rule that the case breaks; null for a case that ran.",
    {.null = true});
}

/// Trials that seem to have failed by one cause.
struct FoundRecord {
  std::string check;
  std::vector<std::string> implementations;
  std::int64_t trials = 0;
  std::string first;     // command line of the first of them
  std::string smallest;  // case line
  std::vector<std::string> grids;
  std::string reason;
  std::string reproduce;
  bool is_shrunk = false;  // false: no time was left
};

template <typename A>
void fields(A& a, FoundRecord& found) {
  a.record("found", "Trials that failed by one cause, and the smallest one that fails so.");
  a("check", found.check, "Check, invariant, verdict or cost that fails, or the end of a trial.",
    {.nonempty = true});
  a("implementations", found.implementations, "Implementations that fail so.", {.nonempty = true});
  a("trials", found.trials, "Failed trials.", {.minimum = 1});
  a("first", found.first, "A command line that runs the first of them again.");
  a("smallest", found.smallest, "Text of the smallest case that fails so, for cases/regress.");
  a("grids", found.grids, "Grids of the smallest trial; the last one fails.", {.nonempty = true});
  a("reason", found.reason, "Reason of its verdict.");
  a("reproduce", found.reproduce, "A command line that runs it again.");
  a("is_shrunk", found.is_shrunk, "False where no time was left to look for a smaller one.");
}

/// Kinds of settings, in the order of tables.
inline constexpr auto kSettingKinds =
    std::to_array({"objective", "option", "key", "values", "dtype", "grid"});

/// Pairs of two kinds of settings.
struct PairsRecord {
  std::string first;
  std::string second;
  std::int64_t drawn = 0;
  std::int64_t decided = 0;
};

template <typename A>
void fields(A& a, PairsRecord& pairs) {
  constexpr const char* kKinds = "objective option key values dtype grid";
  a.record("pairs", "Number of different pairs of settings that are not the default, by kind.");
  a("first", pairs.first, "Kind of one setting.", {.one_of = kKinds});
  a("second", pairs.second, "Kind of the other.", {.one_of = kKinds});
  a("drawn", pairs.drawn, "Pairs that a case had.");
  a("decided", pairs.decided,
    "Pairs that decided in a case: the truth is another one without either of them, or the case "
    "cannot be without it.");
}

struct HuntRecord {
  std::uint64_t seed = 0;
  double seconds = 0;
  std::int64_t cases = 0;
  std::int64_t refused = 0;
  std::int64_t passed = 0;
  std::int64_t skipped = 0;
  std::int64_t bad = 0;
  std::string end;  // reason for which it ended
  std::vector<PairsRecord> pairs;
  std::vector<FoundRecord> found;
  std::vector<DrawnRecord> drawn;
};

template <typename A>
void fields(A& a, HuntRecord& hunt) {
  a.record("hunt", "Cases that were drawn at random, and what failed.");
  a("seed", hunt.seed, "Seed of all draws.");
  a("seconds", hunt.seconds, "Time of the hunt.", {.varies = true});
  a("cases", hunt.cases, "Drawn cases.");
  a("refused", hunt.refused, "Cases among these that a rule refused.");
  a("passed", hunt.passed, "Trials that passed.");
  a("skipped", hunt.skipped, "Trials that an implementation does not support.");
  a("bad", hunt.bad, "Trials that failed or were cut short.");
  a("end", hunt.end, "Reason for which it ended.",
    {.one_of = "seconds cases failure hang interrupted"});
  a("pairs", hunt.pairs, "Coverage of pairs of settings.");
  a("found", hunt.found, "Failures by cause.");
  a("drawn", hunt.drawn, "The drawn cases, in order.");
}

}  // namespace lossgrid
