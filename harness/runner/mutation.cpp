// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/mutation.h"

#include <algorithm>
#include <map>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/loss/registry.h"
#include "harness/runner/unchanged_trials.h"
#include "harness/runner/verdict/failed_checks.h"

namespace lossgrid {
namespace {

/// Puts the first grid that cuts both vocabulary and sequences before all others: on it most
/// mutants fail, so that one that fails in few cases is found without the other grids of those
/// before.
void begin_with_both_dimensions(std::vector<Grid>& grids) {
  const auto both = std::find_if(grids.begin(), grids.end(),
                                 [](const Grid& grid) { return grid.tp > 1 && grid.cp > 1; });
  if (both != grids.end()) std::rotate(grids.begin(), both, both + 1);
}

std::vector<Suite> in_order_of_mutants(std::vector<Suite> suites) {
  for (Suite& suite : suites) begin_with_both_dimensions(suite.grids);
  return suites;
}

/// True if a verdict on the bits of several grids is all that may reject the mutant.
bool rejects_by_other_grids(const std::vector<std::string>& failed, const std::string& named) {
  const auto is_of_grids = [](const std::string& check) {
    return check == "packing" || check == "tp_size";
  };
  return named.empty() ? std::all_of(failed.begin(), failed.end(), is_of_grids)
                       : is_of_grids(named);
}

std::string place_of(const TrialRecord& trial) {
  return (trial.case_name.empty() ? case_text_of(trial) : trial.case_name) + ", " + trial.grid();
}

class MutationRun {
 public:
  MutationRun(const std::vector<Suite>& suites, const RunOptions& options, ProblemCache& problems)
      : suites_(in_order_of_mutants(suites)),
        options_(options),
        problems_(problems),
        unchanged_(suites_, options, problems) {
    options_.order = TrialOrder::by_grid;
  }

  bool must_end() const { return must_end_; }

  /// Runs the control of a loaded function on every case, on the first grid that it takes. Its
  /// record is complete behind the mutants: these find trials that it fails on other grids.
  void begin_loaded_control(const ImplementationEntry& control) {
    LoadedControl& state = loaded_[control.name];
    state.record = record_of(control);
    for (const Suite& suite : suites_) {
      for (const CaseSpec& spec : suite.cases) {
        Suite alone = suite;
        alone.cases = {spec};
        alone.implementations = {control.name};
        run({alone}, [&](const TrialRecord& trial) {
          if (!note_run(trial, state.record)) return true;
          unchanged_.note(trial);
          if (trial.status != TrialStatus::passed) judge_loaded_control(control, trial);
          return false;
        });
        if (must_end_) return;
      }
    }
  }

  MutantRecord finish_loaded_control(const ImplementationEntry& control) {
    LoadedControl& state = loaded_.at(control.name);
    if (state.record.trials > 0) state.record.reason.clear();
    for (const auto& [text, reason] : state.left_out) state.record.left_out.push_back(text);
    return std::move(state.record);
  }

  MutantRecord try_out(const ImplementationEntry& entry) {
    MutantRecord record = record_of(entry);
    std::vector<Suite> own = suites_;
    for (Suite& suite : own) {
      suite.implementations = {entry.name};
      if (entry.backend) suite.backend = *entry.backend;
      std::erase_if(suite.cases,
                    [&](const CaseSpec& spec) { return is_left_out(entry, format_case(spec)); });
    }
    run(own, [&](const TrialRecord& trial) {
      if (!note_run(trial, record)) {
        if (refuses(entry, trial)) ++record.trials;
        return true;
      }
      if (trial.status == TrialStatus::passed) return true;
      const std::string reason = reason_not_to_count(entry, trial);
      if (reason.empty()) {
        reject(trial, record);
        return false;
      }
      ++record.not_counted;
      if (record.not_counted == 1) record.reason = reason;
      return !unchanged_.must_end();
    });
    must_end_ = must_end_ || unchanged_.must_end();
    // The reason of a skipped trial is none of a mutant that ran on others.
    if (record.trials > 0 && record.not_counted == 0) record.reason.clear();
    return record;
  }

 private:
  struct LoadedControl {
    MutantRecord record;
    std::map<std::string, std::string> left_out;  // by case text, the reason of the first failure
  };

  static MutantRecord record_of(const ImplementationEntry& entry) {
    MutantRecord record;
    record.name = entry.name;
    record.catalogue_id = entry.catalogue_id;
    record.what = entry.what;
    record.is_control = entry.kind == ImplementationKind::control;
    return record;
  }

  void run(const std::vector<Suite>& suites, const TrialSink& sink) {
    must_end_ = run_suites(suites, options_, problems_, sink) || must_end_;
  }

  /// Counts a trial. Returns false if it was skipped; the first reason is kept.
  static bool note_run(const TrialRecord& trial, MutantRecord& record) {
    if (trial.status == TrialStatus::skipped) {
      if (record.trials == 0 && record.reason.empty()) record.reason = trial.reason;
      return false;
    }
    ++record.trials;
    return true;
  }

  /// True if a trial was skipped that its implementation takes unchanged, by a mutant whose mistake
  /// is to refuse: such a trial was passed.
  bool refuses(const ImplementationEntry& entry, const TrialRecord& trial) {
    return entry.rejected_by == name(TrialStatus::skipped) && !entry.unchanged.empty() &&
           unchanged_.find(trial, entry.unchanged, false).status == TrialStatus::passed;
  }

