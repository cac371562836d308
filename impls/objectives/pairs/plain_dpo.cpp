// SPDX-License-Identifier: Apache-2.0
// `dpo`, plainly from docs/objectives.md ("Losses of a pair") and TRL.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "impls/objectives/pairs/plain_pairs.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {
namespace {

double dpo_pair(const Options& options, const std::string& type, double a, double b) {
  const double beta = options.number("reference_policy_kl_penalty", 0.05);
  const double e = options.number("label_smoothing", 0);
  const double u = beta * (a - b);
  if (type == "robust") return (-(1 - e) * log_sigmoid(u) + e * log_sigmoid(-u)) / (1 - 2 * e);
  if (type == "hinge") return std::max(0.0, 1 - u);
  if (type == "ipo") return std::pow(a - b - 1 / (2 * beta), 2);
  if (type == "exo_pair") {
    return sigmoid(u) * (log_sigmoid(u) - std::log(1 - e)) +
           sigmoid(-u) * (log_sigmoid(-u) - std::log(e));
  }
  if (type == "nca_pair") {
    return -log_sigmoid(beta * a) - (log_sigmoid(-beta * a) + log_sigmoid(-beta * b)) / 2;
  }
  if (type == "bco_pair") return -log_sigmoid(beta * a) - log_sigmoid(-beta * b);
  if (type == "sppo_hard") {
    return std::pow(a - 1 / (2 * beta), 2) + std::pow(b + 1 / (2 * beta), 2);
  }
  if (type == "apo_zero") return sigmoid(-beta * a) + sigmoid(beta * b);
  if (type == "apo_down") return sigmoid(beta * a) + sigmoid(-u);
  if (type == "discopop") {
    const double m = sigmoid(u / options.number("discopop_tau", 0.05));
    return -(1 - m) * log_sigmoid(u) + m * std::exp(-u);
  }
  return smoothed(u, e);  // sigmoid, sigmoid_norm, aot, aot_unpaired
}

/// Returns the score of a log-ratio.
double f_score(const Options& options, double x) {
  const std::string type = options.name("f_divergence_type", "reverse_kl");
  const double c = options.number("f_alpha_divergence_coef", 0.5);
  if (type == "forward_kl") return 1 - std::exp(-x);
  if (type == "js_divergence") return std::log(2.0) + log_sigmoid(x);
  if (type == "alpha_divergence" && c != 1) {
    return (std::exp(std::min(80.0, (c - 1) * x)) - 1) / (c - 1);
  }
  return x;
}

LossAndMetrics dpo_loss(const Case& of, const Rows& live, const Rows& held) {
  const Options& options = of.options;
  const std::string type = options.name("loss_type", "sigmoid");
  const std::optional<double> alpha = options.maybe("ld_alpha", std::nullopt);
  const bool averages = options.flag("preference_average_log_probs") || type == "sigmoid_norm" ||
                        (type == "ipo" && options.flag("ipo_average_log_probs", true));
  const auto log_ratio = [&](std::int64_t i, const auto& number) {
    const std::int64_t other = i % 2 == 0 ? i + 1 : i - 1;
    return over_sequence(of, i, [&](std::size_t k, int place) {
      return (alpha && place >= of.trained[other] ? *alpha : 1.0) * number(k);
    });
  };
  const auto policy = [&](std::size_t k) { return live[k].x; };
  const auto reference = [&](std::size_t k) { return of.tokens[k].reference; };
  const auto both = [&](std::size_t k) { return policy(k) - reference(k); };
  const auto divided = [&](std::int64_t i, double sum) {
    return averages ? sum / tokens_or_one(of, i) : sum;
  };
  const auto reward = [&](std::int64_t i) {
    return divided(i, f_score(options, log_ratio(i, both)));
  };
  const std::vector<std::int64_t> pairs = counted_pairs(of);
  const double count = of.valid_sequences() / 2;
  std::vector<double> first;  // sorted, for the types that pair numbers of the same rank
  std::vector<double> second;
  for (const std::int64_t i : pairs) {
    if (type == "aot") {
      const auto difference = [&](const auto& number) {
        return divided(i, log_ratio(i, number)) - divided(i + 1, log_ratio(i + 1, number));
      };
      first.push_back(difference(policy));
      second.push_back(difference(reference));
    } else {
      first.push_back(reward(i));
      second.push_back(reward(i + 1));
    }
  }
  LossAndMetrics out;
  Numbers& metrics = out.metrics;
  for (const char* name : {"accuracy", "rewards_chosen_mean", "rewards_rejected_mean"}) {
    metrics[name] = 0;
  }
  for (const std::int64_t i : pairs) {
    const double a = reward(i);
    const double b = reward(i + 1);
    *metrics["accuracy"] += (a > b ? 1 : 0) / count;
    *metrics["rewards_chosen_mean"] += a / count;
    *metrics["rewards_rejected_mean"] += b / count;
  }
  if (type == "aot" || type == "aot_unpaired") {
    std::sort(first.begin(), first.end());
    std::sort(second.begin(), second.end());
  }
  double preference = 0;
  double sft = 0;
  for (std::size_t j = 0; j < pairs.size(); ++j) {
    double weight = 1;
    if (options.flag("use_weighting")) {
      for (const std::int64_t i : {pairs[j], pairs[j] + 1}) {
        const double mean =
            over_sequence(
                of, i, [&](std::size_t k, int) { return held[k].x - std::log(held[k].sum_p2); }) /
            tokens_or_one(of, i);
        weight *= std::exp(mean);
      }
    }
    preference += weight * dpo_pair(options, type, first[j], second[j]) / count;
    sft += sft_of(of, live, pairs[j], options.flag("sft_average_log_probs")) / count;
  }
  out.loss = options.number("preference_loss_weight", 1) * preference +
             options.number("sft_loss_weight", 0) * sft;
  metrics["preference_loss"] = preference;
  metrics["sft_loss"] = options.number("sft_loss_weight", 0) == 0 ? 0 : sft;  // NeMo-RL
  metrics["num_valid_samples"] = count;
  return out;
}

std::vector<OptionCase> dpo_cases() {
  return {{"reference_policy_kl_penalty=0.4 preference_loss_weight=0.7 sft_loss_weight=0.3"},
          {"preference_average_log_probs=true sft_average_log_probs=true sft_loss_weight=0.5"},
          {"label_smoothing=0.2 reference_policy_kl_penalty=0.5",
           "temperature=0.7 sequence_temperatures=true"},
          {"loss_type=robust label_smoothing=0.2 reference_policy_kl_penalty=0.3"},
          {"loss_type=hinge reference_policy_kl_penalty=0.7"},
          {"loss_type=ipo reference_policy_kl_penalty=0.3 ipo_average_log_probs=false"},
          {"loss_type=ipo reference_policy_kl_penalty=0.3"},
          {"loss_type=exo_pair label_smoothing=0.1|0.3 reference_policy_kl_penalty=0.3"},
          {"loss_type=nca_pair reference_policy_kl_penalty=0.3"},
          {"loss_type=bco_pair reference_policy_kl_penalty=0.3"},
          {"loss_type=sppo_hard reference_policy_kl_penalty=0.3"},
          {"loss_type=apo_zero reference_policy_kl_penalty=0.3"},
          {"loss_type=apo_down reference_policy_kl_penalty=0.3"},
          {"loss_type=discopop discopop_tau=0.2 reference_policy_kl_penalty=0.3"},
          {"loss_type=sigmoid_norm label_smoothing=0.1 reference_policy_kl_penalty=0.6"},
          {"loss_type=aot label_smoothing=0.1 reference_policy_kl_penalty=0.3"},
          {"loss_type=aot_unpaired label_smoothing=0.3 reference_policy_kl_penalty=0.3"},
          {"ld_alpha=0.3 reference_policy_kl_penalty=0.3"},
          {"ld_alpha=0.6 preference_average_log_probs=true loss_type=hinge"},
          {"f_divergence_type=forward_kl reference_policy_kl_penalty=0.3"},
          {"f_divergence_type=js_divergence reference_policy_kl_penalty=0.6"},
          {"f_divergence_type=alpha_divergence f_alpha_divergence_coef=0.2"},
          {"use_weighting=true reference_policy_kl_penalty=0.3", "temperature=0.8"}};
}

const RegisteredPlainObjective plain_dpo{{"dpo", kBatchOfPairs, dpo_loss, dpo_cases()}};

}  // namespace
}  // namespace lossgrid::plain
