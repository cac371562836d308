// SPDX-License-Identifier: Apache-2.0
// Distillation from a teacher's logits: the mean over the valid tokens of the global batch of a
// divergence between the teacher's and the student's distribution (NeMo-RL `DistillationLossFn`;
// TRL's GKD trainer for the generalised Jensen-Shannon divergence). The divergences are defined in
// harness/problem/batch/row_terms.h. If a teacher sends only its top k ids, both distributions are
// renormalised over these ids. With zero_outside_topk the student's distribution covers the whole
// vocabulary, and ln q of the other ids is -100 where ln p is compared with it. With verl's
// loss_mode = "forward_kl_topk" neither distribution is renormalised, and both logarithms and the
// loss of a token are clamped. With TRL's distillation_add_tail all ids that were not sent form one
// more id.
#include <limits>
#include <map>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/loss/tape.h"
#include "harness/loss/terms_objective.h"
#include "impls/objectives/distill/distill_terms.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

struct DistillOptions {
  Divergence divergence;
  double least = -kUnbounded;  // bounds of the loss of a token
  double most = kUnbounded;

  bool is_bounded() const { return least > -kUnbounded || most < kUnbounded; }
};

ObjectiveNeeds distill_needs(const DistillOptions& options) {
  ObjectiveNeeds needs;
  needs.terms.divergence = options.divergence;
  return needs;
}

class DistillObjective final : public TermsObjective<DistillTerms> {
 public:
  explicit DistillObjective(const DistillOptions& options)
      : TermsObjective(distill_needs(options)), options_(options) {}

  std::string_view kind() const override { return "distill"; }
  bool linear() const override { return !options_.is_bounded(); }

  ObjectiveSizes sizes() const override {
    ObjectiveSizes sizes;
    sizes.sums = DistillTerms::kSums;
    return sizes;
  }

  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> /*sums*/,
                         SequenceTable<const double> /*coefficients*/,
                         ObjectiveTotals<const double> totals) const override {
    const double loss = totals.sums[0];
    return {loss,
            {{"loss", {Reduction::sum, loss, 1}},
             {"num_unmasked_tokens", {Reduction::count, totals.sums[1], 1}},
             {"num_valid_samples", {Reduction::count, valid_samples(batch), 1}}}};
  }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    Tape tape;
    std::vector<std::int64_t> row_of;
    std::vector<Var> divergences;
    std::vector<Var> losses;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      if (batch.sample_mask[i] == 0) continue;
      for (std::int64_t t = 1; t < batch.length(i); ++t) {  // the first token is never a target
        if (batch.token_mask[batch.cu_seqlens[i] + t] == 0) continue;
        row_of.push_back(batch.cu_seqlens_padded[i] + t - 1);
        divergences.push_back(tape.variable(rows[row_of.back()].terms[RowTerm::divergence]));
        losses.push_back(clamp(divergences.back(), options_.least, options_.most));
      }
    }
    const std::int64_t tokens = batch.denominators.valid_tokens;
    const Var loss = tokens > 0 ? sum(losses) / static_cast<double>(tokens) : Var(0.0);
    ObjectiveTruth truth;
    truth.loss = loss.enclosure();
    if (options_.is_bounded()) count_branches(divergences, truth.branches);
    truth.grad_logprob.assign(rows.size(), 0.0);
    truth.grad_terms[RowTerm::divergence].assign(rows.size(), 0.0);
    const std::vector<Enclosure> gradient = tape.gradient(loss, divergences);
    for (std::size_t k = 0; k < gradient.size(); ++k) {
      truth.grad_terms[RowTerm::divergence][row_of[k]] = gradient[k];
    }
    truth.metrics["loss"] = {Reduction::sum, truth.loss, 1};
    truth.metrics["num_unmasked_tokens"] = {Reduction::count, static_cast<double>(row_of.size()),
                                            1};
    truth.metrics["num_valid_samples"] = {Reduction::count, valid_samples(batch), 1};
    return truth;
  }

 private:
  DistillTerms terms(const PackedBatch& batch) const override {
    const std::int64_t tokens = batch.denominators.valid_tokens;
    return {tokens > 0 ? 1 / static_cast<double>(tokens) : 0.0, options_.least, options_.most};
  }

  void count_branches(std::span<const Var> divergences,
                      std::map<std::string, std::int64_t>& branches) const {
    branches["tokens"] += static_cast<std::int64_t>(divergences.size());
    for (const Var& divergence : divergences) {
      const double value = divergence.value();
      const bool is_below = value < options_.least;
      const bool is_above = value > options_.most;
      branches["divergence_negative"] += is_below ? 1 : 0;
      branches["divergence_above_max"] += is_above ? 1 : 0;
      branches["divergence_inside"] += !is_below && !is_above ? 1 : 0;
    }
  }

  static double valid_samples(const PackedBatch& batch) {
    double samples = 0;
    for (const std::uint8_t mask : batch.sample_mask) samples += mask;
    return samples;
  }

  const DistillOptions options_;
};

/// Replaces a mixed divergence in which one side has no weight by the divergence of the other side.
void leave_out_side_without_weight(Divergence& divergence) {
  if (divergence.kind != Divergence::Kind::mixed) return;
  if (divergence.beta == 1) divergence.kind = Divergence::Kind::forward;
  if (divergence.beta == 0) divergence.kind = Divergence::Kind::reverse;
}

