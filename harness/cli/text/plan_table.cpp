// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/text/plan_table.h"

#include <fmt/format.h>

#include "harness/core/text.h"
#include "harness/problem/case/case_spec.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidth = 130;

/// Returns a number with a decimal unit: "1.5 T".
std::string format_flops(std::int64_t flops) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
  double value = static_cast<double>(flops);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? std::to_string(flops) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

struct Totals {
  std::int64_t flops = 0;
  std::int64_t calls = 0;
  std::int64_t payload_bytes = 0;
  std::int64_t wire_bytes = 0;
};

Totals sum_costs(const PlanRow& row) {
  Totals totals;
  for (const PlannedPhase& phase : row.phases) totals.flops += phase.flops;
  for (const PlannedCollective& collective : row.collectives) {
    totals.calls += collective.count.calls;
    totals.payload_bytes += collective.count.payload_bytes;
    totals.wire_bytes += collective.wire_bytes;
  }
  return totals;
}

std::vector<std::string> table_row(const Fit& fit, bool with_fit) {
  const PlanRow& row = fit.row;
  const PlannedPhase& peak = row.peak_phase();
  const Totals totals = sum_costs(row);
  std::vector<std::string> cells{row.implementation,
                                 format_grid(row.grid),
                                 format_bytes(row.inputs_bytes),
                                 format_bytes(peak.workspace_bytes),
                                 format_bytes(row.outputs_bytes),
                                 format_bytes(row.gradients_bytes),
                                 format_bytes(peak.peak_bytes),
                                 peak.name,
                                 format_flops(totals.flops),
                                 std::to_string(totals.calls),
                                 format_bytes(totals.payload_bytes),
                                 format_bytes(totals.wire_bytes)};
  if (with_fit) {
    cells.push_back(fmt::format("{} {} {}", fit.key, fit.at_least ? ">=" : "=", fit.value));
  }
  return cells;
}

Json collective_to_json(const PlannedCollective& collective) {
  return {{"phase", collective.phase},          {"group", collective.group},
          {"ranks", collective.ranks},          {"operation", name(collective.operation)},
          {"calls", collective.count.calls},    {"payload_bytes", collective.count.payload_bytes},
          {"wire_bytes", collective.wire_bytes}};
}

Json phase_to_json(const PlannedPhase& phase) {
  return {{"phase", phase.name},
          {"workspace_bytes", phase.workspace_bytes},
          {"held_bytes", phase.held_bytes},
          {"peak_bytes", phase.peak_bytes},
          {"flops", phase.flops}};
}

}  // namespace

std::string format_plans(const std::vector<PlannedGrid>& plans, bool with_fit,
                         const TextStyle& style) {
  TextTable table;
  table.add_column("implementation", Align::left);
  table.add_column("grid", Align::left);
  for (const char* header : {"inputs", "workspace", "outputs", "gradients", "peak"}) {
    table.add_column(header, Align::right);
  }
  table.add_column("in", Align::left);
  for (const char* header : {"FLOP", "calls", "payload", "wire"}) {
    table.add_column(header, Align::right);
  }
  if (with_fit) table.add_column("fits", Align::left);
  table.may_leave_out(
      {"payload", "calls", "FLOP", "outputs", "gradients", "wire", "in", "inputs", "workspace"},
      "--json FILE has all");
  const std::size_t width = style.columns_up_to(kWidth);
  std::string skipped;
  const CaseSpec* last = nullptr;
  for (const PlannedGrid& planned : plans) {
    if (last == nullptr || *last != planned.spec) {
      table.add_title(shortened(format_case(planned.spec), kWidth));
    }
    last = &planned.spec;
    for (const Fit& fit : planned.fits) {
      if (fit.reason.empty()) {
        table.add_row(table_row(fit, with_fit));
      } else {
        skipped += fmt::format("skipped: {} {} {}: {}\n", fit.row.implementation,
                               format_grid(planned.grid), format_case(planned.spec), fit.reason);
      }
    }
  }
  // clang-format off
  const std::string out = wrapped(
      "Predicted, of one rank of the stage with the loss and one pack; nothing ran. Peak: inputs, "
      "workspace, and what is held then: outputs by token from the forward pass on, gradients in "
      "the backward pass. Wire: bytes that a rank sends in ring algorithms.",
      width);
  // clang-format on
  return out + table.text(style) + skipped;
}

Json plan_to_json(const Fit& fit, std::optional<std::int64_t> limit) {
  const PlanRow& row = fit.row;
  Json out;
  out["implementation"] = row.implementation;
  if (!fit.reason.empty()) {
    out["skipped"] = fit.reason;
    return out;
  }
  if (limit) {
    out["fit"] = {{"key", fit.key}, {"value", fit.value}, {"at_least", fit.at_least}};
  }
  out["tokens"] = row.tokens;
  out["padded_tokens"] = row.padded_tokens;
  out["chunks"] = row.chunks;
  out["inputs_bytes"] = row.inputs_bytes;
  out["gradients_bytes"] = row.gradients_bytes;
  out["outputs_bytes"] = row.outputs_bytes;
  out["peak_bytes"] = row.peak_bytes();
  out["phases"] = Json::array();
  for (const PlannedPhase& phase : row.phases) out["phases"].push_back(phase_to_json(phase));
  out["collectives"] = Json::array();
  for (const PlannedCollective& collective : row.collectives) {
    out["collectives"].push_back(collective_to_json(collective));
  }
  return out;
}

}  // namespace lossgrid
