// SPDX-License-Identifier: Apache-2.0
// results:file=...: results of another program, judged on grids, and files with wrong contents.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "problem/editable_bundle.h"
#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kAllGrids = " --grid tp1cp1,tp2cp2,tp4cp2";

/// Returns the results of `implementation` on the bundle.
std::string results_of(const ScratchFolder& scratch, const std::string& bundle,
                       const std::string& implementation) {
  const std::string path = scratch.file("results.safetensors");
  const ProcessResult result = run_lossgrid(
      scratch, "replay " + bundle + " --impl " + implementation + " --grid tp2cp2 --out " + path);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  return path;
}

ProcessResult judge(const ScratchFolder& scratch, const std::string& bundle,
                    const std::string& file, const std::string& more = kAllGrids) {
  return run_lossgrid(scratch, "replay " + bundle + " --impl 'results:file=" + file +
                                   "' --report " + scratch.file("r.json") + more);
}

std::vector<std::string> checks_in(const json& trial) {
  std::vector<std::string> names;
  for (const json& check : trial["checks"]) names.push_back(check["name"]);
  return names;
}

std::string failed_in(const ScratchFolder& scratch) {
  const json trials = full_report(scratch.file("r.json"))["trials"];
  std::string names;
  for (const json& check : trials[0]["checks"]) {
    if (!check["passed"]) names += check["name"].get<std::string>() + " ";
  }
  return names;
}

std::string invariant_in(const json& trial, const std::string& name) {
  for (const json& invariant : trial["invariants"]) {
    if (invariant["name"] == name) return invariant["status"];
  }
  return "missing";
}

TEST(Results, RightOnesPassOnEveryGrid) {
  const ScratchFolder scratch;
  for (const std::string& name : golden_names()) {
    const bool linear = name.find("linear") != std::string::npos;
    const std::string file = results_of(scratch, golden_path(name), linear ? "linear_ce" : "fused");
    const ProcessResult result =
        judge(scratch, golden_path(name), file,
              std::string(kAllGrids) + (linear ? ",tp2cp2sp" : ",tp2cp1pp2"));
    EXPECT_EQ(result.exit_code, 0) << name << result.out << result.err;
    const json trials = full_report(scratch.file("r.json"))["trials"];
    ASSERT_EQ(trials.size(), 4u);
    for (const json& trial : trials) {
      EXPECT_EQ(trial["status"], "passed") << trial["reason"];
      const std::vector<std::string> checks = checks_in(trial);
      for (const char* check :
           {"loss", "logprobs", "entropy", "metric.loss", "expected.logprobs"}) {
        EXPECT_THAT(checks, Contains(check)) << name;
      }
      EXPECT_THAT(checks, Contains(linear ? "grad_weight" : "grad_logits"));
      EXPECT_THAT(checks, Not(Contains("vocab_min")));
      EXPECT_EQ(invariant_in(trial, "shift_invariance"), "not_run");
      EXPECT_EQ(invariant_in(trial, "owned_labels_sum_to_valid_tokens"), "not_run");
      EXPECT_EQ(trial["determinism"][0]["verdict"], "not_compared");
      EXPECT_TRUE(trial["fingerprints"].empty());
    }
  }
}

