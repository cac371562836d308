// SPDX-License-Identifier: Apache-2.0
#include "harness/external/user_mutants.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

using Json = nlohmann::json;

/// Change of one collective.
struct CallChange {
  const char* kind;
  const char* what;
};

constexpr CallChange kLeftOut{"skip", "is left out"};
constexpr CallChange kOfOtherGroup{"wrong_group", "is done over another group"};
constexpr CallChange kOfReductions{"wrong_op", "takes another operation"};
constexpr const char* kUnchanged = "unchanged";
constexpr const char* kOfEntropy = "entropy_gradient_factor";
constexpr const char* kPhases[] = {"forward", "backward"};

std::string mutant_of_call(const std::string& phase, std::size_t number, const char* kind) {
  return fmt::format("{}-{}-{}", phase, number, kind);
}

Json change_of_call(const std::string& phase, std::size_t number, const char* kind) {
  return {{"kind", kind}, {"call", number - 1}, {"phase", phase}};
}

/// Change of the whole function.
struct WholeChange {
  const char* mutant;
  const char* what;
  Json change;
  bool of_engines = false;  // changes a reduction that an engine makes itself
};

const std::vector<WholeChange>& whole_changes() {
  const auto factor = [](const char* mutant, const char* what, const Json& by) {
    return WholeChange{mutant, what, {{"kind", "gradient_factor"}, {"factor", by}}};
  };
  const auto of_entropy = [](const char* mutant, const char* what, double by) {
    return WholeChange{mutant, what, {{"kind", kOfEntropy}, {"factor", by}}};
  };
  const auto named = [](const char* mutant, const char* what) {
    return WholeChange{mutant, what, {{"kind", mutant}}};
  };
  const auto of_engines = [](WholeChange change) {
    change.of_engines = true;
    return change;
  };
  static const std::vector<WholeChange> changes{
      named("drop_backward", "collectives of the backward are left out"),
      factor("gradient_x2", "the gradient is multiplied by 2", 2.0),
      factor("gradient_x1.004", "the gradient is multiplied by 1.004", 1.004),
      factor("gradient_xcp", "the gradient is multiplied by cp", "cp"),
      of_entropy("entropy_gradient_x2", "the gradient of the entropy is multiplied by 2", 2.0),
      of_entropy("entropy_gradient_dropped", "the gradient of the entropy is left out", 0.0),
      named("gradient_zero_last_tp", "the gradient is zero on the last TP rank"),
      named("roll_labels", "labels are rolled by one inside the shard"),
      named("round_inputs", "inputs are rounded to bfloat16 first"),
      named("stale_outputs", "outputs are those of other inputs"),
      named("ignore_mask", "every mask holds ones"),
      named("latest_state", "the backward takes what the latest forward of any microbatch kept"),
      of_engines(factor("gradient_reduced_twice", "the gradient is reduced over DP and CP twice",
                        "dp*cp")),
      of_engines(named("gradient_not_reduced", "every rank over DP and CP has its own gradient")),
      of_engines(named("gradient_on_first_rank",
                       "the gradient is on the first rank over DP and CP alone")),
      of_engines(
          named("loss_on_first_rank", "the loss is that of the first rank over DP and CP alone")),
  };
  return changes;
}

std::string describe(const LearnedCall& call) {
  const std::string reduce = call.reduce.empty() ? "" : ' ' + call.reduce;
  return fmt::format("{}{} of {} bytes over {}", call.operation, reduce, call.payload_bytes,
                     call.group);
}

void add_call_mutants(const std::string& name, const std::string& phase,
                      const LearnedCalls::Calls& calls, std::vector<UserMutant>& out) {
  for (std::size_t k = 0; k < calls.size(); ++k) {
    const std::string call = describe(calls[k]);
    const auto add = [&](const CallChange& change) {
      out.push_back({name + '/' + mutant_of_call(phase, k + 1, change.kind),
                     fmt::format("collective {} of the {}, {} {}", k + 1, phase, call, change.what),
                     change_of_call(phase, k + 1, change.kind), ""});
    };
    add(kLeftOut);
    out.back().if_it_survives = fmt::format(
        "{}, collective {} of the {}: {} can be left out: "
        "nothing changes",
        name, k + 1, phase, call);
    add(kOfOtherGroup);
    if (!calls[k].reduce.empty()) add(kOfReductions);
  }
}

}  // namespace

std::string control_name(const std::string& name) {
  return name + '/' + kUnchanged;
}

nlohmann::json no_change() {
  return {{"kind", kUnchanged}};
}

nlohmann::json mutant_change(const std::string& mutant) {
  if (mutant == kUnchanged) return no_change();
  std::vector<std::string> known{kUnchanged};
  for (const WholeChange& change : whole_changes()) {
    if (mutant == change.mutant) return change.change;
    known.push_back(change.mutant);
  }
  const std::vector<std::string> parts = split(mutant, '-');
  for (const char* phase : kPhases) {
    for (const CallChange& change : {kLeftOut, kOfOtherGroup, kOfReductions}) {
      known.push_back(fmt::format("{}-K-{}", phase, change.kind));
      if (parts.size() != 3 || parts[0] != phase || parts[2] != change.kind) continue;
      constexpr std::int64_t kMostCalls = 1'000'000;
      const std::int64_t number =
          parse_integer(parts[1], "the collective of a mutant", 1, kMostCalls);
      return change_of_call(phase, static_cast<std::size_t>(number), change.kind);
    }
  }
  throw Error(ErrorCode::bad_input, unknown_name_message("mutant", mutant, known));
}

std::vector<UserMutant> user_mutants(const ExternalDeclaration& declaration,
                                     const LearnedCalls& learned) {
  std::vector<UserMutant> out;
  const std::string& name = declaration.name;
  std::size_t calls_of_backward = 0;
  for (const char* phase : kPhases) {
    const LearnedCalls::Calls calls = learned.of(name, phase);
    add_call_mutants(name, phase, calls, out);
    calls_of_backward = calls.size();
  }
  for (const WholeChange& change : whole_changes()) {
    const std::string kind = change.change.at("kind");
    if (kind == "drop_backward" && calls_of_backward == 0) continue;
    if (kind == "ignore_mask" && !declaration.returns_loss) continue;
    if (kind == "latest_state" && declaration.is_engine) continue;
    const bool has_entropy_gradient =
        declaration.returns_entropy && !learned.is_entropy_without_graph(name);
    if (kind == kOfEntropy && !has_entropy_gradient) continue;
    if (change.of_engines && !declaration.is_engine) continue;
    out.push_back({name + '/' + change.mutant, change.what, change.change, ""});
  }
  return out;
}

}  // namespace lossgrid
