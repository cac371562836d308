// SPDX-License-Identifier: Apache-2.0
// Presets: the conventions of training stacks, from their sources and reviews. Megatron-Core's
// schedule multiplies the loss by cp and divides it by the number of microbatches. A loss with a
// count of tokens is divided by the count and the number of microbatches, without the factor cp.
// Its DDP takes the sum if losses are per token, else the mean over DP x CP.
#include "harness/problem/case/framework.h"

#include <algorithm>
#include <cmath>
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

Framework counting(LossCounts counts, Framework framework) {
  framework.counts = counts;
  return framework;
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
      {"verl_fsdp", make("dp", "1", "cp", mean),
       "verl on FSDP with Ulysses: the backward of its gather multiplies by its size"},
      {"verl_megatron", make("dp*n_mb", "cp/n_mb", "1", mean), "verl on Megatron-Core"},
      {"verl_megatron_without_n_mb", make("dp", "cp/n_mb", "1", mean),
       "the same without its factor of the microbatches"},
      {"torchtitan", make("1", "1", "1", sum), "torchtitan: gradients are summed over DP"},
      {"torchtitan_mean_over_dp", make("1", "1", "1", mean), "the same with the mean of FSDP"},
      {"openrlhf", make("dp*n_mb", "1/n_mb", "cp", mean),
       "OpenRLHF on DeepSpeed, whose engine divides by the accumulation steps, with ring "
       "attention"},
      {"openrlhf_without_gas", make("dp", "1/n_mb", "cp", mean),
       "the same with counts of the whole window, not over its steps"},
      {"trl_dapo", make("dp*cp", "1", "1", mean),
       "TRL dapo, cispo, vespo: the count of the batch over the processes"},
      {"trl_dapo_accumulated", make("dp*cp", "1/n_mb", "1", mean),
       "the same divided by the accumulation steps once more"},
      {"megatron_per_token", make("1", "1", "1", sum),
       "Megatron-Core calculate_per_token_loss: divided by the global count at the end"},
      {"megatron_2_tuple", counting(LossCounts::pack, make("1", "cp/n_mb", "1", mean)),
       "Megatron-Core, a loss divided by the count of its microbatch"},
      {"megatron_3_tuple", counting(LossCounts::rank, make("1", "1/n_mb", "1", mean)),
       "Megatron-Core, a loss with the count of the CP rank's rows"},
      {"trl_bnpo", counting(LossCounts::rank, make("1", "1/n_mb", "1", mean)),
       "TRL bnpo: the mean of each process's microbatch"},
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

std::string_view name(LossCounts counts) {
  return counts == LossCounts::global ? "global" : counts == LossCounts::pack ? "pack" : "rank";
}

std::int64_t Framework::divisor(const TokenCounts& tokens) const {
  const std::int64_t count = counts == LossCounts::global ? tokens.global
                             : counts == LossCounts::pack ? tokens.pack
                                                          : tokens.rank;
  return std::max<std::int64_t>(count, 1);
}

double Framework::gradient_weight(const ScaleSizes& sizes, const TokenCounts& tokens) const {
  return net().value(sizes) / static_cast<double>(divisor(tokens));
}

bool Framework::is_right(const ScaleSizes& sizes, const TokenCounts& tokens) const {
  if (tokens.rank == 0) return true;
  if (counts == LossCounts::global) return net().is_one(sizes);
  const double want = static_cast<double>(divisor(tokens)) / static_cast<double>(tokens.global);
  return std::abs(net().value(sizes) - want) < 1e-12 * want;
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
  for (const LossCounts counts : {LossCounts::global, LossCounts::pack, LossCounts::rank}) {
    if (spec.counts == name(counts)) framework.counts = counts;
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
  if (framework.counts != LossCounts::global) {
    text += fmt::format(", over the tokens of the {}", name(framework.counts));
  }
  return text;
}

}  // namespace lossgrid