TEST(Results, AreJudgedByRunForACase) {
  const ScratchFolder scratch;
  const std::string text = "'lens=5+8+1+3 vocab=40 dtype=bf16 pad_multiple=6'";
  const std::string bundle = scratch.file("b.safetensors");
  ASSERT_EQ(run_lossgrid(scratch, "export --case " + text + " --out " + bundle).exit_code, 0);
  const std::string file = results_of(scratch, bundle, "cp_local");
  const ProcessResult result = run_lossgrid(
      scratch, "run --case " + text + " --impl 'results:file=" + file + "' --grid tp1cp1,tp2cp4");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

TEST(Results, WithOneWrongElementFail) {
  const ScratchFolder scratch;
  const std::string bundle = golden_path("nll_basic");
  const EditableBundle right = EditableBundle::read(results_of(scratch, bundle, "fused"));
  const std::string wrong = scratch.file("wrong.safetensors");
  const auto failures = [&](const auto& edit) {
    EditableBundle file = right;
    edit(file);
    write_all(wrong, file.bytes());
    for (const char* grid : {" --grid tp1cp1", " --grid tp4cp2"}) {
      EXPECT_EQ(judge(scratch, bundle, wrong, grid).exit_code, 10) << grid;
    }
    return failed_in(scratch);
  };
  // Row 3 is trained on, with token 4 as its label.
  const auto vocab = right.header.at("grad_logits")["shape"][1].get<std::size_t>();
  std::size_t row = 0;
  while (right.get<double>("grad_logits", row * vocab) == 0) ++row;
  const std::size_t at = row * vocab;
  EXPECT_EQ(failures([&](EditableBundle& f) {
              f.set("grad_logits", at, f.get<double>("grad_logits", at) * 1.001 + 1e-6);
            }),
            "grad_logits expected.grad_logits ");
  const std::string scaled = failures([&](EditableBundle& f) {
    const std::size_t elements = f.header["grad_logits"]["shape"][0].get<std::size_t>() * vocab;
    for (std::size_t k = 0; k < elements; ++k) {
      f.set("grad_logits", k, 1.01 * f.get<double>("grad_logits", k));
    }
  });
  EXPECT_THAT(scaled, HasSubstr("grad_logits_bias "));
  EXPECT_THAT(failures([&](EditableBundle& f) { f.set("grad_logits", at + 1, std::nan("")); }),
              HasSubstr("grad_logits "));
  EXPECT_THAT(failures([&](EditableBundle& f) { f.set("logprobs", row + 1, std::nan("")); }),
              HasSubstr("logprobs "));
  EXPECT_THAT(failures([&](EditableBundle& f) {
                f.set("logprobs", row + 1, f.get<double>("logprobs", row + 1) - 1e-3);
              }),
              HasSubstr("logprobs "));
  EXPECT_THAT(failures([&](EditableBundle& f) {
                f.set("entropy", row + 1, f.get<double>("entropy", row + 1) + 1e-3);
              }),
              HasSubstr("entropy "));
  EXPECT_THAT(
      failures([&](EditableBundle& f) { f.set("loss", 0, f.get<double>("loss", 0) * 1.0001); }),
      HasSubstr("loss "));
  EXPECT_THAT(failures([](EditableBundle& f) {
                json metrics = json::parse(f.metadata()["metrics"].get<std::string>());
                metrics["ppl_avg"] = metrics["ppl_avg"].get<double>() * 1.001;
                metrics["n_seqs"] = nullptr;
                f.metadata()["metrics"] = metrics.dump();
              }),
              "metric.n_seqs metric.ppl_avg ");
}

TEST(Results, AreJudgedByWhatIsThere) {
  const ScratchFolder scratch;
  const std::string bundle = golden_path("nll_basic");
  EditableBundle file = EditableBundle::read(results_of(scratch, bundle, "fused"));
  for (const char* tensor : {"grad_logits", "entropy", "loss"}) file.remove(tensor);
  file.header.erase("__metadata__");
  const std::string part = scratch.file("part.safetensors");
  write_all(part, file.bytes());
  EXPECT_EQ(judge(scratch, bundle, part).exit_code, 0);
  const json trial = full_report(scratch.file("r.json"))["trials"][0];
  EXPECT_EQ(checks_in(trial), (std::vector<std::string>{"logprobs", "expected.logprobs"}));
  for (const char* name : {"masked_rows_zero", "gradient_rows_sum_to_zero", "entropy_in_range"}) {
    EXPECT_EQ(invariant_in(trial, name), "not_run") << name;
  }
  EXPECT_EQ(invariant_in(trial, "logprobs_nonpositive"), "passed");
  EXPECT_TRUE(trial["metrics"].empty());
}

/// Cuts the whole results of a bundle into results of the ranks of tp2cp2, by the views of the
/// ranks.
void cut_for_ranks(const ScratchFolder& scratch, const EditableBundle& bundle,
                   const EditableBundle& whole) {
  const auto cu_of = [](const EditableBundle& file, const char* name) {
    std::vector<std::int64_t> cu;
    for (std::size_t i = 0; i < file.header.at(name)["shape"][0].get<std::size_t>(); ++i) {
      cu.push_back(file.get<std::int32_t>(name, i));
    }
    return cu;
  };
  const std::vector<std::int64_t> cu = cu_of(bundle, "cu_seqlens");
  const std::int64_t vocab = whole.header.at("grad_logits")["shape"][1];
  for (int rank = 0; rank < 4; ++rank) {
    const std::string number = std::to_string(rank);
    const EditableBundle view =
        EditableBundle::read(scratch.file("b.rank" + number + ".safetensors"));
    const std::vector<std::int64_t> padded = cu_of(view, "cu_seqlens_padded");
    const std::int64_t begin =
        std::stoll(view.header.at("__metadata__")["vocab_start"].get<std::string>());
    const std::int64_t rows = view.header.at("logits")["shape"][0];
    const std::int64_t width = view.header.at("logits")["shape"][1];
    std::vector<double> logprobs(rows, 0.0);
    std::vector<double> gradient(rows * width, 0.0);
    for (std::int64_t k = 0; k < rows; ++k) {
      const auto position = view.get<std::int64_t>("positions", k);
      const std::int64_t i =
          std::upper_bound(padded.begin(), padded.end(), position) - padded.begin() - 1;
      const std::int64_t row = cu[i] + position - padded[i];
      if (row >= cu[i + 1]) continue;
      if (row + 1 < cu[i + 1]) logprobs[k] = whole.get<double>("logprobs", row + 1);
      for (std::int64_t v = begin; v < std::min(vocab, begin + width); ++v) {
        gradient[k * width + v - begin] = whole.get<double>("grad_logits", row * vocab + v);
      }
    }
    const auto bytes = [](const std::vector<double>& values) {
      return std::string(reinterpret_cast<const char*>(values.data()), values.size() * 8);
    };
    EditableBundle file;
    file.metadata() = whole.header.at("__metadata__");
    file.add("loss", "F64", {1}, bytes({whole.get<double>("loss", 0)}));
    file.add("logprobs", "F64", {rows}, bytes(logprobs));
    file.add("grad_logits", "F64", {rows, width}, bytes(gradient));
    write_all(scratch.file("r.rank" + number + ".safetensors"), file.bytes());
  }
}

TEST(Results, AreJudgedByRankOnTheirGrid) {
  const ScratchFolder scratch;
  const std::string bundle = scratch.file("b.safetensors");
  ASSERT_EQ(run_lossgrid(scratch,
                         "export --case 'lens=5+8+1+3 vocab=41 pad_multiple=3 bin_multiple=16' "
                         "--grid tp2cp2 --per-rank --out " +
                             bundle)
                .exit_code,
            0);
  cut_for_ranks(scratch, EditableBundle::read(bundle),
                EditableBundle::read(results_of(scratch, bundle, "fused")));
  const std::string files = scratch.file("r.rank{r}.safetensors");
  const ProcessResult right = judge(scratch, bundle, files, " --grid tp2cp2");
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;

  // Another grid has other shards.
  const ProcessResult other = judge(scratch, bundle, files, " --grid tp2cp1");
  EXPECT_EQ(other.exit_code, 65);
  EXPECT_THAT(other.err, HasSubstr("r.rank0.safetensors"));
  EXPECT_THAT(other.err, HasSubstr("must be [T_c] = [48]"));
  const ProcessResult more = judge(scratch, bundle, files, " --grid tp2cp4");
  EXPECT_EQ(more.exit_code, 65);

  // Only one rank is wrong.
  const std::string third = scratch.file("r.rank3.safetensors");
  EditableBundle wrong = EditableBundle::read(third);
  const std::size_t elements = wrong.header["grad_logits"]["shape"][0].get<std::size_t>() *
                               wrong.header["grad_logits"]["shape"][1].get<std::size_t>();
  for (std::size_t k = 0; k < elements; ++k) {
    wrong.set("grad_logits", k, 2 * wrong.get<double>("grad_logits", k));
  }
  write_all(third, wrong.bytes());
  EXPECT_EQ(judge(scratch, bundle, files, " --grid tp2cp2").exit_code, 10);
  const json trial = full_report(scratch.file("r.json"))["trials"][0];
  EXPECT_THAT(trial["reason"].get<std::string>(), HasSubstr("rank 3"));

  // The ranks' losses differ.
  wrong.set("loss", 0, wrong.get<double>("loss", 0) * (1 + 1e-9));
  write_all(third, wrong.bytes());
  EXPECT_EQ(judge(scratch, bundle, files, " --grid tp2cp2").exit_code, 10);
  EXPECT_EQ(
      invariant_in(full_report(scratch.file("r.json"))["trials"][0], "same_bits_on_all_ranks"),
      "failed");

  std::filesystem::remove(third);
  const ProcessResult missing = judge(scratch, bundle, files, " --grid tp2cp2");
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.err, HasSubstr("r.rank3.safetensors"));
}

