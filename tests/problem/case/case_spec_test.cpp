// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/case/case_spec.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "expect_error.h"
#include "harness/problem/case/case_keys.h"

namespace lossgrid {
namespace {

class RandomSpecs {
 public:
  explicit RandomSpecs(unsigned seed) : random_(seed) {}

  CaseSpec next() {
    CaseSpec spec;
    spec.objective.kind = pick<std::string>({"nll", "clipped_pg", "dpo"});
    if (below(2) == 0)
      spec.objective.options["ratio_clip_min"] = pick<std::string>({"0.2", "1e-05"});
    if (below(2) == 0) {
      spec.objective.options["kl_type"] =
          pick<std::string>({"\"k3\"", "\"two words\"", "\"a=b,[c]\"", "true", "null", "-3"});
    }
    spec.lens = pick<std::string>({"upstream", "uniform", "lognormal", "5+8+1+3", "0", "7+0"});
    spec.seqs = below(1'000'001);
    spec.seq_len = below((std::int64_t{1} << 40) + 1);
    spec.pad_multiple = 1 + below(std::int64_t{1} << 30);
    spec.bin_multiple = 1 + below(1000);
    spec.cu = pick<CuMode>({CuMode::true_lengths, CuMode::padded_lengths});
    spec.mask = pick<std::string>(
        {"all", "ragged", "response", "prompt3", "sparse", "01101+1111++111", "0"});
    spec.sample_mask = pick<std::string>({"ones", "alternate", "1011"});
    spec.targets = pick<std::string>({"random", "shard_edges"});
    spec.global_valid_toks = below(3) * below(std::int64_t{1} << 60);
    spec.global_valid_seqs = below(3);
    spec.vocab = 1 + below(2'147'483'647);
    spec.hidden = below((std::int64_t{1} << 24) + 1);
    spec.hidden_values = pick<HiddenValues>({HiddenValues::normal, HiddenValues::one_hot});
    spec.logit_scale = pick<double>({1.0, 0.25, 1000.0});
    spec.logit_softcap = pick<double>({0.0, 30.0, 1e6});
    spec.sequence_temperatures = below(2) == 0;
    spec.temperature = pick<double>({1.0, 0.001, 0.7, 1.0 / 3, 1000.0});
    spec.weight_layout =
        pick<WeightLayout>({WeightLayout::vocab_hidden, WeightLayout::hidden_vocab});
    spec.tied_embedding = below(2) == 0;
    spec.lm_head_bias = below(2) == 0;
    spec.dtype = pick<DType>({DType::f64, DType::f32, DType::bf16});
    spec.values = static_cast<Values>(below(9));
    spec.scale = pick<double>({1.0, 0.0, 0.1, 1e-300, 1.0 / 3, 1e30});
    spec.drift = static_cast<Drift>(below(5));
    spec.poison = static_cast<Poison>(below(3));
    spec.microbatches = 1 + below(1024);
    spec.statistics = below(2) == 0;
    spec.predictions = below(2) == 0;
    spec.framework.preset = pick<std::string>({"none", "nemo_rl_megatron", "skyrl_extra_cp"});
    spec.framework.loss = pick<std::string>({"preset", "1", "dp*n_mb/cp", "1/(dp*cp)"});
    spec.framework.schedule = pick<std::string>({"preset", "cp/n_mb"});
    spec.framework.gather = pick<std::string>({"preset", "1", "cp"});
    spec.framework.dp_reduction = pick<std::string>({"preset", "sum", "mean"});
    spec.framework.metrics = pick<std::string>({"preset", "cp"});
    spec.framework.counts = pick<std::string>({"preset", "global", "pack", "rank"});
    spec.seed = std::uniform_int_distribution<std::uint64_t>()(random_);
    return spec;
  }

 private:
  std::int64_t below(std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_);
  }
  template <typename T>
  T pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(static_cast<std::int64_t>(from.size())))];
  }

  std::mt19937_64 random_;
};

TEST(CaseSpec, TheDefaultIsOneWord) {
  EXPECT_EQ(format_case(CaseSpec{}), "objective=nll");
  EXPECT_EQ(parse_case("objective=nll"), CaseSpec{});
  EXPECT_EQ(parse_case(" \t "), CaseSpec{});
}

TEST(CaseSpec, DefaultsAreLeftOutAndKeysKeepTheirOrder) {
  CaseSpec spec;
  spec.vocab = 96;
  spec.lens = "5+8+1+3";
  spec.name = "a label";
  spec.objective.options["beta"] = "0.1";
  EXPECT_EQ(format_case(spec), "objective.beta=0.1 lens=5+8+1+3 vocab=96");
}

TEST(CaseSpec, TheNameIsNoPartOfWhatIsComputed) {
  CaseSpec spec;
  spec.name = "a";
  EXPECT_EQ(spec, CaseSpec{});
  spec.seed = 7;
  EXPECT_FALSE(spec == CaseSpec{});
}

