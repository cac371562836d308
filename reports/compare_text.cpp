// SPDX-License-Identifier: Apache-2.0
// The three forms of a comparison. Changes that differ only in the trial stand together, so that
// one cause on forty grids is one line.
#include <algorithm>
#include <map>
#include <utility>

#include "reports/compare.h"
#include "reports/text_table.h"

namespace lossgrid {
namespace {

constexpr std::size_t kMostLines = 40;
constexpr std::size_t kSubjectWidth = 70;

std::string ratio_text(const Change& change) {
  if (!change.ratio) return "";
  std::string text = fmt::format("{:.3f}x", *change.ratio);
  if (change.ratio_low) {
    text += fmt::format(" [{:.3f}, {:.3f}]", *change.ratio_low, *change.ratio_high);
  }
  return text;
}

/// Changes of the same kind from and to the same, of several subjects.
struct Fold {
  const Change* first = nullptr;
  std::size_t subjects = 0;
};

std::vector<Fold> folded(const std::vector<Change>& changes) {
  std::vector<Fold> folds;
  std::map<std::vector<std::string>, std::size_t> known;
  for (const Change& change : changes) {
    const std::vector<std::string> key{std::string(name(change.verdict)),
                                       std::string(name(change.kind)),
                                       change.what,
                                       change.base,
                                       change.head,
                                       ratio_text(change)};
    const auto [at, is_new] = known.emplace(key, folds.size());
    if (is_new) folds.push_back({&change, 0});
    ++folds[at->second].subjects;
  }
  return folds;
}

std::string subject_text(const Fold& fold) {
  const std::string more =
      fold.subjects > 1 ? fmt::format(" and {} more", fold.subjects - 1) : std::string();
  return shortened(fold.first->subject, kSubjectWidth) + more;
}

std::string counts_text(const Comparison& comparison) {
  const auto count = [&](ChangeVerdict verdict) { return comparison.count(verdict); };
  return fmt::format(
      "{} trials and {} timed rows in both: {} regressed, {} inconclusive, {} improved, {} added",
      comparison.trials, comparison.rows, count(ChangeVerdict::regressed),
      count(ChangeVerdict::inconclusive), count(ChangeVerdict::improved),
      count(ChangeVerdict::added));
}

std::string margin_text(const Comparison& comparison) {
  return fmt::format(
      "Times are relative to the reference of their own run; up to {:.3g} % slower is "
      "within the margin.",
      100 * comparison.time_margin_ratio);
}

/// A cell of a table in GitHub's markdown.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

std::string format_comparison(const Comparison& comparison) {
  TextTable table;
  table.add_column("", Align::left);
  for (const char* header : {"kind", "what", "base", "head"}) {
    table.add_column(header, Align::left);
  }
  table.add_column("head / base", Align::left);
  table.add_column("trial", Align::left);
  const std::vector<Fold> folds = folded(comparison.changes);
  for (std::size_t k = 0; k < std::min(folds.size(), kMostLines); ++k) {
    const Change& change = *folds[k].first;
    table.add_row({std::string(name(change.verdict)), std::string(name(change.kind)), change.what,
                   shortened(change.base, 40), shortened(change.head, 60), ratio_text(change),
                   subject_text(folds[k])});
  }
  std::string out = table.text();
  if (folds.size() > kMostLines) out += fmt::format("  and {} more\n", folds.size() - kMostLines);
  out += counts_text(comparison) + '\n';
  if (comparison.rows > 0) out += margin_text(comparison) + '\n';
  return out;
}

std::string comparison_markdown(const Comparison& comparison) {
  std::string out = "**" + counts_text(comparison) + "**\n";
  if (comparison.rows > 0) out += '\n' + margin_text(comparison) + '\n';
  const std::vector<Fold> folds = folded(comparison.changes);
  if (folds.empty()) return out;
  out += "\n| | kind | what | base | head | head / base | trial |\n|---|---|---|---|---|---|---|\n";
  for (std::size_t k = 0; k < std::min(folds.size(), kMostLines); ++k) {
    const Change& change = *folds[k].first;
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", name(change.verdict),
                       name(change.kind), cell(change.what), cell(change.base), cell(change.head),
                       ratio_text(change), cell(subject_text(folds[k])));
  }
  if (folds.size() > kMostLines) out += fmt::format("\nand {} more\n", folds.size() - kMostLines);
  return out;
}

nlohmann::ordered_json comparison_to_json(const Comparison& comparison) {
  nlohmann::ordered_json json;
  json["schema"] = "lossgrid.comparison/1";
  json["trials"] = comparison.trials;
  json["rows"] = comparison.rows;
  json["time_margin_ratio"] = comparison.time_margin_ratio;
  for (const ChangeVerdict verdict : {ChangeVerdict::regressed, ChangeVerdict::inconclusive,
                                      ChangeVerdict::improved, ChangeVerdict::added}) {
    json["counts"][std::string(name(verdict))] = comparison.count(verdict);
  }
  json["changes"] = nlohmann::ordered_json::array();
  const auto number = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  for (const Change& change : comparison.changes) {
    json["changes"].push_back({{"verdict", name(change.verdict)},
                               {"kind", name(change.kind)},
                               {"subject", change.subject},
                               {"what", change.what},
                               {"base", change.base},
                               {"head", change.head},
                               {"ratio", number(change.ratio)},
                               {"ratio_low", number(change.ratio_low)},
                               {"ratio_high", number(change.ratio_high)}});
  }
  return json;
}

}  // namespace lossgrid