TEST(Results, AreRefusedBeforeAnythingRunsIfTheyDoNotFit) {
  const ScratchFolder scratch;
  const std::string bundle = golden_path("nll_basic");
  const EditableBundle right = EditableBundle::read(results_of(scratch, bundle, "fused"));
  const std::string bad = scratch.file("bad.safetensors");
  const auto refused = [&](const auto& edit, const std::vector<std::string>& parts) {
    EditableBundle file = right;
    edit(file);
    write_all(bad, file.bytes());
    const ProcessResult result = run_lossgrid(
        scratch, "replay " + bundle + " --impl 'fused,results:file=" + bad + "' --grid tp1,tp2");
    EXPECT_EQ(result.exit_code, 65);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
  };
  refused([](EditableBundle& f) { f.header["logprobs"]["dtype"] = "I64"; }, {"logprobs", "I64"});
  refused(
      [](EditableBundle& f) {
        f.remove("logprobs");
        f.add("logprobs", "F64", {3}, std::string(24, '\0'));
      },
      {"\"logprobs\"", "[3]", "[T]"});
  refused([](EditableBundle& f) { f.metadata()["metrics"] = R"({"los_avg":1})"; },
          {"los_avg", "did you mean 'loss_avg'?"});
  refused([](EditableBundle& f) { f.data.pop_back(); }, {bad});
  refused([](EditableBundle& f) { f.header["__metadata__"]["format"] = "x"; }, {"format"});
}