  static void reject(const TrialRecord& trial, MutantRecord& record) {
    record.rejected = true;
    record.rejected_by_case = trial.case_name;
    record.rejected_by_grid = trial.grid();
    record.rejected_by_checks = failed_checks(trial);
    record.reproduce = trial.reproduce;
  }

  bool is_left_out(const ImplementationEntry& entry, const std::string& text) const {
    const auto state = loaded_.find(entry.unchanged);
    return state != loaded_.end() && state->second.left_out.contains(text);
  }

  /// Takes a trial that the control of a loaded function failed: the function fails it too, and the
  /// case is left out, or the change that should be none is wrong.
  void judge_loaded_control(const ImplementationEntry& control, const TrialRecord& trial) {
    LoadedControl& state = loaded_.at(control.name);
    const TrialRecord& plain = unchanged_.find(trial, control.unchanged, false);
    must_end_ = must_end_ || unchanged_.must_end();
    if (plain.status != TrialStatus::passed) {
      state.left_out.emplace(case_text_of(trial), plain.reason);
    } else if (!state.record.rejected) {
      reject(trial, state.record);
    }
  }

  /// Returns the reason for which a failed trial does not reject the mutant or control; "" if it
  /// does. A control has to pass whatever its strategy does.
  std::string reason_not_to_count(const ImplementationEntry& entry, const TrialRecord& trial) {
    if (entry.kind == ImplementationKind::control) return "";
    const std::vector<std::string> failed = failed_checks(trial);
    if (!has_named_check(failed, entry.rejected_by)) {
      return fmt::format("{}: fails {}, and the catalogue names {}", place_of(trial),
                         join(failed, ", "), entry.rejected_by);
    }
    // Threads that hang may leave a rank behind: nothing else can run here.
    const bool hangs = trial.status == TrialStatus::timeout && entry.file.empty();
    if (entry.unchanged.empty() || hangs) return "";
    const TrialRecord& unchanged =
        unchanged_.find(trial, entry.unchanged, rejects_by_other_grids(failed, entry.rejected_by));
    if (unchanged.status == TrialStatus::passed) return "";
    if (loaded_.contains(entry.unchanged)) {
      judge_loaded_control(*find_control(entry.unchanged), unchanged);
    }
    return fmt::format("{}: '{}' does not pass it, either: {}", place_of(trial), entry.unchanged,
                       unchanged.reason);
  }

  static const ImplementationEntry* find_control(const std::string& name) {
    for (const ImplementationEntry* entry : implementations(ImplementationKind::control)) {
      if (entry->name == name) return entry;
    }
    throw Error(ErrorCode::internal, "no control " + name);
  }

  const std::vector<Suite> suites_;
  RunOptions options_;
  ProblemCache& problems_;
  UnchangedTrials unchanged_;
  std::map<std::string, LoadedControl> loaded_;  // by name of the control
  bool must_end_ = false;
};

std::vector<const ImplementationEntry*> selected(ImplementationKind kind,
                                                 const std::vector<std::string>& names) {
  std::vector<const ImplementationEntry*> entries = implementations(kind);
  std::erase_if(entries, [&](const ImplementationEntry* entry) {
    return !names.empty() && std::find(names.begin(), names.end(), entry->name) == names.end();
  });
  return entries;
}

}  // namespace

bool run_mutants(const std::vector<Suite>& suites, const std::vector<std::string>& names,
                 const RunOptions& options, ProblemCache& problems,
                 const std::function<void(const MutantRecord&)>& sink) {
  MutationRun run(suites, options, problems);
  const auto controls = selected(ImplementationKind::control, names);
  for (const ImplementationEntry* control : controls) {
    if (!control->file.empty()) run.begin_loaded_control(*control);
    if (run.must_end()) {
      sink(run.finish_loaded_control(*control));
      return true;
    }
  }
  for (const ImplementationEntry* mutant : selected(ImplementationKind::mutant, names)) {
    sink(run.try_out(*mutant));
    if (run.must_end()) return true;
  }
  for (const ImplementationEntry* control : controls) {
    sink(control->file.empty() ? run.try_out(*control) : run.finish_loaded_control(*control));
    if (run.must_end()) return true;
  }
  return false;
}

bool has_named_check(const std::vector<std::string>& failed, const std::string& checks) {
  if (checks.empty()) return true;
  const std::vector<std::string> named = alternatives(checks);
  return std::any_of(failed.begin(), failed.end(), [&](const std::string& one) {
    return std::any_of(named.begin(), named.end(), [&](const std::string& check) {
      if (check.ends_with('*')) return one.starts_with(check.substr(0, check.size() - 1));
      return one == check || one.starts_with(check + ": ");
    });
  });
}

std::vector<std::string> alternatives(std::string checks) {
  constexpr std::string_view kOr = " or ";
  std::vector<std::string> names;
  for (std::size_t at = checks.find(kOr); at != std::string::npos; at = checks.find(kOr)) {
    names.push_back(checks.substr(0, at));
    checks.erase(0, at + kOr.size());
  }
  names.push_back(std::move(checks));
  return names;
}

ExitCode exit_code_of(const std::vector<MutantRecord>& mutants) {
  const auto ran = [](const MutantRecord& m) { return m.trials > 0; };
  if (std::none_of(mutants.begin(), mutants.end(), ran)) return ExitCode::nothing_ran;
  const bool as_should = std::all_of(mutants.begin(), mutants.end(), [&](const MutantRecord& m) {
    return !ran(m) || m.rejected != m.is_control;
  });
  return as_should ? ExitCode::ok : ExitCode::correctness;
}

}  // namespace lossgrid
