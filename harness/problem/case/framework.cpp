// SPDX-License-Identifier: Apache-2.0
// Presets: the conventions of NeMo-RL, AReaL and SkyRL, from their sources and reviews.
// Megatron-Core's schedule multiplies the loss by cp and divides it by the number of microbatches;
// its DDP takes the sum when losses are per token, else the mean over DP x CP.
#include "harness/problem/case/framework.h"

#include <algorithm>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

Framework make(std::string_view loss, std::string_view schedule, std::string_view gather,
               DpReduction dp_reduction, std::string_view metrics = "1") {
  return {parse_scale(loss, "loss"), parse_scale(schedule, "schedule"),
          parse_scale(gather, "gather"), dp_reduction, parse_scale(metrics, "metrics")};
}

std::vector<FrameworkPreset> make_presets() {
  using enum DpReduction;
  return {
      {"nemo_rl_megatron", make("1/cp*n_mb/cp", "cp/n_mb", "cp", sum),
       "NeMo-RL on Megatron-Core: per-token losses, so DDP takes the sum"},
      {"nemo_rl_automodel", make("dp*cp", "1", "1", mean),
       "NeMo-RL on FSDP with DTensor context parallelism"},
      {"nemo_rl_pp_adapter", make("dp*cp", "1", "1", mean),
       "NeMo-RL PPLossAdapter whose gather keeps the own part (#2242)"},
      {"nemo_rl_pp_adapter_gather_reduces", make("dp*cp", "1", "cp", mean),
       "the same before, with an all-reduce in the backward of the gather"},
      {"areal", make("1/cp*dp*n_mb", "cp/n_mb", "cp", mean), "AReaL on Megatron-Core"},
      {"areal_schedule_without_cp", make("1/cp*dp*n_mb", "1/n_mb", "cp", mean),
       "the same on a schedule that does not multiply by cp"},
      {"areal_cp_local", make("dp*n_mb", "cp/n_mb", "1", mean),
       "AReaL with losses of the own rows and no gather (#1223)"},
      {"skyrl", make("n_mb*dp", "cp/n_mb", "1", mean), "SkyRL with packed sequences (#1751)"},
      {"skyrl_extra_cp", make("n_mb*dp*cp", "cp/n_mb", "1", mean),
       "SkyRL from #1420 to #1751: one cp more in the correction of the loss"},
      {"skyrl_metrics_over_cp", make("n_mb*dp", "cp/n_mb", "1", mean, "cp"),
       "SkyRL before #1420: gathered metrics are summed over DP x CP again"},
      {"skyrl_metrics_over_cp_schedule_without_cp", make("n_mb*dp", "1/n_mb", "1", mean, "cp"),
       "the same on a schedule that does not multiply by cp"},
  };
}

const Framework& find_preset(std::string_view name) {
  const std::span<const FrameworkPreset> presets = framework_presets();
  const auto at =
      std::find_if(presets.begin(), presets.end(),
                   [name](const FrameworkPreset& preset) { return preset.name == name; });
  if (at == presets.end()) throw Error(ErrorCode::internal, "a case holds an unknown framework");
  return at->framework;
}

}  // namespace

std::string_view name(DpReduction reduction) {
  return reduction == DpReduction::mean ? "mean" : "sum";
}

ScaleFactor Framework::reduction() const {
  return dp_reduction == DpReduction::mean ? ScaleFactor{-1, -1, 0} : ScaleFactor{};
}

std::array<ScaleFactor, 4> Framework::gradient_factors() const {
  return {loss, schedule, gather, reduction()};
}

ScaleFactor Framework::net() const {
  ScaleFactor product;
  for (const ScaleFactor& factor : gradient_factors()) product = product * factor;
  return product;
}

std::span<const FrameworkPreset> framework_presets() {
  static const std::vector<FrameworkPreset> presets = make_presets();
  return presets;
}

std::optional<Framework> stated_framework(const FrameworkSpec& spec) {
  if (spec == FrameworkSpec{}) return std::nullopt;
  Framework framework = spec.preset == kNoFramework ? Framework{} : find_preset(spec.preset);
  const auto replace = [](ScaleFactor& factor, const std::string& text) {
    if (text != kOfPreset) factor = parse_scale(text, "a factor of framework");
  };
  replace(framework.loss, spec.loss);
  replace(framework.schedule, spec.schedule);
  replace(framework.gather, spec.gather);
  replace(framework.metrics, spec.metrics);
  if (spec.dp_reduction != kOfPreset) {
    const bool mean = spec.dp_reduction == name(DpReduction::mean);
    framework.dp_reduction = mean ? DpReduction::mean : DpReduction::sum;
  }
  return framework;
}

std::string describe_scale(const Framework& framework, const ScaleSizes& sizes) {
  const ScaleFactor net = framework.net();
  std::string text = fmt::format("loss {} x schedule {} x gather {} x dp {} {} = {}",
                                 format_scale(framework.loss), format_scale(framework.schedule),
                                 format_scale(framework.gather), name(framework.dp_reduction),
                                 format_scale(framework.reduction()), format_scale(net));
  if (net != ScaleFactor{}) text += fmt::format(" = {:.6g}", net.value(sizes));
  return text;
}

}  // namespace lossgrid
