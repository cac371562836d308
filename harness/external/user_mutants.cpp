// SPDX-License-Identifier: Apache-2.0
#include "harness/external/user_mutants.h"

#include <fmt/format.h>

namespace lossgrid {
namespace {

using Json = nlohmann::json;

struct Change {
  const char* kind;
  const char* what;
};

std::string describe(const LearnedCall& call) {
  const std::string reduce = call.reduce.empty() ? "" : ' ' + call.reduce;
  return fmt::format("{}{} of {} bytes over {}", call.operation, reduce, call.payload_bytes,
                     call.group);
}

void add_call_mutants(const std::string& name, const std::string& phase,
                      const LearnedCalls::Calls& calls, std::vector<UserMutant>& out) {
  constexpr Change kLeftOut{"skip", "is left out"};
  constexpr Change kOfOtherGroup{"wrong_group", "is done over another group"};
  constexpr Change kOfReductions{"wrong_op", "takes another operation"};
  for (std::size_t k = 0; k < calls.size(); ++k) {
    const std::string call = describe(calls[k]);
    const auto add = [&](const Change& change) {
      out.push_back({fmt::format("{}/{}-{}-{}", name, phase, k + 1, change.kind),
                     fmt::format("collective {} of the {}, {} {}", k + 1, phase, call, change.what),
                     {{"kind", change.kind}, {"call", k}, {"phase", phase}},
                     ""});
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

std::vector<UserMutant> user_mutants(const ExternalDeclaration& declaration,
                                     const LearnedCalls& learned) {
  std::vector<UserMutant> out;
  const std::string& name = declaration.name;
  const LearnedCalls::Calls backward = learned.of(name, "backward");
  add_call_mutants(name, "forward", learned.of(name, "forward"), out);
  add_call_mutants(name, "backward", backward, out);
  const auto add = [&](const std::string& suffix, const std::string& what, Json change) {
    out.push_back({name + '/' + suffix, what, std::move(change), ""});
  };
  if (!backward.empty()) {
    add("drop_backward", "collectives of the backward are left out", {{"kind", "drop_backward"}});
  }
  const auto add_factor = [&](const std::string& suffix, const Json& factor) {
    add("gradient_x" + suffix, "the gradient is multiplied by " + suffix,
        {{"kind", "gradient_factor"}, {"factor", factor}});
  };
  add_factor("2", 2.0);
  add_factor("1.004", 1.004);
  add_factor("cp", "cp");
  add("gradient_zero_last_tp", "the gradient is zero on the last TP rank",
      {{"kind", "gradient_zero_last_tp"}});
  add("roll_labels", "labels are rolled by one inside the shard", {{"kind", "roll_labels"}});
  add("round_inputs", "inputs are rounded to bfloat16 first", {{"kind", "round_inputs"}});
  add("stale_outputs", "outputs are those of other inputs", {{"kind", "stale_outputs"}});
  if (declaration.returns_loss) {
    add("ignore_mask", "every mask holds ones", {{"kind", "ignore_mask"}});
  }
  return out;
}

}  // namespace lossgrid
