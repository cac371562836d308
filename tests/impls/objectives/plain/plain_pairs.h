// SPDX-License-Identifier: Apache-2.0
// Losses of preference pairs and of examples, plainly from docs/objectives.md ("Losses of a pair",
// "Objectives of pairs") and TRL: sequences 2 j are chosen, 2 j + 1 rejected.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "plain_case.h"
#include "plain_losses.h"

namespace lossgrid::plain {

inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
inline double log_sigmoid(double x) {
  return x > 0 ? -std::log1p(std::exp(-x)) : x - std::log1p(std::exp(x));
}
inline double smoothed(double u, double e) {
  return -(1 - e) * log_sigmoid(u) - e * log_sigmoid(-u);
}

struct PairLoss {
  double loss = 0;
  Numbers metrics;
};

/// Returns the sum over the valid tokens of sequence i of f(token, its place among them).
template <class F>
double over_sequence(const Case& of, std::int64_t i, const F& f) {
  double sum = 0;
  int place = 0;
  for (std::size_t k = 0; k < of.tokens.size(); ++k) {
    if (of.tokens[k].sequence == i) sum += f(k, place++);
  }
  return sum;
}

inline double tokens_or_one(const Case& of, std::int64_t i) {
  return std::max(1.0, of.trained[i]);
}

/// Returns the pairs that count, by their first sequence, and the number that means divide by.
inline std::vector<std::int64_t> counted_pairs(const Case& of) {
  std::vector<std::int64_t> pairs;
  for (std::int64_t i = 0; i + 1 < of.sequences; i += 2) {
    if (of.problem.sample_mask[i] == 1 && of.problem.sample_mask[i + 1] == 1) pairs.push_back(i);
  }
  return pairs;
}

/// Returns the negative log-likelihood of a sequence, by token or as a sum.
inline double sft_of(const Case& of, const Rows& live, std::int64_t i, bool by_token) {
  const double sum = -over_sequence(of, i, [&](std::size_t k, int) { return live[k].x; });
  return by_token ? sum / tokens_or_one(of, i) : sum;
}

inline double dpo_pair(const Options& options, const std::string& type, double a, double b) {
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
inline double f_score(const Options& options, double x) {
  const std::string type = options.name("f_divergence_type", "reverse_kl");
  const double c = options.number("f_alpha_divergence_coef", 0.5);
  if (type == "forward_kl") return 1 - std::exp(-x);
  if (type == "js_divergence") return std::log(2.0) + log_sigmoid(x);
  if (type == "alpha_divergence" && c != 1) {
    return (std::exp(std::min(80.0, (c - 1) * x)) - 1) / (c - 1);
  }
  return x;
}

inline PairLoss dpo_loss(const Case& of, const Rows& live, const Rows& held) {
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
  PairLoss out;
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

inline PairLoss cpo_loss(const Case& of, const Rows& live) {
  const Options& options = of.options;
  const std::string type = options.name("loss_type", "sigmoid");
  const double beta = options.number("beta", 0.1);
  const double alpha = options.number("alpha", 0);
  const double e = options.number("label_smoothing", 0);
  const bool means = type == "simpo" || type == "ipo";
  const auto reward = [&](std::int64_t i) {
    const double x = -sft_of(of, live, i, means);
    return alpha > 0 ? (1 - std::exp(-alpha * x)) / alpha : x;
  };
  PairLoss out;
  double preference = 0;
  double sft = 0;
  const double count = of.valid_sequences() / 2;
  for (const std::int64_t i : counted_pairs(of)) {
    const double difference = reward(i) - reward(i + 1);
    const double u = beta * difference - (type == "simpo" ? options.number("simpo_gamma", 0.5) : 0);
    const double loss = type == "hinge" ? std::max(0.0, 1 - u)
                        : type == "ipo" ? std::pow(difference - 1 / (2 * beta), 2)
                                        : smoothed(u, e);
    preference += loss / count;
    sft += sft_of(of, live, i, options.flag("sft_average_log_probs", true)) / count;
  }
  out.loss = preference + options.number("cpo_alpha", 1) * sft;
  out.metrics["preference_loss"] = preference;
  out.metrics["sft_loss"] = sft;
  return out;
}

inline PairLoss orpo_loss(const Case& of, const Rows& live) {
  const Options& options = of.options;
  const auto log_odds = [&](std::int64_t i) {
    const double mean = -sft_of(of, live, i, true);
    return mean - std::log(1 - std::exp(mean));
  };
  PairLoss out;
  double preference = 0;
  double sft = 0;
  const double count = of.valid_sequences() / 2;
  for (const std::int64_t i : counted_pairs(of)) {
    preference += -log_sigmoid(log_odds(i) - log_odds(i + 1)) / count;
    sft += sft_of(of, live, i, options.flag("sft_average_log_probs", true)) / count;
  }
  out.loss = options.number("beta", 0.1) * preference + sft;
  out.metrics["sft_loss"] = sft;
  return out;
}

inline PairLoss kto_loss(const Case& of, const Rows& live, const Rows& held) {
  const Options& options = of.options;
  const double beta = options.number("beta", 0.1);
  const auto log_ratio = [&](const Rows& rows, std::int64_t i) {
    return over_sequence(of, i,
                         [&](std::size_t k, int) { return rows[k].x - of.tokens[k].reference; });
  };
  const double count = of.valid_sequences() / 2;
  double z0 = 0;
  for (const std::int64_t i : counted_pairs(of)) z0 += log_ratio(held, i + 1) / count;
  z0 = options.name("loss_type", "kto") == "kto" ? std::max(0.0, z0) : 0;
  PairLoss out;
  for (const std::int64_t i : counted_pairs(of)) {
    const double x = log_ratio(live, i);
    out.loss +=
        (of.reward(i) > 0 ? options.number("desirable_weight", 1) * sigmoid(-beta * (x - z0))
                          : options.number("undesirable_weight", 1) * sigmoid(beta * (x - z0))) /
        count;
  }
  out.metrics["kl"] = z0;
  return out;
}

inline PairLoss bradley_terry_loss(const Case& of, const Rows& live) {
  const double k = of.options.maybe("center_rewards_coefficient", std::nullopt).value_or(0);
  const auto score = [&](std::int64_t i) {
    return over_sequence(of, i, [&](std::size_t at, int) { return live[at].value; });
  };
  PairLoss out;
  std::vector<std::pair<double, double>> pairs;
  for (const std::int64_t i : counted_pairs(of)) {
    if (of.trained[i] == 0 || of.trained[i + 1] == 0) continue;
    const double margin = of.options.flag("margin") ? of.reward(i) - of.reward(i + 1) : 0;
    pairs.emplace_back(score(i), score(i + 1));
    const auto& [c, r] = pairs.back();
    out.loss += -log_sigmoid(c - r - margin) + k * (c + r) * (c + r);
  }
  const auto count = static_cast<double>(pairs.size());
  out.loss /= count;
  Numbers& metrics = out.metrics;
  for (const char* name :
       {"accuracy", "rewards_chosen_mean", "rewards_rejected_mean", "mean_reward"}) {
    metrics[name] = 0;
  }
  for (const auto& [c, r] : pairs) {
    *metrics["accuracy"] += (c > r ? 1 : 0) / count;
    *metrics["rewards_chosen_mean"] += c / count;
    *metrics["rewards_rejected_mean"] += r / count;
    *metrics["mean_reward"] += (c + r) / (2 * count);
    metrics["min_reward"] = std::min({metrics["min_reward"].value_or(c), c, r});
    metrics["max_reward"] = std::max({metrics["max_reward"].value_or(c), c, r});
  }
  return out;
}

}  // namespace lossgrid::plain