TEST(CaseSpec, TextReadsBackAsTheSameCase) {
  RandomSpecs specs(1);
  for (int i = 0; i < 2000; ++i) {
    const CaseSpec spec = specs.next();
    const std::string text = format_case(spec);
    ASSERT_EQ(parse_case(text), spec) << text;
    ASSERT_EQ(format_case(parse_case(text)), text);
  }
}

TEST(CaseSpec, JsonReadsBackAsTheSameCase) {
  RandomSpecs specs(2);
  for (int i = 0; i < 2000; ++i) {
    const CaseSpec spec = specs.next();
    const nlohmann::ordered_json json = case_to_json(spec);
    const auto reread = nlohmann::ordered_json::parse(json.dump());
    const std::vector<CaseSpec> cases = cases_from_json(reread, "test");
    ASSERT_EQ(cases.size(), 1u);
    ASSERT_EQ(cases[0], spec) << json;
  }
}

TEST(CaseSpec, JsonHoldsEveryKeyInOrder) {
  const nlohmann::ordered_json json = case_to_json(CaseSpec{});
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_EQ(keys, case_key_names());
  EXPECT_EQ(json["objective"], "nll");
  EXPECT_EQ(json["cu"], "true");
  EXPECT_EQ(json["seed"], 42);
  EXPECT_EQ(json["drift"], "near");
  EXPECT_EQ(json["microbatches"], 1);
  EXPECT_EQ(json["statistics"], true);
}

TEST(CaseSpec, BooleansAreWordsInTextAndBooleansInJson) {
  EXPECT_EQ(format_case(parse_case("statistics=false")), "statistics=false");
  EXPECT_EQ(parse_case("statistics=true"), CaseSpec{});
  EXPECT_EQ(case_to_json(parse_case("statistics=false"))["statistics"], false);
}

TEST(CaseSpec, DriftAndMicrobatchesAreParsed) {
  EXPECT_EQ(parse_case("drift=far").drift, Drift::far);
  EXPECT_EQ(parse_case("drift=equal").drift, Drift::equal);
  EXPECT_EQ(parse_case("microbatches=1024").microbatches, 1024);
  EXPECT_EQ(format_case(parse_case("microbatches=3 drift=far statistics=false seed=7")),
            "drift=far microbatches=3 statistics=false seed=7");
}

TEST(CaseSpec, KeysOfTheLmHeadAreParsed) {
  const CaseSpec spec = parse_case(
      "hidden=64 hidden_values=one_hot temperature=0.7 weight_layout=hidden_vocab "
      "tied_embedding=true");
  EXPECT_EQ(spec.hidden, 64);
  EXPECT_EQ(spec.hidden_values, HiddenValues::one_hot);
  EXPECT_EQ(spec.temperature, 0.7);
  EXPECT_EQ(spec.weight_layout, WeightLayout::hidden_vocab);
  EXPECT_TRUE(spec.tied_embedding);
  EXPECT_EQ(format_case(parse_case("dtype=bf16 tied_embedding=true weight_layout=hidden_vocab "
                                   "temperature=0.70 hidden=64 vocab=96")),
            "vocab=96 hidden=64 temperature=0.7 weight_layout=hidden_vocab tied_embedding=true "
            "dtype=bf16");
  const nlohmann::ordered_json json = case_to_json(CaseSpec{});
  EXPECT_EQ(json["hidden"], 0);
  EXPECT_EQ(json["hidden_values"], "normal");
  EXPECT_EQ(json["temperature"], 1);
  EXPECT_EQ(json["weight_layout"], "vocab_hidden");
  EXPECT_EQ(json["tied_embedding"], false);
}

TEST(CaseSpec, ABareWordIsAStringOption) {
  const CaseSpec spec = parse_case("objective=clipped_pg objective.kl_type=k3 objective.on=true");
  EXPECT_EQ(spec.objective.options.at("kl_type"), "\"k3\"");
  EXPECT_EQ(spec.objective.options.at("on"), "true");
}

struct Bad {
  std::string text;
  std::vector<std::string> parts;
};

class BadCase : public testing::TestWithParam<Bad> {};

TEST_P(BadCase, IsNamed) {
  expect_bad_input([&] { parse_case(GetParam().text); }, GetParam().parts);
}

