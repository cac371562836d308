// SPDX-License-Identifier: Apache-2.0
// Functions that raise, die, hang or return nonsense: each has its status, the report describes it,
// and later trials run.
#include <map>
#include <utility>

#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kCase = "--case 'lens=5+8 vocab=24' --grid tp2cp1 ";

const std::string kFine = R"(
@lossgrid.implementation
def fine(logits, batch, *, behind=""):
    return right(logits, batch)
)";

const std::string kBad = R"(
import signal
import time


@lossgrid.implementation
def raises(logits, batch):
    print("about to raise")
    if batch.tp.rank == 1:
        raise ValueError("no such column")
    return right(logits, batch)


@lossgrid.implementation
def raises_among_waiting(logits, batch):
    if batch.tp.rank == 1:
        time.sleep(0.2)  # rank 0 is in an all-reduce by then
        raise ValueError("too late")
    return right(logits, batch)


@lossgrid.implementation
def dies_among_waiting(logits, batch):
    if batch.tp.rank == 1:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGABRT)
    return right(logits, batch)


@lossgrid.implementation
def exits(logits, batch):
    print("about to end")
    if batch.tp.rank == 1:
        os._exit(3)
    return right(logits, batch)


@lossgrid.implementation
def segfaults(logits, batch):
    if batch.tp.rank == 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    return right(logits, batch)


@lossgrid.implementation
def calls_exit(logits, batch):
    sys.exit(2)


@lossgrid.implementation
def has_no_memory(logits, batch):
    raise MemoryError("of 1 TiB")


@lossgrid.implementation
def wrong_shape(logits, batch):
    return right(logits, batch)[1:]


@lossgrid.implementation
def detached(logits, batch):
    return right(logits, batch).detach()
)";

const std::string kHanging = R"(
import threading
import time


def beat(name):
    """Writes the time to a file for as long as this process lives."""
    def write():
        while True:
            with open(os.path.join(os.path.dirname(__file__), name), "a") as file:
                file.write(f"{time.time()}\n")
            time.sleep(0.02)
    threading.Thread(target=write, daemon=True).start()


@lossgrid.implementation
def sleeps(logits, batch):
    if batch.tp.rank == 1:
        beat("sleeps")
        time.sleep(600)
    return right(logits, batch)


@lossgrid.implementation
def waits_alone(logits, batch):
    x = right(logits, batch)
    if batch.tp.rank == 1:
        beat("waits_alone")
        dist.all_reduce(torch.zeros(1), group=batch.tp.group)
    return x


@lossgrid.implementation
def begins(logits, batch):
    if batch.tp.rank == 1:
        beat("begins")
    return right(logits, batch)
)";

class ExternalStatuses : public WithTorch {
 protected:
  /// Returns the trials by the names of their implementations.
  std::map<std::string, ordered_json> run_all(const std::string& text, const std::string& names,
                                              const std::string& arguments, int exit_code) const {
    const std::string report = scratch_.file("statuses.json");
    const ProcessResult result =
        run_loaded("run", {write_python("functions.py", text)},
                   kCase + arguments + " --impl " + names + " --report " + report);
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    std::map<std::string, ordered_json> trials;
    for (const ordered_json& trial : records_of(report, "trials")) {
      trials[trial["implementation"]] = trial;
    }
    return trials;
  }

  static std::string detail_of(const ordered_json& trial, std::size_t rank) {
    return trial["rank_states"][rank].value("detail", "");
  }

  /// Returns the first and the last time in a file that beat() wrote.
  std::pair<double, double> alive(const std::string& name) const {
    std::ifstream file(scratch_.file(name));
    double first = 0;
    double last = 0;
    file >> first;
    for (double time = first; file >> time;) last = time;
    return {first, last};
  }
};

