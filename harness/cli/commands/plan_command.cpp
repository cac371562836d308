// SPDX-License-Identifier: Apache-2.0
// lossgrid plan: predicted bytes, collectives and FLOPs of cases on grids, without running them,
// and with --fit the largest case within a limit. Bytes are those of one rank and one pack.
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/cli/allowed_values.h"
#include "harness/cli/cases_flag.h"
#include "harness/cli/command.h"
#include "harness/cli/load_flags.h"
#include "harness/cli/models.h"
#include "harness/cli/output.h"
#include "harness/cli/suite_choice.h"
#include "harness/core/file.h"
#include "harness/core/text.h"
#include "harness/runner/plan/plan.h"
#include "harness/runner/run.h"
#include "reports/record/report_json.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidth = 130;

struct PlanFlags {
  SuiteChoice choice;
  LoadFlags load;
  std::string model;
  std::string json;
  std::string fit;
  std::string vary;
};

/// One case on one grid: the needs of its implementations, or the largest case that fits, and the
/// needs of upstream code.
struct PlannedGrid {
  CaseSpec spec;
  Grid grid;
  std::vector<Fit> fits;  // without --fit only their rows are set
  std::vector<UpstreamMemory> upstream;
};

/// Reads "80GiB", "80GB", "512MiB" or "1000000".
std::int64_t parse_bytes(const std::string& text) {
  struct Unit {
    const char* name;
    std::int64_t bytes;
  };
  constexpr std::int64_t kKibi = 1024;
  constexpr Unit kUnits[] = {{"", 1},
                             {"B", 1},
                             {"KB", 1'000},
                             {"MB", 1'000'000},
                             {"GB", 1'000'000'000},
                             {"TB", 1'000'000'000'000},
                             {"KiB", kKibi},
                             {"MiB", kKibi * kKibi},
                             {"GiB", kKibi * kKibi * kKibi},
                             {"TiB", kKibi * kKibi * kKibi * kKibi}};
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string suffix = text.substr(digits);
  for (const Unit& unit : kUnits) {
    if (digits == 0 || suffix != unit.name) continue;
    const std::int64_t count =
        parse_integer(text.substr(0, digits), "--fit", 1, std::int64_t{1} << 62);
    return checked_product(count, unit.bytes, "--fit");
  }
  throw_bad_input("--fit = '{}' is no number of bytes such as 80GiB, 80GB, 512MiB or 1000000",
                  text);
}

/// Returns the chosen suites, with the sizes of the model. Cases without implementations are
/// planned with all that take their inputs.
std::vector<Suite> requested_plans(const PlanFlags& flags) {
  std::vector<Suite> suites = chosen_suites("plan", flags.choice);
  if (flags.model.empty()) return suites;
  const ModelShape model = find_model(flags.model);
  for (Suite& suite : suites) {
    for (CaseSpec& spec : suite.cases) {
      spec.vocab = model.vocab;
      spec.hidden = model.hidden;
    }
  }
  return suites;
}

PlannedGrid plan_grid(const CaseSpec& spec, const Grid& grid,
                      const std::vector<std::string>& implementations, FitKey key,
                      std::optional<std::int64_t> limit) {
  PlannedGrid planned{spec, grid, {}, {}};
  for (const std::string& implementation : implementations) {
    if (limit) {
      planned.fits.push_back(fit_case(spec, grid, implementation, key, *limit));
    } else {
      Fit fit;
      fit.row = plan_trial(spec, grid, implementation);
      fit.reason = fit.row.skipped;
      planned.fits.push_back(std::move(fit));
    }
  }
  if (!limit) planned.upstream = plan_upstream(spec, grid);
  return planned;
}

/// Returns "1.5 T", with decimal units.
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

Totals totals_of(const PlanRow& row) {
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
  const Totals totals = totals_of(row);
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
  bool upstream_rows = false;
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
    for (const UpstreamMemory& memory : planned.upstream) {
      table.add_row({"upstream: " + memory.name, format_grid(planned.grid), "-",
                     format_bytes(memory.bytes), "-", "-", "-", "-", "-", "-", "-", "-"});
      upstream_rows = true;
    }
  }
  // clang-format off
  std::string out = wrapped(
      "Predicted, of one rank of the stage with the loss and one pack; nothing ran. Peak: inputs, "
      "workspace, and what is held then: outputs by token from the forward pass on, gradients in "
      "the backward pass. Wire: bytes that a rank sends in ring algorithms.",
      width);
  if (upstream_rows) {
    out += wrapped(
        "Upstream: temporaries of NeMo-RL's and AReaL's losses for the same pack, as formulas "
        "(harness/loss/upstream_memory.h).",
        width);
  }
  // clang-format on
  return out + table.text(style) + skipped;
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

Json row_to_json(const Fit& fit, std::optional<std::int64_t> limit) {
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

Json plans_to_json(const std::vector<PlannedGrid>& plans, std::optional<std::int64_t> limit) {
  Json out;
  out["schema"] = "lossgrid.plan/1";
  out["arguments"] = command_line();
  out["limit_bytes"] = limit ? Json(*limit) : Json();
  out["plans"] = Json::array();
  for (const PlannedGrid& planned : plans) {
    Json plan;
    plan["case"] = format_case(planned.spec);
    plan["grid"] = format_grid(planned.grid);
    plan["rows"] = Json::array();
    for (const Fit& fit : planned.fits) plan["rows"].push_back(row_to_json(fit, limit));
    plan["upstream"] = Json::array();
    for (const UpstreamMemory& memory : planned.upstream) {
      plan["upstream"].push_back({{"name", memory.name}, {"bytes", memory.bytes}});
    }
    out["plans"].push_back(std::move(plan));
  }
  return out;
}

ExitCode run(const PlanFlags& flags) {
  load_requested(flags.load);
  if (!flags.vary.empty() && flags.fit.empty()) {
    throw Error(ErrorCode::usage, "--vary needs --fit");
  }
  std::optional<std::int64_t> limit;
  if (!flags.fit.empty()) limit = parse_bytes(flags.fit);
  const FitKey key = flags.vary == "seqs" ? FitKey::seqs : FitKey::seq_len;
  const std::vector<Suite> suites = requested_plans(flags);
  if (!flags.json.empty()) prepare_file_path(flags.json);

  std::vector<PlannedGrid> plans;
  bool any = false;
  for (const Suite& suite : suites) {
    for (const CaseSpec& spec : suite.cases) {
      const std::vector<std::string> implementations =
          suite.implementations.empty() ? default_implementations(spec.hidden > 0)
                                        : suite.implementations;
      for (const Grid& grid : suite.grids) {
        plans.push_back(plan_grid(spec, grid, implementations, key, limit));
        for (const Fit& fit : plans.back().fits) any = any || fit.reason.empty();
      }
    }
  }
  if (!flags.json.empty()) {
    write_file_atomically(flags.json, json_text(plans_to_json(plans, limit)) + '\n');
  }
  const TextStyle style = stdout_style();
  print_text(format_plans(plans, limit.has_value(), style), style);
  if (!flags.json.empty()) print("plan: {}\n", flags.json);
  return any ? ExitCode::ok : ExitCode::nothing_ran;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app.add_subcommand(
      "plan", "predict bytes, collectives and FLOPs without running; what fits a limit");
  command->add_option("--suite", flags->choice.suite,
                      "the cases of a suite by name (see lossgrid list suites), file or folder");
  add_cases_flag(*command);
  command->add_option("--case", flags->choice.cases,
                      "a case as \"key=value ...\"; key=[a,b] sweeps; may be repeated "
                      "(keys: lossgrid list keys)");
  command->add_option(
      "--grid", flags->choice.grids,
      "process grids of any size, comma separated: tp2cp4,tp4sp (default: the suite's, or "
      "tp1cp1)");
  command->add_option("--impl", flags->choice.implementations,
                      "implementations, comma separated, with options as name:option=value "
                      "(default: the suite's; of cases all that take their inputs)");
  add_load_flags(*command, flags->load);
  command->add_option("--model", flags->model,
                      "take vocab and hidden of every case from this model (lossgrid list models)");
  command->add_option("--fit", flags->fit,
                      "print the largest case whose peak on a rank is within this: 80GiB, 80GB, "
                      "512MiB, or a number of bytes");
  command
      ->add_option("--vary", flags->vary,
                   "what --fit varies: seq_len (default; with a single length in lens, that) or "
                   "seqs")
      ->check(allowed_values({"seq_len", "seqs"}));
  command->add_option("--json", flags->json,
                      "write the plan here too, with phases and collectives one by one");
  command->footer(
      "Exit codes: 0 planned, 64 usage, 65 bad input, 77 nothing could be planned or fits.\n"
      "Try: lossgrid plan --model Qwen3-30B-A3B --case \"lens=32768 dtype=bf16\" "
      "--grid tp4sp,tp8sp --fit 8GiB");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
