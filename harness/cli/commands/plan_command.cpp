// SPDX-License-Identifier: Apache-2.0
// lossgrid plan: predicted bytes, collectives and FLOPs of cases on grids, without running them.
// With --machine also their time, with --fit the largest case within a limit, with --search the
// fastest grid. Bytes are for one rank and one pack.
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/cli/command.h"
#include "harness/cli/flags/allowed_values.h"
#include "harness/cli/flags/byte_count.h"
#include "harness/cli/flags/cases_flag.h"
#include "harness/cli/flags/load_flags.h"
#include "harness/cli/flags/machine_flag.h"
#include "harness/cli/flags/suite_choice.h"
#include "harness/cli/text/models.h"
#include "harness/cli/text/output.h"
#include "harness/cli/text/plan_table.h"
#include "harness/cli/text/time_table.h"
#include "harness/core/file.h"
#include "harness/planner/model/search.h"
#include "harness/planner/plan/plan.h"
#include "harness/runner/run.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostSearchedRanks = 4096;
constexpr std::size_t kSearchRows = 15;

struct PlanFlags {
  SuiteChoice choice;
  LoadFlags load;
  std::string model;
  std::string json;
  std::string fit;
  std::string vary;
  std::string machine;
  std::string transport;
  bool search = false;
  int ranks = kMostSearchedRanks;
  std::string memory;
};

/// Returns the chosen suites, with the sizes of the model. Cases without implementations are
/// planned with all implementations that take their inputs.
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

/// Returns the implementations of the suite or, if it has none, all implementations that take the
/// inputs of the case.
std::vector<std::string> planned_implementations(const Suite& suite, const CaseSpec& spec) {
  return suite.implementations.empty() ? default_implementations(spec.hidden > 0)
                                       : suite.implementations;
}

PlannedGrid plan_grid(const CaseSpec& spec, const Grid& grid,
                      const std::vector<std::string>& implementations, FitKey key,
                      std::optional<std::int64_t> limit) {
  PlannedGrid planned{spec, grid, {}};
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
  return planned;
}

/// Times of the plans of a grid, in the order of the plans; empty without a machine.
using GridTimes = std::vector<TimedPlan>;

Json plans_to_json(const std::vector<PlannedGrid>& plans, const std::vector<GridTimes>& times,
                   const PlanFlags& flags, std::optional<std::int64_t> limit) {
  Json out;
  out["schema"] = "lossgrid.plan/1";
  out["arguments"] = command_line();
  out["limit_bytes"] = limit ? Json(*limit) : Json();
  if (!flags.machine.empty()) out["machine"] = flags.machine;
  out["plans"] = Json::array();
  for (std::size_t g = 0; g < plans.size(); ++g) {
    const PlannedGrid& planned = plans[g];
    Json plan;
    plan["case"] = format_case(planned.spec);
    plan["grid"] = format_grid(planned.grid);
    plan["rows"] = Json::array();
    for (std::size_t k = 0; k < planned.fits.size(); ++k) {
      plan["rows"].push_back(plan_to_json(planned.fits[k], limit));
      if (times[g].empty() || !times[g][k].time) continue;
      plan["rows"].back()["time"] = time_to_json(*times[g][k].time);
    }
    out["plans"].push_back(std::move(plan));
  }
  return out;
}

void require_sensible(const PlanFlags& flags) {
  if (!flags.vary.empty() && flags.fit.empty()) {
    throw Error(ErrorCode::usage, "--vary needs --fit");
  }
  if (flags.search && !flags.fit.empty()) {
    throw Error(ErrorCode::usage, "--search and --fit do not go together");
  }
  if (flags.search && !flags.choice.grids.empty()) {
    throw Error(ErrorCode::usage, "--search finds the grid, and --grid gives it");
  }
  if (flags.search && flags.machine.empty()) {
    throw Error(ErrorCode::usage, "--search needs --machine");
  }
}

/// Predicts times of the case on the grid, or of the case that --fit found; empty without a
/// machine.
GridTimes time_grid(const PlannedGrid& planned, const std::optional<TimeModel>& model) {
  GridTimes times;
  if (!model) return times;
  for (const Fit& fit : planned.fits) {
    times.push_back(fit.reason.empty()
                        ? plan_time(fit.row.spec, planned.grid, fit.row.implementation, *model)
                        : TimedPlan{fit.row, std::nullopt});
  }
  return times;
}

