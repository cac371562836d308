// SPDX-License-Identifier: Apache-2.0
// Bundles with inputs of objectives beside log-probabilities, and bundles from hidden states.
#include <algorithm>
#include <bit>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "drawn_inputs.h"
#include "editable_bundle.h"
#include "expect_error.h"
#include "harness/core/error.h"
#include "harness/problem/bundle/bundle.h"
#include "harness/problem/bundle/safetensors.h"

namespace lossgrid {
namespace {

using testing::Each;
using testing::SizeIs;

TEST(BundleInputs, AreReadFromGoldenFilesAsTheyStand) {
  const Problem problem = read_bundle(golden_path("grpo_default")).problem;
  const EditableBundle plain = EditableBundle::read(golden_path("grpo_default"));
  for (int k = 0; k < kTokenInputs; ++k) {
    const std::string tensor(name(static_cast<TokenInput>(k)));
    if (static_cast<TokenInput>(k) >= TokenInput::teacher_logprobs) {  // no inputs of a policy loss
      EXPECT_TRUE(problem.inputs[k].empty());
      continue;
    }
    ASSERT_THAT(problem.inputs[k], SizeIs(57)) << tensor;
    for (std::size_t t = 0; t < 57; ++t) {
      EXPECT_EQ(problem.inputs[k][t], plain.get<float>(tensor, t)) << tensor << ' ' << t;
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(problem.rewards[i], plain.get<float>("rewards", i));
  }
  const Problem dpo = read_bundle(golden_path("dpo_sum")).problem;
  EXPECT_TRUE(dpo.inputs[0].empty());
  EXPECT_THAT(dpo.inputs[static_cast<std::size_t>(TokenInput::reference_policy_logprobs)],
              SizeIs(54));
  EXPECT_TRUE(dpo.rewards.empty());
}

TEST(BundleInputs, AreKeptWhateverTheyAre) {
  const ScratchFile scratch;
  EditableBundle edited = EditableBundle::read(golden_path("grpo_default"));
  edited.set("advantages", 5, std::nanf(""));
  edited.set("prev_logprobs", 6, HUGE_VALF);
  edited.set("rewards", 1, -HUGE_VALF);
  const Problem problem = read_bundle(scratch.write(edited.bytes())).problem;
  EXPECT_TRUE(std::isnan(problem.inputs[0][5]));
  EXPECT_EQ(problem.inputs[1][6], HUGE_VALF);
  EXPECT_EQ(problem.rewards[1], -HUGE_VALF);
}

TEST(BundleInputs, SurviveWritingWithoutPoison) {
  const ScratchFile scratch;
  for (const std::string poison : {"nan", "inf", "none"}) {
    SCOPED_TRACE(poison);
    Problem problem = make_problem(
        parse_case("objective=clipped_pg objective.ratio_clip_c=3 objective.use_cispo=true "
                   "objective.reference_policy_kl_type=k2 objective.ratio_clip_min=1e-05 "
                   "lens=5+0+8+1+3 sample_mask=11101 vocab=7 poison=" +
                   poison));
    const std::vector<double> logprobs(17, -2.5);
    const PlainDraw draw;
    draw_objective_inputs(problem, kEverything, &draw, logprobs);
    write_bundle(scratch.path(), problem, std::nullopt);
    Problem read = read_bundle(scratch.path()).problem;
    EXPECT_EQ(read.spec.objective, problem.spec.objective);
    const auto valid = problem.row_valid();
    for (int k = 0; k < kTokenInputs; ++k) {
      ASSERT_THAT(read.inputs[k], SizeIs(17));
      for (std::size_t t = 0; t < 17; ++t) {
        const bool kept = poison == "none" || (t > 0 && valid[t - 1] != 0);
        EXPECT_EQ(read.inputs[k][t], kept ? problem.inputs[k][t] : 0) << k << ' ' << t;
      }
    }
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(read.rewards[i], poison == "none" || i != 3 ? problem.rewards[i] : 0) << i;
    }
    require_objective_inputs(read, kEverything);
    EXPECT_EQ(read.denominators, problem.denominators);
  }
}

TEST(BundleInputs, HaveAHead) {
  const ScratchFile scratch;
  for (const char* head : {"value", "score"}) {
    Problem problem = make_problem(parse_case(std::string("lens=5+8 hidden=3 head=") + head));
    write_bundle(scratch.path(), problem, std::nullopt);
    const Problem read = read_bundle(scratch.path()).problem;
    EXPECT_EQ(read.spec.head, problem.spec.head);
    EXPECT_EQ(read.token_mask, problem.token_mask);
    EXPECT_EQ(read.denominators, problem.denominators);
  }
  EditableBundle with_ids = EditableBundle::read(golden_path("value_clip"));
  with_ids.set("input_ids", 3, std::int32_t{151000});  // the head predicts none of them
  EXPECT_EQ(read_bundle(scratch.write(with_ids.bytes())).problem.input_ids[3], 0);
  EditableBundle edited = EditableBundle::read(golden_path("nll_basic"));
  edited.metadata()["head"] = "value";
  expect_bad_input([&] { read_bundle(scratch.write(edited.bytes())); },
                   {"head is value, which has one number a row"});
  edited.metadata()["head"] = "critic";
  expect_bad_input([&] { read_bundle(scratch.write(edited.bytes())); },
                   {"head is \"critic\", must be lm, value or score"});
}

TEST(BundleInputs, AreNotWrittenIfTheyAreMissing) {
  const ScratchFile scratch;
  write_bundle(scratch.path(), make_problem(parse_case("lens=5+8 vocab=7")), std::nullopt);
  const Problem read = read_bundle(scratch.path()).problem;
  EXPECT_THAT(read.inputs, Each(SizeIs(0)));
  EXPECT_TRUE(read.rewards.empty());
}

/// nll_linear with one or both factors as bf16: the upper halves of the float32 numbers.
EditableBundle with_bf16(std::initializer_list<std::string> tensors) {
  EditableBundle edited = EditableBundle::read(golden_path("nll_linear"));
  for (const std::string& tensor : tensors) {
    const std::vector<std::int64_t> shape = edited.header[tensor]["shape"];
    std::string halves;
    for (std::size_t k = 0; k < static_cast<std::size_t>(shape[0] * shape[1]); ++k) {
      const auto bits = static_cast<std::uint16_t>(edited.get<std::uint32_t>(tensor, k) >> 16);
      halves.append(reinterpret_cast<const char*>(&bits), 2);
    }
    edited.remove(tensor);
    edited.add(tensor, "BF16", shape, halves);
  }
  return edited;
}

void expect_same_projection(const Problem& a, const Problem& b) {
  ASSERT_NE(a.projection, nullptr);
  ASSERT_NE(b.projection, nullptr);
  EXPECT_EQ(a.projection->hidden, b.projection->hidden);
  EXPECT_EQ(a.projection->weight, b.projection->weight);
  EXPECT_EQ(a.projection->hidden_dtype, b.projection->hidden_dtype);
  EXPECT_EQ(a.projection->weight_dtype, b.projection->weight_dtype);
  EXPECT_EQ(a.projection->has_bias, b.projection->has_bias);
  if (!a.projection->has_bias) return;
  EXPECT_EQ(a.projection->bias_dtype, b.projection->bias_dtype);
}

TEST(LinearBundle, IsBf16WhereBothFactorsAre) {
  const ScratchFile scratch;
  const auto dtype_with = [&](std::initializer_list<std::string> tensors) {
    return read_bundle(scratch.write(with_bf16(tensors).bytes())).problem.spec.dtype;
  };
  EXPECT_EQ(dtype_with({}), DType::f32);
  EXPECT_EQ(dtype_with({"hidden"}), DType::f32);
  EXPECT_EQ(dtype_with({"weight"}), DType::f32);
  EXPECT_EQ(dtype_with({"hidden", "weight"}), DType::bf16);

  const EditableBundle edited = with_bf16({"hidden", "weight"});
  const Problem problem = read_bundle(scratch.write(edited.bytes())).problem;
  EXPECT_EQ(problem.spec.hidden, 24);
  EXPECT_EQ(problem.projection->hidden_dtype, DType::bf16);
  EXPECT_EQ(problem.projection->weight_dtype, DType::bf16);
  double sum = 0;
  for (std::size_t k = 0; k < 24; ++k) {
    const auto factor = [&](const std::string& tensor, std::size_t row) {
      const std::uint32_t bits = edited.get<std::uint16_t>(tensor, row * 24 + k);
      return double{std::bit_cast<float>(bits << 16)};
    };
    sum += factor("hidden", 36) * factor("weight", 79);
  }
  double logit = 0;
  problem.logits->read(36, 79, std::span<double>(&logit, 1));
  EXPECT_NEAR(logit, sum, 1e-14 * (1 + std::abs(sum)));
}

TEST(LinearBundle, ReadsBackAsItsCase) {
  const ScratchFile scratch;
  for (const std::string text :
       {"lens=5+8+1+3 vocab=13 hidden=6", "lens=5+8 vocab=13 hidden=6 dtype=bf16 values=peaked",
        "lens=0 vocab=3 hidden=2", "lens=5+8 vocab=13 hidden=6 weight_layout=hidden_vocab",
        "lens=5+8 vocab=13 hidden=6 lm_head_bias=true",
        "lens=5+8 vocab=13 hidden=6 lm_head_bias=true dtype=bf16"}) {
    SCOPED_TRACE(text);
    const Problem problem = make_problem(parse_case(text));
    write_bundle(scratch.path(), problem, std::nullopt);
    const Bundle bundle = read_bundle(scratch.path());
    expect_same_projection(problem, bundle.problem);
    EXPECT_EQ(bundle.problem.spec.hidden, problem.spec.hidden);
    EXPECT_EQ(bundle.problem.spec.lm_head_bias, problem.spec.lm_head_bias);
    EXPECT_EQ(bundle.problem.spec.vocab, problem.spec.vocab);
    EXPECT_EQ(bundle.problem.spec.dtype, problem.spec.dtype);
    EXPECT_EQ(bundle.problem.spec.weight_layout, WeightLayout::vocab_hidden);
    EXPECT_EQ(bundle.problem.input_ids, problem.input_ids);
    EXPECT_EQ(bundle.nan_or_inf_logits, 0);
  }
}

TEST(LinearBundle, RefusesABiasThatDoesNotFit) {
  const ScratchFile scratch;
  const auto refused = [&](const std::string& text, std::vector<std::int64_t> shape,
                           std::vector<std::string> words) {
    write_bundle(scratch.path(), make_problem(parse_case(text)), std::nullopt);
    EditableBundle edited = EditableBundle::read(scratch.path());
    const std::string zeros(static_cast<std::size_t>(shape[0]) * 4, '\0');
    edited.add("bias", "F32", shape, zeros);
    expect_bad_input([&] { read_bundle(scratch.write(edited.bytes())); }, words);
  };
  refused("lens=5 vocab=7 hidden=3", {6}, {"bias", "[V]"});
  refused("lens=5 vocab=7", {7}, {"bias", "without hidden and weight"});
}

TEST(LinearBundle, HasNoEmbedding) {
  const ScratchFile scratch;
  const auto written = [&](const std::string& text) {
    write_bundle(scratch.path(), make_problem(parse_case("lens=5 vocab=7 hidden=3 " + text)),
                 std::nullopt);
  };
  expect_bad_input([&] { written("tied_embedding=true"); },
                   {scratch.path(), "no gradient of an embedding", "tied_embedding is true"});
}

TEST(TransformedBundle, IsReadAsItWasWritten) {
  const ScratchFile scratch;
  for (const char* text :
       {"lens=5+8 vocab=7 logit_softcap=3 temperature=0.7", "lens=5+8 vocab=7 logit_scale=0.5",
        "lens=5+8 vocab=7 sequence_temperatures=true", "lens=5 vocab=7 hidden=4 temperature=0.7",
        "lens=5+8 vocab=7 hidden=4 logit_softcap=3 sequence_temperatures=true"}) {
    SCOPED_TRACE(text);
    const Problem problem = make_problem(parse_case(text));
    write_bundle(scratch.path(), problem, std::nullopt);
    const Problem read = read_bundle(scratch.path()).problem;
    EXPECT_EQ(read.transform(), problem.transform());
    EXPECT_EQ(read.temperatures, problem.temperatures);
    EXPECT_EQ(read.untransformed == nullptr, problem.untransformed == nullptr);
    std::vector<double> want(7);
    std::vector<double> got(7);
    for (std::int64_t t = 0; t < problem.tokens(); ++t) {
      problem.logits->read(t, 0, std::span<double>(want));
      read.logits->read(t, 0, std::span<double>(got));
      EXPECT_EQ(got, want) << t;
    }
  }
}

TEST(TransformedBundle, BadTransformsAreNamed) {
  const ScratchFile scratch;
  const auto read = [&](const char* transform) {
    EditableBundle bundle = EditableBundle::read(golden_path("nll_basic"));
    bundle.header["__metadata__"]["transform"] = transform;
    scratch.write(bundle.bytes());
    read_bundle(scratch.path());
  };
  EXPECT_NO_THROW(read("{\"logit_softcap\": null, \"temperature\": 0.7}"));
  expect_bad_input([&] { read("{\"temprature\": 0.7}"); },
                   {"__metadata__.transform", "temprature", "temperature"});
  expect_bad_input([&] { read("{\"logit_softcap\": 0}"); },
                   {"__metadata__.transform", "logit_softcap = 0", "[0.001, 1e6]"});
  expect_bad_input([&] { read("{\"temperature\": 0}"); }, {"temperature = 0", "[0.001, 1e6]"});
  expect_bad_input([&] { read("{\"temperature\": \"warm\"}"); }, {"temperature is not a number"});
  expect_bad_input([&] { read("[1]"); }, {"__metadata__.transform"});
}

TEST(LinearBundle, IsWrittenFromItsFactorsWithTheirDtypes) {
  const ScratchFile scratch;
  for (const EditableBundle& edited : {with_bf16({}), with_bf16({"hidden"}), with_bf16({"weight"}),
                                       with_bf16({"hidden", "weight"})}) {
    const Bundle first = read_bundle(scratch.write(edited.bytes()));
    write_bundle(scratch.path(), first.problem, first.expected);
    const SafetensorsFile file = SafetensorsFile::read(scratch.path());
    EXPECT_FALSE(file.has("logits"));
    EXPECT_FALSE(file.has("expected.grad_logits"));
    EXPECT_EQ(file.tensor("hidden").dtype, edited.header["hidden"]["dtype"].get<std::string>());
    EXPECT_EQ(file.tensor("weight").dtype, edited.header["weight"]["dtype"].get<std::string>());
    const Bundle second = read_bundle(scratch.path());
    expect_same_projection(first.problem, second.problem);
    EXPECT_EQ(second.expected->grad_hidden, first.expected->grad_hidden);
    EXPECT_EQ(second.expected->grad_weight, first.expected->grad_weight);
  }
}

TEST(LinearBundle, ExpectsGradientsOfTheSizesOfItsTensors) {
  const ScratchFile scratch;
  const Bundle bundle = read_bundle(golden_path("nll_linear"));
  for (const int which : {0, 1}) {
    BundleResults wrong = *bundle.expected;
    (which == 0 ? wrong.grad_hidden : wrong.grad_weight).pop_back();
    EXPECT_THROW(write_bundle(scratch.path(), bundle.problem, wrong), Error);
  }
}

TEST(LinearBundle, WithoutTokensSurvivesWriting) {
  const ScratchFile scratch;
  Problem problem = make_problem(parse_case("lens=0+0 vocab=3"));
  problem.projection =
      std::make_shared<const Projection>(Projection{0, 3, 2, {}, {1, 2, 3, 4, 5, 6}});
  problem.logits = make_projected_logits(problem.projection);
  BundleResults expected;
  expected.loss = 0;
  expected.grad_weight.assign(6, 0.0);
  write_bundle(scratch.path(), problem, expected);
  const Bundle read = read_bundle(scratch.path());
  expect_same_projection(problem, read.problem);
  EXPECT_EQ(read.expected->grad_weight, expected.grad_weight);
}

TEST(LinearBundle, CountsLogitsThatAreNoNumbers) {
  const ScratchFile scratch;
  EditableBundle edited = EditableBundle::read(golden_path("nll_linear"));
  edited.set("hidden", 24 * 3 + 1, std::nanf(""));
  EXPECT_EQ(read_bundle(scratch.write(edited.bytes())).nan_or_inf_logits, 80);  // row 3
  edited = EditableBundle::read(golden_path("nll_linear"));
  edited.set("weight", 24 * 5, std::nanf(""));
  EXPECT_EQ(read_bundle(scratch.write(edited.bytes())).nan_or_inf_logits, 37);  // column 5
  edited = EditableBundle::read(golden_path("nll_linear"));
  for (std::size_t k = 0; k < 24; ++k) {  // above float32 in column 7: all that is positive
    edited.set("weight", 24 * 7 + k, k == 0 ? 3e38f : 0.0f);
  }
  std::int64_t above = 0;
  for (std::size_t t = 0; t < 37; ++t) {
    above += double{edited.get<float>("hidden", 24 * t)} * double{3e38f} > 3.4028235e38;
  }
  EXPECT_GT(above, 0);
  EXPECT_EQ(read_bundle(scratch.write(edited.bytes())).nan_or_inf_logits, above);
}

TEST(BundleInputs, AreFiniteWhereTheyAreTrainedOn) {
  const ObjectiveNeeds of_policies{.inputs = {true, true, true, true}, .rewards = true};
  const Problem good = read_bundle(golden_path("grpo_default")).problem;
  std::vector<std::int64_t> trained;  // the second token of it and one that is not
  std::int64_t untrained = -1;
  for (std::int64_t t = 1; t < good.cu_seqlens[1]; ++t) {
    if (good.token_mask[static_cast<std::size_t>(t)] != 0 && good.sample_mask[0] != 0) {
      trained.push_back(t);
    } else {
      untrained = t;
    }
  }
  ASSERT_GE(trained.size(), 2u);
  for (const float value : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    for (int k = 0; k < kTokenInputs; ++k) {
      Problem bad = good;
      bad.inputs[k].resize(static_cast<std::size_t>(bad.tokens()), -1.0f);
      Problem fine = bad;
      bad.inputs[k][static_cast<std::size_t>(trained[1])] = value;
      ObjectiveNeeds one;
      one.inputs[k] = true;
      expect_bad_input([&] { require_objective_inputs(bad, one); },
                       {std::string(name(static_cast<TokenInput>(k))),
                        "sequence 0, token " + std::to_string(trained[1]), "must be finite"});
      fine.inputs[k][0] = value;  // a first token is never trained on
      if (untrained >= 0) fine.inputs[k][static_cast<std::size_t>(untrained)] = value;
      require_objective_inputs(fine, one);
    }
    Problem bad = good;
    bad.rewards[1] = value;
    expect_bad_input([&] { require_objective_inputs(bad, of_policies); },
                     {"rewards", "sequence 1", "must be finite"});
  }
}

}  // namespace
}  // namespace lossgrid
