// SPDX-License-Identifier: Apache-2.0
// lossgrid mutants: do the suites reject every wrong implementation, and no right one?
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/early_end.h"
#include "harness/cli/flags/backend_flags.h"
#include "harness/cli/flags/cases_flag.h"
#include "harness/cli/flags/load_flags.h"
#include "harness/cli/flags/rank_limit.h"
#include "harness/cli/text/output.h"
#include "harness/core/text.h"
#include "harness/external/external_implementation.h"
#include "harness/loss/registry.h"
#include "harness/runner/mutation.h"
#include "reports/file/report_writer.h"
#include "reports/text/table.h"

namespace lossgrid {
namespace {

struct MutantFlags {
  std::string suite = "ci,linear,layouts";
  std::string names;
  std::string report;
  BackendFlags backend;
  LoadFlags load;
};

struct RequestedMutants {
  std::vector<std::string> names;
  std::map<std::string, std::string> if_it_survives;  // sentences by name
};

/// Registers the mutants and the control of a loaded implementation. One trial on each grid of the
/// first case that the implementation passes shows its collectives.
std::vector<UserMutant> learn_mutants(const std::string& name, std::vector<Suite> suites,
                                      ProblemCache& problems) {
  bool any_passed = false;
  std::string first_failure;
  for (Suite& suite : suites) suite.implementations = {name};
  run_suites(suites, RunOptions(), problems, [&](const TrialRecord& trial) {
    if (trial.status == TrialStatus::skipped) return true;
    if (trial.status != TrialStatus::passed) {
      if (first_failure.empty()) first_failure = fmt::format("{} ({})", trial.reason, trial.id);
      return true;
    }
    any_passed = true;
    return trial.tp == 1 || trial.cp == 1;
  });
  if (!any_passed && !first_failure.empty()) {
    throw_bad_input("'{}' passes no trial itself, so its mutants cannot be judged: {}", name,
                    first_failure);
  }
  if (!any_passed) throw_bad_input("no trial of the suites takes '{}'", name);
  return register_user_mutants(name);
}

/// Returns `names` with loaded implementations replaced: "mine" by its control and all of its
/// mutants, and "mine/roll_labels" by its control and that mutant.
RequestedMutants with_user_mutants(const std::vector<std::string>& names,
                                   const std::vector<Suite>& suites, ProblemCache& problems) {
  RequestedMutants out;
  std::map<std::string, std::vector<UserMutant>> learned;  // by implementation
  for (const std::string& name : names) {
    const ImplementationEntry* entry = find_implementation(name);
    if (entry == nullptr || entry->file.empty()) {
      out.names.push_back(name);
      continue;
    }
    if (name.find(':') != std::string::npos) {
      throw_bad_input("--impl {}: mutants are made of a function with its default options", name);
    }
    const std::string of = name.substr(0, name.find('/'));
    if (!learned.contains(of)) {
      learned[of] = learn_mutants(of, suites, problems);
      out.names.push_back(control_name(of));
    }
    if (of != name) out.names.push_back(name);
    for (const UserMutant& mutant : learned[of]) {
      if (of == name) out.names.push_back(mutant.name);
      if (!mutant.if_it_survives.empty()) out.if_it_survives[mutant.name] = mutant.if_it_survives;
    }
  }
  return out;
}

/// Throws bad_input for a name that is no mutant or control, because it would count as a survivor.
void require_mutants(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const auto kind : {ImplementationKind::mutant, ImplementationKind::control}) {
    for (const ImplementationEntry* entry : implementations(kind)) known.push_back(entry->name);
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw Error(ErrorCode::bad_input, unknown_name_message("mutant", name, known));
    }
  }
}

/// Prints a line for each unneeded collective, without which everything passed.
void print_unneeded_collectives(const RunRecord& record, const RequestedMutants& requested) {
  for (const MutantRecord& mutant : record.mutants) {
    const auto sentence = requested.if_it_survives.find(mutant.name);
    const bool survived = !mutant.rejected && mutant.trials > 0;
    if (survived && sentence != requested.if_it_survives.end()) print("{}\n", sentence->second);
  }
}

ExitCode run(const MutantFlags& flags) {
  std::vector<Suite> suites = load_suites(flags.suite);
  for (Suite& suite : suites) suite.backend = requested_backend(flags.backend);
  load_requested(flags.load);
  require_runnable(suites, rank_limit(suites, 0));
  ProblemCache problems;
  const RequestedMutants requested = with_user_mutants(parse_list(flags.names), suites, problems);
  require_mutants(requested.names);

  RunRecord record = begin_run("mutants", flags.suite);
  std::optional<ReportWriter> writer;
  if (!flags.report.empty()) writer.emplace(flags.report, record);
  const auto write_report = [&](ExitCode code, bool is_complete) {
    end_run(record, code, is_complete);
    if (writer) writer->finish(record);
  };
  const auto print_report = [&] {
    const TextStyle style = stdout_style();
    print_text(format_mutants_table(record, style), style);
    print_unneeded_collectives(record, requested);
    if (writer) print("report: {}\n", writer->path());
  };
  std::optional<EarlyEnd> early_end;
  early_end.emplace([&](ExitCode code) {
    write_report(code, false);
    print_report();
    print("{}: the mutants and controls behind these {} did not run\n", kInterrupted,
          record.mutants.size());
  });
  const bool must_end =
      run_mutants(suites, requested.names, RunOptions(), problems, [&](const MutantRecord& mutant) {
        early_end->step([&] {
          if (writer) writer->add(mutant);
          record.mutants.push_back(mutant);
          record.stages.add(take_stage_times());
        });
      });
  early_end->close();
  ExitCode code = exit_code_of(record.mutants);
  if (must_end) {  // the following mutants were not tried
    print_message(fmt::format("a rank hangs or has lost its GPU: {} was the last that ran",
                              record.mutants.back().name));
    code = worst(code, ExitCode::rank_crashed);
  }
  write_report(code, !must_end);
  early_end.reset();
  print_report();
  if (must_end) leave_at_once(code);
  return code;
}

}  // namespace

void add_mutants_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<MutantFlags>();
  CLI::App* command = app.add_subcommand(
      "mutants", "run the wrong implementations on a suite and print the mutation score");
  command->add_option("--suite", flags->suite,
                      "suites that must reject them, comma separated (default ci,linear,layouts)");
  add_cases_flag(*command);
  command->add_option(
      "--impl", flags->names,
      "only these mutants and controls, comma separated (see lossgrid list mutants); of an "
      "implementation that was loaded, its function with one thing changed at a time, or with one "
      "thing alone: mine/forward-1-skip; and with nothing changed, which must pass: "
      "mine/unchanged");
  add_load_flags(*command, flags->load);
  command->add_option("--report", flags->report, "write the JSON report here (.json.gz: packed)");
  add_backend_flags(*command, flags->backend);
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
