// SPDX-License-Identifier: Apache-2.0
#include "impls/mutants/mutant.h"

#include "harness/core/error.h"

namespace lossgrid {
namespace {

void register_changed(const MutantOf& changed, ImplementationKind kind, const char* prefix) {
  ImplementationEntry entry;
  entry.name = std::string(prefix) + changed.name;
  entry.kind = kind;
  entry.catalogue_id = changed.catalogue_id;
  entry.what = fmt::format("{}: {}", changed.strategy, changed.what);
  entry.make = [changed, name = entry.name](const ImplementationOptions& options) {
    require_known_options(options, {}, name);
    Steps steps;
    changed.change(steps);
    return make_strategy(changed.strategy, steps, changed.options);
  };
  register_implementation(std::move(entry));
}

}  // namespace

RegisteredMutant::RegisteredMutant(const MutantOf& mutant) {
  register_changed(mutant, ImplementationKind::mutant, "mutant/");
}

RegisteredControl::RegisteredControl(const MutantOf& control) {
  register_changed(control, ImplementationKind::control, "control/");
}

}  // namespace lossgrid
