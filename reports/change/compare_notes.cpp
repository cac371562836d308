// SPDX-License-Identifier: Apache-2.0
#include "reports/change/compare_notes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "harness/core/text.h"
#include "reports/change/metric.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

/// Fact of an environment, by its place.
struct Fact {
  const char* label;
  const char* pointer;
};

constexpr std::array kMachine{
    Fact{"CPU model", "/host/cpu_model"}, Fact{"architecture", "/host/architecture"},
    Fact{"CPUs", "/host/cpus"},           Fact{"GPUs", "/gpus"},
    Fact{"machines", "/mpi/machines"},    Fact{"processes", "/mpi/processes"}};
// Not the revision: that is what reports are compared for.
constexpr std::array kBuild{Fact{"compiler", "/tool/compiler"},
                            Fact{"build type", "/tool/build_type"},
                            Fact{"sanitizers", "/tool/sanitize"},
                            Fact{"MPI", "/mpi/library"},
                            Fact{"NCCL", "/nccl"},
                            Fact{"variables", "/variables"}};

std::string fact_text(const Json& environment, const Fact& fact) {
  const Json::json_pointer place(fact.pointer);
  if (!environment.is_object() || !environment.contains(place)) return "none";
  const Json& value = environment.at(place);
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.empty() ? "none" : text;
}

/// "the machines differ: CPU model (A in BASE, B in HEAD), ..."; nothing when they do not.
template <std::size_t N>
void add_differences(const std::array<Fact, N>& facts, const char* what, const RunRecord& base,
                     const RunRecord& head, std::vector<std::string>& notes) {
  std::vector<std::string> differences;
  for (const Fact& fact : facts) {
    const std::string before = fact_text(base.environment, fact);
    const std::string now = fact_text(head.environment, fact);
    if (before == now) continue;
    differences.push_back(fmt::format("{} ({} in BASE, {} in HEAD)", fact.label, before, now));
  }
  if (differences.empty()) return;
  notes.push_back(fmt::format("the {} differ: {}", what, join(differences, ", ")));
}

/// Adds `text` with "ID", or "ID and 3 more", behind it; no line for no ids.
void add_with_ids(const std::string& text, const std::vector<std::string>& ids,
                  std::vector<std::string>& notes) {
  if (ids.empty()) return;
  notes.push_back(fmt::format("{}: {}", text, ids[0]));
  if (ids.size() > 1) notes.back() += fmt::format(" and {} more", ids.size() - 1);
}

void add_unstable_rows(const RunRecord& run, const char* which, std::vector<std::string>& notes) {
  std::vector<std::string> ids;
  for (const TimingRecord& timing : run.timings) {
    for (const TimingRow& row : timing.rows) {
      if (row.status == TimingStatus::unstable) ids.push_back(row_id(timing, row));
    }
  }
  add_with_ids(fmt::format("unstable in {}, too few samples to judge by", which), ids, notes);
}

/// Adds a line for each reason.
void add_unrepresentative(const RunRecord& run, const char* which,
                          std::vector<std::string>& notes) {
  std::map<std::string, std::vector<std::string>> ids_by_reason;
  for (const TimingRecord& timing : run.timings) {
    const std::string& reason = timing.not_representative_reason;
    if (!timing.rows.empty() && !reason.empty()) ids_by_reason[reason].push_back(timing.id());
  }
  for (const auto& [reason, ids] : ids_by_reason) {
    add_with_ids(fmt::format("not representative in {}, {}", which, reason), ids, notes);
  }
}

/// Rows of a batch that was padded otherwise do another amount of work.
void add_other_padding(const RunRecord& base, const RunRecord& head,
                       std::vector<std::string>& notes) {
  std::map<std::string, std::string> padding_before;
  for (const TimingRecord& timing : base.timings) padding_before[timing.id()] = timing.padding;
  std::vector<std::string> ids;
  for (const TimingRecord& timing : head.timings) {
    const auto before = padding_before.find(timing.id());
    if (before != padding_before.end() && before->second != timing.padding) {
      ids.push_back(timing.id());
    }
  }
  add_with_ids("timed on a batch that is padded otherwise than in BASE", ids, notes);
}

void add_failures_in_both(const RunRecord& base, const RunRecord& head,
                          std::vector<std::string>& notes) {
  std::set<std::string> failed_before;
  for (const TrialRecord& trial : base.trials) {
    if (is_bad(trial.status)) failed_before.insert(trial.id);
  }
  std::vector<std::string> ids;
  for (const TrialRecord& trial : head.trials) {
    if (is_bad(trial.status) && failed_before.contains(trial.id)) ids.push_back(trial.id);
  }
  add_with_ids(fmt::format("{} {} in both reports, which is no change", ids.size(),
                           ids.size() == 1 ? "trial fails" : "trials fail"),
               ids, notes);
}

}  // namespace

std::vector<std::string> comparison_notes(const RunRecord& base, const RunRecord& head) {
  std::vector<std::string> notes;
  add_differences(kMachine, "machines", base, head, notes);
  add_differences(kBuild, "builds", base, head, notes);
  add_unstable_rows(base, "BASE", notes);
  add_unstable_rows(head, "HEAD", notes);
  add_unrepresentative(base, "BASE", notes);
  add_unrepresentative(head, "HEAD", notes);
  add_other_padding(base, head, notes);
  add_failures_in_both(base, head, notes);
  if (base.status != "complete") {
    notes.push_back(
        fmt::format("BASE did not come to its end{}: what it did not reach is not compared",
                    how_it_died(base).text));
  }
  return notes;
}

DeadRun how_it_died(const RunRecord& run) {
  DeadRun dead;
  const auto hung_in = [](const std::string& id) {
    return DeadRun{.text = ", a rank hung in " + id, .code = ExitCode::hang};
  };
  for (const TrialRecord& trial : run.trials) {
    if (trial.status == TrialStatus::timeout) dead = hung_in(trial.id);
  }
  for (const TimingRecord& timing : run.timings) {
    if (timing.status == TimingStatus::timeout) dead = hung_in(timing.id());
  }
  if (!run.begun_id.empty()) dead = {.text = ", dead in the middle of " + run.begun_id};
  if (dead.text.empty() && run.exit_code != 0) {
    dead.text = fmt::format(", exit code {}", run.exit_code);
  }
  return dead;
}

}  // namespace lossgrid
