// SPDX-License-Identifier: Apache-2.0
// The three forms of a gate's result: text, markdown, JSON.
#include "reports/change/gate.h"
#include "reports/text/folded_table.h"

namespace lossgrid {
namespace {

FoldedTable table_of(const GateResult& result) {
  FoldedTable table({"", "metric", "where", "base", "head", "bound", "of"},
                    {"base", "bound", "where"});
  for (const Finding& f : result.findings) {
    const std::string& phase = f.subject.phase;
    const bool both = !phase.empty() && !f.place.empty();
    table.add({std::string(name(f.verdict)), f.metric, phase + (both ? " " : "") + f.place, f.base,
               f.head, f.excuse.empty() ? f.bound : "known: " + f.excuse},
              f.subject.text(), f.verdict == Verdict::failed);
  }
  return table;
}

std::string gate_counts(const GateResult& result) {
  return fmt::format("{} failed, {} inconclusive, {} excused; {} numbers judged",
                     count(result.findings, Verdict::failed),
                     count(result.findings, Verdict::inconclusive),
                     count(result.findings, Verdict::excused), result.judged);
}

}  // namespace

std::string format_gate(const GateResult& result, const TextStyle& style) {
  std::string out = table_of(result).text(style);
  for (const std::string& note : result.notes) out += "note: " + note + '\n';
  return out + gate_counts(result) + '\n';
}

std::string gate_markdown(const GateResult& result) {
  std::string out = "**" + gate_counts(result) + "**\n";
  const std::string table = table_of(result).markdown();
  if (!table.empty()) out += '\n' + table;
  if (!result.notes.empty()) out += '\n';
  for (const std::string& note : result.notes) out += "- " + markdown_cell(note) + '\n';
  return out;
}

nlohmann::ordered_json gate_to_json(const GateResult& result) {
  nlohmann::ordered_json json;
  json["schema"] = "lossgrid.gate/1";
  json["judged"] = result.judged;
  for (const Verdict verdict : {Verdict::failed, Verdict::inconclusive, Verdict::excused}) {
    json["counts"][std::string(name(verdict))] = count(result.findings, verdict);
  }
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& f : result.findings) {
    json["findings"].push_back({{"verdict", name(f.verdict)},
                                {"metric", f.metric},
                                {"case", f.subject.case_text},
                                {"grid", f.subject.grid},
                                {"implementation", f.subject.implementation},
                                {"phase", f.subject.phase},
                                {"place", f.place},
                                {"base", f.base},
                                {"head", f.head},
                                {"bound", f.bound},
                                {"excuse", f.excuse},
                                {"exit_code", static_cast<int>(f.code)}});
  }
  json["notes"] = result.notes;
  return json;
}

}  // namespace lossgrid
