// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/objective_inputs.h"

#include <algorithm>
#include <cmath>

#include "harness/core/error.h"
#include "harness/problem/batch/case_data.h"
#include "harness/problem/batch/groups.h"
#include "harness/problem/batch/poison.h"

namespace lossgrid {
namespace {

// Log-probability that inputs of slots that are not trained on are drawn around.
constexpr double kPlausibleLogprob = -2;

bool is_trained(const Problem& problem, std::int64_t sequence, std::int64_t t) {
  return t >= problem.cu_seqlens[sequence] + problem.ahead() && problem.token_mask[t] != 0 &&
         problem.sample_mask[sequence] != 0;
}

std::int64_t count_positive_tokens(const Problem& problem) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < problem.rewards.size(); ++i) {
    if (!(problem.rewards[i] > 0)) continue;
    const auto sequence = static_cast<std::int64_t>(i);
    for (std::int64_t t = problem.cu_seqlens[i]; t < problem.cu_seqlens[i + 1]; ++t) {
      count += is_trained(problem, sequence, t);
    }
  }
  return count;
}

/// Counts what means over sequences divide by; a stated number of the global batch is taken for
/// both.
void count_sequences(Problem& problem, const ObjectiveNeeds& needs) {
  Denominators& counts = problem.denominators;
  counts.trained_sequences = counts.all_sequences = 0;
  if (!needs.sequence_counts) return;
  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    ++counts.all_sequences;
    bool is_any = false;
    for (std::int64_t t = problem.cu_seqlens[i]; t < problem.cu_seqlens[i + 1]; ++t) {
      is_any |= is_trained(problem, i, t);
    }
    counts.trained_sequences += is_any ? 1 : 0;
  }
  const std::int64_t stated = problem.spec.global_valid_seqs;
  if (stated != 0) counts.trained_sequences = counts.all_sequences = stated;
}

/// Makes the groups that the needs name; the whole batch is one pack.
void make_groups(Problem& problem, const ObjectiveNeeds& needs) {
  const std::int64_t sequences = problem.sequences();
  if (needs.packs_are_groups) {
    set_groups(problem, std::vector<std::int64_t>(static_cast<std::size_t>(sequences), 0), 1);
  } else {
    set_neighbour_groups(problem, needs.group_size);
  }
}

/// Masks the targets whose generation log-probability is not finite; their inputs stay.
void drop_lacking(Problem& problem) {
  const std::vector<float>& generation =
      problem.inputs[static_cast<std::size_t>(TokenInput::generation_logprobs)];
  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    for (std::int64_t t = problem.cu_seqlens[i]; t < problem.cu_seqlens[i + 1]; ++t) {
      if (is_trained(problem, i, t) && !std::isfinite(generation[t])) problem.token_mask[t] = 0;
    }
  }
  problem.denominators =
      case_denominators(problem.spec, problem.cu_seqlens, problem.token_mask, problem.sample_mask);
}

/// Counts the denominators that the needs name, and leaves out what they drop.
void count_for(Problem& problem, const ObjectiveNeeds& needs) {
  if (needs.drops_lacking) drop_lacking(problem);
  problem.denominators.positive_tokens = count_positive_tokens(problem);
  count_sequences(problem, needs);
  make_groups(problem, needs);
}

void require_present(const Problem& problem, std::string_view tensor, std::size_t elements,
                     std::int64_t wanted) {
  if (elements != 0 || wanted == 0) return;
  throw_bad_input("{}: tensor \"{}\" is missing; the objective needs it", describe(problem.source),
                  tensor);
}

void require_finite_tokens(const Problem& problem, TokenInput input) {
  const std::vector<float>& values = problem.inputs[static_cast<int>(input)];
  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    for (std::int64_t t = problem.cu_seqlens[i]; t < problem.cu_seqlens[i + 1]; ++t) {
      if (!is_trained(problem, i, t) || std::isfinite(values[t])) continue;
      throw_bad_input(
          "{}: tensor {}: {} at sequence {}, token {}, must be finite where it is "
          "trained on",
          describe(problem.source), name(input), values[t], i, t - problem.cu_seqlens[i]);
    }
  }
}