TEST_F(ExternalStatuses, FunctionsThatFailDoNotEndTheRun) {
  auto trials = run_all(kFine + kBad,
                        "raises,fine:behind=raises,exits,fine:behind=exits,segfaults,calls_exit,"
                        "fine:behind=exit,has_no_memory,wrong_shape,detached,fine:behind=detached,"
                        "raises_among_waiting,dies_among_waiting",
                        "", 14);
  for (const char* behind : {"raises", "exits", "exit", "detached"}) {
    const ordered_json& fine = trials[fmt::format("fine:behind={}", behind)];
    EXPECT_EQ(fine["status"], "passed") << behind << fine["reason"];
  }
  const auto expect_status = [&](const std::string& name, const char* status,
                                 const std::string& why) {
    EXPECT_EQ(trials[name]["status"], status) << name;
    EXPECT_THAT(trials[name]["reason"].get<std::string>(), HasSubstr(why));
  };
  expect_status(
      "raises", "error",
      "rank 1 in forward: forward of 'raises': ValueError: no such column (functions.py:");
  EXPECT_THAT(trials["raises"]["reason"].get<std::string>(), EndsWith(" in raises)"));
  EXPECT_EQ(trials["raises"]["first_failed_rank"], 1);
  EXPECT_THAT(
      detail_of(trials["raises"], 1),
      AllOf(StartsWith("Traceback (most recent call last):\n"),
            HasSubstr("    raise ValueError(\"no such column\")\nValueError: no such column"),
            HasSubstr("printed:\nabout to raise\n")));
  expect_status("raises_among_waiting", "error",
                "rank 1 in forward: forward of 'raises_among_waiting': ValueError: too late");
  EXPECT_EQ(trials["raises_among_waiting"]["rank_states"][1]["state"], "threw");
  expect_status("dies_among_waiting", "crashed",
                "rank 1 in forward: forward of 'dies_among_waiting': its process ended with "
                "signal 6 (SIGABRT)");
  expect_status("exits", "crashed",
                "rank 1 in forward: forward of 'exits': its process ended with exit code 3");
  EXPECT_THAT(detail_of(trials["exits"], 1), HasSubstr("printed:\nabout to end\n"));
  expect_status(
      "segfaults", "crashed",
      "rank 0 in forward: forward of 'segfaults': its process ended with signal 11 (SIGSEGV)");
  expect_status("calls_exit", "error", "SystemExit: the code called exit(2) (functions.py:");
  expect_status("has_no_memory", "out_of_memory", "MemoryError: of 1 TiB (functions.py:");
  expect_status("wrong_shape", "error", "wrong_shape returned [12] for logprobs, wanted [13]: one");
  expect_status("detached", "error", "detached returned logprobs without a graph");
}

TEST_F(ExternalStatuses, FunctionsThatHangAreEndedAtTheDeadline) {
  auto trials = run_all(kFine + kHanging, "sleeps,waits_alone,begins,fine", "--timeout 6", 15);
  EXPECT_EQ(trials["fine"]["status"], "passed") << trials["fine"]["reason"];
  // The rank that the other waits for is outside of collectives, or in a collective that the other,
  // which has finished its work, never makes.
  for (const char* name : {"sleeps", "waits_alone"}) {
    EXPECT_EQ(trials[name]["first_failed_rank"], 1) << trials[name];
    ASSERT_EQ(trials[name]["status"], "timeout") << trials[name]["reason"];
    EXPECT_THAT(trials[name]["reason"].get<std::string>(),
                StartsWith(fmt::format(
                    "rank 1 in forward: forward of '{}': the deadline has passed ", name)));
  }
  // No worker still runs during the next trial.
  const auto [sleeps, waits_alone] = std::pair(alive("sleeps"), alive("waits_alone"));
  EXPECT_GT(sleeps.second, sleeps.first + 0.1);
  EXPECT_LT(sleeps.second, waits_alone.first);
  EXPECT_GT(waits_alone.second, waits_alone.first + 0.1);
  EXPECT_LT(waits_alone.second, alive("begins").first);
  EXPECT_THAT(trials["sleeps"]["rank_states"][1]["message"].get<std::string>(),
              ContainsRegex("the deadline has passed at functions.py:[0-9]+ in sleeps"));
  EXPECT_EQ(trials["sleeps"]["rank_states"][1]["state"], "busy");
  EXPECT_EQ(trials["sleeps"]["rank_states"][0]["state"], "waiting");
  EXPECT_THAT(trials["sleeps"]["rank_states"][0]["message"].get<std::string>(),
              ContainsRegex("in all_reduce, called at vocab_parallel.py:[0-9]+ in forward"));
  EXPECT_THAT(detail_of(trials["sleeps"], 1), HasSubstr("functions.py\", line "));
  EXPECT_THAT(trials["waits_alone"]["reason"].get<std::string>(),
              ContainsRegex("in all_reduce, called at functions.py:[0-9]+ in waits_alone"));
  EXPECT_THAT(detail_of(trials["waits_alone"], 1), HasSubstr("in waits_alone\n"));
}

TEST_F(ExternalStatuses, TheStackOfAProcessThatRunsLateIsWaitedFor) {
  // A child lets its stopped parent run 300 ms after the signal that requests the stack.
  auto trials = run_all(R"py(
import os
import re
import signal
import time


def wake_late(pid):
    pending = 0
    while not pending & 1 << signal.SIGUSR1 - 1:
        time.sleep(0.01)
        with open(f"/proc/{pid}/status") as status:
            pending = int(re.search(r"ShdPnd:\s*(\w+)", status.read())[1], 16)
    time.sleep(0.3)
    os.kill(pid, signal.SIGCONT)
    os._exit(0)


@lossgrid.implementation
def stops(logits, batch):
    if batch.tp.rank == 1:
        pid = os.getpid()
        if os.fork() == 0:
            wake_late(pid)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(60)
    return right(logits, batch)
)py",
                        "stops", "--timeout 6", 15);
  EXPECT_THAT(trials["stops"]["reason"].get<std::string>(),
              ContainsRegex("the deadline has passed at functions.py:[0-9]+ in stops"));
}

}  // namespace
}  // namespace lossgrid
