// SPDX-License-Identifier: Apache-2.0
// `distill`, plainly from docs/objectives.md ("distill", "Inputs from a teacher") and from TRL,
// NeMo-RL and verl.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {
namespace {

/// Returns sum a (ln a - ln b).
double kl_of(const std::vector<double>& log_a, const std::vector<double>& log_b) {
  double sum = 0;
  for (std::size_t v = 0; v < log_a.size(); ++v) {
    if (log_a[v] > -kInf) sum += std::exp(log_a[v]) * (log_a[v] - log_b[v]);
  }
  return sum;
}

/// Returns the divergence of the student's logarithms of probabilities from the teacher's, over the
/// same ids.
double divergence_of(const Options& options, const std::vector<double>& log_p,
                     const std::vector<double>& log_q) {
  const std::string type = options.name("kl_type", "forward");
  if (type == "forward") return kl_of(log_q, log_p);
  if (type == "reverse") return kl_of(log_p, log_q);
  if (type == "mixed") {
    const double w = options.number("mixed_kl_weight", 0.5);
    return w * kl_of(log_q, log_p) + (1 - w) * kl_of(log_p, log_q);
  }
  const double b = options.number("jsd_beta", 0.5);
  std::vector<double> log_m;
  for (std::size_t v = 0; v < log_p.size(); ++v) {
    log_m.push_back(std::log(b * std::exp(log_q[v]) + (1 - b) * std::exp(log_p[v])));
  }
  return b * kl_of(log_q, log_m) + (1 - b) * kl_of(log_p, log_m);
}

/// Returns the logarithms of the probabilities of the chosen ids and of all others together, at
/// least 1e-7.
std::vector<double> with_tail(const std::vector<double>& logs, const std::vector<bool>& chosen) {
  std::vector<double> out;
  double inside = 0;
  for (std::size_t v = 0; v < logs.size(); ++v) {
    if (!chosen[v]) continue;
    out.push_back(logs[v]);
    inside += std::exp(logs[v]);
  }
  out.push_back(std::log(std::max(1e-7, 1 - inside)));
  return out;
}

/// Returns the divergence of a row. `z`: the student's logits; `teacher`: the teacher's, as given.
double row_divergence(const Case& of, const Token& token, const std::vector<double>& z,
                      const std::vector<double>& teacher) {
  const Options& options = of.options;
  std::vector<bool> sent;  // by the teacher
  for (const double logit : teacher) sent.push_back(logit > -kInf);
  const std::vector<bool> all(z.size(), true);
  const std::vector<double> log_p = log_softmax(z, all);
  if (options.name("loss_mode", "null") == "forward_kl_topk") {
    const std::optional<double> least = options.maybe("log_prob_min_clamp", -10.0);
    const auto clamped = [&](double log) { return least ? std::max(*least, log) : log; };
    double sum = 0;
    for (std::size_t v = 0; v < z.size(); ++v) {
      if (!sent[v]) continue;
      sum += std::exp(clamped(teacher[v])) * (clamped(teacher[v]) - clamped(log_p[v]));
    }
    const double positive = std::max(0.0, sum);
    const std::optional<double> most = options.maybe("loss_max_clamp", 10.0);
    return most ? std::min(*most, positive) : positive;
  }
  if (options.flag("distillation_add_tail")) {
    return divergence_of(options, with_tail(log_p, sent), with_tail(teacher, sent));
  }
  std::vector<double> divided;
  for (const double logit : teacher) divided.push_back(logit / divisor(of, token));
  const std::vector<double> log_q = log_softmax(divided, sent);
  if (options.flag("zero_outside_topk")) {  // q is 0 at the other ids, and ln q stands as -100
    double forward = 0;
    double reverse = 0;
    for (std::size_t v = 0; v < z.size(); ++v) {
      if (sent[v]) forward += std::exp(log_q[v]) * (log_q[v] - log_p[v]);
      reverse += std::exp(log_p[v]) * (log_p[v] - (sent[v] ? log_q[v] : -100));
    }
    const std::string type = options.name("kl_type", "forward");
    if (type == "forward") return forward;
    if (type == "reverse") return reverse;
    const double w = options.number("mixed_kl_weight", 0.5);
    return w * forward + (1 - w) * reverse;
  }
  const std::vector<double> renormalised = log_softmax(z, sent);
  std::vector<double> p_of_ids;
  std::vector<double> q_of_ids;
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (!sent[v]) continue;
    p_of_ids.push_back(renormalised[v]);
    q_of_ids.push_back(log_q[v]);
  }
  return divergence_of(options, p_of_ids, q_of_ids);
}

LossAndMetrics distill_loss(const Case& of, const Rows& live, const Rows& /*held*/) {
  return {*token_mean(of, [&](std::size_t k) { return live[k].divergence; })};
}

std::vector<OptionCase> distill_cases() {
  return {
      {"kl_type=forward|reverse", "sequence_temperatures=true temperature=0.8"},
      {"kl_type=reverse", "teacher_topk=3 logit_softcap=3 logit_scale=2"},
      {"kl_type=mixed mixed_kl_weight=0.3", "temperature=1.3 logit_scale=0.6"},
      {"kl_type=jsd jsd_beta=0.2", "sequence_temperatures=true"},
      {"kl_type=jsd jsd_beta=0.8", "teacher_topk=4"},
      {"zero_outside_topk=true", "teacher_topk=4"},
      {"zero_outside_topk=true kl_type=reverse", "teacher_topk=4 temperature=0.8"},
      {"zero_outside_topk=true kl_type=mixed mixed_kl_weight=0.7", "teacher_topk=2"},
      {"loss_mode=forward_kl_topk log_prob_min_clamp=-1.5 loss_max_clamp=0.2", "teacher_topk=3"},
      {"loss_mode=forward_kl_topk log_prob_min_clamp=null|-1 loss_max_clamp=null|0.3",
       "teacher_topk=4 temperature=0.6"},
      {"distillation_add_tail=true kl_type=reverse", "teacher_topk=3"},
      {"distillation_add_tail=true kl_type=jsd jsd_beta=0.3", "teacher_topk=2"}};
}

const RegisteredPlainObjective plain_distill{
    {"distill", "lens=6+4+7+1+0+5 sample_mask=110111 vocab=6 mask=ragged", distill_loss,
     distill_cases(), row_divergence}};

}  // namespace
}  // namespace lossgrid::plain
