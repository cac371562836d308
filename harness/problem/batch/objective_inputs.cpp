// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/objective_inputs.h"

#include <algorithm>
#include <cmath>

#include "harness/core/error.h"
#include "harness/problem/batch/case_data.h"
#include "harness/problem/batch/draw.h"
#include "harness/problem/batch/groups.h"
#include "harness/problem/batch/poison.h"
#include "harness/problem/batch/policy_versions.h"
#include "harness/problem/batch/value_inputs.h"

namespace lossgrid {
namespace {

// Centre of the values in slots that are not trained on, where they are not poisoned.
constexpr double kPlausibleLogprob = -2;

/// Returns base + offset, or a value below the base where that would be no log-probability.
/// Requires base <= 0.
double shifted(double base, double offset) {
  return base + offset <= 0 ? base + offset : base - std::abs(offset);
}

/// Returns the log of the ratio to the previous policy: inside and on both sides of clip ranges of
/// 0.2, and on both sides of a dual clip of 3.
double drawn_log_ratio(const Draw& draw) {
  const double branch = draw.uniform(0);
  if (branch < 0.35) return 0.05 * draw.normal();
  if (branch < 0.65) return draw.between(0.25, 0.6, 1);
  if (branch < 0.90) return -draw.between(0.25, 0.6, 1);
  if (branch < 0.95) return draw.between(1.2, 1.6, 1);
  return -draw.between(1.2, 1.6, 1);
}

/// Returns the log of an importance weight.
double drawn_log_weight(const Draw& draw) {
  if (draw.uniform(0) < 0.8) return 0.1 * draw.normal();
  return with_sign(draw.uniform(2) < 0.5, draw.between(0.3, 1, 1));
}

double drawn_reference_offset(const Draw& draw) {
  if (draw.uniform(0) < 0.9) return 0.5 * draw.normal();
  return with_sign(draw.uniform(2) < 0.5, draw.between(1.5, 2.5, 1));
}

/// Returns an offset beyond what bounds the difference of log-probabilities, or its estimate.
double far_teacher_offset(const Draw& draw) {
  const bool is_beyond_all = draw.uniform(0) < 0.5;
  const double size = is_beyond_all ? draw.between(25, 40, 1) : draw.between(2.6, 5, 1);
  return with_sign(draw.uniform(2) < 0.5, size);
}

struct Policies {
  double prev = 0;
  double generation = 0;
  double reference = 0;
  double teacher = 0;
};

/// Moves one of the log-probabilities far away: the reference beyond the input clamp of the KL (20)
/// or beyond its output clamp (10), or generation until exp(prev - generation) is no float32.
void drift_far(const Draw& draw, double x, Policies& policies) {
  const double kind = 3 * draw.uniform(1);
  const bool above = draw.uniform(2) < 0.5;
  if (kind < 1) {
    policies.reference = shifted(x, with_sign(above, draw.between(25, 40, 3)));
  } else if (kind < 2) {
    policies.reference = shifted(x, with_sign(above, draw.between(2.6, 5, 3)));
  } else {
    policies.generation = shifted(policies.prev, with_sign(above, draw.between(100, 110, 3)));
  }
}

/// Returns the log-probability that lies one of the edges below `from`, one of the edges above it
/// if `above`: as a float32, that or a neighbour or one that is 2^-10 off, each as likely.
double at_edge(const Draw& draw, const Edges& edges, double from, bool above) {
  const auto pick = [&](int count, std::uint32_t column) {
    return static_cast<int>(count * draw.uniform(column));
  };
  const double edge = edges.at[static_cast<std::size_t>(pick(std::max(edges.count, 1), 0))];
  const auto nearest = static_cast<float>(shifted(from, above ? edge : -edge));
  switch (pick(5, 1)) {
    case 1:
      return std::nextafter(nearest, -HUGE_VALF);
    case 2:
      return std::min(0.0f, std::nextafter(nearest, HUGE_VALF));
    case 3:
      return nearest - 0x1p-10;
    case 4:
      return std::min(0.0, nearest + 0x1p-10);
    default:
      return nearest;
  }
}

/// Returns the edges `times` as far away.
Edges farther(Edges edges, double times) {
  for (double& distance : edges.at) distance *= times;
  return edges;
}

/// Draws them at the edges of the objective. `index`: of the token, or of what has one edge;
/// `steps`: steps_behind of the token.
Policies policies_at_edges(const CaseSpec& spec, const ObjectiveNeeds& needs, std::int64_t index,
                           double x, double steps) {
  const auto draw = [&](Stream stream) { return Draw(spec.seed, stream, index); };
  Policies policies;
  policies.prev = at_edge(draw(Stream::prev_logprobs), needs.log_ratios, x, false);
  const double from = needs.needs(TokenInput::prev_logprobs) ? policies.prev : x;
  const Edges& of_generation =
      needs.needs(TokenInput::versions) ? farther(needs.log_ratios, steps) : needs.log_weights;
  policies.generation = at_edge(draw(Stream::generation_logprobs), of_generation, from, false);
  policies.reference =
      at_edge(draw(Stream::reference_policy_logprobs), needs.reference_offsets, x, true);
  policies.teacher = at_edge(draw(Stream::teacher_logprobs), needs.teacher_offsets, x,
                             draw(Stream::teacher_logprobs).uniform(2) < 0.5);
  return policies;
}

/// Draws the log-probabilities of token t of a sequence by the other policies, around the `x` of
/// the current one.
Policies drawn_policies(const CaseSpec& spec, std::int64_t t, double x, double sequence_drift) {
  if (spec.drift == Drift::equal) return {x, x, x, x};
  const auto draw = [&](Stream stream) { return Draw(spec.seed, stream, t); };
  Policies policies;
  const Draw far = draw(Stream::far_tokens);
  policies.prev = shifted(x, -(drawn_log_ratio(draw(Stream::prev_logprobs)) + sequence_drift));
  if (spec.drift == Drift::far_prev && far.uniform(0) < 0.25) {
    const bool above = x < -40 && far.uniform(2) < 0.5;
    policies.prev = x + with_sign(above, far.between(25, 40, 3));
  }
  policies.generation =
      shifted(policies.prev, -drawn_log_weight(draw(Stream::generation_logprobs)));
  policies.reference = shifted(x, drawn_reference_offset(draw(Stream::reference_policy_logprobs)));
  const Draw of_teacher = draw(Stream::teacher_logprobs);
  policies.teacher = shifted(x, spec.drift == Drift::far && of_teacher.uniform(3) < 1.0 / 3
                                    ? far_teacher_offset(of_teacher)
                                    : drawn_reference_offset(of_teacher));
  if (spec.drift == Drift::far && far.uniform(0) < 0.1) drift_far(far, x, policies);
  return policies;
}

/// Returns the log-probability of the generating policy, or for every eighth token what an engine
/// sends that has none: -inf, inf or NaN.
double with_lack(const CaseSpec& spec, std::int64_t t, double logprob) {
  const Draw draw(spec.seed, Stream::lacking_logprobs, t);
  if (draw.uniform(0) >= 0.125) return logprob;
  const double kind = draw.uniform(1);
  return kind < 0.4 ? -HUGE_VAL : kind < 0.8 ? std::nan("") : HUGE_VAL;
}

double drawn_reward(const CaseSpec& spec, std::int64_t sequence) {
  const Draw draw(spec.seed, Stream::rewards, sequence);
  return spec.drift == Drift::edge && draw.uniform(0) < 1.0 / 3 ? 0 : draw.normal();
}

double drawn_advantage(const Draw& draw) {
  return draw.uniform(0) < 0.1 ? 0 : draw.normal();
}

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

void draw_objective_inputs(Problem& problem, const ObjectiveNeeds& needs,
                           std::span<const double> numbers) {
  const CaseSpec& spec = problem.spec;
  const auto tokens = static_cast<std::size_t>(problem.tokens());
  if (numbers.size() != tokens) {
    throw Error(ErrorCode::internal,
                fmt::format("{} log-probabilities for {} tokens", numbers.size(), tokens));
  }
  for (int k = 0; k < kTokenInputs; ++k) {
    problem.inputs[k].assign(needs.inputs[k] ? tokens : 0, 0.0f);
  }
  problem.rewards.assign(needs.rewards ? problem.lengths.size() : 0, 0.0f);
  const bool draws =
      std::find(needs.inputs.begin(), needs.inputs.end(), true) != needs.inputs.end();

  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    const double drift = 0.15 * Draw(spec.seed, Stream::sequence_drift, i).normal();
    for (std::int64_t t = problem.cu_seqlens[i]; t < problem.cu_seqlens[i + 1]; ++t) {
      const bool trained = is_trained(problem, i, t);
      const auto row = static_cast<std::size_t>(t - problem.ahead());
      const double most = spec.head == Head::lm ? 0.0 : HUGE_VAL;
      const double x = trained ? std::min(numbers[row], most) : kPlausibleLogprob;
      if (draws && !std::isfinite(x)) {
        throw_bad_input("{}: the log-probability of token {} is {}, must be finite",
                        describe(problem.source), t, numbers[row]);
      }
      const auto store = [&](TokenInput input, double value) {
        const auto k = static_cast<int>(input);
        if (!needs.inputs[k]) return;
        const auto drawn = static_cast<float>(value);
        problem.inputs[k][t] = trained ? drawn : poison_or(spec.poison, drawn);
      };
      const double version = needs.needs(TokenInput::versions)
                                 ? drawn_version(spec.seed, needs.current_version, t)
                                 : 0;
      const Policies policies =
          spec.drift == Drift::edge
              ? policies_at_edges(spec, needs,
                                  needs.edges_by_unit ? i / needs.sequences_per_unit : t, x,
                                  steps_behind(version, needs.current_version))
              : drawn_policies(spec, t, x, drift);
      store(TokenInput::advantages, drawn_advantage(Draw(spec.seed, Stream::advantages, t)));
      store(TokenInput::prev_logprobs, policies.prev);
      store(TokenInput::generation_logprobs, needs.generation_may_lack
                                                 ? with_lack(spec, t, policies.generation)
                                                 : policies.generation);
      store(TokenInput::reference_policy_logprobs, policies.reference);
      store(TokenInput::teacher_logprobs, policies.teacher);
      store(TokenInput::versions, version);
      if (!needs.needs(TokenInput::returns) && !needs.needs(TokenInput::old_values)) continue;
      const DrawnValues values = drawn_values(spec, needs, t, x);
      store(TokenInput::returns, values.returns);
      store(TokenInput::old_values, values.old_value);
    }
    if (needs.rewards) {
      const auto drawn = static_cast<float>(drawn_reward(spec, i));
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
