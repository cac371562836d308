// SPDX-License-Identifier: Apache-2.0
// lossgrid list: suites, implementations and everything else that can be run, models whose sizes a
// plan can use, and formats of exports.
#include <algorithm>
#include <memory>
#include <sstream>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/flags/cases_flag.h"
#include "harness/cli/flags/load_flags.h"
#include "harness/cli/text/list_pages.h"
#include "harness/cli/text/models.h"
#include "harness/cli/text/mutants_page.h"
#include "harness/cli/text/options_page.h"
#include "harness/cli/text/output.h"
#include "harness/comm/cp_layout.h"
#include "harness/comm/mpi/mpi_ranks.h"
#include "harness/comm/nccl/nccl_transport.h"
#include "harness/core/process/terminal.h"
#include "harness/core/text.h"
#include "harness/device/backend.h"
#include "harness/loss/registry.h"
#include "harness/planner/model/machine_file.h"
#include "harness/problem/batch/case_rules.h"
#include "harness/problem/case/case_keys.h"
#include "harness/problem/case/checked_json.h"
#include "harness/problem/case/framework.h"
#include "reports/exports/exporter.h"
#include "reports/record/invariants.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

/// Prints an entry of a list: `name`, then `text`. On a narrow terminal the text is broken between
/// words and continues below its begin, or below the name if there is little room.
void print_entry(const std::string& name, const std::string& text) {
  constexpr std::size_t kLeastText = 24;
  constexpr std::size_t kIndent = 4;
  static const TextStyle style = stdout_style();
  const std::string line = name + ' ' + text;
  if (style.columns <= kIndent || line.size() <= style.columns) {
    print("{}\n", line);
    return;
  }
  const bool is_beside = name.size() + 1 + kLeastText <= style.columns;
  const std::size_t indent = is_beside ? name.size() + 1 : kIndent;
  std::istringstream lines(wrapped(text, style.columns - indent));
  std::string before = is_beside ? name + ' ' : name + '\n' + std::string(indent, ' ');
  for (std::string part; std::getline(lines, part);) {
    print("{}{}\n", before, part);
    before = std::string(indent, ' ');
  }
}

void list_suites() {
  for (const std::string& name : suite_names()) {
    for (const Suite& suite : load_suites(name)) {
      const std::size_t skips = suite.skips ? suite.skips->size() : 0;
      const std::string stated = skips > 0 ? fmt::format(", {} stated skips", skips) : "";
      print_entry(
          fmt::format("{:<24}", name),
          fmt::format("{} cases, {} grids, {} implementations{}: {}", suite.cases.size(),
                      suite.grids.size(), suite.implementations.size(), stated, suite.summary));
    }
  }
}

/// Returns the values that options offer: " (chunk: 64, 1, 7)".
std::string format_offers(const ImplementationEntry& entry) {
  std::vector<std::string> options;
  for (const auto& [option, values] : entry.offers) {
    options.push_back(fmt::format("{}: {}", option, join(values, ", ")));
  }
  return options.empty() ? "" : fmt::format(" ({})", join(options, "; "));
}

void list_implementations() {
  for (const ImplementationEntry* entry : implementations(ImplementationKind::real)) {
    const ImplementationTraits description = entry->make({})->describe();
    print_entry(fmt::format("{:<18}", entry->name), description.summary);
  }
  for (const ImplementationEntry* entry : implementations(ImplementationKind::recorded)) {
    print_entry(fmt::format("{:<18}", entry->name), entry->what);
  }
  for (const ImplementationEntry* entry : implementations(ImplementationKind::external)) {
    print_entry(fmt::format("{:<18}", entry->name),
                fmt::format("external, {}: {}{}", entry->file, entry->what, format_offers(*entry)));
  }
}

void list_mutants() {
  for (const auto kind :
       {ImplementationKind::mutant, ImplementationKind::control, ImplementationKind::probe}) {
    for (const ImplementationEntry* entry : implementations(kind)) {
      print_entry(fmt::format("{:<44} {:<4}", entry->name, entry->catalogue_id), entry->what);
    }
  }
}

void list_objectives() {
  for (const ObjectiveEntry* entry : objectives()) {
    print_entry(fmt::format("{:<18}", entry->kind), entry->summary);
  }
}

/// Prints the options of every objective with their defaults.
void list_options() {
  for (const ObjectiveEntry* entry : objectives()) {
    for (const OptionDescription& option : entry->document()) {
      print_entry(fmt::format("{:<18} {:<40} {:<12}", entry->kind, option.name, option.fallback),
                  option.effect);
    }
  }
}

void list_layouts() {
  for (const CpLayoutRules& rules : kCpLayouts) {
    print_entry(fmt::format("{:<22}", rules.name),
                fmt::format("rows of CP rank r: {}; pads {}", rules.rows, rules.padded));
  }
}

void list_invariants() {
  for (const InvariantEntry& entry : invariants()) {
    print_entry(fmt::format("{:<34}", entry.name), entry.condition);
  }
}

void list_keys() {
  print_entry(fmt::format("{:<22} {:<10}", "objective", "nll"),
              "see lossgrid list objectives; options as objective.NAME=VALUE");
  for (const CaseKey& key : case_keys()) {
    print_entry(fmt::format("{:<22} {:<10}", key.name, key.get(CaseSpec())), key.help);
  }
  print_text("\nRules between keys:\n");
  for (const CaseRule& rule : case_rules()) print_entry(" ", rule.name);
}

