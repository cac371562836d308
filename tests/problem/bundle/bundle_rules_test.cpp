// SPDX-License-Identifier: Apache-2.0
// Every rule of bundles, broken once; and files broken at random, which must be refused or read,
// never crash.
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "editable_bundle.h"
#include "expect_error.h"
#include "harness/core/philox.h"
#include "harness/problem/bundle/bundle.h"

namespace lossgrid {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Violation {
  std::string bundle;
  std::function<void(EditableBundle&)> commit;
  std::vector<std::string> parts;
};

void expect_refused(const std::vector<Violation>& violations) {
  const ScratchFile scratch;
  for (const Violation& violation : violations) {
    SCOPED_TRACE(testing::PrintToString(violation.parts));
    EditableBundle edited = EditableBundle::read(golden_path(violation.bundle));
    violation.commit(edited);
    scratch.write(edited.bytes());
    std::vector<std::string> parts = violation.parts;
    parts.push_back(scratch.path());
    expect_bad_input([&] { read_bundle(scratch.path()); }, parts);
  }
}

Violation on_basic(std::function<void(EditableBundle&)> commit, std::vector<std::string> parts) {
  return {"nll_basic", std::move(commit), std::move(parts)};
}

Violation metadata(const std::string& key, const std::string& value,
                   std::vector<std::string> parts) {
  parts.push_back("__metadata__." + key);
  return on_basic([=](EditableBundle& b) { b.metadata()[key] = value; }, parts);
}

Violation missing(const std::string& bundle, const std::string& tensor) {
  return {bundle, [=](EditableBundle& b) { b.remove(tensor); }, {'"' + tensor + '"', "missing"}};
}

TEST(BundleRules, Metadata) {
  expect_refused({
      metadata("format", "lossgrid.bundle/2", {"'lossgrid.bundle/1'"}),
      on_basic([](EditableBundle& b) { b.metadata().erase("format"); },
               {"__metadata__.format is missing"}),
      on_basic([](EditableBundle& b) { b.header.erase("__metadata__"); },
               {"__metadata__.format is missing"}),
      on_basic([](EditableBundle& b) { b.metadata().erase("objective"); },
               {"__metadata__.objective is missing"}),
      metadata("objective", "{\"kind\":", {"not JSON at byte"}),
      metadata("objective", "[1]", {"not a JSON object"}),
      metadata("objective", "\"nll\"", {"not a JSON object"}),
      metadata("objective", "{}", {"'kind' is missing"}),
      metadata("objective", R"({"kind":1})", {"'kind' is not a string"}),
      metadata("objective", R"({"kind":"nll","a":[1]})", {"\"a\"", "single value"}),
      metadata("objective", R"({"kind":"nll","kind":"dpo"})", {"\"kind\" stands twice"}),
      metadata("objective", "{\"kind\":" + std::string(5000, '['), {"nested deeper"}),
      metadata("global_valid_toks", "12.5", {"\"12.5\"", "decimal"}),
      metadata("global_valid_toks", "", {"decimal"}),
      metadata("global_valid_toks", "-5", {"decimal"}),
      metadata("global_valid_toks", " 5", {"decimal"}),
      metadata("global_valid_toks", std::string(30, '9'), {"decimal"}),
      metadata("global_valid_toks", "25", {"less than the 26"}),
      metadata("global_valid_seqs", "0x10", {"decimal"}),
      metadata("global_valid_seqs", "3", {"less than the 4"}),
      metadata("expected_metrics", "{", {"not JSON"}),
      metadata("expected_metrics", R"({"loss":"1"})", {"\"loss\" is not a number"}),
      on_basic([](EditableBundle& b) { b.metadata()["global_valid_tok"] = "1"; },
               {"__metadata__", "\"global_valid_tok\"", "did you mean 'global_valid_toks'"}),
  });
}

TEST(BundleRules, MissingTensors) {
  expect_refused({
      missing("nll_basic", "cu_seqlens"),
      missing("nll_basic", "input_ids"),
      missing("nll_basic", "logits"),
      missing("nll_basic", "token_mask"),
      missing("nll_basic", "expected.loss"),
      missing("nll_basic", "expected.logprobs"),
      missing("nll_basic", "expected.grad_logits"),
      missing("nll_linear", "hidden"),
      missing("nll_linear", "weight"),
      missing("nll_linear", "expected.grad_hidden"),
      missing("nll_linear", "expected.grad_weight"),
      missing("nll_linear_bias", "expected.grad_bias"),
      {"nll_linear",
       [](EditableBundle& b) {
         b.add("logits", "F32", {37, 1}, std::string(148, '\0'));
       },
       {"logits as well as hidden"}},
      on_basic(
          [](EditableBundle& b) {
            b.remove("logits");
            b.add("weight", "F32", {96, 0}, "");
          },
          {"\"hidden\"", "missing"}),
      on_basic(
          [](EditableBundle& b) {
            b.remove("logits");
            b.add("hidden", "F32", {40, 0}, "");
            b.add("weight", "F32", {96, 0}, "");
          },
          {"\"hidden\"", "a hidden size of 0, must lie in [1, 16777216]"}),
      on_basic(
          [](EditableBundle& b) {
            b.remove("sample_mask");
            b.add("sample_masks", "F32", {4}, std::string(16, '\0'));
          },
          {"\"sample_masks\"", "did you mean 'sample_mask'"}),
  });
}

Violation dtype(const std::string& bundle, const std::string& tensor, const std::string& to) {
  return {bundle,
          [=](EditableBundle& b) { b.header[tensor]["dtype"] = to; },
          {'"' + tensor + '"', "dtype " + to + ", must be"}};
}

Violation shape(const std::string& bundle, const std::string& tensor,
                const std::vector<std::int64_t>& to, const std::string& part) {
  return {bundle,
          [=](EditableBundle& b) { b.header[tensor]["shape"] = to; },
          {'"' + tensor + '"', "shape [", part}};
}

TEST(BundleRules, DtypesAndShapes) {
  expect_refused({
      dtype("nll_basic", "cu_seqlens", "F32"),
      dtype("nll_basic", "input_ids", "F32"),
      dtype("nll_basic", "logits", "I32"),
      dtype("nll_basic", "token_mask", "I32"),
      dtype("nll_basic", "sample_mask", "U32"),
      dtype("nll_bf16_vocab_edges", "logits", "F16"),
      dtype("nll_linear", "hidden", "I32"),
      dtype("nll_linear", "weight", "I32"),
      dtype("nll_linear_bias", "bias", "I32"),
      dtype("grpo_default", "advantages", "I32"),
      dtype("grpo_default", "rewards", "I32"),
      dtype("grpo_default", "prev_logprobs", "I32"),
      dtype("grpo_default", "generation_logprobs", "I32"),
      dtype("grpo_default", "reference_policy_logprobs", "I32"),
      dtype("nll_basic", "expected.loss", "I64"),
      dtype("nll_basic", "expected.grad_logits", "I64"),
      dtype("nll_linear", "expected.grad_hidden", "I64"),
      dtype("nll_linear", "expected.grad_weight", "I64"),
      shape("nll_basic", "cu_seqlens", {5, 1}, "must have 1 dimension"),
      shape("nll_basic", "input_ids", {4, 10}, "must have 1 dimension"),
      shape("nll_basic", "logits", {3840}, "must have 2 dimensions"),
      shape("nll_basic", "logits", {96, 40}, "must be [T, V] = [40, 40]"),
      shape("nll_basic", "token_mask", {1, 40}, "must have 1 dimension"),
      shape("nll_basic", "expected.logprobs", {20, 2}, "must have 1 dimension"),
      shape("nll_basic", "expected.grad_logits", {96, 40}, "must be [T, V] = [40, 96]"),
      shape("nll_linear", "hidden", {24, 37}, "must be [T, H]"),
      shape("nll_linear", "weight", {24, 80}, "must be [V, H] = [24, 24]"),
      shape("nll_linear", "expected.grad_hidden", {24, 37}, "must be [T, H] = [37, 24]"),
      shape("nll_linear", "expected.grad_weight", {24, 80}, "must be [V, H] = [80, 24]"),
      shape("gspo", "prev_logprobs", {45, 1}, "must have 1 dimension"),
      on_basic(
          [](EditableBundle& b) {
            b.remove("token_mask");
            b.add("token_mask", "F32", {39}, std::string(156, '\0'));
          },
          {"\"token_mask\"", "shape [39], must be [T] = [40]"}),
      on_basic(
          [](EditableBundle& b) {
            b.remove("sample_mask");
            b.add("sample_mask", "F32", {5}, std::string(20, '\0'));
          },
          {"\"sample_mask\"", "shape [5], must be [S] = [4]"}),
      on_basic([](EditableBundle& b) { b.add("rewards", "F32", {3}, std::string(12, '\0')); },
               {"\"rewards\"", "shape [3], must be [S] = [4]"}),
      on_basic(
          [](EditableBundle& b) {
            b.remove("cu_seqlens");
            b.add("cu_seqlens", "I32", {0}, "");
          },
          {"\"cu_seqlens\"", "empty"}),
      on_basic(
          [](EditableBundle& b) {
            b.remove("logits");
            b.add("logits", "F32", {40, 0}, "");
          },
          {"\"logits\"", "a vocabulary of 0"}),
  });
}

TEST(BundleRules, Values) {
  expect_refused({
      on_basic([](EditableBundle& b) { b.set<std::int32_t>("cu_seqlens", 0, 1); },
               {"\"cu_seqlens\"", "1 at index 0, must start at 0"}),
      on_basic([](EditableBundle& b) { b.set<std::int32_t>("cu_seqlens", 2, -3); },
               {"\"cu_seqlens\"", "-3 at index 2", "must never decrease"}),
      on_basic([](EditableBundle& b) { b.set<std::int32_t>("cu_seqlens", 4, 39); },
               {"\"cu_seqlens\"", "39 at index 4, must end at T = 40"}),
      on_basic([](EditableBundle& b) { b.set<std::int32_t>("cu_seqlens", 4, 2147483647); },
               {"\"cu_seqlens\"", "2147483647 at index 4, must end at T = 40"}),
      on_basic([](EditableBundle& b) { b.set<std::int32_t>("input_ids", 17, 96); },
               {"\"input_ids\"", "id 96 at index 17, must lie in [0, V = 96)"}),
      on_basic([](EditableBundle& b) { b.set<std::int32_t>("input_ids", 0, -1); },
               {"\"input_ids\"", "id -1 at index 0"}),
      {"nll_linear",
       [](EditableBundle& b) { b.set<std::int32_t>("input_ids", 36, 80); },
       {"\"input_ids\"", "id 80 at index 36, must lie in [0, V = 80)"}},
      on_basic([](EditableBundle& b) { b.set("token_mask", 5, 0.5f); },
               {"\"token_mask\"", "0.5 at index 5, must be 0 or 1"}),
      on_basic([](EditableBundle& b) { b.set("token_mask", 39, kNan); },
               {"\"token_mask\"", "nan at index 39"}),
      on_basic([](EditableBundle& b) { b.set("sample_mask", 3, 2.0f); },
               {"\"sample_mask\"", "2 at index 3, must be 0 or 1"}),
      on_basic([](EditableBundle& b) { b.set("sample_mask", 0, -1.0f); },
               {"\"sample_mask\"", "-1 at index 0"}),
      on_basic([](EditableBundle& b) { b.set("expected.loss", 0, kInfinity); },
               {"\"expected.loss\"", "inf at index 0, must be finite"}),
      on_basic([](EditableBundle& b) { b.set("expected.logprobs", 3, double{kNan}); },
               {"\"expected.logprobs\"", "nan at index 3"}),
      on_basic([](EditableBundle& b) { b.set("expected.logprobs", 0, -1.0); },
               {"\"expected.logprobs\"", "-1 at index 0", "first token"}),
      on_basic([](EditableBundle& b) { b.set("expected.grad_logits", 97, -kInfinity); },
               {"\"expected.grad_logits\"", "-inf at index [1, 1], must be finite"}),
      {"nll_linear",
       [](EditableBundle& b) { b.set("expected.grad_hidden", 25, double{kNan}); },
       {"\"expected.grad_hidden\"", "nan at index [1, 1], must be finite"}},
      {"nll_linear",
       [](EditableBundle& b) { b.set("expected.grad_weight", 24, kInfinity); },
       {"\"expected.grad_weight\"", "inf at index [1, 0], must be finite"}},
  });
}

/// Reads a file or refuses it as bad input; anything else fails the test.
void expect_no_crash(const ScratchFile& scratch, const std::string& bytes, int& refused) {
  scratch.write(bytes);
  try {
    read_bundle(scratch.path());
  } catch (const Error& error) {
    ++refused;
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
}

TEST(BundleRules, EveryTruncationIsRefused) {
  const ScratchFile scratch;
  for (const std::string name : {"nll_empty_and_single", "dpo_sft_linear"}) {
    const std::string bytes = bytes_of(golden_path(name));
    int cut = 0;
    int refused = 0;
    for (std::size_t size = 0; size < bytes.size(); size += size < 2200 ? 7 : 997) {
      ++cut;
      expect_no_crash(scratch, bytes.substr(0, size), refused);
    }
    EXPECT_EQ(refused, cut);
    refused = 0;
    expect_no_crash(scratch, bytes + "x", refused);
    EXPECT_EQ(refused, 1) << "a byte too many";
  }
}

TEST(BundleRules, FlippedBytesNeverCrash) {
  const ScratchFile scratch;
  for (const std::string name : {"nll_basic", "nll_linear", "grpo_tis"}) {
    const std::string good = bytes_of(golden_path(name));
    const RandomStream random(7, 1);
    int refused = 0;
    for (std::uint64_t trial = 0; trial < 500; ++trial) {
      std::string bytes = good;
      // Mostly the length and the header, where most can go wrong.
      const std::uint32_t range = trial % 4 == 0 ? 3000 : 1100;
      const int flips = 1 + static_cast<int>(random.below(3, trial, 0));
      for (int k = 0; k < flips; ++k) {
        const auto column = static_cast<std::uint32_t>(4 * k);
        const std::size_t at = random.below(range, trial, column + 1);
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8, trial, column + 2)));
      }
      expect_no_crash(scratch, bytes, refused);
    }
    EXPECT_GT(refused, 100);
  }
}

}  // namespace
}  // namespace lossgrid
