// SPDX-License-Identifier: Apache-2.0
// Values at the ends of the range of a dtype, in bundles: right results pass, wrong ones are
// rejected, and an invalid batch is refused with the place of its fault.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../problem/editable_bundle.h"
#include "process.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFromLogits =
    " --impl reference,per_sequence,fused,one_sweep,cp_local,cp_gather_logits";

/// Bundle of a case, with some changed elements.
class ExtremeValues : public testing::Test {
 protected:
  EditableBundle exported(const std::string& text) {
    const ProcessResult result =
        run_lossgrid(scratch_, "export --case '" + text + "' --out " + path_);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return EditableBundle::read(path_);
  }

  ProcessResult replay(const EditableBundle& bundle, const std::string& flags) {
    std::ofstream(path_, std::ios::binary) << bundle.bytes();
    return run_lossgrid(scratch_, "replay " + path_ + " " + flags);
  }

  void expect_passes(const EditableBundle& bundle, const std::string& flags) {
    const ProcessResult result = replay(bundle, flags);
    EXPECT_EQ(result.exit_code, 0) << flags << result.out << result.err;
  }

  void expect_refused(const EditableBundle& bundle, const std::vector<std::string>& parts) {
    const ProcessResult result = replay(bundle, "--impl fused --tp 2");
    EXPECT_EQ(result.exit_code, 65) << result.out;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
  }

  ScratchFolder scratch_;
  std::string path_ = scratch_.file("b.safetensors");
};

constexpr std::size_t kVocab = 16;
constexpr const char* kBatch = "lens=6 mask=011111 vocab=16 poison=none dtype=";

TEST_F(ExtremeValues, AShardOfLowestNumbersLeavesTheOthersAlone) {
  for (const std::string backend : {"cpu", "cuda_emulated"}) {
    for (const std::string grid : {"--tp 2", "--tp 4 --cp 2"}) {
      EditableBundle f32 = exported(kBatch + std::string("f32"));
      EditableBundle f64 = exported(kBatch + std::string("f64"));
      for (std::size_t k = 0; k < 6 * kVocab; ++k) {
        if (k % kVocab < kVocab / 2) continue;
        f32.set("logits", k, std::numeric_limits<float>::lowest());
        f64.set("logits", k, std::numeric_limits<double>::lowest());
      }
      expect_passes(f32, grid + kFromLogits + " --backend " + backend);
      expect_passes(f64, grid + kFromLogits + " --backend " + backend);
    }
  }
}

TEST_F(ExtremeValues, LargeLogitsPassInEveryDtype) {
  for (const std::string backend : {"cpu", "cuda_emulated"}) {
    EditableBundle same = exported(kBatch + std::string("f32"));
    EditableBundle one = exported(kBatch + std::string("f32"));
    EditableBundle far = exported(kBatch + std::string("f64"));
    EditableBundle masked = exported(kBatch + std::string("f64"));
    for (std::size_t k = 0; k < 6 * kVocab; ++k) {
      same.set("logits", k, -1e30f);
      if (k % kVocab == 3) one.set("logits", k, 1e38f);
      far.set("logits", k, far.get<double>("logits", k) - 1e12);
      if (k % kVocab >= kVocab / 2) masked.set("logits", k, -1e30);
    }
    for (const EditableBundle& bundle : {same, one, far, masked}) {
      if (backend == "cpu") expect_passes(bundle, kFromLogits);
      expect_passes(bundle, std::string("--tp 2") + kFromLogits + " --backend " + backend);
    }
  }
}

/// d loss / d logprob has no finite interval if a ratio has none.
TEST_F(ExtremeValues, RatiosOfLargeLogitsAreJudgedWithoutNan) {
  EditableBundle bundle = exported(
      "lens=9+5 mask=all vocab=16 poison=none objective=clipped_pg "
      "objective.kl_input_clamp_value=null objective.kl_output_clamp_value=null "
      "objective.reference_policy_kl_penalty=0.1");
  for (std::size_t k = 0; k < 14 * kVocab; ++k) bundle.set("logits", k, -1e30f);
  const ProcessResult result = replay(bundle, "--impl reference,fused,cp_local --tp 2");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, testing::Not(HasSubstr("nan")));
}

