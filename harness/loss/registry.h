// SPDX-License-Identifier: Apache-2.0
// Registry of implementations and objectives by name. Filled by objects of static storage before
// main and by the files that a command loads; only read afterwards. Mutants, controls and probes
// are registered beside real implementations but listed apart.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/loss/loss_implementation.h"
#include "harness/loss/objective.h"

namespace lossgrid {

enum class ImplementationKind {
  real,
  mutant,    // deliberately wrong: a suite must reject it
  control,   // another right computation of the same results: a suite must not reject it
  probe,     // right, with a known cost that a measurement must show; no suite runs it
  recorded,  // plays back results of another program from a file; no suite runs it
  external,  // loaded from a user's file
};

using ImplementationOptions = std::map<std::string, std::string>;

struct ImplementationEntry {
  std::string name;
  ImplementationKind kind = ImplementationKind::real;
  std::string catalogue_id;  // kind of a mutant, "M4" (impls/mutants/mutant.h); empty: no number
  std::string what;          // difference of a mutant, control or probe
  /// Throws bad_input for an unknown option or a bad value.
  std::function<std::unique_ptr<LossImplementation>(const ImplementationOptions&)> make;
  std::string file = {};  // file of a loaded implementation; empty: built in
  // Values that each option offers, the default first. All values are verified.
  std::map<std::string, std::vector<std::string>> offers = {};
  // Values of options that take other paths through the code in small cases; a hunt draws them.
  std::map<std::string, std::vector<std::string>> draws = {};
  // Flags that load the implementation again, quoted for a shell: "--load my_loss.py --python
  // python3.12".
  std::string load_flags = {};
  /// Makes an unregistered mutant of the implementation, "NAME/MUTANT"; empty: it has no mutants.
  /// Throws bad_input with the names of mutants.
  std::function<std::unique_ptr<LossImplementation>(const std::string& mutant,
                                                    const ImplementationOptions&)>
      make_mutant = {};
  std::string seen_in = {};  // place where a mutant happened (impls/mutants/mutant.h)
  // Check, invariant, verdict or cost that has to reject a mutant; empty: any.
  std::string rejected_by = {};
  // Implementation that a mutant or control changes, as in --impl; empty: not named.
  std::string unchanged = {};
  // Backend for a mutant whose mistake no other backend shows, whatever backend a suite requests.
  std::optional<Backend> backend = {};
};

void register_implementation(ImplementationEntry entry);
void register_objective(ObjectiveEntry entry);

/// Calls `derive` at the first look for an implementation, when all that is built in is registered:
/// it registers implementations that are made of objectives.
void register_derived(std::function<void()> derive);

/// Return the entries, sorted by name.
std::vector<const ImplementationEntry*> implementations(ImplementationKind kind);
std::vector<const ObjectiveEntry*> objectives();

/// Makes an implementation from "name", "name:option=value:option=value", or, for a loaded
/// implementation, "name/mutant". Throws bad_input with the nearest name.
std::unique_ptr<LossImplementation> make_implementation(std::string_view text);

/// Returns `texts`, each followed by its variants with every other value that the implementation
/// offers for an option, one option at a time: "mine", "mine:chunk=1", "mine:chunk=7". A text that
/// sets such an option itself gets no variants, and no text is repeated.
std::vector<std::string> with_offered_values(const std::vector<std::string>& texts);

/// Returns the entry of "name:option=value", or of "name" for "name/mutant"; null for an unknown
/// name.
const ImplementationEntry* find_implementation(std::string_view text);

/// Returns the entry of an objective. Throws bad_input with the known kinds.
const ObjectiveEntry& find_objective(std::string_view kind);

/// Returns the options of an objective with their given or default values. Throws bad_input.
std::vector<OptionDescription> describe_options(const ObjectiveSpec& spec);

/// Returns the spec with every option set, including defaults. Throws bad_input.
ObjectiveSpec with_all_options(const ObjectiveSpec& spec);

/// Makes the objective of a case, with the statistics of a step if `statistics`. Throws bad_input.
std::unique_ptr<Objective> make_objective(const ObjectiveSpec& spec, bool statistics,
                                          bool predictions = false);

/// Registers at static initialisation: `const Registered registered{ImplementationEntry{...}};`
struct Registered {
  explicit Registered(ImplementationEntry entry) { register_implementation(std::move(entry)); }
  explicit Registered(ObjectiveEntry entry) { register_objective(std::move(entry)); }
};

/// Throws bad_input if an option is not in `known`.
void require_known_options(const std::map<std::string, std::string>& options,
                           const std::vector<std::string>& known, std::string_view owner);

}  // namespace lossgrid