TEST(Results, NeedAFileAndAWholeBatch) {
  const ScratchFolder scratch;
  const std::string bundle = golden_path("nll_basic");
  const ProcessResult none = run_lossgrid(scratch, "replay " + bundle + " --impl results");
  EXPECT_EQ(none.exit_code, 65);
  EXPECT_THAT(none.err, HasSubstr("results:file="));
  const std::string file = results_of(scratch, bundle, "fused");
  const ProcessResult parts = judge(scratch, bundle, file, " --grid dp2");
  EXPECT_EQ(parts.exit_code, 77);
  EXPECT_THAT(parts.out, HasSubstr("plays back a batch as a whole"));
  const ProcessResult hidden = judge(scratch, golden_path("nll_linear"), file, "");
  EXPECT_EQ(hidden.exit_code, 77);
  const ProcessResult bench =
      run_lossgrid(scratch,
                   "bench --case 'lens=5 vocab=8' --min-samples 2 --max-seconds 0.01 "
                   "--impl 'fused,results:file=" +
                       file + "'");
  EXPECT_EQ(bench.exit_code, 0) << bench.out << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("plays back what another program computed"));
  EXPECT_THAT(run_lossgrid(scratch, "list implementations").out,
              HasSubstr("results:file=R.safetensors"));
}

}  // namespace
}  // namespace lossgrid
