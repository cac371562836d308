// SPDX-License-Identifier: Apache-2.0
// takes=: a function gets row terms of the objective and transforms of the logits only if it
// declares that it makes them itself.
#include <map>

#include <gmock/gmock.h>

#include "python.h"
#include "trials_by_implementation.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

const std::string kLosses = R"(
def transformed(logits, batch):
    x = logits.float() * batch.logit_scale
    if batch.logit_softcap:
        x = batch.logit_softcap * torch.tanh(x / batch.logit_softcap)
    return x / batch.temperature


def mean_loss(logits, batch):
    options = batch.objective
    log_p = torch.log_softmax(logits, -1)
    e = options["label_smoothing"]
    lp = log_p.gather(1, batch.labels[:, None])[:, 0]
    weight = lp.detach().exp() if options["loss_type"] == "dft" else 1
    loss = -(1 - e) * weight * lp - e * log_p.mean(1)
    loss = loss + options["z_loss_coefficient"] * torch.logsumexp(logits, -1) ** 2
    loss = torch.where(batch.mask, loss, torch.zeros_like(loss))
    return loss.sum() / max(batch.denominators.valid_tokens, 1)


@lossgrid.implementation(returns="loss", takes=("terms", "transforms"))
def takes_all(logits, batch):
    return mean_loss(transformed(logits, batch), batch)


@lossgrid.implementation(returns="loss", takes=("terms", "transforms"))
def forgets_the_cap(logits, batch):
    return mean_loss(logits.float() * batch.logit_scale / batch.temperature, batch)


@lossgrid.implementation(returns="loss", takes="terms")
def takes_terms(logits, batch):
    return mean_loss(logits.float(), batch)


@lossgrid.implementation(returns="loss")
def takes_nothing(logits, batch):
    return mean_loss(logits.float(), batch)
)";

const std::string kLayouts = R"(
def logprobs(logits, ids):
    return torch.log_softmax(logits.float(), -1).gather(1, ids[:, None])[:, 0]


@lossgrid.implementation(takes="layouts")
def takes_layouts(logits, batch):
    return logprobs(logits, batch.labels)


@lossgrid.implementation(rows="pack", takes="layouts")
def gathers(logits, batch):
    return batch.join_cp(logprobs(logits, batch.labels))


@lossgrid.implementation(takes="layouts")
def rolls_after_the_split(logits, batch):
    return logprobs(logits, batch.split_cp(batch.ids_padded).roll(-1))


@lossgrid.implementation()
def takes_zigzag(logits, batch):
    return logprobs(logits, batch.labels)
)";

using ExternalTakes = WithTorch;