void require_versions(const Problem& problem) {
  constexpr double kLargest = 1 << 24;
  const std::vector<float>& values = problem.inputs[static_cast<std::size_t>(TokenInput::versions)];
  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    for (std::int64_t t = problem.cu_seqlens[i]; t < problem.cu_seqlens[i + 1]; ++t) {
      if (!is_trained(problem, i, t) || std::abs(values[t]) <= kLargest) continue;
      throw_bad_input("{}: tensor versions: {} at sequence {}, token {}, must be at most 2^24",
                      describe(problem.source), values[t], i, t - problem.cu_seqlens[i]);
    }
  }
}

void require_finite_rewards(const Problem& problem) {
  for (std::size_t i = 0; i < problem.rewards.size(); ++i) {
    if (problem.sample_mask[i] == 0 || std::isfinite(problem.rewards[i])) continue;
    throw_bad_input("{}: tensor rewards: {} at sequence {}, must be finite where it counts",
                    describe(problem.source), problem.rewards[i], i);
  }
}

}  // namespace

void draw_objective_inputs(Problem& problem, const ObjectiveNeeds& needs, const InputDraw* draw,
                           std::span<const double> numbers) {
  const CaseSpec& spec = problem.spec;
  const auto tokens = static_cast<std::size_t>(problem.tokens());
  if (numbers.size() != tokens) {
    throw Error(ErrorCode::internal,
                fmt::format("{} log-probabilities for {} tokens", numbers.size(), tokens));
  }
  const bool draws =
      std::find(needs.inputs.begin(), needs.inputs.end(), true) != needs.inputs.end();
  if (draw == nullptr && (draws || needs.rewards)) {
    throw Error(ErrorCode::internal, "an objective that draws no inputs needs some");
  }
  for (int k = 0; k < kTokenInputs; ++k) {
    problem.inputs[k].assign(needs.inputs[k] ? tokens : 0, 0.0f);
  }
  problem.rewards.assign(needs.rewards ? problem.lengths.size() : 0, 0.0f);

  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    for (std::int64_t t = problem.cu_seqlens[i]; draws && t < problem.cu_seqlens[i + 1]; ++t) {
      const bool trained = is_trained(problem, i, t);
      const auto row = static_cast<std::size_t>(t - problem.ahead());
      const double most = spec.head == Head::lm ? 0.0 : HUGE_VAL;
      const double x = trained ? std::min(numbers[row], most) : kPlausibleLogprob;
      if (!std::isfinite(x)) {
        throw_bad_input("{}: the log-probability of token {} is {}, must be finite",
                        describe(problem.source), t, numbers[row]);
      }
      const DrawnInputs inputs = draw->inputs({spec, t, i, x});
      for (int k = 0; k < kTokenInputs; ++k) {
        if (!needs.inputs[k]) continue;
        const auto drawn = static_cast<float>(inputs.values[k]);
        problem.inputs[k][t] = trained ? drawn : poison_or(spec.poison, drawn);
      }
    }
    if (needs.rewards) {
      const auto drawn = static_cast<float>(draw->reward(spec, i));
      problem.rewards[i] = problem.sample_mask[i] != 0 ? drawn : poison_or(spec.poison, drawn);
    }
  }
  count_for(problem, needs);
}

Divergence divergence_of(const ObjectiveNeeds& needs, const CaseSpec& spec) {
  const Divergence& divergence = needs.terms.divergence;
  return spec.teacher_topk > 0 ? divergence : divergence.of_all_ids();
}

void require_objective_inputs(Problem& problem, const ObjectiveNeeds& needs) {
  for (int k = 0; k < kTokenInputs; ++k) {
    if (needs.inputs[k]) {
      require_present(problem, name(static_cast<TokenInput>(k)), problem.inputs[k].size(),
                      problem.tokens());
      const auto input = static_cast<TokenInput>(k);
      if (input == TokenInput::generation_logprobs && needs.generation_may_lack) continue;
      require_finite_tokens(problem, input);
    } else {
      problem.inputs[k].clear();
    }
  }
  if (needs.needs(TokenInput::versions)) require_versions(problem);
  if (needs.rewards) {
    require_present(problem, "rewards", problem.rewards.size(), problem.sequences());
    require_finite_rewards(problem);
  } else {
    problem.rewards.clear();
  }
  count_for(problem, needs);
}

}  // namespace lossgrid
