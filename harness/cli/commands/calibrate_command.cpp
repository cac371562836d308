// SPDX-License-Identifier: Apache-2.0
// lossgrid calibrate: measures this machine for predictions of time, and writes a file for
// --machine. Processes of a launcher measure only the links between them, and add these to the file
// of a run without a launcher.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/flags/byte_count.h"
#include "harness/cli/session.h"
#include "harness/cli/text/output.h"
#include "harness/core/file.h"
#include "harness/core/text.h"
#include "harness/planner/model/collective_time.h"
#include "harness/planner/model/link_fit.h"
#include "harness/planner/model/machine_file.h"
#include "harness/runner/timing/calibration.h"
#include "reports/file/report_json.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

struct CalibrateFlags {
  CalibrationRequest request{.name = "here", .memory_pass_bytes = 0, .max_seconds = 2};
  std::string memory;
  std::string out = "machine.json";
};

std::string giga(double rate) {
  return fmt::format("{:.4g}", 1e-9 * rate);
}

std::string format_rates(const Machine& machine) {
  TextTable table;
  table.add_columns({"rate", "of"}, Align::left);
  table.add_columns({"1e9 a second"}, Align::right);
  const auto add_memory = [&](const char* place, const MemoryRates& rates) {
    table.add_row({"read", place, giga(rates.read_bytes_per_second)});
    table.add_row({"copy", place, giga(rates.copy_bytes_per_second)});
    table.add_row({"update", place, giga(rates.update_bytes_per_second)});
  };
  add_memory("bytes of memory", machine.memory);
  if (machine.cache) add_memory("bytes of the last cache", *machine.cache);
  for (const auto& [dtype, rate] : machine.gemm_flops_per_second) {
    table.add_row({"products", fmt::format("FLOPs, {}", name(dtype)), giga(rate)});
  }
  for (const auto& [dtype, rate] : machine.exponentials_per_second) {
    table.add_row({"exponentials", fmt::format("elements, {}", name(dtype)), giga(rate)});
  }
  for (const auto& [dtype, rate] : machine.kept_exponentials_per_second) {
    table.add_row(
        {"exponentials that are kept", fmt::format("elements, {}", name(dtype)), giga(rate)});
  }
  return table.text() +
         fmt::format(
             "  a phase {:.4g} us, a row {:.4g} ns, overlap of memory and exponentials {:.2f}\n",
             1e6 * machine.phase_seconds, 1e9 * machine.row_seconds, machine.overlap);
}

/// Returns every measured collective with the prediction of the fitted link.
std::string format_links(const Machine& machine, const Transport& transport,
                         const std::vector<CollectiveSample>& samples) {
  TextTable table;
  table.add_columns({"transport", "collective"}, Align::left);
  table.add_columns({"ranks", "payload", "us", "predicted us"}, Align::right);
  for (const CollectiveSample& sample : samples) {
    const auto payload = static_cast<double>(sample.payload_bytes);
    const std::vector<GroupLevel> levels =
        shared_levels(group_levels(transport, sample.ranks, 1), machine, transport, sample.ranks,
                      sample.operation, payload);
    const double predicted =
        fastest_collective(transport, sample.operation, levels, payload).seconds;
    table.add_row({transport.name, std::string(name(sample.operation)),
                   std::to_string(sample.ranks), format_bytes(sample.payload_bytes),
                   fmt::format("{:.4g}", 1e6 * sample.seconds),
                   fmt::format("{:.4g}", 1e6 * predicted)});
  }
  return table.text();
}

void set_transport(Transport transport, Machine& machine) {
  const auto old =
      std::find_if(machine.transports.begin(), machine.transports.end(),
                   [&](const Transport& known) { return known.name == transport.name; });
  if (old == machine.transports.end()) {
    machine.transports.push_back(std::move(transport));
  } else {
    *old = std::move(transport);
  }
}

ExitCode run(const CalibrateFlags& flags) {
  const Ranks ranks = start_ranks("auto");
  const bool links_alone = ranks.limit() > 0;
  std::string refused;
  Machine machine;
  if (links_alone && ranks.limit() < 2) {
    throw Error(ErrorCode::usage, "calibrate measures links between two processes or more");
  }
  if (ranks.reports()) {
    try {
      if (links_alone) {
        std::vector<Machine> found = read_machines(flags.out);
        machine = std::move(found.front());
      } else {
        prepare_file_path(flags.out);
        print("measuring memory, row kernels and products\n");
        flush_output();
        CalibrationRequest request = flags.request;
        if (!flags.memory.empty()) {
          request.memory_pass_bytes = parse_bytes(flags.memory, "--memory");
        }
        machine = measure_machine(request);
        print_text(format_rates(machine));
      }
    } catch (const Error& error) {
      refused = error.what();
    }
  }
  refused = ranks.agree_on_first_error(refused);
  if (!refused.empty()) throw_bad_input("{}", refused);
  const std::vector<CollectiveSample> samples = measure_links(ranks);
  if (!ranks.reports()) return ExitCode::ok;
  const Transport transport = fit_transport(std::string(ranks.transport()), samples, machine.cores);
  print_text(format_links(machine, transport, samples));
  set_transport(transport, machine);
  write_file_atomically(flags.out, json_text(machines_to_json({machine})) + '\n');
  print("machine: {}\n", flags.out);
  return ExitCode::ok;
}

}  // namespace

void add_calibrate_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* command = app.add_subcommand(
      "calibrate", "measure this machine, for predictions of time (--machine FILE)");
  command->add_option("-o,--out", flags->out, "the file to write (default machine.json)");
  command->add_option("--name", flags->request.name, "name of the machine in it (default here)");
  command->add_option("--memory", flags->memory,
                      "size of an array that passes over memory read and write, as 512MiB (default "
                      "16 of the last caches)");
  command
      ->add_option("--max-seconds", flags->request.max_seconds,
                   "end of each timing of a kernel (default 2)")
      ->check(CLI::PositiveNumber);
  command->footer(
      "Measures the processor: memory, the last cache, row kernels, products, and collectives of "
      "threads.\nUnder a launcher the processes measure the collectives between them, and add them "
      "to the file:\n  lossgrid calibrate && mpirun -np 4 lossgrid calibrate\n"
      "Exit codes: 0 measured, 64 usage, 65 bad input.");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace lossgrid