TEST_F(ExternalTakes, GivesOtherLayoutsToThoseThatTakeThem) {
  const std::string report = scratch_.file("layouts.json");
  const ProcessResult result =
      run_loaded("run", {write_python("layouts.py", kLayouts)},
                 "--case 'lens=5+8+1+3 vocab=24 mask=all' --grid tp1cp2,tp1cp2:contiguous,"
                 "tp1cp3:ulysses,tp1cp2:zigzag_row,tp1cp2:contiguous_sequence "
                 "--impl takes_layouts,gathers,rolls_after_the_split,takes_zigzag --report " +
                     report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  auto trials = trials_by_implementation(report);
  EXPECT_EQ(trials["takes_layouts"].statuses, "ppppp") << result.out;
  EXPECT_EQ(trials["gathers"].statuses, "ppppp") << result.out;
  EXPECT_EQ(trials["rolls_after_the_split"].statuses, "fffff") << result.out;
  EXPECT_EQ(trials["takes_zigzag"].statuses, "pssss") << result.out;
  EXPECT_THAT(trials["takes_zigzag"].reasons, HasSubstr("takes=\"layouts\""));
}

TEST_F(ExternalTakes, DecidesWhichCasesAFunctionIsGiven) {
  const std::string report = scratch_.file("takes.json");
  const ProcessResult result =
      run_loaded("run", {write_python("losses.py", kLosses)},
                 "--case 'lens=5+8 vocab=24 mask=all poison=none objective.label_smoothing=[0,0.1] "
                 "objective.z_loss_coefficient=0 logit_softcap=[0,2]' --grid tp1cp1 "
                 "--impl takes_all,forgets_the_cap,takes_terms,takes_nothing --report " +
                     report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  auto trials = trials_by_implementation(report);  // by smoothing and cap, each off and on
  EXPECT_EQ(trials["takes_all"].statuses, "pppp");
  EXPECT_EQ(trials["forgets_the_cap"].statuses, "pfpf");
  EXPECT_EQ(trials["takes_terms"].statuses, "psps");
  EXPECT_EQ(trials["takes_nothing"].statuses, "psss");
  EXPECT_THAT(trials["takes_terms"].reasons, HasSubstr("takes=\"transforms\""));
}

TEST_F(ExternalTakes, GivesWeightsByProbabilityToThoseThatTakeTerms) {
  const std::string report = scratch_.file("dft.json");
  const ProcessResult result =
      run_loaded("run", {write_python("losses.py", kLosses)},
                 "--case 'lens=5+8 vocab=24 mask=all poison=none objective.loss_type=[nll,dft]' "
                 "--grid tp1cp1 --impl takes_terms,takes_nothing --report " +
                     report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  auto trials = trials_by_implementation(report);  // for nll and dft
  EXPECT_EQ(trials["takes_terms"].statuses, "pp");
  EXPECT_EQ(trials["takes_nothing"].statuses, "ps");
  EXPECT_THAT(trials["takes_nothing"].reasons, HasSubstr("takes=\"terms\""));
}

// The losses need sums of squared probabilities, and entropies.
TEST_F(ExternalTakes, GivesNoLossOfNumbersThatAreNotReturned) {
  const std::string report = scratch_.file("numbers.json");
  const ProcessResult result = run_loaded(
      "run", {write_python("numbers.py", kLosses + kLayouts), kExamples + "entropy.py"},
      "--case 'lens=9+14+2+7 vocab=24 objective=dpo objective.use_weighting=[false,true]' "
      "--case 'lens=9+14 vocab=24 objective=clipped_pg objective.entropy_coefficient=0.05' "
      "--case 'lens=9+14 vocab=24 objective=clipped_pg objective.top_entropy_quantile=0.5' "
      "--case 'lens=9+14 vocab=24 objective.label_smoothing=0.1 predictions=true' "
      "--case 'lens=9+14 vocab=24 predictions=true' "
      "--case 'lens=9+14 vocab=24 objective=distill' "
      "--grid tp1cp1 --impl takes_zigzag,entropy,takes_nothing --report " +
          report);
  auto trials = trials_by_implementation(report);
  EXPECT_EQ(trials["takes_zigzag"].statuses, "pssssps") << result.out;
  EXPECT_EQ(trials["entropy"].statuses, "psppsps") << result.out;
  EXPECT_THAT(trials["takes_zigzag"].reasons,
              HasSubstr("the loss depends on sum_p2 of a row, which is not returned: "
                        "returns=\"loss\" and takes=\"terms\"; the loss depends on the entropy of "
                        "a row: returns=(\"logprobs\", \"entropy\"), or "));
  EXPECT_THAT(trials["takes_zigzag"].reasons, HasSubstr("depends on mean_logprob of a row"));
  EXPECT_THAT(trials["entropy"].reasons, HasSubstr("depends on sum_p2 of a row"));
  EXPECT_THAT(trials["entropy"].reasons, HasSubstr("takes=\"teacher\""));
  EXPECT_THAT(trials["takes_nothing"].reasons,
              HasSubstr("depends on entropy of a row: takes=\"terms\""));
}

// Lots are drawn by a rule of lossgrid, which needs log-probabilities.
TEST_F(ExternalTakes, GivesLotsToThoseThatReturnLogProbabilities) {
  const std::string report = scratch_.file("lots.json");
  const ProcessResult result =
      run_loaded("run", {write_python("lots.py", kLosses + kLayouts)},
                 "--case 'lens=5+8 vocab=24 mask=all poison=none objective=clipped_pg "
                 "objective.policy_loss=clip_cov objective.clip_cov_lb=0.01' --grid tp1cp1,tp1cp2 "
                 "--impl takes_terms,takes_zigzag --report " +
                     report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  auto trials = trials_by_implementation(report);
  EXPECT_EQ(trials["takes_terms"].statuses, "ss");
  EXPECT_THAT(trials["takes_terms"].reasons, HasSubstr("returns=\"logprobs\""));
  EXPECT_EQ(trials["takes_zigzag"].statuses, "pp") << result.out;
}

const std::string kFiltered = R"(
def masked_lp(logits, batch, zero=True, ids=True):
    x = logits.float() / batch.temperature
    if ids:
        x = x.masked_fill(~batch.sampling_mask, float("-inf"))
    kept = batch.sampling_mask.gather(1, batch.labels[:, None])[:, 0]
    lp = torch.log_softmax(x, -1).gather(1, batch.labels[:, None])[:, 0]
    return torch.where(kept, lp, torch.zeros_like(lp)) if zero else lp


@lossgrid.implementation(takes=("transforms", "sampling_mask"))
def filters(logits, batch):
    return masked_lp(logits, batch, batch.filtered_targets == "zero")


@lossgrid.implementation(takes=("transforms", "sampling_mask"))
def over_the_vocabulary(logits, batch):
    return masked_lp(logits, batch, batch.filtered_targets == "zero", ids=False)


@lossgrid.implementation(takes="transforms")
def takes_no_mask(logits, batch):
    return torch.log_softmax(logits.float(), -1).gather(1, batch.labels[:, None])[:, 0]
)";

TEST_F(ExternalTakes, GivesASamplingMaskToThoseThatTakeIt) {
  const std::string report = scratch_.file("filtered.json");
  const ProcessResult result =
      run_loaded("run", {write_python("filtered.py", kFiltered)},
                 "--case 'lens=9+14 vocab=24 mask=all temperature=0.7 top_k=5 statistics=false "
                 "filtered_targets=[drop,zero]' --grid tp1cp1 "
                 "--impl filters,over_the_vocabulary,takes_no_mask --report " +
                     report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  auto trials = trials_by_implementation(report);  // by treatment of filtered targets
  EXPECT_EQ(trials["filters"].statuses, "pp") << result.out;
  EXPECT_EQ(trials["over_the_vocabulary"].statuses, "ff") << result.out;
  EXPECT_EQ(trials["takes_no_mask"].statuses, "ss");
  EXPECT_THAT(trials["takes_no_mask"].reasons, HasSubstr("takes=\"sampling_mask\""));
}

const std::string kQuotients = R"(
def quotient(logits, batch, factor=1.0):
    temperature = torch.tensor(batch.temperature * factor, dtype=logits.dtype)
    x = (logits / temperature).float()
    return torch.log_softmax(x, -1).gather(1, batch.labels[:, None])[:, 0]


@lossgrid.implementation(takes="transforms", rounds=("temperature", "quotient"))
def declared(logits, batch):
    return quotient(logits, batch)


@lossgrid.implementation(takes="transforms")
def nothing_declared(logits, batch):
    return quotient(logits, batch)


@lossgrid.implementation(takes="transforms", rounds=("temperature", "quotient"))
def another_temperature(logits, batch):
    return quotient(logits, batch, 1.02)
)";

/// 0.7 is 0.69921875 in bf16, off by 0.1 %, and a quotient by up to 0.2 %.
TEST_F(ExternalTakes, RoundingsOfTheQuotientHaveToBeDeclared) {
  const std::string report = scratch_.file("quotients.json");
  const ProcessResult result = run_loaded(
      "run", {write_python("quotients.py", kQuotients)},
      "--case 'lens=9+14 vocab=24 mask=all poison=none dtype=bf16 temperature=0.7 scale=4 "
      "statistics=false' --grid tp1cp1 --impl declared,nothing_declared,another_temperature"
      " --report " +
          report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  std::map<std::string, std::string> statuses;
  for (const ordered_json& trial : records_of(report, "trials")) {
    statuses[trial["implementation"]] = trial["status"];
  }
  EXPECT_EQ(statuses["declared"], "passed") << result.out;
  EXPECT_EQ(statuses["nothing_declared"], "failed");
  EXPECT_EQ(statuses["another_temperature"], "failed");
}

const std::string kHeads = R"(
import torch.nn.functional as F


def logprobs(hidden, weight, bias, batch, temperature=True):
    if batch.weight_layout == "hidden_vocab":
        weight = weight.t()
    x = F.linear(hidden.float(), weight.float(), bias)
    x = x / batch.temperature if temperature else x
    return torch.log_softmax(x, -1).gather(1, batch.labels[:, None])[:, 0]


@lossgrid.implementation(inputs="hidden", rounds="grad_weight", takes="bias")
def takes_bias(hidden, weight, batch):
    bias = None if batch.bias is None else batch.bias.float()
    return logprobs(hidden, weight, bias, batch)


@lossgrid.implementation(inputs="hidden", rounds="grad_weight")
def takes_none(hidden, weight, batch):
    assert batch.bias is None
    return logprobs(hidden, weight, None, batch)


@lossgrid.implementation(inputs="hidden", rounds="grad_weight", takes="bias")
def half_gradient(hidden, weight, batch):
    if batch.bias is None:
        return logprobs(hidden, weight, None, batch)
    bias = batch.bias.float()
    return logprobs(hidden, weight, (bias + bias.detach()) / 2, batch)


@lossgrid.implementation(inputs="hidden", rounds="grad_weight", takes="bias")
def ignores_bias(hidden, weight, batch):
    return logprobs(hidden, weight, None, batch)
)";

TEST_F(ExternalTakes, GivesABiasOfTheLmHeadToThoseThatTakeIt) {
  const std::string report = scratch_.file("heads.json");
  const ProcessResult result = run_loaded(
      "run", {write_python("heads.py", kHeads)},
      "--case 'lens=9+14 vocab=23 hidden=8 mask=all poison=none temperature=0.7 dtype=[f32,bf16] "
      "lm_head_bias=[false,true]' --grid tp1cp2 "
      "--impl takes_bias,takes_none,half_gradient --report " +
          report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  auto trials = trials_by_implementation(report);
  EXPECT_EQ(trials["takes_bias"].statuses, "pppp") << trials["takes_bias"].reasons;
  EXPECT_EQ(trials["takes_none"].statuses, "psps") << trials["takes_none"].reasons;
  EXPECT_EQ(trials["half_gradient"].statuses, "pfpf");
  EXPECT_THAT(trials["takes_none"].reasons, HasSubstr("takes=\"bias\""));
  EXPECT_THAT(trials["half_gradient"].reasons, HasSubstr("grad_bias"));
}

TEST_F(ExternalTakes, ABiasThatIsNotReadIsAMistake) {
  const ProcessResult result =
      run_loaded("run", {write_python("heads.py", kHeads)},
                 "--case 'lens=9 vocab=23 hidden=8 mask=all lm_head_bias=true' --grid tp1cp1 "
                 "--impl ignores_bias");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("does not depend on bias"));
}

TEST_F(ExternalTakes, NamesWhatThereIs) {
  const std::string wrong = R"(
@lossgrid.implementation(takes="teachers")
def wrong(logits, batch):
    return right(logits, batch)
)";
  const ProcessResult result = run_loaded("run", {write_python("wrong.py", wrong)},
                                          "--case 'lens=5' --impl wrong --grid tp1cp1");
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.err, HasSubstr("takes='teachers' names something else than 'terms', "
                                    "'transforms', 'sequence_temperatures', 'teacher', "
                                    "'teacher_hidden', 'bias', 'layouts', 'sampling_mask'"));
}

TEST_F(ExternalTakes, TemperaturesBySequenceComeWithTransforms) {
  const std::string wrong = R"(
@lossgrid.implementation(takes="sequence_temperatures")
def wrong(logits, batch):
    return right(logits, batch)
)";
  const ProcessResult result = run_loaded("run", {write_python("wrong.py", wrong)},
                                          "--case 'lens=5' --impl wrong --grid tp1cp1");
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.err, HasSubstr("takes='sequence_temperatures' has no meaning without "
                                    "'transforms'"));
}

}  // namespace
}  // namespace lossgrid
