// SPDX-License-Identifier: Apache-2.0
// Returned entropies: lossgrid makes losses from them, so that their backward decides like the
// backward of log-probabilities, under every convention. A run without such a loss names the
// gradient that it did not compare.
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "python.h"
#include "trials_by_implementation.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

// One function under every convention of returned values.
const std::string kConventions = R"(
from entropy import LogprobAndEntropy


def pair(logits, batch):
    return LogprobAndEntropy.apply(logits, batch.labels, batch.vocab_start, batch.tp.group)


def gathered(logits, batch):
    return tuple(batch.join_cp(one) for one in pair(logits, batch))


BOTH = ("logprobs", "entropy")


@lossgrid.implementation(returns=("nll", "entropy"))
def negated(logits, batch):
    lp, entropy = pair(logits, batch)
    return {"entropy": entropy, "nll": -lp}


@lossgrid.implementation(returns=BOTH, rows="pack")
def pack(logits, batch):
    return gathered(logits, batch)


class AddsUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g, group=ctx.group)
        return g, None


@lossgrid.implementation(returns=BOTH, rows="pack", gradient="summed_over_cp")
def pack_summed(logits, batch):
    return tuple(AddsUp.apply(one, batch.cp.group) for one in gathered(logits, batch))


@lossgrid.implementation(returns=BOTH, rows="padded")
def padded(logits, batch):
    return tuple(batch.rows_to_padded(one)[:, :-1] for one in gathered(logits, batch))


@lossgrid.implementation(returns=BOTH, scale="dp*n_mb")
def scaled(logits, batch):
    factor = batch.dp.size * batch.microbatches
    return tuple(factor * one + (1 - factor) * one.detach() for one in pair(logits, batch))


@lossgrid.implementation(returns=BOTH, vocab_split="equal")
def equal_split(logits, batch):
    return pair(logits, batch)


@lossgrid.implementation(returns=BOTH, vocab_split="padded:-1e30", autograd="nonleaf")
def padding_of_1e30(logits, batch):
    return pair(logits, batch)


@lossgrid.implementation(returns=BOTH, autograd="own")
def own_backward(logits, batch):
    leaf = logits.detach().requires_grad_()
    with torch.enable_grad():
        outputs = pair(leaf, batch)

    def backward(of_logprobs, of_entropy):
        return torch.autograd.grad(outputs, leaf, (of_logprobs, of_entropy))[0]

    return tuple(one.detach() for one in outputs), backward


@lossgrid.implementation(returns=BOTH, inputs="hidden", rounds="grad_weight")
def of_hidden_states(hidden, weight, batch):
    if batch.weight_layout == "hidden_vocab":
        weight = weight.t()
    logits = SumOverTp.apply(hidden.float(), batch.tp.group) @ weight.float().t()
    return pair(logits / batch.temperature, batch)


class SumOverTp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g, group=ctx.group)
        return g, None
)";
const std::string kOfConventions =
    "negated,pack,pack_summed,padded,scaled,equal_split,padding_of_1e30,own_backward,"
    "of_hidden_states";

const std::string kGradientLeftOut = R"(
from entropy import LogprobAndEntropy


@lossgrid.implementation(returns=("logprobs", "entropy"))
def logged(logits, batch, *, graph: __import__("typing").Literal["none", "kept"] = "none"):
    lp, entropy = LogprobAndEntropy.apply(logits, batch.labels, batch.vocab_start, batch.tp.group)
    return lp, entropy if graph == "kept" else entropy.detach()
)";

const std::string kEntropyCase =
    "--case 'lens=5+8+1+9 vocab=27 objective=clipped_pg objective.entropy_coefficient=0.5' ";

using ExternalEntropies = WithTorch;

