// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/faults/fault.h"

#include <string>

#include <gmock/gmock.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

TEST(Fault, IsReadFromItsText) {
  const Fault fault = parse_fault("rank=2,call=3,kind=throw");
  EXPECT_EQ(fault.rank, 2);
  EXPECT_EQ(fault.call, 3);
  EXPECT_EQ(fault.kind, FaultKind::exception);
  EXPECT_EQ(fault.phase, RankPhase::none);
  EXPECT_EQ(fault.trial, 0);
  const Fault in_phase = parse_fault("trial=4,kind=nan,at=backward,rank=0");
  EXPECT_EQ(in_phase.phase, RankPhase::backward);
  EXPECT_EQ(in_phase.trial, 4);
  EXPECT_EQ(in_phase.kind, FaultKind::nan);
  EXPECT_EQ(parse_fault("kind=hang,rank=0").call, 1);
  const auto kind_of = [](const std::string& kind) {
    return parse_fault("rank=1,kind=" + kind).kind;
  };
  EXPECT_EQ(kind_of("hang"), FaultKind::hang);
  EXPECT_EQ(kind_of("leave"), FaultKind::leave);
  EXPECT_EQ(kind_of("exit"), FaultKind::exit);
  EXPECT_EQ(kind_of("segv"), FaultKind::segfault);
  EXPECT_EQ(kind_of("kill"), FaultKind::kill);
  EXPECT_EQ(kind_of("oom"), FaultKind::out_of_memory);
  for (const RankPhase phase : kRankPhases) {
    EXPECT_EQ(parse_fault("rank=1,kind=exit,at=" + std::string(name(phase))).phase, phase);
  }
}

TEST(Fault, ALostDeviceHasAPhase) {
  const Fault fault = parse_fault("rank=1,kind=device_lost,at=plan");
  EXPECT_EQ(fault.kind, FaultKind::device_loss);
  EXPECT_EQ(fault.phase, RankPhase::plan);
}

TEST(Fault, RefusesOtherTextsInOneLine) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      parse_fault(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage) << text << ": " << error.what();
      return error.what();
    }
    return "accepted";
  };
  for (const char* text :
       {"", "rank=1", "kind=throw", "rank=1,kind=thrown!", "rank=-1,kind=exit", "rank=x,kind=exit",
        "rank=1,call=0,kind=exit", "rank=1,kind=exit,kind=exit", "rank=1,kind=exit,when=2",
        "rank=1,kind=exit,", "rank,kind=exit", "rank=1,kind=exit,trial=0",
        "rank=1,kind=exit,at=none", "rank=1,kind=exit,at=", "rank=1,kind=die"}) {
    const std::string reason = refusal(text);
    EXPECT_NE(reason, "accepted") << text;
    EXPECT_EQ(reason.find('\n'), std::string::npos) << reason;
  }
  EXPECT_THAT(refusal("rank=1,kind=exit,at=forwrd"), HasSubstr("did you mean 'forward'?"));
  EXPECT_THAT(refusal("rank=1,kind=exit,at=plan,call=2"), HasSubstr("both 'call=' and 'at='"));
  for (const char* text :
       {"rank=1,kind=nan", "rank=1,kind=nan,at=plan", "rank=1,kind=nan,call=2"}) {
    EXPECT_THAT(refusal(text), HasSubstr("kind=nan needs at=forward or at=backward"));
  }
  EXPECT_THAT(refusal("rank=1,kind=device_lost,call=2"), HasSubstr("kind=device_lost needs at="));
}

}  // namespace
}  // namespace lossgrid
