// SPDX-License-Identifier: Apache-2.0
#include "harness/external/external_implementation.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/external/option_values.h"
#include "harness/external/plugin/plugin_runtime.h"
#include "harness/external/plugin/plugin_worker.h"
#include "harness/external/python_launcher.h"
#include "harness/external/worker.h"

namespace lossgrid {
namespace {

// Local to a function, because registration happens during static initialisation of another file.
ExternalMaker::Make& maker() {
  static ExternalMaker::Make make;
  return make;
}

/// Returns a value in the form of `--impl`.
std::string option_text(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::string> option_texts(const std::vector<nlohmann::json>& values) {
  std::vector<std::string> texts;
  for (const nlohmann::json& value : values) texts.push_back(option_text(value));
  return texts;
}

std::map<std::string, std::vector<std::string>> offered_texts(
    const ExternalDeclaration& declaration) {
  std::map<std::string, std::vector<std::string>> offers;
  for (const auto& [option, values] : declaration.offers) offers[option] = option_texts(values);
  return offers;
}

void require_offered(const ExternalDeclaration& declaration, const std::string& option,
                     const nlohmann::json& value) {
  const auto found = declaration.offers.find(option);
  if (found == declaration.offers.end()) return;
  const std::vector<nlohmann::json>& values = found->second;
  if (std::find(values.begin(), values.end(), value) != values.end()) return;
  throw_bad_input("option {} = {} is not one that '{}' offers: {}", option, option_text(value),
                  declaration.name, join(option_texts(values), ", "));
}

struct Loaded {
  ExternalDeclaration declaration;
  std::shared_ptr<ExternalRuntime> runtime;
  std::string load_flags;

  std::unique_ptr<LossImplementation> make(const ImplementationOptions& options) const {
    return maker()(declaration, options, runtime);
  }
  /// Returns a copy with the change of a mutant.
  Loaded with(const nlohmann::json& change) const {
    Loaded changed = *this;
    changed.declaration.change = change;
    changed.declaration.has_cost = false;  // a mutant must fail by its results, not by its cost
    return changed;
  }
};

std::vector<Loaded>& all_loaded() {
  static std::vector<Loaded> loaded;
  return loaded;
}

void add_entry(const Loaded& loaded, const std::string& name, ImplementationKind kind,
               const std::string& what, const std::string& unchanged = "") {
  ImplementationEntry entry{name, kind, "", what, [loaded](const ImplementationOptions& options) {
                              return loaded.make(options);
                            }};
  entry.file = loaded.declaration.file;
  entry.offers = offered_texts(loaded.declaration);
  entry.load_flags = loaded.load_flags;
  entry.unchanged = unchanged;
  entry.make_mutant = [loaded](const std::string& mutant, const ImplementationOptions& options) {
    return loaded.with(mutant_change(mutant)).make(options);
  };
  register_implementation(std::move(entry));
}

bool is_taken(const std::string& name) {
  for (const auto kind : {ImplementationKind::real, ImplementationKind::external}) {
    for (const ImplementationEntry* entry : implementations(kind)) {
      if (entry->name == name) return true;
    }
  }
  return false;
}

void add_loaded(const ExternalDeclaration& declaration, std::shared_ptr<ExternalRuntime> runtime,
                const std::string& other_flags) {
  if (is_taken(declaration.name)) {
    throw_bad_input("{}: there is an implementation '{}' already", declaration.file,
                    declaration.name);
  }
  const std::string flags = "--load " + shell_word(declaration.file) + other_flags;
  const Loaded& loaded = all_loaded().emplace_back(Loaded{declaration, std::move(runtime), flags});
  add_entry(loaded, declaration.name, ImplementationKind::external, declaration.summary);
}

void load_scripts(const std::vector<std::string>& files, const LoadRequest& request) {
  const auto launcher =
      std::make_shared<WorkerLauncher>(python_program(request.python), request.answer_time);
  const auto pool = std::make_shared<WorkerPool>(launcher);
  for (ExternalDeclaration& declaration : launcher->load(files)) {
    for (const std::string& file : files) {
      std::error_code ignored;
      if (std::filesystem::equivalent(file, declaration.file, ignored)) declaration.file = file;
    }
    add_loaded(declaration, pool, request.python_flag);
  }
}

void load_plugin(const std::string& file, const LoadRequest& request) {
  if (request.isolate) {
    const auto launcher =
        std::make_shared<WorkerLauncher>(plugin_worker_program(), request.answer_time);
    const auto pool = std::make_shared<WorkerPool>(launcher);
    for (const ExternalDeclaration& declaration : launcher->load({file})) {
      add_loaded(declaration, pool, " --isolate");
    }
    return;
  }
  const auto library = std::make_shared<const PluginLibrary>(file);
  const auto runtime = std::make_shared<PluginRuntime>(library);
  for (const PluginImplementation& implementation : library->implementations()) {
    add_loaded(declaration_from(implementation.declaration), runtime, "");
  }
}

}  // namespace

bool is_plugin(const std::string& file) {
  return file.ends_with(".so");
}

ExternalMaker::ExternalMaker(Make make) {
  maker() = std::move(make);
}

nlohmann::json typed_options(const ExternalDeclaration& declaration,
                             const ImplementationOptions& options) {
  std::vector<std::string> known;
  for (const auto& [name, type] : declaration.options) known.push_back(name);
  require_known_options(options, known, declaration.name);
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [name, text] : options) {
    out[name] = typed_value(name, text, declaration.options.at(name));
    require_offered(declaration, name, out[name]);
  }
  return out;
}

void load_implementations(const LoadRequest& request) {
  std::vector<std::string> scripts;
  for (const std::string& file : request.files) {
    if (is_plugin(file)) {
      load_plugin(file, request);
    } else {
      scripts.push_back(file);
    }
  }
  if (!scripts.empty()) load_scripts(scripts, request);
}

std::vector<UserMutant> register_user_mutants(const std::string& name) {
  const auto found = std::find_if(all_loaded().begin(), all_loaded().end(),
                                  [&](const Loaded& one) { return one.declaration.name == name; });
  if (found == all_loaded().end()) throw_bad_input("'{}' was not loaded", name);
  const std::vector<UserMutant> mutants =
      user_mutants(found->declaration, found->runtime->learned_calls());
  const std::string control = control_name(name);
  for (const UserMutant& mutant : mutants) {
    add_entry(found->with(mutant.change), mutant.name, ImplementationKind::mutant, mutant.what,
              control);
  }
  add_entry(found->with(no_change()), control, ImplementationKind::control,
            "run as a mutant is, with nothing changed", name);
  return mutants;
}

}  // namespace lossgrid
