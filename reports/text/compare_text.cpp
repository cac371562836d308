// SPDX-License-Identifier: Apache-2.0
// The three forms of a comparison: text, markdown, JSON.
#include <array>

#include "harness/core/text.h"
#include "reports/change/compare.h"
#include "reports/text/folded_table.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

constexpr std::array kVerdictOrder{Verdict::failed, Verdict::inconclusive, Verdict::improved,
                                   Verdict::added};

std::string verdict_text(Verdict verdict) {
  return std::string(verdict == Verdict::failed ? "regressed" : name(verdict));
}

std::string ratio_text(const Finding& change) {
  if (!change.ratio) return "";
  std::string text = fmt::format("{:.3f}x", *change.ratio);
  if (change.ratio_low) {
    text += fmt::format(" [{:.3f}, {:.3f}]", *change.ratio_low, *change.ratio_high);
  }
  return text;
}

FoldedTable table_of(const Comparison& comparison) {
  FoldedTable table({"", "kind", "what", "base", "head", "head / base", "trial"},
                    {"kind", "head / base", "base"});
  for (const Finding& change : comparison.findings) {
    table.add({verdict_text(change.verdict), std::string(name(change.kind)), quantity(change),
               change.base, change.head, ratio_text(change)},
              change.id, change.verdict == Verdict::failed);
  }
  return table;
}

std::string comparison_counts(const Comparison& comparison) {
  std::vector<std::string> counts;
  for (const Verdict verdict : kVerdictOrder) {
    counts.push_back(
        fmt::format("{} {}", count(comparison.findings, verdict), verdict_text(verdict)));
  }
  return fmt::format("{} trials and {} timed rows in both: {}", comparison.trials, comparison.rows,
                     join(counts, ", "));
}

std::string margin_text(const Comparison& comparison) {
  return fmt::format(
      "Times are relative to the reference of their own run; up to {:.3g} % slower is "
      "within the margin.",
      100 * comparison.time_margin_ratio);
}

}  // namespace

std::string format_comparison(const Comparison& comparison, const TextStyle& style) {
  std::string out = table_of(comparison).text(style);
  if (!comparison.dead_head.empty()) out += style.bad(comparison.dead_head) + '\n';
  for (const std::string& note : comparison.notes) out += "note: " + note + '\n';
  out += fitted(comparison_counts(comparison), style);
  if (comparison.rows > 0) out += fitted(margin_text(comparison), style);
  return out;
}

std::string comparison_markdown(const Comparison& comparison) {
  std::string out = "**" + comparison_counts(comparison) + "**\n";
  if (!comparison.dead_head.empty()) out += "\n**" + comparison.dead_head + "**\n";
  if (comparison.rows > 0) out += '\n' + margin_text(comparison) + '\n';
  if (!comparison.notes.empty()) out += '\n';
  for (const std::string& note : comparison.notes) out += "- " + markdown_cell(note) + '\n';
  const std::string table = table_of(comparison).markdown();
  if (!table.empty()) out += '\n' + table;
  return out;
}

nlohmann::ordered_json comparison_to_json(const Comparison& comparison) {
  nlohmann::ordered_json json;
  json["schema"] = "lossgrid.comparison/1";
  json["trials"] = comparison.trials;
  json["rows"] = comparison.rows;
  json["time_margin_ratio"] = comparison.time_margin_ratio;
  for (const Verdict verdict : kVerdictOrder) {
    json["counts"][verdict_text(verdict)] = count(comparison.findings, verdict);
  }
  json["dead_head"] = comparison.dead_head.empty() ? nlohmann::ordered_json(nullptr)
                                                   : nlohmann::ordered_json(comparison.dead_head);
  json["notes"] = comparison.notes;
  json["changes"] = nlohmann::ordered_json::array();
  const auto number = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  for (const Finding& change : comparison.findings) {
    json["changes"].push_back({{"verdict", verdict_text(change.verdict)},
                               {"kind", name(change.kind)},
                               {"subject", change.id},
                               {"what", quantity(change)},
                               {"base", change.base},
                               {"head", change.head},
                               {"ratio", number(change.ratio)},
                               {"ratio_low", number(change.ratio_low)},
                               {"ratio_high", number(change.ratio_high)}});
  }
  return json;
}

}  // namespace lossgrid
