// SPDX-License-Identifier: Apache-2.0
// Explanations of the mistakes in wrong_losses.py: each mistake has its true cause and no false
// cause. docs/verification.md has the same table.
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "harness/core/text.h"
#include "python.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

struct Explained {
  std::string name;
  std::string cause;      // part of the explanation
  std::string also = {};  // part of another sentence about the same cause
};

/// Mistakes that show on the same case and grid.
struct Group {
  std::string case_text;
  std::string grid;
  std::vector<Explained> losses;
};

std::vector<Group> groups() {
  const std::string nll = "lens=5+8+6+9 vocab=96";
  return {
      {nll,
       "tp1cp1",
       {{"mean_of_all_rows", "valid_tokens/rows = 0.4643 would explain: divided by all rows"},
        {"gradient_over_rows", "1/rows = 0.03571 would explain: divided by the number of all rows"},
        {"backward_of_sum", "grad_logits is 13.000 x the truth, which valid_tokens = 13"},
        {"mean_of_sequence_means", "would be right with objective.token_level_loss=false"},
        {"masked_rows_in_sum", "loss and gradients would be right if masked rows took part"},
        {"labels_not_shifted", "if the label of a row were its own token: labels are not shifted"},
        {"gradient_of_chunk_means", "they are not those of the loss that is returned?"}}},
      {nll,
       "tp1cp2",
       {{"divided_by_cp_twice", "1/cp^2 = 0.25 would explain: divided by cp twice?"},
        {"loss_of_first_rank",
         "if the rows of cp rank 0 alone took part: a sum over cp ranks is missing?"}}},
      {"lens=5+8+6+9 vocab=6 mask=all",
       "tp1cp1",
       {{"id_0_is_padding", "if rows whose label is id 0 took no part"}}},
      {nll + " microbatches=2",
       "tp1cp1",
       {{"mean_of_microbatch_means", "as a mean over microbatches of the losses of each alone",
         "a mean over the own tokens of each?"}}},
      {"lens=9+14+2+7 mask=000000000+00000000000000+11+1111111 vocab=64",
       "tp1cp2:contiguous",
       {{"empty_rank_divides_by_0", "cp rank 0 of dp rank 0 in microbatch 0 has none: 0 / 0?"}}},
      {"lens=5+8+6+9 objective=value head=value microbatches=2",
       "tp1cp1",
       {{"value_of_own_tokens", "as a sum over microbatches of the losses of each alone",
         "a mean over the own tokens of each?"}}},
      {nll + " objective=orpo",
       "tp1cp1",
       {{"length_divides_twice",
         "if the SFT loss were divided by the length of its sequence twice"},
        {"mean_over_chosen_tokens",
         "if the SFT loss were a mean over all tokens of the chosen sequences"}}},
      {nll + " hidden=16 mask=all objective=clipped_pg",
       "tp1cp1",
       {{"first_upstream_for_all", "if the upstream gradient of a rank's first row were that of"}}},
      {nll + " hidden=16",
       "tp1cp1",
       {{"hidden_without_upstream", "grad_hidden is 13.000 x the truth, which valid_tokens = 13"}}},
      {nll + " objective=clipped_pg",
       "tp1cp1",
       {{"kl_gradient_of_value", "would be right with objective.kl_gradient=value (verl, TRL"},
        {"kl_detached", "with objective.reference_policy_kl_penalty=0: its term is detached?"}}},
      {nll + " logit_scale=0.25 logit_softcap=5 temperature=2",
       "tp1cp1",
       {{"without_logit_scale", "if logit_scale were 1: it is left out?"},
        {"without_softcap", "if there were no logit_softcap: it is left out?"}}},
      {nll + " temperature=2",
       "tp1cp1",
       {{"without_temperature", "if the temperature were 1: logits are not divided by it?"}}},
      {nll + " temperature=2 objective=distill objective.kl_type=forward",
       "tp1cp1",
       {{"times_temperature_squared", "temperature^2 = 4 would explain"},
        {"teacher_at_temperature_1",
         "if the temperature were 1: logits are not divided by it?, of "
         "the teacher alone"}}},
      {"lens=5+8+6+8 vocab=96 mask=all",
       "tp1cp2",
       {{"entropy_of_last_rows_lost",
         "if the entropy of these rows were never written, or masked away: 0?"}}},
      {nll,
       "tp2cp1",
       {{"entropy_of_own_shard",
         "if the sum of p ln p were that of the own vocabulary shard: its all-reduce over TP"}}},
      {"lens=5+8+6+9 vocab=95",
       "tp2cp1",
       {{"padding_columns_make_nan", "vocab_split=\"padded:-inf\""}}},
  };
}

class ExplainedLosses : public WithTorch {
 protected:
  /// Returns the explanation of every trial of a group.
  std::map<std::string, std::string> explanations_of(const Group& group) const {
    std::vector<std::string> names;
    for (const Explained& loss : group.losses) names.push_back(loss.name);
    const std::string report = scratch_.file("explained.json");
    const ProcessResult result =
        run_loaded("run", {LOSSGRID_SOURCE_DIR "/tests/external/wrong_losses.py"},
                   fmt::format("--impl {} --case '{}' --grid {} --report {}", join(names, ","),
                               group.case_text, group.grid, report));
    EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
    std::map<std::string, std::string> found;
    for (const nlohmann::ordered_json& trial : records_of(report, "trials")) {
      EXPECT_EQ(trial["status"], "failed") << trial["id"] << trial["reason"];
      std::string& all = found[trial["implementation"]];
      for (const std::string& sentence : trial.value("explanation", std::vector<std::string>())) {
        all += sentence + '\n';
      }
    }
    return found;
  }
};

/// Phrases of sentences that name a cause.
constexpr const char* kNamesCause[] = {"would explain", "would be right", "?"};

TEST_F(ExplainedLosses, HaveTheirTrueCauseAndNoOther) {
  for (const Group& group : groups()) {
    std::map<std::string, std::string> found = explanations_of(group);
    for (const Explained& loss : group.losses) {
      const std::string& explanation = found[loss.name];
      EXPECT_THAT(explanation, HasSubstr(loss.cause)) << loss.name;
      // All other sentences state numbers only.
      for (const std::string& sentence : split(explanation, '\n')) {
        const bool is_also = !loss.also.empty() && sentence.find(loss.also) != std::string::npos;
        if (is_also || sentence.find(loss.cause) != std::string::npos) continue;
        for (const char* phrase : kNamesCause) {
          EXPECT_EQ(sentence.find(phrase), std::string::npos) << loss.name << ": " << sentence;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lossgrid
