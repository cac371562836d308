// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/text/time_table.h"

#include <algorithm>
#include <cmath>

#include "harness/core/text.h"
#include "reports/record/timing_record.h"
#include "reports/text/text_table.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kTimeColumns = 130;

std::int64_t in_nanoseconds(double seconds) {
  return std::llround(1e9 * seconds);
}

std::string in_milliseconds(double seconds) {
  return format_milliseconds(in_nanoseconds(seconds));
}

std::string share_text(double part, double of) {
  return of > 0 ? fmt::format("{:.0f}%", 100 * part / of) : "-";
}

void add_phase(const TimedPlan& plan, const std::string& phase, const PhaseTime& time,
               TextTable& table) {
  std::vector<std::string> cells{plan.row.implementation, format_grid(plan.row.grid), phase};
  for (const double seconds : {time.starts, time.rows, time.products, time.memory,
                               time.exponentials, time.cached, time.collectives, time.seconds()}) {
    cells.push_back(in_milliseconds(seconds));
  }
  cells.emplace_back(time.bound_by());
  table.add_row(std::move(cells));
}

/// Returns a line for every collective of the plans.
std::string collective_lines(const std::vector<TimedPlan>& plans) {
  TextTable table;
  table.add_columns({"implementation", "grid", "phase", "group", "collective"}, Align::left);
  table.add_columns({"calls", "payload", "ms"}, Align::right);
  table.add_columns({"algorithm"}, Align::left);
  for (const TimedPlan& plan : plans) {
    if (!plan.time) continue;
    for (const PredictedCollective& calls : plan.time->collectives) {
      table.add_row({plan.row.implementation, format_grid(plan.row.grid), calls.phase,
                     fmt::format("{} of {}", calls.group, calls.ranks),
                     std::string(name(calls.operation)), std::to_string(calls.count.calls),
                     format_bytes(calls.count.payload_bytes), in_milliseconds(calls.seconds),
                     std::string(name(calls.algorithm))});
    }
  }
  return table.text();
}

/// Returns a line about the CP rank with the most rows, for a grid whose ranks differ by at least a
/// hundredth.
std::string straggler_line(const TimedPlan& plan) {
  const BusiestRank& busiest = plan.time->busiest;
  if (static_cast<double>(busiest.rows) < 1.01 * busiest.mean_rows) return "";
  return fmt::format(
      "  straggler on {}: CP rank {} with {} rows, {} more than the mean\n",
      format_grid(plan.row.grid), busiest.cp_rank, busiest.rows,
      share_text(static_cast<double>(busiest.rows) - busiest.mean_rows, busiest.mean_rows));
}

Json phase_json(const PhaseTime& time) {
  return {{"time_ns", in_nanoseconds(time.seconds())},
          {"bound_by", time.bound_by()},
          {"starts_ns", in_nanoseconds(time.starts)},
          {"rows_ns", in_nanoseconds(time.rows)},
          {"products_ns", in_nanoseconds(time.products)},
          {"memory_ns", in_nanoseconds(time.memory)},
          {"exponentials_ns", in_nanoseconds(time.exponentials)},
          {"hidden_ns", in_nanoseconds(time.hidden)},
          {"cached_ns", in_nanoseconds(time.cached)},
          {"collectives_ns", in_nanoseconds(time.collectives)}};
}

}  // namespace

std::string describe_model(const TimeModel& model, const TextStyle& style) {
  const Machine& machine = model.machine;
  return wrapped(
      fmt::format("Times predicted for {} ({}), collectives by {}: {}. Nothing overlaps "
                  "with collectives.",
                  machine.name, machine.summary, model.transport.name,
                  machine.measured ? "rates measured by lossgrid calibrate"
                                   : "rates not measured but stated by its maker, which no program "
                                     "reaches: lower bounds"),
      style.columns_up_to(kTimeColumns));
}