TEST_F(ExternalEntropies, HaveAGradientUnderEveryConvention) {
  const std::string report = scratch_.file("conventions.json");
  const ProcessResult result = run_loaded(
      "run", {write_python("conventions.py", kConventions)},
      "--grid tp1cp1,tp2cp2,tp4cp1,tp2cp1dp2 --impl " + kOfConventions +
          " --case 'lens=5+8+1+9 vocab=27 objective=clipped_pg objective.entropy_coefficient=0.5 "
          "microbatches=2 dtype=[f32,bf16] hidden=[0,9]' "
          "--case 'lens=5+8+0+1 vocab=41 values=masked_vocab mask=ragged objective=clipped_pg "
          "objective.policy_loss=sapo objective.entropy_coefficient=0.5 statistics=false' "
          "--report " +
          report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  auto trials = trials_by_implementation(report);
  for (const char* name : {"negated", "pack", "pack_summed", "padded", "scaled", "equal_split",
                           "padding_of_1e30", "own_backward"}) {
    // By dtype, from logits and from hidden states, and the second case; on four grids each.
    EXPECT_EQ(trials[name].statuses, "ppppssssppppsssspppp") << name << trials[name].reasons;
  }
  EXPECT_EQ(trials["of_hidden_states"].statuses, "ssssppppssssppppssss")
      << trials["of_hidden_states"].reasons;
  EXPECT_THAT(result.out, Not(HasSubstr("gradient not")));
}

TEST_F(ExternalEntropies, WrongGradientsAreRejectedBySuites) {
  const std::string report = scratch_.file("wrong.json");
  const ProcessResult result = run_loaded(
      "run",
      {kExamples + "wrong/entropy_of_shard.py", kExamples + "wrong/entropy_gradient_left_out.py",
       kExamples + "wrong/entropy_gradient_times_tp.py"},
      "--suite grpo --grid tp2cp2 --impl entropy_of_shard,entropy_gradient_left_out,"
      "entropy_gradient_times_tp --quiet --report " +
          report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  std::map<std::string, std::set<std::string>> failed;
  for (const ordered_json& trial : records_of(report, "trials")) {
    const bool has_entropy =
        trial["case"]["parameters"].dump().find("entropy_coefficient") != std::string::npos;
    EXPECT_EQ(trial["status"], has_entropy ? "failed" : "passed") << trial["id"];
    for (const auto& check : trial["checks"]) {
      if (!check["passed"]) failed[trial["implementation"]].insert(check["name"]);
    }
  }
  for (const char* name :
       {"entropy_of_shard", "entropy_gradient_left_out", "entropy_gradient_times_tp"}) {
    EXPECT_TRUE(failed[name].contains("grad_logits")) << name;
    EXPECT_FALSE(failed[name].contains("entropy")) << name;
  }
}

TEST_F(ExternalEntropies, NeedNoGraphIfTheyAreLoggedAlone) {
  const std::string report = scratch_.file("logged.json");
  const ProcessResult result =
      run_loaded("run", {write_python("logged.py", kGradientLeftOut)},
                 "--grid tp2cp2 --impl logged --case 'lens=5+8+1+9 vocab=27' " + kEntropyCase +
                     "--report " + report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  auto trials = trials_by_implementation(report);
  EXPECT_EQ(trials["logged"].statuses, "ps") << result.out;
  EXPECT_THAT(trials["logged"].reasons, HasSubstr("returned without a graph"));
  EXPECT_EQ(trials["logged:graph=kept"].statuses, "pp") << result.out;
  EXPECT_THAT(result.out, HasSubstr("\nlogged: entropy: value checked, gradient not\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("logged:graph=kept: entropy")));
}

TEST_F(ExternalEntropies, TheSummaryNamesWhatWasNotCompared) {
  const std::string report = scratch_.file("summary.json");
  const ProcessResult result = run_loaded(
      "run", {kExamples + "entropy.py"},
      "--grid tp1cp1,tp2cp1 --impl entropy,fused --case 'lens=5+8 vocab=27 statistics=false' "
      "--case 'lens=5+8 vocab=27' --quiet --report " +
          report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nentropy: entropy: value checked, gradient not\n"));
  const ordered_json rows = full_report(report).at("tables").at("unjudged_outputs");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("implementation"), "entropy");
  EXPECT_EQ(rows[0].at("output"), "entropy");
  EXPECT_EQ(rows[0].at("state"), "value checked, gradient not");
  std::vector<std::string> states;
  for (const ordered_json& trial : records_of(report, "trials")) {
    states.push_back(trial.at("unjudged").value("entropy", ""));
  }
  EXPECT_EQ(std::set(states.begin(), states.end()),
            (std::set<std::string>{"", "value checked, gradient not",
                                   "neither value nor gradient checked"}));
}

TEST_F(ExternalEntropies, HaveMutantsOfTheirOwn) {
  const std::string suite = R"({"suite": 1, "name": "mine", "summary": "two cases",
    "grids": ["tp2cp2"], "implementations": ["fused"],
    "cases": [{"lens": "5+8+1+3", "vocab": 24, "scale": 3},
              {"lens": "5+8", "vocab": 27, "values": "overflow"},
              {"lens": "5+8+1+9", "vocab": 27, "sample_mask": "1101",
               "objective": {"kind": "clipped_pg", "entropy_coefficient": 0.5}}]})";
  write_all(scratch_.file("suite.json"), suite);
  const std::string report = scratch_.file("mutants.json");
  const ProcessResult result = run_loaded(
      "mutants", {kExamples + "entropy.py", write_python("logged.py", kGradientLeftOut)},
      "--suite " + scratch_.file("suite.json") + " --impl entropy,logged --report " + report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  std::map<std::string, std::string> rejected_by;  // failed checks
  for (const ordered_json& mutant : records_of(report, "mutants")) {
    rejected_by[mutant["name"]] = mutant["rejected_by"].dump();
  }
  for (const char* name : {"entropy/entropy_gradient_x2", "entropy/entropy_gradient_dropped"}) {
    ASSERT_TRUE(rejected_by.contains(name)) << result.out;
    EXPECT_THAT(rejected_by[name], HasSubstr("grad_logits"));
    EXPECT_THAT(rejected_by[name], HasSubstr("entropy_coefficient"));
  }
  EXPECT_FALSE(rejected_by.contains("logged/entropy_gradient_x2")) << "it has no gradient";
}

}  // namespace
}  // namespace lossgrid