std::string format_all_times(const std::vector<GridTimes>& times,
                             const std::optional<TimeModel>& model, const TextStyle& style) {
  if (!model) return "";
  std::vector<TimedPlan> all;
  for (const GridTimes& of_grid : times) all.insert(all.end(), of_grid.begin(), of_grid.end());
  return '\n' + describe_model(*model, style) + format_times(all, style);
}

ExitCode search(const PlanFlags& flags, const TimeModel& model) {
  const std::vector<Suite> suites = requested_plans(flags);
  if (suites.size() != 1 || suites.front().cases.size() != 1) {
    throw Error(ErrorCode::usage, "--search takes one case");
  }
  SearchRequest request;
  request.spec = suites.front().cases.front();
  request.implementations = planned_implementations(suites.front(), request.spec);
  request.most_ranks = flags.ranks;
  request.memory_bytes =
      flags.memory.empty() ? model.machine.memory.bytes : parse_bytes(flags.memory, "--memory");
  if (!flags.json.empty()) prepare_file_path(flags.json);
  const std::vector<TimedPlan> plans = search_grids(request, model);
  if (!flags.json.empty()) {
    write_file_atomically(flags.json, json_text(search_to_json(request, model, plans)) + '\n');
  }
  const TextStyle style = stdout_style();
  print_text(
      describe_model(model, style) + format_search(plans, request.memory_bytes, kSearchRows, style),
      style);
  if (!flags.json.empty()) print("search: {}\n", flags.json);
  const bool any = !plans.empty() && plans.front().row.peak_bytes() <= request.memory_bytes;
  return any ? ExitCode::ok : ExitCode::nothing_ran;
}

ExitCode run(const PlanFlags& flags) {
  load_requested(flags.load);
  require_sensible(flags);
  const std::optional<Machine> machine = requested_machine(flags.machine);
  std::optional<TimeModel> model;
  if (machine) model.emplace(TimeModel{*machine, machine->transport(flags.transport)});
  if (flags.search) return search(flags, *model);
  std::optional<std::int64_t> limit;
  if (!flags.fit.empty()) limit = parse_bytes(flags.fit, "--fit");
  const FitKey key = flags.vary == "seqs" ? FitKey::seqs : FitKey::seq_len;
  const std::vector<Suite> suites = requested_plans(flags);
  if (!flags.json.empty()) prepare_file_path(flags.json);

  std::vector<PlannedGrid> plans;
  std::vector<GridTimes> times;
  bool any = false;
  for (const Suite& suite : suites) {
    for (const CaseSpec& spec : suite.cases) {
      const std::vector<std::string> implementations = planned_implementations(suite, spec);
      for (const Grid& grid : suite.grids) {
        plans.push_back(plan_grid(spec, grid, implementations, key, limit));
        times.push_back(time_grid(plans.back(), model));
        for (const Fit& fit : plans.back().fits) any = any || fit.reason.empty();
      }
    }
  }
  if (!flags.json.empty()) {
    write_file_atomically(flags.json, json_text(plans_to_json(plans, times, flags, limit)) + '\n');
  }
  const TextStyle style = stdout_style();
  print_text(format_plans(plans, limit.has_value(), style) + format_all_times(times, model, style),
             style);
  if (!flags.json.empty()) print("plan: {}\n", flags.json);
  return any ? ExitCode::ok : ExitCode::nothing_ran;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app.add_subcommand(
      "plan", "predict bytes, collectives, FLOPs and time without running; what fits a limit");
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
  add_machine_flag(*command, flags->machine, "predict times on this machine");
  command->add_option("--transport", flags->transport,
                      "carrier of the collectives among those of the machine (default its first)");
  command->add_flag("--search", flags->search,
                    "find the fastest implementation and grid of one case, tp x cp in powers of "
                    "two");
  command->add_option("--ranks", flags->ranks, "most ranks of a searched grid (default 4096)")
      ->check(CLI::Range(1, kMostSearchedRanks));
  command->add_option("--memory", flags->memory,
                      "bytes that the loss may have of a rank in a search, as for --fit (default "
                      "the memory of the machine)");
  command->add_option("--json", flags->json,
                      "write the plan or the search here too, with phases and collectives one by "
                      "one");
  command->footer(
      "Exit codes: 0 planned, 64 usage, 65 bad input, 77 nothing could be planned or fits.\n"
      "Try: lossgrid plan --model Qwen3-30B-A3B --case \"lens=32768 dtype=bf16\" "
      "--grid tp4sp,tp8sp --fit 8GiB\n"
      "     lossgrid plan --model Qwen3-30B-A3B --case \"lens=32768 dtype=bf16\" --machine "
      "H100-SXM "
      "--search --ranks 64 --memory 20GiB");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