std::string format_times(const std::vector<TimedPlan>& plans, const TextStyle& style) {
  TextTable table;
  table.add_columns({"implementation", "grid", "phase"}, Align::left);
  table.add_columns(
      {"starts", "rows", "products", "memory", "exponentials", "cached", "collectives", "ms"},
      Align::right);
  table.add_column("bound by", Align::left);
  std::string lines;
  for (const TimedPlan& plan : plans) {
    if (!plan.time) continue;
    add_phase(plan, "forward", plan.time->forward, table);
    if (plan.time->backward.seconds() > 0) {
      add_phase(plan, "backward", plan.time->backward, table);
      add_phase(plan, "both", plan.time->both(), table);
    }
    const std::string line = straggler_line(plan);
    if (lines.find(line) == std::string::npos) lines += line;
  }
  table.may_leave_out(
      {"starts", "cached", "rows", "exponentials", "memory", "products", "collectives"},
      "--json FILE has all");
  return table.text(style) + lines + collective_lines(plans);
}

std::string format_search(const std::vector<TimedPlan>& plans, std::int64_t memory_bytes,
                          std::size_t rows, const TextStyle& style) {
  TextTable table;
  table.add_columns({"implementation", "grid"}, Align::left);
  table.add_columns({"ranks", "ms", "forward", "backward", "collectives"}, Align::right);
  table.add_column("bound by", Align::left);
  table.add_columns({"peak", "rank-s"}, Align::right);
  table.may_leave_out({"forward", "backward", "rank-s", "ranks"}, "--json FILE has all");
  std::size_t fits = 0;
  for (const TimedPlan& plan : plans) {
    if (plan.row.peak_bytes() > memory_bytes || ++fits > rows) continue;
    const PhaseTime both = plan.time->both();
    table.add_row(
        {plan.row.implementation, format_grid(plan.row.grid), std::to_string(plan.row.grid.ranks()),
         in_milliseconds(both.seconds()), in_milliseconds(plan.time->forward.seconds()),
         in_milliseconds(plan.time->backward.seconds()),
         share_text(both.collectives, both.seconds()), both.bound_by(),
         format_bytes(plan.row.peak_bytes()), fmt::format("{:.4g}", plan.rank_seconds())});
  }
  return table.text(style) +
         fitted(fmt::format("{} of {} pairs of implementation and grid fit {} a rank", fits,
                            plans.size(), format_bytes(memory_bytes)),
                style);
}

Json time_to_json(const TimePrediction& time) {
  Json out;
  out["time_ns"] = in_nanoseconds(time.both().seconds());
  out["bound_by"] = time.both().bound_by();
  out["forward"] = phase_json(time.forward);
  out["backward"] = phase_json(time.backward);
  out["collectives"] = Json::array();
  for (const PredictedCollective& calls : time.collectives) {
    out["collectives"].push_back({{"phase", calls.phase},
                                  {"group", calls.group},
                                  {"ranks", calls.ranks},
                                  {"operation", name(calls.operation)},
                                  {"calls", calls.count.calls},
                                  {"payload_bytes", calls.count.payload_bytes},
                                  {"algorithm", name(calls.algorithm)},
                                  {"time_ns", in_nanoseconds(calls.seconds)}});
  }
  out["straggler"] = {{"cp_rank", time.busiest.cp_rank},
                      {"rows", time.busiest.rows},
                      {"mean_rows", time.busiest.mean_rows}};
  return out;
}

Json search_to_json(const SearchRequest& request, const TimeModel& model,
                    const std::vector<TimedPlan>& plans) {
  Json out;
  out["schema"] = "lossgrid.search/1";
  out["case"] = format_case(request.spec);
  out["machine"] = model.machine.name;
  out["measured"] = model.machine.measured;
  out["transport"] = model.transport.name;
  out["most_ranks"] = request.most_ranks;
  out["memory_bytes"] = request.memory_bytes;
  out["plans"] = Json::array();
  for (const TimedPlan& plan : plans) {
    const PhaseTime both = plan.time->both();
    out["plans"].push_back({{"implementation", plan.row.implementation},
                            {"grid", format_grid(plan.row.grid)},
                            {"ranks", plan.row.grid.ranks()},
                            {"time_ns", in_nanoseconds(both.seconds())},
                            {"collectives_ns", in_nanoseconds(both.collectives)},
                            {"bound_by", both.bound_by()},
                            {"peak_bytes", plan.row.peak_bytes()},
                            {"fits", plan.row.peak_bytes() <= request.memory_bytes}});
  }
  return out;
}

}  // namespace lossgrid