INSTANTIATE_TEST_SUITE_P(
    Text, BadCase,
    testing::Values(
        Bad{"vocb=96", {"unknown case key 'vocb'", "'vocab'"}}, Bad{"name=x", {"'name'"}},
        Bad{"vocab=96 vocab=97", {"'vocab'", "twice"}}, Bad{"vocab", {"'vocab'", "key=value"}},
        Bad{"=3", {"'=3'", "key=value"}}, Bad{"vocab=", {"'vocab'", "no value"}},
        Bad{"vocab=[1,2]", {"vocab", "array"}}, Bad{"vocab=0", {"vocab", "[1, 2147483647]"}},
        Bad{"vocab=2147483648", {"vocab", "[1, 2147483647]"}},
        Bad{"vocab=9.5", {"vocab", "whole number"}}, Bad{"seqs=-1", {"seqs", "[0, 1000000]"}},
        Bad{"seqs=1000001", {"seqs", "[0, 1000000]"}},
        Bad{"seq_len=1099511627777", {"seq_len", "1099511627776"}},
        Bad{"pad_multiple=0", {"pad_multiple", "[1, 1073741824]"}},
        Bad{"bin_multiple=1073741825", {"bin_multiple", "[1, 1073741824]"}},
        Bad{"cu=both", {"cu", "both", "true, padded"}}, Bad{"lens=5+x", {"lens", "5+x"}},
        Bad{"lens=5+-1", {"length in lens", "-1"}}, Bad{"lens=5++1", {"length in lens", "''"}},
        Bad{"lens=2147483648", {"length in lens", "2147483647"}},
        Bad{"lens=unifrom", {"lens", "unifrom", "uniform"}}, Bad{"mask=some", {"mask", "ragged"}},
        Bad{"mask=01+12", {"mask", "bits"}}, Bad{"sample_mask=half", {"sample_mask", "alternate"}},
        Bad{"targets=edge", {"targets", "shard_edges"}},
        Bad{"global_valid_toks=-2", {"global_valid_toks", "-2"}},
        Bad{"hidden=-1", {"hidden", "[0, 16777216]"}},
        Bad{"hidden=16777217", {"hidden", "[0, 16777216]"}},
        Bad{"temperature=0", {"temperature", "[0.001, 1000]"}},
        Bad{"temperature=-1", {"temperature", "[0.001, 1000]"}},
        Bad{"temperature=1001", {"temperature", "[0.001, 1000]"}},
        Bad{"temperature=nan", {"temperature", "finite"}},
        Bad{"logit_scale=0", {"logit_scale", "[0.001, 1000]"}},
        Bad{"logit_softcap=-30", {"logit_softcap = -30", "0 (none)", "[0.001, 1e6]"}},
        Bad{"logit_softcap=nan", {"logit_softcap", "finite"}},
        Bad{"weight_layout=transposed", {"weight_layout", "vocab_hidden, hidden_vocab"}},
        Bad{"tied_embedding=1", {"tied_embedding", "true nor false"}},
        Bad{"dtype=bf61", {"dtype", "bf61", "f64, f32, bf16"}}, Bad{"dtype=i64", {"dtype", "i64"}},
        Bad{"values=peakd", {"values", "'peakd'", "peaked"}}, Bad{"scale=inf", {"scale", "finite"}},
        Bad{"scale=-1", {"scale", "[0, 1e30]"}}, Bad{"scale=1e31", {"scale", "[0, 1e30]"}},
        Bad{"drift=nearby", {"drift", "'nearby'", "near, far, equal"}},
        Bad{"microbatches=0", {"microbatches", "[1, 1024]"}},
        Bad{"microbatches=1025", {"microbatches", "[1, 1024]"}},
        Bad{"statistics=yes", {"statistics", "'yes'", "true nor false"}},
        Bad{"statistics=1", {"statistics", "true nor false"}}, Bad{"poison=nil", {"poison", "nil"}},
        Bad{"seed=-1", {"seed", "2^64"}}, Bad{"seed=18446744073709551616", {"seed", "2^64"}},
        Bad{"objective=a+b", {"objective", "a+b"}},
        Bad{"objective.=1", {"objective.", "option name"}},
        Bad{"objective.kind=\"x\"", {"objective.kind", "objective=KIND"}},
        Bad{"objective.a={\"b\":1}", {"objective.a", "JSON"}},
        Bad{"objective.a=1x", {"objective.a", "1x", "JSON"}}));

TEST(CaseSpec, TheSmallestAndLargestValuesAreTaken) {
  EXPECT_EQ(parse_case("seed=18446744073709551615").seed, 18446744073709551615u);
  EXPECT_EQ(parse_case("vocab=2147483647").vocab, 2147483647);
  EXPECT_EQ(parse_case("seqs=0 seq_len=0").seqs, 0);
  EXPECT_EQ(parse_case("hidden=16777216").hidden, 16777216);
  EXPECT_EQ(parse_case("temperature=0.001").temperature, 0.001);
  EXPECT_EQ(parse_case("temperature=1000").temperature, 1000);
  EXPECT_EQ(parse_case("scale=1e30").scale, 1e30);
  EXPECT_EQ(parse_case("lens=0").lens, "0");
}

TEST(CaseKeys, EveryKeyRefusesNonsenseByName) {
  for (const CaseKey& key : case_keys()) {
    CaseSpec spec;
    expect_bad_input([&] { key.set(spec, "?"); }, {key.name});
    EXPECT_EQ(spec, CaseSpec{}) << key.name;
  }
}

}  // namespace
}  // namespace lossgrid