/// Prints each framework with the product of its factors for any dp, cp and n_mb.
void list_frameworks() {
  for (const FrameworkPreset& preset : framework_presets()) {
    const Framework& framework = preset.framework;
    print_entry(
        fmt::format("{:<41}", preset.name),
        fmt::format("net {:<12} loss {:<10} schedule {:<7} gather {:<3} dp {:<5} metrics {:<3} "
                    "counts {:<6} {}",
                    format_scale(framework.net()), format_scale(framework.loss),
                    format_scale(framework.schedule), format_scale(framework.gather),
                    name(framework.dp_reduction), format_scale(framework.metrics),
                    name(framework.counts), preset.summary));
  }
}

void list_models() {
  for (const ModelShape& model : load_models()) {
    print_entry(
        fmt::format("{:<18}", model.name),
        fmt::format("hidden={:<6} vocab={:<8} {}", model.hidden, model.vocab, model.source));
  }
}

void list_machines() {
  for (const Machine& machine : read_machines(machines_path())) {
    print_entry(fmt::format("{:<18}", machine.name),
                fmt::format("{}{}", machine.summary, machine.measured ? "" : "; not measured"));
  }
}

void list_backends() {
  for (const Backend backend : all_backends()) {
    if (const std::optional<SkipReason>& reason = no_device(backend)) {
      print_entry(fmt::format("{:<14}", name(backend)), "not here: " + reason->text);
      continue;
    }
    const std::vector<std::string> devices = describe_devices(backend);
    print_entry(fmt::format("{:<14}", name(backend)),
                devices.empty() ? "this processor" : join(devices, "; "));
  }
}

void list_transports() {
  const std::optional<SkipReason>& no_gpu = no_device(Backend::cuda);
  std::string nccl = "not here: " + text_of(no_nccl());
  if (!no_nccl()) {
    nccl = fmt::format("NCCL {} between GPUs of such ranks", nccl_version());
    if (nccl_is_emulated()) {
      nccl += ", an emulation for --backend cuda_emulated";
    } else if (no_gpu) {
      nccl = fmt::format("not here: NCCL {}, but no GPU: {}", nccl_version(), no_gpu->text);
    }
  }
  print_entry("thread ", "ranks are threads of one process");
  print_entry("mpi    ", mpi_is_compiled_in() ? "ranks are processes of an MPI launcher"
                                              : "not here: this build has no MPI");
  print_entry("nccl   ", nccl);
}

void list_exports() {
  for (const Exporter* exporter : exporters()) {
    print_entry(fmt::format("{:<23}", exporter->name), exporter->summary);
  }
}

struct Kind {
  const char* name;
  void (*print)();
};

constexpr Kind kKinds[] = {
    {"suites", list_suites},         {"implementations", list_implementations},
    {"objectives", list_objectives}, {"options", list_options},
    {"mutants", list_mutants},       {"layouts", list_layouts},
    {"invariants", list_invariants}, {"keys", list_keys},
    {"frameworks", list_frameworks}, {"models", list_models},
    {"machines", list_machines},     {"backends", list_backends},
    {"transports", list_transports}, {"exports", list_exports}};

ExitCode run(const std::string& what) {
  for (const Kind& kind : kKinds) {
    if (what == kind.name) {
      kind.print();
      return ExitCode::ok;
    }
  }
  throw Error(ErrorCode::usage, unknown_name_message("list", what, listable_kinds()));
}

ExitCode run_markdown(const std::string& what) {
  if (what == "mutants") {
    print("{}", format_mutants_page());
  } else if (what == "options") {
    print("{}", format_options_page());
  } else if (what == "invariants") {
    print("{}", format_invariants_page());
  } else if (what == "layouts") {
    print("{}", format_layouts_page());
  } else {
    throw Error(ErrorCode::usage,
                "--markdown is for list mutants, options, invariants and layouts");
  }
  return ExitCode::ok;
}

}  // namespace

std::vector<std::string> listable_kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

void add_list_command(CLI::App& app, Action& action) {
  auto what = std::make_shared<std::string>();
  auto load = std::make_shared<LoadFlags>();
  auto is_markdown = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("list",
                         "print the suites, implementations, objectives, their "
                         "options, mutants, invariants, CP layouts, case keys, frameworks, models, "
                         "machines, backends, transports or exports");
  command
      ->add_option("what", *what,
                   "suites, implementations, objectives, options, mutants, invariants, layouts, "
                   "keys, frameworks, "
                   "models, machines, "
                   "backends, transports or exports")
      ->required();
  add_cases_flag(*command);
  add_load_flags(*command, *load);
  command->add_flag("--markdown", *is_markdown,
                    "of mutants, options, invariants and layouts: the tables of docs/mutants.md, "
                    "docs/objectives.md, docs/verification.md and docs/concepts.md");
  command->callback([what, load, is_markdown, &action] {
    action = [what, load, is_markdown] {
      if (*is_markdown) return run_markdown(*what);
      load_requested(*load);
      return run(*what);
    };
  });
}

}  // namespace lossgrid
