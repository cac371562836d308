// SPDX-License-Identifier: Apache-2.0
// Truths of objectives at the ends of their clips and at other switches, against one-sided finite
// differences: for a number that rounding may put on either side, the derivative of each side is
// right, and so may be half of it or the mean of both where two numbers tie, and nothing else is.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "harness/loss/registry.h"
#include "objective_batch.h"

namespace lossgrid {
namespace {

/// A batch in which one number of a row moves over a switch.
struct SwitchedRow {
  std::string name;
  std::unique_ptr<Objective> objective;
  ObjectiveBatch data;
  double at = 0;  // the number at the switch
  bool is_value = false;

  Enclosure& number(std::vector<TokenTruth>& rows) const {
    return is_value ? rows[0].terms[RowTerm::logsumexp] : rows[0].logprob;
  }
  ObjectiveTruth truth(const Enclosure& number) const {
    std::vector<TokenTruth> rows = token_truths(data);
    this->number(rows) = number;
    return objective->truth(with_needed(data.batch, objective->needs()), rows);
  }
  Enclosure gradient(const ObjectiveTruth& truth) const {
    return is_value ? truth.grad_terms[RowTerm::logsumexp][0] : truth.grad_logprob[0];
  }
};

ObjectiveBatch batch_of_rows(std::vector<std::int64_t> lengths) {
  ObjectiveBatch data = make_objective_batch(
      {.lengths = std::move(lengths), .masked_share = 0, .part_of_more = false});
  for (float& x : data.logprobs) {
    if (!std::isnan(x)) x = -1;
  }
  return data;
}

/// Expects the sides of the number within `radius` of the switch.
void expect_sides(const SwitchedRow& row, double radius) {
  SCOPED_TRACE(fmt::format("{} at {} within {}", row.name, row.at, radius));
  constexpr double kStep = 1e-5;
  constexpr double kAway = 1e-4;
  const auto slope = [&](double from, double to) {
    return (row.truth(to).loss.value - row.truth(from).loss.value) / (to - from);
  };
  const double below = slope(row.at - kAway - kStep, row.at - kAway);
  const double above = slope(row.at + kAway, row.at + kAway + kStep);
  const ObjectiveTruth truth = row.truth(Enclosure::around(row.at, radius));
  std::vector<Enclosure> sides{row.gradient(truth)};
  if (const auto more = truth.grad_sides.find(0); more != truth.grad_sides.end()) {
    sides = more->second;
  }
  const double near = 2e-3 * std::max({std::abs(below), std::abs(above), 1e-3});
  const auto has_side = [&](double want) {
    return std::any_of(sides.begin(), sides.end(), [&](const Enclosure& side) {
      return side.low - near <= want && want <= side.high + near;
    });
  };
  EXPECT_TRUE(has_side(below)) << "the derivative below is " << below;
  EXPECT_TRUE(has_side(above)) << "the derivative above is " << above;
  EXPECT_GT(std::abs(below - above), near) << "no switch";
  for (const Enclosure& side : sides) {
    const double allowed[] = {below, above, below / 2, above / 2, (below + above) / 2};
    EXPECT_TRUE(std::any_of(std::begin(allowed), std::end(allowed),
                            [&](double x) { return std::abs(x - side.value) <= near; }))
        << side.value << " is neither " << below << " nor " << above;
    EXPECT_LT(side.radius(), near);
  }
}

SwitchedRow value_row(const std::string& name, ObjectiveOptions options, double at, float old_value,
                      float target) {
  SwitchedRow row{name, find_objective("value").make(options), batch_of_rows({2}), at, true};
  row.data.terms[RowTerm::logsumexp][0] = static_cast<float>(at);
  set_input(row.data, TokenInput::returns, 1, target);
  set_input(row.data, TokenInput::old_values, 1, old_value);
  return row;
}

/// Values at ends of a range, with returns beyond it: outside the clipped loss is the larger one.
std::vector<SwitchedRow> value_rows() {
  std::vector<SwitchedRow> rows;
  for (const char* type : {"\"mse\"", "\"huber\""}) {
    const ObjectiveOptions options{
        {"cliprange_value", "0.5"}, {"loss_type", type}, {"huber_delta", "0.75"}};
    const std::string name = fmt::format("value {}", type);
    rows.push_back(value_row(name + " low", options, 0, 0.5F, -0.25F));
    rows.push_back(value_row(name + " high", options, 1, 0.5F, 1.25F));
    rows.push_back(value_row(name + " negative", options, -3, -2.5F, -3.5F));
  }
  return rows;
}

TEST(ClipEnds, ValuesHaveTheGradientOfEitherSide) {
  for (const SwitchedRow& row : value_rows()) {
    for (const double radius : {1e-9, 1e-7}) expect_sides(row, radius);
    if (row.at == 0) expect_sides(row, 0x1p-126);  // a denormal value, or 0 in its place
  }
}

TEST(ClipEnds, AValueAtAnEndThatIsKnownIsInside) {
  for (const SwitchedRow& row : value_rows()) {
    const ObjectiveTruth truth = row.truth(row.at);
    EXPECT_TRUE(truth.grad_sides.empty()) << row.name;
    const double returned = row.data.batch.inputs[static_cast<int>(TokenInput::returns)][1];
    const double d = row.at - returned;
    const double slope = std::clamp(d, -0.75, 0.75);
    const bool is_huber = row.name.find("huber") != std::string::npos;
    EXPECT_DOUBLE_EQ(row.gradient(truth).value, is_huber ? slope : d) << row.name;
  }
}

/// One token of `clipped_pg` with x = -1 and an input so that its log-ratio is `log_ratio`.
SwitchedRow policy_row(const std::string& name, ObjectiveOptions options, TokenInput input,
                       double log_ratio, float advantage) {
  options.try_emplace("reference_policy_kl_penalty", "0");
  SwitchedRow row{name, find_objective("clipped_pg").make(options), batch_of_rows({2})};
  for (const TokenInput which : {TokenInput::prev_logprobs, TokenInput::generation_logprobs,
                                 TokenInput::reference_policy_logprobs}) {
    set_input(row.data, which, 1, -1.03);
  }
  set_input(row.data, TokenInput::advantages, 1, advantage);
  set_input(row.data, input, 1, -1 - log_ratio);
  row.at = row.data.batch.inputs[static_cast<std::size_t>(input)][1] + log_ratio;
  return row;
}

TEST(ClipEnds, RatiosHaveTheGradientOfEitherSide) {
  const TokenInput prev = TokenInput::prev_logprobs;
  const ObjectiveOptions ppo{{"ratio_clip_min", "0.25"}, {"ratio_clip_max", "0.5"}};
  const auto with = [](ObjectiveOptions options, const ObjectiveOptions& more) {
    options.insert(more.begin(), more.end());
    return options;
  };
  const ObjectiveOptions bounds = with({{"ratio_clip_max", "9"}, {"ratio_clip_min", "1"}},
                                       {{"log_ratio_min", "-0.5"}, {"log_ratio_max", "0.25"}});
  const ObjectiveOptions sequences{{"sequence_level_importance_ratios", "true"},
                                   {"token_level_loss", "false"}};
  const ObjectiveOptions geo_mean{{"policy_loss", "\"geo_mean\""},
                                  {"token_level_loss", "false"},
                                  {"ratio_clip_min", "0.25"},
                                  {"ratio_clip_max", "0.5"}};
  const SwitchedRow rows[] = {
      policy_row("ppo high", ppo, prev, std::log(1.5), 1),
      policy_row("ppo low", ppo, prev, std::log(0.75), -1),
      policy_row("gspo high", with(ppo, sequences), prev, std::log(1.5), 1),
      policy_row("dual clip", with(ppo, {{"ratio_clip_c", "1.75"}}), prev, std::log(1.75), -1),
      policy_row("log ratio high", bounds, prev, 0.25, 1),
      policy_row("log ratio low", bounds, prev, -0.5, -1),
      policy_row("sapo, log ratio", with(bounds, {{"policy_loss", "\"sapo\""}}), prev, 0.25, 1),
      policy_row("geo_mean high", geo_mean, prev, 0.5, 1),
      policy_row("geo_mean low", geo_mean, prev, -0.25, -1),
      policy_row("kl_cov at 0", {{"policy_loss", "\"kl_cov\""}, {"kl_cov_ratio", "1"}}, prev, 0, 1),
  };
  for (const SwitchedRow& row : rows) expect_sides(row, 1e-7);
}

TEST(ClipEnds, KlPenaltiesHaveTheGradientOfEitherSide) {
  const TokenInput reference = TokenInput::reference_policy_logprobs;
  const auto kl = [](const char* type, ObjectiveOptions more = {}) {
    more.insert({{"reference_policy_kl_penalty", "0.5"},
                 {"reference_policy_kl_type", type},
                 {"kl_gradient", "\"value\""}});
    return more;
  };
  const SwitchedRow rows[] = {
      policy_row("abs at 0", kl("\"abs\""), reference, 0, 0),
      policy_row("input clamp high", kl("\"k3\"", {{"kl_input_clamp_value", "0.5"}}), reference,
                 0.5, 0),
      policy_row("input clamp low", kl("\"k2\"", {{"kl_input_clamp_value", "0.5"}}), reference,
                 -0.5, 0),
      policy_row("output clamp of k1", kl("\"k1\"", {{"kl_output_clamp_value", "0.5"}}), reference,
                 0.5, 0),
      policy_row("output clamp of k2", kl("\"k2\"", {{"kl_output_clamp_value", "0.125"}}),
                 reference, -0.5, 0),
  };
  for (const SwitchedRow& row : rows) expect_sides(row, 1e-7);
}

TEST(ClipEnds, SampledDivergencesHaveTheGradientOfEitherSide) {
  const auto row_of = [](const char* mode, double d) {
    SwitchedRow row{
        fmt::format("on_policy_distill {}", mode),
        find_objective("on_policy_distill").make({{"loss_mode", mode}, {"loss_max_clamp", "0.5"}}),
        batch_of_rows({2})};
    set_input(row.data, TokenInput::teacher_logprobs, 1, -1 - d);
    row.at = row.data.batch.inputs[static_cast<int>(TokenInput::teacher_logprobs)][1] + d;
    return row;
  };
  for (const double radius : {1e-9, 1e-7}) {
    expect_sides(row_of("\"abs\"", 0), radius);
    expect_sides(row_of("\"abs\"", 0.5), radius);
    expect_sides(row_of("\"abs\"", -0.5), radius);
    expect_sides(row_of("\"k2\"", 1), radius);
    expect_sides(row_of("\"k2\"", -1), radius);
  }
}

TEST(ClipEnds, HingesHaveTheGradientOfEitherSide) {
  // One token a sequence: u = 2 (x - y) is 1 where the chosen one has x = y + 1/2.
  const auto row_of = [](const char* objective, ObjectiveOptions options) {
    options["loss_type"] = "\"hinge\"";
    SwitchedRow row{objective, find_objective(objective).make(options), batch_of_rows({2, 2})};
    row.data.logprobs[2] = -1.5F;
    for (const std::int64_t slot : {1, 3}) {
      set_input(row.data, TokenInput::reference_policy_logprobs, slot, -1);
    }
    row.at = -1;
    return row;
  };
  for (const double radius : {1e-9, 1e-7}) {
    expect_sides(row_of("dpo", {{"reference_policy_kl_penalty", "2"}}), radius);
    expect_sides(row_of("cpo", {{"beta", "2"}, {"cpo_alpha", "0"}}), radius);
  }
}

}  // namespace
}  // namespace lossgrid