/// Reads the divergences of NeMo-RL and TRL.
Divergence read_divergence(const OptionReader& reader) {
  Divergence divergence;
  constexpr Divergence::Kind kKinds[] = {Divergence::Kind::forward, Divergence::Kind::reverse,
                                         Divergence::Kind::mixed, Divergence::Kind::jsd};
  constexpr NumberRule kBetween0And1{"must be in (0, 1)", [](double x) { return x > 0 && x < 1; }};
  divergence.kind = kKinds[reader.index(
      "kl_type", 0, {"forward", "reverse", "mixed", "jsd"},
      {"`forward` KL(q, p), `reverse` KL(p, q), `mixed` w KL(q, p) + (1 - w) KL(p, q), `jsd` b "
       "KL(q, m) + (1 - b) KL(p, m) with m = b q + (1 - b) p",
       "NeMo-RL `kl_type`, TRL GKD"})];
  const double mixed_kl_weight =
      reader.number("mixed_kl_weight", divergence.beta,
                    {"w, in [0, 1]", "NeMo-RL `mixed_kl_weight`", kShare, {"0.2"}});
  const double jsd_beta = reader.number("jsd_beta", divergence.beta,
                                        {"b, in (0, 1)",
                                         "TRL `beta`, whose ends 0 and 1 are the two KLs",
                                         kBetween0And1,
                                         {"0.1", "0.9"}});
  divergence.beta = divergence.kind == Divergence::Kind::mixed ? mixed_kl_weight : jsd_beta;
  leave_out_side_without_weight(divergence);
  const bool zero_outside = reader.flag(
      "zero_outside_topk", {"for a teacher that sends its top k alone. false: renormalises p and q "
                            "over these ids; true: keeps p of the whole vocabulary, and compares "
                            "ln p with -100 at the other ids (not for jsd)",
                            "NeMo-RL `zero_outside_topk`"});
  if (zero_outside && divergence.kind == Divergence::Kind::jsd) {
    throw_bad_input("distill: zero_outside_topk = true needs another kl_type than \"jsd\"");
  }
  divergence.topk = zero_outside ? Divergence::Topk::zero_outside : Divergence::Topk::renormalized;
  return divergence;
}

/// Reads verl's divergence over the top k, of clamped logarithms; the loss of a token is at least
/// 0, as the two sides do not add up to 1.
void read_clamped(const OptionReader& reader, DistillOptions& options) {
  Divergence& divergence = options.divergence;
  const bool is_changed = divergence.kind != Divergence::Kind::forward ||
                          divergence.topk != Divergence::Topk::renormalized;
  if (is_changed && !reader.documents()) {
    throw_bad_input(
        "distill: loss_mode = \"forward_kl_topk\" allows no other kl_type than \"forward\", and no "
        "zero_outside_topk = true");
  }
  divergence.topk = Divergence::Topk::clamped;
  divergence.log_prob_min = reader
                                .optional_number("log_prob_min_clamp", -10,
                                                 {"least logarithm of `forward_kl_topk`; null: no "
                                                  "bound. A clamped logarithm has no gradient",
                                                  "verl",
                                                  kBelow0,
                                                  {"-3.0", "-1.0"}})
                                .value_or(-kUnbounded);
  options.least = 0;
  options.most =
      reader
          .optional_number("loss_max_clamp", 10,
                           {"largest loss of a token of `forward_kl_topk`; null: no bound",
                            "verl",
                            kAbove0,
                            {"0.1", "1.5"}})
          .value_or(kUnbounded);
}

/// Reads TRL's option of a tail that stands for the ids that a teacher has not sent.
void read_tail(const OptionReader& reader, Divergence& divergence) {
  const bool adds =
      reader.flag("distillation_add_tail",
                  {"true: p and q are not renormalised. All ids that the teacher has not sent are "
                   "together one more id of p and q, with a probability of at least 1e-7",
                   "TRL `distillation_add_tail`, with the teacher's top k"});
  if (!adds) return;
  if (!divergence.on_support()) {
    throw_bad_input(
        "distill: distillation_add_tail = true allows no zero_outside_topk = true, and no "
        "loss_mode");
  }
  divergence.topk = Divergence::Topk::tail;
}

DistillOptions read_distill(const OptionReader& reader) {
  DistillOptions options;
  options.divergence = read_divergence(reader);
  const std::optional<std::size_t> mode =
      reader.optional_index("loss_mode", {"forward_kl_topk"},
                            {"`forward_kl_topk`: sum over the top k of q (ln q - ln p) by clamped "
                             "logarithms, not renormalised; a token's loss is at least 0",
                             "verl distillation `forward_kl_topk`"});
  if (mode || reader.documents()) read_clamped(reader, options);
  read_tail(reader, options.divergence);
  return options;
}

const Registered registered_distill{objective_entry(
    "distill", "divergence from a teacher's logits: forward, reverse or mixed KL, generalised JSD",
    read_distill,
    [](const DistillOptions& options) { return std::make_unique<DistillObjective>(options); })};

}  // namespace
}  // namespace lossgrid
