// SPDX-License-Identifier: Apache-2.0
// Mutants of off-policy parts of `clipped_pg`: the approximated proximal policy, tokens without a
// generation log-probability, and the ratio to the generating policy.
#include <cmath>

#include "impls/mutants/mutant.h"
#include "impls/objectives/clipped_pg/wrong_formulas.h"

namespace lossgrid {
namespace {

bool approximates(const ClippedPgOptions& options) {
  return options.approximates_proximal();
}

bool takes_binary_ratio(const ClippedPgOptions& options) {
  return options.is_binary_dppo();
}

/// `GradientThroughProximal`: the share of the current policy keeps its gradient.
struct GradientThroughProximal : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> log_ratio(Real x, Real p, Real share) {
    return {x - p, 1 - share};
  }
};

/// `ShareWithoutVersion`: a token of version -1 as if a policy of that number had sampled it.
struct ShareWithoutVersion : ClippedPgFormulas {
  template <typename Real>
  static Real proximal_share(Real version, Real current) {
    return version < 0 ? (current - 1 - version) / (current - version)
                       : ClippedPgFormulas::proximal_share(version, current);
  }
};

/// `ProximalIsCurrent`: the proximal policy is the current one, so that older tokens have ratio 1.
struct ProximalIsCurrent : ClippedPgFormulas {
  template <typename Real>
  static Real proximal_share(Real version, Real current) {
    return version < 0 || version >= current ? Real(0) : Real(1);
  }
};

struct OtherInterpolation : ClippedPgFormulas {
  template <typename Real>
  static Real proximal(ProximalPolicy method, Real x, Real q, Real share) {
    const bool is_linear = method == ProximalPolicy::linear;
    return ClippedPgFormulas::proximal(
        is_linear ? ProximalPolicy::loglinear : ProximalPolicy::linear, x, q, share);
  }
};

/// `SelectsByInput`: selections read prev_logprobs, which nobody has written.
struct SelectsByInput : ClippedPgFormulas {
  static bool selects_by_proximal(const ClippedPgOptions& /*options*/) { return false; }
};

/// `LackingTokensTakePart`: their log weights are in the sums that reject sequences.
struct LackingTokensTakePart : ClippedPgFormulas {
  template <typename Real>
  static bool has_part(Real /*log_weight*/) {
    return true;
  }
};

/// `RatioToPrevious`: the ratio of dppo_binary to the previous policy, where there is one.
struct RatioToPrevious : ClippedPgFormulas {
  template <typename Real>
  static Real binary_dppo_anchor(Real p, Real /*q*/) {
    return p;
  }
};

/// True if the choice of tokens depends on the proximal policy.
bool selects_by_approximation(const ClippedPgOptions& options) {
  const Selection by = options.selection();
  return options.approximates_proximal() &&
         (by == Selection::second_moment || by == Selection::clip_cov);
}

/// Calls f(slot) for tokens that are masked because their generation log-probability is not finite:
/// other inputs of them are no poison.
template <typename F>
void for_each_dropped(const PackedBatch& batch, F&& f) {
  const auto input = [&](TokenInput which) -> const std::vector<float>& {
    return batch.inputs[static_cast<std::size_t>(which)];
  };
  const std::vector<float>& generation = input(TokenInput::generation_logprobs);
  const std::vector<float>& advantages = input(TokenInput::advantages);
  if (generation.empty() || advantages.empty()) return;
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    if (batch.sample_mask[i] == 0) continue;
    for (std::int64_t t = batch.cu_seqlens[i] + 1; t < batch.cu_seqlens[i + 1]; ++t) {
      const bool is_dropped = batch.token_mask[t] == 0 && !std::isfinite(generation[t]);
      if (is_dropped && std::isfinite(advantages[t])) f(t);
    }
  }
}

void dropped_tokens_counted(PackedBatch& batch) {
  for_each_dropped(batch, [&](std::int64_t) { ++batch.denominators.valid_tokens; });
}

