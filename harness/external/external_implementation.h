// SPDX-License-Identifier: Apache-2.0
// Loading of external implementations: from the files of users to entries of the registry. The
// class that runs implementations (impls/adapters/external.cpp) registers itself here, because it
// is built on the strategies.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/external/declaration.h"
#include "harness/external/external_runtime.h"
#include "harness/external/user_mutants.h"
#include "harness/loss/registry.h"

namespace lossgrid {

/// Static object that registers the function that makes an implementation from a declaration.
struct ExternalMaker {
  using Make = std::function<std::unique_ptr<LossImplementation>(
      const ExternalDeclaration&, const ImplementationOptions&, std::shared_ptr<ExternalRuntime>)>;
  explicit ExternalMaker(Make make);
};

struct LoadRequest {
  std::vector<std::string> files;  // .py and .so
  std::string python;              // interpreter
  // " --python PYTHON" for a command line that loads the same files; may be ""
  std::string python_flag;
  bool isolate = false;                            // plugins run in worker processes
  std::chrono::milliseconds answer_time{300'000};  // limit of user functions before a trial
};

/// True if the name of `file` marks it as a plugin (include/lossgrid/plugin.h).
bool is_plugin(const std::string& file);

/// Loads the files, once per process, and registers their implementations as
/// ImplementationKind::external. Throws bad_input for a file that cannot be loaded, a wrong
/// declaration or a name in use.
void load_implementations(const LoadRequest& request);

/// Registers the mutants of a loaded implementation (user_mutants.h), made from the collectives of
/// its trials so far, and its control. Returns the mutants. Throws bad_input if `name` was not
/// loaded.
std::vector<UserMutant> register_user_mutants(const std::string& name);

/// Returns options in the types of the user's function, "chunk=128" as the number 128. Throws
/// bad_input for an unknown option, a value of another type, or a value that the option does not
/// offer.
nlohmann::json typed_options(const ExternalDeclaration& declaration,
                             const ImplementationOptions& options);

}  // namespace lossgrid
