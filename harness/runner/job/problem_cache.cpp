// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/job/problem_cache.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/core/stage_clock.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/loss/registry.h"
#include "harness/planner/plan/memory_plan.h"
#include "harness/problem/case/case_keys.h"
#include "harness/verify/truth/unpadded_batch.h"
#include "harness/verify/truth/usable_truth.h"

namespace lossgrid {
namespace {

/// True if the entry is too large to keep when the next case is prepared.
bool is_large(const PreparedProblem& prepared) {
  constexpr std::size_t kElements = std::size_t{1} << 18;
  if (!prepared.problem) return false;
  const auto is_over = [](const std::shared_ptr<const Projection>& projection) {
    return projection && projection->hidden.size() + projection->weight.size() > kElements;
  };
  return is_over(prepared.problem->projection) || is_over(prepared.problem->teacher_projection);
}

/// Returns how many truths of a problem are kept. A truth has O(T) numbers, and with an lm_head
/// some for each element of hidden states and weight.
std::size_t most_truths(const Problem& problem) {
  constexpr std::int64_t kSmall = std::int64_t{1} << 14;
  constexpr std::size_t kOfSmall = 4;  // TP sizes 1, 2, 4 and 8
  const std::int64_t numbers =
      problem.tokens() + (problem.tokens() + problem.spec.vocab) * problem.spec.hidden;
  return numbers <= kSmall ? kOfSmall : 1;
}

/// Throws bad_input for a divergence from a teacher, which has no filters, over a filtered student.
void require_no_mask(const Problem& problem) {
  if (problem.sampling_mask == nullptr) return;
  throw_bad_input("{}: {} takes no sampling mask: the teacher has probabilities outside of it",
                  describe(problem.source), problem.spec.objective.kind);
}

void require_head(const Problem& problem, const ObjectiveNeeds& needs) {
  if (needs.head == problem.spec.head) return;
  const CaseKey& key = *find_case_key("head");
  CaseSpec wanted;
  wanted.head = needs.head;
  throw_bad_input("{}: head = {}, and {} needs head = {}", describe(problem.source),
                  key.get(problem.spec), problem.spec.objective.kind, key.get(wanted));
}

/// Returns the number of a row that inputs are drawn around.
double number_of(const RowTruth& row, Head head) {
  return head == Head::lm ? row.logprob : row.logsumexp();
}

}  // namespace

PreparedProblem prepare(Problem problem) {
  const StageScope scope(Stage::truth);
  const CaseSpec& spec = problem.spec;
  PreparedProblem prepared;
  prepared.objective = make_objective(spec.objective, spec.statistics, spec.predictions);
  const ObjectiveNeeds needs = prepared.objective->needs();
  require_head(problem, needs);
  if (needs.terms.divergence.is_any()) {
    require_no_mask(problem);
    const Divergence& divergence = needs.terms.divergence;
    if (std::holds_alternative<FromCase>(problem.source)) {
      draw_teacher(problem, divergence.takes_logprobs());
    }
    require_teacher(problem, divergence);
  }
  prepared.rows = compute_rows(problem, process_threads(), divergence_of(needs, spec));
  require_trainable(problem, prepared.rows);
  if (std::holds_alternative<FromCase>(problem.source)) {
    std::vector<double> numbers;
    for (const RowTruth& row : prepared.rows) numbers.push_back(number_of(row, spec.head));
    draw_objective_inputs(problem, needs, prepared.objective->input_draw().get(), numbers);
  } else {
    require_objective_inputs(problem, needs);
  }
  // Rows of targets that were dropped have no truth, as those that were masked before.
  if (needs.drops_lacking) {
    prepared.rows = compute_rows(problem, process_threads(), divergence_of(needs, spec));
  }
  prepared.objective->require(unpadded_batch(problem));
  prepared.problem = std::make_shared<const Problem>(std::move(problem));
  return prepared;
}

std::shared_ptr<const Truth> truth_of(const PreparedProblem& prepared, const Problem& problem,
                                      int serial_adds, const DeclaredRowRoundings& declared) {
  const StageScope scope(Stage::truth);
  std::deque<RecentTruth>& truths = *prepared.truths;
  const auto same = std::find_if(truths.begin(), truths.end(), [&](const RecentTruth& recent) {
    return recent.serial_adds == serial_adds && recent.declared == declared &&
           recent.groups == problem.groups && recent.group_count == problem.group_count;
  });
  if (same != truths.end()) return same->truth;
  // Before the new one is made: both may not fit.
  if (truths.size() >= most_truths(*prepared.problem)) truths.pop_front();
  auto truth = std::make_shared<const Truth>(
      make_truth(problem, prepared.rows, *prepared.objective, serial_adds, declared));
  require_numbers(problem, *truth);
  truths.push_back({problem.groups, problem.group_count, serial_adds, declared, truth});
  return truth;
}

const PreparedProblem& ProblemCache::get(const CaseSpec& spec) {
  const std::string text = format_case(spec);
  if (!entries_.contains(text)) {
    std::erase_if(entries_, [](const auto& entry) { return is_large(entry.second); });
  }
  const auto [entry, is_new] = entries_.try_emplace(text);
  PreparedProblem& prepared = entry->second;
  if (is_new) {
    prepared.memory_shortage = memory_shortage(case_memory_bytes(spec));
    if (!prepared.memory_shortage) {
      const StageScope scope(Stage::generate);
      prepared = prepare(make_problem(spec));
    }
  }
  return prepared;
}

}  // namespace lossgrid