TEST_F(ExtremeValues, ATargetOfProbability0IsComparedAsEqual) {
  EditableBundle bundle = exported(kBatch + std::string("f32"));
  bundle.set("logits",
             2 * kVocab + static_cast<std::size_t>(bundle.get<std::int32_t>("input_ids", 3)),
             -HUGE_VALF);
  for (const std::string grid : {"", "--tp 2 --cp 2"}) expect_passes(bundle, grid + kFromLogits);
  const ProcessResult wrong = replay(bundle, "--impl mutant/logprob_clamped");
  EXPECT_EQ(wrong.exit_code, 10);
  EXPECT_THAT(wrong.out, HasSubstr("want inf"));
}

TEST_F(ExtremeValues, AClampedLogProbabilityIsRejected) {
  EditableBundle bundle = exported(kBatch + std::string("f32"));
  bundle.set("logits",
             2 * kVocab + static_cast<std::size_t>(bundle.get<std::int32_t>("input_ids", 3)),
             -1e30f);
  expect_passes(bundle, kFromLogits);
  EXPECT_EQ(replay(bundle, "--impl mutant/logprob_clamped").exit_code, 10);
}

TEST_F(ExtremeValues, AClampedRatioIsRejected) {
  EditableBundle bundle = exported("lens=6 mask=011111 vocab=16 poison=none objective=clipped_pg");
  for (std::size_t t = 0; t < 6; ++t) bundle.set("prev_logprobs", t, -90.0f);
  bundle.set("advantages", 4, -1.0f);
  expect_passes(bundle, kFromLogits);
  EXPECT_EQ(replay(bundle, "--impl mutant/ratio_clamped").exit_code, 10);
}

TEST_F(ExtremeValues, RowsWithoutProbabilitiesAreRefused) {
  EditableBundle bundle = exported(kBatch + std::string("f32"));
  const EditableBundle good = bundle;
  for (std::size_t v = 0; v < kVocab; ++v) bundle.set("logits", 3 * kVocab + v, -HUGE_VALF);
  expect_refused(bundle, {"logits of sequence 0, token 3", "all are -inf"});
  bundle = good;
  bundle.set("logits", 4 * kVocab + 7, std::nanf(""));
  expect_refused(bundle, {"logits of sequence 0, token 4", "nan at vocab id 7"});
  bundle = good;
  bundle.set("logits", 2 * kVocab + 1, HUGE_VALF);
  expect_refused(bundle, {"logits of sequence 0, token 2", "inf at vocab id 1"});
}

TEST_F(ExtremeValues, RowsThatNothingTrainsOnMayHoldAnything) {
  EditableBundle bundle = exported("lens=6 mask=011011 vocab=16 poison=none");
  for (std::size_t v = 0; v < kVocab; ++v) bundle.set("logits", 2 * kVocab + v, -HUGE_VALF);
  bundle.set("logits", 5 * kVocab + 7, std::nanf(""));  // the last row predicts nothing
  for (const std::string grid : {"", "--tp 2 --cp 2"}) expect_passes(bundle, grid + kFromLogits);
}

TEST_F(ExtremeValues, InputsThatAreNotFiniteAreRefused) {
  EditableBundle bundle = exported("lens=6 mask=011111 vocab=16 poison=none objective=clipped_pg");
  const EditableBundle good = bundle;
  for (const std::string tensor : {"advantages", "prev_logprobs", "generation_logprobs"}) {
    for (const float value : {std::nanf(""), -HUGE_VALF}) {
      bundle = good;
      bundle.set(tensor, 2, value);
      expect_refused(bundle, {"tensor " + tensor, "sequence 0, token 2", "must be finite"});
    }
  }
}

TEST_F(ExtremeValues, AnObjectiveThatMakesNoNumberIsRefused) {
  EditableBundle bundle = exported("lens=6 mask=011111 vocab=16 poison=none objective=clipped_pg");
  bundle.set("logits",
             2 * kVocab + static_cast<std::size_t>(bundle.get<std::int32_t>("input_ids", 3)),
             -HUGE_VALF);
  expect_refused(bundle, {"clipped_pg", "sequence 0, token 2 has probability 0"});
}

TEST_F(ExtremeValues, GradientsUnderTheFloorAreNoBias) {
  EditableBundle bundle = exported("lens=15+34 mask=prompt4 vocab=96 hidden=24 poison=none");
  for (std::size_t k = 0; k < 49 * 24; ++k) bundle.set("hidden", k, 1e-42f);
  for (const std::string grid : {"", "--tp 2", "--cp 2", "--dp 2"}) {
    expect_passes(bundle, "--impl reference,linear_ce,linear_ce_onepass " + grid);
  }
}

}  // namespace
}  // namespace lossgrid
