// SPDX-License-Identifier: Apache-2.0
// Teachers of functions that distill: functions that declare them get logits, or hidden states and
// a weight.
#include <gmock/gmock.h>

#include "python.h"
#include "trials_by_implementation.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;
using ExternalTeachers = WithTorch;

const std::string kDistillations = R"(
def divided(x, batch, by_sequence=True):
    x = x.float() / batch.temperature
    return x / batch.temperatures[batch.sequence][:, None] if by_sequence else x


def mean_kl(student, teacher, batch, renormalise=True):
    sent = teacher > float("-inf")
    if batch.teacher_topk and renormalise:
        student = student.masked_fill(~sent, float("-inf"))
    log_p, log_q = torch.log_softmax(student, -1), torch.log_softmax(teacher, -1)
    gap = torch.where(sent, log_q - log_p, torch.zeros_like(log_p))
    kl = (log_q.exp() * gap).sum(1)
    kl = torch.where(batch.mask, kl, torch.zeros_like(kl))
    return kl.sum() / max(batch.denominators.valid_tokens, 1)


@lossgrid.implementation(returns="loss", takes=("transforms", "sequence_temperatures", "teacher"))
def distills(logits, batch):
    return mean_kl(divided(logits, batch), divided(batch.teacher_logits, batch), batch)


@lossgrid.implementation(returns="loss", takes=("transforms", "sequence_temperatures", "teacher"))
def one_temperature(logits, batch):
    return mean_kl(divided(logits, batch, False), divided(batch.teacher_logits, batch, False), batch)


@lossgrid.implementation(returns="loss", takes=("transforms", "sequence_temperatures", "teacher"))
def over_all_ids(logits, batch):
    return mean_kl(divided(logits, batch), divided(batch.teacher_logits, batch), batch, False)


@lossgrid.implementation(returns="loss", takes=("transforms", "teacher"))
def takes_no_temperatures(logits, batch):
    return mean_kl(divided(logits, batch), divided(batch.teacher_logits, batch), batch)


@lossgrid.implementation(returns="loss", takes=("transforms", "terms"))
def takes_no_teacher(logits, batch):
    return logits.sum()


def made_teacher(batch, rows=slice(None)):
    teacher = batch.teacher_hidden[rows].float() @ batch.teacher_weight.float().t()
    return divided(teacher, batch)


@lossgrid.implementation(returns="loss", takes=("transforms", "teacher_hidden"))
def makes_teacher(logits, batch):
    return mean_kl(divided(logits, batch), made_teacher(batch), batch)


@lossgrid.implementation(returns="loss", takes=("transforms", "teacher_hidden"))
def makes_teacher_of_other_rows(logits, batch):
    other = torch.arange(len(logits)).roll(-1)
    return mean_kl(divided(logits, batch), made_teacher(batch, other), batch)
)";

TEST_F(ExternalTeachers, GivesATeacherAndTemperaturesToThoseThatTakeThem) {
  const std::string report = scratch_.file("distill.json");
  const ProcessResult result = run_loaded(
      "run", {write_python("distill.py", kDistillations)},
      "--case 'lens=9+14 vocab=24 mask=ragged objective=distill temperature=0.7 "
      "teacher_topk=[0,4] sequence_temperatures=[false,true]' --grid tp1cp1 "
      "--impl distills,one_temperature,over_all_ids,takes_no_temperatures,takes_no_teacher "
      "--report " +
          report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  auto trials = trials_by_implementation(report);  // by top k, temperatures
  EXPECT_EQ(trials["distills"].statuses, "pppp") << result.out;
  EXPECT_EQ(trials["one_temperature"].statuses, "pfpf") << result.out;
  EXPECT_EQ(trials["over_all_ids"].statuses, "ppff") << result.out;
  EXPECT_EQ(trials["takes_no_temperatures"].statuses, "psps") << result.out;
  EXPECT_EQ(trials["takes_no_teacher"].statuses, "ssss");
  EXPECT_THAT(trials["takes_no_temperatures"].reasons,
              HasSubstr("takes=\"sequence_temperatures\""));
  EXPECT_THAT(trials["takes_no_teacher"].reasons, HasSubstr("takes=\"teacher\""));
}

TEST_F(ExternalTeachers, GivesHiddenStatesOfATeacherToThoseThatTakeThem) {
  const std::string report = scratch_.file("taught.json");
  const ProcessResult result =
      run_loaded("run", {write_python("distill.py", kDistillations)},
                 "--case 'lens=9+14 vocab=24 mask=ragged objective=distill temperature=0.7 "
                 "teacher_hidden=[0,5] dtype=[f32,bf16]' --grid tp1cp1 "
                 "--impl distills,makes_teacher,makes_teacher_of_other_rows --report " +
                     report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  auto trials = trials_by_implementation(report);  // by kind of teacher, dtype
  EXPECT_EQ(trials["distills"].statuses, "ppss") << result.out;
  EXPECT_EQ(trials["makes_teacher"].statuses, "sspp") << trials["makes_teacher"].reasons;
  EXPECT_EQ(trials["makes_teacher_of_other_rows"].statuses, "ssff");
  EXPECT_THAT(trials["distills"].reasons, HasSubstr("takes=\"teacher_hidden\""));
  EXPECT_THAT(trials["makes_teacher"].reasons, HasSubstr("takes=\"teacher\""));
}

}  // namespace
}  // namespace lossgrid