/// Trains them with a ratio of their weight of 1.
void dropped_tokens_trained(PackedBatch& batch) {
  std::vector<float>& generation =
      batch.inputs[static_cast<std::size_t>(TokenInput::generation_logprobs)];
  const std::vector<float>& previous =
      batch.inputs[static_cast<std::size_t>(TokenInput::prev_logprobs)];
  for_each_dropped(batch, [&](std::int64_t t) {
    batch.token_mask[t] = 1;
    generation[t] = previous.empty() ? -1 : previous[t];
  });
}

/// Returns the objective if it drops tokens, else null.
std::unique_ptr<Objective> that_drops(const ObjectiveSpec& spec) {
  return with_formulas<ClippedPgFormulas>(spec, [](const ClippedPgOptions& o) {
    return o.nonfinite_generation_logprobs == NonfiniteGeneration::drop;
  });
}

/// Returns clipped_pg with the loss dppo_tv or dppo_kl in the place of dppo_binary; null without.
std::unique_ptr<Objective> weighted_log_probability(const ObjectiveSpec& spec) {
  if (spec.kind != "clipped_pg") return nullptr;
  ClippedPgOptions options = ClippedPgOptions::from(spec.options);
  if (!options.is_binary_dppo()) return nullptr;
  const bool is_tv = options.policy_loss == PolicyLoss::dppo_binary_tv;
  options.policy_loss = is_tv ? PolicyLoss::dppo_tv : PolicyLoss::dppo_kl;
  return std::make_unique<ClippedPgObjective<>>(options);
}

const RegisteredMutant proximal_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M262",
        .name = "gradient_through_proximal",
        .what = "the approximated proximal policy keeps the gradient of the current one",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<GradientThroughProximal>(spec, approximates);
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M263",
        .name = "proximal_of_no_version",
        .what = "a token of no version is approximated as one of version -1",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<ShareWithoutVersion>(spec, approximates);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M264",
        .name = "proximal_is_current",
        .what = "the proximal policy is the current one, not the one before it",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<ProximalIsCurrent>(spec, approximates);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M265",
        .name = "proximal_by_other_interpolation",
        .what = "probabilities are interpolated where logarithms should be, and the other way "
                "round",
        .strategy = "one_sweep",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<OtherInterpolation>(spec, approximates);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M266",
        .name = "dropped_tokens_counted",
        .what = "the mean divides by tokens that have no generation log-probability, too",
        .strategy = "fused",
        .batch = dropped_tokens_counted,
        .objective = that_drops,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M267",
        .name = "dropped_tokens_trained",
        .what = "tokens without a generation log-probability are trained on as on-policy ones",
        .strategy = "cp_local",
        .batch = dropped_tokens_trained,
        .objective = that_drops,
        .seen_in = "torchtitan, NaN log ratios as 0",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M268",
        .name = "lacking_tokens_reject",
        .what = "log weights that are not finite are in the sums that reject sequences",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<LackingTokensTakePart>(spec, [](const ClippedPgOptions& o) {
                return o.zero_weights_nonfinite() && o.rejects();
              });
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M269",
        .name = "dppo_binary_to_previous",
        .what = "dppo_binary: ratio and distance are those to the previous policy",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<RatioToPrevious>(spec, takes_binary_ratio);
            },
        .seen_in = "verl 0.9.1, by design",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M270",
        .name = "dppo_binary_by_weight",
        .what = "dppo_binary: the ratio is a weight of the log-probability, without gradient",
        .strategy = "cp_local",
        .objective = weighted_log_probability,
        .seen_in = "verl 0.9.1, by design",
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M271",
        .name = "selection_by_input_alone",
        .what = "tokens are selected by the input prev_logprobs where the proximal policy is "
                "approximated, and there is none",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<SelectsByInput>(spec, selects_by_approximation);
            },
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
